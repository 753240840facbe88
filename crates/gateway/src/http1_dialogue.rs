//! HTTP/1.1 towards a server, as a dialogue like those of programs.
//!
//! Difficulty: what may be passed on. Fields that concern a connection stay on it (RFC 9110 section
//! 7.6.1), those that `Connection` names among them; framing, Host and Connection are written anew
//! by `http1`.

use saker_cgi::{
    Broken, Dialogue, Event, Fault, ProgramRequest, Refused, ResponseHead,
    response::INTERIM_COUNT_MAX,
};
use saker_http::{FieldSpan, Fields, KnownField, Method, Status};
use saker_http1::{
    BodyFraming, CHUNK_END, ChunkLimits, ChunkedDecoder, Decoded,
    client::{
        ClientConnection, LeftOut, ParsedResponse, RequestLine, ResponseBody, ResponseFault,
        ResponseIndex, ResponseLimits, ResponseView, encode_forwarded_head, parse_response,
        response_framing, response_keep_alive,
    },
    encode_chunk_head, encode_last_chunk,
};
use std::{borrow::Cow, cell::RefCell};

use crate::forward::{Address, Line, is_of_connection, protocols};

/// The way a request is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestTerms {
    /// Content is sent when the server has said that it is ready for it (RFC 9110 section 10.1.1),
    /// and not after a refusal.
    pub asks_first: bool,
    /// In HTTP/1.0. Its content has a length.
    pub is_http10: bool,
    /// The connection serves no other one.
    pub closes: bool,
    /// A response in an unknown transfer coding is passed on as it comes, to the end of the
    /// connection (RFC 9112 section 6.3), as Apache does.
    pub reads_unknown_codings: bool,
    /// Trailers of the request go on.
    pub passes_trailers: bool,
}

pub struct Http1Dialogue {
    method: Method,
    /// Protocols that the server was asked to change to.
    upgrade: Option<Vec<u8>>,
    is_chunked: bool,
    /// The request was of HTTP/1.0, or said that it is the last one.
    is_last: bool,
    reads_unknown_codings: bool,
    passes_trailers: bool,
    state: State,
    stays: bool,
    /// Trailers of the request.
    trailers: Option<Fields>,
    /// Content is held back until 100, or for good.
    awaits_continue: bool,
    interim_count: u32,
}

thread_local! {
    /// Used again from head to head.
    static INDEX: RefCell<ResponseIndex> = RefCell::default();
}

enum State {
    Head,
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
    Ended,
    Tunnel,
    /// UpstreamEvent, and nothing more to say.
    Done,
}

impl Http1Dialogue {
    /// Appends the request's head.
    pub fn begin(
        mut address: Address<'_>,
        request: &ProgramRequest<'_>,
        terms: RequestTerms,
        out: &mut Vec<u8>,
    ) -> Result<Http1Dialogue, Refused> {
        let asks_first = terms.asks_first && !terms.is_http10;
        if asks_first {
            address.lines.push(Line {
                name: "Expect",
                value: Some(Cow::Borrowed(b"100-continue")),
            });
        }
        let (head, method) = (request.head, request.head.method());
        let framing = match request.content_length {
            Some(0) if !matches!(method, Method::Post | Method::Put) => BodyFraming::None,
            Some(length) => BodyFraming::Length(length),
            None => BodyFraming::Chunked,
        };
        let is_chunked = framing == BodyFraming::Chunked;
        let line = RequestLine {
            method: head.method_token(),
            target: address.target,
            host: &address.host,
        };
        // RFC 9110 section 6.6.2: what comes behind chunks is announced before them.
        let announced = head
            .lines(KnownField::Trailer)
            .filter(|_| is_chunked && terms.passes_trailers)
            .map(|names| ("Trailer", names));
        address.upgrade = address.upgrade.filter(|_| !terms.is_http10);
        let upgrade = address
            .upgrade
            .as_deref()
            .map(|protocols| ("Upgrade", protocols));
        let connection = if upgrade.is_some() {
            ClientConnection::Upgrade
        } else if terms.is_http10 {
            ClientConnection::Close10
        } else if terms.closes {
            ClientConnection::Close
        } else {
            ClientConnection::KeepAlive
        };
        let left_out = LeftOut {
            names: address.names_left_out(),
            is_left_out: address.left_out(),
        };
        let more = address.own().chain(announced).chain(upgrade);
        encode_forwarded_head(line, head, left_out, more, (framing, connection), out)
            .map_err(|_| Refused::MethodUnknown)?;
        Ok(Http1Dialogue {
            method,
            upgrade: address.upgrade,
            is_chunked,
            is_last: terms.is_http10 || terms.closes,
            reads_unknown_codings: terms.reads_unknown_codings,
            passes_trailers: terms.passes_trailers,
            state: State::Head,
            stays: false,
            trailers: None,
            awaits_continue: asks_first,
            interim_count: 0,
        })
    }

