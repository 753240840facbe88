//! Facts for edits of a response: the request's, and those of the response so far.

use saker_ap_expr::{Facts, Variable};
use saker_http::{Fields, Status};
use std::borrow::Cow;

/// A request's facts with those of its response.
pub struct Answered<'f> {
    pub request: &'f dyn Facts,
    pub status: Status,
    pub fields: &'f Fields,
    pub always: &'f Fields,
}

impl Facts for Answered<'_> {
    fn beneath(&self) -> Option<&dyn Facts> {
        Some(self.request)
    }

    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        match variable {
            Variable::ContentType => self.fields.first("Content-Type").map(Cow::Borrowed),
            Variable::RequestStatus => Some(Cow::Owned(self.status.0.to_string().into_bytes())),
            other => self.request.variable(other),
        }
    }

    fn response_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        let name = std::str::from_utf8(name).ok()?;
        self.fields
            .first(name)
            .or_else(|| self.always.first(name))
            .map(Cow::Borrowed)
    }
}
