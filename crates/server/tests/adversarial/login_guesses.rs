//! Password guessing against WordPress: however a request is spelled, coded, or framed, a client
//! gets the attempts that the site allows.
//!
//! Each attack has a site of its own, with an untouched account of the client. The application
//! answers every guess with a fault, in the content coding that the attack asks for.

use crate::harness::{self, PROTOCOLS, Protocol, Request, apache, ask, native};
use saker_testkit::{Client, Saker};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

const ATTEMPTS: usize = 2;
const FAULT: &str = "<?xml version=\"1.0\"?><methodResponse><fault><value><struct><member><name>faultCode</name><value><int>403</int></value>\
                     </member></struct></value></fault></methodResponse>";

/// An application that knows no password. `X-Code` names the coding of its answer, whatever the
/// client accepts.
fn application() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || while answer(&stream).is_some() {});
        }
    });
    address
}

fn answer(stream: &TcpStream) -> Option<()> {
    let head = read_request(stream)?;
    let field = |name: &str| {
        head.lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
    };
    let code = field("x-code")
        .or_else(|| field("accept-encoding"))
        .map_or("", |(_, value)| value);
    let is_right = head.contains("x-right");
    let plain = if is_right {
        "<methodResponse><params></params></methodResponse>"
    } else {
        FAULT
    };
    let (coding, body) = match code {
        code if code.contains("gzip, br") => ("gzip, br", brotli(&gzip(plain.as_bytes()))),
        code if code.contains("gzip") => ("gzip", gzip(plain.as_bytes())),
        code if code.contains("br") => ("br", brotli(plain.as_bytes())),
        code if code.contains("deflate") => ("deflate", deflate(plain.as_bytes())),
        code if code.contains("raw") => ("deflate", raw_deflate(plain.as_bytes())),
        code if code.contains("unknown") => ("x-rot13", b"snhygPbqr".to_vec()),
        code if code.contains("bomb") => (
            "gzip",
            gzip(&[plain.as_bytes(), &vec![b' '; 8 << 20]].concat()),
        ),
        _ => ("identity", plain.as_bytes().to_vec()),
    };
    let mut response = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    if coding == "identity" {
        response = response.replace("Content-Encoding: identity\r\n", "");
    }
    (&mut &*stream)
        .write_all(&[response.as_bytes(), &body].concat())
        .ok()
}

/// The head, once its content is here too.
fn read_request(mut stream: &TcpStream) -> Option<String> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..at]).to_ascii_lowercase();
            let length: Option<usize> = head
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.split("\r\n").next()?.parse().ok());
            let is_whole = match length {
                Some(length) => bytes.len() >= at + 4 + length,
                None => {
                    !head.contains("transfer-encoding: chunked") || bytes.ends_with(b"0\r\n\r\n")
                }
            };
            if is_whole {
                return Some(head);
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn raw_deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 20);
    encoder.write_all(bytes).unwrap();
    encoder.into_inner()
}

const SINGLE: &str = "<?xml version=\"1.0\"?><methodCall><methodName>wp.getUsersBlogs</methodName><params></params></methodCall>";

fn multicall(outer: &str, inner: &str) -> String {
    let call = format!(
        "<value><struct><member><name>{inner}</name><value><string>wp.getUsersBlogs</string></value></member></struct></value>"
    );
    let calls = call.repeat(40);
    format!(
        "<?xml version=\"1.0\"?><methodCall><methodName>{outer}</methodName><params><param><value><array><data>{calls}</data></array></value>\
         </param></params></methodCall>"
    )
}

struct Attack {
    name: &'static str,
    method: &'static str,
    path: &'static str,
    fields: &'static [(&'static str, &'static str)],
    body: Vec<u8>,
    /// Requests that come through before the site has had enough.
    passes: usize,
}

fn one(
    name: &'static str,
    path: &'static str,
    fields: &'static [(&'static str, &'static str)],
) -> Attack {
    Attack {
        name,
        method: "POST",
        path,
        fields,
        body: SINGLE.into(),
        passes: ATTEMPTS,
    }
}

fn many(
    name: &'static str,
    fields: &'static [(&'static str, &'static str)],
    body: impl Into<Vec<u8>>,
) -> Attack {
    Attack {
        name,
        method: "POST",
        path: "/xmlrpc.php",
        fields,
        body: body.into(),
        passes: 1,
    }
}

