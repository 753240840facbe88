//! nginx's streams: rules about sessions, for one worker.
//!
//! Called by: the engine's streams (`saker-stream-proxy`), through [`StreamRules`].
//! Caveat: the order is nginx's: limits of connections, then addresses, then TLS, then variables
//! that are set.
//! Out of scope: connections and datagrams.

mod log;
mod server;
mod values;

use crate::{
    limits::Zones,
    made_upstreams::{self, FoundKey},
    resolve::{self, Need},
};
use saker_config::model::{AccessLogTarget, Address, Upstream};
use saker_nginx_model::{
    modules::{access::Who, maps::NameTable, resolver::Found, upstream::Group},
    stream::{StreamRulesOf, StreamTarget, Streams, upstream},
    values::Regex,
};
use saker_rate_limits::Counted;
use saker_stream_proxy::{Action, NextAction, Session, StreamRules, status};
use saker_telemetry::{
    access_log::by_host,
    error_log,
    message::{self, Level},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Upstreams by evaluated address that are kept; beyond that all are forgotten.
const UPSTREAMS_MAX: usize = 1024;

/// Upstreams by server, name, and the addresses that it was resolved to.
type Evaluated = HashMap<(usize, Box<str>, FoundKey), Arc<Upstream>>;

/// The streams of a front end, and what all workers share.
#[derive(Debug, Default)]
pub struct StreamFrontEnd {
    streams: Arc<Streams>,
    zones: Zones,
    /// For targets with variables, or names that are resolved.
    evaluated: Mutex<Evaluated>,
}

impl StreamFrontEnd {
    pub fn new(streams: Arc<Streams>) -> StreamFrontEnd {
        StreamFrontEnd {
            zones: Zones::new(&streams.zones),
            streams,
            evaluated: Mutex::default(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.streams.servers.is_empty()
    }

    /// The upstream of an address that was evaluated; `None`: it is no address.
    fn evaluated(
        &self,
        server: usize,
        rules: &StreamRulesOf,
        name: &str,
        found: &Found,
    ) -> Option<Arc<Upstream>> {
        let mut known = self
            .evaluated
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let key = (server, name.into(), made_upstreams::key_of(found));
        if let Some(upstream) = known.get(&key) {
            return Some(Arc::clone(upstream));
        }
        let made = Arc::new(upstream(name, &self.streams.groups, &rules.members, found)?);
        if known.len() >= UPSTREAMS_MAX {
            known.clear();
        }
        known.insert(key, Arc::clone(&made));
        Some(made)
    }
}

/// The rules of a configuration's streams.
#[derive(Debug)]
pub struct NginxStreamRules(pub Arc<StreamFrontEnd>);

/// A session, with the configuration that its values are evaluated by.
struct Evaluation<'s> {
    streams: &'s Streams,
    session: &'s mut Session,
}

impl NginxStreamRules {
    fn of(&self, session: &Session) -> Option<&StreamRulesOf> {
        self.0.streams.servers.get(session.server.number)
    }

    fn evaluation<'s>(&'s self, session: &'s mut Session) -> Evaluation<'s> {
        Evaluation {
            streams: &self.0.streams,
            session,
        }
    }
}

/// A target that is known by its value.
struct Target<'g> {
    name: String,
    group: Option<&'g Group>,
    key: Vec<u8>,
}

impl NginxStreamRules {
    /// The way to a target, when its names are resolved.
    fn resolved<'a>(
        &'a self,
        rules: &'a StreamRulesOf,
        session: &'a mut Session,
        target: Target<'a>,
    ) -> NextAction<'a> {
        let is_address = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'@' | b'#' | b'\\');
        if target.name.is_empty() || !target.name.bytes().all(is_address) {
            return Action::End(status::INTERNAL_ERROR).into();
        }
        let names = match resolve::need(&target.name, target.group, &rules.resolver) {
            Need::Nothing => return self.way(rules, session, target, &Found::default()).into(),
            Need::Names(names) => names,
            Need::NoServers(text) => {
                complain(session, &text);
                return Action::End(status::INTERNAL_ERROR).into();
            }
        };
        if let Some(found) = names.fresh() {
            return self.way(rules, session, target, &found).into();
        }
        NextAction::Later(Box::pin(async move {
            match names.look_up().await {
                Ok(found) => self.way(rules, session, target, &found),
                Err((name, error)) => {
                    complain(session, &format!("{name} could not be resolved ({error})"));
                    Action::End(status::INTERNAL_ERROR)
                }
            }
        }))
    }

    fn way(
        &self,
        rules: &StreamRulesOf,
        session: &Session,
        target: Target<'_>,
        found: &Found,
    ) -> Action {
        let number = session.server.number;
        match self.0.evaluated(number, rules, &target.name, found) {
            Some(upstream) if upstream.members.is_empty() => Action::End(status::BAD_GATEWAY),
            Some(upstream) => Action::Proxy(upstream, target.key),
            None => Action::End(status::INTERNAL_ERROR),
        }
    }
}

