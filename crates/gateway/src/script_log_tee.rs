//! Transcript of the exchange with a script, kept for the case that it fails
//! (`pipeline::script_log`).
//!
//! Difficulty: a script that has failed goes on talking, and what it says then is what its author
//! wants to see; so the dialogue goes on, too, and ends with the script. Both directions are
//! bounded, and nothing is kept once there is a head.

use crate::failure::Failure;
use saker_cgi::{Broken, Dialogue, Event, Fault, ProgramRequest, Refused};
use saker_pipeline::script_log::{Overheard, ScriptLog};
use std::{cell::RefCell, rc::Rc};

/// Maximum script output that is recorded.
const HEARD_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct Transcript {
    told: Vec<u8>,
    heard: Vec<u8>,
}

impl Transcript {
    /// The line that was wrong and what came behind it; `excerpt` is its beginning.
    pub fn overheard(&self, failure: &Failure) -> Overheard {
        let told = self.told.clone();
        let wrong: &[u8] = match failure {
            Failure::Broken(broken) if broken.fault == Fault::Malformed => &broken.excerpt,
            // A last line that nothing ends is no field, either.
            Failure::Broken(broken) if broken.fault == Fault::Premature => {
                let end = self.heard.iter().rposition(|byte| *byte == b'\n');
                self.heard
                    .get(end.map_or(0, |at| at + 1)..)
                    .unwrap_or_default()
            }
            _ => b"",
        };
        let at = if wrong.is_empty() {
            None
        } else {
            self.heard
                .windows(wrong.len())
                .position(|window| window == wrong)
        };
        let Some(behind) = at.and_then(|at| self.heard.get(at..)) else {
            return Overheard {
                told,
                ..Overheard::default()
            };
        };
        let end = behind
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(behind.len());
        let line = behind.get(..end).unwrap_or_default();
        let bad_line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
        Overheard {
            told,
            bad_line,
            rest: behind.get(end + 1..).unwrap_or_default().to_vec(),
        }
    }
}

/// A dialogue that is listened to.
pub struct ScriptLogTee<D> {
    inner: D,
    transcript: Rc<RefCell<Transcript>>,
    told_max: usize,
    has_head: bool,
    has_failed: bool,
}

impl<D: Dialogue> ScriptLogTee<D> {
    pub fn new(inner: D, log: &ScriptLog, transcript: Rc<RefCell<Transcript>>) -> ScriptLogTee<D> {
        ScriptLogTee {
            inner,
            transcript,
            told_max: log.content_bytes_max,
            has_head: false,
            has_failed: false,
        }
    }

    fn hear(&self, bytes: &[u8]) {
        keep(
            &mut self.transcript.borrow_mut().heard,
            bytes,
            HEARD_BYTES_MAX,
        );
    }
}

impl<D: Dialogue> Dialogue for ScriptLogTee<D> {
    fn begin(&mut self, request: &ProgramRequest<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        self.inner.begin(request, out)
    }

    fn content(&mut self, content: &[u8], out: &mut Vec<u8>) {
        keep(
            &mut self.transcript.borrow_mut().told,
            content,
            self.told_max,
        );
        self.inner.content(content, out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.inner.end(out);
    }

    fn content_max(&self) -> usize {
        self.inner.content_max()
    }

    fn receive(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        if self.has_head {
            return self.inner.receive(input);
        }
        if self.has_failed {
            self.hear(input);
            return Ok((input.len(), None));
        }
        let received = self.inner.receive(input);
        match &received {
            Ok((_, Some(Event::Head(_)))) => {
                self.has_head = true;
                *self.transcript.borrow_mut() = Transcript::default();
            }
            Ok((used, _)) => self.hear(input.get(..*used).unwrap_or_default()),
            // It is given once more, as what comes behind a failure.
            Err(_) => self.has_failed = true,
        }
        received
    }

    fn closed(&mut self) -> Result<Option<Event>, Broken> {
        if self.has_failed {
            Err(Fault::Cut.into())
        } else {
            self.inner.closed()
        }
    }
}

fn keep(into: &mut Vec<u8>, bytes: &[u8], most: usize) {
    let room = most.saturating_sub(into.len()).min(bytes.len());
    into.extend_from_slice(bytes.get(..room).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_cgi::PlainCgi;

    fn log() -> ScriptLog {
        ScriptLog {
            path: "/x".into(),
            bytes_max: 1,
            content_bytes_max: 3,
        }
    }

    #[test]
    fn what_came_before_and_after_a_failure() {
        let transcript = Rc::<RefCell<Transcript>>::default();
        let mut dialogue = ScriptLogTee::new(PlainCgi::new(true), &log(), Rc::clone(&transcript));
        dialogue.content(b"ab", &mut Vec::new());
        dialogue.content(b"cd", &mut Vec::new());
        assert_eq!(dialogue.receive(b"X: 1\nno fi").unwrap().0, 10);
        let broken = dialogue.receive(b"eld\nY: 2\n\nrest").unwrap_err();
        assert_eq!(dialogue.receive(b"eld\nY: 2\n\nrest").unwrap().0, 14);
        dialogue.receive(b" more").unwrap();
        assert!(dialogue.closed().is_err());
        let overheard = transcript.borrow().overheard(&Failure::Broken(broken));
        assert_eq!(
            (&*overheard.told, &*overheard.bad_line, &*overheard.rest),
            (&b"abc"[..], &b"no field"[..], &b"Y: 2\n\nrest more"[..])
        );
    }

    #[test]
    fn a_last_line_without_an_end() {
        for (output, bad_line) in [
            (&b"NNN"[..], &b"NNN"[..]),
            (b"X: 1\nNNN", b"NNN"),
            (b"X: 1\n", b""),
            (b"", b""),
        ] {
            let transcript = Rc::<RefCell<Transcript>>::default();
            let plain = PlainCgi::new(true);
            let mut dialogue = ScriptLogTee::new(plain, &log(), Rc::clone(&transcript));
            dialogue.receive(output).unwrap();
            let broken = dialogue.closed().unwrap_err();
            let overheard = transcript.borrow().overheard(&Failure::Broken(broken));
            assert_eq!(overheard.bad_line, bad_line, "{output:?}");
        }
    }

    #[test]
    fn nothing_is_kept_of_what_is_well() {
        let transcript = Rc::<RefCell<Transcript>>::default();
        let mut dialogue = ScriptLogTee::new(PlainCgi::new(true), &log(), Rc::clone(&transcript));
        assert!(matches!(
            dialogue.receive(b"Content-Type: text/plain\n\nbody"),
            Ok((_, Some(Event::Head(_))))
        ));
        dialogue.receive(b"body").unwrap();
        assert!(transcript.borrow().heard.is_empty() && dialogue.closed().is_ok());
    }
}
