//! Paths that can be reached from a root, and paths that can't.

use super::*;
use crate::scratch::{Kept, Scratch};
use std::{
    fs,
    io::Read,
    os::unix::{fs::lchown, net::UnixListener},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

use LinkPolicy::{Follow, Inside, Never, OwnerMatch};

const POLICIES: [LinkPolicy; 4] = [Follow, OwnerMatch, Inside, Never];

fn outcome(
    scratch: &Scratch,
    root: &str,
    relative: impl AsRef<[u8]>,
    policy: LinkPolicy,
) -> Result<Resolved, ResolveError> {
    resolve(
        &Watcher::idle(),
        &scratch.path(root),
        relative.as_ref(),
        policy,
        &mut Vec::new(),
    )
}

/// The content of the file, or why not.
fn content(
    scratch: &Scratch,
    root: &str,
    relative: impl AsRef<[u8]>,
    policy: LinkPolicy,
) -> Result<String, ResolveError> {
    let mut resolved = outcome(scratch, root, relative, policy)?;
    let mut text = String::new();
    assert_eq!(resolved.metadata.kind, Kind::File);
    resolved.file.read_to_string(&mut text).unwrap();
    assert_eq!(resolved.metadata.size, text.len() as u64);
    Ok(text)
}

fn by_policy(scratch: &Scratch, relative: &str) -> [Result<String, ResolveError>; 4] {
    POLICIES.map(|policy| content(scratch, "root", relative, policy))
}

fn denied() -> Result<String, ResolveError> {
    Err(ResolveError::LinkDenied)
}

fn ok(text: &str) -> Result<String, ResolveError> {
    Ok(text.to_owned())
}

#[test]
fn files_and_directories() {
    let scratch = Scratch::new();
    scratch.write("root/a/b.txt", "b");
    scratch.write("root/name\u{e9} with space", "x");
    for policy in POLICIES {
        assert_eq!(content(&scratch, "root", "a/b.txt", policy), ok("b"));
        assert_eq!(
            content(&scratch, "root", "name\u{e9} with space", policy),
            ok("x")
        );
        for directory in ["", "a", "a/"] {
            let resolved = outcome(&scratch, "root", directory, policy).unwrap();
            assert_eq!(resolved.metadata.kind, Kind::Directory, "{directory:?}");
            assert!(
                !crate::read_directory(&resolved.file, 10, |_| crate::EntryChoice::Take)
                    .unwrap()
                    .entries
                    .is_empty()
            );
        }
    }
}

#[test]
fn a_root_may_be_a_file() {
    let scratch = Scratch::new();
    scratch.write("icon", "i");
    for policy in POLICIES {
        assert_eq!(content(&scratch, "icon", "", policy), ok("i"));
        assert_eq!(
            content(&scratch, "icon", "x", policy),
            Err(ResolveError::NotFound)
        );
    }
}

#[test]
fn what_is_not_there() {
    let scratch = Scratch::new();
    scratch.write("root/file", "f");
    scratch.link("root/nowhere", "gone");
    scratch.link("root/file-as-directory", "file/");
    let (name_too_long, path_too_long, deep) =
        ("n".repeat(256), "x/".repeat(2049), "x/".repeat(1000));
    let absent: [&[u8]; 12] = [
        b"gone",
        b"gone/below",
        b"file/",
        b"file/below",
        b"file/.",
        b"a\0b",
        b"file\0",
        b"..",
        b"file/../file",
        name_too_long.as_bytes(),
        path_too_long.as_bytes(),
        deep.as_bytes(),
    ];
    for relative in absent {
        let error = outcome(&scratch, "root", relative, Follow).unwrap_err();
        assert_eq!(
            error,
            ResolveError::NotFound,
            "{}",
            String::from_utf8_lossy(relative)
        );
    }
    assert_eq!(
        outcome(&scratch, "no-root", "file", Follow).unwrap_err(),
        ResolveError::NotFound
    );
    for dangling in [&b"nowhere"[..], b"file-as-directory"] {
        assert_eq!(
            outcome(&scratch, "root", dangling, Follow).unwrap_err(),
            ResolveError::LinkDangling
        );
    }
    let relative_root = resolve(
        &Watcher::idle(),
        Path::new("tmp"),
        b"",
        Follow,
        &mut Vec::new(),
    );
    assert!(matches!(relative_root, Err(ResolveError::Io(_))));
}

#[test]
fn failures_carry_tokens() {
    let scratch = Scratch::new();
    scratch.write("root/file", "f");
    scratch.link("root/link", "file");
    for (relative, policy) in [("gone", Follow), ("link", Never), ("file/below", Follow)] {
        let kept = Kept::new(&Watcher::idle(), &scratch.path("root"), relative, policy);
        assert!(kept.outcome.is_err());
        let above = Kept::new(&Watcher::idle(), &scratch.path("root"), "", policy)
            .tokens
            .len();
        assert_eq!(kept.tokens.len(), above + 1, "{relative}");
    }
}

#[test]
fn links_inside_the_root() {
    let scratch = Scratch::new();
    scratch.write("root/a/b.txt", "b");
    scratch.link("root/plain", "a/b.txt");
    scratch.link("root/up", "a/../a/./b.txt");
    scratch.link("root/a/back", "../plain");
    scratch.link("root/out-and-in", "../root/a/b.txt");
    scratch.link("root/absolute", scratch.path("root/a/b.txt"));
    scratch.link("root/directory", "a/");
    for relative in [
        "plain",
        "up",
        "a/back",
        "out-and-in",
        "absolute",
        "directory/b.txt",
    ] {
        assert_eq!(
            by_policy(&scratch, relative),
            [ok("b"), ok("b"), ok("b"), denied()],
            "{relative}"
        );
    }
}

#[test]
fn links_out_of_the_root() {
    let scratch = Scratch::new();
    scratch.write("root/file", "f");
    scratch.write("secret/key", "s");
    scratch.write("root-beside/key", "s");
    scratch.link("root/relative", "../secret/key");
    scratch.link("root/absolute", scratch.path("secret/key"));
    scratch.link("root/directory", "../secret");
    scratch.link("root/prefix", "../root-beside/key");
    scratch.link("root/chain", "relative");
    scratch.link(
        "root/above-everything",
        format!(
            "../../../../../../../../../..{}",
            scratch.path("secret/key").display()
        ),
    );
    for relative in [
        "relative",
        "absolute",
        "directory/key",
        "prefix",
        "chain",
        "above-everything",
    ] {
        assert_eq!(
            by_policy(&scratch, relative),
            [ok("s"), ok("s"), denied(), denied()],
            "{relative}"
        );
    }
    scratch.link("root/parent", "..");
    scratch.link("root/slash", "/");
    for relative in ["parent", "slash", "parent/", "parent/root/.."] {
        assert!(
            outcome(&scratch, "root", relative, Inside).is_err(),
            "{relative}"
        );
    }
    assert_eq!(
        content(&scratch, "root", "parent/root/file", Inside),
        ok("f"),
        "ends beneath the root after all"
    );
}

#[test]
fn whether_something_exists_outside_is_not_told() {
    let scratch = Scratch::new();
    scratch.write("root/file", "");
    scratch.link("root/out", "../secret");
    assert_eq!(content(&scratch, "root", "out", Inside), denied());
    assert_eq!(content(&scratch, "root", "out/below", Inside), denied());
    assert_eq!(
        content(&scratch, "root", "out", Follow),
        Err(ResolveError::LinkDangling)
    );
}

#[test]
fn links_in_the_path_of_the_root_are_always_followed() {
    let scratch = Scratch::new();
    scratch.write("releases/5/public/file", "five");
    scratch.link("current", "releases/5");
    scratch.link("releases/5/public/link", "file");
    for policy in POLICIES {
        assert_eq!(
            content(&scratch, "current/public", "file", policy),
            ok("five")
        );
    }
    assert_eq!(
        content(&scratch, "current/public", "link", Inside),
        ok("five")
    );
    assert_eq!(content(&scratch, "current/public", "link", Never), denied());
}

#[test]
fn owners_must_match_on_every_link() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("root/mine", "m");
    scratch.write("root/theirs", "t");
    scratch.link("root/my-way-to-theirs", "theirs");
    scratch.link("root/their-way-to-mine", "mine");
    scratch.link("root/their-way-to-theirs", "theirs");
    scratch.link("root/mine-through-theirs", "their-way-to-mine");
    scratch.link("root/their-directory-link", ".");
    let (theirs, group) = (Some(12345), None);
    for path in [
        "theirs",
        "their-way-to-mine",
        "their-way-to-theirs",
        "their-directory-link",
    ] {
        lchown(scratch.path("root").join(path), theirs, group).unwrap();
    }
    assert_eq!(
        content(&scratch, "root", "their-way-to-theirs", OwnerMatch),
        ok("t")
    );
    for relative in [
        "my-way-to-theirs",
        "their-way-to-mine",
        "mine-through-theirs",
        "their-directory-link/mine",
    ] {
        assert_eq!(
            content(&scratch, "root", relative, OwnerMatch),
            denied(),
            "{relative}"
        );
        assert!(content(&scratch, "root", relative, Follow).is_ok());
    }
}

