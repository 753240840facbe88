//! Orders to the page cache, with the rights of the client.
//!
//! Called by: the API, pages, and warm-ups.
//! Caveat: an owner's orders are about the own site, whatever they say.
//! Out of scope: the cache (`saker_control::CacheVerb`).

use crate::{Backend, audit, sessions::Identity, site_scope, users::Role};
use saker_control::{CacheVerb, PurgeOrder};
use serde_json::{Value, json};
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
    let answer = without_private(identity, answer);
    Ok(site_scope::own(identity, answer))
}

/// The content of an entry, as far as the client may see it: that of a private page is for
/// administrators, which the audit log notes; of another site's page, nothing is there to an
/// owner.
pub async fn body(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    entry: &str,
) -> Result<Value, Failed> {
    let verb = CacheVerb::Body {
        entry: entry.to_owned(),
    };
    let verb = site_scope::limited(who.0, verb).map_err(|error| (403, error))?;
    let _permit = backend.state().look().await;
    let answer = backend.control().cache(&verb).await;
    let answer = answer.map_err(|error| (404, error))?;
    if site_scope::site(who.0).is_some_and(|site| answer["site"] != site) {
        return Err((404, "no such entry".to_owned()));
    }
    if answer["is_private"] != false {
        if who.0.role < Role::Administrator {
            let text = "private pages are one client's: only administrators see their content";
            return Err((403, text.to_owned()));
        }
        let detail = json!({ "url": answer["url"], "entry": entry });
        audit::write(&backend.state_dir(), who, "look at a private page", detail)
            .map_err(|error| (500, error))?;
    }
    Ok(answer)
}

/// Leaves out what private entries say about their client.
fn without_private(identity: &Identity, mut answer: Value) -> Value {
    if identity.role >= Role::Administrator {
        return answer;
    }
    let entries = answer.get_mut("entries").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        if entry["is_private"] != false
            && let Some(entry) = entry.as_object_mut()
        {
            entry.retain(|name, _| name != "fields" && name != "key");
        }
    }
    answer
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
