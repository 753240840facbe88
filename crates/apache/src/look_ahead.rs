//! Look-aheads: what a request for another path, or for a file, would come to before its handler
//! (`-U`, `-F`, `LA-U:`, `LA-F:`).
//!
//! Difficulty: rules that look ahead run again in what they look at. As in Apache, what is looked
//! at from the same path is not looked at again, and the depth is bounded besides.

use crate::{
    state::{State, Translated, peek, snapshot, state},
    subrequest::{run_phases, subrequest},
    verdict::Verdict,
    worker::ApacheRules,
};
use saker_apache_model::host::Host;
use saker_files::{Kind, Watcher};
use saker_http::Status;
use saker_net::blocking::Pause;
use saker_pipeline::{Exchange, Inner};
use std::{rc::Rc, sync::Arc};

/// A request that was looked at.
pub struct SubRequest {
    pub exchange: Box<Exchange>,
    pub status: Status,
    pub state: Rc<State>,
    pub host: Arc<Host>,
    pub watcher: Watcher,
}

/// The error: in circles, or what has to be waited for.
pub fn by_path(
    rules: &ApacheRules,
    exchange: &Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    path: &[u8],
) -> Result<SubRequest, Option<Pause>> {
    let (path, query) = match path.iter().position(|byte| *byte == b'?') {
        Some(at) => (path.get(..at).unwrap_or_default(), path.get(at + 1..)),
        None => (path, None),
    };
    let mut inner = start(exchange, path).ok_or(None)?;
    inner.query = query.map(<[u8]>::to_vec);
    let outcome = run_phases(rules, &mut inner);
    finish(inner, outcome, host, watcher)
}

/// The file's own sections, access rules, and fixups; no mapping.
pub fn by_file(
    rules: &ApacheRules,
    exchange: &Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    path: &[u8],
) -> Result<SubRequest, Option<Pause>> {
    let mut inner = start(exchange, &exchange.path).ok_or(None)?;
    state(&mut inner).translated = Some(Translated::File(path.to_vec()));
    let phases = &rules.phases;
    for phase in [phases.map_to_storage, phases.access, phases.fixups] {
        match phase(rules, &mut inner) {
            Verdict::Pass => {}
            other => return finish(inner, other, host, watcher),
        }
    }
    let is_file = peek(&inner).is_some_and(|state| state.kind == Some(Kind::File));
    let mut ahead = finish(inner, Verdict::Pass, host, watcher)?;
    if !is_file {
        ahead.status = Status::NOT_FOUND;
    }
    Ok(ahead)
}

fn start(exchange: &Exchange, path: &[u8]) -> Option<Box<Exchange>> {
    let is_circle = peek(exchange)
        .is_some_and(|state| state.looked_at_from.as_deref() == Some(&*exchange.path));
    if is_circle {
        return None;
    }
    let mut inner = subrequest(exchange, path.to_vec(), Inner::Lookup)?;
    state(&mut inner).looked_at_from = Some(exchange.path.clone().into());
    state(&mut inner).asked = peek(exchange).and_then(|state| state.asked.clone());
    Some(inner)
}

fn finish(
    inner: Box<Exchange>,
    outcome: Verdict,
    host: &Arc<Host>,
    watcher: &Watcher,
) -> Result<SubRequest, Option<Pause>> {
    let status = match outcome {
        Verdict::Pass | Verdict::Restart => Status::OK,
        Verdict::Answer(response) => response.status,
        Verdict::Wait(pause) => return Err(Some(pause)),
    };
    let state = snapshot(&inner);
    Ok(SubRequest {
        exchange: inner,
        status,
        state,
        host: Arc::clone(host),
        watcher: watcher.clone(),
    })
}
