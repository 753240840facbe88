//! `vcl_backend_response` and `vcl_deliver`: lifetimes, and fields of responses.
//!
//! Called by: `convert`.
//! Caveat: Varnish lets a file override what responses say of their lifetime; here, responses that
//! say something keep it.
//! Out of scope: requests (`receive`).

use crate::{
    conditions,
    converter::{Converter, unsupported},
    output::{FieldEdits, Output, add, set},
    patterns::literals,
    receive::mentions,
    syntax::{Expression, Statement, StatementKind},
};

/// Settings of responses that concern Varnish's own ways of sending and storing.
const OWN: [&str; 9] = [
    "beresp.do_gzip",
    "beresp.do_gunzip",
    "beresp.do_stream",
    "beresp.do_esi",
    "beresp.storage",
    "beresp.storage_hint",
    "beresp.keep",
    "beresp.http.Surrogate-Control",
    "beresp.filters",
];

pub fn stored(converter: &mut Converter<'_>, statements: &[Statement]) {
    for statement in statements {
        match &statement.kind {
            StatementKind::Set { name, value } => stored_value(converter, statement, name, value),
            StatementKind::Unset(name) => match name.strip_prefix("beresp.http.") {
                Some(field) if field.eq_ignore_ascii_case("Set-Cookie") => {
                    converter.keeps_no_cookie = true;
                    let help = "responses that set cookies are not shared unless they say so; `headers` of \
                                a route can remove the field";
                    unsupported(converter, statement, help);
                }
                Some(field) => set(&mut converter.out.headers, field, None),
                None => unsupported(converter, statement, ""),
            },
            StatementKind::Return(action, _) if matches!(action.as_str(), "deliver" | "") => {}
            StatementKind::If(branches) => {
                for (condition, body) in branches {
                    if !is_converted(converter, condition.as_ref(), body) {
                        unsupported(
                            converter,
                            statement,
                            "see `status_ttl`, `ttl` and `[[site.when]]`",
                        );
                        break;
                    }
                }
            }
            _ => unsupported(converter, statement, ""),
        }
    }
}

/// `10s`, `1h`, `0.5s`; VCL's units, of which saker.toml has the same but `y`.
fn duration(value: &Expression) -> Option<String> {
    let Expression::Number(number) = value else {
        return None;
    };
    let digits = number.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = &number[digits.len()..];
    let is_known = matches!(unit, "ms" | "s" | "m" | "h" | "d" | "w");
    let whole = digits.split('.').next().unwrap_or_default();
    (is_known && !whole.is_empty() && whole.len() < 8).then(|| match unit {
        "w" => format!("{}d", whole.parse::<u64>().unwrap_or(0) * 7),
        _ => format!("{whole}{unit}"),
    })
}

fn stored_value(
    converter: &mut Converter<'_>,
    statement: &Statement,
    name: &str,
    value: &Expression,
) {
    match (name, duration(value)) {
        ("beresp.ttl", Some(ttl)) => {
            converter.warn(
                statement.place,
                "`set beresp.ttl` for all responses becomes `ttl`, which is for those without a lifetime",
                "`force_ttl` replaces the lifetime of all responses, and shares them",
            );
            converter.out.ttl = Some(ttl);
        }
        ("beresp.grace", Some(grace)) => converter.out.grace = Some(grace),
        (name, _) if OWN.iter().any(|own| own.eq_ignore_ascii_case(name)) => {}
        (name, _) if name.starts_with("beresp.http.") => {
            let field = &name["beresp.http.".len()..];
            response_field(converter, statement, field, value, |out| &mut out.headers);
        }
        _ => unsupported(converter, statement, ""),
    }
}

