//! The effective host: a request must not be for one site where it is routed and for another where
//! it is judged.
//!
//! Attacks: other spellings of a host (case, dot at the end, port, forms of IPv4 addresses), an
//! absolute-form target that names another host than Host does, a Host beside another `:authority`.
//! Verdict: what rules, programs and the server behind were told.

use crate::{
    harness::{self, Answer, PROTOCOLS, Protocol, Request, ask, http1_bytes},
    http3_client::site::backend,
    operate,
};
use saker_testkit::{
    Client, Saker, TempDir,
    frames::{self, Frames, block, frame},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    thread,
};

/// Spellings of one host, and the one that everything is told.
const SPELLINGS: [(&str, &str); 8] = [
    ("staff.test", "staff.test"),
    ("STAFF.test", "staff.test"),
    ("staff.test.", "staff.test"),
    ("StAfF.TeSt.", "staff.test"),
    ("staff.test:", "staff.test"),
    ("staff.test:4433", "staff.test:4433"),
    ("staff.test.:4433", "staff.test:4433"),
    ("Staff.Test.:04433", "staff.test:4433"),
];

/// Hosts that are no host, or an address in a form that libraries read differently.
const MALFORMED: [&str; 14] = [
    "127.01.0.1",
    "0177.0.0.1",
    "127.1",
    "0x7f.1",
    "0x7f000001",
    "017700000001",
    "2130706433",
    "127.0.0.256",
    "user@staff.test",
    "staff..test",
    "staff.test,localhost",
    "staff.test:99999",
    "staff.test:4433:1",
    "[::1",
];

/// Targets in absolute-form for staff.test, which Host does not name; what is passed on of them.
const ABSOLUTE: [(&str, &str, &str); 6] = [
    ("http://staff.test/x?y", "staff.test", "/x?y"),
    ("HTTP://STAFF.TEST./x?y", "staff.test", "/x?y"),
    ("https://staff.test/x?y", "staff.test", "/x?y"),
    ("http://Staff.Test.:04433/x?y", "staff.test:4433", "/x?y"),
    ("http://staff.test?y", "staff.test", "/?y"),
    ("http://staff.test", "staff.test", "/"),
];

const MALFORMED_TARGETS: [&str; 7] = [
    "http://user@staff.test/",
    "http://user:password@staff.test/",
    "http:///x",
    "http://0x7f.1/",
    "http://staff..test/",
    "ftp://staff.test/",
    "staff.test/",
];

/// A site of that name, all of whose requests go to a server that gives back what it hears, beside
/// the one for every other name.
fn native() -> Saker {
    let route = format!(
        "[[site.route]]\npath = \"/*\"\nproxy = \"http://{}\"\npreserve_host = true\n",
        backend()
    );
    let tls = "[site.tls]\ncertificate = \"{dir}/site.pem\"\nkey = \"{dir}/site.key\"\n";
    harness::native(
        operate::folder("effective-host"),
        &format!("[[site]]\nnames = [\"staff.test\"]\n{route}{tls}"),
        "",
    )
}

/// Request seen by staff.test's upstream; `None` if another site answered, or none.
fn heard(answer: &Answer) -> Option<(String, String)> {
    let text = answer.text();
    let target = text
        .lines()
        .next()?
        .strip_prefix("GET ")?
        .strip_suffix(" HTTP/1.1")?
        .to_owned();
    let hosts: Vec<&str> = text
        .lines()
        .filter_map(|line| {
            line.get(..6)?
                .eq_ignore_ascii_case("host: ")
                .then_some(&line[6..])
        })
        .collect();
    assert_eq!(hosts.len(), 1, "{text}");
    Some((hosts[0].to_owned(), target))
}

#[test]
fn one_site_for_every_spelling() {
    let saker = native();
    let address = saker.server.address();
    for protocol in PROTOCOLS {
        for (host, told) in SPELLINGS {
            let answer = ask(address, protocol, &Request::get(host, "/x?y"));
            assert_eq!(
                heard(&answer),
                Some((told.into(), "/x?y".into())),
                "{protocol:?} {host}: {answer:?}"
            );
        }
        let other = ask(
            address,
            protocol,
            &Request::get("staff.test.localhost", "/"),
        );
        assert_eq!((other.status, heard(&other)), (200, None), "{protocol:?}");
    }
    for (target, host, passed) in ABSOLUTE {
        for said in ["localhost", "staff.test", "staff.test.", "other.test:1"] {
            let answer = ask(address, Protocol::Http1, &Request::get(said, target));
            assert_eq!(
                heard(&answer),
                Some((host.into(), passed.into())),
                "{target} | {said}: {answer:?}"
            );
        }
    }
    // And the other way round: the protected host in Host is not the one that is asked.
    let answer = ask(
        address,
        Protocol::Http1,
        &Request::get("staff.test", "http://localhost/"),
    );
    assert_eq!((answer.status, heard(&answer)), (200, None));
}

