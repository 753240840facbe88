//! Faults between the server and a program: requests that can't be encoded, and answers that can't
//! be understood.
//!
//! One table each: a variant per cause, the status that the client sees, and the words for the log.
//! A [`Broken`] also carries what the engine needs for its next decision: whether the program can
//! have begun with the request, and the bytes that were wrong.

use saker_http::Status;

/// Bytes of the wrong thing that are kept for the log.
pub const EXCERPT_BYTES_MAX: usize = 30;

macro_rules! table {
    ($(#[$doc:meta])* $type:ident { $($name:ident $status:ident $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type { $(#[doc = $text] $name,)* }

        impl $type {
            /// All causes, for counters and the reference page.
            pub const ALL: &[$type] = &[$($type::$name,)*];

            /// Status sent to the client if no response has been started.
            pub fn status(self) -> Status {
                match self { $($type::$name => Status::$status,)* }
            }

            /// For the log.
            pub fn as_str(self) -> &'static str {
                match self { $($type::$name => $text,)* }
            }
        }
    };
}

table! {
    /// A request that can't be said in a protocol. The connection was not touched.
    Refused {
        LengthUnknown LENGTH_REQUIRED "the protocol needs to know the length of the content";
        VariablesTooLong REQUEST_HEADER_FIELDS_TOO_LARGE "variables of the request too long for the protocol";
        FieldsTooLong REQUEST_HEADER_FIELDS_TOO_LARGE "fields of the request too long for the protocol";
        TooManyVariables REQUEST_HEADER_FIELDS_TOO_LARGE "too many variables for the protocol";
        NulInVariable BAD_REQUEST "NUL in a variable";
        MethodUnknown NOT_IMPLEMENTED "the protocol has no word for the method";
        NoScript INTERNAL_SERVER_ERROR "no SCRIPT_FILENAME, SCRIPT_NAME or REQUEST_METHOD among the variables";
    }
}

table! {
    /// One way for an answer to be wrong.
    Fault {
        Premature BAD_GATEWAY "premature end of script headers";
        Malformed BAD_GATEWAY "malformed header from script";
        HeadTooLarge BAD_GATEWAY "response head too large";
        TooManyFields BAD_GATEWAY "too many fields in the response";
        Unswitchable BAD_GATEWAY "101 in a protocol that can't switch";
        Cut BAD_GATEWAY "connection closed before the response was whole";
        BadRecord BAD_GATEWAY "malformed record";
        WrongVersion BAD_GATEWAY "record of another protocol version";
        WrongRequest BAD_GATEWAY "record of another request";
        Misplaced BAD_GATEWAY "record that does not belong here";
        SecondHead BAD_GATEWAY "second response head";
        CannotMultiplex BAD_GATEWAY "program can't take several requests on one connection";
        Overloaded SERVICE_UNAVAILABLE "program is overloaded";
        UnknownRole BAD_GATEWAY "program does not know the role";
        Failed BAD_GATEWAY "program reported an internal error";
        Leaving BAD_GATEWAY "program closes the connection";
    }
}

/// An answer that can't be understood, or that won't come. The connection is closed after it,
/// always.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub fault: Fault,
    /// Offending bytes as received: at most [`EXCERPT_BYTES_MAX`], not necessarily text. Empty if
    /// there is nothing to show.
    pub excerpt: Box<[u8]>,
    /// The program said, by word or by protocol, that it has not begun with the request: another
    /// may have it, whatever its method.
    pub is_untouched: bool,
}

impl Broken {
    /// With the beginning of what was wrong.
    pub fn at(fault: Fault, wrong: &[u8]) -> Broken {
        Broken {
            excerpt: wrong[..wrong.len().min(EXCERPT_BYTES_MAX)].into(),
            ..Broken::from(fault)
        }
    }

    /// The program can't have begun with the request.
    pub fn untouched(fault: Fault) -> Broken {
        Broken {
            is_untouched: true,
            ..Broken::from(fault)
        }
    }
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Broken {
        Broken {
            fault,
            excerpt: Box::default(),
            is_untouched: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_an_error_with_words_of_its_own() {
        let faults = Fault::ALL
            .iter()
            .map(|fault| (fault.status(), fault.as_str()));
        let refusals = Refused::ALL
            .iter()
            .map(|refused| (refused.status(), refused.as_str()));
        let all: Vec<_> = faults.chain(refusals).collect();
        for (at, (status, text)) in all.iter().enumerate() {
            assert!(status.is_error());
            assert!(all[..at].iter().all(|other| other.1 != *text), "{text}");
        }
    }

    #[test]
    fn an_excerpt_is_short() {
        assert_eq!(Broken::at(Fault::Malformed, &[b'x'; 31]).excerpt.len(), 30);
        assert_eq!(*Broken::at(Fault::Malformed, b"ab").excerpt, *b"ab");
    }
}
