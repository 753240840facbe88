//! Bot protection of a running server: proof of work (solved here, and by Chromium with and without
//! a secure context), robots verified against a name server of the test's own, and guesses of
//! passwords at WordPress's log-in.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::http3_client;
use crate::operate;
use crate::operate::{configuration, folder, start_in, stdout};
use aws_lc_rs::digest::{SHA256, digest};
use saker_testkit::{Response, Saker, TempDir, poll, require};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

const EASY: &str = "[site.challenge]\nwhen = \"always\"\ndifficulty = 8\n";

fn start(site: &str) -> Saker {
    start_in(folder("visitors"), &configuration("workers = 2", site))
}

fn get(saker: &Saker, target: &str, fields: &[(&str, &str)]) -> Response {
    saker
        .connect()
        .unwrap()
        .request("GET", target, fields)
        .unwrap()
}

/// Solves the challenge as the page's script does: a cookie.
pub fn solve(page: &str) -> String {
    let puzzle = page
        .split("puzzle = \"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let difficulty: u32 = puzzle.split('.').next().unwrap().parse().unwrap();
    let zeros = |text: &str| {
        u32::from_be_bytes(
            digest(&SHA256, text.as_bytes()).as_ref()[..4]
                .try_into()
                .unwrap(),
        )
        .leading_zeros()
    };
    let solution = (0..)
        .map(|number| format!("{puzzle}:{number}"))
        .find(|text| zeros(text) >= difficulty)
        .unwrap();
    format!("saker_work={solution}")
}

/// The pass that is given for the page's work, as a cookie.
fn pass(saker: &Saker, page: &str) -> String {
    let answer = get(saker, "/index.html", &[("Cookie", &solve(page))]);
    let cookies: Vec<&str> = answer.field_values("set-cookie").collect();
    assert!(
        cookies.len() == 2
            && cookies[0].contains("HttpOnly")
            && cookies[1].starts_with("saker_work=; "),
        "{answer:?}"
    );
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (200, "<p>hello</p>\n")
    );
    cookies[0].split(';').next().unwrap().to_owned()
}

