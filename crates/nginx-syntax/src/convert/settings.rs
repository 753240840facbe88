//! Settings that sites and routes share: access, fields, error pages, sizes.
//!
//! Called by: `servers`, and `locations`.
//! Caveat: nginx's first rule of access decides; here `allow` overrides `deny`. Lists that mean
//! something else are denied.

use super::{
    reported::{closed, left_out},
    text::{list_line, quoted, template},
};
use crate::{Report, tree::Directive};
use std::fmt::Write as _;

/// Networks of all clients.
const EVERYONE: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// Settings that sites and routes share, converted.
#[derive(Default)]
pub struct Settings {
    pub keys: String,
    headers: Vec<String>,
    error_pages: Vec<String>,
    access: Option<Access>,
    auth: Auth,
    /// Those of the server, for a location.
    outer: Option<Outer>,
    pub is_closed: bool,
}

/// Settings of a server that decide what the same settings of a location mean.
#[derive(Clone, Debug, Default)]
pub struct Outer {
    auth: Auth,
    has_access: bool,
}

/// Password protection, which needs both of its directives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Auth {
    realm: Option<String>,
    user_file: Option<String>,
}

impl Auth {
    fn read(&mut self, directive: &Directive) {
        let text = directive.argument(0);
        match directive.name() {
            "auth_basic" => self.realm = Some(text.to_owned()).filter(|realm| realm != "off"),
            "auth_basic_user_file" => self.user_file = Some(text.to_owned()),
            _ => {}
        }
    }

    fn pair(&self) -> Option<(&str, &str)> {
        Some((self.realm.as_deref()?, self.user_file.as_deref()?))
    }
}

impl Outer {
    /// The settings of a server.
    pub fn of(all: &[&Directive]) -> Outer {
        let mut outer = Outer::default();
        for directive in all {
            outer.auth.read(directive);
            outer.has_access |= matches!(directive.name(), "allow" | "deny");
        }
        outer
    }
}

impl Settings {
    /// Settings of a location in a server.
    pub fn inside(outer: &Outer) -> Settings {
        Settings {
            auth: outer.auth.clone(),
            outer: Some(outer.clone()),
            ..Settings::default()
        }
    }

    /// Reads the settings among some directives.
    pub fn read(&mut self, all: &[&Directive], name: Option<&str>, report: &mut Report) {
        let is_access = |directive: &&&Directive| matches!(directive.name(), "allow" | "deny");
        let access: Vec<&Directive> = all.iter().filter(is_access).copied().collect();
        self.access(&access, report);
        for directive in all {
            let text = directive.argument(0);
            match directive.name() {
                "autoindex" => {
                    let _ = writeln!(self.keys, "listing = {}", text == "on");
                }
                "client_max_body_size" => match text {
                    "0" => self.keys.push_str("body_size = 0\n"),
                    _ => match size(text) {
                        Some(size) => {
                            let _ = writeln!(self.keys, "body_size = {}", quoted(&size));
                        }
                        None => left_out(directive, report),
                    },
                },
                "add_header" => match template(directive.argument(1), name) {
                    Some(value) if directive.argument(0) != "Set-Cookie" => {
                        self.headers.push(field_line(directive, &value));
                    }
                    _ => left_out(directive, report),
                },
                "expires" => match seconds(text) {
                    Some(seconds) => self
                        .headers
                        .push(format!("Cache-Control = \"max-age={seconds}\"")),
                    None if text == "off" => {}
                    None => left_out(directive, report),
                },
                "error_page" => self.error_page(directive, report),
                "auth_basic" | "auth_basic_user_file" => {
                    self.auth.read(directive);
                    if text.contains('$') {
                        self.is_closed = true;
                        closed(directive, report);
                    }
                }
                _ => {}
            }
        }
    }

    /// Sets the type of all files.
    pub fn set_type(&mut self, kind: &str) {
        self.headers
            .push(format!("Content-Type = {}", quoted(kind)));
    }

    fn access(&mut self, rules: &[&Directive], report: &mut Report) {
        let Some(last) = rules.last() else {
            return;
        };
        match Access::of(rules) {
            Some(mut access) => {
                // A location may open again what a server closes.
                match self.outer {
                    None if access.is_closed => access.denied = EVERYONE.map(str::to_owned).into(),
                    _ => self.is_closed |= access.is_closed,
                }
                self.access = Some(access);
            }
            None => {
                self.is_closed = true;
                closed(last, report);
            }
        }
    }

    fn error_page(&mut self, directive: &Directive, report: &mut Report) {
        let texts: Vec<&str> = directive.texts().collect();
        let Some((page, statuses)) = texts.split_last() else {
            return;
        };
        let is_plain = page.starts_with('/') && !page.contains('$');
        let is_status = |status: &&str| status.parse::<u16>().is_ok();
        if !is_plain || !statuses.iter().all(is_status) {
            return left_out(directive, report);
        }
        let pages = statuses
            .iter()
            .map(|status| format!("{status} = {}", quoted(page)));
        self.error_pages.extend(pages);
    }

