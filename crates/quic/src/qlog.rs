//! qlog: what happens to one connection, for tools that draw it
//! (draft-ietf-quic-qlog-main-schema-03 and -quic-events-03, version 0.3).
//!
//! JSON text sequences (RFC 7464), handed to a [`Recorder`] as they come. The difficulty is what
//! can be seen: quinn-proto tells of packets only by way of a library that changes how this program
//! writes all its other JSON, so that there is what an endpoint sees by itself. Datagrams, not
//! packets; metrics after each turn of the connection; losses as a number, under a name of our own
//! (`saker:packets_lost`) since the draft's event names each packet. Absent on purpose: frames,
//! keys and anything that was said over the connection.

use crate::{Figures, Lost};
use std::{
    fmt::Write as _,
    net::{IpAddr, SocketAddr},
    time::Instant,
};

/// Destination for the records of one connection. It ends a trace that grows too long by itself.
pub trait Recorder {
    fn record(&mut self, records: &[u8]);
}

/// A connection that is to be recorded.
pub struct Recording {
    pub recorder: Box<dyn Recorder>,
    /// Now.
    pub unix_ms: u64,
}

pub(crate) struct Trace {
    recorder: Box<dyn Recorder>,
    began: Instant,
    unix_ms: f64,
    told: Option<Figures>,
    peer: SocketAddr,
    is_established: bool,
    records: String,
}

/// Kept back until so much has come together.
const RECORDS_BYTES: usize = 4 << 10;

impl Trace {
    pub fn begin(
        recording: Recording,
        now: Instant,
        connection_id: &[u8],
        peer: SocketAddr,
        local: Option<IpAddr>,
    ) -> Trace {
        let Recording { recorder, unix_ms } = recording;
        let (unix_ms, records) = (unix_ms as f64, String::with_capacity(RECORDS_BYTES * 2));
        let mut trace = Trace {
            recorder,
            began: now,
            unix_ms,
            told: None,
            peer,
            is_established: false,
            records,
        };
        let id = connection_id
            .iter()
            .fold(String::new(), |id, byte| id + &format!("{byte:02x}"));
        trace.record(format_args!(
            "{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"title\":\"saker\",\"trace\":{{\"vantage_point\":{{\"type\":\"server\"}},\
             \"common_fields\":{{\"ODCID\":\"{id}\",\"time_format\":\"absolute\"}}}}}}"
        ));
        let version = if peer.ip().to_canonical().is_ipv4() {
            "ipv4"
        } else {
            "ipv6"
        };
        let local = local
            .map(|local| format!(",\"dst_ip\":\"{}\"", local.to_canonical()))
            .unwrap_or_default();
        let (ip, port) = (peer.ip().to_canonical(), peer.port());
        trace.event(
            now,
            "connectivity:connection_started",
            format_args!("\"ip_version\":\"{version}\",\"src_ip\":\"{ip}\",\"src_port\":{port}{local},\"protocol\":\"QUIC\""),
        );
        trace
    }

    pub fn received(&mut self, now: Instant, bytes: usize) {
        self.datagrams(now, "transport:datagrams_received", bytes, bytes);
    }

    /// Datagrams of that length, the last of which may be shorter.
    pub fn sent(&mut self, now: Instant, bytes: usize, datagram_bytes: usize) {
        self.datagrams(now, "transport:datagrams_sent", bytes, datagram_bytes);
    }

    fn datagrams(&mut self, now: Instant, name: &str, bytes: usize, datagram_bytes: usize) {
        let each = datagram_bytes.max(1);
        let lengths: Vec<String> = (0..bytes)
            .step_by(each)
            .map(|at| format!("{{\"length\":{}}}", each.min(bytes.saturating_sub(at))))
            .collect();
        self.event(
            now,
            name,
            format_args!(
                "\"count\":{},\"raw\":[{}]",
                lengths.len(),
                lengths.join(",")
            ),
        );
    }

