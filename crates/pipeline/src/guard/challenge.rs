//! The page that has a browser do some work, and what its solution is worth.
//!
//! The solution comes in a cookie with the request that is asked again, so nothing has to be kept
//! and no address is taken from the site. A ready head is sent: no field that a site sets for its
//! own pages may keep the script from running.

use super::{GuardState, cookie};
use crate::{Body, Chunk, Exchange, ReadyHead, Response};
use saker_abuse::work::{self, Page, Visitor, Wanted};
use saker_config::model::Challenge;
use saker_http::{Fields, Method};
use std::{rc::Rc, sync::Arc};

const PASS: &str = "saker_pass";
const WORK: &str = "saker_work";
/// What a page of the site's own may load besides.
const OWN_POLICY: &str =
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:";

/// What the settings say of it, or what goes without saying.
pub(crate) fn rule(exchange: &Exchange) -> Arc<Challenge> {
    exchange
        .settings
        .visitors
        .challenge
        .clone()
        .unwrap_or_default()
}

/// Whether the visitor has a pass, or brings a solution, for which he gets one.
pub(crate) fn has_passed(exchange: &mut Exchange, guard: &GuardState, rule: &Challenge) -> bool {
    exchange.depends_on_request();
    let keys = &guard.keys;
    let visitor = Visitor {
        address: exchange.client.ip(),
        host: &exchange.host,
    };
    let wanted = Wanted {
        difficulty: rule.difficulty,
        life_s: rule.life_s,
    };
    // Also one that this request has earned already, for a place of another rule.
    if work::has_pass(keys, visitor, &pass_of(exchange), wanted, exchange.now) {
        return true;
    }
    let Some(solution) = cookie(exchange, WORK) else {
        return false;
    };
    let pass = work::solved(keys, visitor, solution, rule.difficulty, exchange.now)
        .and_then(|solved| work::pass(keys, visitor, &solved, wanted, exchange.now));
    let Some((pass, until)) = pass.filter(|(_, until)| *until > exchange.now) else {
        return false;
    };
    let secure = if exchange.client.secure {
        "; Secure"
    } else {
        ""
    };
    let left_s = until - exchange.now;
    let set = [
        format!("{PASS}={pass}; Path=/; Max-Age={left_s}; HttpOnly; SameSite=Lax{secure}"),
        format!("{WORK}=; Path=/; Max-Age=0; SameSite=Lax{secure}"),
    ];
    exchange.trace("guard", None, || "`challenge`: solved".into());
    exchange
        .guarded()
        .cookies
        .extend(set.map(String::into_bytes));
    exchange.guarded().pass = Some(pass.into_bytes());
    true
}

/// What tells the holder of a pass from others of his address.
pub(crate) fn pass_of(exchange: &Exchange) -> Vec<u8> {
    let fresh = exchange
        .guarded
        .as_ref()
        .and_then(|guarded| guarded.pass.clone());
    fresh.unwrap_or_else(|| cookie(exchange, PASS).unwrap_or_default().to_vec())
}

pub(crate) fn page(
    exchange: &mut Exchange,
    guard: &GuardState,
    rule: &Challenge,
    retry_after_s: u64,
) -> Response {
    exchange.depends_on_request();
    exchange.trace("guard", None, || {
        format!("`challenge`: work of {} bits is asked for", rule.difficulty)
    });
    let visitor = Visitor {
        address: exchange.client.ip(),
        host: &exchange.host,
    };
    let Some(puzzle) = work::puzzle(&guard.keys, visitor, rule.difficulty, exchange.now) else {
        return Response::new(rule.status);
    };
    let nonce = puzzle.split('.').nth(1).unwrap_or_default();
    let page = work::page(&Page {
        puzzle: &puzzle,
        cookie: WORK,
        has_content: !matches!(exchange.head.view().method(), Method::Get | Method::Head),
        failed: cookie(exchange, WORK).is_some(),
        is_secure: exchange.client.secure,
        nonce,
        own: rule.page.as_deref(),
    });
    let more = if rule.page.is_some() {
        OWN_POLICY
    } else {
        "style-src 'unsafe-inline'"
    };
    let policy = format!("default-src 'none'; {more}; script-src 'nonce-{nonce}'; base-uri 'none'");
    let mut fields = Fields::new();
    fields.append("Content-Type", &b"text/html; charset=utf-8"[..]);
    fields.append("Content-Length", page.len().to_string().into_bytes());
    fields.append("Cache-Control", &b"no-store"[..]);
    fields.append("Retry-After", retry_after_s.max(1).to_string().into_bytes());
    fields.append("Content-Security-Policy", policy.into_bytes());
    fields.append("X-Robots-Tag", &b"noindex"[..]);
    Response::ready(
        Rc::new(ReadyHead::new(rule.status, fields)),
        Body::Memory(Chunk::from(page.into_bytes())),
    )
}
