//! ESI behind real connections: pages are put together from parts that are fetched, kept and purged
//! each by its own rules.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::origin::{Asked, Meeting, Origin, answer, ok};
use saker_testkit::Response;
use std::{thread, time::Duration};

const CONTROL: &str = "X-LiteSpeed-Cache-Control";
const TAG: &str = "X-LiteSpeed-Tag";
const PURGE: &str = "X-LiteSpeed-Purge";
const PAGE: (&str, &str) = (CONTROL, "public,max-age=60,esi=on");
const HTML: (&str, &str) = ("Content-Type", "text/html");

fn user(number: usize) -> String {
    format!("wordpress_logged_in_x={number:020}")
}

/// A page at `/page` with this content, and parts by what their names begin with.
fn site(name: &str, page: &'static str) -> Origin {
    Origin::start(name, "", move |asked| {
        match asked.target.split('?').next().unwrap_or_default() {
            "/page" => ok(&[PAGE, HTML], page),
            _ => part(asked),
        }
    })
}

fn part(asked: &Asked) -> Vec<u8> {
    let text = format!("[{} {}]", asked.target, asked.count);
    let who = format!(
        "[{} {} {}]",
        asked.target,
        asked.count,
        asked.field("cookie").unwrap_or("nobody")
    );
    match asked.target.as_str() {
        target if target.starts_with("/private") => ok(
            &[(CONTROL, "private,no-vary,max-age=60"), (TAG, "mine")],
            &who,
        ),
        target if target.starts_with("/public") => {
            ok(&[(CONTROL, "public,max-age=60"), (TAG, "part")], &text)
        }
        target if target.starts_with("/once") => ok(&[(CONTROL, "no-cache")], &text),
        target if target.starts_with("/cookie") => ok(
            &[
                ("Set-Cookie", "a=1"),
                ("LSC-Cookie", "b=2"),
                (CONTROL, "no-cache"),
            ],
            "C",
        ),
        target if target.starts_with("/purge") => {
            ok(&[(PURGE, "tag=part"), (CONTROL, "no-cache")], "P")
        }
        target if target.starts_with("/slow") => {
            asked.pause(Duration::from_millis(300));
            ok(&[(CONTROL, "no-cache")], &text)
        }
        target if target.starts_with("/empty") => answer("204 No Content", &[], ""),
        target if target.starts_with("/broken") => {
            answer("500 Internal Server Error", &[], "oh no")
        }
        target if target.starts_with("/moved") => {
            answer("302 Found", &[("Location", "/page")], "moved")
        }
        _ => answer("404 Not Found", &[], "not here"),
    }
}

fn text(origin: &Origin, target: &str, cookie: &str) -> String {
    get(origin, target, cookie).text()
}

fn get(origin: &Origin, target: &str, cookie: &str) -> Response {
    let fields: Vec<(&str, &str)> = if cookie.is_empty() {
        Vec::new()
    } else {
        vec![("Cookie", cookie)]
    };
    origin.get(target, &fields)
}

#[test]
fn check_13_parts_have_lives_of_their_own() {
    let origin = site(
        "esi-13",
        "<p><esi:include src='/public'/>|<esi:include src=\"/private?a=1&amp;b=2\"/></p>",
    );
    let (first, second) = (user(1), user(2));
    let of =
        |user: &str, count: usize| format!("<p>[/public 1]|[/private?a=1&b=2 {count} {user}]</p>");
    for (user, count, status) in [
        (&first, 1, "miss"),
        (&second, 2, "hit"),
        (&first, 1, "hit"),
        (&second, 2, "hit"),
    ] {
        let response = get(&origin, "/page", user);
        assert_eq!(response.text(), of(user, count));
        assert_eq!(response.field("x-litespeed-cache"), Some(status));
        assert_eq!(
            response.field("content-length").map(str::to_owned),
            Some(of(user, count).len().to_string())
        );
    }
    assert_eq!(
        (origin.asked("/page").len(), origin.asked("/public").len()),
        (1, 1)
    );
    // A purge of the part changes the part only.
    let purged = origin.get("/purge-it", &[]);
    assert_eq!(purged.text(), "P");
    assert_eq!(
        text(&origin, "/page", &first),
        of(&first, 1).replace("/public 1", "/public 2")
    );
    assert_eq!(
        (
            origin.asked("/page").len(),
            origin.asked("/private?a=1&b=2").len()
        ),
        (1, 2)
    );
}

