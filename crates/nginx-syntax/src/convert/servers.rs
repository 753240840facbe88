//! Servers as listeners and sites.
//!
//! Called by: `convert`.
//! Caveat: a server's settings are those of `http` where it has none of a name, as in nginx.

use super::{
    locations::Locations,
    media_types::MediaTypes,
    real_ip::{self, RealIp, is_real_ip, judges_addresses},
    reported::{answers, closed, closes, is_implied, left_out, warn_once},
    settings::{Settings, is_route_setting},
    text::{list_line, quoted},
    upstream::is_setter,
};
use crate::{Report, tree::Directive};
use std::{collections::HashMap, fmt::Write as _};

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
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_client_certificate",
    "ssl_verify_client",
];

/// Returns true for settings of `http` that servers take over: what closes something is one.
pub fn is_inherited(directive: &Directive) -> bool {
    let name = directive.name();
    INHERITED.contains(&name) || is_of_others(name) || closes(directive)
}

/// Settings that are read elsewhere: for media types, for all servers, or for locations.
fn is_of_others(name: &str) -> bool {
    is_setter(name) || is_real_ip(name) || matches!(name, "types" | "default_type")
}

/// State of converting servers.
pub struct Servers<'t> {
    outer: Vec<&'t Directive>,
    /// Addresses with their TLS.
    addresses: Vec<(String, bool)>,
    /// Addresses, and the number of the server that is the default there.
    defaults: HashMap<String, usize>,
    /// Servers so far.
    count: usize,
    /// Proxies that all servers believe.
    real_ip: Option<RealIp>,
}

