//! The language of `ErrorLogFormat` (httpd 2.4, core).
//!
//! Called by: configuration readers. Caveat: `%E`, the system's error, is known only of lines in
//! Apache's wording; other messages name the error themselves.

/// A parsed format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format(pub(super) Vec<Item>);

/// Formats set by `ErrorLogFormat`; `None`: the default format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Formats {
    pub message: Option<Format>,
    /// Lines of their own, once for each connection and request that has any.
    pub connection: Vec<Format>,
    pub request: Vec<Format>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) kind: Kind,
    /// A field begins here.
    pub(super) starts_field: bool,
    pub(super) when_empty: WhenEmpty,
    /// Left out of less detailed messages.
    pub(super) level_min: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenEmpty {
    DropField,
    DropLine,
    Hyphen,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text(Vec<u8>),
    Message,
    Client,
    Peer,
    Local,
    Field(Box<str>),
    Variable(Box<str>),
    Note(Box<str>),
    Level,
    Module,
    RequestId,
    ConnectionId {
        /// Omitted if there is a request.
        alone: bool,
    },
    ProcessId,
    ThreadId,
    Time(TimeForm),
    SiteName,
    HostName,
    KeptAlive,
    Place,
    /// The system's error.
    Errno,
    /// A value that is not available here.
    Nothing,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TimeForm {
    pub(super) microseconds: bool,
    pub(super) milliseconds: bool,
    pub(super) compact: bool,
    pub(super) zone: bool,
}

impl Format {
    /// The format of messages, which holds `%M`; or of the lines about a connection or a request,
    /// which must not.
    pub fn parse(text: &str, is_of_messages: bool) -> Result<Format, String> {
        let mut parser = Parser {
            rest: text,
            items: Vec::new(),
        };
        while !parser.rest.is_empty() {
            let item = parser.item(false)?;
            parser.items.push(item);
        }
        if is_of_messages
            && parser
                .items
                .iter()
                .any(|item| item.when_empty == WhenEmpty::DropLine)
        {
            return Err("The '+' flag cannot be used in the main error log format".into());
        }
        if !is_of_messages && parser.items.iter().any(|item| item.level_min > 0) {
            return Err("The loglevel cannot be used as a condition in once-per-request or once-per-connection formats".into());
        }
        match (
            parser.items.iter().any(|item| item.kind == Kind::Message),
            is_of_messages,
        ) {
            (true, false) => {
                Err("%M cannot be used in once-per-request or once-per-connection formats".into())
            }
            (false, true) => {
                Err("main ErrorLogFormat must contain message format string '%M'".into())
            }
            _ => Ok(Format(parser.items)),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
    items: Vec<Item>,
}

impl Parser<'_> {
    fn next(&mut self) -> Option<char> {
        let letter = self.rest.chars().next()?;
        self.rest = self.rest.get(letter.len_utf8()..).unwrap_or_default();
        Some(letter)
    }

    fn item(&mut self, starts_field: bool) -> Result<Item, String> {
        let plain = |kind, starts_field| Item {
            kind,
            starts_field,
            when_empty: WhenEmpty::DropField,
            level_min: 0,
        };
        let Some(rest) = self.rest.strip_prefix('%') else {
            return self.text(starts_field);
        };
        self.rest = rest;
        match rest.chars().next() {
            // Between fields, and no space itself.
            Some(' ') => {
                self.next();
                if self.rest.is_empty() {
                    return Ok(plain(Kind::Nothing, true));
                }
                let item = self.item(true)?;
                Ok(Item {
                    starts_field: true,
                    ..item
                })
            }
            Some('%') => {
                self.next();
                Ok(plain(Kind::Text(b"%".to_vec()), starts_field))
            }
            _ => self.directive(plain(Kind::Nothing, starts_field)),
        }
    }

    /// Up to the next item; a space at its beginning begins a field, one behind a backslash is one
    /// like any letter.
    fn text(&mut self, starts_field: bool) -> Result<Item, String> {
        let begins_with_space = self.rest.starts_with(' ');
        let (mut text, mut is_first) = (Vec::new(), true);
        while let Some(letter) = self
            .rest
            .chars()
            .next()
            .filter(|letter| *letter != '%' && (is_first || *letter != ' '))
        {
            self.next();
            is_first = false;
            let meant = match letter {
                '\\' => match self.next() {
                    Some('r') => '\r',
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some(other) => other,
                    None => '\\',
                },
                letter => letter,
            };
            text.extend_from_slice(meant.encode_utf8(&mut [0; 4]).as_bytes());
        }
        let starts_field = starts_field || begins_with_space;
        Ok(Item {
            kind: Kind::Text(text),
            starts_field,
            when_empty: WhenEmpty::DropField,
            level_min: 0,
        })
    }

    fn directive(&mut self, mut item: Item) -> Result<Item, String> {
        let mut argument = "";
        while let Some(letter) = self.next() {
            match letter {
                '{' => {
                    let (inside, behind) = self.rest.split_once('}').unwrap_or((self.rest, ""));
                    (argument, self.rest) = (inside, behind);
                }
                '+' => item.when_empty = WhenEmpty::DropLine,
                '-' => item.when_empty = WhenEmpty::Hyphen,
                '0'..='9' => {
                    item.level_min = item
                        .level_min
                        .saturating_mul(10)
                        .saturating_add(letter as u8 - b'0')
                }
                letter => {
                    item.kind = kind(letter, argument).ok_or_else(|| {
                        format!("Unrecognized error log format directive %{letter}")
                    })?;
                    return Ok(item);
                }
            }
        }
        Err("Ran off end of error log format string".into())
    }
}

fn kind(letter: char, argument: &str) -> Option<Kind> {
    let has = |letter: char| argument.contains(letter);
    Some(match letter {
        'M' => Kind::Message,
        'a' if argument.eq_ignore_ascii_case("c") => Kind::Peer,
        'a' => Kind::Client,
        'A' => Kind::Local,
        'e' => Kind::Variable(argument.into()),
        'i' => Kind::Field(argument.into()),
        'n' => Kind::Note(argument.into()),
        'l' => Kind::Level,
        'm' => Kind::Module,
        'L' if argument == "c" => Kind::ConnectionId { alone: false },
        'L' if argument == "C" => Kind::ConnectionId { alone: true },
        'L' => Kind::RequestId,
        'P' => Kind::ProcessId,
        'T' => Kind::ThreadId,
        't' => Kind::Time(TimeForm {
            microseconds: has('u'),
            milliseconds: has('m'),
            compact: has('c'),
            zone: has('z'),
        }),
        'v' => Kind::SiteName,
        'V' => Kind::HostName,
        'k' => Kind::KeptAlive,
        'F' => Kind::Place,
        'E' => Kind::Errno,
        _ => return None,
    })
}
