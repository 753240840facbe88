//! The protocol of the control socket: bytes to requests, and responses to bytes. Pure.
//!
//! Called by: `server`.
//! Caveat: two languages share the socket. A line that starts with `{` is JSON; one that ends with
//! an HTTP version is HTTP, and its head is read to the end before it is answered.

use crate::{bans::BanVerb, cache::CacheVerb, hosts::HostsVerb};
use serde_json::{Value, json};

/// Sent by a successor that listens, on the connection that took over the state directory.
pub const LISTENING: &str = "listening\n";
/// Sent by its predecessor, on the same connection, when it has closed its listeners.
pub const CLOSED: &str = "closed\n";
/// Sent by an upgraded server that has read its configuration and could serve.
pub const READY: &str = "ready\n";
/// Sent by its predecessor when the page cache and the bans are the successor's.
pub const RELEASED: &str = "released\n";
/// Begins the line behind `LISTENING` with the addresses that the successor listens on, as a JSON
/// list; to a predecessor whose offer has `"leaves": true`.
pub const SERVES: &str = "serves ";
/// Answers it: the predecessor accepts nothing more there, and uses no page of the cache.
pub const LEFT: &str = "left\n";
/// Begins a line with a message about the page cache, in hexadecimal digits.
pub const STORE: &str = "store ";
/// Begins a line with figures that the predecessor has counted since, likewise.
pub const FIGURES: &str = "figures ";
/// Accompanies descriptors.
pub const DESCRIPTORS: u8 = b'F';

/// A request line or head may have this many bytes.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Seconds that are told unless others are asked for.
const LIVE_S: usize = 60;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    Status,
    Metrics,
    Reload,
    ReopenLogs,
    Stop {
        graceful: bool,
    },
    /// A successor asks a server that is stopping for the state directory.
    HandOver,
    /// A successor asks a server that runs for its sockets.
    Upgrade,
    /// The command line that the server was started with, and its environment.
    Origin,
    Cache(CacheVerb),
    Bans(BanVerb),
    Hosts(HostsVerb),
    /// State of this server in its cluster.
    ClusterStatus,
    /// Figures of so many last seconds; the server samples for a while.
    Live {
        seconds: usize,
    },
    /// A link for logging in to the console, which is opened if it is not.
    Console,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    Metrics,
    Status,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Verb(Verb),
    Scrape {
        page: Page,
        head_only: bool,
    },
    RefusedScrape {
        status: &'static str,
        text: &'static str,
    },
    Refused(String),
}

/// Length of the request, or `None` if more bytes are needed. At the end of the stream, all bytes
/// are the request.
pub fn request_end(bytes: &[u8], eof: bool) -> Option<usize> {
    let line_end = bytes
        .iter()
        .position(|&byte| byte == b'\n')
        .map(|at| at + 1);
    match line_end {
        Some(end) if is_http(&bytes[..end]) => head_end(bytes).or(eof.then_some(bytes.len())),
        Some(end) => Some(end),
        None => eof.then_some(bytes.len()),
    }
}

pub fn parse(request: &[u8]) -> Request {
    let line = request
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    match is_http(line) {
        true => parse_scrape(line),
        false => parse_verb(line).map_or_else(Request::Refused, Request::Verb),
    }
}

pub fn refusal(error: &str) -> Value {
    json!({ "ok": false, "error": error })
}

/// The answer to a successor that comes while another one takes over.
pub fn refused_upgrade(pid: u32) -> Value {
    let error = format!("another upgrade is under way: pid {pid} is taking over");
    json!({ "ok": false, "is_under_way": true, "error": error })
}

/// The answer to a reload that failed because of errors in the configuration.
pub fn refused_configuration(diagnostics: &str) -> Value {
    json!({ "ok": false, "configuration": true, "error": diagnostics })
}

