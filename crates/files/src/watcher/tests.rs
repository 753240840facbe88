//! Real directories, real events. Every change must make the tokens run out.

use super::*;
use crate::{
    LinkPolicy, ResolveError, read_directory,
    scratch::{Kept, Scratch},
    walk::Walk,
};
use saker_testkit::wait_until;
use std::{fs, os::unix::fs::PermissionsExt};

fn keep(watcher: &Watcher, scratch: &Scratch, relative: &str) -> Kept {
    let kept = Kept::new(watcher, scratch.root(), relative, LinkPolicy::Follow);
    assert!(
        kept.tokens.iter().all(|token| !token.is_timed()),
        "the test's directory can't be watched"
    );
    kept
}

/// Lets the events of the preparation pass, keeps the outcome, makes the change and waits for the
/// tokens to run out.
fn notices(prepare: impl Fn(&Scratch), relative: &str, change: impl Fn(&Scratch)) {
    let (watcher, scratch) = (Watcher::start(|_| {}).unwrap(), Scratch::new());
    prepare(&scratch);
    watcher.catch_up();
    let kept = keep(&watcher, &scratch, relative);
    change(&scratch);
    kept.runs_out(&watcher);
}

#[test]
fn renamed_over() {
    notices(
        |scratch| {
            scratch.write("a/b/page.html", "old");
            scratch.write("a/new", "new");
        },
        "a/b/page.html",
        |scratch| fs::rename(scratch.path("a/new"), scratch.path("a/b/page.html")).unwrap(),
    );
}

#[test]
fn written_in_place_truncated_removed_and_made_again() {
    let prepare = |scratch: &Scratch| scratch.write("page.html", "old");
    let path = "page.html";
    notices(prepare, path, |scratch| {
        fs::write(scratch.path(path), "new").unwrap()
    });
    notices(prepare, path, |scratch| {
        File::options()
            .append(true)
            .open(scratch.path(path))
            .unwrap()
            .set_len(1)
            .unwrap()
    });
    notices(prepare, path, |scratch| {
        fs::remove_file(scratch.path(path)).unwrap()
    });
    notices(prepare, path, |scratch| {
        fs::remove_file(scratch.path(path)).unwrap();
        fs::write(scratch.path(path), "old").unwrap();
    });
}

#[test]
fn permissions_of_file_and_directory() {
    let prepare = |scratch: &Scratch| scratch.write("a/b/page.html", "");
    for changed in ["a", "a/b", "a/b/page.html"] {
        notices(prepare, "a/b/page.html", |scratch| {
            fs::set_permissions(scratch.path(changed), fs::Permissions::from_mode(0o700)).unwrap();
        });
    }
}

#[test]
fn a_name_that_was_absent_appears() {
    let prepare = |scratch: &Scratch| scratch.write("a/other", "");
    let appear = |scratch: &Scratch| scratch.write("a/new/page.html", "");
    notices(prepare, "a/new/page.html", appear);
    notices(prepare, "a/new", appear);
    notices(prepare, "a/new", |scratch| scratch.link("a/new", "other"));
    notices(prepare, "a/new", |scratch| {
        fs::hard_link(scratch.path("a/other"), scratch.path("a/new")).unwrap()
    });
}

#[test]
fn directories_on_the_way_moved() {
    for moved in ["a", "a/b"] {
        notices(
            |scratch| scratch.write("a/b/page.html", ""),
            "a/b/page.html",
            |scratch| fs::rename(scratch.path(moved), scratch.path("elsewhere")).unwrap(),
        );
    }
}

#[test]
fn a_whole_tree_removed() {
    notices(
        |scratch| scratch.write("a/b/page.html", ""),
        "a/b/page.html",
        |scratch| fs::remove_dir_all(scratch.path("a")).unwrap(),
    );
}

