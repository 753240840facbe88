//! `saker hosts`: dynamic virtual hosts of the running server.
//!
//! Called by: `lib`.

use crate::{
    arguments::HostsCommand,
    daemon::ask,
    output,
    status_page::{bytes, grouped},
};
use saker_control::{HostsVerb, client};
use serde_json::Value;
use std::process::ExitCode;

pub fn hosts(command: HostsCommand) -> ExitCode {
    match command {
        HostsCommand::Stat { json, target } => ask(&target, |state_dir| {
            let answer = client::hosts(state_dir, &HostsVerb::Stat)?;
            Ok(output::print(if json {
                format!("{answer:#}\n")
            } else {
                page(&answer)
            }))
        }),
        HostsCommand::Purge { names, all, target } => {
            if names.is_empty() && !all {
                return crate::output::cannot("nothing to purge: give host names, or --all");
            }
            ask(&target, |state_dir| {
                let answer = client::hosts(state_dir, &HostsVerb::Purge { names, all })?;
                Ok(output::print(format!(
                    "purged ({} known)\n",
                    grouped(number(&answer, "purged"))
                )))
            })
        }
    }
}

fn page(answer: &Value) -> String {
    let (known, missing) = (
        grouped(number(answer, "known")),
        grouped(number(answer, "missing")),
    );
    let (asked, failed) = (
        grouped(number(answer, "asked")),
        grouped(number(answer, "failed")),
    );
    let away = if answer.get("away") == Some(&Value::Bool(true)) {
        "; the database does not answer"
    } else {
        ""
    };
    format!(
        "{known} hosts known, {missing} names without one, {}\n{asked} questions, {failed} without an answer{away}\n",
        bytes(number(answer, "bytes"))
    )
}

fn number(answer: &Value, name: &str) -> u64 {
    answer.get(name).and_then(Value::as_u64).unwrap_or(0)
}
