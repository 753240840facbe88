//! One request, written as HTTP/1, HTTP/2 and HTTP/3, is for the same host, or refused, in all
//! three; and no Host beside another authority is let pass.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_fuzz::Input;
use saker_http::{
    HeadIndex, HeadView, KnownField, RequestHead,
    host::{canonical_host, parse_authority},
};
use saker_http1::{Parsed, RequestLimits, check_request, parse_request};
use saker_http2::Indexing;

const METHODS: [&[u8]; 4] = [b"GET", b"HEAD", b"POST", b"OPTIONS"];
/// Beyond that only limits are found.
const BYTES_MAX: usize = 600;

/// Host and target of a request that is let pass.
type Settled = Option<(Vec<u8>, Vec<u8>)>;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let Some(method) = input
        .byte()
        .map(|byte| METHODS[usize::from(byte) % METHODS.len()])
    else {
        return;
    };
    let text = input.rest();
    let mut lines = text.splitn(3, |byte| *byte == b'\n');
    let (Some(authority), Some(host), Some(path)) = (lines.next(), lines.next(), lines.next())
    else {
        return;
    };
    // A line end makes another head of HTTP/1, and white space around a value is no part of it
    // there and a fault elsewhere.
    let is_plain = |text: &[u8]| {
        text.trim_ascii() == text && !text.iter().any(|byte| matches!(byte, b'\r' | b'\n'))
    };
    if text.len() <= BYTES_MAX && [authority, host, path].into_iter().all(is_plain) {
        origin_form(method, authority, path);
        absolute_form(method, authority, host, path);
        two_hosts(method, authority, host, path);
    }
});

/// `Host` means what `:authority` means.
fn origin_form(method: &[u8], authority: &[u8], path: &[u8]) {
    // An empty Host is for HTTP/1 alone (RFC 9112 section 3.2), and so are other forms than path
    // and asterisk.
    if authority.is_empty() || !matches!(path.first(), Some(b'/' | b'*')) {
        return;
    }
    let one = http1(
        &[
            method,
            b" ",
            path,
            b" HTTP/1.1\r\nHost: ",
            authority,
            b"\r\n\r\n",
        ]
        .concat(),
    );
    for (pseudo, field) in [
        (Some(authority), None),
        (None, Some(authority)),
        (Some(authority), Some(authority)),
    ] {
        assert_eq!(
            http2(method, pseudo, field, path),
            one,
            "HTTP/2: {pseudo:?} {field:?}"
        );
        assert_eq!(
            http3(method, pseudo, field, path),
            one,
            "HTTP/3: {pseudo:?} {field:?}"
        );
    }
    let Some((host, target)) = one else { return };
    assert_eq!(target, path);
    let (sent, told) = (
        parse_authority(authority).expect("valid"),
        parse_authority(&host).expect("valid"),
    );
    assert_eq!(
        (canonical_host(sent.host), sent.port),
        (told.host.to_vec(), told.port)
    );
}

/// The authority of the target counts, and Host does not, but for being valid.
fn absolute_form(method: &[u8], authority: &[u8], host: &[u8], path: &[u8]) {
    if authority
        .iter()
        .any(|byte| matches!(byte, b'/' | b'?' | b'#' | b' '))
        || path.first() != Some(&b'/')
    {
        return;
    }
    let one = http1(
        &[
            method,
            b" http://",
            authority,
            path,
            b" HTTP/1.1\r\nHost: ",
            host,
            b"\r\n\r\n",
        ]
        .concat(),
    );
    let is_valid = host.is_empty() || parse_authority(host).is_some();
    assert_eq!(
        one,
        http2(method, Some(authority), None, path).filter(|_| is_valid),
        "HTTP/2"
    );
    assert_eq!(
        one,
        http3(method, Some(authority), None, path).filter(|_| is_valid),
        "HTTP/3"
    );
}

