//! `vcl_recv` and `vcl_hash`: which requests bypass the cache, which may purge, where they go, and
//! what tells pages apart.
//!
//! Called by: `convert`.
//! Caveat: a bypass may be converted to one that is wider, never to one that is narrower.
//! Out of scope: responses (`respond`).

use crate::{
    conditions::{self, EVERY_REQUEST, HAS_CREDENTIALS},
    converter::{Converter, refuses, unsupported},
    output::{add, set},
    patterns::{cookie_name, is_tracking, is_trimming, literals, parameter_names, session_cookies},
    syntax::{Expression, Place, Statement, StatementKind},
};

/// Fields that Saker sets for upstreams by itself.
const OWN_FIELDS: [&str; 4] = [
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];

/// Fields of any client, which are often taken away so that more requests share a page.
const OF_CLIENTS: [&str; 9] = [
    "authorization",
    "cache-control",
    "cookie",
    "dnt",
    "pragma",
    "range",
    "referer",
    "save-data",
    "user-agent",
];

pub fn receive(converter: &mut Converter<'_>, statements: &[Statement]) {
    for statement in statements {
        match &statement.kind {
            StatementKind::If(branches) => condition(converter, statement, branches),
            StatementKind::Set { name, value } => assigned(converter, statement, name, value),
            StatementKind::Unset(name) => removed(converter, statement, name),
            StatementKind::Return(action, _)
                if matches!(action.as_str(), "hash" | "lookup" | "") => {}
            StatementKind::Return(action, _) if action == "pass" => {
                let help = "no request is answered from the cache: leave [site.cache] out";
                converter.warn(statement.place, "all requests bypass the cache", help);
                add(&mut converter.out.bypasses, EVERY_REQUEST);
            }
            StatementKind::Expression(Expression::Function(name, _))
                if name.starts_with("std.collect") || name.starts_with("std.log") => {}
            _ => unsupported(converter, statement, ""),
        }
    }
}

type Branches = [(Option<Expression>, Vec<Statement>)];

fn condition(converter: &mut Converter<'_>, statement: &Statement, branches: &Branches) {
    for (condition, body) in branches {
        let Some(condition) = condition else {
            // The requests that no other branch is about.
            receive(converter, body);
            continue;
        };
        converter.has_left |= body.iter().any(leaves);
        let is_converted = is_purge(converter, condition, body)
            || is_implied(converter, condition, body)
            || is_own_field_removal(converter, condition, body)
            || has_own_fields_only(body)
            || is_empty_cookie(condition, body)
            || is_bypass(converter, condition, body)
            || is_url_edit(converter, condition, body)
            || is_cookie_edit(converter, body)
            || has_content_codings_only(body)
            || is_conditional_bypass(converter, condition, body)
            || is_backend_choice(converter, condition, body, statement.place);
        if is_converted {
            continue;
        }
        // Here, no request is started again.
        let is_of_restarted = matches!(condition, Expression::Binary(">", left, right)
            if left.name() == Some("req.restarts") && right.is_zero());
        if is_of_restarted && matches!(body.as_slice(), [one] if is_pass(one)) {
            continue;
        }
        let is_about_restarts = mentions(condition, "req.restarts");
        match is_about_restarts {
            true => receive(converter, body),
            false if body.iter().any(strips) => converter.refuse(
                statement.place,
                "the removal of a field in this condition can't be converted",
                "programs would get the client's field: see `upstream_headers`",
            ),
            false => unsupported(converter, statement, "see `[[site.when]]` and routes"),
        }
        if !is_about_restarts {
            return;
        }
    }
}

fn is_pass(statement: &Statement) -> bool {
    matches!(&statement.kind, StatementKind::Return(action, _) if action == "pass")
}

/// True if a request that gets to a statement, or one inside of it, may go on to its application: what
/// follows is not about it.
fn leaves(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Return(action, _) => {
            matches!(action.as_str(), "pass" | "pipe" | "hash" | "lookup")
        }
        StatementKind::If(branches) => branches.iter().any(|(_, body)| body.iter().any(leaves)),
        _ => false,
    }
}

