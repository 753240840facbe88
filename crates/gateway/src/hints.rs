//! 103 Early Hints (RFC 8297) that a server or program sends ahead of its response, on their way to
//! the client.
//!
//! Caveat: hints cost the upstream nothing and may never stop, so their number per request is
//! limited; and they are passed on before the response has been checked, so only fields that
//! clients accept from hints are forwarded.
//! Out of scope: clients of HTTP/1.x get none (RFC 8297 section 3: some mistake a 103 for the
//! response); their drivers don't support it.

use saker_http::{Fields, Status, fields::known_name};
use saker_pipeline::{Exchange, TellHints};
use std::rc::Rc;

/// Maximum hints passed on per request.
pub const HINTS_MAX: usize = 16;

/// HTML, section 4.6.8 "processing early hints": links, under the policy that comes with them.
const PASSED: [&str; 3] = ["link", "content-security-policy", "referrer-policy"];

/// Client side of the hints; by default they are discarded.
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
            tell: exchange
                .upstream
                .tell_hints
                .clone()
                .filter(|_| !is_suppressed),
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
