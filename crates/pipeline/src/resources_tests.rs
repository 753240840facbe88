use super::*;
use crate::{Body, Chunk};
use saker_http::{RequestHead, Status, Version};

struct Fixed(usize);

impl Reusable for Fixed {
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
        reusable: Rc::new(Fixed(bytes)),
        stamps: Vec::new(),
        path: Vec::new(),
        log_facts: None,
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

impl Reusable for OneFile {
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
    let mut resources = Resources::new(bounds(1 << 20, 1000));
    for n in 0..50u32 {
        let path = format!("/{n}");
        resources.insert(
            &Key {
                listener: &listener,
                host: b"",
                path: path.as_bytes(),
            },
            Outcome {
                reusable: Rc::new(OneFile),
                ..outcome(1)
            },
        );
        assert!(resources.len() <= 10);
    }
    assert_eq!(resources.len(), 10);
}

fn listener() -> Arc<Address> {
    Arc::new(Address::Tcp(([127, 0, 0, 1], 80).into()))
}

#[test]
fn listener_host_and_path_must_all_match() {
    let (a, b) = (listener(), listener());
    let mut resources = Resources::new(bounds(1 << 20, 100));
    resources.insert(
        &Key {
            listener: &a,
            host: b"h",
            path: b"/x",
        },
        outcome(1),
    );
    let head = RequestHead::build("GET", "/x", Version::Http11, &[]);
    let mut found = |listener: &Arc<Address>, host: &[u8], path: &[u8]| {
        resources
            .answer(
                &Key {
                    listener,
                    host,
                    path,
                },
                head.view(),
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
    let mut resources = Resources::new(bounds(100_000, 20));
    let head = RequestHead::build("GET", "/", Version::Http11, &[]);
    for n in 0..1000u32 {
        let path = format!("/{n}");
        resources.insert(
            &Key {
                listener: &listener,
                host: b"",
                path: path.as_bytes(),
            },
            outcome(10_000),
        );
        assert!(resources.memory_bytes() <= 100_000 && resources.len() <= 20);
        assert!(
            n == 0
                || resources
                    .answer(
                        &Key {
                            listener: &listener,
                            host: b"",
                            path: b"/0"
                        },
                        head.view(),
                        0,
                        0
                    )
                    .is_some(),
            "hot at {n}"
        );
    }
    assert!(resources.take_counts().evicted > 900);
}

#[test]
fn replacing_does_not_leak() {
    let listener = listener();
    let mut resources = Resources::new(bounds(1 << 20, 100));
    for bytes in [10, 20_000, 5] {
        resources.insert(
            &Key {
                listener: &listener,
                host: b"",
                path: b"/",
            },
            outcome(bytes),
        );
    }
    assert_eq!(resources.len(), 1);
    assert!(resources.memory_bytes() < 1000);
}

#[test]
fn larger_than_half_of_all_is_not_kept() {
    let listener = listener();
    let mut resources = Resources::new(bounds(10_000, 100));
    resources.insert(
        &Key {
            listener: &listener,
            host: b"",
            path: b"/",
        },
        outcome(6_000),
    );
    assert!(resources.is_empty());
}

#[test]
fn a_stamp_is_kept_once() {
    let stamps = [5, 7, 5, 7, 5].map(Stamp::until).to_vec();
    assert_eq!(distinct(stamps).len(), 2);
}
