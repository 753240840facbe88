//! Access logs, error logs and forensic logs of a generation, opened before it is served.
//!
//! Called by: the start and each reload, so that a log that cannot be written keeps either from
//! succeeding.

use saker_pipeline::Generation;
use saker_serving::{log_files, shared::Shared};

/// Opens every access log of a generation, so that unwritable ones are known before anything is
/// served.
pub fn open_logs(generation: &Generation, shared: &Shared) -> Result<(), String> {
    let access = generation.model.access_logs().filter_map(|log| {
        let error = shared.logs.open(&log.target).err()?;
        Some(format!(
            "{}: {}\n",
            log.origin,
            log_files::cannot_open("access log", &log_files::name(&log.target), &error)
        ))
    });
    let others = generation.model.sites.iter().flat_map(|site| {
        let errors = site
            .error_logs()
            .filter_map(|log| shared.logs.open_error_log(log).err());
        let forensic = site
            .forensic_log
            .iter()
            .filter_map(|log| shared.logs.open_forensic_log(log).err());
        let all = errors.chain(forensic);
        all.map(|error| format!("{}: {error}\n", site.origin))
    });
    let further = &generation.model.server.error_log.outputs;
    let of_process = shared.logs.open_outputs(further).err();
    let of_process = of_process.map(|error| format!("{error}\n"));
    let of_streams = generation.model.stream_error_logs.iter();
    let of_streams = of_streams.filter_map(|log| shared.logs.open_error_log(log).err());
    let of_streams = of_streams.map(|error| format!("{error}\n"));
    let failed = access.chain(others).chain(of_process).chain(of_streams);
    match failed.collect::<String>() {
        text if text.is_empty() => Ok(()),
        text => Err(text),
    }
}
