//! Status codes (RFC 9110 section 15, and the registry).

/// A status code between 100 and 999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub u16);

macro_rules! statuses {
    ($($code:literal $name:ident $reason:literal;)*) => {
        impl Status {
            $(pub const $name: Status = Status($code);)*

            /// The registered reason phrase, or `Unknown` for a code outside the registry.
            pub fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "Unknown",
                }
            }
        }
    };
}

statuses! {
    100 CONTINUE "Continue";
    101 SWITCHING_PROTOCOLS "Switching Protocols";
    102 PROCESSING "Processing";
    103 EARLY_HINTS "Early Hints";
    200 OK "OK";
    201 CREATED "Created";
    202 ACCEPTED "Accepted";
    203 NON_AUTHORITATIVE "Non-Authoritative Information";
    204 NO_CONTENT "No Content";
    205 RESET_CONTENT "Reset Content";
    206 PARTIAL_CONTENT "Partial Content";
    300 MULTIPLE_CHOICES "Multiple Choices";
    301 MOVED_PERMANENTLY "Moved Permanently";
    302 FOUND "Found";
    303 SEE_OTHER "See Other";
    304 NOT_MODIFIED "Not Modified";
    307 TEMPORARY_REDIRECT "Temporary Redirect";
    308 PERMANENT_REDIRECT "Permanent Redirect";
    400 BAD_REQUEST "Bad Request";
    401 UNAUTHORIZED "Unauthorized";
    402 PAYMENT_REQUIRED "Payment Required";
    403 FORBIDDEN "Forbidden";
    404 NOT_FOUND "Not Found";
    405 METHOD_NOT_ALLOWED "Method Not Allowed";
    406 NOT_ACCEPTABLE "Not Acceptable";
    407 PROXY_AUTHENTICATION_REQUIRED "Proxy Authentication Required";
    408 REQUEST_TIMEOUT "Request Timeout";
    409 CONFLICT "Conflict";
    410 GONE "Gone";
    411 LENGTH_REQUIRED "Length Required";
    412 PRECONDITION_FAILED "Precondition Failed";
    413 CONTENT_TOO_LARGE "Content Too Large";
    414 URI_TOO_LONG "URI Too Long";
    415 UNSUPPORTED_MEDIA_TYPE "Unsupported Media Type";
    416 RANGE_NOT_SATISFIABLE "Range Not Satisfiable";
    417 EXPECTATION_FAILED "Expectation Failed";
    418 IM_A_TEAPOT "I'm a teapot";
    421 MISDIRECTED_REQUEST "Misdirected Request";
    422 UNPROCESSABLE_CONTENT "Unprocessable Content";
    423 LOCKED "Locked";
    424 FAILED_DEPENDENCY "Failed Dependency";
    425 TOO_EARLY "Too Early";
    426 UPGRADE_REQUIRED "Upgrade Required";
    428 PRECONDITION_REQUIRED "Precondition Required";
    429 TOO_MANY_REQUESTS "Too Many Requests";
    431 REQUEST_HEADER_FIELDS_TOO_LARGE "Request Header Fields Too Large";
    451 UNAVAILABLE_FOR_LEGAL_REASONS "Unavailable For Legal Reasons";
    500 INTERNAL_SERVER_ERROR "Internal Server Error";
    501 NOT_IMPLEMENTED "Not Implemented";
    502 BAD_GATEWAY "Bad Gateway";
    503 SERVICE_UNAVAILABLE "Service Unavailable";
    504 GATEWAY_TIMEOUT "Gateway Timeout";
    505 HTTP_VERSION_NOT_SUPPORTED "HTTP Version Not Supported";
    507 INSUFFICIENT_STORAGE "Insufficient Storage";
    508 LOOP_DETECTED "Loop Detected";
    511 NETWORK_AUTHENTICATION_REQUIRED "Network Authentication Required";
}

impl Status {
    pub fn is_informational(self) -> bool {
        (100..200).contains(&self.0)
    }

    pub fn is_success(self) -> bool {
        (200..300).contains(&self.0)
    }

    pub fn is_redirection(self) -> bool {
        (300..400).contains(&self.0)
    }

    pub fn is_error(self) -> bool {
        self.0 >= 400
    }

    /// True if a response with this status never has content, whatever its fields say (RFC 9110
    /// section 6.4.1).
    pub fn forbids_content(self) -> bool {
        self.is_informational() || self == Status::NO_CONTENT || self == Status::NOT_MODIFIED
    }
}