/// True if a condition of `vcl_backend_response` is converted, or says what holds anyway.
fn is_converted(
    converter: &mut Converter<'_>,
    condition: Option<&Expression>,
    body: &[Statement],
) -> bool {
    let Some(condition) = condition else {
        return false;
    };
    let is_kept_out = body.iter().all(|statement| match &statement.kind {
        StatementKind::Set { name, .. } => {
            matches!(
                name.as_str(),
                "beresp.uncacheable" | "beresp.ttl" | "beresp.grace"
            )
        }
        StatementKind::Return(action, _) => {
            matches!(
                action.as_str(),
                "deliver" | "pass" | "hit_for_pass" | "abandon" | "retry"
            )
        }
        _ => false,
    });
    let marks = body.iter().any(|statement| {
        matches!(&statement.kind, StatementKind::Set { name, value }
            if name == "beresp.uncacheable" || name == "beresp.ttl" && value.is_zero())
            || matches!(&statement.kind, StatementKind::Return(action, _)
                if matches!(action.as_str(), "abandon" | "pass" | "hit_for_pass"))
    });
    if is_kept_out
        && marks
        && let Some(by) = kept_out(converter, condition)
    {
        converter.out.refuses_set_cookie |= by == KeptOut::SetCookie;
        return true;
    }
    // Requests that it may be about bypass the cache.
    if is_kept_out
        && marks
        && let Some((expression, _)) = conditions::of_request(condition)
    {
        add(&mut converter.out.bypasses, expression);
        return true;
    }
    if has_own_settings_only(body) || is_made_shareable(converter, condition, body) {
        return true;
    }
    is_status_ttl(converter, condition, body) || is_ttl(converter, condition, body)
}

/// The rule by which the cache stores none of the responses that a condition holds for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeptOut {
    /// It holds anyway.
    Always,
    /// That of `with_set_cookie = false`.
    SetCookie,
}

/// `None`: some of the responses may be stored.
fn kept_out(converter: &Converter<'_>, condition: &Expression) -> Option<KeptOut> {
    match condition {
        Expression::Binary("||", left, right) => {
            let both = [kept_out(converter, left)?, kept_out(converter, right)?];
            match both.contains(&KeptOut::SetCookie) {
                true => Some(KeptOut::SetCookie),
                false => Some(KeptOut::Always),
            }
        }
        Expression::Binary("&&", left, right) => {
            let either = [kept_out(converter, left), kept_out(converter, right)];
            match either.contains(&Some(KeptOut::Always)) {
                true => Some(KeptOut::Always),
                false => either.into_iter().flatten().next(),
            }
        }
        Expression::Name(name) if name.eq_ignore_ascii_case("beresp.http.Set-Cookie") => {
            Some(KeptOut::SetCookie)
        }
        Expression::Name(name) if name == "bereq.uncacheable" => Some(KeptOut::Always),
        Expression::Binary(operator, left, right) => {
            let name = left.name()?.to_ascii_lowercase();
            compared(converter, operator, &name, right)
        }
        _ => None,
    }
}

/// The same for a comparison with the variable of that name.
fn compared(
    converter: &Converter<'_>,
    operator: &str,
    name: &str,
    value: &Expression,
) -> Option<KeptOut> {
    let text = value.text().unwrap_or_default();
    match (name, operator) {
        ("beresp.ttl", "<=" | "<" | "==") => value.is_zero().then_some(KeptOut::Always),
        // Errors without a lifetime of their own.
        ("beresp.status", ">=" | ">") => {
            let is_error = matches!(value, Expression::Number(number)
                if number.parse::<u32>().is_ok_and(|status| status >= 399));
            is_error.then_some(KeptOut::Always)
        }
        ("beresp.http.vary", "==" | "~") => {
            matches!(text, "*" | r"\*" | "[*]").then_some(KeptOut::Always)
        }
        ("beresp.http.cache-control" | "beresp.http.surrogate-control", "~" | "==") => {
            has_obeyed_words_only(text).then_some(KeptOut::Always)
        }
        // A cookie by which pages vary keeps a response out that sets it to another value.
        ("beresp.http.set-cookie", "~") => {
            let cookies = &converter.out.vary_cookies;
            let is_vary = text
                .trim_start_matches('^')
                .strip_suffix('=')
                .is_some_and(|name| cookies.iter().any(|cookie| cookie == name));
            Some(if is_vary {
                KeptOut::Always
            } else {
                KeptOut::SetCookie
            })
        }
        ("beresp.http.set-cookie", "==") => Some(KeptOut::SetCookie),
        _ => None,
    }
}

/// True for a pattern of words that keep responses out here, too. Others (`must-revalidate`) do not.
fn has_obeyed_words_only(pattern: &str) -> bool {
    let pattern = match pattern.strip_prefix("(?i:") {
        Some(inner) => inner.strip_suffix(')').unwrap_or(inner),
        None => pattern.strip_prefix("(?i)").unwrap_or(pattern),
    };
    let found = literals(&pattern.replace("\\b", "").to_ascii_lowercase());
    found.is_some_and(|found| {
        let mut found = found.iter();
        found.all(|one| matches!(one.text.as_str(), "private" | "no-cache" | "no-store"))
    })
}

