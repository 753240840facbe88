//! Properties that the differential table can't show: dependencies of outcomes, limits, traces, log
//! lines, chance.

use crate::{
    Action, Input, MapSource, Outcome, Place, RewriteContext, Settings, TextMap, run_directory,
    run_server, script_environment,
};
use saker_ap_expr::{Dependency, Facts, FileTest, LocalTime, Variable};
use std::{
    borrow::Cow,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

struct Plain;

impl Facts for Plain {
    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        let text = match variable {
            Variable::RequestScheme => "http",
            Variable::ServerName => "www.test",
            Variable::ServerPort => "80",
            Variable::DocumentRoot | Variable::ContextDocumentRoot => "/srv/www",
            Variable::RequestUri => "/uri",
            Variable::RemoteUser => "outer",
            _ => return None,
        };
        Some(Cow::Borrowed(text.as_bytes()))
    }

    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        (name != b"X-None").then(|| Cow::Borrowed(&b"field"[..]))
    }

    fn client_address(&self) -> Option<IpAddr> {
        None
    }

    fn local_time(&self) -> LocalTime {
        LocalTime {
            year: 2026,
            month: 3,
            day: 4,
            hour: 5,
            minute: 6,
            second: 7,
            weekday: 3,
        }
    }

    fn file_test(&self, path: &[u8], _: FileTest) -> bool {
        path.starts_with(b"/srv")
    }
}

impl RewriteContext for Plain {
    fn text_map(&self, _: &Path) -> Option<Arc<TextMap>> {
        Some(Arc::new(TextMap::parse(b"k a|b|c\n")))
    }

    fn external_map(&self, name: &str, source: &MapSource, key: &[u8]) -> Option<Vec<u8>> {
        let kind = match source {
            MapSource::Program { arguments, .. } => arguments.join(","),
            MapSource::Dbm { kind, .. } => kind.clone(),
            MapSource::Dbd { query, cached } => format!("{query}{cached}"),
            _ => return None,
        };
        if key == b"null" {
            return Some(b"null".to_vec());
        }
        (key.starts_with(b"k")).then(|| format!("{name}-{kind}").into_bytes())
    }

    fn pick(&self, count: usize) -> usize {
        count - 1
    }

    fn look_ahead<'w>(&'w self, path: &[u8], by_file: bool) -> Option<Box<dyn Facts + 'w>> {
        (path == b"/ahead" && !by_file).then(|| Box::new(Plain) as Box<dyn Facts>)
    }

    fn is_own_host(&self, host: &[u8], port: u16) -> bool {
        host == b"www.test" && port == 80
    }

    fn home_folder(&self, user: &[u8]) -> Option<Vec<u8>> {
        (user == b"ann").then(|| b"/srv/home/ann/".to_vec())
    }

    fn as_facts(&self) -> &dyn Facts {
        self
    }
}

fn settings(mut settings: Settings, lines: &[&str]) -> Settings {
    settings.set_engine(true);
    for line in lines {
        let (name, rest) = line.split_once(' ').expect("directive");
        match name {
            "Cond" => drop(settings.add_condition(rest.as_bytes()).expect(line)),
            "Rule" => drop(settings.add_rule(rest.as_bytes()).expect(line)),
            "Option" => drop(settings.add_option(rest).expect(line)),
            _ => {
                let (name, source) = rest.split_once(' ').expect("map");
                settings
                    .add_map(name, source, None, |path| Some(PathBuf::from(path)))
                    .expect(line);
            }
        }
    }
    settings
}

fn server(lines: &[&str], uri: &str) -> Outcome {
    server_with(
        lines,
        &Input {
            trace_level: 8,
            ..Input::new(uri.as_bytes())
        },
    )
}

fn server_with(lines: &[&str], input: &Input<'_>) -> Outcome {
    run_server(&settings(Settings::server(), lines), &Plain, input)
}

fn file(text: &str) -> Action {
    Action::Filename(text.as_bytes().to_vec())
}

fn path(text: &str) -> Action {
    Action::Translate(text.as_bytes().to_vec())
}

