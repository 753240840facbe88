//! Signals, as Apache and nginx administrators know them.
//!
//! TERM and INT: stop, requests may finish; a second one means now. QUIT: stop now. HUP: reload.
//! USR1: open the logs again. PIPE is ignored by the runtime. Under an Apache configuration as
//! Apache has it: TERM now, WINCH when requests have finished, USR1 and HUP reload and open the
//! logs again.

use super::supervisor::Operator;
use std::{io, rc::Rc};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    user1: Signal,
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
            window: signal(SignalKind::window_change())?,
        })
    }

    /// Obeys until it is dropped.
    pub async fn obey(&mut self, operator: &Rc<Operator>) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => operator.ask_stop(!operator.is_stopping() && !operator.is_apache()),
                _ = self.interrupt.recv() => operator.ask_stop(!operator.is_stopping()),
                _ = self.quit.recv() => operator.ask_stop(false),
                _ = self.window.recv() => if operator.is_apache() { operator.ask_stop_refusing() },
                _ = self.hangup.recv() => begin_again(operator),
                _ = self.user1.recv() => match operator.is_apache() {
                    true => begin_again(operator),
                    false => drop(operator.reopen()),
                },
            }
        }
    }
}

fn begin_again(operator: &Operator) {
    drop(operator.reload_now());
    // After a refused reload, too: logrotate has moved the files away.
    if operator.is_apache() {
        drop(operator.reopen());
    }
}
