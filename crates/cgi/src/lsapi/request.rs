//! BEGIN_REQUEST: everything about a request in one packet (sections 3.1 to 3.8 of the protocol).
//!
//! Caveat: offsets point to later parts of the packet, and the program writes a NUL after every
//! name and value of the raw fields. The fields are therefore rewritten, one per line, with unused
//! bytes between them, and the numbers in the header are filled in at the end.
//!
//! Absent on purpose: the request line in the raw block, which the library does not look at.

use super::packet::{PACKET_HEADER_BYTES, kind};
use crate::{
    Level, ProgramRequest, Refused, Setting,
    field_lines::{Repeated, is_repeated, joined},
};
use md5::{Digest, Md5};
use saker_http::HeadView;
use std::cell::RefCell;

thread_local! {
    /// Used again from request to request.
    static RAW: RefCell<Raw> = RefCell::default();
}

/// The whole packet.
pub const HEAD_BYTES_MAX: usize = 65535;
const FIXED_BYTES: usize = 36;
const ENTRY_COUNT_MAX: usize = 8192;
const ABSENT: u32 = 0;
/// From here on the content's length is taken from its field.
const LENGTH_BY_FIELD: u64 = 1 << 31;
const IN_FIELD: i32 = -2;

/// Fields with a place of their own in the index (section 3.6), in its order.
pub const STANDARD_FIELDS: [&str; 25] = [
    "Accept",
    "Accept-Charset",
    "Accept-Encoding",
    "Accept-Language",
    "Authorization",
    "Connection",
    "Content-Type",
    "Content-Length",
    "Cookie",
    "Cookie2",
    "Host",
    "Pragma",
    "Referer",
    "User-Agent",
    "Cache-Control",
    "If-Modified-Since",
    "If-Match",
    "If-None-Match",
    "If-Range",
    "If-Unmodified-Since",
    "Keep-Alive",
    "Range",
    "X-Forwarded-For",
    "Via",
    "Transfer-Encoding",
];
const CONTENT_TYPE_SLOT: usize = 6;
const CONTENT_LENGTH_SLOT: usize = 7;
/// The library reads slots up to 23 only, and what is transferred here is not coded.
const TRANSFER_ENCODING_SLOT: usize = 24;

/// Whom a program started as root shall become (section 3.5), and the proof that it is we who ask.
#[derive(Clone)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    /// Secret from the file named by LSAPI_SECRET.
    pub secret: [u8; 16],
    /// Fresh for each connection.
    pub nonce: [u8; 16],
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("uid", &self.uid)
            .field("gid", &self.gid)
            .finish_non_exhaustive()
    }
}

/// Appends the packet, or nothing.
pub fn encode(
    request: &ProgramRequest<'_>,
    identity: Option<&Identity>,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let length = request.content_length.ok_or(Refused::LengthUnknown)?;
    let start = out.len();
    let done = Packet {
        out: &mut *out,
        start,
    }
    .encode(request, identity, length);
    if done.is_err() {
        out.truncate(start);
    }
    done
}

/// A packet being written at the end of a buffer. Offsets count from `start`.
struct Packet<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
}

/// Positions of the values that PHP reads before all others.
#[derive(Default)]
struct Known {
    script_filename: Option<u32>,
    script_name: Option<u32>,
    query_string: Option<u32>,
    request_method: Option<u32>,
}

