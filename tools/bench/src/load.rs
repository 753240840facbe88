//! The load tools: wrk, ab and siege, h2load and httperf over TLS, and our own for handshakes and
//! HTTP/3.
//!
//! The one difficulty is when to read the server's CPU time. wrk and ab count from their first
//! connection to their last, so their whole run counts, after a warm-up by another run. Over TLS
//! that would count a thousand handshakes as requests: h2load and our own warm up themselves and
//! say when counting begins and ends. Errors of every kind are counted: a trial with an error is no
//! measurement.

mod ab;
mod h2load;
mod h3load;
mod httperf;
mod own;
mod setting;
mod siege;
mod wrk;

use crate::{
    pinning::{pinning, program},
    tool::Tool,
};
use setting::exact_figures;
pub use setting::{
    Amount, COUNTING_BEGINS, COUNTING_ENDS, EXACT_FIGURES, Load, LoadSetting, VERIFIED,
};
use std::{
    io::{self, BufRead, BufReader},
    path::Path,
    process::{Command, ExitStatus},
    time::Duration,
};

const WARM_UP_S: u64 = 1;

impl LoadSetting<'_> {
    /// `cpu` tells the server's CPU time so far.
    pub fn run(&self, cpu: impl Fn() -> Duration) -> Result<Load, String> {
        let attempts = if matches!(self.tool, Tool::Siege { .. }) {
            siege::ATTEMPTS
        } else {
            1
        };
        let mut outcome = self.attempt(&cpu);
        for _ in 1..attempts {
            let Err(complaint) = &outcome else { break };
            eprintln!("saker-bench: once more: {complaint}");
            outcome = self.attempt(&cpu);
        }
        outcome
    }

    /// So that files are open and caches filled: a moment of the same, or a few requests where they
    /// can be counted.
    pub fn warm_up(&self, cpu: impl Fn() -> Duration) -> Result<(), String> {
        let tool = match self.tool {
            Tool::Ab(ab) => Tool::Ab(ab.few(self.connections)),
            other => other,
        };
        LoadSetting {
            tool,
            amount: Amount::Seconds(WARM_UP_S),
            ..*self
        }
        .run(cpu)
        .map(drop)
    }

    fn attempt(&self, cpu: impl Fn() -> Duration) -> Result<Load, String> {
        let words = self.words()?;
        let run = watch(&bounded(&words, self.amount), cpu)
            .map_err(|error| format!("{}: {error}", words[0]))?;
        let load = match self.tool {
            Tool::Wrk | Tool::WrkGzip | Tool::WrkLoggedIn { .. } | Tool::H3load { .. } => {
                exact_figures(&run.said)
            }
            Tool::Ab(_) => ab::parse(&run.said),
            Tool::Siege { .. } => {
                siege::parse(&run.said).filter(|load| siege::is_whole(self, load))
            }
            Tool::Httperf => httperf::parse(&run.said),
            Tool::H2load { .. } | Tool::H1load => h2load::parse(self, &run.said),
            Tool::Handshakes { .. } => own::parse(&run.said),
        };
        let complaint = || format!("`{}` said:\n{}", words.join(" "), run.said);
        let load = load
            .filter(|_| run.status.success())
            .ok_or_else(complaint)?;
        if load.errors > 0.0 {
            eprintln!("saker-bench: {}", complaint());
        }
        Ok(Load {
            cpu: run.cpu,
            ..load
        })
    }

    /// The command, as it would be typed.
    pub fn words(&self) -> Result<Vec<String>, String> {
        Ok([
            entering(self.network)?,
            pinning(self.core)?,
            self.own_words()?,
        ]
        .concat())
    }

    /// A row may have more than one tool: the first command of each is put down.
    pub fn note(&self, commands: &mut String) -> Result<(), String> {
        let is_new = self
            .own_words()?
            .first()
            .is_some_and(|program| !commands.contains(program));
        if is_new {
            *commands = format!(
                "{commands}{}{}",
                if commands.is_empty() { "" } else { "\n" },
                self.words()?.join(" ")
            );
        }
        Ok(())
    }

    fn own_words(&self) -> Result<Vec<String>, String> {
        match self.tool {
            Tool::Wrk => wrk::words(self, &[]),
            Tool::WrkGzip => wrk::words(self, &["-H", "Accept-Encoding: gzip"]),
            Tool::WrkLoggedIn { .. } => wrk::words(self, &[]),
            Tool::Ab(ab) => ab::words(self, ab),
            Tool::Siege { parser } => siege::words(self, parser),
            Tool::Httperf => httperf::words(self),
            Tool::H2load { streams } => h2load::words(self, streams),
            Tool::H1load => h2load::words(self, 1),
            Tool::Handshakes { resumed } => own::words(self, resumed),
            Tool::H3load { streams, .. } => h3load::words(self, streams),
        }
    }
}

