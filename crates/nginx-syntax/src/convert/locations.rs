//! Locations as routes, in the order in which nginx would choose them.
//!
//! Called by: `servers`.
//! Caveat: exact names come first, then prefixes that end the search, then expressions in order, then
//! the other prefixes, longest first. A final prefix around another one has no such place, and denies.

use super::{
    media_types::MediaTypes,
    real_ip::{is_real_ip, judges_addresses},
    reported::{answers, closed, closes, is_implied, left_out},
    rewrites::{self, ALL, Effect, place_of_rule},
    route::Route,
    settings::{Outer, Settings, is_route_setting},
    text::{list_line, quoted, template},
    upstream::{Place, Upstream, is_setter, setter_of},
};
use crate::{Report, tree::Directive};
use std::fmt::Write as _;

const INDEX_BEHIND_EXACT: &str = "the index file of a `= …/` location is under the rules of its own \
    location, which is not converted: the result denies it";
const MAY_REPEAT: &str = "this rule is applied again if it matches its own result, and answered with 500 after ten times";
/// nginx's default is a folder of its package.
const DEFAULT_ROOT: &str = "/usr/share/nginx/html";

/// The routes of a server.
pub struct Locations<'t> {
    name: Option<&'t str>,
    /// Settings of the server.
    settings: Vec<&'t Directive>,
    default_type: String,
    outer: Outer,
    routes: Vec<(u8, usize, String)>,
    answers_all: bool,
    is_closed: bool,
    /// Locations that are not for all.
    guarded: Vec<&'t Directive>,
    /// Neither are those that say nothing of it.
    guards_rest: bool,
    /// Some locations are for no client.
    has_internal: bool,
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
            settings: settings.to_vec(),
            default_type: default_type.to_owned(),
            has_internal: false,
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
        let is_internal = |known: &Directive| known.name() == "internal";
        self.has_internal = (all.iter()).any(|known| known.inside().iter().any(is_internal));
        for directive in all {
            match directive.name() {
                "return" => {
                    let mut route = self.route(&[]);
                    self.returns(directive, &mut route, report);
                    self.push(0, 0, "path = \"*\"\n", route);
                }
                "location" => self.location(directive, &finals, report),
                "rewrite" => self.rewrite_of_server(directive, report),
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
        self.answers_all |= route.answers && path == ALL;
        if route.is_proxied && !(route.keeps_host || route.upstream.keeps_host) {
            route.keys.push_str("preserve_host = false\n");
        }
        let upstream = route.upstream.lines();
        let text = format!(
            "{path}{}{upstream}{}{}",
            route.keys, route.shared, route.tables
        );
        self.routes.push((class, length, text));
    }

    /// An empty route for some directives.
    fn route(&self, own: &[Directive]) -> Route {
        let default_type = own.iter().rfind(|known| known.name() == "default_type");
        let default_type = default_type.map_or(&*self.default_type, |known| known.argument(0));
        Route {
            default_type: default_type.to_owned(),
            ..Route::default()
        }
    }

    fn location(&mut self, block: &Directive, finals: &[&str], report: &mut Report) {
        let (kind, name) = match block.arguments.len() {
            2 => (block.argument(0), block.argument(1)),
            _ => ("", block.argument(0)),
        };
        let mut route = self.route(block.inside());
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
        self.settings_of(block, &mut route, report);
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
        if !route.is_closed && self.rewrites(block, (class, length, &path), &route, report) {
            return;
        }
        if route.is_folder && !route.is_closed {
            let folder = format!("path = {}\n", quoted(&format!("{name}/*")));
            self.push(class, length + 1, &folder, route);
            route = Route::closed();
        }
        self.push(class, length, &path, route);
    }

    /// Reads the settings of a location beside its action.
    fn settings_of(&self, block: &Directive, route: &mut Route, report: &mut Report) {
        let all: Vec<&Directive> = block.inside().iter().collect();
        self.upstream(&all, route, report);
        // saker.toml has one list of proxies for all.
        if let Some(first) = all.iter().find(|known| is_real_ip(known.name())) {
            let is_judging = judges_addresses(&self.settings, block);
            route.is_closed |= is_judging;
            match is_judging {
                true => closed(first, report),
                false => left_out(first, report),
            }
        }
        let mut shared = Settings::inside(&self.outer);
        shared.read(&all, self.name, report);
        // Applications name the types of their answers.
        let types = MediaTypes::of_location(&all, &self.settings);
        if let Some(types) = types.filter(|_| !route.answers) {
            route.shared.push_str(&types.keys);
            types.whole.iter().for_each(|kind| shared.set_type(kind));
        }
        route.shared.push_str(&shared.inline());
        route.tables.push_str(&shared.tables("site.route"));
        route.is_closed |= shared.is_closed;
    }

    /// Reads fields and variables of the upstream: those of the location, or else of its server.
    fn upstream(&self, own: &[&Directive], route: &mut Route, report: &mut Report) {
        let mut passes = own.iter().map(|known| known.name());
        let Some(pass) = passes.find(|name| scheme_of_pass(name).is_some()) else {
            return;
        };
        let named = |name: &'static str| {
            let is_it = move |known: &&&Directive| known.name() == name;
            let inner: Vec<&Directive> = own.iter().filter(is_it).copied().collect();
            match inner.is_empty() {
                true => self.settings.iter().filter(is_it).copied().collect(),
                false => inner,
            }
        };
        let has = |name: &&str| own.iter().any(|known| known.name() == *name);
        let root = named("root");
        let root = root.last().map_or(DEFAULT_ROOT, |known| known.argument(0));
        let place = Place {
            server_name: self.name,
            root: Some(root).filter(|root| !root.contains('$') && !has(&"alias")),
            takes_root: !["root", "alias", "try_files", "index"].iter().any(has),
        };
        route.upstream = Upstream::of(&named(setter_of(pass)), &place, report);
        route.is_closed |= route.upstream.is_closed;
    }

    /// Adds the routes of a location's `rewrite` directives, in front of its own. Returns true if
    /// nothing is left for that.
    fn rewrites(
        &mut self,
        block: &Directive,
        (class, length, path): (u8, usize, &str),
        base: &Route,
        report: &mut Report,
    ) -> bool {
        for (at, directive) in block.inside().iter().enumerate() {
            match directive.name() {
                "return" | "break" => return false,
                "rewrite" => {}
                _ => continue,
            }
            let mut behind = block.inside().iter().skip(at + 1).map(Directive::name);
            let is_overtaken = match self.has_internal {
                true => behind.any(|name| matches!(name, "rewrite" | "return")),
                false => behind.any(|name| name == "return"),
            };
            let rule = rewrites::rule(directive, self.name);
            let is_whole = rule.as_ref().is_some_and(|rule| rule.is_whole);
            let is_break = directive.argument(2) == "break";
            let found = rule.and_then(|rule| base.after(rule.effect, is_overtaken, directive));
            // Without an upstream, a file of an internal location would be another one.
            let is_elsewhere = |route: &Route| is_break && !route.answers;
            let found = found.filter(|(route, _)| !is_elsewhere(route) || !self.has_internal);
            let (route, once) = found.unwrap_or_else(|| {
                closed(directive, report);
                (Route::closed(), String::new())
            });
            if is_elsewhere(&route) && !route.is_closed && rewrites::may_repeat(directive) {
                report.warn(directive, MAY_REPEAT, None);
            }
            let place = place_of_rule(directive, path, is_whole, &once);
            self.push(class, length, &place, route);
            if is_whole && once.is_empty() {
                return true;
            }
        }
        false
    }

    /// A `rewrite` of the server, which is in front of all locations.
    fn rewrite_of_server(&mut self, directive: &Directive, report: &mut Report) {
        let Some(rule) = rewrites::rule(directive, self.name) else {
            closed(directive, report);
            let place = place_of_rule(directive, ALL, false, "");
            return self.push(0, 0, &place, Route::closed());
        };
        let (keys, once, answers) = match rule.effect {
            Effect::Redirect(lines) => (lines, String::new(), true),
            Effect::Path { line, .. } => {
                if rewrites::may_repeat(directive) {
                    report.warn(directive, MAY_REPEAT, None);
                }
                (line, rewrites::applied_once(directive), false)
            }
        };
        let route = Route {
            keys,
            answers,
            ..Route::default()
        };
        let place = place_of_rule(directive, ALL, rule.is_whole, &once);
        self.push(0, 0, &place, route);
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
            // Read together, or with those of the server.
            name if is_setter(name) || is_real_ip(name) => {}
            "types" | "default_type" | "rewrite" | "break" => {}
            "fastcgi_index" | "fastcgi_split_path_info" => {}
            "root" => {
                let _ = writeln!(route.keys, "root = {}", quoted(text));
            }
            "alias" => alias(directive, place, route, report),
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
                    quoted(&route.default_type)
                );
            }
            Some(body) => {
                let kind = quoted(&route.default_type);
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
        "/" => ALL.to_owned(),
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
                Some((host, path)) => {
                    route.bare_target = Some(target_of_host(scheme, host));
                    let is_whole = kind.is_empty() && name.ends_with('/');
                    if !is_whole || !(path.is_empty() || path.ends_with('/')) {
                        return fail();
                    }
                    url.to_owned()
                }
                None => target_of_host(scheme, rest),
            }
        }
    };
    route.is_proxied = is_proxy;
    // With gRPC, the client's host is passed on as it is with programs.
    route.keeps_host |= kind_of_pass == "grpc";
    route.answers = true;
    let _ = writeln!(route.keys, "proxy = {}", quoted(&target));
}

