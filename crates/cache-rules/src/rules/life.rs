//! The lifetime of an entry: the result of judging its response, enough to judge every use of it.
//!
//! Called by: [`super::judge`], which makes it, [`super::reuse`], which reads it, and the page
//! cache, which stores it as bytes.
//! Caveat: bytes come back from disk, perhaps written by another version, so they are checked, and
//! unknown ones are rejected.
//! Out of scope: a checksum, which the store has for the whole entry.

/// Plain data; times in milliseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// Time at which the response was received; purges compare with it.
    pub stored_ms: i64,
    /// Time at which the origin generated it, as far as known (RFC 9111 section 4.2.3): Age counts
    /// from here.
    pub born_ms: i64,
    pub fresh_until_ms: i64,
    /// RFC 5861 section 3; equal to `fresh_until_ms` without such a window.
    pub stale_while_revalidate_until_ms: i64,
    /// RFC 5861 section 4, likewise.
    pub stale_if_error_until_ms: i64,
    /// Useless afterwards.
    pub keep_until_ms: i64,
    /// Never served stale because a client accepts it (must-revalidate, proxy-revalidate,
    /// s-maxage).
    pub must_revalidate: bool,
    /// Must be validated before each use (no-cache).
    pub always_validates: bool,
    /// RFC 8246.
    pub immutable: bool,
    /// The freshness is heuristic (section 4.2.2).
    pub guessed: bool,
    /// May answer requests with a session cookie: it is explicitly public, or selected by the
    /// cookie.
    pub for_sessions: bool,
    /// May answer requests with Authorization (section 3.5).
    pub for_authorized: bool,
    /// Answers requests only that are no client's own ([`super::personal`]): its freshness is
    /// heuristic, and the operator has not asked for that.
    pub without_cookies: bool,
    /// Fields that `no-cache="…"` and `private="…"` name, in lower case: not stored (sections
    /// 5.2.2.4 and 5.2.2.7).
    pub hidden_fields: Vec<String>,
}

const VERSION: u8 = 1;
const TIMES: usize = 6;
const NAMES_MAX: usize = u8::MAX as usize;

impl Life {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for time in self.times() {
            out.extend_from_slice(&time.to_le_bytes());
        }
        let flags = self
            .flags()
            .iter()
            .enumerate()
            .fold(0u8, |bits, (at, flag)| bits | (u8::from(*flag) << at));
        let names = self.storable_names();
        out.extend_from_slice(&[flags, names.len() as u8]);
        for name in names {
            out.push(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
        }
        out
    }

    /// `None` for anything that [`Life::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Option<Life> {
        let mut rest = bytes;
        let mut life = Life::default();
        if take(&mut rest, 1)? != [VERSION] {
            return None;
        }
        let mut times = [0; TIMES];
        for time in &mut times {
            *time = i64::from_le_bytes(take(&mut rest, 8)?.try_into().ok()?);
        }
        life.set_times(times);
        let [flags, names] = *take(&mut rest, 2)? else {
            return None;
        };
        life.set_flags(flags)?;
        for _ in 0..names {
            let length = *take(&mut rest, 1)?.first()?;
            let name = take(&mut rest, usize::from(length))?;
            if !saker_http::chars::is_token(name) {
                return None;
            }
            life.hidden_fields
                .push(std::str::from_utf8(name).ok()?.to_owned());
        }
        rest.is_empty().then_some(life)
    }

    /// True if there are more, or longer, hidden fields than can be encoded: such a response is not
    /// stored.
    pub fn hides_too_much(&self) -> bool {
        self.storable_names().len() != self.hidden_fields.len()
    }

    fn storable_names(&self) -> Vec<&String> {
        self.hidden_fields
            .iter()
            .filter(|name| name.len() <= usize::from(u8::MAX))
            .take(NAMES_MAX)
            .collect()
    }

    fn times(&self) -> [i64; TIMES] {
        [
            self.stored_ms,
            self.born_ms,
            self.fresh_until_ms,
            self.stale_while_revalidate_until_ms,
            self.stale_if_error_until_ms,
            self.keep_until_ms,
        ]
    }

    fn set_times(&mut self, times: [i64; TIMES]) {
        [
            self.stored_ms,
            self.born_ms,
            self.fresh_until_ms,
            self.stale_while_revalidate_until_ms,
            self.stale_if_error_until_ms,
            self.keep_until_ms,
        ] = times;
    }

    fn flags(&self) -> [bool; 7] {
        [
            self.must_revalidate,
            self.always_validates,
            self.immutable,
            self.guessed,
            self.for_sessions,
            self.for_authorized,
            self.without_cookies,
        ]
    }

    fn set_flags(&mut self, bits: u8) -> Option<()> {
        let flag = |at: u8| bits & (1 << at) != 0;
        self.must_revalidate = flag(0);
        self.always_validates = flag(1);
        self.immutable = flag(2);
        self.guessed = flag(3);
        self.for_sessions = flag(4);
        self.for_authorized = flag(5);
        self.without_cookies = flag(6);
        (bits < 1 << 7).then_some(())
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_whole_is_no_life() {
        let life = Life {
            stored_ms: -1,
            for_sessions: true,
            hidden_fields: vec!["set-cookie".into(), "x".into()],
            ..Life::default()
        };
        let bytes = life.encode();
        assert_eq!(Life::decode(&bytes), Some(life));
        (0..bytes.len()).for_each(|end| assert_eq!(Life::decode(&bytes[..end]), None, "{end}"));
        assert_eq!(
            Life::decode(&[&bytes[..], b"x"].concat()),
            None,
            "more than whole"
        );
        let changed =
            |at: usize, byte: u8| Life::decode(&[&bytes[..at], &[byte], &bytes[at + 1..]].concat());
        assert_eq!(changed(0, 2), None, "another version");
        assert_eq!(changed(49, 0x80), None, "a flag of the future");
        assert_eq!(changed(52, b' '), None, "no name");
    }

    #[test]
    fn names_that_do_not_fit_are_told() {
        let hides = |names: Vec<String>| {
            Life {
                hidden_fields: names,
                ..Life::default()
            }
            .hides_too_much()
        };
        assert!(!hides(vec!["x".repeat(255); 255]));
        assert!(hides(vec!["x".repeat(256)]));
        assert!(hides(vec!["x".into(); 256]));
    }

    proptest! {
        #[test]
        fn round_trips(times: [i64; TIMES], flags in 0u8..128, hidden_fields in prop::collection::vec("[a-z!-]{1,20}", 0..5)) {
            let mut life = Life { hidden_fields, ..Life::default() };
            life.set_times(times);
            life.set_flags(flags);
            prop_assert_eq!(Life::decode(&life.encode()), Some(life));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            if let Some(life) = Life::decode(&bytes) {
                prop_assert_eq!(life.encode(), bytes);
            }
        }
    }
}
