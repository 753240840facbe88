//! Page cache commands of the control socket: statistics, listing, inspecting and purging.
//!
//! Called by: the supervisor. Runs on the main thread; what reads many files runs on a thread of
//! its own.
//! Caveat: entries belong to sites by their scopes, and their URLs contain the port of the
//! listener, which operators rarely type; so a URL on the command line covers all listeners.

use super::{
    cache_body, cache_count,
    cache_entry::{described, is_page, own, standing},
};
use saker_cache_rules::names;
use saker_cache_store::{Coding, EntryHead, KeyHash, Purge, Store, TagMark};
use saker_config::{
    Model,
    model::{Address, Site, SiteName},
};
use saker_control::{CacheVerb, PurgeOrder};
use saker_http::{escape, host::canonical_host, path};
use saker_page_cache::{
    bans::{self, Bans},
    key, shared_purges,
    stats::{Stat, WorkerStats},
    url_tags::url_tags,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

/// Reading heads of entries ends after that, with what there is.
const LOOK_MAX: Duration = Duration::from_secs(60);
const PORT_ENDS: [char; 3] = ['/', '?', '#'];
/// Between the parts of keys, and of bans.
const BETWEEN: u8 = 0;

/// Answers a page cache command.
pub async fn answer(
    verb: &CacheVerb,
    model: &Model,
    store: Option<Arc<Store>>,
    site_stats: &[Arc<WorkerStats>],
) -> Result<Value, String> {
    let store = store.ok_or(
        "there is no page cache: no site uses it, or it could not be opened (see the error log)",
    )?;
    match verb {
        CacheVerb::Stat => Ok(stat(model, &store, site_stats)),
        // The supervisor, which has the workers, answers it.
        CacheVerb::Warm(_) => Err("warm-ups are not for the store to make".into()),
        CacheVerb::Purge(order) => purge(order, model, &store),
        CacheVerb::Count(order) => {
            let scopes = order
                .all
                .then(|| scopes_of_order(order, model))
                .transpose()?;
            let purges = purges(order, model, &store)?;
            let until = Instant::now() + LOOK_MAX;
            aside(move || cache_count::answer(&store, &purges, scopes.as_deref(), until)).await
        }
        CacheVerb::List { site, max } => {
            let scopes = site
                .as_deref()
                .map(|site| scopes_named(model, site))
                .transpose()?;
            let max = *max;
            aside(move || list(&store, scopes.as_deref(), max)).await
        }
        CacheVerb::Show { url } => {
            let tags: BTreeSet<Vec<u8>> = asked(url, model, None)?
                .into_iter()
                .flat_map(|asked| asked.tags(&store))
                .collect();
            aside(move || show(&store, &tags)).await
        }
        CacheVerb::Body { entry } => {
            let hash = KeyHash::parse(entry).ok_or("no such entry")?;
            let read = move || cache_body::answer(&store, hash);
            let read = tokio::task::spawn_blocking(read).await;
            read.map_err(|error| error.to_string())?
        }
    }
}

async fn aside(work: impl FnOnce() -> Value + Send + 'static) -> Result<Value, String> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| error.to_string())
}

fn stat(model: &Model, store: &Store, site_stats: &[Arc<WorkerStats>]) -> Value {
    let (totals, bounds) = (store.totals(), store.bounds());
    json!({
        "ok": true,
        "entries": totals.entries,
        "bytes": totals.bytes,
        "entries_max": bounds.entries_max,
        "bytes_max": bounds.bytes_max,
        "stored": totals.stored,
        "evicted": totals.evicted,
        "expired": totals.expired,
        "damaged": totals.damaged,
        "purges": totals.purges,
        "is_complete": totals.is_complete,
        "sites": sites(model, store, site_stats),
    })
}

/// Contents of the store for each site, and the results of its requests since the start.
pub fn sites(model: &Model, store: &Store, site_stats: &[Arc<WorkerStats>]) -> Value {
    // Sites of one name have their entries in common.
    let mut all: Vec<Vec<u8>> = scopes(model).map(|(scope, _)| scope).collect();
    all.dedup();
    all.iter()
        .map(|scope| site(store, site_stats, scope))
        .collect()
}

fn site(store: &Store, site_stats: &[Arc<WorkerStats>], scope: &[u8]) -> Value {
    let (used, sum) = (store.site_use(scope), WorkerStats::sum(site_stats, scope));
    let mut site = json!({
        "site": String::from_utf8_lossy(scope),
        "entries": used.entries,
        "bytes": used.bytes,
        "pass_reasons": sum.reasons,
    });
    let counts = Stat::ALL
        .iter()
        .map(|count| (count.name().to_owned(), Value::from(sum.of(*count))));
    site.as_object_mut()
        .into_iter()
        .for_each(|site| site.extend(counts.clone()));
    site
}

fn list(store: &Store, scopes: Option<&[Vec<u8>]>, max: usize) -> Value {
    let (mut entries, mut is_cut, until) = (Vec::new(), false, Instant::now() + LOOK_MAX);
    store.for_each(|head, bytes| {
        if is_page(head) && scopes.is_none_or(|scopes| scopes.contains(&head.site)) {
            is_cut = entries.len() >= max;
            if !is_cut {
                let mut one = described(head, bytes);
                one["entry"] = store.hash(&head.key).to_string().into();
                entries.push(one);
            }
        }
        is_cut |= Instant::now() > until;
        !is_cut
    });
    json!({ "ok": true, "entries": entries, "is_cut": is_cut })
}

/// All variants of a URL, with their metadata.
fn show(store: &Store, tags: &BTreeSet<Vec<u8>>) -> Value {
    let (mut entries, mut is_cut, until) = (Vec::new(), false, Instant::now() + LOOK_MAX);
    let bans = Bans::default();
    store.for_each(|head, bytes| {
        let is_it = is_page(head) && head.tags.iter().any(|tag| tags.contains(own(tag).0));
        if is_it {
            entries.push(shown(store, &bans, head, bytes));
        }
        is_cut = Instant::now() > until;
        !is_cut
    });
    json!({ "ok": true, "entries": entries, "is_cut": is_cut })
}

fn shown(store: &Store, bans: &Bans, head: &EntryHead, bytes: u64) -> Value {
    let mut shown = described(head, bytes);
    let parts: Vec<_> = head
        .key
        .split(|byte| *byte == BETWEEN)
        .map(String::from_utf8_lossy)
        .collect();
    let found = store.find(&head.key, 0);
    let codings = Coding::ALL.into_iter().filter(|coding| {
        *coding != Coding::Identity
            && found
                .as_ref()
                .is_some_and(|found| store.find_coding(&head.key, found.id, *coding, 0).is_some())
    });
    let fields = head.fields.iter().map(|(name, value)| {
        format!(
            "{}: {}",
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(value)
        )
    });
    let more = json!({
        "entry": store.hash(&head.key).to_string(),
        "key": parts,
        "codings": codings.map(|coding| format!("{coding:?}").to_lowercase()).collect::<Vec<_>>(),
        "standing": format!("{:?}", standing(store, bans, head)).to_lowercase(),
        "fields": fields.collect::<Vec<_>>(),
    });
    if let (Some(shown), Value::Object(more)) = (shown.as_object_mut(), more) {
        shown.extend(more);
    }
    shown
}

fn purge(order: &PurgeOrder, model: &Model, store: &Store) -> Result<Value, String> {
    let number = store.purge(purges(order, model, store)?).map_err(|error| {
        format!("it holds, but could not be written down, and may not outlive a restart: {error}")
    })?;
    let scopes = scopes_of_order(order, model)?;
    let sites: Vec<_> = scopes
        .iter()
        .map(|scope| String::from_utf8_lossy(scope))
        .collect();
    Ok(json!({ "ok": true, "number": number, "sites": sites }))
}

fn scopes_of_order(order: &PurgeOrder, model: &Model) -> Result<Vec<Vec<u8>>, String> {
    match order.site.as_deref() {
        Some(site) => scopes_named(model, site),
        None => Ok(scopes(model).map(|(scope, _)| scope).collect()),
    }
}

fn purges(order: &PurgeOrder, model: &Model, store: &Store) -> Result<Vec<Purge>, String> {
    let mut purges = Vec::new();
    for scope in &scopes_of_order(order, model)? {
        for tag in &order.tags {
            purges.push(Purge::Tag {
                mark: TagMark::new(scope, &names::tag(tag.as_bytes())),
                is_soft: order.soft,
            });
        }
        for ban in &order.bans {
            purges.extend(bans::by_expression(scope, ban)?.0);
        }
        if order.all {
            purges.extend(everything(scope, order.soft));
        }
    }
    for url in &order.urls {
        for asked in asked(url, model, order.site.as_deref())? {
            for url in &asked.urls {
                purges.extend(shared_purges::of_url(store, &asked.scope, url, order.soft));
            }
        }
    }
    Ok(purges)
}

/// Purges of everything: public entries go by their tag; private entries, which have only their
/// site in common, by an expression.
fn everything(scope: &[u8], is_soft: bool) -> Vec<Purge> {
    let mut purges = vec![Purge::Tag {
        mark: TagMark::new(scope, names::ALL),
        is_soft,
    }];
    if !is_soft {
        purges.extend(
            bans::by_expression(scope, "req.url ~ ^")
                .map(|(purges, _)| purges)
                .unwrap_or_default(),
        );
    }
    purges
}

/// A URL at one site.
struct Asked {
    scope: Vec<u8>,
    /// The URL for every listener, as in keys.
    urls: Vec<Vec<u8>>,
}

impl Asked {
    fn tags(&self, store: &Store) -> Vec<Vec<u8>> {
        self.urls
            .iter()
            .flat_map(|url| url_tags(store, url))
            .collect()
    }
}

/// An absolute URL, or a path of the site (or of every name of every site).
fn asked(url: &str, model: &Model, site: Option<&str>) -> Result<Vec<Asked>, String> {
    let (host, target) = split(url).ok_or_else(|| format!("{url} is neither a URL nor a path"))?;
    // As it stands in keys.
    let host =
        host.map(|host| String::from_utf8_lossy(&canonical_host(host.as_bytes())).into_owned());
    let target = canonical(target);
    let ports = ports(url, model);
    let urls = |host: &str| {
        let each = |port: &u16| {
            ["http", "https"]
                .map(|scheme| [format!("{scheme}://{host}:{port}").as_bytes(), &target].concat())
        };
        ports.iter().flat_map(each).collect::<Vec<_>>()
    };
    let one = |host: &str, scope: Vec<u8>| Asked {
        scope,
        urls: urls(&host.to_ascii_lowercase()),
    };
    match (host.as_deref(), site) {
        (Some(host), _) => Ok(scopes_of(model, host)?
            .into_iter()
            .map(|scope| one(host, scope))
            .collect()),
        (None, Some(host)) => Ok(scopes_named(model, host)?
            .into_iter()
            .map(|scope| one(host, scope))
            .collect()),
        (None, None) => {
            let exact = |(scope, site): (Vec<u8>, &Site)| {
                let names: Vec<String> = site.names.iter().filter_map(exact_name).collect();
                names
                    .into_iter()
                    .map(|name| one(&name, scope.clone()))
                    .collect::<Vec<_>>()
            };
            Ok(scopes(model).flat_map(exact).collect())
        }
    }
}

fn exact_name(name: &SiteName) -> Option<String> {
    match name {
        SiteName::Exact(name) => Some(name.clone()),
        SiteName::Wildcard(_) | SiteName::Any => None,
    }
}

/// Splits a URL into host without port, and the rest. The host is in lower case, as in keys.
fn split(url: &str) -> Option<(Option<&str>, &str)> {
    if url.starts_with('/') && !url.starts_with("//") {
        return Some((None, url));
    }
    let rest = url.split_once("//").map(|(_, rest)| rest)?;
    let end = rest.find(PORT_ENDS).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    let host = match authority.rsplit_once(':') {
        Some((host, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.is_empty() =>
        {
            host
        }
        _ => authority,
    };
    (!host.is_empty()).then_some((Some(host), target))
}

/// The target as in keys: the path in one spelling, the query as it is, no fragment.
fn canonical(target: &str) -> Vec<u8> {
    let target = target.split('#').next().unwrap_or_default();
    let (raw, query) = target
        .split_once('?')
        .map_or((target, None), |(path, query)| (path, Some(query)));
    let raw = if raw.is_empty() { "/" } else { raw };
    let (mut decoded, mut out) = (Vec::new(), Vec::new());
    match path::normalize(raw.as_bytes(), &mut decoded) {
        Ok(()) => escape::uri_path(&decoded, &mut out),
        Err(_) => out.extend_from_slice(raw.as_bytes()),
    }
    if let Some(query) = query {
        out.push(b'?');
        out.extend_from_slice(query.as_bytes());
    }
    out
}

/// Ports of all listeners, and that of the URL. Unix sockets have none.
fn ports(url: &str, model: &Model) -> BTreeSet<u16> {
    let of_listener = model
        .listeners
        .iter()
        .map(|listener| match &listener.address {
            Address::Tcp(address) => address.port(),
            Address::Unix(_) => 0,
        });
    let authority = url
        .split_once("//")
        .and_then(|(_, rest)| rest.split(PORT_ENDS).next());
    let own = authority
        .and_then(|authority| authority.rsplit_once(':'))
        .and_then(|(_, port)| port.parse().ok());
    of_listener.chain(own).collect()
}

/// Every site with its scope.
fn scopes(model: &Model) -> impl Iterator<Item = (Vec<u8>, &Site)> {
    model
        .sites
        .iter()
        .enumerate()
        .map(|(index, site)| (key::scope(site, index), &**site))
}

/// Scopes of the sites that answer a host, or have it as a scope; if there are none, of the sites
/// that answer unknown hosts.
fn scopes_of(model: &Model, host: &str) -> Result<Vec<Vec<u8>>, String> {
    match (claiming(model, host), scopes(model).next()) {
        (found, _) if !found.is_empty() => Ok(found),
        (_, Some((first, _))) => Ok(with_own(model, host, vec![first])),
        (_, None) => Err(format!("no site answers {host}")),
    }
}

/// Scopes of a site named by the operator. An unknown name is an error here, although the first
/// site answers such hosts; unless that site stands for many hosts and may know this one.
fn scopes_named(model: &Model, name: &str) -> Result<Vec<Vec<u8>>, String> {
    let may_know = model
        .sites
        .first()
        .is_some_and(|site| site.by_host.is_some());
    match may_know || !claiming(model, name).is_empty() {
        true => scopes_of(model, name),
        false => Err(format!(
            "no site is called {name} (`saker cache stat` lists them)"
        )),
    }
}

/// Scopes of the sites that have a host as a name or as a scope; else of those that match it by a
/// pattern, or match every host.
fn claiming(model: &Model, host: &str) -> Vec<Vec<u8>> {
    let wanted = host.to_ascii_lowercase();
    let claims = |scope: &[u8], site: &Site| {
        let by_name = site.names.iter().any(|name| match name {
            SiteName::Exact(name) => *name == wanted,
            SiteName::Wildcard(rest) => wanted
                .strip_suffix(rest.as_str())
                .is_some_and(|start| start.ends_with('.')),
            SiteName::Any => false,
        });
        by_name || scope == wanted.as_bytes()
    };
    let takes_all = |site: &Site| site.names.contains(&SiteName::Any) || !site.patterns.is_empty();
    let mut found: Vec<Vec<u8>> = scopes(model)
        .filter(|(scope, site)| claims(scope, site))
        .map(|(scope, _)| scope)
        .collect();
    if found.is_empty() {
        found = scopes(model)
            .filter(|(_, site)| takes_all(site))
            .map(|(scope, _)| scope)
            .collect();
    }
    if found.is_empty() {
        found
    } else {
        with_own(model, host, found)
    }
}

/// A site that stands for many hosts has a scope for each of them.
fn with_own(model: &Model, host: &str, mut found: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let of_host = |(index, site): (usize, &Arc<Site>)| {
        site.by_host
            .is_some()
            .then(|| names::scope(Some(host), index))
    };
    for own in model.sites.iter().enumerate().filter_map(of_host) {
        if !found.contains(&own) {
            found.push(own);
        }
    }
    found
}

#[cfg(test)]
#[path = "cache_control_tests.rs"]
mod tests;
