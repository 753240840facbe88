//! mod_reflector: request fields that a response of the handler `reflector` repeats.
//!
//! Called by: `dir_config`, for the directive, and the handler at request time.
//! Caveat: as in Apache, a field that an inner section names replaces none of the outer ones.
//! Out of scope: the content, which the handler sends back.

use crate::{
    arguments::texts,
    reading::{Reading, Set},
};
use saker_apache_syntax::Node;
use std::sync::Arc;

/// A request field, and its name in the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReflectedField {
    pub name: Box<str>,
    pub response_name: Box<str>,
}

/// `None` in most sections, of which there are many: it takes no more than a pointer.
#[derive(Clone, Debug, Default)]
pub struct Reflector {
    fields: Option<Arc<Vec<ReflectedField>>>,
}

impl Reflector {
    pub const DIRECTIVES: &'static [(&'static str, Set<Reflector>)] = &[("ReflectorHeader", set)];

    pub fn merge(&self, over: &Reflector) -> Reflector {
        let fields = match (&self.fields, &over.fields) {
            (Some(_), Some(_)) => Some(over.fields().chain(self.fields()).cloned().collect()),
            (outer, None) => {
                return Reflector {
                    fields: outer.clone(),
                };
            }
            (None, own) => {
                return Reflector {
                    fields: own.clone(),
                };
            }
        };
        Reflector {
            fields: fields.map(Arc::new),
        }
    }

    pub fn fields(&self) -> impl Iterator<Item = &ReflectedField> {
        self.fields.iter().flat_map(|fields| fields.iter())
    }
}

fn set(node: &Node, reflector: &mut Reflector, _: &mut Reading<'_>) -> Result<(), String> {
    let mut words = texts(node).into_iter();
    let name = words.next().unwrap_or_default();
    let response_name = words.next().unwrap_or_else(|| name.clone());
    let field = ReflectedField {
        name: name.into(),
        response_name: response_name.into(),
    };
    for name in [&field.name, &field.response_name] {
        if !saker_http::chars::is_token(name.as_bytes()) {
            return Err(format!("`{name}` is not the name of a field"));
        }
    }
    Arc::make_mut(reflector.fields.get_or_insert_default()).push(field);
    Ok(())
}