#[test]
fn dependencies() {
    let of = |lines: &[&str]| server(lines, "/x").dependencies;
    assert!(of(&["Rule ^/x$ /y", "Rule ^/z$ /%{QUERY_STRING}"]).is_resource_only());
    assert!(of(&["Cond %{REQUEST_FILENAME} !-f", "Rule . /index.php [L]"]).has(Dependency::Files));
    assert!(of(&["Cond %{REQUEST_FILENAME} !-f", "Rule . /index.php [L]"]).is_resource_only());
    assert!(
        of(&["Rule . /index.php [QSA,L]"]).is_resource_only(),
        "nothing to append to"
    );
    assert!(of(&["Rule . /index.php?a [QSA,L]"]).has(Dependency::Query));
    let fields = of(&[
        "Cond %{HTTP_COOKIE} a",
        "Cond %{HTTP:X-None} a",
        "Rule . - [F]",
    ]);
    assert_eq!(
        fields.request_fields().collect::<Vec<_>>(),
        ["Cookie"],
        "the second condition was not reached"
    );
    assert!(of(&["Cond %{HTTP_HOST} x", "Rule . - [F]"]).is_resource_only());
    assert!(of(&["Cond %{REMOTE_ADDR} x", "Rule . - [F]"]).has(Dependency::Client));
    assert!(of(&["Cond %{TIME_HOUR} x", "Rule . - [F]"]).has(Dependency::Time));
    assert!(of(&["Cond %{ENV:X} x", "Rule . - [F]"]).has(Dependency::Environment));
    assert!(of(&["Cond expr \"%{QUERY_STRING} == 'x'\"", "Rule . - [F]"]).has(Dependency::Query));
    assert!(of(&["Cond %{LA-U:REMOTE_USER} x", "Rule . - [F]"]).has(Dependency::Subrequest));
    assert!(of(&["Map m rnd:/m", "Rule . /${m:k}"]).has(Dependency::Chance));
    assert!(of(&["Map m int:tolower", "Rule . /${m:k}"]).is_resource_only());
    assert!(
        of(&["Rule . https://other.test/"]).has(Dependency::Query),
        "a query would be copied"
    );
    assert!(of(&["Rule . https://other.test/?a"]).is_resource_only());
}

#[test]
fn vary() {
    let of = |lines: &[&str]| server(lines, "/x").effects.vary;
    assert_eq!(of(&["Cond %{HTTP:A} field", "Rule . /y"]), ["A"]);
    assert_eq!(of(&["Cond %{HTTP:A} other", "Rule . /y"]), [""; 0]);
    assert_eq!(
        of(&[
            "Cond %{HTTP:A} other [OR]",
            "Cond %{HTTP:B} field",
            "Rule . /y"
        ]),
        ["B"]
    );
    assert_eq!(
        of(&[
            "Cond %{HTTP:A} field [NV]",
            "Cond %{HTTP_HOST} .",
            "Rule . /y"
        ]),
        [""; 0]
    );
    assert_eq!(
        of(&["Cond expr \"req('A') == 'no'\"", "Rule . /y"]),
        ["A"],
        "expressions vary whatever they say"
    );
}

#[test]
fn maps() {
    let maps = [
        "Map r rnd:/m",
        "Map p prg:/bin/x a",
        "Map d dbm=sdbm:/d",
        "Map q dbd:select",
        "Map f fastdbd:select",
    ];
    for (rule, name) in [
        ("Rule . /${r:k}", "/c"),
        ("Rule . /${p:k}", "/p-/bin/x,a"),
        ("Rule . /${d:k}", "/d-sdbm"),
        ("Rule . /${q:k}", "/q-selectfalse"),
        ("Rule . /${f:k}", "/f-selecttrue"),
        ("Rule . /${f:no|dflt}", "/dflt"),
        ("Rule . /${p:null|none}", "/none"),
        ("Rule . \"/${p:k\n|none}\"", "/none"),
        ("Rule . \"/${q:k\n}\"", "/q-selectfalse"),
        ("Rule . /x${none:k}", "/x"),
    ] {
        assert_eq!(
            server(&[&maps[..], &[rule]].concat(), "/x").action,
            path(name),
            "{rule}"
        );
    }
}

#[test]
fn home_folders_and_look_ahead() {
    assert_eq!(
        server(&["Rule ^/home$ /~ann/x.html [UnsafePrefixStat]"], "/home").action,
        file("/srv/home/ann/x.html")
    );
    assert_eq!(
        server(&["Rule ^/home$ /~ann [UnsafePrefixStat]"], "/home").action,
        file("/srv/home/ann/")
    );
    assert_eq!(
        server(&["Rule ^/home$ /~bob/x"], "/home").action,
        path("/~bob/x")
    );
    let ahead = server(
        &["Rule . - [E=U:%{LA-U:REMOTE_USER}%{LA-U:TIME_HOUR}%{LA-U:HTTP:A}]"],
        "/ahead",
    );
    assert_eq!(
        ahead.effects.environment,
        [(b"U".to_vec(), Some(b"outer05field".to_vec()))]
    );
    assert_eq!(
        server(&["Rule . - [E=U:%{LA-F:REMOTE_USER}]"], "/ahead")
            .effects
            .environment[0]
            .1,
        Some(Vec::new())
    );
}

