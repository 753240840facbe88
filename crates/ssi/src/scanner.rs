//! Splits bytes into text and elements.
//!
//! Called by: `page`.
//! Caveat: the tags are configurable strings (SSIStartTag, SSIEndTag), may begin inside of
//! themselves, and input may end within them. So a possible beginning of a tag is held back, and an
//! element stays in a buffer until its end tag has been seen.
//! Out of scope: the meaning of elements.

use memchr::memmem;
use std::collections::VecDeque;

/// Length limit of an element from after its start mark to its end; longer ones are an error.
pub const ELEMENT_BYTES_MAX: usize = 64 << 10;

/// `name="value"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Name in lower case.
    pub name: Vec<u8>,
    /// Without its quotes, and with escaped quotes as they are meant.
    pub value: Option<Vec<u8>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Name in lower case.
    pub name: Vec<u8>,
    pub arguments: VecDeque<Argument>,
    /// A name is missing, its own or an argument's.
    pub is_faulty: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Text(Vec<u8>),
    Element(Element),
    /// The element exceeds the maximum length; its content is skipped.
    TooLong,
    /// The page ends inside of an element.
    Unfinished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Text,
    Element,
    /// After the beginning of an element that is too long.
    Skipping,
}

/// Takes pieces of a page, gives text and elements.
#[derive(Debug)]
pub struct Scanner {
    start: Box<[u8]>,
    end: Box<[u8]>,
    buffer: Vec<u8>,
    /// Up to here the buffer is done with.
    at: usize,
    state: State,
    reader: Reader,
    is_over: bool,
}

impl Scanner {
    /// Marks that are empty never match.
    pub fn new(start: &[u8], end: &[u8]) -> Scanner {
        Scanner {
            start: start.into(),
            end: end.into(),
            buffer: Vec::new(),
            at: 0,
            state: State::Text,
            reader: Reader::default(),
            is_over: false,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Nothing more will come.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// Returns the next item; `None`: more input is needed, or the input has ended.
    pub fn scan(&mut self) -> Option<Found> {
        match self.state {
            State::Text => self.text(),
            State::Element => self.element(),
            State::Skipping => self.skip(),
        }
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.at..).unwrap_or_default()
    }

    fn text(&mut self) -> Option<Found> {
        let rest = self.rest();
        let mark = if self.start.is_empty() {
            None
        } else {
            memmem::find(rest, &self.start)
        };
        let length = match mark {
            Some(at) => at,
            None if self.is_over => rest.len(),
            None => rest.len() - begun(rest, &self.start),
        };
        let text = rest.get(..length).unwrap_or_default().to_vec();
        self.at += length;
        if mark.is_some() {
            self.at += self.start.len();
            (self.state, self.reader) = (State::Element, Reader::default());
            return if text.is_empty() {
                self.element()
            } else {
                Some(Found::Text(text))
            };
        }
        (!text.is_empty()).then_some(Found::Text(text))
    }

    fn element(&mut self) -> Option<Found> {
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        let bounded = rest.get(..ELEMENT_BYTES_MAX).unwrap_or(rest);
        match self.reader.read(bounded, &self.end) {
            Some(length) => {
                self.at += length;
                self.state = State::Text;
                Some(Found::Element(std::mem::take(&mut self.reader).element))
            }
            None if rest.len() >= ELEMENT_BYTES_MAX => {
                self.state = State::Skipping;
                Some(Found::TooLong)
            }
            None if self.is_over => {
                self.at = self.buffer.len();
                self.state = State::Text;
                Some(Found::Unfinished)
            }
            None => None,
        }
    }

    fn skip(&mut self) -> Option<Found> {
        let rest = self.rest();
        match memmem::find(rest, &self.end).filter(|_| !self.end.is_empty()) {
            Some(found) => {
                self.at += found + self.end.len();
                self.state = State::Text;
                self.text()
            }
            None => {
                self.at = self.buffer.len() - begun(rest, &self.end);
                None
            }
        }
    }
}

/// Number of bytes at the end of `text` may be the beginning of `mark`.
fn begun(text: &[u8], mark: &[u8]) -> usize {
    let longest = mark.len().saturating_sub(1).min(text.len());
    (1..=longest)
        .rev()
        .find(|length| text.ends_with(mark.get(..*length).unwrap_or_default()))
        .unwrap_or(0)
}

/// Position of the scanner within an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Name,
    BetweenArguments,
    ArgumentName,
    BehindName,
    BeforeValue,
    /// Inside a value, with the quote around it.
    Value(Option<u8>),
}

