//! An entry of the page cache with its content: the page, and the image that it shows.
//!
//! Called by: `actions`.
//! Caveat: the content is a site's, and hostile: text is escaped, and an image is sent in a sandbox,
//! as one of few types that its first bytes tell. Nothing else leaves as what it is.
//! Out of scope: rights (`cache_orders::body`).

use crate::{
    Backend, cache_orders,
    exchange::Response,
    pages::{self, EntryCard, Notice, Shell, respond},
    sessions::Identity,
};
use askama::Template;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use std::net::IpAddr;

/// The content, as the page shows it.
enum Shown {
    Text(String),
    Image,
    /// A sentence.
    Nothing(&'static str),
}

#[derive(Template)]
#[template(path = "entry.html")]
struct EntryPage<'p> {
    shell: Shell,
    notice: Option<Notice>,
    id: &'p str,
    card: Option<EntryCard>,
    content_type: String,
    is_cut: bool,
    shown: Shown,
}

/// The page of an entry.
pub async fn page(
    backend: &dyn Backend,
    shell: Shell,
    who: (&Identity, IpAddr),
    id: &str,
) -> Response {
    match cache_orders::body(backend, who, id).await {
        Ok(answer) => {
            let page = EntryPage {
                shell,
                notice: None,
                id,
                card: Some(pages::entry_card(&answer)),
                content_type: text(&answer, "content_type").to_owned(),
                is_cut: answer["is_cut"] == true,
                shown: shown(&answer),
            };
            respond(200, &page)
        }
        Err((status, error)) => {
            let page = EntryPage {
                shell,
                notice: Some(Notice::wrong(&error)),
                id: "",
                card: None,
                content_type: String::new(),
                is_cut: false,
                shown: Shown::Nothing(""),
            };
            respond(status, &page)
        }
    }
}

/// The image of an entry, for an `img` element of the page.
pub async fn image(backend: &dyn Backend, who: (&Identity, IpAddr), id: &str) -> Response {
    let answer = match cache_orders::body(backend, who, id).await {
        Ok(answer) => answer,
        Err((status, error)) => return Response::error(status, &error),
    };
    let body = body(&answer);
    match image_type(&body) {
        Some(media_type) if is_plain(&answer) => {
            let mut response = Response::new(200, media_type, body);
            response.is_foreign = true;
            // Opened by itself it is a download.
            response.with(
                "Content-Disposition",
                "attachment; filename=\"entry\"".to_owned(),
            )
        }
        _ => Response::error(404, "this is no image that can be shown"),
    }
}

fn text<'a>(answer: &'a Value, name: &str) -> &'a str {
    answer[name].as_str().unwrap_or_default()
}

fn body(answer: &Value) -> Vec<u8> {
    let decoded = STANDARD.decode(text(answer, "body"));
    decoded.unwrap_or_default()
}

/// Whole, and in no coding.
fn is_plain(answer: &Value) -> bool {
    answer["is_cut"] == false && text(answer, "content_encoding").is_empty()
}

fn shown(answer: &Value) -> Shown {
    let body = body(answer);
    if body.is_empty() {
        return Shown::Nothing("The content is empty.");
    }
    if !text(answer, "content_encoding").is_empty() {
        return Shown::Nothing("The content has a coding of its own.");
    }
    match (image_type(&body), answer["is_cut"] == true) {
        (Some(_), false) => Shown::Image,
        (Some(_), true) => Shown::Nothing("The image is too large to be shown."),
        (None, is_cut) => match readable(body, is_cut) {
            Some(text) => Shown::Text(text),
            None => {
                Shown::Nothing("The content is no text in UTF-8, and no image of a known type.")
            }
        },
    }
}

/// The content as text, if it is UTF-8. Marks that change the direction of text, and other
/// characters that are not seen, are written out.
fn readable(mut body: Vec<u8>, is_cut: bool) -> Option<String> {
    if let Err(error) = std::str::from_utf8(&body) {
        // A character may be cut in two.
        let is_end = is_cut && error.error_len().is_none();
        body.truncate(if is_end { error.valid_up_to() } else { 0 });
    }
    let text = String::from_utf8(body).ok()?;
    if text.is_empty() || text.contains('\0') {
        return None;
    }
    let is_unseen = |one: char| {
        matches!(one, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
            || one.is_control() && !matches!(one, '\n' | '\r' | '\t')
    };
    if !text.contains(is_unseen) {
        return Some(text);
    }
    let mut out = String::with_capacity(text.len());
    for one in text.chars() {
        match is_unseen(one) {
            true => out.extend(one.escape_unicode()),
            false => out.push(one),
        }
    }
    Some(out)
}

/// The type of an image by its first bytes; SVG, which can have scripts, is text here.
fn image_type(body: &[u8]) -> Option<&'static str> {
    match body {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        [
            _,
            _,
            _,
            _,
            b'f',
            b't',
            b'y',
            b'p',
            b'a',
            b'v',
            b'i',
            b'f' | b's',
            ..,
        ] => Some("image/avif"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_shown_as_text_and_images_by_their_bytes() {
        let readable = |bytes: &[u8], is_cut| readable(bytes.to_vec(), is_cut);
        assert_eq!(readable(b"<b>\n", false).as_deref(), Some("<b>\n"));
        assert_eq!(
            readable("a\u{e4}".as_bytes(), false).as_deref(),
            Some("a\u{e4}")
        );
        assert_eq!(readable(&[b'a', 0xc3], true).as_deref(), Some("a"));
        assert_eq!(
            readable("a\u{202e}b".as_bytes(), false).as_deref(),
            Some("a\\u{202e}b")
        );
        for binary in [&[b'a', 0xc3][..], &[b'a', 0xff, b'b'], b"a\0b", b""] {
            assert_eq!(readable(binary, false), None, "{binary:?}");
        }
        assert_eq!(readable(&[b'a', 0xff, b'b'], true), None);
        assert_eq!(image_type(b"GIF89a.."), Some("image/gif"));
        for text in [
            &b"<svg onload=alert(1)>"[..],
            b"GIF",
            b"<html>GIF89a",
            b"%PDF-1.7",
        ] {
            assert_eq!(image_type(text), None);
        }
        let answer = |body: &[u8], coding: &str, is_cut: bool| json!({ "body": STANDARD.encode(body), "content_encoding": coding, "is_cut": is_cut });
        assert!(matches!(
            shown(&answer(b"GIF89a..", "", false)),
            Shown::Image
        ));
        assert!(matches!(
            shown(&answer(b"GIF89a..", "", true)),
            Shown::Nothing(_)
        ));
        assert!(matches!(
            shown(&answer(b"GIF89a..", "br", false)),
            Shown::Nothing(_)
        ));
        assert!(matches!(
            shown(&answer(b"<svg>", "", false)),
            Shown::Text(_)
        ));
    }
}
