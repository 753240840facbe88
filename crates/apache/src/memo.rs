//! Results of merging that a worker keeps: settings of sections, directories of walks, and settings
//! of handlers.
//!
//! A request whose outcome can't be kept (a rule looked at a cookie, say) walks each time; with
//! this its walk merges nothing and opens what is new to it only. Difficulty: results are found by
//! the identity of what they were made of, so each keeps its ingredients alive.

use crate::proxy::manner::{self, Extras};
use saker_apache_model::{dir_config::DirConfig, host::Host, native, settings};
use saker_config::model::{Compression, CompressionCoding, Settings};
use saker_files::ChangeToken;
use saker_pipeline::ProxyOptions;
use saker_static_files::index_names;
use std::{collections::HashMap, sync::Arc};

/// Looked through several times a request.
type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Results of each kind; rare enough to begin anew beyond it.
const KEPT_MAX: usize = 20_000;
/// Settings of native sites; a route whose response fields have variables makes new ones for each
/// value, so that clients can.
const NATIVE_KEPT_MAX: usize = 4_000;

/// A folder that a walk came through.
pub struct Folder {
    /// In force there, its `.htaccess` included.
    pub local: Arc<DirConfig>,
    /// Change tokens of everything that was looked at on the way.
    pub stamps: Arc<[ChangeToken]>,
}

struct Merged {
    result: Arc<DirConfig>,
    /// Keep the addresses that they are found by.
    _outside: Arc<DirConfig>,
    _over: Arc<DirConfig>,
}

#[derive(Default)]
pub struct Memo {
    merges: Map<(usize, usize), Merged>,
    /// By host, then path with a slash at its end.
    folders: Map<usize, Map<Box<[u8]>, Folder>>,
    folder_count: usize,
    /// By settings and host, and what the cache does; hosts outlive this.
    settings: Map<Placed, Made>,
    /// Native sites' settings in Apache's terms, with the number that their folders go by.
    native: Map<usize, Vec<NativeRoot>>,
    native_count: usize,
    /// Options of proxied requests, likewise.
    manners: Map<(usize, usize, Extras), Manner>,
    /// By settings and what is added to them.
    compressed: Map<Compressed, Extended>,
    typed: Map<Typed, Extended>,
}

/// Settings, a host, the settings of a native site or 0, and what the cache does there.
type Placed = (
    usize,
    usize,
    usize,
    saker_apache_model::modules::cache::Verdict,
);

/// Settings, those of a native site, which keep their addresses, and what came of them.
type Made = (Arc<DirConfig>, Option<Arc<Settings>>, Arc<Settings>);

/// The root of a native site, with the settings in force there.
struct NativeRoot {
    root: Box<[u8]>,
    number: usize,
    local: Arc<DirConfig>,
    /// Keeps the address that it is found by.
    _base: Arc<Settings>,
}

/// Numbers of native sites' roots begin here; those of hosts are smaller.
const NATIVE_NUMBERS: usize = 1 << 32;

/// Settings, which keep their address, and what calls are made with.
type Manner = (Arc<DirConfig>, Arc<ProxyOptions>);

/// Settings, the codings, and the smallest body.
type Compressed = (usize, Vec<CompressionCoding>, u64);

/// Settings, which keep their address, and what came of them.
type Extended = (Arc<Settings>, Arc<Settings>);

/// Settings, and a Content-Type.
type Typed = (usize, Option<Box<str>>);

fn address<T>(of: &Arc<T>) -> usize {
    Arc::as_ptr(of) as usize
}

impl Memo {
    /// `over` laid over `outside`.
    pub fn over(&mut self, outside: &Arc<DirConfig>, over: &Arc<DirConfig>) -> Arc<DirConfig> {
        let key = (address(outside), address(over));
        if let Some(known) = self.merges.get(&key) {
            return Arc::clone(&known.result);
        }
        let result = Arc::new(outside.merge(over));
        if self.merges.len() >= KEPT_MAX {
            self.merges.clear();
        }
        let merged = Merged {
            result: Arc::clone(&result),
            _outside: Arc::clone(outside),
            _over: Arc::clone(over),
        };
        self.merges.insert(key, merged);
        result
    }

    /// The folder, if nothing has changed that was looked at on the way to it.
    pub fn folder(&mut self, host: usize, path: &[u8], now_ms: u64) -> Option<&Folder> {
        let folders = self.folders.get_mut(&host)?;
        let holds = folders
            .get(path)?
            .stamps
            .iter()
            .all(|stamp| stamp.is_current(now_ms));
        if !holds {
            folders.remove(path);
            self.folder_count -= 1;
        }
        folders.get(path)
    }

    pub fn keep_folder(&mut self, host: usize, path: &[u8], folder: Folder) {
        if self.folder_count >= KEPT_MAX {
            self.folders.clear();
            self.folder_count = 0;
        }
        if self
            .folders
            .entry(host)
            .or_default()
            .insert(path.into(), folder)
            .is_none()
        {
            self.folder_count += 1;
        }
    }

