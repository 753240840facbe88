//! Arguments of directives as text and flags.
//!
//! Called by: setters.

use saker_apache_syntax::Node;

/// The arguments as text; what is no UTF-8 is replaced.
pub fn texts(node: &Node) -> Vec<String> {
    node.arguments()
        .iter()
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// The first argument as text.
pub fn first(node: &Node) -> Option<String> {
    texts(node).into_iter().next()
}

/// As Apache tells a URL: a scheme and a colon.
pub fn is_url(text: &str) -> bool {
    let scheme = text
        .split_once(':')
        .map(|(scheme, _)| scheme)
        .unwrap_or_default();
    !scheme.is_empty()
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// On or Off.
pub fn set_flag(node: &Node, slot: &mut Option<bool>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    *slot = Some(match word.to_ascii_lowercase().as_str() {
        "on" => true,
        "off" => false,
        _ => return Err(format!("{} must be On or Off", node.canonical_name())),
    });
    Ok(())
}