fn attacks() -> Vec<Attack> {
    let plain = multicall("system.multicall", "methodName");
    let utf16 =
        |bytes: fn(u16) -> [u8; 2]| plain.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
    let replaced = |from: &str, to: &str| plain.replacen(from, to, 1);
    let put = Attack {
        method: "PUT",
        ..one("another method", "/xmlrpc.php", &[])
    };
    vec![
        one("as it is", "/xmlrpc.php", &[]),
        one(
            "the client accepts gzip",
            "/xmlrpc.php",
            &[("Accept-Encoding", "gzip")],
        ),
        one(
            "the client accepts all",
            "/xmlrpc.php",
            &[("Accept-Encoding", "br, zstd, gzip, deflate")],
        ),
        one("gzip unasked", "/xmlrpc.php", &[("X-Code", "gzip")]),
        one("br unasked", "/xmlrpc.php", &[("X-Code", "br")]),
        one("deflate unasked", "/xmlrpc.php", &[("X-Code", "deflate")]),
        one(
            "deflate without a wrapper",
            "/xmlrpc.php",
            &[("X-Code", "raw")],
        ),
        one("two codings", "/xmlrpc.php", &[("X-Code", "gzip, br")]),
        one("an unknown coding", "/xmlrpc.php", &[("X-Code", "unknown")]),
        one(
            "more than is decoded",
            "/xmlrpc.php",
            &[("X-Code", "bomb"), ("Accept-Encoding", "gzip")],
        ),
        one("two slashes", "//xmlrpc.php", &[]),
        one("a path behind it", "/xmlrpc.php/x", &[]),
        one("capitals", "/XMLRPC.php", &[]),
        one("a folder up", "/index.php/../xmlrpc.php", &[]),
        one("an escape", "/%78mlrpc%2Ephp", &[]),
        one("another folder", "/blog/xmlrpc.php", &[]),
        one("a query", "/xmlrpc.php?rest_route=/", &[]),
        one("the other door", "/WP-login.php?action=login", &[]),
        put,
        many("plain", &[], plain.as_str()),
        many(
            "gzip accepted",
            &[("Accept-Encoding", "gzip")],
            plain.as_str(),
        ),
        many(
            "references",
            &[],
            multicall("system.multicall", "method&#78;&#x61;me"),
        ),
        many(
            "outer references",
            &[],
            multicall("system&#46;multicall", "method&#0000078;ame"),
        ),
        many(
            "CDATA",
            &[],
            multicall(
                "system<![CDATA[.]]>multicall",
                "<![CDATA[method]]><![CDATA[Name]]>",
            ),
        ),
        many(
            "comments",
            &[],
            multicall("system<!-- -->.multicall", "method<!-- -->Name"),
        ),
        many(
            "two methods",
            &[],
            replaced("<methodName>", "<methodName>wp.x</methodName><methodName>"),
        ),
        many("UTF-16, little", &[], utf16(u16::to_le_bytes)),
        many(
            "UTF-16, marked",
            &[],
            [&[0xfe, 0xff], &*utf16(u16::to_be_bytes)].concat(),
        ),
        many(
            "UTF-16 by charset",
            &[("Content-Type", "text/xml; charset=utf-16")],
            utf16(u16::to_be_bytes),
        ),
        many(
            "UTF-7",
            &[],
            replaced("\"1.0\"", "\"1.0\" encoding=\"UTF-7\"").replacen(
                "<struct>",
                "+ADw-struct+AD4-",
                39,
            ),
        ),
        many(
            "entities",
            &[],
            replaced(
                "<methodCall>",
                "<!DOCTYPE methodCall [<!ENTITY a \"<struct/>\">]><methodCall>",
            ),
        ),
        many(
            "a coded request",
            &[("Content-Encoding", "gzip")],
            gzip(plain.as_bytes()),
        ),
    ]
}

fn guarded(sites: usize) -> Saker {
    let application = application();
    let rest: String = (0..sites)
        .map(|at| {
            format!(
                "[[site]]\nnames = [\"a{at}.test\"]\n[site.compression]\nmin = 0\n[site.logins]\naction = \"deny\"\nattempts = {ATTEMPTS}\n\
                 within = \"100h\"\n[[site.route]]\npath = \"/*\"\nproxy = \"http://{application}\"\n"
            )
        })
        .collect();
    native(
        crate::operate::folder("login-guesses"),
        "",
        &format!("\n{rest}"),
    )
}

#[test]
fn no_spelling_of_a_guess_gets_more_attempts() {
    let attacks = attacks();
    let saker = guarded(attacks.len() * PROTOCOLS.len());
    for (number, attack) in attacks.iter().enumerate() {
        for (at, protocol) in PROTOCOLS.into_iter().enumerate() {
            let host = format!("a{}.test", number * PROTOCOLS.len() + at);
            let request = Request {
                method: attack.method,
                fields: attack.fields,
                body: &attack.body,
                ..Request::get(&host, attack.path)
            };
            let statuses: Vec<u16> = (0..=attack.passes)
                .map(|_| ask(saker.server.address(), protocol, &request).status)
                .collect();
            let mut expected = vec![200; attack.passes];
            expected.push(403);
            assert_eq!(statuses, expected, "{} over {protocol:?}", attack.name);
        }
    }
}

