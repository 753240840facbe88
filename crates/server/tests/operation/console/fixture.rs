//! A server with a console, and a client of it.

use crate::console::schemas;
use crate::operate::{SAKER, folder, native, saker, stdout};
use saker_testkit::{Client, PATIENCE, Response, Saker, TempDir, free_port, wait_until_or};
use serde_json::Value;
use std::{
    io::Write as _,
    net::{Ipv4Addr, SocketAddr},
    process::{Command, Stdio},
};

/// A server with a console on a port of its own.
pub struct Fixture {
    pub saker: Saker,
    pub console: SocketAddr,
}

/// Keys of `[server]`, `[console]`, and `[[site]]`.
#[derive(Default)]
pub struct Keys<'k> {
    pub server: &'k str,
    pub console: &'k str,
    pub site: &'k str,
}

impl Fixture {
    pub fn start(name: &str, site: &str) -> Fixture {
        let keys = Keys {
            site,
            ..Keys::default()
        };
        Fixture::start_in(folder(name), &keys)
    }

    pub fn start_in(dir: TempDir, keys: &Keys<'_>) -> Fixture {
        let console = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
        let saker = native(&text(console, keys)).start(dir);
        let fixture = Fixture { saker, console };
        fixture.wait();
        fixture
    }

    fn wait(&self) {
        wait_until_or(
            || Client::connect(self.console).is_ok(),
            || self.saker.server.stderr(),
        );
    }

    pub fn state_dir(&self) -> String {
        self.saker.dir.join("state").to_string_lossy().into_owned()
    }

    /// `saker console` with these words.
    pub fn command(&self, words: &[&str], input: &str) -> String {
        let mut child = Command::new(SAKER)
            .arg("console")
            .args(words)
            .args(["--state-dir", &self.state_dir()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A token with this role.
    pub fn token(&self, role: &str) -> String {
        self.command(&["token", "add", role, "--role", role], "")
            .trim()
            .to_owned()
    }

    /// A token of the owner of this site.
    pub fn owner_token(&self, site: &str) -> String {
        let words = ["token", "add", "eve", "--role", "owner", "--site", site];
        self.command(&words, "").trim().to_owned()
    }

    pub fn add_user(&self, name: &str, role: &str, password: &str) {
        self.command(
            &["user", "add", name, "--role", role],
            &format!("{password}\n"),
        );
    }

    /// The token of a new link.
    pub fn link(&self) -> String {
        let output = saker(["console", "--state-dir", &self.state_dir()]);
        let text = stdout(&output);
        let (_, token) = text
            .lines()
            .next()
            .unwrap()
            .split_once("/link?token=")
            .unwrap();
        token.to_owned()
    }

    /// Sends a request; `fields` are lines.
    pub fn ask(&self, method: &str, path: &str, fields: &[String], body: &str) -> Response {
        let mut client = Client::connect(self.console).unwrap();
        client.set_timeout(PATIENCE).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !fields.iter().any(|line| line.starts_with("Host:")) {
            head.push_str(&format!("Host: {}\r\n", self.console));
        }
        for line in fields {
            head.push_str(&format!("{line}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        client.send(format!("{head}\r\n{body}")).unwrap();
        match method {
            "HEAD" => client.read_head_response().unwrap(),
            _ => client.read_response().unwrap(),
        }
    }

    /// Submits a form as the console's own page does.
    pub fn submit(&self, path: &str, cookie: &str, form: &str) -> Response {
        let fields = [
            "Sec-Fetch-Site: same-origin".to_owned(),
            format!("Cookie: {cookie}"),
            "Content-Type: application/x-www-form-urlencoded".to_owned(),
        ];
        self.ask("POST", path, &fields, form)
    }

    pub fn page(&self, path: &str, cookie: &str) -> Response {
        self.ask("GET", path, &[format!("Cookie: {cookie}")], "")
    }

    /// Logs in by a link; returns the cookie.
    pub fn administrator(&self) -> String {
        let form = format!("token={}", self.link());
        cookie_of(&self.submit("/link", "", &form))
    }

    /// Calls the API; the answer is as its description says.
    pub fn api(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let response = self.ask(
            method,
            path,
            &[format!("Authorization: Bearer {token}")],
            &body,
        );
        let answer = serde_json::from_slice(&response.body).unwrap_or_default();
        schemas::check(method, path, response.status, &answer);
        (response.status, answer)
    }
}

/// The configuration of a server with a console.
pub fn text(console: SocketAddr, keys: &Keys<'_>) -> String {
    let Keys {
        server,
        console: own,
        site,
    } = keys;
    format!(
        "[server]\nstate_dir = \"{{dir}}/state\"\nworkers = 1\n{server}\n\n\
         [console]\naddress = \"{console}\"\n{own}\n\n[[listener]]\naddress = \"{{address}}\"\n\n\
         [[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\n{site}\n"
    )
}

/// Name and value of the cookie that a response sets.
pub fn cookie_of(response: &Response) -> String {
    let set = response.field("set-cookie").unwrap_or_default();
    set.split(';').next().unwrap_or_default().to_owned()
}
