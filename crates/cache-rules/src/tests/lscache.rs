//! The LSCache protocol, a row per statement of its description; the first column is the section.

use proptest::prelude::*;
use saker_cache_rules::lscache::{
    Audience, Control, LscacheSettings, NotStored, Outcome, Purge, Target,
    control::{flushes_private, judge_request},
    crawler::{Crawler, NOT_ALLOWED},
    identity::{Known, identity},
    key::{Page, identity_key, page_key, private_key, public_key},
    purge::{of_request, parse, purges},
    query::KeyEdits,
    rewrite_env::RewriteEnv,
    tags::tags,
    told::{Abilities, is_front_cache, is_reserved_request_field, variables, vary_variables},
    vary::VaryRules,
    visible::{Served, finish, strip_for_store},
};
use saker_http::{Fields, Method, RequestHead, Status, Version};

const PUBLIC: Audience = Audience::Public;
const PRIVATE: Audience = Audience::Private { shared: false };

fn fields(text: &str) -> Fields {
    let mut fields = Fields::new();
    for line in text.split(" | ").filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').expect("a colon");
        fields.append(name.trim().to_owned(), value.trim().as_bytes().to_vec());
    }
    fields
}

fn request(cookies: &[&str]) -> RequestHead {
    let lines: Vec<(&str, &str)> = cookies.iter().map(|line| ("Cookie", *line)).collect();
    RequestHead::build("GET", "/", Version::Http11, &lines)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const PAGE: Outcome = Outcome {
    method: Method::Get,
    status: Status::OK,
    explicit: true,
    sets_cookie: false,
    content_bytes: Some(1000),
    failed: false,
    static_file: false,
};

/// Audience, lifetime and stale window.
type Judged = Result<(Audience, u64, u64), NotStored>;

/// Judges a response with these header lines.
fn judged(answer: &str, settings: &LscacheSettings) -> Judged {
    let mut control = Control::from_settings(settings);
    let explicit = control.apply_response(&fields(answer), settings);
    let audience = control.judge(Outcome { explicit, ..PAGE }, settings)?;
    Ok((
        audience,
        control.age_s(settings),
        control.max_stale_s(settings),
    ))
}

#[test]
fn control_of_responses() {
    let rows: &[(&str, Judged)] = &[
        ("", Err(NotStored::Off)),
        ("public", Ok((PUBLIC, 3600, 200))),
        ("PUBLIC", Ok((PUBLIC, 3600, 200))),
        ("private", Ok((PRIVATE, 3600, 200))),
        (
            "shared,private",
            Ok((Audience::Private { shared: true }, 3600, 200)),
        ),
        ("shared", Err(NotStored::Off)),
        ("public,max-age=60", Ok((PUBLIC, 60, 200))),
        ("public , max-age=60", Ok((PUBLIC, 60, 200))),
        ("public,max-age=\"60\"", Ok((PUBLIC, 60, 200))),
        ("max-age=60", Ok((PUBLIC, 60, 200))),
        ("private,max-age=60", Ok((PRIVATE, 60, 200))),
        ("max-age=60,private", Ok((PRIVATE, 60, 200))),
        ("public,private,max-age=60", Ok((PRIVATE, 60, 200))),
        ("private,public,max-age=60", Ok((PUBLIC, 60, 200))),
        ("s-maxage=60", Ok((PUBLIC, 60, 200))),
        ("max-age=10,s-maxage=60", Ok((PUBLIC, 60, 200))),
        ("s-maxage=60,max-age=10", Ok((PUBLIC, 60, 200))),
        ("private,s-maxage=60", Ok((PRIVATE, 60, 200))),
        ("public,max-age=60,max-stale=9", Ok((PUBLIC, 60, 9))),
        ("public,max-age=60,max-stale=0", Ok((PUBLIC, 60, 0))),
        ("no-cache", Err(NotStored::NoCache)),
        ("no-store", Err(NotStored::NoCache)),
        ("public,no-cache", Err(NotStored::NoCache)),
        ("no-cache,public", Err(NotStored::NoCache)),
        ("public,max-age=60,no-cache", Err(NotStored::NoCache)),
        ("no-cache,max-age=60", Ok((PUBLIC, 60, 200))),
        ("no-store,s-maxage=60", Ok((PUBLIC, 60, 200))),
        ("no-cache,private,max-age=60", Ok((PRIVATE, 60, 200))),
        ("no-cache,esi=on", Err(NotStored::NoCache)),
        ("public,max-age=0", Err(NotStored::NoAge)),
        ("public,max-age=x", Err(NotStored::NoAge)),
        ("public,max-age", Err(NotStored::NoAge)),
        ("public,max-age=-1", Err(NotStored::NoAge)),
        ("public,frobnicate=1,max-age=60", Ok((PUBLIC, 60, 200))),
        (
            "public,max-age=60,must-revalidate,proxy-revalidate,no-transform,min-fresh=1,only-if-cached",
            Ok((PUBLIC, 60, 200)),
        ),
        (
            "public | X-LiteSpeed-Cache-Control: max-age=60",
            Ok((PUBLIC, 60, 200)),
        ),
        (
            "public,max-age=60 | X-LiteSpeed-Cache-Control: no-cache",
            Err(NotStored::NoCache),
        ),
    ];
    for (control, want) in rows {
        let answer = if control.is_empty() {
            String::new()
        } else {
            format!("X-LiteSpeed-Cache-Control: {control}")
        };
        assert_eq!(
            judged(&answer, &LscacheSettings::default()),
            *want,
            "6.1: {control}"
        );
    }
}

#[test]
fn words_beside_the_age() {
    let control = |list: &str| {
        let mut control = Control::default();
        control.apply(list.as_bytes());
        control
    };
    assert!(control("public,no-vary").no_vary);
    assert!(control("public,esi=on").esi);
    assert!(control("no-cache,ESI=On").esi);
    assert!(!control("esi=on,esi=off").esi);
    assert!(!control("esi").esi);
    assert!(control("private,set-blank").set_blank);
    assert!(control("no-autoflush").no_autoflush);
    assert!(control("no-autoflush").is_off());
    assert!(!control("max-age=1").is_off());
    // 7.5
    assert!(flushes_private(Method::Post, &control("")));
    assert!(!flushes_private(Method::Post, &control("no-autoflush")));
    assert!(!flushes_private(Method::Get, &control("")));
}

#[test]
fn precedence_between_layers() {
    let settings = LscacheSettings::default();
    let layered = |start: &LscacheSettings, rewrite: &[&str], answer: &str| {
        let mut control = Control::from_settings(start);
        rewrite
            .iter()
            .for_each(|list| control.apply(list.as_bytes()));
        let explicit = control.apply_response(&fields(answer), start);
        control
            .judge(Outcome { explicit, ..PAGE }, start)
            .map(|audience| (audience, control.age_s(start)))
    };
    let on = LscacheSettings {
        enable_public: true,
        ..settings.clone()
    };
    assert_eq!(layered(&on, &[], ""), Ok((PUBLIC, 3600)));
    assert_eq!(layered(&on, &["no-cache"], ""), Err(NotStored::NoCache));
    assert_eq!(layered(&on, &["private,max-age=5"], ""), Ok((PRIVATE, 5)));
    assert_eq!(
        layered(
            &on,
            &["no-cache"],
            "X-LiteSpeed-Cache-Control: public,max-age=7"
        ),
        Ok((PUBLIC, 7))
    );
    assert_eq!(layered(&settings, &["max-age=5"], ""), Ok((PUBLIC, 5)));
    assert_eq!(
        layered(
            &settings,
            &["max-age=5"],
            "X-LiteSpeed-Cache-Control: no-cache"
        ),
        Err(NotStored::NoCache)
    );
    assert_eq!(
        layered(&settings, &["max-age=5"], "Cache-Control: no-store"),
        Ok((PUBLIC, 5))
    );
    assert_eq!(
        layered(&on, &[], "Cache-Control: no-store"),
        Ok((PUBLIC, 3600))
    );
    let ageless = LscacheSettings {
        expire_s: 0,
        ..on.clone()
    };
    assert_eq!(layered(&ageless, &[], ""), Err(NotStored::NoAge));
    assert_eq!(
        layered(&ageless, &[], "Cache-Control: max-age=9"),
        Ok((PUBLIC, 9))
    );
    assert_eq!(
        layered(&ageless, &[], "Cache-Control: no-store"),
        Err(NotStored::NoCache)
    );
    assert_eq!(
        layered(
            &ageless,
            &[],
            "Cache-Control: max-age=9 | X-LiteSpeed-Cache-Control: public"
        ),
        Err(NotStored::NoAge)
    );
    let deaf = LscacheSettings {
        ignore_response_control: true,
        ..ageless
    };
    assert_eq!(
        layered(&deaf, &[], "Cache-Control: max-age=9"),
        Err(NotStored::NoAge)
    );
    let own = LscacheSettings {
        enable_private: true,
        private_expire_s: 70,
        ..on
    };
    assert_eq!(layered(&own, &[], ""), Ok((PRIVATE, 70)));
}

#[test]
fn what_is_not_stored() {
    let settings = LscacheSettings::default();
    let judge = |outcome: Outcome, list: &str, settings: &LscacheSettings| {
        let mut control = Control::default();
        control.apply(list.as_bytes());
        control.judge(outcome, settings)
    };
    let rows = [
        (
            "6.3",
            Outcome {
                method: Method::Head,
                ..PAGE
            },
            Err(NotStored::Method),
        ),
        (
            "3.3",
            Outcome {
                method: Method::Post,
                ..PAGE
            },
            Err(NotStored::Method),
        ),
        (
            "6.3",
            Outcome {
                status: Status::NOT_MODIFIED,
                ..PAGE
            },
            Err(NotStored::Status),
        ),
        (
            "6.3",
            Outcome {
                status: Status::NOT_FOUND,
                explicit: false,
                ..PAGE
            },
            Err(NotStored::Status),
        ),
        (
            "6.3",
            Outcome {
                status: Status::NOT_FOUND,
                ..PAGE
            },
            Ok(PUBLIC),
        ),
        (
            "6.3",
            Outcome {
                status: Status::MOVED_PERMANENTLY,
                content_bytes: Some(0),
                ..PAGE
            },
            Ok(PUBLIC),
        ),
        (
            "6.3",
            Outcome {
                status: Status::FOUND,
                explicit: false,
                ..PAGE
            },
            Err(NotStored::Status),
        ),
        (
            "6.3",
            Outcome {
                status: Status::PARTIAL_CONTENT,
                ..PAGE
            },
            Err(NotStored::Status),
        ),
        (
            "6.3",
            Outcome {
                status: Status::PRECONDITION_FAILED,
                ..PAGE
            },
            Err(NotStored::Status),
        ),
        (
            "6.3",
            Outcome {
                explicit: false,
                ..PAGE
            },
            Ok(PUBLIC),
        ),
        (
            "6.3",
            Outcome {
                content_bytes: Some(0),
                ..PAGE
            },
            Err(NotStored::Empty),
        ),
        (
            "6.3",
            Outcome {
                content_bytes: Some(10_000_000),
                ..PAGE
            },
            Ok(PUBLIC),
        ),
        (
            "6.3",
            Outcome {
                content_bytes: Some(10_000_001),
                ..PAGE
            },
            Err(NotStored::TooLarge),
        ),
        (
            "6.3",
            Outcome {
                content_bytes: None,
                ..PAGE
            },
            Ok(PUBLIC),
        ),
        (
            "6.3",
            Outcome {
                failed: true,
                ..PAGE
            },
            Err(NotStored::Failed),
        ),
        (
            "6.3",
            Outcome {
                static_file: true,
                ..PAGE
            },
            Err(NotStored::StaticFile),
        ),
        (
            "6.3",
            Outcome {
                sets_cookie: true,
                ..PAGE
            },
            Ok(PUBLIC),
        ),
    ];
    for (section, outcome, want) in rows {
        assert_eq!(
            judge(outcome, "public,max-age=60", &settings),
            want,
            "{section}: {outcome:?}"
        );
    }
    let strict = LscacheSettings {
        store_with_response_cookie: false,
        object_bytes_max: 0,
        ..settings.clone()
    };
    assert_eq!(
        judge(
            Outcome {
                sets_cookie: true,
                ..PAGE
            },
            "public",
            &strict
        ),
        Err(NotStored::SetCookie)
    );
    assert_eq!(
        judge(
            Outcome {
                content_bytes: Some(u64::MAX),
                ..PAGE
            },
            "public",
            &strict
        ),
        Ok(PUBLIC)
    );
    assert_eq!(
        judge(
            Outcome {
                content_bytes: Some(0),
                ..PAGE
            },
            "private,set-blank",
            &settings
        ),
        Ok(PRIVATE)
    );
    let closed = LscacheSettings {
        store_with_query: false,
        store_with_request_cookie: false,
        ..settings.clone()
    };
    assert_eq!(judge_request(true, true, &settings), Ok(()));
    assert_eq!(judge_request(true, false, &closed), Err(NotStored::Query));
    assert_eq!(
        judge_request(false, true, &closed),
        Err(NotStored::RequestCookie)
    );
    assert_eq!(judge_request(false, false, &closed), Ok(()));
}

#[test]
fn life_of_an_entry() {
    let settings = LscacheSettings::default();
    let mut control = Control::default();
    control.apply(b"public,max-age=60");
    let life = control.life(&settings, 1_000_000);
    assert_eq!(
        (
            life.stored_ms,
            life.fresh_until_ms,
            life.stale_while_revalidate_until_ms
        ),
        (1_000_000, 1_060_000, 1_260_000)
    );
    assert!(life.for_sessions && life.for_authorized);
}

#[test]
fn urls_and_hosts_that_are_off() {
    let settings = LscacheSettings {
        off_hosts: vec!["Dev.example.com".into()],
        off_urls: vec!["/cart".into(), "add=".into()],
        ..Default::default()
    };
    let rows = [
        ("example.com", "/", false),
        ("dev.example.com", "/", true),
        ("x.dev.example.com", "/", false),
        ("example.com", "/shop/cart/1", true),
        ("example.com", "/?add=1", true),
        ("example.com", "/CART", false),
    ];
    for (host, url, want) in rows {
        assert_eq!(
            settings.is_off(host.as_bytes(), url.as_bytes()),
            want,
            "3.3: {host} {url}"
        );
    }
}

#[test]
fn tags_of_entries() {
    let rows: &[(&str, bool, &[&str], &[&str])] = &[
        ("X-LiteSpeed-Tag: a", false, &["a"], &[]),
        ("X-LiteSpeed-Tag: a,b", false, &["a", "b"], &[]),
        ("X-LiteSpeed-Tag: a , b,,a", false, &["a", "b"], &[]),
        (
            "X-LiteSpeed-Tag: a | x-litespeed-tag: b",
            false,
            &["a", "b"],
            &[],
        ),
        ("X-LiteSpeed-Tag: public:a,b", false, &["a", "b"], &[]),
        ("X-LiteSpeed-Tag: public:a,a", false, &["a"], &[]),
        ("X-LiteSpeed-Tag: a", true, &[], &["a"]),
        ("X-LiteSpeed-Tag: public:a,b", true, &["a"], &["b"]),
        ("X-LiteSpeed-Tag: public:a,a", true, &["a"], &["a"]),
        ("X-LiteSpeed-Tag: public:", true, &[], &[]),
        ("X-LiteSpeed-Tag: a;b c", false, &["a", "b", "c"], &[]),
        ("X-LiteSpeed-Tag: A,a", false, &["A", "a"], &[]),
        ("X-Other: a", false, &[], &[]),
    ];
    for (answer, private, public_tags, private_tags) in rows {
        let found = tags(&fields(answer), *private).expect("few");
        let texts = |tags: &[Vec<u8>]| tags.iter().map(|tag| text(tag)).collect::<Vec<_>>();
        assert_eq!(texts(&found.public), *public_tags, "6.5: {answer}");
        assert_eq!(texts(&found.private), *private_tags, "6.5: {answer}");
    }
    let long = |bytes: usize| {
        tags(
            &fields(&format!("X-LiteSpeed-Tag: {}", "x".repeat(bytes))),
            false,
        )
        .is_ok()
    };
    assert!(long(65_535) && !long(65_536));
}

fn shown(purges: &[Purge]) -> Vec<String> {
    let show = |purge: &Purge| {
        let scope = if purge.private { "private " } else { "" };
        let soft = if purge.soft { "soft " } else { "" };
        let target = match &purge.target {
            Target::All => "*".to_owned(),
            Target::Tag(tag) => format!("={}", text(tag)),
            Target::TagPrefix(tag) => format!("={}*", text(tag)),
            Target::Url(url) => text(url),
        };
        format!("{scope}{soft}{target}")
    };
    purges.iter().map(show).collect()
}

#[test]
fn purge_grammar() {
    let rows: &[(&str, &[&str])] = &[
        ("*", &["*"]),
        ("public,*", &["*"]),
        ("private,*", &["private *"]),
        ("tag=*", &["*"]),
        ("private,tag=*", &["private *"]),
        ("tag=A,tag=B", &["=A", "=B"]),
        ("tag=A,B", &["=A", "=B"]),
        ("A,B", &["=A", "=B"]),
        ("A , B ,", &["=A", "=B"]),
        ("TAG=A", &["=A"]),
        (
            "public,stale,a1f_,a1f_home",
            &["soft =a1f_", "soft =a1f_home"],
        ),
        ("stale,*", &["soft *"]),
        ("private,stale,A", &["private soft =A"]),
        ("Private,Stale,A", &["private soft =A"]),
        ("public,A;private,B,C", &["=A", "private =B", "private =C"]),
        ("private,A;B", &["private =A", "=B"]),
        ("stale,A;B", &["soft =A", "=B"]),
        ("A~s,B", &["soft =A", "=B"]),
        ("A~stale", &["soft =A"]),
        ("tag=A~s", &["soft =A"]),
        ("private,A~s", &["private soft =A"]),
        ("A~x", &["=A~x"]),
        ("/about?x=1", &["/about?x=1"]),
        ("/a,/b", &["/a", "/b"]),
        ("/a,B,/c", &["/a", "=B", "/c"]),
        ("private,/a", &["private /a"]),
        ("stale,/a", &["soft /a"]),
        ("/a~s", &["/a~s"]),
        ("x*", &["=x*"]),
        ("*x", &["=*x"]),
        ("A,public", &["=A", "=public"]),
        ("tag=public", &["=public"]),
        ("tag=/a", &["=/a"]),
        ("", &[]),
        (";;,", &[]),
        ("private", &[]),
        ("stale", &[]),
        ("tag=", &[]),
        ("~s", &[]),
        ("A B", &["=A", "=B"]),
    ];
    for (line, want) in rows {
        assert_eq!(shown(&parse(line.as_bytes())), *want, "7.1: {line}");
    }
}

#[test]
fn purges_of_responses() {
    let both =
        fields("X-LiteSpeed-Purge2: C | X-LiteSpeed-Purge: A | x-litespeed-purge: private,B");
    assert_eq!(shown(&purges(&both)), ["=A", "private =B", "=C"]);
    let mut many = Fields::new();
    (0..150).for_each(|number| many.append("X-LiteSpeed-Purge", format!("t{number}").into_bytes()));
    assert_eq!(purges(&many).len(), 150);
    assert_eq!(purges(&fields("X-LiteSpeed-Tag: A")), []);
}

#[test]
fn purges_from_outside() {
    let ask = |method: &str, target: &str, header: &str| {
        let header = header.as_bytes();
        of_request(
            method.as_bytes(),
            target.as_bytes(),
            Some("/purge"),
            std::iter::once(header),
        )
        .map(|purges| shown(&purges))
    };
    let some = |rows: &[&str]| Some(rows.iter().map(|row| row.to_string()).collect::<Vec<_>>());
    assert_eq!(ask("PURGE", "/a?b", ""), some(&["/a?b", "private /a?b"]));
    assert_eq!(
        ask("REFRESH", "/a", ""),
        some(&["soft /a", "private soft /a"])
    );
    assert_eq!(
        ask("PURGE", "/a", "*"),
        some(&["/a", "private /a"]),
        "8.3: elsewhere the field is ignored"
    );
    assert_eq!(
        ask("PURGE", "/purge", "tag=A;private,*"),
        some(&["=A", "private *"])
    );
    assert_eq!(ask("PURGE", "/purge?x", "A"), some(&["=A"]));
    assert_eq!(ask("REFRESH", "/purge", "A"), some(&["soft =A"]));
    assert_eq!(ask("GET", "/purge", "*"), None);
    assert_eq!(ask("purge", "/a", ""), None);
}

#[test]
fn vary_strings() {
    let rules = |cookies: &str, value: &str| {
        let mut rules = VaryRules::default();
        rules.add_cookies(cookies.as_bytes());
        rules.value = Some(value.as_bytes().to_vec()).filter(|value| !value.is_empty());
        rules
    };
    let rows: &[(&str, &str, &[&str], &str)] = &[
        ("", "", &[], "_lscache_vary;"),
        ("", "", &["_lscache_vary=a"], "_lscache_vary=a;"),
        ("", "", &["x=1; _lscache_vary=a; y=2"], "_lscache_vary=a;"),
        ("", "", &["x=1", "_lscache_vary=a"], "_lscache_vary=a;"),
        (
            "",
            "",
            &["_lscache_vary=a;_lscache_vary_b=2"],
            "_lscache_vary=a;_lscache_vary_b=2;",
        ),
        (
            "",
            "",
            &["_lscache_vary_c=3;_lscache_vary_b=2"],
            "_lscache_vary;_lscache_vary_b=2;_lscache_vary_c=3;",
        ),
        ("cur", "", &["cur=EUR"], "_lscache_vary;cur=EUR;"),
        ("cur", "", &[], "_lscache_vary;cur;"),
        (
            "cur,lang",
            "",
            &["lang=de; cur=EUR"],
            "_lscache_vary;cur=EUR;lang=de;",
        ),
        ("cookie=cur", "", &["cur=EUR"], "_lscache_vary;cur=EUR;"),
        ("cur, cur", "", &["cur=EUR"], "_lscache_vary;cur=EUR;"),
        ("cur", "", &["CUR=EUR"], "_lscache_vary;CUR=EUR;"),
        ("", "guest+webp", &[], "_lscache_vary;=guest+webp;"),
        ("cur", "guest", &["cur="], "_lscache_vary;cur=;=guest;"),
        ("", "a;b", &[], "_lscache_vary;=a%3Bb;"),
        ("cur", "", &["cur=a%3Bb"], "_lscache_vary;cur=a%253Bb;"),
        (
            "cur",
            "",
            &["cur=a#b~c@d"],
            "_lscache_vary;cur=a%23b%7Ec%40d;",
        ),
    ];
    for (cookies, value, sent, want) in rows {
        assert_eq!(
            text(&rules(cookies, value).string(request(sent).view())),
            *want,
            "4.3: {cookies} {value} {sent:?}"
        );
    }
    let list = rules("a,cookie=b", "").cookie_list();
    assert_eq!(list.as_deref(), Some(&b"a,b"[..]));
    assert_ne!(rules("a", "b").encode(), rules("a,b", "").encode());
}

/// Cookies and value.
type Varies = Option<(&'static [&'static str], Option<&'static str>)>;

#[test]
fn vary_of_responses() {
    let rows: &[(&str, Varies)] = &[
        ("", None),
        ("X-LiteSpeed-Vary: cookie=cur", Some((&["cur"], None))),
        (
            "X-LiteSpeed-Vary: cookie=cur, cookie=lang",
            Some((&["cur", "lang"], None)),
        ),
        (
            "X-LiteSpeed-Vary: cookie=cur,value=guest",
            Some((&["cur"], Some("guest"))),
        ),
        ("X-LiteSpeed-Vary: value=guest", Some((&[], Some("guest")))),
        (
            "X-LiteSpeed-Vary: Cookie=cur | x-litespeed-vary: VALUE=a",
            Some((&["cur"], Some("a"))),
        ),
        ("X-LiteSpeed-Vary: cur", Some((&["cur"], None))),
        ("X-LiteSpeed-Vary: value=", Some((&[], None))),
    ];
    for (answer, want) in rows {
        let found = VaryRules::of_response(&fields(answer));
        let found = found.map(|rules| {
            (
                rules
                    .cookies
                    .iter()
                    .map(|name| text(name))
                    .collect::<Vec<_>>(),
                rules.value.map(|value| text(&value)),
            )
        });
        let want = want.map(|(cookies, value)| {
            (
                cookies
                    .iter()
                    .map(|name| name.to_string())
                    .collect::<Vec<_>>(),
                value.map(str::to_owned),
            )
        });
        assert_eq!(found, want, "6.6: {answer}");
    }
}

#[test]
fn query_editing() {
    let rows: &[(&[&str], Option<&str>, Option<&str>)] = &[
        (&[], Some("a=1&b=2"), Some("a=1&b=2")),
        (&[], Some(""), Some("")),
        (&[], None, None),
        (&["-qs:a"], Some("a=1&b=2"), Some("b=2")),
        (&["-qs:a"], Some("b=2&a=1&c=3"), Some("b=2&c=3")),
        (&["-qs:a"], Some("a=1"), None),
        (&["-qs:a"], Some("a"), None),
        (&["-qs:a"], Some("ab=1"), Some("ab=1")),
        (&["-qs:a"], Some("A=1"), Some("A=1")),
        (&["-qs:a"], Some("%61=1"), Some("%61=1")),
        (&["-qs:a"], None, None),
        (
            &["-qs:utm_*"],
            Some("utm_source=x&q=1&utm_medium=y"),
            Some("q=1"),
        ),
        (&["-qs:utm_*"], Some("utm=1&utm_=2"), Some("utm=1")),
        (
            &["-qs:utm_*"],
            Some("utm_source=x;callback=y&utm_a=1"),
            Some("utm_source=x;callback=y"),
        ),
        (&["-qs:*"], Some("a=1&b=2"), None),
        (&["-qs:a", "-qs:b"], Some("a=1&b=2&c=3"), Some("c=3")),
        (&["-qs:a", "clear", "-qs:b"], Some("a=1&b=2"), Some("a=1")),
        (&["-qs:a -qs:b"], Some("a=1&b=2&c=3"), Some("c=3")),
        (&["-QS:a"], Some("a=1&c=3"), Some("c=3")),
    ];
    for (arguments, query, want) in rows {
        let mut edits = KeyEdits::default();
        arguments
            .iter()
            .for_each(|argument| edits.add(argument.as_bytes()).expect("known"));
        assert_eq!(
            edits
                .edited(query.map(str::as_bytes))
                .map(|query| text(&query))
                .as_deref(),
            *want,
            "4.2: {arguments:?} {query:?}"
        );
    }
    let mut edits = KeyEdits::default();
    [&b"jsessionid"[..], b"s_*"]
        .iter()
        .for_each(|name| edits.remove_from_path(name));
    for (path, want) in [
        ("/a", "/a"),
        ("/a;jsessionid=1", "/a"),
        ("/a;x=1;s_x=2;jsessionid=1", "/a;x=1"),
        ("/a;x=1", "/a;x=1"),
        ("/a;jsessionid=1/b", "/a;jsessionid=1/b"),
        ("/a;jsessionid", "/a;jsessionid"),
        ("", ""),
    ] {
        assert_eq!(text(edits.edited_path(path.as_bytes())), want, "{path}");
    }
    for argument in ["-qs:", "qs:a", "+qs:a", "a"] {
        assert!(
            KeyEdits::default().add(argument.as_bytes()).is_err(),
            "{argument}"
        );
    }
}

#[test]
fn identities() {
    let long = "0123456789abcdef";
    // Cookies, and the identity; empty: none.
    let rows: &[(&[&str], &str)] = &[
        (&[], ""),
        (&["a=1"], ""),
        (&["theme=LONG"], ""),
        (&["a=1; frontend=LONG"], "a=1;frontend=LONG;"),
        (&["FRONTEND=LONG"], "FRONTEND=LONG;"),
        (&["frontend=short"], ""),
        (
            &["PHPSESSID=LONG; frontend=LONG"],
            "PHPSESSID=LONG;frontend=LONG;",
        ),
        (
            &["frontend=LONG; PHPSESSID=LONG"],
            "PHPSESSID=LONG;frontend=LONG;",
        ),
        (&["frontend=LONG", "sid=short"], "frontend=LONG;sid=short;"),
        (&["frontend=LONG; unknown=x"], "frontend=LONG;unknown=x;"),
        (&["__Host-session=LONG"], "__Host-session=LONG;"),
        (&["__Secure-id=LONG; a=1"], "__Secure-id=LONG;a=1;"),
        (
            &["next-auth.session-token=LONG"],
            "next-auth.session-token=LONG;",
        ),
        (&["lsc_private=LONG"], "lsc_private=LONG;"),
        (
            &[
                "sid=LONG; __utma=1; has_js=1; _lscache_vary=x; wordpress_test_cookie=1; ls_smartpush=1; _ga=2; seen=3",
            ],
            "sid=LONG;",
        ),
        (&["_lscache_vary_x=LONG"], ""),
        (
            &["wordpress_logged_in_a=LONG; wordpress_sec_a=LONG"],
            "wordpress_logged_in_a=LONG;",
        ),
        (&["sid=LONG; sid=other"], "sid=LONG;sid=other;"),
        (&["sid=other; sid=LONG"], "sid=other;sid=LONG;"),
        (&["a.sid=LONG; a_sid=LONG"], "a.sid=LONG;a_sid=LONG;"),
        (&["sid=\"LONG\""], "sid=\"LONG\";"),
        (&["own=LONG; a=1"], "a=1;own=LONG;"),
        (&["sid=LONG; a=1~2@3"], "a=1%7E2%403;sid=LONG;"),
        (&["sid=LONG; #user=bob"], "%23user=bob;sid=LONG;"),
    ];
    let settings = LscacheSettings {
        session_cookies: vec!["own".into()],
        ignored_cookies: vec!["seen".into()],
        ..Default::default()
    };
    for (cookies, want) in rows {
        let lines: Vec<String> = cookies
            .iter()
            .map(|line| line.replace("LONG", long))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let found =
            identity(request(&lines).view(), Known::default(), &settings).unwrap_or_default();
        assert_eq!(text(&found), want.replace("LONG", long), "4.4: {cookies:?}");
    }
    let huge = format!("sid={}", "x".repeat(40_000));
    assert_eq!(
        identity(request(&[&huge]).view(), Known::default(), &settings),
        None,
        "4.1"
    );
}

#[test]
fn identities_beside_cookies() {
    let settings = LscacheSettings::default();
    let of = |cookie: &str, known: Known<'_>| {
        identity(request(&[cookie]).view(), known, &settings).map(|found| text(&found))
    };
    let some = |text: &'static str| Some(text.as_bytes());
    assert_eq!(
        of(
            "a=1",
            Known {
                user: some("bob"),
                ..Known::default()
            }
        )
        .as_deref(),
        Some("a=1;#user=bob;")
    );
    let all = Known {
        credentials: some("x;#user=eve"),
        user: some("bob"),
        certificate: some("c"),
        granted: some("g"),
    };
    assert_eq!(
        of("a=1", all).as_deref(),
        Some("a=1;#authorization=x%3B%23user=eve;#user=bob;#certificate=c;#granted=g;")
    );
    let apart = [
        Known {
            user: some("bob"),
            ..Known::default()
        },
        Known {
            user: some("eve"),
            ..Known::default()
        },
        Known {
            credentials: some("bob"),
            ..Known::default()
        },
        Known {
            certificate: some("bob"),
            ..Known::default()
        },
        Known {
            granted: some("bob"),
            ..Known::default()
        },
    ];
    for (at, one) in apart.iter().enumerate() {
        for other in &apart[at + 1..] {
            assert_ne!(
                of("sid=0123456789abcdef", *one),
                of("sid=0123456789abcdef", *other),
                "{one:?} {other:?}"
            );
        }
    }
}

