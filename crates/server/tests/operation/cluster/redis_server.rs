//! A Redis server of the test's own, without persistence.

use saker_testkit::{ServerProcess, TempDir, free_port};
use std::{
    net::{Ipv4Addr, SocketAddr},
    process::{Command, Output},
};

pub struct RedisServer {
    pub port: u16,
    arguments: Vec<String>,
    process: Option<ServerProcess>,
    dir: TempDir,
}

impl RedisServer {
    pub fn start() -> RedisServer {
        RedisServer::start_at(free_port().unwrap(), |_| Vec::new())
    }

    /// With further arguments, made for its folder.
    pub fn start_at(port: u16, arguments: impl Fn(&TempDir) -> Vec<String>) -> RedisServer {
        let dir = TempDir::new("cluster-redis").unwrap();
        let mut server = RedisServer {
            port,
            arguments: arguments(&dir),
            process: None,
            dir,
        };
        server.start_again();
        server
    }

    /// On the same port, and empty.
    pub fn start_again(&mut self) {
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--enable-debug-command", "no", "--dir"])
            .arg(&*self.dir);
        if !self
            .arguments
            .iter()
            .any(|argument| argument == "--tls-port")
        {
            command.args(["--port", &self.port.to_string()]);
        }
        command.args(&self.arguments);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        self.process = Some(ServerProcess::start(&mut command, address).unwrap());
    }

    /// Ends at once; everything that it had is gone.
    pub fn kill(&mut self) {
        self.process.take().unwrap().kill().unwrap();
    }

    pub fn pause(&self) {
        self.process.as_ref().unwrap().pause().unwrap();
    }

    pub fn go_on(&self) {
        self.process.as_ref().unwrap().go_on().unwrap();
    }

    /// Output of redis-cli for a command.
    pub fn command(&self, words: &[&str]) -> String {
        said(self.cli().args(words).output().unwrap())
    }

    /// The same with the last argument from standard input, which may be any bytes.
    pub fn command_with(&self, words: &[&str], last: &[u8]) -> String {
        let path = self.dir.write("argument", last).unwrap();
        let input = std::fs::File::open(path).unwrap();
        said(
            self.cli()
                .arg("-x")
                .args(words)
                .stdin(input)
                .output()
                .unwrap(),
        )
    }

    fn cli(&self) -> Command {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string()]);
        command
    }
}

fn said(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
