//! Translates sed's basic regular expressions into PCRE2's.
//!
//! Called by: `script`.
//! Caveat: what is special without a backslash in one is special with it in the other, and `*`, `^`
//! and `$` are special only in their places.

use saker_ap_expr::{Pattern, PatternOptions};

/// A compiled pattern and its properties.
#[derive(Debug)]
pub struct Regex {
    pub pattern: Pattern,
    /// It matches at the beginning of the line only, so at most once.
    pub is_anchored: bool,
    pub groups: usize,
}

/// Parses up to the delimiter and returns the text after it; `None`: the pattern is empty, which
/// stands for the last one.
pub fn parse(text: &[u8], delimiter: u8) -> Result<(Option<Regex>, &[u8]), String> {
    let mut reader = Reader {
        rest: text,
        out: Vec::new(),
        groups: 0,
        open: 0,
        can_repeat: false,
    };
    let is_anchored = reader.rest.first() == Some(&b'^');
    let began = text.first() != Some(&delimiter);
    if is_anchored {
        reader.rest = reader.rest.get(1..).unwrap_or_default();
        reader.out.extend_from_slice(b"\\A");
    }
    while reader.piece(delimiter)? {}
    if reader.open > 0 {
        return Err("\\( \\) imbalance".into());
    }
    if !began {
        return Ok((None, reader.rest));
    }
    // A full stop matches any byte, and no byte ends a line here: lines have been joined.
    let pattern =
        Pattern::compile(&reader.out, PatternOptions::HTTPD).map_err(|error| error.message)?;
    Ok((
        Some(Regex {
            pattern,
            is_anchored,
            groups: reader.groups,
        }),
        reader.rest,
    ))
}

struct Reader<'t> {
    rest: &'t [u8],
    out: Vec<u8>,
    groups: usize,
    open: usize,
    /// A following star repeats it.
    can_repeat: bool,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    /// `false` at the delimiter.
    fn piece(&mut self, delimiter: u8) -> Result<bool, String> {
        let byte = self.next().ok_or("the pattern has no end")?;
        if byte == delimiter {
            return Ok(false);
        }
        match byte {
            b'\\' => self.escaped(delimiter)?,
            b'*' if self.can_repeat => self.repeat(b"*"),
            b'.' => self.atom(b"."),
            b'$' if self.rest.first() == Some(&delimiter) => {
                self.out.extend_from_slice(b"\\z");
                self.can_repeat = false;
            }
            b'[' => self.set()?,
            byte => self.literal(byte),
        }
        Ok(true)
    }

    fn atom(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
        self.can_repeat = true;
    }

    fn repeat(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
        self.can_repeat = false;
    }

    fn literal(&mut self, byte: u8) {
        self.out
            .extend_from_slice(format!("\\x{{{byte:02x}}}").as_bytes());
        self.can_repeat = true;
    }

    fn escaped(&mut self, delimiter: u8) -> Result<(), String> {
        match self.next().ok_or("the pattern has no end")? {
            byte if byte == delimiter => self.literal(byte),
            b'(' => {
                (self.groups, self.open, self.can_repeat) = (self.groups + 1, self.open + 1, false);
                self.out.push(b'(');
            }
            b')' => {
                self.open = self.open.checked_sub(1).ok_or("\\( \\) imbalance")?;
                self.atom(b")");
            }
            b'{' if self.can_repeat => self.counted()?,
            digit @ b'1'..=b'9' if usize::from(digit - b'0') <= self.groups => {
                self.atom(&[b'\\', digit])
            }
            b'1'..=b'9' => return Err("\\digit out of range".into()),
            b'n' => self.literal(b'\n'),
            b'<' => self.repeat(b"\\b(?=\\w)"),
            b'>' => self.repeat(b"\\b(?<=\\w)"),
            byte => self.literal(byte),
        }
        Ok(())
    }

    /// `\{3\}`, `\{3,\}`, `\{3,5\}`
    fn counted(&mut self) -> Result<(), String> {
        let end = self
            .rest
            .windows(2)
            .position(|pair| pair == b"\\}")
            .ok_or("\\{ without \\}")?;
        let (numbers, rest) = self.rest.split_at(end);
        self.rest = rest.get(2..).unwrap_or_default();
        let (least, most) = match numbers.iter().position(|byte| *byte == b',') {
            Some(at) => (numbers.get(..at).unwrap_or_default(), numbers.get(at + 1..)),
            None => (numbers, None),
        };
        let is_number =
            |text: &[u8]| !text.is_empty() && text.len() < 4 && text.iter().all(u8::is_ascii_digit);
        if !is_number(least) || most.is_some_and(|most| !most.is_empty() && !is_number(most)) {
            return Err("bad number in \\{ \\}".into());
        }
        let counted = [b"{", numbers, b"}"].concat();
        self.repeat(&counted);
        Ok(())
    }

    /// `[a-z]`, `[^]x]`; a backslash takes the meaning of what follows away, but for `\n`.
    fn set(&mut self) -> Result<(), String> {
        self.out.push(b'[');
        let mut is_first = true;
        if self.rest.first() == Some(&b'^') {
            self.rest = self.rest.get(1..).unwrap_or_default();
            self.out.push(b'^');
        }
        loop {
            let byte = self.next().ok_or("[ without ]")?;
            match byte {
                b']' if !is_first => break,
                b'-' if !is_first && self.rest.first() != Some(&b']') => self.out.push(b'-'),
                b'\\' => match self.next().ok_or("[ without ]")? {
                    b'n' => self.literal(b'\n'),
                    byte => self.literal(byte),
                },
                byte => self.literal(byte),
            }
            is_first = false;
        }
        self.atom(b"]");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(pattern: &str, text: &str) -> Option<String> {
        let source = format!("{pattern}/");
        let (regex, rest) = parse(source.as_bytes(), b'/').unwrap();
        assert!(rest.is_empty());
        let spans = regex.unwrap().pattern.captures(text.as_bytes()).unwrap()?;
        Some(String::from_utf8(spans.text(0, text.as_bytes()).to_vec()).unwrap())
    }

    #[test]
    fn what_matches() {
        let cases = [
            ("a.c", "xabcx", Some("abc")),
            ("a+(b)?", "a+(b)?", Some("a+(b)?")),
            ("*a", "*a", Some("*a")),
            ("^*a", "*a", Some("*a")),
            ("\\(ab\\)\\1", "abab", Some("abab")),
            ("a\\{2,3\\}", "aaaa", Some("aaa")),
            ("[]a]*", "]a]b", Some("]a]")),
            ("[^a-c-]", "a-bd", Some("d")),
            ("[/]x", "/x", Some("/x")),
            ("a\\/b", "a/b", Some("a/b")),
            ("a$b$", "a$b", Some("a$b")),
            ("b$", "b\n", None),
            ("a\\nb", "a\nb", Some("a\nb")),
            ("^b", "ab", None),
            ("a^b", "a^b", Some("a^b")),
            ("\\<one\\>", "anyone one", Some("one")),
            ("\\.", "a.", Some(".")),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                matched(pattern, text).as_deref(),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn what_is_none() {
        for text in [
            "a",
            "\\(a/",
            "a\\)/",
            "[a/",
            "a\\{x\\}/",
            "a\\{3/",
            "\\1/",
            "a\\",
        ] {
            assert!(parse(text.as_bytes(), b'/').is_err(), "{text}");
        }
        assert!(matches!(parse(b"/rest", b'/'), Ok((None, b"rest"))));
    }
}
