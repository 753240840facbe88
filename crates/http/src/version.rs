//! Protocol versions as an exchange sees them.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    Http10,
    Http11,
    Http2,
    Http3,
}

impl Version {
    /// Text as in `SERVER_PROTOCOL` and the access log's `%H`.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
            Version::Http3 => "HTTP/3.0",
        }
    }
}
