//! A login attempt in progress: charged to the client's account, and refunded if it succeeds.
//!
//! Called by: `login_attempts`, which charges; the filter that sees the application's response
//! first, which settles.
//! Caveat: a response that isn't complete in memory, or can't be decoded, counts as a failure.
//! Out of scope: recognizing attempts.

use crate::{
    SharedAbuseState,
    login::{self, Attempts, LoginScript},
    shared_counts::site_hash,
    together::{self, LoginTerms},
};
use saker_config::model::{Logins, Site};
use saker_http::Status;
use saker_ipset::ClientNetwork;
use saker_pipeline::Response;
use saker_rate_limits::Limit;
use std::{cell::Cell, rc::Rc, sync::Arc};

const FAULT: &[u8] = b"faultCode";

/// An attempt in progress.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub account: LoginAccount,
    pub door: LoginScript,
}

/// The client's account at a site, and the charge for this request.
#[derive(Clone, Debug)]
pub struct LoginAccount {
    shared: Arc<SharedAbuseState>,
    key: (ClientNetwork, usize),
    /// The site's name between servers.
    site: u64,
    rule: Arc<Logins>,
    began: i64,
    /// Charge in thousandths; `None`: the attempt succeeded, and nothing more is charged.
    charged: Rc<Cell<Option<u64>>>,
}

impl LoginAccount {
    /// The account of a client at a site, for a request that began at `began`.
    pub fn new(
        shared: &Arc<SharedAbuseState>,
        (network, site_index, site): (ClientNetwork, usize, &Site),
        rule: &Arc<Logins>,
        began: i64,
    ) -> LoginAccount {
        let is_shared = shared.counts.get().is_some();
        LoginAccount {
            shared: Arc::clone(shared),
            key: (network, site_index),
            site: match is_shared {
                true => site_hash(site),
                false => 0,
            },
            rule: Arc::clone(rule),
            began,
            charged: Rc::new(Cell::new(Some(0))),
        }
    }

    /// Charges the request with `count` attempts.
    pub fn charge(&self, count: u32) {
        let Some(before) = self.charged.get().filter(|_| count > 0) else {
            return;
        };
        let Logins {
            attempts, within_s, ..
        } = *self.rule;
        let more = self
            .shared
            .logins
            .change(self.key, Attempts::default, |known| {
                known.charge(count, attempts, within_s, self.began)
            });
        self.tell(Limit::Login, more);
        self.charged.set(Some(before.saturating_add(more)));
    }

    fn refund(&self) {
        if let Some(charged) = self.charged.take() {
            self.shared
                .logins
                .change(self.key, Attempts::default, |known| {
                    known.give_back(charged)
                });
            self.tell(Limit::LoginRefund, charged);
        }
    }

    fn tell(&self, limit: Limit, thousandths: u64) {
        let terms = LoginTerms {
            attempts: self.rule.attempts,
            within_s: self.rule.within_s,
        };
        let account = (limit, self.key.0);
        together::of_login(&self.shared, account, self.site, terms, thousandths);
    }
}

impl Attempt {
    /// Its success shows only in the content of the answer.
    pub fn shows_in_content(&self) -> bool {
        self.door == LoginScript::XmlRpc
    }
}

/// Refunds a successful attempt. `content`: all of the answer's, without a content coding; `None`:
/// it is not available.
pub fn settle(attempt: &Attempt, response: &Response, content: Option<&[u8]>) {
    let is_success = match attempt.door {
        LoginScript::Login => login::is_success(
            response.status.0,
            response
                .fields()
                .iter()
                .filter(is_cookie)
                .map(|(_, value)| value),
        ),
        LoginScript::XmlRpc => {
            response.status == Status::OK && content.is_some_and(is_without_fault)
        }
    };
    if is_success {
        attempt.account.refund();
    }
}

fn is_cookie(field: &(&str, &[u8])) -> bool {
    field.0.eq_ignore_ascii_case("set-cookie")
}

/// A NUL means UTF-16, in which the fault would not be found: no success.
fn is_without_fault(content: &[u8]) -> bool {
    !content.is_empty()
        && !content.contains(&0)
        && !content
            .windows(FAULT.len())
            .any(|part| part.eq_ignore_ascii_case(FAULT))
}