/// As deployments do it: `current` leads to a release, and is swapped by a rename.
#[test]
fn a_swapped_link_in_the_root_and_below() {
    let prepare = |scratch: &Scratch| {
        scratch.write("releases/5/page.html", "five");
        scratch.write("releases/6/page.html", "six");
        scratch.link("current", "releases/5");
        scratch.link("next", "releases/6");
    };
    let swap =
        |scratch: &Scratch| fs::rename(scratch.path("next"), scratch.path("current")).unwrap();
    notices(prepare, "current/page.html", swap);

    let (watcher, scratch) = (Watcher::start(|_| {}).unwrap(), Scratch::new());
    prepare(&scratch);
    let kept = Kept::new(
        &watcher,
        &scratch.path("current"),
        "page.html",
        LinkPolicy::Never,
    );
    swap(&scratch);
    kept.runs_out(&watcher);
    let now = Kept::new(
        &watcher,
        &scratch.path("current"),
        "page.html",
        LinkPolicy::Never,
    );
    assert_eq!(now.outcome.unwrap().metadata.size, 3);
}

#[test]
fn what_a_link_leads_through_is_watched() {
    notices(
        |scratch| {
            scratch.write("store/deep/page.html", "");
            scratch.link("way", "store/deep");
            scratch.link("page", "way/page.html");
        },
        "page",
        |scratch| fs::rename(scratch.path("store"), scratch.path("moved")).unwrap(),
    );
}

#[test]
fn unrelated_changes_leave_an_outcome_alone() {
    let (watcher, scratch) = (Watcher::start(|_| {}).unwrap(), Scratch::new());
    scratch.write("site/page.html", "");
    scratch.write("logs/access.log", "");
    watcher.catch_up();
    // Beneath /tmp other tests make and remove directories whose names may share a bucket with
    // ours: only our own directories count here.
    let mut tokens = Vec::new();
    let site = File::open(scratch.path("site")).unwrap();
    let watched = watcher.watch(&site, &metadata(&site).unwrap(), Interest::Content);
    tokens.push(watcher.token(&watched, Concern::Content(b"page.html")));
    tokens.push(watcher.token(&watched, Concern::Any));
    fs::write(scratch.path("logs/access.log"), "line\n").unwrap();
    fs::read(scratch.path("site/page.html")).unwrap();
    watcher.catch_up();
    assert!(tokens.iter().all(|token| token.is_current(0)));
}

/// A log that grows beside a directory must not spoil what is kept of the directory, whatever
/// buckets their names fall into.
#[test]
fn growing_files_do_not_touch_entries() {
    let (watcher, scratch) = (Watcher::start(|_| {}).unwrap(), Scratch::new());
    scratch.write("access.log", "");
    let root = File::open(scratch.root()).unwrap();
    let watched = watcher.watch(&root, &metadata(&root).unwrap(), Interest::Content);
    let entry = watcher.token(&watched, Concern::Entry(b"access.log"));
    let content = watcher.token(&watched, Concern::Content(b"access.log"));
    fs::write(scratch.path("access.log"), "line\n").unwrap();
    Kept {
        outcome: Err(ResolveError::NotFound),
        tokens: vec![content],
    }
    .runs_out(&watcher);
    assert!(entry.is_current(0));
}

#[test]
fn listings_run_out_with_any_change() {
    let changes: [fn(&Scratch); 4] = [
        |scratch| scratch.write("new", ""),
        |scratch| fs::remove_file(scratch.path("a")).unwrap(),
        |scratch| fs::write(scratch.path("a"), "longer").unwrap(),
        |scratch| fs::rename(scratch.path("a"), scratch.path("b")).unwrap(),
    ];
    for change in changes {
        let (watcher, scratch) = (Watcher::start(|_| {}).unwrap(), Scratch::new());
        scratch.write("a", "");
        let mut kept = keep(&watcher, &scratch, "");
        let directory = &kept.outcome.as_ref().unwrap().file;
        kept.tokens = vec![watcher.directory_token(directory)];
        assert_eq!(
            read_directory(directory, 10, |_| crate::EntryChoice::Take)
                .unwrap()
                .entries
                .len(),
            1
        );
        change(&scratch);
        kept.runs_out(&watcher);
    }
}

