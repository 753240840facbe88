//! Merging of optional settings and of aliases.
//!
//! Called by: the settings of this folder.

use std::{collections::HashMap, sync::Arc};

/// Aliases of providers or requirements by name, which is case-sensitive.
pub type Aliases<A> = Option<Arc<HashMap<Box<[u8]>, A>>>;

/// The inner setting if there is one, else the outer.
pub fn either<T: Clone>(outer: &Option<T>, inner: &Option<T>) -> Option<T> {
    inner.as_ref().or(outer.as_ref()).cloned()
}

/// The aliases of both; an inner one replaces an outer one of the same name.
pub fn merged_aliases<A: Clone>(outer: &Aliases<A>, inner: &Aliases<A>) -> Aliases<A> {
    match (outer, inner) {
        (Some(outer), Some(inner)) => {
            let all = outer
                .iter()
                .chain(inner.iter())
                .map(|(name, alias)| (name.clone(), alias.clone()));
            Some(Arc::new(all.collect()))
        }
        (outer, inner) => either(outer, inner),
    }
}
