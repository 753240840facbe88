//! Users of `/etc/passwd`, whose homes have pages.
//!
//! Called by: user directories, of saker.toml and of mod_userdir.
//! Caveat: the file leaves change tokens like any other, so that an outcome that depends on a user
//! is dropped when users change. Users that only a directory service knows are not found.
//! Out of scope: groups and passwords.

use crate::{ChangeToken, LinkPolicy, Watcher, resolve};
use std::{os::unix::fs::FileExt, path::Path};

/// Larger files are not read to their end.
const PASSWD_BYTES_MAX: u64 = 4 << 20;

/// A user with an absolute home directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub uid: u32,
    pub home: Vec<u8>,
}

/// Returns a user of this machine.
pub fn account(watcher: &Watcher, name: &str, tokens: &mut Vec<ChangeToken>) -> Option<Account> {
    let passwd = b"etc/passwd";
    let found = resolve(watcher, Path::new("/"), passwd, LinkPolicy::Follow, tokens).ok()?;
    let mut text = vec![0; found.metadata.size.min(PASSWD_BYTES_MAX) as usize];
    found.file.read_exact_at(&mut text, 0).ok()?;
    find(&String::from_utf8_lossy(&text), name)
}

fn find(passwd: &str, name: &str) -> Option<Account> {
    let line = passwd
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let mut parts = line.split(':').skip(2);
    let uid = parts.next()?.parse().ok()?;
    let home = parts.nth(2).filter(|home| home.starts_with('/'))?;
    Some(Account {
        uid,
        home: home.as_bytes().to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nann:x:1001:1::/home/ann:/bin/sh\nodd:x:1\n\
                      rel:x:1002:1::home:/bin/sh\n";
        let ann = find(passwd, "ann").unwrap();
        assert_eq!((ann.uid, &*ann.home), (1001, &b"/home/ann"[..]));
        assert_eq!(find(passwd, "root").unwrap().uid, 0);
        for unknown in ["odd", "an", "", "rel", "ann:x"] {
            assert_eq!(find(passwd, unknown), None, "{unknown}");
        }
    }
}
