//! The report as one page: no script, nothing from elsewhere, light and dark as the reader's system
//! is, from telephones up.
//!
//! Whatever comes from outside (servers' words, configurations, the machine's names) is text, and
//! written as such.

use super::{
    charts,
    escape::escape,
    groups::Group,
    report::{Counts, Report, number},
    verdict::{Figure, Noise, Outcome},
};
use crate::{statistics::spread, trial::Trial, workload::Measure};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

pub fn html(report: &Report<'_>) -> String {
    let groups: String = report
        .groups()
        .map(|(group, outcomes)| section(group, &outcomes))
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>The lab: Saker beside its peers</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n{}<main>\n{groups}{}{}</main>\n{}</body>\n</html>\n",
        head(report),
        configurations(report),
        method(report),
        foot(report),
    )
}

fn head(report: &Report<'_>) -> String {
    let counts = report.counts();
    let links: String = report
        .groups()
        .map(|(group, _)| {
            format!(
                "<li><a href=\"#{}\">{}</a></li>",
                anchor(group),
                group.title
            )
        })
        .collect();
    let quick = if report.facts.is_quick {
        " This was a quick run: it shows that everything works; its figures are not for quoting."
    } else {
        ""
    };
    format!(
        "<header>\n<h1>Saker beside its peers</h1>\n<p class=\"lede\">{} rows of published comparisons, each server on the same machine in the same run \
         ({}, {} minutes). Medians of interleaved rounds; the line in a bar is the range. {}{quick}</p>\n{}<nav aria-label=\"Parts\"><ul>{links}\
         <li><a href=\"#configurations\">Configurations</a></li><li><a href=\"#method\">Machine and method</a></li></ul></nav>\n</header>\n",
        report.outcomes.len(),
        escape(&report.facts.when),
        report.facts.took.as_secs().div_ceil(60),
        noise_sentence(report.noise),
        tally(counts),
    )
}

fn noise_sentence(
    Noise {
        cpu,
        rate,
        is_measured,
    }: Noise,
) -> String {
    let word = if is_measured {
        "The same server twice differed by at most"
    } else {
        "Noise was not measured; it is taken to be"
    };
    format!(
        "{word} {:.1} % in CPU time and {:.1} % in requests per second.",
        cpu * 100.0,
        rate * 100.0
    )
}

fn tally(
    Counts {
        won,
        level,
        lost,
        refused,
    }: Counts,
) -> String {
    let number = |class: &str, count: usize, word: &str| {
        format!("<li class=\"{class}\"><b>{count}</b><span>{word}</span></li>")
    };
    let refused_item = if refused > 0 {
        number("lost", refused, "refused")
    } else {
        String::new()
    };
    let all = (won + level + lost + refused).max(1) as f64;
    let mut from = 0.0;
    let mut part = |class: &str, count: usize| {
        let width = count as f64 / all * 1000.0;
        let text =
            format!("<rect class=\"{class}\" x=\"{from:.1}\" width=\"{width:.1}\" height=\"10\"/>");
        from += width;
        text
    };
    let share = part("won", won) + &part("level", level) + &part("lost", lost + refused);
    format!(
        "<ul class=\"tally\">{}{}{}{refused_item}</ul>\n<svg class=\"share\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{won} won, {level} level, {lost} lost\">{share}</svg>\n",
        number("won", won, "won"),
        number("level", level, "level, within the noise"),
        number("lost", lost, "lost"),
    )
}

fn anchor(group: Group) -> String {
    let name = group.prefix.trim_end_matches('-');
    if name.is_empty() {
        "further".to_owned()
    } else {
        name.to_owned()
    }
}

