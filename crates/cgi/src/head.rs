//! A response head put together from lines, whatever protocol they came in.
//!
//! Everything that Apache does with the fields of a program's answer is here: `Status`, the last of
//! several `Content-Type` lines, `Location` without a status, lengths that are not believed.
//!
//! Absent on purpose: leaving out what concerns the connection only (Connection, Keep-Alive ...).
//! The engine does it for HTTP upstreams too.

use crate::dialogue::FirstStatus;
use crate::{Broken, Fault, ResponseHead};
use saker_http::{Fields, Status, chars};

/// Lines of one head. PHP sets a line per cookie, so this is more than what a request may have.
pub const FIELD_COUNT_MAX: usize = 1000;

/// Collects lines; [`HeadBuilder::finish`] makes the head of them.
#[derive(Debug, Default)]
pub struct HeadBuilder {
    status: Option<Status>,
    is_status_invalid: bool,
    reason: Option<Box<[u8]>>,
    first: Option<FirstStatus>,
    fields: Fields,
    length: Length,
    count: usize,
}

/// The content of these protocols ends by other means, so that a length which is none, or is two,
/// counts for nothing, as in Apache.
#[derive(Debug, Default, Clone, Copy)]
enum Length {
    #[default]
    Unsaid,
    Said(u64),
    Unbelievable,
}

impl HeadBuilder {
    /// A status by number, and the reason phrase that came with it. A number that is no status is
    /// an error of the program's, which Apache answers with 500 and the program's content.
    pub fn status(&mut self, code: u32, reason: &[u8]) {
        let status = u16::try_from(code)
            .ok()
            .filter(|code| (100..=999).contains(code))
            .map(Status);
        let is_own = status.is_some_and(|status| {
            !reason.is_empty() && status.reason().as_bytes() != reason && is_value(reason)
        });
        self.is_status_invalid = status.is_none();
        let status = status.unwrap_or(Status::INTERNAL_SERVER_ERROR);
        self.status = Some(status);
        self.reason = is_own.then(|| reason.into());
        if self.first.is_none() {
            let reason = self.reason.clone();
            self.first = Some(FirstStatus { status, reason });
        }
    }

    /// The value of a `Status` field (RFC 3875 section 6.3.3), or what follows the version in a
    /// status line.
    pub fn status_text(&mut self, text: &[u8]) {
        let text = chars::trim_ows(text);
        let (code, reason) = text.split_at(
            text.iter()
                .position(|byte| *byte == b' ')
                .unwrap_or(text.len()),
        );
        let digits = code.len() == 3 && code.iter().all(u8::is_ascii_digit);
        let number = code
            .iter()
            .filter(|_| digits)
            .fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
        self.status(number, chars::trim_ows(reason));
    }

    /// A line `name: value`, without its end.
    pub fn line(&mut self, line: &[u8]) -> Result<(), Broken> {
        let colon = memchr::memchr(b':', line).ok_or_else(|| Broken::at(Fault::Malformed, line))?;
        let of_line = |broken: Broken| {
            if broken.fault == Fault::Malformed {
                Broken::at(Fault::Malformed, line)
            } else {
                broken
            }
        };
        self.field(&line[..colon], &line[colon + 1..])
            .map_err(of_line)
    }

    /// A field. White space around the value is no part of it.
    pub fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Broken> {
        let value = chars::trim_ows(value);
        self.count += 1;
        if self.count > FIELD_COUNT_MAX {
            return Err(Fault::TooManyFields.into());
        }
        match std::str::from_utf8(name) {
            Ok(text) if chars::is_token(name) && is_value(value) => {
                // Room for a usual head at once.
                if self.count == 1 {
                    self.fields.reserve(8, 256);
                }
                self.known_or_not(text, value);
            }
            _ => return Err(Broken::at(Fault::Malformed, name)),
        }
        Ok(())
    }

    /// The head. `moves`: a `Location` may stand for a status (everywhere but where programs say
    /// the whole head themselves).
    pub fn finish(self, moves: bool) -> ResponseHead {
        let location = self
            .fields
            .first("Location")
            .filter(|_| moves && self.status.is_none_or(|status| status == Status::OK));
        // RFC 3875 section 6.2.2: a local path. `//host` isn't one, but Apache treats it as one, so
        // no program can rely on it as a host.
        let is_local_redirect = location.is_some_and(|location| location.starts_with(b"/"));
        let status = if location.is_some() {
            Status::FOUND
        } else {
            self.status.unwrap_or(Status::OK)
        };
        let length = if let Length::Said(length) = self.length {
            Some(length)
        } else {
            None
        };
        let reason = self.reason.filter(|_| Some(status) == self.status);
        let first_status = self
            .first
            .filter(|first| first.status != status || first.reason != reason)
            .map(Box::new);
        ResponseHead {
            status,
            reason,
            fields: self.fields,
            length,
            is_status_said: self.status.is_some(),
            first_status,
            is_status_invalid: self.is_status_invalid,
            is_local_redirect,
        }
    }

    fn known_or_not(&mut self, name: &str, value: &[u8]) {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match name.len() {
            6 if is("Status") => self.status_text(value),
            14 if is("Content-Length") => self.length = self.length.and(value),
            12 if is("Content-Type") => self.fields.set_copy(name, value),
            // RFC 3875 section 6.3.5: codings of transfer are the server's; Apache drops the line
            // and takes the content as it is.
            17 if is("Transfer-Encoding") => {}
            _ => self.fields.append_copy(name, value),
        }
    }
}

impl Length {
    fn and(self, value: &[u8]) -> Length {
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(value)
            .ok()
            .filter(|_| digits)
            .and_then(|text| text.parse().ok());
        match (self, number) {
            (Length::Unsaid, Some(number)) => Length::Said(number),
            (Length::Said(before), Some(number)) if before == number => self,
            _ => Length::Unbelievable,
        }
    }
}

/// RFC 9110 section 5.5: visible characters, blanks and obs-text.
fn is_value(value: &[u8]) -> bool {
    let is_clean = |byte: &u8| (*byte >= b' ' && *byte != 0x7f) || *byte == b'\t';
    !chars::has_control(value) || value.iter().all(is_clean)
}
