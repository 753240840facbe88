//! Logs: `access_log` of a site or route, `error_log` and `log_level` of the server.
//!
//! Called by: `server`, `site`, and `route`.
//! Caveat: sites that name the same file share it.

use super::{
    matcher::{self, MATCH_OR_NAME, MatchTree, NamedMatchers},
    path_pattern::PATTERN,
    rotation::ROTATE_KIND,
};
use crate::{
    context::{ACCESS_LOG, ROUTE, SERVER, SITE},
    kind::{Kind, TableKind, Word},
    model::{
        AccessLog, AccessLogTarget, LogCondition, LogLevel, LogMatcher, Matcher, PathPattern,
        Server,
    },
    reader::Reader,
    report::Report,
    row::{Draft, Row, Rows},
    source::Location,
    value::{Fields, Spanned, Value, ValueError},
};
use saker_telemetry::{
    access_log::{Escapes, Format, FormatError, Mask, Rotation, by_host},
    error_log::ErrorLogTarget,
};
use std::{path::PathBuf, sync::Arc};

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
    when: Option<LocatedTree>,
    unless: Option<LocatedTree>,
    rotation: Option<Rotation>,
    rotation_at: Option<Location>,
    mask: Mask,
}

type LocatedTree = (MatchTree, Location);

/// An access log whose conditions wait for the named matchers of the site.
#[derive(Clone, Debug)]
pub struct ReadAccessLog {
    pub log: AccessLog,
    when: Option<LocatedTree>,
    unless: Option<LocatedTree>,
}

impl ReadAccessLog {
    /// Resolves the conditions.
    pub fn resolve(&mut self, reader: &mut Reader<'_>, named: &NamedMatchers) {
        let mut resolved = |tree: Option<LocatedTree>| {
            let (tree, at) = tree?;
            let matcher = matcher::resolve(reader, tree, &at, named);
            let mut has_file = false;
            matcher.visit(&mut |inner| has_file |= matches!(inner, Matcher::File(_)));
            if has_file {
                let help = "files are not looked for when a line is written: test the path";
                let message = "`file` and `directory` are not conditions of logs";
                reader.error(&at, message, Some(help.into()));
            }
            Some(LogMatcher(Arc::new(matcher)))
        };
        let (only, except) = (resolved(self.when.take()), resolved(self.unless.take()));
        if only.is_some() || except.is_some() {
            self.log.condition = Some(LogCondition::Matches {
                only,
                except,
                paths: self.log.condition.take().map(Box::new),
            });
        }
    }
}

impl Draft for AccessLogDraft {
    fn rows() -> Rows<Self> {
        &[ACCESS_LOG_ROWS]
    }
}

/// The access logs of a site or route.
impl Draft for Vec<ReadAccessLog> {
    fn rows() -> Rows<Self> {
        &[ROWS]
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
        aliases: &["error_log_level", "log_severity"],
        set: |server, given| server.error_log.level = level(&given.text()),
        ..Row::BASE
    },
];