/// One who sends a cookie that varies twice, or in a spelling that some application takes for it,
/// gets no other client's variant.
#[test]
fn vary_cookies_in_all_spellings() {
    let mut rules = VaryRules::default();
    rules.add_cookies(b"currency,a_b");
    let of = |cookie: &str| text(&rules.string(request(&[cookie]).view()));
    let plain = of("currency=EUR; a_b=1");
    let odd = [
        "currency=EUR; currency=USD; a_b=1",
        "currency=USD; currency=EUR; a_b=1",
        "currency=EUR; currency[x]=1; a_b=1",
        "currency[x]=EUR; a_b=1",
        "currency=EUR; a.b=1",
        "currency=EUR; a_b=1; a.b=2",
        "%63urrency=EUR; a_b=1",
        "a_b=1",
    ];
    for (at, one) in odd.iter().enumerate() {
        assert_ne!(of(one), plain, "{one}");
        odd[at + 1..]
            .iter()
            .for_each(|other| assert_ne!(of(one), of(other), "{one} {other}"));
    }
}

#[test]
fn keys() {
    let page = Page {
        host: b"example.com",
        port: 443,
        path: b"/a",
        query: Some(b"b=1"),
        vary: Some(b"_lscache_vary;"),
        fields: b"",
    };
    assert_eq!(
        text(&public_key(&page).expect("short")),
        "example.com:443/a?b=1#_lscache_vary;"
    );
    assert_eq!(text(&page_key(&page)), "example.com:443/a?b=1");
    let bare = Page {
        query: None,
        vary: None,
        port: 80,
        ..page
    };
    assert_eq!(text(&public_key(&bare).expect("short")), "example.com:80/a");
    assert_ne!(
        public_key(&Page {
            query: Some(b""),
            ..bare
        }),
        public_key(&bare)
    );
    assert_ne!(
        public_key(&Page {
            fields: b"a",
            ..bare
        }),
        public_key(&Page {
            fields: b"b",
            ..bare
        })
    );
    let address = "192.0.2.1".parse().ok();
    let own =
        |identity: &[u8], address| private_key(&bare, identity, address).map(|key| text(&key));
    assert_eq!(
        own(b"a=1;", address).as_deref(),
        Some("example.com:80/a~a=1;@192.0.2.1")
    );
    assert_eq!(
        own(b"", address).as_deref(),
        Some("example.com:80/a@192.0.2.1")
    );
    assert_eq!(
        own(b"a=1;", None).as_deref(),
        Some("example.com:80/a~a=1;@")
    );
    assert_eq!(
        identity_key(b"", "::ffff:192.0.2.1".parse().ok()),
        identity_key(b"", address),
        "one address, one visitor"
    );
    let long = vec![b'x'; 65_535];
    assert_eq!(
        public_key(&Page {
            path: &long,
            ..bare
        }),
        None
    );
    assert_eq!(private_key(&bare, &long, None), None);
}

