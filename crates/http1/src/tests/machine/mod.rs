//! A driver without a socket: what a connection makes of bytes that arrive in pieces.

use saker_http::{HeadIndex, HeadView};
use saker_http1::{
    BodyFraming, ChunkLimits, ChunkedDecoder, Decoded, HeadScanner, Parsed, Reject, RequestLimits,
    check_request, keep_alive, parse_request,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Accept {
        method: Vec<u8>,
        target: Vec<u8>,
        body: Vec<u8>,
        trailers: usize,
        close: bool,
    },
    Reject(Reject),
    RejectBody(Reject),
    Wait,
}

enum Content {
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
}

struct Machine {
    limits: RequestLimits,
    index: HeadIndex,
    scanner: HeadScanner,
    buffer: Vec<u8>,
    /// The request whose content is being read.
    open: Option<(Outcome, Content)>,
    outcomes: Vec<Outcome>,
    closed: bool,
}

/// Outcomes of `bytes` fed `piece` at a time; ends in `Wait` if something unfinished is left.
pub fn run(bytes: &[u8], piece: usize) -> Vec<Outcome> {
    run_pieces(bytes.chunks(piece.max(1)))
}

pub fn run_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Outcome> {
    let mut machine = Machine {
        limits: RequestLimits::default(),
        index: HeadIndex::default(),
        scanner: HeadScanner::default(),
        buffer: Vec::new(),
        open: None,
        outcomes: Vec::new(),
        closed: false,
    };
    for piece in pieces {
        machine.buffer.extend_from_slice(piece);
        while !machine.closed && machine.step() {}
    }
    // The scanner may have put off a look at a fault in an unfinished head.
    if !machine.closed && machine.open.is_none() && !machine.buffer.is_empty() {
        machine.parse_head();
    }
    if !machine.closed && (machine.open.is_some() || !machine.buffer.is_empty()) {
        machine.outcomes.push(Outcome::Wait);
    }
    machine.outcomes
}

impl Machine {
    /// `false`: nothing to do before more bytes come.
    fn step(&mut self) -> bool {
        match self.open.take() {
            Some((request, content)) => self.content(request, content),
            None => self.head(),
        }
    }

    fn head(&mut self) -> bool {
        self.scanner.worth_parsing(&self.buffer, &self.limits) && self.parse_head()
    }

    fn parse_head(&mut self) -> bool {
        let head_bytes = match parse_request(&self.buffer, &self.limits, &mut self.index) {
            Ok(Parsed::Partial) => return false,
            Ok(Parsed::Complete { head_bytes }) => head_bytes,
            Err(reject) => return self.refuse(Outcome::Reject(reject)),
        };
        let head = HeadView::new(&self.buffer, &self.index);
        let framing = match check_request(head) {
            Ok(framing) => framing,
            Err(reject) => return self.refuse(Outcome::Reject(reject)),
        };
        let (method, target, close) = (
            head.method_token().to_vec(),
            head.target().to_vec(),
            !keep_alive(head),
        );
        let request = Outcome::Accept {
            method,
            target,
            body: Vec::new(),
            trailers: 0,
            close,
        };
        let content = match framing {
            BodyFraming::None => Content::Length(0),
            BodyFraming::Length(length) => Content::Length(length),
            BodyFraming::Chunked => {
                Content::Chunked(Box::new(ChunkedDecoder::new(ChunkLimits::default())))
            }
        };
        self.buffer.drain(..head_bytes);
        self.scanner = HeadScanner::default();
        self.open = Some((request, content));
        true
    }

    fn refuse(&mut self, outcome: Outcome) -> bool {
        self.outcomes.push(outcome);
        self.closed = true;
        false
    }

    fn content(&mut self, request: Outcome, content: Content) -> bool {
        match content {
            Content::Length(length) => self.counted(request, length),
            Content::Chunked(decoder) => self.chunked(request, decoder),
        }
    }

    fn counted(&mut self, mut request: Outcome, length: u64) -> bool {
        let here = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .min(self.buffer.len());
        add_body(&mut request, &self.buffer[..here]);
        self.buffer.drain(..here);
        match length - here as u64 {
            0 => self.accept(request),
            left => {
                self.open = Some((request, Content::Length(left)));
                false
            }
        }
    }

    fn chunked(&mut self, mut request: Outcome, mut decoder: Box<ChunkedDecoder>) -> bool {
        match decoder.decode(&self.buffer) {
            Err(reject) => self.refuse(Outcome::RejectBody(reject)),
            Ok(Decoded::NeedMore) => {
                self.buffer.clear();
                self.open = Some((request, Content::Chunked(decoder)));
                false
            }
            Ok(Decoded::Data {
                consumed_before,
                len,
            }) => {
                assert!(len > 0);
                add_body(
                    &mut request,
                    &self.buffer[consumed_before..consumed_before + len],
                );
                self.buffer.drain(..consumed_before + len);
                self.open = Some((request, Content::Chunked(decoder)));
                true
            }
            Ok(Decoded::End { consumed }) => {
                self.buffer.drain(..consumed);
                if let Outcome::Accept { trailers, .. } = &mut request {
                    *trailers = decoder.trailers().len();
                }
                self.accept(request)
            }
        }
    }

    fn accept(&mut self, request: Outcome) -> bool {
        self.closed = matches!(request, Outcome::Accept { close: true, .. });
        self.outcomes.push(request);
        !self.buffer.is_empty()
    }
}

fn add_body(request: &mut Outcome, bytes: &[u8]) {
    if let Outcome::Accept { body, .. } = request {
        body.extend_from_slice(bytes);
    }
}