#[test]
fn work_is_asked_for_and_worth_a_pass() {
    let saker = start(&format!(
        "{EASY}clearance_time = \"1h\"\n[[site.route]]\npath = \"/open/*\"\nchallenge = \"off\"\nrespond = \"open\"\n"
    ));
    let page = get(&saker, "/index.html", &[]);
    assert_eq!(
        (
            page.status,
            page.field("cache-control"),
            page.field("retry-after")
        ),
        (503, Some("no-store"), Some("10"))
    );
    assert!(
        page.field("content-security-policy")
            .unwrap()
            .contains("script-src 'nonce-")
    );
    let text = page.text();
    for part in [
        "lang=\"en\"",
        "<noscript>",
        "role=\"status\"",
        "aria-live",
        "no time limit",
    ] {
        assert!(text.contains(part), "{part}");
    }
    let cookie = pass(&saker, &text);
    for _ in 0..3 {
        assert_eq!(
            get(
                &saker,
                "/index.html",
                &[("Cookie", &format!("a=b; {cookie}"))]
            )
            .status,
            200
        );
        assert_eq!(
            get(&saker, "/index.html", &[]).status,
            503,
            "what was answered once is not kept for others"
        );
    }
    assert_eq!(get(&saker, "/open/x", &[]).text(), "open");
    assert_eq!(
        get(&saker, "/robots.txt", &[]).status,
        404,
        "robots may read what they may not do"
    );
    // Neither a pass nor a solution that was touched.
    let failed = get(
        &saker,
        "/index.html",
        &[("Cookie", &format!("{cookie}x; saker_work=8.0.0.0:1"))],
    );
    assert!(failed.status == 503 && failed.text().contains("failed = true"));
    let post = saker
        .connect()
        .unwrap()
        .request("POST", "/index.html", &[("Content-Length", "0")])
        .unwrap();
    assert!(
        post.status == 503 && post.text().contains("has not reached the site yet"),
        "{post:?}"
    );
    let head = saker.connect().unwrap().head("/index.html").unwrap();
    assert_eq!((head.status, head.body.len()), (503, 0));
    // Keys outlive a reload, and only the server may read them.
    assert!(operate::reload(&saker).status.success());
    assert_eq!(
        get(&saker, "/index.html", &[("Cookie", &cookie)]).status,
        200
    );
    let keys = saker.dir.join("state/guard.keys");
    operate::wait_until("the keys are kept", || keys.exists());
    assert_eq!(
        fs::metadata(keys).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn who_is_over_a_limit_may_work_for_more() {
    let saker = start(
        "[site.throttle]\nrequests_static = { rate = \"1/m\", burst = 1 }\n[site.challenge]\ndifficulty = 8\nstatus = 403\n",
    );
    let statuses = |cookie: &str| -> Vec<u16> {
        (0..3)
            .map(|_| get(&saker, "/index.html", &[("Cookie", cookie)]).status)
            .collect()
    };
    assert_eq!(statuses("a=b"), [200, 200, 403]);
    for target in ["/robots.txt", "/.well-known/x"] {
        let answer = get(&saker, target, &[]);
        assert!(
            answer.status == 429 && !answer.text().contains("puzzle = "),
            "a limit holds for robots, too, who can't work: {answer:?}"
        );
    }
    let page = get(&saker, "/index.html", &[]);
    let first = pass(&saker, &page.text());
    // One of its places went with the work.
    assert_eq!(statuses(&first), [200, 429, 429]);
    let page = get(&saker, "/index.html", &[]);
    let other = pass(&saker, &page.text());
    assert_eq!(
        statuses(&other),
        [200, 429, 429],
        "each pass has a share of its own"
    );
}

#[test]
fn a_pass_opens_no_place_that_asks_for_more() {
    let hard = "[[site.route]]\npath = \"/hard/*\"\nrespond = \"hard\"\n[site.route.challenge]\nwhen = \"always\"\ndifficulty = 12\nlife = \"1h\"\n";
    let saker = start(&format!("{EASY}{hard}"));
    let page = get(&saker, "/index.html", &[]);
    let (easy, solution) = (pass(&saker, &page.text()), solve(&page.text()));
    let asked = get(&saker, "/hard/x", &[("Cookie", &easy)]);
    assert!(
        asked.status == 503 && asked.text().contains("difficulty = 12"),
        "{asked:?}"
    );
    assert_eq!(
        get(&saker, "/hard/x", &[("Cookie", &solution)]).status,
        503,
        "nor does the work itself"
    );
    let answer = get(
        &saker,
        "/hard/x",
        &[("Cookie", &format!("{easy}; {}", solve(&asked.text())))],
    );
    assert_eq!((answer.status, answer.text().as_str()), (200, "hard"));
    let hard = answer
        .field_values("set-cookie")
        .next()
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    for path in ["/hard/x", "/index.html"] {
        assert_eq!(
            get(&saker, path, &[("Cookie", &hard)]).status,
            200,
            "hard work is good for both: {path}"
        );
    }
    // The numbers in front are signed, too.
    let forged = easy.replacen("=8.", "=12.", 1);
    for cookie in [
        &forged,
        &format!("{easy}; {hard}"),
        &format!("{forged}; {easy}"),
    ] {
        assert_eq!(
            get(&saker, "/hard/x", &[("Cookie", cookie)]).status,
            503,
            "{cookie}"
        );
    }
    let mut client = saker.connect().unwrap();
    client
        .send(format!(
            "GET /hard/x HTTP/1.1\r\nHost: other.test\r\nCookie: {hard}\r\n\r\n"
        ))
        .unwrap();
    assert_eq!(
        client.read_response().unwrap().status,
        503,
        "a pass is of one host"
    );
}

#[test]
fn work_over_http2_and_http3() {
    let saker = http3_client::site::start_with(folder("visitors"), "", EASY);
    let port = saker.server.address().port();
    for version in ["--http1.1", "--http2"] {
        let mut command = Command::new(require("curl").unwrap());
        let url = format!("https://localhost:{port}/index.html");
        let output = command
            .args([
                "-sk",
                version,
                "-w",
                "\n%{http_code}",
                "--resolve",
                &format!("localhost:{port}:127.0.0.1"),
                &url,
            ])
            .output();
        let text = stdout(&output.unwrap());
        assert!(
            text.ends_with("\n503") && text.contains("secure = true"),
            "{version} {text}"
        );
    }
    let mut http3 = http3_client::Client::default().connect(&saker.server.address().to_string());
    let page = http3.get("/index.html");
    assert_eq!(
        (page.status, page.field("cache-control")),
        (503, Some("no-store"))
    );
    let solved = http3.ask(
        "GET",
        "/index.html",
        &[("cookie", &solve(&page.text()))],
        b"",
    );
    let cookie = solved
        .field("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    assert_eq!(
        (
            solved.status,
            http3
                .ask("GET", "/index.html", &[("cookie", &cookie)], b"")
                .status
        ),
        (200, 200)
    );
}

const OWN_PAGE: &str = "<!doctype html>\n<html lang=\"de\">\n<meta charset=\"utf-8\">\n<title>Bitte warten</title>\n\
                        <script type=\"application/json\" id=\"challenge-words\">{\"running\": \"Es wird gerechnet.\", \"done\": \"Fertig.\"}</script>\n\
                        <main>{challenge}</main>\n</html>\n";

#[test]
fn the_page_may_be_the_sites_own() {
    let dir = folder("visitors");
    dir.write("challenge.html", OWN_PAGE).unwrap();
    let saker = start_in(
        dir,
        &configuration(
            "workers = 1",
            &format!("{EASY}page = \"{{dir}}/challenge.html\"\n"),
        ),
    );
    let page = get(&saker, "/index.html", &[]);
    let text = page.text();
    assert!(
        page.status == 503
            && text.starts_with("<!doctype html>\n<html lang=\"de\">")
            && text.ends_with("</main>\n</html>\n"),
        "{text}"
    );
    assert!(
        text.contains("Es wird gerechnet.")
            && text.contains("<noscript>")
            && !text.contains("{challenge}")
            && !text.contains("One moment")
    );
    assert!(
        page.field("content-security-policy")
            .unwrap()
            .contains("img-src 'self' data:")
    );
    let cookie = pass(&saker, &text);
    assert_eq!(
        get(&saker, "/index.html", &[("Cookie", &cookie)]).status,
        200
    );
    // What it is replaced by is looked at before it is in force.
    for (bytes, complaint) in [
        (&b"<p>nothing</p>"[..], "the page has no {challenge}"),
        (
            b"{challenge}{challenge}",
            "the page has {challenge} 2 times",
        ),
        (b"\xff{challenge}", "the page is not valid UTF-8"),
    ] {
        saker.dir.write("challenge.html", bytes).unwrap();
        let refused = operate::reload(&saker);
        let said = stdout(&refused) + &operate::stderr(&refused);
        assert!(
            !refused.status.success() && said.contains(complaint) && said.contains("saker.toml:"),
            "{said}"
        );
        assert_eq!(
            get(&saker, "/index.html", &[]).text().len(),
            text.len(),
            "the page before stays"
        );
    }
}

#[test]
fn work_is_what_lists_and_limits_lead_to_where_that_is_wanted() {
    let site = "[site.access]\ndeny = [\"127.0.0.0/8\"]\ndenied = \"challenge\"\n[site.challenge]\ndifficulty = 8\n";
    let saker = http3_client::site::start_with(folder("visitors"), "", site);
    let port = saker.server.address().port();
    let curl = |version: &str, cookie: &str| {
        let url = format!("https://localhost:{port}/index.html");
        let to = format!("localhost:{port}:127.0.0.1");
        let arguments = [
            "-sk",
            version,
            "-w",
            "\n%{http_code}",
            "--resolve",
            &to,
            "-H",
            cookie,
            &url,
        ];
        stdout(
            &Command::new(require("curl").unwrap())
                .args(arguments)
                .output()
                .unwrap(),
        )
    };
    let mut http3 = http3_client::Client::default().connect(&saker.server.address().to_string());
    let page = http3.get("/index.html");
    assert!(
        page.status == 503 && page.text().contains("puzzle = "),
        "{page:?}"
    );
    let solved = http3.ask(
        "GET",
        "/index.html",
        &[("cookie", &solve(&page.text()))],
        b"",
    );
    let cookie = solved
        .field("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    assert_eq!(
        (
            solved.status,
            http3
                .ask("GET", "/index.html", &[("cookie", &cookie)], b"")
                .status
        ),
        (200, 200),
        "work opens what a list closes"
    );
    for version in ["--http1.1", "--http2"] {
        assert!(
            curl(version, "X-Nothing: 1").ends_with("\n503"),
            "{version}"
        );
        assert!(
            curl(version, &format!("Cookie: {cookie}")).ends_with("\n200"),
            "{version}"
        );
    }

    // Over a limit that work can't lift, its page is shown once, and a status then.
    let saker = start(&format!(
        "[site.throttle]\nrequests_dynamic = {{ rate = \"1/m\", burst = 1 }}\nover = \"challenge\"\n[site.challenge]\ndifficulty = 8\n\
         [[site.route]]\npath = \"/*.php\"\nproxy = \"http://{}\"\n",
        wordpress()
    ));
    let statuses = |cookie: &str| -> Vec<u16> {
        (0..3)
            .map(|_| get(&saker, "/a.php", &[("Cookie", cookie)]).status)
            .collect()
    };
    assert_eq!(statuses("a=b"), [200, 200, 503]);
    let page = get(&saker, "/a.php", &[]);
    assert!(page.text().contains("puzzle = "), "{page:?}");
    let solved = get(&saker, "/a.php", &[("Cookie", &solve(&page.text()))]);
    let cookie = solved
        .field("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    assert_eq!((solved.status, statuses(&cookie)), (429, vec![429; 3]));
    saker
        .server
        .wait_for_stderr("rule=requests_dynamic site=localhost", operate::PATIENCE)
        .unwrap();
}

/// Over plain HTTP a name of its own is no secure context, and the page's own SHA-256 has to do;
/// 127.0.0.1 is one.
#[test]
fn a_browser_does_the_work() {
    for host in ["plain.test", "127.0.0.1"] {
        let site = "access_log = { path = \"{dir}/access.log\", format = \"%s %U\" }\n[site.challenge]\nwhen = \"always\"\ndifficulty = 10\n";
        let saker = start(site);
        let profile = TempDir::new("chromium").unwrap();
        let mut browser = Command::new("timeout")
            .args(["-k", "5", "100"])
            .arg(require("chromium").unwrap())
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
            ])
            .args([
                "--disable-component-update",
                "--disable-sync",
                "--disable-dev-shm-usage",
                "--remote-debugging-port=0",
            ])
            .arg("--host-resolver-rules=MAP plain.test 127.0.0.1")
            .arg(format!("--user-data-dir={}", profile.to_string_lossy()))
            .arg(format!(
                "http://{host}:{}/index.html",
                saker.server.address().port()
            ))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let log = || fs::read_to_string(saker.dir.join("access.log")).unwrap_or_default();
        let _ = poll(Duration::from_secs(90), || {
            log().contains("200 /index.html").then_some(())
        });
        // `timeout` passes it on.
        let _ = Command::new("kill").arg(browser.id().to_string()).status();
        let _ = browser.wait();
        let log = log();
        assert!(
            log.contains("503 /index.html") && log.contains("200 /index.html"),
            "{host}: {log}"
        );
        assert!(
            log.matches("503 /index.html").count() == 1,
            "{host} was asked once: {log}"
        );
    }
}

/// A name server that knows one address and one name.
fn name_server(name: &'static str, back: Ipv4Addr) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let question = &buffer[..length];
            let mut answer = question.to_vec();
            answer[2..4].copy_from_slice(&[0x81, 0x80]);
            answer[7] = 1;
            let kind = question[length - 3];
            let mut data = Vec::new();
            match kind {
                12 => {
                    for label in name.split('.') {
                        data.push(label.len() as u8);
                        data.extend_from_slice(label.as_bytes());
                    }
                    data.push(0);
                }
                _ => data.extend_from_slice(&back.octets()),
            }
            answer.extend_from_slice(&[0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
            answer.extend_from_slice(&data);
            socket.send_to(&answer, client).unwrap();
        }
    });
    address
}

const GOOGLEBOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

#[test]
fn robots_are_verified_by_name_and_back() {
    let here = Ipv4Addr::LOCALHOST;
    // Stays open, so that no other program answers there.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Name server, and what robot, liar (where refused) and browser are answered.
    let rows = [
        (name_server("crawl-1.googlebot.com", here), 200),
        (name_server("crawl-1.googlebot.com.evil.test", here), 403),
        (
            name_server("crawl-1.googlebot.com", Ipv4Addr::new(192, 0, 2, 1)),
            403,
        ),
        // If DNS does not answer, the client is not banned, and gets the challenge as any other.
        (silent.local_addr().unwrap(), 503),
    ];
    for (resolver, status) in rows {
        let saker = start(&format!(
            "{EASY}[site.bot_verification]\nunverified = \"refuse\"\nresolver = \"{resolver}\"\nagents = [\"ExampleBot: googlebot.com\"]\n"
        ));
        for agent in [GOOGLEBOT, "examplebot/1.0", GOOGLEBOT] {
            assert_eq!(
                get(&saker, "/index.html", &[("User-Agent", agent)]).status,
                status,
                "{resolver} {agent}"
            );
        }
        assert_eq!(
            get(&saker, "/index.html", &[("User-Agent", BROWSER)]).status,
            503
        );
    }
    let saker = start(&format!(
        "{EASY}[site.bot_verification]\nresolver = \"{}\"\n",
        name_server("dsl-1.evil.test", here)
    ));
    assert_eq!(
        get(&saker, "/index.html", &[("User-Agent", GOOGLEBOT)]).status,
        503,
        "a liar is as anybody"
    );
}

