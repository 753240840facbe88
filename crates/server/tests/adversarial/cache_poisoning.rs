//! Poisoning and deception of the page cache: what one client sends must not change what the next
//! one gets, and a page that was made for one client must not become a page for all.
//!
//! The origin echoes all that it is asked into a page for all, and judges ranges and conditions as
//! a file server does. After each attack another client asks in the usual way, and must be answered
//! as if nothing had come before.

use crate::{
    cache_origin::{Cached, Head, Origin, answer, ok, origin},
    harness::{Answer, PROTOCOLS, Protocol, Request, ask},
    operate::folder,
};
use saker_testkit::Client;

const PUBLIC: (&str, &str) = ("Cache-Control", "public, max-age=600");

/// Fields of clients that do not attack.
const USUAL: [(&str, &str); 2] = [("Accept-Language", "de"), ("User-Agent", "usual")];

fn echoing() -> Origin {
    origin(|head| match head.first("range") {
        _ if head.first("if-match") != "-" => {
            answer("412 Precondition Failed", &[PUBLIC], b"failed")
        }
        "bytes=99999999-" => answer("416 Range Not Satisfiable", &[PUBLIC], b"no such range"),
        _ if head.all("x-long").iter().any(|value| value.len() > 4000) => {
            answer("431 Too Large", &[PUBLIC], b"too large")
        }
        _ if head.all("x-meta").contains(&"bad") => answer("400 Bad Request", &[PUBLIC], b"bad"),
        _ if head.first("x-http-method-override") == "DELETE" => {
            answer("405 Method Not Allowed", &[PUBLIC], b"deleted")
        }
        _ => ok(
            &[PUBLIC, ("Vary", "Accept-Language, X-Api-Version")],
            &told(head),
        ),
    })
}

/// Request data that an application may put into its page: all but the path, so that pages of
/// different paths can be compared, and fields that it has to list in `Vary` when it reads them.
fn told(head: &Head) -> String {
    const UNSEEN: [&str; 17] = [
        "connection",
        "surrogate-capability",
        "via",
        "x-forwarded-for",
        "user-agent",
        "accept",
        "range",
        "if-match",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "cache-control",
        "pragma",
        "te",
        "upgrade",
        "x-meta",
        "x-evil",
    ];
    let seen = |name: &str| !UNSEEN.contains(&name);
    let fields = head
        .fields
        .iter()
        .filter(|(name, _)| seen(name))
        .map(|(name, value)| format!("{name}: {value}\n"));
    format!(
        "{} ({} bytes)\n{}",
        head.method,
        head.content_bytes,
        fields.collect::<String>()
    )
}

fn servers(name: &str, origin: &Origin) -> [Cached; 2] {
    [
        Cached::native(name, origin, "obey = [\"http\"]\n"),
        Cached::apache(
            folder(name),
            origin,
            "CacheEnable disk /\nCacheIgnoreNoLastMod On\n",
        ),
    ]
}

fn usual(server: &Cached, target: &str) -> Answer {
    ask(
        server.plain(),
        Protocol::Plain,
        &Request::get("localhost", target).with_fields(&USUAL),
    )
}

/// Attacks one path after the other, and looks at each what a usual client gets.
struct Victims<'s> {
    server: &'s Cached,
    clean: Answer,
    paths: usize,
}

