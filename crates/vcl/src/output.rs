//! The `saker.toml` that a conversion collects, and its text.
//!
//! Called by: `convert`, which fills it.
//! Caveat: texts come from a file of another program; each is quoted as TOML wants.
//! Out of scope: what VCL means.

use crate::conditions::EVERY_REQUEST;
use std::fmt::Write as _;

/// Edits of fields by name: a value, or `None` to remove it.
pub type FieldEdits = Vec<(String, Option<String>)>;

#[derive(Clone, Debug, Default)]
pub struct Output {
    pub upstreams: Vec<(String, Vec<String>, Option<String>)>,
    pub purgers: Vec<String>,
    /// Paths with upstreams of their own, in order.
    pub routes: Vec<(String, String)>,
    pub default_upstream: Option<String>,
    pub excluded: Vec<String>,
    pub ignored_parameters: Vec<String>,
    pub session_cookies: Option<Vec<String>>,
    pub ignored_cookies: Vec<String>,
    pub vary_cookies: Vec<String>,
    pub key_headers: Vec<String>,
    pub bypasses_cookies: bool,
    /// Responses with Set-Cookie are not stored, whatever else they say.
    pub refuses_set_cookie: bool,
    pub ttl: Option<String>,
    pub status_ttls: Vec<(String, String)>,
    pub grace: Option<String>,
    pub result_header: Option<String>,
    /// Response fields: the value, or `None` to remove it.
    pub headers: FieldEdits,
    /// The same for fields that upstreams get.
    pub upstream_headers: FieldEdits,
    /// The same for responses from the cache and past it, which the cache does not see.
    pub delivered_headers: FieldEdits,
    /// Expressions for requests that bypass the cache.
    pub bypasses: Vec<String>,
    /// Expressions, and response fields for requests that they are true for.
    pub conditional_headers: Vec<(String, FieldEdits)>,
}

/// Adds to a list what it does not have.
pub fn add(list: &mut Vec<String>, value: impl Into<String>) {
    let value = value.into();
    if !list.contains(&value) {
        list.push(value);
    }
}

/// Sets a field; the last word counts.
pub fn set(list: &mut FieldEdits, name: &str, value: Option<String>) {
    list.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    list.push((name.to_owned(), value));
}

impl Output {
    pub fn to_toml(&self) -> String {
        let mut text = String::from(
            "# Converted from VCL. Where Varnish listened, and the names of the site, are yours to set.\n\
             [[listener]]\naddress = \"127.0.0.1:8080\"\n",
        );
        // Without a rule for PURGE, no client may purge.
        let _ = write!(text, "\n[cache]\npurge_from = {}\n", list(&self.purgers));
        for (name, servers, health_path) in &self.upstreams {
            let name = quoted(name);
            let _ = write!(
                text,
                "\n[[upstream]]\nname = {name}\nservers = {}\n",
                list(servers)
            );
            if let Some(path) = health_path {
                let _ = writeln!(text, "health_path = {}", quoted(path));
            }
        }
        text.push_str("\n[[site]]\nnames = [\"*\"]\n");
        fields(&mut text, "headers", &self.headers);
        fields(&mut text, "upstream_headers", &self.upstream_headers);
        self.cache(&mut text);
        self.conditions(&mut text);
        let default = self.default_upstream.iter().map(|name| ("/*", name));
        let routes = self.routes.iter().map(|(path, name)| (path.as_str(), name));
        for (path, upstream) in routes.chain(default) {
            let (path, upstream) = (quoted(path), quoted(upstream));
            let _ = write!(
                text,
                "\n[[site.route]]\npath = {path}\nproxy = {upstream}\npreserve_host = true\n"
            );
        }
        text
    }

    fn conditions(&self, text: &mut String) {
        for expression in &self.bypasses {
            condition(text, expression);
            text.push_str("cache = false\n");
        }
        // Behind the cache, which sees what upstreams say.
        let always = (!self.delivered_headers.is_empty())
            .then(|| (EVERY_REQUEST.to_owned(), self.delivered_headers.clone()));
        for (expression, edits) in always.iter().chain(&self.conditional_headers) {
            condition(text, expression);
            fields(text, "headers", edits);
        }
    }

    fn cache(&self, text: &mut String) {
        text.push_str("\n[site.cache]\nenabled = true\n");
        let mut line = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = writeln!(text, "{name} = {value}");
            }
        };
        let some = |values: &Vec<String>| (!values.is_empty()).then(|| list(values));
        line("ttl", self.ttl.as_deref().map(quoted));
        if !self.status_ttls.is_empty() {
            let each: Vec<String> = self
                .status_ttls
                .iter()
                .map(|(status, ttl)| format!("{status} = {}", quoted(ttl)))
                .collect();
            line("status_ttl", Some(format!("{{ {} }}", each.join(", "))));
        }
        // Varnish's own default.
        line(
            "grace",
            Some(quoted(self.grace.as_deref().unwrap_or("10s"))),
        );
        line("exclude", some(&self.excluded));
        line("ignore_parameters", some(&self.ignored_parameters));
        line(
            "session_cookies",
            self.session_cookies.as_ref().map(|names| list(names)),
        );
        line("ignore_cookies", some(&self.ignored_cookies));
        line(
            "with_cookies",
            self.bypasses_cookies.then(|| "false".to_owned()),
        );
        line(
            "with_set_cookie",
            self.refuses_set_cookie.then(|| "false".to_owned()),
        );
        line("vary_cookies", some(&self.vary_cookies));
        line("key_headers", some(&self.key_headers));
        line("result_header", self.result_header.as_deref().map(quoted));
    }
}

fn condition(text: &mut String, expression: &str) {
    let expression = quoted(expression);
    let _ = write!(
        text,
        "\n[[site.when]]\nmatch = {{ expression = {expression} }}\n"
    );
}

/// Edits of fields. Those of responses are made whatever the status is.
fn fields(text: &mut String, name: &str, fields: &[(String, Option<String>)]) {
    if fields.is_empty() {
        return;
    }
    let is_of_responses = name == "headers";
    let each: Vec<String> = fields
        .iter()
        .map(|(name, value)| {
            let edit = match (value, is_of_responses) {
                (Some(value), true) => format!("{{ set = {}, always = true }}", quoted(value)),
                (Some(value), false) => quoted(value),
                (None, true) => "{ remove = true, always = true }".to_owned(),
                (None, false) => "{ remove = true }".to_owned(),
            };
            format!("{} = {edit}", quoted(name))
        })
        .collect();
    let _ = writeln!(text, "{name} = {{ {} }}", each.join(", "));
}

fn list(values: &[String]) -> String {
    let each: Vec<String> = values.iter().map(|value| quoted(value)).collect();
    format!("[{}]", each.join(", "))
}

/// A basic string of TOML. A dollar would begin a variable where templates are read.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            letter if letter.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}
