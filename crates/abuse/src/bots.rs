//! Bot verification: clients that claim to be a search engine's bot are verified by reverse and
//! forward DNS.
//!
//! Called by: `control`, once the settings of the path are known.
//! Caveat: the answer comes later; it is then remembered for a day. If the name server does not
//! answer, the client is treated as any other.
//! Out of scope: sockets; a [`NameServer`] does the lookups.

use crate::{Abuse, Confirmed, bot_names, context::context};
use saker_config::model::Robots;
use saker_http::{KnownField, Status};
use saker_pipeline::{Exchange, LocalFuture, Response};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

const KNOWN_S: i64 = 86_400;
const UNKNOWN_S: i64 = 60;

/// Looks names up; this crate knows no runtime and no sockets. Bounded in time, and in the number
/// of concurrent lookups.
pub trait NameServer {
    /// Names of the address below these domains that lead back to it.
    fn confirmed_names(
        &self,
        address: IpAddr,
        domains: Vec<String>,
        server: Option<SocketAddr>,
    ) -> LocalFuture<'static, Confirmed>;
}

/// Bot claim of a client and its verification state.
pub enum Claim {
    /// It claims to be none, or is verified, or it is not known.
    Pass,
    /// It has no such name, and that is refused here.
    Refused(Response),
    /// The lookup, after which [`check`] is called again.
    LookUp(LocalFuture<'static, ()>),
}

/// Marks a verified bot in the context of the request.
pub fn check(exchange: &mut Exchange, abuse: &Abuse, rule: &Arc<Robots>) -> Claim {
    // A kept outcome is answered without a check: where false claims are refused, a claim decides,
    // so nothing is kept.
    if rule.refuses_liars {
        exchange.depends_on_request();
    }
    let agent = exchange
        .head
        .view()
        .known(KnownField::UserAgent)
        .unwrap_or_default();
    let Some(domains) = bot_names::domains_of(agent, &rule.more) else {
        return Claim::Pass;
    };
    exchange.depends_on_request();
    let address = exchange.client.ip();
    let found = abuse
        .shared
        .names
        .find(&(address, rule.resolver))
        .filter(|(_, until)| *until > exchange.now);
    let Some((confirmed, _)) = found else {
        return look_up(exchange, abuse, rule, domains);
    };
    match &*confirmed {
        Confirmed::Names(names) if names.iter().any(|name| bot_names::is_below(name, &domains)) => {
            exchange.trace("abuse", None, || format!("`robots`: {address} is verified"));
            context(exchange).is_bot = true;
            Claim::Pass
        }
        Confirmed::Names(_) if rule.refuses_liars => {
            exchange.trace("abuse", None, || {
                format!("`robots`: {address} has no name of that bot")
            });
            Claim::Refused(Response::new(Status::FORBIDDEN))
        }
        _ => Claim::Pass,
    }
}

/// Looks up the client, at most once per request.
fn look_up(
    exchange: &mut Exchange,
    abuse: &Abuse,
    rule: &Arc<Robots>,
    domains: Vec<String>,
) -> Claim {
    if std::mem::replace(&mut context(exchange).has_asked, true) {
        return Claim::Pass;
    }
    let Some(names) = &abuse.names else {
        return Claim::Pass;
    };
    let (address, resolver, now) = (exchange.client.ip(), rule.resolver, exchange.now);
    let lookup = names.confirmed_names(address, domains, resolver);
    let shared = Arc::clone(&abuse.shared);
    Claim::LookUp(Box::pin(async move {
        let confirmed = lookup.await;
        let kept_s = if confirmed == Confirmed::Unknown {
            UNKNOWN_S
        } else {
            KNOWN_S
        };
        shared
            .names
            .insert((address, resolver), (Arc::new(confirmed), now + kept_s));
    }))
}