impl Packet<'_> {
    fn encode(
        &mut self,
        request: &ProgramRequest<'_>,
        identity: Option<&Identity>,
        length: u64,
    ) -> Result<(), Refused> {
        self.out
            .extend_from_slice(&[0; PACKET_HEADER_BYTES + FIXED_BYTES]);
        let special_count = self.special(request.settings, identity)?;
        let (known, count) = self.environment(request)?;
        // Section 3.1: the index is aligned.
        let padded = self.offset().next_multiple_of(8);
        self.out.resize(self.start + padded, 0);
        let (raw_length, unknown_count) = self.fields(request, length);
        let content_length = if length < LENGTH_BY_FIELD {
            length as i32
        } else {
            IN_FIELD
        };
        let numbers = [
            raw_length as i32,
            content_length,
            known.script_filename.ok_or(Refused::NoScript)? as i32,
            known.script_name.ok_or(Refused::NoScript)? as i32,
            known.query_string.ok_or(Refused::NoScript)? as i32,
            known.request_method.ok_or(Refused::NoScript)? as i32,
            unknown_count as i32,
            count as i32,
            special_count as i32,
        ];
        let size = self.offset();
        if size > HEAD_BYTES_MAX {
            return Err(Refused::FieldsTooLong);
        }
        self.header(size, numbers);
        Ok(())
    }

    fn offset(&self) -> usize {
        self.out.len() - self.start
    }

    /// Section 1: the flag that the library has on this machine, which is 1 on everything but x86,
    /// whatever the order.
    fn header(&mut self, size: usize, numbers: [i32; 9]) {
        let flag = u8::from(!cfg!(any(target_arch = "x86", target_arch = "x86_64")));
        let header = &mut self.out[self.start..];
        header[..4].copy_from_slice(&[b'L', b'S', kind::BEGIN_REQUEST, flag]);
        header[4..8].copy_from_slice(&(size as i32).to_ne_bytes());
        for (place, number) in header[8..].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
    }

    /// Section 3.5.
    fn special(
        &mut self,
        settings: &[Setting<'_>],
        identity: Option<&Identity>,
    ) -> Result<usize, Refused> {
        for setting in settings {
            let level = if setting.level == Level::System { 4 } else { 1 };
            self.entry(
                &[&[1, level], &setting.name.to_ascii_lowercase()],
                setting.value,
            )?;
        }
        if let Some(identity) = identity {
            let ids = [identity.uid.to_ne_bytes(), identity.gid.to_ne_bytes()].concat();
            let digest = Md5::new()
                .chain_update(identity.nonce)
                .chain_update(identity.secret)
                .chain_update(&ids)
                .finalize();
            self.entry(&[b"\0SUEXEC_UGID"], &ids)?;
            self.entry(
                &[b"\0SUEXEC_AUTH"],
                &[&identity.nonce[..], &digest[..]].concat(),
            )?;
        }
        self.close_list(settings.len() + if identity.is_some() { 2 } else { 0 })
    }

    /// Section 3.4: all variables but those that the program makes of the fields itself.
    fn environment(&mut self, request: &ProgramRequest<'_>) -> Result<(Known, usize), Refused> {
        let (mut known, mut count) = (Known::default(), 0);
        for (name, value) in request
            .variables
            .iter()
            .filter(|(name, _)| !name.is_empty())
        {
            if memchr::memchr(0, name).is_some() || memchr::memchr(0, value).is_some() {
                return Err(Refused::NulInVariable);
            }
            if is_of_fields(name, request.head) {
                continue;
            }
            let at = self.entry(&[name], value)?;
            count += 1;
            match name {
                b"SCRIPT_FILENAME" => known.script_filename = Some(at),
                b"SCRIPT_NAME" => known.script_name = Some(at),
                b"QUERY_STRING" => known.query_string = Some(at),
                b"REQUEST_METHOD" => known.request_method = Some(at),
                _ => {}
            }
        }
        if known.query_string.is_none() {
            known.query_string = Some(self.entry(&[b"QUERY_STRING"], b"")?);
            count += 1;
        }
        Ok((known, self.close_list(count)?))
    }

    /// Section 3.3. Returns where the value is.
    fn entry(&mut self, name: &[&[u8]], value: &[u8]) -> Result<u32, Refused> {
        let name_bytes = name.iter().map(|part| part.len()).sum::<usize>();
        for length in [name_bytes, value.len()] {
            // Both count their NUL.
            let length = u16::try_from(length + 1).map_err(|_| Refused::VariablesTooLong)?;
            self.out.extend_from_slice(&length.to_be_bytes());
        }
        name.iter()
            .for_each(|part| self.out.extend_from_slice(part));
        self.out.push(0);
        let at = self.offset();
        self.out.extend_from_slice(value);
        self.out.push(0);
        // Nothing that can't end well is written on.
        if self.offset() > HEAD_BYTES_MAX {
            Err(Refused::VariablesTooLong)
        } else {
            Ok(at as u32)
        }
    }

    fn close_list(&mut self, count: usize) -> Result<usize, Refused> {
        self.out.extend_from_slice(&[0; 4]);
        if count > ENTRY_COUNT_MAX {
            Err(Refused::TooManyVariables)
        } else {
            Ok(count)
        }
    }

    /// Sections 3.6 to 3.8. Returns the length of the raw block and the number of fields outside
    /// the table.
    fn fields(&mut self, request: &ProgramRequest<'_>, content_length: u64) -> (usize, usize) {
        let (head, repeated) = (request.head, Repeated::in_head(request.head));
        let set: Vec<(&[u8], &[u8])> = request
            .variables
            .iter()
            .filter(|(name, _)| *name == b"CONTENT_TYPE" || name.starts_with(b"HTTP_"))
            .collect();
        let mut has_type = false;
        RAW.with_borrow_mut(|raw| {
            raw.begin(content_length);
            for (at, (name, value)) in head.fields().enumerate() {
                has_type |= name.eq_ignore_ascii_case(b"content-type");
                let may_repeat = repeated.may_have(name);
                match set.iter().rfind(|(variable, _)| is_it(name, variable)) {
                    _ if may_repeat && is_repeated(head, name, at) => {}
                    // The configuration's word comes before the client's.
                    Some((_, value)) => raw.field(name, value),
                    None if may_repeat => raw.field(name, &joined(head, name, value)),
                    None => raw.field(name, value),
                }
            }
            let kind = set.iter().rfind(|(name, _)| *name == b"CONTENT_TYPE");
            if let Some((_, kind)) = kind.filter(|(_, kind)| !has_type && !kind.is_empty()) {
                raw.standard(CONTENT_TYPE_SLOT, kind);
            }
            raw.block.extend_from_slice(b"\r\n");
            self.append(raw);
            (raw.block.len(), raw.unknown.len())
        })
    }

    fn append(&mut self, raw: &Raw) {
        raw.lengths
            .iter()
            .for_each(|length| self.out.extend_from_slice(&length.to_ne_bytes()));
        self.out.extend_from_slice(&[0; 2]);
        raw.offsets
            .iter()
            .for_each(|offset| self.out.extend_from_slice(&offset.to_ne_bytes()));
        raw.unknown
            .iter()
            .flatten()
            .for_each(|number| self.out.extend_from_slice(&number.to_ne_bytes()));
        self.out.extend_from_slice(&raw.block);
    }
}

