//! The command line through the API, and `saker top`.

use crate::{
    console::fixture::{Fixture, Keys},
    console::live::Origin,
    operate::{SAKER, folder},
};
use saker_testkit::{TempDir, require, wait_until};
use std::{
    fs,
    process::{Command, Output},
};

fn run(arguments: &[&str], token: Option<&str>) -> Output {
    let mut command = Command::new("timeout");
    command.args(["60", SAKER]).args(arguments);
    command.env_remove("SAKER_TOKEN");
    if let Some(token) = token {
        command.env("SAKER_TOKEN", token);
    }
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn commands_work_over_the_api_with_the_rights_of_their_token() {
    let origin = Origin::start("Cache-Control: public, max-age=600\r\n");
    let site = format!(
        "cache = true\n[[site.route]]\npath = \"/page/*\"\nproxy = \"http://{}\"\n",
        origin.address
    );
    let fixture = Fixture::start("console-remote", &site);
    let url = format!("http://{}", fixture.console);
    let (viewer, operator, administrator) = (
        fixture.token("viewer"),
        fixture.token("operator"),
        fixture.token("administrator"),
    );
    let remote = |words: &[&str], token: &str| {
        let mut all = words.to_vec();
        all.extend(["--remote", &url]);
        run(&all, Some(token))
    };
    let done = |words: &[&str], token: &str| {
        let output = remote(words, token);
        assert!(output.status.success(), "{words:?}: {}", text(&output));
        text(&output)
    };
    assert!(done(&["status"], &viewer).contains("saker.toml"));
    done(&["status", "--healthy"], &viewer);
    done(&["cache", "stat"], &viewer);
    done(&["cache", "list"], &viewer);
    assert!(done(&["top", "--once"], &viewer).contains("requests/s"));
    assert!(done(&["purge", "--all"], &operator).contains("purged"));
    done(
        &["ban", "192.0.2.0/24", "--for", "1h", "--reason", "test"],
        &operator,
    );
    assert!(done(&["bans"], &viewer).contains("192.0.2.0/24"));
    done(&["unban", "192.0.2.0/24"], &operator);
    assert!(!done(&["bans"], &viewer).contains("192.0.2.0/24"));
    done(&["reload"], &administrator);
    // Every route of the API, by its name.
    assert!(text(&run(&["api"], None)).contains("configuration/check"));
    assert!(done(&["api", "status"], &viewer).contains("generation"));
    let host = fixture.saker.server.address();
    let warmed = format!("http://{host}/page/1");
    assert!(done(&["api", "explain", &format!("url={warmed}")], &viewer).contains("steps"));
    let file = fixture.saker.dir.join("saker.toml");
    let (name, content) = (
        format!("file={}", file.display()),
        format!("text=@{}", file.display()),
    );
    let checked = done(
        &["api", "configuration/check", &name, &content],
        &administrator,
    );
    assert!(checked.contains("\"has_errors\": false"), "{checked}");
    assert!(done(&["cache", "warm", "--quiet", &warmed], &operator).contains('1'));
    let listed = done(&["cache", "list", "--json"], &viewer);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let entry = listed["entries"][0]["entry"].as_str().unwrap().to_owned();
    assert_eq!(done(&["cache", "body", &entry], &viewer), "ok\n");
    for (words, token) in [
        (&["api", "reload"][..], &operator),
        (&["api", "nosuch"], &administrator),
        (&["api", "status", "a=b"], &administrator),
        (&["api", "explain"], &administrator),
        (&["cache", "body", "x"], &administrator),
    ] {
        let output = remote(words, token);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            text(&output)
        );
    }
    // Without the right, and what needs the machine.
    for (words, token) in [
        (&["purge", "--all"][..], &viewer),
        (&["ban", "192.0.2.1"], &viewer),
        (&["reload"], &operator),
        (&["stop"], &administrator),
        (&["upgrade"], &administrator),
        (&["reopen-logs"], &administrator),
        (&["status", "--prometheus"], &administrator),
        (&["status"], &"saker_wrong".to_owned()),
    ] {
        let output = remote(words, token);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            text(&output)
        );
    }
    // No token, or one that would be sent in the clear.
    let without = run(&["status", "--remote", &url], None);
    assert!(text(&without).contains("SAKER_TOKEN"), "{}", text(&without));
    let file = fixture.saker.dir.join("token");
    fs::write(&file, &viewer).unwrap();
    let by_file = run(
        &[
            "status",
            "--remote",
            &url,
            "--token-file",
            &file.to_string_lossy(),
        ],
        None,
    );
    assert!(by_file.status.success(), "{}", text(&by_file));
    let plain = run(
        &["status", "--remote", "http://192.0.2.1:7080"],
        Some(&viewer),
    );
    assert!(text(&plain).contains("https"), "{}", text(&plain));
}

