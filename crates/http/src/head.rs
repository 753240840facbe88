//! A request head as spans into the bytes it arrived in.
//!
//! Place in the walk: the protocol machine fills a [`HeadIndex`] that each worker reuses, so that a request which is answered at
//! once allocates nothing; a [`HeadView`] borrows bytes and index together. A request that has to wait takes a [`RequestHead`], an
//! owned copy. HTTP/2 and HTTP/3 write `:authority` and friends as ordinary spans into their own byte store.
//!
//! The one difficulty: looking fields up must not be a search per question. Fields the server itself asks for are classified once,
//! while parsing ([`KnownField`]); any other name is a linear, case-insensitive search.

use crate::{Method, Version};

/// Part of the head's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub len: u32,
}

impl Span {
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.start as usize + self.len as usize]
    }
}

/// One field line: name and value without surrounding white space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSpan {
    pub name: Span,
    pub value: Span,
}

impl FieldSpan {
    /// As a line is mostly written, with a colon and a space.
    pub fn byte_count(&self) -> usize {
        self.name.len as usize + b": ".len() + self.value.len as usize
    }
}

macro_rules! known_fields {
    ($($name:ident $text:literal;)*) => {
        /// Request fields that the server itself reads.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum KnownField { $($name,)* }

        const KNOWN: &[(&str, KnownField)] = &[$(($text, KnownField::$name),)*];
    };
}

known_fields! {
    Host "host";
    Connection "connection";
    ContentLength "content-length";
    TransferEncoding "transfer-encoding";
    Expect "expect";
    Upgrade "upgrade";
    Te "te";
    Trailer "trailer";
    AcceptEncoding "accept-encoding";
    Range "range";
    IfRange "if-range";
    IfMatch "if-match";
    IfNoneMatch "if-none-match";
    IfModifiedSince "if-modified-since";
    IfUnmodifiedSince "if-unmodified-since";
    Cookie "cookie";
    Authorization "authorization";
    Referer "referer";
    UserAgent "user-agent";
    CacheControl "cache-control";
}

impl KnownField {
    pub const COUNT: usize = KNOWN.len();

    /// Which known field a name is, without regard to case. Asked for every field line: one look into [`SLOT`], one comparison.
    pub fn classify(name: &[u8]) -> Option<KnownField> {
        let (first, last) = (*name.first()?, *name.last()?);
        let (text, known) = KNOWN.get(usize::from(SLOT[slot(name.len(), first, last)]))?;
        text.as_bytes().eq_ignore_ascii_case(name).then_some(*known)
    }

    pub fn name(self) -> &'static str {
        KNOWN[self as usize].0
    }
}

const SLOTS: usize = 64;
const LEN_FACTOR: usize = 1;
const FIRST_FACTOR: usize = 20;
const LAST_FACTOR: usize = 10;
const NO_ROW: u8 = u8::MAX;

/// Row of [`KNOWN`] by [`slot`]. The factors there were searched for so that no two rows meet, and so that the unknown names which
/// browsers send most find an empty slot; a new row that meets an old one does not compile.
static SLOT: [u8; SLOTS] = slots();

/// Length, first and last byte tell the rows apart.
const fn slot(len: usize, first: u8, last: u8) -> usize {
    let (first, last) = ((first | 0x20) as usize, (last | 0x20) as usize);
    len.wrapping_mul(LEN_FACTOR).wrapping_add(first * FIRST_FACTOR).wrapping_add(last * LAST_FACTOR) % SLOTS
}

const fn slots() -> [u8; SLOTS] {
    let mut slots = [NO_ROW; SLOTS];
    let mut row = 0;
    while row < KNOWN.len() {
        let text = KNOWN[row].0.as_bytes();
        let at = slot(text.len(), text[0], text[text.len() - 1]);
        assert!(slots[at] == NO_ROW, "two known fields in one slot: search new factors");
        slots[at] = row as u8;
        row += 1;
    }
    slots
}

/// Where everything is in the head's bytes.
#[derive(Clone, Debug)]
pub struct HeadIndex {
    pub method: Method,
    pub version: Version,
    pub method_token: Span,
    /// The request-target as received (RFC 9112 section 3.2); for HTTP/2 and 3 the `:path`.
    pub target: Span,
    fields: Vec<FieldSpan>,
    /// 1 + index of the first field line of that name, 0 where absent.
    first: [u32; KnownField::COUNT],
    /// Number of lines of that name (saturating).
    count: [u8; KnownField::COUNT],
}

impl Default for HeadIndex {
    fn default() -> Self {
        HeadIndex {
            method: Method::Extension,
            version: Version::Http11,
            method_token: Span::default(),
            target: Span::default(),
            fields: Vec::new(),
            first: [0; KnownField::COUNT],
            count: [0; KnownField::COUNT],
        }
    }
}

impl HeadIndex {
    /// Forgets the last request and keeps the memory.
    pub fn clear(&mut self) {
        self.fields.clear();
        self.first = [0; KnownField::COUNT];
        self.count = [0; KnownField::COUNT];
    }

    /// Adds a field line. `bytes` are the head's bytes that the spans point into.
    pub fn push(&mut self, bytes: &[u8], field: FieldSpan) {
        self.push_classified(field, KnownField::classify(field.name.of(bytes)));
    }

    /// The same where the caller knows already what the name is: HPACK's and QPACK's tables keep it with the name.
    #[inline]
    pub fn push_classified(&mut self, field: FieldSpan, known: Option<KnownField>) {
        self.fields.push(field);
        if let Some(known) = known {
            let slot = known as usize;
            if self.first[slot] == 0 {
                self.first[slot] = self.fields.len() as u32;
            }
            self.count[slot] = self.count[slot].saturating_add(1);
        }
    }

