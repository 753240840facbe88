//! `[site.route.request]`: edits of the request before the action of the route.
//!
//! Called by: the native rules.
//! Out of scope: the keys (`directives/request_edits`).

use super::Template;

/// Edits by name; `None` removes.
pub type Edits = Vec<(Box<str>, Option<Template>)>;

/// Edits of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestEdits {
    pub fields: Edits,
    /// Query parameters by decoded name.
    pub parameters: Edits,
    pub cookies: Edits,
    pub method: Option<Box<str>>,
}
