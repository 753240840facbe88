//! One MP4 file as HLS (RFC 8216) with fragmented MP4: playlists, the initialization section, and
//! fragments, generated on request.
//!
//! Called by: `static-files`. A fragment begins at a key frame and has video and audio together;
//! samples are sent as they are in the file. [`Plan`] determines the fragments, and is the same for
//! the same file, so nothing is kept between requests.
//! Out of scope: several renditions of one film (each file is a playlist of its own), MPEG-TS,
//! encryption.

mod codecs;
mod fragment;
mod init;
mod plan;
mod playlist;

pub use fragment::fragment;
pub use init::init;
pub use plan::Plan;
pub use playlist::{main, media};
