//! The load tools: wrk where connections are kept, ab where each request has its own.
//!
//! wrk prints rounded figures for people, so a script prints the exact ones. Errors of every kind are counted: a trial with an error is
//! no measurement. Absent on purpose: a load tool of our own, which nobody would have reason to trust.

use crate::rows::Tool;
use saker_testkit::require;
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

const MARK: &str = "exact-figures";

/// What a run of a tool has seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    pub requests: f64,
    pub bytes: f64,
    pub seconds: f64,
    pub errors: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub longest_us: f64,
}

#[derive(Clone, Debug)]
pub struct LoadSetting<'a> {
    pub tool: Tool,
    pub address: SocketAddr,
    pub paths: &'a [&'a str],
    pub connections: usize,
    pub seconds: u64,
    /// `None`: wherever the kernel likes.
    pub core: Option<usize>,
    /// For wrk's script.
    pub work: &'a Path,
}

impl LoadSetting<'_> {
    pub fn run(&self) -> Result<Load, String> {
        let words = self.words()?;
        let output = Command::new(&words[0]).args(&words[1..]).output().map_err(|error| format!("{}: {error}", words[0]))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let load = match self.tool {
            Tool::Wrk => parse_wrk(&said),
            Tool::Ab => parse_ab(&said),
        };
        let complaint = || format!("`{}` said:\n{said}{}", words.join(" "), String::from_utf8_lossy(&output.stderr));
        load.filter(|_| output.status.success()).ok_or_else(complaint)
    }

    /// The command, as it would be typed.
    pub fn words(&self) -> Result<Vec<String>, String> {
        let mut words = pinning(self.core)?;
        let url = format!("http://{}/{}", self.address, self.paths.first().copied().unwrap_or_default());
        let arguments = match self.tool {
            Tool::Wrk => {
                let script = self.write_script().map_err(|error| error.to_string())?.display().to_string();
                let (connections, seconds) = (format!("-c{}", self.connections), format!("-d{}s", self.seconds));
                vec!["-t1".to_owned(), connections, seconds, "--timeout=10s".to_owned(), "-s".to_owned(), script, url]
            }
            Tool::Ab => {
                let (connections, seconds) = (self.connections.to_string(), self.seconds.to_string());
                // -t alone would stop at 50,000 requests.
                ["-q", "-r", "-c", &connections, "-t", &seconds, "-n", "100000000", &url].map(str::to_owned).to_vec()
            }
        };
        words.push(require(self.tool.program())?.display().to_string());
        words.extend(arguments);
        Ok(words)
    }

    fn write_script(&self) -> std::io::Result<PathBuf> {
        let path = self.work.join(format!("wrk-{}.lua", self.paths.len()));
        fs::write(&path, script(self.paths))?;
        Ok(path)
    }
}

impl Tool {
    pub fn program(self) -> &'static str {
        match self {
            Tool::Wrk => "wrk",
            Tool::Ab => "ab",
        }
    }
}

/// What goes before a command to hold it on a core.
pub fn pinning(core: Option<usize>) -> Result<Vec<String>, String> {
    let Some(core) = core else { return Ok(Vec::new()) };
    Ok(vec![require("taskset")?.display().to_string(), "-c".into(), core.to_string()])
}

/// One path needs no `request` function: wrk is faster without one.
fn script(paths: &[&str]) -> String {
    let mut script = format!(
        "done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(\"{MARK} %d %d %d %d %d %d %d\\n\", summary.requests, summary.bytes, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99), latency.max))
end
"
    );
    if paths.len() > 1 {
        let list: Vec<String> = paths.iter().map(|path| format!("\"/{path}\"")).collect();
        script.push_str(&format!(
            "local paths, requests, n = {{ {} }}, {{}}, 0
init = function(args)
  for i, path in ipairs(paths) do requests[i] = wrk.format(\"GET\", path) end
end
request = function()
  n = n % #requests + 1
  return requests[n]
end
",
            list.join(", ")
        ));
    }
    script
}

fn parse_wrk(text: &str) -> Option<Load> {
    let line = text.lines().find_map(|line| line.strip_prefix(MARK))?;
    let figures: Vec<f64> = line.split_ascii_whitespace().map(|figure| figure.parse().ok()).collect::<Option<_>>()?;
    let &[requests, bytes, duration_us, errors, p50_us, p99_us, longest_us] = figures.as_slice() else { return None };
    Some(Load { requests, bytes, seconds: duration_us / 1e6, errors, p50_us, p99_us, longest_us })
}

fn parse_ab(text: &str) -> Option<Load> {
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_wrk() {
        let load = parse_wrk("Running 4s test\n  1 threads\nexact-figures 1000 285000 4000000 3 120 900 4100\n").expect("parsed");
        let expected =
            Load { requests: 1000.0, bytes: 285_000.0, seconds: 4.0, errors: 3.0, p50_us: 120.0, p99_us: 900.0, longest_us: 4100.0 };
        assert_eq!(load, expected);
        assert_eq!(parse_wrk("unable to connect"), None);
        assert_eq!(parse_wrk("exact-figures 1 2 3"), None);
    }

    #[test]
    fn figures_of_ab() {
        let text = "Concurrency Level:      10\nTime taken for tests:   2.500 seconds\nComplete requests:      5000\nFailed requests:        2\n\
            Non-2xx responses:      1\nTotal transferred:      2000000 bytes\n  50%      1\n  99%      4\n 100%      9 (longest request)\n";
        let expected = Load { requests: 5000.0, bytes: 2e6, seconds: 2.5, errors: 3.0, p50_us: 1000.0, p99_us: 4000.0, longest_us: 9000.0 };
        assert_eq!(parse_ab(text), Some(expected));
        assert_eq!(parse_ab("apr_socket_recv: Connection refused (111)"), None);
    }

    #[test]
    fn one_path_has_no_request_function() {
        assert!(!script(&["a"]).contains("request = function"));
        assert!(script(&["a", "b"]).contains("{ \"/a\", \"/b\" }"));
    }
}