fn section(group: Group, outcomes: &[&Outcome<'_>]) -> String {
    let cards: String = outcomes.iter().map(|outcome| card(outcome)).collect();
    format!(
        "<section id=\"{}\">\n<h2>{}</h2>\n<p class=\"intro\">{}</p>\n<div class=\"cards\">\n{cards}</div>\n</section>\n",
        anchor(group),
        group.title,
        group.intro
    )
}

fn card(outcome: &Outcome<'_>) -> String {
    let (name, title) = (outcome.row.name, escape(outcome.row.title));
    let title = strip_group(&title);
    let better = if outcome.measure == Measure::Rate {
        "longer"
    } else {
        "shorter"
    };
    format!(
        "<article id=\"row-{name}\">\n<header><h3>{title}</h3><span class=\"chip {0}\">{0}</span></header>\n<p class=\"sentence\">{1}</p>\n{2}\
         <p class=\"unit\">{3}; {better} is better</p>\n<details><summary>Figures, time lines, commands</summary>\n{4}{5}{6}{7}</details>\n</article>\n",
        outcome.word(),
        escape(&outcome.sentence()),
        charts::bars(outcome),
        outcome.measure.name(),
        table(outcome),
        charts::time_lines(outcome),
        commands(outcome),
        complaints(outcome),
    )
}

/// The page says it above.
fn strip_group(title: &str) -> &str {
    match title.split_once(": ") {
        Some((group, rest)) if group.len() == 2 && group.starts_with('B') => rest,
        _ => title,
    }
}

fn table(outcome: &Outcome<'_>) -> String {
    let heads = [
        outcome.measure.name(),
        "min to max",
        "CPU µs per request",
        "requests/s",
        "MB/s",
        "p50, ms",
        "p99, ms",
        "longest, ms",
        "peak RSS, MB",
        "PSS, MB",
        "errors",
    ];
    // CPU time is not said twice.
    let heads = heads
        .iter()
        .enumerate()
        .filter(|(place, _)| !is_said(outcome.measure, *place))
        .map(|(_, head)| head);
    let heads: String = heads
        .map(|head| format!("<th scope=\"col\">{head}</th>"))
        .collect();
    let lines: String = outcome
        .figures
        .iter()
        .filter(|figure| !figure.series.trials.is_empty())
        .map(|figure| line(figure, outcome.measure))
        .collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">server</th>{heads}</tr></thead><tbody>\n{lines}</tbody></table></div>\n"
    )
}

/// The third is the first again, or means nothing there.
fn is_said(measure: Measure, place: usize) -> bool {
    place == 2 && matches!(measure, Measure::Cpu | Measure::Memory)
}

fn line(figure: &Figure<'_>, measure: Measure) -> String {
    let trials = &figure.series.trials;
    let median =
        |of: fn(&Trial) -> f64| spread(trials.iter().map(of)).map_or(0.0, |spread| spread.median);
    let known = |value: f64| {
        if value > 0.0 {
            number(value)
        } else {
            "–".to_owned()
        }
    };
    let (value, range) = figure.value.map_or_else(
        || ("refused".to_owned(), String::new()),
        |value| {
            (
                number(value.median),
                format!("{} to {}", number(value.min), number(value.max)),
            )
        },
    );
    let errors = trials.iter().fold(0.0, |sum, trial| sum + trial.errors);
    let cells = [
        value,
        range,
        known(median(|trial| trial.cost)),
        known(median(|trial| trial.requests_per_s)),
        known(median(|trial| trial.bytes_per_s) / 1e6),
        known(median(|trial| trial.p50_us) / 1e3),
        known(median(|trial| trial.p99_us) / 1e3),
        known(median(|trial| trial.longest_us) / 1e3),
        known(median(|trial| trial.peak_rss_bytes) / 1e6),
        known(median(|trial| trial.pss_bytes) / 1e6),
        format!("{errors:.0}"),
    ];
    let cells = cells
        .iter()
        .enumerate()
        .filter(|(place, _)| !is_said(measure, *place))
        .map(|(_, cell)| cell);
    let cells: String = cells.map(|cell| format!("<td>{cell}</td>")).collect();
    let class = if figure.series.subject.is_saker() {
        " class=\"own\""
    } else {
        ""
    };
    format!("<tr{class}><td>{}</td>{cells}</tr>\n", escape(&figure.name))
}

