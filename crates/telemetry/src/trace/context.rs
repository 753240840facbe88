//! Trace contexts: `traceparent` and `tracestate` (W3C Trace Context).
//!
//! Called by: the pipeline, for requests of clients; the gateway, for those to upstreams.
//! Caveat: ids are random, and need not be secret.
//! Out of scope: whose context is continued.

use std::{cell::Cell, collections::hash_map::RandomState, hash::BuildHasher};

/// Length of a `traceparent` of version 00.
const PARENT_BYTES: usize = 55;
/// Longest list that is passed on (section 3.3.1.5 asks for 512 at least).
const STATE_BYTES_MAX: usize = 512;
/// Section 3.3.1.1.
const STATE_MEMBERS_MAX: usize = 32;

/// A request's place in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace_id: [u8; 16],
    /// The span of the request.
    pub span_id: [u8; 8],
    pub parent_id: Option<[u8; 8]>,
    pub is_sampled: bool,
    /// `tracestate` as received; empty if there is none.
    pub state: Box<[u8]>,
}

/// A `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    pub is_sampled: bool,
}

impl Parent {
    /// Parses a field (section 3.2.2). Later versions are read as far as this one goes.
    pub fn parse(text: &[u8]) -> Option<Parent> {
        let (head, rest) = text.split_at_checked(PARENT_BYTES)?;
        let is_shaped = [2, 35, 52].iter().all(|at| head.get(*at) == Some(&b'-'));
        let mut version = [0; 1];
        hex(head.get(..2)?, &mut version)?;
        let is_known = version[0] == 0;
        if !is_shaped
            || version[0] == 0xff
            || (is_known && !rest.is_empty())
            || (!rest.is_empty() && rest.first() != Some(&b'-'))
        {
            return None;
        }
        let (mut trace_id, mut span_id, mut flags) = ([0; 16], [0; 8], [0; 1]);
        hex(head.get(3..35)?, &mut trace_id)?;
        hex(head.get(36..52)?, &mut span_id)?;
        hex(head.get(53..55)?, &mut flags)?;
        (trace_id != [0; 16] && span_id != [0; 8]).then_some(Parent {
            trace_id,
            span_id,
            is_sampled: flags[0] & 1 == 1,
        })
    }
}

/// Reads lowercase hexadecimal digits.
fn hex(text: &[u8], out: &mut [u8]) -> Option<()> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    for (pair, out) in text.chunks_exact(2).zip(out) {
        let [high, low] = pair else { return None };
        *out = digit(*high)? << 4 | digit(*low)?;
    }
    Some(())
}

/// Returns true if a `tracestate` may be passed on (section 3.3.1).
pub fn is_trace_state(text: &[u8]) -> bool {
    let mut members = 0;
    text.len() <= STATE_BYTES_MAX
        && text.split(|byte| *byte == b',').all(|member| {
            let member = member.trim_ascii();
            members += 1;
            members <= STATE_MEMBERS_MAX && (member.is_empty() || is_member(member))
        })
}

fn is_member(member: &[u8]) -> bool {
    let Some(equals) = member.iter().position(|byte| *byte == b'=') else {
        return false;
    };
    let (key, value) = (&member[..equals], &member[equals + 1..]);
    let is_key_byte =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(byte);
    let begins = key
        .first()
        .is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    begins
        && key.len() <= 256
        && key.iter().all(is_key_byte)
        && (1..=256).contains(&value.len())
        && value
            .iter()
            .all(|byte| matches!(byte, b' '..=b'~') && !b",=".contains(byte))
}

/// 64 random bits.
fn random() -> u64 {
    thread_local! {
        static KEYS: RandomState = RandomState::new();
        static COUNT: Cell<u64> = const { Cell::new(0) };
    }
    let count = COUNT.get().wrapping_add(1);
    COUNT.set(count);
    let seed = (count, saker_net::clock::realtime_precise_ns());
    KEYS.with(|keys| keys.hash_one(seed))
}

/// A new id of a span, which is never zero.
pub fn new_span_id() -> [u8; 8] {
    random().max(1).to_be_bytes()
}

impl TraceContext {
    /// Begins a trace, of which `sample_ppm` millionths are recorded.
    pub fn begin(sample_ppm: u64) -> TraceContext {
        let mut trace_id = [0; 16];
        trace_id[..8].copy_from_slice(&random().to_be_bytes());
        trace_id[8..].copy_from_slice(&new_span_id());
        TraceContext {
            trace_id,
            span_id: new_span_id(),
            parent_id: None,
            is_sampled: random() % 1_000_000 < sample_ppm,
            state: Box::default(),
        }
    }

    /// Continues a trace.
    pub fn follow(parent: Parent, state: &[u8]) -> TraceContext {
        TraceContext {
            trace_id: parent.trace_id,
            span_id: new_span_id(),
            parent_id: Some(parent.span_id),
            is_sampled: parent.is_sampled,
            state: state.into(),
        }
    }

    /// Returns the `traceparent` of a request that belongs to the span.
    pub fn parent_field(&self, span_id: [u8; 8]) -> Vec<u8> {
        let mut out = b"00-".to_vec();
        let digits = |bytes: &[u8], out: &mut Vec<u8>| {
            for byte in bytes {
                out.extend_from_slice(format!("{byte:02x}").as_bytes());
            }
        };
        digits(&self.trace_id, &mut out);
        out.push(b'-');
        digits(&span_id, &mut out);
        out.extend_from_slice(if self.is_sampled { b"-01" } else { b"-00" });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn parents_are_parsed_strictly() {
        let parent = Parent::parse(GOOD.as_bytes()).expect("valid");
        assert!(parent.is_sampled && parent.trace_id[0] == 0x0a && parent.span_id[7] == 0x31);
        let context = TraceContext::follow(parent, b"");
        assert_eq!(context.parent_field(parent.span_id), GOOD.as_bytes());
        for good in [
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-later",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-09",
        ] {
            assert!(Parent::parse(good.as_bytes()).is_some(), "{good}");
        }
        for bad in [
            "",
            "00",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
            "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
            " 0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(Parent::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn states() {
        let long = format!("a={}", "x".repeat(256));
        for good in [
            "",
            "a=1",
            "rojo=00f067aa0ba902b7, congo=t61rcWkgMzE",
            "t@v=x",
            "a=1,,b=2",
            &long,
        ] {
            assert!(is_trace_state(good.as_bytes()), "{good}");
        }
        let many = vec!["a=1"; 33].join(",");
        for bad in [
            "a",
            "A=1",
            "=1",
            "a=",
            "a=b=c",
            "a=\r\nX: y",
            &many,
            &"a=1,".repeat(200),
        ] {
            assert!(!is_trace_state(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn samples() {
        let sampled = |ppm| {
            (0..1000)
                .filter(|_| TraceContext::begin(ppm).is_sampled)
                .count()
        };
        assert_eq!((sampled(0), sampled(1_000_000)), (0, 1000));
        assert_ne!(
            TraceContext::begin(0).trace_id,
            TraceContext::begin(0).trace_id
        );
    }
}
