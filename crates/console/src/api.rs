//! The API: JSON in and out.
//!
//! Called by: `actions`, for routes below `/api/v1`; pages and event streams, for the same data.
//! Caveat: every answer is an object with `ok`; capabilities are those of the control socket, and
//! answer in its words.
//! Out of scope: rights, which the gate has checked.

use crate::{
    Backend, CheckedConfiguration, Question,
    api_call::{check_body, check_query},
    audit, ban_pages,
    cache_orders::{self, cache, purge},
    editor,
    exchange::{Form, Request, Response},
    log_files, openapi, owner_pages, redirect_pages,
    routes::{Action, Route},
    sessions::Identity,
    settings_pages, upstream_pages, warm_pages,
};
use saker_config::form;
use saker_control::{BanVerb, CacheVerb, PurgeOrder};
use saker_live::history::Range;
use serde_json::{Value, json};
use std::fs;

/// Entries of one answer.
pub const ENTRIES_MAX: usize = 500;
/// Lines of the audit log in one answer.
pub const AUDIT_MAX: usize = 200;

/// Failure of a request, with its status.
type Failed = (u16, String);

/// Answers a route of the API.
pub async fn answer(
    backend: &dyn Backend,
    request: &Request,
    (route, identity): (&Route, &Identity),
) -> Response {
    let answered = match route.method {
        "POST" => change(backend, request, (route, identity)).await,
        _ => match check_query(route, &request.query) {
            Ok(()) => look(backend, (identity, request), route.action).await,
            Err(error) => Err((400, error)),
        },
    };
    match answered {
        Ok(value) => Response::json(200, &value),
        Err((status, error)) => Response::error(status, &error),
    }
}

async fn look(
    backend: &dyn Backend,
    (identity, request): (&Identity, &Request),
    action: Action,
) -> Result<Value, Failed> {
    let query = &request.query;
    Ok(match action {
        Action::Status => backend.control().status().to_json(),
        Action::Live => live(backend, query)?,
        Action::Explain => explain(backend, question(query)?).await?,
        Action::CacheStatistics => cache(backend, identity, CacheVerb::Stat).await?,
        Action::CacheEntries => cache(backend, identity, entries(query)).await?,
        Action::CacheBody => {
            let who = (identity, request.client);
            cache_orders::body(backend, who, query.get("entry")).await?
        }
        Action::WarmProgress => warm_pages::look(backend, identity, query).await?,
        Action::Bans => backend
            .control()
            .bans(&BanVerb::List)
            .map_err(|error| (500, error))?,
        Action::Certificates => json!({ "ok": true, "certificates": certificates(backend) }),
        Action::Configuration => configuration(backend, query.get("file"))?,
        Action::Settings => {
            let open = settings_pages::file_of(backend, query.get("file"));
            let open = open.map_err(|error| (404, error))?;
            let form = form::form(&open.text, query.get("table")).map_err(|error| (404, error))?;
            settings_pages::to_json(&open, &form)
        }
        Action::SiteSettings => owner_pages::settings(backend, identity)?,
        Action::Cluster => {
            let status = backend.control().cluster_status();
            status.map_err(|error| (404, error))?
        }
        Action::Upstreams => json!({
            "ok": true,
            "upstreams": backend.control().status().to_json()["upstreams"],
            "php_pools": backend.php_pools(),
            "changes": backend.live_changes().to_json(),
        }),
        Action::Redirects => json!({
            "ok": true,
            "redirects": redirect_pages::redirects(backend, identity),
        }),
        Action::Tops => {
            let mut tops = backend.tops();
            tops["ok"] = true.into();
            tops
        }
        Action::Logs => {
            let files = backend.log_files().into_iter();
            let files = files
                .map(|file| json!({ "file": log_files::shown(&file), "summary": file.summary }));
            json!({ "ok": true, "files": files.collect::<Value>() })
        }
        Action::LogText => {
            let lines = log_files::lines(backend, query.get("file"), "");
            json!({ "ok": true, "lines": lines.map_err(|error| (404, error))? })
        }
        Action::Audit => {
            json!({ "ok": true, "entries": audit::last(&backend.state_dir(), AUDIT_MAX) })
        }
        Action::OpenApi => openapi::document(),
        // Of pages and changes.
        _ => return Err((404, "there is no such answer".into())),
    })
}

