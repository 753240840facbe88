//! Parameters of workers and balancers that are read, and that nothing follows from: the check says
//! so, line by line.

use crate::arguments::texts;
use saker_apache_syntax::Node;
use saker_config::Diagnostic;

/// Names, and what happens instead, where the server speaks HTTP/2.
const PARAMETERS: [(&str, &str); 1] = [(
    "ping",
    "over HTTP/2 a server is not asked before the request itself",
)];

/// Looks through a tree.
pub fn warn(nodes: &[Node], diagnostics: &mut Vec<Diagnostic>) {
    for node in nodes {
        if matches!(
            node.canonical_name(),
            "ProxyPass"
                | "ProxyPassMatch"
                | "BalancerMember"
                | "ProxySet"
                | "<Proxy"
                | "<ProxyMatch"
        ) {
            let words = texts(node);
            let complaints = words
                .iter()
                .filter(|_| speaks_http2(&words))
                .filter_map(|word| complaint(word));
            diagnostics.extend(complaints.map(|text| node.warning(text, None)));
        }
        warn(&node.children, diagnostics);
    }
}

fn speaks_http2(words: &[String]) -> bool {
    words
        .iter()
        .any(|word| word.starts_with("h2:") || word.starts_with("h2c:"))
}

fn complaint(word: &str) -> Option<String> {
    let (name, _) = word.split_once('=')?;
    let (_, instead) = PARAMETERS.iter().find(|(known, _)| name == *known)?;
    Some(format!("{name} is not honored: {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_alone_count() {
        for word in ["ping=5", "ping=100ms"] {
            assert!(complaint(word).is_some(), "{word}");
        }
        for word in [
            "hcuri=/x",
            "ping",
            "timeout=5",
            "/ping",
            "pinger=1",
            "retry=3",
        ] {
            assert!(complaint(word).is_none(), "{word}");
        }
    }
}