#[test]
fn verified_robots_pass_limits() {
    let resolver = name_server("crawl-1.googlebot.com", Ipv4Addr::LOCALHOST);
    let saker = start(&format!(
        "[site.throttle]\nrequests_static = {{ rate = \"1/m\", burst = 1 }}\n[site.bot_verification]\nresolver = \"{resolver}\"\n"
    ));
    let statuses = |agent: &str| -> Vec<u16> {
        (0..4)
            .map(|_| get(&saker, "/index.html", &[("User-Agent", agent)]).status)
            .collect()
    };
    assert_eq!(statuses(GOOGLEBOT), [200; 4]);
    assert_eq!(statuses(BROWSER)[3], 429);
    assert_eq!(statuses(GOOGLEBOT), [200; 4]);
}

/// A WordPress that knows one password: `right`.
fn wordpress() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || while answer(&stream).is_some() {});
        }
    });
    address
}

fn answer(stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let is_right = String::from_utf8_lossy(&body).contains("right");
    let (status, fields, text) = match (head.contains("xmlrpc"), is_right) {
        (true, true) => ("200 OK", "", "<methodResponse><params/></methodResponse>"),
        (true, false) => (
            "200 OK",
            "",
            "<methodResponse><fault><name>faultCode</name></fault></methodResponse>",
        ),
        (false, true) => (
            "302 Found",
            "Location: /wp-admin/\r\nSet-Cookie: wordpress_logged_in_1=a%7Cb; path=/\r\n",
            "",
        ),
        (false, false) => ("200 OK", "", "<p>wrong</p>"),
    };
    write!(
        &mut &*stream,
        "HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{text}",
        text.len()
    )
    .ok()
}

