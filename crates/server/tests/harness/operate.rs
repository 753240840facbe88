//! Shared code of tests that operate a server: the binary as a command, its control socket, and
//! load that tolerates no failure.
//!
//! Caveat: time. A debug build answers some thousand requests a second, so the load is pipelined,
//! and a response is compared as a whole with the previous one.
// Each test program uses its part; a test that fails may say so as it likes.
#![allow(dead_code, unused_imports, clippy::panic)]

use saker_testkit::{Client, Saker, ServerProcess, TempDir, saker::Builder};
pub use saker_testkit::{PATIENCE, bench_files::pattern, wait_until};
use serde_json::Value;
use std::{
    ffi::OsStr,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

pub const SAKER: &str = env!("CARGO_BIN_EXE_saker");

/// The program of servers: this build's, or in `measured` the optimized one that `SAKER_MEASURED`
/// names.
pub fn program() -> String {
    optimized().unwrap_or_else(|| SAKER.to_owned())
}

/// A program of another build that is measured, if there is one.
pub fn optimized() -> Option<String> {
    match env!("CARGO_CRATE_NAME") {
        "measured" => std::env::var("SAKER_MEASURED").ok(),
        _ => None,
    }
}

/// Runs to its end. One that serves where it should have ended is stopped after a minute, with a
/// status of its own (124).
pub fn saker<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    Command::new("timeout")
        .args(["60", SAKER])
        .args(arguments)
        .output()
        .expect("saker runs")
}

/// Stops the server of this state directory, whichever process it is by now.
pub fn stop_at_once(state_dir: &Path) {
    let state_dir = state_dir.to_string_lossy();
    drop(saker(["stop", "--now", "--state-dir", &*state_dir]));
}

/// Stops the successor of a server at the end of a test: a reload that needs more rights starts one.
pub struct Successor(pub PathBuf);

impl Drop for Successor {
    fn drop(&mut self) {
        stop_at_once(&self.0);
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// One listener, a site with `www` below the folder; `server` stands in `[server]`, `site` in
/// `[[site]]`.
pub fn configuration(server: &str, site: &str) -> String {
    format!(
        "[server]\nstate_dir = \"{{dir}}/state\"\n{server}\n\n[[listener]]\naddress = \"{{address}}\"\n\n\
         [[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\n{site}\n"
    )
}

/// A folder with a small file, `www/index.html`.
pub fn folder(name: &str) -> TempDir {
    let dir = TempDir::new(name).expect("folder");
    dir.write("www/index.html", "<p>hello</p>\n")
        .expect("written");
    dir
}

/// Debug builds compare a share of the answers from the route cache with full dispatch. Not where
/// a test counts what a hit costs.
fn compared(builder: Builder) -> Builder {
    match env!("CARGO_CRATE_NAME") {
        "measured" => builder.env("SAKER_COMPARE_HITS", "0"),
        _ => builder,
    }
}

/// A server with a native configuration.
pub fn native(configuration: &str) -> Builder {
    compared(Saker::native(&program(), configuration))
}

/// A server with Apache's configuration.
pub fn apache(configuration: &str) -> Builder {
    compared(Saker::apache(&program(), configuration))
}

/// A server with nginx's configuration.
pub fn nginx(configuration: &str) -> Builder {
    compared(Saker::nginx(&program(), configuration))
}

/// A link to the server by a name of Apache's, with Apache's command line.
pub fn httpd(program: &Path, configuration: &str) -> Builder {
    compared(Saker::httpd(program, configuration))
}

/// `saker serve` with these arguments.
pub fn serve(arguments: &[&str]) -> Builder {
    compared(Saker::serve(&program(), arguments))
}

/// A server with a native configuration, in the [`folder`] of this name.
pub fn start(name: &str, configuration: &str) -> Saker {
    native(configuration).start(folder(name))
}

/// A server with a native configuration, in this folder.
pub fn start_in(dir: TempDir, configuration: &str) -> Saker {
    native(configuration).start(dir)
}

/// Writes a changed configuration for a running server.
pub fn rewrite(saker: &Saker, configuration: &str) {
    let text = configuration
        .replace("{address}", &saker.server.address().to_string())
        .replace("{dir}", &saker.dir.to_string_lossy());
    saker.dir.write("saker.toml", text).expect("written");
}

pub fn reload(saker: &Saker) -> Output {
    self::saker([
        "reload",
        "--state-dir",
        &saker.dir.join("state").to_string_lossy(),
    ])
}

/// Answer of the control socket in `state_dir` to a verb.
pub fn ask(state_dir: &Path, verb: &str) -> Option<Value> {
    let mut stream = UnixStream::connect(state_dir.join("control.sock")).ok()?;
    stream
        .write_all(format!("{{\"verb\":\"{verb}\"}}\n").as_bytes())
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(&answer).ok()
}

pub fn generation(saker: &Saker) -> u64 {
    ask(&saker.dir.join("state"), "status")
        .and_then(|status| status["generation"].as_u64())
        .unwrap_or(0)
}

pub fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8_lossy(&text)
        .lines()
        .map(str::to_owned)
        .collect()
}

/// A response that comes in pieces: the head is read, the body is not yet.
pub fn begin_download(saker: &Saker, target: &str, first_bytes: usize) -> (Client, Vec<u8>) {
    let mut client = saker.connect().expect("connected");
    client
        .send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        .expect("sent");
    let start = client
        .read_bytes(first_bytes)
        .unwrap_or_else(|error| panic!("{error}; the server said:\n{}", saker.server.stderr()));
    assert!(
        start.starts_with(b"HTTP/1.1 200 OK\r\n"),
        "{}",
        String::from_utf8_lossy(&start[..200.min(start.len())])
    );
    (client, start)
}

/// The body of a response of which `start` has been read.
pub fn rest_of_download(client: &mut Client, start: Vec<u8>, body_bytes: usize) -> Vec<u8> {
    let head = start
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .expect("a head")
        + 4;
    let mut body = start[head..].to_vec();
    body.extend(
        client
            .read_bytes(body_bytes - body.len())
            .expect("the rest"),
    );
    body
}

/// Keep-alive connections that ask for one file again and again.
pub struct Load {
    end: Arc<AtomicBool>,
    requests: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

/// Requests sent at once on a connection.
const BATCH: usize = 20;

impl Load {
    /// Every response has to have `body`, and each connection has to last as long as the load.
    pub fn start(address: SocketAddr, connections: usize, target: &str, body: &str) -> Load {
        let (end, requests) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let batch = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").repeat(BATCH);
        let one = |_| {
            let (end, requests, batch, body) = (
                Arc::clone(&end),
                Arc::clone(&requests),
                batch.clone(),
                body.to_owned(),
            );
            thread::spawn(move || run(address, &batch, &body, &end, &requests))
        };
        let threads = (0..connections).map(one).collect();
        Load {
            end,
            requests,
            threads,
        }
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the number of correct responses, or the first failure.
    pub fn finish(self) -> Result<u64, String> {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| "a load thread panicked")??;
        }
        Ok(self.requests.load(Ordering::Relaxed))
    }

