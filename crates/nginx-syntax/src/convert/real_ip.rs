//! `set_real_ip_from` and `real_ip_header` as the trusted proxies of the server.
//!
//! Called by: `servers`, and `locations`.
//! Caveat: saker.toml has one list for all sites. Where servers disagree, those that judge clients by
//! their addresses are denied.
//! Out of scope: `set_real_ip_from` of streams.

use super::text::{list_line, quoted};
use crate::tree::Directive;
use std::net::IpAddr;

/// Proxies that name the client, and the field in which they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealIp {
    proxies: Vec<String>,
    field: String,
    /// All proxies of a chain are passed over, not only the last one.
    is_recursive: bool,
}

/// Statements of a server about its proxies.
enum Statement {
    None,
    Proxies(RealIp),
    /// They have no counterpart.
    Other,
}

/// Names of the directives.
pub fn is_real_ip(name: &str) -> bool {
    matches!(
        name,
        "set_real_ip_from" | "real_ip_header" | "real_ip_recursive"
    )
}

/// Reads the settings of a server, with those of `http` that it takes over.
fn statement(settings: &[&Directive]) -> Statement {
    let named = |name: &'static str| {
        let all = settings.iter().filter(move |known| known.name() == name);
        all.map(|known| known.argument(0))
    };
    if named("set_real_ip_from").next().is_none() {
        return Statement::None;
    }
    let proxies: Option<Vec<String>> = named("set_real_ip_from").map(proxy).collect();
    let field = named("real_ip_header").next_back().unwrap_or("X-Real-IP");
    match proxies {
        Some(proxies) if field != "proxy_protocol" => Statement::Proxies(RealIp {
            proxies,
            field: field.to_owned(),
            is_recursive: named("real_ip_recursive").next_back() == Some("on"),
        }),
        _ => Statement::Other,
    }
}

/// A network or an address; `None`: a name, which saker.toml does not take here.
fn proxy(text: &str) -> Option<String> {
    if text == "unix:" {
        return Some("unix".to_owned());
    }
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    let is_network = address.parse::<IpAddr>().is_ok() && bits.parse::<u8>().is_ok();
    is_network.then(|| text.to_owned())
}

/// The proxies that hold for all servers, each with its settings and its block; `None`: there are
/// none, or servers need others.
pub fn shared(servers: &[(Vec<&Directive>, &Directive)]) -> Option<RealIp> {
    let mut found: Option<RealIp> = None;
    for (settings, block) in servers {
        match (statement(settings), &found) {
            // Its rules are for the addresses that connect.
            (Statement::None, _) if judges_addresses(settings, block) => return None,
            (Statement::None, _) => {}
            (Statement::Proxies(proxies), None) => found = Some(proxies),
            (Statement::Proxies(proxies), Some(known)) if proxies == *known => {}
            (Statement::Proxies(_) | Statement::Other, _) => return None,
        }
    }
    found
}

/// Returns true if a server, or something in it, refuses clients by their addresses.
pub fn judges_addresses(settings: &[&Directive], block: &Directive) -> bool {
    settings.iter().any(|known| is_rule(known)) || block.inside().iter().any(is_rule)
}

fn is_rule(directive: &Directive) -> bool {
    let is_list = matches!(directive.name(), "allow" | "deny");
    is_list && directive.argument(0) != "all" || directive.inside().iter().any(is_rule)
}

impl RealIp {
    /// The table of the server.
    pub fn toml(&self) -> String {
        let proxies = list_line("trusted_proxies", self.proxies.iter().map(String::as_str));
        let field = quoted(&self.field);
        format!("[server]\n{proxies}client_address_field = {field}\n\n")
    }

    /// Returns true if nginx takes the last address of the list, where Saker passes over all proxies
    /// at its end.
    pub fn differs(&self) -> bool {
        !self.is_recursive && self.field.eq_ignore_ascii_case("x-forwarded-for")
    }
}
