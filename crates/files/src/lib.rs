//! Files under a root: opened without ever leaving it, and watched so that what was found can be
//! kept.
//!
//! Floor 1. `resolve` walks a path component by component (so that the symbolic link policy holds
//! on each and every directory on the way is known), and returns the open file with a [`Stamp`] per
//! directory entry it depended on. A stamp tells with one atomic load whether that entry may have
//! changed since: inotify events bump it, and where watching is impossible it runs out after a
//! second. `look` remembers what was seen of names that are asked for again and again. `content`
//! reads small files whole without mixing two versions, `directory` lists.

pub mod buffer_file;
pub mod buffer_files;
pub mod content;
pub mod directory;
pub mod look;
pub mod metadata;
pub mod open;
pub mod resolve;
pub mod stamp;
pub mod unnamed;
pub mod watcher;

#[cfg(test)]
mod scratch;
mod walk;

pub use buffer_file::BufferFile;
pub use buffer_files::BufferFiles;
pub use content::{is_settled, read_consistent};
pub use directory::{Entry, EntryChoice, Listing, read_directory};
pub use look::look;
pub use metadata::{Kind, Metadata, metadata};
pub use open::{open_entry, open_regular, read_regular};
pub use resolve::{LinkPolicy, ResolveError, Resolved, resolve};
pub use stamp::{Lease, Stamp};
pub use unnamed::unnamed;
pub use watcher::{WatchError, Watcher};
