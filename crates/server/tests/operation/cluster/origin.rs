//! An application whose pages carry the generation of its content.

use std::{
    collections::{HashMap, HashSet},
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::{Arc, Condvar, Mutex},
    thread,
};

/// Additional content of pages below /long.
pub const LONG_BYTES: usize = 100_000;

#[derive(Default)]
struct World {
    generation: u64,
    asked: HashMap<String, u64>,
    /// Cookies that came with requests for a target.
    cookies: HashMap<String, Vec<String>>,
    /// Targets whose pages are made and not sent yet.
    held: HashSet<String>,
}

#[derive(Default)]
pub struct Origin {
    world: Mutex<World>,
    changed: Condvar,
}

impl Origin {
    pub fn listen(path: &Path) -> Arc<Origin> {
        let origin = Arc::<Origin>::default();
        let listener = UnixListener::bind(path).unwrap();
        let answering = Arc::clone(&origin);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let origin = Arc::clone(&answering);
                thread::spawn(move || origin.serve(stream));
            }
        });
        origin
    }

    /// The content changes; pages of earlier generations are stale.
    pub fn change(&self) -> u64 {
        let mut world = self.world.lock().unwrap();
        world.generation += 1;
        world.generation
    }

    pub fn asked(&self, target: &str) -> u64 {
        let world = self.world.lock().unwrap();
        world.asked.get(target).copied().unwrap_or(0)
    }

    /// Cookies that came with requests for a target.
    pub fn cookies(&self, target: &str) -> Vec<String> {
        let world = self.world.lock().unwrap();
        world.cookies.get(target).cloned().unwrap_or_default()
    }

    pub fn hold(&self, target: &str) {
        self.world.lock().unwrap().held.insert(target.into());
    }

    pub fn release(&self, target: &str) {
        self.world.lock().unwrap().held.remove(target);
        self.changed.notify_all();
    }

    fn serve(&self, stream: UnixStream) {
        let mut reader = BufReader::new(stream);
        while let Some(request) = Request::read(&mut reader) {
            let answer = self.answer(&request);
            if reader.get_mut().write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, request: &Request) -> String {
        if request.method != "GET" {
            let purge = request.purge.as_ref().map_or(String::new(), |what| {
                format!("X-LiteSpeed-Purge: {what}\r\n")
            });
            return format!(
                "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n{purge}Content-Length: 0\r\n\r\n"
            );
        }
        let target = &request.target;
        let mut world = self.world.lock().unwrap();
        *world.asked.entry(target.clone()).or_default() += 1;
        if let Some(cookie) = &request.cookie {
            let cookies = world.cookies.entry(target.clone()).or_default();
            cookies.push(cookie.clone());
        }
        let mut content = format!("g={} {target}\n", world.generation);
        if target.starts_with("/language") {
            content.push_str(&request.language);
        }
        if target.starts_with("/long") {
            content.push_str(&"x".repeat(LONG_BYTES));
        }
        while world.held.contains(target) {
            world = self.changed.wait(world).unwrap();
        }
        drop(world);
        let word = target.split(['/', '?']).nth(1).unwrap_or_default();
        let fields = match word {
            "private" => {
                "X-LiteSpeed-Cache-Control: private,max-age=600\r\nX-LiteSpeed-Tag: mine\r\n"
            }
            "varied" => {
                "Cache-Control: public, max-age=600\r\nNo-Vary-Search: params=(\"utm\")\r\n"
            }
            "language" => "Cache-Control: public, max-age=600\r\nVary: Accept-Language\r\n",
            "never" => "Cache-Control: no-store\r\n",
            "brief" => "Cache-Control: public, max-age=1, stale-while-revalidate=60\r\n",
            _ => "Cache-Control: public, max-age=600\r\n",
        };
        format!(
            "HTTP/1.1 200 OK\r\n{fields}Cache-Tag: everywhere,{word}\r\nContent-Length: {}\r\n\r\n{content}",
            content.len()
        )
    }
}

struct Request {
    method: String,
    target: String,
    /// Value of the purge field in a response to a POST.
    purge: Option<String>,
    cookie: Option<String>,
    language: String,
}

impl Request {
    fn read(reader: &mut BufReader<UnixStream>) -> Option<Request> {
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .ok()
            .filter(|count| *count > 0)?;
        let mut words = line.split(' ').map(str::to_owned);
        let mut request = Request {
            method: words.next()?,
            target: words.next()?,
            purge: None,
            cookie: None,
            language: String::new(),
        };
        let mut content = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "x-purge" => request.purge = Some(value.to_owned()),
                "cookie" => request.cookie = Some(value.to_owned()),
                "accept-language" => request.language = value.to_owned(),
                "content-length" => content = value.parse().ok()?,
                _ => {}
            }
        }
        reader.read_exact(&mut vec![0; content]).ok()?;
        Some(request)
    }
}
