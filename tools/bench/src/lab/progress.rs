//! Progress of a run: one line that is written over on a terminal, elsewhere two lines for each
//! row, when it begins and when it ends.
//!
//! It also knows who is late: a further round of a row is run only while the whole is in time, and
//! when the time is over by far, rows that have not begun are left out, which the report says. The
//! noise is measured whole in any case: all others are judged by it.

use super::plan::{Entry, NOISE, clock};
use crate::{row::Row, subject::Subject, trial::Progress};
use std::{
    cell::RefCell,
    io::{IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

const WIDTH: u32 = 24;
/// By so much the whole may be late before rounds are cut: third ones and further.
const PATIENCE: Duration = Duration::from_secs(20);
/// And by this part of what is left, besides, before second ones are.
const PATIENCE_FOR_TWO: f64 = 0.2;
/// No row begins that would end by so much beyond the budget.
const OVER: f64 = 0.03;
const OVER_LEAST: Duration = Duration::from_secs(30);

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
    /// Time of the plan that is used by finished rows.
    done: Duration,
    /// Time of the plan at the end of the running row.
    until: Duration,
    row_begun: Option<Instant>,
}

impl Bar {
    pub fn new(plans: &[Entry], budget: Duration) -> Bar {
        let total = plans.iter().map(|entry| entry.expected).sum();
        let bar = Bar {
            begun: Instant::now(),
            total,
            budget,
            rows: plans.len(),
            is_terminal: stderr().is_terminal(),
            state: RefCell::default(),
        };
        eprintln!("{} rows, about {}", bar.rows, clock(total));
        bar
    }

    pub fn begin(&self, entry: &Entry) {
        let mut state = self.state.borrow_mut();
        state.until = state.done + entry.expected;
        state.row_begun = Some(Instant::now());
        if !self.is_terminal {
            let begin = format!(
                "{} of {}: {}",
                state.rows_done + 1,
                self.rows,
                entry.plan.row.name
            );
            let rounds = if entry.plan.rounds == 1 {
                "1 round".to_owned()
            } else {
                format!("{} rounds", entry.plan.rounds)
            };
            eprintln!("{begin} ({rounds}); {} left", clock(self.left(&state)));
        }
    }

    pub fn end(&self, entry: &Entry) {
        let mut state = self.state.borrow_mut();
        state.rows_done += 1;
        state.done += entry.expected;
        let took = state
            .row_begun
            .map_or(Duration::ZERO, |begun| begun.elapsed());
        if !self.is_terminal {
            let (row, planned, since) = (
                entry.plan.row.name,
                clock(entry.expected),
                clock(self.begun.elapsed()),
            );
            eprintln!(
                "  {row}: {} of {planned} planned; {since} since the beginning",
                clock(took)
            );
        }
    }

    /// True if there is no time for this row.
    pub fn is_over(&self, next: &Entry) -> bool {
        self.begun.elapsed() + next.expected
            > self.budget + self.budget.mul_f64(OVER).max(OVER_LEAST)
    }

    pub fn finish(&self) {
        eprintln!(
            "{}{} rows in {}",
            if self.is_terminal { "\r\x1b[K" } else { "" },
            self.rows,
            clock(self.begun.elapsed())
        );
    }

    /// By the plan, stretched as the part behind us was.
    fn left(&self, state: &State) -> Duration {
        let pace = if state.done.is_zero() {
            1.0
        } else {
            self.begun.elapsed().as_secs_f64() / state.done.as_secs_f64()
        };
        self.total
            .saturating_sub(state.done)
            .mul_f64(pace.clamp(0.2, 5.0))
    }
}

impl Progress for Bar {
    fn trial(&self, row: &Row, round: usize, subject: Subject) {
        if !self.is_terminal {
            return;
        }
        let state = self.state.borrow();
        let filled = (state.done.as_secs_f64() / self.total.as_secs_f64().max(1e-9)
            * f64::from(WIDTH)) as usize;
        let bar: String = (0..WIDTH as usize)
            .map(|place| if place < filled { '█' } else { '░' })
            .collect();
        let place = format!(
            "{} of {} · {} · round {} · {subject}",
            state.rows_done + 1,
            self.rows,
            row.name,
            round + 1
        );
        let _ = write!(
            stderr(),
            "\r\x1b[K{bar} {place} · {} left",
            clock(self.left(&state))
        );
    }

    /// Any row may use what the plan leaves of the budget.
    fn has_time(&self, row: &Row, round: usize) -> bool {
        let state = self.state.borrow();
        let spare = self.budget.saturating_sub(self.total);
        let late = self.begun.elapsed().saturating_sub(state.until);
        is_in_time(
            late,
            self.total.saturating_sub(state.until),
            spare + PATIENCE.min(self.budget / 10),
            round,
        ) || row.name.starts_with(NOISE)
    }
}

/// `round` counts from 0; `late` is the delay, `left` the rest of the plan, `allowed` the shared
/// reserve.
fn is_in_time(late: Duration, left: Duration, allowed: Duration, round: usize) -> bool {
    let more = if round == 1 {
        left.mul_f64(PATIENCE_FOR_TWO)
    } else {
        Duration::ZERO
    };
    late < allowed + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn third_rounds_go_first() {
        let seconds = Duration::from_secs;
        let in_time = |late, round| is_in_time(seconds(late), seconds(1000), seconds(20), round);
        assert_eq!([in_time(10, 1), in_time(10, 2)], [true, true]);
        assert_eq!([in_time(100, 1), in_time(100, 2)], [true, false]);
        assert_eq!([in_time(300, 1), in_time(300, 2)], [false, false]);
    }
}
