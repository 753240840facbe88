//! An endpoint's counts to the worker's metrics.

use saker_quic::Counts;
use saker_telemetry::{Counters, Metric};

pub fn publish(counts: &Counts, counters: &Counters) {
    let all = [
        (Metric::QuicDatagramsIn, counts.datagrams_in),
        (Metric::QuicDatagramsOut, counts.datagrams_out),
        (Metric::QuicHandshakes, counts.handshakes),
        (Metric::QuicHandshakesFailed, counts.handshakes_failed),
        (Metric::QuicHandshakesRefused, counts.handshakes_refused),
        (Metric::QuicRetries, counts.retries),
        (Metric::QuicVersionNegotiations, counts.version_negotiations),
        (Metric::QuicStatelessResets, counts.stateless_resets),
        (Metric::QuicMigrations, counts.migrations),
        (Metric::QuicEarlyData, counts.early_data_connections),
        (Metric::QuicPacketsSent, counts.packets_sent),
        (Metric::QuicPacketsLost, counts.packets_lost),
    ];
    for (metric, count) in all.into_iter().filter(|(_, count)| *count > 0) {
        counters.add(metric, count);
    }
}
