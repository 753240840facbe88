//! `[site.challenge]`, `[site.logins]`, `[site.robots]`: who visits. Each is a table that stands
//! for itself, as in `links`.

use crate::{
    model::{CHALLENGE_PLACE, Challenge, LoginAction, Logins, Robots},
    reader::{Reader, Table},
    row::{CHALLENGE, Fault, Kind, LOGINS, ROBOTS, ROUTE, ROW, Row, SITE, Set, TableKind, Word},
    source::At,
    value::Value,
};
use saker_http::Status;
use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

/// It is in memory, and sent to who may be an attacker.
const PAGE_BYTES_MAX: u64 = 256 << 10;

#[derive(Debug, Default)]
pub struct ChallengeDraft {
    rule: Challenge,
    page: Option<(PathBuf, At)>,
}

static ROBOT: Word = Word {
    expects: "a robot and its domains, such as \"ExampleBot: bots.example.org example.net\"",
    pattern: "^[^:]+:.+$",
    read: |text| match robot(text) {
        Some(_) => Ok(Value::Text(text.to_owned())),
        None => Err(Fault::plain(None)),
    },
};

static RESOLVER: Word = Word {
    expects: "an address with a port, such as \"127.0.0.1:53\"",
    pattern: "^.+:[0-9]+$",
    read: |text| match text.parse::<std::net::SocketAddr>() {
        Ok(_) => Ok(Value::Text(text.to_owned())),
        Err(_) => Err(Fault::plain(None)),
    },
};

const OFF: Kind = Kind::Choice(&["off"]);

target!(ChallengeDraft Challenge);
target!(Logins Logins);
target!(Robots Robots);

pub static ROWS: &[Row] = &[
    Row {
        name: "challenge",
        contexts: SITE.or(ROUTE),
        kind: Kind::OneOf(&[
            OFF,
            Kind::Table(&TableKind {
                context: CHALLENGE,
                read: read_challenge,
            }),
        ]),
        default: Some("\"off\""),
        summary: "A page that has the visitor's browser do some work before he goes on.",
        since: "0.9",
        aliases: &["captcha", "recaptcha", "lsrecaptcha"],
        set: Set::Settings(|settings, given| {
            settings.visitors.challenge = if let Value::Challenge(rule) = given.value {
                Some(rule)
            } else {
                None
            }
        }),
        ..ROW
    },
    Row {
        name: "logins",
        contexts: SITE.or(ROUTE),
        kind: Kind::OneOf(&[
            OFF,
            Kind::Table(&TableKind {
                context: LOGINS,
                read: read_logins,
            }),
        ]),
        default: Some("\"off\""),
        summary: "Guard of WordPress' wp-login.php and xmlrpc.php against guessing of passwords.",
        since: "0.9",
        apache: Some("WordPressProtect"),
        aliases: &["wordpress_protect", "wpprotect", "brute_force"],
        set: Set::Settings(|settings, given| {
            settings.visitors.logins = if let Value::Logins(rule) = given.value {
                Some(rule)
            } else {
                None
            }
        }),
        ..ROW
    },
    Row {
        name: "robots",
        contexts: SITE.or(ROUTE),
        kind: Kind::OneOf(&[
            OFF,
            Kind::Table(&TableKind {
                context: ROBOTS,
                read: read_robots,
            }),
        ]),
        default: Some("\"off\""),
        summary: "Robots of search engines are verified by the names of their addresses, and pass limits and challenges.",
        since: "0.9",
        set: Set::Settings(|settings, given| {
            settings.visitors.robots = if let Value::Robots(rule) = given.value {
                Some(rule)
            } else {
                None
            }
        }),
        ..ROW
    },
    Row {
        name: "when",
        contexts: CHALLENGE,
        kind: Kind::Choice(&["over-limit", "always"]),
        default: Some("\"over-limit\""),
        summary: "For clients that are over a request rate of `throttle`, or for all.",
        since: "0.9",
        set: Set::Challenge(|draft, given| draft.rule.always = given.text() == "always"),
        ..ROW
    },
    Row {
        name: "difficulty",
        contexts: CHALLENGE,
        kind: Kind::Integer { min: 1, max: 28 },
        default: Some("16"),
        unit: Some("bits"),
        summary: "How much work: each more doubles it. 16 takes a browser about a second.",
        since: "0.9",
        set: Set::Challenge(|draft, given| draft.rule.difficulty = given.number() as u32),
        ..ROW
    },
    Row {
        name: "life",
        contexts: CHALLENGE,
        kind: Kind::Duration {
            min_ms: 60_000,
            max_ms: 30 * 86_400_000,
        },
        default: Some("\"1d\""),
        summary: "How long a visitor is not asked again.",
        since: "0.9",
        aliases: &["expire"],
        set: Set::Challenge(|draft, given| draft.rule.life_s = given.number() / 1000),
        ..ROW
    },
    Row {
        name: "status",
        contexts: CHALLENGE,
        kind: Kind::Integer { min: 403, max: 503 },
        default: Some("503"),
        summary: "Status of the page: 503 or 403.",
        since: "0.9",
        set: Set::Challenge(|draft, given| draft.rule.status = Status(given.number() as u16)),
        ..ROW
    },
    Row {
        name: "page",
        contexts: CHALLENGE,
        kind: Kind::Path,
        example: Some("\"/etc/saker/challenge.html\""),
        summary: "A page of your own in place of the server's: HTML (UTF-8, 256 KiB at most) with `{challenge}` where what does the work stands. Read \
                  when the configuration is.",
        since: "0.9",
        aliases: &["challenge_page"],
        set: Set::Challenge(|draft, given| {
            let at = given.at.clone();
            draft.page = Some((given.path(), at));
        }),
        ..ROW
    },
    Row {
        name: "action",
        contexts: LOGINS,
        kind: Kind::Choice(&["throttle", "deny", "drop", "challenge"]),
        default: Some("\"throttle\""),
        summary: "What becomes of further attempts: `throttle` has them wait from half of `attempts` on and answers 429 beyond them, `deny` answers 403, \
                  `drop` cuts the connection, `challenge` has the browser do some work.",
        since: "0.9",
        set: Set::Logins(|rule, given| {
            rule.action = match given.text().as_str() {
                "deny" => LoginAction::Deny,
                "drop" => LoginAction::Drop,
                "challenge" => LoginAction::Challenge,
                _ => LoginAction::Throttle,
            }
        }),
        ..ROW
    },
    Row {
        name: "attempts",
        contexts: LOGINS,
        kind: Kind::Integer {
            min: 1,
            max: 100_000,
        },
        default: Some("10"),
        summary: "Attempts of one address that may fail; each is regained after its share of `within`.",
        since: "0.9",
        aliases: &["limit"],
        set: Set::Logins(|rule, given| rule.attempts = given.number() as u32),
        ..ROW
    },
    Row {
        name: "within",
        contexts: LOGINS,
        kind: Kind::Duration {
            min_ms: 1000,
            max_ms: 30 * 86_400_000,
        },
        default: Some("\"5m\""),
        summary: "Time in which all are regained.",
        since: "0.9",
        set: Set::Logins(|rule, given| rule.within_s = given.number() / 1000),
        ..ROW
    },
    Row {
        name: "liars",
        contexts: ROBOTS,
        kind: Kind::Choice(&["anybody", "refuse"]),
        default: Some("\"anybody\""),
        summary: "Who says to be a robot and has no such name: is treated as anybody, or answered 403.",
        since: "0.9",
        set: Set::Robots(|rule, given| rule.refuses_liars = given.text() == "refuse"),
        ..ROW
    },
    Row {
        name: "agents",
        contexts: ROBOTS,
        kind: Kind::ListOf(&Kind::Word(&ROBOT)),
        default: Some("[]"),
        example: Some("[\"ExampleBot: bots.example.org\"]"),
        summary: "Further robots, by a part of their User-Agent, with the domains below which their addresses have names.",
        since: "0.9",
        set: Set::Robots(|rule, given| {
            rule.more = given
                .texts()
                .iter()
                .filter_map(|text| robot(text))
                .collect()
        }),
        ..ROW
    },
    Row {
        name: "resolver",
        contexts: ROBOTS,
        kind: Kind::Word(&RESOLVER),
        example: Some("\"127.0.0.1:53\""),
        summary: "Name server to ask. Without it, the first of /etc/resolv.conf.",
        since: "0.9",
        set: Set::Robots(|rule, given| rule.resolver = given.text().parse().ok()),
        ..ROW
    },
];

