//! `stream` as `[[stream]]`: servers, upstreams, and ways by server name.
//!
//! Called by: `convert`.
//! Caveat: a server that accepts PROXY headers from all peers, or whose way depends on more than the
//! server name, is left out and named: it would trust or lead elsewhere. Access rules that have no
//! counterpart close the stream.
//! Out of scope: access logs in formats with variables that streams of Saker do not have.

use super::{
    members::{member, url},
    reported::{closed, is_implied_name as is_implied_anywhere, left_out},
    settings::{Access, duration, size},
    text::{list_line, quoted},
};
use crate::{Report, tree::Directive};
use std::fmt::Write as _;

/// Settings of `stream` that servers take over.
const INHERITED: &[&str] = &[
    "allow",
    "deny",
    "access_log",
    "limit_conn",
    "preread_timeout",
    "proxy_connect_timeout",
    "proxy_download_rate",
    "proxy_half_close",
    "proxy_protocol",
    "proxy_protocol_timeout",
    "proxy_requests",
    "proxy_responses",
    "proxy_ssl",
    "proxy_ssl_name",
    "proxy_ssl_trusted_certificate",
    "proxy_ssl_verify",
    "proxy_timeout",
    "proxy_upload_rate",
    "set_real_ip_from",
    "ssl_alpn",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_client_certificate",
    "ssl_handshake_timeout",
    "ssl_preread",
    "ssl_verify_client",
];

/// Settings whose effect streams have without being told.
fn is_implied(name: &str) -> bool {
    is_implied_anywhere(name)
        || matches!(
            name,
            "resolver"
                | "resolver_timeout"
                | "preread_buffer_size"
                | "proxy_buffer_size"
                | "proxy_socket_keepalive"
                | "proxy_next_upstream"
                | "proxy_ssl_server_name"
                | "proxy_ssl_session_reuse"
                | "proxy_ssl_protocols"
                | "proxy_ssl_ciphers"
                | "proxy_ssl_verify_depth"
                | "limit_conn_zone"
                | "log_format"
                | "map_hash_bucket_size"
                | "map_hash_max_size"
                | "variables_hash_bucket_size"
                | "variables_hash_max_size"
        )
}

/// Variables of access logs that streams have, too.
const LOGGED: &[&str] = &[
    "remote_addr",
    "remote_port",
    "realip_remote_addr",
    "server_addr",
    "server_port",
    "protocol",
    "status",
    "bytes_sent",
    "bytes_received",
    "session_time",
    "time_iso8601",
    "msec",
    "connection",
    "pid",
    "ssl_protocol",
    "ssl_cipher",
    "ssl_server_name",
    "ssl_preread_server_name",
    "ssl_preread_protocol",
    "upstream_addr",
    "upstream_connect_time",
    "upstream_first_byte_time",
    "upstream_session_time",
    "upstream_bytes_sent",
    "upstream_bytes_received",
];

/// Converts the block.
pub fn stream(block: &Directive, toml: &mut String, report: &mut Report) {
    let outer = block.inside();
    let mut streams = Streams {
        outer,
        upstreams: String::new(),
        made: 0,
    };
    let mut out = String::new();
    for directive in outer {
        match directive.name() {
            "server" => streams.server(directive, &mut out, report),
            // They are written for the servers that use them.
            "upstream" | "map" => {}
            name if INHERITED.contains(&name) || is_implied(name) => {}
            _ => left_out(directive, report),
        }
    }
    toml.push_str(&streams.upstreams);
    toml.push_str(&out);
}

struct Streams<'t> {
    outer: &'t [Directive],
    upstreams: String,
    /// Upstreams so far.
    made: usize,
}

/// Settings of the server, or of the block where it has none of that name.
struct Server<'t>(Vec<&'t Directive>);