impl<'t> Servers<'t> {
    pub fn new(outer: &[&'t Directive]) -> Servers<'t> {
        let mut servers = Servers {
            outer: outer.to_vec(),
            addresses: Vec::new(),
            defaults: defaults(outer),
            count: 0,
            real_ip: None,
        };
        let blocks = outer.iter().filter(|known| known.name() == "server");
        let all: Vec<(Vec<&Directive>, &Directive)> = blocks
            .map(|block| (servers.with_inherited(block.inside()), *block))
            .collect();
        servers.real_ip = real_ip::shared(&all);
        servers
    }

    /// The listeners of all servers, behind what holds for all.
    pub fn listeners(&self) -> String {
        let mut toml = self.real_ip.as_ref().map(RealIp::toml).unwrap_or_default();
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
        let number = self.count;
        self.count += 1;
        let Some(listeners) = self.listen(block, report) else {
            return;
        };
        let is_default = listeners
            .iter()
            .any(|address| self.defaults.get(address) == Some(&number));
        let hosts = hosts(block, is_default, report);
        if hosts.is_empty() {
            let message = "this server is left out: none of its names can be converted";
            let help = "run the configuration with `saker run --nginx`, or write the site by hand";
            return report.error(block, message, Some(help.to_owned()));
        }
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
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
        let is_unknown = self.is_of_unknown_proxies(&settings, block, report);
        if converted.is_closed || is_unknown {
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

    /// Reports proxies of a server that cannot be said; returns true if it judges clients by what
    /// they say.
    fn is_of_unknown_proxies(
        &self,
        settings: &[&Directive],
        block: &Directive,
        report: &mut Report,
    ) -> bool {
        let mut all = settings.iter();
        let Some(first) = all.find(|known| known.name() == "set_real_ip_from") else {
            return false;
        };
        if let Some(real_ip) = &self.real_ip {
            if real_ip.differs() {
                let message = "all trusted proxies at the end of X-Forwarded-For are passed over, \
                               as with `real_ip_recursive on`";
                let help = "name only addresses of proxies in `trusted_proxies`";
                warn_once(first, message.to_owned(), Some(help), report);
            }
            return false;
        }
        let is_judging = judges_addresses(settings, block);
        match is_judging {
            true => closed(first, report),
            false => left_out(first, report),
        }
        is_judging
    }

    /// The addresses of a server; `None`: it has some, and none of them can be said. Then it is left
    /// out: the default would open what listens elsewhere.
    fn listen(&mut self, block: &Directive, report: &mut Report) -> Option<Vec<String>> {
        let mut listeners = Vec::new();
        for (directive, known) in listens(block) {
            match known {
                Some((address, is_tls, _)) => {
                    if !self.addresses.iter().any(|(known, _)| *known == address) {
                        self.addresses.push((address.clone(), is_tls));
                    }
                    listeners.push(address);
                }
                None => left_out(directive, report),
            }
        }
        if listens(block).next().is_none() {
            listeners.push(DEFAULT_ADDRESS.to_owned());
            if !(self.addresses.iter()).any(|(known, _)| known == DEFAULT_ADDRESS) {
                self.addresses.push((DEFAULT_ADDRESS.to_owned(), false));
            }
        }
        if listeners.is_empty() {
            let message = "this server is left out: none of its addresses can be converted";
            report.error(block, message, None);
            return None;
        }
        Some(listeners)
    }

    /// The settings of a server, with those of `http` that it does not have itself.
    fn with_inherited(&self, own: &'t [Directive]) -> Vec<&'t Directive> {
        let has = |name: &str| own.iter().any(|directive| directive.name() == name);
        let access = has("allow") || has("deny");
        let outer = self.outer.iter().filter(|directive| {
            let name = directive.name();
            let is_access = matches!(name, "allow" | "deny");
            is_inherited(directive) && !has(name) && !(is_access && access)
        });
        outer.copied().chain(own).collect()
    }
}

/// Address of servers without `listen`.
const DEFAULT_ADDRESS: &str = ":80";

/// The `listen` directives of a server, with what they say.
fn listens(block: &Directive) -> impl Iterator<Item = (&Directive, Option<Listen>)> {
    let own = block.inside().iter();
    let listens = own.filter(|directive| directive.name() == "listen");
    listens.map(|directive| (directive, listen(directive)))
}

/// The server that gets the requests of an address which name no other: the one that says so, or
/// the first.
fn defaults(outer: &[&Directive]) -> HashMap<String, usize> {
    let servers = outer.iter().filter(|known| known.name() == "server");
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut said = HashMap::new();
    for (number, block) in servers.enumerate() {
        if listens(block).next().is_none() {
            first.entry(DEFAULT_ADDRESS.to_owned()).or_insert(number);
        }
        for (address, _, is_default) in listens(block).filter_map(|(_, known)| known) {
            if is_default {
                said.insert(address.clone(), number);
            }
            first.entry(address).or_insert(number);
        }
    }
    first.extend(said);
    first
}

/// The hosts of a server; none: nothing would lead to it.
fn hosts(block: &Directive, is_default: bool, report: &mut Report) -> Vec<String> {
    let names = block.inside().iter();
    let names = names.filter(|directive| directive.name() == "server_name");
    let names: Vec<&str> = names.flat_map(|directive| directive.texts()).collect();
    let mut hosts: Vec<String> = Vec::new();
    for name in names.iter().copied() {
        match name.strip_prefix('.') {
            _ if name.starts_with('~') || name.ends_with(".*") => {
                let message = format!("server name `{name}` is not converted");
                report.warn(block, message, None);
            }
            Some(rest) => hosts.push(rest.to_owned()),
            None if matches!(name, "_" | "") => {}
            None => hosts.push(name.to_owned()),
        }
    }
    let dotted = names.iter().filter_map(|name| name.strip_prefix('.'));
    hosts.extend(dotted.map(|rest| format!("*.{rest}")));
    if is_default {
        hosts.push("*".to_owned());
    }
    hosts
}

/// Address, TLS, and whether it says that it is the default.
type Listen = (String, bool, bool);

/// Address, TLS, and default of a `listen`; `None`: it cannot be said.
fn listen(directive: &Directive) -> Option<Listen> {
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
            "http2" | "reuseport" | "ipv6only=on" | "bind" | "deferred" => {}
            _ => match word.split_once('=') {
                Some((
                    "backlog" | "fastopen" | "rcvbuf" | "sndbuf" | "so_keepalive" | "setfib"
                    | "accept_filter",
                    _,
                )) => {}
                _ => return None,
            },
        }
    }
    Some((address, is_tls, is_default))
}

/// The demand of a server for certificates of clients.
fn verify_client<'d>(settings: &[&'d Directive]) -> &'d str {
    let all = settings.iter().rev();
    let mut said = all.filter(|directive| directive.name() == "ssl_verify_client");
    said.next().map_or("off", |directive| directive.argument(0))
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
        let verified = verify_client(settings);
        let mut charset = "off";
        for directive in settings {
            match directive.name() {
                "listen" | "server_name" | "location" | "return" | "rewrite" => {}
                name if is_of_others(name) => {}
                "ssl_certificate" => {
                    let _ = writeln!(tls, "certificate = {}", quoted(directive.argument(0)));
                }
                "ssl_certificate_key" => {
                    let _ = writeln!(tls, "key = {}", quoted(directive.argument(0)));
                }
                // It asks clients for nothing by itself.
                "ssl_client_certificate" if verified == "off" => {}
                "ssl_client_certificate" => {
                    let _ = writeln!(tls, "client_ca = {}", quoted(directive.argument(0)));
                }
                "ssl_verify_client" => match directive.argument(0) {
                    "on" => tls.push_str("client_certificates = \"required\"\n"),
                    "optional" => tls.push_str("client_certificates = \"optional\"\n"),
                    "off" => {}
                    _ => {
                        tls.push_str("client_certificates = \"required\"\n");
                        self.close(directive, report);
                    }
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
                _ if is_implied(directive) => {}
                _ if is_route_setting(directive.name()) => {}
                name if closes(directive) || answers(name) => self.close(directive, report),
                _ => left_out(directive, report),
            }
        }
        self.keys.push_str(&MediaTypes::of_server(settings).keys);
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
