//! OPTIONS (RFC 4918 section 10.1).
//!
//! Called by: the handler.
//! Caveat: clients of Microsoft look for `MS-Author-Via`.
//! Out of scope: `OPTIONS *`, which is about the server.

use crate::{operation::Operation, reply::Reply, resource::Resource};
use saker_files::Kind;
use saker_http::Status;

/// The value of `Allow` for a resource.
pub fn allow(resource: &Resource, has_trace: bool) -> String {
    let mut methods = "OPTIONS,".to_owned();
    match &resource.found {
        None => methods.push_str("MKCOL,PUT,LOCK"),
        Some(found) => {
            methods.push_str("GET,HEAD,POST,DELETE,");
            if has_trace {
                methods.push_str("TRACE,");
            }
            methods.push_str("PROPFIND,PROPPATCH,COPY,MOVE,");
            if found.metadata.kind == Kind::File {
                methods.push_str("PUT,");
            }
            methods.push_str("LOCK,UNLOCK");
        }
    }
    methods
}

/// Tells what the resource can do.
pub fn run(operation: &Operation, resource: &Resource) -> Reply {
    let reply = Reply::from(Status::OK)
        .with("DAV", "1,2")
        .with("DAV", "<http://apache.org/dav/propset/fs/1>")
        .with("MS-Author-Via", "DAV")
        .with("Allow", allow(resource, operation.settings.trace));
    let Some(found) = &resource.found else {
        return reply;
    };
    match operation.content_type(&resource.name, Some(found.metadata.kind)) {
        Some(content_type) => reply.with("Content-Type", content_type),
        None => reply,
    }
}
