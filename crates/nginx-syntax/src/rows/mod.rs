//! The table of directives: contexts, number of arguments, block, and support.
//!
//! Called by: `read`, which checks directives against it; `saker-nginx-model`, whose setters must
//! have a row each; the reference page.
//! Caveat: a name may have several rows, for contexts with different forms (`server`).
//! Out of scope: types and defaults of arguments, which setters know.

mod content;
mod http;
mod process;
mod stream;
mod upstreams;

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

/// What becomes of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Works as in nginx.
    Honored,
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

impl Row {
    /// Returns true if the directive may have so many arguments.
    pub fn takes(&self, count: usize) -> bool {
        (usize::from(self.arguments_min)..=usize::from(self.arguments_max)).contains(&count)
    }
}

/// Any number of arguments.
const MANY: u8 = u8::MAX;

/// A directive without a block.
const fn plain(
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
const fn block(
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

/// Directives by module, with the module's name.
pub const MODULES: &[(&str, &[Row])] = &[
    ("core", process::CORE),
    ("http", http::CORE),
    ("rewrite", http::REWRITE),
    ("access, auth_basic, auth_request, limits", http::ACCESS),
    (
        "headers, gzip, charset, sub, ssi, and other filters",
        content::FILTERS,
    ),
    ("index, autoindex, and other handlers", content::HANDLERS),
    (
        "map, geo, split_clients, and other variables",
        content::VARIABLES,
    ),
    ("log", content::LOG),
    ("ssl, v2, v3", content::TLS),
    ("proxy", upstreams::PROXY),
    ("fastcgi", upstreams::FASTCGI),
    ("uwsgi", upstreams::UWSGI),
    ("scgi", upstreams::SCGI),
    ("grpc", upstreams::GRPC),
    ("memcached", upstreams::MEMCACHED),
    ("upstream", upstreams::UPSTREAM),
    ("stream", stream::STREAM),
    ("mail", stream::MAIL),
];

/// Iterates over all rows.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    MODULES.iter().flat_map(|(_, rows)| rows.iter())
}

/// Iterates over the rows of a name.
pub fn all(name: &str) -> impl Iterator<Item = &'static Row> + use<'_> {
    rows().filter(move |row| row.name == name)
}

/// Returns the row of a name in a context.
pub fn row(name: &str, context: u32) -> Option<&'static Row> {
    all(name).find(|row| row.contexts & context != 0)
}

/// Returns a known name that a misspelled one probably stands for.
pub fn similar(name: &str) -> Option<&'static str> {
    let close = |row: &&Row| distance(name, row.name) <= 2;
    rows().find(close).map(|row| row.name)
}

/// Levenshtein's distance, up to 3.
fn distance(one: &str, other: &str) -> usize {
    if one.len().abs_diff(other.len()) > 2 {
        return 3;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, left) in one.bytes().enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        for (j, right) in other.bytes().enumerate() {
            let above = row.get(j + 1).copied().unwrap_or_default();
            let before = row.get(j).copied().unwrap_or_default();
            let cost = diagonal + usize::from(left != right);
            if let Some(cell) = row.get_mut(j + 1) {
                *cell = cost.min(above + 1).min(before + 1);
            }
            diagonal = above;
        }
    }
    row.last().copied().unwrap_or(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_contexts_are_unique() {
        for row in rows() {
            let same = all(row.name).filter(|other| other.contexts & row.contexts != 0);
            assert_eq!(same.count(), 1, "{}", row.name);
            assert!(row.arguments_min <= row.arguments_max, "{}", row.name);
        }
    }

    #[test]
    fn misspelled_names() {
        assert_eq!(similar("proxy_pas"), Some("proxy_pass"));
        assert_eq!(similar("sever_name"), Some("server_name"));
        assert_eq!(similar("nonsense_of_it"), None);
    }
}
