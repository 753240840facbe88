//! The table of counters and gauges, one set per worker, summed on request.
//!
//! Called by: all crates, to count; `server` shows the sums in `saker status` and on the control
//! socket as Prometheus text.
//! Caveat: a counter must cost one load and one store. Each worker owns its [`Counters`] and is
//! their only writer, so there is no read-modify-write across cores; readers see each number at
//! some recent moment, not all of them at the same one.
//! Out of scope: histograms (`latency`) and counters per site.

pub use crate::latency::Exposition;
use crate::latency::Latencies;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// One row of the table.
#[derive(Debug)]
pub struct Row {
    pub metric: Metric,
    pub kind: Kind,
    /// Name without the `saker_` prefix. Rows of one name stand together and differ in their label.
    pub name: &'static str,
    /// `key="value"` or empty.
    pub label: &'static str,
    pub unit: &'static str,
    pub help: &'static str,
}

macro_rules! metrics {
    ($($metric:ident $kind:ident $name:literal $label:literal $unit:literal $help:literal;)*) => {
        /// A number that each worker keeps.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Metric { $(#[doc = $help] $metric,)* }

        /// The table, in the order of [`Metric`].
        pub const ROWS: &[Row] =
            &[$(Row { metric: Metric::$metric, kind: Kind::$kind, name: $name, label: $label, unit: $unit, help: $help },)*];
    };
}