/// `if (req.method == "PURGE") { if (client.ip !~ purge) { return (synth(405)); } return (purge); }`
fn is_purge(converter: &mut Converter<'_>, condition: &Expression, body: &[Statement]) -> bool {
    let is_method = condition.chain("||").iter().all(|part| {
        matches!(part, Expression::Binary("==", left, right)
            if is_method_name(left)
                && matches!(right.text(), Some("PURGE" | "BAN" | "REFRESH" | "PURGEALL" | "URIBAN")))
    });
    if !is_method {
        return false;
    }
    let mut has_list = false;
    for statement in body {
        let StatementKind::If(branches) = &statement.kind else {
            continue;
        };
        for (at, (condition, inner)) in branches.iter().enumerate() {
            let condition = condition.as_ref();
            if !inner.iter().any(denies) {
                continue;
            }
            match condition.and_then(unlisted).filter(|_| at == 0) {
                Some(name) => {
                    has_list = true;
                    purgers(converter, name, statement.place);
                }
                None if condition.is_some_and(lacks_fields) && inner.iter().all(is_bad_request) => {
                }
                None => {
                    let place = inner.first().map_or(statement.place, |inner| inner.place);
                    converter.refuse(
                        place,
                        "this condition of purging can't be converted",
                        "clients of `purge_from` may purge without it: shorten the list, or refuse \
                         them by a route",
                    );
                }
            }
        }
    }
    if !has_list {
        let place = body
            .first()
            .map_or_else(Place::default, |statement| statement.place);
        converter.refuse(
            place,
            "purging without a list of addresses can't be converted",
            "name the addresses in `purge_from` of [cache]",
        );
    }
    true
}

/// True if a statement, or one inside of it, refuses a request. `synth(200)` is what a purge is
/// answered with.
fn denies(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Return(_, arguments) => {
            let is_success = matches!(arguments.first(), Some(Expression::Number(status)) if status.starts_with('2'));
            refuses(statement) && !is_success
        }
        StatementKind::If(branches) => branches.iter().any(|(_, body)| body.iter().any(denies)),
        _ => refuses(statement),
    }
}

/// True for requests without some fields: a form of request, and no right that others lack.
fn lacks_fields(condition: &Expression) -> bool {
    condition.chain("&&").iter().all(|part| {
        matches!(part, Expression::Not(inner)
            if inner.name().is_some_and(|name| name.starts_with("req.http.")))
    })
}

fn is_bad_request(statement: &Statement) -> bool {
    matches!(&statement.kind, StatementKind::Return(_, arguments)
        if matches!(arguments.first(), Some(Expression::Number(status)) if status == "400"))
}

fn is_method_name(expression: &Expression) -> bool {
    matches!(expression.name(), Some("req.method" | "req.request"))
}

/// The name of the list in `client.ip !~ list` or `!(client.ip ~ list)`.
fn unlisted(condition: &Expression) -> Option<&str> {
    let list = |left: &Expression, right: &Expression| {
        matches!(left.name(), Some("client.ip" | "std.ip")).then_some(())?;
        right.name().map(str::len)?;
        Some(())
    };
    match condition {
        Expression::Binary("!~", left, right) => list(left, right).and_then(|()| right.name()),
        Expression::Not(inner) => match &**inner {
            Expression::Binary("~", left, right) => list(left, right).and_then(|()| right.name()),
            _ => None,
        },
        _ => None,
    }
}

fn purgers(converter: &mut Converter<'_>, name: &str, place: Place) {
    let file = converter.file;
    let Some(acl) = file.acls.iter().find(|acl| acl.name == name) else {
        let what = format!("there is no list `{name}`");
        return converter.refuse(place, what, "name the addresses in `purge_from` of [cache]");
    };
    for entry in &acl.entries {
        let is_address = entry.address.parse::<std::net::IpAddr>().is_ok();
        let of_entry = match (&entry.prefix, is_address) {
            (None, false) if entry.address == "localhost" => {
                vec!["127.0.0.1".to_owned(), "::1".to_owned()]
            }
            (Some(bits), true) => vec![format!("{}/{bits}", entry.address)],
            (None, true) => vec![entry.address.clone()],
            _ => Vec::new(),
        };
        if entry.is_excluded || of_entry.is_empty() {
            let what = format!(
                "the entry `{}` of `{name}` can't be converted",
                entry.address
            );
            converter.refuse(
                entry.place,
                what,
                "`purge_from` takes addresses and networks",
            );
            continue;
        }
        of_entry
            .into_iter()
            .for_each(|address| add(&mut converter.out.purgers, address));
    }
}