fn complain(session: &Session, text: &str) {
    let message = &message::NGINX_NAME_UNRESOLVED;
    error_log::log_about(message, session, format_args!("{text}"));
}

/// Logs that a rule refuses the session.
fn log_refusal(session: &Session, level: Level, text: &str) {
    let message = &message::STREAM_REFUSED;
    error_log::log_nginx(message, level, session, format_args!("{text}"));
}

impl StreamRules for NginxStreamRules {
    fn log_targets(&self) -> &[AccessLogTarget] {
        &self.0.streams.log_targets
    }

    fn settle_client(&self, session: &mut Session) {
        let Some(rules) = self.of(session) else {
            return;
        };
        session.error_log.clone_from(&rules.error_log);
        let Some((source, _)) = session.proxied else {
            return;
        };
        let peer = session.peer.ip().to_canonical();
        let is_trusted = match session.is_unix() {
            true => rules.real_ip_unix,
            false => rules.real_ip_from.iter().any(|known| known.contains(peer)),
        };
        if is_trusted {
            session.client = source;
        }
    }

    fn status_of_cut(&self) -> u16 {
        status::OK
    }

    fn limit(&self, session: &mut Session) -> Result<Vec<Counted>, u16> {
        let Some(rules) = self.of(session) else {
            return Err(status::INTERNAL_ERROR);
        };
        let mut places = Vec::new();
        for (name, max) in rules.connections.as_deref().unwrap_or_default() {
            let zones = &self.0.streams.zones;
            let Some(zone) = zones.iter().find(|zone| *zone.name == **name) else {
                continue;
            };
            let key = self.evaluation(session).text(&zone.key);
            let Some(table) = self.0.zones.table(zone.number) else {
                continue;
            };
            if key.is_empty() || key.len() > crate::limits::KEY_BYTES_MAX {
                continue;
            }
            if table.enter(&key, zone, *max) {
                session.variables.limit_status = Some("PASSED");
                places.push(Counted::new(move || table.leave(&key)));
                continue;
            }
            let dry = if rules.connections_dry_run {
                ", dry run,"
            } else {
                ""
            };
            let text = format!(
                "limiting connections{dry} by zone \"{}\" while initializing session",
                zone.name
            );
            log_refusal(session, rules.connections_log_level, &text);
            if rules.connections_dry_run {
                session.variables.limit_status = Some("REJECTED_DRY_RUN");
            } else {
                session.variables.limit_status = Some("REJECTED");
                return Err(status::UNAVAILABLE);
            }
        }
        match session.variables.has_failed {
            true => Err(status::INTERNAL_ERROR),
            false => Ok(places),
        }
    }

    fn settle_server(&self, session: &mut Session) -> Result<(), u16> {
        self.choose(session)?;
        self.admit(session)
    }

