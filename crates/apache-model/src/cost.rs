//! The lines of a configuration that keep outcomes off the route cache, and those that make the
//! route cache ask conditions.
//!
//! Called by: `saker check --cost`.
//! Caveat: an estimate line by line. Whether a line matters for a request depends on the sections
//! in force; `saker explain` shows that.
//! Out of scope: content that programs and upstreams generate, which is never a cached route.

use crate::arguments::texts;
use saker_ap_expr::{Cost, RequestPart, expression_cost};
use saker_apache_syntax::Node;
use saker_config::model::Origin;
use saker_rewrite::{Map, condition_cost, rule_cost};
use std::collections::HashMap;

/// A line that is not free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostLine {
    pub origin: Origin,
    /// The directive with its arguments, as written.
    pub text: String,
    pub cost: Cost,
}

/// Returns the lines of a tree that are not free, in the order in which they were read.
pub fn cost_lines(nodes: &[Node]) -> Vec<CostLine> {
    let (mut maps, mut lines) = (HashMap::new(), Vec::new());
    find_maps(nodes, &mut maps);
    add(nodes, &maps, &mut lines);
    lines
}

fn find_maps(nodes: &[Node], maps: &mut HashMap<String, Map>) {
    for node in nodes {
        if node.is("RewriteMap")
            && let [name, source, ..] = texts(node).as_slice()
            && let Ok(map) = Map::declare(name, source, None, |path| Some(path.into()))
        {
            maps.insert(name.clone(), map);
        }
        find_maps(&node.children, maps);
    }
}

fn add(nodes: &[Node], maps: &HashMap<String, Map>, lines: &mut Vec<CostLine>) {
    for node in nodes {
        let cost = cost_of(node, maps);
        if cost != Cost::default() {
            let arguments = String::from_utf8_lossy(&node.text).into_owned();
            lines.push(CostLine {
                origin: node.origin.clone(),
                text: format!("{} {arguments}", node.name),
                cost,
            });
        }
        add(&node.children, maps, lines);
    }
}

fn cost_of(node: &Node, maps: &HashMap<String, Map>) -> Cost {
    let words = texts(node);
    let mut cost = Cost::default();
    match node.canonical_name() {
        "RewriteCond" => return condition_cost(node.argument_text(), maps),
        "RewriteRule" => return rule_cost(node.argument_text(), maps),
        "<If" | "<ElseIf" | "SSLRequire" => return expression_cost(node.argument_text()),
        "Require" => require(&words, &mut cost),
        "Allow" | "Deny" => words
            .iter()
            .skip(1)
            .for_each(|word| host_rule(word, &mut cost)),
        "SetEnvIf" | "SetEnvIfNoCase" => {
            if let Some(name) = words.first() {
                subject(name, &mut cost);
            }
        }
        "BrowserMatch" | "BrowserMatchNoCase" => field("user-agent", &mut cost),
        "SetEnvIfExpr" => {
            if let Some(text) = words.first() {
                return expression_cost(text.as_bytes());
            }
        }
        "Header" => {
            if words.iter().any(|word| word.starts_with("expr=")) {
                cost.dispatch("edits a field by an expression");
            }
        }
        name => {
            if let Some(reason) = plain_reason(name, &words) {
                cost.dispatch(reason);
            }
        }
    }
    cost
}

/// Directives that keep outcomes off the route cache wherever they are in force.
fn plain_reason(name: &str, words: &[String]) -> Option<&'static str> {
    let is_on = words
        .first()
        .is_some_and(|word| word.eq_ignore_ascii_case("on"));
    let has = |text: &str| {
        words
            .iter()
            .any(|word| word.trim_start_matches('+').eq_ignore_ascii_case(text))
    };
    Some(match name {
        "CookieTracking" if is_on => "sets a cookie for each client",
        "SecRuleEngine" if !has("off") => "ModSecurity inspects each request",
        "LogMessage" => "writes a line for each request",
        "RemoteIPHeader" => "replaces the client's address",
        "ForensicLog" => "writes a line before the response",
        "Options" if has("MultiViews") => "chooses between files by the request (MultiViews)",
        "CustomLog" if words.iter().any(|word| word.starts_with("expr=")) => {
            "logs by an expression"
        }
        "DOSPageCount" | "DOSSiteCount" => "counts requests",
        _ => return None,
    })
}

