//! The language of log formats: Apache's `LogFormat` (mod_log_config and mod_logio), and our names
//! for whole lines.
//!
//! Called by: the configuration, which parses them; `render` runs over the items for every request.
//! Caveat: between `%` and its letter, conditions, `<` or `>`, and an argument in braces come in
//! any order, and the meaning of the argument depends on the letter.
//! Out of scope: unknown items; they are an error, never printed as they stand.

use super::item::{Condition, Item, Kind, TimeForm, Unit};
use super::needs::Needs;
use super::{Escapes, LogClock, Record, json, render};
use crate::local_time::check_strftime;
use saker_http::KnownField;
use std::fmt;

const COMMON: &str = r#"%h %l %u %t "%r" %>s %b"#;
const COMBINED: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;
const VHOST_COMBINED: &str = r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#;

/// Reason why a format is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// Byte offset into the text.
    pub offset: usize,
    pub message: String,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FormatError {}

/// A parsed log format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    body: Body,
    needs: Needs,
    escapes: Escapes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Body {
    Items(Vec<Item>),
    Json,
}

impl Format {
    /// `common`, `combined`, `vhost_combined`, `json`, or a format string as in Apache's
    /// `LogFormat`.
    pub fn parse(text: &str) -> Result<Format, FormatError> {
        match text {
            "common" => Format::of_items(COMMON),
            "combined" => Format::of_items(COMBINED),
            "vhost_combined" => Format::of_items(VHOST_COMBINED),
            "json" => Ok(Format {
                body: Body::Json,
                needs: json::NEEDS,
                escapes: Escapes::Apache,
            }),
            _ if !text.contains('%') => error(
                0,
                "no such format; names are common, combined, vhost_combined and json",
            ),
            _ => Format::of_items(text),
        }
    }

    /// A format string as in Apache's `LogFormat` and nothing else: no name stands for a whole
    /// line, and it may hold line ends.
    pub fn parse_items(text: &str) -> Result<Format, FormatError> {
        Format::read(text, true)
    }

    /// Values of items are written in this form.
    pub fn with_escapes(self, escapes: Escapes) -> Format {
        Format { escapes, ..self }
    }

    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// Names of the variables that lines tell (`%{NAME}e`).
    pub fn variables(&self) -> Vec<Box<str>> {
        let Body::Items(items) = &self.body else {
            return Vec::new();
        };
        let names = items.iter().filter_map(|item| {
            if let Kind::Environment(name) = &item.kind {
                Some(name.clone())
            } else {
                None
            }
        });
        names.collect()
    }

    /// Appends one line with its line end.
    pub fn write(&self, record: &Record<'_>, clock: &mut LogClock, out: &mut Vec<u8>) {
        match &self.body {
            Body::Items(items) => {
                for item in items {
                    let start = out.len();
                    render::item(item, record, clock, out);
                    if !matches!(item.kind, Kind::Literal(_)) {
                        self.escapes.rewrite(out, start);
                    }
                }
            }
            Body::Json => json::object(record, clock, out),
        }
        out.push(b'\n');
    }

    fn of_items(text: &str) -> Result<Format, FormatError> {
        Format::read(text, false)
    }

    fn read(text: &str, may_break: bool) -> Result<Format, FormatError> {
        let items = Parser {
            text,
            at: 0,
            literal: Vec::new(),
            items: Vec::new(),
            may_break,
        }
        .run()?;
        let mut needs = Needs::default();
        items.iter().for_each(|item| needs.note(&item.kind));
        Ok(Format {
            body: Body::Items(items),
            needs,
            escapes: Escapes::Apache,
        })
    }
}

impl Needs {
    /// Union of the needs of two formats.
    pub fn and(self, other: Needs) -> Needs {
        Needs {
            duration: self.duration || other.duration,
            first_byte: self.first_byte || other.first_byte,
            bytes_in: self.bytes_in || other.bytes_in,
            bytes_out: self.bytes_out || other.bytes_out,
            response_fields: self.response_fields || other.response_fields,
            notes: self.notes || other.notes,
            environment: self.environment || other.environment,
            trailers: self.trailers || other.trailers,
            file: self.file || other.file,
            walk: self.walk || other.walk,
            tls: self.tls || other.tls,
        }
    }

