//! UNLOCK (RFC 4918 section 9.11).
//!
//! Called by: the handler, in a job.
//! Caveat: a token that does not lock the resource is answered with 400, as in Apache (RFC 4918
//! section 9.11.1 has 409).
//! Out of scope: locks that end by themselves (`lock_database`).

use crate::{
    operation::{Operation, Outcome},
    resource::Resource,
};
use saker_http::Status;

/// Reads the field `Lock-Token`.
///
/// # Errors
/// 400 if it is missing or has another form.
pub fn token(field: Option<&[u8]>) -> Result<String, Status> {
    let text = field.and_then(|text| std::str::from_utf8(text).ok());
    let token = text
        .and_then(|text| text.trim().strip_prefix('<')?.strip_suffix('>'))
        .ok_or(Status::BAD_REQUEST)?;
    Ok(token.to_ascii_lowercase())
}

/// Removes a lock.
///
/// # Errors
/// 400 if the token does not lock the resource, 403 if the lock belongs to another user.
pub fn run(operation: &Operation, resource: &Resource, token: &str) -> Outcome {
    let removed: Result<(), Status> = operation.change_locks(|locks| {
        let lock = locks
            .on(&resource.path)
            .find(|lock| lock.token == token)
            .ok_or(Status::BAD_REQUEST)?;
        if lock.user != operation.claim.user {
            return Err(Status::FORBIDDEN);
        }
        locks.0.retain(|lock| lock.token != token);
        Ok(())
    })?;
    removed?;
    Ok(Status::NO_CONTENT.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_stand_in_angle_brackets() {
        assert_eq!(token(Some(b" <a:B> ")), Ok("a:b".to_owned()));
        for text in [None, Some(&b"a:b"[..]), Some(b"<a:b"), Some(b"\xff")] {
            assert_eq!(token(text), Err(Status::BAD_REQUEST));
        }
    }
}
