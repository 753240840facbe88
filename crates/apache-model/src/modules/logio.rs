//! mod_logio: whether logs tell when the first byte of an answer left. Counting bytes needs no
//! directive, and is always done.

use crate::reading::Set;

#[derive(Clone, Debug, Default)]
pub struct LogIo {
    pub tracks_first_byte: Option<bool>,
}

impl LogIo {
    pub const DIRECTIVES: &'static [(&'static str, Set<LogIo>)] =
        &[("LogIOTrackTTFB", |node, logio: &mut LogIo, _| {
            crate::arguments::set_flag(node, &mut logio.tracks_first_byte)
        })];

    pub fn merge(&self, over: &LogIo) -> LogIo {
        LogIo {
            tracks_first_byte: over.tracks_first_byte.or(self.tracks_first_byte),
        }
    }
}