/// Words before a command that run it in another network.
fn entering(network: Option<&Path>) -> Result<Vec<String>, String> {
    let Some(network) = network else {
        return Ok(Vec::new());
    };
    Ok(vec![
        program("nsenter")?,
        format!("--net={}", network.display()),
    ])
}

/// Beyond its time a tool has this long to start, to finish and to count.
const GRACE_S: u64 = 30;

/// Time limit of loads with a number of requests, whose duration is unknown; a million requests
/// over a link take two minutes.
const BY_NUMBER_S: u64 = 400;

/// A tool that never ends would hold up everything.
fn bounded(words: &[String], amount: Amount) -> Vec<String> {
    let seconds = match amount {
        Amount::Seconds(seconds) => seconds + GRACE_S,
        Amount::Requests(_) => BY_NUMBER_S,
    };
    let limit = ["timeout", "--foreground", "-k", "2", &seconds.to_string()].map(str::to_owned);
    [&limit[..], words].concat()
}

struct Run {
    said: String,
    cpu: Duration,
    status: ExitStatus,
}

/// Runs it to its end. CPU time counts from the start, or from where the tool says that it counts.
fn watch(words: &[String], cpu: impl Fn() -> Duration) -> io::Result<Run> {
    let (reader, writer) = io::pipe()?;
    let mut begin = cpu();
    let mut end = None;
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    let mut said = String::new();
    for line in BufReader::new(reader).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        if line.starts_with(COUNTING_BEGINS) {
            begin = cpu();
        } else if line.starts_with(COUNTING_ENDS) {
            end = Some(cpu());
        }
        said = said + &line + "\n";
    }
    let status = child.wait()?;
    Ok(Run {
        said,
        cpu: end.unwrap_or_else(cpu).saturating_sub(begin),
        status,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn figures_in_our_own_line() {
        let load = exact_figures(
            "Running 4s test\n  1 threads\nexact-figures 1000 285000 4000000 3 120 900 4100\n",
        )
        .expect("parsed");
        let times = Load {
            p50_us: 120.0,
            p99_us: 900.0,
            longest_us: 4100.0,
            ..Load::default()
        };
        assert_eq!(
            load,
            Load {
                requests: 1000.0,
                bytes: 285_000.0,
                seconds: 4.0,
                errors: 3.0,
                ..times
            }
        );
        assert_eq!(exact_figures("unable to connect"), None);
        assert_eq!(exact_figures("exact-figures 1 2 3"), None);
    }

    #[test]
    fn a_tool_that_never_ends_is_ended() {
        let words = ["sleep".to_owned(), "1000".to_owned()];
        assert_eq!(
            bounded(&words, Amount::Requests(1))[..5],
            ["timeout", "--foreground", "-k", "2", "400"]
        );
        assert_eq!(
            bounded(&words, Amount::Seconds(2)),
            ["timeout", "--foreground", "-k", "2", "32", "sleep", "1000"]
        );
        let ended = ["timeout", "--foreground", "0.1", "sleep", "1000"].map(str::to_owned);
        assert!(
            !watch(&ended, || Duration::ZERO)
                .expect("ran")
                .status
                .success()
        );
    }

    /// A clock that has gone on by a second whenever it is asked.
    fn cpu_of(script: &str) -> Duration {
        let clock = Cell::new(0);
        let cpu = || Duration::from_secs(clock.replace(clock.get() + 1));
        watch(&["sh".into(), "-c".into(), script.to_owned()], cpu)
            .expect("ran")
            .cpu
    }

    #[test]
    fn cpu_time_counts_between_the_marks_of_a_tool_that_makes_them() {
        assert_eq!(cpu_of("echo nothing"), Duration::from_secs(1));
        let marks = format!(
            "echo {COUNTING_BEGINS} now; echo {COUNTING_BEGINS} again >&2; echo {COUNTING_ENDS}; echo more"
        );
        assert_eq!(cpu_of(&marks), Duration::from_secs(1));
        assert_eq!(
            cpu_of(&format!("echo {COUNTING_BEGINS}; echo died")),
            Duration::from_secs(1)
        );
    }
}
