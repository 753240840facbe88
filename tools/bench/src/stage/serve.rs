//! The side of the servers.

use super::{can_be_apart, messages::text};
use crate::{
    arguments::Arguments,
    row::{Kind, Row},
    rows,
    runner::{Bench, Part},
    running_server::RunningServer,
};
use serde_json::{Value, json};
use std::{
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
};

/// For labs one after the other, until it is ended.
pub fn serve(address: SocketAddr, arguments: &Arguments) -> Result<(), String> {
    let SocketAddr::V4(address) = address else {
        return Err(format!("{address}: servers listen on IPv4 here"));
    };
    let rows: Vec<&'static Row> = rows::all().filter(|row| can_be_apart(row)).collect();
    let bench = Bench::prepare(arguments, &rows, Part::Servers)?.on_host(*address.ip());
    let listener = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
    eprintln!("ready: on the other machine, saker-bench lab --stage {address}");
    for stream in listener.incoming() {
        let done = stream.and_then(|stream| converse(&stream, &bench, &rows));
        eprintln!(
            "{}",
            done.map_or_else(
                |error| error.to_string(),
                |()| "the lab has gone".to_owned()
            )
        );
    }
    Ok(())
}

/// Servers that run when the lab goes away end with it.
pub(super) fn converse(
    stream: &TcpStream,
    bench: &Bench<'_>,
    rows: &[&'static Row],
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut lines, mut writer) = (BufReader::new(stream).lines(), stream);
    let mut running = None;
    let mut prepared = "";
    while let Some(line) = lines.next().transpose()? {
        let answer = serde_json::from_str(&line).map_err(|error| error.to_string());
        let answer = answer
            .and_then(|asked: Value| answer_to(&asked, bench, rows, &mut running, &mut prepared));
        let answer = answer.unwrap_or_else(|complaint| json!({ "error": complaint }));
        writeln!(writer, "{answer}")?;
    }
    Ok(())
}

fn answer_to(
    asked: &Value,
    bench: &Bench<'_>,
    rows: &[&'static Row],
    running: &mut Option<RunningServer>,
    prepared: &mut &'static str,
) -> Result<Value, String> {
    match text(asked, "ask")? {
        "hello" => Ok(json!({ "chain": bench.chain()? })),
        "start" => {
            // The one before is no part of this.
            *running = None;
            let name = text(asked, "row")?;
            let row = rows
                .iter()
                .find(|row| row.name == name)
                .ok_or_else(|| format!("there is no row {name} on this stage"))?;
            let started = start(asked, bench, row, prepared)?;
            let sheets: Vec<Value> = bench
                .sheets(row, &started)
                .iter()
                .map(|sheet| json!([sheet.command, sheet.files]))
                .collect();
            let answer = json!({ "address": started.address().to_string(), "sheets": sheets });
            *running = Some(started);
            Ok(answer)
        }
        "figures" => {
            let running = running.as_ref().ok_or("no server runs")?;
            let (cpu, memory) = (running.cpu_time(), running.memory());
            let cpu_ns = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
            Ok(
                json!({ "cpu_ns": cpu_ns, "rss": memory.rss_bytes, "pss": memory.pss_bytes, "peak": memory.peak_rss_bytes, "anonymous": memory.anonymous_bytes }),
            )
        }
        "stop" => {
            *running = None;
            Ok(json!({}))
        }
        other => Err(format!("`{other}` is nothing that a stage does")),
    }
}

fn start(
    asked: &Value,
    bench: &Bench<'_>,
    row: &'static Row,
    prepared: &mut &'static str,
) -> Result<RunningServer, String> {
    let name = text(asked, "server")?;
    let subject = bench
        .subjects(row)
        .into_iter()
        .find(|subject| subject.to_string() == name);
    let subject = subject.ok_or_else(|| format!("{name} is not there for {}", row.name))?;
    if let Kind::Own(workload) = row.kind
        && *prepared != row.name
    {
        workload.prepare(bench.test_env(row))?;
        *prepared = row.name;
    }
    let is_over_tls = asked.get("tls").and_then(Value::as_bool).unwrap_or(true);
    bench.start(row, subject, bench.test_env_over(row, is_over_tls))
}
