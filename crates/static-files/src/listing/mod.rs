//! Directory listings, for directories without an index file.
//!
//! Called by: the files handler. The response is built for each request, since it depends on the
//! query (order) and on Accept (HTML or JSON).
//! Caveat: it must show nothing that can't be fetched: hidden names, links that the policy refuses,
//! and everything but files and directories are left out. The page is made as a job that ends with
//! its client.
//! Out of scope: descriptions, and looking into files.

use crate::{
    document_root::{self, link_policy},
    listing::entries::{Column, ENTRIES_MAX, Entries, Entry, Order, order},
    names,
};
use saker_config::model::Settings;
use saker_files::{EntryChoice, Kind, LinkPolicy, Resolved, Watcher, read_directory, resolve};
use saker_http::{HeadView, Status, date::format_date};
use saker_net::jobs::{self, Cancel, JobError, JobKind};
use saker_pipeline::{Body, Chunk, Exchange, Response};
use saker_telemetry::{error_log, message};
use std::{
    cmp::Ordering,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

mod entries;

mod html;

/// Responds with the listing of an open directory.
pub async fn respond(
    exchange: &mut Exchange,
    watcher: &Watcher,
    relative: Vec<u8>,
    folder: Resolved,
) -> Response {
    exchange.depends_on_request();
    exchange.trace("content", None, || {
        "a folder without an index file: listed".into()
    });
    let Some(root) = document_root::root(exchange).map(Path::to_path_buf) else {
        return Response::new(Status::NOT_FOUND);
    };
    let files = &exchange.routing.settings.files;
    let policy = link_policy(files.symlinks);
    let place = Place {
        watcher: watcher.clone(),
        root,
        relative,
        policy,
        hidden: files.hidden,
    };
    let page = Page {
        path: exchange.path.clone(),
        order: order(exchange.query.as_deref().unwrap_or_default()),
        json: prefers_json(exchange.head.view()),
        settings: Arc::clone(&exchange.routing.settings),
    };
    let json = page.json;
    let work = move |cancel: &Cancel| {
        let entries = read(&place, &folder.file, cancel)?;
        io::Result::Ok((entries.truncated, page.body(entries)))
    };
    match jobs::run(JobKind::Listing, Some(exchange.routing.site_index), work).await {
        Ok(Ok((truncated, body))) => answer(json, truncated, body),
        Ok(Err(error)) => {
            if error.kind() != io::ErrorKind::Interrupted {
                let path = String::from_utf8_lossy(&exchange.path);
                error_log::log_about(
                    &message::ACCESS_DENIED,
                    exchange,
                    format_args!("the folder of {path} can't be listed: {error}"),
                );
            }
            refused(&error)
        }
        Err(JobError::Busy | JobError::Late) => Response::new(Status::SERVICE_UNAVAILABLE),
        Err(JobError::Failed) => Response::new(Status::INTERNAL_SERVER_ERROR),
    }
}

fn refused(error: &io::Error) -> Response {
    Response::new(match error.kind() {
        io::ErrorKind::PermissionDenied => Status::FORBIDDEN,
        io::ErrorKind::Interrupted => Status::SERVICE_UNAVAILABLE,
        _ => Status::INTERNAL_SERVER_ERROR,
    })
}

/// The page as requested.
struct Page {
    path: Vec<u8>,
    order: Order,
    json: bool,
    settings: Arc<Settings>,
}

impl Page {
    fn body(&self, mut entries: Entries) -> Vec<u8> {
        entries
            .list
            .sort_by(|one, other| compare(one, other, self.order));
        match self.json {
            true => json_body(&entries),
            false => html::html(&self.path, &entries, self.order, &self.settings.files),
        }
    }
}

fn answer(json: bool, truncated: bool, body: Vec<u8>) -> Response {
    let content_type: &[u8] = if json {
        b"application/json"
    } else {
        b"text/html; charset=utf-8"
    };
    let mut response = Response::new(Status::OK);
    let fields = response.fields_mut();
    fields.append("Content-Type", content_type);
    // A directory may change at any time; a stored page must be validated.
    fields.append("Cache-Control", &b"no-cache"[..]);
    fields.append("Vary", &b"Accept"[..]);
    if json && truncated {
        fields.append("X-Listing-Truncated", ENTRIES_MAX.to_string().into_bytes());
    }
    if !json {
        // Whatever the names are, nothing in this page runs.
        fields.append(
            "Content-Security-Policy",
            &b"default-src 'none'; style-src 'unsafe-inline'"[..],
        );
    }
    fields.append("Content-Length", body.len().to_string().into_bytes());
    response.body = Body::Memory(Chunk::from(body));
    response
}

struct Place {
    watcher: Watcher,
    root: PathBuf,
    relative: Vec<u8>,
    policy: LinkPolicy,
    hidden: bool,
}

fn read(place: &Place, folder: &File, cancel: &Cancel) -> io::Result<Entries> {
    let choose = |name: &[u8]| match (
        cancel.is_cancelled(),
        place.hidden || !names::is_hidden_name(name),
    ) {
        (true, _) => EntryChoice::Stop,
        (false, true) => EntryChoice::Take,
        (false, false) => EntryChoice::Skip,
    };
    let listing = read_directory(folder, ENTRIES_MAX, choose)?;
    let mut list = Vec::with_capacity(listing.entries.len());
    for entry in listing.entries {
        if entry.is_link && cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if is_shown(place, &entry) {
            let folder = entry.kind == Kind::Directory;
            let size = if folder { 0 } else { entry.metadata.size };
            list.push(Entry {
                name: entry.name,
                folder,
                size,
                mtime_s: entry.metadata.mtime_s,
            });
        }
    }
    Ok(Entries {
        list,
        truncated: !listing.is_complete,
    })
}

fn is_shown(place: &Place, entry: &saker_files::Entry) -> bool {
    entry.kind != Kind::Other && (!entry.is_link || may_follow(place, &entry.name))
}

/// True if the policy permits a link and all links behind it.
fn may_follow(place: &Place, name: &[u8]) -> bool {
    let relative = [place.relative.as_slice(), name].concat();
    resolve(
        &place.watcher,
        &place.root,
        &relative,
        place.policy,
        &mut Vec::new(),
    )
    .is_ok()
}

/// Directories first, in any order; ties by name.
fn compare(one: &Entry, other: &Entry, order: Order) -> Ordering {
    let by_name = || compare_names(&one.name, &other.name);
    let by_column = match order.by {
        Column::Name => by_name(),
        Column::Modified => one.mtime_s.cmp(&other.mtime_s),
        Column::Size => one.size.cmp(&other.size),
    };
    let by_column = if order.descending {
        by_column.reverse()
    } else {
        by_column
    };
    other
        .folder
        .cmp(&one.folder)
        .then(by_column)
        .then_with(by_name)
}

/// Natural order: ignoring case, and `img2` before `img10`.
fn compare_names(one: &[u8], other: &[u8]) -> Ordering {
    let (mut left, mut right) = (one, other);
    while let (Some(a), Some(b)) = (left.first(), right.first()) {
        let ordering = if a.is_ascii_digit() && b.is_ascii_digit() {
            compare_numbers(take_number(&mut left), take_number(&mut right))
        } else {
            (left, right) = (&left[1..], &right[1..]);
            a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

/// Splits off the digits, without leading zeros.
fn take_number<'t>(text: &mut &'t [u8]) -> &'t [u8] {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(digits);
    *text = rest;
    let zeros = number.iter().take_while(|byte| **byte == b'0').count();
    &number[zeros..]
}

fn compare_numbers(one: &[u8], other: &[u8]) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

/// True if the client gives JSON a higher quality than HTML (RFC 9110 section 12.5.1). With `*/*`
/// it gets HTML.
fn prefers_json(head: HeadView<'_>) -> bool {
    let quality = |wanted| {
        head.all("accept")
            .flat_map(|line| line.split(|byte| *byte == b','))
            .filter_map(|item| rate(item, wanted))
            .max()
    };
    let weight = |wanted| quality(wanted).map_or(0, |best: (u8, u16)| best.1);
    weight("application/json") > weight("text/html")
}

/// Specificity of an item of Accept for a type, and its quality in thousandths.
fn rate(item: &[u8], wanted: &str) -> Option<(u8, u16)> {
    let text = std::str::from_utf8(item).ok()?.to_ascii_lowercase();
    let mut pieces = text.split(';').map(str::trim);
    let range = pieces.next()?;
    let major = wanted.split('/').next()?;
    let closeness = match range {
        range if range == wanted => 2,
        range if range.strip_suffix("/*") == Some(major) => 1,
        "*/*" => 0,
        _ => return None,
    };
    let quality = pieces
        .find_map(|piece| piece.strip_prefix("q="))
        .map_or(Some(1.0), |text| text.parse::<f32>().ok())?;
    Some((closeness, (quality.clamp(0.0, 1.0) * 1000.0) as u16))
}

/// An array with an object per entry, as in nginx's `autoindex_format json`.
fn json_body(entries: &Entries) -> Vec<u8> {
    let object = |entry: &Entry| {
        let mut object = serde_json::json!({
            "name": String::from_utf8_lossy(&entry.name),
            "type": if entry.folder { "directory" } else { "file" },
            "mtime": String::from_utf8_lossy(&format_date(entry.mtime_s)),
        });
        if !entry.folder {
            object["size"] = entry.size.into();
        }
        object
    };
    serde_json::Value::Array(entries.list.iter().map(object).collect())
        .to_string()
        .into_bytes()
}

#[cfg(test)]
mod tests;
