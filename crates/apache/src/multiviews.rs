//! MultiViews: a name without its extensions is answered by one of the files that have some.
//!
//! Called by: the fixups.
//! Caveat: a file takes part only if every extension that was left out means something; `name.bak`
//! is no variant.
//! Out of scope: keeping the choice, which depends on the client.

use crate::{
    coding_name, magic,
    negotiate::{Choice, Variant, alternates, choose, vary},
    state::{peek, state},
    subrequest::{adopt, run_phases, subrequest},
    verdict::Verdict,
    walk::link_policy,
    worker::ApacheRules,
};
use saker_apache_model::{
    dir_config::DirConfig,
    host::Host,
    modules::mime::{Extension, MultiviewsMatch},
};
use saker_apache_syntax::options::MULTI_VIEWS;
use saker_files::{EntryChoice, Kind, Watcher, read_directory, resolve};
use saker_http::{Method, Status};
use saker_pipeline::{
    Exchange, Inner, Response,
    file_routes::{self, OwnRoute},
};
use std::path::Path;

/// Entries of the folder that are looked at.
const ENTRIES_MAX: usize = 20_000;

/// Files of a folder that are tried as requests of their own; more are no variants of one page.
const CANDIDATES_MAX: usize = 256;

/// Negotiates: the exchange goes on as one of several files (`Some(Pass)`), or has been answered;
/// `None`: MultiViews does not apply.
pub fn negotiate(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &DirConfig,
) -> Option<Verdict> {
    let own = peek(exchange)?;
    if own.kind.is_some() || !local.core.options.in_force().contains(MULTI_VIEWS) {
        return None;
    }
    let filename = own.filename.clone();
    let at = filename.iter().rposition(|byte| *byte == b'/')? + 1;
    let (folder, name) = filename.split_at(at);
    if name.is_empty() {
        return None;
    }
    exchange.depends_on_request();
    let names = candidates(exchange, watcher, local, folder, name);
    let is_matched = !names.is_empty();
    let mut tried: Vec<(Variant, Box<Exchange>)> = names
        .into_iter()
        .filter(|(candidate, _)| is_variant(host, local, name, candidate))
        .take(CANDIDATES_MAX)
        .collect::<Vec<_>>()
        .into_iter()
        .filter_map(|(candidate, bytes)| tried(rules, exchange, host, name, candidate, bytes))
        .collect();
    if tried.is_empty() {
        // As in Apache: rules and handlers get no say where there are files that can't be chosen.
        return is_matched.then(|| Verdict::Answer(Response::new(Status::NOT_FOUND)));
    }
    if let Some(at) = tried
        .iter()
        .position(|(_, inner)| inner.routing.handler.as_deref() == Some("type-map"))
    {
        // It says what the variants are, and the other files are none: its handler goes on.
        let inner = tried.swap_remove(at).1;
        if let Some(decided) = own_route(exchange, watcher, &inner.path) {
            return Some(decided);
        }
        go_on_as(exchange, inner);
        exchange.trace("fixups", None, || "negotiated by a type map".into());
        return Some(Verdict::Pass);
    }
    let variants: Vec<Variant> = tried.iter().map(|(variant, _)| variant.clone()).collect();
    Some(
        match choose(&variants, exchange.head.view(), &local.negotiation) {
            Choice::None => Verdict::Answer(not_acceptable(&variants)),
            Choice::Variant(at) => {
                let (variant, inner) = tried.swap_remove(at);
                if let Some(decided) = own_route(exchange, watcher, &inner.path) {
                    state(exchange).negotiated = lines(exchange, variant, vary(&variants));
                    return Some(decided);
                }
                let path_info = std::mem::take(&mut exchange.routing.path_info);
                go_on_as(exchange, inner);
                exchange.routing.path_info = path_info;
                exchange.trace("fixups", None, || {
                    format!("negotiated: {}", String::from_utf8_lossy(&variant.name))
                });
                state(exchange).negotiated = lines(exchange, variant, vary(&variants));
                Verdict::Pass
            }
        },
    )
}

fn go_on_as(exchange: &mut Exchange, inner: Box<Exchange>) {
    let is_subrequest = peek(exchange).is_some_and(|own| own.is_subrequest);
    adopt(exchange, inner);
    state(exchange).is_subrequest = is_subrequest;
}

/// Leads the request to the route of a variant, if that is another one in a native site, so that all
/// its rules are asked, or has the rules about links asked for the variant. `None`: it may be taken.
fn own_route(exchange: &mut Exchange, watcher: &Watcher, file: &[u8]) -> Option<Verdict> {
    if peek(exchange).is_some_and(|own| own.is_subrequest) {
        return None;
    }
    let path_info = exchange.routing.path_info.clone();
    match file_routes::follow_path(exchange, watcher, file) {
        Ok(true) => exchange.path.extend_from_slice(&path_info),
        Ok(false) if file_routes::ask_links(exchange, file) => {}
        Ok(false) => return None,
        Err(refused) => return Some(Verdict::Answer(refused)),
    }
    // It is the request itself: its variables keep their names.
    state(exchange).path.clear();
    Some(Verdict::Restart)
}

/// Returns whether all extensions of a file that the name leaves out are known.
fn is_variant(host: &Host, local: &DirConfig, name: &[u8], candidate: &[u8]) -> bool {
    let rest = candidate
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix(b"."));
    rest.is_some_and(|rest| {
        rest.split(|byte| *byte == b'.')
            .all(|extension| is_known(host, local, extension))
    })
}

