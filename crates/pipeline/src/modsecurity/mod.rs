//! ModSecurity's rules: requests are put to them on their way down, and responses on their way up.
//!
//! Place in the walk: the head once it is known what is in force and the client is within its
//! limits, before it is asked who he is; the content when that is settled, before anybody looks for
//! something to answer; the response before filters. The log of the rules is written when the
//! exchange is over, whatever became of it. Difficulty: content has to be looked at before the
//! handler gets any of it, so it is read here and handed on as it came (`gathered`). And a response
//! may be a part or a coding of what rules have to see: who makes such a response shows the whole
//! besides ([`Exchange::show_whole`]). Absent on purpose: requests inside of others and error
//! documents, which are part of a request that has been seen.

mod content;
mod gathered;
mod response;

pub use content::Offload;
pub(crate) use content::content;
pub(crate) use response::response;

use crate::{Asker, Body, Exchange, Response};
use content::Reading;
use saker_config::{
    model::{ModSecurity, ModSecurityMode},
    modsecurity::Rules,
};
use saker_http::{KnownField, Status, Version};
use saker_net::modsecurity::{Intervention, Transaction};
use saker_telemetry::{error_log, httpd_message, message};
use std::{
    cell::RefCell,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Work of that size is not done between other requests.
const LARGE_BYTES: u64 = 32 << 10;
/// As nginx has it: no answer at all.
const NO_RESPONSE: Status = Status(444);

/// Away while somebody is at it.
type Shared = Rc<RefCell<Option<Transaction>>>;

enum Stage {
    Head,
    Reading(Reading),
    Passed,
    Refused(Status),
}

/// What is known of a request that rules look at.
pub struct Screening {
    rules: Arc<Rules>,
    transaction: Shared,
    stage: Stage,
    about: Rc<About>,
    whole: Option<Whole>,
}

/// The representation that a response has been selected from (RFC 9110 sections 12 and 14): in the
/// identity coding, from the first byte to the last.
struct Whole {
    content_type: Vec<u8>,
    body: Body,
}

impl Exchange {
    /// Says whether rules are going to look at responses of this type.
    pub fn inspects(&self, content_type: &[u8]) -> bool {
        self.screening
            .as_ref()
            .is_some_and(|screening| screening.rules.wants_response_content(content_type))
    }

    /// Shows rules what the response is a part or a coding of, so that they judge that and not what
    /// the client has chosen to see of it. Nothing happens where no rules are in force.
    pub fn show_whole(&mut self, content_type: &[u8], body: impl FnOnce() -> Body) {
        if let Some(screening) = &mut self.screening {
            screening.whole = Some(Whole {
                content_type: content_type.to_vec(),
                body: body(),
            });
        }
    }
}

/// Whose lines they are.
struct About {
    rules: Arc<Rules>,
    asker: Asker,
    host: String,
}

impl About {
    fn tell(&self, transaction: &mut Transaction) {
        for line in transaction.take_lines() {
            let line = self.rules.told(&line, &self.host);
            error_log::log_about(&message::RULE_MATCHED, &self.asker, format_args!("{line}"));
        }
    }

    /// What is to be done by what rules have found so far.
    fn intervention(&self, transaction: &mut Transaction) -> Option<Intervention> {
        self.tell(transaction);
        let found = transaction.intervention()?;
        if let Some(line) = &found.line {
            let line = self.rules.told(line, &self.host);
            match error_log::speaks_httpd() {
                true => error_log::log_httpd(
                    &httpd_message::MODSECURITY_LINE,
                    None,
                    &self.asker,
                    format_args!("{line}"),
                ),
                false => error_log::log_about(
                    &message::RULE_REFUSED,
                    &self.asker,
                    format_args!("{line}"),
                ),
            }
        }
        Some(found)
    }
}

impl Drop for Screening {
    fn drop(&mut self) {
        if let Some(transaction) = self.transaction.borrow_mut().as_mut() {
            if let Stage::Refused(status) = self.stage {
                transaction.answered(status.0);
            }
            transaction.logging();
            self.about.tell(transaction);
        }
    }
}

/// What is in force for a request of a client's.
fn wanted(exchange: &Exchange) -> Option<Arc<ModSecurity>> {
    let modsecurity = exchange
        .settings
        .modsecurity
        .as_ref()
        .filter(|modsecurity| modsecurity.mode != ModSecurityMode::Off)?;
    (!exchange.is_inside && exchange.stands_in_for.is_none()).then(|| Arc::clone(modsecurity))
}

/// Connection, URI and fields.
pub(crate) fn head(exchange: &mut Exchange) -> Option<Response> {
    let wanted = wanted(exchange)?;
    exchange.depends_on_request();
    // Rules that can't be asked let nobody pass.
    let Some(rules) = wanted.rules.clone() else {
        return Some(Response::new(Status::INTERNAL_SERVER_ERROR));
    };
    if exchange.trace.is_some() {
        exchange.trace("access", None, || {
            "ModSecurity's rules are asked; that they let it pass is taken for granted here".into()
        });
        return None;
    }
    // A descent that begins again under the same rules has been seen.
    if exchange
        .screening
        .as_ref()
        .is_some_and(|screening| Arc::ptr_eq(&screening.rules, &rules))
    {
        return None;
    }
    let Some(mut transaction) = rules.transaction(&id(exchange)) else {
        return Some(Response::new(Status::INTERNAL_SERVER_ERROR));
    };
    describe(exchange, &mut transaction);
    transaction.request_head();
    let host = String::from_utf8_lossy(&exchange.host).into_owned();
    let about = Rc::new(About {
        rules: Arc::clone(&rules),
        asker: exchange.asker(),
        host,
    });
    let found = about.intervention(&mut transaction);
    let transaction = Rc::new(RefCell::new(Some(transaction)));
    exchange.screening = Some(Box::new(Screening {
        rules,
        transaction,
        stage: Stage::Head,
        about,
        whole: None,
    }));
    found.map(|found| refuse(exchange, found))
}

fn describe(exchange: &Exchange, transaction: &mut Transaction) {
    let view = exchange.head.view();
    transaction.connection(exchange.client.address, exchange.client.local);
    let version = match view.version() {
        Version::Http10 => "1.0",
        Version::Http11 => "1.1",
        // Sets of rules that know of no HTTP/3 (Debian's) would refuse all of it; what rules look
        // at is the same.
        Version::Http2 | Version::Http3 => "2.0",
    };
    transaction.uri(view.target(), view.method_token(), version);
    view.fields()
        .for_each(|(name, value)| transaction.request_field(name, value));
    if !view.has(KnownField::Host) && !exchange.host.is_empty() {
        transaction.request_field(b"Host", &exchange.host);
    }
}

/// By which the rules' own logs know it: mod_unique_id's, where that is there.
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

fn refuse(exchange: &mut Exchange, found: Intervention) -> Response {
    let response = refusal(found);
    if response.status == NO_RESPONSE {
        exchange.drops_connection = true;
    }
    // Saying no takes no place.
    exchange.counted.clear();
    if let Some(screening) = &mut exchange.screening {
        screening.stage = Stage::Refused(response.status);
    }
    response
}

fn refusal(found: Intervention) -> Response {
    let status = match (found.status, &found.redirect) {
        (status @ 300..=399, Some(_)) => Status(status),
        (_, Some(_)) => Status::FOUND,
        (status @ 200..=599, None) => Status(status),
        _ => Status::FORBIDDEN,
    };
    let mut response = Response::new(status);
    if let Some(to) = found.redirect {
        // What rules make of a client's words must not become fields of their own.
        let to: Vec<u8> = to.bytes().filter(|byte| byte.is_ascii_graphic()).collect();
        response.fields_mut().set("Location", to);
    }
    response.fields_mut().set("Cache-Control", &b"no-store"[..]);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal_of(status: u16, redirect: Option<&str>) -> Response {
        refusal(Intervention {
            status,
            redirect: redirect.map(Into::into),
            line: None,
        })
    }

    #[test]
    fn what_rules_want_becomes_a_response() {
        assert_eq!(refusal_of(406, None).status, Status(406));
        assert_eq!(refusal_of(0, None).status, Status::FORBIDDEN);
        assert_eq!(refusal_of(100, None).status, Status::FORBIDDEN);
        let redirect = refusal_of(200, Some("/no\r\nSet-Cookie: x"));
        assert_eq!(
            (redirect.status, redirect.fields().first("Location")),
            (Status::FOUND, Some(&b"/noSet-Cookie:x"[..]))
        );
        assert_eq!(refusal_of(307, Some("/")).status, Status(307));
    }
}
