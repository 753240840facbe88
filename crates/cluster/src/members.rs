//! The servers of a cluster, as they announce themselves.
//!
//! Called by: `follow` and `node`.
//! Caveat: a server lives while its announcements change, by this server's clock; no clock is
//! compared with another. Anything may be in the engine, so a text that is not as written here is
//! no server, and their number is bounded.
//! Out of scope: the transport of announcements (`log`).

use crate::{log::EntryId, peers::Peer};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::SocketAddr,
    time::{Duration, Instant},
};

/// Time without a new announcement after which a server counts as gone.
pub const GONE_AFTER: Duration = Duration::from_secs(5);

/// Time after which a server that is gone is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// Servers that are listened to.
pub const MEMBERS_MAX: usize = 1024;

const NAME_BYTES_MAX: usize = 64;

/// Begin of the word with the address for pages.
const PEER: &str = "peer=";

/// Begin of the word with the age of what the server knows.
const STALE: &str = "stale=";

/// An announcement: words separated by spaces. Later versions append words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Random; differs from start to start.
    pub run: u64,
    pub name: String,
    pub version: String,
    /// Differs from one announcement to the next.
    pub stamp: u64,
    pub position: EntryId,
    /// Number of the last purge that the log has.
    pub sent: u64,
    pub waiting: u64,
    pub is_serving: bool,
    /// Address at which the others can ask it for pages.
    pub peer: Option<SocketAddr>,
    /// Milliseconds since it last knew that it had read all purges. `None`: it never did, or has a
    /// version that does not say.
    pub stale_ms: Option<u64>,
}

impl fmt::Display for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "1 {:x} {} {} {} {} {} {} {}",
            self.run,
            self.name,
            self.version,
            self.stamp,
            self.position,
            self.sent,
            self.waiting,
            if self.is_serving {
                "serving"
            } else {
                "waiting"
            },
        )?;
        if let Some(address) = &self.peer {
            write!(f, " {PEER}{address}")?;
        }
        match self.stale_ms {
            Some(stale_ms) => write!(f, " {STALE}{stale_ms}"),
            None => Ok(()),
        }
    }
}

impl Announcement {
    pub fn parse(text: &str) -> Option<Announcement> {
        let mut words = text.split(' ');
        words
            .next()?
            .parse::<u32>()
            .ok()
            .filter(|version| *version >= 1)?;
        let mut announced = Announcement {
            run: u64::from_str_radix(words.next()?, 16).ok()?,
            name: word(words.next()?)?,
            version: word(words.next()?)?,
            stamp: words.next()?.parse().ok()?,
            position: EntryId::parse(words.next()?)?,
            sent: words.next()?.parse().ok()?,
            waiting: words.next()?.parse().ok()?,
            is_serving: words.next()? == "serving",
            peer: None,
            stale_ms: None,
        };
        for word in words {
            if let Some(address) = word.strip_prefix(PEER) {
                announced.peer = announced.peer.or_else(|| address.parse().ok());
            } else if let Some(stale_ms) = word.strip_prefix(STALE) {
                announced.stale_ms = announced.stale_ms.or_else(|| stale_ms.parse().ok());
            }
        }
        Some(announced)
    }
}

/// Returns true if a server may be called that.
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._+".contains(&byte))
}

fn word(text: &str) -> Option<String> {
    is_name(text).then(|| text.to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    Alive,
    /// Known from the log's engine, and not heard since this server started to listen.
    Unheard,
    Gone,
}

impl MemberState {
    pub fn word(self) -> &'static str {
        match self {
            MemberState::Alive => "alive",
            MemberState::Unheard => "unheard",
            MemberState::Gone => "gone",
        }
    }
}

/// A server, for the status.
#[derive(Clone, Debug)]
pub struct MemberReport {
    pub id: u64,
    pub name: String,
    pub version: String,
    pub state: MemberState,
    pub position: EntryId,
    pub waiting: u64,
    pub is_serving: bool,
    pub peer: Option<SocketAddr>,
    pub heard_ms_ago: u64,
    /// At most so long ago it had read all purges. `None`: it never had, as far as is known.
    pub lag_ms: Option<u64>,
}

#[derive(Debug)]
struct Member {
    last: Announcement,
    changed: Instant,
    is_heard: bool,
}

