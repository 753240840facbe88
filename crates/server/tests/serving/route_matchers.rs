//! Routes by conditions: an answer from the route cache is the one that the full dispatch of the
//! same request gives, whatever the routes, whatever came before; and what conditions cost.
//!
//! Each request is sent twice: as it is, and with `Content-Length: 0`, which the route cache never
//! answers. Route sets and requests are generated; the seed is printed with a failure.
//! `SAKER_RULE_PAIRS` sets how many pairs are compared.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{Client, Response, Saker, TempDir, free_port, wait_until};
use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, SystemTime},
};

const PAIRS: usize = 2000;
const REQUESTS_PER_SET: usize = 100;

/// Chance with a seed (xorshift64*).
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % count
    }

    pub fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }
}

const PATHS: [&str; 6] = [
    "path = '/a/*'",
    "path = ['/a/b.html', '*.txt']",
    "path_regex = '^/a/(.)[.]html$'",
    "path_regex = '(?i)B'",
    "path = '*'",
    "path = '/a/b*'",
];
const CONDITIONS: [&str; 18] = [
    "header = { X-Tag = 'one' }",
    "header = { X-Tag = ['t*', '~^[0-9]'] }",
    "header = { X-Tag = false }",
    "header = { User-Agent = '~*bot', X-Tag = true }",
    "query = { q = true }",
    "query = { q = '~^(a|b)$' }",
    "query = { r = false }",
    "cookie = { s = 'x*' }",
    "client = '127.0.0.2'",
    "client = ['127.0.0.3', '192.0.2.0/24']",
    "method = ['GET', 'POST']",
    "method = 'HEAD'",
    "scheme = 'https'",
    "protocol = 'HTTP/1.1'",
    "expression = \"$http_user_agent =~ /bot/ or $args == ''\"",
    "file = '/a/b.html'",
    "hours = '00:00-12:00'",
    "host = '*.test'",
];
const ACTIONS: [&str; 19] = [
    "respond = 'text'",
    "respond = 'device $device'",
    "redirect = '/to/$uri?x=$arg_q'",
    "rewrite = '/a/c.html'",
    "try_files = ['$uri', '/a/b.html', '=404']",
    "rewrite = '/a/b.txt?x=$arg_q'",
    "rewrite = '/a/gone?$args'",
    "try_files = ['$uri', '/a/b.none?$args']",
    "try_files = ['$uri', '/a/b.none?q=a&$args']",
    "try_files = ['$uri', '/a/b.none']",
    "try_files = ['$uri', '/a/d.txt?q=a']",
    "headers = { X-Route = 'route $device $host' }",
    "headers = { X-Query = 'q=$arg_q', X-Scheme = '$scheme' }",
    "deny = true",
    "proxy = 'http://UPSTREAM'",
    "proxy = 'http://UPSTREAM'\nstrip_prefix = '/a'",
    "proxy = 'http://UPSTREAM/base/'",
    "proxy = 'http://UPSTREAM'\nheaders = { X-Route = 'route $device $host' }",
    "proxy = 'http://UPSTREAM'\nupstream_headers = { X-Query = 'q=$arg_q' }",
];

fn condition(chance: &mut Chance, depth: usize) -> String {
    let one = |chance: &mut Chance| chance.one(&CONDITIONS).to_owned();
    if depth == 0 {
        return one(chance);
    }
    match chance.below(5) {
        0 => format!("not = {{ {} }}", condition(chance, depth - 1)),
        1 => format!(
            "any = [{{ {} }}, {{ {} }}]",
            condition(chance, depth - 1),
            condition(chance, depth - 1)
        ),
        2 => format!(
            "all = [{{ {} }}, {{ {} }}]",
            condition(chance, depth - 1),
            condition(chance, depth - 1)
        ),
        _ => one(chance),
    }
}

fn routes(chance: &mut Chance) -> String {
    let mut text = String::new();
    for _ in 0..1 + chance.below(5) {
        text.push_str(&format!("[[site.route]]\n{}\n", chance.one(&PATHS)));
        if chance.below(4) > 0 {
            text.push_str(&format!("match = {{ {} }}\n", condition(chance, 2)));
        }
        text.push_str(chance.one(&ACTIONS));
        text.push('\n');
    }
    text
}

