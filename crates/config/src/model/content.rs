//! Processing of files and of what PHP makes: server-side includes, substitution, negotiation.
//!
//! Called by: the rules of native sites, which choose filters and variants by it.
//! Out of scope: the keys (`directives/content`), and what the filters do.

use super::Origin;

/// Rules about content at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentRules {
    /// Extensions of pages with server-side includes, in lower case without their dots.
    pub ssi: Vec<String>,
    /// `s/pattern/replacement/flags`, in order.
    pub substitute: Vec<String>,
    /// Media types whose content is substituted.
    pub substitute_types: Vec<String>,
    /// Choose among `page.html`, `page.json` … for `/page`, and obey type maps (`.var`).
    pub negotiation: bool,
    /// Language tags that are extensions, too (`page.html.de`), the preferred one first.
    pub languages: Vec<String>,
    pub origin: Origin,
}

impl Default for ContentRules {
    fn default() -> ContentRules {
        ContentRules {
            ssi: Vec::new(),
            substitute: Vec::new(),
            substitute_types: vec!["text/html".into()],
            negotiation: false,
            languages: Vec::new(),
            origin: Origin::built_in(),
        }
    }
}

impl ContentRules {
    /// Returns true if no key says anything but its default.
    pub fn is_default(&self) -> bool {
        let default = ContentRules {
            origin: self.origin.clone(),
            ..ContentRules::default()
        };
        *self == default
    }

    /// Returns true if nothing is processed.
    pub fn is_idle(&self) -> bool {
        self.ssi.is_empty()
            && self.substitute.is_empty()
            && !self.negotiation
            && self.languages.is_empty()
    }
}
