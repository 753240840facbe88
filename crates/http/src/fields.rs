//! Response fields: an ordered list, because order is visible and lists of this length beat maps.
//!
//! Called by: everything that makes, changes, or encodes a response head.
//! Caveat: text that is not static lies in two buffers per list, which a thread uses again for
//! other lists. Replaced and removed text stays there until the list is dropped. Lines of a received
//! head stay in one piece, so that an encoder of HTTP/1 copies neighbors at once.
//! Out of scope: request fields (`head`), which are spans into the bytes that arrived.

use crate::{
    chars::has_control,
    field_name::NameSet,
    head::{FieldSpan, Span},
    scan,
};
use std::{borrow::Cow, cell::RefCell, fmt, ops::Range};

/// A field value. Static where it can be.
pub type Value = Cow<'static, [u8]>;

/// Field lines of a response (or of trailers), in the order they go out.
#[derive(Default)]
pub struct Fields {
    /// `None`: none yet. Responses are moved often, and so are their fields.
    list: Option<Box<List>>,
}

#[derive(Clone, Default)]
struct List {
    lines: Vec<Line>,
    /// Names that are not static, and heads as they were received.
    names: String,
    /// Values that are not static, unless they lie in a received head.
    values: Vec<u8>,
    /// The names of all lines, and of lines that are gone.
    kinds: NameSet,
}

static EMPTY: List = List {
    lines: Vec::new(),
    names: String::new(),
    values: Vec::new(),
    kinds: NameSet::EMPTY,
};

#[derive(Clone, Copy)]
struct Line {
    name: Text<&'static str>,
    value: Text<&'static [u8]>,
}

/// Text of the program, or a part of one of the list's own buffers.
#[derive(Clone, Copy)]
enum Text<T> {
    Static(T),
    /// First byte and length; heads are far shorter than 2 GB. For values see [`RECEIVED`].
    Own(u32, u32),
}

/// Marks the first byte of a value that lies behind its name in a received head, as it would be
/// written: name, colon, one space, value, line end.
const RECEIVED: u32 = 1 << 31;

thread_local! {
    /// Memory of lists that were dropped.
    static SPARE: RefCell<Spare> = const { RefCell::new(Vec::new()) };
}

/// Lists in their boxes, which are kept as well.
#[allow(clippy::vec_box, reason = "fields hold them in boxes")]
type Spare = Vec<Box<List>>;

/// Lists whose memory a thread keeps, and bytes of a buffer above which it is not worth keeping.
const SPARE_COUNT_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 8 << 10;

impl Drop for Fields {
    fn drop(&mut self) {
        if let Some(list) = self.list.take() {
            list.keep();
        }
    }
}

impl Clone for Fields {
    /// A copy with no more memory than it needs.
    fn clone(&self) -> Fields {
        Fields {
            list: self.list.clone(),
        }
    }
}

impl List {
    fn spare() -> Box<List> {
        // While the thread exits, there is none.
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
        spare.ok().flatten().unwrap_or_default()
    }

    fn keep(mut self: Box<List>) {
        if self.names.capacity() > SPARE_BYTES_MAX
            || self.values.capacity() > SPARE_BYTES_MAX
            || self.lines.capacity() * size_of::<Line>() > SPARE_BYTES_MAX
        {
            return;
        }
        self.lines.clear();
        self.names.clear();
        self.values.clear();
        self.kinds = NameSet::EMPTY;
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_COUNT_MAX {
                spare.push(self);
            }
        });
    }
}

impl Fields {
    pub const fn new() -> Self {
        Fields { list: None }
    }

    /// With room for so many lines, and so many bytes of values that are not static.
    pub fn with_capacity(lines: usize, value_bytes: usize) -> Self {
        let mut fields = Fields::new();
        fields.reserve(lines, value_bytes);
        fields
    }

    /// Makes room for so many more lines, and bytes of values that are not static.
    pub fn reserve(&mut self, lines: usize, value_bytes: usize) {
        let list = self.list_mut();
        list.lines.reserve(lines);
        list.values.reserve(value_bytes);
    }

