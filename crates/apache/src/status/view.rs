//! Contents of a status page.
//!
//! Called by: `status`; `page` and `auto`, which write it.

use crate::status::report::Report;

/// Everything that a page shows.
pub(crate) struct View<'v> {
    pub report: &'v Report,
    /// Scoreboard slots.
    pub slots: u64,
    pub is_extended: bool,
    pub name: Vec<u8>,
    pub address: String,
    pub software: String,
    pub signature: Vec<u8>,
}

impl View<'_> {
    pub fn busy(&self) -> u64 {
        self.report.workers.iter().map(|worker| worker.busy).sum()
    }

    pub fn connections(&self) -> u64 {
        self.report
            .workers
            .iter()
            .map(|worker| worker.connections)
            .sum()
    }

    pub fn idle(&self) -> u64 {
        self.slots.saturating_sub(self.busy())
    }

    /// One character per request that there may be at a time: `W` for those that are answered, `_`
    /// for the rest.
    pub fn scoreboard(&self) -> String {
        let busy = self.busy() as usize;
        "W".repeat(busy) + &"_".repeat(self.idle() as usize)
    }
}
