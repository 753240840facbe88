//! Paths that begin with `/~name`, and hosts whose name is a folder: what mod_userdir and
//! mod_vhost_alias make of a request.

use crate::state::peek;
use saker_apache_model::{host::Host, modules::userdir::Place};
use saker_config::model::{Address, RouteRoot};
use saker_files::{LinkPolicy, Watcher, resolve};
use saker_pipeline::Exchange;
use std::{os::unix::ffi::OsStrExt, path::Path};

/// The first of a user's places that is there; leaves stamps of those that were looked at.
pub fn place(exchange: &mut Exchange, host: &Host, watcher: &Watcher) -> Option<Place> {
    if !exchange.path.starts_with(b"/~") {
        return None;
    }
    let path = exchange.path.clone();
    let mut stamps = Vec::new();
    let places = host
        .defaults
        .userdir
        .places(&path, &mut |user| home(watcher, user, &mut stamps));
    let count = places.len();
    let behind = path
        .get(2..)
        .and_then(|rest| {
            rest.iter()
                .position(|byte| *byte == b'/')
                .map(|at| rest.len() - at)
        })
        .unwrap_or(0);
    let found = places
        .into_iter()
        .enumerate()
        .find(|(at, place)| match place {
            Place::Redirect(_) => true,
            // The last one is taken at its word.
            Place::File(_) if at + 1 == count => true,
            Place::File(file) => {
                let folder = file
                    .get(1..file.len().saturating_sub(behind))
                    .unwrap_or_default();
                resolve(
                    watcher,
                    Path::new("/"),
                    folder,
                    LinkPolicy::Follow,
                    &mut stamps,
                )
                .is_ok()
            }
        });
    exchange.cache.change_tokens.append(&mut stamps);
    found.map(|(_, place)| place)
}

/// Whom programs run as in a user's folder: him, where mod_suexec is there.
pub fn owner(exchange: &Exchange, host: &Host) -> Option<Box<str>> {
    let name = exchange
        .path
        .strip_prefix(b"/~")
        .filter(|_| host.process.has_suexec)?;
    let end = name
        .iter()
        .position(|byte| *byte == b'/')
        .unwrap_or(name.len());
    String::from_utf8(name.get(..end)?.to_vec())
        .ok()
        .map(Into::into)
}

fn home(
    watcher: &Watcher,
    user: &str,
    stamps: &mut Vec<saker_files::ChangeToken>,
) -> Option<Vec<u8>> {
    saker_files::account(watcher, user, stamps).map(|account| account.home)
}

/// The document root of the host; a native site has its own.
pub fn own_root<'h>(exchange: &'h Exchange, host: &'h Host) -> &'h [u8] {
    let of_route = route_root(exchange).filter(|root| root.prefix.is_empty());
    let of_site = exchange
        .routing
        .site
        .root
        .as_deref()
        .filter(|_| host.is_native);
    of_route
        .map(|root| &*root.folder)
        .or(of_site)
        .unwrap_or(&host.document_root)
        .as_os_str()
        .as_bytes()
}

/// The root or alias of the native route in force, if the path is one of its own.
pub fn route_root(exchange: &Exchange) -> Option<&RouteRoot> {
    let root = peek(exchange)?.base.as_ref()?.root.as_deref()?;
    root.relative(&exchange.path).map(|_| root)
}

/// The directory that walks of a native site begin at: the route's, or the site's.
pub fn native_root(exchange: &Exchange) -> Option<&Path> {
    match route_root(exchange) {
        Some(root) => Some(&root.folder),
        None => exchange.routing.site.root.as_deref(),
    }
}

/// The document root that the host's name stands for.
pub fn document_root(exchange: &Exchange, host: &Host) -> Option<Vec<u8>> {
    if !host.defaults.vhost_alias.is_used() {
        return None;
    }
    let (name, address, port) = names(exchange, host);
    host.defaults
        .vhost_alias
        .document_root(&name, &address, port)
        .map(String::into_bytes)
}

/// The folder of scripts that it stands for, where the path is below `/cgi-bin/`.
pub fn scripts(exchange: &Exchange, host: &Host) -> Option<Vec<u8>> {
    let is_theirs = exchange.path.starts_with(b"/cgi-bin/");
    if !is_theirs || !host.defaults.vhost_alias.is_used() {
        return None;
    }
    let (name, address, port) = names(exchange, host);
    host.defaults
        .vhost_alias
        .scripts(&name, &address, port)
        .map(String::into_bytes)
}

/// Records that folders are made of the address or port that the client connected to.
pub fn depend_on_address(exchange: &mut Exchange, host: &Host) {
    let vhost_alias = &host.defaults.vhost_alias;
    if !vhost_alias.is_used() {
        return;
    }
    if vhost_alias.is_of_address() {
        exchange.depends_on_local_address();
    }
    let client = &exchange.client;
    let is_of_listener =
        matches!(&*client.listener, Address::Tcp(address) if address.port() == client.local.port());
    if !is_of_listener {
        // Connections to one listener may have come to different ports (PROXY protocol).
        exchange.depends_on_request();
    }
}

fn names(exchange: &Exchange, host: &Host) -> (String, String, u16) {
    let local = exchange.client.local;
    let name = String::from_utf8_lossy(&exchange.host).into_owned();
    let name = if name.is_empty() {
        host.server_name.as_deref().unwrap_or_default().to_owned()
    } else {
        name
    };
    (name, local.ip().to_canonical().to_string(), local.port())
}
