//! The logger that settles login attempts, and the filter that writes cookies and cache fields.
//!
//! Called by: `respond`; [`LoginAttempts`] before all filters, because it has to see the
//! application's response, [`AbuseFields`] last, because its fields must not be cached.
//! Caveat: a response that is not in memory, or can't be decoded, counts as a failed login.
//! Out of scope: content codings, which the caller decodes.

use crate::{
    attempt,
    context::{AbuseContext, known},
};
use saker_pipeline::{Body, Exchange, Filter, LocalFuture, Logger, Response};
use std::borrow::Cow;

/// Size limit of the decoded response to a login attempt; a longer one counts as a failure.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Decodes content of the named coding, up to a number of bytes. `None`: unknown, damaged or
/// longer.
pub type Decode = fn(name: &[u8], content: &[u8], bytes_max: u64) -> Option<Vec<u8>>;

/// Settles login attempts, by the application's response.
#[derive(Clone, Copy, Debug)]
pub struct LoginAttempts {
    pub decode: Decode,
}

impl Logger for LoginAttempts {
    fn wants_responses(&self) -> bool {
        true
    }

    fn response(&self, exchange: &Exchange, response: &Response) {
        let Some(attempt) = known(exchange).and_then(|context| context.attempt.as_ref()) else {
            return;
        };
        let content = if attempt.shows_in_content() {
            content(response, self.decode)
        } else {
            None
        };
        attempt::settle(attempt, response, content.as_deref());
    }
}

/// The content without its coding. `None`: it is not in memory, or can't be decoded.
fn content(response: &Response, decode: Decode) -> Option<Cow<'_, [u8]>> {
    let Body::Memory(chunk) = &response.body else {
        return None;
    };
    let fields = response.fields();
    let mut codings = fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("content-encoding"))
        .map(|(_, value)| value);
    match (codings.next(), codings.next()) {
        (None, _) => Some(Cow::Borrowed(chunk.bytes())),
        (Some(name), None) => decode(name, chunk.bytes(), ANSWER_BYTES_MAX).map(Cow::Owned),
        (Some(_), Some(_)) => None,
    }
}

/// Writes cookies, and marks answers that are for one referrer alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct AbuseFields;

impl Filter for AbuseFields {
    fn name(&self) -> &'static str {
        "abuse"
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        known(exchange).is_some_and(|context| context.by_referrer || !context.cookies.is_empty())
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        if let Some(context) = exchange.extensions.get_mut::<AbuseContext>() {
            if context.by_referrer {
                let fields = response.fields_mut();
                fields.add_token("Vary", "Referer");
                fields.set("Cache-Control", &b"no-store"[..]);
            }
            for cookie in context.cookies.drain(..) {
                response.fields_mut().append("Set-Cookie", cookie);
            }
        }
        saker_pipeline::done()
    }
}