#[test]
fn rewrite_variables() {
    let mut edits = KeyEdits::default();
    edits.add(b"-qs:a").expect("known");
    let mut env = RewriteEnv::new(edits);
    for (name, value) in [
        ("Cache-Control", "no-cache"),
        ("cache-control", "vary=guest+webp"),
        ("CACHE-CTRL", "max-age=60"),
        ("Cache-Vary", "cur,cookie=lang"),
        ("Cache-Key-Mod", "-qs:utm_*"),
        ("modcache", "1"),
        ("noabort", "1"),
        ("other", "0"),
    ] {
        env.set(name.as_bytes(), value.as_bytes()).expect("known");
    }
    let (mut control, settings) = (Control::default(), LscacheSettings::default());
    env.apply_to(&mut control);
    assert_eq!(
        control.judge(PAGE, &settings),
        Ok(PUBLIC),
        "one list: the age comes after no-cache"
    );
    assert_eq!(control.age_s(&settings), 60);
    assert_eq!(
        text(&env.vary.string(request(&[]).view())),
        "_lscache_vary;cur;lang;=guest+webp;"
    );
    assert_eq!(
        env.edits.edited(Some(b"a=1&utm_x=1&b=1")).as_deref(),
        Some(&b"b=1"[..])
    );
    assert!(env.no_abort && !env.off);
    env.set(b"modcache", b"0").expect("known");
    env.set(b"Cache-Control", b"no-autoflush").expect("known");
    assert!(env.off);
    assert!(env.set(b"Cache-Key-Mod", b"a").is_err());
    let mut control = Control::default();
    env.apply_to(&mut control);
    assert!(control.no_autoflush);
    for (name, ours) in [
        ("Cache-Control", true),
        ("cache-ctrl", true),
        ("CACHE-VARY", true),
        ("noabort", true),
        ("HTTPS", false),
    ] {
        assert_eq!(RewriteEnv::is_ours(name.as_bytes()), ours, "{name}");
    }
}