#[derive(Debug, Default)]
pub struct Members(BTreeMap<u64, Member>);

impl Members {
    /// Notes announcements; returns the ids of servers to forget.
    pub fn observe(&mut self, states: &[(String, String)], now: Instant) -> Vec<String> {
        let mut known = BTreeSet::new();
        for (id, text) in states.iter().take(MEMBERS_MAX) {
            let (Ok(id), Some(announced)) =
                (u64::from_str_radix(id, 16), Announcement::parse(text))
            else {
                continue;
            };
            known.insert(id);
            let member = self.0.entry(id).or_insert_with(|| Member {
                last: announced.clone(),
                changed: now,
                is_heard: false,
            });
            if member.last != announced {
                (member.last, member.changed, member.is_heard) = (announced, now, true);
            }
        }
        self.0.retain(|id, _| known.contains(id));
        let is_forgotten = |member: &Member| now.duration_since(member.changed) > FORGOTTEN_AFTER;
        self.0
            .iter()
            .filter(|(_, member)| is_forgotten(member))
            .map(|(id, _)| key(*id))
            .collect()
    }

    /// Servers by id.
    pub fn reports(&self, now: Instant) -> Vec<MemberReport> {
        let report = |(id, member): (&u64, &Member)| {
            let silence = now.duration_since(member.changed);
            MemberReport {
                id: *id,
                name: member.last.name.clone(),
                version: member.last.version.clone(),
                state: match (silence > GONE_AFTER, member.is_heard) {
                    (true, _) => MemberState::Gone,
                    (false, true) => MemberState::Alive,
                    (false, false) => MemberState::Unheard,
                },
                position: member.last.position,
                waiting: member.last.waiting,
                is_serving: member.last.is_serving,
                peer: member.last.peer,
                heard_ms_ago: silence.as_millis() as u64,
                lag_ms: member
                    .last
                    .stale_ms
                    .map(|stale_ms| stale_ms.saturating_add(silence.as_millis() as u64)),
            }
        };
        self.0.iter().map(report).collect()
    }

    /// Servers other than `own` that live, use their caches, and hand out pages.
    pub fn peers(&self, own: u64, now: Instant) -> Vec<Peer> {
        let lives = |member: &Member| {
            member.is_heard
                && member.last.is_serving
                && now.duration_since(member.changed) <= GONE_AFTER
        };
        self.0
            .iter()
            .filter(|(id, member)| **id != own && lives(member))
            .filter_map(|(id, member)| {
                let address = member.last.peer?;
                Some(Peer { id: *id, address })
            })
            .collect()
    }

    /// Numbers of purges that servers say they have sent.
    pub fn sent(&self) -> Vec<(u64, u64)> {
        self.0
            .iter()
            .map(|(id, member)| (*id, member.last.sent))
            .collect()
    }

    pub fn run_of(&self, id: u64) -> Option<u64> {
        self.0.get(&id).map(|member| member.last.run)
    }
}

