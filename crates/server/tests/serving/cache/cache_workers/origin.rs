//! An origin whose every answer is a new version, and that knows which was the last.

use super::Mode;
use saker_testkit::keep_waiting;
use std::{
    collections::HashMap,
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

#[derive(Default)]
pub struct VersionedOrigin {
    /// The version that was answered with last.
    pub version: AtomicU64,
    /// Requests per target.
    asked: Mutex<HashMap<String, u64>>,
    /// Every validation succeeds.
    pub is_frozen: AtomicBool,
    /// Answers take a while, the one longer than the other.
    pub is_slow: AtomicBool,
}

impl VersionedOrigin {
    pub fn now(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    pub fn asked(&self, target: &str) -> u64 {
        self.asked.lock().unwrap().get(target).copied().unwrap_or(0)
    }

    pub fn listen(path: &Path, mode: Mode) -> Arc<VersionedOrigin> {
        let world = Arc::<VersionedOrigin>::default();
        let listener = UnixListener::bind(path).unwrap();
        let answering = Arc::clone(&world);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let world = Arc::clone(&answering);
                thread::spawn(move || serve(stream, &world, mode));
            }
        });
        world
    }

    fn answer(&self, mode: Mode, asked: &Asked, stream: &UnixStream) -> Vec<u8> {
        *self
            .asked
            .lock()
            .unwrap()
            .entry(asked.target.clone())
            .or_default() += 1;
        if let Some(tag) = asked.field("if-none-match")
            && self.is_frozen.load(Ordering::SeqCst)
        {
            return format!("HTTP/1.1 304 Not Modified\r\nETag: {tag}\r\n\r\n").into_bytes();
        }
        let version = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        if self.is_slow.load(Ordering::SeqCst) {
            // Different from one to the next, so that they overtake each other.
            let pause = Duration::from_millis(version.wrapping_mul(0x9e37_79b9) % 41);
            let _ = keep_waiting(stream, pause);
        }
        let (fields, content) = page(mode, asked, version);
        let name = if asked.target.contains("chunked") {
            "Transfer-Encoding: chunked".to_owned()
        } else {
            format!("Content-Length: {}", content.len())
        };
        let content = if asked.target.contains("chunked") {
            chunked(&content)
        } else {
            content
        };
        format!("HTTP/1.1 200 OK\r\n{fields}{name}\r\n\r\n{content}").into_bytes()
    }
}

fn chunked(content: &str) -> String {
    let pieces = content.as_bytes().chunks(3_000).map(|piece| {
        format!(
            "{:x}\r\n{}\r\n",
            piece.len(),
            String::from_utf8_lossy(piece)
        )
    });
    pieces.collect::<String>() + "0\r\n\r\n"
}

/// The fields and the content of a version, by the first word of its path.
fn page(mode: Mode, asked: &Asked, version: u64) -> (String, String) {
    let word = asked.target.split('/').nth(1).unwrap_or_default();
    let kind = asked.field("x-kind").unwrap_or("none");
    let visitor = asked.field("cookie").unwrap_or("nobody");
    let mut content = format!("v={version} {} {kind}\n", asked.target);
    let public = match mode {
        Mode::Lscache => "X-LiteSpeed-Cache-Control: public,max-age=600\r\n",
        Mode::Http | Mode::Apache => "Cache-Control: public, max-age=600\r\n",
    };
    let fields = match word {
        _ if asked.method != "GET" && asked.method != "HEAD" => {
            match asked.target.split_once("?purge=") {
                Some((_, what)) => format!(
                    "Cache-Control: no-store\r\nX-LiteSpeed-Purge: {}\r\n",
                    what.replace('~', "=")
                ),
                None => "Cache-Control: no-store\r\n".to_owned(),
            }
        }
        "no-store" => "Cache-Control: no-store\r\n".to_owned(),
        "large" => {
            content.push_str(&"large ".repeat(10_000));
            public.to_owned()
        }
        "vary" => format!("{public}Vary: X-Kind\r\n"),
        // What it varies by changes from answer to answer.
        "turn" if version.is_multiple_of(2) => format!("{public}Vary: X-Kind\r\n"),
        "tag" => format!("{public}Surrogate-Key: red\r\nX-LiteSpeed-Tag: red\r\n"),
        "short" => "Cache-Control: public, max-age=1\r\n".to_owned(),
        "swr" => "Cache-Control: public, max-age=1, stale-while-revalidate=60\r\n".to_owned(),
        "sometimes" if version.is_multiple_of(3) => "Cache-Control: no-store\r\n".to_owned(),
        "own" => {
            content.push_str(visitor);
            "X-LiteSpeed-Cache-Control: private,max-age=600\r\n".to_owned()
        }
        "esi" => {
            content.push_str("<esi:include src='/tag/0'/><esi:include src='/own/0'/>");
            "X-LiteSpeed-Cache-Control: public,max-age=600,esi=on\r\nContent-Type: text/html\r\n"
                .to_owned()
        }
        _ => public.to_owned(),
    };
    (format!("{fields}ETag: \"{version}\"\r\n"), content)
}

struct Asked {
    method: String,
    target: String,
    head: String,
}

impl Asked {
    fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

fn serve(mut stream: UnixStream, world: &VersionedOrigin, mode: Mode) {
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; 4096];
        while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
            match stream.read(&mut more) {
                Ok(count) if count > 0 => bytes.extend_from_slice(&more[..count]),
                _ => return,
            }
        }
        // Requests here have no content.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        bytes.clear();
        let mut words = text.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default().to_owned();
        let answer = world.answer(
            mode,
            &Asked {
                method,
                target,
                head: text,
            },
            &stream,
        );
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}