pub const ROWS: &[Row<Vec<ReadAccessLog>>] = &[Row {
    name: "access_log",
    contexts: SITE.or(ROUTE),
    kind: Kind::OneOf(&[
        Kind::Choice(&["off", "stdout"]),
        Kind::PathOrProgram,
        TABLE,
        Kind::ListOf(&ONE),
    ]),
    default: Some("\"off\""),
    example: Some("{ path = \"access.log\", format = \"json\" }"),
    summary: "A file, `stdout`, `off`, a program after `|`, a table with a format, or a list of \
              these; in a route, instead of those of the site. Sites may share a file. `%{host}` in the path writes a file per host name, \
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
        since: "0.2",
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
        since: "0.2",
        set: |log, given| log.except = given.parsed_list(),
        ..Row::BASE
    },
    Row {
        name: "when",
        contexts: ACCESS_LOG,
        kind: MATCH_OR_NAME,
        example: Some("{ method = \"POST\" }"),
        summary: "Log only requests that meet these conditions: as `match` of routes, without \
                  `file` and `directory`. Requests that can't be parsed meet none.",
        since: "0.2",
        aliases: &["if", "match", "env"],
        set: |log, given| log.when = located_tree(given),
        ..Row::BASE
    },
    Row {
        name: "unless",
        contexts: ACCESS_LOG,
        kind: MATCH_OR_NAME,
        example: Some("{ client = \"192.0.2.0/24\" }"),
        summary: "Do not log requests that meet these conditions; overrides `when`.",
        since: "0.2",
        aliases: &["not", "ignore"],
        set: |log, given| log.unless = located_tree(given),
        ..Row::BASE
    },
    Row {
        name: "rotate",
        contexts: ACCESS_LOG,
        kind: ROTATE_KIND,
        example: Some("{ size = \"100MiB\", age = \"24h\", keep = 14, compress = true }"),
        summary: "Rename the file and begin a new one when it is large or old. Renamed files have \
                  the time (UTC) in their names.",
        apache: Some("rotatelogs"),
        since: "0.2",
        aliases: &["rotation", "roll"],
        set: |log, given| {
            log.rotation_at = Some(given.at.clone());
            log.rotation = given.parsed();
        },
        ..Row::BASE
    },
    Row {
        name: "mask",
        contexts: ACCESS_LOG,
        kind: Kind::ListOf(&Kind::Word(&MASKED)),
        default: Some("[]"),
        example: Some("[\"query:token\", \"cookie:*\", \"header:Authorization\", \"client\"]"),
        summary: "What is not written: values of query parameters (also in Referer), cookies, and \
                  fields become `***`, the user's name, too (`user`); of the client's address the \
                  last 8 bits (IPv4) or 80 bits (IPv6) become 0 (`client`), and fields in which \
                  proxies name it `***`. `*` at the end of a name stands for any end.",
        since: "0.2",
        aliases: &["redact", "filter", "anonymize"],
        set: |log, given| log.mask = mask(given),
        ..Row::BASE
    },
];

static MASKED: Word = Word {
    expects: "\"query:NAME\", \"cookie:NAME\", \"header:NAME\", \"client\", or \"user\"",
    pattern: "^((query|cookie|header):.+|client|user)$",
    read: |text| match Mask::parse([text]) {
        Some(_) => Ok(Value::Text(text.to_owned())),
        None => Err(ValueError::plain(
            (!text.is_empty() && !text.contains(':')).then(|| {
                format!("write \"query:{text}\", \"cookie:{text}\", or \"header:{text}\"")
            }),
        )),
    },
};

/// The fields that `mask` names.
fn mask(given: Spanned) -> Mask {
    let words = given.texts();
    Mask::parse(words.iter().map(String::as_str)).unwrap_or_default()
}

fn located_tree(given: Spanned) -> Option<LocatedTree> {
    let at = given.at.clone();
    Some((matcher::tree(given)?, at))
}

fn set_access_logs(logs: &mut Vec<ReadAccessLog>, given: Spanned) {
    let all = given.one_or_many().into_iter();
    *logs = all.filter_map(access_log).collect();
}

fn access_log(given: Spanned) -> Option<ReadAccessLog> {
    let origin = given.origin();
    if let Some(log) = given.parsed_as() {
        return Some(log);
    }
    let target = target(given.value)?;
    Some(ReadAccessLog {
        log: AccessLog {
            is_immediate: false,
            target,
            format: DEFAULT_FORMAT.into(),
            is_items: false,
            escapes: Escapes::Apache,
            condition: None,
            rotation: None,
            mask: Arc::default(),
            origin,
        },
        when: None,
        unless: None,
    })
}

fn read_table(report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = AccessLogDraft::default();
    draft.fill(fields);
    let format = draft.format.as_deref().unwrap_or(DEFAULT_FORMAT).into();
    if let Some(at) = &draft.rotation_at
        && !matches!(draft.target, Some(AccessLogTarget::File(_)) | None)
    {
        let help = "remove it: programs rotate their own files, and `%{host}` makes too many";
        report.error(at, "only a single file can be rotated", Some(help.into()));
    }
    let paths =
        (!draft.only.is_empty() || !draft.except.is_empty()).then_some(LogCondition::Paths {
            only: draft.only,
            except: draft.except,
        });
    Some(Value::parsed(ReadAccessLog {
        log: AccessLog {
            is_immediate: false,
            target: draft.target?,
            format,
            is_items: false,
            escapes: Escapes::Apache,
            condition: paths,
            rotation: draft.rotation,
            mask: Arc::new(draft.mask),
            origin: fields.at.origin(),
        },
        when: draft.when,
        unless: draft.unless,
    }))
}

/// `None` stands for `off`.
pub(super) fn target(value: Value) -> Option<AccessLogTarget> {
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