/// Without a word of its own, too: a cache further out may choose a lifetime then.
#[test]
fn what_was_put_together_is_private() {
    let page = "<esi:include src='/private'/>";
    let origin = Origin::start("esi-cache-control", "", move |asked| {
        match asked.target.as_str() {
            "/silent" => ok(&[PAGE, HTML], page),
            "/empty-words" => ok(&[PAGE, HTML, ("Cache-Control", " ,")], page),
            "/for-all" => ok(
                &[
                    PAGE,
                    HTML,
                    ("Cache-Control", "public, max-age=5"),
                    ("Expires", "Tue, 01 Jan 2036 00:00:00 GMT"),
                ],
                page,
            ),
            "/ordinary" => ok(&[PAGE, HTML], "no parts"),
            _ => part(asked),
        }
    });
    for (target, expected) in [
        ("/silent", Some("private")),
        ("/empty-words", Some("private")),
        ("/for-all", Some("private, max-age=5")),
        ("/ordinary", None),
    ] {
        for status in ["miss", "hit"] {
            let response = get(&origin, target, &user(1));
            assert_eq!(
                (
                    response.field("cache-control"),
                    response.field("x-litespeed-cache")
                ),
                (expected, Some(status)),
                "{target}"
            );
            assert_eq!(
                response.field("expires").filter(|_| expected.is_some()),
                None,
                "{target}"
            );
        }
    }
    for (target, expected) in [("/silent", Some("private")), ("/ordinary", None)] {
        let head = origin.client().request("HEAD", target, &[]).unwrap();
        assert_eq!(
            (head.status, head.field("cache-control")),
            (200, expected),
            "{target}"
        );
    }
}

#[test]
fn inlines_prime_includes_and_stay_out_of_the_page() {
    let origin = Origin::start("esi-inline", "", |asked| match asked.target.as_str() {
        "/page" => {
            let who = asked.field("cookie").unwrap_or("nobody");
            let inline = format!(
                "<esi:inline name='/mine' cache-control='private,no-vary,max-age=60' cache-tag='mine'>for {who}</esi:inline>"
            );
            ok(
                &[PAGE, HTML],
                &format!("A{inline}B<esi:include src='/mine'/>C"),
            )
        }
        "/mine" => ok(
            &[(CONTROL, "private,no-vary,max-age=60")],
            &format!("asked for {}", asked.field("cookie").unwrap_or("nobody")),
        ),
        _ => ok(&[(CONTROL, "no-cache"), (PURGE, "private,mine")], "purged"),
    });
    let (first, second) = (user(1), user(2));
    assert_eq!(text(&origin, "/page", &first), format!("ABfor {first}C"));
    assert_eq!(
        text(&origin, "/page", &second),
        format!("ABasked for {second}C"),
        "what was said for one is not for another"
    );
    assert_eq!(text(&origin, "/page", &first), format!("ABfor {first}C"));
    let alone = get(&origin, "/mine", &first);
    assert_eq!(
        (alone.text(), alone.field("x-litespeed-cache")),
        (format!("for {first}"), Some("hit,private"))
    );
    assert_eq!(
        origin.asked("/mine").len(),
        1,
        "the first visitor's was there"
    );
    text(&origin, "/purge", &first);
    assert_eq!(
        text(&origin, "/page", &first),
        format!("ABasked for {first}C")
    );
    assert_eq!(
        (origin.asked("/mine").len(), origin.asked("/page").len()),
        (2, 1)
    );
}