/// An upstream that answers with the head that it got.
pub fn upstream() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || echo(stream));
        }
    });
    address
}

fn echo(stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let mut head = String::new();
        let mut content_bytes = 0;
        for line in reader.by_ref().lines() {
            let line = line.ok()?;
            if line.is_empty() {
                break;
            }
            let length = line.to_ascii_lowercase();
            if let Some(length) = length.strip_prefix("content-length:") {
                content_bytes = length.trim().parse().ok()?;
            }
            head.push_str(&line);
            head.push('\n');
        }
        if head.is_empty() {
            return None;
        }
        let mut content = vec![0; content_bytes];
        reader.read_exact(&mut content).ok()?;
        if content_bytes > 0 {
            head.push_str(&format!("content={}\n", String::from_utf8_lossy(&content)));
        }
        let body = if head.starts_with("HEAD ") { "" } else { &head };
        let bytes = head.len();
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nX-Up: 1\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).ok()?;
    }
}

fn configuration(routes: &str) -> String {
    format!(
        "[server]\nstate_dir = \"{{dir}}/state\"\ntrusted_proxies = [\"127.0.0.3\"]\n[map.device]\nsource = \"$http_user_agent\"\ndefault = \"desktop\"\n\
         regex = {{ '(?i)bot' = \"robot\" }}\n[[listener]]\naddress = \"{{address}}\"\n[[site]]\nroot = \"{{dir}}/www\"\n{routes}"
    )
}

fn start(routes: &str) -> Saker {
    let dir = TempDir::new("route-matchers").unwrap();
    for name in ["a/b.html", "a/c.html", "a/x.txt", "small.html"] {
        let path = dir.write(&format!("www/{name}"), name).unwrap();
        // Long enough ago for strong validators.
        let before = SystemTime::now() - Duration::from_secs(3600);
        let file = fs::File::options().write(true).open(path);
        file.unwrap().set_modified(before).unwrap();
    }
    operate::native(&configuration(routes))
        .workers(1)
        .start(dir)
}

/// The target and the request fields of one request.
fn request(chance: &mut Chance) -> (String, Vec<(&'static str, &'static str)>) {
    let path = chance.one(&[
        "/a/b.html",
        "/a/b.html",
        "/a/c.html",
        "/a/x.txt",
        "/a/%62.html",
    ]);
    let query = chance.one(&["", "", "?q=a", "?q=c", "?r=1&%71=b", "?q"]);
    let values: [(&str, &[&str]); 5] = [
        // A claim that the upstream must not get.
        ("X-Forwarded-For", &["192.0.2.7"]),
        ("User-Agent", &["a bot", "Mozilla", "A BOT"]),
        ("X-Tag", &["one", "two", "3", "other"]),
        ("Cookie", &["s=x1", "t=1; s=y", "t=1"]),
        ("Host", &["a.test", "localhost"]),
    ];
    let mut fields = Vec::new();
    for (name, values) in values {
        if chance.below(3) > 0 {
            fields.push((name, chance.one(values)));
        }
    }
    (format!("{path}{query}"), fields)
}

/// The fields of a response in the order of their names, without some.
pub fn fields_without(response: &Response, left_out: &[&str]) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = response
        .fields
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
        .filter(|(name, _)| !left_out.contains(&name.as_str()))
        .collect();
    fields.sort();
    fields
}

/// The parts of a response that must be equal. Dates may differ by a second.
fn essence(response: &Response) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let fields = fields_without(response, &["date"]);
    (response.status, fields, response.body.clone())
}

