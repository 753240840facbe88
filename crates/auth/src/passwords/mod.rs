//! Checks passwords against the forms that `htpasswd` and crypt(3) write.
//!
//! As `apr_password_validate`: bcrypt, APR's MD5, SHA-1, and the other forms of crypt(3).
//!
//! Called by: `providers`.
//! Caveat: most forms are slow on purpose, so they are computed on threads of their own and the
//! results are kept under a keyed hash of stored form and password.
//! Out of scope: passwords in the clear, which Apache does not accept on Unix; yescrypt and scrypt.

mod des_crypt;
mod encoding;
mod md5_crypt;
mod sha_crypt;

use saker_net::blocking::{Answer, Answers, Pool, Turn};
use sha1::{Digest, Sha1};
use sha2::Sha256;
use std::{
    hash::{BuildHasher, RandomState},
    sync::OnceLock,
    time::Duration,
};

/// Results kept, and their lifetime.
const KEPT_MAX: usize = 8192;
const KEPT_FOR: Duration = Duration::from_secs(3600);
/// Lifetime of wrong passwords: anyone can have any number of them looked at.
const WRONG_KEPT_FOR: Duration = Duration::from_secs(60);
/// The maximum of `htpasswd -C`: some seconds. A file may claim 31, which would take days; such
/// passwords never match.
const BCRYPT_COST_MAX: u32 = 17;

/// Threads that compute password hashes.
static POOL: Pool = Pool::new("passwords");
static CHECKED: Answers<[u8; 32], bool> =
    Answers::new(&POOL, KEPT_MAX, KEPT_FOR).with_brief(|is_right| !is_right, WRONG_KEPT_FOR);

/// Checks `password` against `stored`. `turn`: the one of the site of the password file and of the
/// client.
pub fn check(turn: Turn, stored: &str, password: &[u8]) -> Answer<bool> {
    // A zero byte ends the text, as in C.
    let password = password.split(|byte| *byte == 0).next().unwrap_or_default();
    if let Some(text) = stored.strip_prefix("{SHA}") {
        return Answer::Known(is_same(
            &saker_ap_expr::base64_encode(&Sha1::digest(password)),
            text.as_bytes(),
        ));
    }
    let (stored, password) = (stored.to_owned(), password.to_vec());
    CHECKED.ask(turn, &key(&stored, &password), false, move || {
        is_password(&stored, &password)
    })
}

/// A keyed hash: without the process's secret, passwords can't be tried against it.
fn key(stored: &str, password: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix(secret());
    hash.update((stored.len() as u64).to_ne_bytes());
    hash.update(stored);
    hash.update(password);
    hash.finalize().into()
}

/// The random secret of this process.
pub fn secret() -> &'static [u8; 64] {
    static SECRET: OnceLock<[u8; 64]> = OnceLock::new();
    SECRET.get_or_init(|| {
        let mut secret = [0; 64];
        // Keys of the standard library come from the kernel; each new state differs from the last.
        for part in secret.chunks_exact_mut(8) {
            part.copy_from_slice(
                &RandomState::new()
                    .hash_one(std::process::id())
                    .to_ne_bytes(),
            );
        }
        secret
    })
}

/// Checks the slow forms.
fn is_password(stored: &str, password: &[u8]) -> bool {
    let made = if ["$2y$", "$2a$", "$2b$", "$2x$"]
        .iter()
        .any(|start| stored.starts_with(start))
    {
        return bcrypt_cost(stored).is_some_and(|cost| cost <= BCRYPT_COST_MAX)
            && bcrypt::verify(password, stored).unwrap_or(false);
    } else if stored.starts_with("$apr1$") || stored.starts_with("$1$") {
        md5_crypt::crypt(password, stored)
    } else if stored.starts_with("$5$") || stored.starts_with("$6$") {
        sha_crypt::crypt(password, stored)
    } else {
        des_crypt::crypt(password, stored)
    };
    made.is_some_and(|made| is_same(made.as_bytes(), stored.as_bytes()))
}

/// The cost in the hash: the work doubles with each step.
fn bcrypt_cost(stored: &str) -> Option<u32> {
    stored.split('$').nth(2)?.parse().ok()
}

/// Compares in constant time.
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differing = one
        .iter()
        .zip(other)
        .fold(0, |so_far, (left, right)| so_far | (left ^ right));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests;
