//! Logging in: links, passwords, one-time codes, limits, sessions, and TLS.

use crate::{
    console::fixture::{Fixture, Keys, cookie_of},
    operate::{folder, saker, stderr},
    tls_site,
    upgrade::State,
};
use saker_testkit::{Client, PATIENCE, require, saker::adjustable_clock, wait_until};
use std::{net::TcpStream, process::Command};

#[test]
fn a_link_logs_in_once() {
    let fixture = Fixture::start("console-link", "");
    let token = fixture.link();
    // Looking at the page does not use it up: programs that preview links do.
    let page = fixture.page(&format!("/link?token={token}"), "");
    assert!(
        page.status == 200 && page.text().contains(&token),
        "{}",
        page.text()
    );
    let used = fixture.submit("/link", "", &format!("token={token}"));
    assert_eq!((used.status, used.field("location")), (303, Some("/")));
    let set = used.field("set-cookie").unwrap();
    assert!(
        set.contains("HttpOnly; SameSite=Strict") && !set.contains("Secure"),
        "{set}"
    );
    assert_eq!(fixture.page("/", &cookie_of(&used)).status, 200);
    let again = fixture.submit("/link", "", &format!("token={token}"));
    assert!(again.status == 403 && again.field("set-cookie").is_none());
    // Not from another site, and the link is not spent by the attempt.
    let other = fixture.link();
    let fields = ["Sec-Fetch-Site: cross-site".to_owned()];
    assert_eq!(
        fixture
            .ask("POST", "/link", &fields, &format!("token={other}"))
            .status,
        403
    );
    assert_eq!(
        fixture
            .submit("/link", "", &format!("token={other}"))
            .status,
        303
    );
}

/// Connections take no rights, and those that say nothing must not keep operators out.
#[test]
fn silent_connections_take_no_place_of_operators() {
    let fixture = Fixture::start("console-silent", "");
    let cookie = fixture.administrator();
    let connect = || TcpStream::connect(fixture.console).unwrap();
    let silent: Vec<TcpStream> = (0..40).map(|_| connect()).collect();
    for _ in 0..40 {
        assert_eq!(fixture.page("/", &cookie).status, 200);
    }
    drop(silent);
}

#[test]
fn links_and_sessions_grow_old() {
    let dir = folder("console-old");
    adjustable_clock(&dir).unwrap();
    let fixture = Fixture::start_in(dir, &Keys::default());
    let cookie = fixture.administrator();
    let token = fixture.link();
    fixture.saker.advance_clock(301).unwrap();
    assert_eq!(
        fixture
            .submit("/link", "", &format!("token={token}"))
            .status,
        403
    );
    assert_eq!(fixture.page("/", &cookie).status, 200);
    fixture.saker.advance_clock(3_601).unwrap();
    assert_eq!(fixture.page("/", &cookie).status, 303);
}

#[test]
fn passwords_roles_and_the_end_of_sessions() {
    let fixture = Fixture::start("console-passwords", "");
    fixture.add_user("ada", "operator", "correct horse");
    let log_in = |password: &str, cookie: &str| {
        let form = format!("name=ada&password={}", password.replace(' ', "+"));
        fixture.submit("/login", cookie, &form)
    };
    let wrong = log_in("wrong", "");
    assert!(wrong.status == 403 && wrong.field("set-cookie").is_none());
    // A planted session is not taken over.
    let planted = "saker-console=planted";
    let first = cookie_of(&log_in("correct horse", planted));
    assert!(!first.is_empty() && first != planted);
    assert_eq!(fixture.page("/", planted).status, 303);
    assert_eq!(fixture.page("/cache", &first).status, 200);
    assert_eq!(fixture.page("/configuration", &first).status, 403);
    let second = cookie_of(&log_in("correct horse", &first));
    assert_ne!(first, second);
    assert_eq!(
        fixture.page("/", &first).status,
        303,
        "the one before has ended"
    );
    assert_eq!(fixture.submit("/logout", &second, "").status, 303);
    assert_eq!(fixture.page("/", &second).status, 303);
    let third = cookie_of(&log_in("correct horse", ""));
    assert_eq!(fixture.page("/", &third).status, 200);
    fixture.add_user("ada", "viewer", "another one");
    assert_eq!(
        fixture.page("/", &third).status,
        303,
        "a new role and password end sessions"
    );
    let stderr = fixture.saker.server.stderr();
    assert!(
        stderr.contains("SK1700") && stderr.contains("SK1701"),
        "{stderr}"
    );
    assert!(!stderr.contains("correct horse"), "{stderr}");
}

#[test]
fn guesses_are_limited() {
    let fixture = Fixture::start("console-guesses", "");
    fixture.add_user("ada", "viewer", "right");
    let log_in = |form: &str| fixture.submit("/login", "", form).status;
    // Unknown users count, too.
    let all: Vec<u16> = (0..6)
        .map(|guess| {
            log_in(&format!(
                "name={}&password=x{guess}",
                ["ada", "eve"][guess % 2]
            ))
        })
        .collect();
    assert_eq!(all, [403, 403, 403, 403, 403, 429]);
    assert_eq!(
        log_in("name=ada&password=right"),
        429,
        "the right one has to wait"
    );
    assert_eq!(
        fixture
            .submit("/link", "", &format!("token={}", fixture.link()))
            .status,
        303
    );
}