    /// Returns true if the line needs facts of the dispatch in addition to the response.
    pub fn walk_facts(self) -> bool {
        self.notes || self.environment || self.file || self.walk
    }

    fn note(&mut self, kind: &Kind) {
        match kind {
            Kind::Duration(_) | Kind::Time { end: true, .. } => self.duration = true,
            Kind::FirstByte => (self.first_byte, self.walk) = (true, true),
            Kind::BytesIn => self.bytes_in = true,
            Kind::BytesOut => self.bytes_out = true,
            Kind::BytesInAndOut => (self.bytes_in, self.bytes_out) = (true, true),
            Kind::ResponseField(_) | Kind::BareLength => self.response_fields = true,
            Kind::Note(_) => self.notes = true,
            Kind::Environment(_) => self.environment = true,
            Kind::RequestTrailer(_) | Kind::ResponseTrailer(_) => self.trailers = true,
            Kind::File => self.file = true,
            Kind::Handler
            | Kind::LogId
            | Kind::HostAsked
            | Kind::Status { last: false }
            | Kind::Path { .. }
            | Kind::Query { .. } => self.walk = true,
            Kind::TlsVariable(_) => self.tls = true,
            _ => {}
        }
    }
}

fn error<T>(offset: usize, message: impl Into<String>) -> Result<T, FormatError> {
    Err(FormatError {
        offset,
        message: message.into(),
    })
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Bytes since the last item.
    literal: Vec<u8>,
    items: Vec<Item>,
    /// Line ends are meant so.
    may_break: bool,
}

/// Modifiers between `%` and the letter.
#[derive(Default)]
struct Modifiers<'a> {
    /// Position of the `%`.
    start: usize,
    argument: &'a str,
    /// `Some(true)` for `>`, `Some(false)` for `<`.
    last: Option<bool>,
    condition: Condition,
}

impl<'a> Parser<'a> {
    fn run(mut self) -> Result<Vec<Item>, FormatError> {
        while let Some(byte) = self.next() {
            match byte {
                b'%' => self.item()?,
                b'\\' => self.backslash()?,
                _ if byte.is_ascii_control() && byte != b'\t' => {
                    return error(self.at - 1, "a log line cannot hold control characters");
                }
                _ => self.literal.push(byte),
            }
        }
        self.end_literal();
        Ok(self.items)
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.text.as_bytes().get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }

    /// Handles a backslash like Apache: `\t` and `\\` are escapes, any other backslash stands for
    /// itself. `\n` and `\r` would break lines in two.
    fn backslash(&mut self) -> Result<(), FormatError> {
        let escaped = self.text.as_bytes().get(self.at).copied();
        match escaped {
            Some(b't') => self.literal.push(b'\t'),
            Some(b'\\') => self.literal.push(b'\\'),
            Some(b'n') if self.may_break => self.literal.push(b'\n'),
            Some(b'r') if self.may_break => self.literal.push(b'\r'),
            Some(b'n' | b'r') => return error(self.at - 1, "a log line cannot hold a line end"),
            _ => {
                self.literal.push(b'\\');
                return Ok(());
            }
        }
        self.at += 1;
        Ok(())
    }

    fn item(&mut self) -> Result<(), FormatError> {
        let (modifiers, letter) = self.modifiers()?;
        if letter == b'%' {
            self.literal.push(b'%');
            return Ok(());
        }
        let kind = if letter == b'^' {
            self.two_letters(&modifiers)?
        } else {
            kind(letter, &modifiers)?
        };
        let condition =
            (!modifiers.condition.statuses.is_empty()).then(|| Box::new(modifiers.condition));
        self.push(Item { kind, condition });
        Ok(())
    }

    fn push(&mut self, item: Item) {
        // What always prints the same is text.
        match item {
            Item {
                kind: Kind::Literal(text),
                ..
            } => self.literal.extend_from_slice(&text),
            item => {
                self.end_literal();
                self.items.push(item);
            }
        }
    }

