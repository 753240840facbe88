//! Session tickets (RFC 5077, RFC 8446 section 4.6.1): sealed with keys that all workers share, and
//! all machines that have the same files.
//!
//! The newest key makes tickets, older ones still open them. Own keys are random and change by
//! time; keys from files change when the files do. Sealing is AES-256-GCM-SIV: tickets of several
//! machines have random nonces under one key, and a nonce that comes twice must not give the key
//! away. A ticket is bound to the policy of its site, so that a site that asks for client
//! certificates takes none that another site gave. Absent on purpose: sessions kept by the server.

use crate::{identities::LoadProblem, policy::PolicyDigest};
use aws_lc_rs::{
    aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, KeyType, Salt},
    rand,
};
use rustls::{pki_types::UnixTime, server::ProducesTickets};
use saker_config::model::{Origin, ServerTls};
use saker_net::privileged;
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

const NAME_BYTES: usize = 16;
/// Length of an own key: the name and the secret.
const SECRET_BYTES: usize = 48;
/// Own keys: the newest, and the one before.
const OWN_KEYS_MAX: usize = 2;
/// RFC 8446 section 4.6.1: seven days at most.
const LIFETIME_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Lifetime of tickets whose keys come from files.
const FILE_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The ticket keys of the process.
pub struct Tickets {
    keys: RwLock<Keys>,
    files: Vec<PathBuf>,
    rotation: Duration,
}

struct Keys {
    /// The first makes tickets.
    all: Vec<Arc<Key>>,
    /// Time of the next rotation of generated keys.
    rotate_at: Option<Instant>,
}

struct Key {
    name: [u8; NAME_BYTES],
    sealing: LessSafeKey,
    /// `None`: the key is from a file, which other processes read by themselves.
    own: Option<[u8; SECRET_BYTES]>,
}

/// Own keys, as the process that takes over goes on with them.
pub struct OwnKeys {
    /// The newest first.
    pub secrets: Vec<Vec<u8>>,
    pub rotate_in: Duration,
}

impl Tickets {
    /// From the settings. Own keys live on from the configuration before. Files that can't be used
    /// are told of; if none can, own keys serve.
    pub fn load(settings: &ServerTls, previous: Option<&Tickets>) -> (Tickets, Vec<LoadProblem>) {
        let rotation = Duration::from_millis(settings.ticket_rotation_ms.max(1000));
        if settings.ticket_keys.is_empty() {
            return (
                previous
                    .and_then(|before| before.continued(rotation))
                    .unwrap_or_else(|| Tickets::own(rotation)),
                Vec::new(),
            );
        }
        let (keys, problems) = read_keys(&settings.ticket_keys);
        let keys = if keys.is_empty() {
            own_key().into_iter().collect()
        } else {
            keys
        };
        let keys = RwLock::new(Keys {
            all: keys,
            rotate_at: None,
        });
        (
            Tickets {
                keys,
                files: settings.ticket_keys.clone(),
                rotation,
            },
            problems,
        )
    }

    /// Random keys that change each `rotation`.
    pub fn own(rotation: Duration) -> Tickets {
        let keys = Keys {
            all: own_key().into_iter().collect(),
            rotate_at: Instant::now().checked_add(rotation),
        };
        Tickets {
            keys: RwLock::new(keys),
            files: Vec::new(),
            rotation,
        }
    }

    /// Files that keys were read from, to be watched.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Reads the files again. If any is bad, the keys stay as they are.
    pub fn reload(&self) -> Vec<LoadProblem> {
        if self.files.is_empty() {
            return Vec::new();
        }
        let (keys, problems) = read_keys(&self.files);
        if problems.is_empty() && !keys.is_empty() {
            self.keys
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .all = keys;
        }
        problems
    }

    /// Makes a new own key now; the one before still opens tickets.
    pub fn rotate(&self) {
        if self.files.is_empty() {
            self.keys
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .rotate(self.rotation, Instant::now());
        }
    }

