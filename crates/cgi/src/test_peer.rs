//! The other side, for tests: requests made by hand, dialogues driven over bytes in pieces, and
//! programs that say what they are told to.
//!
//! Used by this crate's tests and fuzz targets, and by those of the engine, which need programs
//! that misbehave.
//!
//! Absent on purpose: sockets, and everything that a server would not need a test for.

pub mod fastcgi;
pub mod lsapi;

use crate::{
    Broken, Dialogue, Event, ProgramRequest, Refused, ResponseHead, Setting, Variables,
    dialogue::UNREAD_BYTES_MAX,
};
use saker_http::{Fields, RequestHead, Version};

/// A request made by hand.
#[derive(Clone, Debug)]
pub struct Asked {
    variables: Variables,
    content_length: Option<u64>,
    head: RequestHead,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked::new()
    }
}

impl Asked {
    /// `GET /` without variables, fields and content.
    pub fn new() -> Asked {
        Asked::of("GET", Version::Http11, &[])
    }

    pub fn of(method: &str, version: Version, fields: &[(&str, &str)]) -> Asked {
        Asked {
            variables: Variables::new(),
            content_length: Some(0),
            head: RequestHead::build(method, "/", version, fields),
        }
    }

    /// With the variables that LSAPI can't do without.
    pub fn script() -> Asked {
        let named = Asked::new()
            .variable("SCRIPT_FILENAME", "/srv/a.php")
            .variable("SCRIPT_NAME", "/a.php");
        named
            .variable("QUERY_STRING", "")
            .variable("REQUEST_METHOD", "GET")
    }

    pub fn content(mut self, length: Option<u64>) -> Asked {
        self.content_length = length;
        self
    }

    pub fn variable(mut self, name: &str, value: &str) -> Asked {
        self.variables.push(name.as_bytes(), value.as_bytes());
        self
    }

    pub fn fields(mut self, fields: &[(&str, &str)]) -> Asked {
        self.head = RequestHead::build("GET", "/", self.head.view().version(), fields);
        self
    }

    pub fn begin(&self, dialogue: &mut dyn Dialogue, out: &mut Vec<u8>) -> Result<(), Refused> {
        self.begin_with(&[], dialogue, out)
    }

    pub fn begin_with(
        &self,
        settings: &[Setting<'_>],
        dialogue: &mut dyn Dialogue,
        out: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        let Asked {
            variables,
            content_length,
            head,
        } = self;
        let head = head.view();
        dialogue.begin(
            &ProgramRequest {
                variables,
                content_length: *content_length,
                head,
                path: b"/path",
                settings,
            },
            out,
        )
    }
}

/// Events received from a dialogue, with content and text fragments joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Head(ResponseHead),
    Interim(ResponseHead),
    Content(Vec<u8>),
    Log(Vec<u8>),
    Asks(usize),
    Taken(Option<u32>),
    Trailers(Fields),
    Switched(ResponseHead),
    /// `stays`, and nothing was left unread.
    End(bool),
    Broken(Broken),
    /// Neither ended nor broken.
    Open,
}

/// Listens to one dialogue.
#[derive(Debug, Default)]
pub struct Ear {
    pub heard: Vec<Heard>,
    unread: Vec<u8>,
}

impl Ear {
    /// Gives the dialogue what came. Says whether it is over with it. Panics where the dialogue
    /// breaks its contract with the engine.
    pub fn take(&mut self, dialogue: &mut dyn Dialogue, piece: &[u8]) -> bool {
        self.unread.extend_from_slice(piece);
        match self.listen(dialogue) {
            Ok(()) => matches!(self.heard.last(), Some(Heard::End(_))),
            Err(broken) => {
                self.heard.push(Heard::Broken(broken));
                true
            }
        }
    }

    /// The connection closed.
    pub fn close(&mut self, dialogue: &mut dyn Dialogue) {
        let is_whole = matches!(self.heard.last(), Some(Heard::End(_)));
        match dialogue.closed() {
            Ok(Some(event)) => self.note(event, &[]),
            Ok(None) => assert!(is_whole, "closed without a word"),
            Err(broken) => self.heard.push(Heard::Broken(broken)),
        }
    }

    fn listen(&mut self, dialogue: &mut dyn Dialogue) -> Result<(), Broken> {
        loop {
            let (used, event) = dialogue.receive(&self.unread)?;
            assert!(used <= self.unread.len(), "more used than there was");
            let is_over = used == 0 && event.is_none();
            let used: Vec<u8> = self.unread.drain(..used).collect();
            event.into_iter().for_each(|event| self.note(event, &used));
            if is_over {
                break;
            }
        }
        match self.heard.last_mut() {
            Some(Heard::End(stays)) => *stays &= self.unread.is_empty(),
            _ => assert!(
                self.unread.len() < UNREAD_BYTES_MAX,
                "{} bytes left unread",
                self.unread.len()
            ),
        }
        Ok(())
    }

    fn note(&mut self, event: Event, used: &[u8]) {
        assert!(
            !matches!(self.heard.last(), Some(Heard::End(_))),
            "an event after the end"
        );
        let next = match event {
            Event::Head(head) => Heard::Head(head),
            Event::Interim(head) => Heard::Interim(head),
            Event::Content(range) => Heard::Content(used[range].to_vec()),
            Event::Log(range) => Heard::Log(used[range].to_vec()),
            Event::Asks(count) => Heard::Asks(count),
            Event::Taken { process } => Heard::Taken(process),
            Event::Trailers(fields) => Heard::Trailers(fields),
            Event::Switched(head) => Heard::Switched(head),
            Event::End { stays } => Heard::End(stays),
        };
        match (self.heard.last_mut(), next) {
            (Some(Heard::Content(before)), Heard::Content(next))
            | (Some(Heard::Log(before)), Heard::Log(next)) => before.extend(next),
            (_, next) => self.heard.push(next),
        }
    }
}

/// Gives a dialogue these pieces and then, if `closes`, the end of the connection.
pub fn hear<'p>(
    dialogue: &mut dyn Dialogue,
    pieces: impl IntoIterator<Item = &'p [u8]>,
    closes: bool,
) -> Vec<Heard> {
    let mut ear = Ear::default();
    for piece in pieces {
        if ear.take(dialogue, piece) && matches!(ear.heard.last(), Some(Heard::Broken(_))) {
            return ear.heard;
        }
    }
    match ear.heard.last() {
        _ if closes => ear.close(dialogue),
        Some(Heard::End(_)) => {}
        _ => ear.heard.push(Heard::Open),
    }
    ear.heard
}
