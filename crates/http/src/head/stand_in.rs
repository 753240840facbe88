//! A head in place of one that was refused.
//!
//! Called by: the driver of HTTP/1, where the rules answer refused requests.
//! Caveat: nothing in the line has been checked: it is for logs. What rules read are the path, if it
//! has only visible characters, and the host.

use super::{FieldSpan, HeadIndex, RequestHead, append};
use crate::{Method, Span};

impl RequestHead {
    /// A head in place of one that can't be read: the request line as received, and a host. Its
    /// method is GET (or HEAD), and its target `/` unless the line has another path.
    pub fn stand_in(line: &[u8], host: Option<&[u8]>) -> RequestHead {
        let mut bytes = Vec::new();
        let mut index = HeadIndex {
            method: Method::Get,
            ..HeadIndex::default()
        };
        append(&mut bytes, line);
        bytes.extend_from_slice(b"\r\n");
        let mut words = line.split(|byte| *byte == b' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next());
        index.method_token.len = method.len() as u32;
        if method == b"HEAD" {
            index.method = Method::Head;
        }
        let is_path =
            |target: &&[u8]| target.starts_with(b"/") && target.iter().all(u8::is_ascii_graphic);
        index.target = match target.filter(is_path) {
            Some(target) => Span {
                start: method.len() as u32 + 1,
                len: target.len() as u32,
            },
            None => append(&mut bytes, b"/"),
        };
        if let Some(host) = host {
            let span = FieldSpan {
                name: append(&mut bytes, b"Host"),
                value: append(&mut bytes, host),
            };
            index.push(&bytes, span);
        }
        RequestHead {
            bytes,
            index,
            is_edited: false,
            is_settled: false,
            is_draft: false,
            host_before: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KnownField;

    #[test]
    fn stand_ins_have_line_path_and_host() {
        for (line, path, method) in [
            ("GET /a?b HTTP/9.9", "/a?b", Method::Get),
            ("HEAD /a", "/a", Method::Head),
            ("POST a HTTP/1.1", "/", Method::Get),
            ("GET /a\u{1}b HTTP/1.1", "/", Method::Get),
            ("", "/", Method::Get),
            ("\u{16}\u{3}\u{1}", "/", Method::Get),
        ] {
            let head = RequestHead::stand_in(line.as_bytes(), Some(b"app.test"));
            let view = head.view();
            assert_eq!(view.start_line(), line.as_bytes());
            assert_eq!(view.target(), path.as_bytes());
            assert_eq!(view.method(), method);
            assert_eq!(view.known(KnownField::Host), Some(&b"app.test"[..]));
            assert!(
                !RequestHead::stand_in(line.as_bytes(), None)
                    .view()
                    .has(KnownField::Host)
            );
        }
    }
}