#[test]
fn proxies() {
    let url = |text: &str, no_canonical| Action::Proxy {
        url: text.as_bytes().to_vec(),
        no_canonical,
    };
    let input = Input {
        query: Some(b"q=1"),
        path_info: b"/info",
        ..Input::new(b"/x/y")
    };
    assert_eq!(
        server_with(&["Rule ^/x/(.*) http://back/$1 [P]"], &input).action,
        url("http://back/y/info", false)
    );
    assert_eq!(
        server_with(&["Rule ^/x/(.*) http://back/$1 [P,NE]"], &input).action,
        url("http://back/y/info?q=1", true)
    );
    assert_eq!(
        server_with(&["Rule ^/x/(.*) fcgi://back/$1 [P]"], &input).action,
        url("fcgi://back/y/info", false)
    );
    assert_eq!(
        server_with(&["Rule ^/x/(.*) /$1 [P]"], &input).action,
        url("http://www.test/y/info", false)
    );
    let none = server_with(
        &["Rule ^/x/(.*) http://back/$1 [P]"],
        &Input {
            proxy_available: false,
            ..input
        },
    );
    assert_eq!(
        (none.action, none.log[0].id),
        (Action::Status(403), "AH00669")
    );
    // A group can't make a proxy of it.
    assert_eq!(
        server(&["Rule ^/y(.*)$ $1"], "/yproxy:http://evil/").action,
        path("/proxy:http://evil/")
    );
}

#[test]
fn ends_and_beginnings() {
    let ended = Input {
        ended: true,
        ..Input::new(b"/x")
    };
    assert_eq!(server_with(&["Rule . - [F]"], &ended).action, Action::Pass);
    assert!(server(&["Rule . /y [END]"], "/x").effects.end);
    let star = Input {
        not_a_path: true,
        ..Input::new(b"*")
    };
    assert_eq!(server_with(&["Rule . - [F]"], &star).action, Action::Pass);
    assert_eq!(
        server_with(&["Option AllowAnyURI", "Rule . - [F]"], &star).action,
        Action::Status(403)
    );
    let sub = Input {
        is_subrequest: true,
        ..Input::new(b"/x")
    };
    assert_eq!(
        server_with(&["Rule . - [F,NS]", "Rule . /y [R]", "Rule . /z"], &sub).action,
        path("/z")
    );
    let names = script_environment(&Plain, &Input::new(b"/x"));
    assert_eq!(
        names,
        [
            ("SCRIPT_URL", b"/x".to_vec()),
            ("SCRIPT_URI", b"http://www.test/x".to_vec())
        ]
    );
}

#[test]
fn directories() {
    let own = settings(
        Settings::directory(Place::Directory, b"/srv/www"),
        &["Rule ^x$ y", "Rule ^p$ http://b/ [P]"],
    );
    let run = |input: &Input<'_>| run_directory(&own, &Settings::server(), &Plain, input);
    let input = Input {
        filename: Some(b"/srv/www/x"),
        ..Input::new(b"/x")
    };
    assert_eq!(run(&input).action, Action::InternalRedirect(b"/y".to_vec()));
    let locked = run(&Input {
        follows_links: false,
        ..input
    });
    assert_eq!(
        (locked.action, locked.log[0].id),
        (Action::Status(403), "AH00670")
    );
    assert_eq!(
        run(&Input {
            filename: Some(b"/srv/www"),
            ..input
        })
        .action,
        Action::Pass
    );
    let proxied = run(&Input {
        filename: Some(b"/srv/www/p"),
        proxy_available: false,
        ..input
    });
    assert_eq!(proxied.log[0].id, "AH10160");
    let mut off = own.clone();
    off.set_engine(false);
    assert_eq!(
        run_directory(&off, &Settings::server(), &Plain, &input).action,
        Action::Pass
    );
}

