use super::*;
use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::{PermissionsExt, chown, symlink},
};

const ALICE: u32 = 41_001;
const LOG: Open = Open::Append { mode: 0o640 };

/// A directory of root's with one of a tenant's (`alice`) in it; `None` without root.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Option<Scratch> {
        if !geteuid().is_root() {
            println!("left out: root is needed");
            return None;
        }
        let root = std::env::temp_dir().join(format!("saker-log-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("alice")).unwrap();
        for path in [&root, &root.join("alice")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        chown(root.join("alice"), Some(ALICE), Some(ALICE)).unwrap();
        fs::write(root.join("secret"), "secret").unwrap();
        Some(Scratch(root))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn append(&self, name: &str) -> io::Result<()> {
        File::from(open_log(&self.path(name), 0o640, true)?).write_all(b"line\n")
    }

    fn fifo(&self, name: &str, owner: u32) {
        let mode = Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(CWD, self.path(name), FileType::Fifo, mode, 0).unwrap();
        chown(self.path(name), Some(owner), None).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_log_in_a_tenants_directory_is_a_file_of_that_directory() {
    let Some(scratch) = Scratch::new("tenant") else {
        return;
    };
    scratch.append("alice/new.log").unwrap();
    scratch.append("alice/new.log").unwrap();
    let text = fs::read_to_string(scratch.path("alice/new.log")).unwrap();
    assert_eq!(text, "line\nline\n");
    chown(scratch.path("alice/new.log"), Some(ALICE), None).unwrap();
    scratch.append("alice/new.log").unwrap();
    // Without a reader, a pipe would hold the server forever.
    scratch.fifo("alice/fifo", ALICE);
    symlink("../secret", scratch.path("alice/link")).unwrap();
    symlink("../made", scratch.path("alice/dangling")).unwrap();
    symlink("..", scratch.path("alice/up")).unwrap();
    symlink("/dev/stderr", scratch.path("alice/stderr")).unwrap();
    std::os::unix::fs::lchown(scratch.path("alice/stderr"), Some(ALICE), None).unwrap();
    fs::hard_link(scratch.path("secret"), scratch.path("alice/hard")).unwrap();
    fs::write(scratch.path("alice/bobs"), "").unwrap();
    chown(scratch.path("alice/bobs"), Some(ALICE + 1), None).unwrap();
    for name in [
        "alice/fifo",
        "alice/link",
        "alice/dangling",
        "alice/up/secret",
        "alice/stderr",
        "alice/hard",
        "alice/bobs",
    ] {
        let refused = scratch.append(name).unwrap_err();
        assert!(refused.raw_os_error().is_none(), "{name}: {refused}");
    }
    assert!(!scratch.path("made").exists());
    let secret = fs::read_to_string(scratch.path("secret")).unwrap();
    assert_eq!(secret, "secret");
}

#[test]
fn roots_own_links_pipes_and_streams_are_opened() {
    let Some(scratch) = Scratch::new("root") else {
        return;
    };
    symlink("other.log", scratch.path("link.log")).unwrap();
    scratch.append("link.log").unwrap();
    assert!(scratch.path("other.log").exists());
    scratch.fifo("fifo", ALICE);
    let reading = OFlags::RDONLY | OFlags::NONBLOCK;
    let reader = rustix::fs::open(scratch.path("fifo"), reading, Mode::empty()).unwrap();
    scratch.append("fifo").unwrap();
    let mut line = [0; 5];
    File::from(reader).read_exact(&mut line).unwrap();
    assert_eq!(&line, b"line\n");
    let (reader, writer) = std::io::pipe().unwrap();
    let mut named = format!("/proc/self/fd/{}", writer.as_raw_fd());
    File::from(open_log(Path::new(&named), 0o640, true).unwrap())
        .write_all(b"line\n")
        .unwrap();
    named.insert_str(0, "/dev/..");
    assert!(open_log(Path::new(&named), 0o640, true).is_ok());
    drop(writer);
    assert_eq!(io::read_to_string(reader).unwrap(), "line\n");
    for path in ["/dev/null", "/dev/full"] {
        assert!(open_log(Path::new(path), 0o640, true).is_ok(), "{path}");
    }
    // As images of servers have it, in a directory of the server's user.
    for stream in ["/dev/null", "/dev/stderr"] {
        let link = scratch.path("alice/error.log");
        let _ = fs::remove_file(&link);
        symlink(stream, &link).unwrap();
        let opened = open_log(&link, 0o640, true);
        // A standard error that is a socket can't be opened by any name.
        let is_socket =
            |error: &io::Error| error.raw_os_error() == Some(Errno::NXIO.raw_os_error());
        assert!(opened.as_ref().err().is_none_or(is_socket), "{opened:?}");
    }
}

#[test]
fn a_server_that_root_did_not_start_trusts_its_user() {
    let Some(scratch) = Scratch::new("user") else {
        return;
    };
    let of = |user, group| Opener {
        trusted: Some((user, group)),
        owner: Some(user),
        is_server: true,
    };
    let trust = |opener: Opener| opener.find(&scratch.path("alice/x")).unwrap().trust;
    assert_eq!(trust(of(ALICE, ALICE)), Trust::Root);
    assert_eq!(trust(of(ALICE + 1, ALICE)), Trust::Others);
    let shared = fs::Permissions::from_mode(0o775);
    fs::set_permissions(scratch.path("alice"), shared).unwrap();
    assert_eq!(trust(of(ALICE, ALICE)), Trust::Root, "a group of its own");
    assert_eq!(trust(of(ALICE, ALICE + 1)), Trust::Others);
    // The broker's user is the server's only as far as files go.
    fs::write(scratch.path("alice/servers.log"), "").unwrap();
    chown(scratch.path("alice/servers.log"), Some(33), None).unwrap();
    let server = |owner| Opener {
        trusted: None,
        owner: Some(owner),
        is_server: true,
    };
    let path = scratch.path("alice/servers.log");
    assert!(server(33).examine(&path, LOG).is_ok());
    assert!(server(34).examine(&path, LOG).is_err());
}
