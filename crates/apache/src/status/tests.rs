use super::{
    numbers::{built, bytes, duration, general, kilobytes},
    *,
};
use std::time::Duration;

fn report() -> Report {
    Report {
        started_unix_s: 1_000,
        now_unix_s: 1_100,
        uptime: Duration::from_secs(100),
        generation: 2,
        requests: 50,
        bytes_out: 10 << 10,
        busy: Duration::from_millis(250),
        workers: vec![
            WorkerReport {
                connections: 3,
                busy: 1,
            },
            WorkerReport {
                connections: 1,
                busy: 1,
            },
        ],
        cpu_s: [0.5, 0.25, 0.0, 0.0],
        load: Some([0.1, 0.25, 2.0]),
        open: vec![OpenRequest {
            client: "192.0.2.1".into(),
            request: b"GET /<b> HTTP/1.1"[..].into(),
            host: b"a&b"[..].into(),
            protocol: "http/1.1",
            ..OpenRequest::default()
        }],
        ..Report::default()
    }
}

fn view(report: &Report, is_extended: bool) -> View<'_> {
    View {
        report,
        slots: 150,
        is_extended,
        name: b"www.test".to_vec(),
        address: "127.0.0.1".into(),
        software: "Saker/1.2.3".into(),
        signature: Vec::new(),
    }
}

fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
}

#[test]
fn keys_and_values() {
    let report = report();
    let text = auto::text(&view(&report, true));
    assert_eq!(text.lines().next(), Some("www.test"));
    let expected = [
        ("ServerVersion", "Saker/1.2.3"),
        ("ParentServerConfigGeneration", "2"),
        ("ServerUptime", "1 minute 40 seconds"),
        ("Load15", "2.00"),
        ("Total Accesses", "50"),
        ("Total kBytes", "10"),
        ("Total Duration", "250"),
        ("CPUUser", "0.5"),
        ("CPULoad", "0.75"),
        ("ReqPerSec", "0.5"),
        ("BytesPerSec", "102.4"),
        ("BytesPerReq", "204.8"),
        ("DurationPerReq", "5"),
        ("BusyWorkers", "2"),
        ("IdleWorkers", "148"),
        ("ConnsTotal", "4"),
        ("ConnsAsyncKeepAlive", "2"),
    ];
    for (key, expected) in expected {
        assert_eq!(value(&text, key), Some(expected), "{key}\n{text}");
    }
    let board = value(&text, "Scoreboard").unwrap();
    assert!(board.len() == 150 && board.starts_with("WW_"), "{board}");
    assert_eq!(
        value(&auto::text(&view(&report, false)), "Total Accesses"),
        None,
        "ExtendedStatus Off"
    );
}

#[test]
fn pages_are_escaped() {
    let report = report();
    for with_table in [true, false] {
        let page = String::from_utf8(page::html(&view(&report, true), with_table)).unwrap();
        assert!(
            page.contains("GET /&lt;b&gt; HTTP/1.1")
                && page.contains("a&amp;b")
                && !page.contains("<b> HTTP"),
            "{page}"
        );
        assert_eq!(page.contains("<th>Srv</th>"), with_table);
        assert!(page.contains("2 requests currently being processed, 0 workers gracefully restarting, 148 idle workers"));
    }
}

#[test]
fn numbers_as_c_writes_them() {
    let rows = [
        (0.0, "0"),
        (0.012_345_678, "0.0123457"),
        (1.0, "1"),
        (999_999.4, "999999"),
        (1_234_567.0, "1.23457e+06"),
        (0.000_01, "1e-05"),
        (102.4, "102.4"),
    ];
    for (value, expected) in rows {
        assert_eq!(general(value), expected, "{value}");
    }
    assert_eq!(
        (duration(0), duration(90_061).as_str()),
        (String::new(), " 1 day 1 hour 1 minute 1 second")
    );
    assert_eq!(
        (
            bytes(5119).as_str(),
            bytes(6 << 10).as_str(),
            bytes(3 << 20).as_str()
        ),
        ("5119 B", "6.0 kB", "3.0 MB")
    );
    assert_eq!(
        (kilobytes(12).as_str(), kilobytes(2048).as_str()),
        ("12 kB", "2.0 MB")
    );
    assert_eq!(built(1_795_291_134), "2026-11-21T19:58:54");
}

#[test]
fn refreshing() {
    let rows: [(&[u8], Option<u64>); 5] = [
        (b"", None),
        (b"refresh=5", Some(5)),
        (b"auto&refresh=10&x", Some(10)),
        (b"refresh", Some(10)),
        (b"refresh=x", Some(10)),
    ];
    for (query, expected) in rows {
        assert_eq!(
            refresh(query),
            expected,
            "{}",
            String::from_utf8_lossy(query)
        );
    }
}
