//! ErrorLog, ErrorLogFormat and LogLevel of the server and of each host (httpd 2.4, core).
//!
//! Place in the walk: none; the model gets the server's log, and for each host that says anything
//! of the three a log of its own. Difficulty: a host that names the same target as the server, or
//! none, writes where the server does, but at its own level and in its shapes.

use crate::{arguments::texts, modules::loglevel::LogLevel};
use saker_apache_syntax::Node;
use saker_config::model::{self, ErrorLog};
use saker_telemetry::error_log::{ErrorLogTarget, Format, Formats, SiteLog, Syslog};
use std::{path::Path, sync::Arc};

/// The error log settings of a host.
#[derive(Clone, Debug, Default)]
pub struct ErrorLogDraft {
    pub target: Option<ErrorLogTarget>,
    formats: Formats,
}

impl ErrorLogDraft {
    /// `|program`, `syslog…`, or a file.
    pub fn set_target(&mut self, node: &Node, root: &Path) -> Result<(), String> {
        let words = texts(node);
        let text = words.first().map(String::as_str).unwrap_or_default();
        self.target = Some(match (text.strip_prefix('|'), Syslog::parse(text)) {
            (Some(command), _) => ErrorLogTarget::Program(command.to_owned()),
            (None, Some(syslog)) => ErrorLogTarget::Syslog(syslog?),
            (None, None) => ErrorLogTarget::File(root.join(text)),
        });
        Ok(())
    }

    /// The format of messages, or of lines about a connection or a request.
    pub fn add_format(&mut self, node: &Node) -> Result<(), String> {
        let words = texts(node);
        let (kind, text) = match words.as_slice() {
            [kind, text, ..] => (Some(kind.to_ascii_lowercase()), text),
            [text] => (None, text),
            [] => return Ok(()),
        };
        let lines = match kind.as_deref() {
            None => {
                self.formats.message = Some(Format::parse(text, true)?);
                return Ok(());
            }
            Some("connection") => &mut self.formats.connection,
            Some("request") => &mut self.formats.request,
            Some(_) => return Err("ErrorLogFormat type must be one of request, connection".into()),
        };
        if !text.is_empty() {
            lines.push(Format::parse(text, false)?);
        }
        Ok(())
    }

    /// A host's over the server's; each of the three by itself.
    fn formats_over(&self, main: &ErrorLogDraft) -> Formats {
        let lines = |own: &Vec<Format>, main: &Vec<Format>| {
            if own.is_empty() {
                main.clone()
            } else {
                own.clone()
            }
        };
        Formats {
            message: self
                .formats
                .message
                .clone()
                .or_else(|| main.formats.message.clone()),
            connection: lines(&self.formats.connection, &main.formats.connection),
            request: lines(&self.formats.request, &main.formats.request),
        }
    }
}

/// The server's log.
pub fn of_server(draft: &ErrorLogDraft, level: Option<&LogLevel>) -> ErrorLog {
    ErrorLog {
        target: draft.target.clone().unwrap_or(ErrorLogTarget::Stderr),
        level: level.map_or(model::LogLevel::Notice, LogLevel::of_server),
        areas: level.map(LogLevel::of_areas).unwrap_or_default(),
        formats: draft.formats.clone(),
        speaks_httpd: true,
        speaks_nginx: false,
        outputs: Default::default(),
    }
}

/// A virtual host's log; `None`: the server's. `main`: what the server says.
pub fn of_host(
    (main, main_level): (&ErrorLogDraft, Option<&LogLevel>),
    (own, own_level): (&ErrorLogDraft, Option<&LogLevel>),
) -> Option<Arc<SiteLog>> {
    let own_level = own_level.filter(|level| level.is_said());
    let says_nothing =
        own.target.is_none() && own.formats == Formats::default() && own_level.is_none();
    if says_nothing {
        return None;
    }
    let level = main_level
        .cloned()
        .unwrap_or_default()
        .merge(&own_level.cloned().unwrap_or_default());
    let areas = level
        .of_areas()
        .into_iter()
        .map(|(area, level)| (area, level.into()))
        .collect();
    let target = own
        .target
        .clone()
        .filter(|target| main.target.as_ref() != Some(target));
    Some(Arc::new(SiteLog::new(
        target,
        level.of_server().into(),
        areas,
        own.formats_over(main),
    )))
}
