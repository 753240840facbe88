//! Results as Markdown for people, and as JSON for the next tool.
//!
//! Called by: the benches, at their end.
//! Caveat: a verdict is a ratio of medians against its target. A row with an error of any server
//! has no verdict.

use crate::{
    arguments::Arguments,
    row::{Kind, LinkTargets, Row, Targets},
    sampling::Sample,
    statistics::{Spread, spread},
    subject::Subject,
    tool::Tool,
    trial::{RowResult, Series, Trial},
};
use serde_json::{Value, json};
use std::fmt::Write;

/// One comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub against: String,
    pub ratio: f64,
    /// `None` where nothing is asked for.
    pub at_most: Option<f64>,
}

impl Verdict {
    pub fn is_met(&self) -> Option<bool> {
        self.at_most.map(|at_most| self.ratio <= at_most)
    }
}

pub fn markdown(results: &[RowResult], arguments: &Arguments) -> String {
    let mut text = String::from("# Saker beside its peers\n\n");
    let _ = writeln!(
        text,
        "{} rounds of {} s, one worker each, logs off, server and load on a core each.",
        arguments.rounds, arguments.seconds
    );
    for peer in &arguments.peers {
        let _ = writeln!(
            text,
            "- {}",
            peer.version().unwrap_or_else(|complaint| complaint)
        );
    }
    for result in results {
        text.push_str(&section(result));
    }
    text.push_str(&summary(results));
    text
}

/// Everything that was measured.
pub fn json(results: &[RowResult]) -> Value {
    Value::Array(results.iter().map(row_json).collect())
}

/// Returns the row's targets, as far as they could be measured. An error refuses the row.
pub fn verdicts(result: &RowResult) -> Result<Vec<Verdict>, String> {
    // Without peers, only Saker's own failures matter.
    let alone = matches!(result.plan.row.kind, Kind::Idle { .. });
    let mut counted = result
        .series
        .iter()
        .filter(|series| !alone || series.subject.is_saker());
    if let Some((bad, complaint)) = counted
        .clone()
        .find_map(|series| Some((series.subject, series.complaints.first()?)))
    {
        return Err(format!("refused: {bad} failed: {}", beginning(complaint)));
    }
    if let Some(bad) = counted.find(|series| errors(series) > 0.0) {
        return Err(format!(
            "refused: {} had {} errors",
            bad.subject,
            errors(bad)
        ));
    }
    match result.plan.row.kind {
        Kind::Compare { targets, .. } => Ok(compared(&result.series, targets)),
        Kind::Switch { at_most, .. } => Ok(switched(&result.series, at_most)),
        Kind::Link {
            targets, requests, ..
        } => Ok(over_link(&result.series, targets, requests)),
        Kind::Own(_) => Ok(compared(
            &result.series,
            Targets {
                best: None,
                peers: &[],
                floor: None,
            },
        )),
        Kind::Idle { bytes_at_most, .. } => {
            let own = cost_of(&result.series, Subject::is_saker);
            Ok(own
                .map(|(_, bytes)| Verdict {
                    against: "bytes".into(),
                    ratio: bytes,
                    at_most: Some(bytes_at_most),
                })
                .into_iter()
                .collect())
        }
    }
}

/// Two lines: the first says what we saw, the second is often the server's own word.
fn beginning(complaint: &str) -> String {
    complaint.lines().take(2).collect::<Vec<_>>().join(" ")
}

fn compared(series: &[Series], targets: Targets) -> Vec<Verdict> {
    let Some((_, own)) = cost_of(series, Subject::is_saker) else {
        return Vec::new();
    };
    let against = |name: &str, wanted: &dyn Fn(Subject) -> bool, at_most: Option<f64>| {
        let (subject, cost) = cost_of(series, wanted)?;
        let against = if subject.to_string() == name {
            name.to_owned()
        } else {
            format!("{name} ({subject})")
        };
        Some(Verdict {
            against,
            ratio: own / cost,
            at_most,
        })
    };
    let best = against(
        "best",
        &|subject| matches!(subject, Subject::Peer(_)),
        targets.best,
    );
    let peers = targets.peers.iter().filter_map(|(peer, at_most)| {
        against(
            peer.name(),
            &|other| other == Subject::Peer(*peer),
            Some(*at_most),
        )
    });
    let floor = targets
        .floor
        .and_then(|at_most| against("floor", &|subject| subject == Subject::Floor, Some(at_most)));
    best.into_iter().chain(peers).chain(floor).collect()
}

