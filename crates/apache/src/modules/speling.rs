//! mod_speling: what is not there, but almost: another case, one slip of the fingers, another
//! ending.
//!
//! Place in the walk: fixups, after everything else that might have found a file. Difficulty: how
//! far two names are apart decides whether the client is sent on or gets a choice; the ranks are
//! Apache's. The names of a folder are bounded.

use crate::{redirect::redirect, signature, state::peek, verdict::Verdict, walk::link_policy};
use saker_ap_expr::escape_uri;
use saker_apache_model::{
    dir_config::DirConfig,
    host::Host,
    modules::{alias::Redirected, speling::Likeness},
};
use saker_files::{EntryChoice, Watcher, read_directory, resolve};
use saker_http::{Method, Status, escape};
use saker_pipeline::{Exchange, Response, respond::page};
use std::path::Path;

/// Names of a folder that are looked at.
const NAMES_MAX: usize = 10_000;

/// Sends the client to the path that it may have meant.
pub fn correct(
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &DirConfig,
) -> Option<Verdict> {
    let own = peek(exchange)?;
    let is_for_us = local.speling.is_on == Some(true) && own.kind.is_none() && !own.is_subrequest;
    if !is_for_us
        || !matches!(exchange.head.view().method(), Method::Get | Method::Head)
        || exchange.path == b"/"
    {
        return None;
    }
    let at = own.filename.iter().rposition(|byte| *byte == b'/')?;
    let (folder, asked) = (
        own.filename.get(..at)?.to_vec(),
        own.filename.get(at + 1..)?.to_vec(),
    );
    // The path has to end in the same words, or it was led here by an alias of another name.
    let url = exchange
        .path
        .strip_suffix(
            [asked.as_slice(), &exchange.routing.path_info]
                .concat()
                .as_slice(),
        )?
        .to_vec();
    let like = alike(exchange, watcher, local, &folder, &asked)?;
    match like.as_slice() {
        [] => None,
        [(first, name), rest @ ..]
            if *first != Likeness::BaseName
                && rest.first().is_none_or(|(second, _)| second != first) =>
        {
            let location = target(exchange, &url, name);
            let redirected = Redirected {
                status: 301,
                location: Some(location),
                is_relative: false,
            };
            Some(redirect(exchange, host, redirected))
        }
        several => Some(Verdict::Answer(choice(
            exchange, host, local, &url, several,
        ))),
    }
}

/// Names of the folder that are like the one asked for, the nearest first. `None`: it is there, or
/// the folder cannot be read.
fn alike(
    exchange: &mut Exchange,
    watcher: &Watcher,
    local: &DirConfig,
    folder: &[u8],
    asked: &[u8],
) -> Option<Vec<(Likeness, Vec<u8>)>> {
    let relative = folder.strip_prefix(b"/").unwrap_or(folder);
    let found = resolve(
        watcher,
        Path::new("/"),
        relative,
        link_policy(local.core.options.in_force()),
        &mut exchange.cache.change_tokens,
    )
    .ok()?;
    let choose = |name: &[u8]| {
        if name == asked {
            // There, and yet not to be had (a link without an end): nothing to correct.
            return EntryChoice::Stop;
        }
        match local.speling.likeness(asked, name) {
            Some(_) => EntryChoice::Take,
            None => EntryChoice::Skip,
        }
    };
    let listing = read_directory(&found.file, NAMES_MAX, choose).ok()?;
    let like = listing
        .entries
        .into_iter()
        .filter_map(|entry| Some((local.speling.likeness(asked, &entry.name)?, entry.name)));
    let mut like: Vec<(Likeness, Vec<u8>)> = like.collect();
    like.sort();
    Some(like)
}

fn target(exchange: &Exchange, url: &[u8], name: &[u8]) -> Vec<u8> {
    let mut target = escape_uri(&[url, name, &exchange.routing.path_info].concat());
    if let Some(query) = &exchange.query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    target
}

fn choice(
    exchange: &mut Exchange,
    host: &Host,
    local: &DirConfig,
    url: &[u8],
    several: &[(Likeness, Vec<u8>)],
) -> Response {
    let mut text = b"That is not here, but there are names like it:</p>\n<ul>\n".to_vec();
    let mut variants: Vec<Vec<u8>> = Vec::new();
    for (likeness, name) in several {
        let target = target(exchange, url, name);
        variants.push(
            [
                b"\"".as_slice(),
                &target,
                b"\";\"",
                likeness.as_str().as_bytes(),
                b"\"",
            ]
            .concat(),
        );
        text.extend_from_slice(b"<li><a href=\"");
        escape::html(&target, &mut text);
        text.extend_from_slice(b"\">");
        escape::html(&target, &mut text);
        text.extend_from_slice(format!("</a> ({})\n", likeness.as_str()).as_bytes());
    }
    text.extend_from_slice(b"</ul>\n<p>");
    exchange.environment.set(b"VARIANTS", &variants.join(&b','));
    let footer = signature::footer(exchange, host, local);
    page(Response::new(Status(300)), &text, &footer)
}
