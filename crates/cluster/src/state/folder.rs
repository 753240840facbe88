//! Values and locks as files of a directory that all servers have, such as one of NFS.
//!
//! Called by: `node`, on a thread where waiting for files does no harm.
//! The lock of a name is the file `NAME.N` with the highest number, which is the token; it is made
//! by link(2), which fails if it exists, so that of two servers one gets it. The holder changes its
//! content as a sign of life. A server that has seen no change for the lock's life makes the next
//! number. Values have the token of their writer in their names, and the highest counts: what a
//! former holder writes late is not read.
//! Caveat: the clocks of the servers are not compared. Attributes and listings that a network file
//! system caches must be younger than the life of a lock (NFS: up to 60 s for directories, so that
//! two servers may order one certificate twice in that time; mount with `actimeo=3`).
//! Out of scope: encryption (`secret`).

use super::store::{Lock, StateEngine, Store};
use crate::log::LogError;
use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

/// Content of a lock that is not held.
const RELEASED: &[u8] = b"released";

/// Listings, while other servers remove files that were listed.
const ATTEMPTS: u32 = 5;

/// Time after which lent values are removed.
const LENT_KEPT: Duration = Duration::from_secs(86_400);

/// A directory of all servers.
#[derive(Clone, Debug)]
pub struct FolderEngine {
    pub folder: PathBuf,
}

/// Last look at a lock that another server holds.
struct LastLook {
    token: u64,
    content: Vec<u8>,
    since: Instant,
}

pub struct FolderState {
    locks: PathBuf,
    values: PathBuf,
    /// Random; begins the names of unfinished files.
    id: u64,
    count: u64,
    seen: HashMap<String, LastLook>,
}

impl StateEngine for FolderEngine {
    type State = FolderState;

    async fn connect_state(&self) -> Result<FolderState, LogError> {
        FolderState::open(&self.folder).map_err(|error| failed(&self.folder, &error))
    }

    fn shown(&self) -> String {
        self.folder.display().to_string()
    }
}

impl FolderState {
    pub fn open(folder: &Path) -> io::Result<FolderState> {
        let (locks, values) = (folder.join("locks"), folder.join("values"));
        for folder in [folder, &locks, &values] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        let mut id = [0; 8];
        aws_lc_rs::rand::fill(&mut id).map_err(|_| io::Error::other("no random bytes"))?;
        Ok(FolderState {
            locks,
            values,
            id: u64::from_le_bytes(id),
            count: 0,
            seen: HashMap::new(),
        })
    }

    /// A whole file under a name of its own.
    fn unfinished(&mut self, folder: &Path, content: &[u8]) -> io::Result<PathBuf> {
        self.count += 1;
        let path = folder.join(format!("new.{:016x}.{}.part", self.id, self.count));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(content)?;
        file.sync_all()?;
        Ok(path)
    }

    fn replace(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let new = self.unfinished(&folder, content)?;
        fs::rename(&new, path)?;
        File::open(&folder)?.sync_all()
    }