    /// Gives back memory that is not needed. For lists that are kept.
    pub fn shrink(&mut self) {
        if self.list.is_some() {
            *self = self.clone();
        }
    }

    #[inline]
    fn list(&self) -> &List {
        self.list.as_deref().unwrap_or(&EMPTY)
    }

    #[inline]
    fn list_mut(&mut self) -> &mut List {
        self.list.get_or_insert_with(List::spare)
    }

    /// Adds a line; lines of the same name stay.
    pub fn append(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        let list = self.list_mut();
        let name = list.keep_name(name.into());
        let value = list.keep_value(value.into());
        list.lines.push(Line { name, value });
    }

    /// [`Fields::append`] of texts that are only borrowed; common ones are static then.
    pub fn append_copy(&mut self, name: &str, value: &[u8]) {
        let list = self.list_mut();
        let name = list.copy_name_unless_known(name);
        let value = list.copy_value_unless_known(value);
        list.lines.push(Line { name, value });
    }

    /// [`Fields::append_copy`] of a name that is a token (RFC 9110 section 5.6.2), and so text; what
    /// is none is left out with its value.
    pub fn append_token(&mut self, name: &[u8], value: &[u8]) {
        if let Ok(name) = std::str::from_utf8(name) {
            self.append_copy(name, value);
        }
    }

    /// [`Fields::append_token`] of lines of a received head, whose bytes are copied at once. Lines
    /// that stand there as they would be written stay in one piece.
    pub fn append_received(&mut self, head: &[u8], lines: impl Iterator<Item = FieldSpan>) {
        self.append_spans(head, lines, is_safe_as_received);
    }

    /// [`Fields::append_received`] of lines whose parser has seen that all names are of letters,
    /// digits, and hyphens, and that no value has a control byte.
    pub fn append_plain(&mut self, head: &[u8], lines: impl Iterator<Item = FieldSpan>) {
        self.append_spans(head, lines, |head, line| {
            let is_safe = line.as_written(head).is_some();
            debug_assert!(!is_safe || is_safe_as_received(head, line), "{line:?}");
            is_safe
        });
    }

    fn append_spans(
        &mut self,
        head: &[u8],
        lines: impl Iterator<Item = FieldSpan>,
        is_safe: impl Fn(&[u8], FieldSpan) -> bool,
    ) {
        let list = self.list_mut();
        let base = list.names.len();
        let text = std::str::from_utf8(head).ok();
        let text = text.filter(|text| base + text.len() < RECEIVED as usize);
        if let Some(text) = text {
            list.names.push_str(text);
        }
        for line in lines {
            match text.is_some() && is_safe(head, line) {
                true => self.list_mut().push_received(head, line, base as u32),
                false => self.append_token(line.name.of(head), line.value.of(head)),
            }
        }
    }