impl<'t> Server<'t> {
    fn last(&self, name: &str) -> Option<&'t Directive> {
        let mut all = self.0.iter().rev();
        all.find(|directive| directive.name() == name).copied()
    }

    fn is_on(&self, name: &str) -> bool {
        self.last(name)
            .is_some_and(|directive| directive.argument(0) == "on")
    }

    fn all(&self, names: &[&str]) -> Vec<&'t Directive> {
        let all = self.0.iter().copied();
        all.filter(|directive| names.contains(&directive.name()))
            .collect()
    }
}

impl<'t> Streams<'t> {
    fn server(&mut self, block: &'t Directive, toml: &mut String, report: &mut Report) {
        let own = block.inside();
        let has = |name: &str| own.iter().any(|directive| directive.name() == name);
        let has_rules = has("allow") || has("deny");
        let inherited = self.outer.iter().filter(|directive| {
            let name = directive.name();
            let is_rule = matches!(name, "allow" | "deny");
            INHERITED.contains(&name) && !has(name) && !(is_rule && has_rules)
        });
        let server = Server(inherited.chain(own).collect());
        let Some(listen) = listens(&server, report) else {
            return;
        };
        let Some(pass) = server.last("proxy_pass") else {
            return left_out(block, report);
        };
        let is_udp = listen.iter().any(|one| one.starts_with("udp:"));
        let Some((ways, routes)) = self.ways(pass, &server, is_udp, report) else {
            return;
        };
        let mut out = format!(
            "[[stream]]\n{}",
            list_line("listen", listen.iter().map(String::as_str))
        );
        out.push_str(&ways);
        keys(&server, is_udp, &mut out, report);
        self.log(&server, &mut out, report);
        self.limit(&server, &mut out, report);
        access(&server, &mut out, report);
        tls(&server, &mut out, report);
        out.push_str(&routes);
        out.push('\n');
        toml.push_str(&out);
    }

    /// The way of all sessions, or of the rest, and routes by server name. `None`: they cannot be
    /// said, which has been reported.
    fn ways(
        &mut self,
        pass: &Directive,
        server: &Server<'_>,
        is_udp: bool,
        report: &mut Report,
    ) -> Option<(String, String)> {
        let text = pass.argument(0);
        let Some(variable) = text.strip_prefix('$') else {
            if text.contains('$') {
                left_out(pass, report);
                return None;
            }
            let target = self.target(text, server, is_udp, report);
            return Some((format!("proxy = {}\n", quoted(&target)), String::new()));
        };
        let map = self.outer.iter().find(|directive| {
            directive.name() == "map"
                && directive.argument(1).strip_prefix('$') == Some(variable)
                && matches!(
                    directive.argument(0),
                    "$ssl_preread_server_name" | "$ssl_server_name"
                )
        });
        let Some(map) = map else {
            left_out(pass, report);
            return None;
        };
        let has_hosts = map.inside().iter().any(|row| row.name() == "hostnames");
        let (mut rest, mut routes) = (String::new(), Vec::new());
        for row in map.inside() {
            let (name, to) = (row.name(), row.argument(0));
            match name {
                "hostnames" | "volatile" => {}
                "default" => {
                    let target = self.target(to, server, is_udp, report);
                    rest = format!("proxy = {}\n", quoted(&target));
                }
                _ if name.starts_with('~')
                    || to.contains('$')
                    || name.ends_with(".*")
                    || !has_hosts && name.starts_with(['.', '*']) =>
                {
                    left_out(row, report);
                }
                _ => {
                    let target = quoted(&self.target(to, server, is_udp, report));
                    let names: Vec<String> = match name.strip_prefix('.') {
                        Some(domain) => vec![domain.to_owned(), format!("*.{domain}")],
                        None => vec![name.to_owned()],
                    };
                    let sni = list_line("sni", names.iter().map(String::as_str));
                    let text = format!("\n[[stream.route]]\n{sni}proxy = {target}\n");
                    // nginx takes an exact name first, then the longest one with a star.
                    let is_pattern = name.starts_with(['.', '*']);
                    routes.push((is_pattern, std::cmp::Reverse(name.len()), text));
                }
            }
        }
        routes.sort_by_key(|(is_pattern, length, _)| (*is_pattern, *length));
        Some((rest, routes.into_iter().map(|(.., text)| text).collect()))
    }

