//! Lays what guards have to say over the response: cookies, and that it is for one referrer alone; and tells them what became of an attempt at
//! a password (filter, the last: nothing of it is kept).

use saker_pipeline::{Exchange, Filter, GuardState, LocalFuture, Response, guard::login};
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct GuardFields(pub Arc<GuardState>);

impl Filter for GuardFields {
    fn name(&self) -> &'static str {
        "guard"
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        exchange.guarded.as_ref().is_some_and(|guarded| guarded.by_referrer || !guarded.cookies.is_empty() || guarded.attempt.is_some())
    }

    fn apply<'a>(&'a self, exchange: &'a mut Exchange, response: &'a mut Response) -> LocalFuture<'a, ()> {
        let now = exchange.now;
        if let Some(guarded) = &mut exchange.guarded {
            if let Some(attempt) = guarded.attempt.take() {
                login::settle(&attempt, &self.0.logins, response, now);
            }
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