fn post(saker: &Saker, path: &str, body: &str) -> u16 {
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut client = saker.connect().unwrap();
    client.send(request).unwrap();
    // 0: the connection was closed without a word.
    client.read_response().map_or(0, |response| response.status)
}

fn guarded(rule: &str) -> Saker {
    start(&format!(
        "[site.logins]\nattempts = 5\nwithin = \"10h\"\n{rule}\n[[site.route]]\npath = \"/*\"\nproxy = \"http://{}\"\n",
        wordpress()
    ))
}

#[test]
fn guesses_at_the_login_are_counted_and_successes_are_not() {
    for (rule, refused) in [
        ("action = \"deny\"", 403),
        ("action = \"drop\"", 0),
        ("action = \"challenge\"", 503),
    ] {
        let saker = guarded(rule);
        for _ in 0..8 {
            assert_eq!(post(&saker, "/wp-login.php", "pwd=right"), 302, "{rule}");
            assert_eq!(
                get(&saker, "/wp-login.php", &[]).status,
                200,
                "only POST counts"
            );
            assert_eq!(
                post(&saker, "/wp-comments-post.php", "a"),
                200,
                "nothing else is looked at"
            );
        }
        let statuses: Vec<u16> = (0..7)
            .map(|_| post(&saker, "/blog/wp-login.php", "pwd=wrong"))
            .collect();
        assert_eq!(
            statuses,
            [200, 200, 200, 200, 200, refused, refused],
            "{rule}"
        );
        assert_eq!(
            post(&saker, "/xmlrpc.php", "right"),
            refused,
            "the doors share what is left"
        );
        assert_eq!(get(&saker, "/wp-login.php", &[]).status, 200);
        saker
            .server
            .wait_for_stderr("address=127.0.0.1 rule=logins site=h", operate::PATIENCE)
            .unwrap();
    }
}