/// An answer as it goes out: one line, because JSON escapes line feeds.
pub fn json_line(answer: &Value) -> Vec<u8> {
    let mut line = answer.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// An HTTP response that ends the connection (RFC 9112 section 9.6).
pub fn http_response(status: &str, content_type: &str, body: &str, head_only: bool) -> Vec<u8> {
    let mut response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
        body.len()
    );
    if !head_only {
        response.push_str(body);
    }
    response.into_bytes()
}

fn is_http(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    !line.starts_with(b"{") && (line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0"))
}

/// Offset after the empty line that ends a head (RFC 9112 section 2.2 lets a recipient accept a
/// bare LF).
fn head_end(bytes: &[u8]) -> Option<usize> {
    let mut line_start = 0;
    for (at, _) in bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'\n') {
        if bytes[line_start..at].trim_ascii().is_empty() {
            return Some(at + 1);
        }
        line_start = at + 1;
    }
    None
}

fn parse_scrape(line: &[u8]) -> Request {
    let mut words = line.split(|&byte| byte == b' ');
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let head_only = method == b"HEAD";
    if method != b"GET" && !head_only {
        return Request::RefusedScrape {
            status: "405 Method Not Allowed",
            text: "only GET and HEAD\n",
        };
    }
    match target.split(|&byte| byte == b'?').next() {
        Some(b"/metrics") => Request::Scrape {
            page: Page::Metrics,
            head_only,
        },
        Some(b"/status") => Request::Scrape {
            page: Page::Status,
            head_only,
        },
        _ => Request::RefusedScrape {
            status: "404 Not Found",
            text: "/metrics or /status\n",
        },
    }
}

const KNOWN: &str = "status, metrics, reload, reopen-logs, stop, hand-over, upgrade, origin, console, live, purge, purge-count, cache-stat, cache-list, cache-show, cache-warm, ban, unban, bans, hosts-stat, hosts-purge, cluster-status";

fn parse_verb(line: &[u8]) -> Result<Verb, String> {
    let request: Value =
        serde_json::from_slice(line).map_err(|error| format!("not a line of JSON: {error}"))?;
    let verb = request
        .get("verb")
        .and_then(Value::as_str)
        .ok_or("no \"verb\"")?;
    match verb {
        "status" => Ok(Verb::Status),
        "metrics" => Ok(Verb::Metrics),
        "reload" => Ok(Verb::Reload),
        "reopen-logs" => Ok(Verb::ReopenLogs),
        "console" => Ok(Verb::Console),
        "live" => match request.get("seconds").map(Value::as_u64) {
            None => Ok(Verb::Live { seconds: LIVE_S }),
            Some(Some(seconds)) => Ok(Verb::Live {
                seconds: usize::try_from(seconds).unwrap_or(usize::MAX),
            }),
            Some(None) => Err("\"seconds\" is a number".into()),
        },
        "hand-over" => Ok(Verb::HandOver),
        "upgrade" => Ok(Verb::Upgrade),
        "origin" => Ok(Verb::Origin),
        "cluster-status" => Ok(Verb::ClusterStatus),
        "stop" => match request.get("graceful") {
            None => Ok(Verb::Stop { graceful: true }),
            Some(Value::Bool(graceful)) => Ok(Verb::Stop {
                graceful: *graceful,
            }),
            Some(_) => Err("\"graceful\" is true or false".into()),
        },
        other => {
            let of_cache = CacheVerb::parse(other, &request).map(|verb| verb.map(Verb::Cache));
            let of_bans = || BanVerb::parse(other, &request).map(|verb| verb.map(Verb::Bans));
            of_cache
                .or_else(of_bans)
                .or_else(|| of_hosts(other, &request))
                .unwrap_or_else(|| Err(format!("unknown verb; known are {KNOWN}")))
        }
    }
}

