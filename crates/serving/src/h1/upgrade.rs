//! HTTP/2 over cleartext TCP: by the connection preface (RFC 9113 section 3.3), or by `Upgrade:
//! h2c` (RFC 7540 section 3.2, which RFC 9113 removed and curl still sends).
//!
//! Called by: `inbound`, where the listener allows it.

use saker_http::HeadView;
use saker_http1::{BodyFraming, check_request, upgrade};
use saker_http2::PREFACE;

pub const SWITCHING: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";

/// Bytes of the preface that no other request begins with.
const TELLING_BYTES: usize = 6;

pub enum Preface {
    Whole,
    /// The bytes so far match.
    Part,
    No,
}

/// Compares the first bytes of a connection with the HTTP/2 preface.
pub fn preface(bytes: &[u8]) -> Preface {
    let compared = bytes.len().min(PREFACE.len());
    match bytes[..compared] == PREFACE[..compared] {
        true if compared == PREFACE.len() => Preface::Whole,
        true if compared >= TELLING_BYTES => Preface::Part,
        _ => Preface::No,
    }
}

/// The decoded settings of a client that requests h2c; `None` if it does not, or not correctly:
/// then the request stays HTTP/1.1. A request with content stays, too, because it would have to be
/// read completely first.
pub fn h2c_settings(view: HeadView<'_>) -> Option<Vec<u8>> {
    let asked = |list: &[u8], token: &[u8]| {
        list.split(|byte| *byte == b',')
            .any(|one| one.trim_ascii().eq_ignore_ascii_case(token))
    };
    if !upgrade(view).is_some_and(|protocols| asked(protocols, b"h2c"))
        || check_request(view) != Ok(BodyFraming::None)
    {
        return None;
    }
    if !view
        .all("connection")
        .any(|line| asked(line, b"http2-settings"))
    {
        return None;
    }
    let mut settings = view.all("http2-settings");
    match (settings.next(), settings.next()) {
        (Some(one), None) => base64url(one),
        _ => None,
    }
}

/// RFC 4648 section 5, without padding.
fn base64url(text: &[u8]) -> Option<Vec<u8>> {
    let text = text
        .strip_suffix(b"==")
        .or_else(|| text.strip_suffix(b"="))
        .unwrap_or(text);
    let (mut bits, mut count, mut out) = (0u32, 0, Vec::with_capacity(text.len() * 3 / 4));
    for byte in text {
        bits = (bits << 6 | u32::from(sextet(*byte)?)) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http::{RequestHead, Version};

    fn settings(method: &str, fields: &[(&str, &str)]) -> Option<Vec<u8>> {
        let fields = [&[("Host", "a")], fields].concat();
        h2c_settings(RequestHead::build(method, "/", Version::Http11, &fields).view())
    }

    #[test]
    fn base64url_with_and_without_padding() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("AA", &[0]),
            ("AA==", &[0]),
            ("AAMAAABk", &[0, 3, 0, 0, 0, 100]),
            ("-_8", &[0xfb, 0xff]),
        ] {
            assert_eq!(base64url(text.as_bytes()).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(base64url(b"+/"), None);
    }

    #[test]
    fn an_upgrade_is_taken_only_if_it_is_whole() {
        let connection = ("Connection", "Upgrade, HTTP2-Settings");
        let (asked, sent) = (("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk"));
        assert_eq!(
            settings("GET", &[connection, asked, sent]),
            Some(vec![0, 3, 0, 0, 0, 100])
        );
        let rows: [&[(&str, &str)]; 6] = [
            &[connection, ("Upgrade", "websocket"), sent],
            &[("Connection", "Upgrade"), asked, sent],
            &[connection, asked],
            &[connection, asked, sent, sent],
            &[connection, asked, ("HTTP2-Settings", "***")],
            &[connection, asked, sent, ("Content-Length", "3")],
        ];
        for row in rows {
            assert_eq!(settings("GET", row), None, "{row:?}");
        }
    }

    #[test]
    fn prefaces() {
        let kind = |bytes: &[u8]| match preface(bytes) {
            Preface::Whole => "whole",
            Preface::Part => "part",
            Preface::No => "no",
        };
        assert_eq!(kind(PREFACE), "whole");
        assert_eq!(kind(&[&PREFACE[..], b"more"].concat()), "whole");
        assert_eq!(kind(&PREFACE[..23]), "part");
        assert_eq!(kind(b"PRI"), "no");
        assert_eq!(kind(b"PRI * HTTP/1.1"), "no");
        assert_eq!(kind(b"GET / HTTP/1.1"), "no");
    }
}
