//! The dependencies of an outcome, recorded while it is computed.
//!
//! Called by: code that caches outcomes (cached routes, `.htaccess` lookups), to learn whether they
//! must be keyed, and by what.
//! Caveat: reading an absent fact counts as much as reading a present one.
//! Out of scope: the files that were examined; the implementor of `Facts::file_test` records its
//! own change tokens.

use crate::{Predicate, RequestPart, RequestTest};
use std::fmt;

/// One kind of fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Dependency {
    /// Fixed while a configuration runs, the process's own environment included.
    Configuration = 0,
    /// The path, and the file that it was mapped to.
    Path = 1,
    Host = 1 << 1,
    Method = 1 << 2,
    Query = 1 << 3,
    /// Fields of the request; [`Dependencies::request_fields`] says which.
    RequestFields = 1 << 4,
    /// The request line as it came, the protocol's version.
    RequestLine = 1 << 5,
    /// HTTP/2 or not, and TLS variables.
    Transport = 1 << 6,
    /// Address and port of the client.
    Client = 1 << 7,
    /// The connection or the exchange as such: log ids.
    Connection = 1 << 8,
    User = 1 << 9,
    Time = 1 << 10,
    /// The request's own environment, and its notes.
    Environment = 1 << 11,
    /// File system contents.
    Files = 1 << 12,
    /// The response: its fields, status, type, handler.
    Response = 1 << 13,
    /// Result of a subrequest.
    Subrequest = 1 << 14,
    /// Maps whose content can change.
    Maps = 1 << 15,
    Chance = 1 << 16,
    /// TLS or not, which is the listener's.
    Scheme = 1 << 17,
}

/// All kinds of facts.
const ALL: [Dependency; 18] = [
    Dependency::Path,
    Dependency::Host,
    Dependency::Method,
    Dependency::Query,
    Dependency::RequestFields,
    Dependency::RequestLine,
    Dependency::Transport,
    Dependency::Client,
    Dependency::Connection,
    Dependency::User,
    Dependency::Time,
    Dependency::Environment,
    Dependency::Files,
    Dependency::Response,
    Dependency::Subrequest,
    Dependency::Maps,
    Dependency::Chance,
    Dependency::Scheme,
];

/// A point in the recording of dependencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DependencyMark {
    bits: u32,
    tests: usize,
}

/// All facts that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    bits: u32,
    request_fields: Vec<Box<str>>,
    vary: Vec<Box<str>>,
    /// Tests with their results, in the order in which they were run.
    tests: Vec<RequestTest>,
}

impl Dependencies {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn add(&mut self, dependency: Dependency) {
        self.bits |= dependency as u32;
    }

    /// A field of the request, and whether caches are told that the response varies by it
    /// (`req_novary` does not). `Host` is the host as it came, and no reason to vary (RFC 9110
    /// section 12.5.5 speaks of fields other than those of the target).
    pub fn add_request_field(&mut self, name: &[u8], vary: bool) {
        if name.eq_ignore_ascii_case(b"host") {
            return self.add(Dependency::Host);
        }
        let name = String::from_utf8_lossy(name);
        self.add(Dependency::RequestFields);
        push_new(&mut self.request_fields, &name);
        if vary {
            push_new(&mut self.vary, &name);
        }
    }

    /// A test whose result is all that the outcome depends on, as far as its part of the request is
    /// concerned.
    pub fn add_test(&mut self, test: RequestTest) {
        self.tests.push(test);
    }

    /// A part of the request whose whole text the outcome depends on. `None`: it is absent.
    pub fn add_value(&mut self, part: RequestPart, value: Option<&[u8]>) {
        // The text of an absent part is empty, so both are told apart.
        let is_present = RequestTest {
            part: part.clone(),
            predicate: Predicate::Present,
            result: value.is_some(),
        };
        if value.is_none_or(<[u8]>::is_empty) {
            self.tests.push(is_present);
        }
        if let Some(value) = value {
            self.tests.push(RequestTest {
                part,
                predicate: Predicate::Equals(value.into()),
                result: true,
            });
        }
    }

    /// Adds a name for the `Vary` field alone.
    pub fn add_vary(&mut self, name: &[u8]) {
        push_new(&mut self.vary, &String::from_utf8_lossy(name));
    }

    pub fn tests(&self) -> &[RequestTest] {
        &self.tests
    }

    pub fn has(&self, dependency: Dependency) -> bool {
        self.bits & dependency as u32 != 0
    }

    /// The current point, for [`Dependencies::since`].
    pub fn mark(&self) -> DependencyMark {
        DependencyMark {
            bits: self.bits,
            tests: self.tests.len(),
        }
    }

    /// The kinds of facts and the tests that were recorded after a mark.
    pub fn since(&self, mark: DependencyMark) -> (Vec<Dependency>, &[RequestTest]) {
        let new = self.bits & !mark.bits;
        let kinds = ALL
            .into_iter()
            .filter(|kind| new & *kind as u32 != 0)
            .collect();
        (kinds, self.tests.get(mark.tests..).unwrap_or_default())
    }

