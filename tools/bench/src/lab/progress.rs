//! How far the run is: one line that is written over on a terminal, a line per row elsewhere.
//!
//! It also knows who is late: a further round of a row is run only while the whole is in time.

use super::plan::Entry;
use crate::{contender::Contender, rows::Row, runner::Progress};
use std::{
    cell::RefCell,
    io::{IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

const WIDTH: u32 = 24;
/// By so much a row may be late before its rounds are cut.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Bar {
    begun: Instant,
    total: Duration,
    budget: Duration,
    rows: usize,
    is_terminal: bool,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    rows_done: usize,
    /// Of the plan, of rows that are done.
    done: Duration,
    /// Of the plan, with the row that runs.
    until: Duration,
}

impl Bar {
    pub fn new(plans: &[Entry], budget: Duration) -> Bar {
        let total = plans.iter().map(|entry| entry.expected).sum();
        let bar =
            Bar { begun: Instant::now(), total, budget, rows: plans.len(), is_terminal: stderr().is_terminal(), state: RefCell::default() };
        eprintln!("{} rows, about {}", bar.rows, clock(total));
        bar
    }

    pub fn begin(&self, entry: &Entry) {
        let mut state = self.state.borrow_mut();
        state.until = state.done + entry.expected;
        if !self.is_terminal {
            let begin = format!("{} of {}: {}", state.rows_done + 1, self.rows, entry.plan.row.name);
            eprintln!("{begin} ({} rounds); {} left", entry.plan.rounds, clock(self.left(&state)));
        }
    }

    pub fn end(&self, entry: &Entry) {
        let mut state = self.state.borrow_mut();
        state.rows_done += 1;
        state.done += entry.expected;
    }

    pub fn finish(&self) {
        eprintln!("{}{} rows in {}", if self.is_terminal { "\r\x1b[K" } else { "" }, self.rows, clock(self.begun.elapsed()));
    }

    /// By the plan, stretched as the part behind us was.
    fn left(&self, state: &State) -> Duration {
        let pace = if state.done.is_zero() { 1.0 } else { self.begun.elapsed().as_secs_f64() / state.done.as_secs_f64() };
        self.total.saturating_sub(state.done).mul_f64(pace.clamp(0.2, 5.0))
    }
}

impl Progress for Bar {
    fn trial(&self, row: &Row, round: usize, contender: Contender) {
        if !self.is_terminal {
            return;
        }
        let state = self.state.borrow();
        let filled = (state.done.as_secs_f64() / self.total.as_secs_f64().max(1e-9) * f64::from(WIDTH)) as usize;
        let bar: String = (0..WIDTH as usize).map(|place| if place < filled { '█' } else { '░' }).collect();
        let place = format!("{} of {} · {} · round {} · {contender}", state.rows_done + 1, self.rows, row.name, round + 1);
        let _ = write!(stderr(), "\r\x1b[K{bar} {place} · {} left", clock(self.left(&state)));
    }

    /// What the plan leaves free of the budget may be used by anybody.
    fn has_time(&self, _row: &Row) -> bool {
        let spare = self.budget.saturating_sub(self.total);
        self.begun.elapsed() < self.state.borrow().until + spare + PATIENCE.min(self.budget / 10)
    }
}

fn clock(duration: Duration) -> String {
    format!("{}:{:02}", duration.as_secs() / 60, duration.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_and_seconds() {
        assert_eq!([0, 61, 3600].map(|seconds| clock(Duration::from_secs(seconds))), ["0:00", "1:01", "60:00"]);
    }
}
