//! siege: simulated users that keep their connections and go through a list of URLs, with the parts
//! of each page when its parser is on.
//!
//! Caveat: all settings are in a file of ours, so that `~/.siege` does not matter. Pages are
//! requested uncompressed, since servers differ in what they compress. At the end of its time it
//! cancels its users; rarely, on a busy machine, it then hangs, or has counted next to nothing, and
//! the run is repeated. The run ends at a full second of the clock, so one second is added to the
//! requested time.
//! Out of scope: percentiles, which siege does not report; its longest transaction has a resolution
//! of 10 ms.

use super::setting::{Load, LoadSetting};
use crate::pinning::program;
use std::{fs, path::PathBuf};

pub const ATTEMPTS: usize = 3;
const MEBIBYTE: f64 = 1_048_576.0;

/// `has_parser`: what a page names (images, style sheets, scripts) is fetched after it and counted,
/// too.
pub fn words(setting: &LoadSetting<'_>, has_parser: bool) -> Result<Vec<String>, String> {
    let kind = if has_parser { "parser" } else { "plain" };
    let settings = write(
        setting,
        &format!("siege-{kind}.conf"),
        &settings(has_parser),
    )?;
    let urls: Vec<String> = setting
        .paths
        .iter()
        .map(|path| setting.url_of(path))
        .collect();
    let list = write(
        setting,
        &format!("siege-{}.urls", urls.len()),
        &(urls.join("\n") + "\n"),
    )?;
    let (connections, time) = (
        format!("-c{}", setting.connections),
        format!("-t{}S", setting.amount.seconds() + 1),
    );
    let words = [
        "-R",
        &settings.display().to_string(),
        "-b",
        &connections,
        &time,
        "-f",
        &list.display().to_string(),
    ]
    .map(str::to_owned);
    Ok([vec![program("siege")?], words.to_vec()].concat())
}

fn write(setting: &LoadSetting<'_>, name: &str, text: &str) -> Result<PathBuf, String> {
    let path = setting.work.join(name);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

fn settings(has_parser: bool) -> String {
    format!(
        "verbose = false\ncolor = off\nquiet = false\njson_output = true\nshow-logfile = false\nlogging = false\nparser = {has_parser}\n\
         protocol = HTTP/1.1\nchunked = true\ncache = false\nconnection = keep-alive\nbenchmark = true\naccept-encoding = identity\n\
         url-escaping = false\nunique = true\nlimit = 1000\n"
    )
}

/// It counts what ended as an error of HTTP neither as failed nor as successful.
pub fn parse(text: &str) -> Option<Load> {
    let figure = |label: &str| {
        let line = text.lines().find_map(|line| {
            line.trim_start_matches(['{', '\t', ' '])
                .strip_prefix(&format!("\"{label}\":"))
        })?;
        line.trim().trim_end_matches(',').parse::<f64>().ok()
    };
    let (transactions, successful) = (figure("transactions")?, figure("successful_transactions")?);
    Some(Load {
        requests: transactions,
        bytes: figure("data_transferred")? * MEBIBYTE,
        seconds: figure("elapsed_time")?,
        errors: figure("failed_transactions")? + (transactions - successful).max(0.0),
        longest_us: figure("longest_transaction")? * 1e6,
        ..Load::default()
    })
}

/// Each visitor has been served, and for a good part of the time that was asked for.
pub fn is_whole(setting: &LoadSetting<'_>, load: &Load) -> bool {
    load.requests >= setting.connections as f64
        && load.seconds * 4.0 >= setting.amount.seconds() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{load::Amount, tool::Tool};
    use std::{net::SocketAddr, path::Path};

    const SAID: &str = "\n{\t\"transactions\":\t\t\t       15282,\n\t\"availability\":\t\t\t      100.00,\n\t\"elapsed_time\":\t\t\t        1.97,\n\
        \t\"data_transferred\":\t\t        4.50,\n\t\"response_time\":\t\t        0.00,\n\t\"transaction_rate\":\t\t     7757.36,\n\
        \t\"throughput\":\t\t\t        2.44,\n\t\"concurrency\":\t\t\t        9.75,\n\t\"successful_transactions\":\t       15280,\n\
        \t\"failed_transactions\":\t\t           1,\n\t\"longest_transaction\":\t\t        0.07,\n\t\"shortest_transaction\":\t\t        0.00\n}\n";

    #[test]
    fn figures() {
        let load = parse(SAID).expect("parsed");
        let expected = Load {
            requests: 15_282.0,
            bytes: 4.5 * MEBIBYTE,
            seconds: 1.97,
            errors: 3.0,
            ..Load::default()
        };
        assert_eq!(
            Load {
                longest_us: 0.0,
                ..load.clone()
            },
            expected
        );
        assert_eq!(load.longest_us.round(), 70_000.0);
        assert_eq!(parse("siege aborted due to excessive socket failure"), None);
    }

    #[test]
    fn a_run_that_counted_next_to_nothing_is_none() {
        let setting = LoadSetting {
            tool: Tool::Siege { parser: false },
            address: SocketAddr::from(([127, 0, 0, 1], 80)),
            paths: &["a"],
            connections: 25,
            amount: Amount::Seconds(2),
            core: None,
            network: None,
            work: Path::new("/w"),
            tls: None,
        };
        let load = |requests: f64, seconds: f64| Load {
            requests,
            seconds,
            ..Load::default()
        };
        assert!(is_whole(&setting, &load(5000.0, 1.9)));
        assert!(!is_whole(&setting, &load(0.0, 1.9)) && !is_whole(&setting, &load(5000.0, 0.4)));
    }

    #[test]
    fn the_parser_is_a_setting() {
        assert!(
            settings(true).contains("\nparser = true\n")
                && settings(false).contains("\nparser = false\n")
        );
    }
}