#[test]
fn as_var_is_asked_for_once() {
    let page = "<esi:include src='/once' as-var='1'/><esi:include src='/once' as-var='1'/>|<esi_include src='/once-b'/><esi_include src='/once-b' />";
    let origin = site("esi-as-var", page);
    assert!(text(&origin, "/page", "").starts_with("[/once 1][/once 1]|"));
    assert_eq!(
        (origin.asked("/once").len(), origin.asked("/once-b").len()),
        (1, 2)
    );
    assert!(text(&origin, "/page", "").starts_with("[/once 2][/once 2]|"));
}

#[test]
fn a_named_part_is_a_variable_further_on() {
    let page = "<esi:vars>$(cart|'none') </esi:vars><esi:include src='/once' as-var='cart'/><esi:vars> $(cart) <esi:choose>\
                <esi:when test=\"'a'=='a'\">$(cart|'x')</esi:when></esi:choose> $(other|'<o>')</esi:vars> <esi:vars name='$(cart)'/>";
    let origin = site("esi-named", page);
    for count in [1, 2] {
        let part = format!("[/once {count}]");
        assert_eq!(
            text(&origin, "/page", ""),
            format!("none {part} {part} {part} &lt;o&gt; {part}")
        );
    }
    assert_eq!(origin.asked("/once").len(), 2);
}

/// LSCache protocol 9.2: in force where the part leaves it open.
#[test]
fn what_an_include_says_of_its_part() {
    let includes = [
        "<esi:include src='/says-nothing' cache-control='public,max-age=60' cache-tag='block,second'/>",
        "<esi:include src='/hinted' cache-control='public,no-vary'/>",
        "<esi:include src='/says-no' cache-control='public,max-age=60' cache-tag='block'/>",
        "<esi:include src='/public' cache-control='no-cache' cache-tag='block'/>",
        "<esi:include src='/ttl' cache-control='public' ttl='1m' cache-tag='other'/>",
        "<esi:include src='/mine' cache-control='private,max-age=60' cache-tag='own'/>",
    ];
    let page: &'static str = includes.concat().leak();
    let origin = Origin::start("esi-said", "", move |asked| match asked.target.as_str() {
        "/page" => ok(&[PAGE, HTML], page),
        "/says-nothing" | "/hinted" | "/ttl" | "/mine" => ok(&[HTML], &asked.count.to_string()),
        "/says-no" => ok(
            &[HTML, ("Cache-Control", "no-store")],
            &asked.count.to_string(),
        ),
        "/public" => ok(
            &[HTML, (CONTROL, "public,max-age=60")],
            &asked.count.to_string(),
        ),
        "/purge-block" => ok(&[(PURGE, "tag=block"), (CONTROL, "no-cache")], ""),
        _ => ok(&[(PURGE, "private,tag=own"), (CONTROL, "no-cache")], ""),
    });
    let (first, second) = (user(1), user(2));
    assert_eq!(text(&origin, "/page", &first), "111111");
    assert_eq!(text(&origin, "/page", &first), "122111");
    assert_eq!(
        text(&origin, "/page", &second),
        "133112",
        "the last is for one visitor alone"
    );
    origin.get("/purge-block", &[]);
    assert_eq!(text(&origin, "/page", &first), "244211");
    get(&origin, "/purge-own", &first);
    assert_eq!(
        (
            text(&origin, "/page", &first),
            text(&origin, "/page", &second)
        ),
        ("255213".into(), "266212".into())
    );
}

