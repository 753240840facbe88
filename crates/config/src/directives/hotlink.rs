//! `[site.hotlink]`: hotlink protection, by the `Referer` field.
//!
//! A route's table replaces the site's.

use super::refusal::{LOCAL_PATH, REDIRECT_TARGET, RefusalDraft, refusal};
use crate::{
    context::{HOTLINK, ROUTE, SITE},
    kind::{Kind, TableKind, Word},
    model::{ReferrerPattern, Referrers, Settings},
    report::Report,
    row::{Draft, Row, Rows},
    value::{Fields, Value, ValueError},
};
use std::sync::Arc;

static REFERRER: Word = Word {
    expects: "a host (\"example.org\", \"*.example.org\", \"www.example.*\", optionally with a \
              path), \"own\" or \"~pattern\"",
    pattern: "",
    read: |text| {
        ReferrerPattern::read(text)
            .map(|_| Value::Text(text.to_owned()))
            .map_err(ValueError::new)
    },
};

static EXTENSION: Word = Word {
    expects: "a file extension without the dot, such as \"jpg\"",
    pattern: "^[^./*]+$",
    read: |text| match text.is_empty() || text.contains(['.', '/', '*']) {
        true => Err(ValueError::plain(None)),
        false => Ok(Value::Text(text.to_ascii_lowercase())),
    },
};

const OFF: Kind = Kind::Choice(&["off"]);

#[derive(Debug, Default)]
pub struct HotlinkDraft {
    rule: Referrers,
    refusal: RefusalDraft,
}

impl Draft for HotlinkDraft {
    fn rows() -> Rows<Self> {
        &[HOTLINK_ROWS]
    }
}

pub const ROWS: &[Row<Settings>] = &[Row {
    name: "hotlink",
    deprecated: &["referrers"],
    contexts: SITE.or(ROUTE),
    kind: Kind::OneOf(&[
        OFF,
        Kind::Table(&TableKind {
            context: HOTLINK,
            read: read_referrers,
        }),
    ]),
    default: Some("\"off\""),
    summary: "Hotlink protection: sites that may embed and link these files.",
    since: "0.2",
    apache: Some("SetEnvIf Referer"),
    aliases: &[
        "valid_referers",
        "hotlink_protection",
        "referer",
        "referers",
    ],
    set: |settings, given| settings.links.referrers = given.parsed_as(),
    ..Row::BASE
}];

pub const HOTLINK_ROWS: &[Row<HotlinkDraft>] = &[
    Row {
        name: "allow",
        contexts: HOTLINK,
        kind: Kind::ListOf(&Kind::Word(&REFERRER)),
        default: Some("[\"own\"]"),
        example: Some(
            "[\"own\", \"*.example.org\", \"friend.example/gallery/\", \"~\\\\.google\\\\.\"]",
        ),
        summary: "Referrers that are allowed: `own` (nginx: `server_names`) stands for the site's \
                  own names, `*.` at the start for any labels, and so does `.*` at the end; a path \
                  is compared as a prefix; `~` starts a case-insensitive regular expression for \
                  everything after the scheme.",
        since: "0.2",
        aliases: &["valid_referers"],
        set: |draft, given| {
            draft.rule.allow = given
                .texts()
                .iter()
                .filter_map(|text| ReferrerPattern::read(text).ok())
                .collect();
        },
        ..Row::BASE
    },
    Row {
        name: "none",
        contexts: HOTLINK,
        kind: Kind::Boolean,
        default: Some("true"),
        summary: "Allow requests without a referrer (typed addresses, bookmarks, many apps)?",
        since: "0.2",
        set: |draft, given| draft.rule.without = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "blocked",
        contexts: HOTLINK,
        kind: Kind::Boolean,
        default: Some("true"),
        summary: "Allow referrers that are not http or https URLs, as left by some firewalls?",
        since: "0.2",
        set: |draft, given| draft.rule.blocked = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "extensions",
        contexts: HOTLINK,
        kind: Kind::ListOf(&Kind::Word(&EXTENSION)),
        default: Some("[]"),
        example: Some("[\"jpg\", \"png\", \"mp4\"]"),
        summary: "Protect only files with these extensions. Empty: all.",
        since: "0.2",
        aliases: &["suffixes", "types"],
        set: |draft, given| draft.rule.extensions = given.texts(),
        ..Row::BASE
    },
    Row {
        name: "redirect",
        contexts: HOTLINK,
        kind: Kind::Word(&REDIRECT_TARGET),
        example: Some("\"https://example.org/\""),
        summary: "Redirect refused requests to this target (302) instead of answering 403.",
        since: "0.2",
        set: |draft, given| draft.refusal.redirect = Some(given.located_text()),
        ..Row::BASE
    },
    Row {
        name: "instead",
        contexts: HOTLINK,
        kind: Kind::Word(&LOCAL_PATH),
        example: Some("\"/img/no-hotlinks.png\""),
        summary: "Serve the file at this path to refused requests instead of answering 403.",
        since: "0.2",
        aliases: &["image", "file", "replacement"],
        set: |draft, given| draft.refusal.instead = Some(given.located_text()),
        ..Row::BASE
    },
];

fn read_referrers(report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = HotlinkDraft::default();
    draft.fill(fields);
    draft.rule.refusal = refusal(report, draft.refusal);
    Some(Value::parsed(Arc::new(draft.rule)))
}
