//! The page of upstreams, PHP pools, and automatic certificates, and what operators do to them.
//!
//! Called by: `actions`, and the API, for orders.
//! Caveat: nothing here is written to the configuration, and nothing is reloaded; changes of
//! members and servers are kept in the state directory.
//! Out of scope: the state of members (`saker_config::model::MemberState`).

use crate::{
    Backend, LiveChange, MemberChange, audit,
    exchange::{Form, Response},
    pages::{Notice, Shell, respond},
    routes::Action,
    sessions::Identity,
};
use askama::Template;
use saker_control::OcspReport;
use serde_json::{Value, json};
use std::{net::IpAddr, time::Duration};

const WEIGHT_MAX: u32 = 1_000;

/// A member of an upstream, as the page shows it.
struct Member {
    upstream: String,
    address: String,
    state: String,
    weight: String,
    busy: u64,
    requests: u64,
    failures: u64,
    is_draining: bool,
}

/// A certificate, as the page shows it.
struct Certificate {
    names: String,
    first: String,
    days_left: i64,
    ocsp: String,
}

#[derive(Template)]
#[template(path = "upstreams.html")]
struct UpstreamsPage {
    shell: Shell,
    notice: Option<Notice>,
    members: Vec<Member>,
    upstreams: Vec<String>,
    /// Sources of servers, in sentences; whether the source fails.
    sources: Vec<(String, bool)>,
    /// Upstream and address of servers of the configuration that are not used.
    removed: Vec<(String, String)>,
    pools: Vec<String>,
    certificates: Vec<Certificate>,
}

/// The page.
pub fn upstreams(backend: &dyn Backend, shell: Shell, notice: Option<Notice>) -> Response {
    let report = backend.control().status().to_json();
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let count = |one: &Value, name: &str| one[name].as_u64().unwrap_or(0);
    let upstreams = report["upstreams"].as_array().into_iter().flatten();
    let names = upstreams.map(|one| text(one, "name")).collect();
    let mut members = Vec::new();
    for upstream in report["upstreams"].as_array().into_iter().flatten() {
        for one in upstream["members"].as_array().into_iter().flatten() {
            let state = text(one, "state");
            members.push(Member {
                upstream: text(upstream, "name"),
                address: text(one, "address"),
                is_draining: state == "draining",
                state,
                weight: one["weight"].to_string(),
                busy: count(one, "busy"),
                requests: count(one, "requests"),
                failures: count(one, "failures"),
            });
        }
    }
    let upstreams = report["upstreams"].as_array().into_iter().flatten();
    let sources = upstreams.filter_map(|one| {
        let line = source_line(&one["discovery"])?;
        let is_failing = one["discovery"]["error"].is_string();
        Some((format!("{}: {line}", text(one, "name")), is_failing))
    });
    let now_s = saker_net::clock::realtime_s();
    let certificates = backend.certificates().into_iter().map(|one| {
        let not_after = i64::try_from(one.not_after_unix_s).unwrap_or(i64::MAX);
        Certificate {
            first: one.names.first().cloned().unwrap_or_default(),
            names: one.names.join(", "),
            days_left: not_after.saturating_sub(now_s).div_euclid(86_400),
            ocsp: ocsp_text(one.ocsp, now_s),
        }
    });
    let page = UpstreamsPage {
        shell,
        notice,
        members,
        upstreams: names,
        sources: sources.collect(),
        removed: backend.live_changes().removed(),
        pools: backend.php_pools(),
        certificates: certificates.collect(),
    };
    respond(200, &page)
}

/// The state of a source of servers. `None`: there is none.
fn source_line(report: &Value) -> Option<String> {
    let source = report["source"].as_str()?;
    let age = match report["age_ms"].as_u64() {
        Some(ms) => format!("last answer {} s ago", ms / 1000),
        None => "no answer yet".to_owned(),
    };
    let servers = report["servers"].as_u64().unwrap_or(0);
    let error = report["error"].as_str();
    let error = error.map_or_else(String::new, |error| format!(" ({error})"));
    Some(format!("{source}, servers: {servers}, {age}{error}"))
}

