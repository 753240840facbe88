//! Links on a running server: referrers, signed URLs in every form, pages that come before
//! downloads, and `saker sign-url`.
//!
//! What a good link is says nginx itself, where it has the form, and else the recipe that the
//! module's authors have published (in Perl), so that both sides are never our own.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::http3_client;
use crate::operate;
use crate::operate::{configuration, folder, saker, start_in, stderr, stdout};
use saker_testkit::{Client, Response, Saker, ServerProcess, require, saker::adjustable_clock};
use std::{
    io,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

const FILE: &str = "the film\n";

fn start(site: &str) -> Saker {
    let dir = folder("links");
    adjustable_clock(&dir).unwrap();
    for name in [
        "www/films/a.mp4",
        "www/dl/films/a.mp4",
        "www/s/films/a.mp4",
        "store/films/a.mp4",
    ] {
        dir.write(name, FILE).unwrap();
    }
    dir.write("www/no.png", "no\n").unwrap();
    dir.write("www/img/a.png", "image\n").unwrap();
    dir.write("www/downloads.html", "<p>downloads</p>\n")
        .unwrap();
    start_in(dir, &configuration("workers = 2", site))
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

fn get(saker: &Saker, target: &str, fields: &[(&str, &str)]) -> Response {
    saker
        .connect()
        .unwrap()
        .request("GET", target, fields)
        .unwrap()
}

fn sign(arguments: &[&str]) -> String {
    let output = saker([&["sign-url"], arguments].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).trim_end().to_owned()
}

#[test]
fn referrers_by_host_and_extension() {
    let saker = start(
        "[site.hotlink]\nallow = [\"own\", \"friend.test\"]\nblocked = false\nextensions = [\"png\"]\n\
         [[site.route]]\npath = \"/films/*\"\n[site.route.hotlink]\nallow = [\"own\"]\nnone = false\ninstead = \"/no.png\"\n\
         [[site.route]]\npath = \"/s/*\"\n[site.route.hotlink]\nredirect = \"/downloads.html\"\n",
    );
    let ask = |target: &str, referrer: &str| match referrer {
        "" => get(&saker, target, &[]),
        _ => get(&saker, target, &[("Referer", referrer)]),
    };
    // Each twice: nothing that was decided for one referrer may be kept for another.
    for _ in 0..2 {
        for (referrer, status) in [
            ("", 200),
            ("http://friend.test/x", 200),
            ("http://localhost/", 200),
            ("https://evil.test/", 403),
            ("-", 403),
        ] {
            assert_eq!(ask("/img/a.png", referrer).status, status, "{referrer:?}");
        }
        assert_eq!(
            ask("/downloads.html", "https://evil.test/").status,
            200,
            "another extension"
        );
        let refused = ask("/img/a.png", "https://evil.test/");
        assert_eq!(refused.field("vary"), Some("Referer"));
        for referrer in ["", "https://evil.test/"] {
            let other = ask("/films/a.mp4", referrer);
            assert_eq!((other.status, other.text().as_str()), (200, "no\n"));
            assert_eq!(
                (other.field("vary"), other.field("cache-control")),
                (Some("Referer"), Some("no-store"))
            );
        }
        assert_eq!(ask("/films/a.mp4", "http://localhost:99/").text(), FILE);
        let sent = ask("/s/films/a.mp4", "https://evil.test/");
        assert_eq!(
            (sent.status, sent.field("location")),
            (302, Some("/downloads.html"))
        );
    }
}

/// The forms, with the options of `sign-url` that say the same; the file is below `/dl/`.
const FORMS: &[(&str, &[&str])] = &[
    (
        "address = true",
        &[
            "--form",
            "saker",
            "--sign-address",
            "--address",
            "127.0.0.1",
            "--for",
            "1h",
        ],
    ),
    (
        "form = \"nginx\"",
        &["--form", "nginx", "--address", "127.0.0.1", "--for", "1h"],
    ),
    (
        "form = \"nginx-path\"",
        &["--form", "nginx-path", "--prefix", "/dl"],
    ),
    (
        "form = \"lighttpd\"\nalgorithm = \"md5\"\nlifetime = \"1h\"",
        &[
            "--form",
            "lighttpd",
            "--algorithm",
            "md5",
            "--prefix",
            "/dl/",
        ],
    ),
    (
        "form = \"lighttpd\"\nalgorithm = \"hmac-sha1\"\nlifetime = \"1h\"",
        &[
            "--form",
            "lighttpd",
            "--algorithm",
            "hmac-sha1",
            "--prefix",
            "/dl/",
        ],
    ),
    (
        "form = \"lighttpd\"\nlifetime = \"1h\"",
        &["--form", "lighttpd", "--prefix", "/dl/"],
    ),
    (
        "form = \"mod_auth_token\"\naddress = true\nlifetime = \"1h\"",
        &[
            "--form",
            "mod_auth_token",
            "--sign-address",
            "--address",
            "127.0.0.1",
            "--prefix",
            "/dl/",
        ],
    ),
];

fn signed(rule: &str) -> Saker {
    start(&format!(
        "[[site.route]]\npath = \"/dl/*\"\n[site.route.signed]\nsecret = [\"second\", \"first\"]\n{rule}\n"
    ))
}

#[test]
fn links_made_by_options_and_by_the_configuration_are_good() {
    for (rule, options) in FORMS {
        let server = signed(rule);
        for secret in ["first", "second"] {
            let link = sign(&[*options, &["--secret", secret, "/dl/films/a.mp4"]].concat());
            assert_eq!(get(&server, &link, &[]).text(), FILE, "{link}");
        }
        let link = sign(&[*options, &["--secret", "third", "/dl/films/a.mp4"]].concat());
        assert_eq!(get(&server, &link, &[]).status, 403, "{link}");
        assert_eq!(
            get(&server, "/dl/films/a.mp4", &[]).status,
            403,
            "without a signature"
        );
        let config = server.dir.join("saker.toml");
        let more: Vec<&str> = options
            .iter()
            .copied()
            .skip_while(|word| *word != "--address")
            .take(2)
            .collect();
        let end = if rule.contains("lifetime") || rule.contains("path") {
            &[][..]
        } else {
            &["--for", "5m"]
        };
        let config = [
            &["-c", config.to_str().unwrap()],
            &more[..],
            end,
            &["http://h.test/dl/films/a.mp4"],
        ]
        .concat();
        let link = sign(&config);
        assert_eq!(
            get(&server, link.strip_prefix("http://h.test").unwrap(), &[]).text(),
            FILE,
            "{link}"
        );
    }
}

/// Each bit of each link is changed in turn, the time among them; what then can't be a request is
/// refused, too.
#[test]
fn a_link_with_one_bit_changed_is_refused() {
    for (rule, options) in FORMS {
        let server = signed(rule);
        let link = sign(&[*options, &["--secret", "first", "/dl/films/a.mp4"]].concat());
        let mut client = server.connect().unwrap();
        assert_eq!(client.get(&link).unwrap().status, 200);
        for bit in 0..link.len() * 8 {
            let mut target = link.clone().into_bytes();
            target[bit / 8] ^= 1 << (bit % 8);
            let shown = String::from_utf8_lossy(&target).into_owned();
            match asked(&server, &mut client, &target) {
                // A bit may lead to another resource (`/dl?...`), but never to the file.
                Ok(response) => assert!(
                    response.status != 200 && response.text() != FILE,
                    "{shown}: {}",
                    response.status
                ),
                Err(error) => assert_eq!(
                    error.kind(),
                    io::ErrorKind::UnexpectedEof,
                    "{shown}: {error}"
                ),
            }
        }
    }
}

fn asked(server: &Saker, client: &mut Client, target: &[u8]) -> io::Result<Response> {
    let request = [b"GET ", target, b" HTTP/1.1\r\nHost: h.test\r\n\r\n"].concat();
    client.send(&request)?;
    let response = client.read_response();
    // What is no request ends the connection.
    if !response
        .as_ref()
        .is_ok_and(|response| response.status == 403 || response.status == 404)
    {
        *client = server.connect()?;
    }
    response
}

#[test]
fn expired_links_and_other_addresses() {
    let (past, long_past) = (now() - 1, now() - 7200);
    for (rule, options) in FORMS.iter().filter(|(rule, _)| !rule.contains("path")) {
        let has_lifetime = rule.contains("lifetime");
        let time = if has_lifetime { long_past } else { past }.to_string();
        let options: Vec<&str> = options
            .iter()
            .copied()
            .filter(|word| !["--for", "1h"].contains(word))
            .collect();
        let end = if has_lifetime {
            &["--time", &time][..]
        } else {
            &["--time", &time]
        };
        let link = sign(&[&options, end, &["--secret", "first", "/dl/films/a.mp4"]].concat());
        assert_eq!(get(&signed(rule), &link, &[]).status, 410, "{link}");
        let server = signed(&format!("{rule}\nexpired_status = 403"));
        assert_eq!(get(&server, &link, &[]).status, 403, "{link}");
        if options.contains(&"--address") {
            let other: Vec<&str> = options
                .iter()
                .map(|word| {
                    if *word == "127.0.0.1" {
                        "127.0.0.2"
                    } else {
                        word
                    }
                })
                .collect();
            let time = (now() + u64::from(!has_lifetime) * 60).to_string();
            let link = sign(
                &[
                    &other,
                    &["--time", &time, "--secret", "first", "/dl/films/a.mp4"][..],
                ]
                .concat(),
            );
            assert_eq!(get(&server, &link, &[]).status, 403, "{link} is another's");
        }
    }
}

#[test]
fn files_behind_a_token_may_be_elsewhere() {
    let dir = folder("links");
    dir.write("store/films/a.mp4", FILE).unwrap();
    dir.write("links.secret", "new\nold\n").unwrap();
    let site = "[[site.route]]\npath = \"/dl/*\"\n[site.route.signed]\nform = \"lighttpd\"\nsecret_file = \"{dir}/links.secret\"\nroot = \"{dir}/store\"\n";
    let server = start_in(dir, &configuration("workers = 1", site));
    let file = server.dir.join("links.secret");
    let link = sign(&[
        "--form",
        "lighttpd",
        "--secret-file",
        file.to_str().unwrap(),
        "--prefix",
        "/dl/",
        "/dl/films/a.mp4",
    ]);
    assert_eq!(get(&server, &link, &[]).text(), FILE);
    assert_eq!(get(&server, "/films/a.mp4", &[]).status, 404);
    let explained = saker([
        "explain",
        "-c",
        server.dir.join("saker.toml").to_str().unwrap(),
        "/dl/films/a.mp4",
    ]);
    assert!(
        stdout(&explained).contains("`signed`: there is no signature"),
        "{}",
        stdout(&explained)
    );
}

/// nginx with the same files and secrets.
fn nginx(dir: &std::path::Path) -> ServerProcess {
    let program = require("nginx").unwrap();
    let root = dir.join("www");
    ServerProcess::start_on_free_port(|port| {
        let text = format!(
            "daemon off;\nmaster_process off;\nerror_log stderr;\npid {dir}/nginx.pid;\nevents {{}}\nhttp {{\naccess_log off;\nclient_body_temp_path {dir}/t;\n\
             proxy_temp_path {dir}/t;\nfastcgi_temp_path {dir}/t;\nuwsgi_temp_path {dir}/t;\nscgi_temp_path {dir}/t;\n\
             server {{\nlisten 127.0.0.1:{port};\nroot {root};\n\
             location /s/ {{\nsecure_link $arg_md5,$arg_expires;\nsecure_link_md5 \"$secure_link_expires$uri$remote_addr first\";\n\
             if ($secure_link = \"\") {{ return 403; }}\nif ($secure_link = \"0\") {{ return 410; }}\n}}\n\
             location /dl/ {{\nsecure_link_secret first;\nif ($secure_link = \"\") {{ return 403; }}\nrewrite ^ /films_of/$secure_link;\n}}\n\
             location /films_of/ {{\ninternal;\nalias {root}/dl/;\n}}\n}}\n}}\n",
            dir = dir.display(),
            root = root.display()
        );
        std::fs::write(dir.join("nginx.conf"), text).unwrap();
        let mut command = Command::new(&program);
        command.arg("-c").arg(dir.join("nginx.conf")).arg("-p").arg(dir);
        command
    })
    .unwrap()
}

#[test]
fn nginx_and_saker_take_each_others_links() {
    let saker = start(
        "[[site.route]]\npath = \"/s/*\"\n[site.route.signed]\nform = \"nginx\"\nsecret = \"first\"\n\
         expression = \"$secure_link_expires$uri$remote_addr $secret\"\n\
         [[site.route]]\npath = \"/dl/*\"\n[site.route.signed]\nform = \"nginx-path\"\nsecret = \"first\"\n",
    );
    let nginx = nginx(&saker.dir);
    let end = now() + 3600;
    // As nginx's manual makes them, in the shell.
    let shell = |command: &str| {
        let output = Command::new("sh").args(["-c", command]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let by_shell = |end: u64, address: &str| {
        let hash = shell(&format!(
            "printf %s '{end}/s/films/a.mp4{address} first' | openssl md5 -binary | openssl base64 | tr +/ -_ | tr -d ="
        ));
        format!("/s/films/a.mp4?md5={hash}&expires={end}")
    };
    let hash = shell("printf %s films/a.mp4first | openssl md5 -hex | sed 's/.* //'");
    let (good, expired) = (
        by_shell(end, "127.0.0.1"),
        by_shell(1_700_000_000, "127.0.0.1"),
    );
    let ours = |more: &[&str]| {
        sign(
            &[
                &[
                    "--form",
                    "nginx",
                    "--secret",
                    "first",
                    "--address",
                    "127.0.0.1",
                ],
                more,
                &["/s/films/a.mp4"],
            ]
            .concat(),
        )
    };
    let links = [
        (good.clone(), 200),
        (format!("{good}&x=1"), 200),
        (good.replace("&expires", "==&expires"), 200),
        (ours(&["--for", "1h"]), 200),
        (ours(&["--time", &end.to_string()]), 200),
        (expired.clone(), 410),
        (ours(&["--time", "1700000000"]), 410),
        (expired.replace("1700000000", &end.to_string()), 403),
        (by_shell(end, "127.0.0.2"), 403),
        (good.replace("a.mp4", "b.mp4"), 403),
        (good.replace("md5=", "md5=A"), 403),
        (good.replace("md5=", "md4="), 403),
        (good.replace("&expires", "&expire"), 403),
        ("/s/films/a.mp4".into(), 403),
        (format!("/dl/{hash}/films/a.mp4"), 200),
        (
            sign(&[
                "--form",
                "nginx-path",
                "--secret",
                "first",
                "--prefix",
                "/dl/",
                "/dl/films/a.mp4",
            ]),
            200,
        ),
        (format!("/dl/{hash}/films/b.mp4"), 403),
        (
            format!(
                "/dl/{}/films/a.mp4",
                hash.replace(|c: char| c.is_ascii_digit(), "0")
            ),
            403,
        ),
        (format!("/dl/{hash}"), 403),
        ("/dl/films/a.mp4".into(), 403),
    ];
    assert_eq!(
        ours(&["--time", &end.to_string()]),
        good,
        "the same to the byte"
    );
    for (link, status) in links {
        let theirs = Client::connect(nginx.address())
            .unwrap()
            .get(&link)
            .unwrap();
        let ours = get(&saker, &link, &[]);
        assert_eq!((ours.status, theirs.status), (status, status), "{link}");
        assert!(
            status != 200 || ours.body == theirs.body && ours.text() == FILE,
            "{link}"
        );
    }
}

/// The recipes that stand in mod_secdownload's and mod_auth_token's own documentation.
const RECIPES: &[(&str, &str)] = &[
    (
        "form = \"lighttpd\"\nalgorithm = \"md5\"",
        "md5_hex('first' . $path . $time) . '/' . $time . $path",
    ),
    (
        "form = \"lighttpd\"\nalgorithm = \"hmac-sha1\"",
        "b64(hmac_sha1('/' . $time . $path, 'first')) . '/' . $time . $path",
    ),
    (
        "form = \"lighttpd\"\nalgorithm = \"hmac-sha256\"",
        "b64(hmac_sha256('/' . $time . $path, 'first')) . '/' . $time . $path",
    ),
    (
        "form = \"lighttpd\"\nalgorithm = \"hmac-sha256\"\npath_segments = 1",
        "b64(hmac_sha256('/' . $time . '/films', 'first')) . '/' . $time . $path",
    ),
    (
        "form = \"lighttpd\"\nalgorithm = \"hmac-sha256\"\nquery = true",
        "b64(hmac_sha256('/' . $time . $path . '?a=1', 'first')) . '/' . $time . $path . '?a=1'",
    ),
    (
        "form = \"mod_auth_token\"",
        "md5_hex('first' . $path . $time) . '/' . $time . $path",
    ),
    (
        "form = \"mod_auth_token\"\naddress = true",
        "md5_hex('first' . $path . $time . '127.0.0.1') . '/' . $time . $path",
    ),
];

#[test]
fn links_made_by_published_recipes_are_good() {
    for (rule, recipe) in RECIPES {
        let server = signed(rule);
        let link = |time: u64| {
            let script = format!(
                "use Digest::MD5 'md5_hex'; use Digest::SHA qw(hmac_sha1 hmac_sha256); use MIME::Base64 'encode_base64url';\n\
                 sub b64 {{ encode_base64url($_[0]) }}\nmy $path = '/films/a.mp4'; my $time = sprintf('%08x', {time});\nprint '/dl/' . {recipe};"
            );
            let output = Command::new(require("perl").unwrap())
                .args(["-e", &script])
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            stdout(&output)
        };
        let good = link(now());
        assert_eq!(get(&server, &good, &[]).text(), FILE, "{good}");
        assert_eq!(get(&server, &link(now() - 120), &[]).status, 410);
        assert_eq!(
            get(&server, &link(now() + 120), &[]).status,
            410,
            "lighttpd's tolerance goes both ways"
        );
        assert_eq!(
            get(&server, &good.replace("a.mp4", "b.mp4"), &[]).status,
            if rule.contains("segments") { 404 } else { 403 }
        );
    }
}

/// mod_auth_token's own directives, with links by the recipe of its documentation.
#[test]
fn mod_auth_token_of_apache_configurations() {
    let dir = folder("links-apache");
    dir.write("www/dl/films/a.mp4", FILE).unwrap();
    dir.write("www/own/films/a.mp4", FILE).unwrap();
    dir.write("www/free.txt", "free\n").unwrap();
    let configuration = "ServerRoot {dir}\nListen {address}\nLoadModule mpm_event_module modules/mod_mpm_event.so\n\
         LoadModule authz_core_module modules/mod_authz_core.so\nLoadModule auth_token_module modules/mod_auth_token.so\n\
         DocumentRoot {dir}/www\n<Directory />\nRequire all granted\n</Directory>\n\
         AuthTokenSecret first\nAuthTokenPrefix /dl/\nAuthTokenTimeout 100\n\
         <Location /own/>\nAuthTokenPrefix /own\nAuthTokenLimitByIp on\n</Location>\n";
    let server = operate::apache(configuration).start(dir);
    let link = |prefix: &str, address: &str, time: u64| {
        let script = format!(
            "use Digest::MD5 'md5_hex'; my $path = '/films/a.mp4'; my $time = sprintf('%08x', {time});\n\
             print '{prefix}' . md5_hex('first' . $path . $time . '{address}') . '/' . $time . $path;"
        );
        stdout(
            &Command::new(require("perl").unwrap())
                .args(["-e", &script])
                .output()
                .unwrap(),
        )
    };
    // Each twice: nothing that was found for a good link may be kept for others.
    for _ in 0..2 {
        for (target, status) in [
            (link("/dl/", "", now()), 200),
            (link("/own/", "127.0.0.1", now()), 200),
            (link("/dl/", "", now() - 200), 410),
            (link("/dl/", "", now()).replace("a.mp4", "b.mp4"), 403),
            (link("/own/", "", now()), 403),
            (link("/own/", "127.0.0.2", now()), 403),
            ("/dl/films/a.mp4".into(), 403),
            ("/own/films/a.mp4".into(), 403),
            ("/free.txt".into(), 200),
        ] {
            let response = get(&server, &target, &[]);
            assert_eq!(response.status, status, "{target}");
            assert!(
                status != 200 || ["free\n", FILE].contains(&response.text().as_str()),
                "{target}"
            );
        }
    }
}

#[test]
fn wrong_usage_of_sign_url_says_why() {
    for (arguments, why) in [
        (
            &["--form", "nginx", "--secret", "x", "--for", "1h", "/a"][..],
            "add --address",
        ),
        (
            &["--form", "saker", "--secret", "x", "--address", "::1", "/a"],
            "remove --address",
        ),
        (
            &["--form", "nginx", "--secret", "x", "--address", "::1", "/a"],
            "for how long it is good",
        ),
        (
            &[
                "--form",
                "nginx-path",
                "--secret",
                "x",
                "--prefix",
                "/b/",
                "--for",
                "1h",
                "/b/a",
            ],
            "have no end",
        ),
        (
            &[
                "--form",
                "nginx-path",
                "--secret",
                "x",
                "--prefix",
                "/b/",
                "--time",
                "2000000000",
                "/b/a",
            ],
            "have no end",
        ),
        (
            &["--form", "saker", "--secret", "x", "--sign-host", "/a"],
            "give the full URL",
        ),
        (
            &[
                "--form",
                "nginx",
                "--secret",
                "x",
                "--expression",
                "$host$uri $secret",
                "/a",
            ],
            "give the full URL",
        ),
        (
            &["--form", "lighttpd", "--secret", "x", "--for", "1h", "/a"],
            "`lifetime`",
        ),
        (
            &[
                "--form", "lighttpd", "--secret", "x", "--prefix", "/b/", "/a",
            ],
            "not below /b/",
        ),
        (&["--form", "saker", "/a"], "missing `secret`"),
        (&["--form", "apache", "--secret", "x", "/a"], "must be"),
        (
            &["--form", "saker", "--secret", "x", "--for", "1", "/a"],
            "a number with a unit",
        ),
    ] {
        let output = saker([&["sign-url"], arguments].concat());
        assert!(
            !output.status.success() && stderr(&output).contains(why),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_page_before_its_downloads() {
    for by in ["address", "cookie"] {
        let saker = start(&format!(
            "[site.trigger]\npages = [\"/downloads.html\"]\nfiles = [\"/films/*\"]\nwithin = \"1h\"\nby = \"{by}\"\n\
             [[site.route]]\npath = \"/dl/*\"\n[site.route.trigger]\npages = [\"/downloads.html\"]\nfiles = [\"/dl/*\"]\nredirect = \"/downloads.html\"\n"
        ));
        assert_eq!(get(&saker, "/films/a.mp4", &[]).status, 403, "{by}");
        let sent = get(&saker, "/dl/films/a.mp4", &[]);
        assert_eq!(
            (sent.status, sent.field("location")),
            (302, Some("/downloads.html"))
        );
        // Twice: the page is kept by now, and has to be noticed all the same.
        for _ in 0..2 {
            let page = get(&saker, "/downloads.html", &[]);
            let cookie = page
                .field("set-cookie")
                .map(|cookie| cookie.split(';').next().unwrap().to_owned());
            assert_eq!(cookie.is_some(), by == "cookie");
            let fields: Vec<(&str, &str)> = cookie
                .iter()
                .map(|cookie| ("Cookie", cookie.as_str()))
                .collect();
            let file = get(&saker, "/films/a.mp4", &fields);
            assert_eq!((file.status, file.text().as_str()), (200, FILE), "{by}");
            let changed: Vec<(&str, String)> = cookie
                .iter()
                .map(|cookie| ("Cookie", format!("{cookie}x")))
                .collect();
            let changed: Vec<(&str, &str)> = changed
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            assert_eq!(
                get(&saker, "/films/a.mp4", &changed).status,
                if by == "cookie" { 403 } else { 200 }
            );
        }
    }
}

#[test]
fn a_page_opens_its_downloads_for_a_time() {
    let saker = start(
        "[site.trigger]\npages = [\"/downloads.html\"]\nfiles = [\"/films/*\"]\nwithin = \"1s\"\n",
    );
    assert_eq!(get(&saker, "/downloads.html", &[]).status, 200);
    saker.advance_clock(3).unwrap();
    assert_eq!(get(&saker, "/films/a.mp4", &[]).status, 403);
}

#[test]
fn links_over_http2_and_http3() {
    let dir = folder("links");
    dir.write("www/dl/a.mp4", FILE).unwrap();
    dir.write("www/img/a.png", "image\n").unwrap();
    let site = "[site.hotlink]\nallow = [\"own\"]\nextensions = [\"png\"]\n\
                [[site.route]]\npath = \"/dl/*\"\n[site.route.signed]\nsecret = \"first\"\naddress = true\n";
    let saker = http3_client::site::start_with(dir, "", site);
    let link = sign(&[
        "--form",
        "saker",
        "--secret",
        "first",
        "--sign-address",
        "--address",
        "127.0.0.1",
        "--for",
        "1h",
        "/dl/a.mp4",
    ]);
    let mut http3 = http3_client::Client::default().connect(&saker.server.address().to_string());
    let curl = |version: &str, target: &str, referrer: &str| {
        let url = format!(
            "https://localhost:{}{target}",
            saker.server.address().port()
        );
        let mut command = Command::new(require("curl").unwrap());
        command.args([
            "-sk",
            version,
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-e",
            referrer,
            "--resolve",
        ]);
        command
            .arg(format!(
                "localhost:{}:127.0.0.1",
                saker.server.address().port()
            ))
            .arg(url);
        stdout(&command.output().unwrap())
    };
    for (target, referrer, status) in [
        (link.as_str(), "", 200),
        (&link.replace("a.mp4", "b.mp4"), "", 403),
        ("/dl/a.mp4", "", 403),
        ("/img/a.png", "https://localhost/", 200),
        ("/img/a.png", "https://evil.test/", 403),
    ] {
        for version in ["--http1.1", "--http2"] {
            assert_eq!(
                curl(version, target, referrer),
                status.to_string(),
                "{target} {version}"
            );
        }
        assert_eq!(
            http3
                .ask("GET", target, &[("referer", referrer)], b"")
                .status,
            status,
            "{target}"
        );
    }
}
