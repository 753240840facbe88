//! nginx and Saker with one configuration, on the same ports of two loopback addresses.
//!
//! Called by: `nginx_stream`, and `nginx_http`.
//! Caveat: ports of clients and times differ, and are left out by the tests.

use crate::{operate, servers::Words};
use saker_testkit::{PATIENCE, ServerProcess, TempDir, free_port, require, wait_until};
use std::{
    fs,
    io::Read,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    process::Command,
    thread,
};

/// nginx and Saker with one configuration.
pub struct Pair {
    pub dir: TempDir,
    pub servers: [(ServerProcess, Ipv4Addr); 2],
    pub port: u16,
    words: Words,
}

pub const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
pub const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

impl Pair {
    /// `{ip}` and `{dir}` are each server's own; `{p}` is the port under test. The text is the inside
    /// of `stream`, and what follows a line `== http` that of `http`.
    pub fn start(name: &str, given: &[(&str, String)], text: &str) -> Pair {
        Pair::start_with(name, given, "", text)
    }

    /// The same with directives of `main`.
    pub fn start_with(name: &str, given: &[(&str, String)], main: &str, text: &str) -> Pair {
        let dir = TempDir::new(name).unwrap();
        let port = free_port().unwrap();
        let mut words = Words::default();
        words.add("p", port);
        given
            .iter()
            .for_each(|(name, value)| words.add(name, value));
        words.add("dead", format!("127.0.0.1:{}", free_port().unwrap()));
        words.add("ready", free_port().unwrap());
        for name in ["q", "r"] {
            words.add(name, free_port().unwrap());
        }
        certificate(&dir);
        let (stream, http) = text.split_once("== http\n").unwrap_or((text, ""));
        let http = match http.is_empty() {
            true => String::new(),
            false => format!("http {{\naccess_log off;\n{http}\n}}"),
        };
        let start = |folder: &str, ip: Ipv4Addr| {
            let mut words = words.clone();
            let own = dir.join(folder);
            fs::create_dir_all(&own).unwrap();
            words.add("ip", ip);
            words.add("dir", own.display());
            words.add("shared", dir.display());
            let user = match rustix::process::geteuid().is_root() {
                true => "user www-data;\n",
                false => "",
            };
            let text = words.fill(&format!(
                "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\n{main}daemon off;\n{user}worker_processes 1;\n\
                 pid {{dir}}/nginx.pid;\nerror_log {{dir}}/error.log info;\nevents {{ }}\nstream {{\n\
                 server {{ listen {{ip}}:{{ready}}; access_log off; return ready; }}\n{stream}\n}}\n{http}\n"
            ));
            let file = own.join("nginx.conf");
            fs::write(&file, text).unwrap();
            let mut command = match ip == FIRST {
                true => {
                    let mut nginx = Command::new(require("nginx").unwrap());
                    nginx.args(["-e", "stderr", "-p"]).arg(&own).arg("-c");
                    nginx
                }
                false => {
                    let mut saker = Command::new(operate::SAKER);
                    saker.env("TMPDIR", dir.temporary_files().unwrap());
                    saker.args(["run", "--workers", "1", "--state-dir"]);
                    saker.arg(own.join("state")).arg("--nginx");
                    saker
                }
            };
            command.arg(&file);
            let ready = words.fill("{ready}").parse().unwrap();
            let address = SocketAddr::from((ip, ready));
            let server = ServerProcess::start(&mut command, address).unwrap();
            // Workers answer when all listeners are open; the kernel connects before.
            let mut text = String::new();
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.read_to_string(&mut text).unwrap();
            assert_eq!(text, "ready");
            (server, ip)
        };
        let servers = [start("nginx", FIRST), start("saker", SECOND)];
        Pair {
            dir,
            servers,
            port,
            words,
        }
    }

    /// The value of a word that both have.
    pub fn word(&self, name: &str) -> String {
        self.words.fill(&format!("{{{name}}}"))
    }

    /// Does the same at both servers, and returns what they have in common.
    pub fn both<T: PartialEq + std::fmt::Debug>(&self, act: impl Fn(SocketAddr) -> T) -> T {
        let [nginx, saker] =
            [0, 1].map(|at| act(SocketAddr::from((self.servers[at].1, self.port))));
        let log = fs::read_to_string(self.dir.join("saker/error.log")).unwrap_or_default();
        assert_eq!(saker, nginx, "saker's answer is not nginx's\n{log}");
        nginx
    }

    /// The lines of a log, once there are so many.
    pub fn logs(&self, name: &str, lines: usize) -> Vec<String> {
        let [nginx, saker] = self.logs_of_both(name, lines);
        assert_eq!(saker, nginx);
        nginx
    }

    /// The same of sessions that may end in another order than they begin: an upstream that closes
    /// a little later is heard later.
    pub fn logs_in_any_order(&self, name: &str, lines: usize) -> Vec<String> {
        let [nginx, saker] = self.logs_of_both(name, lines).map(|mut lines| {
            lines.sort_unstable();
            lines
        });
        assert_eq!(saker, nginx);
        nginx
    }

    fn logs_of_both(&self, name: &str, lines: usize) -> [Vec<String>; 2] {
        let read = |folder: &str| {
            let path = self.dir.join(format!("{folder}/{name}"));
            let mut text = String::new();
            wait_until("the log has its lines", || {
                text = fs::read_to_string(&path).unwrap_or_default();
                text.lines().count() >= lines
            });
            let text = text.replace("127.0.0.2", "127.0.0.1");
            text.lines().map(str::to_owned).collect()
        };
        [read("nginx"), read("saker")]
    }
}

/// Certificates, keys, and the files that belong to them.
pub fn certificate(dir: &TempDir) {
    make_certificate(dir, "stream.test", ("key.pem", "cert.pem"));
    make_certificate(dir, "stranger.test", ("stranger.key", "stranger.pem"));
    make_certificate(dir, "other.test", ("other.key", "other.pem"));
    let tickets: Vec<u8> = (0..80).collect();
    fs::write(dir.join("tickets"), tickets).unwrap();
    // The same key under a passphrase, and a list of passphrases.
    let locked = Command::new(require("openssl").unwrap())
        .args(["pkey", "-aes256", "-passout", "pass:second", "-in"])
        .arg(dir.join("key.pem"))
        .arg("-out")
        .arg(dir.join("locked.pem"))
        .output()
        .unwrap();
    assert!(locked.status.success(), "{locked:?}");
    dir.write("passwords", "first\nsecond\n").unwrap();
}

/// A certificate by itself, with its key.
fn make_certificate(dir: &TempDir, name: &str, (key, certificate): (&str, &str)) {
    let made = Command::new(require("openssl").unwrap())
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args(["-nodes", "-days", "2", "-subj", &format!("/CN={name}")])
        .args(["-addext", &format!("subjectAltName=DNS:{name}")])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(dir.join(key))
        .arg("-out")
        .arg(dir.join(certificate))
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

impl Drop for Pair {
    fn drop(&mut self) {
        if thread::panicking() {
            for folder in ["nginx", "saker"] {
                let log = fs::read_to_string(self.dir.join(format!("{folder}/error.log")));
                eprintln!("{folder}:\n{}", log.unwrap_or_default());
            }
        }
    }
}
