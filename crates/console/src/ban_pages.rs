//! The page of banned clients, and its forms.
//!
//! Called by: `actions`, and the API, for orders.
//! Caveat: a reason may have text of clients in it; templates escape it.
//! Out of scope: bans themselves (`saker_control::BanVerb`).

use crate::{
    Backend, audit,
    exchange::{Form, Response},
    pages::{Notice, Shell, respond},
    sessions::Identity,
};
use askama::Template;
use saker_control::BanVerb;
use serde_json::{Value, json};
use std::net::IpAddr;

/// Bans that the page lists.
const SHOWN_MAX: usize = 1_000;

/// A ban, as the page shows it.
struct Row {
    address: String,
    left: String,
    reason: String,
}

#[derive(Template)]
#[template(path = "bans.html")]
struct BansPage {
    shell: Shell,
    notice: Option<Notice>,
    rows: Vec<Row>,
    total: usize,
}

/// The list of bans.
pub fn bans(backend: &dyn Backend, shell: Shell, notice: Option<Notice>) -> Response {
    let (listed, error) = match backend.control().bans(&BanVerb::List) {
        Ok(listed) => (listed, None),
        Err(error) => (Value::Null, Some(Notice::wrong(&error))),
    };
    let all = listed["bans"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let rows = all.iter().take(SHOWN_MAX).map(|one| Row {
        address: text(one, "address"),
        left: one["seconds_left"]
            .as_u64()
            .map_or_else(|| "for good".to_owned(), |left| format!("{left} s")),
        reason: text(one, "reason"),
    });
    let page = BansPage {
        shell,
        rows: rows.collect(),
        total: all.len(),
        notice: notice.or(error),
    };
    respond(200, &page)
}

/// Bans, or lifts a ban, as a form says.
pub fn submit(
    backend: &dyn Backend,
    shell: Shell,
    who: (&Identity, IpAddr),
    (verb, form): (&str, &Form),
) -> Response {
    let addresses: Vec<&str> = form.get("addresses").split_whitespace().collect();
    let mut order = json!({ "addresses": addresses, "reason": form.get("reason") });
    let minutes = form.get("minutes").trim();
    let notice = match (minutes, minutes.parse::<u32>()) {
        ("", _) => None,
        (_, Ok(minutes)) => {
            order["seconds"] = (u64::from(minutes) * 60).into();
            None
        }
        (_, Err(_)) => Some(Notice::wrong("the time must be a number of minutes")),
    };
    let notice = notice.unwrap_or_else(|| match change(backend, who, verb, &order) {
        Ok(answer) => {
            let held = answer["still_held"].as_array().map_or(0, Vec::len);
            match (verb, held) {
                ("ban", _) => Notice::good("The clients are banned."),
                (_, 0) => Notice::good("The bans are lifted."),
                _ => Notice::wrong("Some addresses are still banned by networks."),
            }
        }
        Err((_, error)) => Notice::wrong(&error),
    });
    bans(backend, shell, Some(notice))
}

/// Bans, or lifts bans, in the words of the control socket.
pub fn change(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    verb: &str,
    order: &Value,
) -> Result<Value, (u16, String)> {
    let parsed = match BanVerb::parse(verb, order) {
        Some(Ok(parsed)) => parsed,
        Some(Err(error)) => return Err((400, error)),
        None => return Err((400, "not an order about bans".to_owned())),
    };
    audit::write(&backend.state_dir(), who, verb, parsed.to_json())
        .map_err(|error| (500, error))?;
    let done = backend.control().bans(&parsed);
    done.map_err(|error| (400, error))
}
