//! Verdict of a row: the server ahead, and whether that is more than noise.
//!
//! Saker is measured against the best of the others. Ahead is who is ahead in the medians by more
//! than the machine's noise (A against A) and in four of five rounds as well: rounds are
//! interleaved, so that those that ran next to each other had the same machine. Everything else is
//! level. A server that had errors has no figure; where that is Saker, the row is refused. Absent
//! on purpose: the floor as a rival. It is no web server.

use crate::{
    row::{Kind, Row},
    statistics::{Spread, spread},
    subject::Subject,
    trial::{RowResult, Series, Trial},
    workload::Measure,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    Won,
    Level,
    Lost,
}

impl Rank {
    pub fn word(self) -> &'static str {
        match self {
            Rank::Won => "won",
            Rank::Level => "level",
            Rank::Lost => "lost",
        }
    }
}

/// Largest difference between A and A, as a share, among figures of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    pub cpu: f64,
    pub rate: f64,
    pub is_measured: bool,
}

/// A steady machine is not steadier than this.
const NOISE_MIN: f64 = 0.01;
/// Noise of figures for which it was not measured.
const NOISE_ASSUMED: f64 = 0.05;
/// Share of the rounds that a winner has to win.
const ROUNDS_AHEAD: f64 = 0.8;

#[derive(Debug)]
pub struct Figure<'a> {
    pub series: &'a Series,
    pub name: String,
    /// Values of the measure that decides.
    pub value: Option<Spread>,
    pub refusal: Option<String>,
    /// So many times better is Saker; none for itself.
    pub advantage: Option<f64>,
    pub rank: Option<Rank>,
}

#[derive(Debug)]
pub struct Outcome<'a> {
    pub result: &'a RowResult,
    pub row: &'static Row,
    pub measure: Measure,
    /// Saker first, the others from the best on, the floor last.
    pub figures: Vec<Figure<'a>>,
    pub rank: Option<Rank>,
    /// The best of the others.
    pub rival: Option<usize>,
    pub refusal: Option<String>,
    pub noise: f64,
}

impl Noise {
    pub fn of(results: &[RowResult]) -> Noise {
        let of_row = |name: &str| {
            results
                .iter()
                .find(|result| result.plan.row.name == name)
                .and_then(differences)
        };
        let (cpu, rate) = (of_row("noise"), of_row("noise-rate"));
        let is_measured = cpu.or(rate).is_some();
        // One tells of the other where it has to.
        let known = |one: Option<f64>, other: Option<f64>| {
            one.or(other)
                .map_or(NOISE_ASSUMED, |noise| noise.max(NOISE_MIN))
        };
        Noise {
            cpu: known(cpu, rate),
            rate: known(rate, cpu),
            is_measured,
        }
    }

    fn for_measure(self, measure: Measure) -> f64 {
        match measure {
            Measure::Cpu => self.cpu,
            Measure::Rate | Measure::Seconds => self.rate,
            Measure::Memory => NOISE_MIN,
        }
    }
}

/// The largest difference of two that ran next to each other. The medians of all differ by no more.
fn differences(result: &RowResult) -> Option<f64> {
    let [one, other] = result.series.as_slice() else {
        return None;
    };
    let measure = result.plan.row.measure();
    let pairs = one
        .trials
        .iter()
        .zip(&other.trials)
        .map(|(one, other)| value(measure, one) / value(measure, other));
    pairs
        .map(|ratio| ratio.max(1.0 / ratio) - 1.0)
        .filter(|difference| difference.is_finite())
        .reduce(f64::max)
}

pub fn value(measure: Measure, trial: &Trial) -> f64 {
    match measure {
        Measure::Cpu | Measure::Memory => trial.cost,
        Measure::Rate => trial.requests_per_s,
        Measure::Seconds => trial.seconds,
    }
}

