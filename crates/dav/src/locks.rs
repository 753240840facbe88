//! Locks, and what they forbid (RFC 4918 sections 6 and 7).
//!
//! Called by: all methods that change something, with the locks of the database.
//! Caveat: locks are about file names below the document root, not about URLs, so two URLs of one
//! file share them. A lock on a name without a file is a lock-null resource.
//! Out of scope: keeping locks (`lock_database`), and the field `If` (`if_header`).

use saker_http::Status;

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// With its scheme.
    pub token: String,
    pub is_shared: bool,
    /// Depth infinity; otherwise 0.
    pub is_deep: bool,
    /// Seconds since the epoch; `None`: never.
    pub expires_s: Option<i64>,
    /// The user who was logged in; `None`: no one was.
    pub user: Option<String>,
    /// Absolute file name, without a slash at its end.
    pub path: Vec<u8>,
    /// XML of the element `owner`, as the client sent it; empty: none.
    pub owner: String,
}

/// All locks that are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locks(pub Vec<Lock>);

/// A client that wants to change something.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    /// Tokens that it submits.
    pub tokens: Vec<String>,
    pub user: Option<String>,
}

/// Returns true if `path` is below `ancestor`.
pub fn is_below(path: &[u8], ancestor: &[u8]) -> bool {
    match path.strip_prefix(ancestor) {
        Some(rest) => !rest.is_empty() && (rest.starts_with(b"/") || ancestor == b"/"),
        None => false,
    }
}

impl Locks {
    /// Returns the locks that hold for a file: its own, and those of collections above.
    pub fn on<'l>(&'l self, path: &'l [u8]) -> impl Iterator<Item = &'l Lock> {
        self.0
            .iter()
            .filter(move |lock| lock.path == path || lock.is_deep && is_below(path, &lock.path))
    }

    /// Returns the locks of members below a file.
    pub fn below<'l>(&'l self, path: &'l [u8]) -> impl Iterator<Item = &'l Lock> {
        self.0.iter().filter(move |lock| is_below(&lock.path, path))
    }

    /// Returns true if the file itself is locked.
    pub fn has_own(&self, path: &[u8]) -> bool {
        self.0.iter().any(|lock| lock.path == path)
    }

    /// Checks whether the client may change the file.
    ///
    /// # Errors
    /// 423 without the token of a lock, 403 if the lock belongs to another user.
    pub fn check(&self, path: &[u8], claim: &Claim) -> Result<(), Status> {
        let submits = |lock: &Lock| claim.tokens.contains(&lock.token);
        let (mut is_locked, mut is_open) = (false, false);
        for lock in self.on(path) {
            is_locked = true;
            if !submits(lock) {
                if !lock.is_shared {
                    return Err(Status::LOCKED);
                }
                continue;
            }
            // RFC 4918 section 6.4: a token alone is no permission.
            if lock.user != claim.user {
                return Err(Status::FORBIDDEN);
            }
            is_open = true;
        }
        match is_locked && !is_open {
            true => Err(Status::LOCKED),
            false => Ok(()),
        }
    }

    /// Checks whether the client may change the file and everything below. The error has the
    /// members that it may not change.
    ///
    /// # Errors
    /// The status for the file itself, or the members with theirs.
    pub fn check_tree(&self, path: &[u8], claim: &Claim) -> Result<(), TreeRefusal> {
        self.check(path, claim).map_err(TreeRefusal::Itself)?;
        let mut members: Vec<(Vec<u8>, Status)> = Vec::new();
        for lock in self.below(path) {
            if let Err(status) = self.check(&lock.path, claim)
                && !members.iter().any(|(known, _)| *known == lock.path)
            {
                members.push((lock.path.clone(), status));
            }
        }
        match members.is_empty() {
            true => Ok(()),
            false => Err(TreeRefusal::Members(members)),
        }
    }

    /// Returns the status that refuses a new lock, if another one is in its way.
    pub fn conflict(&self, path: &[u8], is_shared: bool, is_deep: bool) -> Option<Status> {
        let below = self.below(path).filter(|_| is_deep);
        self.on(path)
            .chain(below)
            .any(|other| !is_shared || !other.is_shared)
            .then_some(Status::LOCKED)
    }

