//! Inspection of connection, request line, and fields.
//!
//! Called by: the phase `inspect_request`.
//! Caveat: what the library would read in another way than programs do, and what would keep it busy
//! for seconds, is refused before it sees any of it.
//! Out of scope: content (`content`).

use crate::{
    arguments,
    content::{Look, Offload, look},
    screening::{Screening, refuse},
};
use saker_config::modsecurity::Rules;
use saker_http::{KnownField, Status, Version};
use saker_net::modsecurity::Transaction;
use saker_pipeline::{Exchange, Inspection, Response, Step, Verdict};
use saker_telemetry::{error_log, message};
use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Cookies of a request: more than any browser sends.
const COOKIES_MAX: usize = 1000;

/// Inspects the head once; an internal redirect does not repeat it.
pub fn request_head(exchange: &mut Exchange, offload: Offload) -> Step<'_> {
    let Some(wanted) = exchange.routing.settings.modsecurity.clone() else {
        return Step::PASS;
    };
    exchange.depends_on_request();
    // Without usable rules nothing passes.
    let Some(rules) = wanted.rules.clone() else {
        return Some(Response::new(Status::INTERNAL_SERVER_ERROR)).into();
    };
    if exchange.log.trace.is_some() {
        exchange.trace("access", None, || {
            "ModSecurity's rules are asked; explain assumes that they let it pass".into()
        });
        return Step::PASS;
    }
    // An internal redirect under the same rules has been inspected.
    if exchange
        .extensions
        .get::<Rc<Screening>>()
        .is_some_and(|screening| Arc::ptr_eq(&screening.rules, &rules))
    {
        return Step::PASS;
    }
    let counted = Counted::of(exchange, &rules);
    if rules.is_enforcing()
        && let Some(why) = counted.fault(&rules)
    {
        error_log::log_about(&message::RULE_REFUSED, exchange, format_args!("{why}"));
        return Some(Response::new(Status::BAD_REQUEST)).into();
    }
    let Some(mut transaction) = rules.transaction(&id(exchange)) else {
        return Some(Response::new(Status::INTERNAL_SERVER_ERROR)).into();
    };
    describe(exchange, &mut transaction, &rules, &counted);
    let screening = Rc::new(Screening::new(exchange, &rules, transaction));
    screening.arguments.set(counted.arguments + counted.cookies);
    screening.bytes.set(counted.bytes as u64);
    exchange.extensions.insert(Rc::clone(&screening));
    exchange.access.inspection = Some(Rc::clone(&screening) as Rc<dyn Inspection>);
    let look_at = Look::at_request(exchange, &screening);
    if !look_at.is_much {
        if let Some(transaction) = screening.transaction.borrow_mut().as_mut() {
            transaction.request_head();
        }
        return judge(exchange, &screening).into();
    }
    Step::Pending(Box::pin(async move {
        look(look_at, offload, Transaction::request_head).await;
        judge(exchange, &screening)
    }))
}

fn judge(exchange: &mut Exchange, screening: &Screening) -> Verdict {
    screening
        .intervention()
        .map(|found| refuse(exchange, found))
        .into()
}

/// Counts of what the library goes through once for each rule, and of lines that it and programs
/// take differently.
struct Counted {
    arguments: usize,
    cookies: usize,
    content_types: usize,
    /// Bytes of the target, and of fields that programs use as clients send them.
    bytes: usize,
}

impl Counted {
    fn of(exchange: &Exchange, rules: &Rules) -> Counted {
        let view = exchange.head.view();
        let mut counted = Counted {
            arguments: arguments::in_target(view.target(), rules.argument_separator()),
            cookies: 0,
            content_types: 0,
            bytes: view.target().len(),
        };
        for (name, value) in view.fields() {
            if name.eq_ignore_ascii_case(b"content-type") {
                counted.content_types += 1;
            } else if is_cookie(name) {
                counted.cookies += arguments::in_list(value, b';');
                counted.bytes += value.len();
            } else if name.eq_ignore_ascii_case(b"user-agent")
                || name.eq_ignore_ascii_case(b"referer")
            {
                counted.bytes += value.len();
            }
        }
        counted
    }

    /// Why the request is refused.
    fn fault(&self, rules: &Rules) -> Option<String> {
        // The library takes the last one, programs the first or all of them as one: content that is
        // a form to one of them is not looked at by the other.
        if self.content_types > 1 {
            return Some("there are several Content-Type fields".into());
        }
        if self.arguments as u64 > rules.arguments_max() {
            return Some(arguments::too_many(rules));
        }
        (self.cookies > COOKIES_MAX).then(|| format!("there are more than {COOKIES_MAX} cookies"))
    }
}

fn is_cookie(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"cookie")
}

/// Tells the library connection, request line, and fields. Where rules only detect, what would be
/// refused otherwise is left out.
fn describe(exchange: &Exchange, transaction: &mut Transaction, rules: &Rules, counted: &Counted) {
    let view = exchange.head.view();
    transaction.connection(exchange.client.address, exchange.client.local);
    let version = match view.version() {
        Version::Http10 => "1.0",
        Version::Http11 => "1.1",
        // Rule sets that do not know HTTP/3 (Debian's) would refuse all of it; what rules look at
        // is the same.
        Version::Http2 | Version::Http3 => "2.0",
    };
    let target = arguments::first_of_target(
        view.target(),
        rules.argument_separator(),
        rules.arguments_max(),
    );
    transaction.uri(target, view.method_token(), version);
    let has_too_many_cookies = counted.cookies > COOKIES_MAX;
    view.fields()
        .filter(|(name, _)| !has_too_many_cookies || !is_cookie(name))
        .for_each(|(name, value)| transaction.request_field(name, value));
    if !view.has(KnownField::Host) && !exchange.host.is_empty() {
        transaction.request_field(b"Host", &exchange.host);
    }
}

/// The id in the rules' own logs: mod_unique_id's if it is set.
fn id(exchange: &Exchange) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    match exchange.environment.first(b"UNIQUE_ID") {
        Some(id) => String::from_utf8_lossy(id).into_owned(),
        None => format!(
            "{:x}-{:x}-{:x}",
            exchange.now,
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ),
    }
}
