//! Results of operations, which jobs hand to the worker.
//!
//! Called by: all methods.
//! Caveat: a reply can go between threads, a response can't.
//! Out of scope: pages of errors, which the front end makes for statuses without content.

use saker_http::{Status, escape};
use saker_pipeline::{Body, Chunk, Response};
use std::io;

pub const XML_TYPE: &str = "text/xml; charset=\"utf-8\"";
const HTML_TYPE: &str = "text/html; charset=utf-8";

/// errno for a quota that is used up.
const EDQUOT: i32 = 122;

/// A response that is still to be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: Status,
    pub fields: Vec<(&'static str, Vec<u8>)>,
    /// With its media type.
    pub content: Option<(&'static str, Vec<u8>)>,
}

impl From<Status> for Reply {
    fn from(status: Status) -> Reply {
        Reply {
            status,
            fields: Vec::new(),
            content: None,
        }
    }
}

impl Reply {
    /// Returns a reply with XML content.
    pub fn xml(status: Status, text: String) -> Reply {
        Reply {
            content: Some((XML_TYPE, text.into_bytes())),
            ..Reply::from(status)
        }
    }

    /// Returns 201 for a new resource, with its URL and a note.
    pub fn created(origin: &[u8], url: &[u8]) -> Reply {
        let mut path = Vec::new();
        escape::uri_path(url, &mut path);
        let mut shown = Vec::new();
        escape::html(url, &mut shown);
        let note = [
            b"<!DOCTYPE html>\n<html lang=\"en\"><title>201 Created</title><h1>Created</h1><p>"
                .as_slice(),
            &shown,
            b" is there now.</p></html>\n",
        ];
        Reply {
            status: Status::CREATED,
            fields: vec![("Location", [origin, &path].concat())],
            content: Some((HTML_TYPE, note.concat())),
        }
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Vec<u8>>) -> Reply {
        self.fields.push((name, value.into()));
        self
    }

    pub fn into_response(self) -> Response {
        let mut response = Response::new(self.status);
        for (name, value) in self.fields {
            response.fields_mut().append(name, value);
        }
        if let Some((content_type, content)) = self.content {
            response
                .fields_mut()
                .set("Content-Type", content_type.as_bytes());
            response.body = Body::Memory(Chunk::from(content));
        }
        response
    }
}

/// The status for a failed operation on files.
pub fn status_of(error: &io::Error) -> Status {
    match error.kind() {
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::InvalidFilename => Status::FORBIDDEN,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Status::INSUFFICIENT_STORAGE,
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Status::CONFLICT,
        io::ErrorKind::FileTooLarge => Status::INSUFFICIENT_STORAGE,
        io::ErrorKind::TimedOut => Status::SERVICE_UNAVAILABLE,
        _ if error.raw_os_error() == Some(EDQUOT) => Status::INSUFFICIENT_STORAGE,
        _ => Status::INTERNAL_SERVER_ERROR,
    }
}
