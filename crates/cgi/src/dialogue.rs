//! The trait between the engine and every protocol spoken by programs.
//!
//! Place in the walk: the engine takes a connection, makes a dialogue, writes what
//! [`Dialogue::begin`], [`Dialogue::content`] and [`Dialogue::end`] append, and shows
//! [`Dialogue::receive`] what comes, in whatever order the two directions get ahead.
//!
//! The one difficulty is memory: content is never copied (events name ranges of the engine's own
//! buffer), and a dialogue never waits with more than [`UNREAD_BYTES_MAX`] bytes unread, so that
//! the engine's buffer may have any size above that. Longer things (heads) a dialogue collects
//! itself, within limits.
//!
//! Absent on purpose: a count of content bytes. Whether a program sends what its Content-Length
//! said, the engine sees for all protocols alike.

use crate::{Broken, Refused, Variables};
use saker_http::{Fields, HeadView, Status};
use std::ops::Range;

/// A dialogue that says "more is needed" leaves fewer bytes than this unread.
pub const UNREAD_BYTES_MAX: usize = 16;

/// One request over one connection to a program: what to send, and what that means which comes
/// back. Sans-IO.
///
/// A dialogue is used for one request. Once it returned [`Event::End`] or an error it is done: the
/// connection goes back to its pool or is closed.
pub trait Dialogue {
    /// Everything that goes out before the content. Called once, first. `Refused`: can't be said in
    /// this protocol; nothing was appended.
    fn begin(&mut self, request: &ProgramRequest<'_>, out: &mut Vec<u8>) -> Result<(), Refused>;

    /// Content of the request, as it comes. Never called with an empty slice, with more than
    /// [`Dialogue::content_max`], or after `end`.
    fn content(&mut self, content: &[u8], out: &mut Vec<u8>);

    /// Frames that many bytes of content, which the caller sends itself, behind `out` and before
    /// what is returned. Takes the place of [`Dialogue::content`] for long pieces. `None`, and
    /// nothing appended: this piece has to be given to `content`.
    fn frame(&mut self, _bytes: usize, _out: &mut Vec<u8>) -> Option<&'static [u8]> {
        None
    }

    /// Trailer fields of the request, just before `end`. Lost where the protocol has no words for
    /// them.
    fn trailers(&mut self, _fields: Fields) {}

    /// The content is over. Called once for each request, also for those without content, and once
    /// more for each [`Event::Asks`] that comes after it. A request that ends sooner, because its
    /// sender went away or the program answered without reading it, never calls this, and the
    /// connection is not used again.
    fn end(&mut self, out: &mut Vec<u8>);

    /// Maximum number of content bytes that one call may pass. AJP requests each piece
    /// ([`Event::Asks`]); other protocols have no limit.
    fn content_max(&self) -> usize {
        usize::MAX
    }

    /// True if content may be given now.
    fn wants_content(&self) -> bool {
        self.content_max() > 0
    }

    /// Looks at what came. Returns how many bytes of `input` are used up and what they were. The
    /// engine calls again, with the rest, until `(0, None)`: more is needed. Bytes may be used up
    /// without an event.
    fn receive(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken>;

    /// The program closed the connection, or it broke, and `receive` has seen all that came before.
    /// A response that ends with the connection ends here; `Ok(None)` only if it had ended already.
    fn closed(&mut self) -> Result<Option<Event>, Broken>;
}

/// Event decoded from the program's output. Ranges refer to the `input` passed to `receive` and lie
/// within the consumed bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Final head of the response. Comes once, before any content.
    Head(ResponseHead),
    /// Interim response (103 Early Hints, 100).
    Interim(ResponseHead),
    /// Content of the response; never empty.
    Content(Range<usize>),
    /// Text for the error log: a fragment that may begin and end anywhere.
    Log(Range<usize>),
    /// It wants content: so many bytes at most, or the end (AJP).
    Asks(usize),
    /// The program has read the request and is working on it. Until then the request can safely be
    /// given to another program (LSAPI reports this; protocols that don't never emit the event).
    /// Carries the process id if it was reported.
    Taken { process: Option<u32> },
    /// Trailer fields.
    Trailers(Fields),
    /// The response is whole. `stays`: as far as the protocol knows the connection can be used
    /// again, given that `end` was said and sent, and that nothing is left unread.
    End { stays: bool },
    /// The connection now belongs to another protocol (101): bytes pass both ways from here.
    Switched(ResponseHead),
}

/// The first status of a program's response, with its reason phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstStatus {
    pub status: Status,
    pub reason: Option<Box<[u8]>>,
}

/// Head of a program's response. Which of its fields concern the connection only is for the engine
/// to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    pub status: Status,
    /// The reason phrase, where the program has one of its own.
    pub reason: Option<Box<[u8]>>,
    /// In the order they came, without `Status` and `Content-Length`.
    pub fields: Fields,
    /// Content-Length, where it was said.
    pub length: Option<u64>,
    /// The program said a status; otherwise it is 200, or 302 because of a `Location`.
    pub is_status_said: bool,
    /// The first status that the program said, where another counts by CGI's rules: a `Location`
    /// outweighs 200, and the last of several lines the others.
    pub first_status: Option<Box<FirstStatus>>,
    /// The program said a status that is none, which counts as 500, as in Apache.
    pub is_status_invalid: bool,
    /// RFC 3875 section 6.2.2: `Location` is a path of this server, to be served in place of this
    /// response. The status is 302, for handlers that leave it to the client.
    pub is_local_redirect: bool,
}

/// Request data for the codecs. No single codec needs all of it.
#[derive(Clone, Copy)]
pub struct ProgramRequest<'a> {
    /// CGI/1.1 meta-variables with `HTTP_*`, and what the configuration adds (all but LSAPI and AJP
    /// send these alone).
    pub variables: &'a Variables,
    /// `None` where content of unknown length follows; FastCGI and AJP can do that, the others
    /// refuse.
    pub content_length: Option<u64>,
    /// Method, version and fields as they are to be passed on: LSAPI and AJP send fields as such.
    pub head: HeadView<'a>,
    /// Path of the request in the program's eyes, encoded, without query (AJP).
    pub path: &'a [u8],
    /// Settings of PHP (LSAPI; for FastCGI see [`crate::Variables`]).
    pub settings: &'a [Setting<'a>],
}

/// A setting of PHP for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'a> {
    pub level: Level,
    pub name: &'a [u8],
    /// Flags are `1` or `0`.
    pub value: &'a [u8],
}

/// Scope in which a setting may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// `php_admin_value`, `php_admin_flag`: the script may not.
    System,
    /// `php_value`, `php_flag`: the script may.
    PerDirectory,
}
