//! A server behind a Unix socket that treats each request as its path demands. Its socket can be
//! removed and restored.

use saker_testkit::keep_waiting;
use std::{
    collections::HashMap,
    fs,
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

#[derive(Clone)]
pub struct Backend(Arc<Shared>);

struct Shared {
    path: PathBuf,
    /// Is told to end when the socket is taken away.
    round: Mutex<Arc<AtomicBool>>,
    open: Mutex<HashMap<u64, UnixStream>>,
    accepted: AtomicU64,
}

impl Backend {
    pub fn listen(path: &Path) -> Backend {
        let shared = Shared {
            path: path.to_owned(),
            round: Mutex::default(),
            open: Mutex::default(),
            accepted: AtomicU64::new(0),
        };
        let backend = Backend(Arc::new(shared));
        backend.bring_back();
        backend
    }

    /// Closes the listener and all connections.
    pub fn take_away(&self) {
        let round = self.0.round.lock().unwrap();
        round.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for connections.
        let _ = UnixStream::connect(&self.0.path);
        let _ = fs::remove_file(&self.0.path);
        for stream in self.0.open.lock().unwrap().values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn bring_back(&self) {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut round = self.0.round.lock().unwrap();
        let Ok(listener) = UnixListener::bind(&self.0.path) else {
            return;
        };
        *round = Arc::clone(&is_over);
        let backend = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                backend.serve(stream);
            }
        });
    }

    fn serve(&self, stream: UnixStream) {
        let number = self.0.accepted.fetch_add(1, Ordering::Relaxed);
        let Ok(other) = stream.try_clone() else {
            return;
        };
        self.0.open.lock().unwrap().insert(number, other);
        let backend = self.clone();
        thread::spawn(move || {
            let mut stream = stream;
            let _ = backend.answer_all(&mut stream);
            let _ = stream.shutdown(Shutdown::Both);
            backend.0.open.lock().unwrap().remove(&number);
        });
    }

    fn answer_all(&self, stream: &mut UnixStream) -> io::Result<()> {
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            while let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
                bytes.drain(..end + 4);
                let (path, mark) = head
                    .split_whitespace()
                    .nth(1)
                    .and_then(|target| target.split_once('?'))
                    .unwrap_or_default();
                if !self.answer(stream, path.rsplit('/').next().unwrap_or_default(), mark)? {
                    return Ok(());
                }
            }
            match stream.read(&mut piece)? {
                0 => return Ok(()),
                count => bytes.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// Returns true if the connection stays open.
    fn answer(&self, stream: &mut UnixStream, what: &str, mark: &str) -> io::Result<bool> {
        let whole = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{mark}",
            mark.len()
        );
        let long = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{mark}",
            mark.len() + 5
        );
        match what {
            "hang" => {
                // Until the other side has had enough.
                let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                let _ = stream.read(&mut [0; 16]);
                return Ok(false);
            }
            "half-head" => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le")?,
            "half-body" => {
                stream.write_all(long.as_bytes())?;
            }
            "garbage" => stream.write_all(b"220 mail.example ESMTP\r\n")?,
            "too-much" => stream.write_all(format!("{whole}more than that").as_bytes())?,
            "too-little" => stream.write_all(long.as_bytes())?,
            "restart" => {
                stream.write_all(whole.as_bytes())?;
                self.take_away();
                self.bring_back();
            }
            "slow" => {
                keep_waiting(&*stream, Duration::from_millis(30))?;
                stream.write_all(whole.as_bytes())?;
                return Ok(true);
            }
            _ => {
                stream.write_all(whole.as_bytes())?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