#[test]
fn what_is_no_host_is_400() {
    let saker = native();
    let address = saker.server.address();
    for host in MALFORMED {
        for protocol in PROTOCOLS {
            let answer = ask(address, protocol, &Request::get(host, "/"));
            // Over HTTP/2 and HTTP/3 the stream ends (RFC 9113 section 8.1.1, RFC 9114 section
            // 4.1.2).
            let refused = if protocol == Protocol::Http1 { 400 } else { 0 };
            assert_eq!(answer.status, refused, "{protocol:?} {host}: {answer:?}");
        }
        // A Host that does not count has to be valid all the same.
        let answer = ask(
            address,
            Protocol::Http1,
            &Request::get(host, "http://staff.test/"),
        );
        assert_eq!(answer.status, 400, "{host}");
    }
    for target in MALFORMED_TARGETS {
        let answer = ask(
            address,
            Protocol::Http1,
            &Request::get("staff.test", target),
        );
        assert_eq!(answer.status, 400, "{target}");
        let answer = ask(
            address,
            Protocol::Http3,
            &Request::get("staff.test", target),
        );
        assert_eq!(answer.status, 0, "{target}");
    }
    let twice = Request::get("staff.test", "/");
    for target in ["/", "http://staff.test/"] {
        for second in ["staff.test", "localhost", ""] {
            let fields = [("host", second)];
            let request = Request {
                target,
                ..twice.clone().with_fields(&fields)
            };
            assert_eq!(
                ask(address, Protocol::Http1, &request).status,
                400,
                "{target} {second}"
            );
        }
    }
}

/// RFC 9113 section 8.3.1, RFC 9114 section 4.3.1.
#[test]
fn a_host_beside_another_authority_is_malformed() {
    const PROTOCOL_ERROR: u32 = 1;
    let saker = operate::start(
        "effective-host-h2",
        &operate::configuration("workers = 1", ""),
    );
    let same = [
        ("localhost", "localhost"),
        ("localhost", "LOCALHOST."),
        ("localhost:80", "localhost"),
        ("LOCALHOST.", "localhost:080"),
    ];
    let other = [
        ("localhost", "staff.test"),
        ("localhost", "localhost:81"),
        ("localhost", ""),
        ("localhost", "localhost,staff.test"),
        ("", "localhost"),
    ];
    let mut client = Frames::connect(saker.server.address()).unwrap();
    let mut stream = 1;
    for (authority, host) in same.iter().chain(&other) {
        let fields = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", authority),
            (":path", "/"),
            ("host", host),
        ];
        client
            .send_bytes(&frame(
                frames::HEADERS,
                frames::END_HEADERS | frames::END_STREAM,
                stream,
                &block(&fields),
            ))
            .unwrap();
        let is_reset = same.iter().all(|pair| pair != &(*authority, *host));
        let verdict = loop {
            match client.read().unwrap().unwrap() {
                frame if frame.stream == stream && frame.kind == frames::RST_STREAM => {
                    break frame.error_code();
                }
                frame if frame.stream == stream && frame.kind == frames::HEADERS => break None,
                _ => {}
            }
        };
        assert_eq!(
            verdict,
            is_reset.then_some(PROTOCOL_ERROR),
            "{authority} | {host}"
        );
        stream += 2;
    }
    let saker = native();
    for (host, status) in [
        ("staff.test", 200),
        ("STAFF.TEST.:443", 200),
        ("localhost", 0),
        ("", 0),
    ] {
        let fields = [("host", host)];
        let answer = ask(
            saker.server.address(),
            Protocol::Http3,
            &Request::get("staff.test", "/").with_fields(&fields),
        );
        assert_eq!(answer.status, status, "{host}");
    }
}

const TELLS: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s|%s|%s|%s' \"$HTTP_HOST\" \"$SERVER_NAME\" \"$REQUEST_URI\" \"$MARK\"\n";

/// Everything of Apache's that judges a host: rules of access and of rewriting, variables by
/// fields, programs.
fn apache() -> harness::ApacheSite {
    let dir = operate::folder("effective-host-apache");
    program(&dir, "cgi/tells", TELLS);
    for name in ["denied", "open"] {
        dir.write(&format!("www/{name}/a.txt"), name).unwrap();
    }
    harness::apache(
        dir,
        "ScriptAlias /cgi/ {dir}/cgi/\n<Directory {dir}/cgi>\nRequire all granted\n</Directory>\n\
         SetEnvIf Host \"^staff\\.test(:4433)?$\" MARK=staff\n\
         <Location /denied>\nRequire expr \"! %{HTTP_HOST} =~ /^staff\\.test/\"\n</Location>\n\
         RewriteEngine On\nRewriteCond %{HTTP_HOST} ^staff\\.test\nRewriteRule ^/rewritten$ - [F]\n",
    )
}