#[test]
fn what_rules_said_outlives_internal_redirects() {
    let variables = [
        ("Cache-Control", "max-age=60"),
        ("REDIRECT_Cache-Control", "no-cache"),
        ("REDIRECT_LSCACHE_VARY_VALUE", "second"),
        ("REDIRECT_REDIRECT_LSCACHE_VARY_VALUE", "first"),
        ("REDIRECT_STATUS", "200"),
    ];
    let mut env = RewriteEnv::default();
    env.take_in(
        variables
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes())),
    );
    let mut control = Control::default();
    env.apply_to(&mut control);
    assert_eq!(
        control.judge(PAGE, &LscacheSettings::default()),
        Ok(PUBLIC),
        "the age comes after no-cache"
    );
    assert_eq!(env.vary.value.as_deref(), Some(&b"second"[..]));
}

#[test]
fn what_applications_are_told() {
    let rows = [
        ("on", Some("on")),
        ("on crawler", Some("on,crawler")),
        ("crawler on esi", Some("on,crawler,esi")),
        ("ON ESI COMBINE", Some("on,esi,combine")),
        ("esi", Some("on,esi")),
        ("off", None),
        ("on off", None),
    ];
    for (words, want) in rows {
        assert_eq!(
            Abilities::parse(words.as_bytes()).and_then(Abilities::value),
            want,
            "2: {words}"
        );
    }
    assert_eq!(Abilities::parse(b"on fast"), None);
    let all = Abilities {
        on: true,
        crawler: true,
        esi: true,
        combine: true,
        litemage: true,
    };
    let mut vary = VaryRules {
        value: Some(b"guest".to_vec()),
        ..VaryRules::default()
    };
    vary.add_cookies(b"cur,lang");
    let about_cache: Vec<_> = variables(all).collect();
    assert_eq!(
        about_cache,
        [
            ("X-LSCACHE", "on,crawler,esi,combine"),
            ("HTTP_X_LSCACHE", "on,crawler,esi,combine"),
            ("X-LITEMAGE", "1"),
        ]
    );
    let about_vary: Vec<_> = vary_variables(&vary)
        .map(|(name, value)| format!("{name}={}", text(&value)))
        .collect();
    assert_eq!(
        about_vary,
        [
            "LSCACHE_VARY_VALUE=guest",
            "HTTP_X_LSCACHE_VARY_VALUE=guest",
            "LSCACHE_VARY_COOKIE=cur,lang"
        ]
    );
    let off = Abilities { on: false, ..all };
    assert_eq!(variables(off).count(), 0);
    assert_eq!(vary_variables(&VaryRules::default()).count(), 0);
}

