//! httperf: a connection per request, one after the other, with a full TLS handshake each.
//!
//! It knows no time, only a number of connections. What it can't do is ask for more than one at
//! once without a rate of its own choosing, which measures whether a server keeps up and not what
//! it can: rows with many at a time use our own handshakes. Absent on purpose: percentiles, of
//! which it tells the median alone.

use super::setting::{Load, LoadSetting};
use crate::pinning::program;

/// Full handshakes that a core makes in a second, roughly.
const CONNECTIONS_PER_S: u64 = 400;

pub fn words(setting: &LoadSetting<'_>) -> Result<Vec<String>, String> {
    let (host, port) = (
        setting.address.ip().to_string(),
        setting.address.port().to_string(),
    );
    let path = format!("/{}", setting.paths.first().copied().unwrap_or_default());
    let count = (setting.amount.seconds().max(1) * CONNECTIONS_PER_S).to_string();
    let words = [
        "--hog",
        "--ssl",
        "--ssl-no-reuse",
        "--server",
        &host,
        "--port",
        &port,
        "--uri",
        &path,
        "--num-conns",
        &count,
    ];
    Ok([vec![program("httperf")?], words.map(str::to_owned).to_vec()].concat())
}

pub fn parse(text: &str) -> Option<Load> {
    let line = |label: &str| text.lines().find_map(|line| line.strip_prefix(label));
    let total = line("Total: ")?;
    let replies = after(total, "replies")?;
    let times = line("Connection time [ms]: min")?;
    let sizes = line("Reply size [B]: ")?;
    let bytes_of_reply = after(sizes, "(total")?;
    let status = line("Reply status: ")?;
    let failed = after(line("Errors: total")?, "")?
        + ["1xx=", "3xx=", "4xx=", "5xx="]
            .iter()
            .filter_map(|kind| at(status, kind))
            .sum::<f64>();
    Some(Load {
        requests: replies,
        bytes: replies * bytes_of_reply,
        seconds: after(total, "test-duration")?,
        // A connection without a reply was not served.
        errors: failed.max(after(total, "connections")? - replies),
        p50_us: after(times, "median")? * 1e3,
        longest_us: after(times, "max")? * 1e3,
        ..Load::default()
    })
}

/// The number that follows a word and spaces.
fn after(text: &str, word: &str) -> Option<f64> {
    let rest = text.split_once(word)?.1;
    rest.trim_start().split([' ', ')']).next()?.parse().ok()
}

/// The number that follows immediately.
fn at(text: &str, label: &str) -> Option<f64> {
    text.split_once(label)?.1.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "httperf --hog --client=0/1 --server=127.0.0.1 --port=8099 --uri=/index.html --num-conns=500 --num-calls=1\n\
        Maximum connect burst length: 1\n\nTotal: connections 500 requests 500 replies 499 test-duration 0.096 s\n\n\
        Connection rate: 5182.0 conn/s (0.2 ms/conn, <=1 concurrent connections)\n\
        Connection time [ms]: min 0.0 avg 0.2 max 6.5 median 0.5 stddev 0.7\nConnection time [ms]: connect 0.0\n\
        Connection length [replies/conn]: 1.000\n\nRequest rate: 5182.0 req/s (0.2 ms/req)\nRequest size [B]: 72.0\n\n\
        Reply rate [replies/s]: min 0.0 avg 0.0 max 0.0 stddev 0.0 (0 samples)\nReply time [ms]: response 0.2 transfer 0.0\n\
        Reply size [B]: header 226.0 content 133.0 footer 0.0 (total 359.0)\nReply status: 1xx=0 2xx=496 3xx=0 4xx=2 5xx=1\n\n\
        CPU time [s]: user 0.02 system 0.06 (user 21.6% system 58.4% total 80.0%)\nNet I/O: 2181.1 KB/s (17.9*10^6 bps)\n\n\
        Errors: total 1 client-timo 0 socket-timo 0 connrefused 0 connreset 1\nErrors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0\n";

    #[test]
    fn figures() {
        let times = Load {
            p50_us: 500.0,
            longest_us: 6_500.0,
            ..Load::default()
        };
        let expected = Load {
            requests: 499.0,
            bytes: 499.0 * 359.0,
            seconds: 0.096,
            errors: 4.0,
            ..times
        };
        assert_eq!(parse(SAID), Some(expected));
        assert_eq!(
            parse("httperf: failed to connect to SSL server (err=-1, reason=5)"),
            None
        );
    }

    #[test]
    fn connections_without_replies_are_errors() {
        let said = SAID.replace("replies 499", "replies 100");
        assert_eq!(parse(&said).expect("parsed").errors, 400.0);
    }
}
