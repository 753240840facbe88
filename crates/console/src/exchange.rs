//! Requests and responses of the console.
//!
//! Called by: `serve`, which reads and writes them; actions.
//! Caveat: every response has the same security fields; no page can leave one out.
//! Out of scope: sockets (`connection`), and what a request may do (`gate`).

use saker_http::RequestHead;
use std::{fmt::Write as _, net::IpAddr};

/// Pages take scripts, styles, and data from the console alone, run no inline script, and cannot
/// be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Content of a site's: nothing runs, and nothing is loaded with it.
const FOREIGN_POLICY: &str = "sandbox; default-src 'none'; form-action 'none'; \
     frame-ancestors 'none'; base-uri 'none'";

/// A request whose head has been read.
pub struct Request {
    pub head: RequestHead,
    /// The path as sent; routes are compared with it byte by byte.
    pub path: String,
    pub query: Form,
    pub body: Vec<u8>,
    pub client: IpAddr,
    pub is_secure: bool,
}

impl Request {
    /// A field as text; one that is no UTF-8 is taken for absent.
    pub fn field(&self, name: &'static str) -> Option<&str> {
        std::str::from_utf8(self.head.view().first(name)?).ok()
    }

    /// A field that must not be sent twice.
    pub fn only_field(&self, name: &'static str) -> Result<Option<&str>, ()> {
        match self.head.view().all(name).count() {
            0 => Ok(None),
            1 => self.field(name).map(Some).ok_or(()),
            _ => Err(()),
        }
    }

    /// The fields of a submitted form.
    pub fn form(&self) -> Form {
        Form::parse(&self.body)
    }
}

/// Names and values, as in `application/x-www-form-urlencoded`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form(Vec<(String, String)>);

impl Form {
    pub fn parse(bytes: &[u8]) -> Form {
        Form(url::form_urlencoded::parse(bytes).into_owned().collect())
    }

    /// The first value of this name, or an empty text.
    pub fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(own, _)| own == name);
        found.map_or("", |(_, value)| value)
    }

    /// Names and values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn all<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        let own = self.0.iter().filter(move |(own, _)| own == name);
        own.map(|(_, value)| value.as_str())
    }
}

/// A response with its content.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub content_type: &'static str,
    pub fields: Vec<(&'static str, String)>,
    pub content: Vec<u8>,
    /// May be stored by browsers: it is the same for all clients, and its URL changes with it.
    pub is_asset: bool,
    /// Content of a site's, not the console's own.
    pub is_foreign: bool,
}

impl Response {
    pub fn new(status: u16, content_type: &'static str, content: impl Into<Vec<u8>>) -> Response {
        Response {
            status,
            content_type,
            fields: Vec::new(),
            content: content.into(),
            is_asset: false,
            is_foreign: false,
        }
    }

    pub fn html(status: u16, page: String) -> Response {
        Response::new(status, "text/html; charset=utf-8", page)
    }

    pub fn json(status: u16, value: &serde_json::Value) -> Response {
        Response::new(status, "application/json", format!("{value}\n"))
    }

    /// An answer of the API that says what is wrong.
    pub fn error(status: u16, error: &str) -> Response {
        Response::json(status, &serde_json::json!({ "ok": false, "error": error }))
    }

    /// 303 to a path of the console.
    pub fn see_other(path: &str) -> Response {
        Response::new(303, "text/plain; charset=utf-8", "").with("Location", path.to_owned())
    }

    pub fn with(mut self, name: &'static str, value: String) -> Response {
        self.fields.push((name, value));
        self
    }

    /// The path that the response sends the client to.
    pub fn location(&self) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(name, _)| *name == "Location");
        found.next().map(|(_, value)| value.as_str())
    }

    /// The fields of a name.
    pub fn fields_named(&self, name: &str) -> Vec<(&'static str, String)> {
        let found = self.fields.iter().filter(|(own, _)| *own == name);
        found.cloned().collect()
    }

    /// The head as it is sent. `length`: `None` for an event stream, which ends with its
    /// connection.
    pub fn head(&self, length: Option<usize>, stays: bool) -> String {
        let mut head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\n",
            self.status,
            reason(self.status),
            self.content_type
        );
        for (name, value) in &self.fields {
            // A value with a line break would be two fields.
            if !value.contains(['\r', '\n', '\0']) {
                let _ = write!(head, "{name}: {value}\r\n");
            }
        }
        let storing = match self.is_asset {
            true => "private, max-age=86400, immutable",
            false => "no-store",
        };
        let policy = match self.is_foreign {
            true => FOREIGN_POLICY,
            false => POLICY,
        };
        let _ = write!(
            head,
            "Cache-Control: {storing}\r\nContent-Security-Policy: {policy}\r\n\
             X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
             Referrer-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\n"
        );
        if let Some(length) = length {
            let _ = write!(head, "Content-Length: {length}\r\n");
        }
        let connection = if stays { "keep-alive" } else { "close" };
        let _ = write!(head, "Connection: {connection}\r\n\r\n");
        head
    }
}

fn reason(status: u16) -> &'static str {
    saker_http::Status(status).reason()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_split_a_response() {
        let response = Response::see_other("/a\r\nSet-Cookie: x=1");
        let head = response.head(Some(0), true);
        assert!(
            !head.contains("Set-Cookie") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
        assert!(
            head.contains("script-src 'self'; style-src 'self'"),
            "{head}"
        );
        assert!(!head.contains("unsafe-inline"), "{head}");
        let mut image = Response::new(200, "image/png", "");
        image.is_foreign = true;
        let head = image.head(Some(0), true);
        assert!(
            head.contains("Content-Security-Policy: sandbox; default-src 'none'"),
            "{head}"
        );
        assert!(!head.contains("'self'"), "{head}");
    }

    #[test]
    fn forms() {
        let form = Form::parse(b"a=1&b=%3Cx%3E+y&a=2");
        assert_eq!(
            (form.get("a"), form.get("b"), form.get("c")),
            ("1", "<x> y", "")
        );
        assert_eq!(form.all("a").collect::<Vec<_>>(), ["1", "2"]);
    }
}
