use super::*;
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl};
use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::PathBuf,
};

const ALICE: u32 = 41_001;
const LOG: Open = Open::Append { mode: 0o640 };

/// A directory of root's with one of a tenant's (`alice`) in it; `None` without root.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Option<Scratch> {
        if !rustix::process::geteuid().is_root() {
            println!("left out: root is needed");
            return None;
        }
        let root = std::env::temp_dir().join(format!("saker-open-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let scratch = Scratch(root);
        for (path, mode) in [("", 0o755), ("alice", 0o755), ("closed", 0o700)] {
            fs::create_dir(scratch.path(path)).unwrap();
            scratch.mode(path, mode);
        }
        scratch.write("secret", 0);
        scratch.mode("secret", 0o600);
        chown(scratch.path("alice"), Some(ALICE), Some(ALICE)).unwrap();
        Some(scratch)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, owner: u32) {
        fs::write(self.path(name), name).unwrap();
        chown(self.path(name), Some(owner), Some(owner)).unwrap();
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn read(&self, name: &str) -> io::Result<String> {
        let mut text = String::new();
        File::from(open(&self.path(name), Open::Read)?).read_to_string(&mut text)?;
        Ok(text)
    }

    fn append(&self, name: &str) -> io::Result<()> {
        File::from(open(&self.path(name), LOG)?).write_all(b"line")
    }

    fn refusal(&self, name: &str) -> String {
        let (read, appended) = (self.read(name).unwrap_err(), self.append(name).unwrap_err());
        assert!(
            read.raw_os_error().is_none() && appended.raw_os_error().is_none(),
            "{name}: {read}, {appended}"
        );
        read.to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn roots_files_and_links_are_opened() {
    let Some(scratch) = Scratch::new("root") else {
        return;
    };
    scratch.write("closed/key", 0);
    assert_eq!(scratch.read("closed/key").unwrap(), "closed/key");
    symlink("../secret", scratch.path("closed/link")).unwrap();
    symlink(scratch.path("closed"), scratch.path("absolute")).unwrap();
    assert_eq!(scratch.read("absolute/link").unwrap(), "secret");
    assert_eq!(scratch.read("closed/../closed/./link").unwrap(), "secret");
    // A log that is missing is made with its mode, as root's, behind a link, too.
    symlink("closed/new.log", scratch.path("link.log")).unwrap();
    scratch.append("link.log").unwrap();
    scratch.append("link.log").unwrap();
    let made = fs::metadata(scratch.path("closed/new.log")).unwrap();
    assert_eq!((made.uid(), made.mode() & 0o777, made.len()), (0, 0o640, 8));
    // What root has is root's business: another owner, a second name.
    scratch.write("closed/other", ALICE);
    fs::hard_link(scratch.path("closed/other"), scratch.path("closed/second")).unwrap();
    assert_eq!(scratch.read("closed/second").unwrap(), "closed/other");
    assert!(open(&scratch.path("closed"), Open::Directory).is_ok());
    assert_eq!(
        open(&scratch.path("secret"), Open::Directory)
            .unwrap_err()
            .raw_os_error(),
        Some(20)
    );
    assert_eq!(scratch.read("closed").unwrap_err().raw_os_error(), Some(21));
    assert_eq!(
        scratch.read("none").unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    symlink("loop", scratch.path("loop")).unwrap();
    assert_eq!(scratch.read("loop").unwrap_err().raw_os_error(), Some(40));
    assert!(open(Path::new("relative"), Open::Read).is_err());
}

#[test]
fn nothing_is_opened_by_links_of_others() {
    let Some(scratch) = Scratch::new("links") else {
        return;
    };
    symlink("../secret", scratch.path("alice/link")).unwrap();
    symlink(scratch.path("closed"), scratch.path("alice/folder")).unwrap();
    scratch.write("closed/key", 0);
    for name in ["alice/link", "alice/folder/key", "alice/folder/../secret"] {
        assert!(scratch.refusal(name).contains("symbolic link"), "{name}");
    }
    // One that leads nowhere makes nothing.
    symlink("../closed/made", scratch.path("alice/dangling")).unwrap();
    assert!(scratch.append("alice/dangling").is_err() && !scratch.path("closed/made").exists());
    fs::create_dir(scratch.path("alice/in")).unwrap();
    assert!(scratch.refusal("alice/in/../../secret").contains("`..`"));
    // A link of root's that leads there trusts what is there no more than the plain way.
    symlink("alice", scratch.path("to-alice")).unwrap();
    assert!(scratch.refusal("to-alice/link").contains("symbolic link"));
}

#[test]
fn in_a_tenants_directory_only_what_is_his_or_roots() {
    let Some(scratch) = Scratch::new("tenant") else {
        return;
    };
    scratch.write("alice/own", ALICE);
    scratch.write("alice/roots", 0);
    scratch.write("alice/bobs", ALICE + 1);
    assert!(
        scratch.read("alice/own").is_ok()
            && scratch.read("alice/roots").is_ok()
            && scratch.append("alice/own").is_ok()
    );
    assert!(
        scratch
            .refusal("alice/bobs")
            .contains("neither root nor the owner")
    );
    fs::hard_link(scratch.path("secret"), scratch.path("alice/hard")).unwrap();
    assert!(scratch.refusal("alice/hard").contains("several names"));
    scratch.append("alice/new.log").unwrap();
    assert_eq!(
        fs::metadata(scratch.path("alice/new.log")).unwrap().uid(),
        0
    );
    // Root's directory in it is no way out of it.
    fs::create_dir(scratch.path("alice/inner")).unwrap();
    scratch.write("alice/inner/bobs", ALICE + 1);
    assert!(
        scratch
            .refusal("alice/inner/bobs")
            .contains("neither root nor the owner")
    );
    chown(scratch.path("alice/inner"), Some(ALICE + 1), None).unwrap();
    assert!(
        open(&scratch.path("alice/inner"), Open::Directory).is_err(),
        "bob's directory, in alice's"
    );
}

#[test]
fn directories_that_others_can_write_to() {
    let Some(scratch) = Scratch::new("modes") else {
        return;
    };
    let trust = |name: &str| find(&scratch.path(name).join("x")).unwrap().trust;
    for (mode, group, expected) in [
        (0o750, 4, Trust::Root),
        (0o755, 0, Trust::Root),
        (0o775, 0, Trust::Root),
        (0o2775, 4, Trust::Others),
        (0o777, 0, Trust::Others),
        (0o1777, 0, Trust::Sticky),
        (0o1775, 4, Trust::Sticky),
    ] {
        chown(scratch.path("closed"), Some(0), Some(group)).unwrap();
        scratch.mode("closed", mode);
        assert_eq!(trust("closed"), expected, "{mode:o} {group}");
    }
    assert_eq!(trust("alice"), Trust::Others);
    // In a sticky one root's entries are root's, and others' are others'.
    scratch.mode("closed", 0o1777);
    fs::create_dir(scratch.path("closed/roots")).unwrap();
    fs::create_dir(scratch.path("closed/alices")).unwrap();
    chown(scratch.path("closed/alices"), Some(ALICE), None).unwrap();
    assert_eq!(
        (trust("closed/roots"), trust("closed/alices")),
        (Trust::Root, Trust::Others)
    );
    symlink("../secret", scratch.path("closed/link")).unwrap();
    assert_eq!(scratch.read("closed/link").unwrap(), "secret");
    std::os::unix::fs::lchown(scratch.path("closed/link"), Some(ALICE), None).unwrap();
    assert!(scratch.refusal("closed/link").contains("symbolic link"));
    scratch.write("closed/bobs", ALICE);
    assert!(
        scratch
            .refusal("closed/bobs")
            .contains("neither root nor the owner")
    );
    // A list of users beside the mode (acl(5)): owner, user 41001, group, mask, others.
    scratch.mode("closed", 0o775);
    chown(scratch.path("closed"), Some(0), Some(0)).unwrap();
    let none = [0xff_u8; 4];
    let id = ALICE.to_le_bytes();
    let entries = [
        (1_u8, 7_u8, none),
        (2, 7, id),
        (4, 5, none),
        (16, 7, none),
        (32, 5, none),
    ];
    let list: Vec<u8> = 2_u32
        .to_le_bytes()
        .into_iter()
        .chain(
            entries
                .iter()
                .flat_map(|(tag, rights, id)| [&[*tag, 0, *rights, 0], &id[..]].concat()),
        )
        .collect();
    match rustix::fs::setxattr(
        scratch.path("closed"),
        "system.posix_acl_access",
        &list,
        rustix::fs::XattrFlags::empty(),
    ) {
        Ok(()) => assert_eq!(trust("closed"), Trust::Others),
        Err(error) => println!("left out: no access control lists here: {error}"),
    }
}

#[test]
fn devices_sockets_and_pipes() {
    let Some(scratch) = Scratch::new("special") else {
        return;
    };
    let make = |name: &str, kind: FileType, device: u64| {
        rustix::fs::mknodat(
            CWD,
            scratch.path(name),
            kind,
            Mode::from_raw_mode(0o644),
            device,
        )
        .unwrap();
    };
    make("fifo", FileType::Fifo, 0);
    let _socket = std::os::unix::net::UnixListener::bind(scratch.path("socket")).unwrap();
    for path in [Path::new("/dev/null"), &scratch.path("socket")] {
        for how in [Open::Read, LOG, Open::Directory] {
            assert!(
                open(path, how).unwrap_err().raw_os_error().is_none(),
                "{} {how:?}",
                path.display()
            );
        }
    }
    // A FIFO without a reader fails at once instead of blocking.
    assert_eq!(
        open(&scratch.path("fifo"), LOG).unwrap_err().raw_os_error(),
        Some(6)
    );
    let _reader = rustix::fs::open(
        scratch.path("fifo"),
        OFlags::RDONLY | OFlags::NONBLOCK,
        Mode::empty(),
    )
    .unwrap();
    let opened = open(&scratch.path("fifo"), LOG).unwrap();
    assert!(!fcntl_getfl(&opened).unwrap().contains(OFlags::NONBLOCK));
    assert!(open(&scratch.path("fifo"), Open::Read).is_err());
    chown(scratch.path("fifo"), Some(ALICE), None).unwrap();
    assert!(open(&scratch.path("fifo"), LOG).is_err());
    // What this process has open.
    for path in [
        "/dev/stderr",
        "/proc/self/fd/0",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/Cargo.toml",
    ] {
        assert!(
            open(Path::new(path), Open::Read)
                .unwrap_err()
                .to_string()
                .contains("procfs"),
            "{path}"
        );
    }
}

#[test]
fn examining_says_what_opening_would_and_makes_nothing() {
    let Some(scratch) = Scratch::new("examine") else {
        return;
    };
    scratch.write("alice/log", ALICE);
    symlink("../secret", scratch.path("alice/link")).unwrap();
    assert!(
        examine(&scratch.path("alice/log"), LOG).is_ok()
            && examine(&scratch.path("closed/new"), LOG).is_ok()
    );
    assert!(!scratch.path("closed/new").exists());
    assert_eq!(
        examine(&scratch.path("none/new"), LOG).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    assert_eq!(
        examine(&scratch.path("none"), Open::Read)
            .unwrap_err()
            .kind(),
        io::ErrorKind::NotFound
    );
    assert_eq!(
        examine(&scratch.path("alice/link"), LOG)
            .unwrap_err()
            .to_string(),
        scratch.refusal("alice/link")
    );
}
