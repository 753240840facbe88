//! Converts the declarations of a VCL file.
//!
//! Called by: `lib`.
//! Caveat: uncertain statements are reported, never guessed. A statement that refuses requests and
//! has no counterpart is an error: without it, more would be served than before.
//! Out of scope: `vcl_recv` and the other subroutines, which are in files of their own.

use crate::{
    conditions::HAS_CREDENTIALS,
    converter::{Converter, Finding, reported, unsupported},
    output::{Output, add, set},
    receive, respond,
    syntax::{Expression, Statement, StatementKind, VclFile},
};

/// Maximum calls that are followed from a subroutine.
const CALLS_MAX: usize = 100;

/// Converts a file.
pub fn convert(file: &VclFile) -> (Output, Vec<Finding>) {
    let mut converter = Converter {
        file,
        out: Output::default(),
        findings: Vec::new(),
        has_left: false,
        keeps_no_cookie: false,
    };
    backends(&mut converter);
    for (what, place) in &file.others {
        match what.as_str() {
            "inline C" => converter.refuse(*place, "inline C can't be converted", ""),
            "include" => converter.warn(
                *place,
                "`include` is not followed",
                "convert the included file as well, or put its text here",
            ),
            _ => {}
        }
    }
    // Rules for responses depend on what tells pages apart.
    let (of_responses, of_requests): (Vec<_>, Vec<_>) = file
        .subs
        .iter()
        .partition(|sub| sub.name == "vcl_backend_response");
    for sub in of_requests.into_iter().chain(of_responses) {
        let mut calls = CALLS_MAX;
        match sub.name.as_str() {
            "vcl_recv" => receive::receive(&mut converter, &body(file, &sub.body, &mut calls)),
            "vcl_hash" => receive::hash(&mut converter, &body(file, &sub.body, &mut calls)),
            "vcl_backend_response" => {
                respond::stored(&mut converter, &body(file, &sub.body, &mut calls))
            }
            "vcl_deliver" => respond::delivered(&mut converter, &body(file, &sub.body, &mut calls)),
            "vcl_init" => directors(&mut converter, &sub.body),
            name if name.starts_with("vcl_") => others(&mut converter, name, &sub.body),
            // Subroutines of the file itself count where they are called.
            _ => {}
        }
    }
    built_in(&mut converter);
    (converter.out, reported(converter.findings))
}

/// The statements of a subroutine, with those that it calls in their place. `left`: calls that are
/// still followed.
fn body(file: &VclFile, statements: &[Statement], left: &mut usize) -> Vec<Statement> {
    let mut found = Vec::new();
    for statement in statements {
        match &statement.kind {
            StatementKind::Call(name) => {
                let called = file.subs.iter().find(|sub| sub.name == *name);
                match (called, left.checked_sub(1)) {
                    (Some(sub), Some(rest)) => {
                        *left = rest;
                        found.extend(body(file, &sub.body, left));
                    }
                    _ => found.push(statement.clone()),
                }
            }
            StatementKind::If(branches) => {
                let branches = branches
                    .iter()
                    .map(|(condition, inner)| (condition.clone(), body(file, inner, left)));
                found.push(Statement {
                    kind: StatementKind::If(branches.collect()),
                    place: statement.place,
                });
            }
            _ => found.push(statement.clone()),
        }
    }
    found
}

/// The built-in `vcl_recv` runs after one that does not end with `return (hash)`, and passes
/// requests with cookies or credentials. The built-in `vcl_backend_response` runs after one that does
/// not end with `return (deliver)`, and keeps responses that set cookies out of the cache.
fn built_in(converter: &mut Converter<'_>) {
    let file = converter.file;
    let is_final = |sub: &str, actions: [&str; 2]| {
        let last = file.subs.iter().rfind(|other| other.name == sub);
        last.and_then(|sub| sub.body.last()).is_some_and(|statement| {
            matches!(&statement.kind, StatementKind::Return(action, _) if actions.contains(&action.as_str()))
        })
    };
    let out = &mut converter.out;
    if !is_final("vcl_recv", ["hash", "lookup"]) {
        let edits = &out.upstream_headers;
        let is_removed = |field: &str| {
            let mut edits = edits.iter();
            edits.any(|(name, value)| name.eq_ignore_ascii_case(field) && value.is_none())
        };
        let (no_cookie, no_credentials) = (is_removed("Cookie"), is_removed("Authorization"));
        out.bypasses_cookies |= !no_cookie;
        if !no_credentials {
            add(&mut out.bypasses, HAS_CREDENTIALS);
        }
    }
    out.refuses_set_cookie |=
        !converter.keeps_no_cookie && !is_final("vcl_backend_response", ["deliver", "deliver"]);
}