/// Methods that are no GET and HEAD, and upgrades bypass the cache by themselves. Credentials do where
/// responses say nothing to the contrary, so that requests with them are named beside.
fn is_implied(converter: &mut Converter<'_>, condition: &Expression, body: &[Statement]) -> bool {
    let leaves = body.iter().all(|statement| {
        matches!(&statement.kind, StatementKind::Return(action, _) if matches!(action.as_str(), "pass" | "pipe"))
    });
    let parts = condition.chain("&&");
    let other_than = |part: &&Expression, method: Option<&str>| {
        matches!(part, Expression::Binary("!=", left, right)
            if is_method_name(left) && right.text().is_some_and(|text| method.is_none_or(|method| text == method)))
    };
    let of_methods = parts.iter().all(|part| other_than(part, None))
        && parts.iter().any(|part| other_than(part, Some("GET")));
    let is_field = |part: &Expression, field: &str| {
        part.name()
            .is_some_and(|name| name.eq_ignore_ascii_case(field))
    };
    let is_about = |part: &Expression| {
        is_field(part, "req.http.Authorization")
            || is_field(part, "req.http.Upgrade")
            || matches!(part, Expression::Binary("~" | "==", left, _) if is_field(left, "req.http.Upgrade"))
            || matches!(part, Expression::Binary("==", left, right)
                if is_method_name(left) && right.text().is_some_and(|method| method != "GET" && method != "HEAD"))
    };
    let any = condition.chain("||");
    if !leaves || !of_methods && !any.iter().all(|part| is_about(part)) {
        return false;
    }
    if any
        .iter()
        .any(|part| is_field(part, "req.http.Authorization"))
    {
        add(&mut converter.out.bypasses, HAS_CREDENTIALS);
    }
    true
}

/// `if (req.http.X) { unset req.http.X; }`: as without the condition.
fn is_own_field_removal(
    converter: &mut Converter<'_>,
    condition: &Expression,
    body: &[Statement],
) -> bool {
    let is_removal = |statement: &Statement| {
        matches!(&statement.kind, StatementKind::Unset(name)
            if condition.name().is_some_and(|own| own.eq_ignore_ascii_case(name))
                && !name.eq_ignore_ascii_case("req.http.Cookie"))
    };
    if body.is_empty() || !body.iter().all(is_removal) {
        return false;
    }
    receive(converter, body);
    true
}

/// True if a statement, or one inside of it, takes a field away that a program may trust: not one
/// that any client sends about itself.
fn strips(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Unset(name) => name.strip_prefix("req.http.").is_some_and(|field| {
            let field = field.to_ascii_lowercase();
            let is_of_client = OF_CLIENTS.contains(&field.as_str())
                || field.starts_with("accept")
                || field.starts_with("if-");
            !is_of_client && !is_own_field(&field)
        }),
        StatementKind::If(branches) => branches.iter().any(|(_, body)| body.iter().any(strips)),
        _ => false,
    }
}

/// Fields about the client, which Saker sets in any case.
fn has_own_fields_only(body: &[Statement]) -> bool {
    let is_own = |statement: &Statement| {
        matches!(&statement.kind, StatementKind::Set { name, .. }
            if name.strip_prefix("req.http.").is_some_and(is_own_field))
    };
    !body.is_empty() && body.iter().all(is_own)
}

fn is_own_field(field: &str) -> bool {
    OWN_FIELDS.contains(&field.to_ascii_lowercase().as_str())
}

/// `if (req.http.Cookie ~ "^\s*$") { unset req.http.Cookie; }`: an empty field is as good as none.
fn is_empty_cookie(condition: &Expression, body: &[Statement]) -> bool {
    let is_cookie = |name: &str| name.eq_ignore_ascii_case("req.http.Cookie");
    let is_empty = matches!(condition, Expression::Binary("~" | "==", left, right)
        if left.name().is_some_and(is_cookie)
            && matches!(right.text(), Some("" | r"^\s*$" | "^ *$" | r"^\s+$")));
    let removes = |statement: &Statement| matches!(&statement.kind, StatementKind::Unset(name) if is_cookie(name));
    is_empty && body.iter().all(removes)
}