/// Figures of the last minutes or hours.
fn live(backend: &dyn Backend, query: &Form) -> Result<Value, Failed> {
    if !query.get("seconds").is_empty() {
        let seconds = query.get("seconds").parse();
        let seconds = seconds.map_err(|_| (400, "`seconds` is a number".to_owned()))?;
        return Ok(backend.control().live(seconds));
    }
    let range = match query.get("range") {
        "" | "15m" => Range::Minutes15,
        "24h" => Range::Hours24,
        other => return Err((400, format!("invalid range `{other}` (15m or 24h)"))),
    };
    let mut live = backend.history().borrow().to_json(range);
    live["ok"] = true.into();
    Ok(live)
}

async fn change(
    backend: &dyn Backend,
    request: &Request,
    (route, identity): (&Route, &Identity),
) -> Result<Value, Failed> {
    let body: Value = serde_json::from_slice(&request.body)
        .map_err(|error| (400, format!("the content is not JSON: {error}")))?;
    check_body(route, &body).map_err(|error| (400, error))?;
    let action = route.action;
    let who = (identity, request.client);
    let text = |name: &str| text_of(&body, name);
    let conflict = |error| (409, error);
    Ok(match action {
        Action::Purge => {
            let is_dry = match body.get("dry_run") {
                None => false,
                Some(Value::Bool(is_dry)) => *is_dry,
                Some(_) => return Err((400, "\"dry_run\" must be true or false".into())),
            };
            purge(backend, who, order(&body)?, is_dry).await?
        }
        Action::ApplySite | Action::ConfirmSite | Action::RollBackSite => {
            owner_pages::change(backend, who, action, &body).await?
        }
        Action::Warm => warm_pages::begin(backend, who, &body).await?,
        Action::StopWarming => warm_pages::stop(backend, who, &body).await?,
        Action::Check => check(backend, text("file")?, text("text")?).await?,
        Action::Complete => completion(backend, text("file")?, text("before")?)?,
        Action::Apply => {
            let pending = editor::apply(backend, who, application(&body)?).await;
            let pending = pending.map_err(conflict)?;
            json!({ "ok": true, "id": pending.version.id, "confirm_until": pending.until_s })
        }
        Action::Ban => ban_pages::change(backend, who, "ban", &body)?,
        Action::Unban => ban_pages::change(backend, who, "unban", &body)?,
        Action::AddRedirect | Action::RemoveRedirect => {
            redirect_pages::change(backend, who, action == Action::AddRedirect, &body)?
        }
        Action::TestMember => {
            upstream_pages::test(backend, who, text("upstream")?, text("member")?).await?
        }
        Action::ChangeMember
        | Action::AddServer
        | Action::RemoveServer
        | Action::RestartPhp
        | Action::RenewCertificate => upstream_pages::change(backend, who, action, &body)?,
        Action::ChangeSettings => {
            change_settings(backend, (text("file")?, text("table")?), &body["values"]).await?
        }
        Action::Reload => {
            audit::write(&backend.state_dir(), who, "reload", Value::Null)
                .map_err(|error| (500, error))?;
            let reloaded = backend.control().reload().await;
            let report = reloaded.map_err(|error| (409, editor::without_keys(&error)))?;
            report.to_json()
        }
        Action::Confirm => {
            let confirmed = editor::confirm(backend, who, text("id")?).await;
            confirmed.map_err(conflict)?;
            json!({ "ok": true })
        }
        Action::RollBack => {
            let undone = editor::roll_back(backend, who, text("id")?).await;
            undone.map_err(conflict)?;
            json!({ "ok": true })
        }
        _ => return Err((404, "there is no such change".into())),
    })
}

fn text_of<'b>(body: &'b Value, name: &str) -> Result<&'b str, Failed> {
    let given = body.get(name).and_then(Value::as_str);
    given.ok_or_else(|| (400, format!("\"{name}\" must be a string")))
}

