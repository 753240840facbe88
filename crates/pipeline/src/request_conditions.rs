//! Conditions under which a cached route applies to a request: the tests that rules ran, with their
//! results.
//!
//! Called by: the route cache. An outcome is determined by host, path, files, and the results of
//! the tests, so requests with the same results have the same outcome.
//! Caveat: clients send few different values of a part, and rules run many tests on it (lists of
//! robots); results are therefore memoized by value, and equal lists of tests are shared per
//! worker.
//! Out of scope: recording tests (`Exchange::depends_on_tests`).

use crate::Client;
use foldhash::fast::RandomState;
use saker_ap_expr::{PartValue, Predicate, RequestPart, RequestTest};
use saker_http::{HeadView, KnownField};
use std::{
    borrow::Cow,
    cell::{Cell, OnceCell, RefCell},
    collections::{BTreeMap, HashMap},
    io::Write as _,
    rc::{Rc, Weak},
};

thread_local! {
    /// Lent for texts that are put together.
    static MADE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A request as received, before rules run.
#[derive(Clone, Copy)]
pub struct Received<'r> {
    pub client: &'r Client,
    pub head: HeadView<'r>,
}

/// Conditions that must all hold.
#[derive(Clone, Default)]
pub struct RequestConditions(Box<[Rc<PartCondition>]>);

/// All tests of one part of the request.
struct PartCondition {
    part: RequestPart,
    known: Option<KnownField>,
    tests: Box<[(Predicate, bool)]>,
    /// Running the tests is no slower than a lookup of the value.
    is_cheap: bool,
    remembered: RefCell<HashMap<Box<[u8]>, bool, RandomState>>,
    /// The result for requests without the part.
    of_absent: OnceCell<bool>,
    /// Size of the memoized results of all conditions of the worker. `None`: this one memoizes
    /// nothing.
    remembered_bytes: Option<Rc<Cell<usize>>>,
}

/// The conditions of a worker, deduplicated.
#[derive(Default)]
pub struct ConditionTable {
    known: HashMap<Box<[u8]>, Weak<PartCondition>, RandomState>,
    remembered_bytes: Rc<Cell<usize>>,
}

/// Maximum number of tests that run faster than a lookup of the value.
const CHEAP_TESTS_MAX: usize = 8;
/// Maximum number of memoized values per part; beyond it, all are dropped.
const VALUES_MAX: usize = 256;
/// Maximum length of tested values. Longer ones are left to the rules, whose work is limited.
const VALUE_BYTES_MAX: usize = 8192;
/// Maximum size of the memoized values of a worker; beyond it, all are dropped.
const REMEMBERED_BYTES_MAX: usize = 4 << 20;
/// Approximate overhead of a memoized value.
const VALUE_OVERHEAD_BYTES: usize = 48;
/// Maximum number of part conditions of a worker that memoize values.
const CONDITIONS_MAX: usize = 1024;

impl<'r> Received<'r> {
    /// Returns the text of a part as rules see it: repeated fields are joined by `, `. Texts that
    /// are put together are written to `made`.
    fn text<'t>(
        &self,
        part: &RequestPart,
        known: Option<KnownField>,
        made: &'t mut Vec<u8>,
    ) -> Option<&'t [u8]>
    where
        'r: 't,
    {
        Some(match part {
            RequestPart::ClientAddress => self.client.text().as_bytes(),
            RequestPart::Method => self.head.method_token(),
            RequestPart::Version => self.head.version().as_str().as_bytes(),
            RequestPart::Secure => self.client.secure.then_some(b"on".as_slice())?,
            RequestPart::LocalAddress => {
                // Writing to memory cannot fail.
                let _ = write!(made, "{}", self.client.local.ip().to_canonical());
                made
            }
            RequestPart::TlsServerName => {
                let session = self.client.session.as_ref()?;
                session.server_name.as_deref()?.as_bytes()
            }
            RequestPart::Query => query(self.head.target())?,
            RequestPart::RequestLine => {
                write_request_line(self.head, made);
                made
            }
            RequestPart::Field(name) => match known {
                Some(known) if self.head.known_count(known) <= 1 => self.head.known(known)?,
                _ => {
                    let mut lines = lines_of(self.head, name);
                    let first = lines.next()?;
                    let Some(second) = lines.next() else {
                        return Some(first);
                    };
                    made.extend_from_slice(first);
                    for line in std::iter::once(second).chain(lines) {
                        made.extend_from_slice(b", ");
                        made.extend_from_slice(line);
                    }
                    made
                }
            },
        })
    }
}

