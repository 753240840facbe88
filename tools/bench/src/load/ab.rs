//! ab: a connection per request, or connections that are kept; for a time, or a number of requests.

use super::setting::{Load, LoadSetting};
use crate::{pinning::program, tool::Ab};

pub fn words(setting: &LoadSetting<'_>, ab: Ab) -> Result<Vec<String>, String> {
    let (connections, seconds) = (
        setting.connections.to_string(),
        setting.amount.seconds().to_string(),
    );
    let mut words = vec![program("ab")?, "-q".into(), "-r".into()];
    words.extend(ab.keep_alive.then(|| "-k".to_owned()));
    words.extend(ab.any_length.then(|| "-l".to_owned()));
    words.extend(["-c".into(), connections]);
    words.extend(match ab.requests {
        Some(requests) => vec!["-n".into(), requests.to_string()],
        // -t alone would stop at 50,000 requests.
        None => vec!["-t".into(), seconds, "-n".into(), "100000000".into()],
    });
    words.push(setting.url());
    Ok(words)
}

pub fn parse(text: &str) -> Option<Load> {
    let figure = |label: &str| {
        let line = text
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(label))?;
        line.split_ascii_whitespace().next()?.parse::<f64>().ok()
    };
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("Total:"))
        .unwrap_or_default();
    Some(Load {
        requests: figure("Complete requests:")?,
        bytes: figure("Total transferred:")?,
        seconds: figure("Time taken for tests:")?,
        errors: figure("Failed requests:")? + figure("Non-2xx responses:").unwrap_or(0.0),
        // Whole milliseconds.
        p50_us: figure("50%").unwrap_or(0.0) * 1000.0,
        p99_us: figure("99%").unwrap_or(0.0) * 1000.0,
        longest_us: figure("100%").unwrap_or(0.0) * 1000.0,
        shortest_us: total
            .split_ascii_whitespace()
            .next()
            .and_then(|least| least.parse::<f64>().ok())
            .unwrap_or(0.0)
            * 1000.0,
        ..Load::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::FEW;
    use crate::{load::Amount, tool::Tool};
    use std::{net::SocketAddr, path::Path};

    const SAID: &str = "Concurrency Level:      10\nTime taken for tests:   2.500 seconds\nComplete requests:      5000\nFailed requests:        2\n\
        \x20  (Connect: 0, Receive: 0, Length: 2, Exceptions: 0)\nNon-2xx responses:      1\nKeep-Alive requests:    5000\n\
        Total transferred:      2000000 bytes\nHTML transferred:       1000000 bytes\n\nConnection Times (ms)\n\
        \x20             min  mean[+/-sd] median   max\nConnect:        0    0   0.0      0       0\nProcessing:     0    0   0.2      0       3\n\
        Waiting:        0    0   0.2      0       3\nTotal:          3    0   0.2      0       9\n\n\
        \x20 50%      1\n  66%      1\n  99%      4\n 100%      9 (longest request)\n";

    #[test]
    fn figures() {
        let times = Load {
            p50_us: 1000.0,
            p99_us: 4000.0,
            longest_us: 9000.0,
            shortest_us: 3000.0,
            ..Load::default()
        };
        assert_eq!(
            parse(SAID),
            Some(Load {
                requests: 5000.0,
                bytes: 2e6,
                seconds: 2.5,
                errors: 3.0,
                ..times
            })
        );
        assert_eq!(parse("apr_socket_recv: Connection refused (111)"), None);
    }

    #[test]
    fn arguments() {
        let by_time = Ab {
            keep_alive: false,
            requests: None,
            any_length: false,
        };
        let said = |ab: Ab| {
            let setting = LoadSetting {
                tool: Tool::Ab(ab),
                address: SocketAddr::from(([127, 0, 0, 1], 80)),
                paths: &["a"],
                connections: 10,
                amount: Amount::Seconds(2),
                core: None,
                network: None,
                work: Path::new("/w"),
                tls: None,
            };
            words(&setting, ab)
                .expect("ab is there")
                .get(1..)
                .expect("arguments")
                .join(" ")
        };
        assert_eq!(
            said(by_time),
            "-q -r -c 10 -t 2 -n 100000000 http://127.0.0.1:80/a"
        );
        assert_eq!(by_time.few(2000).requests, Some(2000));
        let by_number = Ab {
            keep_alive: true,
            requests: Some(100),
            any_length: true,
        };
        assert_eq!(
            said(by_number),
            "-q -r -k -l -c 10 -n 100 http://127.0.0.1:80/a"
        );
        assert_eq!(
            (by_time.few(10).requests, by_number.few(4).requests),
            (Some(FEW), Some(10))
        );
    }
}
