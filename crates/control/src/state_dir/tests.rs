//! Tests of the lock, the socket and the checks, each in its own directory.

use super::*;
use saker_net::socket_path::SOCKET_PATH_BYTES_MAX;
use std::os::unix::{
    fs::{MetadataExt, PermissionsExt, chown, lchown, symlink},
    net::UnixStream,
};
use std::sync::atomic::{AtomicU32, Ordering};

/// A unique path in a directory that is removed with it.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "saker-control-{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .unwrap();
        Scratch(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn created_private_with_its_parents() {
    let scratch = Scratch::new();
    let path = scratch.join("a/b");
    StateDir::open(&path).unwrap();
    assert_eq!((mode(&path), mode(&scratch.join("a"))), (0o700, 0o700));
    let passed = scratch.join("b/c");
    StateDir::open_for(&passed, Some(65534)).unwrap();
    assert_eq!(mode(&passed), 0o700);
    assert_eq!(
        mode(&scratch.join("b")) & 0o711,
        0o711,
        "whom the server becomes has to pass"
    );
}

#[test]
fn one_server_per_directory() {
    let scratch = Scratch::new();
    let path = scratch.join("state");
    let lock = StateDir::open(&path).unwrap().lock().unwrap();
    let own = Some(std::process::id());
    assert_eq!(running(&path), Some(Running { pid: own }));
    let second = StateDir::open(&path).unwrap().lock().unwrap_err();
    assert!(
        matches!(second, StateDirError::Running { pid, .. } if pid == own),
        "{second}"
    );
    assert!(
        second
            .to_string()
            .starts_with(&format!("already running with pid {}", std::process::id())),
        "{second}"
    );
    drop(lock);
    assert_eq!(running(&path), None);
    assert!(!path.exists(), "an own directory goes with the server");
    StateDir::open(&path).unwrap().lock().unwrap();
}

#[test]
fn a_directory_that_was_there_stays_and_keeps_foreign_files() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("acme.json"), "{}").unwrap();
    let lock = StateDir::open(&scratch.0).unwrap().lock().unwrap();
    let listener = lock.bind_control().unwrap();
    drop((lock, listener));
    let left: Vec<_> = std::fs::read_dir(&scratch.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["acme.json"]);
}

#[test]
fn a_pid_file_of_a_dead_server_counts_for_nothing() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join(PID_FILE), "1\n").unwrap();
    assert_eq!(running(&scratch.0), None);
    let _lock = StateDir::open(&scratch.0).unwrap().lock().unwrap();
    assert_eq!(
        std::fs::read_to_string(scratch.join(PID_FILE)).unwrap(),
        format!("{}\n", std::process::id())
    );
}

#[test]
fn a_pid_file_that_is_a_link_is_not_followed() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("precious"), "precious").unwrap();
    std::os::unix::fs::symlink("precious", scratch.join(PID_FILE)).unwrap();
    assert!(matches!(
        StateDir::open(&scratch.0).unwrap().lock(),
        Err(StateDirError::Io { .. })
    ));
    assert_eq!(
        std::fs::read_to_string(scratch.join("precious")).unwrap(),
        "precious"
    );
}

#[test]
fn a_socket_of_a_dead_server_is_replaced() {
    let scratch = Scratch::new();
    drop(UnixListener::bind(scratch.join(SOCKET)).unwrap());
    let lock = StateDir::open(&scratch.0).unwrap().lock().unwrap();
    assert!(UnixStream::connect(scratch.join(SOCKET)).is_err());
    let _listener = lock.bind_control().unwrap();
    assert_eq!(mode(&scratch.join(SOCKET)), 0o600);
    UnixStream::connect(scratch.join(SOCKET)).unwrap();
}

#[test]
fn a_file_in_place_of_the_socket_stays() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join(SOCKET), "precious").unwrap();
    let lock = StateDir::open(&scratch.0).unwrap().lock().unwrap();
    assert!(lock.bind_control().is_err());
    drop(lock);
    assert_eq!(
        std::fs::read_to_string(scratch.join(SOCKET)).unwrap(),
        "precious"
    );
}

