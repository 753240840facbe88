//! Messages to the service manager (sd_notify(3)).
//!
//! Called by: the supervisor, at each change of state. Nothing is sent where no manager listens.

use saker_telemetry::{error_log, message};

/// Sends one state; a failure is logged.
pub fn notify(state: &str) {
    let state = match state {
        // systemd wants to know when the reload began (sd_notify(3), Type=notify-reload).
        "RELOADING=1" => format!(
            "RELOADING=1\nMONOTONIC_USEC={}",
            saker_net::clock::monotonic_precise_ns() / 1000
        ),
        state => state.to_owned(),
    };
    if let Err(error) = saker_net::systemd::notify(&state) {
        error_log::log(&message::NOTIFY_FAILED, format_args!("{error}"));
    }
}
