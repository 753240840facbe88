//! Look-aheads: what a request for another path, or for a file, would come to before its handler
//! (`-U`, `-F`, `LA-U:`, `LA-F:`).
//!
//! Difficulty: rules that look ahead run again in what they look at. As in Apache, what is looked
//! at from the same path is not looked at again, and the depth is bounded besides.

use crate::verdict::Verdict;
use crate::{
    facts::Seen,
    fixups::{descend, subrequest},
    host::Host,
    rules::ApacheRules,
    state::{State, Translated, peek, state},
};
use saker_ap_expr::{Facts, FileTest, LocalTime, Variable, Work};
use saker_files::{Kind, Watcher};
use saker_http::Status;
use saker_net::blocking::Pause;
use saker_pipeline::{Exchange, Inner};
use std::{borrow::Cow, net::IpAddr, sync::Arc};

/// A request that was looked at.
pub struct Ahead {
    pub exchange: Box<Exchange>,
    pub status: Status,
    state: State,
    host: Arc<Host>,
    watcher: Watcher,
}

/// The error: in circles, or what has to be waited for.
pub fn by_path(
    rules: &ApacheRules,
    exchange: &Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    path: &[u8],
) -> Result<Ahead, Option<Pause>> {
    let (path, query) = match path.iter().position(|byte| *byte == b'?') {
        Some(at) => (path.get(..at).unwrap_or_default(), path.get(at + 1..)),
        None => (path, None),
    };
    let mut inner = start(exchange, path).ok_or(None)?;
    inner.query = query.map(<[u8]>::to_vec);
    let outcome = descend(rules, &mut inner);
    finish(inner, outcome, host, watcher)
}

/// The file's own sections and access rules, no mapping.
pub fn by_file(
    rules: &ApacheRules,
    exchange: &Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    path: &[u8],
) -> Result<Ahead, Option<Pause>> {
    let mut inner = start(exchange, &exchange.path).ok_or(None)?;
    state(&mut inner).translated = Some(Translated::File(path.to_vec()));
    let phases: [fn(&ApacheRules, &mut Exchange) -> Verdict; 2] =
        [ApacheRules::try_map_to_storage, ApacheRules::try_access];
    for phase in phases {
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
) -> Result<Ahead, Option<Pause>> {
    let status = match outcome {
        Verdict::Pass | Verdict::Restart => Status::OK,
        Verdict::Answer(response) => response.status,
        Verdict::Wait(pause) => return Err(Some(pause)),
    };
    let state = peek(&inner).cloned().unwrap_or_default();
    Ok(Ahead {
        exchange: inner,
        status,
        state,
        host: Arc::clone(host),
        watcher: watcher.clone(),
    })
}

impl Ahead {
    fn seen<T>(&self, look: impl FnOnce(&Seen<'_>) -> T) -> T {
        look(&Seen::new(
            &self.exchange,
            &self.state,
            &self.host,
            &self.watcher,
        ))
    }
}

fn owned(text: Option<Cow<'_, [u8]>>) -> Option<Cow<'static, [u8]>> {
    text.map(|text| Cow::Owned(text.into_owned()))
}

impl Facts for Ahead {
    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        self.seen(|seen| owned(seen.variable(variable)))
    }

    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.seen(|seen| owned(seen.request_field(name)))
    }

    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.seen(|seen| owned(seen.environment(name)))
    }

    fn process_environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.seen(|seen| owned(seen.process_environment(name)))
    }

    fn work(&self) -> Option<&Work> {
        Some(self.exchange.budget().work())
    }

    fn client_address(&self) -> Option<IpAddr> {
        Some(self.exchange.client.ip())
    }

    fn local_time(&self) -> LocalTime {
        self.seen(|seen| seen.local_time())
    }

    fn file_test(&self, path: &[u8], test: FileTest) -> bool {
        self.seen(|seen| seen.file_test(path, test))
    }
}
