//! `mirror` of a proxy route: copies of its requests for another upstream.
//!
//! Called by: `proxy`.
//! Caveat: the upstream is looked up when all files have been read (`resolve/upstreams`).
//! Out of scope: sending the copies (the gateway).

use super::upstream::PROXY;
use crate::{
    context::MIRROR,
    kind::{Kind, TableKind},
    model::Mirror,
    report::Report,
    row::{Draft, Row, Rows},
    value::{Fields, Spanned, Value},
};
use std::sync::Arc;

const TIMEOUT_MS: u64 = 10_000;

/// A server, or a table.
pub const MIRROR_KIND: Kind = Kind::OneOf(&[
    Kind::Word(&PROXY),
    Kind::Table(&TableKind {
        context: MIRROR,
        read: read_table,
    }),
]);

#[derive(Debug)]
pub struct MirrorDraft {
    to: Option<String>,
    sample_ppm: u64,
    copies_body: bool,
    timeout_ms: u64,
}

impl Default for MirrorDraft {
    fn default() -> MirrorDraft {
        MirrorDraft {
            to: None,
            sample_ppm: 1_000_000,
            copies_body: true,
            timeout_ms: TIMEOUT_MS,
        }
    }
}

impl Draft for MirrorDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

pub const ROWS: &[Row<MirrorDraft>] = &[
    Row {
        name: "to",
        contexts: MIRROR,
        kind: Kind::Word(&PROXY),
        required: true,
        example: Some("\"http://127.0.0.1:3001\""),
        summary: "The URL of a server, or the name of an [[upstream]].",
        aliases: &["upstream", "url", "proxy"],
        since: "0.2",
        set: |mirror, given| mirror.to = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "sample",
        contexts: MIRROR,
        kind: Kind::Fraction,
        default: Some("1.0"),
        example: Some("0.1"),
        summary: "Part of the requests that are copied, at random.",
        aliases: &["ratio", "percent", "runtime_fraction"],
        since: "0.2",
        set: |mirror, given| mirror.sample_ppm = given.number(),
        ..Row::BASE
    },
    Row {
        name: "body",
        contexts: MIRROR,
        kind: Kind::Boolean,
        default: Some("true"),
        summary: "Copy request bodies, too? Requests with more than 1 MiB are then not copied. \
                  `false`: copies have no body.",
        aliases: &["mirror_request_body"],
        since: "0.2",
        set: |mirror, given| mirror.copies_body = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "timeout",
        contexts: MIRROR,
        kind: Kind::Duration {
            min_ms: 1,
            max_ms: 3_600_000,
        },
        default: Some("\"10s\""),
        unit: Some("milliseconds"),
        summary: "Maximum time from the start of a copy to the end of its response.",
        since: "0.2",
        set: |mirror, given| mirror.timeout_ms = given.number(),
        ..Row::BASE
    },
];

/// The value of `mirror`.
pub fn mirror(given: Spanned) -> Option<Arc<Mirror>> {
    let origin = given.origin();
    let draft = match given.parsed_as::<Arc<Mirror>>() {
        Some(mirror) => return Some(mirror),
        None => MirrorDraft {
            to: Some(given.text()),
            ..MirrorDraft::default()
        },
    };
    finish(draft, origin)
}

fn read_table(_: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = MirrorDraft::default();
    draft.fill(fields);
    finish(draft, fields.at.origin()).map(Value::parsed)
}

fn finish(draft: MirrorDraft, origin: crate::model::Origin) -> Option<Arc<Mirror>> {
    Some(Arc::new(Mirror {
        said: draft.to?.into(),
        upstream: None,
        sample_ppm: draft.sample_ppm,
        copies_body: draft.copies_body,
        timeout_ms: draft.timeout_ms,
        origin,
    }))
}
