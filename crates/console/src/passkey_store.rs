//! Passkeys of users, in the state directory; and the challenges that they answer.
//!
//! Called by: `passkey_pages`.
//! Caveat: a passkey belongs to a line of the users file: it is worth nothing once the user has
//! another password or role, or is gone, even if one of this name comes again.
//! Out of scope: verification (`passkeys`).

use crate::{audit, history_files::replace, passkeys::PublicKey, users::Account};
use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use std::{collections::HashMap, fs, path::Path};

/// Passkeys in all, and of one user.
const PASSKEYS_MAX: usize = 500;
pub const PASSKEYS_OF_USER_MAX: usize = 10;
/// Time for answering a challenge.
const CHALLENGE_TIME_S: i64 = 300;
/// Answered challenges that are remembered; log-ins are limited to fewer in that time.
const ANSWERED_MAX: usize = 10_000;
const RANDOM_BYTES: usize = 16;

/// A passkey of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passkey {
    pub id: Vec<u8>,
    pub user: String,
    /// Stamp of the user's line.
    pub stamp: [u8; 32],
    pub key: PublicKey,
    pub counter: u32,
    pub added_s: i64,
}

impl Passkey {
    fn to_json(&self) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({
            "id": encode(&self.id), "user": self.user, "stamp": encode(&self.stamp),
            "key": self.key.to_json(), "counter": self.counter, "added": self.added_s,
        })
    }

    fn from_json(value: &Value) -> Option<Passkey> {
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(value[name].as_str()?).ok();
        Some(Passkey {
            id: bytes("id")?,
            user: value["user"].as_str()?.to_owned(),
            stamp: bytes("stamp")?.try_into().ok()?,
            key: PublicKey::from_json(&value["key"])?,
            counter: u32::try_from(value["counter"].as_u64()?).ok()?,
            added_s: value["added"].as_i64()?,
        })
    }

    pub fn is_of(&self, account: &Account) -> bool {
        self.user == account.name && self.stamp == account.stamp
    }
}

/// All passkeys. A file that cannot be read has none.
pub fn load(state_dir: &Path) -> Vec<Passkey> {
    let text = fs::read_to_string(state_dir.join("console/passkeys.json")).unwrap_or_default();
    let all: Value = serde_json::from_str(&text).unwrap_or_default();
    let all = all.as_array().into_iter().flatten();
    all.filter_map(Passkey::from_json).collect()
}

fn save(state_dir: &Path, passkeys: &[Passkey]) -> Result<(), String> {
    let all: Value = passkeys.iter().map(Passkey::to_json).collect();
    let write = || {
        let path = audit::folder(state_dir)?.join("passkeys.json");
        replace(&path, &format!("{all}\n"), None)
    };
    write().map_err(|error| format!("the passkeys cannot be written: {error}"))
}

/// Adds a passkey, or replaces the one with its id.
pub fn add(state_dir: &Path, passkey: Passkey) -> Result<(), String> {
    let mut all = load(state_dir);
    if all
        .iter()
        .any(|one| one.id == passkey.id && one.user != passkey.user)
    {
        return Err("this passkey is another user's".to_owned());
    }
    all.retain(|one| one.id != passkey.id);
    let own = all.iter().filter(|one| one.user == passkey.user).count();
    if own >= PASSKEYS_OF_USER_MAX || all.len() >= PASSKEYS_MAX {
        return Err(format!(
            "there are too many passkeys (at most {PASSKEYS_OF_USER_MAX} for a user, {PASSKEYS_MAX} in all)"
        ));
    }
    all.push(passkey);
    save(state_dir, &all)
}

/// Removes a passkey of a user.
pub fn remove(state_dir: &Path, user: &str, id: &[u8]) -> Result<(), String> {
    let mut all = load(state_dir);
    let before = all.len();
    all.retain(|one| one.user != user || one.id != id);
    match all.len() < before {
        true => save(state_dir, &all),
        false => Err("there is no such passkey".to_owned()),
    }
}

/// Notes the counter of a passkey that was used.
pub fn set_counter(state_dir: &Path, id: &[u8], counter: u32) -> Result<(), String> {
    let mut all = load(state_dir);
    match all.iter_mut().find(|one| one.id == id) {
        // Of many passkeys it never changes.
        Some(one) if one.counter == counter => Ok(()),
        Some(one) => {
            one.counter = counter;
            save(state_dir, &all)
        }
        None => Err("there is no such passkey".to_owned()),
    }
}

