//! An origin that answers as the test says, and tells what it was asked.
// Each test program uses its part; a test that fails may say so as it likes.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use crate::operate;
use saker_testkit::{
    Client, Response, Saker, TempDir, keep_waiting, saker::adjustable_clock, wait_until_or,
};
use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

/// A request as it came: the target, and the whole head in lower case but for its first line.
#[derive(Clone, Debug)]
pub struct Asked {
    pub target: String,
    pub head: String,
    pub content: String,
    /// Requests for this target so far, with this one.
    pub count: usize,
    pub connection: Arc<UnixStream>,
}

impl Asked {
    /// Takes its time with the answer, as long as the server waits for it.
    pub fn pause(&self, time: Duration) {
        keep_waiting(&*self.connection, time).unwrap();
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

pub struct Origin {
    pub saker: Saker,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// An answer with these fields and this content.
pub fn answer(status: &str, fields: &[(&str, &str)], content: &str) -> Vec<u8> {
    let lines: String = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!(
        "HTTP/1.1 {status}\r\n{lines}Content-Length: {}\r\n\r\n{content}",
        content.len()
    )
    .into_bytes()
}

pub fn ok(fields: &[(&str, &str)], content: &str) -> Vec<u8> {
    answer("200 OK", fields, content)
}

impl Origin {
    /// Saker before an origin, with these lines in `[site.cache]`.
    pub fn start(
        name: &str,
        cache: &str,
        answers: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static,
    ) -> Origin {
        Origin::with(
            name,
            &format!("[site.cache]\nenabled = true\n{cache}"),
            1,
            answers,
        )
    }

    /// As [`start`](Self::start), with a wall clock that [`advance`](Self::advance) moves. Reading
    /// that clock is a system call, so that nothing is counted of such a server.
    pub fn with_clock(
        name: &str,
        cache: &str,
        workers: usize,
        answers: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static,
    ) -> Origin {
        let dir = TempDir::new(name).unwrap();
        adjustable_clock(&dir).unwrap();
        let site = format!("[site.cache]\nenabled = true\n{cache}");
        Origin::in_folder(dir, &site, workers, answers)
    }

    /// Lets the server's wall clock run ahead.
    pub fn advance(&self, seconds: u64) {
        self.saker.advance_clock(seconds).unwrap();
    }

    /// Asks for a target until the answer is this, since what the cache makes by itself it makes
    /// beside responses.
    pub fn until_text(&self, target: &str, text: &str) {
        let mut got = String::new();
        wait_until_or(
            || {
                got = self.get(target, &[]).text();
                got == text
            },
            || format!("{target}: not {text:?}"),
        );
    }

    /// The same with any lines at the end of the site; what `site` has before a line `%%` stands
    /// before everything.
    pub fn with(
        name: &str,
        site: &str,
        workers: usize,
        answers: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static,
    ) -> Origin {
        Origin::in_folder(TempDir::new(name).unwrap(), site, workers, answers)
    }

    pub fn in_folder(
        dir: TempDir,
        site: &str,
        workers: usize,
        answers: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static,
    ) -> Origin {
        let listener = UnixListener::bind(dir.join("origin.sock")).unwrap();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (seen, answers) = (Arc::clone(&asked), Arc::new(answers));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, answers) = (Arc::clone(&seen), Arc::clone(&answers));
                thread::spawn(move || serve(stream, &seen, &*answers));
            }
        });
        let (before, site) = site.split_once("%%\n").unwrap_or(("", site));
        let configuration = format!(
            "{before}[server]\nworkers = {workers}\nstate_dir = \"{{dir}}/state\"\n[[listener]]\naddress = \"{{address}}\"\n\
             [[upstream]]\nname = \"app\"\nservers = [\"http+unix:{}/origin.sock\"]\n\
             [[site]]\nnames = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = \"app\"\npreserve_host = true\n{site}\n",
            dir.display()
        );
        let saker = operate::native(&configuration).start(dir);
        Origin { saker, asked }
    }

    pub fn client(&self) -> Client {
        self.saker.connect().unwrap()
    }

    pub fn get(&self, target: &str, fields: &[(&str, &str)]) -> Response {
        self.client().request("GET", target, fields).unwrap()
    }

    /// The requests that have come, for a target.
    pub fn asked(&self, target: &str) -> Vec<Asked> {
        self.asked_by(|asked| asked.target == target)
    }

    /// The requests that have come, of those that are wanted.
    pub fn asked_by(&self, wanted: impl Fn(&Asked) -> bool) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|asked| wanted(asked))
            .cloned()
            .collect()
    }

    /// A counter of the server.
    pub fn counter(&self, name: &str) -> u64 {
        operate::ask(&self.saker.dir.join("state"), "status")
            .and_then(|status| status["counters"][name].as_u64())
            .unwrap_or(0)
    }

    /// Waits until a target has been asked for so many times.
    pub fn wait_for(&self, target: &str, count: usize) {
        wait_until_or(
            || self.asked(target).len() >= count,
            || {
                let asked = self.asked(target).len();
                format!("{target} was asked for {asked} times, not {count}")
            },
        );
    }
}

fn serve(mut stream: UnixStream, seen: &Mutex<Vec<Asked>>, answers: &dyn Fn(&Asked) -> Vec<u8>) {
    let mut bytes = Vec::new();
    let connection = Arc::new(stream.try_clone().unwrap());
    loop {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            let mut more = [0; 4096];
            match stream.read(&mut more) {
                Ok(count) if count > 0 => bytes.extend_from_slice(&more[..count]),
                _ => return,
            }
            continue;
        };
        let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let (line, head) = text.split_once("\r\n").unwrap_or((&text, ""));
        let mut words = line.split(' ');
        let target = words.nth(1).unwrap_or_default().to_owned();
        let head = head.lines().map(|line| {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            format!("{}:{value}\n", name.to_ascii_lowercase())
        });
        let mut asked = Asked {
            target,
            head: head.collect(),
            content: String::new(),
            count: 0,
            connection: Arc::clone(&connection),
        };
        let length: usize = asked
            .field("content-length")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        while bytes.len() < end + 4 + length {
            let mut more = [0; 4096];
            match stream.read(&mut more) {
                Ok(count) if count > 0 => bytes.extend_from_slice(&more[..count]),
                _ => return,
            }
        }
        let content = bytes.drain(..end + 4 + length).skip(end + 4).collect();
        asked.content = String::from_utf8(content).unwrap();
        {
            let mut seen = seen.lock().unwrap();
            asked.count = seen
                .iter()
                .filter(|other| other.target == asked.target)
                .count()
                + 1;
            seen.push(asked.clone());
        }
        let answer = answers(&asked);
        if answer.is_empty() || stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// Holds answers back until the test lets them go.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Waits until the gate is open.
    pub fn pass(&self) {
        let open = self.0.0.lock().unwrap();
        drop(
            self.0
                .1
                .wait_timeout_while(open, Duration::from_secs(60), |open| !*open)
                .unwrap(),
        );
    }

    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// For origins that answer several only when all of them are being asked at once; those that are
/// asked one by one wait in vain.
#[derive(Default)]
pub struct Meeting {
    present: Mutex<usize>,
    arrival: Condvar,
}

impl Meeting {
    /// True if that many came together.
    pub fn attend(&self, everybody: usize) -> bool {
        let mut present = self.present.lock().unwrap();
        *present += 1;
        self.arrival.notify_all();
        let waited = self
            .arrival
            .wait_timeout_while(present, Duration::from_secs(10), |present| {
                *present < everybody
            });
        !waited.unwrap().1.timed_out()
    }
}
