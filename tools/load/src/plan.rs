//! Plan of a load, and its command line.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub address: SocketAddr,
    /// Asked for one after the other.
    pub paths: Vec<String>,
    /// PEM file with the only trusted certificates.
    pub chain: PathBuf,
    pub connections: usize,
    /// Requests at a time on each.
    pub streams: usize,
    pub end: End,
    /// Content of each request, which makes it a POST.
    pub upload_bytes: Option<u64>,
    /// Between an answer and the next request in its place.
    pub think: Duration,
    /// After so many a connection is closed and another one opened.
    pub requests_per_connection: Option<usize>,
    pub tickets: Tickets,
    /// Packets are padded to the path's MTU.
    pub padding: bool,
    /// A request that takes longer ends the run.
    pub patience: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Requests(u64),
    /// Counting begins after the warm-up.
    Time {
        warm_up: Duration,
        counted: Duration,
    },
}

/// Use of session tickets of earlier connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tickets {
    No,
    Resume,
    /// Requests leave with the first packets.
    EarlyData,
}

pub const HELP: &str = "A load of HTTP/3 requests from one thread.

  saker-load [OPTION]... --chain FILE https://ADDRESS:PORT/PATH [/PATH]...

  --chain FILE        the certificate to trust (PEM), for localhost
  -c N                connections (1)
  -m N                requests at a time on each (1)
  -n N                requests in all (1 for each connection)
  -D SECONDS          instead: for so long
  --warm-up SECONDS   before that (1)
  --upload BYTES      content of each request
  --think MS          between an answer and the next request
  --per-connection N  requests, then another connection
  --padding KIND      of packets: no, mtu (no)
  --tickets KIND      of later connections: no, resume, early (no)
  --patience SECONDS  a request that takes longer ends the run (60)
";

/// `None` where help is wanted.
pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Option<Plan>, String> {
    let mut words = words.into_iter();
    let mut given = Given::default();
    while let Some(word) = words.next() {
        if matches!(word.as_str(), "-h" | "--help") {
            return Ok(None);
        }
        if !word.starts_with('-') {
            given.target(word)?;
            continue;
        }
        let value = words
            .next()
            .ok_or_else(|| format!("{word} needs a value"))?;
        given.option(&word, &value)?;
    }
    given.plan().map(Some)
}

#[derive(Default)]
struct Given {
    address: Option<SocketAddr>,
    paths: Vec<String>,
    chain: Option<PathBuf>,
    connections: Option<usize>,
    streams: Option<usize>,
    requests: Option<u64>,
    seconds: Option<Duration>,
    warm_up: Option<Duration>,
    upload_bytes: Option<u64>,
    think: Option<Duration>,
    requests_per_connection: Option<usize>,
    tickets: Option<Tickets>,
    padding: Option<bool>,
    patience: Option<Duration>,
}

impl Given {
    /// The first one has the address, others may be paths alone.
    fn target(&mut self, word: String) -> Result<(), String> {
        let Some(rest) = word.strip_prefix("https://") else {
            self.paths.push(
                word.starts_with('/')
                    .then_some(word.clone())
                    .ok_or(format!("`{word}` is no URL and no path"))?,
            );
            return Ok(());
        };
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address = address
            .parse()
            .map_err(|_| format!("`{address}` is not an address and a port"))?;
        if self.address.is_some_and(|other| other != address) {
            return Err("one server at a time".into());
        }
        self.address = Some(address);
        self.paths.push(format!("/{path}"));
        Ok(())
    }

    fn option(&mut self, word: &str, text: &str) -> Result<(), String> {
        let seconds = || {
            number::<f64>(word, text).and_then(|number| {
                Duration::try_from_secs_f64(number).map_err(|_| wrong(word, text))
            })
        };
        match word {
            "--chain" => self.chain = Some(text.into()),
            "-c" => self.connections = Some(at_least_one(word, text)?),
            "-m" => self.streams = Some(at_least_one(word, text)?),
            "-n" => self.requests = Some(at_least_one(word, text)?),
            "-D" => self.seconds = Some(seconds()?),
            "--warm-up" => self.warm_up = Some(seconds()?),
            "--upload" => self.upload_bytes = Some(number(word, text)?),
            "--think" => self.think = Some(Duration::from_millis(number(word, text)?)),
            "--per-connection" => self.requests_per_connection = Some(at_least_one(word, text)?),
            "--patience" => self.patience = Some(seconds()?),
            "--padding" => self.padding = Some(padding(word, text)?),
            "--tickets" => self.tickets = Some(tickets(word, text)?),
            _ => return Err(format!("`{word}` is not an option; --help lists them")),
        }
        Ok(())
    }

