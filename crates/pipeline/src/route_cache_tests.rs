use super::*;
use crate::{Body, Chunk, Client};
use saker_ap_expr::{Pattern, PatternOptions, Predicate, RequestPart, Subnet};
use saker_http::{HeadView, RequestHead, Status, Version};

struct Fixed(usize);

impl CachedRoute for Fixed {
    fn answer(&self, _: HeadView<'_>, _: i64) -> Option<Response> {
        let mut response = Response::new(Status::OK);
        response.body = Body::Memory(Chunk::from(vec![0; self.0]));
        Some(response)
    }

    fn memory_bytes(&self) -> usize {
        self.0
    }
}

fn outcome(bytes: usize) -> Outcome {
    Outcome {
        site_index: 0,
        settings: Arc::default(),
        cached_route: Rc::new(Fixed(bytes)),
        decision: None,
        change_tokens: Vec::new(),
        tests: Vec::new(),
        path: Vec::new(),
        log_facts: None,
        log_lines: None,
        is_before_limits: false,
    }
}

fn bounds(memory_bytes_max: usize, entries_max: usize) -> Bounds {
    Bounds {
        memory_bytes_max,
        entries_max,
        descriptors_max: 10,
    }
}

struct OneFile;

impl CachedRoute for OneFile {
    fn answer(&self, _: HeadView<'_>, _: i64) -> Option<Response> {
        Some(Response::new(Status::OK))
    }

    fn memory_bytes(&self) -> usize {
        1
    }

    fn descriptors(&self) -> usize {
        1
    }
}

#[test]
fn open_files_are_bounded() {
    let listener = listener();
    let mut routes = RouteCache::new(bounds(1 << 20, 1000));
    for n in 0..50u32 {
        let path = format!("/{n}");
        routes.insert(
            &Key {
                listener: &listener,
                host: b"",
                path: path.as_bytes(),
                kind: RouteKind::Read,
            },
            Outcome {
                cached_route: Rc::new(OneFile),
                ..outcome(1)
            },
        );
        assert!(routes.len() <= 10);
    }
    assert_eq!(routes.len(), 10);
}

fn client(address: [u8; 4]) -> Client {
    let local = ([127, 0, 0, 1], 80).into();
    Client::new((address, 1000).into(), local, listener(), false)
}

fn received<'r>(client: &'r Client, head: &'r RequestHead) -> Received<'r> {
    Received {
        client,
        head: head.view(),
    }
}

fn listener() -> Arc<Address> {
    Arc::new(Address::Tcp(([127, 0, 0, 1], 80).into()))
}

#[test]
fn listener_host_and_path_must_all_match() {
    let (a, b) = (listener(), listener());
    let mut routes = RouteCache::new(bounds(1 << 20, 100));
    routes.insert(
        &Key {
            listener: &a,
            host: b"h",
            path: b"/x",
            kind: RouteKind::Read,
        },
        outcome(1),
    );
    let client = client([127, 0, 0, 1]);
    let head = RequestHead::build("GET", "/x", Version::Http11, &[]);
    let mut found = |listener: &Arc<Address>, host: &[u8], path: &[u8]| {
        routes
            .answer(
                &Key {
                    listener,
                    host,
                    path,
                    kind: RouteKind::Read,
                },
                &received(&client, &head),
                0,
                0,
            )
            .is_some()
    };
    assert!(found(&a, b"h", b"/x"));
    assert!(!found(&b, b"h", b"/x"));
    assert!(!found(&a, b"h/", b"x"), "host and path are told apart");
    assert!(!found(&a, b"h", b"/y"));
}

#[test]
fn memory_and_entries_stay_within_their_bounds_and_what_is_used_stays() {
    let listener = listener();
    let mut routes = RouteCache::new(bounds(100_000, 20));
    let client = client([127, 0, 0, 1]);
    let head = RequestHead::build("GET", "/", Version::Http11, &[]);
    for n in 0..1000u32 {
        let path = format!("/{n}");
        routes.insert(
            &Key {
                listener: &listener,
                host: b"",
                path: path.as_bytes(),
                kind: RouteKind::Read,
            },
            outcome(10_000),
        );
        assert!(routes.memory_bytes() <= 100_000 && routes.len() <= 20);
        assert!(
            n == 0
                || routes
                    .answer(
                        &Key {
                            listener: &listener,
                            host: b"",
                            path: b"/0",
                            kind: RouteKind::Read,
                        },
                        &received(&client, &head),
                        0,
                        0
                    )
                    .is_some(),
            "hot at {n}"
        );
    }
    assert!(routes.take_counts().evicted > 900);
}

