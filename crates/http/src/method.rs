//! Request methods (RFC 9110 section 9). Methods outside the list are `Extension`; their token
//! stays in the request head.

/// Extension methods that are safe, and therefore idempotent, by IANA's registry (RFC 3253, RFC 4918,
/// RFC 5323, and QUERY).
const SAFE_EXTENSIONS: [&[u8]; 4] = [b"PROPFIND", b"QUERY", b"REPORT", b"SEARCH"];

/// Returns true for an extension method that is known to ask for no change of state. Unknown
/// methods may change anything.
pub fn is_safe_extension(token: &[u8]) -> bool {
    SAFE_EXTENSIONS.contains(&token)
}

/// A request method. Methods are case-sensitive (RFC 9110 section 9.1): `get` is an extension
/// method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
    /// Any other token.
    Extension,
}

impl Method {
    pub fn from_token(token: &[u8]) -> Method {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"CONNECT" => Method::Connect,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"PATCH" => Method::Patch,
            _ => Method::Extension,
        }
    }

    /// Safe methods ask for no change of state (RFC 9110 section 9.2.1).
    pub fn is_safe(self) -> bool {
        matches!(
            self,
            Method::Get | Method::Head | Method::Options | Method::Trace
        )
    }

    /// Idempotent methods may be repeated when a connection breaks (RFC 9110 section 9.2.2).
    pub fn is_idempotent(self) -> bool {
        self.is_safe() || matches!(self, Method::Put | Method::Delete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_extensions() {
        for (token, expected) in [
            (&b"PROPFIND"[..], true),
            (b"REPORT", true),
            (b"SEARCH", true),
            (b"QUERY", true),
            (b"propfind", false),
            (b"PROPPATCH", false),
            (b"MKCOL", false),
            (b"", false),
        ] {
            assert_eq!(is_safe_extension(token), expected);
        }
    }

    /// Safe and idempotent as in the table of RFC 9110 section 9.3 (PATCH: RFC 5789 section 2).
    #[test]
    fn methods_and_their_properties() {
        let rows: [(&[u8], Method, bool, bool); 13] = [
            (b"GET", Method::Get, true, true),
            (b"HEAD", Method::Head, true, true),
            (b"POST", Method::Post, false, false),
            (b"PUT", Method::Put, false, true),
            (b"DELETE", Method::Delete, false, true),
            (b"CONNECT", Method::Connect, false, false),
            (b"OPTIONS", Method::Options, true, true),
            (b"TRACE", Method::Trace, true, true),
            (b"PATCH", Method::Patch, false, false),
            (b"get", Method::Extension, false, false),
            (b"PROPFIND", Method::Extension, false, false),
            (b"GETS", Method::Extension, false, false),
            (b"", Method::Extension, false, false),
        ];
        for (token, method, safe, idempotent) in rows {
            assert_eq!(Method::from_token(token), method);
            assert_eq!(
                (method.is_safe(), method.is_idempotent()),
                (safe, idempotent),
                "{method:?}"
            );
        }
    }
}