#[test]
fn request_fields_that_are_reserved() {
    let rows = [
        ("X-LSCACHE", true),
        ("x-lscache", true),
        ("X_LSCACHE", true),
        ("X-LiteMage", true),
        ("X-LSCACHE-VARY-VALUE", true),
        ("x-lscache_vary_value", true),
        ("X-LSCACHED", false),
        ("X-LiteSpeed-Purge", false),
        ("Host", false),
    ];
    for (name, want) in rows {
        assert_eq!(
            is_reserved_request_field(name.as_bytes()),
            want,
            "2: {name}"
        );
    }
    assert!(is_front_cache(["host", "X-LSCACHE"].iter()));
    assert!(is_front_cache(["x-litemage"].iter()));
    assert!(!is_front_cache(["x-lscache-vary-value"].iter()));
}

#[test]
fn crawlers() {
    let rows = [
        ("lscache_walker", Some(Crawler::Walker)),
        ("LSCache_Walker/1.0", Some(Crawler::Walker)),
        ("litemage_walker", Some(Crawler::Walker)),
        ("lscache_runner", Some(Crawler::Runner)),
        ("LiteMage_Runner x", Some(Crawler::Runner)),
        ("Mozilla lscache_walker", None),
        ("lscache_", None),
        ("", None),
    ];
    for (agent, want) in rows {
        assert_eq!(Crawler::of(agent.as_bytes()), want, "11: {agent}");
    }
    assert_eq!(NOT_ALLOWED.0, 428);
}

