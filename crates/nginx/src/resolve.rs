//! Names of upstreams that are resolved at run time: those of `proxy_pass` with variables, and of
//! servers with `resolve`.
//!
//! Called by: `content`, before an upstream is asked, and `stream`.
//! Caveat: an address is a member of its own, as in nginx, so failures and turns are counted for each.
//! A group goes on with the addresses that it had, where its names can't be resolved again.
//! Out of scope: asking name servers (`saker-dns`).

use crate::{proxy, request::Request};
use saker_dns::{Lookup, LookupError, NameServers, Resolver};
use saker_http::Status;
use saker_nginx_model::modules::{
    resolver::{Found, ResolverConf, lookup},
    upstream::Group,
};
use saker_pipeline::{Response, Verdict};
use saker_telemetry::message::{self, Level};
use std::{rc::Rc, sync::Arc, time::Duration};

thread_local! {
    /// Names live longer than a configuration.
    static NAMES: Rc<Resolver> = Rc::default();
}

/// Names to be looked up, for one upstream.
pub struct Names {
    servers: Arc<NameServers>,
    /// Addresses of servers as written, with what they need.
    lookups: Vec<(Box<str>, Lookup)>,
    /// The names are those of a group, which goes on without those that are not found.
    is_group: bool,
    limit: Duration,
}

/// The outcome of looking names up.
pub type NamesFound = Result<Found, (Box<str>, LookupError)>;

/// Needs of an upstream before it is asked.
pub enum Need {
    Nothing,
    Names(Names),
    /// No servers are configured that this name could be asked for.
    NoServers(String),
}

impl Names {
    /// Looks all names up.
    ///
    /// # Errors
    /// The first name without an address.
    pub async fn look_up(self) -> NamesFound {
        let resolver = NAMES.with(Rc::clone);
        let mut found = Found::default();
        for (address, wanted) in self.lookups {
            match resolver.look_up(&self.servers, &wanted, self.limit).await {
                Ok(addresses) => drop(found.insert(address, addresses)),
                Err(error) if self.is_group => {
                    match resolver.last(&self.servers, &wanted) {
                        Some(addresses) => drop(found.insert(address, addresses)),
                        None => log_failure(&wanted, error),
                    };
                }
                Err(error) => return Err((name_of(&wanted).into(), error)),
            }
        }
        Ok(found)
    }

    /// Returns the addresses if all are known and hold.
    pub fn fresh(&self) -> Option<Found> {
        let resolver = NAMES.with(Rc::clone);
        let one = |(address, wanted): &(Box<str>, Lookup)| {
            Some((address.clone(), resolver.fresh(&self.servers, wanted)?))
        };
        self.lookups.iter().map(one).collect()
    }
}

fn name_of(wanted: &Lookup) -> &str {
    let (Lookup::Addresses(name) | Lookup::Service(name)) = wanted;
    name
}

/// A server of a group is left out; no request is to blame.
fn log_failure(wanted: &Lookup, error: LookupError) {
    saker_telemetry::error_log::log(
        &message::NGINX_NAME_UNRESOLVED,
        format_args!("{} could not be resolved ({error})", name_of(wanted)),
    );
}

/// Returns the names that a target needs: a group, or an address.
pub fn need(name: &str, group: Option<&Group>, conf: &ResolverConf) -> Need {
    let (lookups, own) = match group {
        Some(group) => {
            let servers = group.servers.iter();
            let lookups = servers.filter_map(|one| Some((one.address.clone(), one.lookup()?)));
            (lookups.collect(), Some(&group.resolver))
        }
        None => {
            let wanted = lookup(name, None).map(|wanted| (Box::from(name), wanted));
            (Vec::from_iter(wanted), None)
        }
    };
    let Some((_, first)) = lookups.first() else {
        return Need::Nothing;
    };
    let own = own.filter(|own| own.servers.is_some()).unwrap_or(conf);
    match &own.servers {
        None => Need::NoServers(format!("no resolver defined to resolve {}", name_of(first))),
        Some(servers) => Need::Names(Names {
            servers: Arc::clone(servers),
            lookups,
            is_group: group.is_some(),
            limit: own.timeout(),
        }),
    }
}

/// Finds what the upstream of a request needs. `Ok(None)`: nothing that is not known.
///
/// # Errors
/// The answer to a request whose upstream can't be resolved.
pub fn wanted(request: &mut Request<'_>) -> Result<Option<Names>, Verdict> {
    request.state.found = None;
    let Some((name, group)) = proxy::unresolved(request) else {
        return Ok(None);
    };
    request.depends_on_request();
    let conf = &request.state.location.conf.resolver;
    match need(&name, group, conf) {
        Need::Nothing => Ok(None),
        Need::NoServers(text) => {
            request.log(&message::NGINX_NAME_UNRESOLVED, Level::Error, text);
            Err(Verdict::Answer(Response::new(Status::BAD_GATEWAY)))
        }
        Need::Names(names) => match names.fresh() {
            Some(found) => {
                request.state.found = Some(Rc::new(found));
                Ok(None)
            }
            None => Ok(Some(names)),
        },
    }
}

/// Takes the addresses of a request's upstream.
///
/// # Errors
/// The answer to a request without any.
pub fn take(request: &mut Request<'_>, outcome: NamesFound) -> Result<(), Verdict> {
    match outcome {
        Ok(found) => {
            request.state.found = Some(Rc::new(found));
            Ok(())
        }
        Err((name, error)) => {
            let text = format!("{name} could not be resolved ({error})");
            request.log(&message::NGINX_NAME_UNRESOLVED, Level::Error, text);
            Err(Verdict::Answer(Response::new(Status::BAD_GATEWAY)))
        }
    }
}
