//! Tables of the causes that end streams and connections, for both protocols: codes of the
//! standard, and our reasons for using them.
//!
//! A reason is a cause, the code that the peer sees, and words for the log. The protocols differ in
//! the rows, in the width of a code, and in the treatment of unknown codes.

/// `ErrorCode`: a row per code, `VALUE NAME "as the standard writes it"`. Codes that are unknown
/// are taken for the named one.
#[macro_export]
macro_rules! error_codes {
    ($number:ident, unknown: $unknown:ident; $($value:literal $name:ident $text:literal;)*) => {
        /// Why a stream or connection ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr($number)]
        pub enum ErrorCode { $(#[doc = $text] $name = $value,)* }

        impl ErrorCode {
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$name,)*];

            /// As the standard writes it.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => $text,)* }
            }
        }

        impl From<$number> for ErrorCode {
            fn from(value: $number) -> Self {
                match value {
                    $($value => ErrorCode::$name,)*
                    _ => ErrorCode::$unknown,
                }
            }
        }

        impl From<ErrorCode> for $number {
            fn from(code: ErrorCode) -> Self {
                code as $number
            }
        }
    };
}

/// `Reason`: a row per cause, `NAME CODE "words for the log"`, and the code of malformed heads; and
/// `ConnectionError`, which ends a connection.
#[macro_export]
macro_rules! reasons {
    (malformed: $malformed:ident; $($name:ident $code:ident $text:literal;)*) => {
        /// One cause of a stream or connection error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $(#[doc = $text] $name,)*
            /// A head or trailers are malformed (RFC 9113 section 8.1.1, RFC 9114 section 4.1.2).
            Malformed($crate::HeadFault),
        }

        impl Reason {
            /// All causes but those for which a head is malformed.
            pub const ALL: &[Reason] = &[$(Reason::$name,)*];

            pub fn code(self) -> ErrorCode {
                match self { $(Reason::$name => ErrorCode::$code,)* Reason::Malformed(_) => ErrorCode::$malformed }
            }

            /// For the log.
            pub fn as_str(self) -> &'static str {
                match self { $(Reason::$name => $text,)* Reason::Malformed(fault) => fault.as_str() }
            }
        }

        impl From<$crate::HeadFault> for Reason {
            fn from(fault: $crate::HeadFault) -> Reason {
                Reason::Malformed(fault)
            }
        }

        /// Violation by the peer that ends the connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct ConnectionError {
            pub code: ErrorCode,
            pub reason: Reason,
        }

        impl From<Reason> for ConnectionError {
            fn from(reason: Reason) -> Self {
                ConnectionError { code: reason.code(), reason }
            }
        }

        impl std::fmt::Display for ConnectionError {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(formatter, "{}: {}", self.code.as_str(), self.reason.as_str())
            }
        }

        impl std::error::Error for ConnectionError {}
    };
}
