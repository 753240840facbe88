//! Upstreams and programs behind the rules of Apache and nginx: a request that follows a kept decision
//! is told to the upstream, and answered, as one that goes through all phases, whatever the rules,
//! whatever came before.
//!
//! Each request is sent twice: as it is, and with `Content-Length: 0`, or, if it has content, with
//! `Expect: 100-continue`, which follows no decision. Rule
//! sets and requests are generated; the seed is printed with a failure. Every third hit is compared
//! inside of the server, too. `SAKER_RULE_PAIRS` sets how many pairs are compared.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::{
    operate,
    route_matchers::{Chance, fields_without, hits, upstream},
};
use saker_testkit::{
    Client, Response, Saker, TempDir, apache2::load_modules, free_port, saker::Builder, wait_until,
};
use std::{env, net::SocketAddr};

const PAIRS: usize = 400;
const REQUESTS_PER_SET: usize = 50;

const MODULES: [&str; 10] = [
    "mpm_event",
    "authz_core",
    "authz_host",
    "access_compat",
    "alias",
    "env",
    "headers",
    "proxy",
    "proxy_http",
    "setenvif",
];

/// Rules of the host.
const APACHE_RULES: [&str; 15] = [
    "SetEnvIf User-Agent bot is_bot",
    "SetEnvIf X-Tag ^one no-proxy",
    "SetEnvIf Remote_Addr 127.0.0.2 second=yes",
    "BrowserMatch Mozilla browser=$0",
    "RequestHeader set X-Bot bot env=is_bot",
    "RequestHeader set X-Query %{QUERY_STRING}e",
    "RequestHeader unset X-Tag",
    "RequestHeader set X-Second second env=second",
    "Header set X-Answer \"expr=%{HTTP:X-Tag}\"",
    "<Location /a/>\nRequire not-a-bot\n</Location>",
    "<Location /a/b>\nSetEnv place b\nRequestHeader set X-Place %{place}e\n</Location>",
    "<If \"%{QUERY_STRING} =~ /q=c/\">\nRequire all denied\n</If>",
    "Redirect 302 /a/c /elsewhere",
    "<Proxy *>\n<RequireAll>\nRequire all granted\nRequire not ip 127.0.0.3\n</RequireAll>\n</Proxy>",
    "ProxyPreserveHost On",
];

const APACHE_PASSES: [&str; 5] = [
    "ProxyPass /a/c !\nProxyPass /a/ http://UPSTREAM/x/",
    "ProxyPass /a/ http://UPSTREAM/\nProxyPassReverse /a/ http://UPSTREAM/",
    "ProxyPassMatch ^/a/(.*)$ http://UPSTREAM/m/$1",
    "ProxyPass /a/ http://UPSTREAM/n/ nocanon",
    "<Location /a/>\nProxyPass http://UPSTREAM/l/\n</Location>",
];

/// Rules of the server, in front of its locations.
const NGINX_SERVER: [&str; 9] = [
    "if ($http_user_agent ~ bot) { return 403; }",
    "if ($arg_q = c) { set $tagged yes; }",
    "if ($http_cookie ~ \"s=(x.*)\") { set $crumb $1; }",
    "rewrite ^/a/c(.*)$ /a/b$1?r=2 last;",
    "set $tagged $http_x_tag;",
    "deny 127.0.0.3;",
    "error_page 403 = @refused;",
    "add_header X-Answer $http_x_tag always;",
    "proxy_intercept_errors on;",
];

const NGINX_LOCATION: [&str; 14] = [
    "proxy_set_header X-Real-IP $remote_addr;",
    "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
    "proxy_set_header X-Tagged $tagged-$crumb;",
    "proxy_set_header X-Device $device;",
    "proxy_set_header Host $host;",
    "proxy_set_header X-Query $args;",
    "if ($http_x_tag = one) { set $crumb tag; }",
    "if ($device = robot) { return 404; }",
    "limit_except GET { deny 127.0.0.2; }",
    "rewrite ^/a/(.*)$ /r/$1 break;",
    "rewrite ^/a/b /r/none? break;",
    "allow 127.0.0.1; deny 127.0.0.2;",
    "set $args q=set;",
    "gzip on;",
];

