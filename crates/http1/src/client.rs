//! The client role: request heads out, response heads in (RFC 9112 sections 3, 4 and 6.3).
//!
//! Used by whatever speaks HTTP/1 to an origin. Which fields go along is the caller's decision;
//! framing, Host and Connection are written here only, as in the server role. A response that can be
//! read in two ways poisons caches and shared connections, so doubled lengths and the like are
//! refused, and the connection with them. Bare LF and folded lines are accepted, as in Apache and
//! nginx, unless they delimit the content; the connection is not used again.
//!
//! Absent on purpose: higher minor versions than 1.1 in responses. No origin sends them, since the
//! request said 1.1.

use std::mem::MaybeUninit;

use saker_http::{
    FieldSpan, HeadView, Method, Span, Status, Version, chars::is_token, field_name::NameSet, scan,
};

use crate::framing::{self, BodyFraming};
use crate::octets;
use crate::plain;
use crate::response::{
    CONNECTION, CONTENT_LENGTH, KEEP_ALIVE, TRANSFER_ENCODING, UPGRADE, append_decimal,
    append_field, append_own_field, is_framing_field,
};

/// Field lines that fit on the stack; the limit may be higher, and heads with more are parsed once
/// more.
const FAST_FIELDS_MAX: usize = 64;

/// The first line of a request and its `Host`.
#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'a> {
    pub method: &'a [u8],
    pub target: &'a [u8],
    pub host: &'a [u8],
}

/// Fate of the connection after the exchange, as the client would have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientConnection {
    KeepAlive,
    Close,
    /// The same, with a request of HTTP/1.0.
    Close10,
    /// Sends the caller's `Upgrade` line along; otherwise it is left out.
    Upgrade,
}

/// A request line that can't be sent as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsendableRequest {
    Method,
    Target,
    Host,
}

/// Appends a request head. `fields` are sent in order, but for those that are said otherwise (Host,
/// framing, Connection) and `TE`, which no caller of this role asks for.
pub fn encode_request_head<'a>(
    line: RequestLine<'_>,
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    framing: BodyFraming,
    connection: ClientConnection,
    out: &mut Vec<u8>,
) -> Result<(), UnsendableRequest> {
    append_line(line, connection, out)?;
    append_fields(fields, connection, out);
    append_end(framing, connection, out);
    Ok(())
}

/// Names that are not sent as they come, for whatever reason.
pub struct LeftOut<F> {
    /// No name that is not in the set is left out.
    pub names: NameSet,
    pub is_left_out: F,
}

/// Appends a request head made of one that was received, less some of its fields, and all of `more`,
/// whose names are tokens, behind them; otherwise like [`encode_request_head`]. Lines that stand in
/// the received head as they would be written are copied as they are, neighbors in one piece.
pub fn encode_forwarded_head<'a>(
    line: RequestLine<'_>,
    head: HeadView<'_>,
    left_out: LeftOut<impl Fn(&[u8]) -> bool>,
    more: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    (framing, connection): (BodyFraming, ClientConnection),
    out: &mut Vec<u8>,
) -> Result<(), UnsendableRequest> {
    /// Host, framing, Connection and kin.
    const OWN: NameSet = NameSet::of(&[
        "te",
        "host",
        "upgrade",
        "connection",
        "keep-alive",
        "content-length",
        "proxy-connection",
        "transfer-encoding",
    ]);
    append_line(line, connection, out)?;
    let names = left_out.names.or(OWN);
    let mut run = 0..0;
    for (name, value, as_sent) in head.fields_as_sent() {
        if names.may_have(name) && (is_own_field(name, connection) || (left_out.is_left_out)(name))
        {
            continue;
        }
        match as_sent {
            Some(range) if range.start == run.end => run.end = range.end,
            Some(range) => {
                out.extend_from_slice(&head.bytes()[run]);
                run = range;
            }
            None => {
                out.extend_from_slice(&head.bytes()[std::mem::take(&mut run)]);
                append_fields([(name, value)], connection, out);
            }
        }
    }
    out.extend_from_slice(&head.bytes()[run]);
    for (name, value) in more {
        append_own_field(name, value, out);
    }
    append_end(framing, connection, out);
    Ok(())
}

fn append_line(
    line: RequestLine<'_>,
    connection: ClientConnection,
    out: &mut Vec<u8>,
) -> Result<(), UnsendableRequest> {
    check_line(line)?;
    let version: &[u8] = match connection {
        ClientConnection::Close10 => b" HTTP/1.0\r\nHost: ",
        _ => b" HTTP/1.1\r\nHost: ",
    };
    for part in [line.method, b" ", line.target, version, line.host, b"\r\n"] {
        out.extend_from_slice(part);
    }
    Ok(())
}