/// `if (req.url ~ "^/cart|/checkout" || req.http.Cookie ~ "session") { return (pass); }`
fn is_bypass(converter: &mut Converter<'_>, condition: &Expression, body: &[Statement]) -> bool {
    let is_pass = matches!(body, [Statement { kind: StatementKind::Return(action, _), .. }] if action == "pass");
    if !is_pass {
        return false;
    }
    let mut paths = Vec::new();
    let (mut cookies, mut all_cookies, mut credentials) = (Vec::new(), false, false);
    for part in condition.chain("||") {
        match part {
            Expression::Name(name) if name.eq_ignore_ascii_case("req.http.Cookie") => {
                all_cookies = true
            }
            Expression::Name(name) if name.eq_ignore_ascii_case("req.http.Authorization") => {
                credentials = true
            }
            Expression::Binary("~", left, right) => {
                let pattern = right.text().unwrap_or_default();
                match left
                    .name()
                    .unwrap_or_default()
                    .to_ascii_lowercase()
                    .as_str()
                {
                    "req.url" => match literals(pattern) {
                        // Wider than anchored patterns: a bypass may be.
                        Some(found) => paths.extend(found.into_iter().map(|one| one.text)),
                        None => return false,
                    },
                    "req.http.cookie" => match session_cookies(pattern) {
                        Some(found) => cookies.extend(found),
                        None => return false,
                    },
                    _ => return false,
                }
            }
            Expression::Binary("==", left, right) if left.name() == Some("req.url") => {
                match right.text() {
                    Some(path) if path != "/" => paths.push(path.to_owned()),
                    _ => return false,
                }
            }
            _ => return false,
        }
    }
    let out = &mut converter.out;
    paths
        .into_iter()
        .for_each(|path| add(&mut out.excluded, path));
    if !cookies.is_empty() {
        let names = out.session_cookies.get_or_insert_default();
        cookies.into_iter().for_each(|name| add(names, name));
    }
    out.bypasses_cookies |= all_cookies;
    if credentials {
        add(&mut out.bypasses, HAS_CREDENTIALS);
    }
    true
}

/// `return (pass)` in any other condition, as an expression.
fn is_conditional_bypass(
    converter: &mut Converter<'_>,
    condition: &Expression,
    body: &[Statement],
) -> bool {
    let is_pass = matches!(body, [Statement { kind: StatementKind::Return(action, _), .. }] if action == "pass");
    let expression = conditions::expression(condition).filter(|_| is_pass);
    expression
        .into_iter()
        .map(|expression| add(&mut converter.out.bypasses, expression))
        .count()
        > 0
}

/// Edits of `Accept-Encoding`: one page in several codings is no concern of a configuration here.
fn has_content_codings_only(body: &[Statement]) -> bool {
    let is_field = |name: &str| name.eq_ignore_ascii_case("req.http.Accept-Encoding");
    !body.is_empty()
        && body.iter().all(|statement| match &statement.kind {
            StatementKind::Set { name, .. } | StatementKind::Unset(name) => is_field(name),
            StatementKind::If(branches) => branches
                .iter()
                .all(|(_, inner)| has_content_codings_only(inner)),
            _ => false,
        })
}

/// Removal of tracking parameters, in whatever condition.
fn is_url_edit(converter: &mut Converter<'_>, condition: &Expression, body: &[Statement]) -> bool {
    let edits_url = |statement: &Statement| {
        matches!(&statement.kind, StatementKind::Set { name, value }
            if name == "req.url" && url_edit(value).is_some())
    };
    if body.is_empty() || !body.iter().all(edits_url) || !mentions(condition, "req.url") {
        return false;
    }
    receive(converter, body);
    true
}

enum UrlEdit {
    Tracking,
    Trimming,
}

fn url_edit(value: &Expression) -> Option<UrlEdit> {
    let Expression::Function(name, arguments) = value else {
        return None;
    };
    let [url, pattern, replacement] = arguments.as_slice() else {
        return None;
    };
    let is_edit = matches!(name.as_str(), "regsub" | "regsuball") && url.name() == Some("req.url");
    let pattern = pattern.text().filter(|_| is_edit)?;
    match replacement.text()? {
        "" if is_trimming(pattern) => Some(UrlEdit::Trimming),
        "?" if pattern == r"\?&" => Some(UrlEdit::Trimming),
        // The text around the parameter is joined again.
        "" | "?" | "\\1" | "\\2" | "\\1\\2" if is_tracking(pattern) => Some(UrlEdit::Tracking),
        _ => None,
    }
}

/// Removal of the cookies of statistics from the request, in whatever condition.
fn is_cookie_edit(converter: &mut Converter<'_>, body: &[Statement]) -> bool {
    let [
        Statement {
            kind: StatementKind::Set { name, value },
            ..
        },
    ] = body
    else {
        return false;
    };
    let is_cookie = name.eq_ignore_ascii_case("req.http.Cookie");
    is_cookie && cookie_edit(converter, value)
}