#[test]
fn paths_too_long_for_an_address() {
    let scratch = Scratch::new();
    for length in [SOCKET_PATH_BYTES_MAX, SOCKET_PATH_BYTES_MAX + 1, 200] {
        let name = "n".repeat(length - scratch.0.as_os_str().len() - "//".len() - SOCKET.len());
        let path = scratch.join(&name);
        let lock = StateDir::open(&path).unwrap().lock().unwrap();
        let _listener = lock.bind_control().unwrap();
        let socket = SocketPath::new(&path).unwrap();
        assert_eq!(
            socket.as_path().starts_with("/proc"),
            length > SOCKET_PATH_BYTES_MAX
        );
        UnixStream::connect(socket.as_path()).unwrap();
    }
}

#[test]
fn others_may_not_write_into_it() {
    let scratch = Scratch::new();
    if rustix::process::geteuid().is_root() {
        // A group that has nothing to do with the server.
        std::os::unix::fs::chown(&scratch.0, None, Some(41_002)).unwrap();
    }
    let is_root = rustix::process::geteuid().is_root();
    for (bits, accepted) in [
        (0o755, true),
        (0o770, false),
        (0o707, false),
        (0o1777, false),
        (0o2777, false),
        (0o2770, is_root),
    ] {
        std::fs::set_permissions(&scratch.0, std::fs::Permissions::from_mode(bits)).unwrap();
        let opened = StateDir::open(&scratch.0);
        assert_eq!(opened.is_ok(), accepted, "{bits:o}: {opened:?}");
        assert!(
            accepted || matches!(opened, Err(StateDirError::Writable { mode, .. }) if mode == bits)
        );
    }
}

#[test]
fn a_foreign_owner_is_refused_unless_it_is_the_service_user() {
    let scratch = Scratch::new();
    if std::os::unix::fs::chown(&scratch.0, Some(12_345), None).is_err() {
        return; // Only root can give a directory away.
    }
    assert!(matches!(
        StateDir::open(&scratch.0),
        Err(StateDirError::Foreign { owner: 12_345, .. })
    ));
    StateDir::open_for(&scratch.0, Some(12_345)).unwrap();
    chown(&scratch.0, Some(rustix::process::geteuid().as_raw()), None).unwrap();
    // Nor is a foreign link to our own directory.
    let (link, own) = (scratch.join("link"), scratch.join("own"));
    std::fs::DirBuilder::new().mode(0o700).create(&own).unwrap();
    std::os::unix::fs::symlink(&own, &link).unwrap();
    StateDir::open(&link).unwrap();
    std::os::unix::fs::lchown(&link, Some(12_345), None).unwrap();
    assert!(matches!(
        StateDir::open(&link),
        Err(StateDirError::Foreign { .. })
    ));
}

#[test]
fn not_a_directory() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("file"), "").unwrap();
    let refused = StateDir::open(&scratch.join("file")).unwrap_err();
    assert!(
        matches!(refused, StateDirError::NotDirectory(_)),
        "{refused}"
    );
    let below = StateDir::open(&scratch.join("file/below")).unwrap_err();
    assert!(matches!(below, StateDirError::Io { .. }), "{below}");
}

#[test]
fn a_directory_of_roots_that_a_group_may_enter_is_roots_again() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    let path = scratch.join("state");
    // As a start with `user` leaves it where the server can't have a group of its own.
    let lock = StateDir::open(&path).unwrap().lock().unwrap();
    lock.open_to(33).unwrap();
    StateDir::open(&path).unwrap();
    drop(lock);
    std::fs::create_dir_all(&path).unwrap();
    rustix::fs::chown(&path, None, Some(rustix::process::Gid::from_raw(33))).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o2770)).unwrap();
    StateDir::open(&path).unwrap();
    StateDir::open_for(&path, Some(2)).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o2772)).unwrap();
    assert!(matches!(
        StateDir::open(&path),
        Err(StateDirError::Writable { .. })
    ));
}