fn append_fields<'a>(
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    connection: ClientConnection,
    out: &mut Vec<u8>,
) {
    for (name, value) in fields {
        if is_own_field(name, connection) {
            continue;
        }
        // A name that is no text is no token either.
        append_field(std::str::from_utf8(name).unwrap_or_default(), value, out);
    }
}

fn append_end(framing: BodyFraming, connection: ClientConnection, out: &mut Vec<u8>) {
    out.extend_from_slice(match connection {
        ClientConnection::KeepAlive => b"",
        ClientConnection::Close | ClientConnection::Close10 => b"Connection: close\r\n",
        ClientConnection::Upgrade => b"Connection: upgrade\r\n",
    });
    append_request_framing(framing, out);
    out.extend_from_slice(b"\r\n");
}

/// Nothing that could end the line early may come out of a rewritten target or a configured name.
fn check_line(line: RequestLine<'_>) -> Result<(), UnsendableRequest> {
    /// Neither space nor control.
    type Target = scan::From<b'!'>;
    let whole_run = |bytes: &[u8]| scan::run_length::<Target>(bytes) == bytes.len();
    if !is_token(line.method) {
        return Err(UnsendableRequest::Method);
    }
    if line.target.is_empty() || !whole_run(line.target) {
        return Err(UnsendableRequest::Target);
    }
    if whole_run(line.host) {
        Ok(())
    } else {
        Err(UnsendableRequest::Host)
    }
}

fn is_own_field(name: &[u8], connection: ClientConnection) -> bool {
    match name.len() {
        2 => name.eq_ignore_ascii_case(b"te"),
        4 => name.eq_ignore_ascii_case(b"host"),
        7 => connection != ClientConnection::Upgrade && UPGRADE.is(name),
        _ => is_framing_field(name),
    }
}

fn append_request_framing(framing: BodyFraming, out: &mut Vec<u8>) {
    match framing {
        BodyFraming::None => {}
        BodyFraming::Length(length) => {
            out.extend_from_slice(b"Content-Length: ");
            append_decimal(length, out);
            out.extend_from_slice(b"\r\n");
        }
        BodyFraming::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
}

/// Limits on a response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseLimits {
    pub head_bytes_max: usize,
    pub header_count_max: usize,
}

impl Default for ResponseLimits {
    fn default() -> Self {
        ResponseLimits {
            head_bytes_max: 64 * 1024,
            header_count_max: 200,
        }
    }
}

/// Places of everything in a response head's bytes.
#[derive(Clone, Debug)]
pub struct ResponseIndex {
    pub version: Version,
    pub status: Status,
    /// The reason phrase, without bytes that are no text.
    reason: Span,
    pub fields: Vec<FieldSpan>,
    marks: Marks,
    /// Lines end with a bare LF or are folded, which older servers and programs write. The
    /// connection is not used again.
    pub is_lenient: bool,
    /// All names are of letters, digits, and hyphens, and no value has a control byte.
    is_plain: bool,
}

/// Lines that decide how the response is read.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    connection_count: u32,
    /// The last Connection.
    connection_at: usize,
    has_transfer_encoding: bool,
    length_count: u32,
    /// The first Content-Length.
    length_at: usize,
}

impl Default for ResponseIndex {
    fn default() -> Self {
        ResponseIndex {
            version: Version::Http11,
            status: Status::OK,
            reason: Span::default(),
            fields: Vec::new(),
            marks: Marks::default(),
            is_lenient: false,
            is_plain: false,
        }
    }
}

impl ResponseIndex {
    /// Adds a line, and remembers it if it is one of those. `bytes` are the head's.
    fn push(&mut self, bytes: &[u8], field: FieldSpan) {
        let name = field.name.of(bytes);
        let (marks, at) = (&mut self.marks, self.fields.len());
        match name.len() {
            10 if CONNECTION.is(name) => {
                marks.connection_count += 1;
                marks.connection_at = at;
            }
            17 => marks.has_transfer_encoding |= TRANSFER_ENCODING.is(name),
            14 if CONTENT_LENGTH.is(name) => {
                if marks.length_count == 0 {
                    marks.length_at = at;
                }
                marks.length_count += 1;
            }
            _ => {}
        }
        self.fields.push(field);
    }