pub fn judge(result: &RowResult, noise: Noise) -> Outcome<'_> {
    let (row, measure) = (result.plan.row, result.plan.row.measure());
    let noise = noise.for_measure(measure);
    let mut figures: Vec<Figure<'_>> = result
        .series
        .iter()
        .map(|series| figure(series, measure))
        .collect();
    sort(&mut figures, measure);
    let refusal = refusal_of_row(&figures);
    if refusal.is_none()
        && figures
            .first()
            .is_some_and(|own| own.series.subject.is_saker())
    {
        let (own, others) = figures.split_at_mut(1);
        others
            .iter_mut()
            .for_each(|other| compare(&own[0], other, measure, noise));
    }
    let rival = if refusal.is_none() {
        rival(&figures)
    } else {
        None
    };
    let rank = rival.and_then(|index| figures.get(index)?.rank);
    // What is on can't be better than what is off.
    let rank = rank.map(|rank| {
        if is_switch(row) && rank == Rank::Won {
            Rank::Level
        } else {
            rank
        }
    });
    Outcome {
        result,
        row,
        measure,
        figures,
        rank,
        rival,
        refusal,
        noise,
    }
}

fn figure(series: &Series, measure: Measure) -> Figure<'_> {
    let errors = series
        .trials
        .iter()
        .fold(0.0, |sum, trial| sum + trial.errors);
    let complaint = series
        .complaints
        .first()
        .map(|complaint| complaint.lines().take(2).collect::<Vec<_>>().join(" "));
    let refusal = complaint.or_else(|| (errors > 0.0).then(|| format!("{errors:.0} errors")));
    let value = spread(series.trials.iter().map(|trial| value(measure, trial)))
        .filter(|_| refusal.is_none());
    Figure {
        series,
        name: series.subject.to_string(),
        value,
        refusal,
        advantage: None,
        rank: None,
    }
}

fn is_switch(row: &Row) -> bool {
    matches!(row.kind, Kind::Switch { .. })
}

/// The one that the row is about.
fn is_own(subject: Subject) -> bool {
    matches!(
        subject,
        Subject::Saker | Subject::SakerWith(_) | Subject::SakerByFileOf(_)
    )
}

fn sort(figures: &mut [Figure<'_>], measure: Measure) {
    let badness = |figure: &Figure<'_>| match (figure.value, measure) {
        (None, _) => f64::INFINITY,
        (Some(value), Measure::Rate) => -value.median,
        (Some(value), _) => value.median,
    };
    let place = |figure: &Figure<'_>| match figure.series.subject {
        subject if is_own(subject) => 0,
        Subject::Floor => 2,
        _ => 1,
    };
    figures.sort_by(|one, other| {
        place(one)
            .cmp(&place(other))
            .then(badness(one).total_cmp(&badness(other)))
    });
}