/// The change of the configuration that a JSON object describes.
fn application(body: &Value) -> Result<editor::Order<'_>, Failed> {
    let wrong = || (400, "\"confirm_time_s\" must be a number".to_owned());
    Ok(editor::Order {
        file: text_of(body, "file")?,
        text: text_of(body, "text")?,
        base: text_of(body, "base")?,
        confirm_time_s: match body.get("confirm_time_s") {
            None | Some(Value::Null) => None,
            Some(seconds) => Some(seconds.as_i64().ok_or_else(wrong)?),
        },
    })
}

/// The text of a file with other values, and its diagnostics.
async fn change_settings(
    backend: &dyn Backend,
    (file, table): (&str, &str),
    values: &Value,
) -> Result<Value, Failed> {
    let wrong = || (400, "\"values\" must be an object of strings".to_owned());
    let values: Option<Vec<(&str, &str)>> = values
        .as_object()
        .ok_or_else(wrong)?
        .iter()
        .map(|(name, value)| Some((name.as_str(), value.as_str()?)))
        .collect();
    let open = settings_pages::file_of(backend, file).map_err(|error| (404, error))?;
    let text = form::change(&open.text, table, &values.ok_or_else(wrong)?);
    let text = text.map_err(|error| (400, error))?;
    let proposed = editor::propose(backend, &open.name, &text).await;
    let proposed = proposed.map_err(|error| (400, error))?;
    let mut answer = checked(&proposed.checked, &open.name);
    answer["file"] = open.name.into();
    answer["base"] = open.digest.into();
    answer["text"] = text.into();
    Ok(answer)
}

/// Health of everything around the server, for the page and its event stream.
pub fn health(backend: &dyn Backend) -> Value {
    let status = backend.control().status().to_json();
    let bans = backend.control().bans(&BanVerb::List).unwrap_or_default();
    let bans = bans
        .get("bans")
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    json!({
        "version": status["version"],
        "uptime_s": status["uptime_s"],
        "generation": status["generation"],
        "configuration": status["configuration"],
        "workers": status["workers"],
        "sites": status["sites"],
        "listeners": status["listeners"],
        "last_reload": status["last_reload"],
        "upstreams": status["upstreams"],
        "page_cache": status["page_cache"],
        "certificates": certificates(backend),
        "cluster": backend.control().cluster_status().ok(),
        "bans": bans,
        "now": saker_net::clock::realtime_s(),
    })
}

fn certificates(backend: &dyn Backend) -> Value {
    let now_s = saker_net::clock::realtime_s();
    let certificates = backend.certificates();
    let shown = certificates.iter().map(|one| {
        let not_after = i64::try_from(one.not_after_unix_s).unwrap_or(i64::MAX);
        json!({
            "names": one.names,
            "not_after_unix_s": one.not_after_unix_s,
            "days_left": not_after.saturating_sub(now_s).div_euclid(86_400),
            "ocsp": one.ocsp.to_json(),
        })
    });
    shown.collect()
}

async fn explain(backend: &dyn Backend, question: Question) -> Result<Value, Failed> {
    let steps = backend
        .explain(question)
        .await
        .map_err(|error| (400, error))?;
    let steps = steps
        .iter()
        .map(|step| json!({ "phase": step.phase, "text": step.text, "place": step.place }));
    Ok(json!({ "ok": true, "steps": steps.collect::<Value>() }))
}

/// The question that a query asks.
pub fn question(query: &Form) -> Result<Question, Failed> {
    let url = query.get("url");
    if url.is_empty() {
        return Err((400, "`url` is missing".into()));
    }
    let mut headers = Vec::new();
    for line in query.all("header").filter(|line| !line.trim().is_empty()) {
        let field = line
            .split_once(':')
            .map(|(name, value)| (name.trim(), value.trim()));
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        match field {
            Some((name, value)) if is_name(name) && !value.contains(|c: char| c.is_control()) => {
                headers.push((name.to_owned(), value.to_owned()));
            }
            _ => {
                return Err((
                    400,
                    format!("invalid header `{line}` (expected Name: value)"),
                ));
            }
        }
    }
    let method = match query.get("method") {
        "" => "GET",
        method => method,
    };
    let is_method = method.len() <= 32 && method.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_url = url.len() <= 8192 && !url.contains(|c: char| c.is_control() || c == ' ');
    match is_method && is_url {
        true => Ok(Question {
            method: method.to_owned(),
            url: url.to_owned(),
            headers,
        }),
        false => Err((400, "invalid method or URL".into())),
    }
}