/// Returns the query of a target as received, without its question mark.
pub fn query(target: &[u8]) -> Option<&[u8]> {
    let at = target.iter().position(|byte| *byte == b'?')?;
    target.get(at + 1..)
}

/// Returns the request line as rules see it.
pub fn request_line(head: HeadView<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    write_request_line(head, &mut line);
    line
}

fn write_request_line(head: HeadView<'_>, out: &mut Vec<u8>) {
    let version = head.version().as_str().as_bytes();
    for piece in [
        head.method_token(),
        b" ",
        head.target_as_sent(),
        b" ",
        version,
    ] {
        out.extend_from_slice(piece);
    }
}

/// Returns the values of a field's lines.
fn lines_of<'h>(head: HeadView<'h>, name: &str) -> impl Iterator<Item = &'h [u8]> {
    head.fields()
        .filter(move |field| field.0.eq_ignore_ascii_case(name.as_bytes()))
        .map(|field| field.1)
}

/// Returns the values of a field, joined by `, `, and those of cookies by `; ` (RFC 9113 section
/// 8.2.3), so that each of them is seen.
pub fn joined<'h>(head: HeadView<'h>, name: &str) -> Option<Cow<'h, [u8]>> {
    let is_cookie = name.eq_ignore_ascii_case("cookie");
    joined_by(head, name, if is_cookie { b"; " } else { b", " })
}

/// Returns the values of a field, joined by `, ` whatever the field is: Apache's reading.
pub fn joined_by_commas<'h>(head: HeadView<'h>, name: &str) -> Option<Cow<'h, [u8]>> {
    joined_by(head, name, b", ")
}

fn joined_by<'h>(head: HeadView<'h>, name: &str, separator: &[u8]) -> Option<Cow<'h, [u8]>> {
    let mut lines = lines_of(head, name);
    let first = lines.next()?;
    let rest: Vec<&[u8]> = lines.collect();
    Some(match rest.is_empty() {
        true => Cow::Borrowed(first),
        false => Cow::Owned([&[first], rest.as_slice()].concat().join(separator)),
    })
}

/// The first line of a field, or the last one.
pub fn one_line<'h>(head: HeadView<'h>, name: &str, is_last: bool) -> Option<&'h [u8]> {
    let mut lines = lines_of(head, name);
    match is_last {
        true => lines.last(),
        false => lines.next(),
    }
}

impl RequestConditions {
    /// Returns true if all tests have the recorded results. A test that takes too long counts as
    /// different.
    pub fn hold(&self, request: &Received<'_>) -> bool {
        self.0.iter().all(|condition| condition.holds(request))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if both are the same conditions, not only equivalent ones.
    pub fn is_same(&self, other: &RequestConditions) -> bool {
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .zip(&other.0)
                .all(|(one, other)| Rc::ptr_eq(one, other))
    }
}

impl PartCondition {
    fn holds(&self, request: &Received<'_>) -> bool {
        let address = match self.part {
            RequestPart::ClientAddress => Some(request.client.address.ip()),
            RequestPart::LocalAddress => Some(request.client.local.ip()),
            _ => None,
        };
        if self.is_cheap && address.is_some() && self.is_about_address() {
            return self.run(PartValue {
                text: None,
                address,
            });
        }
        // Front ends join several lines of cookies in different ways.
        if self.known == Some(KnownField::Cookie)
            && request.head.known_count(KnownField::Cookie) > 1
        {
            return false;
        }
        MADE.with_borrow_mut(|made| {
            made.clear();
            let text = request.text(&self.part, self.known, made);
            self.holds_for(PartValue { text, address })
        })
    }