pub fn hits(saker: &Saker) -> usize {
    let state = saker.dir.join("state").display().to_string();
    let output = operate::saker(["status", "--prometheus", "--state-dir", &state]);
    let text = operate::stdout(&output);
    let line = text
        .lines()
        .find(|line| line.starts_with("saker_resource_cache_hits_total"))
        .unwrap_or_else(|| panic!("{text}{}", operate::stderr(&output)));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn cached_answers_are_those_of_full_dispatch() {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("SAKER_RULE_SEED").unwrap_or(0x20A_2026);
    let pairs = number("SAKER_RULE_PAIRS").map_or(PAIRS, |pairs: u64| pairs as usize);
    let mut chance = Chance(seed);
    let mut servers = Vec::new();
    let upstream = upstream().to_string();
    for set in 0..pairs.div_ceil(REQUESTS_PER_SET) {
        let routes = routes(&mut chance).replace("UPSTREAM", &upstream);
        let saker = start(&routes);
        let mut clients: Vec<Client> = (1..=3)
            .map(|from| {
                let source = SocketAddr::from(([127, 0, 0, from], 0));
                Client::connect_from(source, saker.server.address()).unwrap()
            })
            .collect();
        for _ in 0..REQUESTS_PER_SET {
            let from = chance.below(3);
            let (target, fields) = request(&mut chance);
            let method = chance.one(&["GET", "GET", "GET", "HEAD"]);
            let mut ask =
                |fields: &[(&str, &str)]| clients[from].request(method, &target, fields).unwrap();
            let answer = ask(&fields);
            let full = [fields.as_slice(), &[("Content-Length", "0")]].concat();
            assert_eq!(
                essence(&answer),
                essence(&ask(&full)),
                "seed {seed:#x}, set {set}: {method} {target} {fields:?} from 127.0.0.{}\n{routes}",
                from + 1
            );
        }
        servers.push(saker);
    }
    // Workers report their counts from time to time.
    wait_until("enough answers came from the route cache", || {
        servers.iter().map(hits).sum::<usize>() > pairs / 30
    });
}

/// Conditions that don't hold leave answers in the route cache.
#[test]
fn files_stay_cached_behind_conditions() {
    let conditions: String = CONDITIONS
        .iter()
        .filter(|one| !["hours", "file", "host"].iter().any(|key| one.starts_with(key)))
        .map(|one| {
            format!("[[site.route]]\npath = '/small.html'\nmatch = {{ host = 'x.test', {one} }}\ndeny = true\n")
        })
        .collect();
    let fields = "[[site.route]]\npath = '/small.html'\nmatch = { header = { X-Tag = 'no' }, \
                  query = { q = true }, cookie = { s = true }, client = '192.0.2.1' }\ndeny = true\n\
                  [[site.route]]\npath = '/small.html'\nmatch = { header = { X-Tag = ['no', 'n*'] } }\ndeny = true\n\
                  [[site.route]]\npath = '/small.html'\nmatch = { any = [{ query = { q = true } }, { cookie = { s = true } }, { client = '192.0.2.1' }] }\ndeny = true\n";
    let saker = start(&format!("{conditions}{fields}"));
    let mut client = saker.connect().unwrap();
    let before = hits(&saker);
    for number in 0..20 {
        let tag = format!("tag{}", number % 3);
        let response = client
            .request(
                "GET",
                "/small.html?a=b",
                &[("X-Tag", &tag), ("Cookie", "a=b")],
            )
            .unwrap();
        assert_eq!(response.status, 200);
    }
    wait_until("all but the first requests are hits", || {
        hits(&saker) >= before + 16
    });
}

/// An upstream is asked the same by a cached decision as after the phases: the rules of
/// the path are known, all else is of the request.
#[test]
fn decisions_about_upstreams_are_kept() {
    let routes = "[[site.route]]\npath = '/a/*'\nmatch = { header = { X-Tag = 'no' } }\ndeny = true\n\
                  [[site.route]]\npath = '/a/*'\nproxy = 'http://UPSTREAM'\nstrip_prefix = '/a'\n";
    let saker = start(&routes.replace("UPSTREAM", &upstream().to_string()));
    let mut client = saker.connect().unwrap();
    let before = hits(&saker);
    for number in 0..20 {
        let (target, tag) = (format!("/a/x?n={number}"), format!("tag{}", number % 3));
        // Full dispatch of requests with made-up fields leaves no decision; they follow those of others.
        let fields = [("X-Tag", tag.as_str()), ("X-Forwarded-For", "192.0.2.7")];
        let fields = &fields[..1 + number % 2];
        let response = client.request("GET", &target, fields).unwrap();
        let told = String::from_utf8_lossy(&response.body).into_owned();
        let begins = told.starts_with(&format!("GET /x?n={number} HTTP/1.1\n"));
        assert!(
            begins && told.contains(&format!("X-Tag: {tag}\n")),
            "{told}"
        );
        assert!(!told.contains("192.0.2.7"), "{told}");
        // In between, what the same path refuses.
        let refused = client.request("GET", "/a/x", &[("X-Tag", "no")]).unwrap();
        assert_eq!(refused.status, 403);
        // Those with content have a decision of their own; the content is never part of it.
        let content = format!("n={number}&tail");
        let fields = [("Content-Length", &*content.len().to_string())];
        let posted = client.request_with("POST", &target, &fields, content.as_bytes());
        let told = String::from_utf8_lossy(&posted.unwrap().body).into_owned();
        assert!(told.starts_with("POST /x?n="), "{told}");
        assert!(told.contains(&format!("content={content}\n")), "{told}");
    }
    // Of the twenty that are passed on, the twenty that are refused, and the twenty with content.
    wait_until("all but the first requests are hits", || {
        hits(&saker) >= before + 54
    });
}

/// A decision about a path isn't followed for the page of its errors, which is another path of the
/// same request.
#[test]
fn error_pages_have_decisions_of_their_own() {
    let dead = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let echo = upstream();
    let saker = start(&format!(
        "[site.error_pages]\n502 = '/err'\n503 = '/err'\n[[site.route]]\npath = '/a/*'\nproxy = 'http://{dead}'\n\
         [[site.route]]\npath = '/err'\ninternal = true\nproxy = 'http://{echo}'\n\
         [[site.route]]\npath = '/b/*'\nproxy = 'http://{echo}'\n"
    ));
    let mut client = saker.connect().unwrap();
    for number in 0..6 {
        for (target, passed) in [("/a/x", "/err"), ("/b/x", "/b/x"), ("/a/y", "/err")] {
            let response = client
                .request("GET", &format!("{target}?n={number}"), &[])
                .unwrap();
            let told = String::from_utf8_lossy(&response.body).into_owned();
            let path = told.split([' ', '?']).nth(1);
            assert_eq!(path, Some(passed), "{number}: {target}\n{told}");
        }
    }
}

/// Conditions and keys of limits read several lines of `Cookie` as one, joined by `; `, in what is
/// kept, too.
#[test]
fn cookies_in_several_lines_are_all_seen() {
    let saker = start(
        "[[site.route]]\npath = '/a/*'\nmatch = { cookie = { role = 'guest' } }\ndeny = true\n\
         [[site.route]]\npath = '/a/*'\nmatch = { header = { Cookie = '~(^|; )id=' } }\nrespond = 'known'\n\
         [[site.route]]\npath = '/limited'\nrespond = 'passed'\n\
         [site.route.throttle]\nrequests_by_key = { \"$cookie_session\" = { rate = \"1/m\", burst = 1 } }\n",
    );
    let mut client = saker.connect().unwrap();
    let mut status = |target: &str, cookies: &[&str]| {
        let fields: Vec<(&str, &str)> = cookies.iter().map(|line| ("Cookie", *line)).collect();
        client.request("GET", target, &fields).unwrap().status
    };
    for _ in 0..3 {
        assert_eq!(status("/a/b.html", &["x=1"]), 200);
        assert_eq!(status("/a/b.html", &["role=guest"]), 403);
        assert_eq!(status("/a/b.html", &["x=1", "role=guest"]), 403);
        assert_eq!(status("/a/b.html", &["role=guest", "x=1"]), 403);
        // Some programs begin another cookie behind a comma, and PHP decodes names.
        assert_eq!(status("/a/b.html", &["x=1, role=guest"]), 403);
        assert_eq!(status("/a/b.html", &["x=1; r%6fle[]=guest"]), 403);
        assert_eq!(status("/a/b.html", &["x=1, role"]), 200);
        assert_eq!(status("/a/b.html", &["x=1; role=guest"]), 403);
        assert_eq!(status("/a/b.html", &["x=1", "id=2"]), 200);
    }
    let limited: Vec<u16> = (0..4)
        .map(|_| status("/limited", &["x=1", "session=a"]))
        .collect();
    assert_eq!(limited.last(), Some(&429), "{limited:?}");
    assert_eq!(status("/limited", &["x=1", "session=b"]), 200);
}
