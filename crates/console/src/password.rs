//! Password hashes: Argon2id (RFC 9106), in the PHC string format.
//!
//! Called by: log-in, on a thread of its own; the command that writes the users file.
//! Caveat: a verification takes 19 MiB and some 30 ms; the caller bounds how many run at a time.

use argon2::{
    Argon2,
    password_hash::{PasswordHash, PasswordHasher as _, PasswordVerifier as _, SaltString},
};

/// Longest password; longer ones only cost time.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// A hash that no password has, which takes as long as a real one: unknown users are not told
/// apart.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$c2FrZXItY29uc29sZQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

pub fn hash(password: &str) -> Result<String, String> {
    let mut salt = [0; 16];
    aws_lc_rs::rand::fill(&mut salt).map_err(|_| "the system gives no random bytes")?;
    let salt = SaltString::encode_b64(&salt).map_err(|error| error.to_string())?;
    let hash = Argon2::default().hash_password(password.as_bytes(), &salt);
    hash.map(|hash| hash.to_string())
        .map_err(|error| error.to_string())
}

/// `hash`: `None` for an unknown user.
pub fn verify(password: &str, hash: Option<&str>) -> bool {
    let is_known = hash.is_some();
    let Ok(parsed) = PasswordHash::new(hash.unwrap_or(NOBODY)) else {
        return false;
    };
    let is_right = password.len() <= PASSWORD_BYTES_MAX
        && Argon2::default()
            .verify_password(password.as_bytes(), &parsed)
            .is_ok();
    is_right && is_known
}

/// Returns whether the text is a hash that [`verify`] understands.
pub fn is_hash(text: &str) -> bool {
    PasswordHash::new(text).is_ok_and(|hash| hash.algorithm.as_str() == "argon2id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_and_wrong_passwords() {
        let own = hash("correct horse").expect("hashed");
        assert!(is_hash(&own) && verify("correct horse", Some(&own)));
        assert!(!verify("correct horsf", Some(&own)));
        assert!(!verify("", None) && !verify("correct horse", None));
        assert!(!verify("x", Some("plain")) && !is_hash("plain"));
        assert_ne!(own, hash("correct horse").expect("hashed"), "salted");
        let longest = "a".repeat(PASSWORD_BYTES_MAX);
        let own = hash(&longest).expect("hashed");
        assert!(verify(&longest, Some(&own)));
        assert!(!verify(&(longest + "a"), Some(&own)));
        assert!(is_hash(NOBODY));
    }
}
