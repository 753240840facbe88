//! Rows over an emulated link: time for a number of requests, handshakes included, as in the
//! published comparisons.
//!
//! Called by: the runner, as root.
//! Caveat: server and load are each in a network of their own. Their link is made anew for each
//! trial, so that no packets of an earlier trial are in the queue; what it did to packets is
//! printed on standard error.

use crate::{
    contender::{Contender, Ground},
    load::{Amount, LoadSetting},
    rows::{Congestion, Kind, Shape, Tool, Yardstick},
    runner::{RowPlan, Trial, outcome, tool_for},
    sampling,
    sheets::Sheet,
    stand::Stand,
};
use saker_link::{Link, LinkSettings, SERVER, Settings};
use saker_testkit::ServerProcess;
use std::time::Duration;

/// Every port is free there.
const PORT: u16 = 8443;
/// A few packets late, as a second path makes them.
const HELD_BACK: Duration = Duration::from_millis(3);

pub fn trial(
    plan: RowPlan,
    contender: Contender,
    ground: Ground<'_>,
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
    let said = |error: std::io::Error| format!("{contender}: link: {error}");
    let link = Link::open(settings(shape))
        .map_err(|error| format!("a link needs root and /dev/net/tun: {error}"))?;
    let ground = Ground {
        host: SERVER,
        congestion,
        ..ground
    };
    if let Some(name) = in_linux(congestion) {
        let set = move || std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", name);
        link.server()
            .run(set)
            .map_err(said)?
            .map_err(|error| format!("{name}, which Linux has as a module: {error}"))?;
    }
    let (mut command, address) = contender.pinned_command(ground, PORT)?;
    let server = link
        .server()
        .run(move || ServerProcess::start(&mut command, address))
        .map_err(said)?
        .map_err(said)?;
    // Single files stay single.
    let requests = (requests / plan.requests_divisor.max(1)).max(1);
    let (paths, Ground { work, tls, .. }) = ([path], ground);
    let setting = LoadSetting {
        tool: tool_for(
            Tool::H3load {
                streams,
                yardstick: Yardstick::Http2,
            },
            contender,
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
    let stand = Stand::alone(server);
    if sheets.is_empty() {
        *sheets = stand.sheets(ground);
    }
    let (load, line) = sampling::record(&stand, load_core, plan.idle, || {
        setting.run(|| stand.cpu_time())
    });
    let load = load?;
    let trial = outcome(&paths, &load, &stand, line);
    drop(stand);
    let report = link.close();
    eprintln!(
        "  {:.2} s; to the client: {:?}; to the server: {:?}",
        load.seconds, report.to_client, report.to_server
    );
    Ok(trial)
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
