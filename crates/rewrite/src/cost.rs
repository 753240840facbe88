//! The cost of rules by what they read: whether their outcomes can be cached, and on which
//! conditions.
//!
//! Called by: `saker check --cost`, through front ends.
//! Caveat: an estimate from the text of one line. What a request really depends on is recorded
//! while rules run ([`crate::Outcome::dependencies`]).
//! Out of scope: expressions, whose text [`saker_ap_expr::expression_cost`] looks at.

use crate::{
    Map, MapSource, Place,
    condition::{Condition, Test},
    rule::Rule,
    template::{Lookup, Part, Template},
};
use saker_ap_expr::{RequestPart, expression_cost};
use std::collections::HashMap;

pub use saker_ap_expr::Cost;

/// Returns the cost of a `RewriteCond`. Lines with errors cost nothing.
pub fn condition_cost(line: &[u8], maps: &HashMap<String, Map>) -> Cost {
    let Ok((condition, _)) = Condition::compile(line, Place::Htaccess) else {
        return Cost::default();
    };
    let mut cost = Cost::default();
    match condition.test {
        Test::Uri => cost.dispatch("makes a subrequest (`-U`)"),
        Test::FileAccess => cost.dispatch("makes a subrequest (`-F`)"),
        Test::Expression(_) => cost.add(expression_cost(&condition.text)),
        _ => {}
    }
    if !matches!(condition.test, Test::Expression(_)) {
        template(&condition.input, maps, &mut cost);
    }
    cost
}

/// Returns the cost of a `RewriteRule`, without its conditions.
pub fn rule_cost(line: &[u8], maps: &HashMap<String, Map>) -> Cost {
    let Ok(rule) = Rule::compile(line, Vec::new()) else {
        return Cost::default();
    };
    let mut cost = Cost::default();
    let flags = &rule.flags;
    if flags.proxy {
        // What an upstream answers is never a cached route.
        return cost;
    }
    if !flags.cookies.is_empty() {
        cost.dispatch("sets a cookie (`[CO]`)");
    }
    if flags.redirect && !flags.query_discard && !flags.query_none || flags.query_append {
        cost.condition(RequestPart::Query);
    }
    let optional = flags.handler.iter().chain(&flags.mime_type);
    for text in flags.environment.iter().chain(optional) {
        template(text, maps, &mut cost);
    }
    template(&rule.substitution, maps, &mut cost);
    cost
}

fn template(text: &Template, maps: &HashMap<String, Map>, cost: &mut Cost) {
    for part in &text.parts {
        match part {
            Part::Variable(of) => lookup(of, cost),
            Part::Map { name, key, default } => {
                if let Some(reason) = maps.get(name).and_then(map_reason) {
                    cost.dispatch(&format!("asks the map `{name}`, {reason}"));
                }
                template(key, maps, cost);
                template(default, maps, cost);
            }
            Part::Literal(_) | Part::Escaped(_) | Part::RuleGroup(_) | Part::ConditionGroup(_) => {}
        }
    }
}

fn lookup(of: &Lookup, cost: &mut Cost) {
    match of {
        Lookup::Nothing => {}
        // Tests that set variables are lines of their own.
        Lookup::Environment(_) => {}
        Lookup::Variable(variable) => cost.variable(*variable),
        Lookup::RequestField(name) => {
            if let Some(part) = RequestPart::of_field(name) {
                cost.condition(part);
            }
        }
        Lookup::Tls(name) => cost.dispatch(&format!(
            "reads the TLS variable `{}`",
            String::from_utf8_lossy(name)
        )),
        Lookup::LookAhead { by_file, name, .. } => cost.dispatch(&format!(
            "looks ahead with a subrequest (`{}:{}`)",
            if *by_file { "LA-F" } else { "LA-U" },
            String::from_utf8_lossy(name)
        )),
    }
}

/// Why values of a map are not cached.
fn map_reason(map: &Map) -> Option<&'static str> {
    Some(match map.source {
        MapSource::Internal(_) => return None,
        MapSource::Program { .. } => "a program (`prg:`)",
        MapSource::Random(_) => "whose values are chosen by chance (`rnd:`)",
        MapSource::Dbd { .. } => "a database (`dbd:`)",
        MapSource::Text(_) => "a file (`txt:`)",
        MapSource::Dbm { .. } => "a file (`dbm:`)",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(line: &str) -> (Vec<String>, Vec<String>) {
        shown(condition_cost(line.as_bytes(), &maps()))
    }

    fn rule(line: &str) -> (Vec<String>, Vec<String>) {
        shown(rule_cost(line.as_bytes(), &maps()))
    }

    fn shown(cost: Cost) -> (Vec<String>, Vec<String>) {
        let parts = cost.conditions().iter().map(ToString::to_string).collect();
        (parts, cost.reasons().to_vec())
    }

    fn maps() -> HashMap<String, Map> {
        [("prog", "prg:/bin/map"), ("low", "int:tolower")]
            .into_iter()
            .map(|(name, source)| {
                let map = Map::declare(name, source, None, |path| Some(path.into())).unwrap();
                (name.to_owned(), map)
            })
            .collect()
    }

    fn none() -> Vec<String> {
        Vec::new()
    }

    #[test]
    fn conditions() {
        let part = |text: &str| (vec![text.to_owned()], none());
        assert_eq!(
            condition("%{HTTP_USER_AGENT} bot [NC]"),
            part("the field `user-agent`")
        );
        assert_eq!(condition("%{QUERY_STRING} !^$"), part("the query"));
        assert_eq!(condition("%{HTTPS} off"), part("the scheme"));
        assert_eq!(
            condition("%{REQUEST_FILENAME} !-f"),
            (none(), none()),
            "files are watched"
        );
        assert_eq!(condition("%{HTTP_HOST} ^www\\."), (none(), none()));
        assert_eq!(
            condition("%{DOCUMENT_ROOT}/cache/%{QUERY_STRING}.html -f"),
            part("the query")
        );
        let reason = |text: &str| (none(), vec![text.to_owned()]);
        assert_eq!(condition("%{TIME_HOUR} >8"), reason("reads the time"));
        assert_eq!(
            condition("%{LA-U:REMOTE_USER} ^admin$"),
            reason("looks ahead with a subrequest (`LA-U:REMOTE_USER`)")
        );
        assert_eq!(condition("/x -U"), reason("makes a subrequest (`-U`)"));
        assert_eq!(
            condition("${prog:$1} x"),
            reason("asks the map `prog`, a program (`prg:`)")
        );
        assert_eq!(condition("${low:$1} x"), (none(), none()));
    }

    #[test]
    fn rules() {
        let query = || (vec!["the query".to_owned()], none());
        assert_eq!(rule("^a$ /b"), (none(), none()));
        assert_eq!(rule("^a$ /b [R=301]"), query());
        assert_eq!(rule("^a$ /b? [R=301]"), (none(), none()));
        assert_eq!(rule("^a$ /b?x [QSA]"), query());
        assert_eq!(
            rule("^ - [CO=a:b:.example.com]"),
            (none(), vec!["sets a cookie (`[CO]`)".to_owned()])
        );
        assert_eq!(
            rule("^ - [E=x:%{SSL:SSL_CLIENT_S_DN}]").1,
            ["reads the TLS variable `SSL_CLIENT_S_DN`"]
        );
    }
}