/// A server's id as a name in the engine.
pub fn key(id: u64) -> String {
    format!("{id:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(stamp: u64) -> Announcement {
        Announcement {
            run: 0xab,
            name: "web-1".into(),
            version: "0.2.0".into(),
            stamp,
            position: EntryId { major: 5, minor: 1 },
            sent: 3,
            waiting: 0,
            is_serving: true,
            peer: None,
            stale_ms: None,
        }
    }

    #[test]
    fn announcements_come_back_and_later_words_do_not_matter() {
        let text = announcement(1).to_string();
        // Servers of two versions read each other's: the words of version 1 stay as they are.
        assert_eq!(text, "1 ab web-1 0.2.0 1 5-1 3 0 serving");
        assert_eq!(Announcement::parse(&text), Some(announcement(1)));
        let later = text.replacen("1 ", "2 ", 1) + " more words";
        assert_eq!(Announcement::parse(&later), Some(announcement(1)));
        let with_peer = Announcement {
            peer: Some(([10, 0, 0, 1], 7443).into()),
            ..announcement(1)
        };
        let text_with_peer = with_peer.to_string();
        assert_eq!(text_with_peer, format!("{text} peer=10.0.0.1:7443"));
        assert_eq!(Announcement::parse(&text_with_peer), Some(with_peer));
        let stale = Announcement {
            stale_ms: Some(1_500),
            peer: Some(([10, 0, 0, 1], 7443).into()),
            ..announcement(1)
        };
        let text_with_both = stale.to_string();
        assert_eq!(
            text_with_both,
            format!("{text} peer=10.0.0.1:7443 stale=1500")
        );
        assert_eq!(Announcement::parse(&text_with_both), Some(stale));
        for odd in ["stale=", "stale=-1", "stale=x"] {
            let odd = format!("{text} {odd}");
            assert_eq!(Announcement::parse(&odd), Some(announcement(1)));
        }
        let mut members = Members::default();
        let start = Instant::now();
        members.observe(&[(key(7), text_with_both)], start);
        let later = start + Duration::from_millis(200);
        assert_eq!(members.reports(later)[0].lag_ms, Some(1_700));
        members.observe(&[(key(7), format!("{text} stale={}", u64::MAX))], later);
        let report = &members.reports(later + Duration::from_millis(200))[0];
        assert_eq!(report.lag_ms, Some(u64::MAX), "hostile");
        let odd = format!("{text} peer=shop.example:7443");
        assert_eq!(Announcement::parse(&odd), Some(announcement(1)));
        for wrong in [
            "",
            "1",
            "x ab web 0.2 1 5-1 3 0 serving",
            "0 ab web 0.2 1 5-1 3 0 serving",
            "1 ab w\u{1b}[2Jeb 0.2 1 5-1 3 0 serving",
            "1 ab web 0.2 1 51 3 0 serving",
            &text.replace("web-1", &"x".repeat(65)),
        ] {
            assert_eq!(Announcement::parse(wrong), None, "{wrong:?}");
        }
        assert!(is_name(&"x".repeat(64)) && !is_name("") && !is_name("a b"));
    }

    #[test]
    fn a_server_lives_while_its_announcements_change() {
        let mut members = Members::default();
        let start = Instant::now();
        let state = |members: &Members, now| members.reports(now)[0].state;
        let say = |members: &mut Members, stamp, now| {
            members.observe(&[(key(7), announcement(stamp).to_string())], now)
        };
        say(&mut members, 1, start);
        assert_eq!(state(&members, start), MemberState::Unheard);
        say(&mut members, 2, start);
        assert_eq!(state(&members, start + GONE_AFTER), MemberState::Alive);
        let late = start + GONE_AFTER + Duration::from_millis(1);
        say(&mut members, 2, late);
        assert_eq!(state(&members, late), MemberState::Gone);
        assert_eq!(say(&mut members, 2, start + FORGOTTEN_AFTER), [""; 0]);
        let end = start + FORGOTTEN_AFTER + Duration::from_secs(1);
        assert_eq!(say(&mut members, 2, end), [key(7)]);
        members.observe(&[("odd".into(), "odd".into())], end);
        assert!(members.reports(end).is_empty());
    }

    #[test]
    fn only_servers_that_live_and_serve_hand_out_pages() {
        let mut members = Members::default();
        let start = Instant::now();
        let at = |stamp, is_serving| {
            let peer = Some(SocketAddr::from(([10, 0, 0, 1], 7443)));
            Announcement {
                peer,
                is_serving,
                ..announcement(stamp)
            }
        };
        let mut say = |announced: Announcement, now| {
            members.observe(&[(key(7), announced.to_string())], now);
            (members.peers(1, now).len(), members.peers(7, now).len())
        };
        assert_eq!(say(at(1, true), start), (0, 0), "perhaps long gone");
        assert_eq!(say(at(2, true), start), (1, 0), "not this server itself");
        assert_eq!(say(at(3, false), start), (0, 0));
        assert_eq!(say(announcement(4), start), (0, 0), "it hands out none");
        assert_eq!(say(at(5, true), start), (1, 0));
        let late = start + GONE_AFTER + Duration::from_millis(1);
        assert_eq!(say(at(5, true), late), (0, 0));
    }

    #[test]
    fn servers_are_bounded() {
        let mut members = Members::default();
        let many: Vec<_> = (0..MEMBERS_MAX as u64 + 1)
            .map(|id| (key(id), announcement(1).to_string()))
            .collect();
        members.observe(&many, Instant::now());
        assert_eq!(members.reports(Instant::now()).len(), MEMBERS_MAX);
    }
}
