//! Entries of a directory listing, and their order.
//!
//! Called by: the listing and its HTML page.
//! Caveat: names are arbitrary bytes.
//! Out of scope: reading the directory.

use saker_http::query;

/// Limit; the page says if there are more.
pub const ENTRIES_MAX: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: Vec<u8>,
    pub folder: bool,
    pub size: u64,
    pub mtime_s: i64,
}

/// Entries of a directory, and whether some are left out.
#[derive(Debug, Default)]
pub struct Entries {
    pub list: Vec<Entry>,
    pub truncated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Name,
    Modified,
    Size,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub by: Column,
    pub descending: bool,
}

/// Parses `C=N;O=D`, as Apache's index pages have it; `&` separates as well. Anything else is
/// ignored.
pub fn order(query: &[u8]) -> Order {
    let mut order = Order {
        by: Column::Name,
        descending: false,
    };
    for parameter in query::parameters_with_semicolons(query) {
        match parameter.text {
            b"C=N" => order.by = Column::Name,
            b"C=M" => order.by = Column::Modified,
            b"C=S" => order.by = Column::Size,
            b"O=A" => order.descending = false,
            b"O=D" => order.descending = true,
            _ => {}
        }
    }
    order
}
