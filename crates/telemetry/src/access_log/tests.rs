use super::*;
use crate::local_time::TimeZone;
use saker_http::{Fields, RequestHead, Version};

const LINE: &[u8] = b"GET /a%20b?x=1 HTTP/1.1";

fn head() -> RequestHead {
    let fields = [
        ("Host", "shop.example"),
        ("User-Agent", "probe/1.0 \"q\""),
        ("Referer", "http://ref.example/"),
        ("Cookie", "a=1; sid=abc"),
        ("X-Two", "one"),
        ("x-two", "two"),
        ("Accept-Encoding", "gzip"),
        ("Accept-Encoding", "br"),
        ("Cookie", "late=2"),
    ];
    RequestHead::build("GET", "/a%20b?x=1", Version::Http11, &fields)
}

/// The one value that a name (or any, if it is empty) has.
struct Named<'a>(&'a str, &'a [u8]);

impl Lookup for Named<'_> {
    fn value(&self, name: &str) -> Option<&[u8]> {
        (self.0.is_empty() || self.0 == name).then_some(self.1)
    }
}

fn fields() -> Fields {
    let mut fields = Fields::new();
    fields.append("Content-Type", b"text/html; charset=utf-8".as_slice());
    fields.append("Set-Cookie", b"a=1".as_slice());
    fields.append("Set-Cookie", b"b=2".as_slice());
    fields.append("ETag", b"\"e\"".as_slice());
    fields
}

fn zone(text: &str) -> &'static TimeZone {
    Box::leak(Box::new(TimeZone::named(Some(text)).expect("zone")))
}

