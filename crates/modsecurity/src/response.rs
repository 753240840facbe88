//! Inspection of the response, before filters change it and the page cache stores it.
//!
//! Called by: `respond`, for requests that have passed.
//! Caveat: rules see content before its head is sent, so it is read up to a limit; a stream begins
//! again with the part that was read. If the response is a range, several ranges, or a coding of a
//! file, rules see the whole file: refused content can't be fetched piece by piece.
//! Out of scope: error pages, which are the server's own.

use crate::{
    content::{Look, Offload, look},
    screening::{Screening, SharedTransaction, Stage, refuse},
};
use saker_http::{Fields, Method};
use saker_net::modsecurity::Transaction;
use saker_pipeline::{Body, BodyError, BodyStream, Chunk, Exchange, FilePart, Response};
use std::{
    collections::VecDeque,
    future::poll_fn,
    os::unix::fs::FileExt,
    rc::Rc,
    task::{Context, Poll},
};

const PIECE_BYTES: u64 = 64 << 10;

/// Returns the answer in the place of `response`, if rules refuse it.
pub async fn response(
    exchange: &mut Exchange,
    response: &mut Response,
    offload: Offload,
) -> Option<Response> {
    let screening = exchange
        .extensions
        .get::<Rc<Screening>>()
        .filter(|screening| screening.stage.get() == Stage::Passed)
        .cloned()?;
    if let Some(refused) = head(exchange, &screening, response) {
        return Some(refused);
    }
    let seen = content(exchange, &screening, response).await;
    let look_at = Look::at_response(exchange, &screening, seen);
    look(look_at, offload, Transaction::response_content).await;
    screening
        .intervention()
        .map(|found| refuse(exchange, found))
}

fn head(exchange: &mut Exchange, screening: &Screening, response: &Response) -> Option<Response> {
    let found = screening
        .transaction
        .borrow_mut()
        .as_mut()
        .and_then(|transaction| {
            for (name, value) in response.fields().iter() {
                transaction.response_field(name.as_bytes(), value);
            }
            transaction.response_head(response.status.0, exchange.head.view().version().as_str());
            screening.log.intervention(transaction)
        });
    found.map(|found| refuse(exchange, found))
}

/// Shows the rules the content, as far as they want it; returns the number of bytes shown.
async fn content(exchange: &Exchange, screening: &Screening, response: &mut Response) -> u64 {
    let rules = &screening.rules;
    // An error page is not part of the representation.
    let whole = screening
        .whole
        .take()
        .filter(|_| !response.status.is_error());
    let has_content = exchange.head.view().method() != Method::Head
        && !response.status.forbids_content()
        && response.tunnel.is_none();
    let is_wanted = has_content
        && (rules
            .wants_response_content(response.fields().first("Content-Type").unwrap_or_default())
            || whole
                .as_ref()
                .is_some_and(|whole| rules.wants_response_content(&whole.content_type)));
    if !is_wanted {
        return 0;
    }
    let mut sight = Sight {
        transaction: Rc::clone(&screening.transaction),
        left: rules.response_bytes_max(),
        seen: 0,
    };
    match whole {
        Some(whole) => sight.show_there(&whole.body),
        None => sight.show_all(&mut response.body).await,
    }
    sight.seen
}

/// The part of the content that rules still want to see.
struct Sight {
    transaction: SharedTransaction,
    left: u64,
    seen: u64,
}

impl Sight {
    async fn show_all(&mut self, body: &mut Body) {
        match body {
            Body::Stream(_) => {
                if let Body::Stream(stream) = std::mem::take(body) {
                    *body = Body::Stream(self.show_stream(stream).await);
                }
            }
            other => self.show_there(other),
        }
    }

    /// Content that is at hand without waiting.
    fn show_there(&mut self, body: &Body) {
        match body {
            Body::Memory(chunk) => self.show(chunk.bytes()),
            Body::File(part) => self.show_file(part),
            Body::Parts(parts) => parts.iter().for_each(|part| self.show_there(part)),
            Body::Empty | Body::Stream(_) => {}
        }
    }

    fn show_file(&mut self, part: &FilePart) {
        let (mut offset, end) = (part.offset, part.offset.saturating_add(part.length));
        while offset < end && self.left > 0 {
            let mut piece = vec![0; (end - offset).min(PIECE_BYTES).min(self.left) as usize];
            match part.file.read_at(&mut piece, offset) {
                // The driver meets the same error when it sends the file.
                Ok(0) | Err(_) => return,
                Ok(read) => {
                    self.show(piece.get(..read).unwrap_or_default());
                    offset += read as u64;
                }
            }
        }
    }

    async fn show_stream(&mut self, mut stream: Box<dyn BodyStream>) -> Box<dyn BodyStream> {
        let (length, mut read, mut end) = (stream.length(), VecDeque::new(), None);
        while self.left > 0 {
            match poll_fn(|cx| stream.poll_chunk(cx)).await {
                Some(Ok(chunk)) => {
                    self.show(chunk.bytes());
                    read.push_back(chunk);
                }
                None => {
                    end = Some(Ok(()));
                    break;
                }
                Some(Err(error)) => {
                    end = Some(Err(error));
                    break;
                }
            }
        }
        Box::new(Replayed {
            read,
            stream,
            end,
            length,
        })
    }

    fn show(&mut self, bytes: &[u8]) {
        if self.left == 0 {
            return;
        }
        let wants_more = self
            .transaction
            .borrow_mut()
            .as_mut()
            .is_some_and(|transaction| transaction.append_response_content(bytes));
        self.seen += bytes.len() as u64;
        self.left = if wants_more {
            self.left.saturating_sub(bytes.len() as u64)
        } else {
            0
        };
    }
}

/// A stream whose beginning has been read ahead.
struct Replayed {
    read: VecDeque<Chunk>,
    stream: Box<dyn BodyStream>,
    /// Result with which the stream ended, if it has.
    end: Option<Result<(), BodyError>>,
    length: Option<u64>,
}

impl BodyStream for Replayed {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        match (self.read.pop_front(), self.end) {
            (Some(chunk), _) => Poll::Ready(Some(Ok(chunk))),
            (None, Some(Ok(()))) => Poll::Ready(None),
            (None, Some(Err(error))) => Poll::Ready(Some(Err(error))),
            (None, None) => self.stream.poll_chunk(cx),
        }
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.stream.trailers()
    }
}
