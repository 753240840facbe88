//! mod_log_config: which logs a host has, and what their lines say.
//!
//! Difficulty: nicknames may be given after their use, in the server for every host, or in a host
//! for itself; so everything is looked up when all has been read. Absent on purpose: BufferedLogs;
//! lines are gathered for a second at most, and written whole.

use crate::arguments::texts;
use saker_ap_expr::{Expression, ExpressionOptions};
use saker_apache_syntax::Node;
use saker_config::{
    Diagnostic,
    model::{AccessLog, AccessLogTarget, LogCondition, Origin},
};
use saker_pipeline::script_log::ScriptLog;
use saker_telemetry::{
    access_log::{Escapes, Format, LogTarget},
    forensic_log::ForensicLog,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Bytes of a request's content, whatever ScriptLogBuffer says.
const SCRIPT_CONTENT_BYTES_MAX: usize = 1 << 20;

/// Format if neither CustomLog nor LogFormat has one (mod_log_config, `LogFormat`).
const COMMON: &str = "%h %l %u %t \"%r\" %>s %b";

#[derive(Clone, Debug, Default)]
pub struct HostLogs {
    logs: Vec<LogDraft>,
    formats: Vec<(Box<str>, Box<str>)>,
    default_format: Option<Box<str>>,
    forensic: Option<LogTarget>,
}

#[derive(Clone, Debug)]
struct LogDraft {
    target: AccessLogTarget,
    /// A format, or the name of one.
    format: Option<Box<str>>,
    condition: Option<Condition>,
    /// GlobalLog: for all hosts.
    is_global: bool,
    origin: Origin,
}

#[derive(Clone, Debug)]
enum Condition {
    Variable { name: Box<str>, is_set: bool },
    Expression(Arc<Expression>),
}

impl HostLogs {
    /// CustomLog, GlobalLog, TransferLog.
    pub fn add(&mut self, node: &Node, root: &Path, is_global: bool) -> Result<(), String> {
        let words = texts(node);
        let (target, format) = (
            words.first().map(String::as_str).unwrap_or_default(),
            words.get(1).map(|format| format.as_str().into()),
        );
        let condition = words.get(2).map(|clause| condition(clause)).transpose()?;
        self.logs.push(LogDraft {
            target: crate::logs::target(target, root),
            format,
            condition,
            is_global,
            origin: node.origin.clone(),
        });
        Ok(())
    }

    /// ForensicLog.
    pub fn set_forensic(&mut self, node: &Node, root: &Path) -> Result<(), String> {
        self.forensic = texts(node)
            .first()
            .map(|text| match text.strip_prefix('|') {
                Some(command) => LogTarget::Program(command.to_owned()),
                None => LogTarget::File(root.join(text)),
            });
        Ok(())
    }

    /// A host's own, or the server's.
    pub fn forensic(&self, server: &HostLogs) -> Option<Arc<ForensicLog>> {
        self.forensic
            .as_ref()
            .or(server.forensic.as_ref())
            .cloned()
            .map(|target| Arc::new(ForensicLog::new(target)))
    }

    pub fn add_format(&mut self, node: &Node) -> Result<(), String> {
        let words = texts(node);
        let format = words.first().map(String::as_str).unwrap_or_default();
        // As Apache, a nickname's format is judged where it is given.
        Format::parse_items(format).map_err(|error| error.message)?;
        match words.get(1) {
            Some(name) => self.formats.push((name.as_str().into(), format.into())),
            None => self.default_format = Some(format.into()),
        }
        Ok(())
    }

    /// Those of the host with what the server has for it.
    pub fn access_logs(&self, server: &HostLogs) -> Vec<AccessLog> {
        let mut decided = 0;
        let made = self.in_force(server).map(|log| {
            let condition = log.condition.as_ref().map(|condition| match condition {
                Condition::Variable { name, is_set } => LogCondition::Variable {
                    name: name.clone(),
                    is_set: *is_set,
                },
                Condition::Expression(_) => {
                    decided += 1;
                    LogCondition::Decided(decided - 1)
                }
            });
            let format = self.format(log, server).into();
            AccessLog {
                is_immediate: false,
                target: log.target.clone(),
                format,
                is_items: true,
                escapes: Escapes::Apache,
                condition,
                rotation: None,
                mask: Arc::default(),
                origin: log.origin.clone(),
            }
        });
        made.collect()
    }

    /// Expressions to be decided, in the order of their numbers.
    pub fn conditions(&self, server: &HostLogs) -> Vec<Arc<Expression>> {
        let expressions = self
            .in_force(server)
            .filter_map(|log| match &log.condition {
                Some(Condition::Expression(expression)) => Some(Arc::clone(expression)),
                _ => None,
            });
        expressions.collect()
    }

    /// Variables that logs tell or depend on.
    pub fn variables(&self, server: &HostLogs) -> Vec<Box<str>> {
        let mut names = Vec::new();
        for log in self.in_force(server) {
            names.extend(
                Format::parse_items(self.format(log, server))
                    .into_iter()
                    .flat_map(|format| format.variables()),
            );
            names.extend(
                log.condition
                    .iter()
                    .filter_map(|condition| match condition {
                        Condition::Variable { name, .. } => Some(name.clone()),
                        Condition::Expression(_) => None,
                    }),
            );
        }
        names
    }

    /// Formats that can't be read.
    pub fn complaints(&self, server: &HostLogs) -> Vec<Diagnostic> {
        let complaint = |log: &LogDraft| {
            let error = Format::parse_items(self.format(log, server)).err()?;
            Some(Diagnostic::without_source(
                log.origin.clone(),
                error.message,
            ))
        };
        self.logs.iter().filter_map(complaint).collect()
    }

    /// A host's own in the place of the server's, except those that are for all.
    fn in_force<'l>(&'l self, server: &'l HostLogs) -> impl Iterator<Item = &'l LogDraft> {
        let is_server = std::ptr::eq(self, server);
        let (own, global) = match self.logs.is_empty() {
            true => (server, false),
            false => (self, !is_server),
        };
        own.logs.iter().chain(
            server
                .logs
                .iter()
                .filter(move |log| global && log.is_global),
        )
    }

    fn format<'l>(&'l self, log: &'l LogDraft, server: &'l HostLogs) -> &'l str {
        let Some(format) = log.format.as_deref() else {
            return self
                .default_format
                .as_deref()
                .or(server.default_format.as_deref())
                .unwrap_or(COMMON);
        };
        // The one name that is always there.
        self.named(format)
            .or_else(|| server.named(format))
            .unwrap_or(if format == "CLF" { COMMON } else { format })
    }

    fn named(&self, name: &str) -> Option<&str> {
        self.formats
            .iter()
            .rev()
            .find(|(known, _)| **known == *name)
            .map(|(_, format)| &**format)
    }
}