/// Challenges: signed with a key of this process, so that requests for them cost no memory; and
/// those that were answered, which are worth nothing any more.
pub struct Challenges {
    key: hmac::Key,
    /// Time of their end.
    answered: HashMap<String, i64>,
}

impl Default for Challenges {
    fn default() -> Challenges {
        let mut key = [0; 32];
        // Without random bytes no challenge is made either.
        let _ = aws_lc_rs::rand::fill(&mut key);
        Challenges {
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            answered: HashMap::new(),
        }
    }
}

impl Challenges {
    /// A challenge for a purpose; `None`: the system gives no random bytes.
    pub fn make(&self, purpose: &str, now_s: i64) -> Option<String> {
        let mut random = [0; RANDOM_BYTES];
        aws_lc_rs::rand::fill(&mut random).ok()?;
        let mut bytes = random.to_vec();
        bytes.extend((now_s + CHALLENGE_TIME_S).to_be_bytes());
        let tag = self.tag(purpose, &bytes);
        bytes.extend(tag.as_ref());
        Some(URL_SAFE_NO_PAD.encode(bytes))
    }

    fn tag(&self, purpose: &str, bytes: &[u8]) -> hmac::Tag {
        hmac::sign(&self.key, &[bytes, purpose.as_bytes()].concat())
    }

    /// Uses a challenge up. Returns whether it was made for the purpose, is not too old, and was
    /// not answered before.
    pub fn answer(&mut self, challenge: &str, purpose: &str, now_s: i64) -> bool {
        let until_s = self
            .until(challenge, purpose)
            .filter(|until_s| *until_s > now_s);
        self.answered.retain(|_, until_s| *until_s > now_s);
        match until_s {
            Some(until_s) if self.answered.len() < ANSWERED_MAX => self
                .answered
                .insert(challenge.to_owned(), until_s)
                .is_none(),
            _ => false,
        }
    }

    fn until(&self, challenge: &str, purpose: &str) -> Option<i64> {
        let bytes = URL_SAFE_NO_PAD.decode(challenge).ok()?;
        let (signed, tag) = bytes.split_at_checked(RANDOM_BYTES + 8)?;
        let message = [signed, purpose.as_bytes()].concat();
        hmac::verify(&self.key, &message, tag).ok()?;
        let until_s = signed.get(RANDOM_BYTES..)?.try_into().ok()?;
        Some(i64::from_be_bytes(until_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_answered_once_in_time_and_for_their_purpose() {
        let mut challenges = Challenges::default();
        let one = challenges.make("log-in", 0).expect("made");
        assert!(!challenges.answer(&one, "add ada", 1));
        assert!(
            !Challenges::default().answer(&one, "log-in", 1),
            "of another process"
        );
        assert!(!challenges.answer(&format!("{one}A"), "log-in", 1));
        assert!(!challenges.answer("", "log-in", 1));
        assert!(challenges.answer(&one, "log-in", 1));
        assert!(!challenges.answer(&one, "log-in", 1), "used");
        let late = challenges.make("log-in", 0).expect("made");
        assert!(!challenges.answer(&late, "log-in", CHALLENGE_TIME_S));
        assert!(challenges.answer(&late, "log-in", CHALLENGE_TIME_S - 1));
    }

    #[test]
    fn passkeys_are_kept_and_bounded() {
        let folder = std::env::temp_dir().join(format!("console-passkeys-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder");
        let passkey = |id: usize, user: &str| Passkey {
            id: id.to_be_bytes().to_vec(),
            user: user.to_owned(),
            stamp: [1; 32],
            key: PublicKey::Ed25519(vec![2; 32]),
            counter: 0,
            added_s: 3,
        };
        for id in 0..PASSKEYS_OF_USER_MAX {
            add(&folder, passkey(id, "ada")).expect("added");
        }
        assert!(add(&folder, passkey(99, "ada")).is_err());
        assert!(add(&folder, passkey(0, "eve")).is_err(), "another user's");
        add(&folder, passkey(99, "eve")).expect("added");
        let first = passkey(0, "ada");
        assert!(remove(&folder, "eve", &first.id).is_err());
        set_counter(&folder, &first.id, 7).expect("set");
        assert_eq!(load(&folder)[0].counter, 7);
        remove(&folder, "ada", &first.id).expect("removed");
        assert_eq!(load(&folder).len(), PASSKEYS_OF_USER_MAX);
        assert!(set_counter(&folder, &first.id, 8).is_err());
        let _ = fs::remove_dir_all(folder);
    }
}