    fn head(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        if input.is_empty() {
            return Ok((0, None));
        }
        INDEX.with_borrow_mut(|index| self.head_by(input, index))
    }

    fn head_by(
        &mut self,
        input: &[u8],
        index: &mut ResponseIndex,
    ) -> Result<(usize, Option<Event>), Broken> {
        let parsed = parse_response(input, &ResponseLimits::default(), index);
        let head_bytes = match parsed {
            Ok(ParsedResponse::Partial) => return Ok((0, None)),
            Ok(ParsedResponse::Complete { head_bytes }) => head_bytes,
            Err(fault) => return Err(Broken::at(Fault::Malformed, fault.as_str().as_bytes())),
        };
        let view = ResponseView::new(input.get(..head_bytes).unwrap_or(input), index);
        let status = view.status();
        if status.is_informational() && status != Status::SWITCHING_PROTOCOLS {
            self.awaits_continue &= status != Status::CONTINUE;
            self.interim_count += 1;
            if self.interim_count > INTERIM_COUNT_MAX {
                return Err(Fault::HeadTooLarge.into());
            }
            return Ok((head_bytes, Some(Event::Interim(head_of(view, None)))));
        }
        let body = response_framing(self.method, view)
            .or_else(|fault| match fault {
                ResponseFault::UnknownTransferCoding if self.reads_unknown_codings => {
                    Ok(ResponseBody::UntilClose)
                }
                fault => Err(fault),
            })
            .map_err(|fault| Broken::at(Fault::Malformed, fault.as_str().as_bytes()))?;
        self.stays = response_keep_alive(view, body) && !self.is_last;
        let said = view
            .said_length()
            .and_then(|text| std::str::from_utf8(text).ok())
            .and_then(|text| text.trim().parse().ok());
        let head = head_of(view, said.filter(|_| body != ResponseBody::Chunked));
        self.state = match body {
            ResponseBody::None | ResponseBody::Length(0) => State::Ended,
            ResponseBody::Length(length) => State::Length(length),
            ResponseBody::Chunked => State::Chunked(Box::new(ChunkedDecoder::of_response(
                ChunkLimits::default(),
            ))),
            ResponseBody::UntilClose => State::UntilClose,
            ResponseBody::Tunnel if self.is_asked_for(view) => State::Tunnel,
            ResponseBody::Tunnel => return Err(Fault::Unswitchable.into()),
        };
        let event = if matches!(self.state, State::Tunnel) {
            Event::Switched(head)
        } else {
            Event::Head(head)
        };
        Ok((head_bytes, Some(event)))
    }

    /// RFC 9110 section 7.8: a server must not change to what the client did not name.
    fn is_asked_for(&self, view: ResponseView<'_>) -> bool {
        let asked = self.upgrade.as_deref().unwrap_or_default();
        let mut chosen = view.all("upgrade").flat_map(protocols).peekable();
        chosen.peek().is_some()
            && chosen.all(|one| protocols(asked).any(|other| other.eq_ignore_ascii_case(one)))
    }

    fn chunked(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        let State::Chunked(decoder) = &mut self.state else {
            return Ok((0, None));
        };
        match decoder.decode(input) {
            Err(_) => Err(Broken::at(Fault::BadRecord, input)),
            Ok(Decoded::NeedMore) => Ok((input.len(), None)),
            Ok(Decoded::Data {
                consumed_before,
                len,
            }) => Ok((
                consumed_before + len,
                Some(Event::Content(consumed_before..consumed_before + len)),
            )),
            Ok(Decoded::End { consumed }) => {
                let trailers = decoder.trailers().clone();
                self.stays &= !decoder.was_lenient();
                self.state = State::Ended;
                let event = (!trailers.is_empty()).then_some(Event::Trailers(trailers));
                match (consumed, event) {
                    // Nothing used and nothing said would be "more is needed".
                    (0, None) => Ok((0, Some(self.end()))),
                    (consumed, event) => Ok((consumed, event)),
                }
            }
        }
    }

    fn end(&mut self) -> Event {
        self.state = State::Done;
        Event::End { stays: self.stays }
    }
}

impl Dialogue for Http1Dialogue {
    /// The head was appended when the dialogue was made.
    fn begin(&mut self, _: &ProgramRequest<'_>, _: &mut Vec<u8>) -> Result<(), Refused> {
        Ok(())
    }

