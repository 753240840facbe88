//! A request head as spans into the bytes it arrived in.
//!
//! The protocol machine fills a [`HeadIndex`] that each worker reuses, so that a request answered
//! at once allocates nothing; a [`HeadView`] borrows bytes and index together. A request that has
//! to wait takes a [`RequestHead`], an owned copy. HTTP/2 and HTTP/3 write `:authority` and other
//! pseudo-header fields as ordinary spans into their own byte store.
//!
//! Caveat: a field lookup must not search each time. Fields the server itself reads are classified
//! once, while parsing ([`KnownField`]); any other name is a linear, case-insensitive search.

use crate::{
    Method, Version,
    cookies::{Cookie, cookies},
    field_name::{Known, is_plain},
    method,
};
use std::{cell::RefCell, ops::Range};

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
    /// Length of the usual form, with a colon and a space.
    pub fn byte_count(&self) -> usize {
        self.name.len as usize + b": ".len() + self.value.len as usize
    }

    /// The range of the line in `bytes` if it stands there as it would be written: name, colon, one
    /// space, value, line end.
    #[inline]
    pub fn as_written(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let start = self.name.start as usize;
        let colon = start + self.name.len as usize;
        let end = (self.value.start + self.value.len) as usize;
        let is_as_written = self.value.start as usize == colon + 2
            && bytes.get(colon..colon + 2) == Some(b": ")
            && bytes.get(end..end + 2) == Some(b"\r\n");
        is_as_written.then_some(start..end + 2)
    }
}

macro_rules! known_fields {
    ($($name:ident $text:literal;)*) => {
        /// Request fields that the server itself reads.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum KnownField { $($name,)* }

        const KNOWN: &[(&str, KnownField)] = &[$(($text, KnownField::$name),)*];

        static NAMES: [Known; KNOWN.len()] = [$(Known::new($text),)*];
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
    ContentRange "content-range";
}

impl KnownField {
    pub const COUNT: usize = KNOWN.len();

    /// Fields that nginx refuses a second line of (400), besides those of the framing: which of two
    /// values counts would be up to each recipient.
    pub const SINGLE: [KnownField; 8] = [
        KnownField::Authorization,
        KnownField::IfMatch,
        KnownField::IfNoneMatch,
        KnownField::IfModifiedSince,
        KnownField::IfUnmodifiedSince,
        KnownField::IfRange,
        KnownField::ContentRange,
        KnownField::Expect,
    ];

    /// Returns the known field with this name, ignoring case. Called for every field line: one
    /// access to [`SLOT`], one comparison.
    pub fn classify(name: &[u8]) -> Option<KnownField> {
        let (first, last) = (*name.first()?, *name.last()?);
        let row = usize::from(SLOT[slot(name.len(), first, last)]);
        NAMES.get(row)?.is(name).then(|| KNOWN[row].1)
    }

    pub fn name(self) -> &'static str {
        KNOWN[self as usize].0
    }
}

/// A bit for each of [`KnownField::SINGLE`].
const SINGLE_BITS: u32 = {
    let (mut bits, mut at) = (0, 0);
    while at < KnownField::SINGLE.len() {
        bits |= 1 << KnownField::SINGLE[at] as u32;
        at += 1;
    }
    bits
};
const _: () = assert!(KnownField::COUNT <= 32, "a bit for each known field");

const SLOTS: usize = 64;
const LEN_FACTOR: usize = 1;
const FIRST_FACTOR: usize = 20;
const LAST_FACTOR: usize = 10;
const NO_ROW: u8 = u8::MAX;

/// Row of [`KNOWN`] by [`slot`]. The factors there were searched for so that no two rows meet, and
/// so that the unknown names which browsers send most find an empty slot; a new row that meets an
/// old one does not compile.
static SLOT: [u8; SLOTS] = slots();

/// Length, first and last byte tell the rows apart.
const fn slot(len: usize, first: u8, last: u8) -> usize {
    let (first, last) = ((first | 0x20) as usize, (last | 0x20) as usize);
    len.wrapping_mul(LEN_FACTOR)
        .wrapping_add(first * FIRST_FACTOR)
        .wrapping_add(last * LAST_FACTOR)
        % SLOTS
}