impl<'s> Victims<'s> {
    fn of(server: &'s Cached) -> Victims<'s> {
        let clean = usual(server, "/clean");
        assert!(
            clean.status == 200 && clean.text().starts_with("GET (0 bytes)\n"),
            "{clean:?}"
        );
        Victims {
            server,
            clean,
            paths: 0,
        }
    }

    fn path(&mut self) -> String {
        self.paths += 1;
        format!("/attacked{}", self.paths)
    }

    fn check(&self, target: &str, attack: &str) {
        for round in 0..2 {
            let answer = usual(self.server, target);
            assert_eq!(
                (answer.status, answer.text()),
                (200, self.clean.text()),
                "{attack}, asked for the {round}. time"
            );
        }
    }
}

/// Fields by which proxies and applications steer what is answered.
const STEERING: [&str; 42] = [
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-Port",
    "X-Forwarded-Scheme",
    "X-Forwarded-Protocol",
    "X-Forwarded-Server",
    "X-Forwarded-Prefix",
    "X-Forwarded-Uri",
    "X-Forwarded-Path",
    "X-Forwarded-Ssl",
    "X-Forwarded-Method",
    "X-Forwarded-User",
    "X_Forwarded_Host",
    "X.Forwarded.Proto",
    "Forwarded",
    "Front-End-Https",
    "Front_End_Https",
    "CF-Visitor",
    "CloudFront-Forwarded-Proto",
    "X-Scheme",
    "X-Url-Scheme",
    "X-Host",
    "X-Original-Host",
    "X-Original-URL",
    "X-Original-URI",
    "X-Rewrite-URL",
    "X-Rewrite-URI",
    "X-HTTP-Host-Override",
    "X-HTTP-Method-Override",
    "X-HTTP-Method",
    "X-Method-Override",
    "X-HTTP-Path-Override",
    "X-Request-URI",
    "X-Proto",
    "X-SSL",
    "X-Https",
    "HTTPS",
    "Fastly-SSL",
    "Base-Url",
    "X-Script-Name",
    "Remote-User",
    "X-Remote-User",
];

#[test]
fn fields_that_steer_applications() {
    let origin = echoing();
    for server in servers("poison-fields", &origin) {
        let mut victims = Victims::of(&server);
        for name in STEERING {
            for method in ["GET", "HEAD", "POST"] {
                let path = victims.path();
                let fields = [&USUAL[..], &[(name, "evil.test")]].concat();
                ask(
                    server.plain(),
                    Protocol::Plain,
                    &Request {
                        method,
                        ..Request::get("localhost", &path).with_fields(&fields)
                    },
                );
                victims.check(&path, &format!("{method} with {name}"));
            }
        }
    }
}

#[test]
fn fields_over_every_protocol() {
    let origin = echoing();
    for server in servers("poison-protocols", &origin) {
        for protocol in PROTOCOLS {
            let clean = format!("/clean-{protocol:?}");
            let clean = ask(
                server.tls(),
                protocol,
                &Request::get("localhost", &clean).with_fields(&USUAL),
            )
            .text();
            assert!(
                clean.starts_with("GET (0 bytes)\n"),
                "{protocol:?}: {clean}"
            );
            let names: &[&str] = if protocol == Protocol::Http2 {
                &["X-Forwarded-Host", "CF-Visitor", "X-Original-URI"]
            } else {
                &STEERING[..24]
            };
            for (at, name) in names.iter().enumerate() {
                let path = format!("/tls-{protocol:?}{at}");
                let lower = name.to_ascii_lowercase();
                let fields = [&USUAL[..], &[(lower.as_str(), "evil.test")]].concat();
                ask(
                    server.tls(),
                    protocol,
                    &Request::get("localhost", &path).with_fields(&fields),
                );
                let text = ask(
                    server.tls(),
                    protocol,
                    &Request::get("localhost", &path).with_fields(&USUAL),
                )
                .text();
                assert_eq!(text, clean, "{protocol:?} {name}");
            }
        }
        // RFC 9113 section 8.2.2 and RFC 9114 section 4.2: a request with a connection field is
        // malformed.
        let fields = [&USUAL[..], &[("connection", "accept-language")]].concat();
        let status = ask(
            server.tls(),
            Protocol::Http2,
            &Request::get("localhost", "/nominated").with_fields(&fields),
        )
        .status;
        // curl leaves it out by itself.
        assert!(matches!(status, 0 | 200 | 400), "{status}");
    }
}

#[test]
fn nominated_fields_vanish_for_keys_and_applications_alike() {
    let origin = echoing();
    for server in servers("poison-nominated", &origin) {
        let mut victims = Victims::of(&server);
        let nominations: &[&[(&str, &str)]] = &[
            &[("Connection", "Accept-Language")],
            &[("Connection", "close, accept-language")],
            &[
                ("connection", "keep-alive"),
                ("Connection", "x,ACCEPT-LANGUAGE ,"),
            ],
            &[("Connection", "Accept-Language, User-Agent")],
            &[("Connection", "User-Agent")],
            &[("Connection", "Host")],
            &[("Connection", "Cookie, Authorization, Cache-Control")],
            &[("Connection", "Content-Length, Transfer-Encoding")],
            &[("Connection", "Surrogate-Capability, X-LSCACHE")],
            &[("Connection", "X-Api-Version"), ("X-Api-Version", "2")],
            &[
                ("Connection", "X-Forwarded-Host"),
                ("X-Forwarded-Host", "evil.test"),
            ],
            &[("Connection", "X-Evil"), ("X-Evil", "1")],
            &[
                ("Connection", "Accept-Language"),
                ("Accept_Language", "evil"),
            ],
            &[("X_Api_Version", "2")],
            &[("Proxy-Connection", "Accept-Language")],
        ];
        for nominated in nominations {
            for method in ["GET", "HEAD"] {
                let path = victims.path();
                let fields: String = USUAL
                    .iter()
                    .chain(*nominated)
                    .map(|(name, value)| format!("{name}: {value}\r\n"))
                    .collect();
                let mut client = Client::connect(server.plain()).unwrap();
                client
                    .send(format!(
                        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"
                    ))
                    .unwrap();
                let response = if method == "HEAD" {
                    client.read_head_response()
                } else {
                    client.read_response()
                };
                assert_eq!(response.unwrap().status, 200, "{nominated:?}");
                victims.check(&path, &format!("{method} {nominated:?}"));
            }
        }
        // The nominated field is not there for the application, either.
        let fields = [
            USUAL[0],
            ("Connection", "accept-language, x-evil"),
            ("X-Evil", "1"),
        ];
        let mut client = Client::connect(server.plain()).unwrap();
        let text = client.request("GET", "/nominated", &fields).unwrap().text();
        assert!(
            !text.contains("accept-language") && !text.contains("x-evil"),
            "{text}"
        );
        // Fields for all recipients are there for keys and applications, whatever is nominated.
        let kept = [
            ("Origin", "https://kept.test"),
            ("Cookie", "kept=1"),
            ("CF-IPCountry", "kept-2"),
            ("X-Client-Cert-DN", "kept-3"),
        ];
        let connection = (
            "Connection",
            "origin, cookie, cf-ipcountry, x-client-cert-dn",
        );
        let fields = [&USUAL[..1], &[connection], &kept].concat();
        let mut client = Client::connect(server.plain()).unwrap();
        let text = client.request("GET", "/kept", &fields).unwrap().text();
        for (_, value) in kept {
            assert!(text.contains(value), "{value}: {text}");
        }
    }
}

#[test]
fn framings_ranges_and_conditions() {
    let origin = echoing();
    for server in servers("poison-framing", &origin) {
        let mut victims = Victims::of(&server);
        let attacks: &[(&str, &str)] = &[
            (
                "GET {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n",
                "fat!",
            ),
            (
                "GET {} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n",
                "4\r\nfat!\r\n0\r\n\r\n",
            ),
            (
                "HEAD {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n",
                "fat!",
            ),
            (
                "GET {} HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-0\r\n",
                "",
            ),
            (
                "GET {} HTTP/1.1\r\nHost: localhost\r\nRange: bytes=99999999-\r\n",
                "",
            ),
            (
                "GET {} HTTP/1.1\r\nHost: localhost\r\nRange: bytes=99999999-\r\nIf-Range: \"x\"\r\n",
                "",
            ),
            (
                "GET {} HTTP/1.1\r\nHost: localhost\r\nIf-Match: \"x\"\r\n",
                "",
            ),
            (
                "GET {} HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\n",
                "",
            ),
            (
                "GET {} HTTP/1.1\r\nHost: localhost\r\nIf-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n",
                "",
            ),
            ("GET {} HTTP/1.1\r\nHost: localhost\r\nX-Meta: bad\r\n", ""),
            (
                "GET {} HTTP/1.1\r\nHost: localhost\r\nX-HTTP-Method-Override: DELETE\r\n",
                "",
            ),
            (
                "GET {} HTTP/1.1\r\nHost: localhost\r\nX_HTTP_Method_Override: DELETE\r\n",
                "",
            ),
            ("GET http://localhost{} HTTP/1.1\r\nHost: evil.test\r\n", ""),
            ("GET http://evil.test{} HTTP/1.1\r\nHost: localhost\r\n", ""),
            ("GET {} HTTP/1.1\r\nHost: localhost:1337\r\n", ""),
            ("GET {} HTTP/1.1\r\nHost: evil.test\r\n", ""),
            ("GET {} HTTP/1.0\r\n", ""),
            (
                "GET {} HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\nConnection: TE\r\n",
                "",
            ),
            (
                "GET {} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
                "",
            ),
            (
                "GET {} HTTP/1.1\r\nHost: localhost\r\nPragma: no-cache\r\nCache-Control: no-cache, no-transform\r\nX-Forwarded-Host: e\r\n",
                "",
            ),
            (
                "POST {} HTTP/1.1\r\nHost: localhost\r\nX-HTTP-Method-Override: GET\r\nContent-Length: 1\r\n",
                "x",
            ),
            ("OPTIONS {} HTTP/1.1\r\nHost: localhost\r\n", ""),
            (
                "PURGE {} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Host: evil.test\r\n",
                "",
            ),
        ];
        let long = format!(
            "GET {{}} HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n",
            "x".repeat(5000)
        );
        for (head, content) in attacks.iter().copied().chain([(long.as_str(), "")]) {
            let path = victims.path();
            // The second finds what a page that can't be kept leaves behind.
            for _ in 0..2 {
                let mut client = Client::connect(server.plain()).unwrap();
                let usual = "Accept-Language: de\r\nUser-Agent: usual\r\n";
                client
                    .send(format!("{}{usual}\r\n{content}", head.replace("{}", &path)))
                    .unwrap();
                // Some are refused, and some of these close.
                let _ = if head.starts_with("HEAD") {
                    client.read_head_response()
                } else {
                    client.read_response()
                };
            }
            victims.check(&path, head);
        }
    }
}

/// A page of one client's account, under names that look like files for all.
#[test]
fn personal_pages_under_names_of_files() {
    let origin = origin(|head| {
        ok(
            &[("Cache-Control", "max-age=600")],
            &format!("account of {}", head.first("cookie")),
        )
    });
    let servers = [
        Cached::native("deception", &origin, "obey = [\"http\"]\n"),
        Cached::apache(
            folder("deception"),
            &origin,
            "CacheEnable disk /\nCacheIgnoreNoLastMod On\n",
        ),
    ];
    for server in servers {
        for target in [
            "/account",
            "/account/x.css",
            "/account.php/x.css",
            "/account;x.css",
            "/account.php;jsessionid=1/x.js",
            "/account%3bx.css",
            "/account%00.css",
            "/account%23x.css",
            "/account%3fx.css",
            "/account?x.css",
            "/account/..%2fx.css",
            "/static/..%2faccount",
            "/static/../account.css",
            "/account%0ax.css",
            "//account.css",
            "/account/.css",
            "/ACCOUNT.CSS",
        ] {
            let fields = [("Cookie", "shop_session=0123456789abcdef")];
            let own = ask(
                server.plain(),
                Protocol::Plain,
                &Request::get("localhost", target).with_fields(&fields),
            );
            let other = ask(
                server.plain(),
                Protocol::Plain,
                &Request::get("localhost", target),
            );
            assert!(
                !other.text().contains("0123456789abcdef"),
                "{target}: {own:?} {other:?}"
            );
        }
    }
}

/// Parameters that the key leaves out must not carry others that the application reads.
#[test]
fn parameters_that_hide_others() {
    let origin = origin(|head| ok(&[PUBLIC], &head.target));
    let server = Cached::native(
        "cloaked",
        &origin,
        "obey = [\"http\"]\nignore_parameters = [\"tracking\"]\n",
    );
    for hidden in [
        "utm_source=x;callback=evil",
        "utm_source=x;q=2",
        "utm_source=;utm_medium;callback=evil",
    ] {
        let path = format!("/page{}", hidden.len());
        let attack = format!("{path}?q=1&{hidden}");
        ask(
            server.plain(),
            Protocol::Plain,
            &Request::get("localhost", &attack),
        );
        let answer = ask(
            server.plain(),
            Protocol::Plain,
            &Request::get("localhost", &format!("{path}?q=1")),
        );
        assert_eq!(answer.text(), format!("{path}?q=1"), "{hidden}");
    }
}

/// Pages by device and by a field of the key, of an application that goes by the last of several lines:
/// it makes a page that other clients of the first line's device, or value, must not get.
#[test]
fn pages_of_lines_that_are_sent_twice_are_apart() {
    const DESKTOP: (&str, &str) = (
        "User-Agent",
        "Mozilla/5.0 (X11; Linux x86_64) Firefox/120.0",
    );
    const PHONE: (&str, &str) = (
        "User-Agent",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0) Mobile/15E148",
    );
    const TV: (&str, &str) = ("X-Device", "tv");
    const CAR: (&str, &str) = ("X-Device", "car");
    let origin = origin(|head| {
        let last = |name| head.all(name).last().map_or("", |value| *value).to_owned();
        ok(
            &[PUBLIC],
            &format!("{} {}", last("user-agent"), last("x-device")),
        )
    });
    let lines = "obey = [\"http\"]\nvary_on_device = true\nkey_headers = [\"X-Device\"]\n";
    let server = Cached::native("twice", &origin, lines);
    for protocol in PROTOCOLS {
        let path = format!("/{protocol:?}");
        let get = |fields: &[(&str, &str)]| {
            let request = Request::get("localhost", &path).with_fields(fields);
            ask(server.tls(), protocol, &request).text()
        };
        for fields in [
            &[DESKTOP, PHONE, TV],
            &[PHONE, DESKTOP, CAR],
            &[DESKTOP, TV, CAR],
        ] {
            get(fields);
        }
        for (agent, device) in [(DESKTOP, TV), (PHONE, TV), (DESKTOP, CAR), (PHONE, CAR)] {
            let expected = format!("{} {}", agent.1, device.1);
            assert_eq!(get(&[agent, device]), expected, "{protocol:?}");
        }
    }
}