    fn content_max(&self) -> usize {
        if self.awaits_continue { 0 } else { usize::MAX }
    }

    fn content(&mut self, content: &[u8], out: &mut Vec<u8>) {
        if !self.is_chunked {
            return out.extend_from_slice(content);
        }
        encode_chunk_head(content.len(), out);
        out.extend_from_slice(content);
        out.extend_from_slice(CHUNK_END);
    }

    fn frame(&mut self, bytes: usize, out: &mut Vec<u8>) -> Option<&'static [u8]> {
        if !self.is_chunked {
            return Some(b"");
        }
        encode_chunk_head(bytes, out);
        Some(CHUNK_END)
    }

    fn trailers(&mut self, fields: Fields) {
        self.trailers = Some(fields).filter(|_| self.passes_trailers);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.is_chunked {
            encode_last_chunk(self.trailers.as_ref(), out);
        }
    }

    fn receive(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        match &mut self.state {
            State::Head => self.head(input),
            State::Chunked(_) => self.chunked(input),
            State::Length(left) => {
                let bytes = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(input.len());
                *left -= bytes as u64;
                if *left == 0 {
                    self.state = State::Ended;
                }
                Ok((bytes, (bytes > 0).then_some(Event::Content(0..bytes))))
            }
            State::UntilClose => Ok((
                input.len(),
                (!input.is_empty()).then_some(Event::Content(0..input.len())),
            )),
            State::Ended => Ok((0, Some(Http1Dialogue::end(self)))),
            State::Tunnel | State::Done => Ok((0, None)),
        }
    }

    fn closed(&mut self) -> Result<Option<Event>, Broken> {
        match self.state {
            State::Done | State::Tunnel => Ok(None),
            State::Ended | State::UntilClose => {
                self.stays = false;
                Ok(Some(Http1Dialogue::end(self)))
            }
            State::Head => Err(Fault::Premature.into()),
            State::Length(_) | State::Chunked(_) => Err(Fault::Cut.into()),
        }
    }
}

/// True for an option of Connection that is the name of a field, which is then of the connection (RFC
/// 9110 section 7.6.1).
fn names_field(option: &[u8]) -> bool {
    !matches!(option, b"" | b"close" | b"keep-alive" | b"Keep-Alive")
}

/// Fields that go on to the client, without those of the connection.
fn head_of(view: ResponseView<'_>, length: Option<u64>) -> ResponseHead {
    let nominated = || view.all("connection").flat_map(protocols);
    let nominates = !view.asks_only_to_stay() && nominated().any(names_field);
    let is_nominated =
        |name: &[u8]| nominates && nominated().any(|option| option.eq_ignore_ascii_case(name));
    let is_switch = view.status() == Status::SWITCHING_PROTOCOLS;
    let is_left_out = |name: &[u8]| {
        let is_kept = match name.len() {
            7 if is_switch => name.eq_ignore_ascii_case(b"upgrade"),
            7 => name.eq_ignore_ascii_case(b"trailer"),
            // The length is told as a number.
            14 if name.eq_ignore_ascii_case(b"content-length") => return true,
            _ => false,
        };
        !is_kept && (is_of_connection(name, &[]) || is_nominated(name))
    };
    let (bytes, mut fields) = (view.bytes(), Fields::new());
    // httparse lets tokens through alone.
    match view.is_lenient() {
        false => {
            let goes = |line: &&FieldSpan| !is_left_out(line.name.of(bytes));
            let lines = view.spans().iter().filter(goes).copied();
            match view.is_plain() {
                true => fields.append_plain(bytes, lines),
                false => fields.append_received(bytes, lines),
            }
        }
        true => {
            for (name, value) in view.fields().filter(|(name, _)| !is_left_out(name)) {
                // RFC 9112 section 5.2: the blanks at the beginning of the next line stay.
                let mut unfolded = value.to_vec();
                unfolded.retain(|byte| !matches!(byte, b'\r' | b'\n'));
                fields.append_token(name, &unfolded);
            }
        }
    }
    ResponseHead {
        status: view.status(),
        reason: own_reason(view),
        fields,
        length,
        is_status_said: true,
        first_status: None,
        is_status_invalid: false,
        is_local_redirect: false,
    }
}

/// The reason phrase, if it is not the registered one.
fn own_reason(view: ResponseView<'_>) -> Option<Box<[u8]>> {
    let reason = view.reason();
    (!reason.is_empty() && reason != view.status().reason().as_bytes()).then(|| reason.into())
}

#[cfg(test)]
mod tests;
