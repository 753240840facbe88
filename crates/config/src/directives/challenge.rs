//! `[site.challenge]`: a challenge page with proof of work for browsers.
//!
//! A route's table replaces the site's.

use crate::{
    context::{CHALLENGE, ROUTE, SITE},
    kind::{Kind, TableKind},
    model::{CHALLENGE_PLACE, Challenge, Settings},
    report::Report,
    row::{Draft, Row, Rows},
    source::Location,
    value::{Fields, Value},
};
use saker_http::Status;
use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The page is kept in memory, and may be sent to attackers.
const PAGE_BYTES_MAX: u64 = 256 << 10;

#[derive(Debug, Default)]
pub struct ChallengeDraft {
    rule: Challenge,
    page: Option<(PathBuf, Location)>,
}

const OFF: Kind = Kind::Choice(&["off"]);

pub const ROWS: &[Row<Settings>] = &[Row {
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
    summary: "Challenge page with proof of work for browsers.",
    since: "0.2",
    aliases: &["captcha", "recaptcha", "lsrecaptcha"],
    set: |settings, given| settings.visitors.challenge = given.parsed_as(),
    ..Row::BASE
}];

pub const CHALLENGE_ROWS: &[Row<ChallengeDraft>] = &[
    Row {
        name: "when",
        contexts: CHALLENGE,
        kind: Kind::Choice(&["over-limit", "always"]),
        default: Some("\"over-limit\""),
        summary: "Challenge clients that exceed a request rate of `throttle`, or all clients.",
        since: "0.2",
        set: |draft, given| draft.rule.always = given.text() == "always",
        ..Row::BASE
    },
    Row {
        name: "difficulty",
        contexts: CHALLENGE,
        kind: Kind::Integer { min: 1, max: 28 },
        default: Some("16"),
        unit: Some("bits"),
        summary: "Amount of work: each increment doubles it. 16 takes a browser about a second.",
        since: "0.2",
        set: |draft, given| draft.rule.difficulty = given.number() as u32,
        ..Row::BASE
    },
    Row {
        name: "clearance_time",
        deprecated: &["life"],
        contexts: CHALLENGE,
        kind: Kind::Duration {
            min_ms: 60_000,
            max_ms: 30 * 86_400_000,
        },
        default: Some("\"1d\""),
        summary: "Lifetime of the clearance cookie: how long a client is not challenged again.",
        since: "0.2",
        aliases: &["expire", "clearance", "lifetime"],
        set: |draft, given| draft.rule.life_s = given.number() / 1000,
        ..Row::BASE
    },
    Row {
        name: "status",
        contexts: CHALLENGE,
        kind: Kind::Integer { min: 403, max: 503 },
        default: Some("503"),
        summary: "Status of the page: 503 or 403.",
        since: "0.2",
        set: |draft, given| draft.rule.status = Status(given.number() as u16),
        ..Row::BASE
    },
    Row {
        name: "page",
        contexts: CHALLENGE,
        kind: Kind::Path,
        example: Some("\"/etc/saker/challenge.html\""),
        summary: "Custom challenge page: HTML (UTF-8, at most 256 KiB) with `{challenge}` where \
                  the script goes. Read when the configuration is loaded.",
        since: "0.2",
        aliases: &["challenge_page"],
        set: |draft, given| {
            let at = given.at.clone();
            draft.page = Some((given.path(), at));
        },
        ..Row::BASE
    },
];

fn read_challenge(report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = ChallengeDraft::default();
    draft.fill(fields);
    let ChallengeDraft { mut rule, page } = draft;
    if let Some((path, page_at)) = page {
        match page_of(&path) {
            Ok(text) => rule.page = Some(text.into()),
            Err(complaint) => report.error(
                &page_at,
                complaint,
                Some(format!(
                    "the page must be HTML with {CHALLENGE_PLACE} exactly once in its body"
                )),
            ),
        }
    }
    if !matches!(rule.status.0, 403 | 503) {
        report.error(
            fields.location("status"),
            format!("`status` must be 503 or 403, not {}", rule.status.0),
            None,
        );
    }
    Some(Value::parsed(Arc::new(rule)))
}

fn page_of(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = saker_net::privileged::open(path)
        .and_then(|file| file.take(PAGE_BYTES_MAX + 1).read_to_string(&mut text));
    match read.map_err(|error| (error.kind(), error)) {
        Err((io::ErrorKind::InvalidData, _)) => Err("the page is not valid UTF-8".into()),
        Err((_, error)) => Err(format!("cannot read the page: {error}")),
        Ok(bytes) if bytes as u64 > PAGE_BYTES_MAX => Err("the page is larger than 256 KiB".into()),
        Ok(_) => match text.matches(CHALLENGE_PLACE).count() {
            1 => Ok(text),
            0 => Err(format!("the page has no {CHALLENGE_PLACE}")),
            many => Err(format!("the page has {CHALLENGE_PLACE} {many} times")),
        },
    }
}

impl Draft for ChallengeDraft {
    fn rows() -> Rows<Self> {
        &[CHALLENGE_ROWS]
    }
}
