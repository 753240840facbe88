//! `saker ban`, `unban` and `bans`.
//!
//! Called by: `lib`.

use crate::{
    arguments::{Ban, Bans, Unban},
    daemon::ask_server,
    output,
    status_page::duration,
};
use saker_control::{BanVerb, client};
use serde_json::Value;
use std::{fmt::Write as _, process::ExitCode};

pub fn ban(ban: Ban) -> ExitCode {
    let Ban {
        blocks,
        time,
        reason,
        target,
    } = ban;
    let seconds = time.and_then(|time| time.0);
    let shown = seconds.map_or_else(
        || "for good".to_owned(),
        |seconds| format!("for {}", duration(seconds)),
    );
    let verb = BanVerb::Ban {
        blocks,
        seconds,
        reason: reason.unwrap_or_default(),
    };
    ask_server(&target, |server| {
        let answer = client::bans(server, &verb)?;
        Ok(output::print(format!(
            "banned {shown}: {}\n",
            count(&answer)
        )))
    })
}

pub fn unban(unban: Unban) -> ExitCode {
    let Unban {
        blocks,
        all,
        target,
    } = unban;
    if blocks.is_empty() && !all {
        return crate::output::cannot("nothing to unban: give addresses, CIDR blocks, or --all");
    }
    ask_server(&target, |server| {
        let answer = client::bans(server, &BanVerb::Unban { blocks })?;
        Ok(output::print(format!(
            "bans lifted: {}\n{}",
            count(&answer),
            still_held(&answer)
        )))
    })
}

pub fn bans(bans: &Bans) -> ExitCode {
    ask_server(&bans.target, |server| {
        let answer = client::bans(server, &BanVerb::List)?;
        Ok(output::print(if bans.json {
            format!("{answer:#}\n")
        } else {
            page(&answer)
        }))
    })
}

fn count(answer: &Value) -> u64 {
    answer.get("count").and_then(Value::as_u64).unwrap_or(0)
}

/// A line for each address that bans of networks hold.
fn still_held(answer: &Value) -> String {
    let held = answer
        .get("still_held")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let line = |one: &Value| {
        let networks: Vec<&str> = one
            .get("by")?
            .as_array()?
            .iter()
            .filter_map(Value::as_str)
            .collect();
        Some(format!(
            "{} is still banned by {}\n",
            one.get("address")?.as_str()?,
            networks.join(", ")
        ))
    };
    held.filter_map(line).collect()
}

fn page(answer: &Value) -> String {
    let mut page = String::new();
    let bans = answer
        .get("bans")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    for ban in bans {
        let text = |name: &str| ban.get(name).and_then(Value::as_str).unwrap_or_default();
        let left = ban
            .get("seconds_left")
            .and_then(Value::as_u64)
            .map_or_else(|| "for good".to_owned(), duration);
        // Writing to a String never fails.
        let _ = writeln!(
            page,
            "{:<24} {left:>12}  {}",
            text("address"),
            text("reason")
        );
    }
    if page.is_empty() {
        "nobody is banned\n".to_owned()
    } else {
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pages() {
        assert_eq!(page(&Value::Null), "nobody is banned\n");
        let shown = page(&json!({ "bans": [
            { "address": "192.0.2.0/24", "seconds_left": 61, "reason": "test" },
            { "address": "2001:db8::1", "seconds_left": null, "reason": "by hand" },
        ]}));
        let words: Vec<Vec<&str>> = shown
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            words,
            [
                ["192.0.2.0/24", "1", "min", "1", "s", "test"].to_vec(),
                ["2001:db8::1", "for", "good", "by", "hand"].to_vec()
            ]
        );
        let columns: Vec<_> = ["test", "by hand"]
            .into_iter()
            .map(|reason| shown.lines().find_map(|line| line.find(reason)))
            .collect();
        assert_eq!(columns[0], columns[1], "{shown}");
    }
}
