//! Log-ins in directories: looked up, checked, and remembered for a while.
//!
//! Called by: the front ends, for [`AuthRequest::directory`].
//! Caveat: successes alone are remembered, under a digest of everything that they depend on, the
//! password included; the digest has a secret of the process in it, so that a memory image does not
//! help to guess passwords.
//! Out of scope: connections (`saker_database`).
//!
//! [`AuthRequest::directory`]: crate::AuthRequest::directory

use crate::settings::LdapSettings;
use saker_database::{
    Database, DbThread, DirectoryEntry, DirectorySearch, Failure, LdapTerms, Terms,
};
use saker_ipset::ClientNetwork;
use saker_net::{blocking::Answer, clock::monotonic_ms, shares::Shares};
use sha2::{Digest, Sha256};
use std::{
    cell::RefCell,
    collections::HashMap,
    future::Future,
    hash::{BuildHasher, RandomState},
    pin::Pin,
    rc::Rc,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::sync::oneshot;

/// Log-ins of a worker under way in one directory.
const ASKING_MAX: usize = 256;
/// Questions of one client among them.
const ASKING_OF_CLIENT_MAX: usize = 32;
/// Log-ins that a worker remembers.
const REMEMBERED_MAX: usize = 10_000;
/// Groups of a user that are looked at.
const GROUPS_MAX: usize = 1000;
/// Entries that match a question, of which one is meant.
const MATCHES_MAX: usize = 100;

/// A user's entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryUser {
    /// The name that the user has logged in with.
    pub login: String,
    /// The name as the directory has it.
    pub name: Option<String>,
    pub entry: DirectoryEntry,
    /// DNs of groups.
    pub groups: Vec<String>,
}

/// The result of a log-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogIn {
    Granted(Rc<DirectoryUser>),
    /// The password is wrong.
    Denied,
    /// No entry, or several.
    Unknown,
}

/// A question whether an entry matches a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryQuestion {
    /// Entry at or below which is looked.
    pub base: String,
    pub one_level: bool,
    /// With `?` for each value.
    pub filter: String,
    pub values: Vec<String>,
    /// DN of the entry that has to be found.
    pub dn: String,
}

/// A log-in, or why the directory has no answer.
pub type DirectoryAnswer = Result<LogIn, Rc<str>>;

type Key = [u8; 32];
type Slot = Rc<RefCell<Option<DirectoryAnswer>>>;
/// A question that a directory's thread carries out.
type Asking = Pin<Box<dyn Future<Output = Result<Found, Failure>>>>;
type Receiver = oneshot::Receiver<Result<Found, Failure>>;

/// Questions of one request with their answers; `None` as long as there is none.
#[derive(Default)]
pub struct DirectoryAsked(Vec<(Key, Slot)>);

/// Result from a directory's thread.
enum Found {
    User(DirectoryUser),
    Denied,
    Unknown,
}

/// A directory; its thread is started with the first log-in. The error: why there is none.
struct Directory {
    thread: Result<DbThread, Rc<str>>,
    under_way: Shares,
}

/// Successful log-ins, and when each is forgotten.
type Remembered = Rc<RefCell<HashMap<Key, (Rc<DirectoryUser>, u64)>>>;

/// The directories of a worker.
#[derive(Default)]
pub struct Directories {
    all: RefCell<HashMap<Key, Rc<Directory>>>,
    remembered: Remembered,
}

impl DirectoryUser {
    /// True if a group has this DN, or a DN whose first part has this value.
    pub fn is_member_of(&self, group: &str) -> bool {
        self.groups.iter().any(|dn| {
            dn.eq_ignore_ascii_case(group)
                || first_value(dn).is_some_and(|value| value.eq_ignore_ascii_case(group))
        })
    }

    /// The values of an attribute as one text, with commas between them. Values with control
    /// characters, and elements with commas, are left out: both would read as something else.
    pub fn text(&self, attribute: &str) -> Option<String> {
        let is_plain = |value: &&String| !value.is_empty() && !value.contains(char::is_control);
        match self.entry.values(attribute) {
            [one] => Some(one.clone()).filter(|one| is_plain(&one)),
            several => {
                let plain = several
                    .iter()
                    .filter(is_plain)
                    .filter(|value| !value.contains(','));
                let texts: Vec<&str> = plain.map(String::as_str).collect();
                Some(texts.join(",")).filter(|text| !text.is_empty())
            }
        }
    }
}

