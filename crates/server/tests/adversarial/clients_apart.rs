//! Separation of clients: private pages, parts, and purges of fifty users behind one address.
//!
//! Each user differs from the others by one identifier only; everything else that they send is
//! equal. The page names all identifiers, so a page of another client shows at once.

use crate::{
    cache_origin::{Cached, Head, Origin, ok, origin},
    harness::{PROTOCOLS, Protocol, Request, ask},
    operate::folder,
};
use saker_testkit::Client;
use std::{sync::atomic::AtomicUsize, sync::atomic::Ordering, thread};

const USERS: usize = 50;
const CONTROL: &str = "X-LiteSpeed-Cache-Control";
const PRIVATE: (&str, &str) = (CONTROL, "private,max-age=600");

type Fields = Vec<(&'static str, String)>;

/// A secret of a user; no other text holds it.
fn secret(user: usize) -> String {
    format!("user{user:04}secret0123456789")
}

type Way = (&'static str, fn(usize) -> Fields, bool);

/// Ways in which clients are told from one another, and whether their private pages are kept.
const WAYS: [Way; 14] = [
    (
        "session",
        |user| vec![("Cookie", format!("PHPSESSID={}", secret(user)))],
        true,
    ),
    (
        "decoy before",
        |user| {
            vec![(
                "Cookie",
                format!(
                    "frontend=the-same-for-everybody; PHPSESSID={}",
                    secret(user)
                ),
            )]
        },
        true,
    ),
    (
        "decoy behind",
        |user| {
            vec![(
                "Cookie",
                format!(
                    "PHPSESSID={}; wordpress_logged_in_x=the-same-for-everybody",
                    secret(user)
                ),
            )]
        },
        true,
    ),
    (
        "unknown beside a known one",
        |user| {
            vec![(
                "Cookie",
                format!("sid=the-same-for-everybody; shopper={}", secret(user)),
            )]
        },
        true,
    ),
    (
        "__Host-",
        |user| vec![("Cookie", format!("__Host-session={}; _ga=1", secret(user)))],
        true,
    ),
    (
        "__Secure-",
        |user| {
            vec![(
                "Cookie",
                format!("__Secure-next-auth.session-token={}", secret(user)),
            )]
        },
        true,
    ),
    (
        "__Host- beside a known one",
        |user| {
            vec![(
                "Cookie",
                format!("frontend=the-same-for-everybody; __Host-x={}", secret(user)),
            )]
        },
        true,
    ),
    (
        "the first of two",
        |user| {
            vec![(
                "Cookie",
                format!("sid={}; sid=the-same-for-everybody", secret(user)),
            )]
        },
        true,
    ),
    (
        "the second of two",
        |user| {
            vec![(
                "Cookie",
                format!("sid=the-same-for-everybody; sid={}", secret(user)),
            )]
        },
        true,
    ),
    (
        "one name to PHP",
        |user| {
            vec![(
                "Cookie",
                format!("a_sid=the-same-for-everybody; a.sid={}", secret(user)),
            )]
        },
        true,
    ),
    (
        "quoted",
        |user| vec![("Cookie", format!("JSESSIONID=\"{}\"", secret(user)))],
        true,
    ),
    (
        "two lines",
        |user| {
            vec![
                ("Cookie", "frontend=the-same-for-everybody".into()),
                ("Cookie", format!("b={}", secret(user))),
            ]
        },
        true,
    ),
    (
        "credentials",
        |user| {
            vec![
                ("Cookie", "PHPSESSID=the-same-for-everybody".into()),
                ("Authorization", format!("Basic {}", secret(user))),
            ]
        },
        true,
    ),
    (
        "nothing that identifies",
        |_| vec![("Cookie", "theme=the-same-for-everybody".into())],
        false,
    ),
];

/// Everything by which the application could tell a client.
fn page(head: &Head) -> String {
    format!(
        "{}|{}",
        head.all("cookie").join("; "),
        head.all("authorization").join(",")
    )
}

fn private_origin() -> Origin {
    let count = AtomicUsize::new(0);
    origin(move |head| {
        ok(
            &[PRIVATE],
            &format!("{}|{}", page(head), count.fetch_add(1, Ordering::Relaxed)),
        )
    })
}

fn expected(fields: &Fields) -> String {
    let all = |name: &str, between: &str| {
        fields
            .iter()
            .filter(|(known, _)| *known == name)
            .map(|(_, value)| value.as_str())
            .collect::<Vec<_>>()
            .join(between)
    };
    format!("{}|{}|", all("Cookie", "; "), all("Authorization", ","))
}

fn borrowed(fields: &Fields) -> Vec<(&str, &str)> {
    fields
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect()
}

fn servers(name: &str, origin: &Origin, lines: &str) -> [Cached; 2] {
    [
        Cached::native(name, origin, "obey = [\"lscache\", \"http\"]\n"),
        Cached::apache(folder(name), origin, &format!("CacheLookup on\n{lines}")),
    ]
}

#[test]
fn no_user_sees_anothers_page() {
    let origin = private_origin();
    for server in servers("apart", &origin, "") {
        for (at, (way, fields, is_kept)) in WAYS.iter().enumerate() {
            let target = format!("/way{at}");
            let hits = AtomicUsize::new(0);
            thread::scope(|scope| {
                for user in 0..USERS {
                    let (server, target, hits) = (&server, &target, &hits);
                    scope.spawn(move || {
                        let fields = fields(user);
                        let mut client = Client::connect(server.plain()).unwrap();
                        for round in 0..3 {
                            let response =
                                client.request("GET", target, &borrowed(&fields)).unwrap();
                            assert!(
                                response.text().starts_with(&expected(&fields)),
                                "{way}, user {user}, round {round}: {response:?}"
                            );
                            hits.fetch_add(
                                usize::from(
                                    response.field("x-litespeed-cache") == Some("hit,private"),
                                ),
                                Ordering::Relaxed,
                            );
                        }
                    });
                }
            });
            let hits = hits.into_inner();
            assert_eq!(hits > 0, *is_kept, "{way}: {hits} hits");
        }
    }
}

#[test]
fn no_user_sees_anothers_page_over_any_protocol() {
    let origin = private_origin();
    for server in servers("apart-protocols", &origin, "") {
        for (at, (way, fields, _)) in WAYS.iter().enumerate() {
            let target = format!("/protocols{at}");
            // The pages of the first are there when the second asks.
            for user in [1, 2, 1, 2] {
                let fields = fields(user);
                for protocol in PROTOCOLS {
                    let answer = ask(
                        server.at(protocol),
                        protocol,
                        &Request::get("localhost", &target).with_fields(&borrowed(&fields)),
                    );
                    let expected = expected(&fields);
                    assert!(
                        answer.text().starts_with(&expected),
                        "{way}, user {user}, {protocol:?}: {answer:?}, not {expected}"
                    );
                }
            }
        }
    }
}

/// As SHA-1 passwords of htpasswd are written.
fn password_line(user: usize) -> String {
    use sha1::{Digest, Sha1};
    format!(
        "user{user}:{{SHA}}{}\n",
        base64(&Sha1::digest(format!("pass{user}")))
    )
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let number = three
            .iter()
            .fold(0u32, |number, byte| number << 8 | u32::from(*byte))
            << (8 * (3 - three.len()));
        for at in 0..4 {
            out.push(if at <= three.len() {
                char::from(DIGITS[(number >> (18 - 6 * at) & 63) as usize])
            } else {
                '='
            });
        }
    }
    out
}

/// The user changes under a cookie that stays, as with a log-in, and the application knows the user
/// only.
#[test]
fn users_of_a_password_file_with_one_cookie() {
    let origin = origin(|head| {
        let control = if head.target.starts_with("/http") {
            ("Cache-Control", "max-age=600")
        } else {
            PRIVATE
        };
        ok(&[control], &format!("for {}", head.first("authorization")))
    });
    let dir = folder("apart-users");
    dir.write("users", (0..USERS).map(password_line).collect::<String>())
        .unwrap();
    let lines = "CacheLookup on\n<Location \"/\">\nAuthType Basic\nAuthName x\nAuthUserFile {dir}/users\nRequire valid-user\n</Location>\n\
                 <Location \"/http\">\nCacheEnable disk\n</Location>\n";
    let server = Cached::apache(dir, &origin, lines);
    for target in ["/page", "/http"] {
        thread::scope(|scope| {
            for user in 0..USERS {
                let server = &server;
                scope.spawn(move || {
                    let credentials = format!(
                        "Basic {}",
                        base64(format!("user{user}:pass{user}").as_bytes())
                    );
                    let fields = [
                        ("Cookie", "PHPSESSID=the-same-for-everybody"),
                        ("Authorization", &credentials),
                    ];
                    let mut client = Client::connect(server.plain()).unwrap();
                    for _ in 0..3 {
                        assert_eq!(
                            client.request("GET", target, &fields).unwrap().text(),
                            format!("for {credentials}"),
                            "{target}"
                        );
                    }
                });
            }
        });
    }
    assert_eq!(
        ask(
            server.plain(),
            Protocol::Plain,
            &Request::get("localhost", "/page")
        )
        .status,
        401
    );
}

/// Parts that are private, by a request of their own and said by the page.
#[test]
fn private_parts_of_a_page_for_all() {
    let origin = origin(|head| match head.target.as_str() {
        "/own" => ok(&[PRIVATE], &page(head)),
        "/said" => ok(&[(CONTROL, "no-cache")], "nobody has said it"),
        _ => {
            let text = format!(
                "<esi:inline name='/said' cache-control='private,max-age=600'>{}</esi:inline>(<esi:include src='/own'/>)(<esi:include src='/said'/>)",
                page(head)
            );
            let control = if head.target == "/all" {
                "public,max-age=600,esi=on"
            } else {
                "no-cache,esi=on"
            };
            ok(
                &[(CONTROL, control)],
                if head.target == "/all" {
                    "(<esi:include src='/own'/>)"
                } else {
                    &text
                },
            )
        }
    });
    for server in servers("apart-parts", &origin, "") {
        for (way, fields, _) in WAYS {
            for target in ["/all", "/page"] {
                thread::scope(|scope| {
                    for user in 0..10 {
                        let server = &server;
                        scope.spawn(move || {
                            let fields = fields(user);
                            let mut client = Client::connect(server.plain()).unwrap();
                            for round in 0..3 {
                                let text = client
                                    .request("GET", target, &borrowed(&fields))
                                    .unwrap()
                                    .text();
                                let expected = expected(&fields);
                                let own = format!("({})", &expected[..expected.len() - 1]);
                                let whole = if target == "/all" {
                                    own.clone()
                                } else {
                                    format!("{own}{own}")
                                };
                                assert_eq!(
                                    text, whole,
                                    "{way}, user {user}, round {round}, {target}"
                                );
                            }
                        });
                    }
                });
            }
        }
    }
}

#[test]
fn a_private_purge_is_about_its_own_client() {
    let origin = origin(|head| match head.target.split('?').next() {
        Some("/purge") => ok(
            &[(CONTROL, "no-cache"), ("X-LiteSpeed-Purge", "private,*")],
            "",
        ),
        _ => ok(&[PRIVATE], &page(head)),
    });
    for server in servers("apart-purges", &origin, "") {
        for (at, (way, fields, is_kept)) in WAYS.iter().enumerate().filter(|(_, way)| way.2) {
            let target = format!("/page{at}");
            let state = |user: usize, target: &str, method: &str| {
                let fields = fields(user);
                let mut all = borrowed(&fields);
                all.extend((method == "POST").then_some(("Content-Length", "0")));
                let response = Client::connect(server.plain())
                    .unwrap()
                    .request(method, target, &all)
                    .unwrap();
                response
                    .field("x-litespeed-cache")
                    .unwrap_or_default()
                    .to_owned()
            };
            assert!(is_kept);
            for purge in [("/purge", "GET"), ("/save", "POST")] {
                for user in [1, 2] {
                    state(user, &target, "GET");
                    assert_eq!(state(user, &target, "GET"), "hit,private", "{way}");
                }
                state(1, purge.0, purge.1);
                assert_eq!(
                    state(2, &target, "GET"),
                    "hit,private",
                    "{way}: not the other client's"
                );
                assert_eq!(state(1, &target, "GET"), "miss", "{way}: the client's own");
            }
        }
    }
}

/// Pages by HTTP's own words, with a lifetime and no word about whom they are for.
#[test]
fn sessions_by_any_name_are_not_shared() {
    let origin = origin(|head| ok(&[("Cache-Control", "max-age=600")], &page(head)));
    let servers = [
        Cached::native("apart-sessions", &origin, "obey = [\"http\"]\n"),
        Cached::apache(
            folder("apart-sessions"),
            &origin,
            "CacheEnable disk /\nCacheIgnoreNoLastMod On\n",
        ),
    ];
    for server in servers {
        for (at, name) in [
            "sid",
            "shop_session",
            "__Host-session",
            "__Secure-id",
            "next-auth.session-token",
            "authjs.session-token",
            "jwt",
            "auth_token",
            "access_token",
            "remember_web_59ba",
            "laravel_session",
            "laravel.session",
            "PHPSESSID[x]",
            "connect.sid",
            "_app_session",
            "JSESSIONID",
            "ASP.NET_SessionId",
            "XSRF-TOKEN",
        ]
        .into_iter()
        .enumerate()
        {
            let target = format!("/page{at}");
            for user in [1, 2, 1] {
                let cookie = format!("_ga=1; {name}={}", secret(user));
                let fields = [("Cookie", cookie.as_str())];
                let answer = ask(
                    server.plain(),
                    Protocol::Plain,
                    &Request::get("localhost", &target).with_fields(&fields),
                );
                assert_eq!(answer.text(), format!("{cookie}|"), "{name}");
            }
            let answer = ask(
                server.plain(),
                Protocol::Plain,
                &Request::get("localhost", &target),
            );
            assert_eq!(answer.text(), "|", "{name}");
        }
        // Responses that identify no client are shared.
        let before = origin.count("/shared");
        for _ in 0..3 {
            let fields = [("Cookie", "_ga=1; theme=dark")];
            ask(
                server.plain(),
                Protocol::Plain,
                &Request::get("localhost", "/shared").with_fields(&fields),
            );
        }
        assert_eq!(origin.count("/shared"), before + 1);
    }
}
