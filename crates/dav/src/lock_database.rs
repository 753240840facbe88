//! The file with the locks, which all workers and processes share.
//!
//! Called by: jobs of the methods that look at locks or change them.
//! Caveat: the file is small and rewritten whole under a lock of the file system, then renamed, so
//! readers see one state or the next, and so does who starts after a crash. A file that cannot be
//! read refuses changes instead of forgetting locks.
//! Out of scope: what locks forbid (`locks`).
//!
//! A database library was rejected: there are hundreds of locks, not millions, a client sets them
//! by hand, and one line per lock can be read and repaired with an editor.

use crate::locks::{Lock, Locks};
use rustix::fs::{FlockOperation, OFlags, flock};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// First line of the file.
const HEADER: &[u8] = b"saker webdav locks 1";

/// More locks are refused with 507.
pub const LOCKS_MAX: usize = 10_000;
/// Locks of one user, and of all clients without one. More are refused with 507.
pub const LOCKS_OF_USER_MAX: usize = 1000;
/// The file is not written beyond it: it is read for each request.
const FILE_BYTES_MAX: usize = 8 << 20;
/// A larger file is none of ours.
const READ_BYTES_MAX: u64 = 64 << 20;
/// Longer owners are refused.
pub const OWNER_BYTES_MAX: usize = 1024;

/// The folder may be one that others write: their links are not followed.
const NOFOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();

/// A lock database by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockDatabase {
    file: PathBuf,
    /// Held while the file is rewritten.
    guard: PathBuf,
}

impl LockDatabase {
    /// Names the files of a database; `path` itself may be one of Apache's, in another format.
    pub fn new(path: &Path) -> LockDatabase {
        let with = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        LockDatabase {
            file: with(".saker"),
            guard: with(".saker-guard"),
        }
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the locks that are in force.
    ///
    /// # Errors
    /// Those of reading the file; `InvalidData` if it is damaged.
    pub fn read(&self, now_s: i64) -> io::Result<Locks> {
        let bytes = match saker_files::read_regular(&self.file, READ_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Locks::default()),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let why = "the file is too large; remove it to drop all locks";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            Err(error) => return Err(error),
        };
        let mut locks = decode(&bytes).ok_or_else(|| {
            let why = "the file is damaged; remove it to drop all locks";
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        locks
            .0
            .retain(|lock| lock.expires_s.is_none_or(|expires| expires > now_s));
        Ok(locks)
    }

    /// Changes the locks. Others wait meanwhile; the change is on disk when this returns.
    ///
    /// # Errors
    /// Those of reading and writing the files; `FileTooLarge` if the locks don't fit.
    pub fn change<T>(&self, now_s: i64, change: impl FnOnce(&mut Locks) -> T) -> io::Result<T> {
        let _guard = self.guard()?;
        let before = self.read(now_s)?;
        let mut after = before.clone();
        let result = change(&mut after);
        if after != before {
            let is_larger = after.0.len() > before.0.len();
            self.write(&after, is_larger)?;
        }
        Ok(result)
    }

    fn guard(&self) -> io::Result<File> {
        let open = || {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(NOFOLLOW)
                .open(&self.guard)
        };
        let file = match (open(), self.guard.parent()) {
            (Err(error), Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(folder)?;
                open()?
            }
            (opened, _) => opened?,
        };
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    /// `is_bounded`: the text must not be longer than [`FILE_BYTES_MAX`]. Removing locks is always
    /// possible.
    fn write(&self, locks: &Locks, is_bounded: bool) -> io::Result<()> {
        let text = encode(locks);
        if is_bounded && text.len() > FILE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut name = self.file.as_os_str().to_owned();
        name.push("-new");
        let new = PathBuf::from(name);
        // One that a crash has left is overwritten: the guard is held.
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(NOFOLLOW)
            .open(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&new, &self.file)
    }
}

fn encode(locks: &Locks) -> Vec<u8> {
    let mut out = HEADER.to_vec();
    out.push(b'\n');
    for lock in &locks.0 {
        let expires = lock.expires_s.map(|at| at.to_string()).unwrap_or_default();
        let (scope, depth) = (
            if lock.is_shared {
                "shared"
            } else {
                "exclusive"
            },
            if lock.is_deep { "infinity" } else { "0" },
        );
        // A user may have an empty name, which is not the same as none.
        let user = lock.user.as_ref().map(|user| format!("={user}"));
        let parts: [&[u8]; 7] = [
            lock.token.as_bytes(),
            scope.as_bytes(),
            depth.as_bytes(),
            expires.as_bytes(),
            user.as_deref().unwrap_or_default().as_bytes(),
            &lock.path,
            lock.owner.as_bytes(),
        ];
        for (at, part) in parts.into_iter().enumerate() {
            if at > 0 {
                out.push(b'\t');
            }
            push_escaped(part, &mut out);
        }
        out.push(b'\n');
    }
    out
}

fn push_escaped(part: &[u8], out: &mut Vec<u8>) {
    for byte in part {
        match byte {
            b'%' | 0..0x20 | 0x7f => out.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            byte => out.push(*byte),
        }
    }
}

fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = behind;
    }
    Some(out)
}

fn decode(bytes: &[u8]) -> Option<Locks> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    if lines.next()? != HEADER {
        return None;
    }
    let mut locks = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        locks.push(lock(line)?);
    }
    Some(Locks(locks))
}

