//! What is about to be answered, before filters change it and the page cache keeps it.
//!
//! Difficulty: rules want to see content before its head may go, and only some, so that is read up
//! to a bound; a body that is made while it is sent begins with what was read of it. Where the
//! response is a range, several, or a coding of what the server has, rules look at what the server
//! has: what is behind a refusal can't be had piece by piece.

use super::{LARGE_BYTES, Stage, content::look, refuse};
use crate::{Body, BodyError, BodyStream, Chunk, Exchange, FilePart, Response, Services};
use saker_http::{Fields, Method};
use saker_net::modsecurity::{Intervention, Transaction};
use std::{
    collections::VecDeque,
    future::poll_fn,
    os::unix::fs::FileExt,
    rc::Rc,
    task::{Context, Poll},
};

const PIECE_BYTES: u64 = 64 << 10;

/// What is to be answered in its place, if anything.
pub(crate) async fn response(
    exchange: &mut Exchange,
    services: &Services,
    response: &mut Response,
) -> Option<Response> {
    let screening = exchange
        .screening
        .as_mut()
        .filter(|screening| matches!(screening.stage, Stage::Passed))?;
    // An error's page is not of it.
    let whole = screening
        .whole
        .take()
        .filter(|_| !response.status.is_error());
    let (rules, shared, about) = (
        screening.rules.clone(),
        Rc::clone(&screening.transaction),
        Rc::clone(&screening.about),
    );
    let found = shared.borrow_mut().as_mut().and_then(|transaction| {
        for (name, value) in response.fields().iter() {
            transaction.response_field(name.as_bytes(), value);
        }
        transaction.response_head(response.status.0, exchange.head.view().version().as_str());
        about.intervention(transaction)
    });
    if let Some(found) = found {
        return Some(refuse(exchange, found));
    }
    let has_content = exchange.head.view().method() != Method::Head
        && !response.status.forbids_content()
        && response.tunnel.is_none();
    let is_wanted = has_content
        && (rules
            .wants_response_content(response.fields().first("Content-Type").unwrap_or_default())
            || whole
                .as_ref()
                .is_some_and(|whole| rules.wants_response_content(&whole.content_type)));
    let mut sight = Sight {
        transaction: Rc::clone(&shared),
        left: if is_wanted {
            rules.response_bytes_max()
        } else {
            0
        },
        seen: 0,
    };
    match whole {
        _ if !is_wanted => {}
        Some(whole) => sight.show_there(&whole.body),
        None => sight.show_all(&mut response.body).await,
    }
    look(
        &shared,
        sight.seen > LARGE_BYTES,
        services.offload,
        Transaction::response_content,
    )
    .await;
    let found = match shared.borrow_mut().as_mut() {
        Some(transaction) => about.intervention(transaction),
        // It was lost with a thread.
        None => Some(Intervention {
            status: 500,
            redirect: None,
            line: None,
        }),
    };
    found.map(|found| refuse(exchange, found))
}

/// What rules get to see.
struct Sight {
    transaction: super::Shared,
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

    /// What can be had without waiting.
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
                // Who sends it will see that, too.
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

/// A stream whose beginning has been read.
struct Replayed {
    read: VecDeque<Chunk>,
    stream: Box<dyn BodyStream>,
    /// How it ended, if it has.
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
