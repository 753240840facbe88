//! The lab's own options; the others are those of the bench.

use crate::arguments::{self, Arguments};
use saker_testkit::{Peer, require};
use std::{path::PathBuf, time::Duration};

/// With what comes before and after under an hour.
const MINUTES: u64 = 57;
const QUICK_MINUTES: u64 = 4;
const OUT: &str = "lab";
/// Peers that take part where they can, besides those that a row names.
const PEERS: [Peer; 6] = [
    Peer::Nginx,
    Peer::Lighttpd,
    Peer::H2o,
    Peer::Apache,
    Peer::Haproxy,
    Peer::Caddy,
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub bench: Arguments,
    pub out: PathBuf,
    /// `None`: what the whole or the quick run has.
    pub minutes: Option<u64>,
    /// The machine that has the servers.
    pub stage: Option<String>,
    /// Nothing is measured, what would be is said.
    pub is_plan_only: bool,
    /// Peers that would take part and are not installed, and what to do about it.
    pub absent: Vec<String>,
}

impl Setting {
    pub fn is_quick(&self) -> bool {
        self.bench.is_quick
    }

    /// For measuring alone.
    pub fn budget(&self) -> Duration {
        Duration::from_secs(
            60 * self.minutes.unwrap_or(if self.is_quick() {
                QUICK_MINUTES
            } else {
                MINUTES
            }),
        )
    }
}

pub fn help() -> String {
    format!(
        "The lab: the published comparisons, measured and reported as a page.

  lab             all of it, in {MINUTES} minutes of measuring
  --quick         one or two rows of each comparison, in {QUICK_MINUTES}
  --minutes N     in so many: more of them buy more rounds and longer ones
  --plan          says which rows, rounds and seconds that makes, and measures nothing
  --out FOLDER    index.html, report.md, summary.json and raw.json go there ({OUT})
  table SUMMARY [PAGE]  not a run: the README's table of one, by its summary.json; into PAGE between its marks, if given
  --stage HOST:PORT  the servers are on another machine, which runs `saker-bench stage --listen HOST:PORT` with the same --peers
  and of the options above --saker, --only, --peers, --peer, --sessions
"
    )
}

pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Setting, String> {
    let (mut out, mut minutes, mut has_peers, mut rest) =
        (PathBuf::from(OUT), None, false, Vec::new());
    let (mut stage, mut is_plan_only) = (None, false);
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--out" => out = value()?.into(),
            "--plan" => is_plan_only = true,
            "--stage" => stage = Some(value()?),
            "--minutes" => minutes = Some(arguments::at_least_one(&value()?)?),
            _ => {
                has_peers |= word == "--peers";
                rest.push(word);
            }
        }
    }
    let mut bench = arguments::parse_bench(rest)?;
    let mut absent = Vec::new();
    if !has_peers {
        let (there, missing) = PEERS
            .into_iter()
            .partition(|peer| require(peer.program()).is_ok());
        bench.peers = there;
        let missing: Vec<Peer> = missing;
        absent = missing
            .into_iter()
            .filter_map(|peer| require(peer.program()).err())
            .collect();
    }
    Ok(Setting {
        bench,
        out,
        minutes,
        stage,
        is_plan_only,
        absent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Setting, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options() {
        let setting =
            parsed("--out /tmp/x --minutes 20 --only noise --peers nginx").expect("parsed");
        assert_eq!(
            (setting.budget(), setting.out, setting.bench.only),
            (
                Duration::from_secs(1200),
                "/tmp/x".into(),
                vec!["noise".to_owned()]
            )
        );
        assert_eq!(
            (setting.bench.peers, setting.absent),
            (vec![Peer::Nginx], Vec::new())
        );
        let quick = parsed("--quick --plan").expect("parsed");
        assert!(quick.is_plan_only && !setting.is_plan_only);
        assert!(quick.is_quick() && quick.budget() < Duration::from_secs(300));
        assert_eq!(quick.bench.peers.len() + quick.absent.len(), PEERS.len());
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(
            parsed("--minutes").expect_err("no value"),
            "--minutes needs a value"
        );
        assert_eq!(
            parsed("--fast").expect_err("unknown"),
            "`--fast` is not an option; --help lists them"
        );
    }
}