    /// Removes the locks of a file and everything below.
    pub fn remove_tree(&mut self, path: &[u8]) {
        self.0
            .retain(|lock| lock.path != path && !is_below(&lock.path, path));
    }
}

/// Reason why a tree may not be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeRefusal {
    Itself(Status),
    /// File names of members.
    Members(Vec<(Vec<u8>, Status)>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(token: &str, path: &str, is_shared: bool, is_deep: bool) -> Lock {
        Lock {
            token: token.to_owned(),
            is_shared,
            is_deep,
            expires_s: None,
            user: Some("ann".to_owned()),
            path: path.as_bytes().to_vec(),
            owner: String::new(),
        }
    }

    fn claim(tokens: &[&str], user: &str) -> Claim {
        Claim {
            tokens: tokens.iter().map(|token| (*token).to_owned()).collect(),
            user: Some(user.to_owned()),
        }
    }

    #[test]
    fn exclusive_locks_want_their_token_and_their_user() {
        let locks = Locks(vec![lock("t", "/a", false, true)]);
        for path in ["/a", "/a/b", "/a/b/c"] {
            let check = |claim| locks.check(path.as_bytes(), &claim);
            assert_eq!(check(claim(&[], "ann")), Err(Status::LOCKED));
            assert_eq!(check(claim(&["u"], "ann")), Err(Status::LOCKED));
            assert_eq!(check(claim(&["t"], "bob")), Err(Status::FORBIDDEN));
            assert_eq!(check(claim(&["u", "t"], "ann")), Ok(()));
        }
        assert_eq!(locks.check(b"/ab", &claim(&[], "bob")), Ok(()));
        let shallow = Locks(vec![lock("t", "/a", false, false)]);
        assert_eq!(shallow.check(b"/a/b", &claim(&[], "bob")), Ok(()));
    }

    #[test]
    fn one_of_several_shared_locks_is_enough() {
        let mut other = lock("u", "/a", true, true);
        other.user = Some("bob".to_owned());
        let locks = Locks(vec![lock("t", "/a", true, false), other]);
        assert_eq!(locks.check(b"/a", &claim(&["u"], "bob")), Ok(()));
        assert_eq!(locks.check(b"/a", &claim(&["t"], "ann")), Ok(()));
        assert_eq!(locks.check(b"/a", &claim(&[], "ann")), Err(Status::LOCKED));
        assert_eq!(
            locks.check(b"/a", &claim(&["u"], "ann")),
            Err(Status::FORBIDDEN)
        );
    }

    #[test]
    fn members_are_named() {
        let locks = Locks(vec![
            lock("t", "/a/b", false, false),
            lock("u", "/a/c", false, false),
        ]);
        let refused = locks.check_tree(b"/a", &claim(&["t"], "ann"));
        let member = (b"/a/c".to_vec(), Status::LOCKED);
        assert_eq!(refused, Err(TreeRefusal::Members(vec![member])));
        assert_eq!(locks.check_tree(b"/a", &claim(&["u", "t"], "ann")), Ok(()));
        assert_eq!(
            locks.check_tree(b"/a/b", &claim(&[], "ann")),
            Err(TreeRefusal::Itself(Status::LOCKED))
        );
    }

    #[test]
    fn conflicts() {
        let locks = Locks(vec![lock("t", "/a/b", true, true)]);
        for (path, is_shared, is_deep, refused) in [
            ("/a/b", true, false, false),
            ("/a/b", false, false, true),
            ("/a/b/c", false, false, true),
            ("/a/b/c", true, true, false),
            ("/a", false, false, false),
            ("/a", false, true, true),
            ("/a", true, true, false),
            ("/c", false, true, false),
        ] {
            let conflict = locks.conflict(path.as_bytes(), is_shared, is_deep);
            assert_eq!(conflict.is_some(), refused, "{path} {is_shared} {is_deep}");
        }
        let mut locks = locks;
        locks.remove_tree(b"/a/bc");
        assert_eq!(locks.0.len(), 1);
        locks.remove_tree(b"/a");
        assert!(locks.0.is_empty());
    }
}
