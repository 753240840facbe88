//! Servers as listeners and sites.
//!
//! Called by: `convert`.
//! Caveat: a server's settings are those of `http` where it has none of a name, as in nginx.

use super::{
    locations::Locations,
    reported::{closed, closes, is_implied, left_out},
    settings::{Settings, is_route_setting},
    text::{list_line, quoted},
};
use crate::{Report, tree::Directive};
use std::fmt::Write as _;

/// Settings of `http` that servers take over.
const INHERITED: &[&str] = &[
    "root",
    "index",
    "autoindex",
    "add_header",
    "expires",
    "error_page",
    "client_max_body_size",
    "allow",
    "deny",
    "auth_basic",
    "auth_basic_user_file",
    "access_log",
    "charset",
    "default_type",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_client_certificate",
    "ssl_verify_client",
];

/// Returns true for settings of `http` that servers take over.
pub fn is_inherited(name: &str) -> bool {
    INHERITED.contains(&name)
}

/// State of converting servers.
pub struct Servers<'t> {
    outer: Vec<&'t Directive>,
    /// Addresses with their TLS.
    addresses: Vec<(String, bool)>,
}

impl<'t> Servers<'t> {
    pub fn new(outer: &[&'t Directive]) -> Servers<'t> {
        Servers {
            outer: outer.to_vec(),
            addresses: Vec::new(),
        }
    }

    /// The listeners of all servers.
    pub fn listeners(&self) -> String {
        let mut toml = String::new();
        for (address, is_tls) in &self.addresses {
            let _ = writeln!(toml, "[[listener]]\naddress = {}", quoted(address));
            if *is_tls {
                toml.push_str("tls = true\n");
            }
            toml.push('\n');
        }
        toml
    }

    /// Converts a server.
    pub fn server(&mut self, block: &'t Directive, toml: &mut String, report: &mut Report) {
        let settings = self.with_inherited(block.inside());
        let (mut names, mut listeners, mut is_default) = (Vec::new(), Vec::new(), false);
        for directive in &settings {
            match directive.name() {
                "server_name" => names.extend(directive.texts()),
                "listen" => match listen(directive) {
                    Some((address, is_tls, own_default)) => {
                        is_default |= own_default;
                        if !self.addresses.iter().any(|(known, _)| *known == address) {
                            self.addresses.push((address.clone(), is_tls));
                        }
                        listeners.push(address);
                    }
                    None => left_out(directive, report),
                },
                _ => {}
            }
        }
        if listeners.is_empty() {
            listeners.push(":80".to_owned());
            if !self.addresses.iter().any(|(known, _)| known == ":80") {
                self.addresses.push((":80".to_owned(), false));
            }
        }
        let is_first = !toml.contains("[[site]]");
        let mut hosts: Vec<&str> = Vec::new();
        for name in names.iter().copied() {
            match name.strip_prefix('.') {
                _ if name.starts_with('~') || name.ends_with(".*") => {
                    let message = format!("server name `{name}` is not converted");
                    report.warn(block, message, None);
                }
                Some(rest) => hosts.push(rest),
                None if matches!(name, "_" | "") => {}
                None => hosts.push(name),
            }
        }
        let dotted: Vec<String> = names
            .iter()
            .filter_map(|name| Some(format!("*.{}", name.strip_prefix('.')?)))
            .collect();
        hosts.extend(dotted.iter().map(String::as_str));
        if is_default || is_first || hosts.is_empty() {
            hosts.push("*");
        }
        toml.push_str("[[site]]\n");
        toml.push_str(&list_line("names", hosts.iter().copied()));
        toml.push_str(&list_line(
            "listeners",
            listeners.iter().map(String::as_str),
        ));
        let mut converted = Site::default();
        converted.read(&settings, hosts.first().copied(), report);
        let mut locations = Locations::new(&settings, hosts.first().copied());
        locations.read(block.inside(), report);
        if converted.is_closed {
            locations.close();
        }
        if !converted.has_root && !locations.answers_all() {
            // nginx's default is a folder of its package.
            toml.push_str("root = \"/usr/share/nginx/html\"\n");
        }
        toml.push_str(&converted.keys);
        toml.push_str(&converted.tables);
        toml.push_str(&locations.toml());
        toml.push('\n');
    }

    /// The settings of a server, with those of `http` that it does not have itself.
    fn with_inherited(&self, own: &'t [Directive]) -> Vec<&'t Directive> {
        let has = |name: &str| own.iter().any(|directive| directive.name() == name);
        let access = has("allow") || has("deny");
        let outer = self.outer.iter().filter(|directive| {
            let name = directive.name();
            let is_access = matches!(name, "allow" | "deny");
            is_inherited(name) && !has(name) && !(is_access && access)
        });
        outer.copied().chain(own).collect()
    }
}

/// Address, TLS, and default of a `listen`; `None`: it cannot be said.
fn listen(directive: &Directive) -> Option<(String, bool, bool)> {
    let text = directive.argument(0);
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let address = match text {
        _ if is_port(text) => format!("0.0.0.0:{text}"),
        _ if text.starts_with("unix:") => text.to_owned(),
        _ => match text.rsplit_once(':') {
            Some(("*", port)) if is_port(port) => format!("0.0.0.0:{port}"),
            Some((host, port)) if is_port(port) && host != "localhost" => text.to_owned(),
            Some(("localhost", port)) => format!("127.0.0.1:{port}"),
            _ if text.parse::<std::net::Ipv4Addr>().is_ok() => format!("{text}:80"),
            _ => return None,
        },
    };
    let (mut is_tls, mut is_default) = (false, false);
    for word in directive.texts().skip(1) {
        match word {
            "ssl" => is_tls = true,
            "default_server" | "default" => is_default = true,
            "http2" | "reuseport" | "ipv6only=on" | "bind" => {}
            _ => return None,
        }
    }
    Some((address, is_tls, is_default))
}

/// Keys of a site.
#[derive(Default)]
struct Site {
    keys: String,
    tables: String,
    has_root: bool,
    /// Something that closes the server has no counterpart.
    is_closed: bool,
}

impl Site {
    fn read(&mut self, settings: &[&Directive], name: Option<&str>, report: &mut Report) {
        let mut tls = String::new();
        let mut charset = "off";
        for directive in settings {
            match directive.name() {
                "listen" | "server_name" | "location" | "return" => {}
                "ssl_certificate" => {
                    let _ = writeln!(tls, "certificate = {}", quoted(directive.argument(0)));
                }
                "ssl_certificate_key" => {
                    let _ = writeln!(tls, "key = {}", quoted(directive.argument(0)));
                }
                "ssl_client_certificate" => {
                    let _ = writeln!(tls, "client_ca = {}", quoted(directive.argument(0)));
                }
                "ssl_verify_client" => match directive.argument(0) {
                    "on" => tls.push_str("client_certificates = \"required\"\n"),
                    "optional" => tls.push_str("client_certificates = \"optional\"\n"),
                    "off" => {}
                    _ => self.close(directive, report),
                },
                "access_log" => match directive.arguments.len() {
                    _ if directive.argument(0) == "off" => {}
                    1 if directive.argument(0).starts_with('/') => {
                        let path = quoted(directive.argument(0));
                        let line =
                            format!("access_log = {{ path = {path}, format = \"combined\" }}\n");
                        self.keys.push_str(&line);
                    }
                    _ => left_out(directive, report),
                },
                "root" => {
                    self.has_root = true;
                    let _ = writeln!(self.keys, "root = {}", quoted(directive.argument(0)));
                }
                "charset" => charset = directive.argument(0),
                "index" => self.keys.push_str(&list_line("index", directive.texts())),
                _ if is_implied(directive.name()) => {}
                _ if is_route_setting(directive.name()) => {}
                name if closes(name) => self.close(directive, report),
                _ => left_out(directive, report),
            }
        }
        let charset = if charset == "off" { "" } else { charset };
        let _ = writeln!(self.keys, "charset = {}", quoted(charset));
        let mut shared = Settings::default();
        shared.read(settings, name, report);
        self.is_closed |= shared.is_closed;
        self.keys.push_str(&shared.inline());
        self.tables.push_str(&shared.tables("site"));
        if !tls.is_empty() {
            let _ = write!(self.tables, "[site.tls]\n{tls}");
        }
    }

    fn close(&mut self, directive: &Directive, report: &mut Report) {
        self.is_closed = true;
        closed(directive, report);
    }
}