#[test]
fn calls_that_succeed_cost_nothing() {
    let saker = guarded(PROTOCOLS.len());
    let many = multicall("system.multicall", "methodName");
    for (at, protocol) in PROTOCOLS.into_iter().enumerate() {
        let host = format!("a{at}.test");
        for (body, code) in [
            (SINGLE, "identity"),
            (SINGLE, "gzip"),
            (SINGLE, "br"),
            (SINGLE, "deflate"),
            (&*many, "identity"),
            (&*many, "gzip"),
        ] {
            for _ in 0..=ATTEMPTS {
                let fields = [("X-Right", "x-right"), ("X-Code", code)];
                let request = Request {
                    method: "POST",
                    fields: &fields,
                    body: body.as_bytes(),
                    ..Request::get(&host, "/xmlrpc.php")
                };
                assert_eq!(
                    ask(saker.server.address(), protocol, &request).status,
                    200,
                    "{code} over {protocol:?}"
                );
            }
        }
    }
}

/// In chunks of one byte, on one connection after the other.
#[test]
fn chunks_hide_no_calls() {
    let application = application();
    let site = format!(
        "[site.logins]\naction = \"deny\"\nattempts = {ATTEMPTS}\nwithin = \"100h\"\n[[site.route]]\npath = \"/*\"\nproxy = \"http://{application}\"\n"
    );
    let saker = crate::operate::start(
        "login-chunks",
        &crate::operate::configuration("workers = 2", &site),
    );
    let body: String = multicall("system.multicall", "method&#78;ame")
        .bytes()
        .map(|byte| format!("1\r\n{}\r\n", char::from(byte)))
        .collect();
    let request = format!(
        "POST /xmlrpc.php HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n"
    );
    let statuses: Vec<u16> = (0..3)
        .map(|_| {
            let mut client = Client::connect(saker.server.address()).unwrap();
            client.send(&request).unwrap();
            client.read_response().unwrap().status
        })
        .collect();
    assert_eq!(statuses, [200, 403, 403]);
}

/// A client that goes before it is answered has tried all the same.
#[test]
fn attempts_count_for_clients_that_do_not_wait() {
    let application = application();
    let site = format!(
        "[site.logins]\naction = \"deny\"\nattempts = {ATTEMPTS}\nwithin = \"100h\"\n[[site.route]]\npath = \"/*\"\nproxy = \"http://{application}\"\n"
    );
    let saker = crate::operate::start(
        "login-gone",
        &crate::operate::configuration("workers = 1", &site),
    );
    let body = multicall("system.multicall", "methodName");
    let request = format!(
        "POST /xmlrpc.php HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut client = Client::connect(saker.server.address()).unwrap();
    client.send(&request).unwrap();
    drop(client);
    let is_refused = || {
        let probe =
            "POST /xmlrpc.php HTTP/1.1\r\nHost: h\r\nX-Right: x-right\r\nContent-Length: 0\r\n\r\n";
        let mut client = Client::connect(saker.server.address()).unwrap();
        client.send(probe).unwrap();
        client.read_response().unwrap().status == 403
    };
    crate::operate::wait_until("the calls are counted", is_refused);
}

/// The file that a directory index or a rule led to counts, not the requested path.
#[test]
fn by_apaches_rules() {
    let application = application();
    let conf = format!(
        "<IfModule LiteSpeed>\nWordPressProtect deny, 5\n</IfModule>\nRewriteEngine On\nRewriteRule ^/rewritten$ http://{application}/xmlrpc.php [P]\n\
         ProxyPass /renamed http://{application}/xmlrpc.php\nProxyPass / http://{application}/\n"
    );
    let many = multicall("system&#46;multicall", "method&#78;ame");
    for (path, fields, body, passes) in [
        ("/xmlrpc.php", &[("Accept-Encoding", "gzip")][..], SINGLE, 5),
        ("/xmlrpc.php", &[("X-Code", "gzip")], SINGLE, 5),
        ("/xmlrpc.php", &[], &*many, 1),
        ("/renamed", &[], SINGLE, 5),
        ("/rewritten", &[], SINGLE, 5),
    ] {
        let site = apache(crate::operate::folder("login-apache"), &conf);
        let protocols = [
            Protocol::Plain,
            Protocol::Http1,
            Protocol::Http2,
            Protocol::Http3,
        ];
        // Two hosts have an account each, whatever the protocol.
        let request = Request {
            method: "POST",
            fields,
            body: body.as_bytes(),
            ..Request::get("localhost", path)
        };
        let statuses: Vec<u16> = (0..passes + 4)
            .map(|at| site.ask(protocols[1 + at % 3], &request).status)
            .collect();
        let expected: Vec<u16> = (0..passes + 4)
            .map(|at| if at < passes { 200 } else { 403 })
            .collect();
        assert_eq!(statuses, expected, "{path} {fields:?}");
        let plain: Vec<u16> = (0..=passes)
            .map(|_| harness::ask(site.plain, Protocol::Plain, &request).status)
            .collect();
        assert_eq!(plain, expected[..=passes], "{path} {fields:?}");
    }
}
