//! Signals, as Apache and nginx administrators know them.
//!
//! Called by: the main loop. TERM and INT: graceful stop, a second one stops at once. QUIT: stop
//! at once. HUP: reload. USR1: reopen log files. The runtime ignores PIPE.
//! Caveat: under an Apache configuration they mean what Apache's do: TERM stops at once, WINCH
//! gracefully, USR1 and HUP reload and reopen log files. Under an nginx configuration TERM and INT
//! stop at once, QUIT gracefully, and USR2 starts the program file anew, which takes over.

use super::{nginx_lines, supervisor::Supervisor};
use std::{io, rc::Rc};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
    window: Signal,
}

impl Signals {
    pub fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
            window: signal(SignalKind::window_change())?,
        })
    }

    /// Obeys until it is dropped.
    pub async fn obey(&mut self, supervisor: &Rc<Supervisor>) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {
                    note(supervisor, 15, "SIGTERM", "exiting");
                    supervisor.ask_stop(!supervisor.is_stopping() && !supervisor.is_apache() && !supervisor.is_nginx());
                }
                _ = self.interrupt.recv() => {
                    note(supervisor, 2, "SIGINT", "exiting");
                    supervisor.ask_stop(!supervisor.is_stopping() && !supervisor.is_nginx());
                }
                _ = self.quit.recv() => {
                    note(supervisor, 3, "SIGQUIT", "shutting down");
                    match supervisor.is_nginx() {
                        // A second one changes nothing.
                        true if supervisor.is_stopping() => {}
                        true => supervisor.ask_stop_refusing(),
                        false => supervisor.ask_stop(false),
                    }
                }
                _ = self.window.recv() => if supervisor.is_apache() { supervisor.ask_stop_refusing() },
                _ = self.hangup.recv() => {
                    note(supervisor, 1, "SIGHUP", "reconfiguring");
                    begin_again(supervisor);
                }
                _ = self.user2.recv() => {
                    note(supervisor, 12, "SIGUSR2", "changing binary");
                    if supervisor.is_nginx() { supervisor.launch_successor() }
                }
                _ = self.user1.recv() => {
                    note(supervisor, 10, "SIGUSR1", "reopening logs");
                    match supervisor.is_apache() {
                        true => begin_again(supervisor),
                        false => drop(supervisor.reopen()),
                    }
                }
            }
        }
    }
}

/// Notes a signal, and what follows, as nginx does.
fn note(supervisor: &Supervisor, number: u8, name: &str, what: &str) {
    if !supervisor.is_nginx() {
        return;
    }
    nginx_lines::signal(number, name, what);
    match what {
        "reconfiguring" | "reopening logs" | "changing binary" => {
            nginx_lines::note(format_args!("{what}"));
        }
        "shutting down" => nginx_lines::note(format_args!("gracefully shutting down")),
        _ => {}
    }
}

fn begin_again(supervisor: &Supervisor) {
    supervisor.reload_or_succeed();
    // After a refused reload, too: logrotate has moved the files away.
    if supervisor.is_apache() {
        drop(supervisor.reopen());
    }
}