fn robot(text: &str) -> Option<(String, Vec<String>)> {
    let (agent, domains) = text.split_once(':')?;
    let domains: Vec<String> = domains
        .split_ascii_whitespace()
        .map(|domain| domain.trim_matches('.').to_ascii_lowercase())
        .collect();
    let is_good = !agent.trim().is_empty()
        && !domains.is_empty()
        && domains.iter().all(|domain| domain.contains('.'));
    is_good.then(|| (agent.trim().to_owned(), domains))
}

fn read_challenge(reader: &mut Reader<'_>, table: &Table<'_>, at: At) -> Option<Value> {
    let mut draft = ChallengeDraft::default();
    reader.fill(table, CHALLENGE, &at, &mut draft);
    let ChallengeDraft { mut rule, page } = draft;
    if let Some((path, page_at)) = page {
        match page_of(&path) {
            Ok(text) => rule.page = Some(text.into()),
            Err(complaint) => reader.error(
                &page_at,
                complaint,
                Some(format!(
                    "it is HTML with {CHALLENGE_PLACE} once in its body"
                )),
            ),
        }
    }
    if !matches!(rule.status.0, 403 | 503) {
        reader.error(
            &at,
            format!("`status` is 503 or 403, not {}", rule.status.0),
            None,
        );
    }
    Some(Value::Challenge(Arc::new(rule)))
}

fn page_of(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = saker_net::privileged::open(path)
        .and_then(|file| file.take(PAGE_BYTES_MAX + 1).read_to_string(&mut text));
    match read.map_err(|error| (error.kind(), error)) {
        Err((io::ErrorKind::InvalidData, _)) => Err("this page is not in UTF-8".into()),
        Err((_, error)) => Err(format!("this page is not to be had: {error}")),
        Ok(bytes) if bytes as u64 > PAGE_BYTES_MAX => Err("this page is over 256 KiB".into()),
        Ok(_) => match text.matches(CHALLENGE_PLACE).count() {
            1 => Ok(text),
            0 => Err(format!("this page has no {CHALLENGE_PLACE}")),
            many => Err(format!("this page has {CHALLENGE_PLACE} {many} times")),
        },
    }
}

fn read_logins(reader: &mut Reader<'_>, table: &Table<'_>, at: At) -> Option<Value> {
    let mut rule = Logins::default();
    reader.fill(table, LOGINS, &at, &mut rule);
    Some(Value::Logins(Arc::new(rule)))
}

fn read_robots(reader: &mut Reader<'_>, table: &Table<'_>, at: At) -> Option<Value> {
    let mut rule = Robots::default();
    reader.fill(table, ROBOTS, &at, &mut rule);
    Some(Value::Robots(Arc::new(rule)))
}