    /// Forgets the last response and keeps the memory.
    fn clear(&mut self, is_lenient: bool) {
        self.fields.clear();
        self.marks = Marks::default();
        self.reason = Span::default();
        self.is_lenient = is_lenient;
        self.is_plain = false;
    }
}

/// A borrowed response head.
#[derive(Clone, Copy, Debug)]
pub struct ResponseView<'a> {
    bytes: &'a [u8],
    index: &'a ResponseIndex,
}

impl<'a> ResponseView<'a> {
    /// `bytes` are those that `index` was made from.
    pub fn new(bytes: &'a [u8], index: &'a ResponseIndex) -> Self {
        ResponseView { bytes, index }
    }

    pub fn status(self) -> Status {
        self.index.status
    }

    /// The reason phrase; empty if there is none.
    pub fn reason(self) -> &'a [u8] {
        self.index.reason.of(self.bytes)
    }

    pub fn version(self) -> Version {
        self.index.version
    }

    /// True if lines end with a bare LF or are folded.
    pub fn is_lenient(self) -> bool {
        self.index.is_lenient
    }

    /// Returns true if all names are of letters, digits, and hyphens, and no value has a control byte.
    pub fn is_plain(self) -> bool {
        self.index.is_plain
    }

    pub fn field_count(self) -> usize {
        self.index.fields.len()
    }

    /// Bytes of all values together.
    pub fn value_bytes(self) -> usize {
        let lengths = self.index.fields.iter().map(|field| field.value.len);
        lengths.sum::<u32>() as usize
    }

    /// True if there is no Connection line, or one that says `keep-alive` and nothing else: it
    /// closes nothing and names no field.
    pub fn asks_only_to_stay(self) -> bool {
        let marks = self.index.marks;
        let value = || {
            let field = self.index.fields.get(marks.connection_at)?;
            Some(field.value.of(self.bytes))
        };
        match marks.connection_count {
            0 => true,
            1 => value().is_some_and(|value| KEEP_ALIVE.is(value)),
            _ => false,
        }
    }

    /// The value of the first Content-Length line.
    pub fn said_length(self) -> Option<&'a [u8]> {
        let marks = self.index.marks;
        let field = self.index.fields.get(marks.length_at)?;
        (marks.length_count > 0).then(|| field.value.of(self.bytes))
    }

    /// The places of all field lines in the head's bytes.
    pub fn spans(self) -> &'a [FieldSpan] {
        &self.index.fields
    }

    /// The bytes that `spans` lie in.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// All field lines in order, names as sent.
    pub fn fields(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.index
            .fields
            .iter()
            .map(move |field| (field.name.of(self.bytes), field.value.of(self.bytes)))
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

    pub fn first(self, name: &'a str) -> Option<&'a [u8]> {
        self.all(name).next()
    }
}

/// State of a response head after a look at its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedResponse {
    Partial,
    Complete { head_bytes: usize },
}

/// Why a response is of no use; the connection that it came on is neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseFault {
    BadStatusLine,
    BadField,
    /// A bare CR or LF, or an empty line first.
    BadLineEnd,
    HeadTooLarge,
    TooManyFields,
    BadLength,
    SeveralLengths,
    BadTransferEncoding,
    /// Codings that are not known here, without `chunked`: the content ends with the connection.
    UnknownTransferCoding,
    LengthAndTransferEncoding,
}

impl ResponseFault {
    /// For the log.
    pub fn as_str(self) -> &'static str {
        match self {
            ResponseFault::BadStatusLine => "malformed status line",
            ResponseFault::BadField => "malformed field line",
            ResponseFault::BadLineEnd => "line of the response head not ended by CRLF",
            ResponseFault::HeadTooLarge => "response head too large",
            ResponseFault::TooManyFields => "too many field lines in response",
            ResponseFault::BadLength => "malformed Content-Length in response",
            ResponseFault::SeveralLengths => "several Content-Length lines in response",
            ResponseFault::BadTransferEncoding | ResponseFault::UnknownTransferCoding => {
                "unknown or misplaced transfer coding in response"
            }
            ResponseFault::LengthAndTransferEncoding => {
                "both Content-Length and Transfer-Encoding in response"
            }
        }
    }
}