    /// The settings that our handlers are told, for a path. `base`: those of a native site.
    pub fn settings(
        &mut self,
        local: &Arc<DirConfig>,
        host: &Host,
        path: &[u8],
        base: Option<&Arc<Settings>>,
    ) -> Arc<Settings> {
        let cache = local.cache.verdict(path);
        let key = (
            address(local),
            std::ptr::from_ref(host) as usize,
            base.map_or(0, address),
            cache,
        );
        if let Some((_, _, known)) = self.settings.get(&key) {
            return Arc::clone(known);
        }
        let made = Arc::new(match base {
            Some(base) => native::settings(base, local, host, cache),
            None => settings::settings(local, host, cache),
        });
        if self.settings.len() >= KEPT_MAX {
            self.settings.clear();
        }
        self.settings
            .insert(key, (Arc::clone(local), base.cloned(), Arc::clone(&made)));
        made
    }

    /// The settings in force at the root of a native site, and the number that its folders go by
    /// in [`Memo::folder`].
    pub fn native_root(&mut self, base: &Arc<Settings>, root: &[u8]) -> (usize, Arc<DirConfig>) {
        let known = self.native.get(&address(base));
        if let Some(known) = known.and_then(|all| all.iter().find(|known| *known.root == *root)) {
            return (known.number, Arc::clone(&known.local));
        }
        if self.native_count >= NATIVE_KEPT_MAX {
            self.native.clear();
            self.folders.clear();
            (self.native_count, self.folder_count) = (0, 0);
        }
        self.native_count += 1;
        let number = NATIVE_NUMBERS + self.native_count;
        let local = Arc::new(native::dir_config(base, index_names(base)));
        self.native
            .entry(address(base))
            .or_default()
            .push(NativeRoot {
                root: root.into(),
                number,
                local: Arc::clone(&local),
                _base: Arc::clone(base),
            });
        (number, local)
    }

    /// The options that the gateway is told.
    pub fn manner(
        &mut self,
        local: &Arc<DirConfig>,
        host: &Host,
        extras: Extras,
    ) -> Arc<ProxyOptions> {
        let key = (address(local), std::ptr::from_ref(host) as usize, extras);
        if let Some((_, known)) = self.manners.get(&key) {
            return Arc::clone(known);
        }
        let made = Arc::new(manner::manner(local, host, key.2.clone(), None));
        if self.manners.len() >= KEPT_MAX {
            self.manners.clear();
        }
        self.manners
            .insert(key, (Arc::clone(local), Arc::clone(&made)));
        made
    }

    /// The same with content encoded.
    pub fn compressed(
        &mut self,
        settings: &Arc<Settings>,
        compression: Compression,
    ) -> Arc<Settings> {
        let key = (
            address(settings),
            compression.codings.clone(),
            compression.min_bytes,
        );
        if let Some((_, known)) = self.compressed.get(&key) {
            return Arc::clone(known);
        }
        let made = Arc::new(Settings {
            compression,
            ..Settings::clone(settings)
        });
        if self.compressed.len() >= KEPT_MAX {
            self.compressed.clear();
        }
        self.compressed
            .insert(key, (Arc::clone(settings), Arc::clone(&made)));
        made
    }

    /// The same with a Content-Type for the file; `None`: with none.
    pub fn typed(&mut self, settings: &Arc<Settings>, content_type: Option<&str>) -> Arc<Settings> {
        let key = (address(settings), content_type.map(Into::into));
        if let Some((_, known)) = self.typed.get(&key) {
            return Arc::clone(known);
        }
        let mut made = Settings::clone(settings);
        made.files.whole_type = Some(content_type.unwrap_or_default().to_owned());
        let made = Arc::new(made);
        if self.typed.len() >= KEPT_MAX {
            self.typed.clear();
        }
        self.typed
            .insert(key, (Arc::clone(settings), Arc::clone(&made)));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_is_made_once() {
        let mut memo = Memo::default();
        let (outside, over) = (
            Arc::new(DirConfig::default()),
            Arc::new(DirConfig::default()),
        );
        let first = memo.over(&outside, &over);
        assert!(Arc::ptr_eq(&first, &memo.over(&outside, &over)));
        assert!(!Arc::ptr_eq(&first, &memo.over(&over, &outside)));
    }

    #[test]
    fn folders_go_with_what_they_depended_on() {
        let mut memo = Memo::default();
        let local = Arc::new(DirConfig::default());
        memo.keep_folder(
            0,
            b"/a/",
            Folder {
                local: Arc::clone(&local),
                stamps: vec![ChangeToken::until(100)].into(),
            },
        );
        assert!(memo.folder(0, b"/a/", 99).is_some() && memo.folder(1, b"/a/", 99).is_none());
        assert!(memo.folder(0, b"/a/", 101).is_none() && memo.folder(0, b"/a/", 99).is_none());
    }

    #[test]
    fn types_are_put_in_once() {
        let mut memo = Memo::default();
        let settings: Arc<Settings> = Arc::default();
        let html = memo.typed(&settings, Some("text/html"));
        assert_eq!(html.files.whole_type.as_deref(), Some("text/html"));
        assert!(Arc::ptr_eq(
            &html,
            &memo.typed(&settings, Some("text/html"))
        ));
        assert!(!Arc::ptr_eq(&html, &memo.typed(&settings, None)));
    }
}