    fn plan(self) -> Result<Plan, String> {
        let connections = self.connections.unwrap_or(1);
        let end = match (self.requests, self.seconds) {
            (Some(_), Some(_)) => return Err("-n or -D, not both".into()),
            (_, Some(counted)) => End::Time {
                warm_up: self.warm_up.unwrap_or(Duration::from_secs(1)),
                counted,
            },
            (requests, None) => End::Requests(requests.unwrap_or(connections as u64)),
        };
        Ok(Plan {
            address: self.address.ok_or("a URL is needed; --help")?,
            paths: self.paths,
            chain: self.chain.ok_or("--chain is needed")?,
            connections,
            streams: self.streams.unwrap_or(1),
            end,
            upload_bytes: self.upload_bytes,
            think: self.think.unwrap_or_default(),
            requests_per_connection: self.requests_per_connection,
            tickets: self.tickets.unwrap_or(Tickets::No),
            padding: self.padding.unwrap_or(false),
            patience: self.patience.unwrap_or(Duration::from_secs(60)),
        })
    }
}

fn tickets(word: &str, text: &str) -> Result<Tickets, String> {
    match text {
        "no" => Ok(Tickets::No),
        "resume" => Ok(Tickets::Resume),
        "early" => Ok(Tickets::EarlyData),
        _ => Err(wrong(word, text)),
    }
}

fn padding(word: &str, text: &str) -> Result<bool, String> {
    match text {
        "no" => Ok(false),
        "mtu" => Ok(true),
        _ => Err(wrong(word, text)),
    }
}

fn wrong(word: &str, text: &str) -> String {
    format!("{word}: `{text}` is not what it takes")
}

fn number<T: std::str::FromStr>(word: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| wrong(word, text))
}

fn at_least_one<T: std::str::FromStr + PartialOrd + From<u8>>(
    word: &str,
    text: &str,
) -> Result<T, String> {
    number(word, text).and_then(|number| {
        if number >= T::from(1) {
            Ok(number)
        } else {
            Err(wrong(word, text))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Plan, String> {
        parse(line.split_whitespace().map(str::to_owned)).map(|plan| plan.expect("no help"))
    }

    #[test]
    fn options() {
        let line = "-c 10 -m 5 -D 4 --warm-up 0.5 --upload 99 --think 20 --per-connection 7 --tickets early --padding mtu --patience 5 --chain c.pem \
            https://127.0.0.1:443/a /b https://127.0.0.1:443";
        let expected = Plan {
            address: SocketAddr::from(([127, 0, 0, 1], 443)),
            paths: ["/a", "/b", "/"].map(str::to_owned).to_vec(),
            chain: "c.pem".into(),
            connections: 10,
            streams: 5,
            end: End::Time {
                warm_up: Duration::from_millis(500),
                counted: Duration::from_secs(4),
            },
            upload_bytes: Some(99),
            think: Duration::from_millis(20),
            requests_per_connection: Some(7),
            tickets: Tickets::EarlyData,
            padding: true,
            patience: Duration::from_secs(5),
        };
        assert_eq!(parsed(line), Ok(expected));
        let short = parsed("-c 3 --chain c https://[::1]:443/").expect("parsed");
        assert_eq!(
            (short.end, short.streams, short.tickets),
            (End::Requests(3), 1, Tickets::No)
        );
        assert_eq!(parse(["-h".to_owned()]), Ok(None));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, complaint) in [
            ("--chain c", "a URL is needed; --help"),
            ("https://127.0.0.1:443/", "--chain is needed"),
            (
                "https://localhost/",
                "`localhost` is not an address and a port",
            ),
            (
                "https://127.0.0.1:443/ https://127.0.0.1:444/",
                "one server at a time",
            ),
            ("-c 0", "-c: `0` is not what it takes"),
            (
                "-n 1 -D 1 --chain c https://127.0.0.1:443/",
                "-n or -D, not both",
            ),
            ("--tickets some", "--tickets: `some` is not what it takes"),
            ("--padding 5", "--padding: `5` is not what it takes"),
            ("-D nan", "-D: `nan` is not what it takes"),
            ("-c", "-c needs a value"),
            ("--fast 1", "`--fast` is not an option; --help lists them"),
            ("path", "`path` is no URL and no path"),
        ] {
            assert_eq!(parsed(line), Err(complaint.to_owned()), "{line}");
        }
    }
}
