//! Files that change while they are served, and paths that try to leave the root, on a running
//! server.
//!
//! A version of a document is one byte repeated, and its length follows from that byte: a body that
//! mixes two versions, or has the length of another, is detected at once.
//! Caveat: time on a busy machine: limits are generous, and typical values are medians.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use crate::operate::{begin_download, configuration, folder, start};
use saker_testkit::{Client, Response, Saker, holds_for, poll};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{ErrorKind, Write},
    net::SocketAddr,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

const SMALL: usize = 3_000;
/// More than is kept in memory.
const LARGE: usize = 1_100_000;
const CLIENTS: usize = 4;
const LOAD: Duration = Duration::from_secs(3);
const CHANGE_SEEN_MAX: Duration = Duration::from_secs(2);
const CHANGE_SEEN_TYPICAL: Duration = Duration::from_millis(100);

/// Version `number` of a document.
fn version(size: usize, number: usize) -> Vec<u8> {
    let byte = (number % 251) as u8;
    vec![byte; size + usize::from(byte)]
}

/// True if these are the bytes of one version, whole; with `pieces`, beginnings pass, too: a file
/// that is being written grows in arbitrary steps.
fn is_a_state(body: &[u8], size: usize, pieces: bool) -> bool {
    let Some(first) = body.first() else {
        return pieces;
    };
    let whole = version(size, usize::from(*first));
    body == whole || (pieces && whole.starts_with(body))
}

fn serve(name: &str) -> Saker {
    start(name, &configuration("workers = 2", "listing = true"))
}

/// Responses seen by a client.
#[derive(Default)]
struct Seen {
    whole: usize,
    cut: usize,
    versions: usize,
}

