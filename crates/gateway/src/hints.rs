//! Interim responses that a server or program sends ahead of its response, on their way to the
//! client (RFC 9110 section 15.2): 102, and 103 Early Hints (RFC 8297).
//!
//! Called by: the exchanges with upstreams.
//! Caveat: they cost the upstream nothing and may never stop, so their number per request is
//! limited; and they are passed on before the response has been checked, so fields about the
//! connection, the content and cookies stay behind. Clients of HTTP/1.1 get them, too, as from
//! mod_proxy and HAProxy; the variable `proxy-interim-response` turns that off.
//! Out of scope: 100, which is between neighbors, and 101, which is final.

use crate::forward::is_of_connection;
use saker_http::{Fields, Status, fields::known_name};
use saker_pipeline::{Exchange, InterimSink};
use std::rc::Rc;

/// Maximum hints passed on per request.
pub const HINTS_MAX: usize = 16;

/// Fields that say nothing before the final response, or would be mistaken for a part of it.
const KEPT_BACK: [&str; 10] = [
    "content-length",
    "content-encoding",
    "content-range",
    "content-type",
    "set-cookie",
    "set-cookie2",
    "date",
    "server",
    "alt-svc",
    "close",
];

/// Client side of the hints; by default they are discarded.
#[derive(Default)]
pub struct Hints {
    sink: Option<Rc<dyn InterimSink>>,
    passed: usize,
}

impl Hints {
    pub fn of(exchange: &Exchange) -> Hints {
        // Apache manual, mod_proxy_http: the variable proxy-interim-response.
        let said = exchange.environment.first(b"proxy-interim-response");
        let is_suppressed = said.is_some_and(|said| said.eq_ignore_ascii_case(b"suppress"));
        Hints {
            sink: exchange.upstream.interim.clone().filter(|_| !is_suppressed),
            passed: 0,
        }
    }

    /// An interim response has come.
    pub fn pass(&mut self, status: Status, fields: &Fields) {
        let Some(sink) = self.sink.as_ref().filter(|_| self.passed < HINTS_MAX) else {
            return;
        };
        let fields = passed(fields);
        let is_passed = match status {
            Status::CONTINUE | Status::SWITCHING_PROTOCOLS => false,
            // It has nothing to say without them.
            Status::EARLY_HINTS => fields.iter().next().is_some(),
            _ => true,
        };
        if is_passed {
            self.passed += 1;
            sink.send_interim(status, &fields);
        }
    }
}

fn passed(fields: &Fields) -> Fields {
    let nominated = fields.first("Connection").unwrap_or_default();
    let nominated: Vec<&[u8]> = nominated.split(|byte| *byte == b',').collect();
    let mut kept = Fields::new();
    for (name, value) in fields.iter() {
        let is_kept_back = KEPT_BACK
            .iter()
            .any(|other| other.eq_ignore_ascii_case(name));
        if !is_kept_back && !is_of_connection(name.as_bytes(), &nominated) {
            kept.append(known_name(name), value.to_vec());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn fields(lines: &[(&'static str, &str)]) -> Fields {
        let mut fields = Fields::new();
        lines
            .iter()
            .for_each(|(name, value)| fields.append(*name, value.as_bytes().to_vec()));
        fields
    }

    #[derive(Default)]
    struct Received(RefCell<Vec<(u16, Vec<String>)>>);

    impl InterimSink for Received {
        fn send_interim(&self, status: Status, fields: &Fields) {
            let names = fields.iter().map(|(name, _)| name.to_ascii_lowercase());
            self.0.borrow_mut().push((status.0, names.collect()));
        }
    }

    #[test]
    fn interim_responses_are_limited() {
        let received = Rc::new(Received::default());
        let mut hints = Hints {
            sink: Some(received.clone()),
            passed: 0,
        };
        let all = fields(&[
            ("Link", "</a.css>; rel=preload"),
            ("X-Hint", "1"),
            ("X-Hop", "1"),
            ("Set-Cookie", "a=1"),
            ("Content-Length", "5"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "close, x-hop"),
        ]);
        hints.pass(Status::CONTINUE, &all);
        hints.pass(Status::SWITCHING_PROTOCOLS, &all);
        hints.pass(Status::EARLY_HINTS, &fields(&[("Set-Cookie", "a=1")]));
        assert!(received.0.borrow().is_empty());
        hints.pass(Status(102), &Fields::new());
        (0..HINTS_MAX + 3).for_each(|_| hints.pass(Status::EARLY_HINTS, &all));
        let received = received.0.borrow();
        assert_eq!(received.len(), HINTS_MAX);
        assert_eq!(received[0], (102, Vec::new()));
        assert_eq!(received[1], (103, vec!["link".into(), "x-hint".into()]));
    }
}
