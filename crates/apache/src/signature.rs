//! What Saker calls itself: ServerTokens in fields and pages, ServerSignature at the end of pages
//! of its own.
//!
//! Absent on purpose: names and versions of modules; there are none that could be added or left
//! out.

use crate::{
    host::{Host, Tokens},
    local::Local,
    modules::core::Signature,
    origin,
};
use saker_http::escape;
use saker_pipeline::Exchange;

/// As ServerTokens wants it; without a word about versions where nobody asked for one (Apache would
/// tell all).
pub fn product(tokens: Option<Tokens>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let part = |count: usize| version.split('.').take(count).collect::<Vec<_>>().join(".");
    match tokens {
        None | Some(Tokens::Product) => "Saker".into(),
        Some(Tokens::Major) => format!("Saker/{}", part(1)),
        Some(Tokens::Minor) => format!("Saker/{}", part(2)),
        Some(Tokens::Minimal) => format!("Saker/{version}"),
        Some(Tokens::Os | Tokens::Full) => format!("Saker/{version} (Linux)"),
    }
}

/// As it stands in pages.
pub fn software(host: &Host) -> String {
    product(host.process.tokens)
}

/// The line under a page; empty unless ServerSignature wants it.
pub fn footer(exchange: &Exchange, host: &Host, local: &Local) -> Vec<u8> {
    let line = line(exchange, host, local);
    if line.is_empty() {
        line
    } else {
        [b"<hr>\n".as_slice(), &line].concat()
    }
}

/// The same without the rule above it.
pub fn line(exchange: &Exchange, host: &Host, local: &Local) -> Vec<u8> {
    let signature = local.core.signature.unwrap_or(Signature::Off);
    if signature == Signature::Off {
        return Vec::new();
    }
    let (mut name, mut admin) = (Vec::new(), Vec::new());
    escape::html(&origin::name(exchange, host), &mut name);
    escape::html(
        host.server_admin.as_deref().unwrap_or_default().as_bytes(),
        &mut admin,
    );
    if signature == Signature::EMail && !admin.is_empty() {
        name = [
            b"<a href=\"mailto:".as_slice(),
            &admin,
            b"\">",
            &name,
            b"</a>",
        ]
        .concat();
    }
    let port = format!(" Port {}</address>\n", origin::port(exchange, host));
    [
        format!("<address>{} Server at ", software(host)).as_bytes(),
        &name,
        port.as_bytes(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_as_was_asked_for() {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            (product(None), product(Some(Tokens::Product))),
            ("Saker".into(), "Saker".into())
        );
        assert_eq!(product(Some(Tokens::Minimal)), format!("Saker/{version}"));
        assert_eq!(
            product(Some(Tokens::Full)),
            format!("Saker/{version} (Linux)")
        );
        assert!(version.starts_with(product(Some(Tokens::Minor)).trim_start_matches("Saker/")));
    }
}
