//! A sed script, parsed into a list of commands with their jump targets.
//!
//! Called by: the front ends, at configuration time, and `sed`, which runs it. Caveat: this is the
//! sed of System V. `a`, `c` and `i` want their text on a line of its own, which no directive has,
//! so Apache can't use them either; labels end with the line there, here with a semicolon, too. Out
//! of scope: `w`, because responses write no files.

use super::pattern::{self, Regex};
use std::{collections::HashMap, path::PathBuf, sync::Arc};

#[derive(Clone, Debug, Default)]
pub struct Script {
    pub commands: Vec<Arc<Command>>,
    /// Only commands print lines (`#n`).
    pub is_quiet: bool,
    labels: HashMap<Box<[u8]>, usize>,
    /// Blocks that have not been closed.
    open: Vec<usize>,
    last: Option<Arc<Regex>>,
}

#[derive(Clone, Debug)]
pub struct Command {
    pub from: Option<Address>,
    pub to: Option<Address>,
    pub is_negated: bool,
    pub action: Action,
}

#[derive(Clone, Debug)]
pub enum Address {
    Line(u64),
    Last,
    Matches(Arc<Regex>),
}

#[derive(Clone, Debug)]
pub enum Action {
    /// The index of the closing `}`.
    Block(usize),
    End,
    Append(Box<[u8]>),
    Branch(Target),
    Change(Box<[u8]>),
    Delete,
    DeleteFirst,
    Get,
    GetAppend,
    Hold,
    HoldAppend,
    Insert(Box<[u8]>),
    List,
    Next,
    NextAppend,
    Number,
    Print,
    PrintFirst,
    Quit,
    Read(PathBuf),
    Substitute(Substitution),
    Test(Target),
    Exchange,
    Transliterate(Box<[u8; 256]>),
}

/// `None`: the end of the script.
pub type Target = Option<Box<[u8]>>;

#[derive(Clone, Debug)]
pub struct Substitution {
    pub regex: Arc<Regex>,
    /// The text with `&` and `\1`.
    pub replacement: Box<[u8]>,
    pub which: Which,
    pub print: Option<Printed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    First,
    All,
    Only(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printed {
    Whole,
    First,
}

impl Script {
    /// Parses the commands of one directive and appends them.
    pub fn add(&mut self, text: &[u8]) -> Result<(), String> {
        for line in lines(text) {
            if line.starts_with(b"#n") {
                self.is_quiet = true;
            }
            let mut parser = Parser {
                script: self,
                rest: line,
            };
            while parser
                .command()
                .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(line)))?
            {
            }
        }
        Ok(())
    }

    /// The index that a jump leads to; an unknown label leads to the end.
    pub fn target(&self, target: &Target) -> usize {
        target.as_ref().map_or(self.commands.len(), |label| {
            self.labels
                .get(label)
                .copied()
                .unwrap_or(self.commands.len())
        })
    }

    /// The error of an incomplete script.
    pub fn complaint(&self) -> Option<String> {
        let labels = self
            .commands
            .iter()
            .filter_map(|command| match &command.action {
                Action::Branch(Some(label)) | Action::Test(Some(label))
                    if !self.labels.contains_key(label) =>
                {
                    Some(label)
                }
                _ => None,
            });
        let unknown = labels
            .map(|label| format!("undefined label: {}", String::from_utf8_lossy(label)))
            .next();
        unknown.or_else(|| (!self.open.is_empty()).then(|| "too many {'s".to_owned()))
    }
}

/// Line breaks behind a backslash belong to the text.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    let mut escaped = false;
    text.split(|byte| {
        let ends = *byte == b'\n' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })
    .collect()
}

struct Parser<'s, 't> {
    script: &'s mut Script,
    rest: &'t [u8],
}