fn cookie_edit(converter: &mut Converter<'_>, value: &Expression) -> bool {
    let Expression::Function(function, arguments) = value else {
        return false;
    };
    let [_, pattern, replacement] = arguments.as_slice() else {
        return false;
    };
    let (Some(pattern), Some("")) = (pattern.text(), replacement.text()) else {
        return false;
    };
    let known = [
        "__utm", "_ga", "_gid", "_gat", "_fbp", "has_js", "_pk_", "__gads",
    ];
    let found: Vec<&str> = known
        .into_iter()
        .filter(|name| pattern.contains(name))
        .collect();
    let is_edit = matches!(function.as_str(), "regsub" | "regsuball");
    if !is_edit || (found.is_empty() && !pattern.starts_with("^;")) {
        return false;
    }
    for name in found {
        add(&mut converter.out.ignored_cookies, format!("{name}*"));
    }
    true
}

/// `if (req.url ~ "^/api") { set req.backend_hint = api; }`
fn is_backend_choice(
    converter: &mut Converter<'_>,
    condition: &Expression,
    body: &[Statement],
    place: Place,
) -> bool {
    let [
        Statement {
            kind: StatementKind::Set { name, value },
            ..
        },
    ] = body
    else {
        return false;
    };
    let (true, Some(backend)) = (is_backend_name(name), backend_of(value)) else {
        return false;
    };
    let Expression::Binary("~", left, right) = condition else {
        return false;
    };
    let found = right
        .text()
        .filter(|_| left.name() == Some("req.url"))
        .and_then(literals);
    let Some(found) = found.filter(|found| found.iter().all(|one| one.is_anchored)) else {
        return false;
    };
    if !converter
        .out
        .upstreams
        .iter()
        .any(|(name, ..)| name == backend)
    {
        converter.warn(place, format!("there is no backend `{backend}`"), "");
        return true;
    }
    for one in found {
        let route = (format!("{}*", one.text), backend.to_owned());
        converter.out.routes.push(route);
    }
    true
}

fn is_backend_name(name: &str) -> bool {
    matches!(name, "req.backend_hint" | "req.backend" | "bereq.backend")
}

/// `x` of `x`, and of `x.backend()`.
fn backend_of(value: &Expression) -> Option<&str> {
    match value {
        Expression::Name(name) => Some(name),
        Expression::Function(name, _) => name.strip_suffix(".backend"),
        _ => None,
    }
}

fn assigned(converter: &mut Converter<'_>, statement: &Statement, name: &str, value: &Expression) {
    if name == "req.url" {
        match url_edit(value) {
            Some(UrlEdit::Tracking) => {
                let pattern = match value {
                    Expression::Function(_, arguments) => arguments.get(1),
                    _ => None,
                };
                let ignored = &mut converter.out.ignored_parameters;
                add(ignored, "tracking");
                let names = pattern.and_then(Expression::text).map(parameter_names);
                names
                    .into_iter()
                    .flatten()
                    .for_each(|name| add(ignored, name));
            }
            Some(UrlEdit::Trimming) => {}
            None => unsupported(
                converter,
                statement,
                "see `rewrite` of routes, and `ignore_parameters`",
            ),
        }
        return;
    }
    if is_backend_name(name) {
        match backend_of(value) {
            Some(backend) => converter.out.default_upstream = Some(backend.to_owned()),
            None => unsupported(converter, statement, ""),
        }
        return;
    }
    let Some(field) = name.strip_prefix("req.http.") else {
        // `req.grace`, `req.hash_ignore_busy` and others of Varnish's own.
        return unsupported(converter, statement, "");
    };
    if OWN_FIELDS.contains(&field.to_ascii_lowercase().as_str()) || field == "Surrogate-Capability"
    {
        return;
    }
    if field.eq_ignore_ascii_case("Cookie") && cookie_edit(converter, value) {
        return;
    }
    match value.text().filter(|text| !text.contains('$')) {
        Some(text) => set(
            &mut converter.out.upstream_headers,
            field,
            Some(text.to_owned()),
        ),
        None => unsupported(converter, statement, "see `upstream_headers`"),
    }
}

