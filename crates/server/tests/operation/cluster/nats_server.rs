//! A NATS server of the test's own, with JetStream.
//!
//! Called by: `nats`, `events`, and `certificates`.
//! Streams are asked about over the protocol itself, since Debian has no client on the command line.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use saker_testkit::{ServerProcess, TempDir, free_port, require};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::PathBuf,
    process::Command,
};

pub struct NatsServer {
    pub port: u16,
    process: Option<ServerProcess>,
    /// Further lines of its configuration.
    lines: String,
    dir: TempDir,
}

impl NatsServer {
    pub fn start() -> NatsServer {
        NatsServer::start_with(|_| String::new())
    }

    /// With further lines of its configuration, made for its folder.
    pub fn start_with(lines: impl Fn(&TempDir) -> String) -> NatsServer {
        let dir = TempDir::new("cluster-nats").unwrap();
        let mut server = NatsServer {
            port: free_port().unwrap(),
            process: None,
            lines: lines(&dir),
            dir,
        };
        server.start_again();
        server
    }

    /// On the same port, with what it has stored.
    pub fn start_again(&mut self) {
        let configuration = format!(
            "listen: \"127.0.0.1:{}\"\njetstream {{ store_dir: \"{}\" }}\n{}\n",
            self.port,
            self.store().display(),
            self.lines
        );
        let path = self.dir.write("nats.conf", configuration).unwrap();
        let mut command = Command::new(require("nats-server").unwrap());
        command.arg("-c").arg(path);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        self.process = Some(ServerProcess::start(&mut command, address).unwrap());
    }

    /// On the same port, and empty.
    pub fn start_empty(&mut self) {
        fs::remove_dir_all(self.store()).unwrap();
        self.start_again();
    }

    fn store(&self) -> PathBuf {
        self.dir.join("store")
    }

    pub fn url(&self) -> String {
        format!("url = \"nats://127.0.0.1:{}\"", self.port)
    }

    pub fn kill(&mut self) {
        self.process.take().unwrap().kill().unwrap();
    }

    pub fn pause(&self) {
        self.process.as_ref().unwrap().pause().unwrap();
    }

    pub fn go_on(&self) {
        self.process.as_ref().unwrap().go_on().unwrap();
    }

    /// The answer to a request.
    pub fn ask(&self, subject: &str, content: &[u8]) -> Value {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        let mut sent = format!(
            "CONNECT {}\r\nSUB answers 1\r\nPUB {subject} answers {}\r\n",
            json!({ "verbose": false, "pedantic": false, "lang": "rust", "version": "1" }),
            content.len()
        )
        .into_bytes();
        sent.extend_from_slice(content);
        sent.extend_from_slice(b"\r\nPING\r\n");
        stream.write_all(&sent).unwrap();
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = String::new();
            assert!(reader.read_line(&mut line).unwrap() > 0, "{subject}");
            assert!(!line.starts_with("-ERR"), "{subject}: {line}");
            if !line.starts_with("MSG ") {
                continue;
            }
            let length = line.trim_end().rsplit(' ').next().unwrap();
            let mut answer = vec![0; length.parse().unwrap()];
            reader.read_exact(&mut answer).unwrap();
            return serde_json::from_slice(&answer).unwrap();
        }
    }

    /// A request to JetStream, which has to succeed.
    #[track_caller]
    pub fn manage(&self, what: &str, content: &Value) -> Value {
        let content = content.to_string();
        let answer = self.ask(&format!("$JS.API.{what}"), content.as_bytes());
        assert!(answer["error"].is_null(), "{what}: {answer}");
        answer
    }

    /// The newest message of a subject.
    pub fn newest(&self, stream: &str, subject: &str) -> Vec<u8> {
        let asked = json!({ "last_by_subj": subject });
        let answer = self.manage(&format!("STREAM.MSG.GET.{stream}"), &asked);
        let data = answer["message"]["data"].as_str().unwrap();
        BASE64.decode(data).unwrap()
    }

    /// Names of a stream's subjects.
    pub fn subjects(&self, stream: &str) -> Vec<String> {
        let all = json!({ "subjects_filter": ">" });
        let info = self.ask(
            &format!("$JS.API.STREAM.INFO.{stream}"),
            all.to_string().as_bytes(),
        );
        let subjects = info["state"]["subjects"].as_object();
        subjects.map_or(Vec::new(), |subjects| subjects.keys().cloned().collect())
    }
}