    /// Makes a lock, unless there is one with this token.
    fn make_lock(&mut self, name: &str, token: u64) -> io::Result<bool> {
        let folder = self.locks.clone();
        let new = self.unfinished(&folder, &self.sign_of_life())?;
        let made = fs::hard_link(&new, numbered(&folder, name, token));
        fs::remove_file(&new)?;
        match made {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn sign_of_life(&self) -> Vec<u8> {
        format!("{:016x} {}", self.id, self.count).into_bytes()
    }

    fn try_acquire(&mut self, name: &str, life: Duration) -> io::Result<Option<u64>> {
        let highest = highest(&self.locks, name)?;
        let next = match highest {
            None => 1,
            Some(token) => {
                let content = fs::read(numbered(&self.locks, name, token))?;
                if content != RELEASED && !self.is_dead(name, token, content, life) {
                    return Ok(None);
                }
                token.saturating_add(1)
            }
        };
        if !self.make_lock(name, next)? {
            return Ok(None);
        }
        self.seen.remove(name);
        // What a former holder writes from here on is not read.
        if let Some(written) = self::highest(&self.values, name)?.filter(|number| *number < next) {
            let value = fs::read(numbered(&self.values, name, written))?;
            let path = numbered(&self.values, name, next);
            self.replace(&path, &value)?;
        }
        remove_below(&self.locks, name, next)?;
        remove_below(&self.values, name, next)?;
        Ok(Some(next))
    }

    /// True if the lock has not changed for its life, by this server's clock.
    fn is_dead(&mut self, name: &str, token: u64, content: Vec<u8>, life: Duration) -> bool {
        let now = Instant::now();
        match self.seen.get(name) {
            Some(seen) if seen.token == token && seen.content == content => {
                now.saturating_duration_since(seen.since) >= life
            }
            _ => {
                let since = now;
                let seen = LastLook {
                    token,
                    content,
                    since,
                };
                self.seen.insert(name.to_owned(), seen);
                false
            }
        }
    }

    fn is_held(&self, name: &str, token: u64) -> io::Result<bool> {
        if highest(&self.locks, name)? != Some(token) {
            return Ok(false);
        }
        Ok(fs::read(numbered(&self.locks, name, token))? != RELEASED)
    }

    fn sweep_lent(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.values)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_lent = name.to_str().is_some_and(|name| name.ends_with(".lent"));
            let age = entry
                .metadata()
                .and_then(|found| found.modified())
                .ok()
                .and_then(|at| SystemTime::now().duration_since(at).ok());
            if is_lent && age.is_some_and(|age| age > LENT_KEPT) {
                // Another server may have been faster.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    fn lent(&self, name: &str) -> PathBuf {
        self.values.join(format!("{name}.lent"))
    }

    fn fail<T>(&self, done: io::Result<T>) -> Result<T, LogError> {
        done.map_err(|error| failed(&self.values, &error))
    }
}

impl Store for FolderState {
    async fn get(&mut self, name: &str) -> Result<Option<Vec<u8>>, LogError> {
        let read = again(|| {
            let path = match highest(&self.values, name)? {
                Some(number) => numbered(&self.values, name, number),
                None => self.lent(name),
            };
            match fs::read(path) {
                Ok(value) => Ok(Some(value)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match highest(&self.values, name)? {
                        // It was removed after the next one had been written.
                        Some(_) => Err(error),
                        None => Ok(None),
                    }
                }
                Err(error) => Err(error),
            }
        });
        self.fail(read)
    }

    async fn put(&mut self, name: &str, value: &[u8], token: u64) -> Result<bool, LogError> {
        let path = numbered(&self.values, name, token);
        let done = match self.is_held(name, token) {
            Ok(true) => self.replace(&path, value).map(|()| true),
            other => other,
        };
        self.fail(done)
    }

    async fn lend(&mut self, name: &str, value: &[u8], _life_ms: u64) -> Result<(), LogError> {
        let path = self.lent(name);
        let done = self.replace(&path, value).and_then(|()| self.sweep_lent());
        self.fail(done)
    }
}

impl Lock for FolderState {
    async fn acquire(&mut self, name: &str, life_ms: u64) -> Result<Option<u64>, LogError> {
        let life = Duration::from_millis(life_ms);
        let mut attempts = 0;
        let done = loop {
            attempts += 1;
            match self.try_acquire(name, life) {
                Err(error) if is_gone(&error) && attempts < ATTEMPTS => {}
                done => break done,
            }
        };
        self.fail(done)
    }

    async fn renew(&mut self, name: &str, token: u64, _life_ms: u64) -> Result<bool, LogError> {
        let path = numbered(&self.locks, name, token);
        let done = match again(|| self.is_held(name, token)) {
            Ok(true) => {
                self.count += 1;
                let sign = self.sign_of_life();
                self.replace(&path, &sign).map(|()| true)
            }
            other => other,
        };
        self.fail(done)
    }

    async fn release(&mut self, name: &str, token: u64) -> Result<(), LogError> {
        let path = numbered(&self.locks, name, token);
        let done = match again(|| self.is_held(name, token)) {
            Ok(true) => self.replace(&path, RELEASED),
            other => other.map(drop),
        };
        self.fail(done)
    }
}

fn failed(folder: &Path, error: &io::Error) -> LogError {
    LogError::Failed(format!("{}: {error}", folder.display()))
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Repeats what other servers' removals disturb.
fn again<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut done = attempt();
    for _ in 1..ATTEMPTS {
        match &done {
            Err(error) if is_gone(error) => done = attempt(),
            _ => break,
        }
    }
    done
}

fn numbered(folder: &Path, name: &str, number: u64) -> PathBuf {
    folder.join(format!("{name}.{number}"))
}

/// The highest number of a name.
fn highest(folder: &Path, name: &str) -> io::Result<Option<u64>> {
    Ok(numbers(folder, name)?.into_iter().max())
}

fn numbers(folder: &Path, name: &str) -> io::Result<Vec<u64>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let file = entry?.file_name();
        let number = file
            .to_str()
            .and_then(|file| file.rsplit_once('.'))
            .filter(|(stem, _)| *stem == name)
            .and_then(|(_, number)| number.parse::<u64>().ok());
        all.extend(number);
    }
    Ok(all)
}