    /// Sets the one line of that name, in the place of the first such line.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        let name = name.into();
        let list = self.list_mut();
        let value = list.keep_value(value.into());
        match list.position(&name) {
            Some(at) => {
                list.lines[at].value = value;
                let mut index = 0;
                self.retain(|other| {
                    index += 1;
                    index - 1 <= at || !other.eq_ignore_ascii_case(&name)
                });
            }
            None => {
                let name = list.keep_name(name);
                list.lines.push(Line { name, value });
            }
        }
    }

    /// [`Fields::set`] of texts that are only borrowed.
    pub fn set_copy(&mut self, name: &str, value: &[u8]) {
        match self.has(name) {
            true => self.set(name.to_owned(), value.to_vec()),
            false => self.append_copy(name, value),
        }
    }

    /// Removes all lines of that name and says whether there were any.
    pub fn remove(&mut self, name: &str) -> bool {
        if !self.list().kinds.may_have(name.as_bytes()) {
            return false;
        }
        let before = self.len();
        self.retain(|other| !is_name(other, name));
        before != self.len()
    }

    /// Keeps the lines whose names are wanted.
    pub fn retain(&mut self, mut wanted: impl FnMut(&str) -> bool) {
        if let Some(list) = &mut self.list {
            let names = &list.names;
            list.lines.retain(|line| wanted(name_in(names, line.name)));
        }
    }

    pub fn first(&self, name: &str) -> Option<&[u8]> {
        let list = self.list();
        Some(list.value(list.lines.get(list.position(name)?)?))
    }

    pub fn has(&self, name: &str) -> bool {
        self.list().position(name).is_some()
    }

    /// False if no line has a name of the set; most responses need no further look then.
    #[inline]
    pub fn may_have(&self, names: NameSet) -> bool {
        self.list().kinds.shares(names)
    }

    /// Adds `token` to a comma list such as `Vary` unless it is there already or the list is `*`.
    pub fn add_token(&mut self, name: &'static str, token: &str) {
        let Some(old) = self.first(name) else {
            return match frequent_value(token.as_bytes()) {
                Some(known) => self.append(name, known),
                None => self.append(name, token.as_bytes().to_vec()),
            };
        };
        let there = old
            .split(|byte| *byte == b',')
            .map(<[u8]>::trim_ascii)
            .any(|part| part == b"*" || part.eq_ignore_ascii_case(token.as_bytes()));
        if !there {
            let joined = [old, b", ", token.as_bytes()].concat();
            self.set(name, joined);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let list = self.list();
        list.lines
            .iter()
            .map(move |line| (name_in(&list.names, line.name), list.value(line)))
    }

    /// All lines in order, with the range of each line in [`Fields::received`] if it stands there as
    /// it would be written: name, colon, one space, value, line end; its name is a token, and there
    /// is no control in its value.
    pub fn iter_received(&self) -> impl Iterator<Item = (&str, &[u8], Option<Range<usize>>)> {
        let list = self.list();
        list.lines.iter().map(move |line| {
            let range = match (line.name, line.value) {
                (Text::Own(start, _), Text::Own(at, length)) if at >= RECEIVED => {
                    let end = (at - RECEIVED + length) as usize;
                    Some(start as usize..end + LINE_END.len())
                }
                _ => None,
            };
            (name_in(&list.names, line.name), list.value(line), range)
        })
    }

    /// Bytes that received lines lie in.
    pub fn received(&self) -> &[u8] {
        self.list().names.as_bytes()
    }

    pub fn len(&self) -> usize {
        self.list().lines.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list().lines.is_empty()
    }
}

impl List {
    fn position(&self, name: &str) -> Option<usize> {
        if !self.kinds.may_have(name.as_bytes()) {
            return None;
        }
        self.lines
            .iter()
            .position(|line| is_name(name_in(&self.names, line.name), name))
    }

    #[inline]
    fn value(&self, line: &Line) -> &[u8] {
        match line.value {
            Text::Static(value) => value,
            Text::Own(start, length) => {
                let (buffer, start) = match start.checked_sub(RECEIVED) {
                    Some(start) => (self.names.as_bytes(), start),
                    None => (&*self.values, start),
                };
                &buffer[start as usize..][..length as usize]
            }
        }
    }

    fn keep_name(&mut self, name: Cow<'static, str>) -> Text<&'static str> {
        match name {
            Cow::Borrowed(name) => {
                self.kinds.insert(name.as_bytes());
                Text::Static(name)
            }
            Cow::Owned(name) => self.copy_name(&name),
        }
    }

    fn copy_name_unless_known(&mut self, name: &str) -> Text<&'static str> {
        match frequent_name(name.as_bytes()) {
            Some(known) => self.keep_name(Cow::Borrowed(known)),
            None => self.copy_name(name),
        }
    }