/// Reads one element. Goes on where it was when there is more of the same bytes.
#[derive(Debug, Default)]
struct Reader {
    element: Element,
    place: Place,
    /// Next byte to look at, and the first one of the word that it stands in.
    at: usize,
    word: usize,
}

/// More input is needed.
struct Short;

impl Reader {
    /// The length of the element with its end mark, once that is there. `bytes` begin where they
    /// began before.
    fn read(&mut self, bytes: &[u8], end: &[u8]) -> Option<usize> {
        loop {
            let step = match self.place {
                Place::Name => self.name(bytes, end),
                Place::BetweenArguments => self.between(bytes, end),
                Place::ArgumentName => self.argument_name(bytes),
                Place::BehindName => self.behind_name(bytes),
                Place::BeforeValue => self.before_value(bytes),
                Place::Value(quote) => self.value(bytes, quote),
            };
            match step {
                Ok(true) => return Some(self.at),
                Ok(false) => {}
                Err(Short) => return None,
            }
        }
    }

    /// Up to a blank, or to the end mark without one before it.
    fn name(&mut self, bytes: &[u8], end: &[u8]) -> Result<bool, Short> {
        loop {
            let byte = *bytes.get(self.at).ok_or(Short)?;
            let is_end = matches(bytes.get(self.at..).unwrap_or_default(), end)?;
            if is_end || is_blank(byte) {
                self.element.name = bytes
                    .get(..self.at)
                    .unwrap_or_default()
                    .to_ascii_lowercase();
                self.element.is_faulty = self.element.name.is_empty();
                self.place = Place::BetweenArguments;
                self.at += if is_end { end.len() } else { 0 };
                return Ok(is_end);
            }
            self.at += 1;
        }
    }

    fn between(&mut self, bytes: &[u8], end: &[u8]) -> Result<bool, Short> {
        let first = self.skip_blanks(bytes)?;
        if matches(bytes.get(self.at..).unwrap_or_default(), end)? {
            self.at += end.len();
            return Ok(true);
        }
        self.element.arguments.push_back(Argument {
            name: Vec::new(),
            value: None,
        });
        if is_quote(first) {
            // A value whose name was forgotten.
            self.element.is_faulty = true;
            self.at += 1;
            self.place = Place::Value(Some(first));
        } else {
            self.place = Place::ArgumentName;
        }
        self.word = self.at;
        Ok(false)
    }

    fn argument_name(&mut self, bytes: &[u8]) -> Result<bool, Short> {
        while !is_blank(*bytes.get(self.at).ok_or(Short)?) && bytes.get(self.at) != Some(&b'=') {
            self.at += 1;
        }
        let name = bytes
            .get(self.word..self.at)
            .unwrap_or_default()
            .to_ascii_lowercase();
        self.element.is_faulty |= name.is_empty();
        if let Some(argument) = self.element.arguments.back_mut() {
            argument.name = name;
        }
        self.place = Place::BehindName;
        Ok(false)
    }

    fn behind_name(&mut self, bytes: &[u8]) -> Result<bool, Short> {
        self.place = match self.skip_blanks(bytes)? {
            b'=' => {
                self.at += 1;
                Place::BeforeValue
            }
            _ => Place::BetweenArguments,
        };
        Ok(false)
    }

    fn before_value(&mut self, bytes: &[u8]) -> Result<bool, Short> {
        let first = self.skip_blanks(bytes)?;
        let quote = Some(first).filter(|byte| is_quote(*byte));
        self.at += usize::from(quote.is_some());
        self.word = self.at;
        self.place = Place::Value(quote);
        Ok(false)
    }

    /// Up to its quote, or to a blank where it has none. A backslash takes the meaning from a quote
    /// only.
    fn value(&mut self, bytes: &[u8], quote: Option<u8>) -> Result<bool, Short> {
        loop {
            let byte = *bytes.get(self.at).ok_or(Short)?;
            let escapes = quote.is_some()
                && byte == b'\\'
                && Some(*bytes.get(self.at + 1).ok_or(Short)?) == quote;
            if !escapes && quote.map_or(is_blank(byte), |quote| byte == quote) {
                break;
            }
            self.at += if escapes { 2 } else { 1 };
        }
        let raw = bytes.get(self.word..self.at).unwrap_or_default();
        let value = quote.map_or_else(|| raw.to_vec(), |quote| without_escapes(raw, quote));
        if let Some(argument) = self.element.arguments.back_mut() {
            argument.value = Some(value);
        }
        self.at += 1;
        self.place = Place::BetweenArguments;
        Ok(false)
    }