impl<'t> Parser<'_, 't> {
    fn next(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn skip(&mut self, bytes: &[u8]) {
        let at = self
            .rest
            .iter()
            .position(|byte| !bytes.contains(byte))
            .unwrap_or(self.rest.len());
        self.rest = self.rest.get(at..).unwrap_or_default();
    }

    /// `false` at the end of the line.
    fn command(&mut self) -> Result<bool, String> {
        self.skip(b" \t;");
        if matches!(self.rest.first(), None | Some(b'#')) {
            return Ok(false);
        }
        let from = self.address()?;
        let mut to = None;
        if from.is_some() && self.rest.first() == Some(&b',') {
            self.next();
            to = Some(self.address()?.ok_or("command garbled")?);
        }
        self.skip(b" \t");
        let mut is_negated = false;
        while self.rest.first() == Some(&b'!') {
            self.next();
            is_negated = true;
            self.skip(b" \t");
        }
        let name = self.next().ok_or("command garbled")?;
        let addresses = usize::from(from.is_some()) + usize::from(to.is_some());
        if matches!(name, b'}' | b':') && addresses > 0 {
            return Err("no addresses allowed".into());
        }
        if matches!(name, b'=' | b'a' | b'i' | b'r' | b'q') && addresses > 1 {
            return Err("only one address allowed".into());
        }
        if let Some(action) = self.action(name)? {
            self.script.commands.push(Arc::new(Command {
                from,
                to,
                is_negated,
                action,
            }));
        }
        self.end(name)?;
        Ok(true)
    }

    /// Parses what may follow a command.
    fn end(&mut self, name: u8) -> Result<(), String> {
        self.skip(b" \t");
        match self.rest.first() {
            None | Some(b';' | b'}' | b'#') => Ok(()),
            Some(_) if matches!(name, b'{' | b'}') => Ok(()),
            Some(_) => Err("command garbled".into()),
        }
    }

    fn address(&mut self) -> Result<Option<Address>, String> {
        match self.rest.first() {
            Some(b'$') => {
                self.next();
                Ok(Some(Address::Last))
            }
            Some(b'/') => self.pattern(1).map(Some),
            Some(b'\\') => self.pattern(2).map(Some),
            Some(digit) if digit.is_ascii_digit() => {
                let end = self
                    .rest
                    .iter()
                    .position(|byte| !byte.is_ascii_digit())
                    .unwrap_or(self.rest.len());
                let (number, rest) = self.rest.split_at(end);
                self.rest = rest;
                let number = std::str::from_utf8(number)
                    .ok()
                    .and_then(|number| number.parse().ok());
                Ok(Some(Address::Line(number.ok_or("bad line number")?)))
            }
            _ => Ok(None),
        }
    }

    /// Behind so many bytes, the last of which is the delimiter.
    fn pattern(&mut self, before: usize) -> Result<Address, String> {
        let delimiter = *self.rest.get(before - 1).ok_or("command garbled")?;
        self.rest = self.rest.get(before..).unwrap_or_default();
        Ok(Address::Matches(self.regex(delimiter)?))
    }

    fn regex(&mut self, delimiter: u8) -> Result<Arc<Regex>, String> {
        let (regex, rest) = pattern::parse(self.rest, delimiter)?;
        self.rest = rest;
        let regex = regex
            .map(Arc::new)
            .or_else(|| self.script.last.clone())
            .ok_or("no remembered search string")?;
        self.script.last = Some(Arc::clone(&regex));
        Ok(regex)
    }

    /// `None`: nothing that is carried out.
    fn action(&mut self, name: u8) -> Result<Option<Action>, String> {
        Ok(Some(match name {
            b'{' => {
                self.script.open.push(self.script.commands.len());
                Action::Block(usize::MAX)
            }
            b'}' => {
                let at = self.script.open.pop().ok_or("too many }'s")?;
                let end = self.script.commands.len();
                if let Some(block) = self.script.commands.get_mut(at) {
                    *block = Arc::new(Command {
                        action: Action::Block(end),
                        ..Command::clone(block)
                    });
                }
                Action::End
            }
            b':' => {
                let label = self.label().ok_or("a label is missing")?;
                if self
                    .script
                    .labels
                    .insert(label, self.script.commands.len())
                    .is_some()
                {
                    return Err("duplicate label".into());
                }
                return Ok(None);
            }
            b'a' => Action::Append(self.text()?),
            b'b' => Action::Branch(self.label()),
            b'c' => Action::Change(self.text()?),
            b'd' => Action::Delete,
            b'D' => Action::DeleteFirst,
            b'g' => Action::Get,
            b'G' => Action::GetAppend,
            b'h' => Action::Hold,
            b'H' => Action::HoldAppend,
            b'i' => Action::Insert(self.text()?),
            b'l' => Action::List,
            b'n' => Action::Next,
            b'N' => Action::NextAppend,
            b'=' => Action::Number,
            b'p' => Action::Print,
            b'P' => Action::PrintFirst,
            b'q' => Action::Quit,
            b'r' => Action::Read(self.file()?),
            b's' => Action::Substitute(self.substitution()?),
            b't' => Action::Test(self.label()),
            b'w' => return Err("files are not written by answers".into()),
            b'x' => Action::Exchange,
            b'y' => Action::Transliterate(self.transliteration()?),
            _ => return Err("unrecognized command".into()),
        }))
    }

    fn label(&mut self) -> Target {
        self.skip(b" ");
        let end = self
            .rest
            .iter()
            .position(|byte| matches!(byte, b';' | b' ' | b'\t'))
            .unwrap_or(self.rest.len());
        let (label, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!label.is_empty()).then(|| label.into())
    }

    /// All that follows the line break behind `a\`.
    fn text(&mut self) -> Result<Box<[u8]>, String> {
        let text = self
            .rest
            .strip_prefix(b"\\")
            .unwrap_or(self.rest)
            .strip_prefix(b"\n")
            .ok_or("command garbled")?;
        self.rest = b"";
        Ok(unescaped(text).into())
    }

    fn file(&mut self) -> Result<PathBuf, String> {
        use std::os::unix::ffi::OsStringExt;
        let name = self
            .rest
            .strip_prefix(b" ")
            .ok_or("command garbled")?
            .trim_ascii_start();
        self.rest = b"";
        Ok(std::ffi::OsString::from_vec(unescaped(name)).into())
    }

    fn substitution(&mut self) -> Result<Substitution, String> {
        let delimiter = self.next().ok_or("command garbled")?;
        let regex = self.regex(delimiter)?;
        let replacement = self.delimited(delimiter)?;
        let references = replacement
            .windows(2)
            .enumerate()
            .filter(|(at, _)| is_escape(&replacement, *at));
        if references
            .map(|(_, pair)| pair[1])
            .any(|digit| digit.is_ascii_digit() && usize::from(digit - b'0') > regex.groups)
        {
            return Err("\\digit out of range".into());
        }
        let mut substitution = Substitution {
            regex,
            replacement: replacement.into(),
            which: Which::First,
            print: None,
        };
        loop {
            match self.rest.first() {
                Some(b'g') => substitution.which = Which::All,
                Some(b'p') => substitution.print = Some(Printed::Whole),
                Some(b'P') => substitution.print = Some(Printed::First),
                Some(b'1'..=b'9') => {
                    let Some(Address::Line(number)) = self.address()? else {
                        return Err("command garbled".into());
                    };
                    substitution.which = Which::Only(
                        usize::try_from(number)
                            .ok()
                            .filter(|number| *number <= 512)
                            .ok_or("number too big")?,
                    );
                    continue;
                }
                Some(b'w') => return Err("files are not written by answers".into()),
                _ => return Ok(substitution),
            }
            self.next();
        }
    }

    /// Up to the delimiter, backslashes and all.
    fn delimited(&mut self, delimiter: u8) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        loop {
            match self.next().ok_or("ending delimiter missing")? {
                byte if byte == delimiter => return Ok(out),
                b'\\' => {
                    out.extend_from_slice(&[b'\\', self.next().ok_or("ending delimiter missing")?])
                }
                byte => out.push(byte),
            }
        }
    }

    fn transliteration(&mut self) -> Result<Box<[u8; 256]>, String> {
        let delimiter = self.next().ok_or("command garbled")?;
        let (from, to) = (
            characters(&self.delimited(delimiter)?),
            characters(&self.delimited(delimiter)?),
        );
        if from.len() != to.len() {
            return Err("transform strings not the same size".into());
        }
        let mut table: Box<[u8; 256]> = Box::new([0; 256]);
        (0..=255_u8).for_each(|byte| table[usize::from(byte)] = byte);
        from.iter()
            .zip(to)
            .for_each(|(from, to)| table[usize::from(*from)] = to);
        Ok(table)
    }
}

/// True if an escaping backslash is at this position.
fn is_escape(text: &[u8], at: usize) -> bool {
    let before = text
        .get(..at)
        .unwrap_or_default()
        .iter()
        .rev()
        .take_while(|byte| **byte == b'\\')
        .count();
    text.get(at) == Some(&b'\\') && before % 2 == 0
}

fn characters(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => b'\n',
                Some(byte) => byte,
                None => b'\\',
            },
            byte => byte,
        });
    }
    out
}

fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        out.push(if byte == b'\\' {
            bytes.next().unwrap_or(b'\\')
        } else {
            byte
        });
    }
    out
}
