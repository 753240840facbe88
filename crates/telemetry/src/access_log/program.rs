//! Log programs: `|command arguments` receives the lines on its standard input, like Apache's piped
//! logs.
//!
//! Called by: a [`QueueWriter`](crate::queue_writer::QueueWriter), whose thread is the only one
//! that waits here.
//! Caveat: programs end. A program is restarted, with increasing delays, and receives the
//! interrupted line again from its start. Another process (the broker) may start programs instead
//! ([`start_programs_with`]); then they are not children of this process, and only their pipe shows
//! that they ended.
//! Out of scope: restarting the program on reopen; it is not notified, and rotates as it likes.

use crate::message;
use crate::queue_writer::{Outlet, Stalled};
use crate::report;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Starts a command, and returns the other end of its standard input. `None`: not responsible.
type StartProgram = Box<dyn Fn(&str) -> Option<io::Result<OwnedFd>> + Send + Sync>;

static START_PROGRAM: OnceLock<StartProgram> = OnceLock::new();

/// Installs the function that is tried first from now on. Only the first call counts.
pub fn start_programs_with(
    start_program: impl Fn(&str) -> Option<io::Result<OwnedFd>> + Send + Sync + 'static,
) {
    let _ = START_PROGRAM.set(Box::new(start_program));
}

#[derive(Debug)]
pub(crate) struct Program {
    command: String,
    running: Option<Running>,
    retry: Duration,
}

#[derive(Debug)]
struct Running {
    /// `None`: the broker has started it.
    child: Option<Child>,
    input: ChildStdin,
    since: Instant,
}

impl Program {
    pub(crate) fn start(command: &str) -> io::Result<Program> {
        Ok(Program {
            command: command.to_owned(),
            running: Some(Running::start(command)?),
            retry: RETRY_MIN,
        })
    }

    fn restart(&mut self) -> Result<(), Duration> {
        match Running::start(&self.command) {
            Ok(running) => {
                self.running = Some(running);
                Ok(())
            }
            Err(error) => {
                report::log(
                    &message::LOG_PROGRAM_FAILED,
                    format_args!("{}: {error}", self.command),
                );
                Err(self.lengthen_retry())
            }
        }
    }

    /// The program has gone: buries it and says when to start it again.
    fn ended(&mut self, error: &io::Error) -> Duration {
        let status = self.running.take().map(|running| {
            if running.since.elapsed() > RETRY_MAX {
                self.retry = RETRY_MIN;
            }
            running.end()
        });
        report::log(
            &message::LOG_PROGRAM_ENDED,
            format_args!("{}: {error}{}", self.command, status.unwrap_or_default()),
        );
        self.lengthen_retry()
    }

    fn lengthen_retry(&mut self) -> Duration {
        let retry = self.retry;
        self.retry = (retry * 2).min(RETRY_MAX);
        retry
    }
}

impl Outlet for Program {
    fn write_lines(&mut self, lines: &[u8]) -> Result<(), Stalled> {
        if self.running.is_none() {
            self.restart().map_err(|retry| Stalled {
                written_bytes: 0,
                retry,
            })?;
        }
        let Some(running) = &mut self.running else {
            return Err(Stalled {
                written_bytes: 0,
                retry: RETRY_MIN,
            });
        };
        running.write(lines).map_err(|(sent, error)| {
            let whole = lines
                .get(..sent)
                .and_then(|sent| sent.iter().rposition(|byte| *byte == b'\n'))
                .map_or(0, |at| at + 1);
            Stalled {
                written_bytes: whole,
                retry: self.ended(&error),
            }
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Its input ends; it may take its time to finish, which only this thread waits for.
        if let Some(Running { child, input, .. }) = self.running.take() {
            drop(input);
            let _ = child.map(|mut child| child.wait());
        }
    }
}

impl Running {
    fn start(command: &str) -> io::Result<Running> {
        if let Some(started) = START_PROGRAM
            .get()
            .and_then(|start_program| start_program(command))
        {
            return started.map(|input| Running {
                child: None,
                input: input.into(),
                since: Instant::now(),
            });
        }
        let mut child = log_program(command)?.stdin(Stdio::piped()).spawn()?;
        match child.stdin.take() {
            Some(input) => Ok(Running {
                child: Some(child),
                input,
                since: Instant::now(),
            }),
            None => Err(io::Error::other("the program has no standard input")),
        }
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), (usize, io::Error)> {
        let mut sent = 0;
        while sent < lines.len() {
            match self.input.write(&lines[sent..]) {
                Ok(0) => return Err((sent, io::ErrorKind::WriteZero.into())),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err((sent, error)),
            }
        }
        Ok(())
    }

    fn end(self) -> String {
        drop(self.input);
        let Some(mut child) = self.child else {
            return String::new();
        };
        // A program that closed its input and lives on is useless.
        let _ = child.kill();
        child
            .wait()
            .map_or_else(|_| String::new(), |status| format!(" ({status})"))
    }
}

/// Builds the command, like Apache: plain and with a second bar the program itself, with a dollar
/// sign through a shell.
pub fn log_program(text: &str) -> io::Result<Command> {
    let text = text.trim();
    if let Some(script) = text.strip_prefix('$') {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script);
        return Ok(command);
    }
    let words = words(text.strip_prefix('|').unwrap_or(text));
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no program is named"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Splits at white space outside single and double quotes.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in text.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_words() {
        assert_eq!(
            words(r#" /bin/rotate  -l "a b"c '' "#),
            ["/bin/rotate", "-l", "a bc", ""]
        );
        assert!(words("  ").is_empty());
        assert_eq!(
            log_program(" ").map(|_| ()).map_err(|error| error.kind()),
            Err(io::ErrorKind::InvalidInput)
        );
        assert_eq!(
            log_program("|/bin/cat x").expect("command").get_program(),
            "/bin/cat"
        );
        assert_eq!(
            log_program("$cat >x").expect("command").get_program(),
            "/bin/sh"
        );
    }

    #[test]
    fn a_program_that_is_not_there() {
        assert!(Program::start("/nonexistent/program").is_err());
    }

    #[test]
    fn a_program_that_ends_is_started_again_later_each_time() {
        let mut program = Program::start("/bin/true").expect("start");
        let mut retries = Vec::new();
        // The first write may still find the pipe open; the lines fill any pipe in the end.
        let lines = b"line\n".repeat(40_000);
        while retries.len() < 3 {
            if let Err(stalled) = program.write_lines(&lines) {
                assert_eq!(
                    stalled.written_bytes % 5,
                    0,
                    "only whole lines count as written"
                );
                retries.push(stalled.retry.as_secs());
            }
        }
        assert_eq!(retries, [1, 2, 4]);
    }
}
