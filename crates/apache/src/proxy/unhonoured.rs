//! Parameters of workers and balancers that are read, and that nothing follows from: the check says so, line by line.

use crate::modules::core::texts;
use saker_config::Diagnostic;
use saker_config_apache::Node;

/// Names, or their beginnings, and what happens instead.
const PARAMETERS: [(&str, &str); 3] = [
    ("hc", "health checks are not made: a member counts as failed when a request to it fails"),
    ("failontimeout", "a member that says nothing in time counts as failed whatever is said here"),
    ("ping", "a server is not asked before the request itself"),
];

/// Looks through a tree.
pub fn warn(nodes: &[Node], diagnostics: &mut Vec<Diagnostic>) {
    for node in nodes {
        if matches!(node.canonical_name(), "ProxyPass" | "ProxyPassMatch" | "BalancerMember" | "ProxySet" | "<Proxy" | "<ProxyMatch") {
            let complaints = texts(node).into_iter().filter_map(|word| complaint(&word));
            diagnostics.extend(complaints.map(|text| node.warning(text, None)));
        }
        warn(&node.children, diagnostics);
    }
}

fn complaint(word: &str) -> Option<String> {
    let (name, _) = word.split_once('=')?;
    let is_it = |known: &str| name == known || known == "hc" && name.starts_with("hc");
    let (_, instead) = PARAMETERS.iter().find(|(known, _)| is_it(known))?;
    Some(format!("{name} is not honoured: {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_alone_count() {
        for word in ["hcmethod=GET", "hcuri=/x", "failontimeout=on", "ping=5"] {
            assert!(complaint(word).is_some(), "{word}");
        }
        for word in ["http://hc=1/", "hc", "timeout=5", "/ping", "pinger=1", "retry=3"] {
            assert!(complaint(word).is_none(), "{word}");
        }
    }
}
