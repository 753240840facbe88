//! Locations as routes, in the order in which nginx would choose them.
//!
//! Called by: `servers`.
//! Caveat: exact names come first, then prefixes that end the search, then expressions in order, then
//! the other prefixes, longest first. A final prefix around another one has no such place, and denies.

use super::{
    reported::{answers, closed, closes, is_implied, left_out},
    settings::{Outer, Settings, is_route_setting},
    text::{list_line, quoted, template},
};
use crate::{Report, tree::Directive};
use std::fmt::Write as _;

/// Parameters that programs get without being told.
const STANDARD_PARAMETERS: &[&str] = &[
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
];
/// Fields that upstreams get without being told.
const STANDARD_FIELDS: &[&str] = &[
    "connection",
    "upgrade",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
];

const INDEX_BEHIND_EXACT: &str = "the index file of a `= …/` location is under the rules of its own \
    location, which is not converted: the result denies it";

/// The routes of a server.
pub struct Locations<'t> {
    name: Option<&'t str>,
    default_type: String,
    outer: Outer,
    routes: Vec<(u8, usize, String)>,
    answers_all: bool,
    is_closed: bool,
    /// Locations that are not for all.
    guarded: Vec<&'t Directive>,
    /// Neither are those that say nothing of it.
    guards_rest: bool,
}

/// A route in the making.
#[derive(Default)]
struct Route {
    keys: String,
    tables: String,
    /// The upstream gets the client's host.
    keeps_host: bool,
    fields: Vec<String>,
    environment: Vec<String>,
    is_proxied: bool,
    is_closed: bool,
    /// Something answers all requests.
    answers: bool,
}

impl Route {
    /// Returns true if nothing is left for index files.
    fn says_all(&self) -> bool {
        self.answers || self.is_closed || self.keys.contains("try_files = ")
    }
}

impl<'t> Locations<'t> {
    pub fn new(settings: &[&'t Directive], name: Option<&'t str>) -> Locations<'t> {
        let mut types = settings
            .iter()
            .filter(|known| known.name() == "default_type");
        let default_type = types
            .next_back()
            .map_or("text/plain", |known| known.argument(0));
        Locations {
            name: name.filter(|name| *name != "*"),
            default_type: default_type.to_owned(),
            outer: Outer::of(settings),
            routes: Vec::new(),
            answers_all: false,
            is_closed: false,
            guarded: Vec::new(),
            guards_rest: settings.iter().any(|known| is_access(known)),
        }
    }

    /// Reads the locations of a server, and what it returns itself.
    pub fn read(&mut self, all: &'t [Directive], report: &mut Report) {
        let finals: Vec<&str> = all
            .iter()
            .filter(|known| known.name() == "location" && known.argument(0) == "^~")
            .map(|known| known.argument(1))
            .collect();
        let locations = all.iter().filter(|known| known.name() == "location");
        self.guarded = locations
            .filter(|known| known.inside().iter().any(guards))
            .collect();
        for directive in all {
            match directive.name() {
                "return" => {
                    let mut route = Route::default();
                    self.returns(directive, &mut route, report);
                    self.push(0, 0, "path = \"*\"\n", route);
                }
                "location" => self.location(directive, &finals, report),
                _ => {}
            }
        }
    }

    /// Denies everything.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Returns true if no request is left for files.
    pub fn answers_all(&self) -> bool {
        self.answers_all || self.is_closed
    }

    pub fn toml(mut self) -> String {
        // Stable: expressions stay in their order.
        self.routes
            .sort_by_key(|(class, length, _)| (*class, usize::MAX - length));
        let mut out = String::new();
        if self.is_closed {
            out.push_str("\n[[site.route]]\npath = \"*\"\ndeny = true\n");
        }
        for (_, _, route) in &self.routes {
            let _ = write!(out, "\n[[site.route]]\n{route}");
        }
        out
    }