/// An authority of its own, and a certificate for `localhost`.
fn issue(dir: &TempDir) {
    let openssl = |words: &str| {
        let output = Command::new(require("openssl").unwrap())
            .args(words.split(' '))
            .current_dir(dir.join("."))
            .output()
            .unwrap();
        assert!(output.status.success(), "{words}: {}", text(&output));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!(
        "req -x509 {key} -days 2 -keyout ca.key -out ca.pem -subj /CN=authority"
    ));
    openssl(&format!(
        "req {key} -keyout site.key -out site.csr -subj /CN=localhost"
    ));
    dir.write(
        "extensions",
        "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n",
    )
    .unwrap();
    openssl(
        "x509 -req -in site.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out site.pem",
    );
}

#[test]
fn tokens_are_sent_to_consoles_that_are_trusted_only() {
    let dir = folder("console-remote-tls");
    issue(&dir);
    let keys = Keys {
        console: "tls = true",
        site: "[site.tls]\ncertificate = \"{dir}/site.pem\"\nkey = \"{dir}/site.key\"\n[[listener]]\naddress = \"127.0.0.1:0\"\ntls = true",
        ..Keys::default()
    };
    let fixture = Fixture::start_in(dir, &keys);
    let token = fixture.token("viewer");
    let url = format!("https://localhost:{}", fixture.console.port());
    let authority = fixture.saker.dir.join("ca.pem");
    let trusted = run(
        &[
            "status",
            "--remote",
            &url,
            "--remote-ca",
            &authority.to_string_lossy(),
        ],
        Some(&token),
    );
    assert!(trusted.status.success(), "{}", text(&trusted));
    let unknown = run(&["status", "--remote", &url], Some(&token));
    assert_eq!(unknown.status.code(), Some(2), "{}", text(&unknown));
    let other_name = format!("https://127.0.0.1:{}", fixture.console.port());
    let other = run(
        &[
            "status",
            "--remote",
            &other_name,
            "--remote-ca",
            &authority.to_string_lossy(),
        ],
        Some(&token),
    );
    assert_eq!(other.status.code(), Some(2), "{}", text(&other));
}

#[test]
fn top_shows_the_traffic_without_a_console_and_puts_the_terminal_back() {
    let saker = crate::operate::start("top", &crate::operate::configuration("workers = 1", ""));
    let state_dir = saker.dir.join("state").to_string_lossy().into_owned();
    let once = || run(&["top", "--once", "--state-dir", &state_dir], None);
    let mut client = saker.connect().unwrap();
    wait_until("figures are there", || {
        client.get("/index.html").unwrap();
        let view = text(&once());
        let line = view
            .lines()
            .find(|line| line.starts_with("requests/s"))
            .unwrap_or_default()
            .to_owned();
        line.split_whitespace()
            .nth(1)
            .and_then(|value| value.parse::<f64>().ok())
            .is_some_and(|value| value > 0.0)
    });
    // In a terminal, until `q` is pressed.
    let typescript = saker.dir.join("typescript");
    let command = format!("stty cols 90 rows 30; {SAKER} top --state-dir {state_dir}; stty -a");
    let output = Command::new(require("bash").unwrap())
        .arg("-c")
        .arg(format!("(until grep -q 'q: quit' {0} 2>/dev/null; do :; done; printf q; until grep -q 'speed' {0}; do :; done) | timeout 60 script -qfec '{command}' {0}", typescript.display()))
        .output()
        .unwrap();
    let seen = String::from_utf8_lossy(&fs::read(&typescript).unwrap()).into_owned();
    assert!(output.status.success(), "{seen}");
    assert!(
        seen.contains("\u{1b}[?1049h") && seen.contains("\u{1b}[?1049l"),
        "{seen}"
    );
    assert!(
        seen.contains("requests/s") && seen.contains("p99 ms"),
        "{seen}"
    );
    let settings = seen.rsplit("\u{1b}[?1049l").next().unwrap();
    let words: Vec<&str> = settings.split_whitespace().collect();
    for word in ["icanon", "echo", "isig"] {
        assert!(words.contains(&word), "{word}: {settings}");
    }
}