/// The raw block and its index.
#[derive(Default)]
struct Raw {
    lengths: [u16; 25],
    offsets: [u32; 25],
    unknown: Vec<[u32; 4]>,
    block: Vec<u8>,
}

impl Raw {
    /// The content's length is what the engine says, not what the client said: they differ where
    /// content was unpacked or of unknown length.
    fn begin(&mut self, content_length: u64) {
        (self.lengths, self.offsets) = ([0; 25], [ABSENT; 25]);
        self.unknown.clear();
        self.block.clear();
        if content_length > 0 {
            self.standard(CONTENT_LENGTH_SLOT, content_length.to_string().as_bytes());
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        // Most names differ in length: nothing is read for those.
        let is_it = |standard: &str| {
            standard.len() == name.len() && standard.as_bytes().eq_ignore_ascii_case(name)
        };
        match STANDARD_FIELDS.iter().position(|standard| is_it(standard)) {
            Some(CONTENT_LENGTH_SLOT | TRANSFER_ENCODING_SLOT) => {}
            Some(slot) => self.standard(slot, value),
            // httpoxy: what would become HTTP_PROXY is not told.
            None if name.eq_ignore_ascii_case(b"Proxy") => {}
            None => {
                let name_at = self.append(name, b": ");
                let value_at = self.append(value, b"\r\n");
                self.unknown
                    .push([name_at, name.len() as u32, value_at, value.len() as u32]);
            }
        }
    }

    /// A value longer than 64 kB makes the whole packet too long, which is seen at its end.
    fn standard(&mut self, slot: usize, value: &[u8]) {
        self.append(STANDARD_FIELDS[slot].as_bytes(), b": ");
        self.offsets[slot] = self.append(value, b"\r\n");
        self.lengths[slot] = value.len().min(usize::from(u16::MAX)) as u16;
    }

    fn append(&mut self, part: &[u8], after: &[u8]) -> u32 {
        let at = self.block.len() as u32;
        self.block.extend_from_slice(part);
        self.block.extend_from_slice(after);
        at
    }
}

/// Variables that the program makes of the fields: `HTTP_*` that have one, and those of the
/// content. A value that the configuration set by hand is the field's then.
fn is_of_fields(name: &[u8], head: HeadView<'_>) -> bool {
    matches!(name, b"CONTENT_TYPE" | b"CONTENT_LENGTH")
        || name.starts_with(b"HTTP_") && head.fields().any(|(field, _)| is_it(field, name))
}

/// Returns true if the program makes this variable of the field.
fn is_it(field: &[u8], variable: &[u8]) -> bool {
    let rest = match variable.strip_prefix(b"HTTP_") {
        Some(rest) => rest,
        None => variable,
    };
    field.len() == rest.len()
        && field.iter().zip(rest).all(|(byte, upper)| {
            byte.to_ascii_uppercase() == *upper || (*byte == b'-' && *upper == b'_')
        })
}