    /// Returns true if the outcome depends only on the path, the host, the scheme, the state of
    /// files, and the recorded tests: it may be cached by listener, host, and path for requests
    /// with the same results.
    pub fn is_resource_only(&self) -> bool {
        const KEPT: u32 = Dependency::Path as u32
            | Dependency::Host as u32
            | Dependency::Scheme as u32
            | Dependency::Files as u32;
        self.bits & !KEPT == 0
    }

    /// Nothing but these.
    pub fn is_within(&self, allowed: &[Dependency]) -> bool {
        let allowed = allowed.iter().fold(0, |bits, one| bits | *one as u32);
        self.bits & !allowed == 0
    }

    /// Names as written, each once.
    pub fn request_fields(&self) -> impl Iterator<Item = &str> {
        self.request_fields.iter().map(AsRef::as_ref)
    }

    /// Field names for `Vary`.
    pub fn vary(&self) -> impl Iterator<Item = &str> {
        self.vary.iter().map(AsRef::as_ref)
    }

    pub fn merge(&mut self, other: &Dependencies) {
        self.bits |= other.bits;
        other
            .request_fields
            .iter()
            .for_each(|name| push_new(&mut self.request_fields, name));
        other
            .vary
            .iter()
            .for_each(|name| push_new(&mut self.vary, name));
        self.tests.extend(other.tests.iter().cloned());
    }

    /// Everything but what `Vary` says.
    pub fn merge_without_vary(&mut self, other: &Dependencies) {
        self.bits |= other.bits;
        other
            .request_fields
            .iter()
            .for_each(|name| push_new(&mut self.request_fields, name));
        self.tests.extend(other.tests.iter().cloned());
    }

    pub fn clear(&mut self) {
        self.bits = 0;
        self.request_fields.clear();
        self.vary.clear();
        self.tests.clear();
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dependency::Configuration => "nothing",
            Dependency::Path => "path",
            Dependency::Host => "host",
            Dependency::Method => "method",
            Dependency::Query => "query",
            Dependency::RequestFields => "request fields",
            Dependency::RequestLine => "request line",
            Dependency::Transport => "transport",
            Dependency::Scheme => "scheme",
            Dependency::Client => "client",
            Dependency::Connection => "connection",
            Dependency::User => "user",
            Dependency::Time => "time",
            Dependency::Environment => "environment",
            Dependency::Files => "files",
            Dependency::Response => "response",
            Dependency::Subrequest => "sub-request",
            Dependency::Maps => "maps",
            Dependency::Chance => "chance",
        })
    }
}

fn push_new(names: &mut Vec<Box<str>>, name: &str) {
    if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        names.push(name.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_once_and_vary() {
        let mut all = Dependencies::new();
        all.add_request_field(b"Cookie", true);
        all.add_request_field(b"cookie", true);
        all.add_request_field(b"Host", true);
        all.add_request_field(b"Accept", false);
        assert_eq!(
            all.request_fields().collect::<Vec<_>>(),
            ["Cookie", "Accept"]
        );
        assert!(all.has(Dependency::Host));
        assert_eq!(all.vary().collect::<Vec<_>>(), ["Cookie"]);
        let mut other = Dependencies::new();
        other.merge_without_vary(&all);
        assert!(other.has(Dependency::RequestFields) && other.vary().next().is_none());
        other.merge(&all);
        assert_eq!(other, all);
    }

    #[test]
    fn what_may_be_kept() {
        let mut all = Dependencies::new();
        assert!(all.is_resource_only());
        for one in [
            Dependency::Configuration,
            Dependency::Path,
            Dependency::Files,
            Dependency::Host,
        ] {
            all.add(one);
        }
        assert!(all.is_resource_only() && !all.has(Dependency::Query));
        all.add(Dependency::Query);
        assert!(!all.is_resource_only() && all.has(Dependency::Query));
        all.clear();
        assert_eq!(all, Dependencies::new());
    }

    #[test]
    fn what_was_recorded_since_a_mark() {
        let mut all = Dependencies::new();
        all.add(Dependency::Time);
        all.add_value(RequestPart::Method, Some(b"GET"));
        let mark = all.mark();
        assert_eq!(all.since(mark), (vec![], &[][..]));
        all.add(Dependency::Time);
        all.add(Dependency::User);
        all.add_value(RequestPart::Query, None);
        let (kinds, tests) = all.since(mark);
        assert_eq!(kinds, [Dependency::User]);
        assert_eq!(tests.len(), 1);
        let (kinds, tests) = all.since(DependencyMark::default());
        assert_eq!((kinds.len(), tests.len()), (2, 2));
    }

    #[test]
    fn values_of_absent_and_empty_parts_differ() {
        let of = |value: Option<&[u8]>| {
            let mut all = Dependencies::new();
            all.add_value(RequestPart::Query, value);
            all
        };
        assert_ne!(of(None), of(Some(b"")));
        assert_ne!(of(Some(b"a")), of(Some(b"")));
    }
}
