//! Tickets that servers have given, each to be used once. While it is filled none is handed out, so
//! that every handshake is a full one.

use rustls::{
    NamedGroup,
    client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue},
    pki_types::ServerName,
};
use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

#[derive(Debug, Default)]
pub struct Bank {
    tickets: Mutex<Vec<Tls13ClientSessionValue>>,
    is_open: AtomicBool,
}

impl Bank {
    pub fn tickets(&self) -> usize {
        self.lock().len()
    }

    /// From now on it pays out.
    pub fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Tls13ClientSessionValue>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All connections go to one server, so its name is no key. TLS 1.2 is not spoken.
impl ClientSessionStore for Bank {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.lock().push(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        if self.is_open.load(Ordering::Relaxed) {
            self.lock().pop()
        } else {
            None
        }
    }
}