fn refusal_of_row(figures: &[Figure<'_>]) -> Option<String> {
    let own = figures.iter().find(|figure| is_own(figure.series.subject));
    let Some(own) = own else {
        return Some("Saker was not measured".to_owned());
    };
    own.refusal
        .as_ref()
        .map(|refusal| format!("Saker: {refusal}"))
}

fn compare(own: &Figure<'_>, other: &mut Figure<'_>, measure: Measure, noise: f64) {
    let (Some(ours), Some(theirs)) = (own.value, other.value) else {
        return;
    };
    let advantage = |ours: f64, theirs: f64| {
        if measure == Measure::Rate {
            ours / theirs
        } else {
            theirs / ours
        }
    };
    let overall = advantage(ours.median, theirs.median);
    let rounds: Vec<f64> = (own.series.trials.iter().zip(&other.series.trials))
        .map(|(ours, theirs)| advantage(value(measure, ours), value(measure, theirs)))
        .collect();
    let ahead = |test: fn(f64) -> bool| {
        rounds.iter().filter(|ratio| test(**ratio)).count() as f64
            >= ROUNDS_AHEAD * rounds.len() as f64
    };
    other.advantage = Some(overall).filter(|ratio| ratio.is_finite());
    other.rank = Some(match overall {
        ratio if ratio > 1.0 + noise && ahead(|ratio| ratio > 1.0) => Rank::Won,
        ratio if ratio < 1.0 / (1.0 + noise) && ahead(|ratio| ratio < 1.0) => Rank::Lost,
        _ => Rank::Level,
    });
}

/// A peer where there is one; else Saker itself in another way.
fn rival(figures: &[Figure<'_>]) -> Option<usize> {
    let with = |wanted: fn(Subject) -> bool| {
        figures.iter().position(|figure| {
            figure.value.is_some()
                && !is_own(figure.series.subject)
                && wanted(figure.series.subject)
        })
    };
    with(|subject| matches!(subject, Subject::Peer(_) | Subject::Outside(_)))
        .or_else(|| with(|subject| subject != Subject::Floor))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{row_result, series};
    use super::*;
    use saker_testkit::Peer;

    const NGINX: Subject = Subject::Peer(Peer::Nginx);
    const H2O: Subject = Subject::Peer(Peer::H2o);

    fn noise(part: f64) -> Noise {
        Noise {
            cpu: part,
            rate: part,
            is_measured: true,
        }
    }

    fn rank(own: &[f64], other: &[f64], part: f64) -> Option<Rank> {
        let result = row_result(
            "small-10",
            vec![series(Subject::Saker, own), series(NGINX, other)],
        );
        judge(&result, noise(part)).rank
    }

    #[test]
    fn ahead_is_more_than_noise_and_in_the_rounds() {
        assert_eq!(
            rank(&[5.0, 5.1, 4.9], &[10.0, 10.2, 9.9], 0.03),
            Some(Rank::Won)
        );
        assert_eq!(
            rank(&[10.0, 10.2, 9.9], &[5.0, 5.1, 4.9], 0.03),
            Some(Rank::Lost)
        );
        assert_eq!(
            rank(&[10.0, 10.0, 10.0], &[10.2, 10.2, 10.2], 0.03),
            Some(Rank::Level)
        );
        // By the medians ahead, in one of three rounds behind.
        assert_eq!(
            rank(&[5.0, 5.0, 12.0], &[6.0, 6.0, 6.0], 0.03),
            Some(Rank::Level)
        );
    }

    #[test]
    fn the_best_is_the_rival_and_the_floor_is_none() {
        let all = vec![
            series(Subject::Floor, &[1.0]),
            series(NGINX, &[9.0]),
            series(Subject::Saker, &[6.0]),
            series(H2O, &[8.0]),
        ];
        let result = row_result("small-10", all);
        let outcome = judge(&result, noise(0.03));
        let names: Vec<&str> = outcome
            .figures
            .iter()
            .map(|figure| figure.name.as_str())
            .collect();
        assert_eq!(names, ["saker", "h2o", "nginx", "bare tokio loop"]);
        assert_eq!((outcome.rival, outcome.rank), (Some(1), Some(Rank::Won)));
        assert_eq!(outcome.figures[2].advantage, Some(1.5));
    }

    #[test]
    fn errors_take_the_figure_away() {
        let mut bad = series(NGINX, &[1.0]);
        bad.trials[0].errors = 7.0;
        let result = row_result(
            "small-10",
            vec![series(Subject::Saker, &[6.0]), bad, series(H2O, &[8.0])],
        );
        let outcome = judge(&result, noise(0.03));
        assert_eq!((outcome.rival, outcome.rank), (Some(1), Some(Rank::Won)));
        assert_eq!(
            (
                outcome.figures[2].refusal.as_deref(),
                outcome.figures[2].value
            ),
            (Some("7 errors"), None)
        );
        let mut own = series(Subject::Saker, &[6.0]);
        own.trials[0].errors = 1.0;
        let result = row_result("small-10", vec![own, series(H2O, &[8.0])]);
        let outcome = judge(&result, noise(0.03));
        assert_eq!(
            (outcome.rank, outcome.refusal.as_deref()),
            (None, Some("Saker: 1 errors"))
        );
    }

    #[test]
    fn noise_is_the_largest_difference_and_the_medians_lie_within() {
        let (one, other) = ([10.0, 10.4, 9.7, 12.0], [10.1, 9.9, 10.0, 11.0]);
        let result = row_result(
            "noise",
            vec![
                series(Subject::Saker, &one),
                series(Subject::SakerAgain, &other),
            ],
        );
        let results = [result];
        let noise = Noise::of(&results);
        assert!(
            (noise.cpu - (12.0 / 11.0 - 1.0)).abs() < 1e-9 && noise.is_measured,
            "{noise:?}"
        );
        let outcome = judge(&results[0], noise);
        assert_eq!(outcome.rank, Some(Rank::Level));
        assert!(!Noise::of(&[]).is_measured);
    }
}
