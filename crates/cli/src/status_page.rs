//! The status report as text.
//!
//! Called by: `saker status` and `reload`; other commands, for durations and sizes.
//! Caveat: made from the JSON of the control socket, so that a newer or older server may lack
//! fields; those read as 0.
//! Out of scope: every counter; `--json` and `--prometheus` print all of them.

use crate::check::counted;
use serde_json::Value;
use std::fmt::Write as _;

/// Counters that stay at 0 while all is well.
const TROUBLE: [(&str, &str); 3] = [
    ("panics_total", "panics (each is a bug to report)"),
    ("log_lines_dropped_total", "access log lines lost"),
    (
        "accept_pauses_total",
        "pauses in accepting connections (descriptors or connections_max)",
    ),
];

/// Lines for them on the page.
const UPSTREAMS_MAX: usize = 20;

pub fn render(report: &Value, now_unix_s: u64) -> String {
    let counters = Counters(report);
    let mut rows = vec![
        (
            "configuration",
            format!(
                "{}, {}",
                text(report, "configuration"),
                generation(report, now_unix_s)
            ),
        ),
        ("listeners", listeners(report)),
        ("sites", grouped(number(report, "sites"))),
        ("workers", grouped(number(report, "workers"))),
        ("connections", counters.connections()),
        ("requests", counters.requests(number(report, "uptime_ms"))),
        ("responses", counters.responses()),
        (
            "bytes",
            format!(
                "{} in, {} out",
                bytes(counters.sum("bytes_in_total")),
                bytes(counters.sum("bytes_out_total"))
            ),
        ),
        ("resource cache", counters.resource_cache()),
    ];
    rows.extend(counters.page_cache().map(|line| ("page cache", line)));
    rows.extend(certificates(report, now_unix_s).map(|line| ("certificates", line)));
    rows.extend(upstreams(report).into_iter().map(|line| ("upstream", line)));
    let sandbox = report["sandbox"]["summary"].as_str();
    rows.extend(sandbox.map(|line| ("sandbox", line.to_owned())));
    rows.extend(counters.trouble().map(|line| ("attention", line)));
    let mut page = format!(
        "saker {}, pid {}, up {}\n\n",
        text(report, "version"),
        number(report, "pid"),
        duration(number(report, "uptime_ms") / 1000)
    );
    for (name, value) in rows {
        let _ = writeln!(page, "{name:<15} {value}");
    }
    page
}

pub fn reloaded(report: &Value) -> String {
    let count = |name| usize::try_from(number(report, name)).unwrap_or(usize::MAX);
    let (listeners, sites) = (
        counted(count("listeners"), "listener"),
        counted(count("sites"), "site"),
    );
    format!(
        "reloaded: generation {}, {listeners}, {sites}\n",
        number(report, "generation")
    )
}

/// Counters by metric name; those of one name that differ in their labels count together.
struct Counters<'r>(&'r Value);