fn ocsp_text(ocsp: OcspReport, now_s: i64) -> String {
    match ocsp {
        OcspReport::Off => "no OCSP response is stapled".to_owned(),
        OcspReport::Missing => "the OCSP response is missing".to_owned(),
        OcspReport::Stapled(None) => "an OCSP response is stapled".to_owned(),
        OcspReport::Stapled(Some(until)) => {
            let until = i64::try_from(until).unwrap_or(i64::MAX);
            let hours = until.saturating_sub(now_s).max(0) / 3_600;
            format!("an OCSP response is stapled, good for {hours} h")
        }
    }
}

/// Tests a member of an upstream. No other address can be connected to.
pub async fn test(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    upstream: &str,
    member: &str,
) -> Result<Value, (u16, String)> {
    let detail = json!({ "upstream": upstream, "member": member });
    audit::write(&backend.state_dir(), who, "test server", detail).map_err(|error| (500, error))?;
    let _permit = backend.state().look().await;
    let test = backend.test_member(upstream, member).await;
    let test = test.map_err(|error| (404, error))?;
    let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
    Ok(json!({
        "ok": true,
        "upstream": upstream,
        "member": member,
        "is_tls": test.is_tls,
        "connect_ms": test.connected.map(ms),
        "request": test.request,
        "status": test.answered.map(|(status, _)| status),
        "answer_ms": test.answered.map(|(_, time)| ms(time)),
        "is_passed": test.is_passed,
        "error_of_member": test.error,
    }))
}

/// Tests a member as a form says, and shows the result.
pub async fn test_form(
    backend: &dyn Backend,
    shell: Shell,
    who: (&Identity, IpAddr),
    form: &Form,
) -> Response {
    let tested = test(backend, who, form.get("upstream"), form.get("member")).await;
    let notice = match tested {
        Ok(test) => Notice {
            text: test_text(&test),
            is_good: test["is_passed"] == true,
        },
        Err((_, error)) => Notice::wrong(&error),
    };
    upstreams(backend, shell, Some(notice))
}

/// The result of a test as a sentence.
pub fn test_text(test: &Value) -> String {
    let text = |name: &str| test[name].as_str().unwrap_or_default();
    let ms = |name: &str| test[name].as_f64().unwrap_or(0.0);
    let tls = match test["is_tls"] == true {
        true => " with TLS",
        false => "",
    };
    let mut out = match test["connect_ms"].is_null() {
        true => format!("{}: no connection{tls}", text("member")),
        false => format!(
            "{}: connected{tls} in {:.1} ms",
            text("member"),
            ms("connect_ms")
        ),
    };
    if let Some(status) = test["status"].as_u64() {
        let answered = ms("answer_ms");
        out += &format!(
            "; {} was answered with {status} in {answered:.1} ms",
            text("request")
        );
        if test["is_passed"] != true {
            out += ", which a health check takes for a failure";
        }
    }
    match text("error_of_member") {
        "" => out + ".",
        error => format!("{out}: {error}."),
    }
}

/// Does what a form says.
pub fn submit(
    backend: &dyn Backend,
    shell: Shell,
    who: (&Identity, IpAddr),
    (action, form): (Action, &Form),
) -> Response {
    let mut order: serde_json::Map<String, Value> = form
        .iter()
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
    // Forms have no numbers. What is none is refused below.
    if let Ok(weight) = form.get("weight").trim().parse::<u32>() {
        order.insert("weight".to_owned(), weight.into());
    } else if form.get("weight").trim().is_empty() {
        order.remove("weight");
    }
    let action = match (action, form.get("action")) {
        (Action::ServerForm, "remove") => Action::RemoveServer,
        (Action::ServerForm, _) => Action::AddServer,
        (action, _) => action,
    };
    let notice = match change(backend, who, action, &Value::Object(order)) {
        Ok(_) => Notice::good("It is done."),
        Err((_, error)) => Notice::wrong(&error),
    };
    upstreams(backend, shell, Some(notice))
}