    fn listener(&self, session: &mut Session) -> Option<Result<Address, u16>> {
        let StreamTarget::Pass(text) = &self.of(session)?.target else {
            return None;
        };
        let value = self.evaluation(session).text(text);
        let value = String::from_utf8_lossy(&value);
        let address = saker_nginx_model::modules::listen::address(&value);
        Some(address.map_err(|_| status::INTERNAL_ERROR))
    }

    fn is_allowed(&self, session: &mut Session) -> bool {
        let Some(rules) = self.of(session) else {
            return false;
        };
        let is_unix = session.is_unix();
        let client = session.client.ip().to_canonical();
        let rules = rules.access.as_deref().map_or(&[][..], Vec::as_slice);
        let first = rules.iter().find(|rule| match &rule.who {
            Who::All => true,
            Who::UnixSockets => is_unix,
            Who::Network(network) => !is_unix && network.contains(client),
        });
        let is_allowed = first.is_none_or(|rule| rule.allows);
        if !is_allowed {
            log_refusal(
                session,
                Level::Error,
                "access forbidden by rule while initializing session",
            );
        }
        is_allowed
    }

    fn prepare(&self, session: &mut Session) {
        let Some(rules) = self.of(session) else {
            return;
        };
        let mut evaluation = self.evaluation(session);
        for (variable, text) in &rules.sets {
            let value = evaluation.text(text);
            evaluation.set(*variable, &value);
        }
    }

    fn action<'a>(&'a self, session: &'a mut Session) -> NextAction<'a> {
        let Some(rules) = self.of(session) else {
            return Action::End(status::INTERNAL_ERROR).into();
        };
        let mut evaluation = self.evaluation(session);
        let action = match &rules.target {
            // Datagrams have no listener that takes them.
            StreamTarget::Pass(_) => Action::End(status::INTERNAL_ERROR).into(),
            StreamTarget::Return(text) => NextAction::Now(Action::Return(evaluation.text(text))),
            StreamTarget::Upstream(upstream, key) => {
                let key = key.as_ref().map(|key| evaluation.text(key));
                Action::Proxy(Arc::clone(upstream), key.unwrap_or_default()).into()
            }
            StreamTarget::Evaluated(text) => {
                let name = String::from_utf8(evaluation.text(text)).unwrap_or_default();
                let groups = &self.0.streams.groups;
                let group = groups.iter().find(|group| *group.name == *name);
                let key = group.and_then(|group| group.key.as_ref());
                let key = key.map(|key| evaluation.text(key)).unwrap_or_default();
                let target = Target { name, group, key };
                match evaluation.session.variables.has_failed {
                    true => Action::End(status::INTERNAL_ERROR).into(),
                    false => return self.resolved(rules, session, target),
                }
            }
        };
        match session.variables.has_failed {
            true => Action::End(status::INTERNAL_ERROR).into(),
            false => action,
        }
    }

    fn log(&self, session: &mut Session, write: &mut dyn FnMut(usize, &[u8])) {
        let Some(rules) = self.of(session) else {
            return;
        };
        for log in &rules.logs {
            let mut evaluation = self.evaluation(session);
            if let Some(condition) = &log.condition {
                let value = evaluation.text(condition);
                if value.is_empty() || value == b"0" {
                    continue;
                }
            }
            let mut line = Vec::new();
            if let Some(path) = &log.path {
                let path = String::from_utf8_lossy(&evaluation.text(path)).into_owned();
                by_host::begin_line(&path, &mut line);
            }
            line.extend(evaluation.line(log));
            write(log.target, &line);
        }
    }
}

/// Finds a value by a name, or by the first expression that matches it; by none if it is empty.
fn lookup<'t, T: Clone>(
    table: &'t NameTable<T>,
    name: &[u8],
    matches: &mut dyn FnMut(&Regex) -> bool,
) -> Option<&'t T> {
    let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
    if let Some(value) = table.literal(&lower) {
        return Some(value);
    }
    let mut regexes = table.regexes.iter().filter(|_| !name.is_empty());
    let found = regexes.find(|(regex, _)| matches(regex));
    found.map(|(_, value)| value)
}
