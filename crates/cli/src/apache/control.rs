//! `-k` and apachectl: finds the running server by its pid file and signals it.
//!
//! Called by: `main`.

use super::arguments::Request;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::{fs, path::Path, process::ExitCode, thread, time::Duration};

/// The process that the file names, if it is there.
pub fn running(file: &Path) -> Option<i32> {
    let number: i32 = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    let pid = Pid::from_raw(number)?;
    // A process of another user exists as well.
    let is_there = !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH));
    is_there.then_some(number)
}

/// Signals the running server. `None`: none is running, and the request begins with a start.
pub fn signal(request: Request, file: Option<&Path>) -> Option<ExitCode> {
    let pid = file.and_then(running);
    let Some(pid) = pid.and_then(Pid::from_raw) else {
        return match request {
            Request::Restart | Request::Graceful => {
                println!("httpd not running, trying to start");
                None
            }
            Request::Stop | Request::GracefulStop => {
                println!("httpd (no pid file) not running");
                Some(ExitCode::SUCCESS)
            }
        };
    };
    let signal = match request {
        Request::Restart => Signal::HUP,
        Request::Graceful => Signal::USR1,
        Request::Stop => Signal::TERM,
        Request::GracefulStop => Signal::WINCH,
    };
    match kill_process(pid, signal) {
        Ok(()) => {
            if request == Request::Stop {
                wait_for_end(pid);
            }
            Some(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("sending signal to server: {error}");
            Some(ExitCode::FAILURE)
        }
    }
}

/// Scripts start again at once, and the port has to be free by then.
fn wait_for_end(pid: Pid) {
    for _ in 0..100 {
        if test_kill_process(pid).is_err() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// apachectl's words as arguments of httpd; others go through as they are.
pub fn translated(words: &[String]) -> Vec<String> {
    let arguments: &[&str] = match words.first().map(String::as_str) {
        Some("start") => &["-k", "start"],
        Some("stop") => &["-k", "stop"],
        Some("restart") => &["-k", "restart"],
        Some("graceful") => &["-k", "graceful"],
        Some("graceful-stop") => &["-k", "graceful-stop"],
        Some("configtest") => &["-t"],
        None | Some("help" | "--help" | "usage") => &["-h"],
        Some(_) => return words.to_vec(),
    };
    let rest = words.iter().skip(1).cloned();
    arguments
        .iter()
        .map(|word| (*word).to_owned())
        .chain(rest)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_apachectl() {
        let words = |line: &str| {
            line.split_ascii_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(translated(&words("graceful")), ["-k", "graceful"]);
        assert_eq!(translated(&words("configtest")), ["-t"]);
        assert_eq!(translated(&words("-S -D X")), ["-S", "-D", "X"]);
        assert_eq!(translated(&[]), ["-h"]);
    }
}