fn backends(converter: &mut Converter<'_>) {
    for backend in &converter.file.backends {
        let of = |name: &str| {
            let found = backend.attributes.iter().find(|(other, _)| other == name);
            found.map(|(_, value)| value.clone())
        };
        let server = match (of("host"), of("path")) {
            (Some(host), _) => {
                let host = if host.contains(':') {
                    format!("[{host}]")
                } else {
                    host
                };
                let port = of("port").unwrap_or_else(|| "80".to_owned());
                format!(
                    "http://{host}:{}",
                    if port == "http" { "80" } else { &port }
                )
            }
            (None, Some(path)) => format!("http+unix:{path}"),
            (None, None) => {
                let what = format!("the backend `{}` has no `.host`", backend.name);
                converter.warn(backend.place, what, "requests to it are not converted");
                continue;
            }
        };
        let named = of("probe").and_then(|name| {
            let probes = &converter.file.probes;
            let (_, attributes) = probes.iter().find(|(other, _)| *other == name)?;
            let (_, url) = attributes.iter().find(|(name, _)| name == "url")?;
            Some(url.clone())
        });
        let health_path = of("probe.url").or(named);
        let upstream = (backend.name.clone(), vec![server], health_path);
        converter.out.upstreams.push(upstream);
    }
    let upstreams = &converter.out.upstreams;
    let default = upstreams
        .iter()
        .find(|(name, ..)| name == "default")
        .or(upstreams.first());
    converter.out.default_upstream = default.map(|(name, ..)| name.clone());
}

/// `new x = directors.round_robin(); x.add_backend(a);`
fn directors(converter: &mut Converter<'_>, statements: &[Statement]) {
    for statement in statements {
        match &statement.kind {
            StatementKind::New(name, Expression::Function(kind, _))
                if kind.starts_with("directors.") =>
            {
                if kind != "directors.round_robin" {
                    let what = format!("`{kind}` becomes an upstream with the default balancer");
                    converter.warn(statement.place, what, "see `balance` of [[upstream]]");
                }
                let upstream = (name.clone(), Vec::new(), None);
                converter.out.upstreams.push(upstream);
            }
            StatementKind::Expression(Expression::Function(name, arguments))
                if name.ends_with(".add_backend") =>
            {
                let director = name.trim_end_matches(".add_backend");
                let backend = arguments.first().and_then(Expression::name);
                let upstreams = &mut converter.out.upstreams;
                let found = upstreams
                    .iter()
                    .find(|(name, ..)| Some(name.as_str()) == backend)
                    .map(|(_, servers, health)| (servers.clone(), health.clone()));
                let director = upstreams.iter_mut().find(|(name, ..)| name == director);
                if let (Some((servers, health)), Some(director)) = (found, director) {
                    servers
                        .into_iter()
                        .for_each(|server| add(&mut director.1, server));
                    director.2 = director.2.take().or(health);
                } else {
                    converter.warn(statement.place, "unknown director or backend", "");
                }
            }
            StatementKind::Return(..) => {}
            _ => unsupported(converter, statement, ""),
        }
    }
}

fn others(converter: &mut Converter<'_>, name: &str, statements: &[Statement]) {
    for statement in statements {
        let is_usual = match &statement.kind {
            // Programs get the field of no client.
            StatementKind::Unset(field) if name == "vcl_backend_fetch" => {
                let field = field.strip_prefix("bereq.http.");
                field
                    .into_iter()
                    .for_each(|field| set(&mut converter.out.upstream_headers, field, None));
                field.is_some()
            }
            StatementKind::Return(action, _) => {
                matches!(
                    action.as_str(),
                    "" | "deliver" | "fetch" | "pass" | "ok" | "pipe" | "lookup"
                )
            }
            _ => false,
        };
        if !is_usual {
            let help = match name {
                "vcl_synth" | "vcl_backend_error" => "see `error_pages` of the site",
                "vcl_hit" => "`grace` and `stale_if_error` say when stale pages are served",
                "vcl_pipe" => "upgraded connections are passed on by themselves",
                _ => "",
            };
            unsupported(converter, statement, help);
        }
    }
}
