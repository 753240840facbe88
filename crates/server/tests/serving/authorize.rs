//! `authorize`: requests that pass only if another server or a FastCGI authorizer allows them.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{Response, Saker, TempDir, require};
use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

type Heads = Arc<Mutex<Vec<String>>>;

/// Head and content of the next request; `None` at the end.
fn read_request(stream: &mut TcpStream) -> Option<(String, String)> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
            let length = field(&head, "content-length").map_or(0, |length| length.parse().unwrap());
            if bytes.len() >= at + 4 + length {
                return Some((head, String::from_utf8_lossy(&bytes[at + 4..]).into_owned()));
            }
        }
        match stream.read(&mut piece) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    }
}

fn field(head: &str, name: &str) -> Option<String> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines
        .filter(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.to_owned())
        .next()
}

/// A server that answers what `answers` says to head and content; its URL, and the heads it has
/// seen.
fn server(answers: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> (String, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (url, seen, answers) = (
        format!("http://{}", listener.local_addr().unwrap()),
        Heads::default(),
        Arc::new(answers),
    );
    let heads = Arc::clone(&seen);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (heads, answers) = (Arc::clone(&heads), Arc::clone(&answers));
            thread::spawn(move || {
                while let Some((head, content)) = read_request(&mut stream) {
                    let answer = answers(&head, &content);
                    heads.lock().unwrap().push(head);
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, seen)
}

fn answer(status: &str, fields: &str, content: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{content}",
        content.len()
    )
}

/// Lets those pass whose cookie says so.
fn doorkeeper() -> (String, Heads) {
    server(
        |head, _| match field(head, "cookie").unwrap_or_default().as_str() {
            "who=ann" => answer("204 No Content", "Remote-User: ann\r\nSecret: s\r\n", ""),
            "who=bob" => answer("403 Forbidden", "Content-Type: text/plain\r\n", "not bob"),
            "who=broken" => answer("500 Internal Server Error", "", "oh"),
            "who=basic" => answer(
                "401 Unauthorized",
                "WWW-Authenticate: Basic realm=\"door\"\r\n",
                "",
            ),
            _ => answer(
                "302 Found",
                "Location: https://login.example/?rd=x\r\nSet-Cookie: seen=1\r\n",
                "log in",
            ),
        },
    )
}

fn site(lines: &str) -> Saker {
    let dir = TempDir::new("authorize").unwrap();
    dir.write("www/page.txt", "page").unwrap();
    dir.write("www/open/page.txt", "open").unwrap();
    let text = format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n[[listener]]\naddress = \"{{address}}\"\n\n[[site]]\nroot = \"{{dir}}/www\"\n{lines}"
    );
    operate::native(&text).start(dir)
}

fn get(saker: &Saker, target: &str, who: &str) -> Response {
    let cookie = format!("who={who}");
    saker
        .connect()
        .unwrap()
        .request("GET", target, &[("Host", "localhost"), ("Cookie", &cookie)])
        .unwrap()
}

#[test]
fn a_server_says_who_may_see_files() {
    let (url, seen) = doorkeeper();
    let saker = site(&format!(
        "authorize = \"{url}\"\nauthorize_path = \"/verify?a=1\"\n\n[[site.route]]\npath = \"/open/*\"\nauthorize = \"off\"\n"
    ));
    for _ in 0..2 {
        assert_eq!(get(&saker, "/page.txt", "ann").text(), "page");
        let bob = get(&saker, "/page.txt", "bob");
        assert_eq!((bob.status, bob.text()), (403, "not bob".into()));
        let basic = get(&saker, "/page.txt", "basic");
        assert_eq!(
            (basic.status, basic.field("www-authenticate")),
            (401, Some("Basic realm=\"door\""))
        );
        let nobody = get(&saker, "/page.txt?q=1", "nobody");
        assert_eq!((nobody.status, nobody.text()), (302, "log in".into()));
        assert_eq!(
            (nobody.field("location"), nobody.field("set-cookie")),
            (Some("https://login.example/?rd=x"), Some("seen=1"))
        );
        assert_eq!(get(&saker, "/page.txt", "broken").status, 503);
    }
    assert_eq!(get(&saker, "/open/page.txt", "nobody").text(), "open");
    let seen = seen.lock().unwrap();
    assert_eq!(
        seen.len(),
        10,
        "each request is asked about, those for the open ones are not"
    );
    let asked = &seen[3];
    assert!(asked.starts_with("GET /verify?a=1 HTTP/1.1\r\n"), "{asked}");
    for (name, value) in [
        ("host", "localhost"),
        ("x-original-uri", "/page.txt?q=1"),
        ("x-forwarded-method", "GET"),
        ("x-forwarded-proto", "http"),
    ] {
        assert_eq!(field(asked, name).as_deref(), Some(value), "{asked}");
    }
}

/// The server could let one pass, and the application take the other.
#[test]
fn of_two_credentials_none_is_asked_about() {
    let (url, seen) = doorkeeper();
    let saker = site(&format!("authorize = \"{url}\"\n"));
    let line = |value: &'static str| ("Authorization", value);
    let mut client = saker.connect().unwrap();
    let cookie = ("Cookie", "who=ann");
    let fields = [cookie, line("Basic YTpi"), line("Basic cm9vdDp4")];
    assert_eq!(
        client.request("GET", "/page.txt", &fields).unwrap().status,
        400
    );
    assert!(seen.lock().unwrap().is_empty());
    let one = client.request("GET", "/page.txt", &fields[..2]).unwrap();
    assert_eq!(one.text(), "page");
}

#[test]
fn what_it_says_of_the_client_is_told_to_the_application() {
    let (door, asked) = doorkeeper();
    let (application, told) = server(|_, content| answer("200 OK", "", &format!("got {content}")));
    let route = format!(
        "[[site.route]]\npath = \"/app/*\"\nproxy = \"{application}\"\nauthorize = \"{door}\"\n"
    );
    let saker = site(&format!(
        "{route}authorize_fields = [\"Remote-User\", \"Remote-Groups\"]\n"
    ));
    let fields = [
        ("Host", "localhost"),
        ("Cookie", "who=ann"),
        ("remote-user", "root"),
        ("Remote-Groups", "wheel"),
        ("X-Original-URI", "/else"),
        ("X-Forwarded-Host", "open.example"),
        ("X-Forwarded-For", "127.0.0.9"),
        ("X-Original-URL", "http://open.example/"),
        ("X-Real-IP", "127.0.0.9"),
    ];
    let mut client = saker.connect().unwrap();
    let all: String = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    for _ in 0..2 {
        client.send(format!("POST /app/x%20y?z HTTP/1.1\r\n{all}If-None-Match: *\r\nContent-Length: 5\r\n\r\nhello")).unwrap();
        assert_eq!(client.read_response().unwrap().text(), "got hello");
    }
    // Who may not, may not by content either; the connection goes on.
    client.send("POST /app/ HTTP/1.1\r\nHost: localhost\r\nCookie: who=bob\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    assert_eq!(client.read_response().unwrap().status, 403);
    client
        .send("GET /app/ HTTP/1.1\r\nHost: localhost\r\nCookie: who=ann\r\n\r\n")
        .unwrap();
    assert_eq!(client.read_response().unwrap().status, 200);
    let (asked, told) = (asked.lock().unwrap(), told.lock().unwrap());
    assert_eq!((asked.len(), told.len()), (4, 3));
    assert!(
        asked[0].starts_with("GET /app/x%20y?z HTTP/1.1\r\n")
            && field(&asked[0], "content-length").is_none(),
        "{}",
        asked[0]
    );
    assert_eq!(
        field(&asked[0], "x-original-uri").as_deref(),
        Some("/app/x%20y?z")
    );
    // What proxies say of clients is ours to say.
    assert!(
        !asked[0].contains("open.example") && !asked[0].contains("127.0.0.9"),
        "{}",
        asked[0]
    );
    assert_eq!(
        field(&asked[0], "x-original-url").as_deref(),
        Some("http://localhost/app/x%20y?z")
    );
    assert_eq!(
        (
            field(&asked[0], "x-forwarded-host").as_deref(),
            field(&asked[0], "x-forwarded-for").as_deref()
        ),
        (Some("localhost"), Some("127.0.0.1"))
    );
    assert_eq!(
        (
            field(&asked[0], "x-original-method").as_deref(),
            field(&asked[0], "if-none-match")
        ),
        (Some("POST"), None)
    );
    assert_eq!(field(&told[0], "remote-user").as_deref(), Some("ann"));
    assert_eq!(
        (
            told[0].matches("ser: ").count(),
            field(&told[0], "remote-groups"),
            field(&told[0], "secret")
        ),
        (1, None, None),
        "{}",
        told[0]
    );
}

#[test]
fn who_can_not_be_asked_lets_nobody_pass() {
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let saker = site(&format!("authorize = \"http://{gone}\"\n"));
    let response = get(&saker, "/page.txt", "ann");
    assert_eq!(response.status, 503);
    saker
        .server
        .wait_for_stderr("SK0908", std::time::Duration::from_secs(20))
        .unwrap();
}

#[test]
fn an_unknown_name_is_an_error_of_the_configuration() {
    let dir = TempDir::new("authorize-name").unwrap();
    let text = "[[listener]]\naddress = \"127.0.0.1:0\"\n\n[[site]]\nroot = \"/tmp\"\nauthorize = \"dor\"\n\n[[upstream]]\nname = \"door\"\nservers = [\"http://127.0.0.1:1\"]\n";
    let path = dir.write("saker.toml", text).unwrap();
    let output = Command::new(crate::operate::SAKER)
        .args(["check", "-c"])
        .arg(path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(
        !output.status.success()
            && said.contains("unknown upstream \"dor\"")
            && said.contains("did you mean \"door\"?")
            && said.contains(":6:"),
        "{said}"
    );
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], 0, 0][..], content].concat()
}