const fn slots() -> [u8; SLOTS] {
    let mut slots = [NO_ROW; SLOTS];
    let mut row = 0;
    while row < KNOWN.len() {
        let text = KNOWN[row].0.as_bytes();
        let at = slot(text.len(), text[0], text[text.len() - 1]);
        assert!(
            slots[at] == NO_ROW,
            "two known fields in one slot: search new factors"
        );
        slots[at] = row as u8;
        row += 1;
    }
    slots
}

/// Spans of all parts of the head in its bytes.
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
    /// A bit for each known field that has more than one line.
    repeated: u32,
    /// Bytes behind the head as received, which replace some of it.
    replaced_bytes: u32,
    /// A parser has seen that all names are plain; false where none has looked.
    names_are_plain: bool,
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
            repeated: 0,
            replaced_bytes: 0,
            names_are_plain: false,
        }
    }
}

impl HeadIndex {
    /// Forgets the last request and keeps the memory.
    pub fn clear(&mut self) {
        self.fields.clear();
        self.first = [0; KnownField::COUNT];
        self.count = [0; KnownField::COUNT];
        self.repeated = 0;
        self.replaced_bytes = 0;
        self.names_are_plain = false;
    }

    /// Remembers that the names of all lines so far are of letters, digits, and hyphens only, so that
    /// they need no second look.
    pub fn mark_names_plain(&mut self) {
        self.names_are_plain = true;
    }

    /// Adds a field line. `bytes` are the head's bytes that the spans point into.
    pub fn push(&mut self, bytes: &[u8], field: FieldSpan) {
        self.push_classified(field, KnownField::classify(field.name.of(bytes)));
    }

    /// Like `push`, for callers that know the field already: the tables of HPACK and QPACK store it
    /// with the name.
    #[inline]
    pub fn push_classified(&mut self, field: FieldSpan, known: Option<KnownField>) {
        self.names_are_plain = false;
        self.fields.push(field);
        if let Some(known) = known {
            let slot = known as usize;
            if self.first[slot] == 0 {
                self.first[slot] = self.fields.len() as u32;
            } else {
                self.repeated |= 1 << slot;
            }
            self.count[slot] = self.count[slot].saturating_add(1);
        }
    }

    /// Takes away the fields that `Connection` nominates as being for this connection only (RFC
    /// 9110 section 7.6.1), so that nothing behind the protocol machine sees them: neither rules,
    /// nor cache keys, nor programs and upstreams. Fields that are for all recipients stay for all
    /// of these.
    #[inline]
    pub fn remove_nominated(&mut self, bytes: &[u8]) {
        if !HeadView::new(bytes, self).asks_only_to_stay() {
            self.remove_listed(bytes);
        }
    }

    fn remove_listed(&mut self, bytes: &[u8]) {
        let lines = HeadView::new(bytes, self).lines(KnownField::Connection);
        let mut listed: Vec<&[u8]> = lines
            .flat_map(nominated::options)
            .filter(|option| !nominated::is_about_connection(option))
            .collect();
        if listed.is_empty() {
            return;
        }
        // A client may name thousands, for a hundred fields.
        listed.sort_unstable_by(|a, b| nominated::compare(a, b));
        let is_nominated = |name: &[u8]| {
            listed
                .binary_search_by(|option| nominated::compare(option, name))
                .is_ok()
                && !nominated::is_end_to_end(name)
        };
        let kept: Vec<FieldSpan> = self
            .fields
            .iter()
            .filter(|field| !is_nominated(field.name.of(bytes)))
            .copied()
            .collect();
        if kept.len() != self.fields.len() {
            self.clear();
            kept.into_iter().for_each(|field| self.push(bytes, field));
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
        self.bytes.len() - self.index.replaced_bytes as usize
    }

    pub fn method(self) -> Method {
        self.index.method
    }

    /// Returns true if the method asks for no change of state (RFC 9110 section 9.2.1).
    pub fn is_safe(self) -> bool {
        self.method().is_safe()
            || self.method() == Method::Extension && method::is_safe_extension(self.method_token())
    }

    /// Returns true if the request may be repeated when a connection breaks (RFC 9110 section
    /// 9.2.2).
    pub fn is_idempotent(self) -> bool {
        self.method().is_idempotent() || self.is_safe()
    }

    /// The method as sent; says more than [`HeadView::method`] for extension methods.
    pub fn method_token(self) -> &'a [u8] {
        self.index.method_token.of(self.bytes)
    }

