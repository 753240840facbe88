//! Bandwidth: the number of bytes of a body that may be sent now, and the wait afterwards.
//!
//! Called by: drivers, [`Paced::piece`] before they write or read and [`Paced::passed`] after, or
//! before they wait; a body under several limits uses the smallest piece and the longest wait.
//! Caveat: timers fire late, by a millisecond or more, and the loss is never regained without some
//! tolerance. So every limit has at least [`TOLERANCE_NS`] of burst; over ten seconds that is a
//! fifth of a percent.

use crate::{
    Account,
    scale::{NS_PER_S, scale},
};
use saker_config::model::Rate;

/// Pieces per second while few bodies are paced: even, and within 2 % of the rate over ten seconds.
pub const PIECES_PER_S_MAX: u64 = 20;
/// Minimum: half a second's worth at a time, which players and readers still perceive as a flow.
const PIECES_PER_S_MIN: u64 = 2;
/// Pieces per second shared by all paced bodies of a worker, because each piece costs a timer, a
/// turn and a system call regardless of its size.
const PIECES_PER_S_OF_ALL: u64 = 1000;
/// Less is not worth a system call; a rate below 80 KiB/s waits longer instead.
pub const PIECE_BYTES_MIN: u64 = 4 << 10;
/// Maximum size of a piece; more at once does not help a socket.
pub const PIECE_BYTES_MAX: u64 = 256 << 10;
/// Amount that a late timer may catch up on.
const TOLERANCE_NS: u64 = NS_PER_S / 50;

/// Pieces per second for each body if one worker paces this many bodies.
pub fn pieces_per_s(bodies: u64) -> u64 {
    (PIECES_PER_S_OF_ALL / bodies.max(1)).clamp(PIECES_PER_S_MIN, PIECES_PER_S_MAX)
}

/// Charges `bytes` that went and says how long to wait before more may go, in nanoseconds and never
/// 0; `None` where the rate does not bite. Ignores `after_bytes`, see [`Paced`].
pub fn take(account: &Account, rate: Rate, bytes: u64, now_ns: u64) -> Option<u64> {
    let cost_ns = scale(bytes, NS_PER_S, rate.bytes_per_s);
    let debt_ns = account
        .charge(now_ns, cost_ns, |debt_ns| (true, debt_ns))
        .saturating_add(cost_ns);
    excess_ns(debt_ns, rate)
}

/// Returns the number of bytes that may be sent now in one piece; 0 if [`wait_ns`] says to wait.
/// Charges nothing.
pub fn piece(account: &Account, rate: Rate, pieces_per_s: u64, now_ns: u64) -> u64 {
    let (debt_ns, burst_ns) = (account.debt_ns(now_ns), burst_ns(rate));
    if debt_ns > burst_ns {
        return 0;
    }
    let left = scale(burst_ns - debt_ns, rate.bytes_per_s, NS_PER_S);
    left.max(share(rate, pieces_per_s)).min(PIECE_BYTES_MAX)
}

/// A piece where nothing is left of the burst.
fn share(rate: Rate, pieces_per_s: u64) -> u64 {
    (rate.bytes_per_s / pieces_per_s.max(1)).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
}

/// Returns the time until [`piece`] is nonzero; `None` if it is nonzero now. Call again after a
/// wait, because others may share the account.
pub fn wait_ns(account: &Account, rate: Rate, now_ns: u64) -> Option<u64> {
    excess_ns(account.debt_ns(now_ns), rate)
}

/// True if a whole body of this size may be sent in one piece now. Charges nothing; if it is short
/// and the account nearly idle, as is usual, it also avoids the division.
#[inline]
pub fn takes_whole(account: &Account, rate: &Rate, bytes: u64, now_ns: u64) -> bool {
    if rate.after_bytes > 0 {
        return bytes <= rate.after_bytes;
    }
    let is_calm = bytes <= PIECE_BYTES_MIN && account.debt_ns(now_ns) <= TOLERANCE_NS;
    is_calm || piece(account, *rate, PIECES_PER_S_MAX, now_ns) >= bytes.max(1)
}

/// Charges a whole body that [`takes_whole`] let go.
#[inline]
pub fn charge_whole(account: &Account, rate: &Rate, bytes: u64, now_ns: u64) {
    let counted = bytes.saturating_sub(rate.after_bytes);
    if counted > 0 {
        account.charge(now_ns, scale(counted, NS_PER_S, rate.bytes_per_s), |_| {
            (true, ())
        });
    }
}

/// One body under one limit. The first `after_bytes` are not counted.
#[derive(Clone, Copy, Debug)]
pub struct Paced {
    rate: Rate,
    free_bytes: u64,
}

impl Paced {
    pub fn new(rate: Rate) -> Paced {
        Paced {
            rate,
            free_bytes: rate.after_bytes,
        }
    }

    /// Returns the number of bytes that may be sent now; 0: wait for [`Paced::wait_ns`].
    pub fn piece(&self, account: &Account, pieces_per_s: u64, now_ns: u64) -> u64 {
        if self.free_bytes > 0 {
            self.free_bytes
        } else {
            piece(account, self.rate, pieces_per_s, now_ns)
        }
    }

    /// Returns the time to wait before anything may be sent.
    pub fn wait_ns(&self, account: &Account, now_ns: u64) -> Option<u64> {
        if self.free_bytes > 0 {
            None
        } else {
            wait_ns(account, self.rate, now_ns)
        }
    }

    /// The piece that a waiting body pays for in advance.
    pub fn share(&self, pieces_per_s: u64) -> u64 {
        if self.free_bytes > 0 {
            self.free_bytes
        } else {
            share(self.rate, pieces_per_s)
        }
    }

    /// Charges bytes that were sent, or will be after a wait; returns how many of them count.
    pub fn passed(&mut self, account: &Account, bytes: u64, now_ns: u64) -> u64 {
        let counted = bytes.saturating_sub(self.free_bytes);
        self.free_bytes = self.free_bytes.saturating_sub(bytes);
        if counted > 0 {
            take(account, self.rate, counted, now_ns);
        }
        counted
    }

    /// Takes back charges for bytes that were not sent.
    pub fn give_back(&self, account: &Account, bytes: u64) {
        account.discharge(scale(bytes, NS_PER_S, self.rate.bytes_per_s));
    }
}

fn burst_ns(rate: Rate) -> u64 {
    scale(rate.burst_bytes, NS_PER_S, rate.bytes_per_s).max(TOLERANCE_NS)
}

fn excess_ns(debt_ns: u64, rate: Rate) -> Option<u64> {
    debt_ns
        .checked_sub(burst_ns(rate))
        .filter(|excess_ns| *excess_ns > 0)
}

#[cfg(test)]
mod tests;
