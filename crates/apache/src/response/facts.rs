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
    /// A handler has answered: without a name of its own it has that of the content's type.
    pub is_content: bool,
}

impl Answered<'_> {
    /// The handler's name as Apache makes one up (ap_invoke_handler). Content without a type has
    /// none.
    fn handler_of_type(&self) -> Option<Cow<'_, [u8]>> {
        let of_type = self.fields.first("Content-Type")?;
        let media_type = of_type.split(|byte| *byte == b';').next()?;
        Some(Cow::Borrowed(media_type.trim_ascii()))
    }
}

impl Facts for Answered<'_> {
    fn beneath(&self) -> Option<&dyn Facts> {
        Some(self.request)
    }

    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        match variable {
            Variable::ContentType => self.fields.first("Content-Type").map(Cow::Borrowed),
            Variable::RequestStatus => Some(Cow::Owned(self.status.0.to_string().into_bytes())),
            Variable::Handler => self
                .request
                .variable(variable)
                .or_else(|| self.handler_of_type().filter(|_| self.is_content)),
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