/// A fragment of another host is answered by that host's site, without the client's credentials.
#[test]
fn parts_of_other_hosts_of_this_server() {
    let second = std::net::SocketAddr::from(([127, 0, 0, 1], saker_testkit::free_port().unwrap()));
    let cached = "[site.cache]\nenabled = true\n";
    let route = "[[site.route]]\npath = \"/*\"\nproxy = \"app\"\npreserve_host = true\n";
    let sites = format!(
        "[[listener]]\naddress = \"{second}\"\n%%\n{cached}[[site]]\nnames = [\"other.example\", \"*.wild.example\"]\n{route}{cached}"
    );
    let origin = Origin::with("esi-elsewhere", &sites, 1, move |asked| {
        let host = asked.field("host").unwrap_or_default();
        let include = |address: String| format!("<esi:include src='{address}'/>|");
        match asked.target.as_str() {
            "/page" => {
                // The visitor's own way in, as he names it, is port 80.
                let addresses = [
                    "http://other.example/part?a#b".to_owned(),
                    "//other.example:80/part?b".to_owned(),
                    format!("http://x.wild.example:{}/part", second.port()),
                    format!("http://{host}/own"),
                    "https://other.example/part".to_owned(),
                    "http://other.example:1/part".to_owned(),
                    "http://unknown.example/part".to_owned(),
                    "ftp://other.example/part".to_owned(),
                    "http://other.example@x/part".to_owned(),
                ];
                ok(&[PAGE, HTML], &addresses.map(include).concat())
            }
            target => {
                let who = [asked.field("cookie"), asked.field("authorization")]
                    .map(|text| text.unwrap_or("-"))
                    .join(" ");
                let name = host.split(':').next().unwrap_or_default();
                let control = if target == "/own" {
                    "no-cache"
                } else {
                    "public,max-age=60"
                };
                let fields = [(CONTROL, control), ("LSC-Cookie", "for=other")];
                ok(
                    &fields[..if target == "/own" { 1 } else { 2 }],
                    &format!("{name}{target} {who} {}", asked.count),
                )
            }
        }
    });
    for count in [1, 2] {
        let response = origin.get(
            "/page",
            &[("Cookie", "a=b"), ("Authorization", "Basic eDp5")],
        );
        let own = format!("localhost/own a=b Basic eDp5 {count}");
        let expected = [
            "other.example/part?a - - 1",
            "other.example/part?b - - 1",
            "x.wild.example/part - - 1",
            &own,
            "",
            "",
            "",
            "",
            "",
            "",
        ];
        assert_eq!(response.text().split('|').collect::<Vec<_>>(), expected);
        assert_eq!(response.field("set-cookie"), None);
    }
}

#[test]
fn combined_parts_come_by_one_request() {
    let origin = Origin::start("esi-combined", "", |asked| match asked.target.as_str() {
        "/page" => ok(
            &[PAGE],
            "<esi:include src='/main' combine='main'/><esi:include src='/a' combine='sub'/><esi:include src='/b?x=1' combine='sub'/>",
        ),
        "/main" if asked.field("content-type").is_some() => ok(
            &[(CONTROL, "no-cache,esi=on")],
            "<esi:inline name='/a' cache-control='public,max-age=60'>A</esi:inline>\n<esi:inline name='/b?x=1' cache-control='public,max-age=60'>B</esi:inline>",
        ),
        _ => part(&Asked {
            target: format!("/once{}", asked.target),
            ..asked.clone()
        }),
    });
    assert!(origin.get("/other", &[]).text().contains("/once"));
    assert!(
        origin.asked("/other")[0]
            .head
            .contains("surrogate-capability: saker=\"ESI/1.0\""),
        "{:?}",
        origin.asked("/other")
    );
    assert_eq!(text(&origin, "/page", ""), "[/once/main 2]AB");
    assert_eq!(text(&origin, "/page", ""), "[/once/main 3]AB");
    let main = origin.asked("/main");
    let posts: Vec<&Asked> = main
        .iter()
        .filter(|asked| asked.field("content-type").is_some())
        .collect();
    assert_eq!(posts.len(), 1);
    assert_eq!(posts[0].field("content-length"), Some("49"), "{posts:?}");
    assert_eq!(
        (origin.asked("/a").len(), origin.asked("/b?x=1").len()),
        (0, 0)
    );
}

