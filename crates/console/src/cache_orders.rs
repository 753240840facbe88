//! Orders to the page cache, with the rights of the client.
//!
//! Called by: the API, pages, and warm-ups.
//! Caveat: an owner's orders are about the own site, whatever they say.
//! Out of scope: the cache (`saker_control::CacheVerb`).

use crate::{Backend, audit, sessions::Identity, site_scope};
use saker_control::{CacheVerb, PurgeOrder};
use serde_json::Value;
use std::net::IpAddr;

/// Failure of an order, with its status.
type Failed = (u16, String);

/// Sends a verb to the page cache; of an owner, one that is about the own site.
pub async fn cache(
    backend: &dyn Backend,
    identity: &Identity,
    verb: CacheVerb,
) -> Result<Value, Failed> {
    let verb = site_scope::limited(identity, verb).map_err(|error| (403, error))?;
    let _permit = backend.state().look().await;
    let answer = backend.control().cache(&verb).await;
    let answer = answer.map_err(|error| (400, error))?;
    Ok(site_scope::own(identity, answer))
}

/// Counts pages, or purges them.
pub async fn purge(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    order: PurgeOrder,
    is_dry: bool,
) -> Result<Value, Failed> {
    if is_dry {
        return cache(backend, who.0, CacheVerb::Count(order)).await;
    }
    let verb = site_scope::limited(who.0, CacheVerb::Purge(order));
    let verb = verb.map_err(|error| (403, error))?;
    audit::write(&backend.state_dir(), who, "purge", verb.to_json())
        .map_err(|error| (500, error))?;
    cache(backend, who.0, verb).await
}
