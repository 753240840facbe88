//! `saker cluster`, and the part of `saker purge --wait` about other servers.
//!
//! Called by: `lib` and `cache`.
//! Caveat: names of servers come from the cluster's engine; the server lets only plain ones pass.

use crate::{
    arguments::ClusterCommand,
    daemon::ask,
    exit_status::CANNOT,
    output,
    status_page::{bytes, duration, grouped},
};
use saker_control::client;
use serde_json::Value;
use std::{fmt::Write as _, process::ExitCode};

pub fn cluster(command: &ClusterCommand) -> ExitCode {
    let ClusterCommand::Status { json, target } = command;
    ask(target, |state_dir| {
        let answer = client::cluster_status(state_dir)?;
        let text = match json {
            true => format!("{answer:#}\n"),
            false => page(&answer),
        };
        let printed = output::print(text);
        // Scripts and health checks want to know.
        match is(&answer, "is_in_sync") {
            true => Ok(printed),
            false => Ok(ExitCode::from(CANNOT)),
        }
    })
}

fn page(answer: &Value) -> String {
    let clients = answer.get("clients").map(clients).unwrap_or_default();
    match answer.get("engine") {
        None if !clients.is_empty() => format!("node      {}\n{clients}", text(answer, "node")),
        _ => purges(answer, &clients),
    }
}

fn clients(state: &Value) -> String {
    let waiting = state.get("waiting").and_then(Value::as_u64);
    let exchange = match (is(state, "is_connected"), text(state, "error")) {
        (true, _) => "exchanged".to_owned(),
        (false, "") => "connecting".to_owned(),
        (false, error) => format!("not exchanged: {error}"),
    };
    format!(
        "clients   {exchange}, {} bans wait\n",
        grouped(waiting.unwrap_or(0))
    )
}

fn purges(answer: &Value, clients: &str) -> String {
    let number = |name: &str| answer.get(name).and_then(Value::as_u64);
    let engine = match (is(answer, "is_connected"), text(answer, "error")) {
        (true, _) => "connected".to_owned(),
        (false, "") => "connecting".to_owned(),
        (false, error) => format!("unreachable: {error}"),
    };
    let sync = match (is(answer, "is_in_sync"), number("staleness_ms")) {
        (true, Some(ms)) => format!("yes, as of {} ago", duration(ms / 1000)),
        (false, Some(ms)) => format!(
            "no: cut off for {}, the page cache is not used",
            duration(ms / 1000)
        ),
        (_, None) => "no: not caught up yet, the page cache is not used".to_owned(),
    };
    let queue = format!(
        "{} records, {}",
        grouped(number("queue_records").unwrap_or(0)),
        bytes(number("queue_bytes").unwrap_or(0))
    );
    let mut page = format!(
        "node      {} ({})\nengine    {}, {engine}\nin sync   {sync}\nqueue     {queue}\npurges    {} sent, {} received\n",
        text(answer, "node"),
        text(answer, "id"),
        text(answer, "engine"),
        grouped(number("sent").unwrap_or(0)),
        grouped(number("received").unwrap_or(0)),
    );
    if let Some(why) = answer.get("last_clear").and_then(Value::as_str) {
        let times = grouped(number("cache_clears").unwrap_or(0));
        let _ = writeln!(page, "cleared   {times} times, last: {why}");
    }
    page.push_str(clients);
    page.push_str(
        "\nstate    in sync  queue  lag      heard    version  position               node\n",
    );
    let nodes = answer.get("nodes").and_then(Value::as_array);
    for node in nodes.into_iter().flatten() {
        let number = |name: &str| node.get(name).and_then(Value::as_u64).unwrap_or(0);
        let mark = if is(node, "is_this") {
            " (this one)"
        } else {
            ""
        };
        let pages = match text(node, "pages_from") {
            "" => String::new(),
            address => format!(", hands out pages at {address}"),
        };
        let _ = writeln!(
            page,
            "{:<8} {:<7} {:>6}  {:<7}  {:<7}  {:<7}  {:<21}  {}{mark}{pages}",
            text(node, "state"),
            if is(node, "is_in_sync") { "yes" } else { "no" },
            grouped(number("queue_records")),
            node.get("lag_ms")
                .and_then(Value::as_u64)
                .map_or_else(|| "unknown".into(), |ms| duration(ms / 1000)),
            duration(number("heard_ms_ago") / 1000),
            text(node, "version"),
            text(node, "position"),
            text(node, "name"),
        );
    }
    page
}

/// Prints which servers have acknowledged a purge.
pub fn acknowledged(answer: &Value) -> ExitCode {
    let names = |name: &str| -> Vec<&str> {
        let all = answer.get(name).and_then(Value::as_array);
        all.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    };
    if !is(answer, "is_sent") {
        return output::cannot(
            "the purge is in force here and waits for the cluster's log, which does not answer; \
             the other servers get it when the log is back",
        );
    }
    let (by, missing) = (names("by"), names("missing"));
    if missing.is_empty() {
        return match by.len() {
            0 => output::print("no other server lives\n"),
            count => output::print(format!(
                "in force on {count} other servers: {}\n",
                by.join(", ")
            )),
        };
    }
    output::cannot(format!(
        "not acknowledged in time by {}; in force on {} other servers",
        missing.join(", "),
        by.len()
    ))
}

fn is(value: &Value, name: &str) -> bool {
    value.get(name) == Some(&Value::Bool(true))
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pages() {
        let node = json!({ "name": "web-2", "version": "0.2.0", "state": "gone", "is_in_sync": true, "position": "7-0", "heard_ms_ago": 61_000, "lag_ms": 62_000, "pages_from": "10.0.0.2:7443" });
        let status = json!({
            "node": "web-1", "id": "ab", "engine": "redis://a:6379/0", "is_connected": true, "is_in_sync": true, "staleness_ms": 200,
            "queue_records": 1234, "last_clear": "it was trimmed", "cache_clears": 2, "nodes": [node],
        });
        let shown = page(&status);
        for part in [
            "node      web-1 (ab)\n",
            "redis://a:6379/0, connected\n",
            "in sync   yes",
            "queue     1,234 records",
            "2 times, last: it was trimmed",
            "gone     yes",
            " 1 min 2 s  1 min 1 s  0.2.0 ",
            "web-2, hands out pages at 10.0.0.2:7443\n",
        ] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        let away = page(&json!({ "error": "refused", "staleness_ms": 61_000 }));
        assert!(
            away.contains("unreachable: refused") && away.contains("no: cut off for 1 min 1 s"),
            "{away}"
        );
        assert!(page(&Value::Null).contains("not caught up yet"));
        let clients = json!({ "node": "web-1", "clients": { "error": "refused", "waiting": 2 } });
        assert_eq!(
            page(&clients),
            "node      web-1\nclients   not exchanged: refused, 2 bans wait\n"
        );
    }
}
