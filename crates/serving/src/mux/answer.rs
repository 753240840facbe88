//! The outcome of a dispatched request, on its way back to its connection.
//!
//! Called by: `dispatch`, which makes it; `pump`, which sends it.

use super::upload::Upload;
use crate::request::{Facts, Pending, Session, log};
use saker_pipeline::{Exchange, LogFacts, Loggers, Response};
use std::{cell::RefCell, rc::Rc};

/// The response to a dispatched request.
pub struct Answer {
    pub exchange: Exchange,
    pub response: Response,
    pub upload: Option<Rc<RefCell<Upload>>>,
    pub loggers: Rc<Loggers>,
    pub log_facts: Option<Rc<LogFacts>>,
    pub began_ns: u64,
}

impl Answer {
    /// The line that waits for the response to be sent.
    pub fn log(&self, session: &Session) -> Option<Pending> {
        let exchange = &self.exchange;
        let facts = Facts {
            site: exchange.routing.site_index,
            status: self.response.status,
            path: &exchange.path,
            fields: Some(self.response.fields()),
            length: log::sent_length(&self.response),
            stays: true,
            log_facts: self.log_facts.as_ref(),
        };
        let received = self
            .upload
            .as_ref()
            .map_or(0, |upload| upload.borrow().received);
        let log = Pending::with_fields(
            session,
            Rc::clone(&self.loggers),
            exchange.head.view(),
            &facts,
            &exchange.host,
        );
        log.map(|log| {
            log.received(received);
            log.began(self.began_ns).asked_by(session, exchange)
        })
    }
}
