//! Parameters of a request to the manager, and the contents of its pages.
//!
//! Called by: `balancer_manager`, which fills them; `change`, `page`, and `xml`.
//! Caveat: everything shown is escaped where it is written.

use saker_apache_model::{host::Host, proxy::balancers::Balancer};
use saker_http::{
    escape,
    query::{form_decoded, parameters},
};
use std::sync::Arc;

/// Parameters of a request by name; the last of a name counts.
pub struct Parameters(pub Vec<(Vec<u8>, String)>);

impl Parameters {
    pub fn read(text: &[u8]) -> Parameters {
        let decoded = |text: &[u8]| String::from_utf8_lossy(&form_decoded(text)).into_owned();
        let all = parameters(text).map(|one| {
            let name = form_decoded(one.name).into_owned();
            (name, decoded(one.value.unwrap_or_default()))
        });
        Parameters(all.collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let mut known = self.0.iter().rev();
        let (_, value) = known.find(|(own, _)| own == name.as_bytes())?;
        Some(value)
    }
}

/// The balancer, and perhaps the member, that a request is about.
pub struct Selected {
    pub balancer: Arc<Balancer>,
    /// By its URL.
    pub member: Option<String>,
}

/// Contents of a page.
pub struct View<'v> {
    pub software: String,
    pub name: String,
    /// The manager's own path, and its URL.
    pub path: String,
    pub action: String,
    pub host: &'v Host,
    pub selected: Option<Selected>,
}

pub fn escaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    escape::html(text.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// The name of a balancer without its scheme.
pub fn short_name(balancer: &Balancer) -> &str {
    balancer
        .name
        .strip_prefix("balancer://")
        .unwrap_or(&balancer.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_name_counts() {
        let parameters = Parameters::read(b"b=one&w=http%3A%2F%2Fa&b=t+o&x");
        assert_eq!(parameters.get("b"), Some("t o"));
        assert_eq!(parameters.get("w"), Some("http://a"));
        assert_eq!((parameters.get("x"), parameters.get("y")), (Some(""), None));
    }
}
