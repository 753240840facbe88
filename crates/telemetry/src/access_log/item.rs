//! The items a log format is made of, as they stand after parsing.

use saker_http::KnownField;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub kind: Kind,
    /// Status codes that the item is (or is not) for; otherwise it prints `-`.
    pub condition: Option<Box<Condition>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Condition {
    pub negated: bool,
    pub statuses: Vec<u16>,
}

impl Condition {
    pub(super) fn holds(&self, status: u16) -> bool {
        self.statuses.contains(&status) != self.negated
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Literal(Box<[u8]>),
    ClientAddress,
    /// The client's name, or its address if it was not looked up.
    ClientName,
    PeerAddress,
    LocalAddress,
    /// `%b` prints `-` for none, `%B` prints 0.
    BodyBytes {
        dash_for_none: bool,
    },
    Cookie(Box<str>),
    Duration(Unit),
    FirstByte,
    Environment(Box<str>),
    File,
    Protocol,
    KnownField(KnownField),
    RequestField(Box<str>),
    KeepaliveCount,
    LogId,
    ConnectionLogId,
    Method {
        last: bool,
    },
    Note(Box<str>),
    ResponseField(Box<str>),
    CanonicalPort,
    LocalPort,
    RemotePort,
    ProcessId,
    ThreadId {
        hexadecimal: bool,
    },
    Query {
        last: bool,
    },
    /// `SSL_PROTOCOL` and its like.
    TlsVariable(Box<str>),
    RequestLine,
    Handler,
    /// Original and final differ after an error document or an internal redirect.
    Status {
        last: bool,
    },
    Path {
        last: bool,
    },
    Time {
        end: bool,
        form: TimeForm,
    },
    User,
    /// The user, or else the one that Basic authentication names without proof.
    BasicUser,
    SiteName,
    HostAsked,
    ConnectionStatus,
    /// `keep-alive` or `close`, as the field Connection says.
    ConnectionField,
    /// nginx's `$request_completion`: `OK`, or nothing if the client went away before the end.
    Completion,
    /// Content-Length of the response; nothing, not even a hyphen, if it had none.
    BareLength,
    BytesIn,
    BytesOut,
    BytesInAndOut,
    RequestTrailer(Box<str>),
    ResponseTrailer(Box<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
    /// Seconds with three decimals, as nginx's `$request_time`.
    SecondsAndMilliseconds,
    Microseconds,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TimeForm {
    /// `[21/Nov/2026:09:12:12 +0000]`
    Clf,
    Strftime(Box<str>),
    Seconds,
    Milliseconds,
    Microseconds,
    MillisecondFraction,
    MicrosecondFraction,
}