    fn copy_name(&mut self, name: &str) -> Text<&'static str> {
        self.kinds.insert(name.as_bytes());
        let start = self.names.len();
        self.names.push_str(name);
        Text::Own(start as u32, name.len() as u32)
    }

    /// Adds a line of `head`, whose bytes begin at `base` of the names.
    #[inline]
    fn push_received(&mut self, head: &[u8], line: FieldSpan, base: u32) {
        self.kinds.insert(line.name.of(head));
        self.lines.push(Line {
            name: Text::Own(base + line.name.start, line.name.len),
            value: Text::Own((base + line.value.start) | RECEIVED, line.value.len),
        });
    }

    fn keep_value(&mut self, value: Value) -> Text<&'static [u8]> {
        match value {
            Cow::Borrowed(value) if !has_line_end(value) => Text::Static(value),
            value => self.copy_value(&value),
        }
    }

    fn copy_value_unless_known(&mut self, value: &[u8]) -> Text<&'static [u8]> {
        match frequent_value(value) {
            Some(known) => Text::Static(known),
            None => self.copy_value(value),
        }
    }

    /// RFC 9110 section 5.5: line ends and NUL become spaces, wherever a value came from; otherwise
    /// a decoded path in it could begin another field, or another response. This is the one place
    /// for every protocol and for heads that are encoded once; lines that stay as they were received
    /// have none ([`is_safe_as_received`]).
    fn copy_value(&mut self, value: &[u8]) -> Text<&'static [u8]> {
        let start = self.values.len();
        self.values.extend_from_slice(value);
        if has_line_end(value) {
            self.values[start..]
                .iter_mut()
                .filter(|byte| ends_line(**byte))
                .for_each(|byte| *byte = b' ');
        }
        Text::Own(start as u32, value.len() as u32)
    }
}

const LINE_END: &[u8; 2] = b"\r\n";

/// True if the line stands in the head as it would be written, its name is of letters, digits, and
/// hyphens, and nothing in its value could end it: all bytes from the name on are looked at again,
/// whatever the parser made of them.
#[inline]
fn is_safe_as_received(head: &[u8], line: FieldSpan) -> bool {
    let Some(range) = line.as_written(head) else {
        return false;
    };
    let Span { start, len } = line.name;
    len > 0
        && scan::run_end::<scan::Plain>(head, start as usize) == (start + len) as usize
        && scan::run_end::<scan::From<b' '>>(head, start as usize) + LINE_END.len() == range.end
}

fn name_in<'n>(names: &'n str, name: Text<&'static str>) -> &'n str {
    match name {
        Text::Static(name) => name,
        Text::Own(start, length) => &names[start as usize..][..length as usize],
    }
}

/// Most names differ in length: nothing is read for those.
fn is_name(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.eq_ignore_ascii_case(other)
}

fn ends_line(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n' | 0)
}

fn has_line_end(value: &[u8]) -> bool {
    has_control(value) && value.iter().any(|byte| ends_line(*byte))
}

/// The same lines in the same order, wherever their text lies.
impl PartialEq for Fields {
    fn eq(&self, other: &Fields) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Fields {}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self
            .iter()
            .map(|(name, value)| (name, value.escape_ascii().to_string()));
        f.debug_map().entries(lines).finish()
    }
}

/// A static name, without an allocation, if it is a common response field in its usual spelling.
pub fn known_name(name: &str) -> Cow<'static, str> {
    match frequent_name(name.as_bytes()) {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(name.to_owned()),
    }
}

/// A common response field in its usual spelling, if `name` is one.
fn frequent_name(name: &[u8]) -> Option<&'static str> {
    let names: &[&'static str] = match name.len() {
        4 => &["Date", "ETag", "Vary", "Link", "date", "vary", "etag"],
        6 => &["Server", "Pragma"],
        7 => &["Expires"],
        8 => &["Location"],
        10 => &["Set-Cookie", "set-cookie"],
        12 => &[
            "Content-Type",
            "Content-type",
            "X-Powered-By",
            "content-type",
        ],
        13 => &[
            "Last-Modified",
            "Accept-Ranges",
            "Cache-Control",
            "cache-control",
        ],
        15 => &["X-LiteSpeed-Tag", "X-Frame-Options"],
        16 => &["Content-Encoding", "Content-Language"],
        19 => &["Content-Disposition"],
        22 => &["X-Content-Type-Options"],
        25 => &["X-LiteSpeed-Cache-Control", "Strict-Transport-Security"],
        _ => &[],
    };
    names.iter().find(|known| known.as_bytes() == name).copied()
}