    /// The name of an upstream, or an address. An upstream is written where it is first used.
    fn target(
        &mut self,
        text: &str,
        server: &Server<'_>,
        is_udp: bool,
        report: &mut Report,
    ) -> String {
        let scheme = match (is_udp, server.is_on("proxy_ssl")) {
            (true, _) => "udp",
            (false, true) => "tls",
            (false, false) => "tcp",
        };
        let named = self
            .outer
            .iter()
            .find(|directive| directive.name() == "upstream" && directive.argument(0) == text);
        let connect_timeout = server.last("proxy_connect_timeout");
        let connect_timeout = connect_timeout.and_then(|one| duration(one.argument(0)));
        let mut keys = String::new();
        if let Some(timeout) = connect_timeout {
            let _ = writeln!(keys, "connect_timeout = {}", quoted(&timeout));
        }
        if scheme == "tls" {
            keys.push_str(&verification(server));
        }
        let (name, members) = match named {
            Some(block) => {
                let (members, balance) = members(block, scheme, report);
                keys.insert_str(0, &balance);
                (text.to_owned(), members)
            }
            None if scheme != "tls" && keys.is_empty() => {
                return match text.strip_prefix("unix:") {
                    Some(_) => text.to_owned(),
                    None => format!("{scheme}://{text}"),
                };
            }
            None => {
                self.made += 1;
                let address = quoted(&url(scheme, text));
                (format!("stream-{}", self.made), vec![address])
            }
        };
        // The same servers over another protocol are another upstream.
        let name = match scheme {
            "tcp" => name,
            scheme => format!("{name}-{scheme}"),
        };
        let header = format!("[[upstream]]\nname = {}\n", quoted(&name));
        if !self.upstreams.contains(&header) {
            let servers = members.join(", ");
            let _ = writeln!(self.upstreams, "{header}servers = [{servers}]\n{keys}");
        }
        name
    }

    fn log(&self, server: &Server<'_>, out: &mut String, report: &mut Report) {
        let logs = server.all(&["access_log"]);
        let [log] = logs[..] else {
            return logs.iter().for_each(|log| left_out(log, report));
        };
        if log.argument(0) == "off" {
            return;
        }
        let mut formats = self.outer.iter().filter(|one| one.name() == "log_format");
        let format = formats.find(|one| one.argument(0) == log.argument(1));
        let text: Option<String> = format.map(|format| {
            let texts = format.texts().skip(1);
            texts.filter(|text| !text.starts_with("escape=")).collect()
        });
        match text.filter(|text| variables(text).all(|name| LOGGED.contains(&name))) {
            Some(text) if log.argument(0).starts_with('/') => {
                let (path, text) = (quoted(log.argument(0)), quoted(&text));
                let _ = writeln!(out, "access_log = {{ path = {path}, format = {text} }}");
            }
            _ => left_out(log, report),
        }
    }

    fn limit(&self, server: &Server<'_>, out: &mut String, report: &mut Report) {
        for limit in server.all(&["limit_conn"]) {
            let zone = self.outer.iter().find(|one| {
                one.name() == "limit_conn_zone"
                    && one.argument(1).split(':').next()
                        == Some(&format!("zone={}", limit.argument(0)))
            });
            let is_client = |zone: &&Directive| {
                matches!(zone.argument(0), "$binary_remote_addr" | "$remote_addr")
            };
            match (zone.filter(is_client), limit.argument(1).parse::<u64>()) {
                (Some(_), Ok(most)) => {
                    let _ = writeln!(out, "connections_per_client = {most}");
                }
                _ => left_out(limit, report),
            }
        }
    }
}