/// The kernel queues the event before the system call that makes the change returns.
#[test]
fn a_change_shows_as_soon_as_its_event_is_applied() {
    let (watcher, scratch) = (Watcher::start(|_| {}).unwrap(), Scratch::new());
    for round in 0..100 {
        scratch.write("page.html", "old");
        watcher.catch_up();
        let kept = keep(&watcher, &scratch, "page.html");
        fs::write(scratch.path("page.html"), "new").unwrap();
        watcher.catch_up();
        assert!(!kept.is_current(&watcher), "{round}");
    }
}

#[test]
fn an_overflow_makes_everything_run_out_and_is_reported_once() {
    static REPORTS: AtomicU64 = AtomicU64::new(0);
    let report = |error| {
        assert_eq!(error, WatchError::QueueOverflow);
        REPORTS.fetch_add(1, Ordering::Relaxed);
    };
    let (watcher, scratch) = (Watcher::start(report).unwrap(), Scratch::new());
    scratch.write("quiet/page.html", "");
    let quiet = File::open(scratch.path("quiet")).unwrap();
    let token = watcher.directory_token(&quiet);
    let noisy = watcher.directory_token(&File::open(scratch.root()).unwrap());
    let shared = watcher.handle.shared().unwrap();
    let limit: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    // With the table locked the thread can't go on, so that the queue fills.
    let table = shared.lock();
    for number in 0..limit {
        let name = scratch.path(&format!("file-{number}"));
        fs::write(&name, "").unwrap();
        fs::remove_file(&name).unwrap();
    }
    drop(table);
    Kept {
        outcome: Err(ResolveError::NotFound),
        tokens: vec![token],
    }
    .runs_out(&watcher);
    assert!(!noisy.is_current(0));
    watcher.catch_up();
    assert_eq!(REPORTS.load(Ordering::Relaxed), 1);
}

#[test]
fn sweep_drops_only_what_nobody_keeps() {
    let (watcher, scratch) = (Watcher::start(|_| {}).unwrap(), Scratch::new());
    scratch.write("a/page.html", "");
    scratch.write("b/page.html", "");
    let kept = keep(&watcher, &scratch, "a/page.html");
    let other = keep(&watcher, &scratch, "b/page.html");
    let watched = watcher.watched_directories();
    assert_eq!(watcher.sweep(), 0);
    drop(other);
    assert_eq!(watcher.sweep(), 1);
    assert_eq!(watcher.watched_directories(), watched - 1);
    fs::write(scratch.path("a/page.html"), "new").unwrap();
    kept.runs_out(&watcher);
    let again = keep(&watcher, &scratch, "b/page.html");
    fs::write(scratch.path("b/page.html"), "new").unwrap();
    again.runs_out(&watcher);
    drop((kept, again));
    watcher.sweep();
    assert_eq!(watcher.watched_directories(), 0);
    assert!(watcher.touches() > 0);
}

#[test]
fn removed_directories_leave_the_table() {
    let (watcher, scratch) = (Watcher::start(|_| {}).unwrap(), Scratch::new());
    scratch.write("a/b/page.html", "");
    let kept = keep(&watcher, &scratch, "a/b/page.html");
    let before = watcher.watched_directories();
    fs::remove_dir_all(scratch.path("a")).unwrap();
    kept.runs_out(&watcher);
    drop(kept); // the open file keeps its directory alive
    wait_until("the end of two watches", || {
        watcher.watched_directories() <= before - 2
    });
}

#[test]
fn stamps_are_timed_where_changes_are_silent() {
    let watcher = Watcher::start(|_| {}).unwrap();
    let kept = Kept::new(
        &watcher,
        "/proc/sys".as_ref(),
        "kernel/hostname",
        LinkPolicy::Never,
    );
    assert!(kept.outcome.is_ok());
    let timed = kept.tokens.iter().filter(|token| token.is_timed()).count();
    assert_eq!(
        timed, 3,
        "sys, kernel and hostname; proc itself is an entry of /"
    );
    let now_ms = watcher.now_ms();
    assert!(
        kept.tokens
            .iter()
            .filter(|token| token.is_timed())
            .all(|token| token.is_current(now_ms))
    );
    assert!(
        !kept
            .tokens
            .iter()
            .filter(|token| token.is_timed())
            .any(|token| token.is_current(now_ms + TIMED_MS))
    );
}

