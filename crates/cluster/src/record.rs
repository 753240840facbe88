//! Records of the log: the purges that one server made at a time.
//!
//! Called by: the outbox, which writes them, and the replica, which reads them.
//! Caveat: a format between servers of different versions. The first byte is the version; a server
//! that reads a version it does not know clears its cache. Tags are hashes of fixed size, so no
//! text of a client becomes part of a command or of another record; URLs and bans carry their
//! length.
//! Out of scope: purges one by one (`saker_cache_store::encode_purge`).

use saker_cache_store::{Purge, decode_purge, encode_purge};
use xxhash_rust::xxh3::xxh3_64;

const VERSION: u8 = 1;

/// A purge of everything on all servers.
const EVERYTHING: u8 = b'a';

/// Longer records are not valid.
pub const RECORD_BYTES_MAX: usize = 128 << 10;

const HEAD_BYTES: usize = 1 + 8 + 8;
const SUM_BYTES: usize = 8;

/// Room for purges in one record. A single longer purge becomes one of everything.
const PURGES_BYTES_MAX: usize = RECORD_BYTES_MAX - HEAD_BYTES - SUM_BYTES;

/// Purges of one server, numbered without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Random id of the server's outbox.
    pub origin: u64,
    pub seq: u64,
    pub purges: Purges,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purges {
    These(Vec<Purge>),
    Everything,
}

/// The reason why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    Malformed,
    Version(u8),
}

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        match &self.purges {
            Purges::Everything => body.push(EVERYTHING),
            Purges::These(purges) => purges
                .iter()
                .for_each(|purge| encode_purge(purge, &mut body)),
        }
        frame(self.origin, self.seq, &body)
    }

    /// # Errors
    /// The bytes are none of ours, damaged, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Record, RecordError> {
        let malformed = RecordError::Malformed;
        let (rest, sum) = bytes.split_last_chunk::<SUM_BYTES>().ok_or(malformed)?;
        if bytes.len() > RECORD_BYTES_MAX || xxh3_64(rest) != u64::from_le_bytes(*sum) {
            return Err(malformed);
        }
        let (version, rest) = rest.split_first().ok_or(malformed)?;
        if *version != VERSION {
            return Err(RecordError::Version(*version));
        }
        let (origin, rest) = rest.split_first_chunk().ok_or(malformed)?;
        let (seq, mut rest) = rest.split_first_chunk().ok_or(malformed)?;
        let purges = match rest {
            [EVERYTHING] => Purges::Everything,
            _ => {
                let mut purges = Vec::new();
                while !rest.is_empty() {
                    purges.push(decode_purge(&mut rest).ok_or(malformed)?);
                }
                Purges::These(purges)
            }
        };
        Ok(Record {
            origin: u64::from_le_bytes(*origin),
            seq: u64::from_le_bytes(*seq),
            purges,
        })
    }
}

/// The records for purges, numbered from `seq` on.
pub fn records(origin: u64, seq: u64, purges: &[Purge]) -> Vec<Vec<u8>> {
    let (mut bodies, mut body, mut one) = (Vec::new(), Vec::new(), Vec::new());
    for purge in purges {
        one.clear();
        encode_purge(purge, &mut one);
        if one.len() > PURGES_BYTES_MAX {
            return vec![frame(origin, seq, &[EVERYTHING])];
        }
        if body.len() + one.len() > PURGES_BYTES_MAX {
            bodies.push(std::mem::take(&mut body));
        }
        body.extend_from_slice(&one);
    }
    bodies.push(body);
    bodies
        .iter()
        .zip(seq..)
        .map(|(body, seq)| frame(origin, seq, body))
        .collect()
}