/// Verdicts on the time that all requests took.
fn over_link(series: &[Series], targets: LinkTargets, requests: u64) -> Vec<Verdict> {
    let seconds = |series: &Series| {
        let rate = spread(series.trials.iter().map(|trial| trial.requests_per_s))?.median;
        Some((series.subject, requests as f64 / rate))
    };
    let times: Vec<(Subject, f64)> = series.iter().filter_map(seconds).collect();
    let Some((_, own)) = times.iter().find(|(subject, _)| *subject == Subject::Saker) else {
        return Vec::new();
    };
    let others = times
        .iter()
        .filter(|(subject, _)| *subject != Subject::Saker)
        .map(|(subject, other)| Verdict {
            against: format!("time of {subject}"),
            ratio: own / other,
            at_most: targets.of_http2.filter(|_| *subject == Subject::SakerHttp2),
        });
    let seconds = Verdict {
        against: "seconds".into(),
        ratio: *own,
        at_most: targets.seconds,
    };
    std::iter::once(seconds).chain(others).collect()
}

/// Rounds are paired: the two that ran next to each other had the same machine.
fn switched(series: &[Series], at_most: f64) -> Vec<Verdict> {
    let [off, on] = series else { return Vec::new() };
    let ratios = off
        .trials
        .iter()
        .zip(&on.trials)
        .map(|(off, on)| on.cost / off.cost);
    let ratio = spread(ratios).map(|spread| Verdict {
        against: "off".into(),
        ratio: spread.median,
        at_most: Some(at_most),
    });
    let calls = off
        .system_calls
        .zip(on.system_calls)
        .map(|(off, on)| Verdict {
            against: "system calls of off".into(),
            ratio: hundredths(on / off),
            at_most: Some(1.0),
        });
    [ratio, calls].into_iter().flatten().collect()
}

/// A timer that fires now and then is not a system call per request.
fn hundredths(ratio: f64) -> f64 {
    (ratio * 100.0).round() / 100.0
}

/// The cheapest of those that `wanted` names.
fn cost_of(series: &[Series], wanted: impl Fn(Subject) -> bool) -> Option<(Subject, f64)> {
    let costs = series
        .iter()
        .filter(|series| wanted(series.subject))
        .filter_map(|series| Some((series.subject, cost(series)?.median)));
    costs.min_by(|one, other| one.1.total_cmp(&other.1))
}

