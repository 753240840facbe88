//! HAProxy, for rows with a server behind: it serves no files.

use super::setting::{KEPT, PeerSetting, PeerSite, PeerTls};
use std::{fs, io};

/// Empty where the site is none of its own.
pub fn configuration(
    PeerSetting {
        host,
        port,
        work,
        tls,
        site,
        ..
    }: PeerSetting<'_>,
) -> String {
    let (PeerSite::Proxy { upstream }
    | PeerSite::Cached { upstream, .. }
    | PeerSite::Shop { upstream }) = site
    else {
        return String::new();
    };
    let bundle = work.join("haproxy.pem");
    let tls = tls.map_or_else(String::new, |_| {
        format!(" ssl crt {} alpn h2,http/1.1", bundle.display())
    });
    format!(
        "global
    nbthread 1
    maxconn 4096
    no log
defaults
    mode http
    timeout connect 5s
    timeout client 300s
    timeout server 300s
    timeout http-keep-alive 300s
    http-reuse always
frontend visitors
    bind {host}:{port}{tls} backlog 4096
    default_backend behind
backend behind
    server one {upstream} pool-max-conn {KEPT}
"
    )
}

/// It wants certificate and key in one file.
pub fn write_bundle(PeerSetting { work, tls, .. }: PeerSetting<'_>) -> io::Result<()> {
    let Some(PeerTls { chain, key }) = tls else {
        return Ok(());
    };
    fs::write(
        work.join("haproxy.pem"),
        [fs::read(chain)?, fs::read(key)?].concat(),
    )
}
