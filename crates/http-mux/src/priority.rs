//! Extensible priorities (RFC 9218): the `priority` field and the value of PRIORITY_UPDATE frames.
//!
//! The value is a dictionary of structured fields (RFC 9651 section 3.2), of which `u` and `i` are
//! read. Everything else is gone over by its syntax, so that a string with a comma in it does not
//! become a member. A value that is no dictionary says nothing.

/// RFC 9218 section 4.1.
pub const URGENCY_MAX: u8 = 7;
const URGENCY_DEFAULT: u8 = 3;

/// Priority of a response (RFC 9218 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 (first) to 7 (background).
    pub urgency: u8,
    /// Useful in parts, so that it may share the connection with others of its urgency.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Priority {
            urgency: URGENCY_DEFAULT,
            incremental: false,
        }
    }
}

impl Priority {
    /// RFC 9218 section 4: what is missing, out of range or of another type has its default.
    pub fn parse(value: &[u8]) -> Priority {
        Priority::default().updated(value)
    }

    /// Priority with the parameters in `value` replaced and the others kept: for a second line of
    /// the field, and for a response that corrects its request (RFC 9218 section 8).
    pub fn updated(self, value: &[u8]) -> Priority {
        let mut cursor = Cursor { bytes: value };
        dictionary(&mut cursor, self).unwrap_or(self)
    }

    fn with(self, key: &[u8], value: Value) -> Priority {
        match (key, value) {
            (b"u", Value::Integer(urgency @ 0..=7)) => Priority {
                urgency: urgency as u8,
                ..self
            },
            (b"i", Value::Boolean(incremental)) => Priority {
                incremental,
                ..self
            },
            _ => self,
        }
    }
}

/// PRIORITY_UPDATE for streams still to come that are remembered (RFC 9218 section 7 leaves the
/// number to us).
const NOTES_MAX: usize = 16;

/// Priorities received for streams that have not begun.
#[derive(Clone, Debug, Default)]
pub struct PriorityNotes(Vec<(u64, Priority)>);

impl PriorityNotes {
    /// The latest counts; the oldest is forgotten where there are too many.
    pub fn keep(&mut self, stream: u64, priority: Priority) {
        self.0.retain(|kept| kept.0 != stream);
        if self.0.len() >= NOTES_MAX {
            self.0.remove(0);
        }
        self.0.push((stream, priority));
    }

    /// A stream begins. Streams that were passed over are forgotten.
    pub fn take(&mut self, stream: u64) -> Option<Priority> {
        let found = self
            .0
            .iter()
            .find(|kept| kept.0 == stream)
            .map(|kept| kept.1);
        if !self.0.is_empty() {
            self.0.retain(|kept| kept.0 > stream);
        }
        found
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn trim(&mut self) {
        self.0.shrink_to_fit();
    }
}

/// As much of a value as anyone here asks for.
#[derive(Clone, Copy)]
enum Value {
    Integer(i64),
    Boolean(bool),
    Other,
}

/// RFC 9651 section 4.2.2; `None`: not a dictionary.
fn dictionary(cursor: &mut Cursor<'_>, before: Priority) -> Option<Priority> {
    let mut priority = before;
    cursor.skip(b" ");
    while !cursor.bytes.is_empty() {
        let key = cursor.key()?;
        let value = if cursor.take(b'=') {
            member(cursor)?
        } else {
            Value::Boolean(true)
        };
        parameters(cursor)?;
        priority = priority.with(key, value);
        cursor.skip(b" \t");
        if cursor.bytes.is_empty() {
            break;
        }
        if !cursor.take(b',') {
            return None;
        }
        cursor.skip(b" \t");
        if cursor.bytes.is_empty() {
            return None;
        }
    }
    Some(priority)
}

/// RFC 9651 section 4.2.1.1: an item or an inner list.
fn member(cursor: &mut Cursor<'_>) -> Option<Value> {
    if !cursor.take(b'(') {
        return bare_item(cursor);
    }
    loop {
        cursor.skip(b" ");
        if cursor.take(b')') {
            return Some(Value::Other);
        }
        bare_item(cursor)?;
        parameters(cursor)?;
        if !matches!(cursor.bytes.first(), Some(b' ' | b')')) {
            return None;
        }
    }
}

fn parameters(cursor: &mut Cursor<'_>) -> Option<()> {
    while cursor.take(b';') {
        cursor.skip(b" ");
        cursor.key()?;
        if cursor.take(b'=') {
            bare_item(cursor)?;
        }
    }
    Some(())
}

/// RFC 9651 section 4.2.3.1.
fn bare_item(cursor: &mut Cursor<'_>) -> Option<Value> {
    match cursor.bytes.first()? {
        b'-' | b'0'..=b'9' => number(cursor),
        b'"' => string(cursor),
        b'?' => boolean(cursor),
        b':' => byte_sequence(cursor),
        b'*' | b'A'..=b'Z' | b'a'..=b'z' => {
            cursor
                .run(|byte| saker_http::chars::is_token_char(byte) || byte == b':' || byte == b'/');
            Some(Value::Other)
        }
        _ => None,
    }
}

/// Integers of up to fifteen digits; decimals are of another type.
fn number(cursor: &mut Cursor<'_>) -> Option<Value> {
    let negative = cursor.take(b'-');
    let digits = cursor.run(|byte| byte.is_ascii_digit());
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    if cursor.take(b'.') {
        let fraction = cursor.run(|byte| byte.is_ascii_digit()).len();
        return (digits.len() <= 12 && (1..=3).contains(&fraction)).then_some(Value::Other);
    }
    let number = digits
        .iter()
        .fold(0, |sum: i64, digit| sum * 10 + i64::from(digit - b'0'));
    Some(Value::Integer(if negative { -number } else { number }))
}

fn string(cursor: &mut Cursor<'_>) -> Option<Value> {
    cursor.next()?;
    loop {
        match cursor.next()? {
            b'"' => return Some(Value::Other),
            b'\\' if !matches!(cursor.next()?, b'"' | b'\\') => return None,
            0x20..=0x7e => {}
            _ => return None,
        }
    }
}

fn boolean(cursor: &mut Cursor<'_>) -> Option<Value> {
    cursor.next()?;
    match cursor.next()? {
        b'0' => Some(Value::Boolean(false)),
        b'1' => Some(Value::Boolean(true)),
        _ => None,
    }
}

fn byte_sequence(cursor: &mut Cursor<'_>) -> Option<Value> {
    cursor.next()?;
    cursor.run(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    cursor.take(b':').then_some(Value::Other)
}

struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.bytes.first() == Some(&byte);
        if there {
            self.next();
        }
        there
    }

    fn run(&mut self, of: impl Fn(u8) -> bool) -> &'a [u8] {
        let len = self
            .bytes
            .iter()
            .position(|byte| !of(*byte))
            .unwrap_or(self.bytes.len());
        let (run, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        run
    }

    fn skip(&mut self, set: &[u8]) {
        self.run(|byte| set.contains(&byte));
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let first = *self.bytes.first()?;
        let starts = first.is_ascii_lowercase() || first == b'*';
        starts.then(|| {
            self.run(|byte| {
                byte.is_ascii_lowercase()
                    || byte.is_ascii_digit()
                    || matches!(byte, b'_' | b'-' | b'.' | b'*')
            })
        })
    }
}

#[cfg(test)]
mod tests;
