//! Sessions of browsers, and one-time links for logging in.
//!
//! Called by: the gate, and log-in; `saker console`, through the control socket, for links.
//! Caveat: a token is random and signed with a key of this process; only hashes of tokens are
//! kept, and a new token is made at each log-in, so that one planted before it is worth nothing.
//! Sessions go on over an upgrade, and end with the process otherwise.
//! Out of scope: cookies (`cookie`), passwords (`users`).

use crate::users::{Role, Users, sha256};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Time without a request after which a session ends.
pub const IDLE_S: i64 = 3_600;
/// Time after which it ends anyway.
pub const LIFETIME_S: i64 = 12 * 3_600;
pub const SESSIONS_MAX: usize = 64;
/// Time in which a link must be used.
pub const LINK_LIFETIME_S: i64 = 300;
pub const LINKS_MAX: usize = 8;
const TOKEN_BYTES: usize = 32;

/// User or token that has passed the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    pub role: Role,
    /// The site of an owner, who has no rights beyond it.
    pub site: Option<String>,
    /// It has a line in the users file; a link has none, whatever its name is.
    pub is_account: bool,
    pub by: By,
}

/// Proof of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Session,
    Token,
}

/// The reason for a session, which lasts no longer than it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A link of `saker console`.
    Link,
    /// A line of the users file, by its stamp.
    Account([u8; 32]),
    /// A log-in at the provider, by the stamp of its settings.
    Provider {
        stamp: [u8; 32],
        /// The site of an owner.
        site: Option<String>,
    },
}

#[derive(Debug, PartialEq, Eq)]
struct Session {
    name: String,
    role: Role,
    proof: Proof,
    began_s: i64,
    used_s: i64,
}

/// All sessions and links.
pub struct Sessions {
    key: hmac::Key,
    /// The bytes of the key, for a successor.
    secret: [u8; 32],
    /// By the hash of their tokens.
    sessions: HashMap<[u8; 32], Session>,
    /// Time of their end, by the hash of their tokens.
    links: HashMap<[u8; 32], i64>,
    /// Stamp of the provider's settings in force.
    provider: Option<[u8; 32]>,
}

impl Default for Sessions {
    fn default() -> Sessions {
        // Without random bytes no token is made below either.
        let mut key = [0; 32];
        let _ = aws_lc_rs::rand::fill(&mut key);
        Sessions {
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            secret: key,
            sessions: HashMap::new(),
            links: HashMap::new(),
            provider: None,
        }
    }
}

impl Sessions {
    /// Begins a session and returns its token; `None`: the system gives no random bytes.
    pub fn begin(&mut self, name: &str, role: Role, proof: Proof, now_s: i64) -> Option<String> {
        let token = self.new_token()?;
        self.sessions.retain(|_, session| session.is_alive(now_s));
        if self.sessions.len() >= SESSIONS_MAX {
            let oldest = self
                .sessions
                .iter()
                .min_by_key(|(_, session)| session.used_s);
            let oldest = oldest.map(|(hash, _)| *hash);
            oldest.map(|hash| self.sessions.remove(&hash));
        }
        let session = Session {
            name: name.to_owned(),
            role,
            proof,
            began_s: now_s,
            used_s: now_s,
        };
        self.sessions.insert(sha256(token.as_bytes()), session);
        Some(token)
    }

    /// Returns the identity of a session, if it is alive and its user is still the same.
    pub fn identity(&mut self, token: &str, users: &Users, now_s: i64) -> Option<Identity> {
        self.look_up(token, users, now_s, true)
    }

    /// The same for an event stream, which does not keep its session alive.
    pub fn still(&mut self, token: &str, users: &Users, now_s: i64) -> Option<Identity> {
        self.look_up(token, users, now_s, false)
    }

    fn look_up(
        &mut self,
        token: &str,
        users: &Users,
        now_s: i64,
        is_request: bool,
    ) -> Option<Identity> {
        if !self.is_signed(token) {
            return None;
        }
        let hash = sha256(token.as_bytes());
        let session = self.sessions.get_mut(&hash)?;
        let user = match session.proof {
            Proof::Account(_) => users.user(&session.name),
            _ => None,
        };
        let is_same = match &session.proof {
            Proof::Link => true,
            Proof::Account(stamp) => {
                user.is_some_and(|user| user.stamp == *stamp && user.role == session.role)
            }
            Proof::Provider { stamp, .. } => self.provider == Some(*stamp),
        };
        if !is_same || !session.is_alive(now_s) {
            self.sessions.remove(&hash);
            return None;
        }
        if is_request {
            session.used_s = now_s;
        }
        Some(Identity {
            name: session.name.clone(),
            role: session.role,
            is_account: user.is_some(),
            site: match &session.proof {
                Proof::Provider { site, .. } => site.clone(),
                _ => user.and_then(|user| user.site.clone()),
            },
            by: By::Session,
        })
    }

