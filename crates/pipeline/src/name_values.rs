//! Names and values that rules make for one request to an upstream, in place of the client's fields.
//!
//! Called by: front ends whose rules make them for each request; the gateway, which writes them
//! behind the client's own.
//! Caveat: of fields, spellings that programs cannot tell apart are one name, so the gateway drops
//! those of the client, too.
//! Out of scope: edits of the configuration (`Settings::upstream_fields`).

/// An ordered list of names and values in one buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameValues {
    /// For each entry the lengths of name and value, then both.
    bytes: Vec<u8>,
}

/// The two lengths.
const LENGTHS: usize = 2 * LENGTH;
const LENGTH: usize = size_of::<u32>();
/// Room for those of most requests.
const USUAL_BYTES: usize = 256;

impl NameValues {
    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds a name, and the value that `write` appends to what it gets.
    pub fn push(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        if self.bytes.is_empty() {
            self.bytes.reserve(USUAL_BYTES);
        }
        self.bytes.extend_from_slice(&length(name.len()));
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; LENGTH]);
        self.bytes.extend_from_slice(name.as_bytes());
        let value_at = self.bytes.len();
        write(&mut self.bytes);
        let value = self.bytes.len().saturating_sub(value_at);
        if let Some(place) = self.bytes.get_mut(at..at + LENGTH) {
            place.copy_from_slice(&length(value));
        }
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (lengths, behind) = rest.split_at_checked(LENGTHS)?;
            let (name, value) = lengths.split_at(LENGTH);
            let (name, behind) = behind.split_at_checked(number(name)?)?;
            let (value, behind) = behind.split_at_checked(number(value)?)?;
            rest = behind;
            Some((name, value))
        })
    }

    /// Returns the first value of this name, in any case.
    pub fn first(&self, name: &str) -> Option<&[u8]> {
        let mut entries = self.iter();
        let entry = entries.find(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()));
        entry.map(|(_, value)| value)
    }
}

/// Heads are far shorter.
fn length(bytes: usize) -> [u8; LENGTH] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_ne_bytes()
}

fn number(bytes: &[u8]) -> Option<usize> {
    Some(u32::from_ne_bytes(bytes.try_into().ok()?) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_pushed_is_read_in_order() {
        let mut all = NameValues::default();
        assert!(all.is_empty() && all.iter().next().is_none() && all.first("host").is_none());
        all.push("Expect", |_| ());
        all.push("Host", |value| value.extend_from_slice(b"one"));
        all.push("X-Long", |value| value.resize(value.len() + 70_000, b'x'));
        all.push("host", |value| value.extend_from_slice(b"two"));
        let seen: Vec<(&[u8], usize)> = all
            .iter()
            .map(|(name, value)| (name, value.len()))
            .collect();
        assert_eq!(
            seen,
            [
                (&b"Expect"[..], 0),
                (b"Host", 3),
                (b"X-Long", 70_000),
                (b"host", 3)
            ]
        );
        assert_eq!(
            (all.first("HOST"), all.first("expect")),
            (Some(&b"one"[..]), Some(&b""[..]))
        );
        all.clear();
        assert!(all.is_empty() && all.first("Host").is_none());
    }
}