/// The names of the variables of a text.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).map(|part| {
        let part = part.strip_prefix('{').unwrap_or(part);
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        part.split(is_end).next().unwrap_or_default()
    })
}

/// The addresses; `None`: one cannot be said, which has been reported.
fn listens(server: &Server<'_>, report: &mut Report) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for directive in server.all(&["listen"]) {
        let text = directive.argument(0);
        let is_port = |text: &str| text.parse::<u16>().is_ok();
        let address = match text.rsplit_once(':') {
            None if is_port(text) => Some(format!("0.0.0.0:{text}")),
            Some(("*", port)) if is_port(port) => Some(format!("0.0.0.0:{port}")),
            Some(("localhost", port)) if is_port(port) => Some(format!("127.0.0.1:{port}")),
            Some(("unix", _)) => Some(text.to_owned()),
            Some((host, port)) if is_port(port) && host != "localhost" => Some(text.to_owned()),
            _ => None,
        };
        let (mut is_udp, mut is_said) = (false, address.is_some());
        for word in directive.texts().skip(1) {
            match word {
                "udp" => is_udp = true,
                "ssl" | "reuseport" | "bind" | "ipv6only=on" => {}
                // Headers of all peers would be believed.
                "proxy_protocol" => is_said &= !server.all(&["set_real_ip_from"]).is_empty(),
                _ if word.starts_with("backlog=") || word.starts_with("so_keepalive=") => {}
                _ => is_said = false,
            }
        }
        match address.filter(|_| is_said) {
            Some(address) if is_udp => all.push(format!("udp:{address}")),
            Some(address) => all.push(address),
            None => {
                left_out(directive, report);
                return None;
            }
        }
    }
    (!all.is_empty()).then_some(all)
}

fn keys(server: &Server<'_>, is_udp: bool, out: &mut String, report: &mut Report) {
    let has = |name: &str, word: &str| {
        let mut all = server.all(&[name]).into_iter();
        all.any(|one| one.texts().skip(1).any(|text| text == word))
    };
    if has("listen", "proxy_protocol") {
        let from = server.all(&["set_real_ip_from"]);
        let from = from.iter().map(|one| one.argument(0));
        out.push_str(&list_line("proxy_protocol_from", from));
    }
    // A way is written with the server that has it, so that those of the block are known.
    for directive in &server.0 {
        let text = directive.argument(0);
        let line = match directive.name() {
            "proxy_timeout" => timeout("idle_timeout", text),
            "preread_timeout" | "ssl_handshake_timeout" | "proxy_protocol_timeout" => {
                timeout("handshake_timeout", text)
            }
            "proxy_protocol" if text == "on" => Some("send_proxy_protocol = \"v1\"\n".to_owned()),
            "proxy_protocol" => Some(String::new()),
            "proxy_upload_rate" => rate("upload_rate", text),
            "proxy_download_rate" => rate("download_rate", text),
            "proxy_requests" if text != "0" => Some(format!("requests = {text}\n")),
            "proxy_responses" if text != "0" => Some(format!("responses = {text}\n")),
            name if is_known(name) || is_implied(name) => Some(String::new()),
            _ => None,
        };
        match line {
            // The last of several names of one key counts.
            Some(line) => {
                let key = line.split(' ').next().unwrap_or_default();
                if key.is_empty()
                    || !out
                        .lines()
                        .any(|known| known.starts_with(&format!("{key} ")))
                {
                    out.push_str(&line);
                }
            }
            None => left_out(directive, report),
        }
    }
    if !server.is_on("proxy_half_close") && !is_udp {
        out.push_str("half_close = false\n");
    }
}

/// Settings that other functions read.
fn is_known(name: &str) -> bool {
    INHERITED.contains(&name) || matches!(name, "listen" | "proxy_pass")
}