/// Settings of Varnish's own ways of sending and storing, in whatever condition.
fn has_own_settings_only(body: &[Statement]) -> bool {
    let is_own = |statement: &Statement| {
        matches!(&statement.kind, StatementKind::Set { name, .. }
            if OWN.iter().any(|own| own.eq_ignore_ascii_case(name)))
    };
    !body.is_empty() && body.iter().all(is_own)
}

/// Removal of Set-Cookie from responses with a lifetime: those marked public are shared without it.
fn is_made_shareable(
    converter: &mut Converter<'_>,
    condition: &Expression,
    body: &[Statement],
) -> bool {
    let removes = body.iter().any(|statement| {
        matches!(&statement.kind, StatementKind::Unset(name)
            if name.eq_ignore_ascii_case("beresp.http.Set-Cookie"))
    });
    let is_made = removes
        && body.iter().all(|statement| match &statement.kind {
            StatementKind::Unset(name) => name.eq_ignore_ascii_case("beresp.http.Set-Cookie"),
            StatementKind::Expression(Expression::Function(name, _)) => name == "std.collect",
            StatementKind::If(branches) => branches
                .iter()
                .all(|(condition, inner)| is_converted(converter, condition.as_ref(), inner)),
            _ => false,
        });
    converter.keeps_no_cookie |= is_made && is_about_storable(condition);
    is_made
}

/// True for a condition that holds for all responses that may be stored: those with a lifetime, of the
/// methods that are cached, or those that set cookies.
fn is_about_storable(condition: &Expression) -> bool {
    let has_method = |part: &Expression| {
        part.chain("||").iter().any(|part| {
            matches!(part, Expression::Binary("==", left, right)
                if matches!(left.name(), Some("bereq.method" | "req.method")) && right.text() == Some("GET"))
        })
    };
    condition.chain("&&").into_iter().all(|part| {
        let is_fresh = matches!(part, Expression::Binary(">", left, right)
            if left.name() == Some("beresp.ttl") && right.is_zero());
        let has_cookie = part
            .name()
            .is_some_and(|name| name.eq_ignore_ascii_case("beresp.http.Set-Cookie"));
        is_fresh || has_cookie || has_method(part)
    })
}

/// `if (beresp.status == 404) { set beresp.ttl = 1m; }`
fn is_status_ttl(
    converter: &mut Converter<'_>,
    condition: &Expression,
    body: &[Statement],
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
    let (true, Some(ttl)) = (name == "beresp.ttl", duration(value)) else {
        return false;
    };
    let mut statuses = Vec::new();
    for part in condition.chain("||") {
        match part {
            Expression::Binary("==", left, right) if left.name() == Some("beresp.status") => {
                let Expression::Number(status) = &**right else {
                    return false;
                };
                if !status
                    .parse::<u16>()
                    .is_ok_and(|status| (200..600).contains(&status))
                {
                    return false;
                }
                statuses.push((status.clone(), ttl.clone()));
            }
            _ => return false,
        }
    }
    let known = &mut converter.out.status_ttls;
    known.retain(|(status, _)| !statuses.iter().any(|(other, _)| other == status));
    known.extend(statuses);
    true
}

/// `if (beresp.ttl <= 0s) { set beresp.ttl = 5m; }`, `if (!beresp.http.Cache-Control) { … }`
fn is_ttl(converter: &mut Converter<'_>, condition: &Expression, body: &[Statement]) -> bool {
    let [
        Statement {
            kind: StatementKind::Set { name, value },
            ..
        },
    ] = body
    else {
        return false;
    };
    let is_absent = matches!(condition, Expression::Not(inner)
        if inner.name().is_some_and(|name| name.eq_ignore_ascii_case("beresp.http.Cache-Control")));
    match (name == "beresp.ttl" && is_absent, duration(value)) {
        (true, Some(ttl)) => {
            converter.out.ttl = Some(ttl);
            true
        }
        _ => false,
    }
}

