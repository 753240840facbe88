//! Logs: `access_log` of a site, `error_log` and `log_level` of the server.
//!
//! Called by: `server` and `site`.
//! Caveat: sites that name the same file share it.

use super::path_pattern::PATTERN;
use crate::{
    context::{ACCESS_LOG, SERVER, SITE},
    kind::{Kind, TableKind, Word},
    model::{AccessLog, AccessLogTarget, LogCondition, LogLevel, PathPattern, Server},
    report::Report,
    row::{Draft, Row, Rows},
    value::{Fields, Spanned, Value, ValueError},
};
use saker_telemetry::{
    access_log::{Format, FormatError, by_host},
    error_log::ErrorLogTarget,
};
use std::path::PathBuf;

const DEFAULT_FORMAT: &str = "combined";

const TABLE: Kind = Kind::Table(&TableKind {
    context: ACCESS_LOG,
    read: read_table,
});
const ONE: Kind = Kind::OneOf(&[Kind::Choice(&["stdout"]), Kind::PathOrProgram, TABLE]);

static FORMAT: Word = Word {
    expects: "\"common\", \"combined\", \"vhost_combined\", \"json\" or a format as in Apache's \
              LogFormat, such as \"%h %t \\\"%r\\\" %>s %b\"",
    pattern: "",
    read: read_format,
};

#[derive(Debug, Default)]
pub struct AccessLogDraft {
    target: Option<AccessLogTarget>,
    format: Option<String>,
    only: Vec<PathPattern>,
    except: Vec<PathPattern>,
}

impl Draft for AccessLogDraft {
    fn rows() -> Rows<Self> {
        &[ACCESS_LOG_ROWS]
    }
}

/// The access logs of a site.
impl Draft for Vec<AccessLog> {
    fn rows() -> Rows<Self> {
        &[SITE_ROWS]
    }
}

pub const LOG_ROWS: &[Row<Server>] = &[
    Row {
        name: "error_log",
        contexts: SERVER,
        kind: Kind::OneOf(&[Kind::Choice(&["stderr"]), Kind::Path]),
        default: Some("\"stderr\""),
        summary: "File of the error log, or `stderr`.",
        apache: Some("ErrorLog"),
        set: |server, given| {
            server.error_log.target =
                path_unless_word(given).map_or(ErrorLogTarget::Stderr, ErrorLogTarget::File)
        },
        ..Row::BASE
    },
    Row {
        name: "log_level",
        contexts: SERVER,
        kind: Kind::Choice(&["error", "warn", "notice", "info", "debug"]),
        default: Some("\"notice\""),
        summary: "Least severe level that is logged.",
        apache: Some("LogLevel"),
        set: |server, given| server.error_log.level = level(&given.text()),
        ..Row::BASE
    },
];

pub const SITE_ROWS: &[Row<Vec<AccessLog>>] = &[Row {
    name: "access_log",
    contexts: SITE,
    kind: Kind::OneOf(&[
        Kind::Choice(&["off", "stdout"]),
        Kind::PathOrProgram,
        TABLE,
        Kind::ListOf(&ONE),
    ]),
    default: Some("\"off\""),
    example: Some("{ path = \"access.log\", format = \"json\" }"),
    summary: "A file, `stdout`, `off`, a program after `|`, a table with a format, or a list of \
              these. Sites may share a file. `%{host}` in the path writes a file per host name, \
              with few open at a time; names that are not a host of the site share `_`.",
    apache: Some("CustomLog, TransferLog"),
    aliases: &["log"],
    set: set_access_logs,
    ..Row::BASE
}];

