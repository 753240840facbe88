//! Inspection of requests and responses by content rules: the role that `saker-modsecurity`
//! implements.
//!
//! Called by: the phases `inspect_request` and `inspect_content`, and
//! [`respond`](crate::respond).
//! Caveat: an inspection that has started must also see the response.
//! Out of scope: subrequests and error documents, which belong to an inspected request.

use crate::{Body, Exchange, LocalFuture, Response, Step};

/// Inspects requests before content and responses before filters.
pub trait Inspector {
    /// Inspects connection, request line, and fields. Called after limits and before authorization,
    /// and only if rules are configured.
    fn request_head<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a>;

    /// Inspects the request body before handlers read it. Called if
    /// [`AccessState::inspection`](crate::AccessState::inspection) is set.
    fn request_content<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a>;

    /// Inspects the response before filters change it. Called if
    /// [`AccessState::inspection`](crate::AccessState::inspection) is set. `Some`: a response that
    /// replaces it.
    fn response<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, Option<Response>>;
}

impl Exchange {
    /// Returns true if the rules will inspect responses of this type.
    pub fn inspects(&self, content_type: &[u8]) -> bool {
        self.access
            .inspection
            .as_ref()
            .is_some_and(|inspection| inspection.wants_response_content(content_type))
    }

    /// Inspects the whole representation of a partial or encoded response. `body` is called only if
    /// rules are in force.
    pub fn show_whole(&mut self, content_type: &[u8], body: impl FnOnce() -> Body) {
        if let Some(inspection) = &self.access.inspection {
            inspection.show_whole(content_type, body());
        }
    }
}