/// A common value, if `value` is one.
fn frequent_value(value: &[u8]) -> Option<&'static [u8]> {
    let values: &[&'static [u8]] = match value.len() {
        5 => &[b"bytes", b"nginx"],
        8 => &[b"no-cache", b"no-store", b"text/css"],
        9 => &[b"text/html"],
        10 => &[b"text/plain", b"image/jpeg"],
        15 => &[b"Accept-Encoding"],
        16 => &[b"application/json"],
        24 => &[b"text/html; charset=utf-8", b"text/html; charset=UTF-8"],
        _ => &[],
    };
    values.iter().find(|known| **known == value).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        let mut fields = Fields::new();
        lines
            .iter()
            .for_each(|(name, value)| fields.append(*name, value.as_bytes()));
        fields
    }

    #[test]
    fn a_value_is_one_line() {
        let mut fields = Fields::new();
        fields.append("A", b"1\r\nB: 2".to_vec());
        fields.set("C", &b"3\n\0"[..]);
        assert_eq!(
            (fields.first("A"), fields.first("C"), fields.len()),
            (Some(&b"1  B: 2"[..]), Some(&b"3  "[..]), 2)
        );
    }

    #[test]
    fn tokens_are_copied_or_known_and_others_left_out() {
        let mut fields = Fields::new();
        fields.append_token(b"Content-Type", b"text/html");
        fields.append_token(b"X-Own", b"1\r\nB: 2");
        fields.append_token(b"\xff", b"3");
        let lines: Vec<_> = fields.iter().collect();
        assert_eq!(
            lines,
            [("Content-Type", &b"text/html"[..]), ("X-Own", b"1  B: 2")]
        );
    }

    fn received(head: &[u8]) -> Fields {
        let mut lines = Vec::new();
        let mut at = 0;
        for line in head.split_inclusive(|byte| *byte == b'\n') {
            let colon = line.iter().position(|byte| *byte == b':').unwrap();
            let value = line[colon + 1..]
                .strip_suffix(b"\r\n")
                .unwrap_or(&line[colon + 1..]);
            let trimmed = crate::chars::trim_ows(value);
            let blanks = value
                .iter()
                .take_while(|byte| b" \t".contains(byte))
                .count();
            let span = |start: usize, len: usize| Span {
                start: start as u32,
                len: len as u32,
            };
            lines.push(FieldSpan {
                name: span(at, colon),
                value: span(at + colon + 1 + blanks, trimmed.len()),
            });
            at += line.len();
        }
        let mut fields = Fields::new();
        fields.append("First", &b"1"[..]);
        fields.append_received(head, lines.into_iter());
        fields
    }

    #[test]
    fn received_lines_stay_in_one_piece() {
        let head = b"Server: x\r\nContent-Type: text/html\r\nETag: \"1\"\r\n";
        let mut fields = received(head);
        let ranges: Vec<_> = fields.iter_received().map(|line| line.2).collect();
        assert_eq!(ranges, [None, Some(0..11), Some(11..36), Some(36..47)]);
        assert_eq!(fields.received(), head);
        fields.set("content-type", &b"text/css"[..]);
        fields.append("Last", b"2".to_vec());
        let lines: Vec<_> = fields.iter().collect();
        assert_eq!(
            lines,
            [
                ("First", &b"1"[..]),
                ("Server", b"x"),
                ("Content-Type", b"text/css"),
                ("ETag", b"\"1\""),
                ("Last", b"2"),
            ]
        );
        let ranges: Vec<_> = fields.iter_received().map(|line| line.2).collect();
        assert_eq!(ranges, [None, Some(0..11), None, Some(36..47), None]);
        let copy = fields.clone();
        assert!(fields.remove("server") && !fields.has("Server"));
        assert_eq!(copy.first("server"), Some(&b"x"[..]));
    }

    /// Columns: line of a received head, value that the list has.
    #[test]
    fn lines_that_could_end_early_are_copied() {
        let lines: [(&[u8], &[u8]); 9] = [
            (b"A:1\r\n", b"1"),
            (b"A:  1\r\n", b"1"),
            (b"A: 1 \r\n", b"1"),
            (b"A: 1\n", b"1"),
            (b"A: 1\t2\r\n", b"1\t2"),
            (b"A: 1\0B: 2\r\n", b"1 B: 2"),
            (b"A: 1\rB: 2\r\n", b"1 B: 2"),
            (b"A: \x7f\r\n", b"\x7f"),
            (b"A: \xff\r\n", b"\xff"),
        ];
        for (line, value) in lines {
            let value = value.strip_suffix(b"\n").unwrap_or(value);
            let fields = received(line);
            assert!(
                fields.iter_received().all(|line| line.2.is_none()),
                "{line:?}"
            );
            let got = fields.first("a").map(<[u8]>::trim_ascii_end);
            assert_eq!(got, Some(value), "{line:?}");
        }
        let odd = received(b"A_b: 1\r\n");
        assert_eq!(odd.iter_received().nth(1), Some(("A_b", &b"1"[..], None)));
    }

    #[test]
    fn a_list_is_moved_as_one_pointer_and_its_memory_is_used_again() {
        assert_eq!(size_of::<Fields>(), size_of::<usize>());
        let fields = received(b"Server: x\r\n");
        let place = fields.received().as_ptr();
        drop(fields);
        let mut next = Fields::new();
        assert!(next.is_empty() && !next.has("Server") && !next.remove("Server"));
        next.append_received(b"Vary: y\r\n", std::iter::empty());
        assert_eq!(next.received().as_ptr(), place);
        assert!(!next.may_have(NameSet::of(&["server"])) && next.is_empty());
        next.append("server", &b"z"[..]);
        assert!(next.may_have(NameSet::of(&["Server"])));
    }

    #[test]
    fn set_replaces_the_first_line_in_its_place_and_drops_the_others() {
        let mut some = fields(&[("a", "1"), ("B", "2"), ("c", "3"), ("b", "4")]);
        some.set("b", &b"5"[..]);
        assert_eq!(some, fields(&[("a", "1"), ("B", "5"), ("c", "3")]));
        some.set("d", &b"6"[..]);
        assert_eq!(
            some,
            fields(&[("a", "1"), ("B", "5"), ("c", "3"), ("d", "6")])
        );
    }

    #[test]
    fn remove_takes_all_lines_of_a_name() {
        let mut some = fields(&[("a", "1"), ("B", "2"), ("b", "4")]);
        assert!(some.remove("b"));
        assert!(!some.remove("b"));
        assert_eq!(
            (some.len(), some.first("A"), some.has("b")),
            (1, Some(&b"1"[..]), false)
        );
    }

    #[test]
    fn tokens_are_added_once() {
        let rows = [
            ("", "Accept-Encoding", "Accept-Encoding"),
            ("Cookie", "Accept-Encoding", "Cookie, Accept-Encoding"),
            (
                "cookie,ACCEPT-encoding",
                "Accept-Encoding",
                "cookie,ACCEPT-encoding",
            ),
            ("*", "Accept-Encoding", "*"),
            (
                "Accept-Encoding-X",
                "Accept-Encoding",
                "Accept-Encoding-X, Accept-Encoding",
            ),
        ];
        for (before, token, want) in rows {
            let mut some = if before.is_empty() {
                Fields::new()
            } else {
                fields(&[("vary", before)])
            };
            some.add_token("Vary", token);
            assert_eq!(some.first("vary"), Some(want.as_bytes()), "{before}");
            assert_eq!(some.len(), 1);
        }
    }
}