    /// Tables below a name.
    pub fn tables(&self, table: &str) -> String {
        let mut out = String::new();
        let outer = self.outer.clone().unwrap_or_default();
        // Lists replace those of the server, here one by one.
        let lines = self.access.as_ref().map(|access| match outer.has_access {
            true => access.all_lines(),
            false => access.lines(),
        });
        if let Some(lines) = lines.filter(|lines| !lines.is_empty()) {
            let _ = write!(out, "[{table}.access]\n{lines}");
        }
        let is_inherited = self.outer.is_some() && self.auth == outer.auth;
        match self.auth.pair() {
            _ if is_inherited => {}
            Some((realm, file)) => {
                let (realm, file) = (quoted(realm), quoted(file));
                let _ = writeln!(out, "[{table}.auth]\nrealm = {realm}\nuser_file = {file}");
            }
            None if outer.auth.pair().is_some() => {
                let _ = writeln!(out, "[{table}.auth]\nenabled = false");
            }
            None => {}
        }
        out
    }

    /// Keys with inline tables.
    pub fn inline(&self) -> String {
        let mut out = self.keys.clone();
        if !self.headers.is_empty() {
            let _ = writeln!(out, "headers = {{ {} }}", self.headers.join(", "));
        }
        if !self.error_pages.is_empty() {
            let _ = writeln!(out, "error_pages = {{ {} }}", self.error_pages.join(", "));
        }
        out
    }
}

/// Rules of access as two lists.
#[derive(Debug, Default)]
pub struct Access {
    pub allowed: Vec<String>,
    pub denied: Vec<String>,
    /// `deny all` alone.
    pub is_closed: bool,
}

impl Access {
    /// nginx's first match wins; here `allow` overrides `deny`. Both say the same if all that is
    /// allowed comes first, and the rest is denied. `None`: they say something else.
    pub fn of(rules: &[&Directive]) -> Option<Access> {
        let (last, before) = rules.split_last()?;
        if rules.iter().any(|rule| rule.argument(0) == "unix:") {
            return None;
        }
        let is_all = |rule: &&Directive| rule.argument(0) == "all";
        let ends = last.name() == "deny" && is_all(last);
        let allows = before
            .iter()
            .all(|rule| rule.name() == "allow" && !is_all(rule));
        let denies = |rules: &[&Directive]| {
            rules
                .iter()
                .all(|rule| rule.name() == "deny" && !is_all(rule))
        };
        let open = last.name() == "allow" && is_all(last);
        let texts = |rules: &[&Directive]| -> Vec<String> {
            rules
                .iter()
                .map(|rule| rule.argument(0).to_owned())
                .collect()
        };
        let mut access = Access::default();
        if ends && allows {
            access.allowed = texts(before);
            access.is_closed = before.is_empty();
        } else if denies(rules) {
            access.denied = texts(rules);
        } else if open && denies(before) {
            access.denied = texts(before);
        } else {
            return None;
        }
        Some(access)
    }

    /// The lines of a table.
    pub fn lines(&self) -> String {
        self.written(|list| !list.is_empty())
    }

    /// The lines of a table that replaces another one: with empty lists.
    fn all_lines(&self) -> String {
        self.written(|_| true)
    }

    fn written(&self, is_wanted: impl Fn(&[String]) -> bool) -> String {
        let all = [("allow", &self.allowed), ("deny", &self.denied)];
        all.iter()
            .filter(|(_, list)| is_wanted(list))
            .map(|(key, list)| list_line(key, list.iter().map(String::as_str)))
            .collect()
    }
}

/// A size in the units of saker.toml.
pub fn size(text: &str) -> Option<String> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let unit = match text.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "" => "B",
        "k" => "KiB",
        "m" => "MiB",
        "g" => "GiB",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

/// A duration in the units of saker.toml. nginx's `M` and `y` are lifetimes, which no timeout has.
pub fn duration(text: &str) -> Option<String> {
    if let Some(ms) = text.strip_suffix("ms") {
        return Some(format!("{}ms", ms.parse::<u64>().ok()?));
    }
    Some(format!("{}s", seconds(text)?))
}

/// Seconds of a lifetime.
fn seconds(text: &str) -> Option<u64> {
    if text == "max" {
        return Some(315_360_000);
    }
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let factor = match text.get(digits.len()..)? {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        "M" => 2_592_000,
        "y" => 31_536_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// A field with its value, sent whatever the status where nginx says `always`.
fn field_line(directive: &Directive, value: &str) -> String {
    let name = quoted(directive.argument(0));
    let value = quoted(value);
    match directive.argument(2) {
        "always" => format!("{name} = {{ set = {value}, always = true }}"),
        _ => format!("{name} = {value}"),
    }
}

/// True for names of settings that sites and routes share.
pub fn is_route_setting(name: &str) -> bool {
    matches!(
        name,
        "autoindex"
            | "add_header"
            | "expires"
            | "error_page"
            | "client_max_body_size"
            | "allow"
            | "deny"
            | "auth_basic"
            | "auth_basic_user_file"
    )
}