    /// Returns the own keys for the process that takes over. `None`: keys are from files.
    pub fn own_keys(&self) -> Option<OwnKeys> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let rotate_in = keys.rotate_at?.saturating_duration_since(Instant::now());
        let secrets = keys.all.iter().filter_map(|key| key.own);
        Some(OwnKeys {
            secrets: secrets.map(|secret| secret.to_vec()).collect(),
            rotate_in,
        })
    }

    /// Goes on with the own keys of the process before, so that its tickets are good here. Returns
    /// false if they can't be used, or if the configuration names files; nothing changes then.
    pub fn continue_with(&self, before: &OwnKeys) -> bool {
        let is_possible = self.files.is_empty()
            && (1..=OWN_KEYS_MAX).contains(&before.secrets.len())
            && before.secrets.iter().all(|one| one.len() == SECRET_BYTES);
        let own = |secret: &Vec<u8>| Key::from_own(secret).map(Arc::new);
        let Some(all) = is_possible
            .then(|| before.secrets.iter().map(own).collect::<Option<Vec<_>>>())
            .flatten()
        else {
            return false;
        };
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        keys.all = all;
        keys.rotate_at = Instant::now().checked_add(before.rotate_in.min(self.rotation));
        true
    }

    fn continued(&self, rotation: Duration) -> Option<Tickets> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let rotate_at = keys.rotate_at?.min(Instant::now().checked_add(rotation)?);
        let keys = Keys {
            all: keys.all.clone(),
            rotate_at: Some(rotate_at),
        };
        Some(Tickets {
            keys: RwLock::new(keys),
            files: Vec::new(),
            rotation,
        })
    }

    fn newest(&self, now: Instant) -> Option<Arc<Key>> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        if keys.rotate_at.is_none_or(|at| now < at) {
            return keys.all.first().cloned();
        }
        drop(keys);
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if keys.rotate_at.is_some_and(|at| now >= at) {
            keys.rotate(self.rotation, now);
        }
        keys.all.first().cloned()
    }

    fn named(&self, name: &[u8]) -> Option<Arc<Key>> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.all.iter().find(|key| key.name == name).cloned()
    }

    fn lifetime(&self) -> Duration {
        let lifetime = if self.files.is_empty() {
            self.rotation
        } else {
            FILE_LIFETIME
        };
        lifetime.min(LIFETIME_MAX)
    }

    /// `max_s`: of a site that wants it shorter.
    fn lifetime_s(&self, max_s: Option<u32>) -> u32 {
        let lifetime = u32::try_from(self.lifetime().as_secs()).unwrap_or(u32::MAX);
        max_s.map_or(lifetime, |max| max.min(lifetime))
    }

    fn seal(&self, context: &PolicyDigest, plain: &[u8], now: UnixTime) -> Option<Vec<u8>> {
        let key = self.newest(Instant::now())?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = [&now.as_secs().to_be_bytes()[..], plain].concat();
        let aad = Aad::from(context.as_bytes());
        key.sealing
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed)
            .ok()?;
        Some([&key.name[..], &nonce, &sealed].concat())
    }

    fn open(
        &self,
        context: &PolicyDigest,
        ticket: &[u8],
        now: UnixTime,
        lifetime_max_s: Option<u32>,
    ) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME_BYTES)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let key = self.named(name)?;
        let mut opened = sealed.to_vec();
        let aad = Aad::from(context.as_bytes());
        let opened = key
            .sealing
            .open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut opened)
            .ok()?;
        let (made, plain) = opened.split_first_chunk::<8>()?;
        let age = now.as_secs().saturating_sub(u64::from_be_bytes(*made));
        (age <= u64::from(self.lifetime_s(lifetime_max_s))).then(|| plain.to_vec())
    }
}

impl Keys {
    /// The last two are kept, so that a ticket lives for one rotation at least.
    fn rotate(&mut self, rotation: Duration, now: Instant) {
        if let Some(key) = own_key() {
            self.all.insert(0, key);
            self.all.truncate(OWN_KEYS_MAX);
        }
        self.rotate_at = now.checked_add(rotation);
    }
}

fn own_key() -> Option<Arc<Key>> {
    let mut secret = [0; SECRET_BYTES];
    rand::fill(&mut secret).ok()?;
    Key::from_own(&secret).map(Arc::new)
}

/// 32 bytes out of HKDF.
struct KeyBytes;

impl KeyType for KeyBytes {
    fn len(&self) -> usize {
        32
    }
}

impl Key {
    fn from_own(secret: &[u8]) -> Option<Key> {
        let own = secret.try_into().ok()?;
        Some(Key {
            own: Some(own),
            ..Key::from_secret(secret)?
        })
    }

    /// The first bytes are the key's public name.
    fn from_secret(secret: &[u8]) -> Option<Key> {
        let (name, secret) = secret.split_first_chunk::<NAME_BYTES>()?;
        let mut key = [0; 32];
        let derived = Salt::new(HKDF_SHA256, b"saker session tickets").extract(secret);
        derived
            .expand(&[name], KeyBytes)
            .ok()?
            .fill(&mut key)
            .ok()?;
        Some(Key {
            name: *name,
            sealing: LessSafeKey::new(UnboundKey::new(&AES_256_GCM_SIV, &key).ok()?),
            own: None,
        })
    }
}

fn read_keys(files: &[PathBuf]) -> (Vec<Arc<Key>>, Vec<LoadProblem>) {
    let (mut keys, mut problems) = (Vec::new(), Vec::new());
    for file in files {
        match read_key(file) {
            Ok(key) => keys.push(Arc::new(key)),
            Err(problem) => problems.push(problem),
        }
    }
    (keys, problems)
}

fn read_key(file: &Path) -> Result<Key, LoadProblem> {
    let shown = file.display();
    let secret = privileged::read(file).map_err(|error| {
        LoadProblem::error(
            Origin::built_in(),
            format!("the session ticket key {shown} can't be read: {error}"),
        )
        .with_help(format!("make one: openssl rand -out {shown} 80"))
    })?;
    if secret.len() != SECRET_BYTES && secret.len() != 80 {
        let problem = format!(
            "the session ticket key {shown} has {} bytes, not 48 or 80",
            secret.len()
        );
        return Err(LoadProblem::error(Origin::built_in(), problem)
            .with_help(format!("make one: openssl rand -out {shown} 80")));
    }
    Key::from_secret(&secret).ok_or_else(|| {
        LoadProblem::error(
            Origin::built_in(),
            format!("the session ticket key {shown} can't be used"),
        )
    })
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets")
            .field("files", &self.files)
            .field("rotation", &self.rotation)
            .finish_non_exhaustive()
    }
}

/// The tickets of sites with one policy.
#[derive(Debug)]
pub(crate) struct PolicyTickets {
    pub tickets: Arc<Tickets>,
    pub policy: PolicyDigest,
    pub lifetime_max_s: Option<u32>,
}

impl ProducesTickets for PolicyTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.tickets.lifetime_s(self.lifetime_max_s)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.tickets.seal(&self.policy, plain, UnixTime::now())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.tickets
            .open(&self.policy, cipher, UnixTime::now(), self.lifetime_max_s)
    }
}

#[cfg(test)]
mod tests;
