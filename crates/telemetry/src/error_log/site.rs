//! The error log of one site: a target, a level, and line formats of its own, instead of the
//! server's.
//!
//! Called by: the error log, for messages about requests of the site ([`super::LogContext::site`]).
//! The configuration's model holds one per site that has any, and `server` opens its target before
//! the generation is in force.
//! Caveat: one site must not silence another. So a site has flood gates of its own; they are
//! created with its first line, because most of ten thousand sites never have one.

use super::{format::Formats, target::ErrorLogTarget};
use crate::access_log::LogFile;
use crate::flood_gate::FloodGate;
use crate::message::{self, Level, Message};
use std::sync::{Arc, OnceLock};

/// One of several logs that get the same lines, each up to a level of its own.
#[derive(Debug)]
pub struct Output {
    /// `None`: the server's.
    pub target: Option<ErrorLogTarget>,
    /// Number of the least severe level that it takes, from `emerg` at 0.
    pub level_number: u8,
    file: OnceLock<Arc<LogFile>>,
}

impl PartialEq for Output {
    fn eq(&self, other: &Output) -> bool {
        (&self.target, self.level_number) == (&other.target, other.level_number)
    }
}

impl Eq for Output {}

impl Output {
    pub fn new(target: Option<ErrorLogTarget>, level_number: u8) -> Output {
        Output {
            target,
            level_number,
            file: OnceLock::new(),
        }
    }

    /// Sets the open log file. Only the first call counts.
    pub fn write_to(&self, file: Arc<LogFile>) {
        let _ = self.file.set(file);
    }

    pub(super) fn takes(&self, level_number: u8) -> bool {
        level_number <= self.level_number
    }

    pub(super) fn file(&self) -> Option<&LogFile> {
        self.file.get().map(|file| &**file)
    }
}

#[derive(Debug)]
pub struct SiteLog {
    /// `None`: the server's.
    pub target: Option<ErrorLogTarget>,
    pub level: Level,
    /// Areas of messages that have another one.
    pub areas: Vec<(&'static str, Level)>,
    pub formats: Formats,
    /// The logs that get the lines, where there is not just one.
    pub outputs: Vec<Output>,
    file: OnceLock<Arc<LogFile>>,
    gates: OnceLock<Box<[FloodGate]>>,
}

impl SiteLog {
    pub fn new(
        target: Option<ErrorLogTarget>,
        level: Level,
        areas: Vec<(&'static str, Level)>,
        formats: Formats,
    ) -> SiteLog {
        SiteLog {
            target,
            level,
            areas,
            formats,
            outputs: Vec::new(),
            file: OnceLock::new(),
            gates: OnceLock::new(),
        }
    }

    /// A log whose lines go to several, each of which has a level of its own.
    pub fn of_outputs(outputs: Vec<Output>) -> SiteLog {
        let least = outputs.iter().map(|output| output.level_number).max();
        let level = Level::ALL
            .into_iter()
            .find(|level| Some(level.number()) >= least);
        let level = level.unwrap_or(Level::Debug);
        SiteLog {
            outputs,
            ..SiteLog::new(None, level, Vec::new(), Formats::default())
        }
    }

    /// Returns the targets that are not the server's.
    pub fn targets(&self) -> impl Iterator<Item = &ErrorLogTarget> {
        let further = self.outputs.iter().filter_map(|one| one.target.as_ref());
        self.target.iter().chain(further)
    }

    /// Sets the open log file. Only the first call counts.
    pub fn write_to(&self, file: Arc<LogFile>) {
        let _ = self.file.set(file);
    }

    pub(super) fn file(&self) -> Option<&LogFile> {
        self.file.get().map(|file| &**file)
    }

    pub(super) fn wants(&self, area: &str, level: Level) -> bool {
        let own = self
            .areas
            .iter()
            .find(|(name, _)| *name == area)
            .map(|(_, level)| *level);
        level <= own.unwrap_or(self.level)
    }

    /// `None`: a message that is in no table.
    pub(super) fn gate(&self, message: &Message) -> Option<&FloodGate> {
        let gates = self
            .gates
            .get_or_init(|| message::ALL.iter().map(|_| FloodGate::new()).collect());
        gates.get(
            message::ALL
                .iter()
                .position(|known| std::ptr::eq(*known, message))?,
        )
    }

    /// The messages of which some were suppressed in seconds that are over, and how many. Whether
    /// there are more in this second.
    pub(super) fn settle(&self, now_s: u64) -> (Vec<(&'static Message, u64)>, bool) {
        let Some(gates) = self.gates.get() else {
            return (Vec::new(), false);
        };
        let all = message::ALL.iter().zip(gates);
        let settled = all
            .map(|(message, gate)| (*message, gate.settle(now_s)))
            .filter(|(_, count)| *count > 0)
            .collect();
        (settled, gates.iter().any(FloodGate::is_suppressing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flood_gate::{Admission, LINES_PER_SECOND_MAX};

    #[test]
    fn levels_of_a_site() {
        let log = SiteLog::new(
            None,
            Level::Error,
            vec![("tls", Level::Debug)],
            Formats::default(),
        );
        assert!(log.wants("tls", Level::Info) && !log.wants("http", Level::Info));
    }

    #[test]
    fn outputs_take_lines_up_to_their_level() {
        let [critical, warn] = [2, Level::Warn.number()].map(|number| Output::new(None, number));
        assert!(critical.takes(2) && !critical.takes(Level::Error.number()));
        assert!(warn.takes(Level::Warn.number()) && !warn.takes(Level::Notice.number()));
        let level = |outputs| SiteLog::of_outputs(outputs).level;
        assert_eq!(level(vec![critical]), Level::Error);
        assert_eq!(level(vec![Output::new(None, 0), warn]), Level::Warn);
    }

    #[test]
    fn floods_are_counted_by_site() {
        let site = || SiteLog::new(None, Level::Debug, Vec::new(), Formats::default());
        let (one, other) = (site(), site());
        assert!(one.settle(8).0.is_empty());
        let message = &message::REQUEST_REJECTED;
        (0..LINES_PER_SECOND_MAX + 2).for_each(|_| _ = one.gate(message).unwrap().admit(7));
        assert_eq!(one.gate(message).unwrap().admit(7), Admission::Suppress);
        assert_eq!(
            other.gate(message).unwrap().admit(7),
            Admission::Pass { suppressed: 0 }
        );
        let (told, goes_on) = one.settle(8);
        assert!(told.len() == 1 && told[0].1 == 3 && std::ptr::eq(told[0].0, message) && !goes_on);
    }
}
