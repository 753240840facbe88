//! The report for programs: what was decided, by which figures. Everything that was measured is in
//! `raw.json` beside it.

use super::{
    groups,
    report::Report,
    verdict::{Figure, Outcome},
};
use serde_json::{Value, json};

/// Goes up when a name changes its meaning.
const FORMAT: u32 = 1;

pub fn json(report: &Report<'_>) -> Value {
    let counts = report.counts();
    let pairs = |pairs: &[(String, String)]| {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect::<Value>()
    };
    json!({
        "format": FORMAT,
        "when": report.facts.when,
        "seconds": report.facts.took.as_secs(),
        "quick": report.facts.is_quick,
        "command": report.facts.command,
        "machine": pairs(&report.facts.machine),
        "versions": pairs(&report.facts.versions),
        "absent": report.facts.absent,
        "noise": { "cpu": report.noise.cpu, "rate": report.noise.rate, "measured": report.noise.is_measured },
        "counts": { "won": counts.won, "level": counts.level, "lost": counts.lost, "refused": counts.refused },
        "rows": report.outcomes.iter().map(row).collect::<Vec<_>>(),
    })
}

fn row(outcome: &Outcome<'_>) -> Value {
    json!({
        "row": outcome.row.name,
        "title": outcome.row.title,
        "group": groups::of(outcome.row).title,
        "measure": outcome.measure.name(),
        "outcome": outcome.word(),
        "sentence": outcome.sentence(),
        "against": outcome.best().map(|figure| &figure.name),
        "noise": outcome.noise,
        "load": outcome.result.load_command,
        "servers": outcome.figures.iter().map(server).collect::<Vec<_>>(),
    })
}

fn server(figure: &Figure<'_>) -> Value {
    json!({
        "server": figure.name,
        "median": figure.value.map(|value| value.median),
        "min": figure.value.map(|value| value.min),
        "max": figure.value.map(|value| value.max),
        "saker_is_better_by": figure.advantage,
        "saker": figure.rank.map(|rank| rank.word()),
        "refused": figure.refusal,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{machine::Facts, samples};
    use super::*;

    #[test]
    fn rows_have_outcomes() {
        let results = samples::results();
        let summary = json(&Report::new(&results, Facts::default()));
        let row = |name: &str| {
            summary["rows"]
                .as_array()
                .and_then(|rows| rows.iter().find(|row| row["row"] == name))
                .cloned()
                .unwrap_or_default()
        };
        assert_eq!(
            (
                row("small-10")["outcome"].as_str(),
                row("small-10")["against"].as_str()
            ),
            (Some("won"), Some("h2o"))
        );
        assert_eq!(row("tls-10")["outcome"], "refused");
        assert_eq!(row("small-10")["servers"][0]["median"], 6.1);
        assert_eq!(summary["counts"]["won"], 3);
    }
}
