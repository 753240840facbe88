//! Ciphers and protocol versions that are not there any more: what is served in their place is said
//! when the configuration is read.
//!
//! Called by: `load`, over the whole configuration. Sections and `.htaccess` files say it where
//! they are read. Caveat: a list of which something remains is no matter: what remains is served.

use crate::{arguments::texts, tls::read_versions};
use saker_apache_syntax::Node;
use saker_config::{Diagnostic, cipher_lists};

/// Warns of each line that asks for nothing that Saker has.
pub fn warn(nodes: &[Node], diagnostics: &mut Vec<Diagnostic>) {
    for node in nodes {
        let name = node.canonical_name();
        let warning = match name {
            "SSLCipherSuite" | "SSLProxyCipherSuite" => {
                cipher_lists::without_any(name, &texts(node))
            }
            "SSLProtocol" | "SSLProxyProtocol" => read_versions(node)
                .is_ok_and(|versions| versions.is_outdated)
                .then(|| of_versions(name)),
            "SSLOpenSSLConfCmd" => of_command(&texts(node)),
            _ => None,
        };
        diagnostics.extend(warning.map(|text| node.warning(text, None)));
        if matches!(name, "<VirtualHost" | "<Proxy" | "<ProxyMatch") {
            warn(&node.children, diagnostics);
        }
    }
}

fn of_versions(name: &str) -> String {
    format!(
        "{name}: only protocols older than TLSv1.2 are named, which Saker does not speak: TLSv1.2 and TLSv1.3 are served in their place"
    )
}

fn of_command(words: &[String]) -> Option<String> {
    let [command, value, ..] = words else {
        return None;
    };
    match command.to_ascii_lowercase().as_str() {
        "cipherstring" => cipher_lists::without_any("CipherString", std::slice::from_ref(value)),
        "ciphersuites" => {
            cipher_lists::without_any("Ciphersuites", &["TLSv1.3".to_owned(), value.clone()])
        }
        "groups" | "curves" if cipher_lists::groups(value).is_empty() => Some(format!(
            "{command}: none of the groups {value} is there: Saker's own are used"
        )),
        "maxprotocol" if crate::tls::is_outdated(value) => Some(of_versions("MaxProtocol")),
        _ => None,
    }
}
