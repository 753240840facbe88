//! The same report as Markdown: an overview that fits into a README, and all figures below it.

use super::{
    groups::Group,
    report::{Report, number},
    verdict::Outcome,
};
use std::fmt::Write;

/// Counts, and a line for each row.
pub fn overview(report: &Report<'_>) -> String {
    let counts = report.counts();
    let refused = if counts.refused > 0 {
        format!(", {} refused", counts.refused)
    } else {
        String::new()
    };
    let noise = report.noise;
    let mut text = format!(
        "{} won, {} level, {} lost{refused}; noise (A against A{}) {:.1} % of CPU time, {:.1} % of requests/s; {}\n",
        counts.won,
        counts.level,
        counts.lost,
        if noise.is_measured {
            ""
        } else {
            ", not measured, assumed"
        },
        noise.cpu * 100.0,
        noise.rate * 100.0,
        report.facts.when,
    );
    for (group, outcomes) in report.groups() {
        text.push_str(&table(group, &outcomes));
    }
    text
}

pub fn whole(report: &Report<'_>) -> String {
    let mut text = format!("# Saker beside its peers\n\n{}", overview(report));
    for (group, outcomes) in report.groups() {
        let _ = write!(text, "\n## {}\n\n{}\n", group.title, group.intro);
        outcomes
            .iter()
            .for_each(|outcome| text.push_str(&section(outcome)));
    }
    let facts = report.facts.machine.iter().chain(&report.facts.versions);
    text.push_str("\n## Machine\n\n| | |\n| --- | --- |\n");
    facts.for_each(|(name, value)| {
        let _ = writeln!(text, "| {name} | {} |", cell(value));
    });
    report.facts.absent.iter().for_each(|complaint| {
        let _ = writeln!(text, "\nNot measured: {complaint}");
    });
    text
}

fn table(group: Group, outcomes: &[&Outcome<'_>]) -> String {
    let mut text = format!(
        "\n| {} | Saker | best of the others | outcome |\n| --- | --- | --- | --- |\n",
        group.title
    );
    for outcome in outcomes {
        let own = outcome
            .figures
            .first()
            .and_then(|figure| figure.value)
            .map_or("–".to_owned(), |value| number(value.median));
        let best = outcome
            .best()
            .and_then(|figure| Some((figure, figure.value?)));
        let best = best.map_or("–".to_owned(), |(figure, value)| {
            format!("{} ({})", number(value.median), figure.name)
        });
        let _ = writeln!(
            text,
            "| {} [{}] | {own} | {best} | **{}**: {} |",
            cell(outcome.row.title),
            outcome.measure.name(),
            outcome.word(),
            cell(&outcome.sentence())
        );
    }
    text
}

fn section(outcome: &Outcome<'_>) -> String {
    let mut text = format!(
        "\n### {}: {}\n\n{}; {}\n\n",
        outcome.row.name,
        outcome.row.title,
        cell(&outcome.sentence()),
        outcome.amount()
    );
    for command in outcome.result.load_command.lines() {
        let _ = writeln!(text, "`{command}`\n");
    }
    let _ = writeln!(
        text,
        "| server | {} | min to max | Saker is better by | errors |\n| --- | --- | --- | --- | --- |",
        outcome.measure.name()
    );
    for figure in &outcome.figures {
        let (median, range) = figure.value.map_or_else(
            || (figure.refusal.clone().unwrap_or_default(), String::new()),
            |value| {
                (
                    number(value.median),
                    format!("{} to {}", number(value.min), number(value.max)),
                )
            },
        );
        let advantage = figure
            .advantage
            .map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let errors = figure
            .series
            .trials
            .iter()
            .fold(0.0, |sum, trial| sum + trial.errors);
        let _ = writeln!(
            text,
            "| {} | {} | {range} | {advantage} | {errors:.0} |",
            cell(&figure.name),
            cell(&median)
        );
    }
    text
}

/// In a table a line is a row, and a bar ends a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('\n', " ")
        .replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::super::{machine::Facts, samples};
    use super::*;

    #[test]
    fn rows_and_figures() {
        let results = samples::results();
        let report = Report::new(
            &results,
            Facts {
                when: "2026-11-22 07:00 UTC".to_owned(),
                ..Facts::default()
            },
        );
        let text = whole(&report);
        assert!(
            text.contains(
                "3 won, 1 level, 2 lost, 1 refused; noise (A against A) 1.7 % of CPU time"
            ),
            "{text}"
        );
        let row = "| 285 bytes, keep-alive, 10 connections [CPU µs per request] | 6.10 | 8.00 (h2o) | **won**: h2o takes 1.31 times the CPU time |";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("| lighttpd | 12 errors |  |  | 12 |") && !text.contains("<script>"),
            "{text}"
        );
    }
}