/// A group's name, or an address.
fn target_of_host(scheme: &str, host: &str) -> String {
    match host.contains([':', '.']) || host == "localhost" {
        true => format!("{scheme}://{host}"),
        false => host.to_owned(),
    }
}

/// Another folder for a name, or another file. Saker's `alias` is for whole names of folders.
fn alias(
    directive: &Directive,
    (kind, name): (&str, &str),
    route: &mut Route,
    report: &mut Report,
) {
    let text = directive.argument(0);
    let folder = text.trim_end_matches('/');
    let (is_exact, is_prefix) = (kind == "=", matches!(kind, "" | "^~"));
    let key = match (name.ends_with('/'), text.ends_with('/')) {
        _ if text.contains('$') || name.contains('*') || folder.is_empty() => None,
        (true, true) if is_prefix && name == "/" => Some("root"),
        (true, true) if is_prefix => Some("alias"),
        (false, false) if is_exact => Some("alias"),
        (false, _) if is_prefix => {
            let message = format!(
                "`alias` is converted for `{name}/`: other names that begin with `{name}` are denied"
            );
            report.warn(directive, message, None);
            route.is_folder = true;
            Some("alias")
        }
        _ => None,
    };
    match key {
        Some(key) => {
            let _ = writeln!(route.keys, "{key} = {}", quoted(folder));
        }
        None => {
            route.is_closed = true;
            closed(directive, report);
        }
    }
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