fn require(words: &[String], cost: &mut Cost) {
    let words = match words.first() {
        Some(first) if first.eq_ignore_ascii_case("not") => words.get(1..).unwrap_or_default(),
        _ => words,
    };
    let Some((kind, rest)) = words.split_first() else {
        return;
    };
    match &*kind.to_ascii_lowercase() {
        "all" | "env" | "method" => {}
        "ip" => cost.condition(RequestPart::ClientAddress),
        "local" => cost.dispatch("compares the addresses of client and server"),
        "host" | "forward-dns" => cost.dispatch("looks up the client's host name"),
        "expr" => cost.add(expression_cost(rest.join(" ").as_bytes())),
        _ => cost.dispatch("asks for credentials"),
    }
}

fn host_rule(word: &str, cost: &mut Cost) {
    let is_address = word
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':' | b'/'))
        && word
            .bytes()
            .any(|byte| byte.is_ascii_digit() || byte == b':');
    if word.eq_ignore_ascii_case("all") || word.to_ascii_lowercase().starts_with("env=") {
        return;
    }
    match is_address {
        true => cost.condition(RequestPart::ClientAddress),
        false => cost.dispatch("looks up the client's host name"),
    }
}

/// The subject of `SetEnvIf`.
fn subject(name: &str, cost: &mut Cost) {
    match &*name.to_ascii_lowercase() {
        "request_uri" => {}
        "remote_addr" => cost.condition(RequestPart::ClientAddress),
        "request_method" => cost.condition(RequestPart::Method),
        "request_protocol" => cost.condition(RequestPart::Version),
        "server_addr" => cost.condition(RequestPart::LocalAddress),
        "remote_host" => cost.dispatch("looks up the client's host name"),
        "remote_user" => cost.dispatch("reads the authenticated user"),
        other => field(other, cost),
    }
}

fn field(name: &str, cost: &mut Cost) {
    if let Some(part) = RequestPart::of_field(name.as_bytes()) {
        cost.condition(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_apache_syntax::{InMemory, Setup};

    /// Line numbers with what they cost.
    fn costs(text: &str) -> Vec<(u32, String)> {
        let files = InMemory::default().with("/etc/httpd.conf", text);
        let setup = Setup::new(
            std::path::Path::new("/etc"),
            std::path::Path::new("/etc/httpd.conf"),
        );
        let tree = saker_apache_syntax::load(&setup, &files).tree;
        cost_lines(&tree.nodes)
            .into_iter()
            .map(|line| {
                let parts = line.cost.conditions().iter().map(ToString::to_string);
                let all: Vec<String> = parts.chain(line.cost.reasons().iter().cloned()).collect();
                (line.origin.line, all.join("; "))
            })
            .collect()
    }

    #[test]
    fn lines() {
        let modules: String = ["authz_core", "authz_host", "rewrite", "setenvif", "headers"]
            .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
            .concat();
        let text = format!(
            "{modules}RewriteMap prog prg:/bin/map\n<Directory /srv>\n    Require all granted\n    Require not ip 192.0.2.0/24\n    \
             Require valid-user\n    RewriteEngine on\n    RewriteCond %{{HTTP_USER_AGENT}} bot\n    RewriteRule ^ - [F]\n    \
             RewriteRule ^(.*)$ ${{prog:$1}}\n    SetEnvIf Referer evil bad\n    Header set X-A b \"expr=%{{HTTPS}} == 'on'\"\n</Directory>\n"
        );
        let expected = [
            (9, "the client address"),
            (10, "asks for credentials"),
            (12, "the field `user-agent`"),
            (14, "asks the map `prog`, a program (`prg:`)"),
            (15, "the field `referer`"),
            (16, "edits a field by an expression"),
        ];
        let expected: Vec<(u32, String)> = expected
            .into_iter()
            .map(|(line, text)| (line, text.to_owned()))
            .collect();
        assert_eq!(costs(&text), expected);
    }
}
