//! Lays what guards have to say over the response: cookies, and that it is for one referrer alone
//! (filter, the last: nothing of it is kept); and tells them what became of an attempt at a
//! password (filter, the first: it sees what the application answered).

use saker_content_coding as coding;
use saker_pipeline::{Body, Exchange, Filter, LocalFuture, Response, guard::login};
use std::borrow::Cow;

/// Of an answer to an attempt, decoded; more is read as a failure.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, Default)]
pub struct LoginAttempts;

impl Filter for LoginAttempts {
    fn name(&self) -> &'static str {
        "logins"
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        exchange
            .guarded
            .as_ref()
            .is_some_and(|guarded| guarded.attempt.is_some())
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        if let Some(attempt) = exchange
            .guarded
            .as_mut()
            .and_then(|guarded| guarded.attempt.take())
        {
            let content = if attempt.shows_in_content() {
                content(response)
            } else {
                None
            };
            login::settle(&attempt, response, content.as_deref());
        }
        Box::pin(std::future::ready(()))
    }
}

/// What the response says without its content coding. `None`: it isn't here whole, or can't be
/// decoded.
fn content(response: &Response) -> Option<Cow<'_, [u8]>> {
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
        (Some(name), None) => {
            coding::decode_up_to(name, chunk.bytes(), ANSWER_BYTES_MAX).map(Cow::Owned)
        }
        (Some(_), Some(_)) => None,
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct GuardFields;

impl Filter for GuardFields {
    fn name(&self) -> &'static str {
        "guard"
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        exchange
            .guarded
            .as_ref()
            .is_some_and(|guarded| guarded.by_referrer || !guarded.cookies.is_empty())
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        if let Some(guarded) = &mut exchange.guarded {
            if guarded.by_referrer {
                let fields = response.fields_mut();
                fields.add_token("Vary", "Referer");
                fields.set("Cache-Control", &b"no-store"[..]);
            }
            for cookie in guarded.cookies.drain(..) {
                response.fields_mut().append("Set-Cookie", cookie);
            }
        }
        Box::pin(std::future::ready(()))
    }
}