/// Host may only be another spelling of the authority (RFC 9113 section 8.3.1).
fn two_hosts(method: &[u8], authority: &[u8], host: &[u8], path: &[u8]) {
    let both = http2(method, Some(authority), Some(host), path);
    assert_eq!(both, http3(method, Some(authority), Some(host), path));
    let Some(settled) = both else { return };
    assert_eq!(Some(settled), http2(method, Some(authority), None, path));
    let parts = |text| {
        parse_authority(text).map(|read| (canonical_host(read.host), read.port.unwrap_or(80)))
    };
    assert!(parts(host).is_some() && parts(host) == parts(authority));
}

fn http1(bytes: &[u8]) -> Settled {
    let mut index = HeadIndex::default();
    let Ok(Parsed::Complete { head_bytes }) =
        parse_request(bytes, &RequestLimits::default(), &mut index)
    else {
        return None;
    };
    let head = HeadView::new(&bytes[..head_bytes], &index);
    check_request(head).ok()?;
    Some(of(head
        .to_request()
        .expect("what passes the checks has a host")))
}

/// The same after settling it again, as the pipeline does.
fn of(head: RequestHead) -> (Vec<u8>, Vec<u8>) {
    let parts = |head: HeadView<'_>| {
        (
            head.known(KnownField::Host).unwrap_or_default().to_vec(),
            head.target().to_vec(),
        )
    };
    let again = head.view().to_request().expect("a settled head");
    assert_eq!(parts(head.view()), parts(again.view()));
    assert_eq!(head.view().all("host").count(), 1);
    parts(head.view())
}

fn pseudo_fields<'a>(
    method: &'a [u8],
    authority: Option<&'a [u8]>,
    path: &'a [u8],
) -> Vec<(&'static [u8], &'a [u8])> {
    let mut fields: Vec<(&'static [u8], &[u8])> = vec![(b":method", method), (b":scheme", b"http")];
    fields.extend(authority.map(|authority| (&b":authority"[..], authority)));
    fields.push((b":path", path));
    fields
}

fn http2(method: &[u8], authority: Option<&[u8]>, host: Option<&[u8]>, path: &[u8]) -> Settled {
    use saker_http2::{Connection, Event, HeadStore, Limits};
    let (mut client, mut server) = (
        Connection::client(Limits::default()),
        Connection::server(Limits::default(), false),
    );
    let (mut sent, mut answers, mut head) = (Vec::new(), Vec::new(), HeadStore::default());
    client.begin(&mut sent);
    server.begin(&mut answers);
    let opened = client.open(true, &mut sent, |to| {
        pseudo_fields(method, authority, path)
            .into_iter()
            .for_each(|(name, value)| to.pseudo(name, value));
        host.into_iter()
            .for_each(|host| to.field(b"host", host, Indexing::Never));
    });
    assert!(opened.is_ok());
    let mut at = 0;
    loop {
        match server
            .receive(&sent[at..], 0, &mut head, &mut answers)
            .expect("no fault of the connection")
        {
            (_, Some(Event::Head { .. })) => {
                return Some(of(head
                    .view()
                    .to_request()
                    .expect("what is let pass has a host")));
            }
            (0, None) => return None,
            (used, _) => at += used,
        }
    }
}

fn http3(method: &[u8], authority: Option<&[u8]>, host: Option<&[u8]>, path: &[u8]) -> Settled {
    use saker_http3::{Connection, Event, HeadStore, Limits};
    let (mut client, mut server) = (
        Connection::client(Limits::default()),
        Connection::server(Limits::default(), false),
    );
    let (mut sent, mut head) = (Vec::new(), HeadStore::default());
    let opened = client.open(0, true, &mut sent, |to| {
        pseudo_fields(method, authority, path)
            .into_iter()
            .for_each(|(name, value)| to.pseudo(name, value));
        host.into_iter()
            .for_each(|host| to.field(b"host", host, Indexing::Never));
    });
    assert!(opened.is_ok());
    assert_eq!(server.opened(0), Ok(None));
    let mut at = 0;
    loop {
        match server
            .receive(0, &sent[at..], true, 0, &mut head)
            .expect("no fault of the connection")
        {
            (_, Some(Event::Head { .. })) => {
                return Some(of(head
                    .view()
                    .to_request()
                    .expect("what is let pass has a host")));
            }
            (0, None) | (_, Some(Event::Reset { .. })) => return None,
            (used, _) => at += used,
        }
    }
}
