//! The CGI response (RFC 3875 section 6): a head in lines, an empty line, content. Everyone but
//! LSAPI and AJP answers with it.
//!
//! Difficulty: the head may be cut anywhere, also between the two bytes that end it, and what is
//! wrong with it must be the same however it was cut. So nothing is judged before the head is
//! whole, or too long, or the program is gone; a head that is whole in the first piece is not
//! copied.
//!
//! Absent on purpose: folded lines in heads of scripts other than `nph-`, which Apache refuses as
//! well; a limit per line, since the whole head has one.

use crate::{Broken, Event, Fault, ResponseHead, head::HeadBuilder};
use saker_http::Status;
use std::borrow::Cow;

/// Size of a head, its empty line included.
pub const HEAD_BYTES_MAX: usize = 128 * 1024;
/// Interim heads before the final one.
pub const INTERIM_COUNT_MAX: u32 = 32;

/// Accepted syntax of a response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `Status: 404 Not Found` or nothing (CGI, FastCGI, SCGI).
    Fields,
    /// The same, or a status line `HTTP/1.1 404 Not Found` (uwsgi; some speak SCGI like that).
    StatusLineOrFields,
    /// A status line always; nothing is concluded from fields (`nph-` scripts, RFC 3875 section 5).
    StatusLine,
}

/// A response as it arrives.
#[derive(Debug)]
pub struct Response {
    style: Style,
    /// 101 is understood.
    switches: bool,
    /// The beginning of a head that is not whole yet.
    partial: Vec<u8>,
    is_head_over: bool,
    interim_count: u32,
}

impl Response {
    pub fn new(style: Style, switches: bool) -> Response {
        Response {
            style,
            switches,
            partial: Vec::new(),
            is_head_over: false,
            interim_count: 0,
        }
    }

    /// As [`crate::Dialogue::receive`].
    pub fn receive(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        if input.is_empty() {
            return Ok((0, None));
        }
        if self.is_head_over {
            return Ok((input.len(), Some(Event::Content(0..input.len()))));
        }
        let known = self.partial.len();
        let end = if known == 0 {
            head_end(input)
        } else {
            self.end_after(input)
        };
        match end {
            Some(end) if end > HEAD_BYTES_MAX => Err(self.complaint(input, Fault::HeadTooLarge)),
            Some(end) => {
                let head = self.whole(&input[..end - known])?;
                Ok((end - known, Some(self.event(head)?)))
            }
            None if known + input.len() > HEAD_BYTES_MAX => {
                Err(self.complaint(input, Fault::HeadTooLarge))
            }
            None => {
                self.partial.extend_from_slice(input);
                Ok((input.len(), None))
            }
        }
    }

    pub fn is_head_over(&self) -> bool {
        self.is_head_over
    }

    /// No more comes. An error if the head was not whole.
    pub fn closed(&mut self) -> Result<(), Broken> {
        if self.is_head_over {
            Ok(())
        } else {
            Err(self.complaint(&[], Fault::Premature))
        }
    }

    /// Returns the end of the head, counted from its beginning, of which we have a part. An end
    /// that spans the buffer boundary begins at most 2 bytes before it.
    fn end_after(&self, input: &[u8]) -> Option<usize> {
        let tail = self.partial.len().min(2);
        let at = self.partial.len() - tail;
        let mut joint = [0; 4];
        let fresh = input.len().min(2);
        joint[..tail].copy_from_slice(&self.partial[at..]);
        joint[tail..tail + fresh].copy_from_slice(&input[..fresh]);
        // At the very beginning an empty line alone is an end.
        let across = if at == 0 {
            head_end(&joint[..tail + fresh])
        } else {
            blank_line(&joint[..tail + fresh])
        };
        across
            .map(|end| at + end)
            .or_else(|| blank_line(input).map(|end| self.partial.len() + end))
    }

    fn whole(&mut self, rest: &[u8]) -> Result<ResponseHead, Broken> {
        if self.partial.is_empty() {
            return parse(rest, self.style);
        }
        self.partial.extend_from_slice(rest);
        let partial = std::mem::take(&mut self.partial);
        parse(&partial, self.style)
    }

    /// RFC 9110 section 15.2: any number of interim responses before the final one.
    fn event(&mut self, head: ResponseHead) -> Result<Event, Broken> {
        if head.status == Status::SWITCHING_PROTOCOLS {
            self.is_head_over = true;
            return if self.switches {
                Ok(Event::Switched(head))
            } else {
                Err(Fault::Unswitchable.into())
            };
        }
        self.is_head_over = head.status.0 >= 200;
        if self.is_head_over {
            return Ok(Event::Head(head));
        }
        self.interim_count += 1;
        if self.interim_count > INTERIM_COUNT_MAX {
            Err(Fault::HeadTooLarge.into())
        } else {
            Ok(Event::Interim(head))
        }
    }

    /// Returns the error for a head without an end: the first complete line that is invalid, else
    /// `otherwise`.
    fn complaint(&self, input: &[u8], otherwise: Fault) -> Broken {
        let seen = [
            &self.partial,
            &input[..input
                .len()
                .min(HEAD_BYTES_MAX - self.partial.len().min(HEAD_BYTES_MAX))],
        ]
        .concat();
        let whole = memchr::memrchr(b'\n', &seen).map_or(0, |at| at + 1);
        parse(&seen[..whole], self.style)
            .err()
            .unwrap_or_else(|| otherwise.into())
    }
}

/// A head whose lines are all there. Folded lines are joined in heads of `nph-` scripts, which are a
/// server's (RFC 9112 section 5.2), and refused in others. Lines end with LF, a CR before it is no part of them (RFC 3875
/// section 6.3 leaves it to the system).
pub fn parse(head: &[u8], style: Style) -> Result<ResponseHead, Broken> {
    let mut builder = HeadBuilder::default();
    let mut rest = head;
    if style != Style::Fields {
        rest = status_line(rest, style, &mut builder)?;
    }
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let mut line = Cow::Borrowed(without_return(&rest[..end]));
        rest = &rest[end + 1..];
        if line.is_empty() {
            break;
        }
        while style == Style::StatusLine
            && matches!(rest, [b' ' | b'\t', ..])
            && let Some(end) = memchr::memchr(b'\n', rest)
        {
            let unfolded = [line.trim_ascii_end(), b" ", rest[..end].trim_ascii()].concat();
            line = Cow::Owned(unfolded);
            rest = &rest[end + 1..];
        }
        builder.line(&line)?;
    }
    Ok(builder.finish(style != Style::StatusLine))
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Takes the status line off, where there is one.
fn status_line<'a>(
    head: &'a [u8],
    style: Style,
    builder: &mut HeadBuilder,
) -> Result<&'a [u8], Broken> {
    let end = memchr::memchr(b'\n', head).map_or(head.len(), |at| at + 1);
    let line = head[..end].trim_ascii_end();
    match line.strip_prefix(b"HTTP/") {
        Some(version) => {
            let space =
                memchr::memchr(b' ', version).ok_or_else(|| Broken::at(Fault::Malformed, line))?;
            builder.status_text(&version[space..]);
            Ok(&head[end..])
        }
        None if style == Style::StatusLine && !head.is_empty() => {
            Err(Broken::at(Fault::Malformed, line))
        }
        None => Ok(head),
    }
}

/// Length of the head, if its empty line is there.
fn head_end(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => blank_line(bytes),
    }
}

/// End of the first empty line that follows another line.
fn blank_line(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes).find_map(|at| match &bytes[at + 1..] {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
