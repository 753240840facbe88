//! How much may be kept, and how much is.

/// Bytes count as they lie on the disk, codings included. 0: no limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub bytes_max: u64,
    pub entries_max: u64,
    pub site_bytes_max: u64,
    pub site_entries_max: u64,
    /// Of one entry; larger ones are not kept.
    pub entry_bytes_max: u64,
    /// Room on the disk that is left to others; `None`: 1 GiB, or a twentieth of a smaller disk.
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

/// What one site has in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteUse {
    pub entries: u64,
    pub bytes: u64,
}

/// What there is in all, and what has happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub entries: u64,
    pub bytes: u64,
    pub stored: u64,
    pub evicted: u64,
    pub expired: u64,
    pub damaged: u64,
    pub purges: u64,
    /// Every file of the folder is in the index.
    pub is_complete: bool,
}
