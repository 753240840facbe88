//! The server behind in a scenario: fixed responses by path, over a Unix socket and a port.
//!
//! Called by: the runner of scenarios. Caveat: `{method}`, `{target}`, `{body}`, and `{NAME}` of a
//! request field in a body are replaced; an unknown path is 404. Out of scope: faults, which the
//! tests of `gateway` make.

use super::file::Reply;
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpListener,
    os::unix::net::UnixListener,
    path::Path,
    sync::{Arc, Mutex},
    thread,
};

#[derive(Default)]
pub struct Origin {
    asked: Arc<Mutex<Vec<String>>>,
    /// The port, if there is anything to answer.
    pub port: u16,
}

impl Origin {
    /// Listens on `origin.sock`, if there is anything to answer.
    pub fn listen(dir: &Path, replies: &BTreeMap<String, Reply>) -> Origin {
        let mut origin = Origin::default();
        if replies.is_empty() {
            return origin;
        }
        let replies = Arc::new(replies.clone());
        let listener = UnixListener::bind(dir.join("origin.sock")).unwrap();
        origin.answer(move || Some(listener.accept().ok()?.0), &replies);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        origin.port = listener.local_addr().unwrap().port();
        origin.answer(move || Some(listener.accept().ok()?.0), &replies);
        origin
    }

    fn answer<S: Read + Write + Send + 'static>(
        &self,
        accept: impl Fn() -> Option<S> + Send + 'static,
        replies: &Arc<BTreeMap<String, Reply>>,
    ) {
        let (asked, replies) = (Arc::clone(&self.asked), Arc::clone(replies));
        thread::spawn(move || {
            while let Some(mut stream) = accept() {
                let (asked, replies) = (Arc::clone(&asked), Arc::clone(&replies));
                thread::spawn(move || while serve(&mut stream, &asked, &replies).is_some() {});
            }
        });
    }

    /// Requests for a target so far.
    pub fn asked(&self, target: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|known| *known == target).count()
    }
}

fn serve(
    stream: &mut (impl Read + Write),
    asked: &Mutex<Vec<String>>,
    replies: &BTreeMap<String, Reply>,
) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let fields: BTreeMap<String, &str> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect();
    let length = fields
        .get("content-length")
        .and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    asked.lock().unwrap().push(target.to_owned());
    let path = target.split('?').next().unwrap_or_default();
    let Some(reply) = replies.get(path) else {
        return stream
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            .ok();
    };
    let is_same = reply.fields.iter().any(|(name, value)| {
        name == "etag"
            && fields
                .get("if-none-match")
                .is_some_and(|known| known == value)
    });
    let mut text = reply
        .body
        .replace("{method}", method)
        .replace("{target}", target)
        .replace("{body}", &String::from_utf8_lossy(&body));
    for (name, value) in &fields {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    let (status, text) = if is_same {
        (304, String::new())
    } else {
        (reply.status, text)
    };
    let mut answer = format!("HTTP/1.1 {status} Reply\r\n");
    for (name, value) in &reply.fields {
        answer.push_str(&format!("{name}: {value}\r\n"));
    }
    if status != 304 && status != 204 {
        answer.push_str(&format!("Content-Length: {}\r\n", text.len()));
    }
    let text = if method == "HEAD" { "" } else { &text };
    stream
        .write_all(format!("{answer}\r\n{text}").as_bytes())
        .ok()
}