#[test]
fn replacing_does_not_leak() {
    let listener = listener();
    let mut routes = RouteCache::new(bounds(1 << 20, 100));
    for bytes in [10, 20_000, 5] {
        routes.insert(
            &Key {
                listener: &listener,
                host: b"",
                path: b"/",
                kind: RouteKind::Read,
            },
            outcome(bytes),
        );
    }
    assert_eq!(routes.len(), 1);
    assert!(routes.memory_bytes() < 1000);
}

#[test]
fn larger_than_half_of_all_is_not_kept() {
    let listener = listener();
    let mut routes = RouteCache::new(bounds(10_000, 100));
    routes.insert(
        &Key {
            listener: &listener,
            host: b"",
            path: b"/",
            kind: RouteKind::Read,
        },
        outcome(6_000),
    );
    assert!(routes.is_empty());
}

#[test]
fn a_change_token_is_stored_once() {
    let tokens = [5, 7, 5, 7, 5].map(ChangeToken::until).to_vec();
    assert_eq!(distinct(tokens).len(), 2);
}

fn test(part: RequestPart, predicate: Predicate, result: bool) -> RequestTest {
    RequestTest {
        part,
        predicate,
        result,
    }
}

/// A cache with one path, and test results of its requests.
struct Variants {
    listener: Arc<Address>,
    routes: RouteCache,
}

impl Variants {
    fn new() -> Variants {
        Variants {
            listener: listener(),
            routes: RouteCache::new(bounds(1 << 20, 100)),
        }
    }

    fn insert(&mut self, bytes: usize, tests: Vec<RequestTest>) {
        let key = Key {
            listener: &self.listener,
            host: b"h",
            path: b"/x",
            kind: RouteKind::Read,
        };
        let outcome = Outcome {
            tests,
            ..outcome(bytes)
        };
        self.routes.insert(&key, outcome);
    }

    /// Returns the length of the cached body for a request.
    fn bytes(&mut self, address: [u8; 4], target: &str, fields: &[(&str, &str)]) -> Option<u64> {
        let key = Key {
            listener: &self.listener,
            host: b"h",
            path: b"/x",
            kind: RouteKind::Read,
        };
        let (client, head) = (
            client(address),
            RequestHead::build("GET", target, Version::Http11, fields),
        );
        let answer = self.routes.answer(&key, &received(&client, &head), 0, 0)?;
        answer.0?.body.length()
    }
}

const BROWSER: (&str, &str) = ("User-Agent", "Mozilla/5.0");
const ROBOT: (&str, &str) = ("User-Agent", "Examplebot/1.0");

#[test]
fn requests_with_other_results_have_other_outcomes() {
    let mut variants = Variants::new();
    let agent = || RequestPart::Field("user-agent".into());
    let pattern = Pattern::compile("bot", PatternOptions::default()).unwrap();
    let is_robot = |result| test(agent(), Predicate::Matches(pattern.clone()), result);
    let network = Subnet::parse(b"192.0.2.0/24").unwrap();
    let is_near = |result| {
        test(
            RequestPart::ClientAddress,
            Predicate::Within(network),
            result,
        )
    };
    variants.insert(1, vec![is_robot(false), is_near(false)]);
    variants.insert(2, vec![is_near(false), is_robot(true)]);
    variants.insert(3, vec![is_near(true)]);
    let (near, far) = ([192, 0, 2, 7], [127, 0, 0, 1]);
    for _ in 0..2 {
        assert_eq!(variants.bytes(far, "/x", &[BROWSER]), Some(1));
        assert_eq!(variants.bytes(far, "/x?q", &[ROBOT]), Some(2));
        assert_eq!(variants.bytes(near, "/x", &[ROBOT]), Some(3));
        assert_eq!(variants.bytes(far, "/x", &[]), Some(1), "no field is empty");
    }
    let repeated = [BROWSER, ROBOT];
    assert_eq!(variants.bytes(far, "/x", &repeated), Some(2), "joined");
    // The same results replace the entry, in any order.
    variants.insert(4, vec![is_near(false), is_robot(false)]);
    assert_eq!(variants.bytes(far, "/x", &[BROWSER]), Some(4));
    assert_eq!(variants.routes.len(), 3);
    // Without tests, the rules have changed.
    variants.insert(5, Vec::new());
    assert_eq!(variants.bytes(near, "/x", &[ROBOT]), Some(5));
    assert_eq!(variants.routes.len(), 1);
}