#[test]
fn what_visitors_see() {
    let all = "X-LiteSpeed-Cache-Control: public | X-LiteSpeed-Tag: a | X-LiteSpeed-Vary: cookie=a | X-LiteSpeed-Purge: b \
        | X-LiteSpeed-Purge2: c | LSC-Cookie: d=1 | lsc-cookie: e=2 | X-Foo: 1 | X-LiteSpeed-Cache: forged";
    let show = |served, front_cache, litemage| {
        let mut answer = fields(all);
        finish(&mut answer, served, front_cache, litemage);
        answer
            .iter()
            .map(|(name, value)| format!("{}: {}", name.to_ascii_lowercase(), text(value)))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        show(Served::Hit(PUBLIC), false, false),
        [
            "set-cookie: d=1",
            "set-cookie: e=2",
            "x-foo: 1",
            "x-litespeed-cache: hit"
        ]
    );
    assert_eq!(
        show(Served::Hit(PRIVATE), false, false)
            .last()
            .map(String::as_str),
        Some("x-litespeed-cache: hit,private")
    );
    assert_eq!(
        show(Served::Hit(PUBLIC), false, true)
            .last()
            .map(String::as_str),
        Some("x-litespeed-cache: litemage,hit")
    );
    let miss = show(Served::Miss, false, false);
    assert_eq!(
        miss,
        [
            "x-litespeed-cache-control: public",
            "x-litespeed-tag: a",
            "set-cookie: d=1",
            "set-cookie: e=2",
            "x-foo: 1",
            "x-litespeed-cache: miss"
        ]
    );
    let uncached = show(Served::Uncached, false, false);
    assert!(
        !uncached
            .iter()
            .any(|line| line.starts_with("x-litespeed-cache:") || line.contains("purge")),
        "{uncached:?}"
    );
    assert!(uncached.contains(&"x-litespeed-cache-control: public".to_owned()));
    let front = show(Served::Hit(PUBLIC), true, false);
    for line in [
        "x-litespeed-cache-control: public",
        "x-litespeed-purge: b",
        "x-litespeed-purge2: c",
        "lsc-cookie: d=1",
        "x-litespeed-vary: cookie=a",
    ] {
        assert!(front.contains(&line.to_owned()), "10: {line}");
    }
    let mut kept = fields(
        "Set-Cookie: a=1 | LSC-Cookie: b=2 | X-LiteSpeed-Purge: c | X-LiteSpeed-Cache: miss | Date: d | X-Foo: 1",
    );
    strip_for_store(&mut kept);
    assert_eq!(kept, fields("LSC-Cookie: b=2 | X-Foo: 1"), "6.4");
}

