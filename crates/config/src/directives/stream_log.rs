//! `access_log` of a stream: one line per session that has ended.
//!
//! Called by: `stream`.
//! Caveat: names of variables are those of nginx's `stream`, and `$stream` and `$sni`; sessions have
//! no request, so formats of sites don't apply.
//! Out of scope: values and escaping (`saker-native`).

use super::{logs::target, rotation::ROTATE_KIND};
use crate::{
    context::STREAM_LOG,
    kind::{Kind, TableKind, Word},
    model::{AccessLogTarget, SessionVariable, StreamLogFormat, StreamLogPart, StreamLogValue},
    report::Report,
    row::{Draft, Row, Rows},
    suggest,
    value::{Fields, Spanned, Value, ValueError},
};
use saker_telemetry::access_log::Rotation;
use std::sync::Arc;

/// An access log of a stream, before its target has a number.
#[derive(Clone, Debug)]
pub struct ReadStreamLog {
    pub target: AccessLogTarget,
    pub format: Arc<StreamLogFormat>,
    pub rotation: Option<Rotation>,
}

#[derive(Debug, Default)]
pub struct StreamLogDraft {
    target: Option<AccessLogTarget>,
    format: Option<Arc<StreamLogFormat>>,
    rotation: Option<Rotation>,
}

impl Draft for StreamLogDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

const TABLE: Kind = Kind::Table(&TableKind {
    context: STREAM_LOG,
    read: read_table,
});
const ONE: Kind = Kind::OneOf(&[Kind::Choice(&["stdout"]), Kind::PathOrProgram, TABLE]);
pub const STREAM_LOGS: Kind = Kind::OneOf(&[
    Kind::Choice(&["off", "stdout"]),
    Kind::PathOrProgram,
    TABLE,
    Kind::ListOf(&ONE),
]);

static FORMAT: Word = Word {
    expects: "\"text\", \"json\", or a text with variables, such as \"$remote_addr $status $sni\"",
    pattern: "",
    read: |text| format(text).map(Value::parsed),
};

pub const ROWS: &[Row<StreamLogDraft>] = &[
    Row {
        name: "path",
        contexts: STREAM_LOG,
        kind: Kind::OneOf(&[Kind::Choice(&["stdout"]), Kind::PathOrProgram]),
        example: Some("\"stream.log\""),
        required: true,
        summary: "A file, `stdout`, or `|` and a program that reads lines from its standard input.",
        aliases: &["file", "target"],
        since: "0.2",
        set: |log, given| log.target = target(given.value),
        ..Row::BASE
    },
    Row {
        name: "format",
        contexts: STREAM_LOG,
        kind: Kind::Word(&FORMAT),
        default: Some("\"text\""),
        example: Some("\"$remote_addr [$time_iso8601] $sni $status $upstream_addr\""),
        summary: "`text`, `json`, or a text with variables (docs/streams.md has the list): `$stream` \
                  is the name of the stream, `$sni` the server name of the TLS handshake, and the \
                  others are called as in nginx's `stream`.",
        aliases: &["log_format"],
        since: "0.2",
        set: |log, given| log.format = given.parsed_as(),
        ..Row::BASE
    },
    Row {
        name: "rotate",
        contexts: STREAM_LOG,
        kind: ROTATE_KIND,
        example: Some("{ size = \"100MiB\", age = \"24h\", keep = 14, compress = true }"),
        summary: "Rename the file and begin a new one when it is large or old. Renamed files have \
                  the time (UTC) in their names.",
        apache: Some("rotatelogs"),
        since: "0.2",
        aliases: &["rotation", "roll"],
        set: |log, given| log.rotation = given.parsed(),
        ..Row::BASE
    },
];

/// Variables of nginx's that are written here, too.
const VARIABLES: &[&str] = &[
    "bytes_received",
    "bytes_sent",
    "connection",
    "msec",
    "pid",
    "protocol",
    "proxy_protocol_addr",
    "proxy_protocol_port",
    "proxy_protocol_server_addr",
    "proxy_protocol_server_port",
    "realip_remote_addr",
    "realip_remote_port",
    "remote_addr",
    "remote_port",
    "server_addr",
    "server_port",
    "session_time",
    "ssl_alpn_protocol",
    "ssl_cipher",
    "ssl_curve",
    "ssl_preread_alpn_protocols",
    "ssl_preread_protocol",
    "ssl_preread_server_name",
    "ssl_protocol",
    "ssl_server_name",
    "ssl_session_reused",
    "status",
    "time_iso8601",
    "upstream_addr",
    "upstream_bytes_received",
    "upstream_bytes_sent",
    "upstream_connect_time",
    "upstream_first_byte_time",
    "upstream_session_time",
];

const TEXT: &str = "$remote_addr [$time_iso8601] $protocol $stream $status $bytes_sent \
                    $bytes_received $session_time \"$sni\" \"$upstream_addr\"";
const JSON: &[&str] = &[
    "time_iso8601",
    "stream",
    "protocol",
    "remote_addr",
    "remote_port",
    "server_addr",
    "server_port",
    "sni",
    "status",
    "bytes_sent",
    "bytes_received",
    "session_time",
    "upstream_addr",
    "upstream_connect_time",
];