    /// Takes note of the provider's settings; sessions of other settings end.
    pub fn set_provider(&mut self, stamp: Option<[u8; 32]>) {
        self.provider = stamp;
    }

    /// Everything that the server after an upgrade needs to go on with the sessions: the key, and
    /// hashes of tokens. Tokens cannot be made of it.
    pub fn hand_over(&self) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let sessions = self.sessions.iter().map(|(hash, session)| {
            let (stamp, site) = match &session.proof {
                Proof::Link => (None, None),
                Proof::Account(stamp) => (Some(stamp), None),
                Proof::Provider { stamp, site } => (Some(stamp), Some(site)),
            };
            json!({
                "hash": encode(hash), "name": session.name, "role": session.role.name(),
                "stamp": stamp.map(|stamp| encode(stamp)),
                "is_of_provider": site.is_some(), "site": site,
                "began_s": session.began_s, "used_s": session.used_s,
            })
        });
        json!({ "key": encode(&self.secret), "sessions": sessions.collect::<Value>() })
    }

    /// Takes sessions over from the server before an upgrade. A value that is not understood takes
    /// over nothing.
    pub fn take_over(&mut self, offered: &Value) {
        let Some(secret) = bytes(&offered["key"]) else {
            return;
        };
        let offers = offered["sessions"].as_array().into_iter().flatten();
        let sessions: Option<HashMap<[u8; 32], Session>> =
            offers.take(SESSIONS_MAX).map(session).collect();
        if let Some(sessions) = sessions {
            self.key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
            self.secret = secret;
            self.sessions = sessions;
        }
    }

    pub fn end(&mut self, token: &str) {
        self.sessions.remove(&sha256(token.as_bytes()));
    }

    /// Makes a link's token.
    pub fn make_link(&mut self, now_s: i64) -> Option<String> {
        self.links.retain(|_, until_s| *until_s > now_s);
        if self.links.len() >= LINKS_MAX {
            let oldest = self.links.iter().min_by_key(|(_, until_s)| **until_s);
            let oldest = oldest.map(|(hash, _)| *hash);
            oldest.map(|hash| self.links.remove(&hash));
        }
        let token = self.new_token()?;
        self.links
            .insert(sha256(token.as_bytes()), now_s + LINK_LIFETIME_S);
        Some(token)
    }

    /// Uses a link up. Returns whether it was good.
    pub fn use_link(&mut self, token: &str, now_s: i64) -> bool {
        let until_s = self.links.remove(&sha256(token.as_bytes()));
        until_s.is_some_and(|until_s| until_s > now_s)
    }

    fn new_token(&self) -> Option<String> {
        let mut random = [0; TOKEN_BYTES];
        aws_lc_rs::rand::fill(&mut random).ok()?;
        let id = URL_SAFE_NO_PAD.encode(random);
        let tag = URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, id.as_bytes()));
        Some(format!("{id}.{tag}"))
    }

    fn is_signed(&self, token: &str) -> bool {
        let Some((id, tag)) = token.split_once('.') else {
            return false;
        };
        let tag = URL_SAFE_NO_PAD.decode(tag).unwrap_or_default();
        hmac::verify(&self.key, id.as_bytes(), &tag).is_ok()
    }
}

fn bytes(value: &Value) -> Option<[u8; 32]> {
    let decoded = URL_SAFE_NO_PAD.decode(value.as_str()?).ok()?;
    decoded.try_into().ok()
}

fn session(offer: &Value) -> Option<([u8; 32], Session)> {
    let proof = match &offer["stamp"] {
        Value::Null => Proof::Link,
        stamp if offer["is_of_provider"] == true => Proof::Provider {
            stamp: bytes(stamp)?,
            site: offer["site"].as_str().map(str::to_owned),
        },
        stamp => Proof::Account(bytes(stamp)?),
    };
    let session = Session {
        name: offer["name"].as_str()?.to_owned(),
        role: offer["role"].as_str()?.parse().ok()?,
        proof,
        began_s: offer["began_s"].as_i64()?,
        used_s: offer["used_s"].as_i64()?,
    };
    Some((bytes(&offer["hash"])?, session))
}

