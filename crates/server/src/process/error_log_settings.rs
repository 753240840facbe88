//! The server's error log, as the configuration wants it.
//!
//! Called by: the start, and each reload, which may change all but the target.

use saker_config::Model;
use saker_serving::log_files::cannot_open;
use saker_telemetry::error_log::{self, ErrorLogTarget};

/// Opens the error log, and writes to it from now on.
pub fn start(model: &Model) -> Result<(), String> {
    let server = &model.server;
    let log = &server.error_log;
    let name = match &log.target {
        ErrorLogTarget::Stderr => "standard error".into(),
        ErrorLogTarget::File(path) => path.display().to_string(),
        ErrorLogTarget::Program(command) => format!("|{command}"),
        ErrorLogTarget::Syslog(_) => "syslog".into(),
    };
    tune(model);
    error_log::init(&log.target, log.level.into())
        .map_err(|error| cannot_open("error log", &name, &error))
}

/// Applies the settings that a reload may change.
pub fn tune(model: &Model) {
    let log = &model.server.error_log;
    error_log::set_sites(model.error_logs());
    error_log::set_outputs(&log.outputs);
    error_log::set_areas(
        &log.areas
            .iter()
            .map(|(area, own)| (*area, (*own).into()))
            .collect::<Vec<_>>(),
    );
    error_log::set_formats(&log.formats);
    error_log::set_httpd(log.speaks_httpd);
    error_log::set_nginx(log.speaks_nginx);
    error_log::set_level(log.level.into());
}
