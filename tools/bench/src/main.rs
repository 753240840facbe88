//! `saker-bench`: Saker beside nginx, lighttpd and h2o on the same machine, in one run, on the
//! workloads it has to win.
//!
//! One server at a time on core 0, the load on core 1, rounds interleaved, medians shown with their
//! range. The figure that counts is CPU time of the whole server tree per request: on a small
//! machine requests per second measure the load tool. Absent on purpose: absolute targets. A ratio
//! from one run is all that a machine can promise.

mod access_log;
mod arguments;
mod behind;
mod certificate;
mod command_line;
mod conditions;
mod fairness;
mod floor;
mod handshakes;
mod idle;
mod lab;
mod launch;
mod links;
mod load;
mod outside;
mod paced;
mod participants;
mod pinning;
mod report;
mod row;
mod rows;
mod runner;
mod running_server;
mod sampling;
mod sheets;
mod stage;
mod statistics;
mod subject;
mod system_calls;
mod test_env;
mod tls_client;
mod tool;
mod trial;
mod workload;
mod workloads;

use arguments::Arguments;
use command_line::Mode;
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = match command_line::parse(std::env::args().skip(1)) {
        Ok(Mode::Help) => {
            print!("{}", command_line::help());
            Ok(())
        }
        Ok(Mode::Floor { port }) => floor::serve(port).map_err(|error| error.to_string()),
        Ok(Mode::Handshakes(setting)) => handshakes::run(&setting),
        Ok(Mode::Load(words)) => saker_load::run(words),
        Ok(Mode::Bench(arguments)) => bench(&arguments),
        Ok(Mode::Table { summary, page }) => lab::table(&summary, page.as_deref()),
        Ok(Mode::Lab(setting)) => lab::run(&setting),
        Ok(Mode::Paced(setting)) => paced::run(&setting),
        Ok(Mode::Fairness(setting)) => fairness::run(&setting),
        Ok(Mode::Stage { address, arguments }) => stage::serve(address, &arguments),
        Err(complaint) => Err(complaint),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            eprintln!("saker-bench: {complaint}");
            ExitCode::FAILURE
        }
    }
}

fn bench(arguments: &Arguments) -> Result<(), String> {
    let results = runner::run(arguments)?;
    print!("{}", report::markdown(&results, arguments));
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&report::json(&results))
            .map_err(|error| error.to_string())?;
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