fn program(dir: &TempDir, path: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let file = dir.write(path, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn rules_and_programs_judge_the_host_that_is_served() {
    let apache = apache();
    let judged = |protocol: Protocol, request: &Request<'_>, at: &str, told: &str| {
        let of = |path: &str| {
            let target = format!("{at}{path}");
            apache.ask(
                protocol,
                &Request {
                    target: &target,
                    ..request.clone()
                },
            )
        };
        let about = format!("{protocol:?} {at} {}", request.host);
        assert_eq!(
            (
                of("/denied/a.txt").status,
                of("/open/a.txt").status,
                of("/rewritten").status
            ),
            (403, 200, 403),
            "{about}"
        );
        assert_eq!(
            of("/cgi/tells?q").text(),
            format!("{told}|staff.test|/cgi/tells?q|staff"),
            "{about}"
        );
    };
    for protocol in [
        Protocol::Plain,
        Protocol::Http1,
        Protocol::Http2,
        Protocol::Http3,
    ] {
        for (host, told) in SPELLINGS {
            judged(protocol, &Request::get(host, ""), "", told);
        }
        for host in MALFORMED {
            let answer = apache.ask(protocol, &Request::get(host, "/open/a.txt"));
            assert!(
                matches!(answer.status, 400 | 0),
                "{protocol:?} {host}: {answer:?}"
            );
        }
    }
    for protocol in [Protocol::Plain, Protocol::Http1] {
        for (at, told) in [
            ("http://staff.test", "staff.test"),
            ("http://STAFF.test.:4433", "staff.test:4433"),
            ("https://staff.test", "staff.test"),
        ] {
            for said in ["localhost", "staff.test", "other.test:1"] {
                judged(protocol, &Request::get(said, ""), at, told);
            }
        }
    }
    // The guard of another host is not this one's.
    let answer = apache.ask(
        Protocol::Plain,
        &Request::get("staff.test", "http://localhost/denied/a.txt"),
    );
    assert_eq!((answer.status, answer.text().as_str()), (200, "denied"));
}

/// A request of HTTP/1.0 without Host has the host of its target.
#[test]
fn a_target_names_the_host_where_host_is_missing() {
    let apache = apache();
    let mut client = Client::connect(apache.plain).unwrap();
    client
        .send("GET http://staff.test./cgi/tells HTTP/1.0\r\n\r\n")
        .unwrap();
    assert_eq!(
        client.read_response().unwrap().text(),
        "staff.test|staff.test|/cgi/tells|staff"
    );
}

/// The authorization server is asked about the same host and path as the site's own rules.
#[test]
fn an_authorization_server_is_told_the_same() {
    let dir = operate::folder("effective-host-authorize");
    let (asked, is_granted) = (backend(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let judge = heads(is_granted);
    let site = format!(
        "authorize = \"http://{}\"\n[[site.route]]\npath = \"/*\"\nproxy = \"http://{asked}\"\n",
        judge.0
    );
    let saker = operate::start_in(dir, &operate::configuration("workers = 1", &site));
    let ask = |host: &str, target: &str| {
        ask(
            saker.server.address(),
            Protocol::Plain,
            &Request::get(host, target),
        )
        .status
    };
    assert_eq!(ask("localhost", "http://STAFF.test./secret/x?y"), 200);
    let head = judge.1.recv().unwrap().to_ascii_lowercase();
    for line in [
        "x-original-uri: /secret/x?y",
        "x-original-url: http://staff.test/secret/x?y",
        "x-forwarded-uri: /secret/x?y",
    ] {
        assert!(
            head.contains(&format!("\r\n{line}\r\n")),
            "{line} in {head}"
        );
    }
    assert!(!head.contains("localhost"), "{head}");
}

/// A server that answers everything so, and the heads that it has heard.
fn heads(answer: &'static str) -> (SocketAddr, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let sender = sender.clone();
            thread::spawn(move || {
                let (mut head, mut piece) = (Vec::new(), [0; 4096]);
                while let Ok(count @ 1..) = stream.read(&mut piece) {
                    head.extend_from_slice(&piece[..count]);
                    if head.ends_with(b"\r\n\r\n") {
                        let _ = sender
                            .send(String::from_utf8_lossy(&std::mem::take(&mut head)).into_owned());
                        if stream.write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    (address, receiver)
}

/// Gives back the Host that it was asked for, for caches to keep.
fn writes_its_host() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut head, mut piece) = (Vec::new(), [0; 4096]);
                while let Ok(count @ 1..) = stream.read(&mut piece) {
                    head.extend_from_slice(&piece[..count]);
                    if !head.ends_with(b"\r\n\r\n") {
                        continue;
                    }
                    let text = String::from_utf8_lossy(&std::mem::take(&mut head)).into_owned();
                    let line = text
                        .lines()
                        .find(|line| line.to_ascii_lowercase().starts_with("host: "))
                        .unwrap_or("host: none");
                    let target = text.split(' ').nth(1).unwrap_or_default();
                    let page = format!("<a href=\"//{}{target}\">", &line[6..]);
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=60\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{page}",
                        page.len()
                    );
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A page that was made for one spelling of the host is not shown for another, where the
/// application can tell them apart; and is where it can't.
#[test]
fn pages_are_kept_by_the_host_that_made_them() {
    let route = format!(
        "[[site.route]]\npath = \"/*\"\nproxy = \"http://{}\"\npreserve_host = true\n[site.cache]\nenabled = true\nresult_header = \"X-Cache\"\n",
        writes_its_host()
    );
    let saker = harness::native(operate::folder("effective-host-cache"), "", &route);
    let address = saker.server.address();
    let own = format!("shop.test:{}", address.port());
    let own_dot = format!("SHOP.test.:0{}", address.port());
    let absolute = format!("http://shop.test.:{}/page", address.port());
    for (protocol, path) in [
        (Protocol::Http1, "/one"),
        (Protocol::Http2, "/two"),
        (Protocol::Http3, "/three"),
    ] {
        // What an attacker sends first must not be what others get.
        let rows = [
            (own.as_str(), own.as_str(), "MISS"),
            ("shop.test", "shop.test", "MISS"),
            ("shop.test:81", "shop.test:81", "MISS"),
            ("other.test", "other.test", "MISS"),
            (&own, &own, "HIT"),
            (&own_dot, &own, "HIT"),
            ("shop.test", "shop.test", "HIT"),
            ("Shop.Test.", "shop.test", "HIT"),
            ("shop.test.:", "shop.test", "HIT"),
            ("shop.test.:081", "shop.test:81", "HIT"),
        ];
        for (host, written, told) in rows {
            let answer = ask(address, protocol, &Request::get(host, path));
            let page = format!("<a href=\"//{written}{path}\">");
            assert_eq!(
                (answer.text(), answer.field("x-cache")),
                (page, Some(told)),
                "{protocol:?} {host}"
            );
        }
    }
    // The form of the target is not the application's to see.
    for (target, told) in [
        (absolute.as_str(), "MISS"),
        ("/page", "HIT"),
        (&absolute, "HIT"),
    ] {
        let host = if target == "/page" {
            own.as_str()
        } else {
            "evil.test"
        };
        let answer = ask(address, Protocol::Http1, &Request::get(host, target));
        assert_eq!(
            (answer.text(), answer.field("x-cache")),
            (format!("<a href=\"//{own}/page\">"), Some(told)),
            "{target}"
        );
    }
}

/// A redirect of a site to HTTPS, and one to a folder's slash, lead to the host that was asked.
#[test]
fn redirects_lead_to_the_host_that_was_asked() {
    let apache = apache();
    for (host, target) in [
        ("STAFF.test.", "/open"),
        ("evil.test", "http://STAFF.test./open"),
        ("evil.test", "http://staff.test:80/open"),
    ] {
        let answer = apache.ask(Protocol::Plain, &Request::get(host, target));
        assert_eq!(
            (answer.status, answer.field("location")),
            (301, Some("http://staff.test/open/")),
            "{host} {target}"
        );
    }
}

/// Many requests on one connection: what is kept of one is not for another host.
#[test]
fn kept_outcomes_are_of_one_host() {
    let dir = operate::folder("effective-host-kept");
    dir.write("staff/index.html", "staff").unwrap();
    let more = "[[site]]\nnames = [\"staff.test\"]\nroot = \"{dir}/staff\"\n";
    let saker = operate::start_in(
        dir,
        &format!("{}\n{more}", operate::configuration("workers = 1", "")),
    );
    let mut client = Client::connect(saker.server.address()).unwrap();
    for _ in 0..3 {
        for (host, target, text) in [
            ("staff.test", "/", "staff"),
            ("Staff.Test.", "/", "staff"),
            ("localhost", "/", "<p>hello</p>\n"),
            ("localhost", "http://staff.test/", "staff"),
            ("staff.test", "http://localhost./", "<p>hello</p>\n"),
            ("staff.test", "/", "staff"),
        ] {
            let bytes = http1_bytes(&Request::get(host, target));
            client
                .send(
                    String::from_utf8(bytes)
                        .unwrap()
                        .replace("Connection: close\r\n", ""),
                )
                .unwrap();
            assert_eq!(
                client.read_response().unwrap().text(),
                text,
                "{host} {target}"
            );
        }
    }
}
