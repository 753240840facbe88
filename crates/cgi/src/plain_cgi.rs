//! CGI/1.1 (RFC 3875): a process whose environment says all, whose standard input is the content
//! and whose standard output is the response.
//!
//! Place in the walk: the engine starts the process with [`environment`] and [`arguments`], and
//! gives the dialogue its pipes; what comes on standard error goes to the log without it.
//!
//! Absent on purpose: a check whether `nph-` scripts tell the truth. Their head is read all the
//! same, because HTTP/2 can't pass it on as it is.

use crate::{
    Broken, Dialogue, Event, ProgramRequest, Refused, Variables,
    response::{Response, Style},
};
use std::borrow::Cow;

/// One request to a process of its own.
#[derive(Debug)]
pub struct PlainCgi {
    response: Response,
    is_done: bool,
}

impl PlainCgi {
    /// `parses_head`: false for `nph-` scripts, which say the whole HTTP head.
    pub fn new(parses_head: bool) -> PlainCgi {
        let style = if parses_head {
            Style::Fields
        } else {
            Style::StatusLine
        };
        PlainCgi {
            response: Response::new(style, false),
            is_done: false,
        }
    }
}

impl Dialogue for PlainCgi {
    fn begin(&mut self, _request: &ProgramRequest<'_>, _out: &mut Vec<u8>) -> Result<(), Refused> {
        Ok(())
    }

    fn content(&mut self, content: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(content);
    }

    fn frame(&mut self, _bytes: usize, _out: &mut Vec<u8>) -> Option<&'static [u8]> {
        Some(b"")
    }

    /// The engine closes the pipe.
    fn end(&mut self, _out: &mut Vec<u8>) {}

    fn receive(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        self.response.receive(input)
    }

    fn closed(&mut self) -> Result<Option<Event>, Broken> {
        until_close(&mut self.response, &mut self.is_done)
    }
}

/// The end of a response that ends with its connection.
pub(crate) fn until_close(
    response: &mut Response,
    is_done: &mut bool,
) -> Result<Option<Event>, Broken> {
    response.closed()?;
    Ok((!std::mem::replace(is_done, true)).then_some(Event::End { stays: false }))
}

/// The environment of a process: names as shells can say them, which is what Apache makes of them
/// (a digit at the beginning and every other byte than letters, digits and `_` become `_`). What
/// has a NUL can't be said at all.
pub fn environment(variables: &Variables) -> impl Iterator<Item = (Cow<'_, [u8]>, &[u8])> {
    let sayable = |part: &[u8]| memchr::memchr(0, part).is_none();
    variables
        .iter()
        .filter(move |(name, value)| !name.is_empty() && sayable(name) && sayable(value))
        .map(|(name, value)| (shell_name(name), value))
}

fn shell_name(name: &[u8]) -> Cow<'_, [u8]> {
    let fits = |(at, byte): (usize, &u8)| {
        byte.is_ascii_alphabetic() || *byte == b'_' || (at > 0 && byte.is_ascii_digit())
    };
    if name.iter().enumerate().all(fits) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(
        name.iter()
            .enumerate()
            .map(|(at, byte)| if fits((at, byte)) { *byte } else { b'_' })
            .collect(),
    )
}

/// Words of an "indexed" query for the command line (RFC 3875 section 4.4): a query without a `=`,
/// cut at `+`, decoded, and with a backslash before what means something to a shell, as in Apache.
/// A query that can't be decoded brings none.
pub fn arguments(query: &[u8]) -> Vec<Vec<u8>> {
    const WORD_COUNT_MAX: usize = 256;
    if query.is_empty() || query.contains(&b'=') {
        return Vec::new();
    }
    let words: Option<Vec<_>> = query
        .split(|byte| *byte == b'+')
        .take(WORD_COUNT_MAX)
        .map(|word| decoded(word).map(|word| escaped(&word)))
        .collect();
    words.unwrap_or_default()
}

fn decoded(word: &[u8]) -> Option<Vec<u8>> {
    let (mut rest, mut decoded) = (word, Vec::with_capacity(word.len()));
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'%', [high, low, after @ ..]) => (hex(*high)? << 4 | hex(*low)?, after),
            (b'%', _) => return None,
            _ => (first, after),
        };
        // A word of a command line ends with a NUL.
        if byte == 0 {
            return None;
        }
        decoded.push(byte);
        rest = after;
    }
    Some(decoded)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

fn escaped(word: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(word.len());
    for byte in word {
        if b"&;`'\"|*?~<>^()[]{}$\\\n".contains(byte) {
            escaped.push(b'\\');
        }
        escaped.push(*byte);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_what_a_shell_can_say() {
        let mut variables = Variables::new();
        for (name, value) in [
            ("PATH", "/bin"),
            ("foo.bar", "x"),
            ("9x", "nine"),
            ("x9", ""),
            ("", "no"),
            ("a\0b", "no"),
            ("n", "a\0b"),
            ("é", "e"),
        ] {
            variables.push(name.as_bytes(), value.as_bytes());
        }
        let text: Vec<String> = environment(&variables)
            .map(|(name, value)| format!("{}={}", name.escape_ascii(), value.escape_ascii()))
            .collect();
        assert_eq!(text, ["PATH=/bin", "foo_bar=x", "_x=nine", "x9=", "__=e"]);
    }

    #[test]
    fn words_of_a_query() {
        let rows: [(&str, &[&str]); 9] = [
            ("", &[]),
            ("a=b", &[]),
            ("a+b=c", &[]),
            ("one", &["one"]),
            ("one+two%20three", &["one", "two three"]),
            ("a%3Bb%24c", &["a\\;b\\$c"]),
            ("+", &["", ""]),
            ("bad%zz", &[]),
            ("nul%00", &[]),
        ];
        for (query, words) in rows {
            assert_eq!(
                arguments(query.as_bytes()),
                words
                    .iter()
                    .map(|word| word.as_bytes().to_vec())
                    .collect::<Vec<_>>(),
                "{query}"
            );
        }
    }
}