    /// Records the changes that a turn made to the connection.
    pub fn progress(
        &mut self,
        now: Instant,
        figures: Figures,
        peer: SocketAddr,
        is_established: bool,
    ) {
        if is_established && !std::mem::replace(&mut self.is_established, true) {
            let data = format_args!("\"old\":\"handshake_started\",\"new\":\"handshake_complete\"");
            self.event(now, "connectivity:connection_state_updated", data);
        }
        if std::mem::replace(&mut self.peer, peer) != peer {
            self.event(
                now,
                "saker:peer_moved",
                format_args!(
                    "\"ip\":\"{}\",\"port\":{}",
                    peer.ip().to_canonical(),
                    peer.port()
                ),
            );
        }
        let told = self.told.replace(figures);
        let passed = figures
            .packets_lost
            .saturating_sub(told.map_or(0, |told| told.packets_lost));
        if passed > 0 {
            self.event(
                now,
                "saker:packets_lost",
                format_args!("\"count\":{passed},\"total\":{}", figures.packets_lost),
            );
        }
        let datagram_bytes = told.map(|told| told.datagram_bytes);
        if let Some(old) = datagram_bytes.filter(|old| *old != figures.datagram_bytes) {
            self.event(
                now,
                "connectivity:mtu_updated",
                format_args!("\"old\":{old},\"new\":{}", figures.datagram_bytes),
            );
        }
        let metrics = metrics(&figures, told.as_ref());
        if !metrics.is_empty() {
            self.event(
                now,
                "recovery:metrics_updated",
                format_args!("{}", metrics.join(",")),
            );
        }
    }

    /// `closed_with`: the code that we closed it with.
    pub fn end(&mut self, now: Instant, lost: Option<&Lost>, closed_with: Option<u64>) {
        let data = match lost {
            Some(Lost::TimedOut) => "\"owner\":\"local\",\"trigger\":\"idle_timeout\"".to_owned(),
            Some(Lost::ClosedByPeer { code, reason }) => closed(
                "remote",
                "application",
                *code,
                &String::from_utf8_lossy(reason),
            ),
            Some(Lost::AbortedByPeer { code, reason }) => closed(
                "remote",
                "connection",
                *code,
                &String::from_utf8_lossy(reason),
            ),
            Some(Lost::Reset) => "\"owner\":\"remote\",\"trigger\":\"stateless_reset\"".to_owned(),
            Some(Lost::Fault { code, reason }) => closed("local", "connection", *code, reason),
            Some(Lost::ByUs) | None => match closed_with {
                Some(code) => closed("local", "application", code, ""),
                None => "\"owner\":\"local\",\"trigger\":\"unspecified\"".to_owned(),
            },
        };
        self.event(
            now,
            "connectivity:connection_closed",
            format_args!("{data}"),
        );
        self.recorder.record(self.records.as_bytes());
        self.records.clear();
    }

    fn event(&mut self, now: Instant, name: &str, data: std::fmt::Arguments<'_>) {
        let time = self.unix_ms + now.saturating_duration_since(self.began).as_secs_f64() * 1e3;
        self.record(format_args!(
            "{{\"time\":{time:.3},\"name\":\"{name}\",\"data\":{{{data}}}}}"
        ));
    }

    fn record(&mut self, json: std::fmt::Arguments<'_>) {
        // Nothing can fail in memory.
        let _ = writeln!(self.records, "\u{1e}{json}");
        if self.records.len() >= RECORDS_BYTES {
            self.recorder.record(self.records.as_bytes());
            self.records.clear();
        }
    }
}

fn metrics(now: &Figures, told: Option<&Figures>) -> Vec<String> {
    let is_new = |same: fn(&Figures, &Figures) -> bool| told.is_none_or(|told| !same(told, now));
    let mut metrics = Vec::new();
    if is_new(|told, now| told.rtt == now.rtt) {
        metrics.push(format!(
            "\"smoothed_rtt\":{:.3}",
            now.rtt.as_secs_f64() * 1e3
        ));
    }
    if is_new(|told, now| told.congestion_window_bytes == now.congestion_window_bytes) {
        metrics.push(format!(
            "\"congestion_window\":{}",
            now.congestion_window_bytes
        ));
    }
    if is_new(|told, now| told.slow_start_threshold_bytes == now.slow_start_threshold_bytes)
        && let Some(threshold) = now.slow_start_threshold_bytes
    {
        metrics.push(format!("\"ssthresh\":{threshold}"));
    }
    metrics
}

fn closed(owner: &str, which: &str, code: u64, reason: &str) -> String {
    let trigger = if which == "application" {
        "application"
    } else {
        "error"
    };
    format!(
        "\"owner\":\"{owner}\",\"{which}_code\":{code},\"reason\":\"{}\",\"trigger\":\"{trigger}\"",
        escaped(reason)
    )
}

/// RFC 8259 section 7.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, one| {
        match one {
            '"' | '\\' => out.extend(['\\', one]),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_peers_say_can_not_break_the_form() {
        assert_eq!(escaped("a\"b\\c\nd\u{1e}é"), "a\\\"b\\\\c\\u000ad\\u001eé");
    }
}
