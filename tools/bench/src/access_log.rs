//! Reads an access log after a run: several workers write one file, and no line may come out torn,
//! mixed or lost.
//!
//! The difficulty is that servers keep lines back for a while (lighttpd for seconds), so it is
//! waited until all are there. More lines than the tool has counted are fine: it warms up, and it
//! counts no requests that it breaks off in the end.

use std::{
    fs, io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

const WAIT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// An error says what is wrong with it.
pub fn check(path: &Path, requests: usize) -> Result<(), String> {
    let end = Instant::now() + WAIT;
    loop {
        let lines = judge(
            &fs::read(path).map_err(|error: io::Error| format!("{}: {error}", path.display()))?,
        );
        match lines {
            Ok(lines) if lines >= requests => return Ok(()),
            // The last line may be on its way.
            outcome if Instant::now() >= end => {
                let lines = outcome?;
                return Err(format!(
                    "its access log has {lines} lines of {requests} requests"
                ));
            }
            _ => thread::sleep(LOOK_EVERY),
        }
    }
}

/// Number of lines there are, if all are whole.
fn judge(log: &[u8]) -> Result<usize, String> {
    if !log.is_empty() && !log.ends_with(b"\n") {
        return Err("its access log ends within a line".to_owned());
    }
    let mut lines = 0;
    for line in log
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let text = std::str::from_utf8(line).ok().filter(|text| is_whole(text));
        text.ok_or_else(|| {
            format!(
                "its access log has a damaged line: {}",
                String::from_utf8_lossy(line)
            )
        })?;
        lines += 1;
    }
    Ok(lines)
}

/// `127.0.0.1 - - [22/Nov/2026:06:20:11 +0000] "GET /a HTTP/1.1" 200 1234 "-" "agent"`, each part
/// once.
fn is_whole(line: &str) -> bool {
    let parts: Vec<&str> = line.split('"').collect();
    let &[before, request, figures, _, between, _, after] = parts.as_slice() else {
        return false;
    };
    let time = before
        .strip_prefix("127.0.0.1 ")
        .and_then(|rest| rest.split_once('[')?.1.strip_suffix("] "));
    let words: Vec<&str> = request.split(' ').collect();
    let status = figures.split_ascii_whitespace().next();
    time.is_some_and(|time| time.len() == "22/Nov/2026:06:20:11 +0000".len())
        && matches!(words.as_slice(), ["GET", path, "HTTP/1.1" | "HTTP/1.0"] if path.starts_with('/'))
        && matches!((status, between, after), (Some("200" | "304"), " ", ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    const LINE: &str = "127.0.0.1 - - [22/Nov/2026:06:20:11 +0000] \"GET /site/001.html HTTP/1.1\" 200 1234 \"-\" \"Mozilla/5.0 (siege)\"\n";

    #[test]
    fn whole_lines_are_counted() {
        assert_eq!(judge(LINE.repeat(3).as_bytes()), Ok(3));
        assert_eq!(judge(b""), Ok(0));
    }

    #[test]
    fn damage_is_seen() {
        let torn = LINE.replace("HTTP/1.1\" 200", "HT127.0.0.1 - - [22/Nov");
        let mixed = LINE.replace(" \"-\"", " \"GET /site/002.html HTTP/1.1\" \"-\"");
        let refused = LINE.replace(" 200 ", " 500 ");
        for bad in [
            torn.as_str(),
            mixed.as_str(),
            refused.as_str(),
            LINE.trim_end(),
            &LINE[20..],
        ] {
            assert!(judge(format!("{LINE}{bad}").as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn lines_that_come_late_are_waited_for() {
        let dir = TempDir::new("access-log").expect("made");
        let log = dir.write("a.log", LINE).expect("written");
        let late = log.clone();
        let writer = thread::spawn(move || {
            thread::sleep(LOOK_EVERY);
            fs::write(late, LINE.repeat(5)).expect("written");
        });
        assert_eq!(check(&log, 5), Ok(()));
        writer.join().expect("wrote");
    }
}
