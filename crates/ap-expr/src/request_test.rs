//! Tests of a request whose results decided an outcome.
//!
//! Called by: the evaluators of expressions and rewrite rules, which record the tests that they
//! run, and the route cache, which runs them again for later requests: where all results are the
//! same, so is the outcome.
//! Caveat: a test may be recorded only if the part was read as the client sent it
//! ([`crate::Facts::is_as_received`]).
//! Out of scope: what depends on several parts at once, or on anything but the request; such an
//! outcome is recorded in [`crate::Dependencies`] by kind and is not cached.

use crate::{GlobOptions, Pattern, Spans, Subnet, glob_matches};
use std::{fmt, net::IpAddr, rc::Rc};

/// A part of a request other than its host and its path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestPart {
    ClientAddress,
    Method,
    Query,
    /// The request line as sent.
    RequestLine,
    /// The protocol's version.
    Version,
    /// The server name of the TLS handshake.
    TlsServerName,
    /// Present if the client's connection is encrypted, here or by a trusted proxy.
    Secure,
    /// The address that the client connected to.
    LocalAddress,
    /// A header field by its name in lower case. Never `host`.
    Field(Box<str>),
}

/// A question about the text of a part. The text of an absent part is empty.
#[derive(Clone, Debug)]
pub enum Predicate {
    /// The part is in the request.
    Present,
    Equals(Box<[u8]>),
    Matches(Pattern),
    /// The pattern matches, and the match and its groups have these texts.
    Captures(Pattern, Box<[Option<Box<[u8]>>]>),
    Glob(Box<[u8]>, GlobOptions),
    /// A subnet; for client addresses only.
    Within(Subnet),
    Other(Rc<dyn TextPredicate>),
}

/// A question about a text that a feature asks.
pub trait TextPredicate: fmt::Debug {
    /// Returns whether it holds; `None` if that would take too long to find out. `text` is `None`
    /// if the part is not in the request.
    fn holds(&self, text: Option<&[u8]>) -> Option<bool>;

    /// Appends bytes that tell the predicate from every other one: the feature's name first, then
    /// identities of what the predicate keeps alive.
    fn identify(&self, out: &mut Vec<u8>);
}

/// A predicate with the result that it had.
#[derive(Clone, Debug)]
pub struct RequestTest {
    pub part: RequestPart,
    pub predicate: Predicate,
    pub result: bool,
}

/// The value of a part: a text, or nothing; with the client's address where the part is that.
#[derive(Clone, Copy, Debug)]
pub struct PartValue<'v> {
    pub text: Option<&'v [u8]>,
    pub address: Option<IpAddr>,
}

impl RequestPart {
    /// The part that a field is. `None` for `Host`, which every outcome is kept by, and for names
    /// that no field has.
    pub fn of_field(name: &[u8]) -> Option<RequestPart> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        (name != "host" && !name.is_empty()).then(|| RequestPart::Field(name.into()))
    }
}

impl fmt::Display for RequestPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RequestPart::ClientAddress => "the client address",
            RequestPart::Method => "the method",
            RequestPart::Query => "the query",
            RequestPart::RequestLine => "the request line",
            RequestPart::Version => "the protocol version",
            RequestPart::TlsServerName => "the TLS server name",
            RequestPart::Secure => "the scheme",
            RequestPart::LocalAddress => "the local address",
            RequestPart::Field(name) => return write!(f, "the field `{name}`"),
        })
    }
}

impl Predicate {
    /// The predicate for a pattern and its result. If it matched and has groups, their texts count,
    /// because rules may use them.
    pub fn of_match(pattern: &Pattern, subject: &[u8], spans: Option<&Spans>) -> (Predicate, bool) {
        match spans.filter(|_| pattern.groups() > 0) {
            None => (Predicate::Matches(pattern.clone()), spans.is_some()),
            Some(spans) => (
                Predicate::Captures(pattern.clone(), texts(spans, subject)),
                true,
            ),
        }
    }

    /// Returns whether the predicate holds; `None` if that would take too long to find out.
    pub fn holds(&self, value: PartValue<'_>) -> Option<bool> {
        let text = value.text.unwrap_or_default();
        Some(match self {
            Predicate::Present => value.text.is_some(),
            Predicate::Equals(wanted) => text == &**wanted,
            Predicate::Matches(pattern) => pattern.is_match(text).ok()?,
            Predicate::Captures(pattern, wanted) => pattern
                .captures(text)
                .ok()?
                .is_some_and(|spans| texts(&spans, text) == *wanted),
            Predicate::Glob(pattern, options) => glob_matches(pattern, text, *options),
            Predicate::Within(subnet) => subnet.contains(value.address?),
            Predicate::Other(other) => other.holds(value.text)?,
        })
    }

    /// Returns whether it takes a few instructions, whatever the text.
    pub fn is_cheap(&self) -> bool {
        matches!(
            self,
            Predicate::Present | Predicate::Equals(_) | Predicate::Within(_)
        )
    }