#[test]
fn loops_and_long_chains() {
    let scratch = Scratch::new();
    scratch.write("root/file", "f");
    scratch.link("root/self", "self");
    scratch.link("root/ping", "pong");
    scratch.link("root/pong", "ping");
    scratch.link("root/growing", "growing/growing");
    for relative in ["self", "ping", "self/below", "growing"] {
        assert_eq!(
            content(&scratch, "root", relative, Follow),
            Err(ResolveError::LinkLoop),
            "{relative}"
        );
        assert_eq!(
            content(&scratch, "root", relative, Inside),
            Err(ResolveError::LinkLoop),
            "{relative}"
        );
        assert_eq!(content(&scratch, "root", relative, Never), denied());
    }
    scratch.link("root/chain-0", "file");
    (1..=40).for_each(|number| {
        scratch.link(
            &format!("root/chain-{number}"),
            format!("chain-{}", number - 1),
        )
    });
    assert_eq!(
        content(&scratch, "root", "chain-39", Follow),
        ok("f"),
        "40 links"
    );
    assert_eq!(
        content(&scratch, "root", "chain-40", Follow),
        Err(ResolveError::LinkLoop),
        "41 links"
    );
}

#[test]
fn things_that_are_no_files_are_not_opened() {
    let scratch = Scratch::new();
    scratch.write("root/file", "");
    assert!(
        Command::new("mkfifo")
            .arg(scratch.path("root/fifo"))
            .status()
            .unwrap()
            .success()
    );
    let _socket = UnixListener::bind(scratch.path("root/socket")).unwrap();
    scratch.link("root/device", "/dev/zero");
    for relative in ["fifo", "socket", "device"] {
        let mut resolved = outcome(&scratch, "root", relative, Follow).unwrap();
        assert_eq!(resolved.metadata.kind, Kind::Other, "{relative}");
        assert_eq!(
            resolved.file.read(&mut [0; 1]).unwrap_err().raw_os_error(),
            Some(Errno::BADF.raw_os_error())
        );
    }
}