/// Parses the response head at the start of `bytes`, interim ones as well; fills `index` if it is
/// complete. A plain, whole head is done with in one quick pass.
pub fn parse_response(
    bytes: &[u8],
    limits: &ResponseLimits,
    index: &mut ResponseIndex,
) -> Result<ParsedResponse, ResponseFault> {
    let head_bytes_max = limits.head_bytes_max.min(1 << 30);
    let window = bytes.get(..head_bytes_max + 1).unwrap_or(bytes);
    index.clear(false);
    if window.first().is_some_and(|first| *first != b'H') {
        return Err(ResponseFault::BadStatusLine);
    }
    let mut parsed = match parse_plain(window, limits, index) {
        Some(head_bytes) => Ok(ParsedResponse::Complete { head_bytes }),
        None => {
            index.clear(false);
            parse_window(window, limits, index)
        }
    };
    if matches!(
        parsed,
        Err(ResponseFault::BadLineEnd | ResponseFault::BadField)
    ) {
        index.clear(true);
        parsed = parse_window(window, limits, index);
    }
    match parsed? {
        ParsedResponse::Partial if window.len() > head_bytes_max => {
            Err(ResponseFault::HeadTooLarge)
        }
        ParsedResponse::Complete { head_bytes } if head_bytes > head_bytes_max => {
            Err(ResponseFault::HeadTooLarge)
        }
        parsed => Ok(parsed),
    }
}

/// Parses the response head at the start of `bytes` into an empty `index`; returns its length.
/// `None`: look closer.
fn parse_plain(bytes: &[u8], limits: &ResponseLimits, index: &mut ResponseIndex) -> Option<usize> {
    let mut cursor = plain::Cursor::new(bytes);
    status_line(&mut cursor, index)?;
    let mut lines_left = limits.header_count_max;
    while !cursor.skip(b"\r\n") {
        lines_left = lines_left.checked_sub(1)?;
        let field = plain::field_line(&mut cursor)?;
        index.push(bytes, field);
    }
    index.is_plain = cursor.lines_are_plain();
    Some(cursor.at)
}

/// RFC 9112 section 4.
fn status_line(cursor: &mut plain::Cursor<'_>, index: &mut ResponseIndex) -> Option<()> {
    index.version = match () {
        () if cursor.skip(b"HTTP/1.1 ") => Version::Http11,
        () if cursor.skip(b"HTTP/1.0 ") => Version::Http10,
        () => return None,
    };
    let digits: &[u8; 3] = cursor.rest().first_chunk()?;
    if !digits.iter().all(u8::is_ascii_digit) || digits[0] == b'0' {
        return None;
    }
    let code = digits
        .iter()
        .fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    index.status = Status(code);
    cursor.at += digits.len();
    if cursor.skip(b" ") {
        let rest = cursor.rest();
        let start = cursor.at;
        cursor.run::<{ plain::VALUE_MIN }>();
        let reason = rest.get(..cursor.at - start)?;
        // As httparse has it.
        if reason.is_ascii() && !reason.is_empty() {
            index.reason = Span {
                start: start as u32,
                len: reason.len() as u32,
            };
        }
    }
    cursor.skip(b"\r\n").then_some(())
}

fn parse_window(
    window: &[u8],
    limits: &ResponseLimits,
    index: &mut ResponseIndex,
) -> Result<ParsedResponse, ResponseFault> {
    let mut few = [const { MaybeUninit::uninit() }; FAST_FIELDS_MAX];
    match parse_with(window, &mut few, limits, index) {
        Err(ResponseFault::TooManyFields) if limits.header_count_max > FAST_FIELDS_MAX => {
            let mut many = vec![MaybeUninit::uninit(); limits.header_count_max];
            parse_with(window, &mut many, limits, index)
        }
        parsed => parsed,
    }
}

fn parse_with<'a>(
    bytes: &'a [u8],
    lines: &mut [MaybeUninit<httparse::Header<'a>>],
    limits: &ResponseLimits,
    index: &mut ResponseIndex,
) -> Result<ParsedResponse, ResponseFault> {
    let mut response = httparse::Response::new(&mut []);
    let mut config = httparse::ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(index.is_lenient);
    let head_bytes = match config.parse_response_with_uninit_headers(&mut response, bytes, lines) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) => return Ok(ParsedResponse::Partial),
        Err(error) => return Err(fault_of(error)),
    };
    if response.headers.len() > limits.header_count_max {
        return Err(ResponseFault::TooManyFields);
    }
    index.fields.reserve(response.headers.len());
    let code = response
        .code
        .filter(|code| (100..=999).contains(code))
        .ok_or(ResponseFault::BadStatusLine)?;
    index.status = Status(code);
    // Without one, httparse shows an empty text of its own.
    if let Some(reason) = response.reason.filter(|reason| !reason.is_empty()) {
        index.reason = octets::span_in(bytes, reason.as_bytes());
    }
    index.version = if response.version == Some(0) {
        Version::Http10
    } else {
        Version::Http11
    };
    if !index.is_lenient
        && !bytes
            .get(..head_bytes)
            .is_some_and(|head| head.ends_with(b"\r\n\r\n"))
    {
        return Err(ResponseFault::BadLineEnd);
    }
    for header in response.headers.iter() {
        let name = octets::span_in(bytes, header.name.as_bytes());
        if index.is_lenient {
            check_folded(header)?;
        } else if !octets::follows_crlf(bytes, name) {
            return Err(ResponseFault::BadLineEnd);
        }
        let value = octets::span_in(bytes, header.value);
        index.push(bytes, FieldSpan { name, value });
    }
    Ok(ParsedResponse::Complete { head_bytes })
}

