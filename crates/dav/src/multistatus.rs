//! Responses about several resources (207, RFC 4918 section 13).
//!
//! Called by: PROPFIND and PROPPATCH, with properties; DELETE, COPY, and MOVE, with failures.
//! Caveat: the text is built in memory, up to [`BYTES_MAX`].
//! Out of scope: the properties themselves.

use crate::xml::escaped;
use saker_http::{Status, escape};
use std::fmt::Write as _;

/// Longer responses are refused: the client has to ask for less.
pub const BYTES_MAX: usize = 64 << 20;

/// A `multistatus` document.
pub struct Multistatus(String);

/// Properties of a resource with one status.
pub struct PropStat {
    pub status: Status,
    /// XML of the properties, one after the other.
    pub properties: String,
    /// An explanation for people.
    pub description: &'static str,
}

impl Multistatus {
    pub fn new() -> Multistatus {
        Multistatus(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n"
                .to_owned(),
        )
    }

    /// Adds a resource with a status.
    pub fn add_status(&mut self, url: &[u8], status: Status) {
        let (href, line) = (href(url), status_line(status));
        let _ = write!(
            self.0,
            "<D:response>\n<D:href>{href}</D:href>\n<D:status>{line}</D:status>\n</D:response>\n"
        );
    }

    /// Adds a resource with properties. `declarations`: of the prefixes that they use.
    pub fn add_properties(&mut self, url: &[u8], declarations: &str, found: &[PropStat]) {
        let href = href(url);
        let _ = write!(
            self.0,
            "<D:response{declarations}>\n<D:href>{href}</D:href>\n"
        );
        for part in found {
            let line = status_line(part.status);
            let _ = write!(
                self.0,
                "<D:propstat>\n<D:prop>\n{}</D:prop>\n<D:status>{line}</D:status>\n",
                part.properties
            );
            if !part.description.is_empty() {
                let _ = writeln!(
                    self.0,
                    "<D:responsedescription>{}</D:responsedescription>",
                    escaped(part.description)
                );
            }
            self.0.push_str("</D:propstat>\n");
        }
        self.0.push_str("</D:response>\n");
    }

    pub fn is_too_long(&self) -> bool {
        self.0.len() > BYTES_MAX
    }

    pub fn finish(mut self) -> String {
        self.0.push_str("</D:multistatus>\n");
        self.0
    }
}

/// A decoded path as the text of an `href` element.
fn href(url: &[u8]) -> String {
    let mut encoded = Vec::with_capacity(url.len() + 8);
    escape::uri_path(url, &mut encoded);
    escaped(&String::from_utf8_lossy(&encoded))
}

fn status_line(status: Status) -> String {
    format!("HTTP/1.1 {} {}", status.0, status.reason())
}
