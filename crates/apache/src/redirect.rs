//! Redirects, with locations made whole.
//!
//! Called by: every phase that redirects.

use crate::{origin::origin, state::state, verdict::Verdict};
use saker_apache_model::{host::Host, modules::alias::Redirected};
use saker_http::Status;
use saker_pipeline::{Exchange, Response, respond::built_in_page};

/// Locations that begin with a slash are made whole, as Apache does unless RedirectRelative is on.
pub fn redirect(exchange: &mut Exchange, host: &Host, redirected: Redirected) -> Verdict {
    if exchange.host.is_empty() {
        // The name may be the address that the client connected to.
        exchange.depends_on_request();
    }
    let status = Status(redirected.status);
    if (200..300).contains(&status.0) {
        // A rule that ends with success has a page of the server's own.
        state(exchange).is_ended_by_rule = true;
        return Verdict::Answer(built_in_page(Response::new(status)));
    }
    let mut response = Response::new(status);
    if let Some(location) = redirected.location {
        let whole = match location.first() {
            Some(b'/') if !redirected.is_relative => {
                exchange.depends_on_secure();
                [origin(exchange, host).as_slice(), &location].concat()
            }
            _ => location,
        };
        response.fields_mut().set("Location", whole);
    }
    Verdict::Answer(response)
}

/// The same for a location that has the request's query at its end, which every request with the
/// same outcome gets.
pub fn redirect_with_query(
    exchange: &mut Exchange,
    host: &Host,
    redirected: Redirected,
) -> Verdict {
    exchange.depends_on_query();
    exchange.keep_answer();
    redirect(exchange, host, redirected)
}