    pub fn field_count(&self) -> usize {
        self.fields.len()
    }

    pub fn has(&self, known: KnownField) -> bool {
        self.first[known as usize] != 0
    }
}

/// A borrowed request head: the bytes and where everything is in them.
#[derive(Clone, Copy)]
pub struct HeadView<'a> {
    bytes: &'a [u8],
    index: &'a HeadIndex,
}

impl<'a> HeadView<'a> {
    pub fn new(bytes: &'a [u8], index: &'a HeadIndex) -> Self {
        HeadView { bytes, index }
    }

    /// Length of the head as received, the empty line included.
    pub fn byte_count(self) -> usize {
        self.bytes.len()
    }

    pub fn method(self) -> Method {
        self.index.method
    }

    /// The method as sent; says more than [`HeadView::method`] for extension methods.
    pub fn method_token(self) -> &'a [u8] {
        self.index.method_token.of(self.bytes)
    }

    pub fn version(self) -> Version {
        self.index.version
    }

    /// The request-target as received.
    pub fn target(self) -> &'a [u8] {
        self.index.target.of(self.bytes)
    }

    /// The request line as received, without its line end. Only for heads that came as HTTP/1.
    pub fn start_line(self) -> &'a [u8] {
        let line = &self.bytes[self.index.method_token.start as usize..];
        &line[..memchr::memchr2(b'\r', b'\n', line).unwrap_or(line.len())]
    }

    /// The first line of a known field.
    pub fn known(self, known: KnownField) -> Option<&'a [u8]> {
        let at = self.index.first[known as usize];
        (at != 0).then(|| self.index.fields[at as usize - 1].value.of(self.bytes))
    }

    pub fn has(self, known: KnownField) -> bool {
        self.index.has(known)
    }

    /// How many lines of a known field there are (255 stands for 255 or more).
    pub fn known_count(self, known: KnownField) -> u8 {
        self.index.count[known as usize]
    }

    /// Every line of a known field, in order; no search where there is at most one.
    pub fn lines(self, known: KnownField) -> impl Iterator<Item = &'a [u8]> {
        let rest = if self.known_count(known) > 1 { &self.index.fields[self.index.first[known as usize] as usize..] } else { &[] };
        let further = rest.iter().filter(move |field| KnownField::classify(field.name.of(self.bytes)) == Some(known));
        self.known(known).into_iter().chain(further.map(move |field| field.value.of(self.bytes)))
    }

    /// All field lines in order, names as sent.
    pub fn fields(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.index.fields.iter().map(move |field| (field.name.of(self.bytes), field.value.of(self.bytes)))
    }

    /// Every line of one field, in order. `name` in any case.
    pub fn all(self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        // Most names differ in length: nothing is read for those.
        self.fields().filter(move |field| field.0.len() == name.len() && field.0.eq_ignore_ascii_case(name.as_bytes())).map(|field| field.1)
    }

    /// The first line of one field. `name` in any case.
    pub fn first(self, name: &'a str) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    pub fn to_owned(self) -> RequestHead {
        RequestHead { bytes: self.bytes.into(), index: self.index.clone() }
    }
}

/// An owned request head, for a request that has to wait.
#[derive(Clone, Debug)]
pub struct RequestHead {
    bytes: Box<[u8]>,
    index: HeadIndex,
}

impl RequestHead {
    pub fn new(bytes: Box<[u8]>, index: HeadIndex) -> Self {
        RequestHead { bytes, index }
    }

    pub fn view(&self) -> HeadView<'_> {
        HeadView { bytes: &self.bytes, index: &self.index }
    }

    /// A head made by hand, for `saker explain`, sub-requests and tests. `fields` in the order given.
    pub fn build(method: &str, target: &str, version: Version, fields: &[(&str, &str)]) -> RequestHead {
        let mut bytes = Vec::new();
        let mut index = HeadIndex { method: Method::from_token(method.as_bytes()), version, ..HeadIndex::default() };
        append_line(&mut bytes, &mut index, method.as_bytes(), target.as_bytes());
        let spans: Vec<FieldSpan> = fields
            .iter()
            .map(|(name, value)| FieldSpan { name: append(&mut bytes, name.as_bytes()), value: append(&mut bytes, value.as_bytes()) })
            .collect();
        for span in spans {
            index.push(&bytes, span);
        }
        RequestHead { bytes: bytes.into(), index }
    }

    /// The same request with other field lines.
    pub fn with_fields<'f>(&self, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> RequestHead {
        let view = self.view();
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut index = HeadIndex { method: view.method(), version: view.version(), ..HeadIndex::default() };
        append_line(&mut bytes, &mut index, view.method_token(), view.target());
        for (name, value) in fields {
            let span = FieldSpan { name: append(&mut bytes, name), value: append(&mut bytes, value) };
            index.push(&bytes, span);
        }
        RequestHead { bytes: bytes.into(), index }
    }
}

/// A request line, as logs show it.
fn append_line(bytes: &mut Vec<u8>, index: &mut HeadIndex, method: &[u8], target: &[u8]) {
    index.method_token = append(bytes, method);
    bytes.push(b' ');
    index.target = append(bytes, target);
    bytes.push(b' ');
    bytes.extend_from_slice(index.version.as_str().as_bytes());
    bytes.extend_from_slice(b"\r\n");
}

fn append(bytes: &mut Vec<u8>, part: &[u8]) -> Span {
    let start = bytes.len() as u32;
    bytes.extend_from_slice(part);
    Span { start, len: part.len() as u32 }
}

#[cfg(test)]
mod tests;
