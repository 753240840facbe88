//! Caddy, which among the peers is the one with HTTP/3: with a certificate it speaks that beside
//! HTTP/2 on the same port.

use super::setting::{PeerSetting, PeerTls};

/// Nothing is fetched, asked for, written or logged. It compresses nothing unless told to.
pub fn configuration(
    PeerSetting {
        root,
        host,
        port,
        tls,
        ..
    }: PeerSetting<'_>,
) -> String {
    let root = root.display();
    let (site, tls) = match tls {
        Some(PeerTls { chain, key }) => (
            format!("https://localhost:{port}"),
            format!("    tls {} {}\n", chain.display(), key.display()),
        ),
        None => (format!("http://:{port}"), String::new()),
    };
    format!(
        "{{
    admin off
    auto_https off
    persist_config off
    log {{
        level ERROR
    }}
}}
{site} {{
    bind {host}
{tls}    root * {root}
    file_server
}}
"
    )
}
