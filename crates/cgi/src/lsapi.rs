//! LSAPI: one request at a time on a connection, as one packet with the fields as they came and an
//! index of them; the content unframed; PHP's settings with the request. Byte layout and limits are
//! those of the library that ships with PHP 8.
//!
//! Difficulty: byte order. Numbers have the sender's own, and the flag that says which lies on some
//! machines, so what comes is read in the order under which the first packet's length makes sense.
//!
//! Absent on purpose: ABORT_REQUEST. The library does not read while a script runs; the closed
//! connection is what stops one.

mod packet;
mod request;

use crate::{
    Broken, Dialogue, Event, Fault, ProgramRequest, Refused, ResponseHead, head::HeadBuilder,
    response::INTERIM_COUNT_MAX,
};
pub use packet::{PACKET_HEADER_BYTES, kind};
pub use request::{HEAD_BYTES_MAX, Identity, STANDARD_FIELDS};
use saker_http::{HeadView, Method, Status};

/// Number of lines and status.
const RESPONSE_INFO_BYTES: usize = 8;
/// Payload of a response head, of text, and of notices. A piece of content may have any length.
const RESPONSE_HEAD_BYTES_MAX: usize = 65535;
const TEXT_BYTES_MAX: usize = 16384;
const LINE_COUNT_MAX: usize = 1000;
const PROCESS_NOTICE: &[u8; 4] = b"\0PID";

/// Content up to this size is below any usual `post_max_size`.
const READ_AHEAD_BYTES_MAX: u64 = 1 << 20;

/// Returns true if a script may end with some of the content unread, which lsphp would then take
/// for the next packet: content has no frames. PHP reads only that of POST ahead, if it has a type
/// and is within `post_max_size`, and gives up on multipart content that is malformed.
pub fn may_leave_content(head: HeadView<'_>, length: Option<u64>) -> bool {
    if length == Some(0) {
        return false;
    }
    let is_read_ahead = |value: &[u8]| {
        [&b"application/"[..], b"text/"].iter().any(|kind| {
            value
                .get(..kind.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(kind))
        })
    };
    head.method() != Method::Post
        || length.is_none_or(|length| length > READ_AHEAD_BYTES_MAX)
        || !head.first("content-type").is_some_and(is_read_ahead)
}