#[test]
fn variants_are_bounded() {
    let mut variants = Variants::new();
    for n in 0..100usize {
        let query = format!("{n}");
        let equals = Predicate::Equals(query.as_bytes().into());
        variants.insert(n, vec![test(RequestPart::Query, equals, true)]);
        assert!(variants.routes.len() <= VARIANTS_MAX);
    }
    let far = [127, 0, 0, 1];
    let kept = (0..100).filter(|n| variants.bytes(far, &format!("/x?{n}"), &[]).is_some());
    assert_eq!(kept.count(), VARIANTS_MAX);
    // Used entries stay.
    variants.insert(
        100,
        vec![test(RequestPart::Query, Predicate::Present, false)],
    );
    assert_eq!(variants.routes.len(), VARIANTS_MAX);
}

#[test]
fn remembered_values_are_bounded() {
    let mut variants = Variants::new();
    let pattern = Pattern::compile("bot", PatternOptions::default()).unwrap();
    let agent = RequestPart::Field("user-agent".into());
    variants.insert(1, vec![test(agent, Predicate::Matches(pattern), false)]);
    let far = [127, 0, 0, 1];
    for n in 0..20_000 {
        let value = format!("{n}{}", "x".repeat(1000));
        assert_eq!(
            variants.bytes(far, "/x", &[("User-Agent", &value)]),
            Some(1)
        );
        assert!(variants.routes.memory_bytes() < 6 << 20, "{n}");
    }
    let long = "x".repeat(9000);
    assert_eq!(variants.bytes(far, "/x", &[("User-Agent", &long)]), None);
}

/// The key of one path, for requests of a kind.
fn key_of(listener: &Arc<Address>, kind: RouteKind) -> Key<'_> {
    Key {
        listener,
        host: b"h",
        path: b"/x",
        kind,
    }
}

#[test]
fn outcomes_of_post_are_not_those_of_get() {
    let listener = listener();
    let mut routes = RouteCache::new(bounds(1 << 20, 100));
    let client = client([127, 0, 0, 1]);
    let head = RequestHead::build("GET", "/x", Version::Http11, &[]);
    let key = |kind| key_of(&listener, kind);
    let is_found = |routes: &mut RouteCache, kind| {
        let request = received(&client, &head);
        routes.answer(&key(kind), &request, 0, 0).is_some()
    };
    routes.insert(&key(RouteKind::Post), outcome(1));
    assert!(!is_found(&mut routes, RouteKind::Read) && is_found(&mut routes, RouteKind::Post));
    routes.insert(&key(RouteKind::Read), outcome(1));
    assert!(is_found(&mut routes, RouteKind::Read) && is_found(&mut routes, RouteKind::Post));
    assert_eq!(routes.len(), 2);
}

/// A page of the page cache for some requests.
struct Sometimes(Rc<std::cell::Cell<bool>>);

impl CachedRoute for Sometimes {
    fn answer(&self, _: HeadView<'_>, _: i64) -> Option<Response> {
        self.0.get().then(|| Response::new(Status::OK))
    }

    fn memory_bytes(&self) -> usize {
        1
    }
}

#[test]
fn what_no_page_answers_goes_past_the_pages() {
    let listener = listener();
    let mut routes = RouteCache::new(bounds(1 << 20, 100));
    let client = client([127, 0, 0, 1]);
    let head = RequestHead::build("GET", "/x", Version::Http11, &[]);
    let key = |kind| key_of(&listener, kind);
    let kind_of = |routes: &mut RouteCache, kind| {
        let request = received(&client, &head);
        let found = routes.answer(&key(kind), &request, 0, 0);
        found.map(|(_, entry)| entry.kind)
    };
    let has_page = Rc::new(std::cell::Cell::new(true));
    let page = Outcome {
        cached_route: Rc::new(Sometimes(Rc::clone(&has_page))),
        ..outcome(1)
    };
    routes.insert(&key(RouteKind::PastPages), outcome(1));
    assert_eq!(
        kind_of(&mut routes, RouteKind::Read),
        Some(RouteKind::PastPages)
    );
    assert_eq!(kind_of(&mut routes, RouteKind::Post), None);
    // One doesn't replace the other.
    routes.insert(&key(RouteKind::Read), page);
    assert_eq!(routes.len(), 2);
    assert_eq!(kind_of(&mut routes, RouteKind::Read), Some(RouteKind::Read));
    has_page.set(false);
    assert_eq!(
        kind_of(&mut routes, RouteKind::Read),
        Some(RouteKind::PastPages)
    );
    routes.forget(&key(RouteKind::PastPages));
    assert_eq!(kind_of(&mut routes, RouteKind::Read), None);
    assert_eq!(routes.len(), 1);
}
