//! mod_asis: a file that brings its own fields (handler `send-as-is`).

use crate::{state::peek, walk::link_policy};
use saker_apache_syntax::options::OptionSet;
use saker_files::{Kind, Watcher, resolve};
use saker_http::Status;
use saker_pipeline::{Body, Chunk, Exchange, Response};
use std::{os::unix::fs::FileExt, path::Path};

/// Larger files are refused: they are read whole.
const BYTES_MAX: u64 = 16 << 20;

pub fn answer(exchange: &mut Exchange, watcher: &Watcher, options: OptionSet) -> Response {
    exchange.depends_on_request();
    let filename = peek(exchange)
        .map(|own| own.filename.clone())
        .unwrap_or_default();
    let relative = filename.strip_prefix(b"/").unwrap_or(&filename);
    let found = resolve(
        watcher,
        Path::new("/"),
        relative,
        link_policy(options),
        &mut exchange.cache.change_tokens,
    )
    .ok();
    let Some(found) = found.filter(|found| found.metadata.kind == Kind::File) else {
        return Response::new(Status::NOT_FOUND);
    };
    if found.metadata.size > BYTES_MAX {
        return Response::new(Status::INTERNAL_SERVER_ERROR);
    }
    let mut text = vec![0; found.metadata.size as usize];
    match found.file.read_exact_at(&mut text, 0) {
        Ok(()) => parsed(&text).unwrap_or_else(|| Response::new(Status::INTERNAL_SERVER_ERROR)),
        Err(_) => Response::new(Status::INTERNAL_SERVER_ERROR),
    }
}

/// Fields, an empty line, content.
fn parsed(text: &[u8]) -> Option<Response> {
    let mut response = Response::new(Status::OK);
    let mut rest = text;
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let line = rest.get(..end)?.trim_ascii_end();
        rest = rest.get(end + 1..)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_at(line.iter().position(|byte| *byte == b':')?);
        let (name, value) = (
            std::str::from_utf8(name).ok()?.trim(),
            value.get(1..)?.trim_ascii(),
        );
        if name.eq_ignore_ascii_case("status") {
            let number = std::str::from_utf8(value.get(..3)?).ok()?.parse().ok()?;
            response.status = Status(number);
        } else if is_plain(name) {
            response
                .fields_mut()
                .append(name.to_owned(), value.to_vec());
        }
    }
    response
        .fields_mut()
        .append("Content-Length", rest.len().to_string().into_bytes());
    response.body = Body::Memory(Chunk::from(rest.to_vec()));
    Some(response)
}

/// A token, and none of the fields that say where the message ends.
fn is_plain(name: &str) -> bool {
    const FRAMING: [&str; 3] = ["content-length", "transfer-encoding", "connection"];
    let is_token = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    is_token
        && !FRAMING
            .iter()
            .any(|framing| name.eq_ignore_ascii_case(framing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_then_content() {
        let response =
            parsed(b"Status: 301 Now where did I leave that URL\nLocation: http://x.test/\r\nContent-Length: 9\n\nbody\n").unwrap();
        assert_eq!(
            (response.status.0, response.fields().first("Location")),
            (301, Some(&b"http://x.test/"[..]))
        );
        assert_eq!(
            (
                response.fields().first("Content-Length"),
                response.body.length()
            ),
            (Some(&b"5"[..]), Some(5))
        );
        assert!(
            parsed(b"no colon\n\n").is_none()
                && parsed(b"A: b\n").is_none()
                && parsed(b"Status: x\n\n").is_none()
        );
    }
}