#[test]
fn writes_through_another_name_of_a_file() {
    let prepare = |scratch: &Scratch| {
        scratch.write("a/page.html", "old");
        scratch.write("b/other", "");
        fs::hard_link(scratch.path("a/page.html"), scratch.path("b/page.html")).unwrap();
    };
    notices(prepare, "a/page.html", |scratch| {
        fs::write(scratch.path("b/page.html"), "new").unwrap()
    });
    notices(prepare, "a/page.html", |scratch| {
        fs::rename(scratch.path("b/other"), scratch.path("a/page.html")).unwrap()
    });
}

/// A home whose owner lets others through and shows them nothing.
#[test]
fn a_directory_below_one_that_cannot_be_watched() {
    let (watcher, scratch) = (Watcher::start(|_| {}).unwrap(), Scratch::new());
    scratch.write("home/www/page.html", "old");
    let runs_out = |change: &dyn Fn()| {
        watcher.catch_up();
        let mut tokens = Vec::new();
        let mut walk = Walk::from_slash(&watcher, &mut tokens).unwrap();
        walk.along(
            scratch.path("home").as_os_str().as_encoded_bytes(),
            LinkPolicy::Follow,
        )
        .unwrap();
        let token = walk.token_below_unwatched(b"www");
        fs::write(scratch.path("home/other"), "").unwrap();
        watcher.catch_up();
        assert!(token.is_current(watcher.now_ms()));
        change();
        watcher.catch_up();
        assert!(!token.is_current(watcher.now_ms()));
    };
    runs_out(&|| fs::rename(scratch.path("home/www"), scratch.path("home/old")).unwrap());
    fs::rename(scratch.path("home/old"), scratch.path("home/www")).unwrap();
    runs_out(&|| {
        fs::set_permissions(scratch.path("home/www"), fs::Permissions::from_mode(0o700)).unwrap()
    });
    runs_out(&|| fs::remove_dir_all(scratch.path("home/www")).unwrap());
}

#[test]
fn without_inotify_no_stamp_holds() {
    let (watcher, scratch) = (Watcher::idle(), Scratch::new());
    scratch.write("a/b", "");
    let kept = Kept::new(&watcher, scratch.root(), "a/b", LinkPolicy::Never);
    assert!(kept.outcome.is_ok() && !watcher.is_watching() && watcher.events().is_none());
    assert!(
        kept.tokens
            .iter()
            .all(|token| token.is_timed() && !token.is_current(watcher.now_ms()))
    );
    watcher.catch_up();
    watcher.look();
    watcher.await_others();
    assert_eq!(
        (
            watcher.sweep(),
            watcher.watched_directories(),
            watcher.touches()
        ),
        (0, 0, 0)
    );
}

/// The kernel has queued the event when the change's system call returns, so any reader of the
/// queue sees it without waiting.
#[test]
fn a_change_is_known_to_whoever_looks_after_it() {
    let (watcher, scratch) = (Watcher::start(|_| {}).unwrap(), Scratch::new());
    scratch.write("a/page.html", "old");
    for round in 0..2000 {
        let kept = keep(&watcher, &scratch, "a/page.html");
        fs::write(scratch.path("a/page.html"), "new").unwrap();
        let other = watcher.clone();
        let reader = (round % 8 == 0).then(|| thread::spawn(move || other.catch_up()));
        watcher.look();
        assert!(!kept.is_current(&watcher), "round {round}");
        reader.into_iter().for_each(|reader| reader.join().unwrap());
    }
}

#[test]
fn the_thread_ends_with_the_last_watcher_and_its_stamps_run_out() {
    let (watcher, scratch) = (Watcher::start(|_| {}).unwrap(), Scratch::new());
    scratch.write("a", "");
    let kept = keep(&watcher, &scratch, "a");
    drop(watcher.clone());
    drop(watcher);
    kept.runs_out(&Watcher::idle());
}