/// The role that is asked for, and the variables; `None` at the end.
fn hear(stream: &mut UnixStream) -> Option<(u8, HashMap<String, String>)> {
    let (mut role, mut parameters) = (0, Vec::new());
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).ok()?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let mut content = vec![0; length + usize::from(header[6])];
        stream.read_exact(&mut content).ok()?;
        match header[1] {
            1 => role = content[1],
            4 => parameters.extend_from_slice(&content[..length]),
            // An authorizer gets no content (section 6.3), so the end of the variables is the end.
            _ => {}
        }
        if header[1] == 4 && length == 0 {
            return Some((role, variables(&parameters)));
        }
    }
}

fn variables(mut bytes: &[u8]) -> HashMap<String, String> {
    let mut all = HashMap::new();
    let take = |bytes: &mut &[u8]| {
        let (length, rest) = match bytes[0] < 128 {
            true => (usize::from(bytes[0]), &bytes[1..]),
            false => (
                u32::from_be_bytes([bytes[0] & 127, bytes[1], bytes[2], bytes[3]]) as usize,
                &bytes[4..],
            ),
        };
        *bytes = rest;
        length
    };
    while !bytes.is_empty() {
        let (name, value) = (take(&mut bytes), take(&mut bytes));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        all.insert(text(&bytes[..name]), text(&bytes[name..name + value]));
        bytes = &bytes[name + value..];
    }
    all
}

