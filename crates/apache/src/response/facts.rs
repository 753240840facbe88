//! Facts for edits of a response: the request's, and those of the response so far.

use saker_ap_expr::{Facts, FileFault, FileTest, LocalTime, Variable, Work};
use saker_http::{Fields, Status};
use saker_pipeline::Environment;
use std::{borrow::Cow, net::IpAddr};

/// Nothing but the environment: enough for edits without expressions.
pub struct OfEnvironment<'e>(pub &'e Environment);

impl Facts for OfEnvironment<'_> {
    fn variable(&self, _: Variable) -> Option<Cow<'_, [u8]>> {
        None
    }

    fn request_field(&self, _: &[u8]) -> Option<Cow<'_, [u8]>> {
        None
    }

    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.0.first(name).map(Cow::Borrowed)
    }

    fn client_address(&self) -> Option<IpAddr> {
        None
    }

    fn local_time(&self) -> LocalTime {
        crate::time::local(0)
    }

    fn file_test(&self, _: &[u8], _: FileTest) -> bool {
        false
    }
}

/// A request's facts with those of its response.
pub struct Answered<'f> {
    pub request: &'f dyn Facts,
    pub status: Status,
    pub fields: &'f Fields,
    pub always: &'f Fields,
}

impl Facts for Answered<'_> {
    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        match variable {
            Variable::ContentType => self.fields.first("Content-Type").map(Cow::Borrowed),
            Variable::RequestStatus => Some(Cow::Owned(self.status.0.to_string().into_bytes())),
            other => self.request.variable(other),
        }
    }

    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.request.request_field(name)
    }

    fn response_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        let name = std::str::from_utf8(name).ok()?;
        self.fields
            .first(name)
            .or_else(|| self.always.first(name))
            .map(Cow::Borrowed)
    }

    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.request.environment(name)
    }

    fn process_environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.request.process_environment(name)
    }

    fn tls_variable(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.request.tls_variable(name)
    }

    fn peer_extensions(&self, object_id: &[u8]) -> Vec<Vec<u8>> {
        self.request.peer_extensions(object_id)
    }

    fn work(&self) -> Option<&Work> {
        self.request.work()
    }

    fn client_address(&self) -> Option<IpAddr> {
        self.request.client_address()
    }

    fn local_time(&self) -> LocalTime {
        self.request.local_time()
    }

    fn file_test(&self, path: &[u8], test: FileTest) -> bool {
        self.request.file_test(path, test)
    }

    fn file_bytes(&self, path: &[u8]) -> Option<u64> {
        self.request.file_bytes(path)
    }

    fn file_modified_us(&self, path: &[u8]) -> Option<i64> {
        self.request.file_modified_us(path)
    }

    fn file_content(&self, path: &[u8], bytes_max: usize) -> Result<Vec<u8>, FileFault> {
        self.request.file_content(path, bytes_max)
    }

    fn uri_status(&self, uri: &[u8]) -> Option<u16> {
        self.request.uri_status(uri)
    }

    fn file_status(&self, path: &[u8]) -> Option<u16> {
        self.request.file_status(path)
    }
}
