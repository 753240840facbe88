//! Clearances: short texts in cookies that only this server can create, each for a purpose, until a
//! time.
//!
//! Called by: challenges and hotlink triggers. Format: the expiry time in hexadecimal, a dot, and
//! an HMAC-SHA256 over purpose, time, and the binding of the clearance. Two keys are valid at a
//! time, so that a key change invalidates no clearance early. Code that stores the keys in a file
//! reads and writes [`KeyRing::to_text`].

use crate::mac;
use aws_lc_rs::rand;
use std::{
    fmt,
    sync::{OnceLock, PoisonError, RwLock},
};

/// Time after which a new key signs; the previous one stays valid for as long again.
const KEY_LIFE_S: i64 = 7 * 86_400;
/// Number of valid keys.
const KEYS_MAX: usize = 2;
const KEY_BYTES: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    since: i64,
    bytes: [u8; KEY_BYTES],
}

/// Makes the key of a period, the same on all servers of a cluster.
pub type DeriveKey = dyn Fn(i64) -> [u8; KEY_BYTES] + Send + Sync;

/// The server's keys, newest first; empty until one is needed.
#[derive(Default)]
pub struct KeyRing {
    keys: RwLock<Vec<Key>>,
    /// Set where the servers of a cluster have the same keys.
    derived: OnceLock<Box<DeriveKey>>,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").finish_non_exhaustive()
    }
}

impl KeyRing {
    /// Takes the keys from `derive` from now on, instead of random ones; once.
    pub fn derive(&self, derive: Box<DeriveKey>, now: i64) {
        if self.derived.set(derive).is_ok() {
            self.keys
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .clear();
            self.refresh(now);
        }
    }

    /// True if the keys are derived, and need not be saved.
    pub fn is_derived(&self) -> bool {
        self.derived.get().is_some()
    }

