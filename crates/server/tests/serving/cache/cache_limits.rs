//! `site_entries` and `site_size` of `[cache]`: the entries that one site may have.
//!
//! Called by: `cargo test -p saker --test serving cache_limits::`.
//! Caveat: entries go beside responses, so the tests wait for them.
//! Out of scope: the limits of the whole store (`page_cache_commands`, `saker-cache-store`).

use crate::{
    operate::wait_until,
    origin::{Origin, ok},
};

/// Number of the pages that are hits, of ten that are asked for one after the other.
fn hits(origin: &Origin) -> usize {
    let is_hit = |number: &usize| {
        let response = origin.get(&format!("/page-{number}"), &[]);
        response.field("x-cache") == Some("HIT")
    };
    (0..10).filter(is_hit).count()
}

fn start(name: &str, cache: &str) -> Origin {
    let site = format!(
        "[cache]\nreserve = 0\n{cache}\n%%\n[site.cache]\nenabled = true\nresult_header = \"X-Cache\""
    );
    Origin::with(name, &site, 1, |_| {
        ok(&[("Cache-Control", "max-age=600")], &"x".repeat(50_000))
    })
}

#[test]
fn a_site_has_its_number_of_entries() {
    let unlimited = start("cache-no-limit", "");
    hits(&unlimited);
    wait_until("all are kept", || hits(&unlimited) == 10);
    let origin = start("cache-site-entries", "site_entries = 3");
    hits(&origin);
    // The last ones; the first of them displaces the next.
    wait_until("few are kept", || hits(&origin) <= 3);
}

#[test]
fn a_site_has_its_disk_space() {
    let origin = start("cache-site-size", "site_size = \"200KiB\"");
    hits(&origin);
    wait_until("few are kept", || hits(&origin) <= 4);
}

#[test]
fn the_cache_has_its_disk_space() {
    let origin = start("cache-size", "size = \"200KiB\"");
    hits(&origin);
    wait_until("few are kept", || hits(&origin) <= 4);
}

#[test]
fn entries_are_in_the_folder() {
    let origin = start("cache-folder", "folder = \"{dir}/elsewhere\"");
    hits(&origin);
    wait_until("all are kept", || hits(&origin) == 10);
    let files = |path: &str| {
        let mut folders = vec![origin.saker.dir.join(path)];
        let mut count = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.path().is_dir() {
                    true => folders.push(entry.path()),
                    false => {
                        count +=
                            usize::from(entry.metadata().is_ok_and(|found| found.len() > 50_000))
                    }
                }
            }
        }
        count
    };
    assert_eq!((files("elsewhere"), files("state")), (10, 0));
}
