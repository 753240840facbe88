//! h2load: HTTP/2 over TLS and, with `--h1`, keep-alive HTTP/1.1 over TLS.
//!
//! wrk would load its core a few percent less, but counts its handshakes as part of the requests
//! and leaves the cipher to the server. Here the client offers one cipher and everybody is measured
//! with it. A run in another protocol than the row's is no measurement. Absent on purpose:
//! percentiles, which it tells only by a log line per request.

use super::setting::{Amount, Load, LoadSetting};
use crate::{pinning::program, tls_client, tool::Tool};
use std::fs;

/// Connections that shake hands in a second of warm-up, with room.
const CONNECTIONS_PER_S: usize = 500;

pub fn words(setting: &LoadSetting<'_>, streams: usize) -> Result<Vec<String>, String> {
    let list = setting
        .work
        .join(format!("uris-{}.txt", setting.paths.len()));
    let uris: Vec<String> = setting
        .paths
        .iter()
        .map(|path| setting.url_of(path))
        .collect();
    fs::write(&list, uris.join("\n")).map_err(|error| format!("{}: {error}", list.display()))?;
    let mut words = vec![
        program("h2load")?,
        "-t1".into(),
        format!("-c{}", setting.connections),
        format!("-m{streams}"),
    ];
    words.extend(match setting.amount {
        Amount::Seconds(seconds) => {
            let warm_up_s = 1 + setting.connections / CONNECTIONS_PER_S;
            [
                format!("--warm-up-time={warm_up_s}"),
                "-D".into(),
                seconds.to_string(),
            ]
            .to_vec()
        }
        Amount::Requests(requests) => ["-n".into(), requests.to_string()].to_vec(),
    });
    words.push(format!("--tls13-ciphers={}", tls_client::CIPHER_SUITE));
    if setting.tool == Tool::H1load {
        words.push("--h1".into());
    }
    words.extend(["-i".into(), list.display().to_string()]);
    Ok(words)
}

pub fn parse(setting: &LoadSetting<'_>, text: &str) -> Option<Load> {
    let protocol = if setting.tool == Tool::H1load {
        "http/1.1"
    } else {
        "h2"
    };
    let agreed = [
        ("TLS Protocol: ", "TLSv1.3"),
        ("Cipher: ", tls_client::CIPHER_SUITE),
        ("Application protocol: ", protocol),
    ];
    if agreed
        .iter()
        .any(|(label, wanted)| rest_of_line(text, label) != Some(wanted))
    {
        return None;
    }
    let requests = rest_of_line(text, "requests: ")?;
    let codes = rest_of_line(text, "status codes: ")?;
    let bytes = rest_of_line(text, "traffic: ")?
        .split_once('(')?
        .1
        .split_once(')')?
        .0;
    let done = before(requests, "done")?;
    let failures =
        before(requests, "failed")? + before(requests, "errored")? + before(requests, "timeout")?;
    let not_2xx = before(codes, "3xx")? + before(codes, "4xx")? + before(codes, "5xx")?;
    Some(Load {
        requests: done,
        bytes: bytes.parse().ok()?,
        seconds: match setting.amount {
            Amount::Seconds(seconds) => seconds as f64,
            Amount::Requests(_) => {
                microseconds(rest_of_line(text, "finished in ")?.split(',').next()?)? / 1e6
            }
        },
        errors: failures.max(not_2xx) + clients_lost(setting, text),
        longest_us: microseconds(
            rest_of_line(text, "time for request:")?
                .split_ascii_whitespace()
                .nth(1)?,
        )?,
        ..Load::default()
    })
}

/// A client whose handshake fails makes no request that could be counted as an error.
fn clients_lost(setting: &LoadSetting<'_>, text: &str) -> f64 {
    let rates = rest_of_line(text, "req/s           :")
        .and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<f64>().ok());
    // The slowest client finished nothing. With a file that takes a good part of the time that
    // proves nothing.
    let silent = setting.paths != [saker_testkit::bench_files::HUGE]
        && rates.is_none_or(|slowest| slowest <= 0.0);
    if silent { 1.0 } else { 0.0 }
}

fn rest_of_line<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(label))
}

/// The number before a word: `12 done, 3 failed`.
fn before(text: &str, word: &str) -> Option<f64> {
    text.split(", ")
        .find_map(|part| part.strip_suffix(word)?.trim().parse().ok())
}

/// `79us`, `2.36ms`, `1.02s`.
fn microseconds(text: &str) -> Option<f64> {
    let (number, factor) = match (text.strip_suffix("us"), text.strip_suffix("ms")) {
        (Some(number), _) => (number, 1.0),
        (_, Some(number)) => (number, 1e3),
        _ => (text.strip_suffix('s')?, 1e6),
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::SocketAddr, path::Path};

    const SAID: &str = "TLS Protocol: TLSv1.3\nCipher: TLS_AES_128_GCM_SHA256\nServer Temp Key: X25519 253 bits\nApplication protocol: h2\n\
        finished in 3.00s, 95107.50 req/s, 26.12MB/s\n\
        requests: 190215 total, 190225 started, 190215 done, 190213 succeeded, 2 failed, 1 errored, 0 timeout\n\
        status codes: 190213 2xx, 0 3xx, 2 4xx, 0 5xx\n\
        traffic: 52.24MB (54781920) total, 28.94MB (30348410) headers (space savings 39.20%), 44.09MB (46231690) data\n\
        time for request:      179us     22.05ms     10.37ms      2.48ms    89.20%\n\
        req/s           :    9441.52     9591.88     9508.99       52.10    60.00%\n";

    fn setting(tool: Tool) -> LoadSetting<'static> {
        let address = SocketAddr::from(([127, 0, 0, 1], 443));
        LoadSetting {
            tool,
            address,
            paths: &["a"],
            connections: 10,
            amount: Amount::Seconds(2),
            core: None,
            network: None,
            work: Path::new("/w"),
            tls: None,
        }
    }

    #[test]
    fn figures() {
        let h2 = setting(Tool::H2load { streams: 10 });
        let expected = Load {
            requests: 190_215.0,
            bytes: 54_781_920.0,
            seconds: 2.0,
            errors: 3.0,
            longest_us: 22_050.0,
            ..Load::default()
        };
        assert_eq!(parse(&h2, SAID), Some(expected));
        let by_number = LoadSetting {
            amount: Amount::Requests(190_215),
            ..h2
        };
        assert_eq!(parse(&by_number, SAID).expect("parsed").seconds, 3.0);
        let one_silent = SAID.replace("9441.52", "0.00");
        assert_eq!(parse(&h2, &one_silent).expect("parsed").errors, 4.0);
    }

    #[test]
    fn another_protocol_or_cipher_is_no_measurement() {
        assert_eq!(parse(&setting(Tool::H1load), SAID), None);
        let h2 = setting(Tool::H2load { streams: 10 });
        assert_eq!(parse(&h2, &SAID.replace("TLSv1.3", "TLSv1.2")), None);
        assert_eq!(
            parse(&h2, &SAID.replace("TLS_AES_128", "TLS_AES_256")),
            None
        );
        assert_eq!(parse(&h2, ""), None);
    }

    #[test]
    fn durations() {
        assert_eq!(
            ["79us", "2.5ms", "1.5s", "x"].map(microseconds),
            [Some(79.0), Some(2_500.0), Some(1_500_000.0), None]
        );
    }
}