/// `staff` of `cn=staff,ou=groups` (RFC 4514 section 2). `None`: it has escapes or several parts;
/// such groups are named by their DN.
fn first_value(dn: &str) -> Option<&str> {
    let first = dn.split(',').next()?;
    let (_, value) = first.split_once('=')?;
    (!first.contains(['\\', '+', '"', '#'])).then_some(value.trim())
}

impl Directories {
    /// Asks whether an entry matches a filter, once per request. `Granted`: it does.
    pub fn matches(
        &self,
        (asked, client): (&mut DirectoryAsked, ClientNetwork),
        settings: &Arc<LdapSettings>,
        question: &EntryQuestion,
    ) -> Answer<DirectoryAnswer> {
        let of_directory = self::question(settings, "", "");
        let of_directory: String = of_directory
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let key = digest(&[
            "matches",
            &of_directory,
            &question.base,
            if question.one_level { "one" } else { "sub" },
            &question.filter,
            &question.values.join("\0"),
            &question.dn,
        ]);
        let question = question.clone();
        self.ask((asked, client), settings, key, move |database| {
            Box::pin(async move { is_match(database, question).await })
        })
    }

    /// Looks a user up and checks the password, once per request.
    pub fn log_in(
        &self,
        (asked, client): (&mut DirectoryAsked, ClientNetwork),
        settings: &Arc<LdapSettings>,
        user: &str,
        password: &str,
    ) -> Answer<DirectoryAnswer> {
        let key = question(settings, user, password);
        let (own, user, password) = (Arc::clone(settings), user.to_owned(), password.to_owned());
        self.ask((asked, client), settings, key, move |database| {
            Box::pin(async move { log_in(&database, &own, &user, &password).await })
        })
    }

    /// Asks the directory's thread, unless the answer is known.
    fn ask(
        &self,
        (asked, client): (&mut DirectoryAsked, ClientNetwork),
        settings: &Arc<LdapSettings>,
        key: Key,
        question: impl FnOnce(Rc<Database>) -> Asking + Send + 'static,
    ) -> Answer<DirectoryAnswer> {
        if let Some((_, slot)) = asked.0.iter().find(|(known, _)| *known == key) {
            return match &*slot.borrow() {
                Some(answer) => Answer::Known(answer.clone()),
                None => Answer::Busy,
            };
        }
        if let Some((known, _)) = self
            .remembered
            .borrow()
            .get(&key)
            .filter(|(_, until_ms)| monotonic_ms() < *until_ms)
        {
            return Answer::Known(Ok(LogIn::Granted(Rc::clone(known))));
        }
        let receiver = match self.get(settings).begin(client, question) {
            Ok(Some(receiver)) => receiver,
            Ok(None) => return Answer::Busy,
            Err(why) => return Answer::Known(Err(why)),
        };
        let slot = Slot::default();
        asked.0.push((key, Rc::clone(&slot)));
        let (remembered, cache_ms) = (Rc::clone(&self.remembered), settings.cache_ms);
        Answer::Wait(Box::pin(async move {
            let answer = match receiver.await {
                Ok(Ok(Found::User(user))) => Ok(LogIn::Granted(Rc::new(user))),
                Ok(Ok(Found::Denied)) => Ok(LogIn::Denied),
                Ok(Ok(Found::Unknown)) => Ok(LogIn::Unknown),
                Ok(Err(failure)) => Err(failure.to_string().into()),
                Err(_) => Err("its thread has ended".into()),
            };
            if let Ok(LogIn::Granted(user)) = &answer
                && cache_ms > 0
            {
                remember(&remembered, key, user, cache_ms);
            }
            *slot.borrow_mut() = Some(answer);
        }))
    }

    fn get(&self, settings: &LdapSettings) -> Rc<Directory> {
        let key = digest(&[
            &settings.url,
            &settings.bind_dn,
            &settings.bind_password,
            &settings.timeout_ms.to_string(),
            &settings.connections.to_string(),
        ]);
        let mut all = self.all.borrow_mut();
        let known = all.entry(key).or_insert_with(|| {
            let terms = Terms {
                url: settings.url.clone(),
                ldap: LdapTerms {
                    user: settings.bind_dn.clone(),
                    password: settings.bind_password.clone(),
                    binds_max: settings.connections,
                    ..LdapTerms::default()
                },
                timeout: Duration::from_millis(settings.timeout_ms),
                ..Terms::default()
            };
            let thread = DbThread::start("ldap", terms);
            Rc::new(Directory {
                thread: thread.map_err(|failure| failure.to_string().into()),
                under_way: Shares::new(ASKING_MAX, ASKING_OF_CLIENT_MAX),
            })
        });
        Rc::clone(known)
    }
}

