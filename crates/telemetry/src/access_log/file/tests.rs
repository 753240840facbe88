use super::*;
use saker_testkit::wait_until;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// A directory that goes away with its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("saker-log-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("scratch directory");
        Scratch(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("log")
}

#[test]
fn targets() {
    assert_eq!(LogTarget::parse("off"), LogTarget::Off);
    assert_eq!(LogTarget::parse(" - "), LogTarget::Stdout);
    assert_eq!(
        LogTarget::parse("|/bin/rotate 5M"),
        LogTarget::Program("/bin/rotate 5M".to_owned())
    );
    assert_eq!(
        LogTarget::parse("logs/access.log"),
        LogTarget::File("logs/access.log".into())
    );
    assert!(
        LogFile::open_target(&LogTarget::Off)
            .expect("off")
            .is_none()
    );
    assert!(LogFile::open_target(&LogTarget::Program("/nonexistent/x".to_owned())).is_err());
    assert!(LogFile::open(Path::new("/nonexistent/x")).is_err());
}

#[test]
fn appends_with_a_modest_mode() {
    let scratch = Scratch::new("mode");
    let path = scratch.path("a.log");
    for text in [b"one\n", b"two\n"] {
        let file = LogFile::open(&path).expect("open");
        assert_eq!(
            file.write_batch(text),
            Flushed {
                written: 1,
                dropped: 0
            }
        );
    }
    assert_eq!(read(&path), "one\ntwo\n");
    assert_eq!(
        std::fs::metadata(&path)
            .expect("metadata")
            .permissions()
            .mode()
            & 0o7137,
        0,
        "nothing for others, no writing for the group"
    );
}

#[test]
fn a_buffer_is_handed_over_when_full_or_told() {
    let scratch = Scratch::new("buffer");
    let path = scratch.path("a.log");
    let mut buffer = LogBuffer::new(LogFile::open(&path).expect("open"));
    assert_eq!(
        buffer.append(|out| out.extend(b"first\n")),
        Flushed::default()
    );
    assert_eq!((read(&path).as_str(), buffer.is_empty()), ("", false));
    assert_eq!(
        buffer.flush(),
        Flushed {
            written: 1,
            dropped: 0
        }
    );
    assert_eq!(
        (read(&path).as_str(), buffer.flush()),
        ("first\n", Flushed::default())
    );
    let mut written = 0;
    for _ in 0..BUFFER_BYTES / 8 {
        written += buffer.append(|out| out.extend(b"1234567\n")).written;
    }
    assert_eq!(
        written,
        BUFFER_BYTES as u64 / 8,
        "full at exactly the limit"
    );
    buffer.append(|out| out.extend(b"last\n"));
    drop(buffer);
    assert!(read(&path).ends_with("last\n"));
}

fn write_from_workers(file: &Arc<LogFile>, lines_per_worker: usize) -> u64 {
    let total = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let total = &total;
            scope.spawn(move || {
                let mut buffer = LogBuffer::new(Arc::clone(file));
                for number in 0..lines_per_worker {
                    let padding = "x".repeat(number % 97);
                    let flushed = buffer.append(|out| {
                        out.extend(format!("<{worker} {number} {padding}>\n").into_bytes())
                    });
                    let flushed = if number % 61 == 0 {
                        buffer.flush()
                    } else {
                        flushed
                    };
                    total.fetch_add(flushed.written, Ordering::Relaxed);
                }
                total.fetch_add(buffer.flush().written, Ordering::Relaxed);
            });
        }
    });
    total.into_inner()
}

/// All lines are whole and each worker's are in order; returns how many there are.
fn check(text: &str) -> usize {
    let mut next = [0usize; 4];
    for line in text.lines() {
        let inner = line
            .strip_prefix('<')
            .and_then(|rest| rest.strip_suffix('>'))
            .unwrap_or_else(|| panic!("torn: {line:?}"));
        let mut parts = inner.split(' ');
        let mut number = || {
            parts
                .next()
                .and_then(|part| part.parse::<usize>().ok())
                .expect("number")
        };
        let (worker, number) = (number(), number());
        assert_eq!(number, next[worker], "worker {worker}");
        assert_eq!(parts.next().map(str::len), Some(number % 97));
        next[worker] += 1;
    }
    next.iter().sum()
}

