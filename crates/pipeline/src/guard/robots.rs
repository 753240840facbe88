//! Robots of search engines, verified by the names of their addresses (forward-confirmed reverse
//! DNS).
//!
//! The answer comes later: the descent waits for it once, then it is known here for a day. Where a
//! name server does not answer nobody is called a liar.

use crate::{Exchange, LocalFuture, Response, Services, Verdict};
use saker_abuse::{Remembered, robots};
use saker_config::model::Robots;
use saker_http::{KnownField, Status};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

const KNOWN_S: i64 = 86_400;
const UNKNOWN_S: i64 = 60;

/// Names that lead back to the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmed {
    Names(Vec<String>),
    /// The name server did not say.
    Unknown,
}

/// By address and who was asked, with the time until which it is known.
pub type NameTable = Remembered<(IpAddr, Option<SocketAddr>), (Arc<Confirmed>, i64)>;

/// Asks a name server; the pipeline knows no runtime and no sockets. Bounded in time, and in how
/// many it asks at once.
pub trait NameServer {
    /// Names of the address below these domains that lead back to it.
    fn confirmed_names(
        &self,
        address: IpAddr,
        domains: Vec<String>,
        server: Option<SocketAddr>,
    ) -> LocalFuture<'static, Confirmed>;
}

/// Passes, and leaves in the exchange whether it is a robot that was believed.
pub(super) fn check(exchange: &mut Exchange, services: &Services, rule: &Arc<Robots>) -> Verdict {
    // Of a kept outcome nobody would be asked; whoever says to be no robot may have it only where
    // liars are as anybody.
    if rule.refuses_liars {
        exchange.depends_on_request();
    }
    let agent = exchange
        .head
        .view()
        .known(KnownField::UserAgent)
        .unwrap_or_default();
    let Some(domains) = robots::domains_of(agent, &rule.more) else {
        return Verdict::Pass;
    };
    exchange.depends_on_request();
    let address = exchange.client.ip();
    let key = (address, rule.resolver);
    let known = services
        .guard
        .names
        .find(&key)
        .filter(|(_, until)| *until > exchange.now);
    let Some((confirmed, _)) = known else {
        return ask(exchange, services, rule, domains);
    };
    match &*confirmed {
        Confirmed::Names(names) if names.iter().any(|name| robots::is_below(name, &domains)) => {
            exchange.trace("guard", None, || format!("`robots`: {address} is verified"));
            exchange.guarded().is_robot = true;
            Verdict::Pass
        }
        Confirmed::Names(_) if rule.refuses_liars => {
            exchange.trace("guard", None, || {
                format!("`robots`: {address} has no such name")
            });
            Verdict::Answer(Response::new(Status::FORBIDDEN))
        }
        _ => Verdict::Pass,
    }
}

fn ask(
    exchange: &mut Exchange,
    services: &Services,
    rule: &Arc<Robots>,
    domains: Vec<String>,
) -> Verdict {
    let asked = exchange.guarded();
    if std::mem::replace(&mut asked.has_asked, true) {
        return Verdict::Pass;
    }
    let Some(names) = &services.names else {
        return Verdict::Pass;
    };
    let (address, resolver, now) = (exchange.client.ip(), rule.resolver, exchange.now);
    let asking = names.confirmed_names(address, domains, resolver);
    let guard = Arc::clone(&services.guard);
    Verdict::Wait(Box::pin(async move {
        let confirmed = asking.await;
        let kept_s = if confirmed == Confirmed::Unknown {
            UNKNOWN_S
        } else {
            KNOWN_S
        };
        guard
            .names
            .insert((address, resolver), (Arc::new(confirmed), now + kept_s));
    }))
}