pub const ACCESS_LOG_ROWS: &[Row<AccessLogDraft>] = &[
    Row {
        name: "path",
        contexts: ACCESS_LOG,
        kind: Kind::OneOf(&[Kind::Choice(&["stdout"]), Kind::PathOrProgram]),
        example: Some("\"access.log\""),
        required: true,
        summary: "A file, `stdout`, or `|` and a program that reads lines from its standard input.",
        aliases: &["file", "target"],
        set: |log, given| log.target = target(given.value),
        ..Row::BASE
    },
    Row {
        name: "format",
        contexts: ACCESS_LOG,
        kind: Kind::Word(&FORMAT),
        default: Some("\"combined\""),
        summary: "`common`, `combined`, `vhost_combined`, `json`, or a format string as in \
                  Apache's LogFormat.",
        apache: Some("LogFormat"),
        aliases: &["log_format"],
        set: |log, given| log.format = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "paths",
        contexts: ACCESS_LOG,
        kind: Kind::ListOf(&Kind::Word(&PATTERN)),
        default: Some("[]"),
        example: Some("[\"/api/*\"]"),
        summary: "Log only requests for these decoded paths, with `*` as in routes. Requests that \
                  can't be parsed have no path.",
        since: "0.5",
        set: |log, given| log.only = given.parsed_list(),
        ..Row::BASE
    },
    Row {
        name: "except",
        contexts: ACCESS_LOG,
        kind: Kind::ListOf(&Kind::Word(&PATTERN)),
        default: Some("[]"),
        example: Some("[\"/health\", \"*.png\"]"),
        summary: "Do not log requests for these paths; overrides `paths`.",
        aliases: &["exclude", "skip"],
        since: "0.5",
        set: |log, given| log.except = given.parsed_list(),
        ..Row::BASE
    },
];

fn set_access_logs(logs: &mut Vec<AccessLog>, given: Spanned) {
    let all = given.one_or_many().into_iter();
    *logs = all.filter_map(access_log).collect();
}

fn access_log(given: Spanned) -> Option<AccessLog> {
    let origin = given.origin();
    if let Some(log) = given.parsed_as() {
        return Some(log);
    }
    let target = target(given.value)?;
    Some(AccessLog {
        target,
        format: DEFAULT_FORMAT.into(),
        is_items: false,
        condition: None,
        origin,
    })
}

fn read_table(_report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = AccessLogDraft::default();
    draft.fill(fields);
    let format = draft.format.as_deref().unwrap_or(DEFAULT_FORMAT).into();
    Some(Value::parsed(AccessLog {
        target: draft.target?,
        format,
        is_items: false,
        condition: (!draft.only.is_empty() || !draft.except.is_empty()).then_some(
            LogCondition::Paths {
                only: draft.only,
                except: draft.except,
            },
        ),
        origin: fields.at.origin(),
    }))
}

/// `None` stands for `off`.
fn target(value: Value) -> Option<AccessLogTarget> {
    match value {
        Value::Path(path)
            if path
                .to_str()
                .is_some_and(|path| path.contains(by_host::PLACE)) =>
        {
            Some(AccessLogTarget::ByHost(path))
        }
        Value::Path(path) => Some(AccessLogTarget::File(path)),
        Value::Text(word) if word == "stdout" => Some(AccessLogTarget::Stdout),
        Value::Text(word) => word
            .strip_prefix('|')
            .map(|command| AccessLogTarget::Program(command.trim().into())),
        _ => None,
    }
}

fn path_unless_word(given: Spanned) -> Option<PathBuf> {
    match given.value {
        Value::Path(path) => Some(path),
        _ => None,
    }
}

fn level(word: &str) -> LogLevel {
    match word {
        "error" => LogLevel::Error,
        "warn" => LogLevel::Warn,
        "info" => LogLevel::Info,
        "debug" => LogLevel::Debug,
        _ => LogLevel::Notice,
    }
}

fn read_format(text: &str) -> Result<Value, ValueError> {
    const NAMES: [&str; 4] = ["common", "combined", "vhost_combined", "json"];
    let Err(FormatError { offset, message }) = Format::parse(text) else {
        return Ok(Value::Text(text.to_owned()));
    };
    if !text.contains('%') {
        let near = crate::suggest::nearest(text, NAMES);
        return Err(ValueError::plain(
            near.map(|name| format!("did you mean \"{name}\"?")),
        ));
    }
    let before = text.get(..offset).unwrap_or_default().chars().count();
    Err(ValueError::new(format!(
        "{message} (at character {})",
        before + 1
    )))
}
