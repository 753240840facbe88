//! The options of a comparison.
//!
//! Called by: the command line and the lab, whose options include these.
//! Caveat: the paths are as given; the runner resolves them.
//! Out of scope: modes other than comparisons (`command_line`).

use crate::{behind::Sessions, outside::Outside, rows};
use saker_testkit::Peer;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    pub saker: PathBuf,
    pub rounds: usize,
    /// Load per trial, after the warm-up.
    pub seconds: u64,
    /// Names of rows, or beginnings of them; empty for all.
    pub only: Vec<String>,
    pub peers: Vec<Peer>,
    /// Those that the user brings.
    pub outside: Vec<Outside>,
    /// Session store of the shop.
    pub sessions: Sessions,
    /// A tenth of the requests where they are counted.
    pub is_quick: bool,
    pub json: Option<PathBuf>,
}

impl Default for Arguments {
    fn default() -> Self {
        Arguments {
            saker: PathBuf::from("target/release/saker"),
            rounds: 5,
            seconds: 4,
            only: Vec::new(),
            peers: vec![Peer::Nginx, Peer::Lighttpd, Peer::H2o],
            outside: Vec::new(),
            sessions: Sessions::default(),
            is_quick: false,
            json: None,
        }
    }
}

pub fn parse_bench(words: impl IntoIterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--saker" => arguments.saker = value()?.into(),
            "--rounds" => arguments.rounds = at_least_one(&value()?)?,
            "--seconds" => arguments.seconds = at_least_one(&value()?)?,
            "--only" => arguments.only.push(known_row(value()?)?),
            "--peers" => {
                arguments.peers = value()?.split(',').map(peer).collect::<Result<_, _>>()?
            }
            "--peer" => arguments.outside.push(Outside::parse(&value()?)?),
            "--sessions" => arguments.sessions = Sessions::parse(&value()?)?,
            "--json" => arguments.json = Some(value()?.into()),
            "--quick" => (arguments.rounds, arguments.seconds, arguments.is_quick) = (2, 1, true),
            other => return Err(format!("`{other}` is not an option; --help lists them")),
        }
    }
    Ok(arguments)
}

pub fn at_least_one<T: std::str::FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    text.parse()
        .ok()
        .filter(|number| *number >= T::from(1))
        .ok_or_else(|| format!("`{text}` is not a number from 1 up"))
}

fn known_row(name: String) -> Result<String, String> {
    if rows::all().any(|row| row.name.starts_with(&name)) {
        Ok(name)
    } else {
        Err(format!("no row is called `{name}`; --help lists them"))
    }
}

fn peer(name: &str) -> Result<Peer, String> {
    Peer::ALL
        .into_iter()
        .chain(Peer::SPECIAL)
        .find(|peer| peer.name() == name)
        .ok_or_else(|| format!("`{name}` is not a peer"))
}