fn remove_below(folder: &Path, name: &str, number: u64) -> io::Result<()> {
    for lower in numbers(folder, name)?
        .into_iter()
        .filter(|lower| *lower < number)
    {
        match fs::remove_file(numbered(folder, name, lower)) {
            Err(error) if !is_gone(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    const LIFE_MS: u64 = 60_000;

    fn run<T>(done: impl Future<Output = Result<T, LogError>>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(done).unwrap()
    }

    #[test]
    fn one_server_holds_a_lock_and_writes() {
        let dir = TempDir::new("cluster-folder").unwrap();
        let open = || FolderState::open(&dir).unwrap();
        let (mut one, mut other) = (open(), open());
        let token = run(one.acquire("a.example", LIFE_MS)).unwrap();
        assert_eq!(run(other.acquire("a.example", LIFE_MS)), None);
        assert!(run(other.acquire("b.example", LIFE_MS)).is_some());
        assert_eq!(run(one.get("a.example")), None);
        assert!(run(one.put("a.example", b"1", token)));
        assert!(!run(other.put("a.example", b"2", token + 1)));
        assert_eq!(run(other.get("a.example")).as_deref(), Some(&b"1"[..]));
        run(one.release("a.example", token));
        assert!(!run(one.put("a.example", b"3", token)), "not held");
        let next = run(other.acquire("a.example", LIFE_MS)).unwrap();
        assert!(next > token);
        assert_eq!(run(other.get("a.example")).as_deref(), Some(&b"1"[..]));
    }

    /// The holder was paused for longer than its lock lives.
    #[test]
    fn a_dead_lock_is_taken_over_and_its_holder_writes_no_more() {
        let dir = TempDir::new("cluster-folder").unwrap();
        let open = || FolderState::open(&dir).unwrap();
        let (mut paused, mut other) = (open(), open());
        let token = run(paused.acquire("a", LIFE_MS)).unwrap();
        run(paused.put("a", b"old", token));
        assert_eq!(run(other.acquire("a", 0)), None, "seen for the first time");
        assert!(run(paused.renew("a", token, LIFE_MS)));
        assert_eq!(run(other.acquire("a", 0)), None, "a sign of life");
        let next = run(other.acquire("a", 0)).unwrap();
        assert!(!run(paused.renew("a", token, LIFE_MS)));
        assert!(!run(paused.put("a", b"late", token)));
        // Even if it had looked before, and writes now.
        fs::write(numbered(&paused.values, "a", token), b"late").unwrap();
        assert_eq!(run(other.get("a")).as_deref(), Some(&b"old"[..]));
        assert!(run(other.put("a", b"new", next)));
        run(paused.release("a", token));
        assert!(run(other.renew("a", next, LIFE_MS)), "not released by it");
        assert_eq!(run(paused.get("a")).as_deref(), Some(&b"new"[..]));
    }

    #[test]
    fn of_many_servers_one_gets_the_lock() {
        let dir = TempDir::new("cluster-folder").unwrap();
        for round in 0..20 {
            let name = format!("name-{round}");
            let winners = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8)
                    .map(|_| {
                        let mut state = FolderState::open(&dir).unwrap();
                        let name = name.clone();
                        scope.spawn(move || run(state.acquire(&name, LIFE_MS)).is_some())
                    })
                    .collect();
                let ended = threads.into_iter().map(|thread| thread.join().unwrap());
                ended.filter(|is_winner| *is_winner).count()
            });
            assert_eq!(winners, 1);
        }
        assert_eq!(numbers(&dir.join("locks"), "name-1").unwrap(), [1]);
    }

    #[test]
    fn lent_values_are_read_by_all() {
        let dir = TempDir::new("cluster-folder").unwrap();
        let (mut one, mut other) = (
            FolderState::open(&dir).unwrap(),
            FolderState::open(&dir).unwrap(),
        );
        run(one.lend("challenge-x", b"x.thumb", 1000));
        assert_eq!(
            run(other.get("challenge-x")).as_deref(),
            Some(&b"x.thumb"[..])
        );
        assert_eq!(run(other.get("challenge-y")), None);
    }
}
