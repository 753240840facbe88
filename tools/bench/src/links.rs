//! Rows over an emulated link: time for a number of requests, handshakes included, as in the
//! published comparisons.
//!
//! Called by: the runner, as root.
//! Caveat: server and load are each in a network of their own. Their link is made anew for each
//! trial, so that no packets of an earlier trial are in the queue; what it did to packets is
//! printed on standard error.

use crate::{
    conditions::Congestion,
    load::{Amount, LoadSetting},
    row::{Kind, Shape},
    running_server::RunningServer,
    sampling,
    sheets::Sheet,
    subject::Subject,
    test_env::TestEnv,
    tool::{Tool, Yardstick},
    trial::{RowPlan, Trial, outcome, tool_for},
};
use saker_link::{Link, LinkSettings, SERVER, Settings};
use saker_testkit::ServerProcess;
use std::{net::SocketAddr, time::Duration};

/// Every port is free there.
const PORT: u16 = 8443;
/// A few packets late, as a second path makes them.
const HELD_BACK: Duration = Duration::from_millis(3);

pub fn trial(
    plan: RowPlan,
    subject: Subject,
    test_env: TestEnv<'_>,
    load_core: Option<usize>,
    load_command: &mut String,
    sheets: &mut Vec<Sheet>,
) -> Result<Trial, String> {
    let Kind::Link {
        link: shape,
        requests,
        connections,
        streams,
        path,
        congestion,
        ..
    } = plan.row.kind
    else {
        return Err("no link".into());
    };
    let link = Link::open(settings(shape))
        .map_err(|error| format!("a link needs root and /dev/net/tun: {error}"))?;
    let test_env = TestEnv {
        host: SERVER,
        congestion,
        ..test_env
    };
    let (server, address) =
        start(&link, subject, test_env).map_err(|error| format!("{subject}: link: {error}"))?;
    // Single files stay single.
    let requests = (requests / plan.requests_divisor.max(1)).max(1);
    let (paths, TestEnv { work, tls, .. }) = ([path], test_env);
    let setting = LoadSetting {
        tool: tool_for(
            Tool::H3load {
                streams,
                yardstick: Yardstick::Http2,
            },
            subject,
        ),
        address,
        paths: &paths,
        connections,
        amount: Amount::Requests(requests),
        core: load_core,
        network: Some(link.client().namespace()),
        work,
        tls,
    };
    setting.note(load_command)?;
    let running = RunningServer::alone(server);
    if sheets.is_empty() {
        *sheets = running.sheets(test_env);
    }
    let (load, line) = sampling::record(&running, load_core, plan.idle, || {
        setting.run(|| running.cpu_time())
    });
    let load = load?;
    let trial = outcome(&paths, &load, &running, line);
    drop(running);
    let report = link.close();
    eprintln!(
        "  {:.2} s; to the client: {:?}; to the server: {:?}",
        load.seconds, report.to_client, report.to_server
    );
    Ok(trial)
}

/// Starts the subject at the server's end, with the congestion control of the row.
fn start(
    link: &Link,
    subject: Subject,
    test_env: TestEnv<'_>,
) -> Result<(ServerProcess, SocketAddr), String> {
    let text = |error: std::io::Error| error.to_string();
    if let Some(name) = in_linux(test_env.congestion) {
        let set = move || std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", name);
        link.server()
            .run(set)
            .map_err(text)?
            .map_err(|error| format!("{name}, which Linux has as a module: {error}"))?;
    }
    let (mut command, address) = subject.pinned_command(test_env, PORT)?;
    let server = link
        .server()
        .run(move || ServerProcess::start(&mut command, address))
        .map_err(text)?
        .map_err(text)?;
    Ok((server, address))
}

/// Each network has its own.
fn in_linux(congestion: Congestion) -> Option<&'static str> {
    match congestion {
        Congestion::Usual => None,
        Congestion::Reno => Some("reno"),
        Congestion::Bbr => Some("bbr"),
    }
}

fn settings(shape: Shape) -> LinkSettings {
    let to_server = Settings {
        rate_bits_per_s: Some(shape.mbit_per_s * 1_000_000),
        delay: Duration::from_micros(shape.round_trip_ms * 500),
        queue_packets: shape.queue_packets,
        held_back: HELD_BACK,
        ..Settings::default()
    };
    let to_client = Settings {
        loss: shape.loss,
        reordering: shape.reordering,
        ..to_server.clone()
    };
    LinkSettings {
        to_client,
        to_server,
        ..LinkSettings::default()
    }
}
