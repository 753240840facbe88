//! From paths to files: `root`, `alias`, and the script of a path.
//!
//! Called by: the phases, and variables about files.
//! Caveat: a path whose rest would lead out of an alias (`/img../x` below `alias /data/img/`) has no
//! file; nginx serves the parent directory then. Neither has one that a rule left without its slash.

use crate::request::Request;
use saker_config::model::{Files, Settings};
use saker_nginx_model::{
    Text,
    modules::{core::Root, upstream_conf::Gateway},
};
use saker_pipeline::Mapped;
use saker_telemetry::local_time::TimeZone;
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Returns the document root of the location; of an alias its text.
pub fn root(request: &mut Request<'_>) -> PathBuf {
    let location = std::sync::Arc::clone(&request.state.location);
    match &location.conf.core.root {
        Some(root) => path_of(&request.text(&root.text)),
        None => request.nginx.default_root.clone(),
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    Path::new(OsStr::from_bytes(bytes)).to_owned()
}

/// Appends the document root of the location; of an alias its text.
pub fn append_root(request: &mut Request<'_>, out: &mut Vec<u8>) {
    let location = std::sync::Arc::clone(&request.state.location);
    match &location.conf.core.root {
        Some(root) => match root.text.constant() {
            Some(text) => out.extend_from_slice(text),
            None => out.extend_from_slice(&request.text(&root.text)),
        },
        None => out.extend_from_slice(request.nginx.default_root.as_os_str().as_bytes()),
    }
}

/// Maps a path to a file. `None`: it has none.
pub fn map(request: &mut Request<'_>, path: &[u8]) -> Option<Mapped> {
    map_with(request, path, b"")
}

/// The same with a name behind the path: behind the alias itself, where that is the name of a file.
pub fn map_with(request: &mut Request<'_>, path: &[u8], name: &[u8]) -> Option<Mapped> {
    let location = std::sync::Arc::clone(&request.state.location);
    let root = location.conf.core.root.as_ref();
    if let Some(root) = root.filter(|root| root.is_alias && root.in_expression) {
        let path = match request.state.adds_path_to_alias {
            true => path,
            false => b"",
        };
        let behind = [path, name].concat();
        return checked(aliased_whole(request, root, &behind));
    }
    if !name.is_empty() {
        return map(request, &[path, name].concat());
    }
    let relative = |rest: &[u8]| rest.strip_prefix(b"/").unwrap_or(rest).to_vec();
    if !root.is_some_and(|root| root.is_alias) && !is_below_root(path) {
        return None;
    }
    let mapped = match root {
        None => Mapped {
            root: request.nginx.default_root.as_path().into(),
            relative: relative(path),
        },
        Some(root) if !root.is_alias => Mapped {
            root: path_of(&request.text(&root.text)).into(),
            relative: relative(path),
        },
        Some(root) => aliased(request, root, path),
    };
    checked(mapped)
}

/// A rule may make a path without its slash. It is in no location, and its text behind that of the
/// root is the name of something beside the root.
fn is_below_root(path: &[u8]) -> bool {
    path.is_empty() || path.starts_with(b"/")
}

/// The name of the request's file, also where that is beside the root. `None`: it has none.
pub fn filename(request: &mut Request<'_>) -> Option<Vec<u8>> {
    let path = request.exchange.path.clone();
    if let Some(mapped) = map(request, &path) {
        return Some(mapped.filename());
    }
    if is_below_root(&path) {
        return None;
    }
    let mut name = Vec::new();
    append_root(request, &mut name);
    if name.ends_with(b"/") {
        name.pop();
    }
    name.extend_from_slice(&path);
    let mut segments = path.split(|byte| *byte == b'/');
    let leads_out = segments.any(|segment| segment == b".." || segment.contains(&0));
    (!leads_out).then_some(name)
}

/// Returns the file, unless its name leads out of its folder.
fn checked(mut mapped: Mapped) -> Option<Mapped> {
    without_empty_segments(&mut mapped.relative);
    let leads_out = mapped
        .relative
        .split(|byte| *byte == b'/')
        .any(|segment| segment == b".." || segment.contains(&0));
    (!leads_out).then_some(mapped)
}

/// Gives a file whose name ends in another way than the path the type of the path's ending, as nginx
/// does: an alias may lead from any path to any file.
pub fn settle_type(request: &mut Request<'_>, path: &[u8], relative: &[u8]) {
    if ending(path) == ending(relative) {
        return;
    }
    let media_type = by_ending(&request.exchange.routing.settings.files, path).to_owned();
    let mut settings = Settings::clone(&request.exchange.routing.settings);
    settings.files.whole_type = Some(media_type);
    request.exchange.routing.settings = Arc::new(settings);
}

/// The media type of a file that is asked for by a path.
pub fn media_type(request: &Request<'_>, path: &[u8]) -> String {
    let files = &request.exchange.routing.settings.files;
    let whole = files.whole_type.as_deref();
    whole.unwrap_or_else(|| by_ending(files, path)).to_owned()
}

fn by_ending<'f>(files: &'f Files, path: &[u8]) -> &'f str {
    let wanted = ending(path);
    let wanted = wanted.map(|ending| String::from_utf8_lossy(ending).to_ascii_lowercase());
    let own = wanted.and_then(|ending| files.types.get(&ending));
    own.unwrap_or(&files.default_type)
}