#[test]
fn without_the_right_it_is_denied() {
    let scratch = Scratch::new();
    scratch.write("root/file", "");
    scratch.write("root/closed/file", "");
    for path in ["root/file", "root/closed"] {
        fs::set_permissions(
            scratch.path(path),
            std::os::unix::fs::PermissionsExt::from_mode(0o000),
        )
        .unwrap();
    }
    if !rustix::process::geteuid().is_root() {
        assert_eq!(
            content(&scratch, "root", "file", Follow),
            Err(ResolveError::Denied)
        );
        assert_eq!(
            content(&scratch, "root", "closed/file", Follow),
            Err(ResolveError::Denied)
        );
        assert_eq!(
            outcome(&scratch, "root", "closed", Follow)
                .unwrap()
                .metadata
                .kind,
            Kind::Directory
        );
    }
    fs::set_permissions(
        scratch.path("root/closed"),
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .unwrap();
}

#[test]
fn errors_by_number() {
    for (errno, expected) in [
        (Errno::NOENT, ResolveError::NotFound),
        (Errno::NOTDIR, ResolveError::NotFound),
        (Errno::NAMETOOLONG, ResolveError::NotFound),
        (Errno::ACCESS, ResolveError::Denied),
        (Errno::PERM, ResolveError::Denied),
        (Errno::LOOP, ResolveError::LinkLoop),
        (Errno::MFILE, ResolveError::Descriptors),
        (Errno::NFILE, ResolveError::Descriptors),
        (Errno::IO, ResolveError::Io(5)),
    ] {
        assert_eq!(ResolveError::from(errno), expected);
    }
}

/// Someone swaps a file for a link to a secret and back, as fast as they can: no attempt may ever
/// yield the secret.
#[test]
fn a_swapping_attacker_wins_nothing() {
    let scratch = Scratch::new();
    scratch.write("root/page", "page");
    scratch.write("secret", "secret");
    scratch.link("link", "../secret");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let swap = |from: &str, to: &str| {
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    scratch.path(from),
                    rustix::fs::CWD,
                    scratch.path(to),
                    rustix::fs::RenameFlags::EXCHANGE,
                )
            };
            while !is_over.load(Ordering::Relaxed) {
                swap("link", "root/page").unwrap();
            }
        });
        for _ in 0..2000 {
            for policy in [Never, Inside] {
                match content(&scratch, "root", "page", policy) {
                    Ok(text) => assert_eq!(text, "page"),
                    Err(error) => assert!(
                        matches!(error, ResolveError::LinkDenied | ResolveError::Io(_)),
                        "{error:?}"
                    ),
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