    fn push(&mut self, class: u8, length: usize, path: &str, mut route: Route) {
        if route.is_closed {
            route = Route {
                keys: "deny = true\n".to_owned(),
                answers: true,
                ..Route::default()
            };
        }
        self.answers_all |= route.answers && path == "path = \"*\"\n";
        if route.is_proxied && !route.keeps_host {
            route.keys.push_str("preserve_host = false\n");
        }
        for (key, all) in [
            ("upstream_headers", &route.fields),
            ("environment", &route.environment),
        ] {
            if !all.is_empty() {
                let _ = writeln!(route.keys, "{key} = {{ {} }}", all.join(", "));
            }
        }
        let text = format!("{path}{}{}", route.keys, route.tables);
        self.routes.push((class, length, text));
    }

    fn location(&mut self, block: &Directive, finals: &[&str], report: &mut Report) {
        let (kind, name) = match block.arguments.len() {
            2 => (block.argument(0), block.argument(1)),
            _ => ("", block.argument(0)),
        };
        let mut route = Route::default();
        let hides = kind.is_empty() && finals.iter().any(|outer| name.starts_with(outer));
        if hides {
            let message = "a prefix inside of a `^~` prefix is not converted: the result denies it";
            report.error(block, message, None);
            route.is_closed = true;
        }
        if name.starts_with('@') {
            return left_out(block, report);
        }
        for directive in block.inside() {
            self.directive(directive, (kind, name), &mut route, report);
        }
        if kind == "=" && name.ends_with('/') && self.guards_index_of(block) && !route.says_all() {
            report.error(block, INDEX_BEHIND_EXACT, None);
            route.is_closed = true;
        }
        let all: Vec<&Directive> = block.inside().iter().collect();
        let mut shared = Settings::inside(&self.outer);
        shared.read(&all, self.name, report);
        route.keys.push_str(&shared.inline());
        route.tables.push_str(&shared.tables("site.route"));
        route.is_closed |= shared.is_closed;
        // A shorter route of the same kind comes later, and one for a part of `^~` first.
        let (class, path) = match kind {
            "=" => (1, exact(name)),
            "^~" => (2, prefix(name)),
            "~" => (3, format!("path_regex = {}\n", quoted(name))),
            "~*" => (
                3,
                format!("path_regex = {}\n", quoted(&format!("(?i){name}"))),
            ),
            _ if hides => (1, prefix(name)),
            _ => (4, prefix(name)),
        };
        let length = if class == 3 { 0 } else { name.len() };
        self.push(class, length, &path, route);
    }

    /// Returns true if nginx may look for the index file of this location in another one, which is
    /// not for all.
    fn guards_index_of(&self, exact: &Directive) -> bool {
        const ACCESS: &[&str] = &["auth_basic", "auth_basic_user_file", "allow", "satisfy"];
        let is_own = |known: &Directive| ACCESS.contains(&known.name()) || closes(known);
        let mut guarded = self.guarded.iter();
        guarded.any(|known| !std::ptr::eq(*known, exact))
            || self.guards_rest && exact.inside().iter().any(is_own)
    }

