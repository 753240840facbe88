//! The window in congestion avoidance as a function of time (RFC 9438 section 4).
//!
//! It comes back to where the last loss was, slower the nearer it gets, stays there, and looks
//! further, faster the longer nothing is lost; on short paths, where that would be less than Reno's
//! share, it follows Reno. In bytes, seconds and `f64`, as the formulas are. The difficulty is
//! time: only that in which the window limits the sender counts (section 5.8), or the curve would
//! run away from a sender that says little.

use std::time::{Duration, Instant};

/// Section 4.1: `C` in segments per cubic second; section 4.6: what is left of a window after a
/// loss.
const C: f64 = 0.4;
pub const BETA: f64 = 0.7;
/// Section 4.3: as much per round trip as gives Reno's average window with this beta.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// A target is at most so many windows (section 4.2).
const TARGET_MAX: f64 = 1.5;
/// Nothing was acknowledged for so many round trips: nothing was sent meanwhile.
const PAUSE_ROUND_TRIPS: u32 = 2;

#[derive(Clone, Debug)]
pub struct Curve {
    /// `W_max`: where the plateau is.
    plateau: f64,
    /// `K`, in seconds; found with the first acknowledgement after a reduction.
    until_plateau: f64,
    /// `cwnd_prior`: from there on Reno's estimate grows as Reno does.
    prior: f64,
    /// `W_est`.
    reno: f64,
    /// `t`, and when it was last counted; `None` until the stage has begun.
    elapsed: Duration,
    counted: Option<Instant>,
}

impl Curve {
    /// After a reduction from `prior`; `plateau` may be lower than that (fast convergence).
    pub fn after_loss(prior: f64, plateau: f64) -> Curve {
        Curve {
            plateau,
            until_plateau: 0.0,
            prior,
            reno: 0.0,
            elapsed: Duration::ZERO,
            counted: None,
        }
    }

    /// After a slow start that nothing was lost in, or one after a timeout: `K` is 0 (section 4.8).
    pub fn from_here(window: f64) -> Curve {
        Curve::after_loss(window, window)
    }

    /// The window after `bytes` have arrived.
    pub fn grown(
        &mut self,
        window: f64,
        bytes: f64,
        now: Instant,
        rtt: Duration,
        datagram: f64,
    ) -> f64 {
        self.count(window, now, rtt, datagram);
        let alpha = if self.reno < self.prior { ALPHA } else { 1.0 };
        self.reno += alpha * bytes * datagram / window;
        let t = self.elapsed.as_secs_f64();
        if self.at(t, datagram) < self.reno {
            return window.max(self.reno);
        }
        let target = self
            .at(t + rtt.as_secs_f64(), datagram)
            .clamp(window, TARGET_MAX * window);
        window + (target - window) * bytes / window
    }

    /// The sender does not use the window: time does not count.
    pub fn pause(&mut self, now: Instant) {
        if let Some(counted) = &mut self.counted {
            *counted = now;
        }
    }

    fn count(&mut self, window: f64, now: Instant, rtt: Duration, datagram: f64) {
        let Some(counted) = self.counted.replace(now) else {
            self.until_plateau = ((self.plateau - window).max(0.0) / datagram / C).cbrt();
            self.reno = window;
            return;
        };
        let passed = now.saturating_duration_since(counted);
        if passed <= rtt * PAUSE_ROUND_TRIPS {
            self.elapsed += passed;
        }
    }

    /// `W_cubic(t)`, figure 1.
    fn at(&self, t: f64, datagram: f64) -> f64 {
        C * (t - self.until_plateau).powi(3) * datagram + self.plateau
    }
}
