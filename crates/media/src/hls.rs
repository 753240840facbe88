//! One MP4 file as HLS (RFC 8216) with fragmented MP4: playlists, the initialisation section, and
//! fragments, made when they are asked for.
//!
//! A fragment begins at a key frame and has pictures and sound together; what was in the file's
//! samples is sent as it lies there. [`Plan`] says where fragments begin, and is the same for the
//! same file, so that nothing about it is kept between requests. Absent on purpose: several
//! renditions of one film (each file is a playlist of its own), MPEG-TS, encryption.

mod codecs;
mod fragment;
mod init;
mod plan;
mod playlist;

pub use fragment::fragment;
pub use init::init;
pub use plan::Plan;
pub use playlist::{main, media};