#[test]
fn what_fails_is_replaced_or_left_out() {
    let cases = [
        ("<esi:include src='/nothing'/>", ""),
        ("<esi:include src='/nothing' alt='/once'/>", "[/once 1]"),
        (
            "<esi:include src='/broken' alt='/nothing' onerror='continue'/>",
            "",
        ),
        ("<esi:include src='/moved'/>", ""),
        ("<esi:include src='/empty'/>", ""),
        ("<esi:include src='http://elsewhere.example/once'/>", ""),
        (
            "<esi:include src='//elsewhere.example/once' alt='once'/>",
            "[/once 1]",
        ),
        ("<esi:include/>", ""),
        (
            "<esi:include src='/once' test=\"$(QUERY_STRING{a})=='1'\"/>",
            "",
        ),
        (
            "<esi:include src='/once?$(QUERY_STRING{q})'/>",
            "[/once?%3Cb%3E%26c%3D1 1]",
        ),
        (
            "<esi:try><esi:attempt>x<esi:include src='/broken'/></esi:attempt><esi:except>e<esi:include src='/once'/></esi:except></esi:try>",
            "e[/once 1]",
        ),
        (
            "<esi:try> <esi:attempt>x<esi:include src='/once'/></esi:attempt> <esi:except>e</esi:except></esi:try>",
            "x[/once 1]",
        ),
        (
            "<esi:try><esi:attempt>x<esi:include src='/broken' onerror='continue'/></esi:attempt><esi:except>e</esi:except></esi:try>",
            "x",
        ),
        (
            "<esi:vars>$(QUERY_STRING{q})</esi:vars>",
            "&lt;b&gt;&amp;c=1",
        ),
        (
            "<esi:choose><esi:when test=\"$(HTTP_COOKIE{g})=='x'\">X</esi:when><esi:otherwise>O</esi:otherwise></esi:choose>",
            "O",
        ),
        (
            "<esi:remove>r<esi:include src='/once'/></esi:remove><!--esi v<esi:comment text='c'/> -->",
            "v ",
        ),
        ("<esi:include src='/once'", "<esi:include src='/once'"),
    ];
    for (at, (page, expected)) in cases.into_iter().enumerate() {
        let whole: &'static str = format!("({page})").leak();
        let origin = site(&format!("esi-fail-{at}"), whole);
        for _ in 0..2 {
            let response = get(&origin, "/page?q=%3Cb%3E%26c%3D1", "");
            assert_eq!(response.status, 200);
            let text = response.text().replace(" 2]", " 1]");
            // A broken page's end is the end of its text, too.
            assert_eq!(text, format!("({expected})"), "{page}");
        }
    }
}

#[test]
fn parts_are_fetched_side_by_side() {
    let meeting = Meeting::default();
    let origin = Origin::start("esi-together", "", move |asked| {
        match asked.target.as_str() {
            "/page" => ok(
                &[PAGE, HTML],
                &format!(
                    "0{}",
                    (1..6)
                        .map(|n| format!("<esi:include src='/part{n}'/>"))
                        .collect::<String>()
                ),
            ),
            part => ok(
                &[(CONTROL, "no-cache")],
                &format!("[{part} {}]", meeting.attend(5)),
            ),
        }
    });
    assert_eq!(
        text(&origin, "/page", ""),
        "0[/part1 true][/part2 true][/part3 true][/part4 true][/part5 true]"
    );
}

#[test]
fn what_is_there_leaves_before_a_slow_part() {
    let origin = Origin::start("esi-late", "", |asked| match asked.target.as_str() {
        "/page" => ok(
            &[PAGE, HTML],
            "early<esi:include src='/late'/><esi:include src='/soon'/>end",
        ),
        "/late" => {
            asked.pause(Duration::from_millis(2500));
            ok(&[("Set-Cookie", "too=late")], "[late]")
        }
        _ => ok(&[], "[soon]"),
    });
    let response = get(&origin, "/page", "");
    assert_eq!(
        (response.text().as_str(), response.field("set-cookie")),
        ("early[late][soon]end", None)
    );
    assert_eq!(response.field("content-length"), None);
}