impl Counters<'_> {
    fn sum(&self, metric: &str) -> u64 {
        let all = self
            .0
            .get("counters")
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        let of_metric = all.filter(|(name, _)| name.split('{').next() == Some(metric));
        of_metric
            .filter_map(|(_, value)| value.as_u64())
            .fold(0, u64::saturating_add)
    }

    fn labeled(&self, metric: &str, label: &str, value: &str) -> u64 {
        let name = format!("{metric}{{{label}=\"{value}\"}}");
        self.0
            .get("counters")
            .map_or(0, |counters| number(counters, &name))
    }

    fn connections(&self) -> String {
        format!(
            "{} open, {} accepted",
            grouped(self.sum("connections_open")),
            grouped(self.sum("connections_accepted_total"))
        )
    }

    fn requests(&self, uptime_ms: u64) -> String {
        let requests = self.sum("requests_total");
        let per_second = requests as f64 * 1000.0 / uptime_ms.max(1) as f64;
        format!(
            "{} in all, {per_second:.1}/s since the start, {} rejected",
            grouped(requests),
            grouped(self.sum("requests_rejected_total"))
        )
    }

    fn responses(&self) -> String {
        let of_class = |class| {
            format!(
                "{} {class}",
                grouped(self.labeled("responses_total", "class", class))
            )
        };
        ["1xx", "2xx", "3xx", "4xx", "5xx"].map(of_class).join(", ")
    }

    fn resource_cache(&self) -> String {
        let (hits, misses) = (
            self.sum("resource_cache_hits_total"),
            self.sum("resource_cache_misses_total"),
        );
        let percent = hits as f64 * 100.0 / hits.saturating_add(misses).max(1) as f64;
        let (entries, memory) = (
            self.sum("resource_cache_entries"),
            self.sum("resource_cache_bytes"),
        );
        format!(
            "{percent:.1} % hits ({} of {}), {} entries, {}",
            grouped(hits),
            grouped(hits.saturating_add(misses)),
            grouped(entries),
            bytes(memory)
        )
    }

    /// `None`: there were no page cache requests.
    fn page_cache(&self) -> Option<String> {
        let count = |result| self.labeled("page_cache_requests_total", "result", result);
        let [hits, stale, misses, passes] = ["hit", "stale", "miss", "pass"].map(count);
        let all = hits
            .saturating_add(stale)
            .saturating_add(misses)
            .saturating_add(passes);
        let percent = hits.saturating_add(stale) as f64 * 100.0 / all.max(1) as f64;
        let [stale, misses, passes] = [stale, misses, passes].map(grouped);
        (all > 0).then(|| {
            format!(
                "{percent:.1} % hits ({} of {}; {stale} stale), {misses} misses, {passes} passed",
                grouped(hits),
                grouped(all)
            )
        })
    }

    fn trouble(&self) -> impl Iterator<Item = String> {
        let counts = TROUBLE.map(|(metric, words)| (self.sum(metric), words));
        counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, words)| format!("{} {words}", grouped(count)))
    }
}

fn generation(report: &Value, now_unix_s: u64) -> String {
    let generation = format!("generation {}", number(report, "generation"));
    let Some(last) = report.get("last_reload").filter(|last| last.is_object()) else {
        return generation;
    };
    let ago = duration(now_unix_s.saturating_sub(number(last, "at_unix_s")));
    match last.get("error").and_then(Value::as_str) {
        None => format!("{generation}, reloaded {ago} ago"),
        Some(error) => format!(
            "{generation}; a reload {ago} ago was refused:\n{:16}{}",
            "",
            error.lines().next().unwrap_or_default()
        ),
    }
}

/// Automatic certificates: their number, and the first to expire.
fn certificates(report: &Value, now_unix_s: u64) -> Option<String> {
    let all = report.get("certificates").and_then(Value::as_array)?;
    let first = all
        .iter()
        .min_by_key(|certificate| number(certificate, "not_after_unix_s"))?;
    let names = first
        .get("names")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let (at, name) = (
        number(first, "not_after_unix_s"),
        names.collect::<Vec<_>>().join(", "),
    );
    let until = match at.checked_sub(now_unix_s) {
        Some(left) => format!("expires in {}", duration(left)),
        None => "expired".into(),
    };
    Some(format!(
        "{}, the first {until} ({name})",
        grouped(all.len() as u64)
    ))
}

