//! Access logs of a configuration: which of them a location uses, and the notes that their lines
//! have.
//!
//! Called by: `assemble`, which numbers them; `saker-nginx`, which decides about them when a
//! request ends.
//! Caveat: a log has one entry per path, format, and condition, whatever number of locations use it.

use crate::modules::log::LogUse;

/// All access logs that locations use, by number.
#[derive(Clone, Debug, Default)]
pub struct LogRules {
    pub uses: Vec<LogUse>,
}

impl LogRules {
    /// Returns the number of a log.
    pub fn number(&mut self, log: &LogUse) -> usize {
        if let Some(at) = self.uses.iter().position(|known| known == log) {
            return at;
        }
        self.uses.push(log.clone());
        self.uses.len() - 1
    }
}
