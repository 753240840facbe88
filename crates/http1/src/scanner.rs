//! Scanner that decides when a head that arrives in pieces is parsed.
//!
//! Parsing from the start after every piece costs quadratic time: 32 kB sent byte by byte would be
//! parsed 32,000 times. The scanner looks at each byte once and says when parsing can tell anything
//! new: at the end of the head, at the end of the request line, at a bare line feed, beyond the
//! size limit, and each time the bytes have doubled, so that a fault in the middle of a slow head
//! is seen early and all parsing together stays linear.

use crate::limits::RequestLimits;

/// The state for one head; make a new one for the next. Not needed when the first read already
/// holds the whole head.
#[derive(Clone, Debug, Default)]
pub struct HeadScanner {
    scanned: usize,
    line_start: usize,
    /// Parsing is worth it again at this many bytes.
    next_attempt: usize,
}

impl HeadScanner {
    /// True if [`crate::parse_request`] should be asked now. `bytes` begin where the head begins
    /// and only grow between calls.
    pub fn worth_parsing(&mut self, bytes: &[u8], limits: &RequestLimits) -> bool {
        let worth = self.line_tells(bytes)
            || bytes.len() >= self.next_attempt.max(1)
            || bytes.len() > limits.head_bytes_max;
        if worth {
            self.next_attempt = bytes.len().saturating_mul(2);
        }
        worth
    }

    /// Goes over the lines that have ended since the last call.
    fn line_tells(&mut self, bytes: &[u8]) -> bool {
        let mut tells = false;
        while let Some(length) =
            memchr::memchr(b'\n', bytes.get(self.scanned..).unwrap_or_default())
        {
            let line_feed = self.scanned + length;
            let line = bytes.get(self.line_start..line_feed).unwrap_or_default();
            // An empty line, a first line, or no CR before the LF.
            tells |= self.line_start == 0 || line == b"\r" || !line.ends_with(b"\r");
            self.scanned = line_feed + 1;
            self.line_start = self.scanned;
        }
        self.scanned = bytes.len();
        tells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parsed, parse_request};
    use saker_http::HeadIndex;

    const LIMITS: RequestLimits = RequestLimits {
        head_bytes_max: 16_384,
        header_count_max: 1000,
        target_bytes_max: 8192,
        field_bytes_max: usize::MAX,
    };

    /// Attempts made while `bytes` come one by one, and the number of bytes at which there was an
    /// outcome.
    fn trickle(bytes: &[u8]) -> (usize, usize, bool) {
        let (mut scanner, mut index, mut attempts) =
            (HeadScanner::default(), HeadIndex::default(), 0);
        for end in 1..=bytes.len() {
            if scanner.worth_parsing(&bytes[..end], &LIMITS) {
                attempts += 1;
                match parse_request(&bytes[..end], &LIMITS, &mut index) {
                    Ok(Parsed::Partial) => {}
                    outcome => return (attempts, end, outcome.is_ok()),
                }
            }
        }
        (attempts, bytes.len(), false)
    }

    #[test]
    fn a_head_byte_by_byte_is_parsed_a_few_times_only() {
        let head = [
            &b"GET / HTTP/1.1\r\nHost: a\r\n"[..],
            &b"A: b\r\n".repeat(900),
            b"\r\n",
        ]
        .concat();
        let (attempts, end, accepted) = trickle(&head);
        assert!(accepted);
        assert_eq!(end, head.len());
        assert!(attempts < 20, "{attempts}");
    }

    #[test]
    fn the_end_is_seen_at_its_byte_and_bare_line_feeds_at_theirs() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(trickle(head).1, head.len());
        assert_eq!(trickle(&[b"\r\n", &head[..]].concat()).1, head.len() + 2);
        assert_eq!(
            trickle(b"GET / HTTP/1.1\r\nHost: a\nB: c\r\n").1,
            b"GET / HTTP/1.1\r\nHost: a\n".len()
        );
        assert_eq!(
            trickle(b"GET / HTTP/1.1\nHost: a\r\n").1,
            b"GET / HTTP/1.1\n".len()
        );
    }

    #[test]
    fn a_fault_in_an_unfinished_head_is_seen_before_twice_its_bytes() {
        let head = [
            &b"GET / HTTP/1.1\r\nBad Name: a\r\n"[..],
            &b"A: b\r\n".repeat(900),
        ]
        .concat();
        assert!(trickle(&head).1 < 64);
    }

    #[test]
    fn the_size_limit_is_seen_at_the_first_byte_beyond_it() {
        let head = [&b"GET / HTTP/1.1\r\nA: "[..], &[b'b'; 20_000]].concat();
        assert_eq!(trickle(&head).1, LIMITS.head_bytes_max + 1);
    }
}
