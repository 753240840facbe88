//! A row of the table of directives.
//!
//! Called by: the tables of `rows`, and everything that reads them.

/// Contexts in which a directive may stand, as bits.
pub mod contexts {
    pub const MAIN: u32 = 1;
    pub const EVENTS: u32 = 1 << 1;
    pub const HTTP: u32 = 1 << 2;
    pub const SERVER: u32 = 1 << 3;
    pub const LOCATION: u32 = 1 << 4;
    /// `if` in a server.
    pub const SERVER_IF: u32 = 1 << 5;
    /// `if` in a location.
    pub const LOCATION_IF: u32 = 1 << 6;
    pub const LIMIT_EXCEPT: u32 = 1 << 7;
    pub const UPSTREAM: u32 = 1 << 8;
    pub const STREAM: u32 = 1 << 9;
    pub const STREAM_SERVER: u32 = 1 << 10;
    pub const STREAM_UPSTREAM: u32 = 1 << 11;
    pub const MAIL: u32 = 1 << 12;
    pub const MAIL_SERVER: u32 = 1 << 13;
    /// A block whose entries are no directives.
    pub const FREE: u32 = 1 << 14;
    /// The inside of a block that cannot be placed; nothing in it is checked.
    pub const UNKNOWN: u32 = 1 << 15;

    /// Names of contexts, for the reference page.
    pub const NAMES: &[(u32, &str)] = &[
        (MAIN, "main"),
        (EVENTS, "events"),
        (HTTP, "http"),
        (SERVER, "server"),
        (LOCATION, "location"),
        (SERVER_IF, "if in server"),
        (LOCATION_IF, "if in location"),
        (LIMIT_EXCEPT, "limit_except"),
        (UPSTREAM, "upstream"),
        (STREAM, "stream"),
        (STREAM_SERVER, "server of stream"),
        (STREAM_UPSTREAM, "upstream of stream"),
        (MAIL, "mail"),
        (MAIL_SERVER, "server of mail"),
    ];

    /// The context inside of a block.
    pub fn inside(name: &str, outer: u32) -> u32 {
        match (name, outer) {
            ("events", _) => EVENTS,
            ("http", _) => HTTP,
            ("stream", _) => STREAM,
            ("mail", _) => MAIL,
            ("server", STREAM) => STREAM_SERVER,
            ("server", MAIL) => MAIL_SERVER,
            ("server", _) => SERVER,
            ("upstream", STREAM) => STREAM_UPSTREAM,
            ("upstream", _) => UPSTREAM,
            ("location", _) => LOCATION,
            ("if", SERVER) => SERVER_IF,
            ("if", _) => LOCATION_IF,
            ("limit_except", _) => LIMIT_EXCEPT,
            _ => UNKNOWN,
        }
    }
}

/// The block of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    None,
    /// Directives.
    Block,
    /// Entries that are no directives, such as those of `map`.
    Free,
}

/// The effect that a directive has here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Works as in nginx.
    Honored,
    /// Read and checked. By nginx's documentation it changes nothing that a client, a log, or a tool
    /// sees: sizes of buffers and tables, or ways to do the same work.
    Internal(&'static str),
    /// Read and checked; it has no effect, for this reason, and none is missing.
    Accepted(&'static str),
    /// Has no effect: what follows, and what to do. Reported as a warning.
    Unsupported(&'static str),
    /// Would leave open what it is meant to close: reported as an error.
    Refused(&'static str),
}

/// A directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub name: &'static str,
    pub contexts: u32,
    pub arguments_min: u8,
    pub arguments_max: u8,
    pub body: Body,
    pub support: Support,
}

impl Support {
    /// Returns true if all that nginx's documentation says about it holds here.
    pub fn is_honored(self) -> bool {
        matches!(self, Support::Honored | Support::Internal(_))
    }
}

impl Row {
    /// Returns true if the directive may have so many arguments.
    pub fn takes(&self, count: usize) -> bool {
        let is_bounded = self.arguments_max != MANY;
        count >= usize::from(self.arguments_min)
            && (!is_bounded || count <= usize::from(self.arguments_max))
    }
}

/// Any number of arguments.
pub const MANY: u8 = u8::MAX;

/// A directive without a block.
pub const fn plain(
    name: &'static str,
    contexts: u32,
    arguments_min: u8,
    arguments_max: u8,
    support: Support,
) -> Row {
    Row {
        name,
        contexts,
        arguments_min,
        arguments_max,
        body: Body::None,
        support,
    }
}

/// A directive with a block.
pub const fn block(
    name: &'static str,
    contexts: u32,
    arguments_min: u8,
    arguments_max: u8,
    body: Body,
    support: Support,
) -> Row {
    Row {
        name,
        contexts,
        arguments_min,
        arguments_max,
        body,
        support,
    }
}
