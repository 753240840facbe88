//! `[site.trigger]`: files that are only for clients that requested a page before (lighttpd's
//! mod_trigger_b4_dl).
//!
//! A route's table replaces the site's.

use super::{
    path_pattern::PATTERN,
    refusal::{REDIRECT_TARGET, RefusalDraft, refusal},
};
use crate::{
    context::{ROUTE, SITE, TRIGGER},
    kind::{Kind, TableKind},
    model::{PathPattern, Settings, Trigger},
    report::Report,
    row::{Draft, Row, Rows},
    value::{Fields, Value},
};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

const OFF: Kind = Kind::Choice(&["off"]);

#[derive(Debug, Default)]
pub struct TriggerDraft {
    pages: Vec<PathPattern>,
    files: Vec<PathPattern>,
    within_ms: Option<u64>,
    by_cookie: bool,
    refusal: RefusalDraft,
}

impl Draft for TriggerDraft {
    fn rows() -> Rows<Self> {
        &[TRIGGER_ROWS]
    }
}

pub const ROWS: &[Row<Settings>] = &[Row {
    name: "trigger",
    contexts: SITE.or(ROUTE),
    kind: Kind::OneOf(&[
        OFF,
        Kind::Table(&TableKind {
            context: TRIGGER,
            read: read_trigger,
        }),
    ]),
    default: Some("\"off\""),
    summary: "Files that only clients that requested a certain page before may download.",
    since: "0.2",
    aliases: &["trigger_before_download", "trigger-before-download"],
    set: |settings, given| settings.links.trigger = given.parsed_as(),
    ..Row::BASE
}];

pub const TRIGGER_ROWS: &[Row<TriggerDraft>] = &[
    Row {
        name: "pages",
        contexts: TRIGGER,
        kind: Kind::ListOf(&Kind::Word(&PATTERN)),
        required: true,
        example: Some("[\"/downloads.html\"]"),
        summary: "Pages that give a client access to the files.",
        since: "0.2",
        aliases: &["trigger_url", "trigger-url"],
        set: |draft, given| draft.pages = given.parsed_list(),
        ..Row::BASE
    },
    Row {
        name: "files",
        contexts: TRIGGER,
        kind: Kind::ListOf(&Kind::Word(&PATTERN)),
        required: true,
        example: Some("[\"/files/*\", \"*.zip\"]"),
        summary: "Files that require a page first.",
        since: "0.2",
        aliases: &["download_url", "download-url", "downloads"],
        set: |draft, given| draft.files = given.parsed_list(),
        ..Row::BASE
    },
    Row {
        name: "within",
        contexts: TRIGGER,
        kind: Kind::Duration {
            min_ms: 1000,
            max_ms: 30 * 86_400_000,
        },
        default: Some("\"10m\""),
        summary: "How long after the page, or after another of the files, access lasts.",
        since: "0.2",
        aliases: &["timeout", "trigger_timeout", "trigger-timeout"],
        set: |draft, given| draft.within_ms = Some(given.number()),
        ..Row::BASE
    },
    Row {
        name: "by",
        contexts: TRIGGER,
        kind: Kind::Choice(&["address", "cookie"]),
        default: Some("\"address\""),
        summary: "How a client is recognized: by its address, or by a signed cookie.",
        since: "0.2",
        set: |draft, given| draft.by_cookie = given.text() == "cookie",
        ..Row::BASE
    },
    Row {
        name: "redirect",
        contexts: TRIGGER,
        kind: Kind::Word(&REDIRECT_TARGET),
        example: Some("\"/downloads.html\""),
        summary: "Redirect refused requests to this target (302) instead of answering 403.",
        since: "0.2",
        aliases: &["deny_url", "deny-url"],
        set: |draft, given| draft.refusal.redirect = Some(given.located_text()),
        ..Row::BASE
    },
];

fn read_trigger(report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = TriggerDraft::default();
    draft.fill(fields);
    let mut hasher = DefaultHasher::new();
    let texts =
        |patterns: &[PathPattern]| patterns.iter().map(ToString::to_string).collect::<Vec<_>>();
    (texts(&draft.pages), texts(&draft.files)).hash(&mut hasher);
    Some(Value::parsed(Arc::new(Trigger {
        within_s: draft.within_ms.map_or(600, |ms| ms / 1000),
        by_cookie: draft.by_cookie,
        refusal: refusal(report, draft.refusal),
        id: hasher.finish(),
        pages: draft.pages,
        files: draft.files,
    })))
}