    fn directive(
        &mut self,
        directive: &Directive,
        place: (&str, &str),
        route: &mut Route,
        report: &mut Report,
    ) {
        let text = directive.argument(0);
        match directive.name() {
            "proxy_pass" | "fastcgi_pass" | "uwsgi_pass" | "scgi_pass" | "grpc_pass" => {
                pass(directive, place, route, report);
            }
            "proxy_set_header" | "grpc_set_header" => self.field(directive, route, report),
            "fastcgi_param" | "uwsgi_param" | "scgi_param"
                if STANDARD_PARAMETERS.contains(&text) => {}
            "fastcgi_param" | "uwsgi_param" | "scgi_param" => {
                match template(directive.argument(1), self.name) {
                    Some(value) => {
                        let line = format!("{} = {}", quoted(text), quoted(&value));
                        route.environment.push(line);
                    }
                    None => left_out(directive, report),
                }
            }
            "fastcgi_index" | "fastcgi_split_path_info" => {}
            "root" => {
                let _ = writeln!(route.keys, "root = {}", quoted(text));
            }
            "alias" if place.0.is_empty() && place.1.ends_with('/') => {
                let _ = writeln!(route.keys, "alias = {}", quoted(text.trim_end_matches('/')));
            }
            "index" => {
                let _ = write!(route.keys, "{}", list_line("index", directive.texts()));
            }
            "try_files" => try_files(directive, route, report),
            "return" => self.returns(directive, route, report),
            "internal" => route.keys.push_str("internal = true\n"),
            // Without a log of its own, the site's.
            "access_log" | "log_not_found" => {}
            name if is_route_setting(name) => {}
            "proxy_read_timeout" => {
                let _ = writeln!(route.keys, "proxy_timeout = {}", quoted(&unit(text)));
            }
            "location" => {
                route.is_closed = true;
                closed(directive, report);
            }
            name if closes(directive) || answers(name) => {
                route.is_closed = true;
                closed(directive, report);
            }
            _ if is_implied(directive) => {}
            _ => left_out(directive, report),
        }
    }

    fn field(&mut self, directive: &Directive, route: &mut Route, report: &mut Report) {
        let (name, value) = (directive.argument(0), directive.argument(1));
        let lower = name.to_ascii_lowercase();
        if lower == "host" && matches!(value, "$host" | "$http_host") {
            route.keeps_host = true;
            return;
        }
        if STANDARD_FIELDS.contains(&lower.as_str()) {
            return;
        }
        match template(value, self.name).filter(|_| lower != "host") {
            Some(value) => route
                .fields
                .push(format!("{} = {}", quoted(name), quoted(&value))),
            None => left_out(directive, report),
        }
    }

    /// A `return`, which answers everything that comes to it. What it cannot say, it denies: files
    /// behind it were never served.
    fn returns(&mut self, directive: &Directive, route: &mut Route, report: &mut Report) {
        let (first, second) = (directive.argument(0), directive.argument(1));
        route.answers = true;
        let (status, text) = match first.parse::<u16>() {
            Ok(status) => (status, second),
            Err(_) => (302, first),
        };
        let is_redirect = matches!(status, 301 | 302 | 303 | 307 | 308);
        if matches!(status, 403 | 444) && text.is_empty() {
            return route.keys.push_str("deny = true\n");
        }
        match template(text, self.name) {
            Some(target) if is_redirect => {
                let _ = writeln!(
                    route.keys,
                    "redirect = {}\nstatus = {status}",
                    quoted(&target)
                );
            }
            Some(body) if !text.contains('$') || status != 200 => {
                let _ = writeln!(
                    route.keys,
                    "respond = {}\nstatus = {status}\ntype = {}",
                    quoted(&body),
                    quoted(&self.default_type)
                );
            }
            Some(body) => {
                let kind = quoted(&self.default_type);
                let _ = writeln!(route.keys, "respond = {}\ntype = {kind}", quoted(&body));
            }
            None => {
                route.is_closed = true;
                closed(directive, report);
            }
        }
    }
}

/// Returns true for directives of a location that is not for all.
fn guards(directive: &Directive) -> bool {
    matches!(directive.name(), "internal" | "return") || is_access(directive)
}

fn is_access(directive: &Directive) -> bool {
    let is_list = matches!(
        directive.name(),
        "allow" | "deny" | "auth_basic" | "auth_basic_user_file"
    );
    is_list && directive.argument(0) != "off" || closes(directive)
}

/// The pattern of a name, in which a star is no pattern.
fn exact(name: &str) -> String {
    match name.contains('*') {
        true => format!("path_regex = {}\n", quoted(&format!("^{}$", escaped(name)))),
        false => format!("path = {}\n", quoted(name)),
    }
}