/// A busy log beside a document root, such as one in /tmp, costs the server nothing.
#[test]
fn directories_on_the_way_report_no_writes_and_no_new_files() {
    let (watcher, scratch) = (Watcher::start(|_| {}).unwrap(), Scratch::new());
    scratch.write("site/page.html", "page");
    scratch.write("busy.log", "");
    let root = scratch.path("site");
    let kept = Kept::new(&watcher, &root, "page.html", LinkPolicy::Follow);
    let above = File::open(scratch.root()).unwrap();
    let watch = watcher.watch(&above, &metadata(&above).unwrap(), Interest::Existing);
    assert!(
        matches!(watch, Watch::On(_, Interest::Existing)),
        "{watch:?}"
    );
    watcher.catch_up();
    let before = watcher.touches();
    for number in 0..1000 {
        fs::write(scratch.path("busy.log"), "line\n").unwrap();
        scratch.write(&format!("new-{number}"), "");
    }
    watcher.catch_up();
    // Other tests remove directories in /tmp, which is on the way, too.
    let events = watcher.touches() - before;
    assert!(events < 500, "{events} events for 2000 changes");
    assert!(kept.is_current(&watcher));
}

/// A log inside a directory whose files are served: its watch ends, and files are watched one by
/// one.
#[test]
fn a_noisy_directory_reports_no_writes() {
    let (watcher, scratch) = (Watcher::start(|_| {}).unwrap(), Scratch::new());
    scratch.write("site/page.html", "old");
    scratch.write("site/debug.log", "");
    let page = || keep(&watcher, &scratch, "site/page.html");
    let flood = || {
        for _ in 0..100 {
            fs::write(scratch.path("site/debug.log"), "line\n").unwrap();
            watcher.catch_up();
        }
    };
    let kept = page();
    flood();
    assert!(
        !kept.is_current(&watcher),
        "the watch of the directory ends"
    );
    let kept = page();
    let before = watcher.touches();
    flood();
    let events = watcher.touches() - before;
    assert!(events < 50 && kept.is_current(&watcher), "{events} events");
    let changes: [&dyn Fn(); 4] = [
        &|| fs::write(scratch.path("site/page.html"), "new").unwrap(),
        &|| {
            fs::remove_file(scratch.path("site/page.html")).unwrap();
            scratch.write("site/page.html", "newer");
        },
        &|| {
            scratch.write("site/next", "renamed");
            fs::rename(scratch.path("site/next"), scratch.path("site/page.html")).unwrap();
        },
        &|| {
            let mode = fs::Permissions::from_mode(0o600);
            fs::set_permissions(scratch.path("site"), mode).unwrap();
            let mode = fs::Permissions::from_mode(0o700);
            fs::set_permissions(scratch.path("site"), mode).unwrap();
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let kept = page();
        assert!(kept.is_current(&watcher));
        change();
        watcher.catch_up();
        assert!(!kept.is_current(&watcher), "change {number}");
    }
    let listing = File::open(scratch.path("site")).unwrap();
    assert!(
        !watcher
            .directory_token(&listing)
            .is_current(watcher.now_ms()),
        "a listing shows sizes, whose changes are not reported"
    );
}

/// A file that appears, or is written to, in a directory that was only passed through before.
#[test]
fn what_a_watch_asks_for_grows() {
    let (watcher, scratch) = (Watcher::start(|_| {}).unwrap(), Scratch::new());
    scratch.write("a/b/page.html", "");
    let _deeper = keep(&watcher, &scratch, "a/b/page.html");
    let absent = keep(&watcher, &scratch, "a/.htaccess");
    scratch.write("a/.htaccess", "one");
    watcher.catch_up();
    assert!(!absent.is_current(&watcher));
    let present = keep(&watcher, &scratch, "a/.htaccess");
    fs::write(scratch.path("a/.htaccess"), "two").unwrap();
    watcher.catch_up();
    assert!(!present.is_current(&watcher));
}