fn of_hosts(verb: &str, request: &Value) -> Option<Result<Verb, String>> {
    HostsVerb::parse(verb, request).map(|verb| verb.map(Verb::Hosts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let get = |page| Request::Scrape {
            page,
            head_only: false,
        };
        let table: &[(&str, Request)] = &[
            (r#"{"verb":"status"}"#, Request::Verb(Verb::Status)),
            (" {\"verb\":\"metrics\"}\r\n", Request::Verb(Verb::Metrics)),
            (
                r#"{"verb":"reload","more":[1]}"#,
                Request::Verb(Verb::Reload),
            ),
            (r#"{"verb":"reopen-logs"}"#, Request::Verb(Verb::ReopenLogs)),
            (
                r#"{"verb":"cluster-status"}"#,
                Request::Verb(Verb::ClusterStatus),
            ),
            (
                r#"{"verb":"cache-stat"}"#,
                Request::Verb(Verb::Cache(CacheVerb::Stat)),
            ),
            (
                r#"{"verb":"live"}"#,
                Request::Verb(Verb::Live { seconds: LIVE_S }),
            ),
            (
                r#"{"verb":"live","seconds":5}"#,
                Request::Verb(Verb::Live { seconds: 5 }),
            ),
            (
                r#"{"verb":"live","seconds":-1}"#,
                Request::Refused("\"seconds\" is a number".into()),
            ),
            (
                r#"{"verb":"stop"}"#,
                Request::Verb(Verb::Stop { graceful: true }),
            ),
            (
                r#"{"verb":"stop","graceful":false}"#,
                Request::Verb(Verb::Stop { graceful: false }),
            ),
            (
                r#"{"verb":"status HTTP/1.1"#,
                Request::Refused(
                    "not a line of JSON: EOF while parsing a string at line 1 column 24".into(),
                ),
            ),
            (
                r#"{"verb":"stop","graceful":1}"#,
                Request::Refused("\"graceful\" is true or false".into()),
            ),
            (r#"{"verb":7}"#, Request::Refused("no \"verb\"".into())),
            ("[]", Request::Refused("no \"verb\"".into())),
            (
                "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
                get(Page::Metrics),
            ),
            ("GET /metrics?a=b HTTP/1.0\n\n", get(Page::Metrics)),
            ("GET /status HTTP/1.1\r\n\r\n", get(Page::Status)),
            (
                "HEAD /status HTTP/1.1\r\n\r\n",
                Request::Scrape {
                    page: Page::Status,
                    head_only: true,
                },
            ),
        ];
        for (text, expected) in table {
            assert_eq!(&parse(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn refused_pages() {
        for (line, expected) in [
            ("POST /metrics HTTP/1.1", "405 Method Not Allowed"),
            ("GET /stop HTTP/1.1", "404 Not Found"),
        ] {
            assert!(
                matches!(parse(line.as_bytes()), Request::RefusedScrape { status, .. } if status == expected),
                "{line}"
            );
        }
    }

    #[test]
    fn deep_nesting_is_refused_rather_than_recursed_into() {
        assert!(matches!(
            parse(&vec![b'['; REQUEST_BYTES_MAX]),
            Request::Refused(_)
        ));
    }

    #[test]
    fn ends() {
        for (text, eof, expected) in [
            ("{\"verb\"", false, None),
            ("{\"verb\"", true, Some(7)),
            ("{}\nrest", false, Some(3)),
            ("", true, Some(0)),
            ("GET / HTTP/1.1\r\n", false, None),
            ("GET / HTTP/1.1\r\nHost: x\r\n", false, None),
            ("GET / HTTP/1.1\r\nHost: x\r\n", true, Some(25)),
            ("GET / HTTP/1.1\r\nHost: x\r\n\r\nrest", false, Some(27)),
            ("GET / HTTP/1.1\n\n", false, Some(16)),
        ] {
            assert_eq!(
                request_end(text.as_bytes(), eof),
                expected,
                "{text:?} {eof}"
            );
        }
    }

    #[test]
    fn answers_are_one_line() {
        let line = json_line(&refusal("first\nsecond"));
        assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
    }
}
