//! Lines of the error log that belong to an outcome: each request that is answered from the route
//! cache gets them, too.
//!
//! Called by: rules, which log through [`Exchange::log_outcome`]; the fast path, which repeats the
//! lines.
//! Caveat: the text may depend only on what the outcome depends on. The client, its request, and
//! the time come from the request at hand.
//! Out of scope: access logs (`logger`).

use crate::{Environment, Exchange, OutcomeLine, request_conditions::Received};
use saker_telemetry::error_log::{ContextItem, LogContext, LogId, SiteLog};
use std::{borrow::Cow, sync::Arc};

/// The lines of a cached outcome, with what their format may refer to.
#[derive(Debug)]
pub struct OutcomeLines {
    lines: Box<[OutcomeLine]>,
    site: Option<Arc<SiteLog>>,
    site_name: Option<Box<[u8]>>,
    host_name: Option<Box<[u8]>>,
    environment: Environment,
    notes: Environment,
}

impl OutcomeLines {
    /// Returns the approximate memory in use.
    pub fn memory_bytes(&self) -> usize {
        let text = |line: &OutcomeLine| match line {
            OutcomeLine::Saker(_, text)
            | OutcomeLine::Httpd(_, text)
            | OutcomeLine::Nginx(_, _, text) => text.len(),
        };
        size_of::<OutcomeLines>() + self.lines.iter().map(text).sum::<usize>()
    }

    /// Writes the lines for a request with the same outcome, under its id.
    pub fn log(&self, request: &Received<'_>, id: &LogId) {
        let context = Repeated {
            lines: self,
            request,
            id,
        };
        for line in &self.lines {
            line.log(&context);
        }
    }
}

/// The context of a request that is answered from the route cache.
struct Repeated<'a> {
    lines: &'a OutcomeLines,
    request: &'a Received<'a>,
    id: &'a LogId,
}

impl LogContext for Repeated<'_> {
    fn context_item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        let lines = self.lines;
        match asked {
            ContextItem::Field(name) => {
                let mut fields = self.request.head.fields();
                fields
                    .find(|field| field.0.eq_ignore_ascii_case(name.as_bytes()))
                    .map(|field| Cow::Borrowed(field.1))
            }
            ContextItem::Variable(name) => {
                lines.environment.first(name.as_bytes()).map(Cow::Borrowed)
            }
            ContextItem::Note(name) => lines.notes.first(name.as_bytes()).map(Cow::Borrowed),
            ContextItem::RequestLine => Some(Cow::Borrowed(self.request.head.start_line())),
            ContextItem::SiteName => lines.site_name.as_deref().map(Cow::Borrowed),
            ContextItem::HostName => lines.host_name.as_deref().map(Cow::Borrowed),
            asked => self.request.client.context_item(asked),
        }
    }

    fn connection(&self) -> Option<&LogId> {
        self.request.client.connection()
    }

    fn request(&self) -> Option<&LogId> {
        Some(self.id)
    }

    fn site(&self) -> Option<&SiteLog> {
        self.lines.site.as_deref()
    }
}

impl Exchange {
    /// Logs a line that belongs to the outcome: requests that are answered from the route cache
    /// repeat it.
    pub fn log_outcome(&self, line: OutcomeLine) {
        line.log(self);
        self.log.outcome_lines.borrow_mut().push(line);
    }

    /// Takes the lines that belong to the outcome, for the route cache. `None`: there are none.
    pub fn take_outcome_lines(&mut self) -> Option<OutcomeLines> {
        let lines = std::mem::take(self.log.outcome_lines.get_mut());
        if lines.is_empty() {
            return None;
        }
        // The format may show variables.
        self.depends_on_environment();
        let owned = |item| self.context_item(item).map(|text| text.as_ref().into());
        Some(OutcomeLines {
            lines: lines.into(),
            site: self.error_log().cloned(),
            site_name: owned(ContextItem::SiteName),
            host_name: owned(ContextItem::HostName),
            environment: self.environment.clone(),
            notes: self.log.notes.clone(),
        })
    }
}
