//! The members of an upstream that a request was sent to, in order, with times, statuses, and bytes.
//!
//! Called by: the gateway, which records them; rules whose variables tell about them; and access
//! logs, which tell about them when the response is over.
//! Caveat: recorded only for rules that ask for it ([`UpstreamAttempts::record`]). What is counted
//! while the response passes is known in full when it has.

use saker_config::model::{Backend, BackendAddress};
use saker_http::Status;
use std::{
    cell::{Cell, RefCell},
    fmt::{self, Write as _},
    rc::Rc,
    sync::Arc,
};

/// One member that was asked.
#[derive(Clone, Debug)]
pub struct UpstreamAttempt {
    pub address: AttemptAddress,
    /// Its name in sessions.
    pub route: Option<Box<str>>,
    pub begun_ns: u64,
    pub connected_ns: Option<u64>,
    /// The head of a response has come.
    pub answered_ns: Option<u64>,
    /// The status of its response, or what stands for its failure.
    pub status: Option<Status>,
    /// The request had gone to an upstream before, from which an internal redirect led here.
    pub is_of_next_call: bool,
    /// The first one to be counted of the exchange with the member.
    pub counts: Rc<AttemptCounts>,
}

/// The address of a member, shown as `HOST:PORT` or `unix:PATH`.
#[derive(Clone, Debug)]
pub enum AttemptAddress {
    Backend(Arc<Backend>),
    /// No member could be asked: the name of all.
    Group(Box<str>),
}

impl fmt::Display for AttemptAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttemptAddress::Group(name) => f.write_str(name),
            AttemptAddress::Backend(backend) => match &backend.address {
                BackendAddress::Unix(path) => write!(f, "unix:{}", path.display()),
                BackendAddress::Tcp { host, port } => write!(f, "{host}:{port}"),
            },
        }
    }
}

/// Counts of bytes that pass while the member is talked to.
#[derive(Debug, Default)]
pub struct AttemptCounts {
    pub sent_bytes: Cell<u64>,
    pub received_bytes: Cell<u64>,
    /// Bytes of the response's content.
    pub content_bytes: Cell<u64>,
    /// The response, or the attempt, is over.
    pub ended_ns: Cell<Option<u64>>,
}

impl AttemptCounts {
    /// Adds to a count.
    pub fn add(count: &Cell<u64>, bytes: usize) {
        count.set(count.get().saturating_add(bytes as u64));
    }
}

/// Fact that a log or a variable tells of each attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptValue {
    Address,
    Status,
    ConnectTime,
    HeaderTime,
    ResponseTime,
    ResponseLength,
    BytesSent,
    BytesReceived,
}

/// All members that were asked. Copies are views of the same list.
#[derive(Clone, Debug, Default)]
pub struct UpstreamAttempts {
    /// `None`: nothing asks for them.
    list: Option<Rc<List>>,
}

#[derive(Debug, Default)]
struct List {
    /// The next attempt is the first one of a further call.
    begins_call: Cell<bool>,
    all: RefCell<Vec<UpstreamAttempt>>,
}

impl UpstreamAttempts {
    /// Has attempts recorded from now on. Those before belong to calls that led here.
    pub fn record(&mut self) {
        let list = self.list.get_or_insert_default();
        let has_some = !list.all.borrow().is_empty();
        list.begins_call.set(has_some);
    }

    pub fn begin(
        &self,
        address: impl FnOnce() -> AttemptAddress,
        route: Option<&str>,
        now_ns: impl FnOnce() -> u64,
    ) {
        if let Some(list) = &self.list {
            list.all.borrow_mut().push(UpstreamAttempt {
                address: address(),
                route: route.map(Into::into),
                begun_ns: now_ns(),
                connected_ns: None,
                answered_ns: None,
                status: None,
                is_of_next_call: list.begins_call.take(),
                counts: Rc::default(),
            });
        }
    }

    fn change_last(&self, change: impl FnOnce(&mut UpstreamAttempt)) {
        if let Some(list) = &self.list {
            list.all.borrow_mut().last_mut().map(change);
        }
    }

    /// The counts of the member that is asked now.
    pub fn counts(&self) -> Option<Rc<AttemptCounts>> {
        let all = self.list.as_ref()?.all.borrow();
        all.last().map(|last| Rc::clone(&last.counts))
    }

    /// The connection is there.
    pub fn connect(&self, now_ns: impl FnOnce() -> u64) {
        self.change_last(|last| {
            last.connected_ns.get_or_insert_with(now_ns);
        });
    }

