//! The status as a page, with the fields and in the order of Apache's.

use crate::status::{
    numbers::{built, bytes, duration, general, kilobytes, per, time},
    report::OpenRequest,
    view::View,
};
use saker_http::escape;
use std::fmt::Write as _;

/// Characters of the scoreboard on a line.
const LINE: usize = 64;

pub fn html(view: &View<'_>, with_table: bool) -> Vec<u8> {
    let mut page = String::from(
        "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n\
         <html><head>\n<title>Apache Status</title>\n</head><body>\n",
    );
    let _ = write!(
        page,
        "<h1>Apache Server Status for {} (via {})</h1>\n\n",
        escaped(&view.name),
        view.address
    );
    server(view, &mut page);
    workers(view, &mut page);
    scoreboard(view, &mut page);
    if view.is_extended {
        match with_table {
            true => table(view, &mut page),
            false => list(view, &mut page),
        }
    }
    let mut page = page.into_bytes();
    page.extend_from_slice(&view.signature);
    page.extend_from_slice(b"</body></html>\n");
    page
}

fn escaped(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    escape::html(text, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn server(view: &View<'_>, page: &mut String) {
    let report = view.report;
    let _ = write!(
        page,
        "<dl><dt>Server Version: {}</dt>\n<dt>Server MPM: event</dt>\n<dt>Server Built: {}\n</dt></dl><hr /><dl>\n",
        escaped(view.software.as_bytes()),
        built(report.built_unix_s)
    );
    let mut line = |name: &str, value: String| {
        let _ = writeln!(page, "<dt>{name}: {value}</dt>");
    };
    line("Current Time", time(report.now_unix_s));
    line("Restart Time", time(report.started_unix_s));
    line(
        "Parent Server Config. Generation",
        report.generation.to_string(),
    );
    line(
        "Parent Server MPM Generation",
        report.generation.saturating_sub(1).to_string(),
    );
    line("Server uptime", duration(report.uptime.as_secs()));
    if let Some([one, five, fifteen]) = report.load {
        line("Server load", format!("{one:.2} {five:.2} {fifteen:.2}"));
    }
    if view.is_extended {
        extended(view, page);
    }
    let _ = writeln!(
        page,
        "<dt>{} requests currently being processed, 0 workers gracefully restarting, {} idle workers</dt>\n</dl>\n",
        view.busy(),
        view.idle()
    );
}

fn extended(view: &View<'_>, page: &mut String) {
    let report = view.report;
    let (requests, uptime_s) = (report.requests as f64, report.uptime.as_secs() as f64);
    let _ = writeln!(
        page,
        "<dt>Total accesses: {} - Total Traffic: {} - Total Duration: {}</dt>",
        report.requests,
        kilobytes(report.bytes_out >> 10),
        report.busy.as_millis()
    );
    let [user, system, child_user, child_system] = report.cpu_s.map(general);
    let load = per(report.cpu_s.iter().sum(), report.uptime.as_secs_f64()) * 100.0;
    let _ = writeln!(
        page,
        "<dt>CPU Usage: u{user} s{system} cu{child_user} cs{child_system} - {load:.3}% CPU load</dt>"
    );
    let _ = writeln!(
        page,
        "<dt>{} requests/sec - {}/second - {}/request - {} ms/request</dt>",
        general(per(requests, uptime_s)),
        bytes(per(report.bytes_out as f64, uptime_s) as u64),
        bytes(per(report.bytes_out as f64, requests) as u64),
        general(per(report.busy.as_millis() as f64, requests))
    );
}

/// A row per worker, which is a thread with as many connections as it has.
fn workers(view: &View<'_>, page: &mut String) {
    page.push_str(
        "<table rules=\"all\" cellpadding=\"1%\">\n\
         <tr><th rowspan=\"2\">Slot</th><th rowspan=\"2\">PID</th><th rowspan=\"2\">Stopping</th><th colspan=\"2\">Connections</th>\n\
         <th colspan=\"3\">Threads</th><th colspan=\"4\">Async connections</th></tr>\n\
         <tr><th>total</th><th>accepting</th><th>busy</th><th>graceful</th><th>idle</th><th>wait-io</th><th>writing</th><th>keep-alive</th><th>closing</th></tr>\n",
    );
    let workers = view.report.workers.len().max(1) as u64;
    for (slot, worker) in view.report.workers.iter().enumerate() {
        let idle = (view.slots / workers).saturating_sub(worker.busy);
        let waiting = worker.connections.saturating_sub(worker.busy);
        let _ = writeln!(
            page,
            "<tr><td>{slot}</td><td>{}</td><td>no</td><td>{}</td><td>yes</td><td>{}</td><td>0</td><td>{idle}</td><td>0</td><td>0</td><td>{waiting}</td><td>0</td></tr>",
            std::process::id(),
            worker.connections,
            worker.busy
        );
    }
    let (busy, connections) = (view.busy(), view.connections());
    let _ = writeln!(
        page,
        "<tr><td>Sum</td><td>{}</td><td>0</td><td>{connections}</td><td>&nbsp;</td><td>{busy}</td><td>0</td><td>{}</td><td>0</td><td>0</td><td>{}</td><td>0</td></tr>\n</table>",
        view.report.workers.len(),
        view.idle(),
        connections.saturating_sub(busy)
    );
}

fn scoreboard(view: &View<'_>, page: &mut String) {
    let board = view.scoreboard();
    let lines: Vec<&str> = (0..board.len())
        .step_by(LINE)
        .filter_map(|at| board.get(at..(at + LINE).min(board.len())))
        .collect();
    let _ = writeln!(page, "<pre>{}</pre>", lines.join("\n"));
    page.push_str("<p>Scoreboard Key:<br />\n");
    for (key, meaning) in [('_', "Waiting for Connection"), ('W', "Sending Reply")] {
        let _ = writeln!(page, "\"<b><code>{key}</code></b>\" {meaning},");
    }
    page.push_str("one character for each request that may be answered at a time.</p>\n");
}

const COLUMNS: &[&str] = &[
    "Srv", "PID", "Acc", "M", "CPU\n", "SS", "Req", "Dur", "Conn", "Child", "Slot", "Client",
    "Protocol", "VHost", "Request",
];

/// The requests under way, in Apache's columns; what is not counted per worker is a dash.
fn table(view: &View<'_>, page: &mut String) {
    let columns: String = COLUMNS
        .iter()
        .map(|column| format!("<th>{column}</th>"))
        .collect();
    let _ = write!(page, "\n\n<table border=\"0\"><tr>{columns}</tr>\n\n");
    for open in &view.report.open {
        let _ = write!(
            page,
            "<tr><td><b>{}-{}</b></td><td>{}</td><td>-</td><td><b>W</b>\n</td><td>-</td><td>{}</td><td>{}</td><td>-</td><td>-</td><td>-</td><td>-\n</td>\
             <td>{}</td><td>{}</td><td nowrap>{}</td><td nowrap>{}</td></tr>\n\n",
            open.worker,
            view.report.generation.saturating_sub(1),
            std::process::id(),
            open.age.as_secs(),
            open.age.as_millis(),
            escaped(open.client.as_bytes()),
            open.protocol,
            escaped(&open.host),
            escaped(&open.request)
        );
    }
    page.push_str("</table>\n <hr /> <table>\n");
    let legend = [
        ("Srv", "Number of the worker - generation"),
        ("PID", "OS process ID"),
        ("M", "Mode of operation"),
        ("SS", "Seconds since the request began"),
        ("Req", "Milliseconds since the request began"),
    ];
    legend.iter().for_each(|(column, meaning)| {
        let _ = writeln!(page, " <tr><th>{column}</th><td>{meaning}</td></tr>");
    });
    page.push_str(" </table>\n");
}

/// The same without a table (`?notable`).
fn list(view: &View<'_>, page: &mut String) {
    page.push_str("<hr /><h2>Server Details</h2>\n\n");
    let line = |open: &OpenRequest| {
        format!(
            "<b>Server {}-{}</b> ({}): -|-|- [<b>Write</b>]\n {} {} (-|-|-)\n <i>{} {{{}}} ({})</i> <b>[{}]</b><br />\n\n",
            open.worker,
            view.report.generation.saturating_sub(1),
            std::process::id(),
            open.age.as_secs(),
            open.age.as_millis(),
            escaped(open.client.as_bytes()),
            escaped(&open.request),
            open.protocol,
            escaped(&open.host)
        )
    };
    view.report
        .open
        .iter()
        .for_each(|open| page.push_str(&line(open)));
}
