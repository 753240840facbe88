//! Rules that look at the request: an answer from the route cache is the one that the full dispatch
//! of the same request gives, whatever the rules, whatever came before.
//!
//! Each request is sent twice: as it is, and with `Content-Length: 0`, which the route cache never
//! answers. Rule sets and requests are generated; the seed is printed with a failure.
//! `SAKER_RULE_PAIRS` sets how many pairs are compared.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{
    Client, Response, Saker, ServerProcess, TempDir, apache2::load_modules, wait_until_or,
};
use std::{
    env, fs,
    net::SocketAddr,
    time::{Duration, SystemTime},
};

const MODULES: [&str; 13] = [
    "mpm_event",
    "authz_core",
    "authz_host",
    "access_compat",
    "alias",
    "dir",
    "env",
    "headers",
    "log_config",
    "mime",
    "negotiation",
    "rewrite",
    "setenvif",
];
const PAIRS: usize = 3000;
const REQUESTS_PER_SET: usize = 40;

struct Site(Saker);

impl Site {
    fn start(name: &str, server_rules: &str) -> Site {
        let dir = TempDir::new(name).unwrap();
        for (name, text) in [
            ("a/b/page.html", "page"),
            ("a/b/other.html", "other"),
            ("index.html", "index"),
        ] {
            let path = dir.write(&format!("www/{name}"), text).unwrap();
            // Long enough ago for strong validators.
            let file = fs::File::options().write(true).open(path);
            let before = SystemTime::now() - Duration::from_secs(3600);
            file.unwrap().set_modified(before).unwrap();
        }
        let (root, modules) = (dir.display(), load_modules(&MODULES));
        let text = format!(
            "ServerRoot {root}\n{modules}Listen {{address}}\nServerName localhost\nDocumentRoot {root}/www\n\
             LogFormat \"%r %{{bot}}e\" bots\nCustomLog {root}/access.log bots env=!quiet\n\
             <Directory {root}>\n    AllowOverride All\n    Require all granted\n</Directory>\n{server_rules}\n"
        );
        // The pairs are compared here.
        let server = operate::apache(&text).env("SAKER_COMPARE_HITS", "0");
        Site(server.workers(1).start(dir))
    }

    /// By rename, so that no request finds half of it.
    fn set_rules(&self, rules: &str) {
        self.0.dir.write("www/a/.new", rules).unwrap();
        fs::rename(
            self.0.dir.join("www/a/.new"),
            self.0.dir.join("www/a/.htaccess"),
        )
        .unwrap();
    }

    fn connect(&self, from: u8) -> Client {
        let source = SocketAddr::from(([127, 0, 0, from], 0));
        Client::connect_from(source, self.0.server.address()).unwrap()
    }

    /// The hits of the route cache so far.
    fn hits(&self) -> u64 {
        hits_of(&self.0.dir)
    }
}

/// The parts of a response that must be equal. Dates may differ by a second.
fn essence(response: &Response) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let mut fields: Vec<(String, String)> = response
        .fields
        .iter()
        .filter(|(name, _)| !name.eq_ignore_ascii_case("date"))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
        .collect();
    fields.sort();
    (response.status, fields, response.body.clone())
}

/// Chance with a seed (xorshift64*).
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % count
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }
}

const PATTERNS: [&str; 10] = [
    "bot",
    "^Mozilla",
    "(curl|wget)/([0-9]+)",
    "^$",
    "example",
    "^https?://(www\\.)?example\\.com/",
    "[0-9]{3}",
    "id=([a-z]+)",
    "logged_in",
    "^127\\.0\\.0\\.[23]$",
];
const VARIABLES: [&str; 12] = [
    "HTTP_USER_AGENT",
    "HTTP_REFERER",
    "HTTP_COOKIE",
    "HTTP:X-Tag",
    "QUERY_STRING",
    "REMOTE_ADDR",
    "REQUEST_METHOD",
    "THE_REQUEST",
    "HTTP_HOST",
    "HTTPS",
    "ENV:bot",
    "ENV:quiet",
];
const NETWORKS: [&str; 5] = [
    "127.0.0.2",
    "127.0.0.0/30",
    "192.0.2.0/24",
    "127.0.0.3 192.0.2.1",
    "10",
];
const EXPRESSIONS: [&str; 9] = [
    "%{HTTP_USER_AGENT} =~ /bot/",
    "%{REMOTE_ADDR} -ipmatch '127.0.0.2'",
    "-R '127.0.0.0/30'",
    "req('X-Tag') == 'one'",
    "%{QUERY_STRING} != ''",
    "-z %{HTTP_COOKIE}",
    "%{HTTP_REFERER} -strmatch '*example*'",
    "%{REQUEST_METHOD} in { 'GET', 'HEAD' }",
    "reqenv('bot') == 'yes' || tolower(req('X-Tag')) == 'two'",
];

/// A rule set for a folder, of one to five groups of directives.
fn rules(chance: &mut Chance) -> String {
    let groups = 1 + chance.below(5);
    let mut text = String::from("RewriteEngine On\n");
    (0..groups).for_each(|_| text.push_str(&group(chance)));
    text
}