/// Returns the logs of a value of [`STREAM_LOGS`].
pub fn logs(given: Spanned) -> Vec<ReadStreamLog> {
    let one = |one: Spanned| {
        if let Some(log) = one.parsed_as() {
            return Some(log);
        }
        Some(ReadStreamLog {
            target: target(one.value)?,
            format: text_format(),
            rotation: None,
        })
    };
    given.one_or_many().into_iter().filter_map(one).collect()
}

fn read_table(report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = StreamLogDraft::default();
    draft.fill(fields);
    let target = draft.target?;
    if draft.rotation.is_some() && !matches!(target, AccessLogTarget::File(_)) {
        let help = "give `path` the name of a file, or remove `rotate`";
        report.error(&fields.at, "`rotate` is for files", Some(help.into()));
    }
    Some(Value::parsed(ReadStreamLog {
        target,
        format: draft.format.unwrap_or_else(text_format),
        rotation: draft.rotation,
    }))
}

fn text_format() -> Arc<StreamLogFormat> {
    let parts = parts(TEXT);
    debug_assert!(parts.is_ok(), "{parts:?}");
    Arc::new(StreamLogFormat::Text(parts.unwrap_or_default()))
}

fn format(text: &str) -> Result<Arc<StreamLogFormat>, ValueError> {
    match text {
        "text" => Ok(text_format()),
        "json" => {
            let members = JSON.iter().filter_map(|name| Some((*name, value(name)?)));
            Ok(Arc::new(StreamLogFormat::Json(members.collect())))
        }
        _ if !text.contains('$') => Err(ValueError::plain(None)),
        _ => parts(text).map(|parts| Arc::new(StreamLogFormat::Text(parts))),
    }
}

fn value(name: &str) -> Option<StreamLogValue> {
    match name {
        "stream" => Some(StreamLogValue::Stream),
        "sni" => Some(StreamLogValue::ServerName),
        _ if VARIABLES.contains(&name) => SessionVariable::known(name).map(StreamLogValue::Session),
        _ => None,
    }
}

/// Parts of a text with `$name` and `${name}`; `$$` is a dollar sign.
fn parts(text: &str) -> Result<Vec<StreamLogPart>, ValueError> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        literal.push_str(before);
        if let Some(behind) = behind.strip_prefix('$') {
            literal.push('$');
            rest = behind;
            continue;
        }
        let (name, behind) = match behind.strip_prefix('{') {
            Some(behind) => behind
                .split_once('}')
                .ok_or_else(|| ValueError::new("`${` without `}`"))?,
            None => {
                let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                let end = behind.bytes().take_while(|byte| is_name(*byte)).count();
                behind.split_at(end)
            }
        };
        let value = value(name).ok_or_else(|| unknown(name))?;
        if !literal.is_empty() {
            parts.push(StreamLogPart::Literal(std::mem::take(&mut literal).into()));
        }
        parts.push(StreamLogPart::Value(value));
        rest = behind;
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(StreamLogPart::Literal(literal.into()));
    }
    match parts.iter().any(|part| match part {
        StreamLogPart::Literal(text) => text.contains(['\n', '\r', '\0']),
        StreamLogPart::Value(_) => false,
    }) {
        true => Err(ValueError::new("a line has no line breaks in it")),
        false => Ok(parts),
    }
}

fn unknown(name: &str) -> ValueError {
    let known = VARIABLES.iter().copied().chain(["stream", "sni"]);
    let help = suggest::nearest(name, known).map(|near| format!("did you mean `${near}`?"));
    let usual =
        "variables are those of nginx's `stream`, `$stream` and `$sni`; `$$` is a dollar sign";
    ValueError::with_help(
        format!("unknown variable `${name}`"),
        help.unwrap_or_else(|| usual.to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_value() {
        for name in VARIABLES.iter().chain(JSON) {
            assert!(value(name).is_some(), "{name}");
        }
    }

    #[test]
    fn texts_with_variables() {
        let StreamLogFormat::Text(parts) = &*format("a$${status}$sni b").unwrap() else {
            panic!("a text");
        };
        let literal = |text: &str| StreamLogPart::Literal(text.into());
        let session = |name| StreamLogPart::Value(value(name).unwrap());
        assert_eq!(
            parts,
            &[
                literal("a$"),
                literal("{status}"),
                session("sni"),
                literal(" b")
            ][..]
                .iter()
                .fold(Vec::new(), |mut all: Vec<StreamLogPart>, part| {
                    match (all.last_mut(), part) {
                        (Some(StreamLogPart::Literal(last)), StreamLogPart::Literal(text)) => {
                            *last = format!("{last}{text}").into();
                        }
                        _ => all.push(part.clone()),
                    }
                    all
                })
        );
        let StreamLogFormat::Text(parts) = &*format("${status}x").unwrap() else {
            panic!("a text");
        };
        assert_eq!(parts, &[session("status"), literal("x")]);
        for wrong in [
            "$statu",
            "${status",
            "$",
            "common",
            "$status\nx",
            "$request",
        ] {
            assert!(format(wrong).is_err(), "{wrong:?}");
        }
        assert!(
            matches!(&*format("json").unwrap(), StreamLogFormat::Json(all) if all.len() == JSON.len())
        );
    }
}
