//! Bars and time lines as inline SVG. Colors are classes of the page's style sheet, so that light
//! and dark are its affair.
//!
//! The difficulty is telephones: text in a drawing that is made to fit becomes unreadable. So the
//! drawings stretch and have no text in them; names, figures and axes are the page's own text
//! around them.

use super::{escape::escape, report::number, verdict::Outcome};
use crate::{sampling::Sample, subject::Subject};
use std::fmt::Write;

const WIDTH: f64 = 1000.0;
const LINE_HEIGHT: f64 = 200.0;
/// More points than that are not seen.
const POINTS_MAX: usize = 240;

/// Name, bar with its range, figure: a line for each server.
pub fn bars(outcome: &Outcome<'_>) -> String {
    let values = outcome.figures.iter().filter_map(|figure| figure.value);
    let largest = values.map(|value| value.max).fold(0.0, f64::max).max(1e-9);
    let mut text = String::from("<div class=\"bars\">\n");
    for figure in &outcome.figures {
        let (kind, name) = (kind(figure.series.subject), escape(&figure.name));
        let Some(value) = figure.value else {
            let refusal = escape(figure.refusal.as_deref().unwrap_or("not measured"));
            let _ = writeln!(
                text,
                "<span class=\"who\">{name}</span><span class=\"why\">{refusal}</span>"
            );
            continue;
        };
        let at = |value: f64| value / largest * WIDTH;
        let (from, to) = (at(value.min), at(value.max));
        let _ = writeln!(
            text,
            "<span class=\"who\">{name}</span><svg class=\"bar\" viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"{name}: {}\"><rect class=\"{kind}\" width=\"{:.1}\" height=\"20\" rx=\"3\"/><rect class=\"range\" x=\"{from:.1}\" \
             y=\"8\" width=\"{:.1}\" height=\"4\"/></svg><span class=\"how-much\">{}</span>",
            number(value.median),
            at(value.median).max(2.0),
            (to - from).max(2.0),
            number(value.median),
        );
    }
    text + "</div>\n"
}

fn kind(subject: Subject) -> &'static str {
    match subject {
        Subject::Saker | Subject::SakerWith(_) | Subject::SakerByFileOf(_) => "own",
        subject if subject.is_saker() => "own-too",
        Subject::Floor => "floor",
        _ => "peer",
    }
}

/// CPU and memory of the first round, a color per server; empty where nothing was sampled.
pub fn time_lines(outcome: &Outcome<'_>) -> String {
    let lines: Vec<(usize, &str, &[Sample])> = (outcome.figures.iter().enumerate())
        .filter_map(|(place, figure)| {
            Some((
                place,
                figure.name.as_str(),
                figure.series.trials.first()?.line.samples.as_slice(),
            ))
        })
        .filter(|(.., samples)| samples.len() > 2)
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    let legend: String = lines
        .iter()
        .map(|(place, name, _)| {
            format!("<li><i class=\"s{}\"></i>{}</li>", place % 8, escape(name))
        })
        .collect();
    let cpu = drawing(&lines, "CPU, % of a core", |sample| sample.cpu_percent);
    let memory = drawing(&lines, "Memory (PSS), MB", |sample| {
        sample.pss_bytes as f64 / 1e6
    });
    format!("<ul class=\"legend\">{legend}</ul>\n<div class=\"lines\">{cpu}{memory}</div>\n")
}

fn drawing(
    lines: &[(usize, &str, &[Sample])],
    title: &str,
    value: impl Fn(&Sample) -> f64,
) -> String {
    let all = || lines.iter().flat_map(|(.., samples)| samples.iter());
    let until_ms = all().map(|sample| sample.at_ms).max().unwrap_or(1).max(1) as f64;
    let largest = all().map(&value).fold(0.0, f64::max).max(1e-9);
    let mut paths = String::new();
    // Saker's is drawn last, on top.
    for (place, name, samples) in lines.iter().rev() {
        let every = samples.len().div_ceil(POINTS_MAX);
        let points: Vec<String> = (samples.iter().step_by(every))
            .map(|sample| {
                format!(
                    "{:.1},{:.1}",
                    sample.at_ms as f64 / until_ms * WIDTH,
                    LINE_HEIGHT * (1.0 - value(sample) / largest * 0.98)
                )
            })
            .collect();
        let _ = writeln!(
            paths,
            "<polyline class=\"s{}\" points=\"{}\"><title>{}</title></polyline>",
            place % 8,
            points.join(" "),
            escape(name)
        );
    }
    format!(
        "<figure><figcaption><span>{title}</span><span>{}</span></figcaption><svg viewBox=\"0 0 1000 200\" preserveAspectRatio=\"none\" \
         role=\"img\" aria-label=\"{title} over time, up to {}\"><path class=\"grid\" d=\"M0 0H1000M0 100H1000M0 200H1000\"/>\n{paths}</svg>\
         <div class=\"axis\"><span>0 s</span><span>{:.0} s</span></div></figure>\n",
        number(largest),
        number(largest),
        until_ms / 1e3
    )
}

#[cfg(test)]
mod tests {
    use super::super::{samples, verdict};
    use super::*;

    #[test]
    fn bars_stand_in_proportion_and_lines_for_everybody() {
        let results = samples::results();
        let noise = verdict::Noise::of(&results);
        let outcome = verdict::judge(&results[1], noise);
        let drawn = bars(&outcome);
        // Apache's median is 31 of at most 32.5, Saker's 6.1.
        assert!(
            drawn.contains("<rect class=\"own\" width=\"187.7\"")
                && drawn.contains("<rect class=\"peer\" width=\"953.8\""),
            "{drawn}"
        );
        assert!(
            drawn.contains("12 errors") && drawn.contains("class=\"floor\""),
            "{drawn}"
        );
        assert_eq!(time_lines(&outcome).matches("<polyline").count(), 12);
    }
}