/// Asks again and again on one connection, and on a new one where a response was cut.
fn ask_until(end: &AtomicBool, address: SocketAddr, check: impl Fn(&Response)) -> Seen {
    let (mut seen, mut last) = (Seen::default(), None);
    // A strong tag stands for one sequence of bytes (RFC 9110 section 8.8.1).
    let mut tags: HashMap<String, Option<u8>> = HashMap::new();
    let mut client = Client::connect(address).unwrap();
    while !end.load(Ordering::Relaxed) {
        match client.get("/doc.bin") {
            Ok(response) => {
                assert_eq!(response.status, 200);
                check(&response);
                let first = response.body.first().copied();
                let strong = response.field("etag").filter(|tag| !tag.starts_with("W/"));
                if let Some(tag) = strong {
                    assert_eq!(
                        *tags.entry(tag.to_owned()).or_insert(first),
                        first,
                        "{tag} stands for two contents"
                    );
                }
                seen.whole += 1;
                seen.versions += usize::from(last != Some(first));
                last = Some(first);
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
                ) =>
            {
                seen.cut += 1;
                client = Client::connect(address).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    seen
}

/// Load by some clients while `write` is called with ever higher version numbers.
fn change_under_load(
    saker: &Saker,
    check: impl Fn(&Response) + Sync,
    mut write: impl FnMut(usize),
) -> Seen {
    let (end, address) = (AtomicBool::new(false), saker.server.address());
    thread::scope(|scope| {
        let ask = || scope.spawn(|| ask_until(&end, address, &check));
        let clients: Vec<_> = (0..CLIENTS).map(|_| ask()).collect();
        let stop = Instant::now() + LOAD;
        let mut number = 1;
        while Instant::now() < stop && !clients.iter().any(|client| client.is_finished()) {
            write(number);
            number += 1;
        }
        end.store(true, Ordering::Relaxed);
        clients
            .into_iter()
            .map(|client| {
                client
                    .join()
                    .unwrap_or_else(|cause| std::panic::resume_unwind(cause))
            })
            .fold(Seen::default(), |sum, seen| Seen {
                whole: sum.whole + seen.whole,
                cut: sum.cut + seen.cut,
                versions: sum.versions + seen.versions,
            })
    })
}

fn replace_by_rename(size: usize) {
    let dir = folder("static-rename");
    dir.write("www/doc.bin", version(size, 0)).unwrap();
    let saker = operate::start_in(dir, &configuration("workers = 2", ""));
    let (next, doc) = (saker.dir.join("next.bin"), saker.dir.join("www/doc.bin"));
    let check = |response: &Response| {
        assert!(
            is_a_state(&response.body, size, false),
            "{} bytes are no version",
            response.body.len()
        )
    };
    let seen = change_under_load(&saker, check, |number| {
        fs::write(&next, version(size, number)).unwrap();
        fs::rename(&next, &doc).unwrap();
        holds_for(
            "connections are accepted",
            Duration::from_millis(10),
            || saker.connect().is_ok(),
        );
    });
    assert_eq!(seen.cut, 0, "of {} responses", seen.whole);
    assert!(
        seen.versions > 2 * CLIENTS,
        "{} responses, {} changes seen",
        seen.whole,
        seen.versions
    );
}

#[test]
fn small_documents_replaced_by_rename() {
    let _alone = crate::alone();
    replace_by_rename(SMALL);
}

#[test]
fn large_documents_replaced_by_rename() {
    let _alone = crate::alone();
    replace_by_rename(LARGE);
}

fn write_in_place(saker: &Saker, doc: &Path, content: &[u8]) {
    let mut file = File::create(doc).unwrap();
    let (first, second) = content.split_at(content.len() / 2);
    file.write_all(first).unwrap();
    // Long enough that it is seen half written.
    let _ = saker.connect().unwrap().get("/doc.bin");
    file.write_all(second).unwrap();
}

fn rewrite_in_place(size: usize) -> Seen {
    let dir = folder("static-in-place");
    dir.write("www/doc.bin", version(size, 0)).unwrap();
    let saker = operate::start_in(dir, &configuration("workers = 2", ""));
    let doc = saker.dir.join("www/doc.bin");
    let check = |response: &Response| {
        let (length, first, last) = (
            response.body.len(),
            response.body.first(),
            response.body.last(),
        );
        assert!(
            is_a_state(&response.body, size, true),
            "{length} bytes from {first:?} to {last:?} were never the file"
        );
    };
    // Two versions within a tick of the kernel's clock (4 ms) may have the same time and, half
    // written, the same size: they can't be told apart.
    let mut pauses = [8, 15, 30, 60].into_iter().cycle();
    let seen = change_under_load(&saker, check, |number| {
        write_in_place(&saker, &doc, &version(size, number));
        let pause = Duration::from_millis(pauses.next().unwrap_or(1));
        holds_for("connections are accepted", pause, || {
            saker.connect().is_ok()
        });
    });
    assert!(
        seen.versions > CLIENTS,
        "{} responses, {} changes seen",
        seen.whole,
        seen.versions
    );
    // Once it is left alone, it is there whole.
    fs::write(&doc, version(size, 77)).unwrap();
    let mut client = saker.connect().unwrap();
    seen_after(&mut client, "/doc.bin", |response| {
        response.body == version(size, 77)
    });
    seen
}

#[test]
fn small_documents_written_in_place() {
    let _alone = crate::alone();
    let seen = rewrite_in_place(SMALL);
    // Only one that does not come to rest within a quarter of a second is sent as it is, and may be
    // cut.
    assert!(
        seen.cut * 10 <= seen.whole,
        "{} cut, {} whole",
        seen.cut,
        seen.whole
    );
}

#[test]
fn large_documents_written_in_place() {
    let _alone = crate::alone();
    rewrite_in_place(LARGE);
}

/// Time until a response is as wanted.
fn seen_after(client: &mut Client, target: &str, wanted: impl Fn(&Response) -> bool) -> Duration {
    seen_coded_after(client, target, "identity", wanted)
}

fn seen_coded_after(
    client: &mut Client,
    target: &str,
    coding: &str,
    wanted: impl Fn(&Response) -> bool,
) -> Duration {
    let began = Instant::now();
    let mut last = String::new();
    let seen = poll(CHANGE_SEEN_MAX, || {
        let response = client
            .request("GET", target, &[("Accept-Encoding", coding)])
            .unwrap();
        last = format!(
            "{} {:?}",
            response.status,
            response.text().chars().take(60).collect::<String>()
        );
        wanted(&response).then(|| began.elapsed())
    });
    seen.unwrap_or_else(|| panic!("{target} is not as wanted after {CHANGE_SEEN_MAX:?}: {last}"))
}

fn assert_typical(what: &str, mut times: Vec<Duration>) {
    times.sort();
    assert!(
        times[times.len() / 2] < CHANGE_SEEN_TYPICAL,
        "{what}: {times:?}"
    );
}

const ROUNDS: usize = 9;

#[test]
fn deleted_and_made_again() {
    let _alone = crate::alone();
    let saker = serve("static-deleted");
    let mut client = saker.connect().unwrap();
    let page = saker.dir.join("www/page.html");
    let (mut gone, mut back) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let text = format!("<p>{round}");
        fs::write(&page, &text).unwrap();
        back.push(seen_after(&mut client, "/page.html", |response| {
            response.status == 200 && response.body == text.as_bytes()
        }));
        fs::remove_file(&page).unwrap();
        gone.push(seen_after(&mut client, "/page.html", |response| {
            response.status == 404
        }));
    }
    assert_typical("made", back);
    assert_typical("deleted", gone);
}

#[test]
fn an_index_file_takes_the_place_of_the_listing() {
    let _alone = crate::alone();
    let saker = serve("static-index");
    saker.dir.write("www/d/a.txt", "a").unwrap();
    let mut client = saker.connect().unwrap();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(seen_after(&mut client, "/d/", |response| {
            response.status == 200 && response.text().contains("a.txt")
        }));
        saker.dir.write("www/d/index.html", "<p>index").unwrap();
        times.push(seen_after(&mut client, "/d/", |response| {
            response.body == b"<p>index"
        }));
        fs::remove_file(saker.dir.join("www/d/index.html")).unwrap();
    }
    assert_typical("index file", times);
}

/// The usual deployment: `current` is a link to one of the releases, swapped by rename.
#[test]
fn a_link_swapped_to_another_release() {
    let _alone = crate::alone();
    let saker = serve("static-link");
    for release in 0..2 {
        saker
            .dir
            .write(
                &format!("www/releases/{release}/page.html"),
                format!("release {release}"),
            )
            .unwrap();
    }
    let (current, next) = (saker.dir.join("www/current"), saker.dir.join("www/next"));
    let mut client = saker.connect().unwrap();
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let release = round % 2;
        symlink(format!("releases/{release}"), &next).unwrap();
        fs::rename(&next, &current).unwrap();
        let wanted = format!("release {release}");
        times.push(seen_after(&mut client, "/current/page.html", |response| {
            response.body == wanted.as_bytes()
        }));
    }
    assert_typical("link", times);
}

