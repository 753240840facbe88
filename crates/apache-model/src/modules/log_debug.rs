//! Settings of mod_log_debug (LogMessage): messages, their hooks and conditions.
//!
//! Called by: `dir_config`, whose table names the setters.
//! Out of scope: writing the messages (`saker_apache`).

use crate::{
    arguments::texts,
    reading::{Reading, Set},
};
use saker_ap_expr::{Expression, StringExpression};
use saker_apache_syntax::Node;
use saker_config::model::Origin;
use std::sync::Arc;

/// httpd's names of hooks, in the order in which a request comes to them.
const HOOKS: [&str; 13] = [
    "quick_handler",
    "pre_translate_name",
    "translate_name",
    "map_to_storage",
    "check_access",
    "check_access_ex",
    "check_authn",
    "check_authz",
    "type_checker",
    "fixups",
    "insert_filter",
    "handler",
    LOG_TRANSACTION,
];

pub const LOG_TRANSACTION: &str = "log_transaction";

#[derive(Clone, Debug, Default)]
pub struct LogDebug {
    pub entries: Vec<Arc<Entry>>,
}

#[derive(Debug)]
pub struct Entry {
    pub message: StringExpression,
    /// `None`: all.
    pub hook: Option<&'static str>,
    pub condition: Option<Expression>,
    pub origin: Origin,
}

impl LogDebug {
    pub const DIRECTIVES: &'static [(&'static str, Set<LogDebug>)] = &[("LogMessage", add)];

    /// Those of an inner section come behind the others.
    pub fn merge(&self, over: &LogDebug) -> LogDebug {
        LogDebug {
            entries: self.entries.iter().chain(&over.entries).cloned().collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

fn add(node: &Node, log_debug: &mut LogDebug, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let message = words.first().map(String::as_str).unwrap_or_default();
    let message =
        StringExpression::compile(message, reading.expression_options()).map_err(|error| {
            format!(
                "Could not parse message expression '{message}': {}",
                error.message
            )
        })?;
    let (mut hook, mut condition) = (Some(LOG_TRANSACTION), None);
    for word in words.iter().skip(1) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name.to_ascii_lowercase().as_str() {
            "hook" if value.eq_ignore_ascii_case("all") => hook = None,
            "hook" => {
                let known = HOOKS.iter().find(|known| known.eq_ignore_ascii_case(value));
                hook = Some(*known.ok_or_else(|| format!("Invalid hook name: {value}"))?);
            }
            "expr" => {
                let compiled = Expression::compile(value, reading.expression_options());
                condition = Some(compiled.map_err(|error| {
                    format!("Could not parse expression '{value}': {}", error.message)
                })?);
            }
            _ => return Err(format!("Invalid argument {word}")),
        }
    }
    log_debug.entries.push(Arc::new(Entry {
        message,
        hook,
        condition,
        origin: node.origin.clone(),
    }));
    Ok(())
}
