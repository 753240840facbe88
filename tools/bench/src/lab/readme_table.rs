//! The README's table: chosen rows of a run, written between two marks, so that what is claimed
//! there is what was measured.
//!
//! It is made from `summary.json`, by a command of its own (`saker-bench table`), since who runs
//! the lab need not want to change the README. What was lost is named below the table, whether
//! chosen or not. Absent on purpose: quick runs, whose figures are not for quoting.

use super::report::number;
use serde_json::Value;
use std::{fmt::Write, fs, path::Path};

const BEGIN: &str = "<!-- lab: written by `make table` from lab/summary.json -->";
const END: &str = "<!-- /lab -->";

/// For each comparison, its subject and the README's first lines about it.
const CLAIMS: [&str; 22] = [
    "b1-static",
    "b1-browse-10",
    "b1-pages-10",
    "b1-category-10",
    "b1-cached-10",
    "b2-10k-100ms",
    "b2-x10-20ms",
    "b2-100mb-100ms",
    "b2-queue7",
    "b3-close-100",
    "b3-keep-10",
    "b3-keep-100",
    "b3-keep-1000",
    "b3-tls-100",
    "b3-php-keep",
    "b4-page",
    "b4-film",
    "b5-siege-2",
    "h2-100x10",
    "h3-100x10",
    "idle",
    "idle-h2",
];

/// Prints the table, or puts it into `page`, which has the marks.
pub fn table(summary: &Path, page: Option<&Path>) -> Result<(), String> {
    let read = |file: &Path| {
        fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
    };
    let parsed = serde_json::from_str(&read(summary)?)
        .map_err(|error| format!("{}: {error}", summary.display()))?;
    let table = written(&parsed)?;
    let Some(page) = page else {
        print!("{table}");
        return Ok(());
    };
    let text = between_marks(&read(page)?, &table)
        .ok_or_else(|| format!("{} does not have `{BEGIN}` and `{END}`", page.display()))?;
    fs::write(page, text).map_err(|error| format!("{}: {error}", page.display()))
}

fn written(summary: &Value) -> Result<String, String> {
    if summary["quick"].as_bool() != Some(false) {
        return Err("this was a quick run, which is not for quoting".to_owned());
    }
    let rows = summary["rows"].as_array().ok_or("no rows")?;
    let count = |name: &str| summary["counts"][name].as_u64().unwrap_or(0);
    let of_cpu = summary["noise"]["cpu"].as_f64().unwrap_or(0.0) * 100.0;
    let mut text = format!(
        "Measured {} by `make lab`: {} rows won, {} level, {} lost{}; the same server twice differed by up to {of_cpu:.1} %. Medians; CPU µs of \
         the whole server per request unless stated otherwise.\n\n| | Saker | best of the others | |\n| --- | --- | --- | --- |\n",
        word(&summary["when"]),
        count("won"),
        count("level"),
        count("lost"),
        if count("refused") > 0 {
            format!(", {} refused", count("refused"))
        } else {
            String::new()
        },
    );
    let chosen = CLAIMS
        .iter()
        .filter_map(|name| rows.iter().find(|row| row["row"] == *name));
    chosen.for_each(|row| text.push_str(&line(row)));
    let lost: Vec<String> = rows
        .iter()
        .filter(|row| row["outcome"] == "lost")
        .map(|row| format!("{} ({})", title(row), word(&row["sentence"])))
        .collect();
    let _ = writeln!(
        text,
        "\n{}",
        if lost.is_empty() {
            "No row was lost.".to_owned()
        } else {
            format!("Lost: {}.", lost.join("; "))
        }
    );
    Ok(text)
}

fn line(row: &Value) -> String {
    let median = |server: &Value| server["median"].as_f64().map_or("–".to_owned(), number);
    let servers = row["servers"].as_array().map_or(&[][..], Vec::as_slice);
    let own = servers.first().map_or("–".to_owned(), median);
    let best = servers
        .iter()
        .find(|server| !row["against"].is_null() && server["server"] == row["against"]);
    let best = best.map_or("–".to_owned(), |server| {
        format!("{} ({})", median(server), word(&server["server"]))
    });
    format!(
        "| {} | {own} | {best} | **{}**: {} |\n",
        title(row),
        word(&row["outcome"]),
        word(&row["sentence"])
    )
}

/// Without the comparison's number, with the measure where it is not CPU time.
fn title(row: &Value) -> String {
    let title = word(&row["title"]);
    let title = match title.split_once(": ") {
        Some((comparison, rest)) if comparison.len() == 2 => rest.to_owned(),
        _ => title,
    };
    match row["measure"].as_str() {
        Some(measure) if !measure.starts_with("CPU") => format!("{title}, {measure}"),
        _ => title,
    }
}

/// As a cell of a table.
fn word(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_default()
        .replace('|', "\\|")
        .replace('\n', " ")
        .replace('<', "&lt;")
}

fn between_marks(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::super::{machine::Facts, report::Report, samples, summary};
    use super::*;
    use crate::rows;

    #[test]
    fn chosen_rows_are_rows() {
        assert!(
            CLAIMS
                .iter()
                .all(|name| rows::all().any(|row| row.name == *name))
        );
    }

    #[test]
    fn rows_and_what_was_lost() {
        let results = samples::results();
        let facts = Facts {
            when: "2026-11-22 11:00 UTC".to_owned(),
            ..Facts::default()
        };
        let summary = summary::json(&Report::new(&results, facts));
        let text = written(&summary).expect("whole");
        assert!(text.starts_with("Measured 2026-11-22 11:00 UTC by `make lab`: 3 rows won, 1 level, 2 lost, 1 refused;"), "{text}");
        let idle = "| 10,000 idle keep-alive connections, bytes per connection | 1,161 | 640 (nginx) | **lost**: ";
        assert!(text.contains(idle), "{text}");
        assert!(
            text.ends_with(").\n")
                && text.contains("Lost: 1 kB from an upstream, keep-alive (Saker takes 1.68 times"),
            "{text}"
        );
        let quick = Report::new(
            &results,
            Facts {
                is_quick: true,
                ..Facts::default()
            },
        );
        assert!(written(&summary::json(&quick)).is_err());
    }

    #[test]
    fn the_rest_of_the_page_stays() {
        let page = format!("# A\n\n{BEGIN}\nold\n{END}\n\n## B\n");
        let once = between_marks(&page, "new\n").expect("marks");
        assert_eq!(once, format!("# A\n\n{BEGIN}\nnew\n{END}\n\n## B\n"));
        assert_eq!(between_marks(&once, "new\n").expect("marks"), once);
        assert_eq!(between_marks("# A\n", "new\n"), None);
    }

    #[test]
    fn the_readme_has_the_marks() {
        let readme = include_str!("../../../../README.md");
        assert!(between_marks(readme, "").is_some());
    }
}
