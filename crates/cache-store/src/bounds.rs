//! Limits of the store, and its contents.
//!
//! Called by: the configuration, which sets them, and the index, which enforces them.
//! Caveat: bytes count as on disk, codings included.
//! Out of scope: the reserve of free disk space (`space`).

/// Limits of the store. Bytes count as on disk, codings included; 0: no separate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub bytes_max: u64,
    pub entries_max: u64,
    pub site_bytes_max: u64,
    pub site_entries_max: u64,
    /// Larger entries are not stored.
    pub entry_bytes_max: u64,
    /// Free disk space that is left to others; `None`: 1 GiB, or a twentieth of a smaller disk.
    pub disk_reserve_bytes: Option<u64>,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            bytes_max: 10 << 30,
            entries_max: 2_000_000,
            site_bytes_max: 0,
            site_entries_max: 0,
            entry_bytes_max: 64 << 20,
            disk_reserve_bytes: None,
        }
    }
}

/// Usage of the store by one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteUse {
    pub entries: u64,
    pub bytes: u64,
}

/// Contents of the store, and counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub entries: u64,
    pub bytes: u64,
    pub stored: u64,
    pub evicted: u64,
    pub expired: u64,
    pub damaged: u64,
    pub purges: u64,
    /// True when every file of the directory is in the index.
    pub is_complete: bool,
}