fn lock(line: &[u8]) -> Option<Lock> {
    let parts: Option<Vec<Vec<u8>>> = line.split(|byte| *byte == b'\t').map(unescaped).collect();
    let [token, scope, depth, expires, user, path, owner] =
        <[Vec<u8>; 7]>::try_from(parts?).ok()?;
    let expires = String::from_utf8(expires).ok()?;
    let user = String::from_utf8(user).ok()?;
    Some(Lock {
        token: String::from_utf8(token).ok()?,
        is_shared: match &*scope {
            b"shared" => true,
            b"exclusive" => false,
            _ => return None,
        },
        is_deep: match &*depth {
            b"infinity" => true,
            b"0" => false,
            _ => return None,
        },
        expires_s: match expires.as_str() {
            "" => None,
            number => Some(number.parse().ok()?),
        },
        user: match user.as_str() {
            "" => None,
            name => Some(name.strip_prefix('=')?.to_owned()),
        },
        path,
        owner: String::from_utf8(owner).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use saker_testkit::TempDir;

    fn some(token: &str, expires_s: Option<i64>) -> Lock {
        Lock {
            token: token.to_owned(),
            is_shared: true,
            is_deep: false,
            expires_s,
            user: Some("a\tb%".to_owned()),
            path: b"/srv/\xff\n x".to_vec(),
            owner: "<ns0:owner xmlns:ns0=\"DAV:\">\u{e4}\r\n</ns0:owner>".to_owned(),
        }
    }

    #[test]
    fn locks_are_found_again_until_they_expire() {
        let dir = TempDir::new("lock-database").unwrap();
        let database = LockDatabase::new(&dir.join("missing/locks"));
        assert_eq!(database.read(0).unwrap(), Locks::default());
        let added = database.change(0, |locks| {
            locks.0.push(some("a:1", Some(100)));
            locks.0.push(some("a:2", None));
        });
        added.unwrap();
        assert_eq!(
            database.read(99).unwrap().0,
            [some("a:1", Some(100)), some("a:2", None)]
        );
        assert_eq!(database.read(100).unwrap().0, [some("a:2", None)]);
        database.change(100, |_| ()).unwrap();
        database.change(100, |locks| locks.0.clear()).unwrap();
        assert_eq!(database.read(0).unwrap(), Locks::default());
    }

    #[test]
    fn a_damaged_file_forgets_nothing() {
        let dir = TempDir::new("lock-damage").unwrap();
        let database = LockDatabase::new(&dir.join("locks"));
        for text in ["", "other\n", "saker webdav locks 1\na:b\tshared\n"] {
            fs::write(database.file(), text).unwrap();
            assert!(database.read(0).is_err(), "{text:?}");
            assert!(database.change(0, |locks| locks.0.clear()).is_err());
            assert_eq!(fs::read_to_string(database.file()).unwrap(), text);
        }
    }

    #[test]
    fn too_many_bytes_change_nothing() {
        let dir = TempDir::new("lock-bytes").unwrap();
        let database = LockDatabase::new(&dir.join("locks"));
        database
            .change(0, |locks| locks.0.push(some("a:1", None)))
            .unwrap();
        let path = vec![b'p'; FILE_BYTES_MAX];
        let long = Lock {
            path,
            ..some("a:2", None)
        };
        let added = database.change(0, |locks| locks.0.push(long));
        assert_eq!(added.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(database.read(0).unwrap().0, [some("a:1", None)]);
    }

    #[test]
    fn links_of_others_are_not_followed() {
        let dir = TempDir::new("lock-links").unwrap();
        fs::write(dir.join("victim"), "kept").unwrap();
        for name in ["locks.saker-guard", "locks.saker-new"] {
            std::os::unix::fs::symlink("victim", dir.join(name)).unwrap();
            let database = LockDatabase::new(&dir.join("locks"));
            let added = database.change(0, |locks| locks.0.push(some("a:1", None)));
            assert!(added.is_err(), "{name}");
            assert_eq!(fs::read(dir.join("victim")).unwrap(), b"kept", "{name}");
            fs::remove_file(dir.join(name)).unwrap();
        }
    }

    #[test]
    fn many_writers_lose_nothing() {
        let dir = TempDir::new("lock-writers").unwrap();
        let database = LockDatabase::new(&dir.join("locks"));
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let database = &database;
                scope.spawn(move || {
                    for number in 0..10 {
                        let lock = some(&format!("a:{writer}-{number}"), None);
                        database.change(0, |locks| locks.0.push(lock)).unwrap();
                    }
                });
            }
        });
        assert_eq!(database.read(0).unwrap().0.len(), 40);
    }

    proptest! {
        #[test]
        fn any_text_survives(path in proptest::collection::vec(any::<u8>(), 0..40), owner in ".{0,40}") {
            let lock = Lock { path, owner, ..some("t:1", Some(-1)) };
            let locks = Locks(vec![lock]);
            prop_assert_eq!(decode(&encode(&locks)), Some(locks));
        }
    }
}