#[test]
fn a_part_that_was_there_stands_in_for_one_that_fails() {
    let origin = Origin::with_clock("esi-stand-in", "grace = \"0s\"\n", 1, |asked| {
        match (asked.target.as_str(), asked.count) {
            ("/page", _) => ok(&[PAGE, HTML], "<esi:include src='/part'/>!"),
            (_, 1) => ok(&[(CONTROL, "public,max-age=1")], "good"),
            _ => answer("500 Internal Server Error", &[], "oh no"),
        }
    });
    assert_eq!(text(&origin, "/page", ""), "good!");
    origin.advance(3);
    assert_eq!(text(&origin, "/page", ""), "good!");
    origin.wait_for("/part", 2);
    assert_eq!(text(&origin, "/page", ""), "good!");
}

#[test]
fn cookies_and_purges_of_parts_count() {
    let origin = site(
        "esi-cookies",
        "<esi:include src='/cookie'/><esi:include src='/public'/>",
    );
    let response = get(&origin, "/page", "");
    assert_eq!(response.text(), "C[/public 1]");
    let cookies: Vec<&str> = response
        .fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
}

#[test]
fn visitors_never_get_each_others_parts() {
    let origin = site(
        "esi-fifty",
        "<esi:include src='/private'/>|<esi:include src='/public'/>|<esi:include src='/private2'/>",
    );
    // Requests with a session do not wait for one another.
    text(&origin, "/page", "");
    thread::scope(|scope| {
        for number in 0..50 {
            let origin = &origin;
            scope.spawn(move || {
                let user = user(number);
                let mut first = None;
                for _ in 0..5 {
                    let text = text(origin, "/page", &user);
                    assert_eq!(text.matches(&user).count(), 2, "{text}");
                    assert_eq!(text.matches("wordpress").count(), 2, "{text}");
                    assert_eq!(first.get_or_insert_with(|| text.clone()), &text);
                }
            });
        }
    });
    assert_eq!(
        (
            origin.asked("/page").len(),
            origin.asked("/public").len(),
            origin.asked("/private").len()
        ),
        (1, 1, 51)
    );
}

#[test]
fn pages_inside_of_pages_come_to_an_end() {
    let origin = Origin::start("esi-nested", "", |asked| match asked.target.as_str() {
        "/loop" => ok(
            &[PAGE, HTML],
            "(<esi:include src='/loop'/><esi:include src='/loop'/>)",
        ),
        "/many" => ok(
            &[(CONTROL, "no-cache,esi=on")],
            &"<esi:include src='/leaf'/>".repeat(400),
        ),
        "/outer" => ok(&[PAGE, HTML], "a<esi:include src='/inner'/>d"),
        "/inner" => ok(&[PAGE, HTML], "b<esi:include src='/leaf'/>c"),
        _ => ok(&[], "x"),
    });
    assert_eq!(text(&origin, "/outer", ""), "abxcd");
    assert_eq!(text(&origin, "/outer", ""), "abxcd");
    let looped = text(&origin, "/loop", "");
    assert_eq!(
        (looped.matches('(').count(), looped.matches(')').count()),
        (63, 63)
    );
    assert_eq!(text(&origin, "/many", ""), "x".repeat(256));
}

#[test]
fn large_pages_and_parts_in_every_coding() {
    let filler: &'static str = "All work and no play. ".repeat(20_000).leak();
    let origin = Origin::start("esi-large", "", move |asked| match asked.target.as_str() {
        "/page" => ok(
            &[
                PAGE,
                HTML,
                ("ETag", "\"t\""),
                ("Cache-Control", "public, max-age=5, s-maxage=9"),
            ],
            &format!("{filler}<esi:include src='/part'/>{filler}"),
        ),
        _ => ok(&[(CONTROL, "public,max-age=60"), HTML], &filler.repeat(3)),
    });
    for round in 0..3 {
        let plain = origin.get("/page", &[]);
        assert_eq!(plain.text(), filler.repeat(5), "round {round}");
        assert_eq!(
            (plain.field("etag"), plain.field("cache-control")),
            (None, Some("private, max-age=5"))
        );
        let coded = origin.get("/page", &[("Accept-Encoding", "gzip")]);
        assert_eq!(coded.field("content-encoding"), Some("gzip"));
        let mut text = Vec::new();
        std::io::Read::read_to_end(
            &mut flate2::read::MultiGzDecoder::new(&coded.body[..]),
            &mut text,
        )
        .unwrap();
        assert!(text == filler.repeat(5).as_bytes(), "round {round}");
    }
    let head = origin.client().request("HEAD", "/page", &[]).unwrap();
    assert_eq!(
        (head.status, head.field("content-length"), head.body.len()),
        (200, None, 0)
    );
    let part = origin.get(
        "/page",
        &[("Range", "bytes=0-3"), ("If-None-Match", "\"t\"")],
    );
    assert_eq!((part.status, part.body.len()), (200, filler.len() * 5));
}