/// One request in LSAPI.
#[derive(Debug, Default)]
pub struct Lsapi {
    identity: Option<Identity>,
    state: State,
    /// Byte order of the program, as soon as it has said something.
    order: Option<Order>,
    is_said: bool,
    is_head_over: bool,
    /// The program has read the request, so a later failure may leave it half done.
    is_taken: bool,
    /// CONN_CLOSE came before the end.
    is_leaving: bool,
    /// Unread content would be the next packet on this connection.
    may_leave_content: bool,
    interim_count: u32,
    /// A response head that is not whole.
    partial: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Header,
    /// Payload of a packet that is read as a whole, into `partial`.
    Head {
        left: usize,
        order: Order,
    },
    /// Payload that is passed on as it comes.
    Content {
        left: usize,
    },
    Log {
        left: usize,
    },
    /// The beginning of a STDERR packet that may be the process's number.
    Notice {
        order: Order,
    },
    Skip {
        left: usize,
    },
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Lsapi {
    pub fn new() -> Lsapi {
        Lsapi::default()
    }

    /// For a program that was started as root and shall change to a user with its first request.
    /// The connection must then stay with that user.
    pub fn with_identity(identity: Identity) -> Lsapi {
        Lsapi {
            identity: Some(identity),
            ..Lsapi::default()
        }
    }

    fn header(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        let magic = &input[..input.len().min(2)];
        if !b"LS".starts_with(magic) {
            // Only what is sure to be there however the bytes were cut.
            return Err(Broken::at(Fault::BadRecord, &input[..1]));
        }
        let Some(&[_, _, kind, _, l0, l1, l2, l3]) = input.first_chunk::<PACKET_HEADER_BYTES>()
        else {
            return Ok((0, None));
        };
        let bad = || Broken::at(Fault::BadRecord, &input[..PACKET_HEADER_BYTES]);
        let length = [l0, l1, l2, l3];
        let order = self.order.or_else(|| order_of(length)).ok_or_else(bad)?;
        self.order = Some(order);
        let left = payload(kind, order.u32(length)).ok_or_else(bad)?;
        match kind {
            kind::RESP_HEADER if self.is_head_over => return Err(Fault::SecondHead.into()),
            kind::RESP_HEADER => self.state = State::Head { left, order },
            kind::RESP_STREAM if !self.is_head_over => {
                return Err(Broken::at(Fault::Misplaced, &input[..PACKET_HEADER_BYTES]));
            }
            kind::RESP_STREAM => self.state = State::Content { left },
            kind::RESP_END => return self.response_end(),
            // Section 4.4: whole length 16.
            kind::STDERR_STREAM if left == 8 => self.state = State::Notice { order },
            kind::STDERR_STREAM => self.state = State::Log { left },
            kind::REQ_RECEIVED => return Ok((PACKET_HEADER_BYTES, self.received(left))),
            kind::CONN_CLOSE => return self.close_notice(),
            _ => {
                return Err(Broken {
                    is_untouched: !self.is_taken,
                    ..Fault::Failed.into()
                });
            }
        }
        self.is_taken |= matches!(
            self.state,
            State::Head { .. } | State::Content { .. } | State::Log { .. }
        );
        Ok((PACKET_HEADER_BYTES, None))
    }

    /// Section 4.5.
    fn received(&mut self, left: usize) -> Option<Event> {
        self.state = if left == 0 {
            State::Header
        } else {
            State::Skip { left }
        };
        self.is_taken = true;
        Some(Event::Taken { process: None })
    }

    /// Section 4.6: before the request was read, it may be sent to another process; afterwards the
    /// notice means that this request was the connection's last.
    fn close_notice(&mut self) -> Result<(usize, Option<Event>), Broken> {
        if !self.is_taken {
            return Err(Broken::untouched(Fault::Leaving));
        }
        self.is_leaving = true;
        Ok((PACKET_HEADER_BYTES, None))
    }

    /// Section 4.3. A CONN_CLOSE behind it stays unread, which says the same.
    fn response_end(&mut self) -> Result<(usize, Option<Event>), Broken> {
        if !self.is_head_over {
            return Err(Fault::Premature.into());
        }
        self.state = State::Done;
        Ok((
            PACKET_HEADER_BYTES,
            Some(Event::End {
                stays: self.is_said && !self.is_leaving && !self.may_leave_content,
            }),
        ))
    }

    fn head(
        &mut self,
        input: &[u8],
        left: usize,
        order: Order,
    ) -> Result<(usize, Option<Event>), Broken> {
        let used = left.min(input.len());
        self.partial.extend_from_slice(&input[..used]);
        if used < left {
            self.state = State::Head {
                left: left - used,
                order,
            };
            return Ok((used, None));
        }
        let head = parse_head(&std::mem::take(&mut self.partial), order)?;
        self.state = State::Header;
        Ok((used, Some(self.head_event(head)?)))
    }

    /// An interim response is followed by a final one; the library itself never makes one.
    fn head_event(&mut self, head: ResponseHead) -> Result<Event, Broken> {
        if head.status == Status::SWITCHING_PROTOCOLS {
            return Err(Fault::Unswitchable.into());
        }
        self.is_head_over = head.status.0 >= 200;
        self.interim_count += u32::from(!self.is_head_over);
        if self.interim_count > INTERIM_COUNT_MAX {
            return Err(Fault::HeadTooLarge.into());
        }
        Ok(if self.is_head_over {
            Event::Head(head)
        } else {
            Event::Interim(head)
        })
    }

    /// Section 4.4: eight bytes in STDERR are the process's number if they say so.
    fn notice(&mut self, input: &[u8], order: Order) -> (usize, Option<Event>) {
        let Some(&[m0, m1, m2, m3, p0, p1, p2, p3]) = input.first_chunk::<8>() else {
            return (0, None);
        };
        self.state = State::Header;
        self.is_taken = true;
        if [m0, m1, m2, m3] != *PROCESS_NOTICE {
            return (8, Some(Event::Log(0..8)));
        }
        (
            8,
            Some(Event::Taken {
                process: Some(order.u32([p0, p1, p2, p3])),
            }),
        )
    }
}

impl Dialogue for Lsapi {
    fn begin(&mut self, request: &ProgramRequest<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        self.may_leave_content = may_leave_content(request.head, request.content_length);
        request::encode(request, self.identity.as_ref(), out)
    }

    fn content(&mut self, content: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(content);
    }

