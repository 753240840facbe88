//! Content of a request that is kept for the parts of its page (mod_request, KeptBodySize).
//!
//! Called by: the fixups, which wait for it; `includes::inside` asks parts with it; handlers that
//! take a form.
//! Caveat: it is read once, and what answers the request itself gets it, too.
//! Out of scope: forms of log-ins, which nothing gets after them.

use crate::{
    form_state::ReadForm,
    state::{peek, state},
    verdict::Verdict,
};
use saker_apache_model::dir_config::DirConfig;
use saker_http::Status;
use saker_pipeline::{BodyError, Chunk, Exchange, NoBody, RequestBody, Response};
use std::{
    cell::RefCell,
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll},
};

/// Reads the content of a request where it is to be kept. `None`: it is kept, or need not be.
pub fn keep(exchange: &mut Exchange, local: &DirConfig) -> Option<Verdict> {
    let bytes_max = local.include.kept_bytes()?;
    let own = peek(exchange)?;
    if own.is_subrequest || own.is_error_page || own.kept_content.is_some() {
        return None;
    }
    match read(exchange, bytes_max) {
        Err(verdict) => Some(*verdict),
        Ok(content) => {
            if !content.is_empty() {
                exchange.depends_on_request();
            }
            exchange.body = Box::new(KeptContent::new(&content));
            state(exchange).kept_content = Some(content);
            None
        }
    }
}

/// The content of a request.
///
/// # Errors
/// The verdict in its place: to wait, or why there is none.
pub fn read(exchange: &mut Exchange, bytes_max: u64) -> Result<Rc<[u8]>, Box<Verdict>> {
    let reading = match peek(exchange).and_then(|own| own.keeps_content.clone()) {
        Some(reading) => reading,
        None => {
            if exchange
                .body
                .length()
                .is_some_and(|bytes| bytes > bytes_max)
            {
                exchange.depends_on_request();
                return Err(Box::new(refused(Status::CONTENT_TOO_LARGE)));
            }
            let body = std::mem::replace(&mut exchange.body, Box::new(NoBody));
            let reading = Rc::new(RefCell::new(ReadForm::begin(body)));
            state(exchange).keeps_content = Some(Rc::clone(&reading));
            reading
        }
    };
    let outcome = reading.borrow().outcome().cloned();
    match outcome {
        Some(outcome) => outcome.map_err(|status| Box::new(refused(status))),
        None => Err(Box::new(Verdict::Wait(Box::pin(poll_fn(move |cx| {
            reading.borrow_mut().poll(bytes_max, cx)
        }))))),
    }
}

fn refused(status: Status) -> Verdict {
    Verdict::Answer(Response::new(status))
}

/// Content in memory, from its beginning.
pub struct KeptContent {
    /// `None` once it has been read.
    content: Option<Rc<[u8]>>,
    /// Bytes of the whole content, also after it has been read.
    length: u64,
}

impl KeptContent {
    pub fn new(content: &Rc<[u8]>) -> KeptContent {
        KeptContent {
            length: content.len() as u64,
            content: Some(Rc::clone(content)).filter(|content| !content.is_empty()),
        }
    }
}

impl RequestBody for KeptContent {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let content = self.content.take();
        Poll::Ready(content.map(|content| Ok(content.to_vec().into())))
    }

    fn length(&self) -> Option<u64> {
        Some(self.length)
    }

    fn is_end(&self) -> bool {
        self.content.is_none()
    }
}