#[test]
fn a_compressed_sibling_that_comes_and_goes() {
    let _alone = crate::alone();
    let saker = serve("static-sibling");
    // Too short to be compressed by us.
    saker.dir.write("www/page.css", "p{}").unwrap();
    let mut client = saker.connect().unwrap();
    let sibling = saker.dir.join("www/page.css.gz");
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        times.push(seen_coded_after(
            &mut client,
            "/page.css",
            "gzip",
            |response| response.body == b"p{}" && response.field("content-encoding").is_none(),
        ));
        // Whatever stands there is passed on.
        let packed = format!("packed {round}");
        fs::write(&sibling, &packed).unwrap();
        let is_packed = |response: &Response| {
            response.field("content-encoding") == Some("gzip") && response.body == packed.as_bytes()
        };
        times.push(seen_coded_after(
            &mut client,
            "/page.css",
            "gzip",
            is_packed,
        ));
        fs::remove_file(&sibling).unwrap();
    }
    assert_typical("sibling", times);
}

#[test]
fn a_file_that_shrinks_in_mid_download_cuts_the_connection() {
    let _alone = crate::alone();
    const SIZE: usize = 21_000_000;
    const NEW_SIZE: usize = 1_000_000;
    const FOLIO_BYTES_MAX: usize = 2 << 20;
    let saker = serve("static-shrink");
    let path = saker.dir.write("www/large.bin", vec![b'x'; SIZE]).unwrap();
    let (mut client, start) = begin_download(&saker, "/large.bin", 100_000);
    client.pause(Duration::from_millis(200)).unwrap();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(NEW_SIZE as u64)
        .unwrap();
    let head = start
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap()
        + 4;
    let mut body = start[head..].to_vec();
    body.extend(client.read_to_close(Duration::from_secs(15)).unwrap());
    assert!(
        body.len() < SIZE,
        "{} bytes came of a file that had lost them",
        body.len()
    );
    // What sendfile has handed over is the page cache itself: a file that shrinks is cleared there
    // from its new end to the end of the folio (up to 2 MiB), under way or not. Everything else has
    // to be as it was.
    let cleared = NEW_SIZE..body.len().min(FOLIO_BYTES_MAX);
    let is_cleared_at = |at: usize| cleared.contains(&at) && body[at] == 0;
    let foreign = (0..body.len()).find(|at| body[*at] != b'x' && !is_cleared_at(*at));
    assert_eq!(
        foreign,
        None,
        "something else was sent at this place of {}",
        body.len()
    );
    let mut client = saker.connect().unwrap();
    let response = client.get("/large.bin").unwrap();
    assert_eq!((response.status, response.body.len()), (200, NEW_SIZE));
}