    fn frame(&mut self, _bytes: usize, _out: &mut Vec<u8>) -> Option<&'static [u8]> {
        Some(b"")
    }

    fn end(&mut self, _out: &mut Vec<u8>) {
        self.is_said = true;
    }

    fn receive(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        if input.is_empty() {
            return Ok((0, None));
        }
        let piece = |left: usize| left.min(input.len());
        let (next, used, event) = match self.state {
            State::Header => return self.header(input),
            State::Head { left, order } => return self.head(input, left, order),
            State::Notice { order } => return Ok(self.notice(input, order)),
            State::Done => return Ok((0, None)),
            State::Content { left } => (
                State::Content {
                    left: left - piece(left),
                },
                piece(left),
                Some(Event::Content(0..piece(left))),
            ),
            State::Log { left } => (
                State::Log {
                    left: left - piece(left),
                },
                piece(left),
                Some(Event::Log(0..piece(left))),
            ),
            State::Skip { left } => (
                State::Skip {
                    left: left - piece(left),
                },
                piece(left),
                None,
            ),
        };
        self.state = match next {
            State::Content { left: 0 } | State::Log { left: 0 } | State::Skip { left: 0 } => {
                State::Header
            }
            next => next,
        };
        Ok((used, event))
    }

    fn closed(&mut self) -> Result<Option<Event>, Broken> {
        match self.state {
            State::Done => Ok(None),
            _ if !self.is_taken => Err(Broken::untouched(Fault::Cut)),
            _ if !self.is_head_over => Err(Fault::Premature.into()),
            _ => Err(Fault::Cut.into()),
        }
    }
}

impl Order {
    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }
}

/// The order in which the length of a first packet makes sense (section 1). It can't make sense in
/// both: none of the types that come first is longer than this, and what fits in two bytes at one
/// end is over 64 kB read from the other. So the flag says nothing new.
fn order_of(length: [u8; 4]) -> Option<Order> {
    let fits = |order: &Order| {
        (PACKET_HEADER_BYTES..=PACKET_HEADER_BYTES + RESPONSE_HEAD_BYTES_MAX)
            .contains(&(order.u32(length) as usize))
    };
    [Order::Little, Order::Big].into_iter().find(fits)
}

/// Length of the payload; `None` for what no program may send (section 2).
fn payload(kind: u8, length: u32) -> Option<usize> {
    let payload = (length as usize).checked_sub(PACKET_HEADER_BYTES)?;
    let fits = match kind {
        kind::RESP_HEADER => (RESPONSE_INFO_BYTES..=RESPONSE_HEAD_BYTES_MAX).contains(&payload),
        kind::RESP_STREAM => (1..=i32::MAX as usize).contains(&payload),
        kind::STDERR_STREAM => (1..=TEXT_BYTES_MAX).contains(&payload),
        kind::RESP_END | kind::CONN_CLOSE => payload == 0,
        kind::REQ_RECEIVED => payload == 0 || payload == 8,
        kind::INTERNAL_ERROR => payload <= TEXT_BYTES_MAX,
        _ => false,
    };
    fits.then_some(payload)
}

/// Section 4.1.
fn parse_head(payload: &[u8], order: Order) -> Result<ResponseHead, Broken> {
    let bad = || Broken::at(Fault::BadRecord, payload);
    let (info, rest) = payload
        .split_first_chunk::<RESPONSE_INFO_BYTES>()
        .ok_or_else(bad)?;
    let [n0, n1, n2, n3, s0, s1, s2, s3] = *info;
    let (count, status) = (
        order.u32([n0, n1, n2, n3]) as usize,
        order.u32([s0, s1, s2, s3]),
    );
    if count > LINE_COUNT_MAX {
        return Err(Fault::TooManyFields.into());
    }
    let (lengths, mut lines) = rest.split_at_checked(count * 2).ok_or_else(bad)?;
    let mut builder = HeadBuilder::default();
    if status != 0 {
        builder.status(status, b"");
    }
    for length in lengths.as_chunks::<2>().0 {
        let (line, after) = lines
            .split_at_checked(usize::from(order.u16(*length)))
            .ok_or_else(bad)?;
        builder.line(line.strip_suffix(b"\0").ok_or_else(bad)?)?;
        lines = after;
    }
    Ok(builder.finish(true))
}

#[cfg(test)]
mod tests;
