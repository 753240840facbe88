//! The status for programs: a key and a value per line, as munin, collectd, Zabbix and the
//! Prometheus exporters read it.

use crate::status::{
    numbers::{built, duration, general, per, time},
    view::View,
};

pub fn text(view: &View<'_>) -> String {
    let mut lines = vec![String::from_utf8_lossy(&view.name).into_owned()];
    server(view, &mut lines);
    if view.is_extended {
        extended(view, &mut lines);
    }
    workers(view, &mut lines);
    lines.join("\n") + "\n"
}

fn server(view: &View<'_>, lines: &mut Vec<String>) {
    let (report, uptime_s) = (view.report, view.report.uptime.as_secs());
    lines.push(format!("ServerVersion: {}", view.software));
    lines.push("ServerMPM: event".into());
    lines.push(format!("Server Built: {}", built(report.built_unix_s)));
    lines.push(format!("CurrentTime: {}", time(report.now_unix_s)));
    lines.push(format!("RestartTime: {}", time(report.started_unix_s)));
    lines.push(format!(
        "ParentServerConfigGeneration: {}",
        report.generation
    ));
    lines.push(format!(
        "ParentServerMPMGeneration: {}",
        report.generation.saturating_sub(1)
    ));
    lines.push(format!("ServerUptimeSeconds: {uptime_s}"));
    lines.push(format!("ServerUptime:{}", duration(uptime_s)));
    if let Some(load) = report.load {
        let names = ["Load1", "Load5", "Load15"];
        lines.extend(
            names
                .iter()
                .zip(load)
                .map(|(name, load)| format!("{name}: {load:.2}")),
        );
    }
}

fn extended(view: &View<'_>, lines: &mut Vec<String>) {
    let report = view.report;
    let (requests, kilobytes, uptime_s) = (
        report.requests,
        report.bytes_out >> 10,
        report.uptime.as_secs(),
    );
    let (busy_ms, bytes) = (report.busy.as_millis() as f64, (kilobytes << 10) as f64);
    lines.push(format!("Total Accesses: {requests}"));
    lines.push(format!("Total kBytes: {kilobytes}"));
    lines.push(format!("Total Duration: {}", report.busy.as_millis()));
    let names = [
        "CPUUser",
        "CPUSystem",
        "CPUChildrenUser",
        "CPUChildrenSystem",
    ];
    lines.extend(
        names
            .iter()
            .zip(report.cpu_s)
            .map(|(name, seconds)| format!("{name}: {}", general(seconds))),
    );
    let cpu_s: f64 = report.cpu_s.iter().sum();
    if cpu_s > 0.0 {
        lines.push(format!(
            "CPULoad: {}",
            general(per(cpu_s, report.uptime.as_secs_f64()) * 100.0)
        ));
    }
    lines.push(format!("Uptime: {uptime_s}"));
    // As Apache: what would be divided by nothing is left out.
    if uptime_s > 0 {
        lines.push(format!(
            "ReqPerSec: {}",
            general(per(requests as f64, uptime_s as f64))
        ));
        lines.push(format!(
            "BytesPerSec: {}",
            general(per(bytes, uptime_s as f64))
        ));
        lines.push(format!(
            "BytesPerReq: {}",
            general(per(bytes, requests as f64))
        ));
        lines.push(format!(
            "DurationPerReq: {}",
            general(per(busy_ms, requests as f64))
        ));
    }
}

/// Connections that no request is answered on wait for the next one.
fn workers(view: &View<'_>, lines: &mut Vec<String>) {
    let (busy, connections) = (view.busy(), view.connections());
    let numbers = [
        ("BusyWorkers", busy),
        ("GracefulWorkers", 0),
        ("IdleWorkers", view.idle()),
        ("Processes", 1),
        ("Stopping", 0),
        ("ConnsTotal", connections),
        ("ConnsAsyncWaitIO", 0),
        ("ConnsAsyncWriting", 0),
        ("ConnsAsyncKeepAlive", connections.saturating_sub(busy)),
        ("ConnsAsyncClosing", 0),
    ];
    lines.extend(
        numbers
            .iter()
            .map(|(name, count)| format!("{name}: {count}")),
    );
    lines.push(format!("Scoreboard: {}", view.scoreboard()));
}