    /// True if a thread has ended, which happens only after a failure.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }
}

fn run(
    address: SocketAddr,
    batch: &str,
    body: &str,
    end: &AtomicBool,
    requests: &AtomicU64,
) -> Result<(), String> {
    let mut stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .map_err(|error| error.to_string())?;
    stream
        .set_nodelay(true)
        .map_err(|error| error.to_string())?;
    let (mut pending, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    while !end.load(Ordering::Relaxed) {
        stream
            .write_all(batch.as_bytes())
            .map_err(|error| format!("sending: {error}"))?;
        for _ in 0..BATCH {
            let bytes = loop {
                if let Some(bytes) = response(&pending, body)? {
                    break bytes;
                }
                match stream.read(&mut piece) {
                    Ok(0) => {
                        return Err(format!(
                            "the connection was closed after {:?}",
                            String::from_utf8_lossy(&pending)
                        ));
                    }
                    Ok(count) => pending.extend_from_slice(&piece[..count]),
                    Err(error) => return Err(format!("receiving: {error}")),
                }
            };
            pending.drain(..bytes);
            requests.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Length of the response at the start of `bytes`, once it is there.
fn response(bytes: &[u8], body: &str) -> Result<Option<usize>, String> {
    let Some(head) = bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map(|at| at + 4)
    else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes[..head]);
    if !text.starts_with("HTTP/1.1 200 OK\r\n")
        || !text.contains(&format!("\r\nContent-Length: {}\r\n", body.len()))
    {
        return Err(format!("not what was asked for: {text:?}"));
    }
    match bytes.get(head..head + body.len()) {
        Some(got) if got != body.as_bytes() => {
            Err(format!("another body: {:?}", String::from_utf8_lossy(got)))
        }
        Some(_) => Ok(Some(head + body.len())),
        None => Ok(None),
    }
}

/// A child's exit status within reasonable time.
pub fn exit_code(server: &mut ServerProcess) -> Option<i32> {
    server
        .wait_for_exit(PATIENCE)
        .expect("waited")
        .unwrap_or_else(|| panic!("still runs; it said:\n{}", server.stderr()))
        .code()
}