fn timeout(key: &str, text: &str) -> Option<String> {
    Some(format!("{key} = {}\n", quoted(&duration(text)?)))
}

fn rate(key: &str, text: &str) -> Option<String> {
    if text == "0" {
        return Some(String::new());
    }
    Some(format!(
        "{key} = {}\n",
        quoted(&format!("{}/s", size(text)?))
    ))
}

fn access(server: &Server<'_>, out: &mut String, report: &mut Report) {
    let rules = server.all(&["allow", "deny"]);
    let Some(last) = rules.last() else { return };
    let access = Access::of(&rules);
    if access.is_none() {
        closed(last, report);
    }
    let lines = access.filter(|access| !access.is_closed);
    match lines.map(|access| access.lines()) {
        Some(lines) if lines.is_empty() => {}
        Some(lines) => {
            let _ = write!(out, "\n[stream.access]\n{lines}");
        }
        None => out.push_str("\n[stream.access]\ndeny = [\"0.0.0.0/0\", \"::/0\"]\n"),
    }
}

fn tls(server: &Server<'_>, out: &mut String, report: &mut Report) {
    let mut listens = server.all(&["listen"]).into_iter();
    if !listens.any(|listen| listen.texts().any(|word| word == "ssl")) {
        return;
    }
    out.push_str("\n[stream.tls]\n");
    let verify = server.last("ssl_verify_client");
    let verify = verify.map_or("off", |directive| directive.argument(0));
    for (name, key) in [
        ("ssl_certificate", "certificate"),
        ("ssl_certificate_key", "key"),
        ("ssl_client_certificate", "client_ca"),
    ] {
        let is_used = name != "ssl_client_certificate" || verify != "off";
        if let Some(directive) = server.last(name).filter(|_| is_used) {
            let _ = writeln!(out, "{key} = {}", quoted(directive.argument(0)));
        }
    }
    match verify {
        "off" => {}
        "optional" => out.push_str("client_certificates = \"optional\"\n"),
        // `optional_no_ca` verifies nothing: the result asks for more than nginx.
        verify => {
            out.push_str("client_certificates = \"required\"\n");
            if let Some(directive) = server.last("ssl_verify_client").filter(|_| verify != "on") {
                closed(directive, report);
            }
        }
    }
    if let Some(alpn) = server.last("ssl_alpn") {
        out.push_str(&list_line("alpn", alpn.texts()));
    }
}

/// nginx verifies servers where it is told so only.
fn verification(server: &Server<'_>) -> String {
    let mut out = String::from("[upstream.tls]\n");
    if !server.is_on("proxy_ssl_verify") {
        out.push_str("verify = false\n");
    } else if let Some(file) = server.last("proxy_ssl_trusted_certificate") {
        let _ = writeln!(out, "ca_file = {}", quoted(file.argument(0)));
    }
    let name = server.last("proxy_ssl_name").map(|one| one.argument(0));
    if let Some(name) = name.filter(|name| !name.contains('$')) {
        let _ = writeln!(out, "server_name = {}", quoted(name));
    }
    out
}

/// Servers of an upstream, and how one of them is chosen.
fn members(block: &Directive, scheme: &str, report: &mut Report) -> (Vec<String>, String) {
    let (mut servers, mut balance) = (Vec::new(), String::new());
    for directive in block.inside() {
        match directive.name() {
            "server" => servers.extend(member(directive, scheme, report)),
            "least_conn" => balance = "balance = \"least-requests\"\n".to_owned(),
            "random" => balance = "balance = \"random-two\"\n".to_owned(),
            "hash"
                if matches!(
                    directive.argument(0),
                    "$remote_addr" | "$binary_remote_addr"
                ) =>
            {
                balance = "balance = \"client\"\n".to_owned();
            }
            "zone" | "resolver" | "resolver_timeout" => {}
            _ => left_out(directive, report),
        }
    }
    (servers, balance)
}