metrics! {
    ConnectionsAccepted Counter "connections_accepted_total" "" "connections" "Connections accepted.";
    ConnectionsOpen Gauge "connections_open" "" "connections" "Connections open now.";
    ConnectionsReading Gauge "connections_reading" "" "connections" "Connections of HTTP/1 whose request head has begun to arrive.";
    ConnectionsIdle Gauge "connections_idle" "" "connections"
        "Plain HTTP/1 connections that have waited for their clients for more than a quarter of a second.";
    ClosedByServer Counter "connections_closed_total" "reason=\"done\"" "connections" "Connections closed, by reason.";
    ClosedByClient Counter "connections_closed_total" "reason=\"client_gone\"" "connections" "Connections closed, by reason.";
    ClosedIdle Counter "connections_closed_total" "reason=\"idle_timeout\"" "connections" "Connections closed, by reason.";
    ClosedHeadTimeout Counter "connections_closed_total" "reason=\"head_timeout\"" "connections" "Connections closed, by reason.";
    ClosedBodyTimeout Counter "connections_closed_total" "reason=\"body_timeout\"" "connections" "Connections closed, by reason.";
    ClosedWriteTimeout Counter "connections_closed_total" "reason=\"write_timeout\"" "connections" "Connections closed, by reason.";
    ClosedPerAddressLimit Counter "connections_closed_total" "reason=\"per_address_limit\"" "connections" "Connections closed, by reason.";
    ClosedBanned Counter "connections_closed_total" "reason=\"banned\"" "connections" "Connections closed, by reason.";
    ClosedDenied Counter "connections_closed_total" "reason=\"denied\"" "connections" "Connections closed, by reason.";
    ClosedMalformed Counter "connections_closed_total" "reason=\"malformed\"" "connections" "Connections closed, by reason.";
    ClosedError Counter "connections_closed_total" "reason=\"error\"" "connections" "Connections closed, by reason.";
    AcceptPauses Counter "accept_pauses_total" "" "pauses" "Times accepting paused because no file descriptor was left.";
    ProxyPrefacesRefused Counter "proxy_prefaces_refused_total" "" "connections"
        "Connections refused because of a malformed or missing PROXY protocol header.";
    RequestsHttp1 Counter "requests_total" "protocol=\"http1\"" "requests" "Requests, by protocol.";
    RequestsHttp2 Counter "requests_total" "protocol=\"http2\"" "requests" "Requests, by protocol.";
    RequestsHttp3 Counter "requests_total" "protocol=\"http3\"" "requests" "Requests, by protocol.";
    RequestsOpen Gauge "requests_open" "" "requests" "Requests in progress, without those that are answered at once.";
    RequestMicroseconds Counter "request_microseconds_total" "" "microseconds" "Time spent on requests that were not answered at once.";
    RequestsRejected Counter "requests_rejected_total" "" "requests"
        "Requests refused before dispatch because they were malformed or exceeded a limit.";
    StreamSessionsTcp Counter "stream_sessions_total" "protocol=\"tcp\"" "sessions" "Sessions of streams that have ended: TCP connections, and clients over UDP.";
    StreamSessionsUdp Counter "stream_sessions_total" "protocol=\"udp\"" "sessions" "Sessions of streams that have ended: TCP connections, and clients over UDP.";
    StreamRefused Counter "stream_sessions_refused_total" "" "sessions" "Sessions of streams that an address rule, a limit, or the lack of a route refused.";
    StreamUnreachable Counter "stream_sessions_unreachable_total" "" "sessions" "Sessions of streams for which no upstream took a connection, or whose upstream broke it.";
    StreamBytesReceived Counter "stream_bytes_received_total" "" "bytes" "Bytes of clients of streams that were passed on.";
    StreamBytesSent Counter "stream_bytes_sent_total" "" "bytes" "Bytes passed on to clients of streams.";
    Http2StreamsReset Counter "http2_streams_reset_total" "" "streams" "Streams that the client reset before its response was complete.";
    Http2ConnectionErrors Counter "http2_connection_errors_total" "" "connections"
        "HTTP/2 connections closed because of a client error.";
    Http3StreamsReset Counter "http3_streams_reset_total" "" "streams" "Streams that the client reset before its response was complete.";
    Http3ConnectionErrors Counter "http3_connection_errors_total" "" "connections"
        "HTTP/3 connections closed because of a client error.";
    TlsHandshakesFull Counter "tls_handshakes_total" "result=\"full\"" "handshakes" "TLS handshakes, by result.";
    TlsHandshakesResumed Counter "tls_handshakes_total" "result=\"resumed\"" "handshakes" "TLS handshakes, by result.";
    TlsHandshakesFailed Counter "tls_handshakes_total" "result=\"failed\"" "handshakes" "TLS handshakes, by result.";
    QuicHandshakes Counter "quic_handshakes_total" "result=\"begun\"" "handshakes" "QUIC handshakes, by result.";
    QuicHandshakesFailed Counter "quic_handshakes_total" "result=\"failed\"" "handshakes" "QUIC handshakes, by result.";
    QuicHandshakesRefused Counter "quic_handshakes_total" "result=\"refused\"" "handshakes" "QUIC handshakes, by result.";
    QuicRetries Counter "quic_retries_total" "" "packets" "Retry packets sent to validate client addresses.";
    QuicVersionNegotiations Counter "quic_version_negotiations_total" "" "packets" "Version Negotiation packets sent for unsupported versions of QUIC.";
    QuicStatelessResets Counter "quic_stateless_resets_total" "" "packets" "Stateless resets sent for packets of unknown connections.";
    QuicMigrations Counter "quic_migrations_total" "" "connections" "Connections that migrated to another client address.";
    QuicEarlyData Counter "quic_early_data_total" "" "connections" "Connections with accepted early data (0-RTT).";
    QuicDatagramsIn Counter "quic_datagrams_in_total" "" "datagrams" "UDP datagrams received.";
    QuicDatagramsOut Counter "quic_datagrams_out_total" "" "datagrams" "UDP datagrams sent.";
    QuicPacketsSent Counter "quic_packets_sent_total" "" "packets" "Packets sent; open connections are counted with a delay of up to half a second.";
    QuicPacketsLost Counter "quic_packets_lost_total" "" "packets" "Packets lost; open connections are counted with a delay of up to half a second.";
    QuicCongestionEvents Counter "quic_congestion_events_total" "" "events"
        "Reductions of a congestion window because of loss or ECN marks.";
    QuicOpenUnder10Ms Gauge "quic_connections_open" "rtt=\"0-10ms\"" "connections" "Open QUIC connections, by round-trip time.";
    QuicOpenUnder50Ms Gauge "quic_connections_open" "rtt=\"10-50ms\"" "connections" "Open QUIC connections, by round-trip time.";
    QuicOpenUnder200Ms Gauge "quic_connections_open" "rtt=\"50-200ms\"" "connections" "Open QUIC connections, by round-trip time.";
    QuicOpenBeyond Gauge "quic_connections_open" "rtt=\"200ms-\"" "connections" "Open QUIC connections, by round-trip time.";
    QuicRttMicroseconds Gauge "quic_rtt_microseconds" "" "microseconds" "Round-trip times of open QUIC connections, summed.";
    QuicCongestionWindowBytes Gauge "quic_congestion_window_bytes" "" "bytes"
        "Congestion windows of open QUIC connections, summed.";
    QuicReceiveWindowBytes Gauge "quic_receive_window_bytes" "" "bytes"
        "Receive windows of open QUIC connections, summed.";
    QuicEnded Counter "quic_connections_ended_total" "" "connections" "Established QUIC connections that have ended.";
    QuicEndedRttMicroseconds Counter "quic_ended_rtt_microseconds_total" "" "microseconds"
        "Round-trip times of QUIC connections at their end, summed.";
    Responses1xx Counter "responses_total" "class=\"1xx\"" "responses" "Responses, by class of status code.";
    Responses2xx Counter "responses_total" "class=\"2xx\"" "responses" "Responses, by class of status code.";
    Responses3xx Counter "responses_total" "class=\"3xx\"" "responses" "Responses, by class of status code.";
    Responses4xx Counter "responses_total" "class=\"4xx\"" "responses" "Responses, by class of status code.";
    Responses5xx Counter "responses_total" "class=\"5xx\"" "responses" "Responses, by class of status code.";
    BytesIn Counter "bytes_in_total" "" "bytes" "Bytes received from clients.";
    BytesOut Counter "bytes_out_total" "" "bytes" "Bytes sent to clients.";
    MirrorRequestsAnswered Counter "mirror_requests_total" "result=\"answered\"" "requests" "Copies of requests for mirrors, by result.";
    MirrorRequestsFailed Counter "mirror_requests_total" "result=\"failed\"" "requests" "Copies of requests for mirrors, by result.";
    MirrorRequestsDropped Counter "mirror_requests_total" "result=\"dropped\"" "requests" "Copies of requests for mirrors, by result.";
    TraceSpansSent Counter "trace_spans_total" "result=\"sent\"" "spans" "Spans of traces, by result.";
    TraceSpansDropped Counter "trace_spans_total" "result=\"dropped\"" "spans" "Spans of traces, by result.";
    ResourceCacheHits Counter "resource_cache_hits_total" "" "lookups" "Lookups answered from the route cache.";
    ResourceCacheMisses Counter "resource_cache_misses_total" "" "lookups" "Lookups that were not in the route cache.";
    ResourceCacheEvictions Counter "resource_cache_evictions_total" "" "entries" "Entries evicted from the route cache to make room.";
    ResourceCacheInvalidations Counter "resource_cache_invalidations_total" "" "entries" "Entries evicted from the route cache because a file changed.";
    ResourceCacheEntries Gauge "resource_cache_entries" "" "entries" "Entries in the route cache.";
    ResourceCacheBytes Gauge "resource_cache_bytes" "" "bytes" "Memory used by the route cache.";
    BufferFileBytes Gauge "buffer_file_bytes" "" "bytes"
        "Size of buffer files: responses and request bodies buffered between clients and upstreams (see `buffer_files`).";
    BufferFileWaits Counter "buffer_file_waits_total" "" "waits" "Times an upstream had to wait for its client because of a limit or a full disk.";
    PageCacheHits Counter "page_cache_requests_total" "result=\"hit\"" "requests" "Page cache lookups, by result.";
    PageCacheStale Counter "page_cache_requests_total" "result=\"stale\"" "requests"
        "Page cache lookups, by result.";
    PageCacheMisses Counter "page_cache_requests_total" "result=\"miss\"" "requests"
        "Page cache lookups, by result.";
    PageCachePasses Counter "page_cache_requests_total" "result=\"pass\"" "requests"
        "Page cache lookups, by result.";
    PageCacheWaits Counter "page_cache_waits_total" "" "requests" "Requests that waited for another request to fetch the same page.";
    PageCacheStores Counter "page_cache_stores_total" "" "responses" "Responses stored in the page cache.";
    PageCacheRefreshes Counter "page_cache_refreshes_total" "" "requests" "Background fetches that refresh stale pages.";
    ClusterSent Counter "cluster_records_total" "direction=\"sent\"" "records" "Records of purges shared with other servers, by direction.";
    ClusterReceived Counter "cluster_records_total" "direction=\"received\"" "records" "Records of purges shared with other servers, by direction.";
    ClusterReconnects Counter "cluster_reconnects_total" "" "connections" "Connections to the cluster's log after the first.";
    ClusterBansSent Counter "cluster_bans_total" "direction=\"sent\"" "changes" "Bans and ends of bans shared with other servers, by direction.";
    ClusterBansReceived Counter "cluster_bans_total" "direction=\"received\"" "changes" "Bans and ends of bans shared with other servers, by direction.";
    ClusterChargesSent Counter "cluster_charges_total" "direction=\"sent\"" "batches" "Batches of charges to limits shared with other servers, by direction.";
    ClusterChargesReceived Counter "cluster_charges_total" "direction=\"received\"" "batches" "Batches of charges to limits shared with other servers, by direction.";
    ClusterPagesSent Counter "cluster_pages_total" "direction=\"sent\"" "pages" "Pages that the servers of a cluster have handed each other, by direction.";
    ClusterPagesReceived Counter "cluster_pages_total" "direction=\"received\"" "pages" "Pages that the servers of a cluster have handed each other, by direction.";
    ClusterPagesDeclined Counter "cluster_pages_declined_total" "" "answers" "Answers of other servers that they hand out no page: it is not for all clients, or purges are on the way.";
    ClusterPeersFailed Counter "cluster_peers_failed_total" "" "questions" "Questions for pages that another server of the cluster did not answer.";
    ClusterClears Counter "cluster_cache_clears_total" "" "events" "Times the page cache was cleared because purges of other servers might be missing.";
    ThrottleDelayed Counter "throttle_total" "outcome=\"delayed\"" "requests" "Requests over a rate limit, by outcome.";
    ThrottleRefused Counter "throttle_total" "outcome=\"refused\"" "requests" "Requests over a rate limit, by outcome.";
    CompressionDone Counter "compression_total" "result=\"compressed\"" "responses"
        "Responses compressed while they were sent; stored codings of files and cached pages are not counted.";
    LogLinesWritten Counter "log_lines_written_total" "" "lines" "Access log lines written to a file or program.";
    LogLinesDropped Counter "log_lines_dropped_total" "" "lines" "Access log lines lost because of a full disk or a slow program.";
    ReloadsOk Counter "reloads_total" "result=\"ok\"" "reloads" "Configuration reloads, by result.";
    ReloadsFailed Counter "reloads_total" "result=\"failed\"" "reloads" "Configuration reloads, by result.";
    CertificatesIssued Counter "automatic_certificates_total" "result=\"issued\"" "certificates" "Orders for automatic certificates, by result.";
    CertificatesFailed Counter "automatic_certificates_total" "result=\"failed\"" "certificates" "Orders for automatic certificates, by result.";
    ConsoleLogins Counter "console_logins_total" "result=\"ok\"" "logins" "Log-ins to the console, by result.";
    ConsoleLoginsRefused Counter "console_logins_total" "result=\"refused\"" "logins" "Log-ins to the console, by result.";
    Panics Counter "panics_total" "" "panics" "Panics; each is a bug to report.";
}

