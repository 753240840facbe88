//! A FastCGI application: records out, requests in.

use crate::{Variables, fastcgi::kind};

/// A record of request 1.
pub fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    record_of(1, kind, content, padding)
}

pub fn record_of(request_id: u16, kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let (id, length) = (
        request_id.to_be_bytes(),
        (content.len() as u16).to_be_bytes(),
    );
    let header = [1, kind, id[0], id[1], length[0], length[1], padding, 0];
    [&header[..], content, &vec![0xee; padding.into()]].concat()
}

pub fn stdout(content: &[u8]) -> Vec<u8> {
    record(kind::STDOUT, content, 0)
}

/// END_REQUEST with a protocol status.
pub fn end_request(status: u8) -> Vec<u8> {
    record(kind::END_REQUEST, &[0, 0, 0, 0, status, 0, 0, 0], 0)
}

/// A request as an application reads it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub role: u16,
    pub keeps: bool,
    pub variables: Variables,
    pub content: Vec<u8>,
    /// STDIN was ended.
    pub is_whole: bool,
}

/// Reads what a server sent; `None` if it is no FastCGI, or not yet as far as the content.
pub fn read_request(mut bytes: &[u8]) -> Option<Request> {
    let (mut request, mut params, mut has_params) = (Request::default(), Vec::new(), false);
    while let Some((header, rest)) = bytes.split_first_chunk::<8>() {
        let (content, rest) =
            rest.split_at_checked(usize::from(u16::from_be_bytes([header[4], header[5]])))?;
        bytes = rest.get(usize::from(header[6])..)?;
        match (header[1], content) {
            (kind::BEGIN_REQUEST, [role1, role0, flags, ..]) => {
                (request.role, request.keeps) =
                    (u16::from_be_bytes([*role1, *role0]), flags & 1 == 1)
            }
            (kind::PARAMS, []) => has_params = true,
            (kind::PARAMS, more) => params.extend_from_slice(more),
            (kind::STDIN, []) => request.is_whole = true,
            (kind::STDIN, more) => request.content.extend_from_slice(more),
            _ => return None,
        }
    }
    let mut rest = &params[..];
    while has_params && !rest.is_empty() {
        let name = read_length(&mut rest)?;
        let value = read_length(&mut rest)?;
        let (name, after) = rest.split_at_checked(name)?;
        let (value, after) = after.split_at_checked(value)?;
        request.variables.push(name, value);
        rest = after;
    }
    has_params.then_some(request)
}

fn read_length(bytes: &mut &[u8]) -> Option<usize> {
    let (length, rest) = match **bytes {
        [short @ 0..128, ..] => (usize::from(short), &bytes[1..]),
        [a, b, c, d, ..] => (
            u32::from_be_bytes([a & 0x7f, b, c, d]) as usize,
            &bytes[4..],
        ),
        _ => return None,
    };
    *bytes = rest;
    Some(length)
}
