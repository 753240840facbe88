//! Connection-level receive window: small at first, larger as the path turns out to carry more.
//!
//! A window is a promise of memory, so it begins small and doubles each time it is used up within
//! two round trips, which is when it holds the client up. quinn-proto can change the connection's
//! window but not those of its streams, which are fixed at the start and wider than the
//! connection's first window.
//!
//! Caveat: a stream that the application does not read could use up the window that all streams
//! share, requests included. Each such stream is compensated with a stream's window. The total
//! promised to all connections is bounded, too ([`Promised`]).

use std::time::{Duration, Instant};

/// Nothing is measured more finely (RFC 9002 section 6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);

pub struct ReceiveWindow {
    first: u64,
    granted: u64,
    wanted: u64,
    max: u64,
    of_a_stream: u64,
    /// Read since then.
    read: u64,
    since: Option<Instant>,
    /// Streams with data that the application does not take for now.
    left: Vec<u64>,
}

/// Total promised to all connections of an endpoint beyond their first windows.
#[derive(Default)]
pub struct Promised(u64);

impl ReceiveWindow {
    pub fn new(first: u64, max: u64, of_a_stream: u64) -> ReceiveWindow {
        let max = max.max(first);
        ReceiveWindow {
            first,
            granted: first,
            wanted: first,
            max,
            of_a_stream,
            read: 0,
            since: None,
            left: Vec::new(),
        }
    }

    /// So much of a stream has been read, and more of it may be left.
    pub fn note(&mut self, stream: u64, bytes: u64, is_left: bool, now: Instant, rtt: Duration) {
        let known = self.left.iter().position(|one| *one == stream);
        match known {
            None if is_left => self.left.push(stream),
            Some(at) if !is_left => drop(self.left.swap_remove(at)),
            _ => {}
        }
        let period = rtt.max(GRANULARITY) * 2;
        let since = *self.since.get_or_insert(now);
        self.read += bytes;
        let is_over = now.saturating_duration_since(since) > period;
        if !is_over && self.read >= self.granted {
            self.wanted = self
                .wanted
                .max(self.granted.saturating_mul(2))
                .min(self.max);
        }
        if is_over || self.read >= self.granted {
            // Of what came after a silence, this is the beginning.
            (self.since, self.read) = (Some(now), if is_over { bytes } else { 0 });
        }
    }

    /// A stream is read no further.
    pub fn forget(&mut self, stream: u64) {
        self.left.retain(|one| *one != stream);
    }

    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// A wider window, if there is to be one and as far as promises allow.
    pub fn widened(&mut self, promised: &mut Promised, promised_max: u64) -> Option<u64> {
        let for_stalled = if self.left.is_empty() {
            0
        } else {
            self.of_a_stream.saturating_mul(self.left.len() as u64 + 1)
        };
        let wanted = self.wanted.max(for_stalled).min(self.max);
        let more = wanted
            .saturating_sub(self.granted)
            .min(promised_max.saturating_sub(promised.0));
        promised.0 += more;
        self.granted += more;
        (more > 0).then_some(self.granted)
    }

    /// The connection is over.
    pub fn give_back(&self, promised: &mut Promised) {
        promised.0 = promised.0.saturating_sub(self.granted - self.first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    struct Reader {
        window: ReceiveWindow,
        promised: Promised,
        now: Instant,
    }

    impl Reader {
        fn new() -> Reader {
            Reader {
                window: ReceiveWindow::new(1000, 16_000, 4000),
                promised: Promised::default(),
                now: Instant::now(),
            }
        }

        /// Some bytes each so often; the window at the end.
        fn reads(&mut self, times: u32, bytes: u64, each_ms: u64) -> u64 {
            for _ in 0..times {
                self.now += Duration::from_millis(each_ms);
                self.window.note(0, bytes, false, self.now, RTT);
                self.window.widened(&mut self.promised, 20_000);
            }
            self.window.granted()
        }
    }

    #[test]
    fn it_doubles_while_it_holds_the_client_up() {
        let mut reader = Reader::new();
        assert_eq!(reader.reads(9, 100, 10), 1000);
        assert_eq!(reader.reads(1, 100, 10), 2000, "used up in 90 ms");
        assert_eq!(reader.reads(10, 200, 10), 4000);
        assert_eq!(reader.reads(100, 4000, 10), 16_000, "and no further");
        assert_eq!(reader.promised.0, 15_000);
        reader.window.give_back(&mut reader.promised);
        assert_eq!(reader.promised.0, 0);
    }

    #[test]
    fn a_client_that_does_not_use_it_gets_no_more() {
        let mut reader = Reader::new();
        assert_eq!(reader.reads(1000, 80, 10), 1000, "800 in two round trips");
        assert_eq!(
            reader.reads(50, 900, 101),
            1000,
            "nearly all at once, after two round trips each"
        );
        assert_eq!(
            reader.reads(2, 500, 60_000),
            1000,
            "a silence is not a round trip"
        );
    }

    #[test]
    fn a_stream_that_is_not_read_is_made_up_for() {
        let mut reader = Reader::new();
        let now = reader.now;
        reader.window.note(4, 500, true, now, RTT);
        reader.window.note(4, 0, true, now, RTT);
        assert_eq!(
            reader.window.widened(&mut reader.promised, 20_000),
            Some(8000)
        );
        reader.window.note(8, 10, true, now, RTT);
        assert_eq!(
            reader.window.widened(&mut reader.promised, 20_000),
            Some(12_000)
        );
        reader.window.note(4, 500, false, now, RTT);
        reader.window.forget(8);
        assert_eq!(reader.window.widened(&mut reader.promised, 20_000), None);
        (12..100).for_each(|stream| reader.window.note(stream, 1, true, now, RTT));
        assert_eq!(
            reader.window.widened(&mut reader.promised, 20_000),
            Some(16_000),
            "but no further than to the limit"
        );
    }

    #[test]
    fn promises_have_an_end() {
        let (mut first, mut second) = (Reader::new(), Reader::new());
        first.window.note(0, 1, true, first.now, RTT);
        second.window.note(0, 1, true, second.now, RTT);
        let mut promised = Promised::default();
        assert_eq!(first.window.widened(&mut promised, 9000), Some(8000));
        assert_eq!(second.window.widened(&mut promised, 9000), Some(3000));
        assert_eq!(second.window.widened(&mut promised, 9000), None);
        first.window.give_back(&mut promised);
        assert_eq!(second.window.widened(&mut promised, 9000), Some(8000));
    }
}
