//! The request that a page is put together for: whose it is, and what addresses in the page mean.

use saker_esi::Facts;
use saker_http::{HeadView, KnownField, RequestHead};
use saker_pipeline::{Client, Exchange};
use std::{rc::Rc, sync::Arc};

pub struct Source {
    pub client: Rc<Client>,
    pub head: RequestHead,
    pub site: Arc<saker_config::model::Site>,
    pub now: i64,
    pub log_id: Rc<saker_telemetry::error_log::LogId>,
}

impl Source {
    pub fn of(exchange: &Exchange) -> Source {
        Source {
            client: Rc::clone(&exchange.client),
            head: exchange.head.clone(),
            site: Arc::clone(&exchange.site),
            now: exchange.now,
            log_id: Rc::clone(&exchange.log_id),
        }
    }

    pub fn facts(&self) -> Facts {
        let view = self.head.view();
        let first = |name: &str| view.first(name).map(<[u8]>::to_vec).unwrap_or_default();
        let cookies: Vec<&[u8]> = view.lines(KnownField::Cookie).collect();
        let (_, query) = split(path_and_query(view));
        Facts {
            host: host(view).to_vec(),
            cookie: cookies.join(&b"; "[..]),
            accept_language: first("accept-language"),
            referer: first("referer"),
            user_agent: first("user-agent"),
            query: query.unwrap_or_default().to_vec(),
        }
    }

    /// What an address in the page comes to on this host; `None`: it is elsewhere.
    pub fn target(&self, address: &[u8]) -> Option<Vec<u8>> {
        let view = self.head.view();
        let address = address.split(|byte| *byte == b'#').next().unwrap_or_default();
        let (path, _) = split(path_and_query(view));
        let whole = match address {
            [b'/', b'/', rest @ ..] => self.on_this_host(rest)?,
            [b'/', ..] => address.to_vec(),
            [b'?', ..] => [path, address].concat(),
            _ => match scheme(address) {
                Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https") => {
                    self.on_this_host(rest.strip_prefix(b"//")?)?
                }
                Some(_) => return None,
                None => {
                    let folder = memchr::memrchr(b'/', path).map_or(&b"/"[..], |at| &path[..=at]);
                    [folder, address].concat()
                }
            },
        };
        Some(encoded(&whole))
    }

    fn on_this_host(&self, rest: &[u8]) -> Option<Vec<u8>> {
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let host = host(self.head.view());
        let is_same = !host.is_empty() && authority.eq_ignore_ascii_case(host);
        is_same.then(|| if rest.starts_with(b"/") { rest.to_vec() } else { [b"/", rest].concat() })
    }
}

fn host(view: HeadView<'_>) -> &[u8] {
    view.known(KnownField::Host).unwrap_or_default()
}

/// Of a target in either form (RFC 9112 section 3.2).
fn path_and_query(view: HeadView<'_>) -> &[u8] {
    let target = view.target();
    match memchr::memmem::find(target, b"://").filter(|_| !target.starts_with(b"/")) {
        Some(at) => memchr::memchr(b'/', &target[at + 3..]).map_or(b"/", |path| &target[at + 3 + path..]),
        None => target,
    }
}

fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

/// RFC 3986 section 3.1; a colon behind a slash is the path's.
fn scheme(address: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = address.iter().position(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'+' | b'-' | b'.'))?;
    (end > 0 && address[end] == b':').then(|| (&address[..end], &address[end + 1..]))
}

/// What may not stand in a request line is encoded.
fn encoded(target: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(target.len());
    for byte in target {
        match byte {
            0..=b' ' | 0x7f.. | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => {
                out.extend_from_slice(format!("%{byte:02X}").as_bytes());
            }
            _ => out.push(*byte),
        }
    }
    out
}