const NGINX_TRIED: [&str; 6] = [
    "try_files $uri @named;",
    "try_files $uri /b/fallback?$args;",
    "try_files $uri /b/fallback$is_args$args;",
    "try_files $uri /b/fallback?q=a&$args;",
    "try_files $uri /b/fallback;",
    "try_files $uri /b/again?$args;",
];

const NGINX_PASSES: [&str; 5] = [
    "proxy_pass http://UPSTREAM;",
    "proxy_pass http://UPSTREAM/base/;",
    "proxy_pass http://UPSTREAM/$device;",
    "proxy_pass http://UPSTREAM/q$is_args$args;",
    "proxy_pass http://back/base/;",
];

/// Some of the texts, in the order in which they stand.
fn some(chance: &mut Chance, of: &[&str], share: usize) -> String {
    let lines = of.iter().filter(|_| chance.below(share) == 0);
    lines.map(|line| format!("{line}\n")).collect()
}

fn apache(chance: &mut Chance, upstream: &str, _: &TempDir) -> Builder {
    let rules = some(chance, &APACHE_RULES, 4).replace(
        "Require not-a-bot",
        "<RequireAll>\nRequire all granted\nRequire not expr %{HTTP:User-Agent} =~ /BOT/\n</RequireAll>",
    );
    let pass = chance.one(&APACHE_PASSES);
    let modules = load_modules(&MODULES);
    let text = format!(
        "ServerRoot {{dir}}\n{modules}Listen {{address}}\nServerName localhost\nMaxKeepAliveRequests 0\n\
         DocumentRoot {{dir}}/www\n<Directory {{dir}}/www>\nRequire all granted\n</Directory>\n{rules}{pass}\n"
    );
    operate::apache(&text.replace("UPSTREAM", upstream))
}

/// Modules besides, for programs.
const MORE_MODULES: [&str; 4] = ["dir", "mime", "rewrite", "actions"];

/// The end of what WordPress writes.
const WORDPRESS: &str = "RewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
    RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]";

/// Rules of a folder with programs.
const HTACCESS: [&str; 22] = [
    "RewriteEngine On",
    "RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]",
    "SetEnvIf User-Agent bot is_bot",
    "SetEnvIf Authorization (.+) said=$1",
    "RewriteCond %{HTTP_USER_AGENT} BOT\nRewriteRule .* - [F]",
    "RewriteCond %{QUERY_STRING} q=c\nRewriteRule .* - [E=seen:%{QUERY_STRING}]",
    "RewriteCond %{HTTP_COOKIE} s=(x.*)\nRewriteRule .* - [E=crumb:%1]",
    "RewriteRule ^p/(.*)$ /index.php?page=$1 [L,QSA]",
    "RewriteRule ^p/(.*)$ /index.php?page=$1 [L]",
    "RewriteRule ^z/ /index.php? [L]",
    "RewriteRule ^z/(.*) real.php/$1 [END]",
    WORDPRESS,
    "FallbackResource /index.php",
    "DirectoryIndex none.html index.php",
    "SetEnv place here",
    "<Files real.php>\nSetEnv place real\nRequestHeader set X-Place %{place}e\n</Files>",
    "RequestHeader set X-Bot bot env=is_bot",
    "Header set X-Answer \"expr=%{HTTP:X-Tag}\"",
    "<RequireAll>\nRequire all granted\nRequire not ip 127.0.0.3\n</RequireAll>",
    "CGIPassAuth On",
    "<If \"%{QUERY_STRING} =~ /r=1/\">\nSetEnv place queried\n</If>",
    "Action application/x-page /real.php\nAddHandler application/x-page .page",
];

/// Programs, and paths that rules lead to them.
const PROGRAM_PATHS: &[&str] = &[
    "/",
    "/index.php",
    "/real.php",
    "/real.php",
    "/real.php/info",
    "/hello-world/",
    "/2026/11/hello-world/",
    "/p/one",
    "/p/two",
    "/z/x",
    "/dir",
    "/dir/",
    "/a/c",
    "/a/file.page",
    "/%72eal.php",
    "/a/../real.php",
];

/// Tells its parameters, but those that count requests.
const TELLING: &str = "<?php\necho 'content=', file_get_contents('php://input'), \"\\n\";\n\
    foreach (['HTTP_EXPECT', 'REMOTE_PORT', 'REQUEST_TIME', 'REQUEST_TIME_FLOAT', 'CONTENT_LENGTH', 'HTTP_CONTENT_LENGTH', 'FCGI_ROLE'] as $own) { unset($_SERVER[$own]); }\n\
    ksort($_SERVER);\nforeach ($_SERVER as $name => $value) { if (is_string($value)) { echo \"$name=$value\\n\"; } }\n";

