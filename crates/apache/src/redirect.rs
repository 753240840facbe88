//! Redirects, with locations made whole.
//!
//! Called by: every phase that redirects.

use crate::{origin::origin, verdict::Verdict};
use saker_apache_model::{host::Host, modules::alias::Redirected};
use saker_http::Status;
use saker_pipeline::{Exchange, Response};

/// Locations that begin with a slash are made whole, as Apache does unless RedirectRelative is on.
pub fn redirect(exchange: &Exchange, host: &Host, redirected: Redirected) -> Verdict {
    let mut response = Response::new(Status(redirected.status));
    if let Some(location) = redirected.location {
        let whole = match location.first() {
            Some(b'/') if !redirected.is_relative => {
                [origin(exchange, host).as_slice(), &location].concat()
            }
            _ => location,
        };
        response.fields_mut().set("Location", whole);
    }
    Verdict::Answer(response)
}
