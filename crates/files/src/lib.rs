//! Files under a root: opened without ever leaving it, and watched so that results can be cached.
//!
//! Called by: everything that reads below document roots. `resolve` walks a path component by
//! component (so that the symbolic link policy holds for each directory on the way), and returns
//! the open file with a [`ChangeToken`] per directory entry it depended on. A token tells with one
//! atomic load whether that entry may have changed since: inotify events invalidate it, and where
//! watching is impossible it expires after a second. `cached_stat` caches the metadata of paths
//! that are looked up again and again, `content` reads small files completely without mixing two
//! versions, `directory` lists, `edit` changes.

pub mod account;
pub mod buffer_file;
pub mod buffer_files;
pub mod cached_stat;
pub mod change_token;
pub mod content;
pub mod directory;
pub mod edit;
pub mod metadata;
pub mod open;
mod private;
pub mod resolve;
mod resolve_error;
pub mod unnamed;
pub mod watcher;

#[cfg(test)]
mod scratch;
mod walk;
mod watch_table;

pub use account::{Account, account};
pub use buffer_file::BufferFile;
pub use buffer_files::BufferFiles;
pub use cached_stat::cached_stat;
pub use change_token::{ChangeToken, Lease};
pub use content::{is_settled, read_consistent};
pub use directory::{Entry, EntryChoice, Listing, read_directory};
pub use metadata::{Kind, Metadata, metadata};
pub use open::{open_entry, open_public, open_regular, read_regular};
pub use private::keep_private;
pub use resolve::{Resolved, resolve};
pub use resolve_error::{LinkPolicy, ResolveError};
pub use unnamed::unnamed;
pub use watcher::{WatchError, Watcher};
