//! mod_dir: the slash behind a folder, index files, FallbackResource.
//!
//! Called by: `fixups`.
//! Caveat: an index file is a subrequest, which has to get as far as being answered.

use crate::{
    redirect::{redirect, redirect_with_query},
    state::{peek, state},
    subrequest::{add_cookies, adopt, run_phases, subrequest},
    verdict::Verdict,
    worker::ApacheRules,
};
use saker_apache_model::{dir_config::DirConfig, host::Host, modules::alias::Redirected};
use saker_files::{Kind, LinkPolicy, ResolveError, cached_stat};
use saker_http::{Method, Status, path::normalize_with};
use saker_pipeline::{
    Exchange, Inner, Response,
    file_routes::{self, OwnRoute},
};
use std::path::Path;

/// mod_dir: the slash behind a folder, its index file, and what answers for what is not there.
pub fn folder(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    local: &DirConfig,
) -> Verdict {
    let kind = peek(exchange).and_then(|state| state.kind);
    if kind != Some(Kind::Directory) {
        return if kind.is_none() && !has_handler(exchange, host, local) {
            fallback(rules, exchange, local)
        } else {
            Verdict::Pass
        };
    }
    if !exchange.path.ends_with(b"/") {
        return add_slash(exchange, host, local);
    }
    if local.core.set_handler.as_ref().is_some_and(Option::is_some)
        && local.dir.check_handler == Some(true)
    {
        return Verdict::Pass;
    }
    index_file(rules, exchange, host, local)
}

/// A request of WebDAV: a folder without its slash is redirected, unless the client is known to lose
/// its way then (`redirect-carefully`). Its index files are members like others.
pub fn bare_folder(exchange: &mut Exchange, host: &Host, local: &DirConfig) -> Verdict {
    let is_bare = !exchange.path.ends_with(b"/")
        && peek(exchange).is_some_and(|state| state.kind == Some(Kind::Directory));
    if !is_bare || exchange.environment.first(b"redirect-carefully").is_some() {
        return Verdict::Pass;
    }
    add_slash(exchange, host, local)
}