/// PHP behind rules of a folder, the host's, and WordPress's way to have permalinks.
fn programs(chance: &mut Chance, _: &str, dir: &TempDir) -> Builder {
    for name in ["index.php", "real.php", "dir/index.php"] {
        dir.write(&format!("www/{name}"), TELLING).unwrap();
    }
    dir.write("www/a/file.page", "a page").unwrap();
    let mut rules = some(chance, &HTACCESS[1..], 4);
    if chance.below(4) > 0 {
        rules = format!("{}\n{rules}", HTACCESS[0]);
    }
    dir.write("www/.htaccess", rules).unwrap();
    let host = some(chance, &PROGRAM_RULES, 4);
    let modules = load_modules(&[MODULES.as_slice(), &MORE_MODULES].concat());
    operate::apache(&format!(
        "ServerRoot {{dir}}\n{modules}LoadModule php_module modules/libphp.so\nListen {{address}}\nServerName localhost\nMaxKeepAliveRequests 0\n\
         DocumentRoot {{dir}}/www\nDirectoryIndex index.php\n<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>\n\
         <Directory {{dir}}/www>\nAllowOverride All\nRequire all granted\n</Directory>\n{host}"
    ))
}

/// Rules of the host in front of programs.
const PROGRAM_RULES: [&str; 6] = [
    "RewriteEngine On\nRewriteRule ^/hello-(.*)$ /p/$1",
    "RewriteEngine On\nRewriteCond %{HTTP_COOKIE} t=1\nRewriteRule ^/2026/ /real.php [E=early:yes]",
    "SetEnvIf X-Tag ^one tagged",
    "RequestHeader set X-Early early early",
    "CustomLog {dir}/access.log \"%U %q\" env=!tagged",
    "ErrorDocument 403 /real.php",
];

fn nginx(chance: &mut Chance, upstream: &str, _: &TempDir) -> Builder {
    let server = some(chance, &NGINX_SERVER, 5);
    let mut location = some(chance, &NGINX_LOCATION, 5);
    if chance.below(2) == 0 {
        location.push_str(chance.one(&NGINX_TRIED));
    }
    let pass = chance.one(&NGINX_PASSES);
    let place = chance.one(&["/a/", "^~ /a/", "~ ^/a/(.*)$"]);
    let pass = match place.starts_with('~') {
        // A URL with a path cannot replace a pattern.
        true if !pass.contains('$') => "proxy_pass http://UPSTREAM/g/$1;",
        _ => pass,
    };
    let text = format!(
        "worker_processes 1; events {{ }}\nhttp {{ access_log off; keepalive_requests 100000;\n\
         map $http_user_agent $device {{ default desktop; ~*bot robot; }}\n\
         upstream back {{ server UPSTREAM; keepalive 4; }}\n\
         server {{ listen {{address}}; root {{dir}}/www; set $tagged no; set $crumb no;\n{server}\
         location {place} {{\n{location}{pass} }}\n\
         location @named {{ proxy_pass http://UPSTREAM; }}\n\
         location ~ ^/b/(f.*) {{ set $crumb $1; proxy_set_header X-Crumb $crumb; proxy_set_header X-Args $args;\n\
         proxy_pass http://UPSTREAM; }}\n\
         location /b/again {{ try_files $uri /b/fallback?from=again&$args; proxy_pass http://UPSTREAM; }}\n\
         location @refused {{ proxy_set_header X-Refused yes; proxy_pass http://UPSTREAM; }} }} }}"
    );
    let text = match server.contains("$tagged") || location.contains("$tagged") {
        true => text,
        // Without variables that scripts set.
        false => text.replace("set $tagged no; set $crumb no;", "set $crumb no;"),
    };
    operate::nginx(&text.replace("UPSTREAM", upstream)).workers(1)
}

/// Paths that lead to an upstream.
const PATHS: &[&str] = &["/a/b", "/a/b", "/a/c", "/a/%62", "/a/d/../b"];