/// 21 November 2026, 09:12:12.123456 UTC, in a zone one hour east.
fn with_record<T>(act: impl FnOnce(Record<'_>) -> T) -> T {
    let (head, fields) = (head(), fields());
    act(Record {
        head: Some(head.view()),
        request_line: LINE,
        client_text: b"192.0.2.7",
        client_name: b"",
        client_port: 4711,
        peer_text: b"10.0.0.1",
        local: Some("[2001:db8::1]:8080".parse().expect("address")),
        canonical_port: Some(80),
        host: b"www.shop.example",
        site_name: "shop.example",
        path: b"/a b",
        final_path: Some(b"/error.html"),
        final_method: None,
        final_query: None,
        tls: Some(&OneVersion),
        query: Some(b"x=1"),
        status: 404,
        original_status: 403,
        body_bytes: 1234,
        bytes_in: 200,
        bytes_out: 1500,
        start_s: 1_795_252_332,
        start_us: 123_456,
        duration_us: Some(2_345_678),
        first_byte_us: Some(99),
        user: Some("ann"),
        file: Some(b"/srv/a b"),
        handler: "static-file",
        keepalive_count: 3,
        connection_status: ConnectionStatus::KeepAlive,
        response_fields: Some(&fields),
        protocol: "",
        notes: Some(&Named("cache", b"hit")),
        environment: Some(&Named("UNIQUE_ID", b"u1")),
        request_trailers: Some(&Named("Digest", b"in")),
        response_trailers: Some(&Named("Digest", b"out")),
        log_id: "L9",
        connection_log_id: "C8",
    })
}

fn line(format: &str, record: &Record<'_>) -> String {
    let mut out = Vec::new();
    let format = Format::parse(format).unwrap_or_else(|error| panic!("{format}: {error}"));
    format.write(record, &mut LogClock::in_zone(zone("CET-1")), &mut out);
    assert_eq!(out.pop(), Some(b'\n'));
    String::from_utf8(out).expect("ASCII")
}

/// A row per item of the language: format, full record, empty record.
const ITEMS: &[(&str, &str, &str)] = &[
    ("%%", "%", "%"),
    ("%a", "192.0.2.7", "-"),
    ("%{c}a", "10.0.0.1", "-"),
    ("%{c}h", "10.0.0.1", "-"),
    ("%A", "2001:db8::1", "-"),
    ("%B", "1234", "0"),
    ("%b", "1234", "-"),
    ("%{sid}C", "abc", "-"),
    ("%{SID}C", "abc", "-"),
    ("%{late}C", "2", "-"),
    ("%{none}C", "-", "-"),
    ("%D", "2345678", "-"),
    ("%{UNIQUE_ID}e", "u1", "-"),
    ("%f", "/srv/a b", "-"),
    ("%h", "192.0.2.7", "-"),
    ("%H", "HTTP/1.1", "-"),
    ("%{Referer}i", "http://ref.example/", "-"),
    ("%{user-agent}i", r#"probe/1.0 \"q\""#, "-"),
    ("%{X-Two}i", "one, two", "-"),
    ("%{Accept-Encoding}i", "gzip, br", "-"),
    ("%{Absent}i", "-", "-"),
    ("%k", "3", "0"),
    ("%l", "-", "-"),
    ("%L", "L9", "-"),
    ("%{c}L", "C8", "-"),
    ("%m", "GET", "-"),
    ("%{cache}n", "hit", "-"),
    ("%{none}n", "-", "-"),
    ("%{Content-Type}o", "text/html", "-"),
    ("%{set-cookie}o", "a=1, b=2", "-"),
    ("%{ETag}o", r#"\"e\""#, "-"),
    ("%{Absent}o", "-", "-"),
    ("%p", "80", "-"),
    ("%{canonical}p", "80", "-"),
    ("%{local}p", "8080", "-"),
    ("%{remote}p", "4711", "0"),
    ("%q", "?x=1", ""),
    ("%<q", "?x=1", ""),
    ("%{SSL_PROTOCOL}x", "TLSv1.3", "-"),
    ("%{version}c", "TLSv1.3", "-"),
    ("%{cipher}c", "-", "-"),
    ("%{errcode}c", "-", "-"),
    ("%r", "GET /a%20b?x=1 HTTP/1.1", "-"),
    ("%R", "static-file", "-"),
    ("%s", "403", "-"),
    ("%<s", "403", "-"),
    ("%>s", "404", "-"),
    (
        "%t",
        "[21/Nov/2026:10:12:12 +0100]",
        "[01/Jan/1970:01:00:00 +0100]",
    ),
    (
        "%{}t",
        "[21/Nov/2026:10:12:12 +0100]",
        "[01/Jan/1970:01:00:00 +0100]",
    ),
    ("%{end}t", "end", "end"),
    (
        "%{end:}t",
        "[21/Nov/2026:10:12:14 +0100]",
        "[01/Jan/1970:01:00:00 +0100]",
    ),
    (
        "%{%F %T %Z}t",
        "2026-11-21 10:12:12 CET",
        "1970-01-01 01:00:00 UTC",
    ),
    ("%{begin:%H:%M}t", "10:12", "01:00"),
    ("%{end:%S}t", "14", "00"),
    ("%{sec}t", "1795252332", "0"),
    ("%{msec}t", "1795252332123", "0"),
    ("%{usec}t", "1795252332123456", "0"),
    ("%{msec_frac}t", "123", "000"),
    ("%{usec_frac}t", "123456", "000000"),
    ("%{begin:sec}t", "1795252332", "0"),
    ("%{end:sec}t", "1795252334", "0"),
    ("%{end:usec_frac}t", "469134", "000000"),
    ("%T", "2", "-"),
    ("%{s}T", "2", "-"),
    ("%{ms}T", "2345", "-"),
    ("%{s.ms}T", "2.345", "-"),
    ("%{us}T", "2345678", "-"),
    ("%u", "ann", "-"),
    ("%U", "/a b", "-"),
    ("%>U", "/error.html", "-"),
    ("%v", "shop.example", "-"),
    ("%V", "www.shop.example", "-"),
    ("%X", "+", "-"),
    ("%I", "200", "0"),
    ("%O", "1500", "0"),
    ("%S", "1700", "0"),
    ("%^FB", "99", "-"),
    ("%{Digest}^ti", "in", "-"),
    ("%{Digest}^to", "out", "-"),
    // Conditions look at the final status.
    ("%404{Referer}i", "http://ref.example/", "-"),
    ("%400,404{Referer}i", "http://ref.example/", "-"),
    ("%400,501{Referer}i", "-", "-"),
    ("%!200,304,302{Referer}i", "http://ref.example/", "-"),
    ("%!404{Referer}i", "-", "-"),
    ("%{Referer}404>i", "http://ref.example/", "-"),
    // Text around items.
    ("%c %{errcode}c", "- -", "- -"),
    (r"a%mb%%c\t\\\q", "aGETb%c\t\\\\q", "a-b%c\t\\\\q"),
    ("\u{e9}%m", "\u{e9}GET", "\u{e9}-"),
];

#[test]
fn every_item() {
    with_record(|record| {
        for (format, full, empty) in ITEMS {
            // A format needs an item to be told from a name, and `%m%m` shows that nothing leaks
            // into the next.
            if *format != "%{end}t" {
                assert_eq!(line(format, &record), *full, "{format}");
                assert_eq!(
                    line(&format!("{format}|%m"), &record),
                    format!("{full}|GET"),
                    "{format}"
                );
            }
            let nothing = Record {
                connection_status: ConnectionStatus::Close,
                ..Record::default()
            };
            if !format.contains("%Z") && *format != "%{end}t" {
                assert_eq!(
                    line(format, &nothing),
                    *empty,
                    "{format} of an empty record"
                );
            }
        }
    });
}

#[test]
fn process_and_thread() {
    let record = Record::default();
    let pid = std::process::id().to_string();
    assert_eq!(line("%P %{pid}P", &record), format!("{pid} {pid}"));
    let tid: u64 = line("%{tid}P", &record).parse().expect("decimal");
    assert!(tid > 0);
    assert_eq!(
        u64::from_str_radix(&line("%{hextid}P", &record), 16),
        Ok(tid)
    );
}

#[test]
fn odd_values() {
    let record = Record {
        user: Some(""),
        query: Some(b""),
        connection_status: ConnectionStatus::Aborted,
        status: 200,
        ..Record::default()
    };
    assert_eq!(line("%u %q %X %s", &record), "\"\" ? X 200");
    let record = Record {
        site_name: "site",
        local: Some("1.2.3.4:99".parse().expect("address")),
        ..record
    };
    assert_eq!(line("%V %p %A", &record), "site 99 1.2.3.4");
    let record = Record {
        start_s: i64::MAX,
        start_us: u32::MAX,
        duration_us: Some(u64::MAX),
        bytes_in: u64::MAX,
        bytes_out: 1,
        ..record
    };
    assert_eq!(line("%S %D", &record), format!("{0} {0}", u64::MAX));
    assert!(line("%t %{end:usec}t %{%c}t", &record).contains("/9999:"));
    assert!(
        line(
            "%t",
            &Record {
                start_s: i64::MIN,
                ..record
            }
        )
        .starts_with("[01/Jan/0001:")
    );
}

#[test]
fn clients_with_names() {
    with_record(|record| {
        let named = Record {
            client_name: b"a.example",
            ..record
        };
        assert_eq!(line("%h %a %{c}h", &named), "a.example 192.0.2.7 10.0.0.1");
    });
}

#[test]
fn whole_lines() {
    with_record(|record| {
        let common =
            r#"192.0.2.7 - ann [21/Nov/2026:10:12:12 +0100] "GET /a%20b?x=1 HTTP/1.1" 404 1234"#;
        let combined = format!(r#"{common} "http://ref.example/" "probe/1.0 \"q\"""#);
        assert_eq!(line("common", &record), common);
        assert_eq!(line("combined", &record), combined);
        assert_eq!(
            line("vhost_combined", &record),
            format!("shop.example:80 {}", combined.replace(" 1234 ", " 1500 "))
        );
    });
    assert_eq!(
        line(
            "combined",
            &Record {
                status: 408,
                ..Record::default()
            }
        ),
        r#"- - - [01/Jan/1970:01:00:00 +0100] "-" 408 - "-" "-""#
    );
}

#[test]
fn refused_formats() {
    let rows = [
        ("", 0),
        ("combind", 0),
        ("%", 0),
        ("ab %!200", 3),
        ("%{Referer", 1),
        ("%m %Z", 3),
        ("%{}i", 0),
        ("%i", 0),
        ("%C", 0),
        ("%{x}T", 0),
        ("%{x}p", 0),
        ("%{x}P", 0),
        ("%^xx", 0),
        ("%^t", 0),
        ("%^ti", 0),
        ("%99s", 1),
        ("%99999999999s", 1),
        ("%{%Q}t", 0),
        ("%{a\nb}t", 0),
        ("%m\n", 2),
        (r"%m\n", 2),
        ("%\u{e9}", 0),
    ];
    for (text, offset) in rows {
        let error = Format::parse(text).expect_err(text);
        assert_eq!(error.offset, offset, "{text}: {error}");
        assert!(!error.message.contains(char::is_control), "{text}");
    }
}

#[test]
fn needs() {
    let needs = |text| Format::parse(text).expect(text).needs();
    assert_eq!(needs("combined"), Needs::default());
    assert_eq!(
        needs("vhost_combined"),
        Needs {
            bytes_out: true,
            ..Needs::default()
        }
    );
    assert_eq!(
        needs("%D").and(needs("%{a}o %f")),
        Needs {
            duration: true,
            response_fields: true,
            file: true,
            ..Needs::default()
        }
    );
    assert!(needs("%{end:sec}t").duration && !needs("%{sec}t").duration && needs("json").duration);
    assert!(needs("%S").bytes_in && needs("%S").bytes_out && needs("%^FB").first_byte);
    assert!(needs("%{a}^ti").trailers && needs("%{a}n").notes && needs("%{a}e").environment);
}

#[test]
fn time_follows_seconds_and_daylight_saving() {
    let format = Format::parse("%t").expect("format");
    let mut clock = LogClock::in_zone(zone("CET-1CEST,M3.5.0,M10.5.0/3"));
    let mut out = Vec::new();
    for start_s in [1_774_745_999, 1_774_746_000, 1_774_746_000, 1_774_745_999] {
        format.write(
            &Record {
                start_s,
                ..Record::default()
            },
            &mut clock,
            &mut out,
        );
    }
    let (before, after) = (
        "[29/Mar/2026:01:59:59 +0100]\n",
        "[29/Mar/2026:03:00:00 +0200]\n",
    );
    assert_eq!(
        String::from_utf8(out).expect("ASCII"),
        [before, after, after, before].concat()
    );
}

#[test]
fn json_line() {
    let expected = concat!(
        r#"{"time":"2026-11-21T10:12:12.123456+01:00","client":"192.0.2.7","site":"shop.example","host":"www.shop.example","#,
        r#""method":"GET","path":"/a b","query":"x=1","protocol":"HTTP/1.1","request":null,"status":404,"bytes":1234,"bytes_in":200,"bytes_out":1500,"#,
        r#""duration_ms":2345.678,"user":"ann","referer":"http://ref.example/","user_agent":"probe/1.0 \"q\"","handler":"static-file","#,
        r#""connection":"keep-alive"}"#
    );
    with_record(|record| assert_eq!(line("json", &record), expected));
    let keys = |text: &str| text.matches("\":").count();
    assert_eq!(
        keys(&line("json", &Record::default())),
        19,
        "the keys are always there"
    );
}

#[test]
fn json_of_bytes_that_are_no_text() {
    let path = b"/\xff\"\\\n\0\x7f\xc2\x9b\xe2\x80\xa8\xc3\xa9";
    let text = line(
        "json",
        &Record {
            path,
            request_line: b"\x16\x03",
            ..Record::default()
        },
    );
    assert!(
        text.contains("\"path\":\"/\u{fffd}\\\"\\\\\\u000a\\u0000\\u007f\\u009b\\u2028\u{e9}\""),
        "{text}"
    );
    assert!(text.contains(r#""request":"\u0016\u0003""#), "{text}");
}

/// A few thousand hostile records from a fixed seed: no line ever holds a control character or a
/// byte above ASCII (UTF-8 in JSON).
#[test]
fn no_line_holds_raw_control_characters() {
    let all: String = ITEMS
        .iter()
        .filter(|row| row.0.is_ascii() && !row.0.contains("\\t"))
        .map(|row| row.0)
        .collect();
    let formats = [
        Format::parse(&all).expect("all items"),
        Format::parse("combined").expect("combined"),
        Format::parse("json").expect("json"),
    ];
    let mut clock = LogClock::in_zone(zone("CET-1"));
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..3000 {
        let text: Vec<u8> = (0..24).map(|_| random_byte(&mut seed)).collect();
        let word = String::from_utf8_lossy(&text).into_owned();
        let head = RequestHead::build(
            &word,
            &word,
            Version::Http11,
            &[
                ("Referer", &word),
                ("X-Two", &word),
                ("Cookie", &word),
                ("Cookie", "sid=\u{1}"),
            ],
        );
        let mut fields = Fields::new();
        fields.append("ETag", text.clone());
        fields.append("Content-Type", text.clone());
        fields.append("Set-Cookie", text.clone());
        let lookup = Named("", &text);
        let record = Record {
            head: Some(head.view()),
            request_line: &text,
            client_text: &text,
            peer_text: &text,
            host: &text,
            site_name: &word,
            path: &text,
            final_path: Some(&text),
            query: Some(&text),
            user: Some(&word),
            file: Some(&text),
            handler: &word,
            response_fields: Some(&fields),
            protocol: &word,
            notes: Some(&lookup),
            environment: Some(&lookup),
            request_trailers: Some(&lookup),
            response_trailers: Some(&lookup),
            log_id: &word,
            connection_log_id: &word,
            status: 404,
            ..Record::default()
        };
        for (index, format) in formats.iter().enumerate() {
            let mut out = Vec::new();
            format.write(&record, &mut clock, &mut out);
            assert_eq!(out.pop(), Some(b'\n'));
            let text = String::from_utf8(out).expect("UTF-8");
            assert!(!text.contains(char::is_control), "{text:?}");
            assert!(index == 2 || text.is_ascii(), "{text:?}");
        }
    }
}

/// Half of them from the dangerous end.
fn random_byte(seed: &mut u64) -> u8 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    let byte = (*seed >> 32) as u8;
    if *seed & 1 == 0 {
        byte
    } else {
        b"\n\r\t\"\\\0\x1b;= "[usize::from(byte) % 10]
    }
}

struct OneVersion;

impl super::Computed for OneVersion {
    fn value(&self, name: &str) -> Option<std::borrow::Cow<'_, str>> {
        (name == "SSL_PROTOCOL").then_some("TLSv1.3".into())
    }
}