/// ScriptLog, ScriptLogLength and ScriptLogBuffer of a host.
#[derive(Clone, Debug, Default)]
pub struct ScriptLogDraft {
    path: Option<PathBuf>,
    bytes_max: Option<u64>,
    content_bytes_max: Option<usize>,
}

impl ScriptLogDraft {
    pub fn set_path(&mut self, node: &Node, root: &Path) -> Result<(), String> {
        self.path = texts(node).first().map(|path| root.join(path));
        Ok(())
    }

    pub fn set_length(&mut self, node: &Node) -> Result<(), String> {
        self.bytes_max = Some(number(node)?);
        Ok(())
    }

    pub fn set_buffer(&mut self, node: &Node) -> Result<(), String> {
        self.content_bytes_max = Some(usize::try_from(number(node)?).unwrap_or(usize::MAX));
        Ok(())
    }

    /// As mod_cgi merges: a host that names a log has nothing of the server's. The defaults are
    /// mod_cgi's.
    pub fn made(&self, server: &ScriptLogDraft) -> Option<Arc<ScriptLog>> {
        let said = if self.path.is_some() { self } else { server };
        let path = said.path.clone()?;
        let (bytes_max, content_bytes_max) = (
            said.bytes_max.unwrap_or(10_385_760),
            said.content_bytes_max.unwrap_or(1024),
        );
        Some(Arc::new(ScriptLog {
            path,
            bytes_max,
            content_bytes_max: content_bytes_max.min(SCRIPT_CONTENT_BYTES_MAX),
        }))
    }
}

fn number(node: &Node) -> Result<u64, String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    word.parse()
        .map_err(|_| format!("{}: {word} is no number", node.canonical_name()))
}

/// `|` and `||` a program, `|$` one that a shell starts, else a file.
fn target(text: &str, root: &Path) -> AccessLogTarget {
    match text.strip_prefix('|') {
        Some(command) => AccessLogTarget::Program(command.to_owned()),
        None => AccessLogTarget::File(root.join(text)),
    }
}

/// `env=NAME`, `env=!NAME`, `expr=…`
fn condition(clause: &str) -> Result<Condition, String> {
    let after = |prefix: &str| {
        clause
            .get(..prefix.len())
            .filter(|start| start.eq_ignore_ascii_case(prefix))
            .map(|_| &clause[prefix.len()..])
    };
    if let Some(text) = after("expr=") {
        let compiled = Expression::compile(text, ExpressionOptions::default());
        return compiled
            .map(|expression| Condition::Expression(Arc::new(expression)))
            .map_err(|error| error.message);
    }
    let Some(name) = after("env=") else {
        return Err("error in condition clause".into());
    };
    let (name, is_set) = name
        .strip_prefix('!')
        .map_or((name, true), |name| (name, false));
    match name {
        "" => Err("missing environment variable name".into()),
        name => Ok(Condition::Variable {
            name: name.into(),
            is_set,
        }),
    }
}
