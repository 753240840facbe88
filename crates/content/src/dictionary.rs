//! Compression dictionaries (RFC 9842): responses that clients keep, and content compressed with
//! them as `dcz`.
//!
//! Called by: the filter `dictionaries` of the crate `content-filters`.
//! Caveat: shared by all workers, because a client that has a dictionary does not request it again.
//! Everything is bounded; what has been dropped costs a client some bytes, nothing else.
//! Out of scope: `dcb` (the Brotli encoder of this workspace has no shared dictionaries in the
//! sense of section 4), and which responses may be dictionaries or be compressed with them.

use crate::coding;
use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};
use std::{
    collections::{HashMap, VecDeque},
    io::{self, Write},
    sync::{Arc, PoisonError, RwLock},
};

/// Maximum bytes of a dictionary.
pub const DICTIONARY_BYTES_MAX: usize = 2 << 20;
/// Maximum bytes of all dictionaries, and of all results.
const BYTES_MAX: usize = 16 << 20;
/// Maximum number of dictionaries, and of results.
const ENTRIES_MAX: usize = 1_024;
/// Section 5: a skippable frame of Zstandard with the hash of the dictionary.
const DCZ_MAGIC: [u8; 8] = [0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0];
/// The first bytes of a formatted Zstandard dictionary, which is none in the sense of section 5.
const FORMATTED: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// SHA-256 of a dictionary's content.
pub type DictionaryHash = [u8; 32];

/// The dictionaries that clients may have, by origin, and content compressed with them.
#[derive(Default)]
pub struct DictionaryStore(RwLock<StoreState>);

#[derive(Default)]
struct StoreState {
    dictionaries: Bounded<(Vec<u8>, DictionaryHash)>,
    results: Bounded<[u8; 32]>,
}

/// Values by key, up to a number and a sum of bytes; the oldest go first.
struct Bounded<K> {
    values: HashMap<K, Arc<[u8]>>,
    order: VecDeque<K>,
    bytes: usize,
}

