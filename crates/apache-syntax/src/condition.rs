//! The sections that are read or skipped by what is known when they are read.
//!
//! Called by: `read`, which recognizes them; `conditions`, which evaluates them.

/// The kind of a conditional section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Module,
    Define,
    Version,
    File,
    Directive,
    Section,
}

impl Condition {
    pub fn of(name: &str) -> Option<Condition> {
        Some(match name {
            "<IfModule" => Condition::Module,
            "<IfDefine" => Condition::Define,
            "<IfVersion" => Condition::Version,
            "<IfFile" => Condition::File,
            "<IfDirective" => Condition::Directive,
            "<IfSection" => Condition::Section,
            _ => return None,
        })
    }
}
