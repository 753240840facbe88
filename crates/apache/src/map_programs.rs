//! Programs of RewriteMap: kept running, a key per line in and a value per line out, one question
//! at a time.
//!
//! Workers never wait for them: the threads of `blocking` ask, and the rules are run again when the
//! answer is there. Difficulty: a program that dies is started again, one that does not answer is
//! ended, and after either the answer to one question must never be taken for another's. Answers
//! live for a second, because the rules that asked have to find them; so a program is asked less
//! often than Apache would.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use saker_net::{
    blocking::{Answer, Answers, Pool},
    program::{self, Errors, start_command},
};
use std::{
    collections::HashMap,
    env,
    fs::File,
    io::{Read, Write},
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

const ANSWER_BYTES_MAX: usize = 64 << 10;

const KEPT_MAX: usize = 4096;

const KEPT_FOR: Duration = Duration::from_secs(1);

/// The command, and what it is asked.
type Question = (Arc<[String]>, Box<[u8]>);

/// Threads that wait for the answers.
static POOL: Pool = Pool::new("map programs");

static ANSWERS: Answers<Question, Option<Vec<u8>>> = Answers::new(&POOL, KEPT_MAX, KEPT_FOR);

/// The place of a program while it runs; the thread that asks it holds the lock.
type Place = Arc<Mutex<Option<Program>>>;

/// By their commands.
static PROGRAMS: Mutex<Option<HashMap<Arc<[String]>, Place>>> = Mutex::new(None);

struct Program {
    /// Ends when it is dropped.
    _process: program::Program,
    input: File,
    output: File,
}

/// The line that a program answers with. Keys have no line ends.
pub fn ask(command: &[String], key: &[u8]) -> Answer<Option<Vec<u8>>> {
    let question: Question = (command.into(), key.into());
    let (command, key) = question.clone();
    // They are the server's, so all sites are one owner.
    ANSWERS.ask(0, &question, None, move || {
        let place = {
            let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(
                programs
                    .get_or_insert_default()
                    .entry(Arc::clone(&command))
                    .or_default(),
            )
        };
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has died since the last question gets a second chance.
        (0..2).find_map(|_| answer(&mut place, &command, &key))
    })
}

/// `None`: it did not answer, and runs no more.
fn answer(place: &mut Option<Program>, command: &[String], key: &[u8]) -> Option<Vec<u8>> {
    let mut program = match place.take() {
        Some(program) => program,
        None => Program::start(command)?,
    };
    let line = program.ask(key)?;
    *place = Some(program);
    Some(line)
}

impl Program {
    fn start(command: &[String]) -> Option<Program> {
        let (program, arguments) = command.split_first()?;
        let mut command = Command::new(program);
        command.args(arguments).envs(env::vars_os());
        let started = start_command(command, true, Errors::Shared).ok()?;
        Some(Program {
            _process: started.program,
            input: started.input?.into(),
            output: started.output?.into(),
        })
    }

    fn ask(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.input.write_all(&[key, b"\n"].concat()).ok()?;
        self.input.flush().ok()?;
        let (mut line, until) = (Vec::new(), Instant::now() + ANSWER_TIME_MAX);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = Timespec {
                tv_sec: i64::try_from(left.as_secs()).ok()?,
                tv_nsec: left.subsec_nanos().into(),
            };
            if poll(
                &mut [PollFd::new(&self.output, PollFlags::IN)],
                Some(&timeout),
            )
            .ok()?
                == 0
            {
                return None;
            }
            let mut piece = [0; 1024];
            let count = self
                .output
                .read(&mut piece)
                .ok()
                .filter(|count| *count > 0)?;
            line.extend_from_slice(piece.get(..count)?);
            if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                // What it says beyond its answer would be taken for the next one.
                let is_alone = end + 1 == line.len();
                line.truncate(end);
                return is_alone.then_some(line);
            }
            if line.len() > ANSWER_BYTES_MAX {
                return None;
            }
        }
    }
}