/// The text behind the last dot of a path's last segment, which does not begin with it.
fn ending(path: &[u8]) -> Option<&[u8]> {
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    let at = name.iter().rposition(|byte| *byte == b'.')?;
    name.get(at + 1..).filter(|_| at > 0)
}

/// Paths keep their empty segments where `merge_slashes` is off.
fn without_empty_segments(relative: &mut Vec<u8>) {
    let mut before = b'/';
    relative.retain(|byte| {
        let is_kept = !(*byte == b'/' && before == b'/');
        before = *byte;
        is_kept
    });
}

fn aliased(request: &mut Request<'_>, root: &Root, path: &[u8]) -> Mapped {
    let base = request.text(&root.text);
    // The block of an `if` has the alias of its location.
    let rest = path.get(root.replaced_bytes..).unwrap_or_default();
    if base.ends_with(b"/") || rest.starts_with(b"/") {
        return Mapped {
            root: path_of(&base).into(),
            relative: rest.strip_prefix(b"/").unwrap_or(rest).to_vec(),
        };
    }
    // The text is (the beginning of) a file's name.
    let whole = [base.as_slice(), rest].concat();
    split_at(&whole, last_slash(&whole))
}

/// The alias of a location by expression is the whole name, with an index file's behind it.
fn aliased_whole(request: &mut Request<'_>, root: &Root, behind: &[u8]) -> Mapped {
    let whole = [request.text(&root.text).as_slice(), behind].concat();
    // Groups may have slashes: what stands before the first of them is fixed.
    split_at(&whole, fixed_folder(&root.text).min(last_slash(&whole)))
}

/// The place of the slash before the last segment.
fn last_slash(path: &[u8]) -> usize {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)
}

fn split_at(whole: &[u8], at: usize) -> Mapped {
    let (folder, name) = whole.split_at(at);
    Mapped {
        root: match folder.is_empty() {
            true => Path::new("/").into(),
            false => path_of(folder).into(),
        },
        relative: name.strip_prefix(b"/").unwrap_or(name).to_vec(),
    }
}

/// Length of the folder at the beginning of a text that has no variables.
fn fixed_folder(text: &Text) -> usize {
    match text.parts.first() {
        Some(saker_nginx_model::Part::Literal(literal)) => {
            literal.iter().rposition(|byte| *byte == b'/').unwrap_or(0)
        }
        _ => 0,
    }
}

/// Returns the path of the script: without the path info, and with the index file of a directory
/// (`$fastcgi_script_name`).
pub fn script_name(request: &mut Request<'_>) -> Vec<u8> {
    if let Some((script, _)) = split_path(request) {
        return script;
    }
    let mut path = request.exchange.path.clone();
    let location = std::sync::Arc::clone(&request.state.location);
    let conf = location.conf.upstreams.of(Gateway::FastCgi);
    if path.ends_with(b"/")
        && let Some(index) = &conf.index
    {
        let index = request.text(index);
        path.extend_from_slice(&index);
    }
    path
}

/// Returns the path, if it is that of the script as it stands.
pub fn whole_script<'r>(request: &'r Request<'_>) -> Option<&'r [u8]> {
    let location = &request.state.location;
    let conf = location.conf.upstreams.of(Gateway::FastCgi);
    let path = &request.exchange.path;
    let is_whole = conf.split_path.is_none() && (!path.ends_with(b"/") || conf.index.is_none());
    is_whole.then_some(path)
}

/// Splits the path into script and path info (`fastcgi_split_path_info`).
pub fn split_path(request: &mut Request<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let location = std::sync::Arc::clone(&request.state.location);
    let conf = location.conf.upstreams.of(Gateway::FastCgi);
    let regex = conf.split_path.as_ref()?;
    let path = request.exchange.path.clone();
    let spans = request.spans(regex, &path)?;
    let part = |group: usize| spans.text(group, &path).to_vec();
    Some((part(1), part(2)))
}

/// The offset of local time, as `+0100`.
pub fn utc_offset(unix_s: i64) -> String {
    let minutes = TimeZone::local().offset_s(unix_s) / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.abs();
    format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
}