fn group(chance: &mut Chance) -> String {
    let (network, pattern, expression) = (
        chance.one(&NETWORKS),
        chance.one(&PATTERNS),
        chance.one(&EXPRESSIONS),
    );
    let field = chance.one(&["User-Agent", "Referer", "Cookie", "X-Tag", "Remote_Addr"]);
    match chance.below(11) {
        0 => {
            format!("<RequireAll>\nRequire all granted\nRequire not ip {network}\n</RequireAll>\n")
        }
        1 => format!("Require ip {network} 127.0.0.1\n"),
        2 => format!("Order allow,deny\nAllow from all\nDeny from {network} env=bot\n"),
        3 => format!("SetEnvIfNoCase {field} \"{pattern}\" bot=yes quiet\n"),
        4 => format!("SetEnvIf {field} \"{pattern}\" bot=$1\n"),
        5 => format!("BrowserMatchNoCase \"{pattern}\" bot=yes !quiet\n"),
        6 => format!("<RequireAny>\nRequire expr {expression}\nRequire env bot\n</RequireAny>\n"),
        7 => format!("<If \"{expression}\">\nHeader set X-If yes\nForceType text/x-if\n</If>\n"),
        8 => format!(
            "Header set X-Bot yes env=bot\nHeader set X-Expr \"yes\" \"expr={expression}\"\n"
        ),
        _ => rewrite(chance),
    }
}

fn rewrite(chance: &mut Chance) -> String {
    let mut text = String::new();
    for _ in 0..chance.below(4) {
        let (variable, not) = (chance.one(&VARIABLES), chance.one(&["", "!"]));
        let (pattern, flags) = (
            chance.one(&PATTERNS),
            chance.one(&["", " [NC]", " [OR]", " [NC,OR]", " [NV]"]),
        );
        text.push_str(&format!(
            "RewriteCond %{{{variable}}} \"{not}{pattern}\"{flags}\n"
        ));
    }
    text.push_str(chance.one(&[
        "RewriteRule page - [F]\n",
        "RewriteRule ^b/page\\.html$ /a/b/other.html [L]\n",
        "RewriteRule page - [E=bot:yes]\n",
        "RewriteRule page - [E=bot:%1]\n",
        "RewriteRule page /elsewhere?%1 [R=302,L]\n",
        "RewriteRule ^(.*)$ - [E=quiet:1]\n",
        "RewriteRule page - [T=text/x-rewritten]\n",
    ]));
    text
}

/// The request fields and the target of one request.
fn request(chance: &mut Chance) -> (String, Vec<(&'static str, &'static str)>) {
    let path = chance.one(&["/a/b/page.html", "/a/b/page.html", "/a/b/other.html", "/"]);
    let query = chance.one(&["", "", "?id=abc", "?id=abc&x=1", "?123"]);
    let values: [(&str, &[&str]); 4] = [
        (
            "User-Agent",
            &["Mozilla/5.0", "Examplebot/1", "curl/8.1", "", "wget/123"],
        ),
        (
            "Referer",
            &[
                "https://example.com/x",
                "https://www.example.com/y",
                "https://other.test/",
                "",
            ],
        ),
        ("Cookie", &["logged_in=1", "a=b; logged_in=2", "a=b"]),
        ("X-Tag", &["one", "TWO", "bot"]),
    ];
    let mut fields = Vec::new();
    for (name, values) in values {
        if chance.below(3) > 0 {
            fields.push((name, chance.one(values)));
        }
        // Repeated fields are one text for rules.
        if name == "X-Tag" && chance.below(6) == 0 {
            fields.push((name, chance.one(values)));
        }
    }
    (format!("{path}{query}"), fields)
}

#[test]
fn cached_answers_are_those_of_full_dispatch() {
    let seed = env::var("SAKER_RULE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let pairs = env::var("SAKER_RULE_PAIRS")
        .ok()
        .and_then(|pairs| pairs.parse().ok());
    let (seed, pairs) = (seed.unwrap_or(0x5A4E_2026), pairs.unwrap_or(PAIRS));
    let mut chance = Chance(seed);
    let site = Site::start(
        "request-rules",
        "SetEnvIf User-Agent \"bot\" bot=server\nBrowserMatch \"^curl\" quiet",
    );
    let before = site.hits();
    for set in 0..pairs.div_ceil(REQUESTS_PER_SET) {
        let rules = rules(&mut chance);
        site.set_rules(&rules);
        let mut clients: Vec<Client> = (1..=3).map(|from| site.connect(from)).collect();
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
                "seed {seed:#x}, set {set}: {method} {target} {fields:?} from 127.0.0.{}\n{rules}",
                from + 1
            );
        }
    }
    // Workers report what they have counted every now and then.
    wait_until_or(
        || (site.hits() - before) as usize > pairs / 3,
        || {
            let hits = site.hits() - before;
            format!("{hits} hits of {pairs}: too few to compare anything")
        },
    );
}

