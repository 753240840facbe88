//! Pieces of error log lines: facts, times, system errors.
//!
//! Called by: the default line and `ErrorLogFormat` lines alike.

use crate::{escape::append_escaped, local_time::Civil};
use std::{
    fmt,
    io::{self, Write as _},
};

/// Length to which facts are cut, before escaping.
pub(super) const FACTS_BYTES_MAX: usize = 8192;

/// `(13)Permission denied`
pub(super) fn append_errno(errno: i32, out: &mut Vec<u8>) {
    let text = io::Error::from_raw_os_error(errno).to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    // Writing to memory cannot fail.
    let _ = write!(out, "({errno}){words}");
}

/// Appends the time like C's `ctime`, with a fraction after the seconds.
pub(super) fn append_civil(civil: &Civil, fraction: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    let (weekday, month) = (&civil.weekday_name()[..3], &civil.month_name()[..3]);
    let _ = write!(
        out,
        "{weekday} {month} {:02} {:02}:{:02}:{:02}",
        civil.day, civil.hour, civil.minute, civil.second
    );
    fraction(out);
    let _ = write!(out, " {}", civil.year);
}

/// Appends `facts`, bounded and escaped; returns false if there were none.
pub(super) fn append_text(facts: fmt::Arguments<'_>, out: &mut Vec<u8>) -> bool {
    let mut text = Bounded(Vec::new());
    // An error means that the text is longer than its bound; what fits is kept.
    let whole = fmt::write(&mut text, facts).is_ok();
    append_readable(&text.0, out);
    if !whole {
        out.extend_from_slice(b"...");
    }
    !text.0.is_empty()
}

/// Appends text, escaped except for quotes: messages contain quotes, and no field ends at a quote
/// here.
fn append_readable(text: &[u8], out: &mut Vec<u8>) {
    for part in text.split_inclusive(|byte| *byte == b'"') {
        match part.strip_suffix(b"\"") {
            Some(before) => {
                append_escaped(before, out);
                out.push(b'"');
            }
            None => append_escaped(part, out),
        }
    }
}

struct Bounded(Vec<u8>);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = FACTS_BYTES_MAX - self.0.len().min(FACTS_BYTES_MAX);
        let fits = text.as_bytes().get(..room).unwrap_or(text.as_bytes());
        self.0.extend_from_slice(fits);
        if fits.len() == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}
