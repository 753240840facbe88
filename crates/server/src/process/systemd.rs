//! Messages to the service manager (sd_notify(3)).
//!
//! Called by: the supervisor, at each change of state. Nothing is sent where no manager listens.

use saker_telemetry::{error_log, message};
use std::time::Duration;

/// Variables that systemd sets for one process alone.
pub const OF_ONE_PROCESS: [&str; 4] =
    ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"];

/// Tells systemd's watchdog (`WatchdogSec=`) that the main thread goes round, for as long as the
/// server runs. Without a watchdog it never returns either.
pub async fn keep_alive() {
    let interval = std::env::var("WATCHDOG_USEC")
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|_| is_watched(std::env::var("WATCHDOG_PID").ok().as_deref()))
        .map(|us: u64| Duration::from_micros(us / 3).max(INTERVAL_MIN));
    let Some(interval) = interval else {
        return std::future::pending().await;
    };
    loop {
        notify("WATCHDOG=1");
        tokio::time::sleep(interval).await;
    }
}

const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// The variable names one process, or none: the one that has taken over from it is watched, too.
fn is_watched(pid: Option<&str>) -> bool {
    pid.is_none_or(|pid| pid.parse() == Ok(std::process::id()))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_watchdog_is_none_of_ours() {
        assert!(is_watched(None) && is_watched(Some(&std::process::id().to_string())));
        assert!(!is_watched(Some("1")) && !is_watched(Some("")));
    }
}
