//! The rule of inheritance: what a level does not set comes from the outer one as a whole; and
//! setters of flags.
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

/// Setters of directives that take `on` or `off`.
macro_rules! flags {
    ($($name:literal $field:ident)*) => {
        &[$(($name, |d, conf, _| {
            conf.$field = Some($crate::values::flag(d)?);
            Ok(())
        })),*]
    };
}
pub(crate) use flags;