    fn end_literal(&mut self) {
        if !self.literal.is_empty() {
            let text = std::mem::take(&mut self.literal).into();
            self.items.push(Item {
                kind: Kind::Literal(text),
                condition: None,
            });
        }
    }

    fn modifiers(&mut self) -> Result<(Modifiers<'a>, u8), FormatError> {
        let mut modifiers = Modifiers {
            start: self.at - 1,
            ..Modifiers::default()
        };
        while let Some(byte) = self.next() {
            match byte {
                b'!' => modifiers.condition.negated = true,
                b',' => {}
                b'<' => modifiers.last = Some(false),
                b'>' => modifiers.last = Some(true),
                b'0'..=b'9' => modifiers.condition.statuses.push(self.status()?),
                b'{' => modifiers.argument = self.argument()?,
                letter => return Ok((modifiers, letter)),
            }
        }
        error(modifiers.start, "the format ends inside this item")
    }

    /// A status code whose first digit has just been taken.
    fn status(&mut self) -> Result<u16, FormatError> {
        let start = self.at - 1;
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        match self
            .text
            .get(start..self.at)
            .and_then(|digits| digits.parse().ok())
        {
            Some(status) if (100..1000).contains(&status) => Ok(status),
            _ => error(start, "a status code has three digits"),
        }
    }

    fn argument(&mut self) -> Result<&'a str, FormatError> {
        let start = self.at;
        match self.text.get(start..).and_then(|rest| rest.split_once('}')) {
            Some((argument, _)) => {
                self.at += argument.len() + 1;
                Ok(argument)
            }
            None => error(start - 1, "this brace is never closed"),
        }
    }

    fn two_letters(&mut self, modifiers: &Modifiers<'_>) -> Result<Kind, FormatError> {
        match (self.next(), self.next()) {
            (Some(b't'), Some(b'i')) => Ok(Kind::RequestTrailer(name(modifiers)?)),
            (Some(b't'), Some(b'o')) => Ok(Kind::ResponseTrailer(name(modifiers)?)),
            (Some(b'F'), Some(b'B')) => Ok(Kind::FirstByte),
            _ => error(modifiers.start, "no such item; after %^ come ti, to and FB"),
        }
    }
}

fn kind(letter: u8, modifiers: &Modifiers<'_>) -> Result<Kind, FormatError> {
    Ok(match letter {
        b'a' | b'h' if modifiers.argument == "c" => Kind::PeerAddress,
        b'a' => Kind::ClientAddress,
        b'h' => Kind::ClientName,
        b'A' => Kind::LocalAddress,
        b'b' => Kind::BodyBytes {
            dash_for_none: true,
        },
        b'B' => Kind::BodyBytes {
            dash_for_none: false,
        },
        b'C' => Kind::Cookie(name(modifiers)?),
        b'D' => Kind::Duration(Unit::Microseconds),
        b'e' => Kind::Environment(name(modifiers)?),
        b'f' => Kind::File,
        b'H' => Kind::Protocol,
        b'i' => request_field(name(modifiers)?),
        b'k' => Kind::KeepaliveCount,
        // The remote logname needs an ident service, which does not exist in practice.
        b'l' => Kind::Literal(Box::from(*b"-")),
        b'L' if modifiers.argument == "c" => Kind::ConnectionLogId,
        b'L' => Kind::LogId,
        b'm' => Kind::Method {
            last: modifiers.last.unwrap_or(true),
        },
        b'n' => Kind::Note(name(modifiers)?),
        b'o' => Kind::ResponseField(name(modifiers)?),
        b'p' => port(modifiers)?,
        b'P' => process(modifiers)?,
        b'q' => Kind::Query {
            last: modifiers.last.unwrap_or(true),
        },
        b'r' => Kind::RequestLine,
        b'R' => Kind::Handler,
        b's' => Kind::Status {
            last: modifiers.last.unwrap_or(false),
        },
        b't' => time(modifiers)?,
        b'T' => Kind::Duration(unit(modifiers)?),
        b'u' if modifiers.argument == "basic" => Kind::BasicUser,
        b'u' => Kind::User,
        b'U' => Kind::Path {
            last: modifiers.last.unwrap_or(false),
        },
        b'v' => Kind::SiteName,
        b'V' => Kind::HostAsked,
        b'x' => Kind::TlsVariable(name(modifiers)?),
        b'c' => tls_item(modifiers),
        b'X' if modifiers.argument == "connection" => Kind::ConnectionField,
        b'X' if modifiers.argument == "completion" => Kind::Completion,
        b'X' if modifiers.argument == "length" => Kind::BareLength,
        b'X' => Kind::ConnectionStatus,
        b'I' => Kind::BytesIn,
        b'O' => Kind::BytesOut,
        b'S' => Kind::BytesInAndOut,
        _ => {
            return error(
                modifiers.start,
                format!("no such item: %{}", char::from(letter).escape_default()),
            );
        }
    })
}