impl Session {
    fn is_alive(&self, now_s: i64) -> bool {
        now_s - self.used_s < IDLE_S && now_s - self.began_s < LIFETIME_S
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_end() {
        let (mut sessions, users) = (Sessions::default(), Users::default());
        let mut begin = |now_s| {
            sessions
                .begin("local", Role::Administrator, Proof::Link, now_s)
                .expect("begun")
        };
        let (idle, busy, ended) = (begin(0), begin(0), begin(0));
        assert_ne!(idle, busy);
        let mut is_alive = |token: &str, now_s| sessions.identity(token, &users, now_s).is_some();
        assert!(is_alive(&idle, IDLE_S - 1));
        assert!(
            !is_alive(&idle, 2 * IDLE_S - 1),
            "a whole hour without a request"
        );
        assert!(!is_alive(&idle, 0), "and it stays ended");
        for now_s in (0..LIFETIME_S).step_by(600) {
            assert!(is_alive(&busy, now_s), "{now_s}");
        }
        assert!(!is_alive(&busy, LIFETIME_S));
        sessions.end(&ended);
        assert!(sessions.identity(&ended, &users, 0).is_none());
    }

    #[test]
    fn only_tokens_of_this_process_count() {
        let (mut sessions, users) = (Sessions::default(), Users::default());
        let token = sessions
            .begin("local", Role::Viewer, Proof::Link, 0)
            .expect("begun");
        let (id, tag) = token.split_once('.').expect("signed");
        let mut other = Sessions::default();
        for forged in [
            "",
            ".",
            id,
            &format!("{id}."),
            &format!("{id}.{}", &tag[1..]),
            &format!("a{id}.{tag}"),
        ] {
            assert!(sessions.identity(forged, &users, 0).is_none(), "{forged}");
        }
        assert!(other.identity(&token, &users, 0).is_none());
        assert!(sessions.identity(&token, &users, 0).is_some());
    }

    #[test]
    fn sessions_go_on_in_a_successor() {
        let (mut sessions, users) = (Sessions::default(), Users::default());
        let token = sessions
            .begin("local", Role::Operator, Proof::Link, 5)
            .expect("begun");
        sessions.begin("ada", Role::Viewer, Proof::Account([7; 32]), 6);
        let by_provider = Proof::Provider {
            stamp: [9; 32],
            site: Some("a.example".into()),
        };
        let owner = sessions.begin("oidc:eve", Role::Owner, by_provider, 6);
        let offer = sessions.hand_over();
        assert!(!offer.to_string().contains(&token[..20]), "{offer}");
        let mut successor = Sessions::default();
        successor.take_over(&offer);
        assert_eq!(successor.sessions, sessions.sessions);
        let identity = successor.identity(&token, &users, 7).expect("alive");
        assert_eq!(
            (identity.name.as_str(), identity.role),
            ("local", Role::Operator)
        );
        let owner = owner.expect("begun");
        assert!(successor.identity(&owner, &users, 7).is_none());
        successor.take_over(&offer);
        successor.set_provider(Some([9; 32]));
        let identity = successor.identity(&owner, &users, 7).expect("alive");
        assert_eq!(identity.site.as_deref(), Some("a.example"));
        assert!(!identity.is_account && identity.role == Role::Owner);
        successor.set_provider(Some([8; 32]));
        assert!(successor.identity(&owner, &users, 7).is_none());
        for broken in [
            Value::Null,
            json!({ "key": "x" }),
            json!({ "key": offer["key"], "sessions": [{ "hash": 1 }] }),
        ] {
            let mut other = Sessions::default();
            other.take_over(&broken);
            assert!(
                other.sessions.is_empty() && other.secret != sessions.secret,
                "{broken}"
            );
        }
    }

    #[test]
    fn a_user_that_is_gone_has_no_session() {
        let (mut sessions, users) = (Sessions::default(), Users::default());
        let token = sessions
            .begin("ada", Role::Viewer, Proof::Account([1; 32]), 0)
            .expect("begun");
        assert!(sessions.identity(&token, &users, 0).is_none());
    }

    #[test]
    fn links_work_once_and_for_a_while() {
        let mut sessions = Sessions::default();
        let link = sessions.make_link(0).expect("made");
        assert!(!sessions.use_link("other", 0));
        assert!(sessions.use_link(&link, LINK_LIFETIME_S - 1));
        assert!(!sessions.use_link(&link, 0), "used");
        let late = sessions.make_link(0).expect("made");
        assert!(!sessions.use_link(&late, LINK_LIFETIME_S));
        let all: Vec<_> = (0..=LINKS_MAX as i64)
            .filter_map(|now_s| sessions.make_link(now_s))
            .collect();
        assert!(!sessions.use_link(&all[0], 1), "there is room for fewer");
        assert!(sessions.use_link(&all[LINKS_MAX], 1));
    }

    #[test]
    fn sessions_are_bounded() {
        let (mut sessions, users) = (Sessions::default(), Users::default());
        let all: Vec<_> = (0..=SESSIONS_MAX as i64)
            .filter_map(|now_s| sessions.begin("local", Role::Viewer, Proof::Link, now_s))
            .collect();
        assert!(sessions.identity(&all[0], &users, 70).is_none());
        assert!(sessions.identity(&all[1], &users, 70).is_some());
    }
}