    /// A response's head has come.
    pub fn answer(&self, status: Status, now_ns: impl FnOnce() -> u64) {
        self.change_last(|last| {
            (last.answered_ns, last.status) = (Some(now_ns()), Some(status));
        });
    }

    /// The attempt failed, which this status stands for.
    pub fn fail(&self, status: Status, now_ns: impl FnOnce() -> u64) {
        self.change_last(|last| {
            last.status = Some(status);
            last.counts.ended_ns.set(Some(now_ns()));
        });
    }

    /// A kept connection had ended before the request, which goes to the same member again.
    pub fn forget(&self) {
        if let Some(list) = &self.list
            && let Some(last) = list.all.borrow_mut().pop()
        {
            list.begins_call.set(last.is_of_next_call);
        }
    }

    /// True if no member was asked.
    pub fn is_empty(&self) -> bool {
        self.list
            .as_ref()
            .is_none_or(|list| list.all.borrow().is_empty())
    }

    /// The name, in sessions, of the member that was asked last.
    pub fn last_route(&self) -> Option<Box<str>> {
        let all = self.list.as_ref()?.all.borrow();
        all.last()?.route.clone()
    }

    /// The address of the member that was asked last, as the configuration has it.
    pub fn last_address(&self) -> Option<String> {
        let all = self.list.as_ref()?.all.borrow();
        Some(all.last()?.address.to_string())
    }

    /// The value of all attempts in nginx's form: `, ` between members, ` : ` where an internal
    /// redirect led to another upstream. `None`: no member was asked.
    pub fn text(&self, value: AttemptValue) -> Option<String> {
        let all = self.list.as_ref()?.all.borrow();
        let mut text = String::new();
        for (at, attempt) in all.iter().enumerate() {
            match at {
                0 => {}
                _ if attempt.is_of_next_call => text.push_str(" : "),
                _ => text.push_str(", "),
            }
            attempt.append(value, &mut text);
        }
        (!all.is_empty()).then_some(text)
    }
}

impl UpstreamAttempt {
    fn append(&self, value: AttemptValue, text: &mut String) {
        let since = |then: Option<u64>, text: &mut String| match then {
            None => text.push('-'),
            Some(then) => {
                let ms = then.saturating_sub(self.begun_ns) / 1_000_000;
                let _ = write!(text, "{}.{:03}", ms / 1000, ms % 1000);
            }
        };
        let mut number = |count: &Cell<u64>| _ = write!(text, "{}", count.get());
        match value {
            AttemptValue::Address => _ = write!(text, "{}", self.address),
            AttemptValue::Status => match self.status {
                Some(status) => _ = write!(text, "{}", status.0),
                None => text.push('-'),
            },
            AttemptValue::ConnectTime => since(self.connected_ns, text),
            AttemptValue::HeaderTime => since(self.answered_ns, text),
            AttemptValue::ResponseTime => since(self.counts.ended_ns.get(), text),
            AttemptValue::ResponseLength => number(&self.counts.content_bytes),
            AttemptValue::BytesSent => number(&self.counts.sent_bytes),
            AttemptValue::BytesReceived => number(&self.counts.received_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_tell_members_from_calls() {
        let mut attempts = UpstreamAttempts::default();
        attempts.begin(|| AttemptAddress::Group("unseen".into()), None, || 0);
        attempts.record();
        assert_eq!(attempts.text(AttemptValue::Address), None);
        attempts.begin(|| AttemptAddress::Group("a:1".into()), None, || 1_000_000);
        attempts.fail(Status::BAD_GATEWAY, || 3_000_000);
        attempts.begin(|| AttemptAddress::Group("b:1".into()), None, || 4_000_000);
        attempts.answer(Status::OK, || 9_000_000);
        attempts.record();
        attempts.begin(
            || AttemptAddress::Group("stale:1".into()),
            None,
            || 9_000_000,
        );
        attempts.forget();
        attempts.begin(|| AttemptAddress::Group("c:1".into()), None, || 9_000_000);
        let text = |value| attempts.text(value).unwrap();
        assert_eq!(text(AttemptValue::Address), "a:1, b:1 : c:1");
        assert_eq!(text(AttemptValue::Status), "502, 200 : -");
        assert_eq!(text(AttemptValue::HeaderTime), "-, 0.005 : -");
        assert_eq!(text(AttemptValue::ResponseTime), "0.002, - : -");
        AttemptCounts::add(&attempts.counts().unwrap().sent_bytes, 7);
        assert_eq!(text(AttemptValue::BytesSent), "0, 0 : 7");
    }
}
