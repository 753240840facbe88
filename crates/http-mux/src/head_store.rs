//! Store of a decoded head, for the driver to read.
//!
//! Place in the walk: the driver lends one store per worker to the machine that reads its input, so
//! that a request which is answered at once allocates nothing; one that has to wait takes an owned
//! copy of the view.
//!
//! A request is laid out as HTTP/1 would begin it: first the line `METHOD SP path SP HTTP/2.0 CR
//! LF` (or `HTTP/3.0`), so that logs and everything else that asks for a start line have one (for
//! CONNECT the authority stands for the path); then `host` from `:authority`, in the one spelling
//! of the effective host ([`saker_http::effective_host`]), then the fields as they were sent, names
//! and values without anything between, and one `cookie` at the end (RFC 9113 section 8.2.3, RFC
//! 9114 section 4.2.1).

use saker_http::host::parse_authority;
use saker_http::{FieldSpan, HeadIndex, HeadView, KnownField, Method, Span, Status, Version};

/// A head of a request or a response, or trailers.
#[derive(Clone, Debug, Default)]
pub struct HeadStore {
    pub bytes: Vec<u8>,
    pub index: HeadIndex,
    /// Values of pseudo-fields, which come in any order.
    pseudo: Vec<u8>,
    cookies: Vec<u8>,
    /// The last `:authority` that was found well-formed, and its canonical spelling. Most requests
    /// have the one of the request before.
    valid_authority: Vec<u8>,
    canonical_authority: Vec<u8>,
    scheme: Span,
    protocol: Option<Span>,
    status: u16,
}

impl HeadStore {
    pub fn view(&self) -> HeadView<'_> {
        HeadView::new(&self.bytes, &self.index)
    }

    /// Client role: of the response last read.
    pub fn status(&self) -> Status {
        Status(self.status)
    }

    /// `:protocol` of an extended CONNECT (RFC 8441 section 4, RFC 9220 section 3).
    pub fn protocol(&self) -> Option<&[u8]> {
        self.protocol.map(|span| span.of(&self.pseudo))
    }

    /// True for a `:scheme` that is not HTTP's: no server translates it here (RFC 9113 section 8.3.1).
    pub fn has_foreign_scheme(&self) -> bool {
        let scheme = self.scheme();
        let is = |known: &[u8]| scheme.eq_ignore_ascii_case(known);
        !scheme.is_empty() && !is(b"https") && !is(b"http")
    }

    /// `:scheme`; empty for a plain CONNECT.
    pub fn scheme(&self) -> &[u8] {
        self.scheme.of(&self.pseudo)
    }

    pub(crate) fn clear(&mut self, version: Version) {
        self.bytes.clear();
        self.pseudo.clear();
        self.cookies.clear();
        self.index.clear();
        (self.index.version, self.index.method) = (version, Method::Extension);
        (self.index.method_token, self.index.target) = (Span::default(), Span::default());
        (self.scheme, self.protocol, self.status) = (Span::default(), None, 0);
    }

    pub(crate) fn set_status(&mut self, status: u16) {
        self.status = status;
    }

    pub(crate) fn set_scheme(&mut self, scheme: Span) {
        self.scheme = scheme;
    }

    pub(crate) fn set_protocol(&mut self, protocol: Span) {
        self.protocol = Some(protocol);
    }

    pub(crate) fn keep_pseudo(&mut self, value: &[u8]) -> Span {
        append(&mut self.pseudo, value)
    }

    pub(crate) fn pseudo(&self, span: Span) -> &[u8] {
        span.of(&self.pseudo)
    }

    /// True if an authority is well-formed (RFC 3986 section 3.2).
    pub(crate) fn check_authority(&mut self, authority: Span) -> bool {
        let text = authority.of(&self.pseudo);
        if text == self.valid_authority && !text.is_empty() {
            return true;
        }
        let Some(authority) = parse_authority(text) else {
            return false;
        };
        self.canonical_authority.clear();
        authority.canonical_into(&mut self.canonical_authority);
        self.valid_authority.clear();
        self.valid_authority.extend_from_slice(text);
        true
    }

    /// The request line; `target` is among the pseudo-fields.
    pub(crate) fn write_line(&mut self, method: Span, target: Span) {
        self.index.method_token = append(&mut self.bytes, method.of(&self.pseudo));
        self.bytes.push(b' ');
        self.index.target = append(&mut self.bytes, target.of(&self.pseudo));
        self.bytes.push(b' ');
        self.bytes
            .extend_from_slice(self.index.version.as_str().as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
        self.index.method = Method::from_token(method.of(&self.pseudo));
    }

    pub(crate) fn push(&mut self, name: &[u8], value: &[u8], known: Option<KnownField>) {
        let (name, value) = (
            append(&mut self.bytes, name),
            append(&mut self.bytes, value),
        );
        self.index.push_classified(FieldSpan { name, value }, known);
    }

    /// `host` with the value that was checked last.
    pub(crate) fn push_authority(&mut self) {
        let name = append(&mut self.bytes, b"host");
        let value = append(&mut self.bytes, &self.canonical_authority);
        self.index
            .push_classified(FieldSpan { name, value }, Some(KnownField::Host));
    }

    /// `host` of a request without `:authority`; the value is well-formed.
    pub(crate) fn push_host(&mut self, value: &[u8]) {
        let start = self.pseudo.len() as u32;
        self.pseudo.extend_from_slice(value);
        if self.check_authority(Span {
            start,
            len: value.len() as u32,
        }) {
            self.push_authority();
        }
    }

    pub(crate) fn has_cookies(&self) -> bool {
        !self.cookies.is_empty()
    }

    /// RFC 9113 section 8.2.3: several `cookie` fields are one, joined by "; ".
    pub(crate) fn add_cookie(&mut self, value: &[u8]) {
        if !self.cookies.is_empty() {
            self.cookies.extend_from_slice(b"; ");
        }
        self.cookies.extend_from_slice(value);
    }

    pub(crate) fn push_cookies(&mut self) {
        if self.cookies.is_empty() {
            return;
        }
        let name = append(&mut self.bytes, b"cookie");
        let value = append(&mut self.bytes, &self.cookies);
        self.index
            .push_classified(FieldSpan { name, value }, Some(KnownField::Cookie));
    }
}

/// Heads are limited to far less than 4 GiB.
fn append(bytes: &mut Vec<u8>, part: &[u8]) -> Span {
    let start = bytes.len() as u32;
    bytes.extend_from_slice(part);
    Span {
        start,
        len: part.len() as u32,
    }
}