    pub fn version(self) -> Version {
        self.index.version
    }

    /// The request-target: as received by a driver; in origin-form once the effective host is known
    /// ([`crate::effective_host`]).
    pub fn target(self) -> &'a [u8] {
        self.index.target.of(self.bytes)
    }

    /// The request-target of the request line as received, whose authority is the Host field's by
    /// now. For forward proxies and for what clients have signed.
    pub fn target_as_sent(self) -> &'a [u8] {
        let line = self
            .start_line()
            .get(self.index.method_token.len as usize + 1..)
            .unwrap_or_default();
        &line[..memchr::memrchr(b' ', line).unwrap_or(line.len())]
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

    /// Number of lines of a known field there are (255 stands for 255 or more).
    pub fn known_count(self, known: KnownField) -> u8 {
        self.index.count[known as usize]
    }

    /// Returns true if one of [`KnownField::SINGLE`] has more than one line.
    #[inline]
    pub fn repeats_single(self) -> bool {
        self.index.repeated & SINGLE_BITS != 0
    }

    /// Every line of a known field, in order; no search where there is at most one.
    pub fn lines(self, known: KnownField) -> impl Iterator<Item = &'a [u8]> {
        let rest = if self.known_count(known) > 1 {
            &self.index.fields[self.index.first[known as usize] as usize..]
        } else {
            &[]
        };
        let further = rest
            .iter()
            .filter(move |field| KnownField::classify(field.name.of(self.bytes)) == Some(known));
        self.known(known)
            .into_iter()
            .chain(further.map(move |field| field.value.of(self.bytes)))
    }

    /// True if there is no Connection field, or one that says `keep-alive` and nothing else: it
    /// closes nothing and names no field. So it is with almost all requests.
    #[inline]
    pub fn asks_only_to_stay(self) -> bool {
        const KEEP_ALIVE: Known = Known::new("keep-alive");
        match self.known_count(KnownField::Connection) {
            0 => true,
            1 => (self.known(KnownField::Connection)).is_some_and(|value| KEEP_ALIVE.is(value)),
            _ => false,
        }
    }

    /// The cookies of all `Cookie` fields, in order.
    pub fn cookies(self) -> impl Iterator<Item = Cookie<'a>> {
        cookies(self.lines(KnownField::Cookie))
    }

    /// The first value of a cookie, by its exact name.
    pub fn cookie(self, name: &[u8]) -> Option<&'a [u8]> {
        self.cookies()
            .filter(|cookie| cookie.name == name)
            .find_map(|cookie| cookie.value)
    }

    /// Returns true if all names are of letters, digits and hyphens only: no two of them become one
    /// variable of a program, except by case.
    pub fn names_are_plain(self) -> bool {
        let all_are = || {
            let mut fields = self.index.fields.iter();
            fields.all(|field| is_plain(field.name.of(self.bytes)))
        };
        debug_assert!(!self.index.names_are_plain || all_are());
        self.index.names_are_plain || all_are()
    }

    /// All field lines in order, names as sent.
    pub fn fields(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.index
            .fields
            .iter()
            .map(move |field| (field.name.of(self.bytes), field.value.of(self.bytes)))
    }

    /// All field lines in order, with the range of each line in [`HeadView::bytes`] if it stands
    /// there as it would be written: name, colon, one space, value, line end.
    pub fn fields_as_sent(
        self,
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8], Option<Range<usize>>)> {
        self.index.fields.iter().map(move |field| {
            let (name, value) = (field.name.of(self.bytes), field.value.of(self.bytes));
            (name, value, field.as_written(self.bytes))
        })
    }

    /// The bytes that the head's parts lie in.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Every line of one field, in order. `name` in any case.
    pub fn all(self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        // Most names differ in length: nothing is read for those.
        self.fields()
            .filter(move |field| {
                field.0.len() == name.len() && field.0.eq_ignore_ascii_case(name.as_bytes())
            })
            .map(|field| field.1)
    }

    /// The first line of one field. `name` in any case.
    pub fn first(self, name: &'a str) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// True if the lines of some name, joined as one value (RFC 9110 section 5.3), have more than
    /// `bytes_max` bytes; `with_names`: the name and `: ` are part of them. Costs one comparison where
    /// the whole head has no more.
    pub fn has_joined_value_over(self, bytes_max: usize, with_names: bool) -> bool {
        if self.bytes.len() + b", ".len() * self.index.fields.len() <= bytes_max {
            return false;
        }
        let mut lines: Vec<&FieldSpan> = self.index.fields.iter().collect();
        let lower = |line: &FieldSpan| line.name.of(self.bytes).iter().map(u8::to_ascii_lowercase);
        lines.sort_by(|one, other| lower(one).cmp(lower(other)));
        let joined = |same: &[&FieldSpan]| {
            let name = same.first().filter(|_| with_names);
            let values = same
                .iter()
                .map(|line| line.value.len as usize + b", ".len())
                .sum::<usize>()
                - b", ".len();
            values + name.map_or(0, |line| line.name.len as usize + b": ".len())
        };
        lines
            .chunk_by(|one, other| lower(one).eq(lower(other)))
            // A single line may have one byte more, which its own limit has counted.
            .any(|same| joined(same) > bytes_max + usize::from(with_names && same.len() == 1))
    }

    pub fn to_owned(self) -> RequestHead {
        let (mut bytes, mut fields) = spare_memory();
        bytes.extend_from_slice(self.bytes);
        fields.extend_from_slice(&self.index.fields);
        RequestHead {
            bytes,
            index: HeadIndex {
                fields,
                ..*self.index
            },
            is_edited: false,
            is_draft: false,
            is_settled: false,
            host_before: None,
        }
    }
}