    fn holds_for(&self, value: PartValue<'_>) -> bool {
        if self.is_cheap {
            return self.run(value);
        }
        let Some(text) = value.text else {
            let run = || self.run(value);
            return *self.of_absent.get_or_init(run);
        };
        if text.len() > VALUE_BYTES_MAX {
            return false;
        }
        if let Some(holds) = self.remembered.borrow().get(text) {
            return *holds;
        }
        let holds = self.run(value);
        if let Some(bytes) = &self.remembered_bytes {
            let mut remembered = self.remembered.borrow_mut();
            if remembered.len() >= VALUES_MAX {
                bytes.set(bytes.get().saturating_sub(bytes_of(&remembered)));
                remembered.clear();
            }
            bytes.set(bytes.get() + text.len() + VALUE_OVERHEAD_BYTES);
            remembered.insert(text.into(), holds);
        }
        holds
    }

    fn is_about_address(&self) -> bool {
        self.tests
            .iter()
            .all(|(predicate, _)| matches!(predicate, Predicate::Within(_)))
    }

    fn run(&self, value: PartValue<'_>) -> bool {
        self.tests
            .iter()
            .all(|(predicate, result)| predicate.holds(value) == Some(*result))
    }
}

impl Drop for PartCondition {
    fn drop(&mut self) {
        if let Some(bytes) = &self.remembered_bytes {
            let own = bytes_of(self.remembered.get_mut());
            bytes.set(bytes.get().saturating_sub(own));
        }
    }
}

fn bytes_of(remembered: &HashMap<Box<[u8]>, bool, RandomState>) -> usize {
    remembered
        .keys()
        .map(|text| text.len() + VALUE_OVERHEAD_BYTES)
        .sum()
}

impl ConditionTable {
    /// Returns whether memoized results take more memory than they may.
    pub fn is_too_large(&self) -> bool {
        self.remembered_bytes.get() > REMEMBERED_BYTES_MAX
    }

    /// Drops memoized results that exceed the memory limit.
    pub fn bound_memory(&mut self) {
        if !self.is_too_large() {
            return;
        }
        for condition in self.known.values().filter_map(Weak::upgrade) {
            condition.remembered.borrow_mut().clear();
        }
        self.remembered_bytes.set(0);
    }

    /// Returns the approximate size of the memoized values.
    pub fn memory_bytes(&self) -> usize {
        self.remembered_bytes.get()
    }

    /// Returns the conditions for tests, which may be in any order.
    pub fn conditions(&mut self, tests: Vec<RequestTest>) -> RequestConditions {
        let mut parts: BTreeMap<RequestPart, BTreeMap<Vec<u8>, RequestTest>> = BTreeMap::new();
        for test in tests {
            let mut identity = Vec::with_capacity(16);
            test.identify(&mut identity);
            parts
                .entry(test.part.clone())
                .or_default()
                .insert(identity, test);
        }
        RequestConditions(
            parts
                .into_iter()
                .map(|(part, tests)| self.part_condition(part, tests))
                .collect(),
        )
    }

    fn part_condition(
        &mut self,
        part: RequestPart,
        tests: BTreeMap<Vec<u8>, RequestTest>,
    ) -> Rc<PartCondition> {
        let mut key = format!("{part:?}\0").into_bytes();
        tests
            .keys()
            .for_each(|identity| key.extend_from_slice(identity));
        if let Some(known) = self.known.get(&*key).and_then(Weak::upgrade) {
            return known;
        }
        if self.known.len() >= CONDITIONS_MAX {
            self.known.retain(|_, known| known.strong_count() > 0);
        }
        let known = match &part {
            RequestPart::Field(name) => KnownField::classify(name.as_bytes()),
            _ => None,
        };
        let tests: Box<[(Predicate, bool)]> = tests
            .into_values()
            .map(|test| (test.predicate, test.result))
            .collect();
        let is_listed = self.known.len() < CONDITIONS_MAX;
        let condition = Rc::new(PartCondition {
            part,
            known,
            remembered_bytes: is_listed.then(|| Rc::clone(&self.remembered_bytes)),
            is_cheap: tests.len() <= CHEAP_TESTS_MAX
                && tests.iter().all(|(predicate, _)| predicate.is_cheap()),
            tests,
            remembered: RefCell::default(),
            of_absent: OnceCell::new(),
        });
        if is_listed {
            self.known.insert(key.into(), Rc::downgrade(&condition));
        }
        condition
    }
}