/// A folder whose path has no slash at its end: the client is sent to the path that has one.
pub fn add_slash(exchange: &mut Exchange, host: &Host, local: &DirConfig) -> Verdict {
    if local.dir.slash == Some(false) {
        as_if_with_slash(exchange);
        return Verdict::Pass;
    }
    // Two slashes at the beginning would make a host of the first component.
    let slashes = exchange
        .path
        .iter()
        .take_while(|byte| **byte == b'/')
        .count();
    let from = slashes.saturating_sub(1);
    let mut location = saker_ap_expr::escape_uri(exchange.path.get(from..).unwrap_or_default());
    location.push(b'/');
    if let Some(query) = &exchange.query {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    let redirected = Redirected {
        status: 301,
        location: Some(location),
        is_relative: false,
    };
    redirect_with_query(exchange, host, redirected)
}

/// Tries the names of DirectoryIndex, then FallbackResource.
fn index_file(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    local: &DirConfig,
) -> Verdict {
    let (mut refusal, is_only) = (None, local.dir.index_names().count() == 1);
    for name in local.dir.index_names() {
        if exchange.is_over_budget() {
            return Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
        }
        match index(rules, exchange, host, local, name) {
            // One that may not be seen is passed over as long as there are others; if there is
            // none, nothing else is shown either.
            Verdict::Answer(response) if response.status.is_error() && !is_only => {
                refusal = Some(response)
            }
            // Taken over.
            Verdict::Pass
                if peek(exchange).is_some_and(|state| {
                    state.kind == Some(Kind::File) || state.proxied.is_some()
                }) =>
            {
                return Verdict::Pass;
            }
            Verdict::Pass => {}
            verdict => return verdict,
        }
    }
    if let Some(refusal) = refusal {
        return Verdict::Answer(refusal);
    }
    // `DirectoryIndex disabled` leaves folders alone.
    if local.dir.index_names().next().is_none() {
        return Verdict::Pass;
    }
    fallback(rules, exchange, local)
}

/// Returns whether a handler of its own is set: then it is that one's business, there or not
/// (mod_dir).
fn has_handler(exchange: &Exchange, host: &Host, local: &DirConfig) -> bool {
    let Some(own) = peek(exchange) else {
        return false;
    };
    let is_set = own.forced_handler.is_some()
        || local.core.set_handler.as_ref().is_some_and(Option::is_some);
    is_set
        || local
            .mime
            .facts(&own.filename, &host.types)
            .handler
            .is_some()
}

/// A folder under its name without the slash may be listed, or refused, under that name.
fn as_if_with_slash(exchange: &mut Exchange) {
    if let Some(mapped) = exchange
        .routing
        .mapped
        .as_mut()
        .filter(|mapped| !mapped.relative.is_empty())
    {
        mapped.relative.push(b'/');
    }
}

/// An index file is a request of its own, which has to get as far as being answered.
fn index(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    local: &DirConfig,
    name: &str,
) -> Verdict {
    let mut parts = name.splitn(2, '?');
    let (name, query) = (parts.next().unwrap_or_default(), parts.next());
    let path = match name.strip_prefix('/') {
        Some(_) => name.as_bytes().to_vec(),
        None => [exchange.path.as_slice(), name.as_bytes()].concat(),
    };
    let path = without_detours(path, host);
    if let Some(decided) = own_route(rules, exchange, host, local, (&path, query)) {
        return decided;
    }
    let Some(mut inner) = subrequest(exchange, path.clone(), Inner::Lookup) else {
        return Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
    };
    state(&mut inner).is_candidate = true;
    if let Some(query) = query {
        add_query(&mut inner, query);
    }
    let outcome = run_phases(rules, &mut inner);
    exchange.depends_on_exchange(&mut inner);
    let cookies = peek(&inner).map(|own| own.cookies.clone());
    add_cookies(exchange, cookies.unwrap_or_default());
    let refused = match outcome {
        Verdict::Pass => None,
        Verdict::Answer(response) => Some(response),
        // Rules lead on from what is there; what is not there is no index file, wherever they would
        // lead.
        Verdict::Restart
            if peek(&inner).is_some_and(|state| state.rewritten_as == Some(Kind::File)) =>
        {
            adopt(exchange, inner);
            return Verdict::Restart;
        }
        Verdict::Restart => return Verdict::Pass,
        // This step is asked again, and tries again.
        other => return other,
    };
    exchange.access.user = inner.access.user.take().or(exchange.access.user.take());
    let found =
        peek(&inner).is_some_and(|state| state.kind == Some(Kind::File) || state.proxied.is_some());
    match refused {
        None if found => {}
        Some(response) if response.status.0 >= 300 && response.status.0 < 400 => {
            return Verdict::Answer(response);
        }
        Some(response) if response.status.is_error() && response.status != Status::NOT_FOUND => {
            return Verdict::Answer(response);
        }
        _ => return Verdict::Pass,
    }
    if let Some(redirected) = index_redirect(exchange, host, local, &path) {
        return redirected;
    }
    let is_main = !peek(exchange).is_some_and(|own| own.is_subrequest);
    if is_main && file_routes::ask_links(exchange, &inner.path) {
        state(exchange).path.clear();
        return Verdict::Restart;
    }
    adopt(exchange, inner);
    Verdict::Pass
}

/// DirectoryIndexRedirect.
fn index_redirect(
    exchange: &mut Exchange,
    host: &Host,
    local: &DirConfig,
    path: &[u8],
) -> Option<Verdict> {
    let status = local.dir.index_redirect.flatten()?;
    let redirected = Redirected {
        status,
        location: Some(saker_ap_expr::escape_uri(path)),
        is_relative: false,
    };
    Some(redirect(exchange, host, redirected))
}

/// An index file that has a route of its own in a native site: all phases begin again under that one.
/// `None`: there is no such route, or it is for a request inside of another, which is not led away.
fn own_route(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    local: &DirConfig,
    (path, query): (&[u8], Option<&str>),
) -> Option<Verdict> {
    let watcher = rules.watcher();
    match file_routes::own_route(exchange, watcher, path) {
        Ok(OwnRoute::None) => return None,
        Ok(OwnRoute::Other | OwnRoute::Internal) => {}
        Err(refused) => return Some(Verdict::Answer(refused)),
    }
    let own = peek(exchange)?;
    let is_subrequest = own.is_subrequest;
    let folder = own.filename.strip_suffix(b"/").unwrap_or(&own.filename);
    let name = path.strip_prefix(exchange.path.as_slice())?;
    let file = [folder.strip_prefix(b"/").unwrap_or(folder), b"/", name].concat();
    let tokens = &mut exchange.cache.change_tokens;
    let root = Path::new("/");
    match cached_stat(watcher, root, &file, LinkPolicy::Follow, tokens) {
        Ok(found) if found.kind == Kind::Directory => return Some(Verdict::Pass),
        // What is not there is no index file.
        Err(ResolveError::NotFound | ResolveError::LinkDangling) => return Some(Verdict::Pass),
        Ok(_) | Err(_) => {}
    }
    if is_subrequest {
        return None;
    }
    if let Some(redirected) = index_redirect(exchange, host, local, path) {
        return Some(redirected);
    }
    match file_routes::follow_path(exchange, watcher, path) {
        Ok(true) => {}
        Ok(false) => return None,
        Err(refused) => return Some(Verdict::Answer(refused)),
    }
    if let Some(query) = query {
        add_query(exchange, query);
    }
    // It is the request itself: its variables keep their names.
    state(exchange).path.clear();
    Some(Verdict::Restart)
}

/// The query of an index file's name. As in Apache, the request's own follows it.
fn add_query(inner: &mut Exchange, query: &str) {
    let mut whole = query.as_bytes().to_vec();
    if let Some(asked) = inner.query.take() {
        whole.push(b'?');
        whole.extend_from_slice(&asked);
    }
    inner.query = Some(whole);
    inner.routing.has_written_query = true;
}

/// A path that a name with `.` or `..` in it may have been put to.
fn without_detours(path: Vec<u8>, host: &Host) -> Vec<u8> {
    if !path.windows(2).any(|two| two == b"/.") {
        return path;
    }
    let mut read = Vec::with_capacity(path.len());
    match normalize_with(&saker_ap_expr::escape_uri(&path), host.slashes, &mut read) {
        Ok(()) => read,
        Err(_) => path,
    }
}

/// FallbackResource: a path of the site that answers for what is not there.
fn fallback(rules: &ApacheRules, exchange: &mut Exchange, local: &DirConfig) -> Verdict {
    let Some(Some(target)) = &local.dir.fallback else {
        return Verdict::Pass;
    };
    let path = match target.strip_prefix('/') {
        Some(_) => target.as_bytes().to_vec(),
        None => {
            let folder = exchange
                .path
                .iter()
                .rposition(|byte| *byte == b'/')
                .map_or(0, |at| at + 1);
            [
                exchange.path.get(..folder).unwrap_or_default(),
                target.as_bytes(),
            ]
            .concat()
        }
    };
    if path == exchange.path {
        return Verdict::Pass;
    }
    if let Some(refused) = refusal_of_get(rules, exchange, &path) {
        return refused;
    }
    exchange.path = path;
    // Apache takes this for the request itself: its variables keep their names.
    state(exchange).path.clear();
    Verdict::Restart
}

/// As Apache, which looks the path up by GET: rules about GET hold for it whatever the method of the
/// request is.
fn refusal_of_get(rules: &ApacheRules, exchange: &mut Exchange, path: &[u8]) -> Option<Verdict> {
    if exchange.head.view().method() == Method::Get {
        return None;
    }
    let Some(mut inner) = subrequest(exchange, path.to_vec(), Inner::Lookup) else {
        return Some(Verdict::Answer(Response::new(
            Status::INTERNAL_SERVER_ERROR,
        )));
    };
    let outcome = run_phases(rules, &mut inner);
    exchange.depends_on_exchange(&mut inner);
    match outcome {
        Verdict::Answer(response)
            if response.status.is_error() && response.status != Status::NOT_FOUND =>
        {
            Some(Verdict::Answer(response))
        }
        Verdict::Wait(pause) => Some(Verdict::Wait(pause)),
        _ => None,
    }
}