/// Does what an order says.
pub fn change(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    action: Action,
    order: &Value,
) -> Result<Value, (u16, String)> {
    let text = |name: &str| {
        let given = order[name].as_str();
        given.ok_or_else(|| (400, format!("\"{name}\" must be a string")))
    };
    let note = |action: &str, detail: Value| {
        let noted = audit::write(&backend.state_dir(), who, action, detail);
        noted.map_err(|error| (500, error))
    };
    let wrong = |error| (404, error);
    match action {
        Action::RestartPhp | Action::PhpForm => {
            let pool = text("pool")?;
            note("restart PHP", json!({ "pool": pool }))?;
            backend.restart_php(pool).map_err(wrong)?;
        }
        Action::RenewCertificate | Action::RenewForm => {
            let name = text("name")?;
            note("renew certificate", json!({ "name": name }))?;
            backend.renew_certificate(name).map_err(wrong)?;
        }
        _ => {
            let upstream = text("upstream")?.to_owned();
            let change = match action {
                Action::AddServer => LiveChange::AddServer {
                    upstream,
                    url: text("url")?.trim().to_owned(),
                },
                Action::RemoveServer => LiveChange::RemoveServer {
                    upstream,
                    member: text("member")?.to_owned(),
                },
                _ => LiveChange::Member {
                    upstream,
                    member: text("member")?.to_owned(),
                    change: member_change(text("action")?, &order["weight"])?,
                },
            };
            note("change upstream", order.clone())?;
            let count = backend.change_live(&change).map_err(wrong)?;
            return Ok(json!({ "ok": true, "count": count }));
        }
    }
    Ok(json!({ "ok": true }))
}

fn member_change(action: &str, weight: &Value) -> Result<MemberChange, (u16, String)> {
    let wrong = |error: &str| Err((400, error.to_owned()));
    match (action, weight) {
        ("drain", _) => Ok(MemberChange::Drain),
        ("resume", _) => Ok(MemberChange::Resume),
        ("reconnect", _) => Ok(MemberChange::Reconnect),
        ("weight", Value::Null) => Ok(MemberChange::Weight(None)),
        ("weight", weight) => match weight.as_u64().and_then(|one| u32::try_from(one).ok()) {
            Some(weight @ 1..=WEIGHT_MAX) => Ok(MemberChange::Weight(Some(weight))),
            _ => wrong("\"weight\" must be a number from 1 to 1000"),
        },
        _ => wrong("\"action\" must be drain, resume, weight, or reconnect"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_members() {
        let change = |action, weight: Value| member_change(action, &weight).ok();
        assert_eq!(change("drain", Value::Null), Some(MemberChange::Drain));
        assert_eq!(
            change("weight", Value::Null),
            Some(MemberChange::Weight(None))
        );
        assert_eq!(
            change("weight", json!(1000)),
            Some(MemberChange::Weight(Some(1000)))
        );
        for weight in [
            json!(0),
            json!(1001),
            json!(-1),
            json!("1"),
            json!(1.5),
            json!(u64::MAX),
        ] {
            assert_eq!(change("weight", weight), None);
        }
        assert_eq!(change("stop", Value::Null), None);
    }

    #[test]
    fn names_are_text() {
        let hostile = "\"><img src=x onerror=alert(1)>'";
        let text = || hostile.to_owned();
        let identity = Identity {
            name: text(),
            role: crate::users::Role::Administrator,
            site: None,
            is_account: false,
            by: crate::sessions::By::Session,
        };
        let page = UpstreamsPage {
            shell: Shell::new(&identity),
            notice: Some(Notice::wrong(&test_text(&json!({
                "member": hostile, "request": hostile, "error_of_member": hostile, "status": 200,
            })))),
            members: vec![Member {
                upstream: text(),
                address: text(),
                state: text(),
                weight: text(),
                busy: 0,
                requests: 0,
                failures: 0,
                is_draining: false,
            }],
            upstreams: vec![text()],
            sources: vec![(text(), true)],
            removed: vec![(text(), text())],
            pools: vec![text()],
            certificates: vec![Certificate {
                names: text(),
                first: text(),
                days_left: 1,
                ocsp: text(),
            }],
        };
        let html = String::from_utf8(respond(200, &page).content).expect("text");
        assert!(
            html.contains("</html>") && html.contains("onerror"),
            "{html}"
        );
        assert!(!html.contains("<img"), "{html}");
    }
}