    /// Loads the output of [`KeyRing::to_text`]; invalid lines are skipped.
    pub fn load(&self, text: &str) {
        let mut keys: Vec<Key> = text.lines().filter_map(read_key).collect();
        keys.sort_by_key(|key| std::cmp::Reverse(key.since));
        keys.truncate(KEYS_MAX);
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    pub fn to_text(&self) -> String {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter()
            .map(|key| format!("{} {}\n", key.since, mac::hex(&key.bytes)))
            .collect()
    }

    /// Sees to it that there is a key that is young enough. `true`: a new one was made, and the
    /// text should be written.
    pub fn refresh(&self, now: i64) -> bool {
        let is_good = |keys: &[Key]| {
            keys.first()
                .is_some_and(|key| (key.since..key.since.saturating_add(KEY_LIFE_S)).contains(&now))
        };
        if is_good(&self.keys.read().unwrap_or_else(PoisonError::into_inner)) {
            return false;
        }
        if let Some(derive) = self.derived.get() {
            let since = now - now.rem_euclid(KEY_LIFE_S);
            // Clocks differ: another server may sign with the next one already.
            let periods = [since, since - KEY_LIFE_S, since + KEY_LIFE_S];
            let keys = periods.map(|since| Key {
                since,
                bytes: derive(since),
            });
            *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys.to_vec();
            return false;
        }
        let mut bytes = [0; KEY_BYTES];
        if rand::fill(&mut bytes).is_err() {
            return false;
        }
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if is_good(&keys) {
            return false;
        }
        // One of the future is left where the clock was set back: its passes are good, and it signs
        // no more.
        keys.insert(0, Key { since: now, bytes });
        keys.truncate(KEYS_MAX);
        true
    }

    /// A pass for `purpose` until `until`. `None`: the system gives no random bytes for a key.
    pub fn sign(&self, purpose: &[u8], bound_to: &[u8], until: i64, now: i64) -> Option<String> {
        self.refresh(now);
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let code = code(keys.first()?, purpose, bound_to, until);
        Some(format!("{until:x}.{code}"))
    }

    /// Returns the pass's expiry time, if this key ring signed it and it is valid at `now`.
    pub fn verify(&self, pass: &[u8], purpose: &[u8], bound_to: &[u8], now: i64) -> Option<i64> {
        let (until, given) = std::str::from_utf8(pass).ok()?.split_once('.')?;
        let time = i64::from_str_radix(until, 16)
            .ok()
            .filter(|time| format!("{time:x}") == until)?;
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let is_ours = keys.iter().any(|key| {
            mac::same(
                code(key, purpose, bound_to, time).as_bytes(),
                given.as_bytes(),
            )
        });
        (is_ours && time > now).then_some(time)
    }
}

fn code(key: &Key, purpose: &[u8], bound_to: &[u8], until: i64) -> String {
    let length = (purpose.len() as u64).to_be_bytes();
    let message = [&length[..], purpose, &until.to_be_bytes(), bound_to].concat();
    mac::base64url(&mac::hmac_sha256(&key.bytes, &message))
}

fn read_key(line: &str) -> Option<Key> {
    let (since, hex) = line.split_once(' ')?;
    let mut bytes = [0; KEY_BYTES];
    if hex.len() != 2 * KEY_BYTES || !hex.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(Key {
        since: since.parse().ok()?,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    #[test]
    fn a_pass_is_good_for_its_purpose_place_and_time() {
        let keys = KeyRing::default();
        let pass = keys.sign(b"trigger", b"10.0.0", NOW + 60, NOW).unwrap();
        let verify =
            |purpose: &[u8], bound: &[u8], now| keys.verify(pass.as_bytes(), purpose, bound, now);
        assert_eq!(verify(b"trigger", b"10.0.0", NOW), Some(NOW + 60));
        assert_eq!(verify(b"trigger", b"10.0.0", NOW + 59), Some(NOW + 60));
        assert_eq!(verify(b"trigger", b"10.0.0", NOW + 60), None);
        assert_eq!(verify(b"trigge", b"r10.0.0", NOW), None);
        assert_eq!(verify(b"trigger", b"10.0.1", NOW), None);
        assert_eq!(
            KeyRing::default().verify(pass.as_bytes(), b"trigger", b"10.0.0", NOW),
            None
        );
    }

    #[test]
    fn servers_with_one_secret_have_the_same_keys() {
        let ring = |secret: u8, now| {
            let keys = KeyRing::default();
            keys.sign(b"a", b"", now + 60, now).unwrap();
            keys.derive(
                Box::new(move |since| [secret ^ since.to_be_bytes()[5]; KEY_BYTES]),
                now,
            );
            keys
        };
        let change = NOW - NOW.rem_euclid(KEY_LIFE_S) + KEY_LIFE_S;
        // Clocks that are minutes apart, on both sides of a change of the key.
        for (signs, verifies) in [(change - 100, change + 100), (change + 100, change - 100)] {
            let pass = ring(1, signs)
                .sign(b"a", b"b", change + 600, signs)
                .unwrap();
            let verify =
                |secret| ring(secret, verifies).verify(pass.as_bytes(), b"a", b"b", verifies);
            assert_eq!(verify(1), Some(change + 600));
            assert_eq!(verify(2), None);
        }
        let keys = ring(1, NOW);
        assert!(!keys.refresh(change + 1), "nothing to save");
        let pass = keys.sign(b"a", b"", change + 60, change + 1).unwrap();
        let other = ring(1, change + 1);
        assert!(
            other
                .verify(pass.as_bytes(), b"a", b"", change + 1)
                .is_some()
        );
    }

    #[test]
    fn every_bit_of_a_pass_counts() {
        let keys = KeyRing::default();
        let pass = keys.sign(b"a", b"b", NOW + 60, NOW).unwrap();
        for bit in 0..pass.len() * 8 {
            let mut other = pass.clone().into_bytes();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                keys.verify(&other, b"a", b"b", NOW),
                None,
                "{:?}",
                String::from_utf8_lossy(&other)
            );
        }
        for bad in ["", ".", "x.y", "-1.a", "ffffffffffffffffff.a"] {
            assert_eq!(keys.verify(bad.as_bytes(), b"a", b"b", NOW), None, "{bad}");
        }
    }

    #[test]
    fn keys_change_and_the_one_before_stays_good() {
        let keys = KeyRing::default();
        assert!(keys.refresh(NOW) && !keys.refresh(NOW + KEY_LIFE_S - 1));
        let first = keys.sign(b"a", b"", NOW + 3 * KEY_LIFE_S, NOW).unwrap();
        assert!(keys.refresh(NOW + KEY_LIFE_S));
        assert!(
            keys.verify(first.as_bytes(), b"a", b"", NOW + KEY_LIFE_S)
                .is_some()
        );
        assert!(keys.refresh(NOW + 2 * KEY_LIFE_S));
        assert!(
            keys.verify(first.as_bytes(), b"a", b"", NOW + 2 * KEY_LIFE_S)
                .is_none()
        );
        let text = keys.to_text();
        let second = keys
            .sign(b"a", b"", NOW + 3 * KEY_LIFE_S, NOW + 2 * KEY_LIFE_S)
            .unwrap();
        let other = KeyRing::default();
        other.load(&format!("nonsense\n1 zz\n{text}"));
        assert_eq!(other.to_text(), text);
        assert!(
            other
                .verify(second.as_bytes(), b"a", b"", NOW + 2 * KEY_LIFE_S)
                .is_some()
        );
    }
}
