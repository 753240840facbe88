//! Prompts for a secret at the terminal, without echoing it.

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
};

/// Maximum length of a typed line, in bytes.
const LINE_BYTES_MAX: u64 = 4096;

/// The line that is typed, without its end; an error where the process has no terminal.
pub fn ask_secretly(prompt: &str) -> io::Result<Vec<u8>> {
    let mut terminal = File::options().read(true).write(true).open("/dev/tty")?;
    terminal.write_all(prompt.as_bytes())?;
    let before = tcgetattr(&terminal)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
    let mut line = Vec::new();
    let read = BufReader::new((&terminal).take(LINE_BYTES_MAX)).read_until(b'\n', &mut line);
    tcsetattr(&terminal, OptionalActions::Flush, &before)?;
    terminal.write_all(b"\n")?;
    read?;
    line.truncate(line.trim_ascii_end().len());
    Ok(line)
}