/// Upstreams with requests, or with members that are down.
fn upstreams(report: &Value) -> Vec<String> {
    let all = report
        .get("upstreams")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let shown = all.filter_map(|upstream| {
        let members = upstream.get("members").and_then(Value::as_array)?;
        let sum = |name: &str| {
            members
                .iter()
                .map(|member| number(member, name))
                .fold(0, u64::saturating_add)
        };
        let down: Vec<&str> = members
            .iter()
            .filter(|member| text(member, "state") == "down")
            .map(|member| text(member, "address"))
            .collect();
        let (busy, requests, failures) = (sum("busy"), sum("requests"), sum("failures"));
        let away = if down.is_empty() {
            String::new()
        } else {
            format!("; down: {}", down.join(", "))
        };
        let discovery = discovery(&upstream["discovery"]);
        let line = format!(
            "{}: {}, {} so far, {} failed, {} in progress{away}{}",
            text(upstream, "name"),
            counted(members.len(), "member"),
            counted_requests(requests),
            grouped(failures),
            grouped(busy),
            discovery.as_deref().unwrap_or_default()
        );
        (requests > 0 || !down.is_empty() || discovery.is_some()).then_some(line)
    });
    let mut lines: Vec<String> = shown.collect();
    let more = lines.len().saturating_sub(UPSTREAMS_MAX);
    lines.truncate(UPSTREAMS_MAX);
    if more > 0 {
        lines.push(format!(
            "and {} more (--json has them)",
            grouped(more as u64)
        ));
    }
    lines
}

/// The state of an upstream's source of servers. `None`: it has none.
fn discovery(report: &Value) -> Option<String> {
    let source = report.get("source")?.as_str()?;
    let age = match report["age_ms"].as_u64() {
        Some(ms) => format!("answered {} s ago", grouped(ms / 1000)),
        None => "has not answered yet".to_owned(),
    };
    let servers = counted(number(report, "servers") as usize, "server");
    let error = report["error"].as_str();
    let error = error.map_or_else(String::new, |error| format!("; it fails: {error}"));
    Some(format!("; {servers} by {source}, which {age}{error}"))
}

fn counted_requests(count: u64) -> String {
    if count == 1 {
        "1 request".into()
    } else {
        format!("{} requests", grouped(count))
    }
}

fn listeners(report: &Value) -> String {
    let listed = report
        .get("listeners")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let listed: Vec<&str> = listed.collect();
    if listed.is_empty() {
        "none".into()
    } else {
        listed.join(", ")
    }
}

fn text<'r>(report: &'r Value, name: &str) -> &'r str {
    report.get(name).and_then(Value::as_str).unwrap_or("?")
}

fn number(report: &Value, name: &str) -> u64 {
    report.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

pub fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 4] = [
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1000),
    ];
    match UNITS.iter().find(|(_, unit)| count >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", count as f64 / *unit as f64),
        None => format!("{count} B"),
    }
}

