//! Transfer of a server's state to the one that takes over, and back if that one fails.
//!
//! Called by: `upgrade`, on both sides, when the successor could serve; the end of the old server,
//! which tells what it has counted since.
//! Caveat: sessions with early data are good once, so the old server gives them away and has them
//! back only if the successor ends before it listens. Gauges are each server's own.
//! Out of scope: bans and the page cache, which are files (`upgrade`).

use super::{
    supervisor::Supervisor,
    upgrade_state::{
        DEBTS, EARLY_SESSIONS, FIGURES, Figures, HandedState, LIMIT_DEBTS, MEMBERS, Parts,
        QUIC_TOKENS, TICKET_KEYS, continue_members, decode_debts, decode_keys, decode_limit_debts,
        decode_members, decode_sessions, decode_tokens, encode_debts, encode_keys,
        encode_limit_debts, encode_members, encode_sessions, encode_tokens, report, whole,
    },
};
use saker_control::{Forwarded, upgrade_state};
use saker_net::clock;
use saker_serving::quic_secrets::QuicShared;
use saker_telemetry::{Metric, metrics::Kind};
use std::os::fd::OwnedFd;

impl Supervisor {
    /// Writes the state into the file that was offered.
    pub(super) fn hand_over_state(&self) {
        let Some(file) = self.successor.take_offered_state() else {
            return;
        };
        let quic = self.shared.quic.get().and_then(Option::as_ref);
        let sessions = quic.map(|quic| quic.sessions.take_all());
        let handed = HandedState {
            sessions: sessions.unwrap_or_default(),
            figures: self.figures(),
        };
        let mut parts = Vec::new();
        let mut add = |name: &str, content| parts.push((name.to_owned(), content));
        if let Some(keys) = self.tls.borrow().tickets.own_keys() {
            add(TICKET_KEYS, encode_keys(&keys));
        }
        if let Some(quic) = quic {
            add(QUIC_TOKENS, encode_tokens(&quic.secrets.tokens()));
            add(EARLY_SESSIONS, encode_sessions(&handed.sessions));
        }
        add(FIGURES, handed.figures.encode());
        add(DEBTS, encode_debts(&self.shared.abuse.addresses));
        add(
            LIMIT_DEBTS,
            encode_limit_debts(&self.shared.abuse.addresses),
        );
        add(MEMBERS, encode_members(&self.generation.borrow().model));
        if let Err(error) = upgrade_state::fill(file, &parts) {
            report(&error.to_string());
        }
        self.successor.set_handed_state(Some(handed));
    }

    /// The successor has ended before it listened: what is good in one server only is this one's.
    pub(super) fn take_back_state(&self) {
        let handed = self.successor.take_handed_state();
        let quic = self.shared.quic.get().and_then(Option::as_ref);
        if let (Some(handed), Some(quic)) = (handed, quic) {
            quic.sessions.continue_with(handed.sessions);
        }
    }

    /// Goes on with the state of the server before this one. `tag`: its mark in connection ids.
    pub(super) fn continue_state(&self, file: Option<OwnedFd>, tag: Option<u16>) {
        let parts = file.map(upgrade_state::read).transpose();
        let parts = parts.unwrap_or_else(|error| {
            report(&error.to_string());
            None
        });
        let parts = Parts(parts.unwrap_or_default());
        if let Some(tag) = tag {
            let tokens = parts.decode(QUIC_TOKENS, decode_tokens);
            let quic = self
                .shared
                .quic
                .get_or_init(|| QuicShared::beside(tag, tokens));
            let sessions = parts.decode(EARLY_SESSIONS, decode_sessions);
            if let (Some(quic), Some(sessions)) = (quic, sessions) {
                quic.sessions.continue_with(sessions);
            }
        }
        if let Some(keys) = parts.decode(TICKET_KEYS, decode_keys) {
            // Where the configuration names files by now, those hold.
            let _ = self.tls.borrow().tickets.continue_with(&keys);
        }
        let debts = parts.decode(DEBTS, decode_debts).unwrap_or_default();
        let now_ns = clock::monotonic_ns();
        debts.iter().for_each(|debts| {
            self.shared.abuse.addresses.continue_debts(debts, now_ns);
        });
        let debts = parts.decode(LIMIT_DEBTS, decode_limit_debts);
        debts.unwrap_or_default().iter().for_each(|debt| {
            let addresses = &self.shared.abuse.addresses;
            addresses.continue_limit_debt(debt, now_ns);
        });
        if let Some(members) = parts.decode(MEMBERS, decode_members) {
            continue_members(&self.generation.borrow().model, &members);
        }
        if let Some(figures) = parts.decode(FIGURES, Figures::decode) {
            self.continue_figures(&figures);
        }
    }

    /// Tells the successor what this server has counted since it handed over.
    pub(super) fn tell_figures(&self) {
        if let Some(handed) = self.successor.take_handed_state() {
            let since = self.figures().since(&handed.figures);
            self.successor.tell(Forwarded::Figures(since.encode()));
        }
    }

    /// Adds what the server before this one has counted since.
    pub(super) fn add_figures(&self, bytes: &[u8]) {
        match whole(bytes, Figures::decode) {
            Ok(figures) => self.continue_figures(&figures),
            Err(error) => report(&format!("{FIGURES}: {error}")),
        }
    }

    fn figures(&self) -> Figures {
        let snapshot = self.snapshot();
        let rows = snapshot.iter().filter(|(row, _)| row.kind == Kind::Counter);
        let named = |one: &str, two: &str| (one.to_owned(), two.to_owned());
        Figures {
            counters: rows
                .map(|(row, value)| (named(row.name, row.label), value))
                .collect(),
            latencies: self
                .shared
                .latencies
                .all()
                .into_iter()
                .map(|(site, route, numbers)| (named(&site, &route), numbers))
                .collect(),
        }
    }

    fn continue_figures(&self, figures: &Figures) {
        for ((name, label), value) in &figures.counters {
            // This version may not have it.
            if let Some(metric) = Metric::counter(name, label) {
                let counters = &self.shared.main_counters;
                counters.add_from_any_thread(metric, *value);
            }
        }
        for ((site, route), numbers) in &figures.latencies {
            self.shared.latencies.add(site, route, numbers);
        }
    }
}
