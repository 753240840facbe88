//! Metrics of a QUIC endpoint: its counts, and the statistics of its open connections.
//!
//! Called by: `endpoint_loop`, after each round.

use saker_quic::{ConnectionStats, Counts};
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
        (Metric::QuicCongestionEvents, counts.congestion_events),
        (Metric::QuicEnded, counts.ended),
        (Metric::QuicEndedRttMicroseconds, counts.ended_rtt_us),
    ];
    for (metric, count) in all.into_iter().filter(|(_, count)| *count > 0) {
        counters.add(metric, count);
    }
}

/// Adds the changes since `told`: a worker may have several endpoints, which share its gauges.
pub fn publish_connection_stats(
    now: &ConnectionStats,
    told: &mut ConnectionStats,
    counters: &Counters,
) {
    if now == told {
        return;
    }
    for ((metric, now), (_, told)) in gauges(now).into_iter().zip(gauges(told)) {
        counters.add(metric, now.wrapping_sub(told));
    }
    *told = *now;
}

fn gauges(standing: &ConnectionStats) -> [(Metric, u64); 7] {
    let [under_10_ms, under_50_ms, under_200_ms, beyond] = standing.by_rtt;
    [
        (Metric::QuicOpenUnder10Ms, under_10_ms),
        (Metric::QuicOpenUnder50Ms, under_50_ms),
        (Metric::QuicOpenUnder200Ms, under_200_ms),
        (Metric::QuicOpenBeyond, beyond),
        (Metric::QuicRttMicroseconds, standing.rtt_us),
        (
            Metric::QuicCongestionWindowBytes,
            standing.congestion_window_bytes,
        ),
        (
            Metric::QuicReceiveWindowBytes,
            standing.receive_window_bytes,
        ),
    ]
}