/// Memory of the bytes and of the lines of a head.
type Memory = (Vec<u8>, Vec<FieldSpan>);

thread_local! {
    /// Memory of heads that were dropped.
    static SPARE: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
}

/// Heads whose memory a thread keeps, and bytes of one above which it is not worth keeping.
const SPARE_COUNT_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 8 << 10;

fn spare_memory() -> Memory {
    // While the thread exits, there is none.
    let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
    spare.ok().flatten().unwrap_or_default()
}

fn keep_memory((mut bytes, mut fields): Memory) {
    if !(1..=SPARE_BYTES_MAX).contains(&bytes.capacity())
        || fields.capacity() * size_of::<FieldSpan>() > SPARE_BYTES_MAX
    {
        return;
    }
    bytes.clear();
    fields.clear();
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < SPARE_COUNT_MAX {
            spare.push((bytes, fields));
        }
    });
}

/// An owned request head, for a request that has to wait. Its memory is used again.
#[derive(Clone, Debug)]
pub struct RequestHead {
    bytes: Vec<u8>,
    index: HeadIndex,
    is_edited: bool,
    /// Made by hand, and without fields so far: what gets them is no edit of a client's request.
    is_draft: bool,
    /// The Host field is the effective host; see [`crate::effective_host`].
    pub(crate) is_settled: bool,
    /// The Host field before edits, where they have changed it.
    host_before: Option<Box<[u8]>>,
}

impl Drop for RequestHead {
    fn drop(&mut self) {
        let fields = std::mem::take(&mut self.index.fields);
        keep_memory((std::mem::take(&mut self.bytes), fields));
    }
}

impl RequestHead {
    pub fn new(bytes: Box<[u8]>, index: HeadIndex) -> Self {
        RequestHead {
            bytes: bytes.into_vec(),
            index,
            is_edited: false,
            is_draft: false,
            is_settled: false,
            host_before: None,
        }
    }