pub fn delivered(converter: &mut Converter<'_>, statements: &[Statement]) {
    for statement in statements {
        match &statement.kind {
            StatementKind::Set { name, value } => match name.strip_prefix("resp.http.") {
                Some(field) => {
                    response_field(converter, statement, field, value, |out| {
                        &mut out.delivered_headers
                    });
                }
                None => unsupported(converter, statement, ""),
            },
            StatementKind::Unset(name) => match name.strip_prefix("resp.http.") {
                // Varnish's own fields are not there.
                Some(field)
                    if matches!(
                        field.to_ascii_lowercase().as_str(),
                        "via" | "x-varnish" | "age"
                    ) => {}
                Some(field) => set(&mut converter.out.delivered_headers, field, None),
                None => unsupported(converter, statement, ""),
            },
            StatementKind::Return(action, _) if matches!(action.as_str(), "deliver" | "") => {}
            StatementKind::If(branches) if is_result(converter, branches) => {}
            StatementKind::If(branches) if is_about_own_fields(branches) => {}
            StatementKind::If(branches) if is_conditional_edit(converter, statement, branches) => {}
            _ => unsupported(converter, statement, ""),
        }
    }
}

type Branches = [(Option<Expression>, Vec<Statement>)];

/// Removal of Varnish's own fields, which are not there.
fn is_about_own_fields(branches: &Branches) -> bool {
    branches.iter().all(|(_, body)| {
        body.iter().all(|statement| {
            matches!(&statement.kind, StatementKind::Unset(name)
                if matches!(name.to_ascii_lowercase().as_str(), "resp.http.via" | "resp.http.x-varnish" | "resp.http.age"))
        })
    })
}

/// `if (req.url !~ "^/static/") { set resp.http.Cache-Control = "no-store"; }`
fn is_conditional_edit(
    converter: &mut Converter<'_>,
    statement: &Statement,
    branches: &Branches,
) -> bool {
    let [(Some(condition), body)] = branches else {
        return false;
    };
    let Some((expression, is_part)) = conditions::of_request(condition) else {
        return false;
    };
    let mut edits = Vec::new();
    for inner in body {
        let (name, value) = match &inner.kind {
            StatementKind::Set { name, value } => {
                match value.text().filter(|text| !text.contains('$')) {
                    Some(text) => (name, Some(text.to_owned())),
                    None => return false,
                }
            }
            StatementKind::Unset(name) => (name, None),
            _ => return false,
        };
        match name.strip_prefix("resp.http.") {
            Some(field) => set(&mut edits, field, value),
            None => return false,
        }
    }
    if is_part {
        converter.warn(
            statement.place,
            "what this condition says of the response is left out",
            "the fields are set for all responses to these requests",
        );
    }
    converter.out.conditional_headers.push((expression, edits));
    true
}

/// `if (obj.hits > 0) { set resp.http.X-Cache = "HIT"; } else { set resp.http.X-Cache = "MISS"; }`
fn is_result(
    converter: &mut Converter<'_>,
    branches: &[(Option<Expression>, Vec<Statement>)],
) -> bool {
    let is_about_hits = branches.iter().all(|(condition, _)| {
        condition
            .as_ref()
            .is_none_or(|it| mentions(it, "obj.hits") || mentions(it, "obj.uncacheable"))
    });
    let mut field = None;
    for statement in branches.iter().flat_map(|(_, body)| body) {
        match &statement.kind {
            StatementKind::Set { name, value } => {
                let is_result = matches!(value, Expression::Text(text)
                    if ["HIT", "MISS", "UNCACHEABLE"].iter().any(|word| text.eq_ignore_ascii_case(word)));
                // The number of hits is nothing that a client needs.
                if is_result {
                    field = name.strip_prefix("resp.http.").map(str::to_owned);
                } else if !mentions(value, "obj.hits") && !mentions(value, "req.http.grace") {
                    return false;
                }
            }
            _ => return false,
        }
    }
    if is_about_hits && field.is_some() {
        converter.out.result_header = field;
        return true;
    }
    false
}

fn response_field(
    converter: &mut Converter<'_>,
    statement: &Statement,
    field: &str,
    value: &Expression,
    list: fn(&mut Output) -> &mut FieldEdits,
) {
    match value.text().filter(|text| !text.contains('$')) {
        Some(text) => set(list(&mut converter.out), field, Some(text.to_owned())),
        // Fields for bans and tags are not needed here.
        None if matches!(
            field.to_ascii_lowercase().as_str(),
            "x-url" | "x-host" | "xkey"
        ) => {}
        None => unsupported(converter, statement, "see `headers`"),
    }
}
