//! Inspection of requests and responses by rules over their content: the traits that
//! `saker-modsecurity` implements.
//!
//! Called by: the phases `inspect_request` and `inspect_content`, [`respond`](crate::respond), and
//! handlers whose response is a part or a coding of what they have.
//! Caveat: a response that is a part or a coding must be shown whole, or a client evades the rules
//! by asking for it piece by piece.
//! Out of scope: requests inside of others and error documents, which belong to an inspected one.

use crate::{Body, Exchange, LocalFuture, Response, Services, Step};

/// Looks at requests on their way down and at responses on their way up.
pub trait Inspector {
    /// Connection, request line and fields. Called behind limits and before authorization; not
    /// called where no rules are configured. `Some`: the answer of a request that is refused.
    fn request_head(&self, exchange: &mut Exchange) -> Option<Response>;

    /// The content, before a handler gets any of it. Called where [`Exchange::inspection`] is set.
    fn request_content<'a>(&'a self, exchange: &'a mut Exchange) -> Step<'a>;

    /// The response before filters change it. Called where [`Exchange::inspection`] is set.
    /// `Some`: the answer in its place.
    fn response<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        services: &'a Services,
        response: &'a mut Response,
    ) -> LocalFuture<'a, Option<Response>>;
}

/// An inspection under way, as handlers see it.
pub trait Inspection {
    /// The rules look at responses of this type.
    fn wants_response_content(&self, content_type: &[u8]) -> bool;

    /// The representation that the response was selected from (RFC 9110 sections 12 and 14): in the
    /// identity coding, from the first byte to the last.
    fn show_whole(&self, content_type: &[u8], body: Body);
}

impl Exchange {
    /// Rules are going to look at responses of this type.
    pub fn inspects(&self, content_type: &[u8]) -> bool {
        self.inspection
            .as_ref()
            .is_some_and(|inspection| inspection.wants_response_content(content_type))
    }

    /// Shows rules what the response is a part or a coding of. `body` is only made where rules are
    /// in force.
    pub fn show_whole(&mut self, content_type: &[u8], body: impl FnOnce() -> Body) {
        if let Some(inspection) = &self.inspection {
            inspection.show_whole(content_type, body());
        }
    }
}
