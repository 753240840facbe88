//! The challenge: a page that makes a browser solve a puzzle, and the clearance cookie for that.
//!
//! Called by: `control` (challenge for every client), `limits` and `violation` (challenge as a
//! consequence), `login_attempts`.
//! Caveat: the solution comes in a cookie with the repeated request, so nothing is kept and no path
//! is taken from the site. The page has a ready head: no field that a site sets for its own pages
//! may keep the script from running.
//! Out of scope: the puzzle itself (`proof_of_work`).

use crate::{
    SharedAbuseState,
    context::{context, cookie, known},
    proof_of_work::{self, Binding, ClearanceTerms, Page},
};
use saker_config::model::Challenge;
use saker_http::{Fields, Method};
use saker_pipeline::{Body, Chunk, Exchange, ReadyHead, Response};
use std::{rc::Rc, sync::Arc};

/// Names of cookies that clients hold.
const CLEARANCE: &str = "saker_pass";
const SOLUTION: &str = "saker_work";
/// Additional resources that a custom challenge page may load.
const OWN_POLICY: &str =
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:";

/// The configured challenge, or the default one.
pub fn rule(exchange: &Exchange) -> Arc<Challenge> {
    exchange
        .routing
        .settings
        .visitors
        .challenge
        .clone()
        .unwrap_or_default()
}

/// The client has a clearance, or brings a solution and is granted one.
pub fn has_clearance(exchange: &mut Exchange, shared: &SharedAbuseState, rule: &Challenge) -> bool {
    exchange.depends_on_request();
    let keys = &shared.keys;
    let client = Binding {
        address: exchange.client.ip(),
        host: &exchange.host,
    };
    let terms = ClearanceTerms {
        difficulty: rule.difficulty,
        life_s: rule.life_s,
    };
    // Or one that this request has just earned, under another rule.
    if proof_of_work::has_clearance(keys, client, &clearance_of(exchange), terms, exchange.now) {
        return true;
    }
    let Some(solution) = cookie(exchange, SOLUTION) else {
        return false;
    };
    let clearance = proof_of_work::solved(keys, client, solution, rule.difficulty, exchange.now)
        .and_then(|solved| proof_of_work::clearance(keys, client, &solved, terms, exchange.now));
    let Some((clearance, until)) = clearance.filter(|(_, until)| *until > exchange.now) else {
        return false;
    };
    let secure = if exchange.client.secure {
        "; Secure"
    } else {
        ""
    };
    let left_s = until - exchange.now;
    let set = [
        format!(
            "{CLEARANCE}={clearance}; Path=/; Max-Age={left_s}; HttpOnly; SameSite=Lax{secure}"
        ),
        format!("{SOLUTION}=; Path=/; Max-Age=0; SameSite=Lax{secure}"),
    ];
    exchange.trace("abuse", None, || "`challenge`: solved".into());
    let context = context(exchange);
    context.cookies.extend(set.map(String::into_bytes));
    context.clearance = Some(clearance.into_bytes());
    true
}

/// The clearance that the client holds or has just been granted; empty: none.
pub fn clearance_of(exchange: &Exchange) -> Vec<u8> {
    let fresh = known(exchange).and_then(|context| context.clearance.clone());
    fresh.unwrap_or_else(|| cookie(exchange, CLEARANCE).unwrap_or_default().to_vec())
}

/// The page with the puzzle.
pub fn page(
    exchange: &mut Exchange,
    shared: &SharedAbuseState,
    rule: &Challenge,
    retry_after_s: u64,
) -> Response {
    exchange.depends_on_request();
    exchange.trace("abuse", None, || {
        format!("`challenge`: a puzzle of {} bits is set", rule.difficulty)
    });
    let client = Binding {
        address: exchange.client.ip(),
        host: &exchange.host,
    };
    let Some(puzzle) = proof_of_work::puzzle(&shared.keys, client, rule.difficulty, exchange.now)
    else {
        return Response::new(rule.status);
    };
    let nonce = puzzle.split('.').nth(1).unwrap_or_default();
    let page = proof_of_work::page(&Page {
        puzzle: &puzzle,
        cookie: SOLUTION,
        has_content: !matches!(exchange.head.view().method(), Method::Get | Method::Head),
        failed: cookie(exchange, SOLUTION).is_some(),
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