/// Whatever rules and requests do, a run ends soon and stays small.
#[test]
fn runs_are_bounded() {
    let long = format!("/{}!", "a".repeat(6000));
    let cases: [(&[&str], u16); 8] = [
        (&["Rule ^(.*)$ $1 [N]"], 500),
        (&["Rule ^(.*)$ $1 [N=2000000000]"], 500),
        (&["Rule ^(.*)$ $1/x [N=2000000000]"], 500),
        (
            &["Rule (a+)+$ - [N=2000000000]", "Rule . - [N=2000000000]"],
            500,
        ),
        (
            &[
                "Cond %{REQUEST_URI}%{THE_REQUEST} ^(u+|r+)*$ [OR]",
                "Cond $0 ([a-z]+)+$",
                "Rule ^(.*)$ - [N=2000000000]",
                "Rule . - [N=2000000000]",
            ],
            500,
        ),
        (
            &[
                "Rule ^ - [E=A:%{ENV:A}%{ENV:A}$0b,N=2000000000]",
                "Rule ^(.*)$ - [E=B:$1$1$1$1,N=2000000000]",
            ],
            500,
        ),
        (
            &["Rule ^(.*)$ $1?%{QUERY_STRING}%{QUERY_STRING}x [N=2000000000]"],
            500,
        ),
        (&["Rule ^(.*)$ /${m:$1$1$1$1$1$1$1$1} [N=2000000000]"], 500),
    ];
    for (lines, status) in cases {
        let begun = Instant::now();
        let outcome = server_with(lines, &Input::new(long.as_bytes()));
        assert_eq!(outcome.action, Action::Status(status), "{lines:?}");
        assert!(
            !outcome.log.is_empty() && outcome.log.len() < 50,
            "{lines:?}"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{lines:?} took {:?}",
            begun.elapsed()
        );
        let bytes: usize = outcome
            .effects
            .environment
            .iter()
            .map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len))
            .sum();
        assert!(bytes < 300 << 20, "{lines:?}: {bytes}");
        eprintln!("{lines:?} {:?}", begun.elapsed());
    }
}

#[test]
fn refusals_say_why() {
    let unsafe_mark = server(&["Rule ^/x/(.*)$ /$1"], "/x/a?b");
    assert_eq!(
        (unsafe_mark.action, unsafe_mark.log[0].id),
        (Action::Status(403), "AH10508")
    );
    let control = server(&["Rule ^/x/(.*)$ /y?$1"], "/x/a\u{1}b");
    assert_eq!(
        (control.action, control.log[0].id),
        (Action::Status(403), "AH10410")
    );
    let escaped = server(&["Rule ^/x/(.*)$ /y?$1 [R]"], "/x/a\u{1}b");
    assert_eq!(
        escaped.action,
        Action::Redirect {
            status: 302,
            location: b"http://www.test/y?a%01b".to_vec()
        }
    );
    let rounds = server(&["Rule . - [N=3]"], "/x");
    assert_eq!(
        (rounds.action, rounds.log[0].id),
        (Action::Status(500), "AH02596")
    );
    assert_eq!(server(&["Rule ^/x$ /y"], "/x").log, []);
}

#[test]
fn traces_are_made_when_asked() {
    let lines = ["Cond %{REQUEST_URI} uri [NC]", "Rule ^/x$ /y?q [E=A:b,L]"];
    let texts = |level| {
        let outcome = server_with(
            &lines,
            &Input {
                trace_level: level,
                ..Input::new(b"/x")
            },
        );
        outcome
            .trace
            .iter()
            .map(|line| format!("{} {line}", line.level))
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(0), [""; 0]);
    assert_eq!(texts(1), ["1 go-ahead with /srv/www/y [OK]"]);
    let all = [
        "2 init rewrite engine with requested uri /x",
        "3 applying pattern '^/x$' to uri '/x'",
        "4 RewriteCond: input='/uri' pattern='uri' [NC] => matched",
        "2 rewrite '/x' -> '/y?q'",
        "5 setting env variable 'A' to 'b'",
        "3 split uri=/y?q -> uri=/y, args=q",
        "2 setting lastsub to rule with output /y?q",
        "2 local path result: /y",
        "2 prefixed with document_root to /srv/www/y",
        "1 go-ahead with /srv/www/y [OK]",
    ];
    assert_eq!(texts(8), all);
}