#[test]
fn one_time_codes() {
    let fixture = Fixture::start("console-codes", "");
    let said = fixture.command(&["user", "add", "ada", "--totp"], "right\n");
    let secret = said
        .lines()
        .find_map(|line| line.split("this once: ").nth(1))
        .unwrap();
    let oath = Command::new("python3")
        .args(["-c", "import sys,base64,hmac,struct,time\nk=base64.b32decode(sys.argv[1]); h=hmac.new(k,struct.pack('>Q',int(time.time())//30),'sha1').digest(); o=h[19]&15; print('%06d'%((struct.unpack('>I',h[o:o+4])[0]&0x7fffffff)%1000000))", secret])
        .output()
        .unwrap();
    let code = String::from_utf8(oath.stdout).unwrap().trim().to_owned();
    assert_eq!(code.len(), 6);
    let log_in = |code: &str| {
        fixture
            .submit(
                "/login",
                "",
                &format!("name=ada&password=right&code={code}"),
            )
            .status
    };
    assert_eq!(log_in(""), 403);
    assert_eq!(log_in(&code), 303);
    assert_eq!(log_in(&code), 403, "a code works once");
}

#[test]
fn names_and_the_file_of_users_are_those_of_the_configuration() {
    let keys = Keys {
        console: "names = [\"console.test\"]\nusers = \"{dir}/state/own-users\"",
        ..Keys::default()
    };
    let fixture = Fixture::start_in(folder("console-names"), &keys);
    let port = fixture.console.port();
    for (host, status) in [
        ("console.test", 200),
        ("localhost", 200),
        ("other.test", 421),
        ("x.console.test", 421),
    ] {
        let line = format!("Host: {host}:{port}");
        assert_eq!(
            fixture.ask("GET", "/login", &[line], "").status,
            status,
            "{host}"
        );
    }
    let file = fixture.saker.dir.join("state/own-users");
    let file = file.to_string_lossy();
    let words = [
        "token",
        "add",
        "a",
        "--role",
        "administrator",
        "--file",
        &file,
    ];
    let token = fixture.command(&words, "").trim().to_owned();
    let authorization = format!("Authorization: Bearer {token}");
    let with = fixture
        .ask("GET", "/api/v1/configuration", &[authorization], "")
        .status;
    assert_eq!(with, 200);
}

#[test]
fn under_tls_the_cookie_is_bound_to_the_host() {
    let dir = folder("console-tls");
    tls_site::certificate(&dir, "site", "localhost");
    let keys = Keys {
        console: "tls = true",
        site: "[site.tls]\ncertificate = \"{dir}/site.pem\"\nkey = \"{dir}/site.key\"\n[[listener]]\naddress = \"127.0.0.1:0\"\ntls = true",
        ..Keys::default()
    };
    let fixture = Fixture::start_in(dir, &keys);
    let curl = |arguments: &[&str]| {
        let output = Command::new(require("curl").unwrap())
            .args(["-sik", "--max-time", "20"])
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let port = fixture.console.port();
    let page = curl(&[&format!("https://localhost:{port}/login")]);
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("Content-Security-Policy"),
        "{page}"
    );
    let form = format!("token={}", fixture.link());
    let origin = format!("Origin: https://localhost:{port}");
    let url = format!("https://localhost:{port}/link");
    let in_plain = format!("Origin: http://localhost:{port}");
    let refused = curl(&["-H", &in_plain, "-d", &form, &url]);
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    let done = curl(&["-H", &origin, "-d", &form, &url]);
    assert!(
        done.contains("Set-Cookie: __Host-saker-console=") && done.contains("; Secure"),
        "{done}"
    );
    // Plain HTTP on the port is no console.
    let mut client = Client::connect(fixture.console).unwrap();
    client
        .send("GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let answer = client.read_to_close(PATIENCE).unwrap();
    assert!(!String::from_utf8_lossy(&answer).contains("Log in"));
}

#[test]
fn the_command_opens_a_console_where_none_is_configured() {
    let dir = folder("console-opened");
    let saker_server =
        crate::operate::start_in(dir, &crate::operate::configuration("workers = 1", ""));
    let state_dir = saker_server
        .dir
        .join("state")
        .to_string_lossy()
        .into_owned();
    let ask = || saker(["console", "--state-dir", &state_dir]);
    let (first, second) = (ask(), ask());
    let url = |output: &std::process::Output| {
        crate::operate::stdout(output)
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    let base = |url: &str| url.split("/link").next().unwrap().to_owned();
    assert!(
        url(&first).starts_with("http://127.0.0.1:"),
        "{}",
        stderr(&first)
    );
    assert_eq!(base(&url(&first)), base(&url(&second)));
    let address = base(&url(&first))
        .trim_start_matches("http://")
        .parse()
        .unwrap();
    wait_until("the console is open", || Client::connect(address).is_ok());
    let mut client = Client::connect(address).unwrap();
    let page = client.request("GET", "/login", &[]).unwrap();
    assert_eq!(page.status, 200);
}

#[test]
fn sessions_go_on_over_an_upgrade() {
    let fixture = Fixture::start("console-upgrade", "");
    fixture.add_user("ada", "operator", "correct horse");
    let form = "name=ada&password=correct+horse";
    let by_password = cookie_of(&fixture.submit("/login", "", form));
    let by_link = fixture.administrator();
    let state = State::of(&fixture.saker);
    let before = state.pid();
    let upgraded = saker(["upgrade", "--state-dir", &fixture.state_dir()]);
    assert!(upgraded.status.success(), "{}", stderr(&upgraded));
    wait_until("the successor serves", || state.pid() != before);
    wait_until("its console answers", || {
        Client::connect(fixture.console).is_ok() && fixture.page("/", &by_link).status == 200
    });
    assert_eq!(fixture.page("/", &by_password).status, 200);
    assert_eq!(fixture.page("/configuration", &by_password).status, 403);
    // They end as they would have ended.
    fixture.command(&["user", "remove", "ada"], "");
    wait_until("the user is gone", || {
        fixture.page("/", &by_password).status == 303
    });
    fixture.submit("/logout", &by_link, "");
    assert_eq!(fixture.page("/", &by_link).status, 303);
}
