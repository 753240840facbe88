//! x

/// More than anyone reads; the page says that there are more.
pub const ENTRIES_MAX: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: Vec<u8>,
    pub folder: bool,
    pub size: u64,
    pub mtime_s: i64,
}

/// The entries of a folder, and whether there are more than we show.
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

/// `C=N;O=D` as Apache's index pages have it; `&` is as good. Anything else is passed over.
pub fn order(query: &[u8]) -> Order {
    let mut order = Order {
        by: Column::Name,
        descending: false,
    };
    for part in query.split(|byte| matches!(byte, b';' | b'&')) {
        match part {
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
