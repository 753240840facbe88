//! `rotate` of an access log: rotation by size and age.
//!
//! Called by: `logs`.
//! Out of scope: the rotation itself (`saker-telemetry`).

use crate::{
    context::ROTATE,
    kind::{Kind, TableKind},
    report::Report,
    row::{Draft, Row, Rows},
    value::{Fields, Value},
};
use saker_telemetry::access_log::Rotation;

pub const ROTATE_KIND: Kind = Kind::Table(&TableKind {
    context: ROTATE,
    read: read_table,
});

#[derive(Debug, Default)]
pub struct RotationDraft {
    rotation: Rotation,
}

impl Draft for RotationDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

pub const ROWS: &[Row<RotationDraft>] = &[
    Row {
        name: "size",
        contexts: ROTATE,
        kind: Kind::Bytes {
            min: 1 << 10,
            max: 1 << 50,
        },
        example: Some("\"100MiB\""),
        unit: Some("bytes"),
        summary: "Size at which the file is renamed and a new one is begun.",
        since: "0.2",
        aliases: &["max_size", "roll_size"],
        set: |draft, given| draft.rotation.bytes_max = Some(given.number()),
        ..Row::BASE
    },
    Row {
        name: "age",
        contexts: ROTATE,
        kind: Kind::Duration {
            min_ms: 60_000,
            max_ms: 366 * 86_400_000,
        },
        example: Some("\"24h\""),
        unit: Some("milliseconds"),
        summary: "Age at which the file is renamed: at multiples of this time since midnight UTC \
                  on 1970-01-01.",
        since: "0.2",
        aliases: &["max_age", "interval", "daily"],
        set: |draft, given| draft.rotation.age_s = Some(given.number().div_ceil(1000)),
        ..Row::BASE
    },
    Row {
        name: "keep",
        contexts: ROTATE,
        kind: Kind::Integer {
            min: 1,
            max: 10_000,
        },
        default: Some("14"),
        summary: "Number of renamed files that are kept; older ones are deleted.",
        since: "0.2",
        aliases: &["roll_keep", "rotate", "count"],
        set: |draft, given| draft.rotation.kept_max = given.number() as usize,
        ..Row::BASE
    },
    Row {
        name: "compress",
        contexts: ROTATE,
        kind: Kind::Boolean,
        default: Some("false"),
        example: Some("true"),
        summary: "Compress renamed files with gzip, on a thread of their own?",
        since: "0.2",
        aliases: &["gzip", "roll_gzip"],
        set: |draft, given| draft.rotation.compresses = given.boolean(),
        ..Row::BASE
    },
];

fn read_table(report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = RotationDraft::default();
    draft.fill(fields);
    let rotation = draft.rotation;
    if rotation.bytes_max.is_none() && rotation.age_s.is_none() {
        if !fields.has("size") && !fields.has("age") {
            let help = "add size = \"100MiB\" or age = \"24h\"";
            report.error(&fields.at, "neither `size` nor `age`", Some(help.into()));
        }
        return None;
    }
    Some(Value::parsed(Some(rotation)))
}
