//! The rule of inheritance: what a level does not set comes from the outer one as a whole.
//!
//! Called by: the settings of modules.

/// Takes fields that are not set from the outer level.
macro_rules! inherit {
    ($own:ident, $outer:ident: $($field:ident)*) => {
        $(if $own.$field.is_none() {
            $own.$field.clone_from(&$outer.$field);
        })*
    };
}
pub(crate) use inherit;