    /// Returns the first non-blank byte.
    fn skip_blanks(&mut self, bytes: &[u8]) -> Result<u8, Short> {
        loop {
            match bytes.get(self.at) {
                None => return Err(Short),
                Some(byte) if is_blank(*byte) => self.at += 1,
                Some(byte) => return Ok(*byte),
            }
        }
    }
}

/// True if the mark stands at the beginning of `bytes`.
fn matches(bytes: &[u8], mark: &[u8]) -> Result<bool, Short> {
    match bytes.get(..mark.len()) {
        Some(begin) => Ok(begin == mark && !mark.is_empty()),
        None if mark.starts_with(bytes) => Err(Short),
        None => Ok(false),
    }
}

/// Like C's `isspace`.
pub(crate) fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

fn without_escapes(raw: &[u8], quote: u8) -> Vec<u8> {
    let mut value = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if bytes.peek() == Some(&quote) => value.extend(bytes.next()),
            byte => value.push(byte),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let mut scanner = Scanner::new(b"<!--#", b"-->");
        scanner.push(page.as_bytes());
        scanner.end();
        std::iter::from_fn(|| scanner.scan())
            .map(|found| shown(&found))
            .collect()
    }

    fn shown(found: &Found) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match found {
            Found::Text(bytes) => text(bytes),
            Found::Element(element) => {
                let argument = |argument: &Argument| {
                    format!(
                        " {}={}",
                        text(&argument.name),
                        argument
                            .value
                            .as_deref()
                            .map_or("-".into(), |value| format!("[{}]", text(value)))
                    )
                };
                let arguments: String = element.arguments.iter().map(argument).collect();
                format!(
                    "<{}{arguments}{}>",
                    text(&element.name),
                    if element.is_faulty { " !" } else { "" }
                )
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn elements_as_apache_reads_them() {
        let cases: [(&str, &[&str]); 15] = [
            ("a<!--#echo var=\"X\" -->b", &["a", "<echo var=[X]>", "b"]),
            ("<!--#printenv-->", &["<printenv>"]),
            ("<!--#EcHo VAR = 'a\"b'-->", &["<echo var=[a\"b]>"]),
            ("<!--#set var=\"a\\\"b\\c\\\\\" -->", &["Unfinished"]),
            ("<!--#set var=\"a\\\"b\\c\" -->", &["<set var=[a\"b\\c]>"]),
            ("<!--#echo var=X-->", &["Unfinished"]),
            ("<!--#echo var=X-- -->", &["<echo var=[X--]>"]),
            ("<!--#echo \"X\" -->", &["<echo =[X] !>"]),
            ("<!--#echo =\"X\" -->", &["<echo =[X] !>"]),
            ("<!--# echo -->", &["< echo=- !>"]),
            ("<!--#else x y=1 -->", &["<else x=- y=[1]>"]),
            ("<!--#x--->", &["<x->"]),
            ("<!--#x ---->", &["Unfinished"]),
            ("<!--#x -- a=`b` -->", &["<x --=- a=[b]>"]),
            ("<!-- # <!-<!--#x--><!--", &["<!-- # <!-", "<x>", "<!--"]),
        ];
        for (page, expected) in cases {
            assert_eq!(found(page), expected, "{page}");
        }
    }

    #[test]
    fn marks_that_begin_in_themselves() {
        let mut scanner = Scanner::new(b"--->", b"]]>");
        let mut found = String::new();
        for byte in b"a----->x]]]>b--" {
            scanner.push(&[*byte]);
            found.extend(std::iter::from_fn(|| scanner.scan()).map(|found| shown(&found)));
        }
        assert_eq!(found, "a--<x]>b");
        scanner.end();
        assert_eq!(scanner.scan(), Some(Found::Text(b"--".to_vec())));
    }

    #[test]
    fn elements_have_a_longest() {
        let long = "x".repeat(ELEMENT_BYTES_MAX);
        assert_eq!(
            found(&format!("a<!--#set value=\"{long}\" -->b")),
            ["a", "TooLong", "b"]
        );
        let fits = "x".repeat(ELEMENT_BYTES_MAX - "set value=\"\" -->".len());
        assert_eq!(
            found(&format!("<!--#set value=\"{fits}\" -->b")),
            [format!("<set value=[{fits}]>"), "b".into()]
        );
    }
}