#[test]
fn a_program_in_the_role_of_authorizer() {
    require("sh").unwrap();
    let folder = TempDir::new("authorizer").unwrap();
    let listener = UnixListener::bind(folder.join("door.sock")).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let Some((role, told)) = hear(&mut stream) else {
                continue;
            };
            let is_ann = role == 2
                && told
                    .get("HTTP_COOKIE")
                    .is_some_and(|cookie| cookie == "who=ann")
                && told["REQUEST_METHOD"] == "GET";
            let said: &[u8] = match is_ann {
                true => b"Status: 200\r\nVariable-WHO: ann\r\n\r\n",
                false => b"Status: 403\r\nContent-Type: text/plain\r\n\r\nnot you",
            };
            let _ =
                stream.write_all(&[record(6, said), record(6, b""), record(3, &[0; 8])].concat());
        }
    });
    let door = folder.join("door.sock").display().to_string();
    let saker = site(&format!(
        "authorize = \"fcgi+unix:{door}\"\ncgi = [\"*.sh\"]\n"
    ));
    saker
        .dir
        .write(
            "www/who.sh",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nit is %s' \"$WHO\"\n",
        )
        .unwrap();
    assert!(
        Command::new("chmod")
            .arg("755")
            .arg(saker.dir.join("www/who.sh"))
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(get(&saker, "/who.sh", "ann").text(), "it is ann");
    let bob = get(&saker, "/who.sh", "bob");
    assert_eq!((bob.status, bob.text()), (403, "not you".into()));
    assert_eq!(get(&saker, "/page.txt", "ann").text(), "page");
}

#[test]
fn over_http2_and_in_explanations() {
    let (url, seen) = doorkeeper();
    let saker = site(&format!("authorize = \"{url}\"\n"));
    let target = format!("http://{}/page.txt", saker.server.address());
    let ask = |cookie: &str| {
        let mut command = Command::new(require("curl").unwrap());
        command.args([
            "-s",
            "--http2-prior-knowledge",
            "-w",
            " %{http_code} %{http_version}",
            "-b",
            cookie,
            &target,
        ]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(
        [ask("who=ann"), ask("who=bob")],
        ["page 200 2", "not bob 403 2"]
    );
    assert_eq!(seen.lock().unwrap().len(), 2);
    let mut command = Command::new(crate::operate::SAKER);
    let output = command
        .args(["explain", "-c"])
        .arg(saker.dir.join("saker.toml"))
        .arg(&target)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("is asked whether it may pass"), "{said}");
}