    /// Appends bytes that tell the predicate from every other one. Patterns are told apart by
    /// identity, which holds as long as one of the two is kept.
    pub fn identify(&self, out: &mut Vec<u8>) {
        match self {
            Predicate::Present => out.push(0),
            Predicate::Equals(text) => {
                out.push(1);
                identify_text(text, out);
            }
            Predicate::Matches(pattern) => {
                out.push(2);
                out.extend(pattern.identity().to_ne_bytes());
            }
            Predicate::Captures(pattern, texts) => {
                out.push(3);
                out.extend(pattern.identity().to_ne_bytes());
                for text in texts {
                    out.push(u8::from(text.is_some()));
                    identify_text(text.as_deref().unwrap_or_default(), out);
                }
            }
            Predicate::Glob(pattern, options) => {
                out.push(4);
                out.extend([u8::from(options.caseless), u8::from(options.pathname)]);
                identify_text(pattern, out);
            }
            Predicate::Within(Subnet::V4 { network, mask }) => {
                out.push(5);
                out.extend(network.to_ne_bytes());
                out.extend(mask.to_ne_bytes());
            }
            Predicate::Within(Subnet::V6 { network, mask }) => {
                out.push(6);
                out.extend(network.to_ne_bytes());
                out.extend(mask.to_ne_bytes());
            }
            Predicate::Other(other) => {
                let mut identity = Vec::new();
                other.identify(&mut identity);
                out.push(7);
                identify_text(&identity, out);
            }
        }
    }
}

impl RequestTest {
    /// See [`Predicate::identify`]; the result counts, the part does not.
    pub fn identify(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.result));
        self.predicate.identify(out);
    }
}

impl PartialEq for RequestTest {
    fn eq(&self, other: &Self) -> bool {
        let identity = |test: &RequestTest| {
            let mut bytes = Vec::new();
            test.identify(&mut bytes);
            bytes
        };
        self.part == other.part && identity(self) == identity(other)
    }
}

impl Eq for RequestTest {}

fn identify_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend(text.len().to_ne_bytes());
    out.extend_from_slice(text);
}

/// The texts of the match and its groups.
fn texts(spans: &Spans, subject: &[u8]) -> Box<[Option<Box<[u8]>>]> {
    let text = |group| Some(subject.get(spans.get(group)?)?.into());
    (0..crate::pattern::SPANS).map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PatternOptions;

    fn value(text: &str) -> PartValue<'_> {
        PartValue {
            text: Some(text.as_bytes()),
            address: text.parse().ok(),
        }
    }

    #[test]
    fn predicates() {
        let pattern = |text: &str| Pattern::compile(text, PatternOptions::default()).unwrap();
        let holds = |predicate: &Predicate, text: &str| predicate.holds(value(text)) == Some(true);
        assert!(holds(&Predicate::Matches(pattern("bot")), "robots"));
        assert!(!holds(&Predicate::Matches(pattern("bot")), "browser"));
        let own = pattern("^https?://(www\\.)?example\\.com/");
        let referer = "https://www.example.com/page";
        let spans = own.captures(referer.as_bytes()).unwrap();
        let (same, result) = Predicate::of_match(&own, referer.as_bytes(), spans.as_ref());
        assert!(result && holds(&same, "https://www.example.com/other"));
        assert!(!holds(&same, "https://example.com/page"), "another group");
        let (none, result) = Predicate::of_match(&own, b"x", None);
        assert!(!result && !holds(&none, "y") && holds(&none, referer));
        let subnet = Subnet::parse(b"192.0.2.0/24").unwrap();
        assert!(holds(&Predicate::Within(subnet), "192.0.2.7"));
        assert!(!holds(&Predicate::Within(subnet), "192.0.3.7"));
        let absent = PartValue {
            text: None,
            address: None,
        };
        assert_eq!(Predicate::Present.holds(absent), Some(false));
        assert_eq!(Predicate::Equals([].into()).holds(absent), Some(true));
        assert_eq!(Predicate::Within(subnet).holds(absent), None);
    }

    #[test]
    fn identities() {
        let pattern = Pattern::compile("a", PatternOptions::default()).unwrap();
        let other = Pattern::compile("a", PatternOptions::default()).unwrap();
        let test = |predicate: Predicate, result| RequestTest {
            part: RequestPart::Query,
            predicate,
            result,
        };
        let matches = |pattern: &Pattern| Predicate::Matches(pattern.clone());
        assert_eq!(test(matches(&pattern), true), test(matches(&pattern), true));
        assert_ne!(
            test(matches(&pattern), true),
            test(matches(&pattern), false)
        );
        assert_ne!(test(matches(&pattern), true), test(matches(&other), true));
        assert_ne!(
            test(Predicate::Equals([0].into()), true),
            test(Predicate::Present, true)
        );
    }
}
