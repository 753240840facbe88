//! Settings of the filter of pages.
//!
//! Called by: front ends, which fill them; `proxy_html` and `attributes`.
//! Out of scope: the rules for addresses (`url_map`).

use super::url_map::UrlRule;
use std::{collections::HashMap, sync::Arc};

/// Names of attributes, by the names of their elements; in lower case.
pub type LinkNames = HashMap<Box<[u8]>, Vec<Box<[u8]>>>;

/// Settings of the filter.
#[derive(Clone, Debug, Default)]
pub struct HtmlRules {
    /// In the order in which they are tried.
    pub urls: Vec<Arc<UrlRule>>,
    /// Attributes with addresses, by element; names in lower case.
    pub links: Arc<LinkNames>,
    /// Attributes with scripts.
    pub events: Arc<Vec<Box<[u8]>>>,
    /// Scripts and style sheets are edited, too.
    pub is_extended: bool,
    pub strips_comments: bool,
    /// A document type that takes the place of the page's own, with its line end.
    pub doctype: Option<Arc<str>>,
    /// `meta http-equiv` elements become fields of the response (ProxyHTMLMeta).
    pub obeys_meta: bool,
    pub lower_case: bool,
    /// Backslashes in addresses become slashes.
    pub dos_paths: bool,
}
