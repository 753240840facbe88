//! State of a request's session and of the form of a log-in, between two phases.
//!
//! Called by: `state`, which keeps it; `modules::session` and `modules::access::form`.
//! Caveat: a form is read once, whatever has to wait meanwhile.
//! Out of scope: the work on both.

use saker_apache_model::dbd::Dbd;
use saker_auth::{ContentOutcome, session::SharedSession, settings::SessionSettings};
use saker_http::Status;
use saker_pipeline::{BodyError, RequestBody};
use std::{
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

/// The session of a request, and the settings that it was loaded with.
#[derive(Clone, Debug)]
pub struct LoadedSession {
    pub settings: Arc<SessionSettings>,
    pub session: SharedSession,
    /// Its place in a database, if one keeps it.
    pub place: Option<Rc<SessionPlace>>,
}

/// The place of a session in a database.
#[derive(Debug)]
pub struct SessionPlace {
    pub dbd: Arc<Dbd>,
    /// The key that it was loaded by.
    pub key: Option<Box<str>>,
    /// The key is the name of this user, and no cookie tells it.
    pub user: Option<Box<str>>,
}

/// A handler of forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormHandler {
    LogIn,
    LogOut,
}

impl FormHandler {
    pub fn named(name: &str) -> Option<FormHandler> {
        match name {
            "form-login-handler" => Some(FormHandler::LogIn),
            "form-logout-handler" => Some(FormHandler::LogOut),
            _ => None,
        }
    }
}

/// The content of a form, while it is read and after that.
#[derive(Default)]
pub struct ReadForm {
    body: Option<Box<dyn RequestBody>>,
    content: Vec<u8>,
    outcome: Option<ContentOutcome>,
}

impl ReadForm {
    pub fn begin(body: Box<dyn RequestBody>) -> ReadForm {
        ReadForm {
            body: Some(body),
            ..ReadForm::default()
        }
    }

    /// The content, or why there is none, once it is known.
    pub fn outcome(&self) -> Option<&ContentOutcome> {
        self.outcome.as_ref()
    }
}

impl ReadForm {
    /// Reads on.
    pub fn poll(&mut self, bytes_max: u64, cx: &mut Context<'_>) -> Poll<()> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(());
        };
        let outcome = loop {
            match body.poll_chunk(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => break Ok(std::mem::take(&mut self.content).into()),
                Poll::Ready(Some(Err(error))) => break Err(status_of(error)),
                Poll::Ready(Some(Ok(chunk))) => self.content.extend_from_slice(chunk.bytes()),
            }
            if self.content.len() as u64 > bytes_max {
                break Err(Status::CONTENT_TOO_LARGE);
            }
        };
        self.body = None;
        self.outcome = Some(outcome);
        Poll::Ready(())
    }
}

fn status_of(error: BodyError) -> Status {
    match error {
        BodyError::TooLarge => Status::CONTENT_TOO_LARGE,
        BodyError::TrailersTooLarge => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
        BodyError::TimedOut => Status::REQUEST_TIMEOUT,
        BodyError::Gone | BodyError::Malformed | BodyError::Source => Status::BAD_REQUEST,
    }
}
