use super::*;
use crate::flood_gate::LINES_PER_SECOND_MAX;
use saker_testkit::wait_for;

/// 21 November 2026, 09:12:12.123456 UTC.
const MOMENT: Duration = Duration::from_micros(1_795_252_332_123_456);

fn text(facts: fmt::Arguments<'_>) -> String {
    String::from_utf8(line(&message::LISTENING, &ProcessContext, facts, MOMENT)).expect("ASCII")
}

#[test]
fn shape_of_a_line() {
    let client: SocketAddr = "192.0.2.7:4711".parse().expect("address");
    let line = line(
        &message::REQUEST_REJECTED,
        &client,
        format_args!("bare \"CR\""),
        MOMENT,
    );
    let text = String::from_utf8(line).expect("ASCII");
    let (time, rest) = text.split_once("] ").expect("time");
    let minutes = "12:12.123456 2026"; // The hour is the machine's own.
    assert!(
        time.starts_with("[Sat Nov 21 ") && time.ends_with(minutes),
        "{time}"
    );
    let (place, rest) = rest.split_once("] [client ").expect("client");
    assert!(
        place.starts_with(&format!("[http:info] [pid {}:tid ", std::process::id())),
        "{place}"
    );
    assert_eq!(
        rest,
        "192.0.2.7:4711] SK0401: request rejected: bare \"CR\"\n"
    );
}

#[test]
fn facts_are_made_harmless() {
    assert!(text(format_args!("")).ends_with("SK0102: listening\n"));
    assert!(
        text(format_args!("a\n[x] b\x1b[31m\u{e9}\\\""))
            .ends_with("listening: a\\n[x] b\\x1b[31m\\xc3\\xa9\\\\\"\n")
    );
}

#[test]
fn facts_are_bounded() {
    let fits = text(format_args!("{}", "x".repeat(FACTS_BYTES_MAX)));
    assert!(fits.ends_with("xxx\n"));
    let long = text(format_args!("{}{}", "x".repeat(FACTS_BYTES_MAX), "y"));
    assert_eq!(long, fits.replace('\n', "...\n"));
    assert!(
        text(format_args!("{}", "\u{e9}".repeat(FACTS_BYTES_MAX))).ends_with("\\xc3\\xa9...\n")
    );
}

/// A stream that fails for a while.
struct Failing {
    failures: usize,
    data: std::sync::Arc<Mutex<Vec<u8>>>,
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failures > 0 {
            self.failures -= 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.data.lock().expect("lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_stream_could_not_take_is_told_later() {
    let data = std::sync::Arc::new(Mutex::new(Vec::new()));
    let mut outlet = StreamOutlet::new(Failing {
        failures: 2,
        data: std::sync::Arc::clone(&data),
    });
    for lines in [b"a\n".as_slice(), b"b\nc\n", b"d\n", b"e\n"] {
        assert_eq!(outlet.write_lines(lines), Ok(()));
    }
    let text = String::from_utf8(data.lock().expect("lock").clone()).expect("ASCII");
    assert!(
        text.starts_with("\n[") && text.contains("SK0609") && text.ends_with(": 3 lines\nd\ne\n"),
        "{text}"
    );
}

/// The one test that uses the process's log: target, level, flood, rotation.
#[test]
fn the_process_log() {
    let directory = std::env::temp_dir().join(format!("saker-error-log-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("directory");
    let (path, rotated) = (directory.join("error.log"), directory.join("error.log.1"));
    init(&ErrorLogTarget::File(path.clone()), Level::Info).expect("init");
    assert!(init(&ErrorLogTarget::File("/nonexistent/x".into()), Level::Debug).is_err());
    assert!(
        enabled(Level::Info) && !enabled(Level::Debug),
        "a failed init changes nothing"
    );

    log(&message::IDLE_TIMEOUT, format_args!("below the level"));
    for number in 0..LINES_PER_SECOND_MAX * 20 {
        log(&message::SYMLINK_REFUSED, format_args!("number {number}"));
    }
    let text = wait_for("the count of the second", || {
        tick();
        assert!(flush(Duration::from_secs(10)));
        let text = std::fs::read_to_string(&path).expect("log");
        text.contains("SK0608: ").then_some(text)
    });
    let (told, suppressed) = (
        text.matches(" SK0506: ").count(),
        text.matches("SK0608: ").count(),
    );
    // The burst may straddle a second or two on a slow machine.
    assert!(
        (100..=400).contains(&told) && suppressed >= 1,
        "{told} {suppressed}"
    );
    assert!(!text.contains("below the level"));
    assert!(
        text.lines()
            .all(|line| line.starts_with('[') && line.contains("] SK0")),
        "{text}"
    );

    std::fs::rename(&path, &rotated).expect("rename");
    reopen().expect("reopen");
    log(&message::LOG_REOPENED, format_args!("{}", path.display()));
    assert!(flush(Duration::from_secs(10)));
    assert!(
        std::fs::read_to_string(&path)
            .expect("new log")
            .contains("SK0603: logs reopened: ")
    );
    init(&ErrorLogTarget::Stderr, Level::Notice).expect("back to standard error");
    let _ = std::fs::remove_dir_all(&directory);
}