/// Pieces of rules in any order, over any path: no panic, and actions that can be carried out.
#[test]
fn soup() {
    const PIECES: &[&str] = &[
        "/",
        "//",
        "a",
        "(.*)",
        "$1",
        "%1",
        "%{REQUEST_URI}",
        "${m:k|d}",
        "?",
        "x=1",
        "&",
        "http://",
        "www.test",
        ":80",
        "mailto:",
        "proxy:",
        "/~ann",
        "..",
        "\\",
        "\\?",
        "é",
        "[",
        "]",
        "^",
        "$",
        "#",
        ":",
        "unix:",
        "ldap://h/",
        "/srv/www/",
        "-",
        "!",
        "=",
        "%{ENV:A}",
        "%",
        "{",
        "}",
    ];
    const FLAGS: &[&str] = &[
        "L",
        "R",
        "R=404",
        "QSA",
        "QSD",
        "QSL",
        "NE",
        "B",
        "BCTLS",
        "N=9",
        "S=1",
        "C",
        "P",
        "PT",
        "F",
        "E=A:$1%{ENV:A}",
        "E=!A",
        "CO=$1:b:c:9",
        "T=$1",
        "H=%1",
        "END",
        "DPI",
        "NC",
        "UnsafeAllow3F",
        "UnsafePrefixStat",
        "NS",
    ];
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for round in 0..6000 {
        let in_directory = round % 2 == 0;
        let mut own = if in_directory {
            Settings::directory(Place::Htaccess, b"/srv/www")
        } else {
            Settings::server()
        };
        own.set_engine(true);
        let _ = own.set_base(b"/base");
        for _ in 0..1 + next() % 4 {
            let mut soup = |most: usize| {
                (0..1 + next() % most)
                    .map(|_| PIECES[next() % PIECES.len()])
                    .collect::<String>()
            };
            let (pattern, test, output) = (soup(3), soup(2), soup(5));
            let flags: Vec<&str> = (0..next() % 4)
                .map(|_| FLAGS[next() % FLAGS.len()])
                .collect();
            let _ = own
                .add_condition(format!("{output} {test}").as_bytes())
                .is_ok()
                || next() % 2 == 0;
            let _ = own.add_rule(
                format!(
                    "{} {output} [{}]",
                    if next() % 2 == 0 { "^(.*)$" } else { &pattern },
                    flags.join(",")
                )
                .as_bytes(),
            );
        }
        let uri: String = (0..4).map(|_| PIECES[next() % PIECES.len()]).collect();
        let (uri, file) = (format!("/{uri}"), format!("/srv/www/{uri}"));
        let input = Input {
            query: Some(b"q"),
            trace_level: 8,
            filename: in_directory.then_some(file.as_bytes()),
            ..Input::new(uri.as_bytes())
        };
        let outcome = if in_directory {
            run_directory(&own, &own, &Plain, &input)
        } else {
            run_server(&own, &Plain, &input)
        };
        match outcome.action {
            Action::Redirect { status, .. } => assert!((300..400).contains(&status)),
            Action::Filename(path) | Action::Translate(path) => assert!(path.starts_with(b"/")),
            Action::InternalRedirect(_) => assert!(in_directory),
            Action::PassThrough(_) => assert!(!in_directory),
            _ => {}
        }
    }
}

/// LSCache protocol 3.2.
#[test]
fn what_is_said_to_a_page_cache_adds_up() {
    type Row<'t> = (&'t [&'t str], &'t [(&'t str, &'t str)]);
    let rows: [Row<'_>; 6] = [
        (
            &[
                "Rule . - [E=Cache-Control:no-autoflush]",
                "Rule . - [E=cache-ctrl:max-age=60]",
            ],
            &[("Cache-Control", "no-autoflush,max-age=60")],
        ),
        (
            &[
                "Rule . - [E=Cache-Control:max-age=60]",
                "Rule . - [E=CACHE-CONTROL:max-age=60]",
            ],
            &[("Cache-Control", "max-age=60")],
        ),
        (
            &[
                "Rule . - [E=Cache-Control:public]",
                "Rule . - [E=!Cache-Control]",
                "Rule . - [E=Cache-Control:private]",
            ],
            &[("Cache-Control", "private")],
        ),
        (
            &[
                "Rule . - [E=Cache-Control:vary=guest]",
                "Rule . - [E=Cache-Control:no-autoflush]",
                "Rule . - [E=Cache-Control:vary=%{ENV:LSCACHE_VARY_VALUE}+webp]",
                "Rule . - [E=Cache-Control:vary=%{ENV:LSCACHE_VARY_VALUE}+webp]",
            ],
            &[
                ("Cache-Control", "no-autoflush"),
                ("LSCACHE_VARY_VALUE", "guest+webp"),
            ],
        ),
        (
            &["Rule . - [E=Cache-Vary:a,E=cache-vary:b]"],
            &[("Cache-Vary", "a,b")],
        ),
        (
            &["Rule . - [E=other:a]", "Rule . - [E=OTHER:b]"],
            &[("OTHER", "b")],
        ),
    ];
    for (lines, expected) in rows {
        let outcome = server(lines, "/x");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let found: Vec<(String, String)> = outcome
            .effects
            .environment
            .iter()
            .map(|(name, value)| (text(name), text(value.as_deref().unwrap_or(b"-"))))
            .collect();
        let expected: Vec<(String, String)> = expected
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        assert_eq!(found, expected, "{lines:?}");
    }
}