    pub fn view(&self) -> HeadView<'_> {
        HeadView {
            bytes: &self.bytes,
            index: &self.index,
        }
    }

    /// A head made by hand, for `saker explain`, sub-requests and tests. `fields` in the order
    /// given.
    pub fn build(
        method: &str,
        target: &str,
        version: Version,
        fields: &[(&str, &str)],
    ) -> RequestHead {
        let mut bytes = Vec::new();
        let mut index = HeadIndex {
            method: Method::from_token(method.as_bytes()),
            version,
            ..HeadIndex::default()
        };
        append_line(&mut bytes, &mut index, method.as_bytes(), target.as_bytes());
        let spans: Vec<FieldSpan> = fields
            .iter()
            .map(|(name, value)| FieldSpan {
                name: append(&mut bytes, name.as_bytes()),
                value: append(&mut bytes, value.as_bytes()),
            })
            .collect();
        for span in spans {
            index.push(&bytes, span);
        }
        RequestHead {
            bytes,
            index,
            is_edited: false,
            is_draft: fields.is_empty(),
            is_settled: false,
            host_before: None,
        }
    }

    /// Returns whether the head is not as the client sent it.
    pub fn is_edited(&self) -> bool {
        self.is_edited
    }

    /// The same request with other field lines.
    pub fn with_fields<'f>(
        &self,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> RequestHead {
        self.with_method_and_fields(self.view().method_token(), fields)
    }

    /// The request with another method: that of a subrequest. Its fields are as they were, and count as
    /// received if they did before.
    pub fn with_method(&self, method: &[u8]) -> RequestHead {
        let mut head = self.with_method_and_fields(method, self.view().fields());
        head.is_edited = self.is_edited;
        head
    }

    /// The request with another method and other field lines.
    pub fn with_method_and_fields<'f>(
        &self,
        method: &[u8],
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> RequestHead {
        let view = self.view();
        let mut bytes = Vec::with_capacity(self.bytes.len() + MORE_BYTES);
        let mut index = HeadIndex {
            method: match method == view.method_token() {
                true => view.method(),
                false => Method::from_token(method),
            },
            version: view.version(),
            fields: Vec::with_capacity(self.index.fields.len() + MORE_FIELDS),
            ..HeadIndex::default()
        };
        append_line(&mut bytes, &mut index, method, view.target_as_sent());
        if view.target() != view.target_as_sent() {
            index.target = append(&mut bytes, view.target());
        }
        for (name, value) in fields {
            let span = FieldSpan {
                name: append(&mut bytes, name),
                value: append(&mut bytes, value),
            };
            index.push(&bytes, span);
        }
        let host_before = self.host_before_edit(HeadView {
            bytes: &bytes,
            index: &index,
        });
        RequestHead {
            bytes,
            index,
            is_edited: true,
            is_draft: false,
            is_settled: false,
            host_before,
        }
    }
}

impl RequestHead {
    /// The same request with the fields whose names `is_left` is true for, and `more` behind them.
    /// Bytes and spans are taken over; nothing is put together again.
    pub fn edited<'f>(
        &self,
        is_left: impl Fn(&[u8]) -> bool,
        more: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> RequestHead {
        let mut bytes = Vec::with_capacity(self.bytes.len() + MORE_BYTES);
        bytes.extend_from_slice(&self.bytes);
        let mut index = HeadIndex {
            fields: Vec::with_capacity(self.index.fields.len() + MORE_FIELDS),
            first: [0; KnownField::COUNT],
            count: [0; KnownField::COUNT],
            ..self.index
        };
        let mut are_plain = self.index.names_are_plain;
        for field in &self.index.fields {
            let name = field.name.of(&self.bytes);
            if is_left(name) {
                index.push_classified(*field, KnownField::classify(name));
            }
        }
        for (name, value) in more {
            let field = FieldSpan {
                name: append(&mut bytes, name),
                value: append(&mut bytes, value),
            };
            index.replaced_bytes += field.name.len + field.value.len;
            are_plain &= is_plain(name);
            index.push_classified(field, KnownField::classify(name));
        }
        index.names_are_plain = are_plain;
        let host_before = self.host_before_edit(HeadView {
            bytes: &bytes,
            index: &index,
        });
        RequestHead {
            bytes,
            index,
            is_edited: true,
            is_draft: false,
            is_settled: false,
            host_before,
        }
    }
}

/// Room for what edits add to most heads.
const MORE_BYTES: usize = 96;
const MORE_FIELDS: usize = 2;

impl RequestHead {
    /// Replaces the Host field, or adds one.
    pub(crate) fn replace_host(&mut self, value: &[u8]) {
        let value = self.add(value);
        match self.index.first[KnownField::Host as usize] {
            0 => {
                let name = self.add(b"Host");
                self.index
                    .push_classified(FieldSpan { name, value }, Some(KnownField::Host));
            }
            at => self.index.fields[at as usize - 1].value = value,
        }
    }

    /// Replaces the target; the request line stays as received.
    pub(crate) fn replace_target(&mut self, target: &[u8]) {
        self.index.target = self.add(target);
    }

    fn add(&mut self, part: &[u8]) -> Span {
        let span = append(&mut self.bytes, part);
        self.index.replaced_bytes += span.len;
        span
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
    Span {
        start,
        len: part.len() as u32,
    }
}

mod host_edits;
mod nominated;
mod stand_in;
#[cfg(test)]
mod tests;