impl Metric {
    pub const COUNT: usize = ROWS.len();

    pub fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Returns the counter with that name and label; gauges have none that another process could
    /// go on with.
    pub fn counter(name: &str, label: &str) -> Option<Metric> {
        let is_it = |row: &&Row| row.name == name && row.label == label;
        let row = ROWS.iter().find(is_it)?;
        (row.kind == Kind::Counter).then_some(row.metric)
    }

    /// The counter for a response's class; codes outside 100 to 599 count as 5xx.
    pub fn for_status(status: u16) -> Metric {
        match status / 100 {
            1 => Metric::Responses1xx,
            2 => Metric::Responses2xx,
            3 => Metric::Responses3xx,
            4 => Metric::Responses4xx,
            _ => Metric::Responses5xx,
        }
    }
}

/// The numbers of one worker, which is their only writer; any thread may read. Aligned so that two
/// workers never share a cache line.
#[derive(Debug)]
#[repr(align(128))]
pub struct Counters {
    values: [AtomicU64; Metric::COUNT],
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            values: [const { AtomicU64::new(0) }; Metric::COUNT],
        }
    }
}

impl Counters {
    pub fn new() -> Arc<Counters> {
        Arc::default()
    }

    #[inline]
    pub fn add(&self, metric: Metric, amount: u64) {
        let cell = &self.values[metric as usize];
        // One writer per set, so load and store lose nothing, and cost no locked instruction.
        cell.store(
            cell.load(Ordering::Relaxed).wrapping_add(amount),
            Ordering::Relaxed,
        );
    }

