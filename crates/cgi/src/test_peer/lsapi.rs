//! An LSAPI application: packets out, requests in, in this machine's byte order.

use crate::{
    Variables,
    lsapi::{STANDARD_FIELDS, kind},
};

pub fn packet(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as i32 + 8).to_ne_bytes();
    [&[b'L', b'S', kind, 0], &length[..], payload].concat()
}

/// RESP_HEADER; status 0: not said.
pub fn head(status: i32, lines: &[&str]) -> Vec<u8> {
    let mut payload = [(lines.len() as i32).to_ne_bytes(), status.to_ne_bytes()].concat();
    lines
        .iter()
        .for_each(|line| payload.extend_from_slice(&(line.len() as u16 + 1).to_ne_bytes()));
    lines
        .iter()
        .for_each(|line| payload.extend_from_slice(format!("{line}\0").as_bytes()));
    packet(kind::RESP_HEADER, &payload)
}

/// The notice of a fresh child.
pub fn process_notice(process: u32) -> Vec<u8> {
    packet(
        kind::STDERR_STREAM,
        &[&b"\0PID"[..], &process.to_ne_bytes()].concat(),
    )
}

/// A request as the library reads it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub content_length: i32,
    pub special: Variables,
    pub variables: Variables,
    /// SCRIPT_FILENAME, SCRIPT_NAME, QUERY_STRING, REQUEST_METHOD, by offset.
    pub known: [Vec<u8>; 4],
    /// Fields of the index, then the others.
    pub fields: Variables,
    /// Bytes of the packet; the content begins there.
    pub packet_bytes: usize,
}

/// Reads a whole BEGIN_REQUEST, checking all that the library relies on; `None` where one of it
/// does not hold.
pub fn read_request(bytes: &[u8]) -> Option<Request> {
    let number = |at: usize| Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let size = usize::try_from(number(4)?).ok()?;
    if !bytes.starts_with(&[b'L', b'S', kind::BEGIN_REQUEST]) || size > bytes.len() || size > 65535
    {
        return None;
    }
    let packet = &bytes[..size];
    let (special, at) = read_list(packet, 44, number(40)?)?;
    let (variables, at) = read_list(packet, at, number(36)?)?;
    let index = at.next_multiple_of(8);
    let raw = packet.get(index + 152 + usize::try_from(number(32)?).ok()? * 16..)?;
    let mut known = [const { Vec::new() }; 4];
    for (slot, value) in known.iter_mut().enumerate() {
        let string = packet.get(usize::try_from(number(16 + 4 * slot)?).ok()?..)?;
        *value = string[..memchr::memchr(0, string)?].to_vec();
    }
    let is_whole = raw.len() == usize::try_from(number(8)?).ok()?;
    let fields = read_fields(packet, index, raw)?;
    is_whole.then_some(Request {
        content_length: number(12)?,
        special,
        variables,
        known,
        fields,
        packet_bytes: size,
    })
}

fn read_list(packet: &[u8], mut at: usize, count: i32) -> Option<(Variables, usize)> {
    let mut list = Variables::new();
    loop {
        let [n1, n0, v1, v0] = *packet.get(at..)?.first_chunk()?;
        let (name, value) = (
            usize::from(u16::from_be_bytes([n1, n0])),
            usize::from(u16::from_be_bytes([v1, v0])),
        );
        at += 4;
        if (name, value) == (0, 0) {
            return (list.len() == usize::try_from(count).ok()?).then_some((list, at));
        }
        list.push(
            packet.get(at..at + name)?.strip_suffix(b"\0")?,
            packet
                .get(at + name..at + name + value)?
                .strip_suffix(b"\0")?,
        );
        at += name + value;
    }
}

/// The byte after each name and value must be unused: the library writes a NUL there.
fn read_fields(packet: &[u8], index: usize, raw: &[u8]) -> Option<Variables> {
    let part = |at: usize, length: usize| {
        raw.get(at..at + length)
            .filter(|_| matches!(raw.get(at + length), Some(b':' | b'\r')))
    };
    let number = |at: usize| Some(u32::from_ne_bytes(*packet.get(at..)?.first_chunk()?) as usize);
    let mut fields = Variables::new();
    for (slot, name) in STANDARD_FIELDS.iter().enumerate() {
        let length = u16::from_ne_bytes(*packet.get(index + 2 * slot..)?.first_chunk()?);
        let at = number(index + 52 + 4 * slot)?;
        if at != 0 {
            fields.push(name.as_bytes(), part(at, length.into())?);
        }
    }
    let unknown = index + 152..packet.len() - raw.len();
    for entry in unknown.step_by(16) {
        fields.push(
            part(number(entry)?, number(entry + 4)?)?,
            part(number(entry + 8)?, number(entry + 12)?)?,
        );
    }
    Some(fields)
}