fn section(result: &RowResult) -> String {
    let mut text = format!(
        "\n## {}: {}\n\n",
        result.plan.row.name, result.plan.row.title
    );
    if !result.load_command.is_empty() {
        for command in result.load_command.lines() {
            let _ = writeln!(text, "`{command}`\n");
        }
    }
    text.push_str(match result.plan.row.kind {
        Kind::Idle { .. } => "| server | bytes per connection | peak RSS, MB | PSS, MB | errors |\n| --- | --- | --- | --- | --- |\n",
        _ => {
            "| server | CPU µs per request | min to max | requests/s | MB/s | p50, µs | p99, µs | longest, ms | peak RSS, MB | errors |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        }
    });
    for series in result
        .series
        .iter()
        .filter(|series| !series.trials.is_empty())
    {
        text.push_str(&line(
            series,
            matches!(result.plan.row.kind, Kind::Idle { .. }),
        ));
    }
    for series in result
        .series
        .iter()
        .filter_map(|series| Some((series.subject, series.system_calls?)))
    {
        let _ = writeln!(
            text,
            "\nSystem calls per request, {}: {:.2}",
            series.0, series.1
        );
    }
    if let Some(line) = handshakes(result.plan.row, &result.series) {
        let _ = writeln!(text, "\n{line}");
    }
    for series in &result.series {
        // The next round seldom knows more.
        let Some(complaint) = series.complaints.first() else {
            continue;
        };
        let _ = writeln!(
            text,
            "\n{} of {} rounds failed:\n```\n{}\n```",
            series.complaints.len(),
            rounds(series),
            complaint.trim_end()
        );
    }
    let _ = writeln!(text, "\n{}", judgement(result));
    text
}

fn line(series: &Series, idle: bool) -> String {
    let median = |figure: fn(&Trial) -> f64| {
        spread(series.trials.iter().map(figure)).map_or(0.0, |spread| spread.median)
    };
    let Spread {
        median: cost,
        min,
        max,
    } = cost(series).unwrap_or(Spread {
        median: 0.0,
        min: 0.0,
        max: 0.0,
    });
    let (rss, pss) = (
        median(|trial| trial.peak_rss_bytes) / 1e6,
        median(|trial| trial.pss_bytes) / 1e6,
    );
    let (name, errors) = (series.subject, errors(series));
    if idle {
        return format!("| {name} | {cost:.0} | {rss:.1} | {pss:.1} | {errors} |\n");
    }
    format!(
        "| {name} | {cost:.2} | {min:.2} to {max:.2} | {:.0} | {:.1} | {} | {} | {:.1} | {rss:.1} | {errors} |\n",
        median(|trial| trial.requests_per_s),
        median(|trial| trial.bytes_per_s) / 1e6,
        known(median(|trial| trial.p50_us)),
        known(median(|trial| trial.p99_us)),
        median(|trial| trial.longest_us) / 1e3,
    )
}

/// h2load tells no percentiles.
fn known(microseconds: f64) -> String {
    if microseconds > 0.0 {
        format!("{microseconds:.0}")
    } else {
        String::new()
    }
}

fn rounds(series: &Series) -> usize {
    series.complaints.len() + series.trials.len()
}

/// Number of were what the row wants them to be.
fn handshakes(row: &Row, series: &[Series]) -> Option<String> {
    let Kind::Compare {
        tool: Tool::Handshakes { resumed },
        ..
    } = row.kind
    else {
        return None;
    };
    let sum = |series: &Series| {
        series
            .trials
            .iter()
            .fold(0.0, |sum, trial| sum + trial.verified)
    };
    let counts: Vec<String> = series
        .iter()
        .map(|series| format!("{} {}", series.subject, sum(series)))
        .collect();
    Some(format!(
        "Verified as {}: {}",
        if resumed { "resumed" } else { "full" },
        counts.join(", ")
    ))
}

fn judgement(result: &RowResult) -> String {
    match verdicts(result) {
        Err(refusal) => format!("**{refusal}**"),
        Ok(verdicts) if verdicts.is_empty() => "no verdict: Saker was not measured".into(),
        Ok(verdicts) => verdicts.iter().map(sentence).collect::<Vec<_>>().join("; "),
    }
}

fn sentence(verdict: &Verdict) -> String {
    let figure = match verdict.against.as_str() {
        "bytes" => format!("{:.0} bytes", verdict.ratio),
        "seconds" => format!("{:.2} seconds", verdict.ratio),
        against => format!("{:.3} of {against}", verdict.ratio),
    };
    let word = match verdict.is_met() {
        Some(true) => "met",
        Some(false) => "**missed**",
        None => return figure,
    };
    format!(
        "{figure} (at most {}): {word}",
        verdict.at_most.unwrap_or_default()
    )
}

fn summary(results: &[RowResult]) -> String {
    let mut text = String::from("\n## Summary\n\n| row | outcome |\n| --- | --- |\n");
    for result in results {
        let _ = writeln!(
            text,
            "| {} | {} |",
            result.plan.row.title,
            judgement(result)
        );
    }
    text
}

fn row_json(result: &RowResult) -> Value {
    let series = |series: &Series| {
        json!({
            "server": series.subject.to_string(),
            "system_calls_per_request": series.system_calls,
            "complaints": series.complaints,
            "started_as": series.sheets.iter().map(|sheet| json!({ "command": sheet.command, "files": sheet.files })).collect::<Vec<_>>(),
            "trials": series.trials.iter().map(trial_json).collect::<Vec<_>>(),
        })
    };
    let verdict = |verdict: &Verdict| json!({ "against": verdict.against, "ratio": verdict.ratio, "at_most": verdict.at_most, "met": verdict.is_met() });
    let outcome = verdicts(result);
    json!({
        "row": result.plan.row.name,
        "measure": result.plan.row.measure().name(),
        "load": result.load_command,
        "servers": result.series.iter().map(series).collect::<Vec<_>>(),
        "refused": outcome.as_ref().err(),
        "verdicts": outcome.unwrap_or_default().iter().map(verdict).collect::<Vec<_>>(),
    })
}

fn trial_json(trial: &Trial) -> Value {
    let sample = |sample: &Sample| {
        json!([
            sample.at_ms,
            sample.cpu_percent.round(),
            sample.rss_bytes,
            sample.pss_bytes
        ])
    };
    json!({
        "requests": trial.requests, "seconds": trial.seconds,
        "load_from_ms": trial.line.load_from_ms, "load_to_ms": trial.line.load_to_ms,
        "samples_ms_cpu_percent_rss_pss": trial.line.samples.iter().map(sample).collect::<Vec<_>>(),
        "cost": trial.cost, "errors": trial.errors, "requests_per_s": trial.requests_per_s, "bytes_per_s": trial.bytes_per_s,
        "p50_us": trial.p50_us, "p99_us": trial.p99_us, "longest_us": trial.longest_us, "shortest_us": trial.shortest_us,
        "peak_rss_bytes": trial.peak_rss_bytes, "pss_bytes": trial.pss_bytes, "verified_handshakes": trial.verified,
    })
}

fn cost(series: &Series) -> Option<Spread> {
    spread(series.trials.iter().map(|trial| trial.cost))
}

fn errors(series: &Series) -> f64 {
    series
        .trials
        .iter()
        .fold(0.0, |sum, trial| sum + trial.errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;
    use crate::trial::RowPlan;
    use saker_testkit::Peer;
    use std::time::Duration;

    fn series(subject: Subject, costs: &[f64]) -> Series {
        let trials = costs
            .iter()
            .map(|cost| Trial {
                cost: *cost,
                ..Trial::default()
            })
            .collect();
        Series {
            trials,
            ..Series::new(subject)
        }
    }

    fn result(name: &str, series: Vec<Series>) -> RowResult {
        let row = rows::all().find(|row| row.name == name).expect("a row");
        let plan = RowPlan {
            row,
            rounds: 1,
            seconds: 1,
            requests_divisor: 1,
            idle: Duration::ZERO,
        };
        RowResult {
            plan,
            load_command: String::new(),
            series,
        }
    }

    #[test]
    fn the_best_peer_is_the_measure() {
        let rivals = vec![
            series(Subject::Saker, &[7.0, 8.0, 9.0]),
            series(Subject::Peer(Peer::Nginx), &[16.0]),
            series(Subject::Peer(Peer::H2o), &[10.0]),
            series(Subject::Floor, &[5.0]),
        ];
        let verdicts = verdicts(&result("small-10", rivals)).expect("no errors");
        let seen: Vec<_> = verdicts
            .iter()
            .map(|verdict| {
                (
                    verdict.against.as_str(),
                    verdict.ratio,
                    verdict.is_met() == Some(true),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("best (h2o)", 0.8, true),
                ("nginx", 0.5, true),
                ("floor (bare tokio loop)", 1.6, false)
            ]
        );
    }

    #[test]
    fn a_row_may_ask_for_single_peers_and_still_name_the_best() {
        let rivals = vec![
            series(Subject::Saker, &[4.0]),
            series(Subject::Peer(Peer::Lighttpd), &[6.0]),
            series(Subject::Peer(Peer::H2o), &[5.0]),
        ];
        let text = judgement(&result("h2-100x10", rivals));
        assert_eq!(
            text,
            "0.800 of best (h2o); 0.800 of h2o (at most 1): met; 0.667 of lighttpd (at most 0.8): met"
        );
    }

    #[test]
    fn handshakes_are_counted_for_all_to_see() {
        let mut nginx = series(Subject::Peer(Peer::Nginx), &[800.0, 900.0]);
        nginx
            .trials
            .iter_mut()
            .for_each(|trial| trial.verified = 500.0);
        let text = section(&result("tls-resumed", vec![nginx]));
        assert!(text.contains("Verified as resumed: nginx 1000"), "{text}");
    }

    #[test]
    fn an_error_refuses_the_row() {
        let mut bad = series(Subject::Peer(Peer::Nginx), &[16.0]);
        bad.trials[0].errors = 3.0;
        let outcome = verdicts(&result(
            "small-10",
            vec![series(Subject::Saker, &[7.0]), bad],
        ));
        assert_eq!(outcome, Err("refused: nginx had 3 errors".to_owned()));
        let mut failed = series(Subject::Saker, &[]);
        failed
            .complaints
            .push("saker: would not start\nno such file\nmore".to_owned());
        assert_eq!(
            verdicts(&result("small-10", vec![failed])),
            Err("refused: saker failed: saker: would not start no such file".to_owned())
        );
    }

    #[test]
    fn a_switch_is_judged_by_pairs() {
        let feature = crate::conditions::Feature::AccessLog;
        // The second round ran on a machine half as fast.
        let mut pair = vec![
            series(Subject::SakerWithout(feature), &[10.0, 20.0, 10.0]),
            series(Subject::SakerWith(feature), &[10.2, 20.4, 10.2]),
        ];
        (pair[0].system_calls, pair[1].system_calls) = (Some(3.0), Some(4.0));
        let verdicts = verdicts(&result("log", pair)).expect("no errors");
        assert!(
            (verdicts[0].ratio - 1.02).abs() < 1e-9 && verdicts[0].is_met() == Some(true),
            "{verdicts:?}"
        );
        assert_eq!(
            verdicts[1].is_met(),
            Some(false),
            "a system call more is not the same"
        );
    }

    #[test]
    fn without_saker_there_is_no_verdict() {
        let only_peers = result("idle", vec![series(Subject::Peer(Peer::Nginx), &[600.0])]);
        assert_eq!(verdicts(&only_peers), Ok(Vec::new()));
        assert!(section(&only_peers).contains("| nginx | 600 |"));
    }
}