/// Symfony and others: what is steered by HTTP's own words.
#[test]
fn surrogate_control_asks_for_it_too() {
    let origin = Origin::start("esi-surrogate", "", |asked| match asked.target.as_str() {
        "/page" => ok(
            &[
                ("Surrogate-Control", "content=\"ESI/1.0\""),
                ("Cache-Control", "public, s-maxage=60"),
            ],
            "<esi:include src='/part' ttl='60'/>!",
        ),
        "/unmarked" => ok(
            &[("Cache-Control", "public, s-maxage=60")],
            "<esi:include src='/part'/>!",
        ),
        _ => ok(&[], &format!("part {}", asked.count)),
    });
    for _ in 0..2 {
        let response = get(&origin, "/page", "");
        assert_eq!(
            (
                response.text().as_str(),
                response.field("surrogate-control")
            ),
            ("part 1!", None)
        );
        assert_eq!(response.field("cache-control"), Some("private"));
    }
    assert_eq!(
        text(&origin, "/unmarked", ""),
        "<esi:include src='/part'/>!"
    );
    assert_eq!(
        (origin.asked("/page").len(), origin.asked("/part").len()),
        (1, 1)
    );
}

/// Nothing in it depends on anything: kept as it comes out, and answered like any page.
#[test]
fn a_page_without_parts_is_an_ordinary_one() {
    let origin = site("esi-fixed", "a<esi:remove>b</esi:remove>c<!--esi d-->");
    for status in ["miss", "hit", "hit"] {
        let response = get(&origin, "/page", "");
        assert_eq!(
            (
                response.text().as_str(),
                response.field("x-litespeed-cache")
            ),
            ("acd", Some(status))
        );
    }
    assert_eq!(origin.asked("/page").len(), 1);
}

