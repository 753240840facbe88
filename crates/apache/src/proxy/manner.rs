//! Options of proxied requests: settings of mod_proxy as the gateway wants them, made once for all
//! requests to which they apply.
//!
//! Difficulty: ProxyPassReverse may name a balancer, which stands for the URLs of all its members.

use crate::proxy::interpolate::interpolate;
use saker_apache_model::{
    dir_config::DirConfig,
    host::Host,
    modules::proxy::{ProxySettings, Reversal},
    proxy::canonical,
};
use saker_pipeline::{Exchange, ProxyOptions, Reverse, Upgrades};

/// Whatever of a worker's parameters is not the connection's business.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extras {
    pub flushes: bool,
    pub upgrades: Upgrades,
    /// mod_proxy_fcgi and mod_proxy_uwsgi take a Location for what it says, and no more.
    pub is_literal: bool,
    /// A program, not a server.
    pub is_program: bool,
    /// mod_proxy_scgi knows no ProxyErrorOverride.
    pub keeps_errors: bool,
}

/// `exchange`: present where texts have variables to be put in.
pub fn manner(
    local: &DirConfig,
    host: &Host,
    extras: Extras,
    exchange: Option<&Exchange>,
) -> ProxyOptions {
    let nothing = ProxySettings::default();
    let said = local.proxy.said().unwrap_or(&nothing);
    let overrides = said
        .error_override
        .as_ref()
        .filter(|overriding| overriding.is_on && !extras.keeps_errors);
    let text = |reversal: &Reversal, text: &str| match exchange {
        Some(exchange) if reversal.interpolates => interpolate(exchange, text),
        _ => text.to_owned(),
    };
    let pair = |reversal: &Reversal| {
        (
            text(reversal, &reversal.from).into(),
            text(reversal, &reversal.to).into(),
        )
    };
    ProxyOptions {
        preserves_host: said.preserves_host == Some(true),
        names_tls_by_host: said.preserves_host == Some(true),
        adds_forwarded: said.adds_forwarded != Some(false),
        overrides_errors: overrides.is_some(),
        overridden: overrides
            .map(|overriding| overriding.statuses.clone())
            .unwrap_or_default(),
        via: host.proxy.via,
        is_unbuffered: extras.flushes,
        upgrades: extras.upgrades,
        has_apaches_statuses: !extras.is_program,
        keeps_program_fields: extras.is_program,
        follows_locations: !extras.is_literal,
        reverse: said
            .reversals
            .iter()
            .flat_map(|one| reverses(host, &text(one, &one.to), &text(one, &one.from)))
            .collect(),
        reverse_cookie_paths: said.cookie_paths.iter().map(pair).collect(),
        reverse_cookie_domains: said.cookie_domains.iter().map(pair).collect(),
        server_name: host.server_name.clone().unwrap_or_default(),
        trust: local.xsendfile.trust(extras.is_program),
        ..ProxyOptions::default()
    }
}

/// Returns whether the texts of a place are different for each request.
pub fn interpolates(local: &DirConfig) -> bool {
    let wants = |said: &ProxySettings| {
        let mut all = said
            .reversals
            .iter()
            .chain(&said.cookie_paths)
            .chain(&said.cookie_domains);
        said.interpolates == Some(true) && all.any(|one| one.interpolates)
    };
    local.proxy.said().is_some_and(wants)
}

/// One, or one for each member of a balancer.
fn reverses(host: &Host, path: &str, url: &str) -> Vec<Reverse> {
    let (head, rest) = canonical::split(url.as_bytes()).unwrap_or((b"", b""));
    let head = String::from_utf8_lossy(head);
    match host.proxy.workers.member_urls(&head) {
        None => vec![Reverse {
            path: path.into(),
            url: url.into(),
        }],
        Some(members) => {
            let rest = if rest == b"/" {
                ""
            } else {
                std::str::from_utf8(rest).unwrap_or_default()
            };
            let one = |member: String| {
                // "/" with what follows the member's URL would begin with two slashes.
                let path = if path == "/" && rest.is_empty() {
                    ""
                } else {
                    path
                };
                Reverse {
                    path: path.into(),
                    url: format!("{member}{rest}").into(),
                }
            };
            members.into_iter().map(one).collect()
        }
    }
}