/// Fields that delimit the content must not be folded: servers disagree about what such a line says.
fn check_folded(header: &httparse::Header<'_>) -> Result<(), ResponseFault> {
    let is_folded = header.value.contains(&b'\n');
    let delimits = ["content-length", "transfer-encoding", "connection"]
        .iter()
        .any(|name| name.eq_ignore_ascii_case(header.name));
    match is_folded && delimits {
        true => Err(ResponseFault::BadField),
        false => Ok(()),
    }
}

fn fault_of(error: httparse::Error) -> ResponseFault {
    match error {
        httparse::Error::HeaderName | httparse::Error::HeaderValue => ResponseFault::BadField,
        httparse::Error::NewLine => ResponseFault::BadLineEnd,
        httparse::Error::TooManyHeaders => ResponseFault::TooManyFields,
        httparse::Error::Status | httparse::Error::Token | httparse::Error::Version => {
            ResponseFault::BadStatusLine
        }
    }
}

/// Delimiter of a response's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    None,
    Length(u64),
    Chunked,
    UntilClose,
    /// The connection now speaks another protocol (101, or 2xx to CONNECT).
    Tunnel,
}

/// RFC 9112 section 6.3 for responses, in its order. `method` is that of the request.
pub fn response_framing(
    method: Method,
    head: ResponseView<'_>,
) -> Result<ResponseBody, ResponseFault> {
    let status = head.status();
    if status == Status::SWITCHING_PROTOCOLS || (method == Method::Connect && status.is_success()) {
        return Ok(ResponseBody::Tunnel);
    }
    if method == Method::Head || status.forbids_content() {
        return Ok(ResponseBody::None);
    }
    let marks = head.index.marks;
    match (marks.has_transfer_encoding, marks.length_count) {
        (false, 0) => Ok(ResponseBody::UntilClose),
        (false, 1) => framing::content_length(head.said_length().unwrap_or_default())
            .map(ResponseBody::Length)
            .map_err(|_| ResponseFault::BadLength),
        // RFC 9110 section 8.6: the same number said again is one number.
        (false, _) if are_same(head.all("content-length")) => {
            framing::content_length(head.said_length().unwrap_or_default())
                .map(ResponseBody::Length)
                .map_err(|_| ResponseFault::BadLength)
        }
        (false, _) => Err(ResponseFault::SeveralLengths),
        (true, 1..) => Err(ResponseFault::LengthAndTransferEncoding),
        (true, 0) if head.version() == Version::Http10 => Err(ResponseFault::BadTransferEncoding),
        (true, 0) => framing::check_chunked(head.all("transfer-encoding"))
            .map(|()| ResponseBody::Chunked)
            .map_err(
                |_| match framing::is_all_foreign(head.all("transfer-encoding")) {
                    true => ResponseFault::UnknownTransferCoding,
                    false => ResponseFault::BadTransferEncoding,
                },
            ),
    }
}

fn are_same<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> bool {
    let first = values.next();
    values.all(|value| Some(value) == first)
}

/// RFC 9112 section 9.3: whether the connection may be used again once the content was read.
/// Content until close rules it out.
pub fn response_keep_alive(head: ResponseView<'_>, body: ResponseBody) -> bool {
    if matches!(body, ResponseBody::UntilClose | ResponseBody::Tunnel) || head.index.is_lenient {
        return false;
    }
    if head.version() == Version::Http11 && head.asks_only_to_stay() {
        return true;
    }
    let says = |option: &[u8]| framing::list_has(head.all("connection"), option);
    !says(b"close") && (head.version() == Version::Http11 || says(b"keep-alive"))
}

#[cfg(test)]
mod tests;