fn entries(query: &Form) -> CacheVerb {
    let site = Some(query.get("site")).filter(|site| !site.is_empty());
    match query.get("url") {
        "" => CacheVerb::List {
            site: site.map(str::to_owned),
            max: ENTRIES_MAX,
        },
        url => CacheVerb::Show {
            url: url.to_owned(),
        },
    }
}

/// The order that a JSON object describes, in the words of the control socket.
fn order(body: &Value) -> Result<PurgeOrder, Failed> {
    match CacheVerb::parse("purge", body) {
        Some(Ok(CacheVerb::Purge(order))) => Ok(order),
        Some(Err(error)) => Err((400, error)),
        _ => Err((400, "not an order to purge".into())),
    }
}

fn configuration(backend: &dyn Backend, file: &str) -> Result<Value, Failed> {
    let files = editor::files(backend);
    let name = match (file, files.first()) {
        ("", Some(first)) => first.clone(),
        ("", None) => return Ok(json!({ "ok": true, "files": files })),
        (file, _) => file.to_owned(),
    };
    let open = editor::open(backend, &name).map_err(|error| (404, error))?;
    let pending = backend.state().editor.pending();
    Ok(json!({
        "ok": true,
        "files": files,
        "file": open.name,
        "text": open.text,
        "digest": open.digest,
        "pending": pending.map(|pending| json!({ "id": pending.version.id, "confirm_until": pending.until_s })),
    }))
}

async fn check(backend: &dyn Backend, file: &str, text: &str) -> Result<Value, Failed> {
    let proposed = editor::propose(backend, file, text).await;
    let proposal = proposed.map_err(|error| (400, error))?;
    Ok(checked(&proposal.checked, file))
}

fn completion(backend: &dyn Backend, file: &str, before: &str) -> Result<Value, Failed> {
    let found = editor::complete(backend, file, before);
    let found = found.map_err(|error| (404, error))?;
    let candidates = found.candidates.iter();
    let candidates = candidates.map(|one| json!({ "text": one.text, "detail": one.detail }));
    Ok(json!({ "ok": true, "typed": found.typed, "candidates": candidates.collect::<Value>() }))
}

/// Diagnostics, with those of one file marked.
fn checked(checked: &CheckedConfiguration, file: &str) -> Value {
    let real = |path: &str| fs::canonicalize(path).ok();
    let own = real(file);
    let findings = checked.findings.iter().map(|one| {
        json!({
            "severity": one.severity, "file": one.file, "line": one.line,
            "column": one.column, "length": one.length,
            "is_here": one.file == file || own.is_some() && real(&one.file) == own,
            "message": one.message, "help": one.help,
        })
    });
    json!({
        "ok": true,
        "has_errors": checked.has_errors(),
        "diagnostics": findings.collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions() {
        let ask = |query: &str| question(&Form::parse(query.as_bytes()));
        let asked = ask("url=/a&method=HEAD&header=Accept:+x&header=").expect("asked");
        assert_eq!((asked.method.as_str(), asked.url.as_str()), ("HEAD", "/a"));
        assert_eq!(asked.headers, [("Accept".to_owned(), "x".to_owned())]);
        for wrong in [
            "",
            "url=/a&header=x",
            "url=/a&header=a%0D%0Ab:+c",
            "url=/a&header=a:+b%0D%0Ac:d",
            "url=/a+b",
            "url=/a%0Ab",
            "url=/&method=G%20T",
        ] {
            assert!(ask(wrong).is_err(), "{wrong}");
        }
    }
}
