//! ngx_http_log_module: formats and logs.
//!
//! Called by: `load`, and `assemble`, which makes the logs of sites.
//! Caveat: formats are translated to the items of the access log; variables without an item are
//! noted by `saker-nginx` at the end of the request.
//! Out of scope: writing lines (`saker-telemetry`).

use crate::{
    inherit::inherit,
    reading::{Reading, Setters},
    text::{Part, Text},
    variables::{Builtin, Variable},
};
use saker_config::model::AccessLogTarget;
use saker_nginx_syntax::Directive;
use saker_telemetry::{access_log::Escapes, error_log::Syslog};
use std::{collections::BTreeMap, sync::Arc};

/// One `access_log`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogUse {
    pub target: AccessLogTarget,
    pub format: Box<str>,
    /// The request is logged if its value is neither empty nor `0`.
    pub condition: Option<Text>,
    /// The path below the target's directory, where it has variables.
    pub path: Option<Text>,
}

/// Settings of the module.
#[derive(Clone, Debug, Default)]
pub struct LogConf {
    /// Empty: `off`.
    pub logs: Option<Arc<[LogUse]>>,
}

impl LogConf {
    pub fn inherit(&mut self, outer: &LogConf) {
        inherit!(self, outer: logs);
    }
}

pub const SETTERS: Setters<LogConf> = &[("access_log", access_log)];

/// Reads an `access_log`.
///
/// # Errors
/// nginx's message.
pub fn access_log(
    directive: &Directive,
    conf: &mut LogConf,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let path = directive.argument(0);
    let before = conf.logs.take();
    // `off` counts for its block, wherever it stands there.
    if path == "off" || before.as_ref().is_some_and(|logs| logs.is_empty()) {
        conf.logs = Some(Arc::default());
        return Ok(());
    }
    let before = before.unwrap_or_default();
    let mut log = LogUse {
        target: target(path, reading)?,
        format: "combined".into(),
        condition: None,
        path: None,
    };
    if let AccessLogTarget::File(file) = &log.target
        && path.contains('$')
    {
        let (directory, rest) = split_path(&file.to_string_lossy());
        log.path = Some(reading.text(&rest)?);
        log.target = AccessLogTarget::Below(directory.into());
    }
    for (index, word) in directive.texts().enumerate().skip(1) {
        match word.split_once('=') {
            Some(("if", text)) => log.condition = Some(reading.text(text)?),
            Some(("buffer" | "gzip", _)) if log.path.is_some() => {
                return Err("buffered logs cannot have variables in name".to_owned());
            }
            Some(("buffer" | "flush" | "gzip", _)) => {}
            None if word == "gzip" => {}
            _ if index == 1 => log.format = word.into(),
            _ => return Err(format!("invalid parameter \"{word}\"")),
        }
    }
    conf.logs = Some(before.iter().cloned().chain([log]).collect());
    Ok(())
}

/// Splits a path with variables: the directory before the first one, and what is below.
fn split_path(path: &str) -> (String, String) {
    let variable = path.find('$').unwrap_or(path.len());
    let fixed = path.get(..variable).and_then(|fixed| fixed.rfind('/'));
    let end = fixed.map_or(0, |at| at + 1);
    let (directory, rest) = path.split_at(end);
    (directory.to_owned(), rest.to_owned())
}

fn target(text: &str, reading: &Reading<'_>) -> Result<AccessLogTarget, String> {
    if let Some(syslog) = Syslog::parse_nginx(text, Some("info")) {
        return syslog.map(AccessLogTarget::Syslog);
    }
    let path = reading.path(text);
    Ok(match path.to_str() {
        Some("/dev/stdout") => AccessLogTarget::Stdout,
        _ => AccessLogTarget::File(path),
    })
}

/// A `log_format`: items of the access log, and the variables that are noted for it.
#[derive(Clone, Debug, Default)]
pub struct Format {
    pub items: String,
    /// Names of notes with their variables.
    pub notes: Vec<(Box<str>, Variable)>,
    pub escape: Escapes,
}

impl Format {
    /// Returns true if a variable without a value is empty, not a hyphen.
    pub fn is_bare(&self) -> bool {
        self.escape != Escapes::Hexadecimal
    }
}

/// Formats by name.
pub type Formats = BTreeMap<Box<str>, Format>;

/// The format `combined`.
pub const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";