/// The two largest units.
pub fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_control::{
        CertificateReport, DiscoveryReport, LastReload, MemberReport, OcspReport, ReloadReport,
        StatusReport, UpstreamReport,
    };

    fn report() -> StatusReport {
        let counters = [
            ("connections_open", 12),
            ("connections_accepted_total", 3412),
            ("requests_total{protocol=\"http1\"}", 120_000),
            ("responses_total{class=\"2xx\"}", 119_000),
            ("responses_total{class=\"4xx\"}", 1000),
            ("bytes_out_total", 4_100_000_000),
            ("resource_cache_hits_total", 999),
            ("resource_cache_misses_total", 1),
        ];
        StatusReport {
            version: "0.1.0".into(),
            pid: 4242,
            uptime_ms: 11_520_000,
            generation: 3,
            configuration: "/etc/saker/saker.toml".into(),
            workers: 2,
            listeners: vec!["0.0.0.0:80".into(), "unix:/run/x".into()],
            sites: 4,
            counters: counters
                .map(|(name, value)| (name.to_owned(), value))
                .to_vec(),
            ..StatusReport::default()
        }
    }

    #[test]
    fn a_page() {
        let expected = "\
saker 0.1.0, pid 4242, up 3 h 12 min

configuration   /etc/saker/saker.toml, generation 3
listeners       0.0.0.0:80, unix:/run/x
sites           4
workers         2
connections     12 open, 3,412 accepted
requests        120,000 in all, 10.4/s since the start, 0 rejected
responses       0 1xx, 119,000 2xx, 0 3xx, 1,000 4xx, 0 5xx
bytes           0 B in, 4.1 GB out
resource cache  99.9 % hits (999 of 1,000), 0 entries, 0 B
";
        assert_eq!(render(&report().to_json(), 0), expected);
    }

    #[test]
    fn trouble_and_a_refused_reload_show() {
        let error = Some("saker.toml:1:1: error: x\n  1 | x".to_owned());
        let mut report = StatusReport {
            last_reload: Some(LastReload {
                at_unix_s: 100,
                error,
                needs_new_server: false,
            }),
            ..report()
        };
        report.counters.push(("log_lines_dropped_total".into(), 5));
        let page = render(&report.to_json(), 190);
        assert!(page.contains("generation 3; a reload 1 min 30 s ago was refused:\n                saker.toml:1:1: error: x\n"), "{page}");
        assert!(
            page.ends_with("attention       5 access log lines lost\n"),
            "{page}"
        );
        report.last_reload = Some(LastReload {
            at_unix_s: 100,
            error: None,
            needs_new_server: false,
        });
        assert!(render(&report.to_json(), 101).contains("generation 3, reloaded 1 s ago\n"));
    }

    #[test]
    fn certificates_that_come_by_themselves() {
        let certificate = |name: &str, not_after_unix_s| CertificateReport {
            names: vec![name.into(), "b.example".into()],
            not_after_unix_s,
            ocsp: OcspReport::Missing,
        };
        let certificates = vec![
            certificate("a.example", 10_000_000),
            certificate("c.example", 90_000),
        ];
        let page = render(
            &StatusReport {
                certificates,
                ..report()
            }
            .to_json(),
            0,
        );
        assert!(
            page.contains(
                "\ncertificates    2, the first expires in 1 d 1 h (c.example, b.example)\n"
            ),
            "{page}"
        );
    }

    #[test]
    fn an_answer_without_what_we_look_for() {
        assert!(render(&Value::Null, 0).contains("listeners       none"));
    }

    #[test]
    fn a_reload() {
        let report = ReloadReport {
            generation: 2,
            listeners: 1,
            sites: 4,
            warnings: Vec::new(),
        };
        assert_eq!(
            reloaded(&report.to_json()),
            "reloaded: generation 2, 1 listener, 4 sites\n"
        );
    }

    #[test]
    fn numbers() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [0, 999, 1000, 1_500_000].map(bytes),
            ["0 B", "999 B", "1.0 kB", "1.5 MB"]
        );
        assert_eq!(
            [5, 65, 3600, 90_000].map(duration),
            ["5 s", "1 min 5 s", "1 h 0 min", "1 d 1 h"]
        );
    }

    #[test]
    fn upstreams_that_have_been_asked_or_are_away() {
        let member = |address: &str, state, requests| MemberReport {
            weight: 100,
            address: address.into(),
            state,
            is_standby: false,
            busy: 1,
            requests,
            failures: requests / 10,
        };
        let upstream = |name: &str, members| UpstreamReport {
            name: name.into(),
            members,
            discovery: None,
        };
        let discovered = UpstreamReport {
            discovery: Some(DiscoveryReport {
                source: "DNS SRV _http._tcp.a".into(),
                servers: 1,
                age_ms: Some(61_900),
                error: Some("110: Operation timed out".into()),
            }),
            ..upstream("found", vec![member("http://d:80", "up", 0)])
        };
        let upstreams = vec![
            upstream(
                "app",
                vec![
                    member("http://a:80", "up", 12_000),
                    member("http://b:80", "down", 30),
                ],
            ),
            upstream("idle", vec![member("http://c:80", "up", 0)]),
            discovered,
        ];
        let page = render(
            &StatusReport {
                upstreams,
                ..report()
            }
            .to_json(),
            0,
        );
        let line = "\nupstream        app: 2 members, 12,030 requests so far, 1,203 failed, 2 in progress; down: http://b:80\n";
        assert!(page.contains(line) && !page.contains("idle:"), "{page}");
        let line = "1 server by DNS SRV _http._tcp.a, which answered 61 s ago; it fails: 110: Operation timed out\n";
        assert!(page.contains(line), "{page}");
    }
}
