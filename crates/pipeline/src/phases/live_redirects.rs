//! Redirects that an operator has added to the running server, before the rules of the site.
//!
//! Called by: the phase list, for client requests only.
//! Caveat: nothing of it is stored in the route cache, which would outlive the redirect.
//! Out of scope: adding and keeping them (the console's `live_changes`).

use crate::{Exchange, Response, Verdict};

pub(super) fn live_redirects(exchange: &mut Exchange) -> Verdict {
    let Some(found) = exchange.routing.site.live_redirects.find(&exchange.path) else {
        return Verdict::Pass;
    };
    exchange.depends_on_request();
    exchange.trace("live_redirects", None, || {
        format!(
            "`{}` is redirected to {} through the console",
            found.from, found.to
        )
    });
    let mut response = Response::new(found.status);
    let target = found.to.as_bytes().to_vec();
    response.fields_mut().set("Location", target);
    Verdict::Answer(response)
}