#[test]
fn many_guesses_in_one_request_count_as_many() {
    let call = "<value><struct><member><name>methodName</name><value><string>wp.getUsersBlogs</string></value></member></struct></value>";
    let body = format!(
        "<methodCall><methodName>system.multicall</methodName>{}</methodCall>",
        call.repeat(500)
    );
    let saker = guarded("action = \"deny\"");
    for _ in 0..8 {
        assert_eq!(
            post(
                &saker,
                "/xmlrpc.php",
                "<methodCall><methodName>right</methodName></methodCall>"
            ),
            200
        );
    }
    assert_eq!(post(&saker, "/xmlrpc.php", &body), 200);
    assert_eq!(post(&saker, "/xmlrpc.php", &body), 403);
    assert_eq!(post(&saker, "/wp-login.php", "pwd=wrong"), 403);
}

#[test]
fn throttled_guesses_end_in_429() {
    let saker = start(&format!(
        "[site.logins]\nattempts = 2\nwithin = \"10h\"\n[[site.route]]\npath = \"/*\"\nproxy = \"http://{}\"\n",
        wordpress()
    ));
    let statuses: Vec<u16> = (0..4)
        .map(|_| post(&saker, "/wp-login.php", "pwd=wrong"))
        .collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
}

#[test]
fn wordpress_protect_of_apache_configurations() {
    let dir = folder("visitors");
    let configuration = format!(
        "ServerRoot {{dir}}\nListen {{address}}\nLoadModule proxy_module modules/mod_proxy.so\nLoadModule proxy_http_module modules/mod_proxy_http.so\n\
         LoadModule mpm_event_module modules/mod_mpm_event.so\n\
         LoadModule authz_core_module modules/mod_authz_core.so\nDocumentRoot {{dir}}/www\n<Directory />\nRequire all granted\n</Directory>\n\
         <IfModule LiteSpeed>\nWordPressProtect deny, 5\n</IfModule>\nProxyPass / http://{}/\n<Location /free>\nWordPressProtect off\n</Location>\n",
        wordpress()
    );
    let saker = operate::apache(&configuration).start(dir);
    let statuses: Vec<u16> = (0..7)
        .map(|_| post(&saker, "/wp-login.php", "pwd=wrong"))
        .collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 403, 403]);
    assert_eq!(post(&saker, "/free/wp-login.php", "pwd=wrong"), 200);
}