fn remember(remembered: &Remembered, key: Key, user: &Rc<DirectoryUser>, cache_ms: u64) {
    let (mut all, now_ms) = (remembered.borrow_mut(), monotonic_ms());
    if all.len() >= REMEMBERED_MAX {
        all.retain(|_, (_, until_ms)| now_ms < *until_ms);
    }
    if all.len() >= REMEMBERED_MAX {
        all.clear();
    }
    all.insert(key, (Rc::clone(user), now_ms + cache_ms));
}

/// Digest of everything that a log-in depends on.
fn question(settings: &LdapSettings, user: &str, password: &str) -> Key {
    let (group_filter, group_base) = settings.groups.clone().unwrap_or_default();
    digest(&[
        &settings.url,
        &settings.bind_dn,
        &settings.bind_password,
        &settings.base,
        if settings.one_level { "one" } else { "sub" },
        &settings.filter,
        settings.user_attribute.as_deref().unwrap_or_default(),
        if settings.user_is_dn { "dn" } else { "" },
        &settings.attributes.join("\n"),
        settings.group_attribute.as_deref().unwrap_or_default(),
        &group_filter,
        &group_base,
        &settings.cache_ms.to_string(),
        user,
        password,
    ])
}

fn digest(parts: &[&str]) -> Key {
    static SECRET: OnceLock<[u64; 4]> = OnceLock::new();
    // Keys of `RandomState` are random bytes of the system.
    let secret = SECRET.get_or_init(|| std::array::from_fn(|at| RandomState::new().hash_one(at)));
    let mut hasher = Sha256::new();
    secret
        .iter()
        .for_each(|part| hasher.update(part.to_le_bytes()));
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().into()
}

impl Directory {
    /// Sends a question to the thread. `None`: too many are under way.
    fn begin(
        &self,
        client: ClientNetwork,
        question: impl FnOnce(Rc<Database>) -> Asking + Send + 'static,
    ) -> Result<Option<Receiver>, Rc<str>> {
        let thread = self.thread.as_ref().map_err(Rc::clone)?;
        let Some(under_way) = self.under_way.take(client.number()) else {
            return Ok(None);
        };
        let (sender, receiver) = oneshot::channel();
        let is_running = thread.run(Box::new(move |database| {
            Box::pin(async move {
                let _under_way = under_way;
                let found = question(database).await;
                // No receiver is left where the client has gone.
                let _ = sender.send(found);
            })
        }));
        match is_running {
            true => Ok(Some(receiver)),
            false => Err("its thread has ended".into()),
        }
    }
}

async fn is_match(database: Rc<Database>, question: EntryQuestion) -> Result<Found, Failure> {
    let search = DirectorySearch {
        base: question.base,
        one_level: question.one_level,
        filter: question.filter,
        // No attributes (RFC 4511 section 4.5.1.8).
        attributes: vec!["1.1".into()],
    };
    let values: Vec<&str> = question.values.iter().map(String::as_str).collect();
    let found = database.entries(&search, &values, MATCHES_MAX).await?;
    Ok(
        match found
            .iter()
            .any(|entry| is_same_dn(&entry.dn, &question.dn))
        {
            true => Found::User(DirectoryUser::default()),
            false => Found::Denied,
        },
    )
}

/// Returns true if two DNs are spelled the same but for case and blanks between their parts.
pub fn is_same_dn(one: &str, other: &str) -> bool {
    let parts = |dn: &str| -> Vec<String> {
        let part = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            format!("{}={}", name.trim(), value.trim()).to_lowercase()
        };
        dn.split(',').map(part).collect()
    };
    !one.is_empty() && parts(one) == parts(other)
}