/// Files of the folder whose names are the name and more extensions.
fn candidates(
    exchange: &mut Exchange,
    watcher: &Watcher,
    local: &DirConfig,
    folder: &[u8],
    name: &[u8],
) -> Vec<(Vec<u8>, u64)> {
    let policy = link_policy(local.core.options.in_force());
    let relative = folder.strip_prefix(b"/").unwrap_or(folder);
    let Ok(found) = resolve(
        watcher,
        Path::new("/"),
        relative,
        policy,
        &mut exchange.cache.change_tokens,
    ) else {
        return Vec::new();
    };
    let fits = |entry: &[u8]| {
        let rest = entry.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(b"."))
    };
    let choose = |entry: &[u8]| {
        if fits(entry) {
            EntryChoice::Take
        } else {
            EntryChoice::Skip
        }
    };
    let Ok(listing) = read_directory(&found.file, ENTRIES_MAX, choose) else {
        return Vec::new();
    };
    exchange.budget().work().steps(listing.entries.len() as u64);
    let files = listing
        .entries
        .into_iter()
        .filter(|entry| entry.kind == Kind::File);
    let mut names: Vec<(Vec<u8>, u64)> = files
        .map(|entry| (entry.name, entry.metadata.size))
        .collect();
    names.sort();
    names
}

/// Returns whether MultiviewsMatch lets an extension count.
fn is_known(host: &Host, local: &DirConfig, extension: &[u8]) -> bool {
    let text = String::from_utf8_lossy(extension).to_ascii_lowercase();
    let said = local.mime.extensions.get(text.as_str());
    let is_said = |slot: fn(&Extension) -> &Option<Option<Box<str>>>| {
        said.is_some_and(|said| matches!(slot(said), Some(Some(_))))
    };
    let negotiated = host.types.contains_key(text.as_str())
        || is_said(|said| &said.media_type)
        || is_said(|said| &said.language)
        || is_said(|said| &said.coding)
        || is_said(|said| &said.charset);
    match local
        .mime
        .multiviews_match
        .unwrap_or(MultiviewsMatch::NegotiatedOnly)
    {
        MultiviewsMatch::Any => true,
        MultiviewsMatch::NegotiatedOnly => negotiated,
        MultiviewsMatch::Also { handlers, filters } => {
            let filtered =
                is_said(|said| &said.output_filters) || is_said(|said| &said.input_filters);
            negotiated || handlers && is_said(|said| &said.handler) || filters && filtered
        }
    }
}

/// A candidate as a request of its own, if it would be answered.
fn tried(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    name: &[u8],
    candidate: Vec<u8>,
    bytes: u64,
) -> Option<(Variant, Box<Exchange>)> {
    // The path up to the name; what follows it in the path is what follows the file.
    let end = exchange
        .path
        .len()
        .checked_sub(exchange.routing.path_info.len())?;
    let before = exchange.path.get(..end)?.strip_suffix(name)?;
    let mut inner = subrequest(
        exchange,
        [before, candidate.as_slice()].concat(),
        Inner::Lookup,
    )?;
    let is_subrequest = peek(exchange).is_some_and(|own| own.is_subrequest);
    match file_routes::own_route(exchange, rules.watcher(), &inner.path) {
        Ok(OwnRoute::None) => {}
        // If it is chosen, all phases begin again under its route.
        Ok(OwnRoute::Other) if !is_subrequest => state(&mut inner).base = None,
        Ok(OwnRoute::Other) => {}
        // It is not for clients.
        Ok(OwnRoute::Internal) | Err(_) => return None,
    }
    state(&mut inner).is_candidate = true;
    let path = inner.path.clone();
    if !matches!(run_phases(rules, &mut inner), Verdict::Pass) {
        return None;
    }
    if inner.path != path {
        return None;
    }
    let own = peek(&inner).filter(|own| own.kind == Some(Kind::File))?;
    let local = own.local.as_ref()?;
    let facts = magic::facts(
        local,
        host,
        rules.watcher(),
        &candidate,
        &own.filename,
        &mut exchange.cache.change_tokens,
    );
    // What has a handler and no type is as good as any page.
    let media_type = local
        .core
        .force_type
        .clone()
        .flatten()
        .or(facts.media_type)
        .or_else(|| facts.handler.map(|_| "".into()))?;
    let coding = facts.codings.first().cloned();
    let variant = Variant {
        name: candidate,
        media_type,
        languages: facts.languages,
        coding,
        charset: facts.charset,
        bytes,
        source: 1.0,
        body: None,
    };
    Some((variant, inner))
}

/// The response fields that describe the choice.
pub fn lines(exchange: &Exchange, variant: Variant, vary: String) -> Vec<(Box<str>, Box<[u8]>)> {
    let head = exchange.head.view();
    if !matches!(head.method(), Method::Get | Method::Head) {
        return Vec::new();
    }
    let mut lines: Vec<(Box<str>, Box<[u8]>)> = vec![
        ("Content-Location".into(), variant.name.into()),
        ("Vary".into(), vary.into_bytes().into()),
        ("TCN".into(), b"choice"[..].into()),
    ];
    // A coding goes by the name that the client has for it.
    let bare = variant
        .coding
        .as_deref()
        .and_then(|coding| coding.strip_prefix("x-"));
    lines.extend(
        bare.filter(|bare| coding_name::says(head, bare))
            .map(|bare| ("Content-Encoding".into(), bare.as_bytes().into())),
    );
    lines
}

pub fn not_acceptable(variants: &[Variant]) -> Response {
    let mut response = Response::new(Status::NOT_ACCEPTABLE);
    let fields = response.fields_mut();
    fields.append("Alternates", alternates(variants));
    fields.append("Vary", vary(variants).into_bytes());
    if variants.iter().all(|variant| variant.body.is_none()) {
        fields.append("TCN", &b"list"[..]);
    }
    response
}
