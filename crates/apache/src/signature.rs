//! Names of the server: ServerTokens in fields and pages, ServerSignature at the end of pages of
//! its own.
//!
//! Absent on purpose: names and versions of modules; there are none that could be added or left
//! out.

use crate::origin;
use saker_apache_model::{
    dir_config::DirConfig, host::Host, modules::core::Signature, server_tokens::product,
};
use saker_http::escape;
use saker_pipeline::Exchange;

/// As it stands in pages.
pub fn software(host: &Host) -> String {
    product(host.process.tokens)
}

/// The line under a page; empty unless ServerSignature wants it.
pub fn footer(exchange: &Exchange, host: &Host, local: &DirConfig) -> Vec<u8> {
    let line = line(exchange, host, local);
    if line.is_empty() {
        line
    } else {
        [b"<hr>\n".as_slice(), &line].concat()
    }
}

/// The same without the rule above it.
pub fn line(exchange: &Exchange, host: &Host, local: &DirConfig) -> Vec<u8> {
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