fn name(modifiers: &Modifiers<'_>) -> Result<Box<str>, FormatError> {
    match modifiers.argument {
        "" => error(modifiers.start, "this item needs a name in braces"),
        name => Ok(name.into()),
    }
}

/// mod_ssl's older items (httpd 2.4, mod_ssl, "Custom Log Formats").
fn tls_item(modifiers: &Modifiers<'_>) -> Kind {
    let variable = match modifiers.argument {
        "version" => "SSL_PROTOCOL",
        "cipher" => "SSL_CIPHER",
        "subjectdn" => "SSL_CLIENT_S_DN",
        "issuerdn" => "SSL_CLIENT_I_DN",
        "errstr" => "SSL_CLIENT_VERIFY_ERRSTR",
        // No other has a value in Apache, and it starts with them.
        _ => return Kind::Literal(Box::from(*b"-")),
    };
    Kind::TlsVariable(variable.into())
}

fn request_field(name: Box<str>) -> Kind {
    match KnownField::classify(name.as_bytes()) {
        Some(known) => Kind::KnownField(known),
        None => Kind::RequestField(name),
    }
}

fn port(modifiers: &Modifiers<'_>) -> Result<Kind, FormatError> {
    match modifiers.argument {
        "" | "canonical" => Ok(Kind::CanonicalPort),
        "local" => Ok(Kind::LocalPort),
        "remote" => Ok(Kind::RemotePort),
        _ => error(modifiers.start, "ports are canonical, local and remote"),
    }
}

fn process(modifiers: &Modifiers<'_>) -> Result<Kind, FormatError> {
    match modifiers.argument {
        "" | "pid" => Ok(Kind::ProcessId),
        "tid" => Ok(Kind::ThreadId { hexadecimal: false }),
        "hextid" => Ok(Kind::ThreadId { hexadecimal: true }),
        _ => error(modifiers.start, "ids are pid, tid and hextid"),
    }
}

fn unit(modifiers: &Modifiers<'_>) -> Result<Unit, FormatError> {
    match modifiers.argument {
        "" | "s" => Ok(Unit::Seconds),
        "ms" => Ok(Unit::Milliseconds),
        "s.ms" => Ok(Unit::SecondsAndMilliseconds),
        "us" => Ok(Unit::Microseconds),
        _ => error(modifiers.start, "units are s, ms and us"),
    }
}

fn time(modifiers: &Modifiers<'_>) -> Result<Kind, FormatError> {
    let (end, form) = match modifiers.argument.split_once(':') {
        Some(("begin", form)) => (false, form),
        Some(("end", form)) => (true, form),
        _ => (false, modifiers.argument),
    };
    let form = match form {
        "" => TimeForm::Clf,
        "sec" => TimeForm::Seconds,
        "msec" => TimeForm::Milliseconds,
        "usec" => TimeForm::Microseconds,
        "msec_frac" => TimeForm::MillisecondFraction,
        "usec_frac" => TimeForm::MicrosecondFraction,
        // A control character of the operator's own would break the line as well as a client's.
        text if text.bytes().any(|byte| byte.is_ascii_control()) => {
            return error(modifiers.start, "a log line cannot hold control characters");
        }
        text if check_strftime(text).is_err() => {
            return error(modifiers.start, "no such conversion in this time format");
        }
        text => TimeForm::Strftime(text.into()),
    };
    Ok(Kind::Time { end, form })
}
