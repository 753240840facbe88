//! The cache's own part of an entry on disk: its lifetime and protocol; or, for a URL with
//! variants, what they vary by.
//!
//! Called by: `prepare`, `write`, `partial` and the server's cache commands.
//! Caveat: this is an on-disk format; bytes may come from another version or be damaged.
//! Out of scope: the rest of the entry (`saker_cache_store`).

use crate::search_variance::SearchRule;
use saker_cache_rules::{
    lscache::vary::VaryRules,
    rules::{Life, Vary},
};
use saker_cache_store::EntryHead;
use saker_http::{Fields, fields::known_name, range::ByteRange};

/// The response fields of an entry.
pub fn fields(head: &EntryHead) -> Fields {
    let stored = head.fields.iter();
    of_stored(stored.map(|(name, value)| (name, value.clone())))
}

/// The same of its stored names and values.
pub fn of_stored<N: AsRef<[u8]>>(stored: impl IntoIterator<Item = (N, Vec<u8>)>) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in stored {
        let name = String::from_utf8_lossy(name.as_ref());
        fields.append(known_name(&name), value);
    }
    fields
}

/// The range of a 206, and the total length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRange {
    pub range: ByteRange,
    pub total: u64,
}

/// The protocol by which an entry was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Http,
    Lscache,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Page {
        by: By,
        is_private: bool,
        /// Assembled for each client (ESI).
        is_template: bool,
        life: Life,
    },
    /// A range of a page.
    Part { piece: StoredRange, life: Life },
    /// The entry's key has these in addition.
    Vary(VaryRecord),
    /// The comparison of a path's queries.
    Search(SearchRule),
}

/// Request fields and rewrite-rule values that the responses of a URL vary by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VaryRecord {
    /// Request field names in lower case, sorted.
    pub fields: Vec<String>,
    /// Replaces what rewrite rules have set; `None`: no response has set any.
    pub rules: Option<VaryRules>,
    /// Cookies and rules select no variant after all.
    pub is_one: bool,
    /// Entries whose fetch began before this were replaced by a single entry that is gone; 0: none.
    pub since: u64,
}

impl VaryRecord {
    pub fn is_needed(&self) -> bool {
        !self.fields.is_empty() || self.rules.is_some() || self.is_one
    }

    /// Adds what another response varies by: all variants of a URL are found by the same list.
    pub fn joined(mut self, other: &VaryRecord) -> VaryRecord {
        self.fields.extend(other.fields.iter().cloned());
        self.fields.sort_unstable();
        self.fields.dedup();
        self.rules = match (self.rules, &other.rules) {
            (Some(own), Some(other)) => Some(own.over(other)),
            (own, other) => own.or_else(|| other.clone()),
        };
        self.since = self.since.max(other.since);
        self
    }

    /// True if it leads to the entry with that id.
    pub fn leads_to(&self, id: u64) -> bool {
        id >= self.since
    }

    pub fn vary(&self) -> Option<Vary> {
        Vary::new(self.fields.clone())
    }
}

const PAGE: u8 = 1;

const SIGN: u8 = 2;

const PART: u8 = 3;

const SEARCH: u8 = 4;

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Record::Page {
                by,
                is_private,
                is_template,
                life,
            } => {
                let mut out = vec![
                    PAGE,
                    u8::from(*by == By::Lscache),
                    u8::from(*is_private) | u8::from(*is_template) << 1,
                ];
                out.extend_from_slice(&life.encode());
                out
            }
            Record::Part {
                piece: StoredRange { range, total },
                life,
            } => {
                let numbers = [range.first, range.last, *total]
                    .map(u64::to_le_bytes)
                    .concat();
                [&[PART][..], &numbers, &life.encode()].concat()
            }
            Record::Search(rule) => [&[SEARCH], rule.text()].concat(),
            Record::Vary(vary_record) => {
                let mut out = vec![
                    SIGN,
                    u8::from(vary_record.rules.is_some()) | u8::from(vary_record.is_one) << 1,
                ];
                push_list(vary_record.fields.iter().map(String::as_bytes), &mut out);
                if let Some(rules) = &vary_record.rules {
                    push_list(rules.cookies.iter().map(Vec::as_slice), &mut out);
                    push_list(rules.value.iter().map(Vec::as_slice), &mut out);
                }
                if vary_record.since > 0 {
                    out.extend_from_slice(&vary_record.since.to_le_bytes());
                }
                out
            }
        }
    }

    pub fn decode(bytes: &[u8]) -> Option<Record> {
        match bytes {
            [PAGE, lscache, flags @ 0..4, life @ ..] => {
                let by = if *lscache == 1 { By::Lscache } else { By::Http };
                let (is_private, is_template) = (flags & 1 != 0, flags & 2 != 0);
                Some(Record::Page {
                    by,
                    is_private,
                    is_template,
                    life: Life::decode(life)?,
                })
            }
            [PART, rest @ ..] => {
                let mut rest = rest;
                let mut next = || Some(u64::from_le_bytes(take(&mut rest, 8)?.try_into().ok()?));
                let (range, total) = (
                    ByteRange {
                        first: next()?,
                        last: next()?,
                    },
                    next()?,
                );
                let is_sound = range.first <= range.last && range.last < total;
                is_sound.then_some(Record::Part {
                    piece: StoredRange { range, total },
                    life: Life::decode(rest)?,
                })
            }
            [SEARCH, text @ ..] => SearchRule::parse(text.to_vec()).map(Record::Search),
            [SIGN, flags @ 0..4, rest @ ..] => {
                let mut rest = rest;
                let fields = list(&mut rest)?
                    .into_iter()
                    .map(|name| String::from_utf8(name).ok())
                    .collect::<Option<_>>()?;
                let rules = match flags & 1 {
                    0 => None,
                    _ => Some(VaryRules {
                        cookies: list(&mut rest)?,
                        value: list(&mut rest)?.pop(),
                    }),
                };
                let since = match rest {
                    [] => 0,
                    number => u64::from_le_bytes(number.try_into().ok()?),
                };
                Some(Record::Vary(VaryRecord {
                    fields,
                    rules,
                    is_one: flags & 2 != 0,
                    since,
                }))
            }
            _ => None,
        }
    }
}