async fn log_in(
    database: &Database,
    settings: &LdapSettings,
    user: &str,
    password: &str,
) -> Result<Found, Failure> {
    let wanted = settings.attributes.iter().chain(&settings.user_attribute);
    let mut attributes: Vec<String> = wanted.chain(&settings.group_attribute).cloned().collect();
    if attributes.is_empty() {
        // No attributes (RFC 4511 section 4.5.1.8).
        attributes.push("1.1".into());
    }
    let search = DirectorySearch {
        base: settings.base.clone(),
        one_level: settings.one_level,
        filter: settings.filter.clone(),
        attributes,
    };
    let values = vec![user; settings.filter.matches('?').count()];
    let mut found = database.entries(&search, &values, 2).await?;
    let (Some(entry), true) = (found.pop(), found.is_empty()) else {
        return Ok(Found::Unknown);
    };
    if !database.is_password(&entry.dn, password).await? {
        return Ok(Found::Denied);
    }
    let mut groups = match &settings.group_attribute {
        Some(name) => entry.values(name).to_vec(),
        None => Vec::new(),
    };
    if let Some((filter, base)) = &settings.groups {
        let search = DirectorySearch {
            base: base.clone(),
            one_level: false,
            filter: filter.clone(),
            attributes: vec!["1.1".into()],
        };
        let values = vec![entry.dn.as_str(); filter.matches('?').count()];
        let of_user = database.entries(&search, &values, GROUPS_MAX).await?;
        groups.extend(of_user.into_iter().map(|group| group.dn));
    }
    if settings.user_is_dn {
        let name = Some(entry.dn.clone());
        return Ok(Found::User(DirectoryUser {
            login: user.to_owned(),
            name,
            entry,
            groups,
        }));
    }
    let names = settings
        .user_attribute
        .as_ref()
        .map(|name| entry.values(name));
    let same = |name: &&String| name.eq_ignore_ascii_case(user);
    let name = names.and_then(|names| names.iter().find(same).or(names.first()).cloned());
    // A name that would end a line of a log is none.
    if name
        .as_deref()
        .is_some_and(|name| name.contains(char::is_control))
    {
        return Ok(Found::Unknown);
    }
    Ok(Found::User(DirectoryUser {
        login: user.to_owned(),
        name,
        entry,
        groups,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_named_by_dn_or_first_value() {
        let user = DirectoryUser {
            groups: vec![
                "cn=Staff,ou=groups,dc=test".into(),
                "cn=a\\,b,dc=test".into(),
                "cn=x+ou=y,dc=test".into(),
            ],
            ..DirectoryUser::default()
        };
        for (group, expected) in [
            ("staff", true),
            ("CN=staff,OU=groups,DC=test", true),
            ("cn=a\\,b,dc=test", true),
            ("groups", false),
            ("a", false),
            ("a\\", false),
            ("b", false),
            ("x", false),
            ("y", false),
            ("", false),
        ] {
            assert_eq!(user.is_member_of(group), expected, "{group}");
        }
    }

    #[test]
    fn dns_are_compared_without_case_and_blanks() {
        for (one, other, expected) in [
            ("cn=A, ou=b,dc=c", "CN=a,OU=B, DC=c", true),
            ("cn=a,dc=c", "cn=a,dc=c,dc=d", false),
            ("cn=a", "sn=a", false),
            ("", "", false),
        ] {
            assert_eq!(is_same_dn(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn questions_differ_by_each_part() {
        let settings = LdapSettings::default();
        let other = LdapSettings {
            base: "a".into(),
            ..LdapSettings::default()
        };
        let all = [
            question(&settings, "a", "b"),
            question(&settings, "ab", ""),
            question(&settings, "", "ab"),
            question(&other, "a", "b"),
        ];
        for (at, key) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|known| known == key), Some(at));
        }
        assert_eq!(question(&settings, "a", "b"), all[0]);
    }

    #[test]
    fn attributes_as_texts() {
        let values = |values: &[&str]| DirectoryUser {
            entry: DirectoryEntry {
                attributes: vec![(
                    "Mail".into(),
                    values.iter().map(|value| (*value).into()).collect(),
                )],
                ..DirectoryEntry::default()
            },
            ..DirectoryUser::default()
        };
        assert_eq!(values(&["a@b"]).text("mail").as_deref(), Some("a@b"));
        assert_eq!(
            values(&["a", "b,c", "d"]).text("mail").as_deref(),
            Some("a,d")
        );
        assert_eq!(values(&["a\r\nX: y"]).text("mail"), None);
        assert_eq!(values(&[]).text("mail"), None);
        assert_eq!(values(&["a"]).text("other"), None);
    }
}