    #[inline]
    pub fn increment(&self, metric: Metric) {
        self.add(metric, 1);
    }

    /// Increments on behalf of any thread, with a locked instruction: for rare metrics that are
    /// only ever counted this way.
    pub fn increment_from_any_thread(&self, metric: Metric) {
        self.values[metric as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Adds on behalf of any thread; see [`Counters::increment_from_any_thread`].
    pub fn add_from_any_thread(&self, metric: Metric, amount: u64) {
        self.values[metric as usize].fetch_add(amount, Ordering::Relaxed);
    }

    /// Lowers a gauge. One worker's share may fall below zero if another worker raised it; the sum
    /// is right.
    #[inline]
    pub fn subtract(&self, metric: Metric, amount: u64) {
        self.add(metric, amount.wrapping_neg());
    }

    /// Sets a gauge.
    #[inline]
    pub fn set(&self, metric: Metric, value: u64) {
        self.values[metric as usize].store(value, Ordering::Relaxed);
    }

    pub fn value(&self, metric: Metric) -> u64 {
        self.values[metric as usize].load(Ordering::Relaxed)
    }

    /// Sum of all workers' numbers.
    pub fn sum(workers: &[Arc<Counters>]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for worker in workers {
            for (total, cell) in snapshot.values.iter_mut().zip(&worker.values) {
                *total = total.wrapping_add(cell.load(Ordering::Relaxed));
            }
        }
        snapshot
    }
}

/// The numbers at one moment, in table order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    values: [u64; Metric::COUNT],
}

impl Default for Snapshot {
    fn default() -> Self {
        Snapshot {
            values: [0; Metric::COUNT],
        }
    }
}

impl Snapshot {
    /// A gauge that is below zero for the moment (workers are read one after the other) reads as 0.
    pub fn value(&self, metric: Metric) -> u64 {
        let value = self.values[metric as usize];
        if metric.row().kind == Kind::Gauge && value > i64::MAX as u64 {
            0
        } else {
            value
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static Row, u64)> {
        ROWS.iter().map(|row| (row, self.value(row.metric)))
    }
}

/// A gauge the caller knows and workers do not count: uptime, workers, generation.
#[derive(Clone, Debug)]
pub struct ExtraGauge<'a> {
    /// Without the `saker_` prefix.
    pub name: &'a str,
    /// `name="value"` pairs, escaped, or empty. Gauges of one name follow each other.
    pub label: String,
    pub help: &'a str,
    pub value: f64,
}

/// Prometheus text exposition, format 0.0.4.
pub fn prometheus(snapshot: &Snapshot, extra: &[ExtraGauge<'_>]) -> String {
    exposition(snapshot, extra, None, Exposition::Prometheus)
}

/// All metrics in one of the formats.
pub fn exposition(
    snapshot: &Snapshot,
    extra: &[ExtraGauge<'_>],
    latencies: Option<&Latencies>,
    format: Exposition,
) -> String {
    let mut out = String::with_capacity(8192);
    let mut family = "";
    for (row, value) in snapshot.iter() {
        if row.name != family {
            family = row.name;
            let name = match format {
                Exposition::Prometheus => row.name,
                Exposition::OpenMetrics => row.name.strip_suffix("_total").unwrap_or(row.name),
            };
            family_head(&mut out, name, row.help, row.kind);
        }
        let _ = match row.label {
            "" => writeln!(out, "saker_{} {value}", row.name),
            label => writeln!(out, "saker_{}{{{label}}} {value}", row.name),
        };
    }
    for gauge in extra {
        if gauge.name != family {
            family = gauge.name;
            family_head(&mut out, gauge.name, gauge.help, Kind::Gauge);
        }
        let _ = match gauge.label.as_str() {
            "" => writeln!(out, "saker_{} {}", gauge.name, gauge.value),
            label => writeln!(out, "saker_{}{{{label}}} {}", gauge.name, gauge.value),
        };
    }
    if let Some(latencies) = latencies {
        latencies.write(format, &mut out);
    }
    if format == Exposition::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

/// The table as Markdown, for the reference pages.
pub fn markdown() -> String {
    let mut out =
        String::from("| name | label | kind | unit | meaning |\n| --- | --- | --- | --- | --- |\n");
    for row in ROWS {
        let _ = writeln!(
            out,
            "| `saker_{}` | {} | {} | {} | {} |",
            row.name,
            row.label,
            kind_word(row.kind),
            row.unit,
            row.help
        );
    }
    out
}

fn family_head(out: &mut String, name: &str, help: &str, kind: Kind) {
    let help = help.replace('\\', "\\\\").replace('\n', "\\n");
    let _ = writeln!(
        out,
        "# HELP saker_{name} {help}\n# TYPE saker_{name} {}",
        kind_word(kind)
    );
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn table_is_sound() {
        let mut seen = HashSet::new();
        let mut families: Vec<&str> = Vec::new();
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.metric as usize, index);
            assert!(
                seen.insert((row.name, row.label)),
                "{} {} twice",
                row.name,
                row.label
            );
            assert!(
                row.help.ends_with('.') && !row.unit.is_empty(),
                "{}",
                row.name
            );
            assert_eq!(
                row.name.ends_with("_total"),
                row.kind == Kind::Counter,
                "{}",
                row.name
            );
            if families.last() != Some(&row.name) {
                assert!(
                    !families.contains(&row.name),
                    "rows of {} are apart",
                    row.name
                );
                families.push(row.name);
            }
        }
    }

    #[test]
    fn sums_workers() {
        let workers = [Counters::new(), Counters::new()];
        workers[0].add(Metric::BytesOut, 5);
        workers[1].add(Metric::BytesOut, 7);
        workers[0].increment(Metric::ConnectionsOpen);
        workers[1].subtract(Metric::ConnectionsOpen, 1);
        let sum = Counters::sum(&workers);
        assert_eq!(sum.value(Metric::BytesOut), 12);
        assert_eq!(sum.value(Metric::ConnectionsOpen), 0);
        assert_eq!(
            Counters::sum(&workers[1..]).value(Metric::ConnectionsOpen),
            0,
            "below zero reads as zero"
        );
        assert_eq!(sum.iter().count(), Metric::COUNT);
    }

    #[test]
    fn status_classes() {
        let classes = [
            (100, Metric::Responses1xx),
            (204, Metric::Responses2xx),
            (304, Metric::Responses3xx),
            (404, Metric::Responses4xx),
        ];
        for (status, metric) in classes {
            assert_eq!(Metric::for_status(status), metric);
        }
        assert_eq!(Metric::for_status(503), Metric::Responses5xx);
        assert_eq!(Metric::for_status(0), Metric::Responses5xx);
    }

    #[test]
    fn prometheus_text() {
        let counters = Counters::new();
        counters.add(Metric::Responses4xx, 3);
        let text = prometheus(
            &Counters::sum(&[counters]),
            &[ExtraGauge {
                name: "uptime_seconds",
                label: String::new(),
                help: "Since start.",
                value: 1.5,
            }],
        );
        assert!(text.contains("# HELP saker_responses_total Responses, by class of status code.\n# TYPE saker_responses_total counter\n"));
        assert!(text.contains("saker_responses_total{class=\"4xx\"} 3\n"));
        assert!(text.ends_with("# TYPE saker_uptime_seconds gauge\nsaker_uptime_seconds 1.5\n"));
        assert_eq!(text.matches("# TYPE saker_responses_total ").count(), 1);
        for line in text.lines() {
            assert!(
                line.starts_with("# ")
                    || line
                        .rsplit_once(' ')
                        .is_some_and(|(_, value)| value.parse::<f64>().is_ok()),
                "{line}"
            );
        }
    }

    #[test]
    fn markdown_has_every_row() {
        assert_eq!(markdown().lines().count(), ROWS.len() + 2);
    }
}