fn push_list<'b>(texts: impl Iterator<Item = &'b [u8]>, out: &mut Vec<u8>) {
    let texts: Vec<&[u8]> = texts.collect();
    out.extend_from_slice(&(texts.len() as u32).to_le_bytes());
    for text in texts {
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text);
    }
}

fn list(rest: &mut &[u8]) -> Option<Vec<Vec<u8>>> {
    (0..number(rest)?)
        .map(|_| {
            number(rest)
                .and_then(|length| take(rest, length as usize))
                .map(<[u8]>::to_vec)
        })
        .collect()
}

pub fn number(rest: &mut &[u8]) -> Option<u32> {
    take(rest, 4)?.try_into().ok().map(u32::from_le_bytes)
}

pub fn take<'b>(rest: &mut &'b [u8], bytes: usize) -> Option<&'b [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let rules = VaryRules {
            cookies: vec![b"a".to_vec(), b"b".to_vec()],
            value: Some(b"webp".to_vec()),
        };
        let records = [
            Record::Page {
                by: By::Http,
                is_private: false,
                is_template: true,
                life: Life {
                    born_ms: 5,
                    ..Life::default()
                },
            },
            Record::Page {
                by: By::Lscache,
                is_private: true,
                is_template: false,
                life: Life::default(),
            },
            Record::Part {
                piece: StoredRange {
                    range: ByteRange { first: 3, last: 9 },
                    total: 20,
                },
                life: Life {
                    born_ms: 5,
                    ..Life::default()
                },
            },
            Record::Vary(VaryRecord {
                fields: vec!["accept-language".into()],
                rules: None,
                is_one: true,
                since: 0,
            }),
            Record::Vary(VaryRecord {
                fields: Vec::new(),
                rules: Some(rules),
                is_one: false,
                since: 0,
            }),
        ];
        let later = Record::Vary(VaryRecord {
            fields: vec!["accept".into()],
            since: 7,
            ..VaryRecord::default()
        });
        assert_eq!(Record::decode(&later.encode()), Some(later));
        for record in records {
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes), Some(record.clone()));
            (0..bytes.len()).for_each(|end| {
                assert_eq!(
                    Record::decode(&bytes[..end]),
                    None,
                    "{record:?} cut at {end}"
                )
            });
        }
    }

    #[test]
    fn values_of_rules_stay_beside_cookies_of_responses() {
        let rules = |cookies: &[&str], value: Option<&str>| VaryRules {
            cookies: cookies
                .iter()
                .map(|name| name.as_bytes().to_vec())
                .collect(),
            value: value.map(|value| value.as_bytes().to_vec()),
        };
        let of_response = rules(&["currency"], None);
        assert_eq!(
            of_response.over(&rules(&["b"], Some("ismobile"))),
            rules(&["b", "currency"], Some("ismobile"))
        );
        let own = rules(&["currency"], Some("own"));
        assert_eq!(own.over(&rules(&[], Some("ismobile"))), own);
        let vary_record = |rules| VaryRecord {
            rules: Some(rules),
            ..VaryRecord::default()
        };
        assert_eq!(
            vary_record(of_response).joined(&vary_record(rules(&["b"], None))),
            vary_record(rules(&["b", "currency"], None))
        );
        // Four variants: two of the cookie, by two of the rules' value.
        let variant = |cookie: &str, value: Option<&str>| {
            let fields = [("Cookie", cookie)];
            let head =
                saker_http::RequestHead::build("GET", "/", saker_http::Version::Http11, &fields);
            rules(&["currency"], None)
                .over(&rules(&[], value))
                .string(head.view())
        };
        let all = [
            variant("currency=eur", None),
            variant("currency=usd", None),
            variant("currency=eur", Some("ismobile")),
            variant("currency=usd", Some("ismobile")),
        ];
        assert!((1..4).all(|at| !all[..at].contains(&all[at])), "{all:?}");
    }

    #[test]
    fn signs_join() {
        let vary_record = |fields: &[&str]| VaryRecord {
            fields: fields.iter().map(|name| name.to_string()).collect(),
            ..VaryRecord::default()
        };
        assert_eq!(
            vary_record(&["b"]).joined(&vary_record(&["a", "b"])),
            vary_record(&["a", "b"])
        );
        let since = |since: u64| VaryRecord {
            since,
            ..VaryRecord::default()
        };
        assert_eq!(
            (since(3).joined(&since(5)), since(5).joined(&since(3))),
            (since(5), since(5))
        );
        assert!(since(5).leads_to(5) && !since(5).leads_to(4));
        assert!(!vary_record(&[]).is_needed());
    }
}
