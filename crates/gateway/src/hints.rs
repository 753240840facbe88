//! 103 Early Hints (RFC 8297) that a server or program sends ahead of its response, on their way to
//! the client.
//!
//! Difficulty: hints cost the other side nothing and may come without end, so that only so many of
//! a request are passed on; and they are passed before anybody has looked at the response, so that
//! only those fields go through which clients take from hints. Absent on purpose: clients of
//! HTTP/1.x are told nothing (RFC 8297 section 3: some take a 103 for the response); their drivers
//! give no way for it.

use saker_http::{Fields, Status, fields::known_name};
use saker_pipeline::{Exchange, TellHints};
use std::rc::Rc;

/// Of one request.
pub const HINTS_MAX: usize = 16;

/// HTML, section 4.6.8 "processing early hints": links, under the policy that comes with them.
const PASSED: [&str; 3] = ["link", "content-security-policy", "referrer-policy"];

/// The client's end; by default nobody listens.
#[derive(Default)]
pub struct Hints {
    tell: Option<Rc<TellHints>>,
    told: usize,
}

impl Hints {
    pub fn of(exchange: &Exchange) -> Hints {
        // Apache manual, mod_proxy_http: the variable proxy-interim-response.
        let said = exchange.environment.first(b"proxy-interim-response");
        let is_suppressed = said.is_some_and(|said| said.eq_ignore_ascii_case(b"suppress"));
        Hints {
            tell: exchange.tell_hints.clone().filter(|_| !is_suppressed),
            told: 0,
        }
    }

    /// An interim response has come.
    pub fn pass(&mut self, status: Status, fields: &Fields) {
        let Some(tell) = self
            .tell
            .as_ref()
            .filter(|_| status == Status::EARLY_HINTS && self.told < HINTS_MAX)
        else {
            return;
        };
        if fields.has("link") {
            self.told += 1;
            tell(passed(fields));
        }
    }
}

fn passed(fields: &Fields) -> Fields {
    let mut kept = Fields::new();
    let wanted = fields.iter().filter(|(name, _)| {
        PASSED
            .iter()
            .any(|passed| passed.eq_ignore_ascii_case(name))
    });
    wanted.for_each(|(name, value)| kept.append(known_name(name), value.to_vec()));
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

    #[test]
    fn hints_alone_and_only_so_many() {
        let heard: Rc<RefCell<Vec<Fields>>> = Rc::default();
        let sink = Rc::clone(&heard);
        let mut hints = Hints {
            tell: Some(Rc::new(move |fields| sink.borrow_mut().push(fields))),
            told: 0,
        };
        let all = fields(&[
            ("Link", "</a.css>; rel=preload"),
            ("Set-Cookie", "a=1"),
            ("Connection", "close"),
        ]);
        hints.pass(Status::CONTINUE, &all);
        hints.pass(Status::EARLY_HINTS, &fields(&[("X-A", "1")]));
        assert!(heard.borrow().is_empty());
        (0..HINTS_MAX + 3).for_each(|_| hints.pass(Status::EARLY_HINTS, &all));
        assert_eq!(heard.borrow().len(), HINTS_MAX);
        let first: Vec<_> = heard.borrow()[0]
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()))
            .collect();
        assert_eq!(
            first,
            [("link".to_owned(), b"</a.css>; rel=preload".to_vec())]
        );
    }
}