#[test]
fn nothing_outside_the_root_and_nothing_hidden() {
    let _alone = crate::alone();
    let saker = serve("static-escapes");
    for name in [
        "secret.txt",
        "outer/secret.txt",
        "www/.git/config",
        "www/page.php.bak",
        "www/page.php~",
        "www/#page.php#",
        "www/.env",
    ] {
        saker.dir.write(name, "SECRET").unwrap();
    }
    saker.dir.write("www/a/page.txt", "fine").unwrap();
    let link =
        |target: &str, name: &str| symlink(target, saker.dir.join("www").join(name)).unwrap();
    link("../secret.txt", "out.txt");
    link("../outer", "out");
    link("/etc", "etc");
    link("a/page.txt", "in.txt");
    let cases = [
        ("/in.txt", 200),
        ("//in.txt", 200),
        ("/a/..//in.txt", 200),
        ("/../secret.txt", 400),
        ("/a/../../secret.txt", 400),
        ("//../secret.txt", 400),
        ("/%2e%2e/secret.txt", 400),
        ("/.%2E/secret.txt", 400),
        ("/%2e%2e%2fsecret.txt", 404),
        ("/a/..%2f..%2fsecret.txt", 404),
        ("/..%5csecret.txt", 404),
        ("/a/..%5c..%5csecret.txt", 404),
        ("/%252e%252e/secret.txt", 404),
        ("/%c0%ae%c0%ae/secret.txt", 404),
        ("/..%c0%afsecret.txt", 404),
        ("/%e0%80%ae%e0%80%ae/secret.txt", 404),
        ("/in.txt%00", 400),
        ("/%00/../in.txt", 400),
        ("/in.txt/", 404),
        ("/in.txt/../../secret.txt", 400),
        ("//secret.txt", 404),
        ("http://localhost/../secret.txt", 400),
        ("/out.txt", 403),
        ("/out/secret.txt", 403),
        ("/out/", 403),
        ("/etc/passwd", 403),
        ("/etc/no-such-file-there", 403),
        ("/.git/config", 404),
        ("/.git/", 404),
        ("/a/../.git/config", 404),
        ("/%2egit/config", 404),
        ("/.env", 404),
        ("/page.php.bak", 404),
        ("/page.php~", 404),
        ("/page.php%7e", 404),
        ("/%23page.php%23", 404),
    ];
    for (target, expected) in cases {
        // Twice: the second answer may come from what was kept.
        for _ in 0..2 {
            let response = saker.connect().unwrap().get(target).unwrap();
            assert_eq!(response.status, expected, "{target}");
            let leaks = response.text().contains("SECRET") || response.text().contains("root:");
            assert!(!leaks, "{target}: {}", response.text());
        }
    }
    let listing = saker.connect().unwrap().get("/a/").unwrap();
    assert_eq!(listing.status, 200);
}