fn removed(converter: &mut Converter<'_>, statement: &Statement, name: &str) {
    match name.strip_prefix("req.http.") {
        Some(field) if field.eq_ignore_ascii_case("Cookie") => {
            if converter.has_left {
                // Without those requests' cookies, logins would fail.
                let help = "requests that have left before keep their cookies: remove cookies of \
                            routes by their `upstream_headers`";
                converter.warn(
                    statement.place,
                    "the removal of cookies is not converted",
                    help,
                );
                converter.out.session_cookies.get_or_insert_default();
                return;
            }
            set(&mut converter.out.upstream_headers, "Cookie", None);
            converter.out.session_cookies = Some(Vec::new());
        }
        // Clients can't send fields of Varnish here.
        Some(field) => set(&mut converter.out.upstream_headers, field, None),
        None => unsupported(converter, statement, ""),
    }
}

/// True if a variable is part of an expression.
pub fn mentions(expression: &Expression, name: &str) -> bool {
    match expression {
        Expression::Name(other) => other.eq_ignore_ascii_case(name),
        Expression::Text(_) | Expression::Number(_) => false,
        Expression::Function(_, arguments) => arguments.iter().any(|one| mentions(one, name)),
        Expression::Not(inner) => mentions(inner, name),
        Expression::Binary(_, left, right) => mentions(left, name) || mentions(right, name),
    }
}

/// `vcl_hash`. A part of the key that has no counterpart is an error: without it, pages would be
/// shared that Varnish keeps apart.
pub fn hash(converter: &mut Converter<'_>, statements: &[Statement]) {
    hash_part(converter, statements, &mut Vec::new());
}

/// `conditions`: those that the statements are under; `None` where they hold if others don't.
fn hash_part<'s>(
    converter: &mut Converter<'_>,
    statements: &'s [Statement],
    conditions: &mut Vec<Option<&'s Expression>>,
) {
    for statement in statements {
        match &statement.kind {
            StatementKind::Expression(Expression::Function(name, arguments))
                if name == "hash_data" =>
            {
                let value = arguments.first();
                let is_converted = value.is_some_and(|value| {
                    is_hashed(converter, value, !conditions.is_empty())
                        || is_mark(converter, value, conditions)
                });
                if !is_converted {
                    no_key(converter, statement.place);
                }
            }
            StatementKind::Return(..) => {}
            // A field counts in the key whether the condition holds or not.
            StatementKind::If(branches) => {
                for (at, (condition, body)) in branches.iter().enumerate() {
                    conditions.push(condition.as_ref().filter(|_| at == 0));
                    hash_part(converter, body, conditions);
                    conditions.pop();
                }
            }
            _ => no_key(converter, statement.place),
        }
    }
}

/// A text that stands for a condition: requests that it holds for bypass the cache instead of having
/// pages of their own.
fn is_mark(
    converter: &mut Converter<'_>,
    value: &Expression,
    conditions: &[Option<&Expression>],
) -> bool {
    let all: Option<Vec<String>> = conditions
        .iter()
        .map(|condition| conditions::expression((*condition)?))
        .collect();
    let Some(all) = all.filter(|all| !all.is_empty() && value.text().is_some()) else {
        return false;
    };
    add(&mut converter.out.bypasses, all.join(" and "));
    true
}

fn no_key(converter: &mut Converter<'_>, place: Place) {
    converter.refuse(
        place,
        "this part of the cache key can't be converted",
        "see `vary_cookies` and `key_headers`",
    );
}

/// True if a value is part of the key here, too.
fn is_hashed(converter: &mut Converter<'_>, value: &Expression, is_conditional: bool) -> bool {
    let out = &mut converter.out;
    match value {
        Expression::Name(name) => {
            match name.to_ascii_lowercase().as_str() {
                // Always part of the key.
                "req.url" | "req.http.host" | "server.ip" | "req.http.x-forwarded-proto" => {}
                _ => match name.strip_prefix("req.http.") {
                    Some(field) => add(&mut out.key_headers, field),
                    None => return false,
                },
            }
            true
        }
        // The same for all requests, unless it stands for its condition.
        Expression::Text(_) => !is_conditional,
        Expression::Function(name, arguments) if name == "regsub" => {
            let subject = arguments
                .first()
                .and_then(Expression::name)
                .unwrap_or_default();
            let pattern = arguments.get(1).and_then(Expression::text);
            let cookie = pattern
                .filter(|_| subject.eq_ignore_ascii_case("req.http.cookie"))
                .and_then(cookie_name);
            cookie
                .into_iter()
                .for_each(|cookie| add(&mut out.vary_cookies, cookie));
            cookie.is_some()
        }
        _ => false,
    }
}
