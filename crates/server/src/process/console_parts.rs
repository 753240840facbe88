//! Parts of the console that the supervisor owns: its socket, its state, and its samples.
//!
//! Called by: the start, which binds the socket; reloads; `console`.
//! Caveat: a console that `saker console` has opened stays when a configuration without one is put
//! in force.
//! Out of scope: the server's capabilities (`console`).

use saker_config::model::Console;
use saker_console::{ConsoleState, LiveChanges};
use saker_control::{EndpointSocket, PreparedSocket};
use saker_live::{history::History, tail::Interest};
use saker_telemetry::{error_log, message};
use std::{
    cell::{Cell, RefCell},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

/// The conventional port.
pub const PORT: u16 = 7080;

/// The parts of the console that the supervisor owns.
pub struct ConsoleParts {
    pub socket: EndpointSocket,
    pub(super) state: ConsoleState,
    pub(super) history: RefCell<History>,
    /// Changes of the running server by operators.
    pub(super) live: RefCell<LiveChanges>,
    /// Time until which the most frequent of everything are counted, and what keeps loggers
    /// running.
    pub(super) tops: RefCell<Option<(i64, Interest)>>,
    /// Time until which samples are taken for `saker top`, and what keeps latencies measured.
    pub(super) top: RefCell<Option<(i64, Interest)>>,
    /// Set while there are so many requests that latencies are not measured all the time.
    pub(super) is_busy: Cell<bool>,
    /// Set while a part of the requests is measured only.
    pub(super) is_sampled: Cell<bool>,
    /// Set if the workers were told to watch.
    pub(super) is_watched: Cell<bool>,
    /// Set if `saker console` has opened it, not the configuration.
    is_opened: Cell<bool>,
}

impl ConsoleParts {
    /// `sessions`: of the server before an upgrade.
    pub fn new(
        socket: EndpointSocket,
        sessions: &serde_json::Value,
        state_dir: &Path,
    ) -> ConsoleParts {
        let live = LiveChanges::load(state_dir).unwrap_or_else(|why| {
            let facts = format_args!("changes of the running server are lost: {why}");
            error_log::log(&message::CONFIG_WARNING, facts);
            LiveChanges::default()
        });
        let state = ConsoleState::default();
        state.take_over(sessions);
        ConsoleParts {
            socket,
            state,
            history: RefCell::default(),
            live: RefCell::new(live),
            tops: RefCell::default(),
            top: RefCell::default(),
            is_busy: Cell::new(false),
            is_sampled: Cell::new(false),
            is_watched: Cell::new(false),
            is_opened: Cell::new(false),
        }
    }

    /// Binds the address of a new configuration. A console that a command has opened stays, unless
    /// the configuration names another.
    pub fn prepare_socket(&self, console: &Console) -> Result<PreparedSocket, String> {
        match console.address {
            None if self.is_opened.get() => Ok(PreparedSocket::Same),
            address => self.socket.prepare(address, "[console]", &console.origin),
        }
    }

    pub fn put_in_force(&self, prepared: PreparedSocket) {
        if matches!(prepared, PreparedSocket::New(_)) {
            self.is_opened.set(false);
        }
        self.socket.put_in_force(prepared);
    }

    /// Opens a console on this machine: at the conventional port, or at any.
    pub(super) fn open(&self, console: &Console) -> Result<(), String> {
        let prepare = |port| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            self.socket
                .prepare(Some(address), "the console", &console.origin)
        };
        let prepared = match std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)) {
            Ok(free) => {
                drop(free);
                prepare(PORT).or_else(|_| prepare(0))
            }
            Err(_) => prepare(0),
        }?;
        self.socket.put_in_force(prepared);
        self.is_opened.set(true);
        Ok(())
    }
}