fn commands(outcome: &Outcome<'_>) -> String {
    let mut text = format!(
        "<p class=\"unit\"><code>{}</code>: {}. The time lines are of the first round.</p>\n",
        outcome.row.name,
        outcome.amount()
    );
    if !outcome.result.load_command.is_empty() {
        let _ = writeln!(
            text,
            "<pre tabindex=\"0\">{}</pre>",
            escape(&outcome.result.load_command)
        );
    }
    text
}

fn complaints(outcome: &Outcome<'_>) -> String {
    let said = outcome
        .figures
        .iter()
        .filter_map(|figure| Some((figure, figure.series.complaints.first()?)));
    said.map(|(figure, complaint)| {
        format!(
            "<p class=\"why\">{}</p><pre tabindex=\"0\">{}</pre>\n",
            escape(&figure.name),
            escape(complaint)
        )
    })
    .collect()
}

fn configurations(report: &Report<'_>) -> String {
    let mut text = String::from(
        "<section id=\"configurations\">\n<h2>Configurations</h2>\n<p class=\"intro\">As they ran: read from the running processes. Ports and folders \
         differ from run to run and stand as {port}, {docroot} and {work}.</p>\n",
    );
    for (name, sheets) in report.sheets() {
        let _ = writeln!(
            text,
            "<details><summary>{} ({})</summary>",
            escape(&name),
            sheets.len()
        );
        for sheet in sheets {
            let _ = writeln!(text, "<pre tabindex=\"0\">{}</pre>", escape(&sheet.command));
            for (file, content) in &sheet.files {
                let _ = writeln!(
                    text,
                    "<p class=\"unit\">{}</p><pre tabindex=\"0\">{}</pre>",
                    escape(file),
                    escape(content)
                );
            }
        }
        text.push_str("</details>\n");
    }
    text + "</section>\n"
}

fn method(report: &Report<'_>) -> String {
    let facts = &report.facts;
    let row = |(name, value): &(String, String)| {
        format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n",
            escape(name),
            escape(value)
        )
    };
    let rows: String = facts
        .machine
        .iter()
        .chain(&facts.versions)
        .map(row)
        .collect();
    let absent: String = facts
        .absent
        .iter()
        .map(|complaint| format!("<li>Not measured: {}</li>", escape(complaint)))
        .collect();
    format!(
        "<section id=\"method\">\n<h2>Machine and method</h2>\n<div class=\"scroll\"><table class=\"facts\"><tbody>\n{rows}</tbody></table></div>\n\
         <ul class=\"rules\">{RULES}{absent}</ul>\n<pre tabindex=\"0\">{}</pre>\n</section>\n",
        escape(&facts.command)
    )
}

/// Rules of the verdict, in words.
const RULES: &str = "<li>One server at a time, with one worker, tuned as its experts would, on a core of its own; the load has the other. Before it counts, it warms up.</li>\
<li>Rounds are interleaved and begin with another server each time: a slow minute of the machine hits all.</li>\
<li>Won or lost is who is ahead of the best of the others by more than the noise, and in four of five rounds. Everything else is level.</li>\
<li>A server that had a single error has no figure. Where that is Saker, the row is refused.</li>\
<li>CPU time is that of all processes of a server, from the kernel's own accounts. On a small machine requests per second often measure the load tool; CPU time does not.</li>\
<li>Files, pages and lists come from one seed and are the same in every run. Everything measured is in raw.json beside this page.</li>\
<li>Figures of different runs or machines can&#39;t be compared; ratios of one run can.</li>";

fn foot(report: &Report<'_>) -> String {
    format!(
        "<footer><p>Measured {} by <code>make lab</code>. The same as text: report.md; for programs: summary.json, raw.json.</p></footer>\n",
        escape(&report.facts.when)
    )
}
