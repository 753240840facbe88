//! The command line: its modes, its help, and their parsers.
//!
//! Called by: `main`.
//! Caveat: `handshakes`, `load`, and `floor` are for the bench itself, which starts them as
//! processes of their own.
//! Out of scope: options of comparisons (`arguments`), of the lab, and of the other modes, which
//! parse their own.

use crate::{
    arguments::{Arguments, at_least_one, parse_bench},
    fairness, handshakes, lab, paced, rows,
};
use saker_testkit::Peer;
use std::{net::SocketAddr, path::PathBuf};

pub enum Mode {
    Help,
    Floor {
        port: u16,
    },
    Handshakes(handshakes::Setting),
    /// HTTP/3's, as `saker-load` takes it.
    Load(Vec<String>),
    Bench(Arguments),
    Lab(lab::Setting),
    /// The README's table of a run of the lab.
    Table {
        summary: PathBuf,
        page: Option<PathBuf>,
    },
    /// Many downloads at a pace, and what they cost.
    Paced(paced::Setting),
    /// One client that asks far too much, and what the others notice.
    Fairness(fairness::Setting),
    /// The machine with the servers, where there are two.
    Stage {
        address: SocketAddr,
        arguments: Arguments,
    },
}

pub fn help() -> String {
    let (lab, paced, fairness) = (lab::help(), paced::HELP, fairness::HELP);
    let rows: String = rows::all()
        .map(|row| format!("  {:<14} {}\n", row.name, row.title))
        .collect();
    let peers = Peer::ALL
        .iter()
        .chain(&Peer::SPECIAL)
        .map(|peer| peer.name())
        .collect::<Vec<_>>()
        .join(",");
    format!(
        "Compares Saker with its peers; prints Markdown.

  --saker PATH    the binary to measure (target/release/saker); where there is none, the peers are measured alone
  --rounds N      interleaved rounds (5)
  --seconds N     of load per trial (4)
  --only ROW      a row or a beginning of its name; may be repeated (those over a link are only run when they are named)
  --peers LIST    of {peers} (the first three)
  --peer NAME='COMMAND'  another server, in the foreground; {{port}} and {{docroot}} stand in its command for what they say, for HTTPS
                  {{cert}} and {{key}}, too; NAME+h3 for one with HTTP/3; may be repeated
  --sessions KIND  where the b1 shop stores sessions: files (default), mariadb, or redis
  --json FILE     everything measured, as JSON
  --quick         2 rounds of 1 second, a tenth of the requests: to see that it runs, not to quote

{paced}
{fairness}
{lab}
Rows:
{rows}"
    )
}

pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Mode, String> {
    let mut words = words.into_iter().peekable();
    if words.next_if_eq("floor").is_some() {
        return floor(words);
    }
    if words.next_if_eq("handshakes").is_some() {
        return handshakes(&words.collect::<Vec<_>>());
    }
    if words.next_if_eq("load").is_some() {
        return Ok(Mode::Load(words.collect()));
    }
    if words.next_if_eq("table").is_some() {
        return table(&words.collect::<Vec<_>>());
    }
    if words.next_if_eq("paced").is_some() {
        return paced::parse(words).map(Mode::Paced);
    }
    if words.next_if_eq("fairness").is_some() {
        return fairness::parse(words).map(Mode::Fairness);
    }
    let is_lab = words.next_if_eq("lab").is_some();
    let words: Vec<String> = words.collect();
    if words.iter().any(|word| word == "-h" || word == "--help") {
        return Ok(Mode::Help);
    }
    if words.first().is_some_and(|word| word == "stage") {
        return stage(&words);
    }
    if is_lab {
        lab::parse(words).map(Mode::Lab)
    } else {
        parse_bench(words).map(Mode::Bench)
    }
}

fn floor(mut words: impl Iterator<Item = String>) -> Result<Mode, String> {
    match (words.next().as_deref(), words.next()) {
        (Some("--port"), Some(port)) => Ok(Mode::Floor {
            port: port
                .parse()
                .map_err(|_| format!("`{port}` is not a port"))?,
        }),
        _ => Err("floor --port N".into()),
    }
}

fn table(words: &[String]) -> Result<Mode, String> {
    match words {
        [summary] => Ok(Mode::Table {
            summary: summary.into(),
            page: None,
        }),
        [summary, page] => Ok(Mode::Table {
            summary: summary.into(),
            page: Some(page.into()),
        }),
        _ => Err("table SUMMARY.json [PAGE.md]".into()),
    }
}

fn stage(words: &[String]) -> Result<Mode, String> {
    let [_, flag, address, rest @ ..] = words else {
        return Err("stage --listen ADDRESS:PORT".into());
    };
    let address = address
        .parse()
        .ok()
        .filter(|_| flag == "--listen")
        .ok_or("stage --listen ADDRESS:PORT, with an IPv4 address")?;
    Ok(Mode::Stage {
        address,
        arguments: lab::parse(rest.to_vec())?.bench,
    })
}

/// Not for people: the bench starts it as a load tool.
fn handshakes(words: &[String]) -> Result<Mode, String> {
    let [kind, chain, address, path, connections, seconds] = words else {
        return Err("handshakes full|resumed CHAIN ADDRESS PATH CONNECTIONS SECONDS".into());
    };
    Ok(Mode::Handshakes(handshakes::Setting {
        resumed: kind == "resumed",
        chain: chain.into(),
        address: address
            .parse()
            .map_err(|_| format!("`{address}` is not an address"))?,
        path: path.clone(),
        connections: at_least_one::<u16>(connections)?.into(),
        seconds: at_least_one(seconds)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, String> {
        match parse(line.split_whitespace().map(str::to_owned))? {
            Mode::Bench(arguments) => Ok(arguments),
            _ => Err("another mode".into()),
        }
    }

    #[test]
    fn options() {
        let arguments = parsed("--rounds 7 --only small --peers nginx,apache --saker /x --json /y")
            .expect("parsed");
        assert_eq!((arguments.rounds, arguments.seconds), (7, 4));
        assert_eq!(arguments.peers, [Peer::Nginx, Peer::Apache]);
        assert_eq!(
            (arguments.only, arguments.saker, arguments.json),
            (vec!["small".to_owned()], "/x".into(), Some("/y".into()))
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (line, complaint) in [
            ("--rounds 0", "`0` is not a number from 1 up"),
            ("--rounds", "--rounds needs a value"),
            (
                "--only nonsense",
                "no row is called `nonsense`; --help lists them",
            ),
            (
                "--sessions memcached",
                "sessions are kept in files, mariadb or redis, not in `memcached`",
            ),
            ("--peers iis", "`iis` is not a peer"),
            ("--fast", "`--fast` is not an option; --help lists them"),
            ("floor --port x", "`x` is not a port"),
            ("table", "table SUMMARY.json [PAGE.md]"),
            (
                "stage --listen x",
                "stage --listen ADDRESS:PORT, with an IPv4 address",
            ),
            ("stage", "stage --listen ADDRESS:PORT"),
            (
                "handshakes full",
                "handshakes full|resumed CHAIN ADDRESS PATH CONNECTIONS SECONDS",
            ),
        ] {
            assert_eq!(parsed(line).expect_err(line), complaint);
        }
    }
}