/// The same pages and errors over HTTP/2, where frames and not connections carry them.
#[test]
fn over_http2() {
    let page = "<p><esi:include src='/public'/>|<esi:include src='/cookie'/>|<esi:include src='/slow'/></p>";
    let origin = Origin::start("esi-http2", "", move |asked| match asked.target.as_str() {
        "/page" => ok(&[PAGE, HTML], page),
        "/error" => answer(
            "404 Not Found",
            &[PAGE, HTML],
            "<p>no: <esi:include src='/public'/></p>",
        ),
        _ => part(asked),
    });
    let curl = |path: &str, arguments: &[&str]| {
        let url = format!("http://{}{path}", origin.saker.server.address());
        let mut command = std::process::Command::new(saker_testkit::require("curl").unwrap());
        let output = command
            .args(["-sS", "-i", "-m", "20", "--http2-prior-knowledge"])
            .args(arguments)
            .arg(url)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for slow in 1..4 {
        let got = curl("/page", &[]);
        assert!(got.starts_with("HTTP/2 200"), "{got}");
        assert!(
            got.ends_with(&format!("\r\n\r\n<p>[/public 1]|C|[/slow {slow}]</p>")),
            "{got}"
        );
        assert!(got.contains("set-cookie: a=1\r\n"), "{got}");
    }
    for _ in 0..2 {
        let got = curl("/error", &[]);
        assert!(
            got.starts_with("HTTP/2 404") && got.ends_with("<p>no: [/public 1]</p>"),
            "{got}"
        );
    }
    let head = curl("/page", &["--head"]);
    assert!(
        head.starts_with("HTTP/2 200") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    assert_eq!(
        (origin.asked("/page").len(), origin.asked("/error").len()),
        (1, 1)
    );
}

/// The most memory that a process has had.
fn peak_kib(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// 200 parts of 7 MB, which come at once or in chunks of unknown number, and parts that have such
/// parts.
#[test]
fn parts_hold_a_bounded_memory() {
    let part = "x".repeat(7_000_000);
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{part}\r\n0\r\n\r\n",
        part.len()
    );
    let origin = Origin::start("esi-memory", "", move |asked| {
        let includes = |target: &str| {
            (0..200)
                .map(|number| format!("<esi:include src='{target}?{number}' onerror='continue'/>"))
                .collect::<String>()
        };
        match asked.target.split('?').next().unwrap_or_default() {
            "/whole" => ok(&[PAGE], &includes("/part")),
            "/pieces" => ok(&[PAGE], &includes("/chunked")),
            "/nested" => ok(&[PAGE], &includes("/whole")),
            "/part" => ok(&[(CONTROL, "no-cache")], &part),
            _ => chunked.clone().into_bytes(),
        }
    });
    let pid = origin.saker.server.pid();
    let before = peak_kib(pid);
    for target in ["/whole", "/pieces", "/nested"] {
        let length = origin.get(target, &[]).body.len();
        assert!(length <= 32 << 20, "{target}: {length}");
        assert!(
            length.is_multiple_of(7_000_000),
            "{target}: parts are there whole, or not: {length}"
        );
        assert!(
            target == "/nested" || length > 0,
            "{target}: what fits is there"
        );
        let more = peak_kib(pid) - before;
        // Buffers of connections come on top of what parts hold.
        assert!(more < 200 << 10, "{target}: {more} KiB more");
    }
    assert!(origin.saker.server.stderr().contains("too large"));
}

/// Sites that listen on another address only are not reached through a page, unless allowed by
/// name.
#[test]
fn parts_of_sites_that_the_clients_listener_does_not_lead_to() {
    let inside = std::net::SocketAddr::from(([127, 0, 0, 1], saker_testkit::free_port().unwrap()));
    for (allowed, expected) in [
        ("", "()()"),
        ("include_hosts = [\"inside.example\"]\n", "(inside)()"),
    ] {
        let route = "[[site.route]]\npath = \"/*\"\nproxy = \"app\"\npreserve_host = true\n[site.cache]\nenabled = true\n";
        let sites = format!(
            "[[listener]]\naddress = \"{inside}\"\n%%\n[site.cache]\nenabled = true\n{allowed}\
             [[site]]\nnames = [\"inside.example\"]\nlisteners = [\"{inside}\"]\n{route}\
             [[site]]\nnames = [\"hidden.example\"]\nlisteners = [\"{inside}\"]\n{route}"
        );
        let origin = Origin::with("esi-listeners", &sites, 1, move |asked| {
            let host = asked.field("host").unwrap_or_default();
            match asked.target.as_str() {
                "/page" => {
                    let includes = ["inside", "hidden"].map(|name| {
                        format!(
                            "(<esi:include src='http://{name}.example:{}/part'/>)",
                            inside.port()
                        )
                    });
                    ok(&[PAGE], &includes.concat())
                }
                _ => ok(
                    &[(CONTROL, "no-cache")],
                    host.split('.').next().unwrap_or_default(),
                ),
            }
        });
        assert_eq!(
            text(&origin, "/page", ""),
            expected,
            "{allowed}: {}",
            origin.saker.server.stderr()
        );
        // A client that says so in Host is in no other place.
        let lies = origin.get(
            "/page",
            &[("Host", &format!("localhost:{}", inside.port()))],
        );
        assert_eq!(lies.text(), "()()", "{allowed}");
    }
}