#[test]
fn workers_never_mix_their_lines() {
    let scratch = Scratch::new("workers");
    let path = scratch.path("a.log");
    let file = LogFile::open(&path).expect("open");
    assert_eq!(write_from_workers(&file, 5000), 20_000);
    assert_eq!(check(&read(&path)), 20_000);
}

#[test]
fn reopening_under_load_loses_nothing() {
    let scratch = Scratch::new("reopen");
    let path = scratch.path("a.log");
    let file = LogFile::open(&path).expect("open");
    let done = AtomicBool::new(false);
    let mut rotated = Vec::new();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = write_from_workers(&file, 20_000);
            done.store(true, Ordering::Relaxed);
            written
        });
        while !done.load(Ordering::Relaxed) {
            let old = scratch.path(&format!("a.log.{}", rotated.len()));
            std::fs::rename(&path, &old).expect("rename");
            rotated.push(old);
            file.reopen().expect("reopen");
            std::thread::yield_now();
        }
        assert_eq!(writer.join().expect("writer"), 80_000);
    });
    rotated.push(path);
    let text: String = rotated.iter().map(|path| read(path)).collect();
    assert!(rotated.len() > 2, "it was reopened meanwhile");
    assert_eq!(check(&text), 80_000);
}

#[test]
fn a_failed_reopen_keeps_the_old_file() {
    let scratch = Scratch::new("keep");
    let (directory, moved) = (scratch.path("logs"), scratch.path("moved"));
    std::fs::create_dir(&directory).expect("directory");
    let file = LogFile::open(&directory.join("a.log")).expect("open");
    std::fs::rename(&directory, &moved).expect("rename");
    assert!(file.reopen().is_err());
    assert_eq!(file.write_batch(b"still\n").written, 1);
    assert_eq!(read(&moved.join("a.log")), "still\n");
}

#[test]
fn only_our_own_torn_end_is_cut_off() {
    let scratch = Scratch::new("torn");
    let path = scratch.path("a.log");
    std::fs::write(&path, "whole\nto").expect("write");
    let mut sink = FileSink::new(open_append(&path).expect("open"));
    assert!(!sink.take_back(2), "nothing is known to be torn");
    sink.torn_at = Some(8);
    assert!(sink.take_back(2));
    assert_eq!(read(&path), "whole\n");
    assert!(!sink.take_back(2), "somebody changed the length");
}

#[test]
fn the_full_device_is_reported_and_counted() {
    // Not a regular file, so it goes through the queue like any device; the lines are lost, but no
    // worker stops.
    let file = LogFile::open(Path::new("/dev/full")).expect("open");
    assert_eq!(
        file.write_batch(b"a\nb\n"),
        Flushed {
            written: 2,
            dropped: 0
        }
    );
    let start = Instant::now();
    drop(file);
    assert!(start.elapsed() < FLUSH_AT_END);
}

#[test]
fn a_program_gets_the_lines() {
    let scratch = Scratch::new("program");
    let path = scratch.path("out");
    let command = format!("$exec cat >'{}'", path.display());
    let file = LogFile::open_target(&LogTarget::Program(command))
        .expect("start")
        .expect("a log");
    let mut buffer = LogBuffer::new(Arc::clone(&file));
    buffer.append(|out| out.extend(b"one\n"));
    buffer.flush();
    assert_eq!(file.reopen().expect("reopen"), Flushed::default());
    buffer.append(|out| out.extend(b"two\n"));
    drop(buffer);
    drop(file);
    wait_until("the lines", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text == "one\ntwo\n")
    });
}

#[test]
fn a_stuck_program_drops_lines_and_blocks_nobody() {
    let file = LogFile::open_target(&LogTarget::Program("sleep 60".to_owned()))
        .expect("start")
        .expect("a log");
    let batch = b"0123456789abcde\n".repeat(4096);
    let start = Instant::now();
    let mut sum = Flushed::default();
    for _ in 0..2 * QUEUED_BYTES_MAX / batch.len() {
        let flushed = file.write_batch(&batch);
        sum = Flushed {
            written: sum.written + flushed.written,
            dropped: sum.dropped + flushed.dropped,
        };
    }
    assert!(start.elapsed() < Duration::from_secs(50));
    assert!(sum.dropped >= sum.written / 2 && sum.written > 0, "{sum:?}");
    assert_eq!(
        sum.written + sum.dropped,
        (2 * QUEUED_BYTES_MAX / 16) as u64
    );
}
