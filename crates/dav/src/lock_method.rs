//! LOCK (RFC 4918 section 9.10).
//!
//! Called by: the handler, in a job.
//! Caveat: a lock on a name without a file makes a lock-null resource (RFC 2518 section 7.4), as in
//! Apache: no empty file is left behind by clients that lock and go away.
//! Out of scope: locks of types other than `write`, which do not exist.

use crate::{
    if_header::TOKEN_SCHEME,
    live_properties::write_lock,
    lock_database::{LOCKS_MAX, LOCKS_OF_USER_MAX, OWNER_BYTES_MAX},
    locks::Lock,
    operation::{Operation, Outcome},
    reply::Reply,
    resource::Resource,
    xml,
};
use aws_lc_rs::rand;
use saker_http::Status;

/// Longest lifetime of a lock, unless the shortest one is longer: clients that go away must not
/// leave locks for ever.
const TIMEOUT_MAX_S: u64 = 7 * 24 * 3600;

/// The content of a request for a new lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    pub is_shared: bool,
    /// XML of the element `owner`; empty: none.
    pub owner: String,
}

/// Reads the request's content. `None`: there is none, and a lock is refreshed.
///
/// # Errors
/// 400 if it is not understood.
pub fn lock_info(content: &[u8]) -> Result<Option<LockInfo>, Status> {
    if content.is_empty() {
        return Ok(None);
    }
    let root = xml::parse(content).map_err(|_| Status::BAD_REQUEST)?;
    let scope = root.child("lockscope").ok_or(Status::BAD_REQUEST)?;
    let is_write = root
        .child("locktype")
        .is_some_and(|kind| kind.child("write").is_some());
    let is_shared = match (scope.child("exclusive"), scope.child("shared")) {
        (Some(_), None) => false,
        (None, Some(_)) => true,
        _ => return Err(Status::BAD_REQUEST),
    };
    if !root.is_dav("lockinfo") || !is_write {
        return Err(Status::BAD_REQUEST);
    }
    let mut owner = String::new();
    if let Some(element) = root.child("owner") {
        element.write(&mut owner);
    }
    if owner.len() > OWNER_BYTES_MAX {
        return Err(Status::BAD_REQUEST);
    }
    Ok(Some(LockInfo { is_shared, owner }))
}

/// Returns a token of a random UUID (RFC 9562 section 5.4).
fn new_token() -> Option<String> {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).ok()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut token = TOKEN_SCHEME.to_owned();
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            token.push('-');
        }
        token.push_str(&format!("{byte:02x}"));
    }
    Some(token)
}

/// Gives a lock. `timeout_s`: what the client asks for; `None`: no end.
///
/// # Errors
/// 409 without the collection above, 412, 423, 507 with too many locks.
pub fn lock(
    operation: &Operation,
    resource: &Resource,
    info: &LockInfo,
    is_deep: bool,
    timeout_s: Option<u64>,
) -> Outcome {
    operation.check_name(resource)?;
    if resource.found.is_none() {
        resource.entry()?;
    }
    let lock = Lock {
        token: new_token().ok_or(Status::INTERNAL_SERVER_ERROR)?,
        is_shared: info.is_shared,
        is_deep,
        expires_s: Some(expires(operation, timeout_s)),
        user: operation.claim.user.clone(),
        path: resource.path.clone(),
        owner: info.owner.clone(),
    };
    let given = lock.clone();
    let granted: Result<(), Status> = operation.change_locks(|locks| {
        operation.check_if(locks, resource)?;
        if let Some(status) = locks.conflict(&lock.path, lock.is_shared, lock.is_deep) {
            return Err(status);
        }
        if resource.found.is_none() {
            operation.check_membership(locks, &lock.path)?;
        }
        let of_user = locks.0.iter().filter(|other| other.user == lock.user);
        if locks.0.len() >= LOCKS_MAX || of_user.count() >= LOCKS_OF_USER_MAX {
            return Err(Status::INSUFFICIENT_STORAGE);
        }
        locks.0.push(lock);
        Ok(())
    })?;
    granted?;
    let token = format!("<{}>", given.token);
    Ok(discovery(operation, &[given]).with("Lock-Token", token.into_bytes()))
}

fn expires(operation: &Operation, timeout_s: Option<u64>) -> i64 {
    let seconds = lifetime_s(timeout_s, operation.webdav.lock_timeout_min_s);
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    operation.now_s.saturating_add(seconds)
}

