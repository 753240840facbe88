//! One module: its names, and what Saker has for it.
//!
//! Called by: the tables of modules.

use crate::row::Importance;

/// The way in which a module is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Part of the program in Debian's package.
    Static,
    /// By `LoadModule`.
    Loadable,
    /// Whatever the configuration says: names under which servers of this kind are known.
    Always,
}

/// The support that Saker has for a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provision {
    Native,
    /// Comes with a part of Saker that is not there yet.
    Later,
    /// Apache's own, known by its directives, which are not honored.
    Missing,
    /// Apache's own, and not done: `<IfModule>` says that it is absent, so that
    /// configurations take their alternative; its directives elsewhere are warned of.
    Absent,
    /// Not Apache's, and not done: `<IfModule>` says that it is absent, its directives elsewhere
    /// are warned of.
    Foreign,
    /// The same of one that decides over access: `<IfModule>` says that it is there, so that what
    /// it would guard is refused.
    ForeignGuard,
}

#[derive(Debug)]
pub struct ModuleRow {
    /// `rewrite_module`.
    pub identifier: &'static str,
    /// `mod_rewrite.c`.
    pub source_file: &'static str,
    /// `mod_rewrite.so`; empty for those without.
    pub shared_object: &'static str,
    pub importance: Importance,
    pub link: Link,
    pub provision: Provision,
}

pub(super) const fn module(
    identifier: &'static str,
    source_file: &'static str,
    shared_object: &'static str,
    importance: Importance,
    link: Link,
    provision: Provision,
) -> ModuleRow {
    ModuleRow {
        identifier,
        source_file,
        shared_object,
        importance,
        link,
        provision,
    }
}