/// The service user may be an attacker's, and its directory may hold the state directory.
#[test]
fn root_follows_no_link_that_another_user_can_lay() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    let (open, own) = (scratch.join("open"), scratch.join("own"));
    std::fs::create_dir(&open).unwrap();
    std::fs::create_dir(&own).unwrap();
    let is_link = |path: &Path| {
        matches!(
            StateDir::open_for(path, Some(12_345)),
            Err(StateDirError::Link(_))
        )
    };
    let (inner, outer) = (open.join("state"), scratch.join("state"));
    symlink(&own, &inner).unwrap();
    symlink(&own, &outer).unwrap();
    assert!(!is_link(&inner) && !is_link(&outer));
    lchown(&outer, Some(12_345), None).unwrap();
    assert!(is_link(&outer));
    chown(&open, Some(12_345), None).unwrap();
    assert!(is_link(&inner), "it can be replaced");
    StateDir::open_for(&own, Some(12_345)).unwrap();
}

/// Behind a folder of the service user's, any directory can have the name.
#[test]
fn a_directory_of_the_system_is_not_given_to_the_server() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    for name in ["acme", "cache", "guard.keys", "lsphp-8.3.sock"] {
        std::fs::write(scratch.join(name), "").unwrap();
    }
    StateDir::open_for(&scratch.0, Some(12_345)).unwrap();
    std::fs::write(scratch.join("passwd"), "").unwrap();
    let refused = StateDir::open_for(&scratch.0, Some(12_345)).unwrap_err();
    assert!(
        matches!(&refused, StateDirError::Occupied { entry, .. } if entry == "passwd"),
        "{refused}"
    );
    // It stays as it is for a server that gives up no rights, and once it was a server's.
    let lock = StateDir::open(&scratch.0).unwrap().lock().unwrap();
    lock.guard(*saker_net::process::GUARD_GROUPS.start())
        .unwrap();
    StateDir::open_for(&scratch.0, Some(12_345)).unwrap();
    std::fs::set_permissions(&scratch.0, std::fs::Permissions::from_mode(0o700)).unwrap();
    chown(&scratch.0, Some(12_345), Some(0)).unwrap();
    StateDir::open_for(&scratch.0, Some(12_345)).unwrap();
}

#[test]
fn a_pid_file_with_another_name_is_left_alone() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("precious"), "precious").unwrap();
    std::fs::hard_link(scratch.join("precious"), scratch.join(PID_FILE)).unwrap();
    assert!(matches!(
        StateDir::open(&scratch.0).unwrap().lock(),
        Err(StateDirError::Io { .. })
    ));
    assert_eq!(
        std::fs::read_to_string(scratch.join("precious")).unwrap(),
        "precious"
    );
}

/// The server's group may write to the directory, and have any file there by the time that root
/// gives the lock to the server's user.
#[test]
fn nothing_but_the_lock_is_given_away() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    let (precious, named) = (scratch.join("precious"), scratch.join(PID_FILE));
    let owner = |path: &Path| std::fs::symlink_metadata(path).unwrap().uid();
    std::fs::write(&precious, "").unwrap();
    let lock = StateDir::open(&scratch.0).unwrap().lock().unwrap();
    lock.give_pid_file(12_345).unwrap();
    assert_eq!(owner(&named), 12_345);
    assert!(lock.give_pid_file(54_321).is_err(), "another user's");
    std::fs::hard_link(&named, scratch.join("second")).unwrap();
    assert!(lock.give_pid_file(12_345).is_err());
    std::fs::remove_file(&named).unwrap();
    symlink(&precious, &named).unwrap();
    assert!(lock.give_pid_file(12_345).is_err());
    // What a predecessor hands over may be any file that it could open.
    let file = std::fs::File::open(&precious).unwrap();
    let inherited = StateDir::open(&scratch.0)
        .unwrap()
        .share_lock(file.into(), false);
    let _ = inherited.give_pid_file(12_345);
    assert_eq!(owner(&precious), 0);
}