/// Reads a `log_format`.
///
/// # Errors
/// nginx's message.
pub fn log_format(directive: &Directive, reading: &mut Reading<'_>) -> Result<Format, String> {
    let (text, escape) = format_text(directive, reading)?;
    Ok(translate(&text, escape, directive.argument(0)))
}

/// Reads the text of a `log_format`, and the way in which its values are escaped.
///
/// # Errors
/// nginx's message.
pub fn format_text(
    directive: &Directive,
    reading: &mut Reading<'_>,
) -> Result<(Text, Escapes), String> {
    let mut escape = Escapes::Hexadecimal;
    let mut source = String::new();
    for word in directive.texts().skip(1) {
        match word.strip_prefix("escape=") {
            Some("default") => escape = Escapes::Hexadecimal,
            Some("json") => escape = Escapes::Json,
            Some("none") => escape = Escapes::Unescaped,
            Some(other) => return Err(format!("unknown log format escaping \"{other}\"")),
            None => source.push_str(word),
        }
    }
    Ok((reading.text(&source)?, escape))
}

/// Translates a format.
pub fn translate(text: &Text, escape: Escapes, format_name: &str) -> Format {
    let mut format = Format {
        escape,
        ..Format::default()
    };
    for part in &text.parts {
        match part {
            Part::Literal(text) => {
                for character in String::from_utf8_lossy(text).chars() {
                    match character {
                        '%' => format.items.push_str("%%"),
                        '\\' => format.items.push_str("\\\\"),
                        '\n' => format.items.push_str("\\n"),
                        '\t' => format.items.push_str("\\t"),
                        other => format.items.push(other),
                    }
                }
            }
            Part::Capture(_) => {}
            Part::Variable(variable) => {
                match item(variable).filter(|_| escape == Escapes::Hexadecimal) {
                    Some(item) => format.items.push_str(&item),
                    None => {
                        let name: Box<str> = format.notes.len().to_string().into();
                        match known_late(variable) {
                            Some(item) => format.items.push_str(item),
                            None => {
                                format
                                    .items
                                    .push_str(&format!("%{{{format_name}/{name}}}n"));
                                format.notes.push((name, variable.clone()));
                            }
                        }
                    }
                }
            }
        }
    }
    format
}

/// Returns the item of a variable that it has exactly.
fn item(variable: &Variable) -> Option<String> {
    Some(match variable {
        Variable::Builtin(Builtin::RemoteUser) => "%{basic}u".to_owned(),
        Variable::Builtin(Builtin::RemoteAddr) => "%a".to_owned(),
        Variable::Builtin(Builtin::Request) => "%r".to_owned(),
        Variable::Builtin(Builtin::RequestMethod) => "%m".to_owned(),
        Variable::Builtin(Builtin::ServerProtocol) => "%H".to_owned(),
        Variable::Field(name) => format!("%{{{name}}}i"),
        Variable::SentField(name) => match late_field(name) {
            Some(item) => item.to_owned(),
            None => format!("%{{{name}}}o"),
        },
        Variable::SentTrailer(name) | Variable::UpstreamTrailer(name) => {
            format!("%{{{name}}}^to")
        }
        Variable::Builtin(other) => return late(*other).map(str::to_owned),
        _ => return None,
    })
}

/// The item of a variable whose value is known only when the response has been sent.
fn known_late(variable: &Variable) -> Option<&'static str> {
    match variable {
        Variable::Builtin(builtin) => late(*builtin),
        // Without a value, it is empty.
        Variable::SentField(name) if **name == *"content-length" => Some("%{length}X"),
        Variable::SentField(name) => late_field(name),
        _ => None,
    }
}

fn late(builtin: Builtin) -> Option<&'static str> {
    Some(match builtin {
        Builtin::Status => "%>s",
        Builtin::BodyBytesSent => "%B",
        Builtin::BytesSent => "%O",
        Builtin::RequestLength => "%I",
        Builtin::TimeLocal => "%{%d/%b/%Y:%H:%M:%S %z}t",
        Builtin::TimeIso8601 => "%{%Y-%m-%dT%H:%M:%S%z}t",
        Builtin::Msec => "%{sec}t.%{msec_frac}t",
        Builtin::RequestTime => "%{s.ms}T",
        Builtin::RequestCompletion => "%{completion}X",
        _ => return None,
    })
}

/// The item of a field that is added when the response is sent.
fn late_field(name: &str) -> Option<&'static str> {
    match name {
        "connection" => Some("%{connection}X"),
        "content-length" => Some("%{content-length}o"),
        _ => None,
    }
}
