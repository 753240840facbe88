//! Contents of page, Markdown and summary: outcomes in groups, counts, and the sentences that they
//! share.

use super::{
    groups::{self, Group},
    machine::Facts,
    verdict::{self, Figure, Noise, Outcome, Rank},
};
use crate::{row::Kind, sheets::Sheet, trial::RowResult, workload::Measure};

#[derive(Debug)]
pub struct Report<'a> {
    pub outcomes: Vec<Outcome<'a>>,
    pub noise: Noise,
    pub facts: Facts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub won: usize,
    pub level: usize,
    pub lost: usize,
    pub refused: usize,
}

impl<'a> Report<'a> {
    pub fn new(results: &'a [RowResult], facts: Facts) -> Report<'a> {
        let noise = Noise::of(results);
        Report {
            outcomes: results
                .iter()
                .map(|result| verdict::judge(result, noise))
                .collect(),
            noise,
            facts,
        }
    }

    /// Those that have rows.
    pub fn groups(&self) -> impl Iterator<Item = (Group, Vec<&Outcome<'a>>)> {
        let of = |group: Group| {
            self.outcomes
                .iter()
                .filter(move |outcome| groups::of(outcome.row) == group)
                .collect::<Vec<_>>()
        };
        groups::ALL
            .into_iter()
            .map(move |group| (group, of(group)))
            .filter(|(_, outcomes)| !outcomes.is_empty())
    }

    /// Counts rows that compare servers.
    pub fn counts(&self) -> Counts {
        let compared = self
            .outcomes
            .iter()
            .filter(|outcome| groups::of(outcome.row).prefix != "noise");
        compared.fold(Counts::default(), |mut counts, outcome| {
            match outcome.rank {
                Some(Rank::Won) => counts.won += 1,
                Some(Rank::Level) => counts.level += 1,
                Some(Rank::Lost) => counts.lost += 1,
                None => counts.refused += 1,
            }
            counts
        })
    }

    /// Each server with the different ways in which it was started.
    pub fn sheets(&self) -> Vec<(String, Vec<&'a Sheet>)> {
        let mut all: Vec<(String, Vec<&'a Sheet>)> = Vec::new();
        for series in self
            .outcomes
            .iter()
            .flat_map(|outcome| &outcome.result.series)
        {
            let name = series.subject.to_string();
            let place = all
                .iter()
                .position(|(other, _)| *other == name)
                .unwrap_or_else(|| {
                    all.push((name, Vec::new()));
                    all.len() - 1
                });
            if let Some((_, sheets)) = all.get_mut(place) {
                let new: Vec<&Sheet> = series
                    .sheets
                    .iter()
                    .filter(|sheet| !sheets.contains(sheet))
                    .collect();
                sheets.extend(new);
            }
        }
        all.retain(|(_, sheets)| !sheets.is_empty());
        all
    }
}

impl Outcome<'_> {
    pub fn word(&self) -> &'static str {
        self.rank.map_or("refused", Rank::word)
    }

    /// Returns the figure of the best of the others.
    pub fn best(&self) -> Option<&Figure<'_>> {
        self.figures.get(self.rival?)
    }

    /// Returns the meaning of the verdict in this row.
    pub fn sentence(&self) -> String {
        let (Some(rival), Some(rank)) = (self.best(), self.rank) else {
            return self
                .refusal
                .clone()
                .unwrap_or_else(|| "nobody to compare with".to_owned());
        };
        let (name, ratio) = (&rival.name, rival.advantage.unwrap_or(1.0));
        let what = thing(self.measure);
        match rank {
            Rank::Level => format!("level with {name}: {ratio:.2} to 1, within the noise"),
            _ if self.measure == Measure::Rate => {
                format!("Saker makes {} the {what} of {name}", times(ratio))
            }
            Rank::Won => format!("{name} takes {} the {what}", times(ratio)),
            Rank::Lost => format!("Saker takes {} the {what} of {name}", times(1.0 / ratio)),
        }
    }

    /// Rounds and seconds.
    pub fn amount(&self) -> String {
        let rounds = self
            .figures
            .iter()
            .map(|figure| figure.series.trials.len())
            .max()
            .unwrap_or(0);
        let rounds = if rounds == 1 {
            "1 round".to_owned()
        } else {
            format!("{rounds} rounds")
        };
        match self.row.kind {
            Kind::Link { .. } if self.result.plan.requests_divisor > 1 => {
                format!(
                    "{rounds}; 1/{} of the requests, to end in time",
                    self.result.plan.requests_divisor
                )
            }
            Kind::Link { .. } | Kind::Idle { .. } => rounds,
            _ => format!("{rounds} of {} s", self.result.plan.seconds),
        }
    }
}

fn thing(measure: Measure) -> &'static str {
    match measure {
        Measure::Cpu => "CPU time",
        Measure::Rate => "requests/s",
        Measure::Seconds => "time",
        Measure::Memory => "memory",
    }
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2} times")
}

/// Three digits that mean something, as people write them.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => grouped(value.round()),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Thousands apart.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn counts_and_sentences() {
        let results = samples::results();
        let report = Report::new(&results, Facts::default());
        assert_eq!(
            report.counts(),
            Counts {
                won: 3,
                level: 1,
                lost: 2,
                refused: 1
            }
        );
        let sentence = |name: &str| {
            report
                .outcomes
                .iter()
                .find(|outcome| outcome.row.name == name)
                .expect("a row")
                .sentence()
        };
        assert_eq!(sentence("small-10"), "h2o takes 1.31 times the CPU time");
        assert_eq!(
            sentence("proxy-1k"),
            "Saker takes 1.68 times the CPU time of haproxy"
        );
        assert_eq!(
            sentence("large-10"),
            "level with nginx: 0.99 to 1, within the noise"
        );
        assert_eq!(
            sentence("tls-10"),
            "Saker: saker: would not start <script>alert(1)</script>"
        );
        assert_eq!(
            report
                .sheets()
                .iter()
                .map(|(name, sheets)| (name.as_str(), sheets.len()))
                .next(),
            Some(("nginx", 1))
        );
    }

    #[test]
    fn numbers_are_short() {
        let written = [0.004, 6.066, 12.34, 999.4, 1234.5, 1_234_567.0].map(number);
        assert_eq!(
            written,
            ["0.00", "6.07", "12.3", "999", "1,235", "1,234,567"]
        );
    }
}
