//! ab: a connection per request.

use super::{Load, LoadSetting, program};

pub fn words(setting: &LoadSetting<'_>) -> Result<Vec<String>, String> {
    let (connections, seconds, url) = (setting.connections.to_string(), setting.amount.seconds().to_string(), setting.url());
    // -t alone would stop at 50,000 requests.
    let arguments = ["-q", "-r", "-c", &connections, "-t", &seconds, "-n", "100000000", &url].map(str::to_owned);
    Ok([vec![program("ab")?], arguments.to_vec()].concat())
}

pub fn parse(text: &str) -> Option<Load> {
    let figure = |label: &str| {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(label))?;
        line.split_ascii_whitespace().next()?.parse::<f64>().ok()
    };
    Some(Load {
        requests: figure("Complete requests:")?,
        bytes: figure("Total transferred:")?,
        seconds: figure("Time taken for tests:")?,
        errors: figure("Failed requests:")? + figure("Non-2xx responses:").unwrap_or(0.0),
        // Whole milliseconds.
        p50_us: figure("50%").unwrap_or(0.0) * 1000.0,
        p99_us: figure("99%").unwrap_or(0.0) * 1000.0,
        longest_us: figure("100%").unwrap_or(0.0) * 1000.0,
        ..Load::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        let text = "Concurrency Level:      10\nTime taken for tests:   2.500 seconds\nComplete requests:      5000\nFailed requests:        2\n\
            Non-2xx responses:      1\nTotal transferred:      2000000 bytes\n  50%      1\n  99%      4\n 100%      9 (longest request)\n";
        let times = Load { p50_us: 1000.0, p99_us: 4000.0, longest_us: 9000.0, ..Load::default() };
        assert_eq!(parse(text), Some(Load { requests: 5000.0, bytes: 2e6, seconds: 2.5, errors: 3.0, ..times }));
        assert_eq!(parse("apr_socket_recv: Connection refused (111)"), None);
    }
}