/// A server on which every hit of the route cache is compared with full dispatch.
fn compared(name: &str, rules: &str) -> (ServerProcess, TempDir) {
    let dir = TempDir::new(name).unwrap();
    for name in ["www/page.html", "www/closed/page.html"] {
        let path = dir.write(name, "page").unwrap();
        let file = fs::File::options().write(true).open(path);
        let before = SystemTime::now() - Duration::from_secs(3600);
        file.unwrap().set_modified(before).unwrap();
    }
    let (root, modules) = (dir.display(), load_modules(&MODULES));
    let text = format!(
        "ServerRoot {root}\n{modules}Listen {{address}}\nServerName localhost\nMaxKeepAliveRequests 0\nDocumentRoot {root}/www\n\
         ErrorLogFormat \"%L %a %M\"\nErrorLog {root}/error.log\nLogFormat \"%>s %L %a %U%q\" ids\n\
         CustomLog {root}/access.log ids\n<Directory {root}>\nRequire all granted\n</Directory>\n{rules}\n"
    );
    let server = operate::apache(&text).env("SAKER_COMPARE_HITS", "3");
    (server.workers(1).start_in(&dir), dir)
}

/// Each denied request has its line in the error log, under the id that the access log shows.
#[test]
fn denials_from_the_route_cache_write_their_lines() {
    let (server, dir) = compared(
        "denial-lines",
        "<Location /closed>\n<RequireAll>\nRequire all granted\nRequire not ip 127.0.0.2\n</RequireAll>\n</Location>",
    );
    let connect = |from: u8| {
        let source = SocketAddr::from(([127, 0, 0, from], 0));
        Client::connect_from(source, server.address()).unwrap()
    };
    let (mut denied, mut admitted) = (connect(2), connect(3));
    const ROUNDS: usize = 20;
    for _ in 0..ROUNDS {
        assert_eq!(denied.get("/closed/page.html").unwrap().status, 403);
        assert_eq!(admitted.get("/closed/page.html").unwrap().status, 200);
    }
    let lines = |name: &str, of: &str| -> Vec<String> {
        let text = fs::read_to_string(dir.join(name)).unwrap_or_default();
        let lines = text.lines().filter(|line| line.contains(of));
        lines.map(str::to_owned).collect()
    };
    let errors = || lines("error.log", "client denied by server configuration");
    operate::wait_until("each denial has its line", || errors().len() == ROUNDS);
    operate::wait_until("each request has its line", || {
        lines("access.log", "/closed").len() == 2 * ROUNDS
    });
    let mut ids: Vec<String> = errors()
        .iter()
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    for (error, access) in errors().iter().zip(lines("access.log", "403 ")) {
        let id = error.split(' ').next().unwrap();
        assert!(error.contains("127.0.0.2"), "{error}");
        assert!(
            access.starts_with(&format!("403 {id} 127.0.0.2 ")),
            "{access} {error}"
        );
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), ROUNDS, "each request has an id of its own");
    operate::wait_until("they are hits", || hits_of(&dir) > ROUNDS as u64);
}

/// A location has the host, the path, and the query of the request that it answers.
#[test]
fn redirects_from_the_route_cache_are_those_of_the_request() {
    let (server, dir) = compared(
        "redirect-parts",
        "RewriteEngine On\nRewriteRule ^/rewritten/(.*)$ https://%{HTTP_HOST}/$1 [R=301,L]\n\
         RewriteRule ^/bare$ https://other.test/? [R=302,L]\nRewriteRule ^/added$ https://other.test/?a=b [R=302,QSA,L]\n\
         RewriteRule ^/agent$ https://other.test/%{HTTP:X-Tag} [R=302,L]\nRedirect 302 /alias https://other.test/alias",
    );
    let mut client = Client::connect(server.address()).unwrap();
    let mut ask = |host: &str, target: &str, tag: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nX-Tag: {tag}\r\n\r\n");
        client.send(&request).unwrap();
        let response = client.read_response().unwrap();
        response.field("location").unwrap_or_default().to_owned()
    };
    for round in 0..30 {
        let (host, tag) = (["a.test", "b.test"][round % 2], ["x", "y"][round % 2]);
        for (query, added) in [("", "?a=b"), ("?q=1", "?a=b&q=1"), ("?q=2", "?a=b&q=2")] {
            let rows = [
                ("rewritten/p", format!("https://{host}/p{query}")),
                ("bare", "https://other.test/".to_owned()),
                ("added", format!("https://other.test/{added}")),
                ("agent", format!("https://other.test/{tag}{query}")),
                ("alias/p", format!("https://other.test/alias/p{query}")),
            ];
            for (path, location) in rows {
                assert_eq!(ask(host, &format!("/{path}{query}"), tag), location);
            }
        }
    }
    operate::wait_until("they are hits", || hits_of(&dir) > 350);
}

fn hits_of(dir: &std::path::Path) -> u64 {
    let state = dir.join("state").display().to_string();
    let output = operate::saker(["status", "--prometheus", "--state-dir", &state]);
    let text = operate::stdout(&output);
    let line = text
        .lines()
        .find(|line| line.starts_with("saker_resource_cache_hits_total"))
        .unwrap_or_else(|| panic!("{text}{}", operate::stderr(&output)));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}