fn lifetime_s(asked_s: Option<u64>, min_s: u64) -> u64 {
    asked_s
        .unwrap_or(TIMEOUT_MAX_S)
        .min(TIMEOUT_MAX_S)
        .max(min_s)
}

/// Gives the locks whose tokens the client submits a new timeout.
///
/// # Errors
/// 400 without a token, 412 if none of them locks the resource, 403 for locks of other users.
pub fn refresh(operation: &Operation, resource: &Resource, timeout_s: Option<u64>) -> Outcome {
    let refreshed: Result<Vec<Lock>, Status> = operation.change_locks(|locks| {
        let claim = &operation.claim;
        if claim.tokens.is_empty() {
            // Apache looks at the locks before it misses the token.
            locks.check(&resource.path, claim)?;
            return Err(Status::BAD_REQUEST);
        }
        operation.check_if(locks, resource)?;
        let on: Vec<String> = locks
            .on(&resource.path)
            .map(|lock| lock.token.clone())
            .collect();
        let is_meant =
            |lock: &&mut Lock| on.contains(&lock.token) && claim.tokens.contains(&lock.token);
        let expires_s = Some(expires(operation, timeout_s));
        let mut refreshed = Vec::new();
        for lock in locks.0.iter_mut().filter(is_meant) {
            if lock.user != claim.user {
                return Err(Status::FORBIDDEN);
            }
            lock.expires_s = expires_s;
            refreshed.push(lock.clone());
        }
        match refreshed.is_empty() {
            true => Err(Status::PRECONDITION_FAILED),
            false => Ok(refreshed),
        }
    })?;
    Ok(discovery(operation, &refreshed?))
}

fn discovery(operation: &Operation, locks: &[Lock]) -> Reply {
    let mut text = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:prop xmlns:D=\"DAV:\">\n\
                    <D:lockdiscovery>\n"
        .to_owned();
    for lock in locks {
        write_lock(lock, operation.now_s, &mut text);
        text.push('\n');
    }
    text.push_str("</D:lockdiscovery>\n</D:prop>\n");
    Reply::xml(Status::OK, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_limits() {
        for (asked_s, min_s, expected) in [
            (None, 0, TIMEOUT_MAX_S),
            (Some(5), 0, 5),
            (Some(5), 600, 600),
            (Some(TIMEOUT_MAX_S + 1), 0, TIMEOUT_MAX_S),
            (None, TIMEOUT_MAX_S + 1, TIMEOUT_MAX_S + 1),
        ] {
            assert_eq!(lifetime_s(asked_s, min_s), expected, "{asked_s:?} {min_s}");
        }
    }
    use crate::if_header::is_uuid;

    #[test]
    fn tokens_are_uuids_of_their_own() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert!(is_uuid(one.strip_prefix(TOKEN_SCHEME).unwrap()), "{one}");
        assert_ne!(one, other);
    }

    #[test]
    fn content_says_which_lock() {
        let of = |inner: &str| {
            lock_info(format!("<D:lockinfo xmlns:D='DAV:'>{inner}</D:lockinfo>").as_bytes())
        };
        let write = "<D:locktype><D:write/></D:locktype>";
        let exclusive = "<D:lockscope><D:exclusive/></D:lockscope>";
        assert_eq!(lock_info(b""), Ok(None));
        let info = of(&format!(
            "{exclusive}{write}<D:owner>me &amp; you</D:owner>"
        ));
        assert_eq!(
            info,
            Ok(Some(LockInfo {
                is_shared: false,
                owner: "<ns0:owner xmlns:ns0=\"DAV:\">me &amp; you</ns0:owner>".to_owned()
            }))
        );
        let shared = of(&format!("<D:lockscope><D:shared/></D:lockscope>{write}"));
        assert!(shared.unwrap().unwrap().is_shared);
        let long = "l".repeat(OWNER_BYTES_MAX);
        for inner in [
            exclusive,
            write,
            &format!("<D:lockscope/>{write}"),
            &format!("{exclusive}<D:locktype><D:read/></D:locktype>"),
            &format!("{exclusive}{write}<D:owner>{long}</D:owner>"),
        ] {
            assert_eq!(of(inner), Err(Status::BAD_REQUEST), "{inner}");
        }
    }
}