proptest! {
    /// Different cookies never make the same variant, nor the same visitor.
    #[test]
    fn variants_do_not_meet(one in "[ -:<-~]{0,12}", other in "[ -:<-~]{0,12}", value in "[ -~]{0,8}") {
        let mut rules = VaryRules::default();
        rules.add_cookies(b"cur,lang");
        let head = |cur: &str, lang: &str| request(&[&format!("cur={cur}; lang={lang}")]);
        let string = |cur: &str, lang: &str| rules.string(head(cur, lang).view());
        let same = one.trim() == other.trim();
        prop_assert_eq!(string(&one, "") == string(&other, ""), same);
        prop_assert_eq!(string(&one, &other) == string(&other, &one), same);
        rules.value = Some(value.clone().into_bytes());
        let with_value = rules.string(head(&one, "").view());
        prop_assert_eq!(with_value.iter().filter(|byte| **byte == b';').count(), 4);
    }

    #[test]
    fn any_bytes_are_read(bytes: Vec<u8>) {
        let mut answer = Fields::new();
        for name in ["X-LiteSpeed-Cache-Control", "X-LiteSpeed-Tag", "X-LiteSpeed-Purge", "X-LiteSpeed-Vary", "LSC-Cookie", "Cache-Control"] {
            answer.append(name, bytes.clone());
        }
        let settings = LscacheSettings::default();
        let mut control = Control::default();
        control.apply_response(&answer, &settings);
        let _ = (control.judge(PAGE, &settings), control.life(&settings, i64::MAX), tags(&answer, true), VaryRules::of_response(&answer));
        for purge in purges(&answer) {
            if let Target::Tag(tag) | Target::TagPrefix(tag) = purge.target {
                prop_assert!(!tag.iter().any(|byte| matches!(byte, b',' | b';' | b' ')));
            }
        }
        let mut env = RewriteEnv::default();
        let _ = env.set(b"Cache-Control", &bytes).and(env.set(b"Cache-Key-Mod", &bytes));
        finish(&mut answer, Served::Hit(PUBLIC), false, false);
    }
}