/// The target and the request fields of one request.
fn request(
    chance: &mut Chance,
    paths: &[&'static str],
) -> (String, Vec<(&'static str, &'static str)>) {
    let path = chance.one(paths);
    let query = chance.one(&["", "", "?q=a", "?q=c", "?r=1&q=b", "?"]);
    let values: [(&str, &[&str]); 5] = [
        ("X-Forwarded-For", &["192.0.2.7"]),
        ("User-Agent", &["a bot", "Mozilla", "A BOT"]),
        ("X-Tag", &["one", "two", "other"]),
        ("Cookie", &["s=x1", "t=1; s=xy", "t=1"]),
        ("Authorization", &["Basic YTpi", "Basic YzpkCg=="]),
    ];
    let mut fields = Vec::new();
    for (name, values) in values {
        if chance.below(3) > 0 {
            fields.push((name, chance.one(values)));
        }
    }
    (format!("{path}{query}"), fields)
}

/// The parts of a response that must be equal; upstreams may be told of content of no bytes, or of an
/// expectation.
fn essence(response: &Response) -> (u16, Vec<(String, String)>, Vec<String>) {
    let fields = fields_without(
        response,
        &["date", "content-length", "connection", "keep-alive"],
    );
    let body = String::from_utf8_lossy(&response.body).into_owned();
    let is_compared = |line: &&str| {
        let line = line.to_ascii_lowercase();
        !line.starts_with("content-length:") && !line.starts_with("expect:")
    };
    let lines = body.lines().filter(is_compared);
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort();
    (response.status, fields, lines)
}

/// A server with rules that were chosen by chance. It finds its files in the folder; the address is
/// an upstream's.
type FrontEnd = fn(&mut Chance, &str, &TempDir) -> Builder;

/// Sets of rules of a front end, and requests to them.
fn compare(name: &str, front_end: FrontEnd, paths: &[&'static str]) {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("SAKER_RULE_SEED").unwrap_or(0x19_2026);
    let pairs = number("SAKER_RULE_PAIRS").map_or(PAIRS, |pairs: u64| pairs as usize);
    let mut chance = Chance(seed);
    let upstream = upstream().to_string();
    let mut servers: Vec<Saker> = Vec::new();
    for set in 0..pairs.div_ceil(REQUESTS_PER_SET) {
        let dir = TempDir::new(name).unwrap();
        dir.write("www/a/c", "a file").unwrap();
        let builder = front_end(&mut chance, &upstream, &dir).env("SAKER_COMPARE_HITS", "3");
        let saker = builder.start(dir);
        let connect = |from: u8| {
            let source = SocketAddr::from(([127, 0, 0, from], 0));
            Client::connect_from(source, saker.server.address()).unwrap()
        };
        let mut clients: Vec<Client> = (1..=3).map(connect).collect();
        for _ in 0..REQUESTS_PER_SET {
            let from = chance.below(3);
            let (target, fields) = request(&mut chance, paths);
            let method = chance.one(&["GET", "GET", "HEAD", "POST", "POST"]);
            let content = match method {
                "POST" => chance.one(&["a=1", "", "a=2&b=3"]),
                _ => "",
            };
            let length = content.len().to_string();
            let own: &[_] = &[("Content-Length", length.as_str())];
            let expecting = [
                ("Content-Length", length.as_str()),
                ("Expect", "100-continue"),
            ];
            let (plain, walked): (&[_], &[_]) = match method {
                "POST" => (own, &expecting),
                _ => (&[], own),
            };
            let ask = |client: &mut Client, more: &[(&'static str, &str)]| {
                let mut all: Vec<(&str, &str)> = fields.clone();
                all.extend_from_slice(more);
                let content = content.as_bytes();
                client.request_with(method, &target, &all, content).unwrap()
            };
            let answer = ask(&mut clients[from], plain);
            // A connection ends where content that a client holds back is not asked for.
            let walked = ask(&mut connect(from as u8 + 1), walked);
            assert_eq!(
                essence(&answer),
                essence(&walked),
                "seed {seed:#x}, set {set}: {method} {target} {fields:?} `{content}` from 127.0.0.{}, {}",
                from + 1,
                saker.dir.display()
            );
        }
        servers.push(saker);
    }
    // Workers report their counts from time to time.
    wait_until("enough requests followed decisions", || {
        servers.iter().map(hits).sum::<usize>() > pairs / 30
    });
}

#[test]
fn decisions_of_apache_are_those_of_full_dispatch() {
    compare("kept-apache", apache, PATHS);
}

#[test]
fn decisions_before_programs_are_those_of_full_dispatch() {
    compare("kept-programs", programs, PROGRAM_PATHS);
}

#[test]
fn decisions_of_nginx_are_those_of_full_dispatch() {
    compare("kept-nginx", nginx, PATHS);
}

/// Two clients follow one decision; what the upstream is told is of each.
fn follow(builder: Builder, name: &str) {
    let dir = TempDir::new(name).unwrap();
    dir.write("www/index.html", "index").unwrap();
    let saker = builder.start(dir);
    let connect = |from: u8| {
        let source = SocketAddr::from(([127, 0, 0, from], 0));
        Client::connect_from(source, saker.server.address()).unwrap()
    };
    let mut clients = [connect(1), connect(2)];
    let before = hits(&saker);
    const ROUNDS: usize = 10;
    for round in 0..ROUNDS {
        for (number, client) in clients.iter_mut().enumerate() {
            let cookie = format!("sid={number}-{round}");
            let target = format!("/a/x?n={number}-{round}");
            let response = client.request("GET", &target, &[("Cookie", &cookie)]);
            let told = String::from_utf8_lossy(&response.unwrap().body).into_owned();
            let address = format!("127.0.0.{}", number + 1);
            for expected in [
                format!("/up/x?n={number}-{round} HTTP/1.1"),
                cookie,
                format!("X-Client: {address}"),
            ] {
                assert!(told.contains(&expected), "{expected}\n{told}");
            }
        }
        let refused = clients[0].request("GET", "/a/x", &[("User-Agent", "a bot")]);
        assert_eq!(refused.unwrap().status, 403);
    }
    wait_until("all but the first requests are hits", || {
        hits(&saker) >= before + 2 * ROUNDS - 4
    });
}

#[test]
fn clients_of_apache_share_decisions_and_nothing_else() {
    let modules = load_modules(&MODULES);
    follow(
        operate::apache(&format!(
            "ServerRoot {{dir}}\n{modules}Listen {{address}}\nServerName localhost\nMaxKeepAliveRequests 0\n\
             DocumentRoot {{dir}}/www\nBrowserMatch bot is_bot\nProxyPass /a/ http://{}/up/\n\
             RequestHeader set X-Client expr=%{{REMOTE_ADDR}}\n\
             <Proxy *>\nRequire expr %{{HTTP:User-Agent}} !~ /bot/\n</Proxy>\n",
            upstream()
        )),
        "shared-apache",
    );
}

#[test]
fn clients_of_nginx_share_decisions_and_nothing_else() {
    follow(
        operate::nginx(&format!(
            "worker_processes 1; events {{ }}\nhttp {{ access_log off; keepalive_requests 100000;\n\
             server {{ listen {{address}}; if ($http_user_agent ~ bot) {{ return 403; }}\n\
             location /a/ {{ proxy_set_header X-Client $remote_addr; proxy_pass http://{}/up/; }} }} }}",
            upstream()
        ))
        .workers(1),
        "shared-nginx",
    );
}

/// Permalinks of WordPress: from the second request on, all that is done is what is each client's.
#[test]
fn permalinks_follow_decisions() {
    let dir = TempDir::new("kept-permalinks").unwrap();
    dir.write("www/index.php", TELLING).unwrap();
    dir.write(
        "www/.htaccess",
        format!("{}\n{}\n{}", HTACCESS[0], HTACCESS[1], WORDPRESS),
    )
    .unwrap();
    let modules = load_modules(&[MODULES.as_slice(), &MORE_MODULES].concat());
    let saker = operate::apache(&format!(
        "ServerRoot {{dir}}\n{modules}LoadModule php_module modules/libphp.so\nListen {{address}}\nServerName localhost\nMaxKeepAliveRequests 0\n\
         DocumentRoot {{dir}}/www\nDirectoryIndex index.php\n<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>\n\
         <Directory {{dir}}/www>\nAllowOverride All\nRequire all granted\n</Directory>\n"
    ))
    .start(dir);
    let connect = |from: u8| {
        let source = SocketAddr::from(([127, 0, 0, from], 0));
        Client::connect_from(source, saker.server.address()).unwrap()
    };
    let mut clients = [connect(1), connect(2)];
    let before = hits(&saker);
    const ROUNDS: usize = 8;
    let paths = ["/", "/2026/11/hello-world/", "/index.php"];
    for round in 0..ROUNDS {
        for (number, client) in clients.iter_mut().enumerate() {
            for path in paths {
                let cookie = format!("sid={number}-{round}");
                let query = format!("n={number}-{round}");
                let target = format!("{path}?{query}");
                let response = client.request("GET", &target, &[("Cookie", &cookie)]);
                let told = String::from_utf8_lossy(&response.unwrap().body).into_owned();
                let is_redirected = path.len() > "/index.php".len();
                let name = if is_redirected {
                    "REDIRECT_QUERY_STRING"
                } else {
                    "QUERY_STRING"
                };
                for expected in [
                    format!("REQUEST_URI={target}\n"),
                    format!("\nQUERY_STRING={query}\n"),
                    format!("{name}={query}\n"),
                    format!("HTTP_COOKIE={cookie}\n"),
                    format!("REMOTE_ADDR=127.0.0.{}\n", number + 1),
                    "SCRIPT_NAME=/index.php\n".into(),
                    "HTTP_AUTHORIZATION=\n".into(),
                ] {
                    assert!(told.contains(&expected), "{target}: {expected}\n{told}");
                }
            }
        }
    }
    // A shop's basket is posted to the folder, whose index file is looked up by GET.
    let posts = hits(&saker);
    for round in 0..ROUNDS {
        let content = format!("product={round}");
        let length = content.len().to_string();
        let told = clients[0].request_with(
            "POST",
            "/?wc-ajax=add_to_cart",
            &[("Content-Length", &length)],
            content.as_bytes(),
        );
        let told = told.unwrap().text();
        for expected in [
            format!("content={content}\n"),
            "REQUEST_METHOD=POST\n".into(),
            "SCRIPT_NAME=/index.php\n".into(),
            "\nQUERY_STRING=wc-ajax=add_to_cart\n".into(),
        ] {
            assert!(told.contains(&expected), "{expected}\n{told}");
        }
    }
    wait_until("all but the first posts of workers are hits", || {
        hits(&saker) >= posts + ROUNDS - 2
    });
    let bearer = clients[0].request("GET", paths[1], &[("Authorization", "Bearer mine")]);
    let told = String::from_utf8_lossy(&bearer.unwrap().body).into_owned();
    assert!(told.contains("HTTP_AUTHORIZATION=Bearer mine\n"), "{told}");
    let others = clients[1].get(paths[1]).unwrap().text();
    assert!(others.contains("HTTP_AUTHORIZATION=\n"), "{others}");
    wait_until("all but the first requests of workers are hits", || {
        hits(&saker) >= before + 2 * ROUNDS * paths.len() - 2 * paths.len() + ROUNDS - 2
    });
}

/// The page of an error is another path of the same request, and has a decision of its own.
#[test]
fn error_pages_of_nginx_have_decisions_of_their_own() {
    let dead = free_port().unwrap();
    let echo = upstream();
    let saker = operate::nginx(&format!(
        "worker_processes 1; events {{ }}\nhttp {{ access_log off; keepalive_requests 100000;\n\
         upstream dead {{ server 127.0.0.1:{dead} max_fails=0; }}\n\
         server {{ listen {{address}}; error_page 502 = /err; error_page 504 = @named;\n\
         location /a/ {{ proxy_pass http://dead; }}\n\
         location /b/ {{ proxy_pass http://{echo}/up/; }}\n\
         location = /err {{ internal; proxy_pass http://{echo}; }}\n\
         location @named {{ proxy_pass http://{echo}; }} }} }}"
    ))
    .workers(1)
    .start(TempDir::new("kept-errors").unwrap());
    let mut client = Client::connect(saker.server.address()).unwrap();
    for round in 0..6 {
        for (target, passed) in [("/a/x", "/err"), ("/b/x", "/up/x"), ("/a/y", "/err")] {
            let target = format!("{target}?n={round}");
            let response = client.request("GET", &target, &[]).unwrap();
            let told = String::from_utf8_lossy(&response.body).into_owned();
            let path = told.split([' ', '?']).nth(1);
            assert_eq!(path, Some(passed), "{round}: {target}\n{told}");
        }
    }
}
