//! `saker purge` and `saker cache`: requests to the running server's page cache, and how the
//! answers are printed.
//!
//! Called by: `lib`; `explain`, for entries of the explained URL.

use crate::{
    arguments::{CacheCommand, Purge},
    daemon::ask_server,
    exit_status::{CANNOT, OK},
    output,
    status_page::{bytes, duration, grouped},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use saker_control::{CacheVerb, ClientError, PurgeOrder, client};
use serde_json::Value;
use std::{
    fmt::Write as _,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

/// Tags of an entry that a line of the list shows.
const TAGS_SHOWN: usize = 4;

pub fn purge(purge: Purge) -> ExitCode {
    let Purge {
        urls,
        tags,
        bans,
        site,
        all,
        soft,
        count,
        wait,
        target,
    } = purge;
    // A site alone is meant as a whole.
    let all = all || site.is_some() && urls.is_empty() && tags.is_empty() && bans.is_empty();
    if !all && urls.is_empty() && tags.is_empty() && bans.is_empty() {
        return crate::output::cannot(
            "nothing to purge: give URLs, --tag TAG, --ban EXPRESSION, --site HOST or --all",
        );
    }
    if soft && !bans.is_empty() {
        return crate::output::cannot(
            "--soft cannot be combined with --ban: banned pages are removed, never stale",
        );
    }
    let order = PurgeOrder {
        urls,
        tags,
        bans,
        site,
        all,
        soft,
        wait_ms: wait,
    };
    if count {
        return show(&target, &CacheVerb::Count(order), false, counted);
    }
    let verb = CacheVerb::Purge(order);
    ask_server(&target, |server| {
        let answer = client::cache(server, &verb)?;
        let sites = answer
            .get("sites")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        let whose = if sites == 1 {
            "1 site".to_owned()
        } else {
            format!("{sites} sites")
        };
        let what = if soft { "made stale" } else { "purged" };
        let printed = output::print(format!("{what} ({whose} looked at)\n"));
        match answer.get("acknowledged") {
            Some(acknowledged) => Ok(crate::cluster::acknowledged(acknowledged)),
            None => Ok(printed),
        }
    })
}

pub fn cache(command: CacheCommand) -> ExitCode {
    match command {
        CacheCommand::Purge(what) => purge(what),
        CacheCommand::Warm(what) => crate::warm::warm(what),
        CacheCommand::Body { entry, target } => body(&target, entry),
        CacheCommand::Stat { json, target } => show(&target, &CacheVerb::Stat, json, stat_page),
        CacheCommand::List {
            site,
            max,
            json,
            target,
        } => show(&target, &CacheVerb::List { site, max }, json, list_page),
        CacheCommand::Show { url, json, target } => {
            show(&target, &CacheVerb::Show { url }, json, show_page)
        }
    }
}

/// Writes the content as it is.
fn body(target: &crate::arguments::Target, entry: String) -> ExitCode {
    ask_server(target, |server| {
        let answer = client::cache(server, &CacheVerb::Body { entry })?;
        let body = STANDARD.decode(text(&answer, "body"));
        let body = body.map_err(|error| ClientError::Garbled(error.to_string()))?;
        let mut out = io::stdout().lock();
        Ok(match out.write_all(&body).and_then(|()| out.flush()) {
            Ok(()) => ExitCode::from(OK),
            Err(_) => ExitCode::from(CANNOT),
        })
    })
}

fn show(
    target: &crate::arguments::Target,
    verb: &CacheVerb,
    json: bool,
    page: fn(&Value) -> String,
) -> ExitCode {
    ask_server(target, |server| {
        let answer = client::cache(server, verb)?;
        let text = if json {
            format!("{answer:#}\n")
        } else {
            page(&answer)
        };
        let is_nothing = matches!(verb, CacheVerb::Show { .. }) && entries(&answer).is_empty();
        let printed = output::print(text);
        // Scripts want to know whether it is there.
        Ok(if is_nothing && printed == ExitCode::from(OK) {
            ExitCode::from(CANNOT)
        } else {
            printed
        })
    })
}

/// Asks the server of a state directory about the cached entries of a URL; one line for each, or
/// the reason why they are unknown.
pub fn kept_of(state_dir: &Path, url: &str) -> Vec<String> {
    let answer = match client::cache(
        state_dir,
        &CacheVerb::Show {
            url: url.to_owned(),
        },
    ) {
        Ok(answer) => answer,
        Err(error) => return vec![format!("cannot query the running server: {error}")],
    };
    let lines: Vec<String> = entries(&answer).iter().map(kept_line).collect();
    if lines.is_empty() {
        vec!["the running server keeps nothing of it now".into()]
    } else {
        lines
    }
}

fn kept_line(entry: &Value) -> String {
    let whose = if entry.get("is_private") == Some(&Value::Bool(true)) {
        "one client"
    } else {
        "all"
    };
    let (standing, status) = (
        text(entry, "standing"),
        entry.get("status").and_then(Value::as_u64).unwrap_or(0),
    );
    let key = entry
        .get("key")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let key = key
        .map(|part| part.replace(char::is_control, ""))
        .collect::<Vec<_>>()
        .join(" | ");
    format!(
        "the running server keeps it for {whose}: {status}, {}, purges: {}, by {key}",
        life(entry),
        self::standing(&standing)
    )
}

fn stat_page(answer: &Value) -> String {
    let number = |name: &str| answer.get(name).and_then(Value::as_u64).unwrap_or(0);
    let of = |max: u64, shown: String| {
        if max == 0 {
            "no limit".to_owned()
        } else {
            shown
        }
    };
    let rows = [
        (
            "entries",
            format!(
                "{} of {}",
                grouped(number("entries")),
                of(number("entries_max"), grouped(number("entries_max")))
            ),
        ),
        (
            "size",
            format!(
                "{} of {}",
                bytes(number("bytes")),
                of(number("bytes_max"), bytes(number("bytes_max")))
            ),
        ),
        ("stored", grouped(number("stored"))),
        ("evicted", grouped(number("evicted"))),
        ("expired", grouped(number("expired"))),
        ("purges", grouped(number("purges"))),
        ("damaged", grouped(number("damaged"))),
    ];
    let mut page = String::new();
    for (name, value) in rows {
        // Writing to a String never fails.
        let _ = writeln!(page, "{name:<10} {value}");
    }
    if answer.get("is_complete") == Some(&Value::Bool(false)) {
        page.push_str("\nThe cache directory is still being indexed; the counts are incomplete.\n");
    }
    let sites = answer
        .get("sites")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let used: Vec<&Value> = sites.filter(|site| is_in_use(site)).collect();
    if !used.is_empty() {
        page.push_str("\n   entries       size   hits       hit   stale    miss    pass  waited  from memory  from files  site\n");
    }
    used.iter()
        .for_each(|site| page.push_str(&site_lines(site)));
    page
}

fn is_in_use(site: &Value) -> bool {
    ["entries", "hits", "stale", "misses", "passes"]
        .iter()
        .any(|name| site.get(name).and_then(Value::as_u64) > Some(0))
}

/// A line of figures, and one that says why requests passed by.
fn site_lines(site: &Value) -> String {
    let number = |name: &str| site.get(name).and_then(Value::as_u64).unwrap_or(0);
    let [hits, stale, misses, passes] = ["hits", "stale", "misses", "passes"].map(number);
    let all = hits
        .saturating_add(stale)
        .saturating_add(misses)
        .saturating_add(passes);
    let percent = hits.saturating_add(stale) as f64 * 100.0 / all.max(1) as f64;
    let mut lines = format!(
        "{:>10} {:>10} {percent:>5.1}% {:>9} {:>7} {:>7} {:>7} {:>7} {:>12} {:>11}  {}\n",
        grouped(number("entries")),
        bytes(number("bytes")),
        grouped(hits),
        grouped(stale),
        grouped(misses),
        grouped(passes),
        grouped(number("coalesced")),
        bytes(number("bytes_from_memory")),
        bytes(number("bytes_from_files")),
        text(site, "site"),
    );
    let reasons = site
        .get("pass_reasons")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let mut reasons: Vec<(&str, u64)> = reasons
        .filter_map(|(why, count)| Some((why.as_str(), count.as_u64()?)))
        .collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    if !reasons.is_empty() {
        let said: Vec<String> = reasons
            .iter()
            .map(|(why, count)| format!("{why} {}", grouped(*count)))
            .collect();
        let _ = writeln!(lines, "{:>28}passed by: {}", "", said.join(", "));
    }
    lines
}

fn counted(answer: &Value) -> String {
    let number = |name: &str| answer.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (pages, size) = (number("pages"), bytes(number("bytes")));
    let least = match answer.get("is_cut") == Some(&Value::Bool(true)) {
        true => "at least ",
        false => "",
    };
    let noun = if pages == 1 { "page" } else { "pages" };
    format!("{least}{} {noun}, {size}\n", grouped(pages))
}

fn list_page(answer: &Value) -> String {
    let mut page = String::new();
    for entry in entries(answer) {
        let tags: Vec<&str> = entry
            .get("tags")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let more = if tags.len() > TAGS_SHOWN {
            format!(" and {} more", tags.len() - TAGS_SHOWN)
        } else {
            String::new()
        };
        let shown = tags
            .iter()
            .take(TAGS_SHOWN)
            .copied()
            .collect::<Vec<_>>()
            .join(" ");
        let whose = if entry.get("is_private") == Some(&Value::Bool(true)) {
            "private "
        } else {
            ""
        };
        let size = bytes(entry.get("bytes").and_then(Value::as_u64).unwrap_or(0));
        let _ = writeln!(
            page,
            "{size:>9} {:>12}  {whose}{}  {shown}{more}",
            life(entry),
            text(entry, "url")
        );
    }
    end(answer, page)
}

fn show_page(answer: &Value) -> String {
    let mut page = String::new();
    for entry in entries(answer) {
        let list = |name: &str| {
            entry
                .get(name)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
        };
        let number = |name: &str| entry.get(name).and_then(Value::as_i64);
        let _ = writeln!(page, "{}", text(entry, "url"));
        let whose = if entry.get("is_private") == Some(&Value::Bool(true)) {
            "one client"
        } else {
            "all"
        };
        let age =
            number("age_s").map_or_else(|| "unknown".into(), |age| duration(age.unsigned_abs()));
        let rows = [
            ("status", number("status").unwrap_or(0).to_string()),
            ("entry", text(entry, "entry")),
            ("for", format!("{whose} of {}", text(entry, "site"))),
            ("size", bytes(number("bytes").unwrap_or(0).unsigned_abs())),
            ("codings", list("codings").join(", ")),
            ("age", age),
            ("life", life(entry)),
            (
                "kept for",
                duration(number("kept_for_s").unwrap_or(0).max(0).unsigned_abs()),
            ),
            ("purges", standing(&text(entry, "standing")).to_owned()),
            ("tags", list("tags").join(" ")),
            ("key", list("key").join(" | ")),
        ];
        for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
            let _ = writeln!(page, "  {name:<9} {value}");
        }
        for field in list("fields") {
            let _ = writeln!(page, "  {}", field.replace(char::is_control, ""));
        }
        page.push('\n');
    }
    if page.is_empty() {
        page.push_str("nothing of it is kept\n");
    }
    end(answer, page)
}

fn end(answer: &Value, mut page: String) -> String {
    if answer.get("is_cut") == Some(&Value::Bool(true)) {
        page.push_str("(there is more)\n");
    }
    page
}

fn standing(word: &str) -> &str {
    match word {
        "valid" => "untouched",
        "stale" => "made stale by a purge",
        "gone" => "purged: it is not served, and goes when its time is over",
        other => other,
    }
}

/// Remaining lifetime, or time since expiry.
fn life(entry: &Value) -> String {
    match entry.get("fresh_for_s").and_then(Value::as_i64) {
        Some(left @ 0..) => format!("fresh {}", duration(left.unsigned_abs())),
        Some(over) => format!("stale {}", duration(over.unsigned_abs())),
        None => String::new(),
    }
}

fn entries(answer: &Value) -> &[Value] {
    answer
        .get("entries")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Text without control characters: it comes from pages, and terminals would obey some of them.
fn text(value: &Value, name: &str) -> String {
    value
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .chars()
        .filter(|letter| !letter.is_control())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pages() {
        let stat = stat_page(&json!({
            "entries": 1234, "bytes": 2_500_000, "entries_max": 0, "bytes_max": 10_000_000_000u64, "is_complete": false,
            "sites": [{
                "site": "a.example", "entries": 1234, "bytes": 2_500_000, "hits": 2, "stale": 1, "passes": 1, "bytes_from_memory": 9_000,
                "pass_reasons": { "private": 1 },
            }, { "site": "empty.example", "entries": 0 }],
        }));
        for part in [
            "1,234 of no limit",
            "2.5 MB of 10.0 GB",
            "still being indexed",
            "1,234     2.5 MB  75.0%         2       1       0       1       0       9.0 kB         0 B  a.example\n",
            "passed by: private 1",
        ] {
            assert!(stat.contains(part), "{part} in\n{stat}");
        }
        assert!(!stat.contains("empty.example"));
        let count = json!({ "pages": 1234, "bytes": 2_500_000, "is_cut": true });
        assert_eq!(counted(&count), "at least 1,234 pages, 2.5 MB\n");
        let count = json!({ "pages": 1, "bytes": 5, "is_cut": false });
        assert_eq!(counted(&count), "1 page, 5 B\n");
        let entry = json!({ "url": "http://a/\u{1b}[2J", "bytes": 5, "fresh_for_s": -61, "tags": ["a", "b", "c", "d", "e"], "is_private": true });
        let list = list_page(&json!({ "entries": [entry], "is_cut": true }));
        assert!(
            list.contains(
                "stale 1 min 1 s  private http://a/[2J  a b c d and 1 more\n(there is more)"
            ),
            "{list}"
        );
        assert_eq!(
            show_page(&json!({ "entries": [] })),
            "nothing of it is kept\n"
        );
        assert_eq!(show_page(&Value::Null), "nothing of it is kept\n");
        let shown = show_page(
            &json!({ "entries": [{ "url": "u", "standing": "gone", "codings": ["gzip"], "fields": ["A: b"] }] }),
        );
        assert!(
            shown.contains("codings   gzip\n")
                && shown.contains("purged: it is not served")
                && shown.contains("  A: b\n"),
            "{shown}"
        );
    }
}
