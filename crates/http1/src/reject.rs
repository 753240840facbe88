//! Why a request is refused before anything of the server has looked at it.
//!
//! One table: a variant per cause, the status that the client sees, and the words for the log.
//! After any of them the connection is closed, because where the next request would begin is no
//! longer certain (RFC 9112 section 2.2 and section 6.3).

use saker_http::Status;

/// A refused request. The status goes to the client, the reason to the log; then the connection is
/// closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    pub status: Status,
    pub reason: RejectReason,
}

impl From<RejectReason> for Reject {
    fn from(reason: RejectReason) -> Self {
        Reject {
            status: reason.status(),
            reason,
        }
    }
}

macro_rules! reasons {
    ($($name:ident $status:ident $text:literal;)*) => {
        /// One cause of refusal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum RejectReason { $(#[doc = $text] $name,)* }

        impl RejectReason {
            /// All causes, for counters and the reference page.
            pub const ALL: &[RejectReason] = &[$(RejectReason::$name,)*];

            pub fn status(self) -> Status {
                match self { $(RejectReason::$name => Status::$status,)* }
            }

            /// For the log.
            pub fn as_str(self) -> &'static str {
                match self { $(RejectReason::$name => $text,)* }
            }
        }
    };
}

reasons! {
    TlsClientHello BAD_REQUEST "TLS handshake on a port for plain HTTP";
    Http2Preface HTTP_VERSION_NOT_SUPPORTED "HTTP/2 connection preface on an HTTP/1 connection";
    Http09 BAD_REQUEST "HTTP/0.9 request without a version";
    EmptyLines BAD_REQUEST "more than one empty line before the request";
    BareLineFeed BAD_REQUEST "line feed without carriage return";
    BareCarriageReturn BAD_REQUEST "carriage return without line feed";
    BadMethod BAD_REQUEST "method is not a token";
    MethodTooLong NOT_IMPLEMENTED "method too long";
    BadRequestLine BAD_REQUEST "request line is not METHOD SP TARGET SP VERSION";
    BadVersion BAD_REQUEST "malformed HTTP version";
    UnsupportedVersion HTTP_VERSION_NOT_SUPPORTED "HTTP version other than 1.x";
    BadTarget BAD_REQUEST "malformed request target";
    TargetTooLong URI_TOO_LONG "request target too long";
    RequestLineTooLong URI_TOO_LONG "request line too long";
    HeadTooLarge REQUEST_HEADER_FIELDS_TOO_LARGE "request head too large";
    FieldTooLong REQUEST_HEADER_FIELDS_TOO_LARGE "field line too long";
    TooManyFields REQUEST_HEADER_FIELDS_TOO_LARGE "too many field lines";
    FoldedLine BAD_REQUEST "field line begins with white space (obsolete line folding)";
    EmptyFieldName BAD_REQUEST "empty field name";
    BadFieldName BAD_REQUEST "bad byte in field name";
    SpaceBeforeColon BAD_REQUEST "white space between field name and colon";
    MissingColon BAD_REQUEST "field line without a colon";
    BadFieldValue BAD_REQUEST "control character in field value";
    MissingHost BAD_REQUEST "no Host in an HTTP/1.1 request";
    SeveralHosts BAD_REQUEST "several Host lines";
    BadHost BAD_REQUEST "malformed Host";
    LengthAndTransferEncoding BAD_REQUEST "both Content-Length and Transfer-Encoding";
    SeveralLengths BAD_REQUEST "several Content-Length lines";
    BadLength BAD_REQUEST "malformed Content-Length";
    TransferEncodingInHttp10 BAD_REQUEST "Transfer-Encoding in an HTTP/1.0 request";
    BadTransferEncoding BAD_REQUEST "Transfer-Encoding other than chunked";
    UnknownTransferCoding NOT_IMPLEMENTED "transfer coding not implemented";
    ContentInConnect BAD_REQUEST "CONNECT with content";
    BadChunkSize BAD_REQUEST "malformed chunk size";
    ChunkSizeOverflow BAD_REQUEST "chunk size with more than 16 digits";
    BadChunkExtension BAD_REQUEST "malformed chunk extension";
    ChunkExtensionsTooLong BAD_REQUEST "chunk extensions too long";
    BadChunkEnd BAD_REQUEST "chunk data not followed by CRLF";
    BadTrailer BAD_REQUEST "malformed trailer line";
    TrailersTooLarge REQUEST_HEADER_FIELDS_TOO_LARGE "trailers too large";
    TooManyTrailers REQUEST_HEADER_FIELDS_TOO_LARGE "too many trailer lines";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_an_error_with_words_of_its_own() {
        for (at, reason) in RejectReason::ALL.iter().enumerate() {
            assert!(reason.status().is_error());
            assert!(
                RejectReason::ALL[..at]
                    .iter()
                    .all(|other| other.as_str() != reason.as_str()),
                "{}",
                reason.as_str()
            );
        }
    }
}
