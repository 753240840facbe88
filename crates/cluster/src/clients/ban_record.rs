//! A ban, or the end of one, as servers tell it to each other.
//!
//! Called by: `ban_table` and `exchange`.
//! Caveat: a format between servers of different versions: the first byte is the version, and later
//! versions append. A stamp orders the changes of one block: milliseconds since the epoch, or one
//! more than the stamp that the block has, so that clocks that differ lose no change.
//! Out of scope: signatures (`secret`).

use saker_ipset::{Ban, Block};

const VERSION: u8 = 1;
const FOR_GOOD: i64 = i64::MIN;

/// Longer records are not valid.
const RECORD_BYTES_MAX: usize = 2048;

/// Stamps that are further in the future are not valid: they could not be overridden for long.
const AHEAD_MS_MAX: u64 = 86_400_000;

/// Time for which the end of a ban for good is remembered.
const END_KEPT_MS: u64 = 30 * 86_400_000;

/// The state of one block since a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanRecord {
    pub block: Block,
    pub stamp: u64,
    pub change: BanChange,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BanChange {
    Banned(Ban),
    /// Ended by a command. Remembered until this time, in milliseconds since the epoch: no
    /// server has the ban any more then.
    Lifted {
        until_ms: u64,
    },
}

impl BanRecord {
    pub fn banned(ban: Ban, stamp: u64) -> BanRecord {
        BanRecord {
            block: ban.block,
            stamp,
            change: BanChange::Banned(ban),
        }
    }

    /// `before`: the ban, if it is known.
    pub fn lifted(block: Block, stamp: u64, before: Option<&Ban>) -> BanRecord {
        let end_ms = before
            .and_then(|ban| ban.until_s)
            .map(|until_s| u64::try_from(until_s).unwrap_or_default() * 1000);
        let until_ms = end_ms.unwrap_or_else(|| stamp.saturating_add(END_KEPT_MS));
        BanRecord {
            block,
            stamp,
            change: BanChange::Lifted { until_ms },
        }
    }

    /// True if the record says nothing any more.
    pub fn is_over(&self, now_ms: u64) -> bool {
        let now_s = i64::try_from(now_ms / 1000).unwrap_or(i64::MAX);
        match &self.change {
            BanChange::Banned(ban) => ban.until_s.is_some_and(|until_s| until_s <= now_s),
            BanChange::Lifted { until_ms } => *until_ms <= now_ms,
        }
    }

    /// True if this state takes the place of `other`, the same on all servers.
    pub fn is_newer_than(&self, other: &BanRecord) -> bool {
        // Of two changes at once, the one that lets the client in.
        let is_lifted = |record: &BanRecord| matches!(record.change, BanChange::Lifted { .. });
        let order = |record: &BanRecord| (record.stamp, is_lifted(record), record.encode());
        order(self) > order(other)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.stamp.to_le_bytes());
        text(&self.block.to_string(), &mut bytes);
        match &self.change {
            BanChange::Lifted { until_ms } => {
                bytes.push(0);
                bytes.extend_from_slice(&until_ms.to_le_bytes());
            }
            BanChange::Banned(ban) => {
                bytes.push(1);
                bytes.extend_from_slice(&ban.since_s.to_le_bytes());
                bytes.extend_from_slice(&ban.until_s.unwrap_or(FOR_GOOD).to_le_bytes());
                text(&ban.reason, &mut bytes);
            }
        }
        bytes
    }

    /// `None`: not a record that this version reads.
    pub fn decode(bytes: &[u8], now_ms: u64) -> Option<BanRecord> {
        let (&version, mut rest) = bytes.split_first()?;
        if version != VERSION || bytes.len() > RECORD_BYTES_MAX {
            return None;
        }
        let stamp = u64::from_le_bytes(take(&mut rest)?);
        if stamp > now_ms.saturating_add(AHEAD_MS_MAX) {
            return None;
        }
        let block: Block = read_text(&mut rest)?.parse().ok()?;
        let [kind] = take(&mut rest)?;
        let change = match kind {
            0 => BanChange::Lifted {
                until_ms: u64::from_le_bytes(take(&mut rest)?),
            },
            1 => {
                let since_s = i64::from_le_bytes(take(&mut rest)?);
                let until_s = i64::from_le_bytes(take(&mut rest)?);
                let until_s = (until_s != FOR_GOOD).then_some(until_s);
                BanChange::Banned(Ban::new(block, since_s, until_s, &read_text(&mut rest)?))
            }
            _ => return None,
        };
        Some(BanRecord {
            block,
            stamp,
            change,
        })
    }
}

fn text(text: &str, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk::<N>()?;
    *rest = others;
    Some(*first)
}

fn read_text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::from(u16::from_le_bytes(take(rest)?));
    let (text, others) = rest.split_at_checked(length)?;
    *rest = others;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: u64 = 1_800_000_000_000;

    fn ban(until_s: Option<i64>) -> Ban {
        let block = "192.0.2.0/24".parse().unwrap();
        Ban::new(block, 1_799_999_000, until_s, "requests \u{fc}ber")
    }

    #[test]
    fn records_come_back() {
        for until_s in [None, Some(1_800_000_600)] {
            for record in [
                BanRecord::banned(ban(until_s), NOW),
                BanRecord::lifted(ban(until_s).block, NOW, Some(&ban(until_s))),
            ] {
                let bytes = record.encode();
                assert_eq!(BanRecord::decode(&bytes, NOW), Some(record.clone()));
                let longer = [&bytes[..], b"of a later version"].concat();
                assert_eq!(BanRecord::decode(&longer, NOW), Some(record));
                for cut in 0..bytes.len() {
                    assert_eq!(BanRecord::decode(&bytes[..cut], NOW), None);
                }
            }
        }
    }

    #[test]
    fn stamps_of_the_far_future_are_not_taken() {
        let at = |stamp| BanRecord::decode(&BanRecord::banned(ban(None), stamp).encode(), NOW);
        assert!(at(NOW + AHEAD_MS_MAX).is_some());
        assert!(at(NOW + AHEAD_MS_MAX + 1).is_none());
    }

    #[test]
    fn the_end_of_a_ban_is_known_for_as_long_as_the_ban_would_be() {
        let lifted = |until_s| BanRecord::lifted(ban(until_s).block, NOW, Some(&ban(until_s)));
        let short = lifted(Some((NOW / 1000) as i64 + 60));
        assert!(!short.is_over(NOW + 59_999) && short.is_over(NOW + 60_000));
        let long = lifted(None);
        assert!(!long.is_over(NOW + END_KEPT_MS - 1) && long.is_over(NOW + END_KEPT_MS));
        let banned = BanRecord::banned(ban(Some((NOW / 1000) as i64 + 60)), NOW);
        assert!(!banned.is_over(NOW + 59_999) && banned.is_over(NOW + 60_000));
        assert!(lifted(None).is_newer_than(&BanRecord::banned(ban(None), NOW)));
        assert!(!BanRecord::banned(ban(None), NOW).is_newer_than(&lifted(None)));
        assert!(BanRecord::banned(ban(None), NOW + 1).is_newer_than(&lifted(None)));
    }

    proptest! {
        #[test]
        fn nothing_read_makes_it_stumble(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(record) = BanRecord::decode(&[&[VERSION], &bytes[..]].concat(), u64::MAX) {
                prop_assert_eq!(BanRecord::decode(&record.encode(), u64::MAX), Some(record));
            }
        }
    }
}