fn frame(origin: u64, seq: u64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_BYTES + body.len() + SUM_BYTES);
    out.push(VERSION);
    out.extend_from_slice(&origin.to_le_bytes());
    out.extend_from_slice(&seq.to_le_bytes());
    out.extend_from_slice(body);
    let sum = xxh3_64(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use saker_cache_store::{RemotePurge, TagMark};

    fn purges() -> Vec<Purge> {
        let url = |is_soft, is_implied| {
            Purge::Remote(RemotePurge::Url {
                scope: b"a.example"[..].into(),
                url: b"http://a.example:80/\r\n*3\r\n"[..].into(),
                is_soft,
                is_implied,
            })
        };
        vec![
            Purge::Tag {
                mark: TagMark(7),
                is_soft: false,
            },
            Purge::Tag {
                mark: TagMark(u64::MAX),
                is_soft: true,
            },
            Purge::Ban(b"expression\0a\0req.url ~ ^/"[..].into()),
            url(true, false),
            url(false, true),
            Purge::Remote(RemotePurge::Implied(TagMark(9))),
        ]
    }

    #[test]
    fn records_come_back() {
        for purges in [
            Purges::These(purges()),
            Purges::These(Vec::new()),
            Purges::Everything,
        ] {
            let record = Record {
                origin: 3,
                seq: 4,
                purges,
            };
            assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
    }

    #[test]
    fn many_purges_are_many_records_and_a_huge_one_is_everything() {
        let tags: Vec<Purge> = (0..40_000)
            .map(|number| Purge::Tag {
                mark: TagMark(number),
                is_soft: false,
            })
            .collect();
        let records = records(1, 10, &tags);
        assert_eq!(records.len(), 3);
        let mut all = Vec::new();
        for (bytes, seq) in records.iter().zip(10..) {
            assert!(bytes.len() <= RECORD_BYTES_MAX);
            let record = Record::decode(bytes).unwrap();
            assert_eq!(record.seq, seq);
            match record.purges {
                Purges::These(purges) => all.extend(purges),
                Purges::Everything => panic!("they fit"),
            }
        }
        assert_eq!(all, tags);
        // A kind and a length of four bytes come before the text.
        for (bytes, is_whole) in [(PURGES_BYTES_MAX - 5, true), (PURGES_BYTES_MAX - 4, false)] {
            let ban = Purge::Ban(vec![b'x'; bytes].into());
            let one = super::records(1, 1, &[ban.clone(), ban.clone()]);
            let first = Record::decode(&one[0]).unwrap().purges;
            match is_whole {
                true => assert_eq!((one.len(), first), (2, Purges::These(vec![ban]))),
                false => assert_eq!((one.len(), first), (1, Purges::Everything)),
            }
        }
    }

    /// Any bit, anywhere, and any cut.
    #[test]
    fn damage_is_noticed() {
        let whole = Record {
            origin: 3,
            seq: 4,
            purges: Purges::These(purges()),
        }
        .encode();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert!(Record::decode(&damaged).is_err(), "byte {at}");
            assert!(Record::decode(&whole[..at]).is_err(), "cut at {at}");
        }
    }

    /// The record of `purges()`, made by hand from the format. Servers of two versions share a log
    /// while they are upgraded one after the other, so these bytes never change under version 1.
    const RECORDED: &str = "010300000000000000040000000000000068070000000000000073ffffffffffffffff621900000065787072657373696f6e0061007265712e75726c207e205e2f750109000000612e6578616d706c651a000000687474703a2f2f612e6578616d706c653a38302f0d0a2a330d0a750209000000612e6578616d706c651a000000687474703a2f2f612e6578616d706c653a38302f0d0a2a330d0a6909000000000000006b3f9efef746842e";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn records_of_earlier_versions_are_read_and_written() {
        let record = Record {
            origin: 3,
            seq: 4,
            purges: Purges::These(purges()),
        };
        assert_eq!(hex(&record.encode()), RECORDED);
        let digits = RECORDED.as_bytes().chunks(2);
        let digits = digits.map(|pair| std::str::from_utf8(pair).unwrap());
        let bytes: Vec<u8> = digits
            .map(|pair| u8::from_str_radix(pair, 16).unwrap())
            .collect();
        assert_eq!(Record::decode(&bytes), Ok(record));
        let everything = Record {
            origin: 0x0102_0304_0506_0708,
            seq: 9,
            purges: Purges::Everything,
        };
        assert_eq!(
            hex(&everything.encode()),
            "01080706050403020109000000000000006155403b20e1f508c1"
        );
    }

    #[test]
    fn another_version_is_told_apart_from_rubbish() {
        let mut newer = frame(1, 1, b"something new");
        newer.truncate(newer.len() - SUM_BYTES);
        newer[0] = 2;
        let sum = xxh3_64(&newer).to_le_bytes();
        newer.extend_from_slice(&sum);
        assert_eq!(Record::decode(&newer), Err(RecordError::Version(2)));
    }

    proptest! {
        #[test]
        fn nothing_read_makes_it_stumble(body in proptest::collection::vec(any::<u8>(), 0..200), sums in any::<bool>()) {
            let bytes = if sums { frame(1, 2, &body) } else { body };
            if let Ok(record) = Record::decode(&bytes) {
                prop_assert_eq!(record.encode(), bytes);
            }
        }
    }
}