/// A text as a regular expression of nothing else.
fn escaped(text: &str) -> String {
    let plain = |sign: char| sign.is_alphanumeric() || matches!(sign, '/' | '-' | '_');
    let signs = text.chars().map(|sign| match plain(sign) {
        true => sign.to_string(),
        false => format!("\\{sign}"),
    });
    signs.collect()
}

/// The pattern of a prefix.
fn prefix(name: &str) -> String {
    match name {
        "/" => "path = \"*\"\n".to_owned(),
        _ if name.contains('*') => {
            format!("path_regex = {}\n", quoted(&format!("^{}", escaped(name))))
        }
        _ => format!("path = {}\n", quoted(&format!("{name}*"))),
    }
}

/// A time whose unit is written out.
fn unit(text: &str) -> String {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("{text}s"),
        false => text.to_owned(),
    }
}

/// The scheme of servers that a directive passes requests to; `None`: it is another directive.
pub fn scheme_of_pass(name: &str) -> Option<&'static str> {
    match name {
        "proxy_pass" => Some("http"),
        "fastcgi_pass" => Some("fcgi"),
        "uwsgi_pass" => Some("uwsgi"),
        "scgi_pass" => Some("scgi"),
        "grpc_pass" => Some("grpc"),
        _ => None,
    }
}

/// A target without variables. With a path, it replaces the location's name, which both must end
/// with a slash for.
fn pass(directive: &Directive, (kind, name): (&str, &str), route: &mut Route, report: &mut Report) {
    let url = directive.argument(0);
    let kind_of_pass = directive.name().trim_end_matches("_pass");
    let is_proxy = matches!(kind_of_pass, "proxy" | "grpc");
    let mut fail = || {
        route.is_closed = true;
        closed(directive, report);
    };
    if url.contains('$') {
        return fail();
    }
    let program = scheme_of_pass(directive.name()).unwrap_or("http");
    let target = match (is_proxy, url.strip_prefix("unix:")) {
        (false, Some(path)) => format!("{program}+unix:{path}"),
        // A group's name, or an address.
        (false, None) if !url.contains([':', '.', '/']) && url != "localhost" => url.to_owned(),
        (false, None) => format!("{program}://{url}"),
        (true, _) => {
            let default = if kind_of_pass == "grpc" {
                "grpc"
            } else {
                "http"
            };
            let (scheme, rest) = url.split_once("://").unwrap_or((default, url));
            match rest.split_once('/') {
                _ if rest.starts_with("unix:") => return fail(),
                Some((_, path)) => {
                    let is_whole = kind.is_empty() && name.ends_with('/');
                    if !is_whole || !(path.is_empty() || path.ends_with('/')) {
                        return fail();
                    }
                    url.to_owned()
                }
                // A group's name, or an address.
                None if rest.contains([':', '.']) || rest == "localhost" => {
                    format!("{scheme}://{rest}")
                }
                None => rest.to_owned(),
            }
        }
    };
    route.is_proxied = is_proxy;
    // With gRPC, the client's host is passed on as it is with programs.
    route.keeps_host |= kind_of_pass == "grpc";
    route.answers = true;
    let _ = writeln!(route.keys, "proxy = {}", quoted(&target));
}

fn try_files(directive: &Directive, route: &mut Route, report: &mut Report) {
    let known = |text: &str| {
        let rest = text.replace("$uri", "").replace("$is_args$args", "");
        let rest = rest.replace("?$args", "").replace("?$query_string", "");
        !rest.contains(['$', '@'])
    };
    if !directive.texts().all(known) {
        route.is_closed = true;
        return closed(directive, report);
    }
    let texts: Vec<String> = directive
        .texts()
        .map(|text| {
            let text = text.replace("$is_args$args", "?$args");
            text.replace("?$query_string", "?$args")
        })
        .collect();
    let line = list_line("try_files", texts.iter().map(String::as_str));
    route.keys.push_str(&line);
}