impl<K> Default for Bounded<K> {
    fn default() -> Bounded<K> {
        Bounded {
            values: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<K: std::hash::Hash + Eq + Clone> Bounded<K> {
    fn put(&mut self, key: K, value: Arc<[u8]>) {
        if self.values.contains_key(&key) {
            return;
        }
        self.bytes += value.len();
        self.order.push_back(key.clone());
        self.values.insert(key, value);
        while self.bytes > BYTES_MAX || self.values.len() > ENTRIES_MAX {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            self.bytes -= self.values.remove(&oldest).map_or(0, |value| value.len());
        }
    }
}

impl DictionaryStore {
    /// Keeps the content of a response as a dictionary of its origin. `name`: its content coding.
    pub fn learn(&self, origin: &[u8], name: Option<&[u8]>, content: &[u8]) {
        let Some(plain) = plain(name, content, DICTIONARY_BYTES_MAX) else {
            return;
        };
        if plain.is_empty() || plain.starts_with(&FORMATTED) {
            return;
        }
        let key = (origin.to_vec(), Sha256::digest(&plain).into());
        self.write(|state| state.dictionaries.put(key, plain.into()));
    }

    /// The dictionary of an origin with that hash.
    pub fn find(&self, origin: &[u8], hash: &DictionaryHash) -> Option<Arc<[u8]>> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let key = (origin.to_vec(), *hash);
        state.dictionaries.values.get(&key).cloned()
    }

    /// Content as `dcz`, from earlier or made now. `name`: its content coding. `None`: it can't be
    /// decoded, or is larger than `bytes_max`.
    pub fn encoded(
        &self,
        dictionary: (&DictionaryHash, &[u8]),
        level: u32,
        (name, content): (Option<&[u8]>, &[u8]),
        bytes_max: usize,
    ) -> Option<Arc<[u8]>> {
        let (hash, _) = dictionary;
        let mut key = Sha256::new();
        for part in [&hash[..], name.unwrap_or_default(), content] {
            key.update((part.len() as u64).to_le_bytes());
            key.update(part);
        }
        key.update(level.to_le_bytes());
        let key: [u8; 32] = key.finalize().into();
        {
            let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = state.results.values.get(&key) {
                return Some(Arc::clone(known));
            }
        }
        let plain = plain(name, content, bytes_max)?;
        let made: Arc<[u8]> = dcz(dictionary, level, &plain).ok()?.into();
        self.write(|state| state.results.put(key, Arc::clone(&made)));
        Some(made)
    }

    fn write(&self, change: impl FnOnce(&mut StoreState)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The hash in `Available-Dictionary`: a byte sequence of 32 bytes (section 2.2).
pub fn parse_hash(value: &[u8]) -> Option<DictionaryHash> {
    let inner = value.trim_ascii().strip_prefix(b":")?.strip_suffix(b":")?;
    STANDARD.decode(inner).ok()?.try_into().ok()
}

fn plain(name: Option<&[u8]>, content: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    match name {
        None => (content.len() <= bytes_max).then(|| content.to_vec()),
        Some(name) => coding::decode_up_to(name, content, bytes_max as u64),
    }
}

/// Section 5. The window stays within what every client supports: the content is shorter.
fn dcz(
    (hash, dictionary): (&DictionaryHash, &[u8]),
    level: u32,
    content: &[u8],
) -> io::Result<Vec<u8>> {
    let head = [&DCZ_MAGIC[..], hash].concat();
    let mut encoder =
        zstd::stream::write::Encoder::with_dictionary(head, level.clamp(1, 19) as i32, dictionary)?;
    encoder.set_pledged_src_size(Some(content.len() as u64))?;
    encoder.write_all(content)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn decoded(dictionary: &[u8], data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        zstd::stream::read::Decoder::with_dictionary(data, dictionary)
            .unwrap()
            .read_to_end(&mut out)
            .unwrap();
        out
    }

    fn script(version: u32) -> Vec<u8> {
        (0..800)
            .map(|number| {
                format!(
                    "function f{number}() {{ return {} }}\n",
                    number * version % 7
                )
            })
            .collect::<String>()
            .into_bytes()
    }

    #[test]
    fn content_comes_back_and_is_small() {
        let store = DictionaryStore::default();
        let (old, new) = (script(1), script(2));
        store.learn(b"https://a:443", None, &old);
        let hash: DictionaryHash = Sha256::digest(&old).into();
        let text = format!(":{}:", STANDARD.encode(hash));
        assert_eq!(parse_hash(text.as_bytes()), Some(hash));
        assert!(
            store.find(b"https://b:443", &hash).is_none(),
            "another origin"
        );
        let dictionary = store.find(b"https://a:443", &hash).unwrap();
        let with = |name: Option<&[u8]>, content: &[u8]| {
            store.encoded((&hash, &dictionary), 6, (name, content), 1 << 20)
        };
        let made = with(None, &new).unwrap();
        assert!(made.starts_with(&DCZ_MAGIC) && made[8..40] == hash);
        assert_eq!(decoded(&old, &made), new);
        let alone = zstd::stream::encode_all(&new[..], 6).unwrap();
        assert!(
            made.len() * 2 < alone.len(),
            "{} {}",
            made.len(),
            alone.len()
        );
        // The same from content that is coded already.
        let coded = crate::coding::encode(
            saker_http::content_coding::Coding::Gzip,
            crate::coding::Levels {
                gzip: 6,
                brotli: 5,
                zstd: 6,
            },
            &new,
        )
        .unwrap();
        assert_eq!(with(Some(b"gzip"), &coded), Some(made));
        assert_eq!(with(Some(b"x-unknown"), &coded), None);
        let short = DictionaryStore::default().encoded((&hash, &dictionary), 6, (None, &new), 100);
        assert_eq!(short, None, "over the limit");
    }

    #[test]
    fn what_is_no_dictionary() {
        let store = DictionaryStore::default();
        let formatted = [&FORMATTED[..], b"some tables"].concat();
        let long = vec![b'a'; DICTIONARY_BYTES_MAX + 1];
        for (content, is_kept) in [
            (&b"text"[..], true),
            (&long[1..], true),
            (b"", false),
            (&formatted, false),
            (&long, false),
        ] {
            store.learn(b"http://a:80", None, content);
            let hash = Sha256::digest(content).into();
            assert_eq!(store.find(b"http://a:80", &hash).is_some(), is_kept);
        }
        for text in ["", ":", "::", ":YQ==:", "YQ==", ":\u{e4}:"] {
            assert_eq!(parse_hash(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut bounded = Bounded::default();
        for number in 0..ENTRIES_MAX + 3 {
            bounded.put(number, vec![0; 10].into());
        }
        assert_eq!(
            (bounded.values.len(), bounded.bytes),
            (ENTRIES_MAX, ENTRIES_MAX * 10)
        );
        assert!(!bounded.values.contains_key(&2) && bounded.values.contains_key(&3));
        bounded.put(usize::MAX, vec![0; BYTES_MAX].into());
        assert_eq!((bounded.values.len(), bounded.bytes), (1, BYTES_MAX));
    }
}
