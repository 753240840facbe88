//! Signals, as Apache and nginx administrators know them.
//!
//! TERM and INT: stop, requests may finish; a second one means now. QUIT: stop now. HUP: reload. USR1: open the logs again. PIPE is
//! ignored by the runtime.

use super::operator::Operator;
use std::{io, rc::Rc};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    user1: Signal,
}

impl Signals {
    pub fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
        })
    }

    /// Obeys until it is dropped.
    pub async fn obey(&mut self, operator: &Rc<Operator>) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => operator.ask_stop(!operator.is_stopping()),
                _ = self.interrupt.recv() => operator.ask_stop(!operator.is_stopping()),
                _ = self.quit.recv() => operator.ask_stop(false),
                _ = self.hangup.recv() => drop(operator.reload_now()),
                _ = self.user1.recv() => drop(operator.reopen()),
            }
        }
    }
}
