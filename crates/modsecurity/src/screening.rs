//! State of one inspected request: its transaction with libmodsecurity, its progress, and its log
//! lines.
//!
//! Called by: every step of the inspection. It lives in the exchange; dropping it writes the audit
//! log.
//! Caveat: the transaction is absent (`None`) while another thread works on it, and lost if that
//! fails.
//! Out of scope: reading content (`content`, `response`).

use saker_config::modsecurity::Rules;
use saker_http::Status;
use saker_net::modsecurity::{Intervention, Transaction};
use saker_pipeline::{Body, Exchange, Inspection, RequestLogContext, Response};
use saker_telemetry::{error_log, httpd_message, message};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

/// No response at all, as with nginx's 444.
const NO_RESPONSE: Status = Status(444);

/// `None` while another thread has it.
pub type SharedTransaction = Rc<RefCell<Option<Transaction>>>;

/// Progress of the inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The head has been inspected.
    Head,
    /// The request has passed; the response is inspected next.
    Passed,
    Refused(Status),
}

/// The inspection of one request and its response.
pub struct Screening {
    pub rules: Arc<Rules>,
    pub transaction: SharedTransaction,
    pub stage: Cell<Stage>,
    /// Arguments and cookies so far; the library's time goes by them.
    pub arguments: Cell<usize>,
    /// Bytes of the request that rules look at so far.
    pub bytes: Cell<u64>,
    pub log: RuleLog,
    pub whole: RefCell<Option<Whole>>,
}

/// The representation that a response has been selected from.
pub struct Whole {
    pub content_type: Vec<u8>,
    pub body: Body,
}

impl Screening {
    pub fn new(exchange: &Exchange, rules: &Arc<Rules>, transaction: Transaction) -> Screening {
        Screening {
            rules: Arc::clone(rules),
            transaction: Rc::new(RefCell::new(Some(transaction))),
            stage: Cell::new(Stage::Head),
            arguments: Cell::default(),
            bytes: Cell::default(),
            log: RuleLog::of(exchange, rules),
            whole: RefCell::default(),
        }
    }

    /// The disruptive action of the rules so far. A transaction that was lost with a thread
    /// refuses.
    pub fn intervention(&self) -> Option<Intervention> {
        match self.transaction.borrow_mut().as_mut() {
            Some(transaction) => self.log.intervention(transaction),
            None => Some(Intervention {
                status: 503,
                redirect: None,
                line: None,
            }),
        }
    }
}

impl Inspection for Screening {
    fn wants_response_content(&self, content_type: &[u8]) -> bool {
        self.rules.wants_response_content(content_type)
    }

    fn show_whole(&self, content_type: &[u8], body: Body) {
        *self.whole.borrow_mut() = Some(Whole {
            content_type: content_type.to_vec(),
            body,
        });
    }
}

/// The request that log lines of rules belong to.
pub struct RuleLog {
    rules: Arc<Rules>,
    request: RequestLogContext,
    host: String,
}

impl RuleLog {
    fn of(exchange: &Exchange, rules: &Arc<Rules>) -> RuleLog {
        RuleLog {
            rules: Arc::clone(rules),
            request: exchange.log_context(),
            host: String::from_utf8_lossy(&exchange.host).into_owned(),
        }
    }

    fn write_lines(&self, transaction: &mut Transaction) {
        for line in transaction.take_lines() {
            let line = self.rules.told(&line, &self.host);
            error_log::log_about(
                &message::RULE_MATCHED,
                &self.request,
                format_args!("{line}"),
            );
        }
    }

    /// The disruptive action of the rules that have matched so far, if any.
    pub fn intervention(&self, transaction: &mut Transaction) -> Option<Intervention> {
        self.write_lines(transaction);
        let found = transaction.intervention()?;
        if let Some(line) = &found.line {
            let line = self.rules.told(line, &self.host);
            match error_log::speaks_httpd() {
                true => error_log::log_httpd(
                    &httpd_message::MODSECURITY_LINE,
                    None,
                    &self.request,
                    format_args!("{line}"),
                ),
                false => error_log::log_about(
                    &message::RULE_REFUSED,
                    &self.request,
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
            if let Stage::Refused(status) = self.stage.get() {
                transaction.answered(status.0);
            }
            transaction.logging();
            self.log.write_lines(transaction);
        }
    }
}

/// Ends the request with the response that rules want.
pub fn refuse(exchange: &mut Exchange, found: Intervention) -> Response {
    let response = refusal(found);
    if response.status == NO_RESPONSE {
        exchange.limits.drops_connection = true;
    }
    // A refused request holds no place among concurrent ones.
    exchange.limits.counted.clear();
    if let Some(screening) = exchange.extensions.get::<Rc<Screening>>() {
        screening.stage.set(Stage::Refused(response.status));
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
        // Client input that rules put into the target must not create fields of its own.
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
