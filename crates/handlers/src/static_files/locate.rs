//! From the path of a request to a file or folder below the document root, its index file and its
//! precompressed siblings.
//!
//! Every look into the file system leaves its stamps in the exchange, failed ones too: a sibling or
//! an index file that appears later changes the answer.

use super::{
    make::{Found, is_compressible},
    names, script,
};
use saker_config::model::{PhpUse, Settings, SymlinkPolicy};
use saker_files::{Kind, LinkPolicy, Metadata, ResolveError, Resolved, Watcher, resolve};
use saker_http::{Status, content_coding::Coding};
use saker_pipeline::Exchange;
use saker_telemetry::{Level, error_log, httpd_message, message};
use std::{path::Path, sync::Arc};

/// What the system says where permissions are missing.
const EACCES: i32 = 13;

pub enum Located {
    File(Found),
    /// A folder without an index file.
    Folder {
        /// From the root, with the slash at its end; empty for the root itself.
        relative: Vec<u8>,
        folder: Resolved,
    },
    /// A folder by its name without the slash.
    SlashMissing,
    /// And the path from the root that couldn't be had, for the log.
    Refused(Status, Option<(Vec<u8>, ResolveError)>),
}

pub fn locate(watcher: &Watcher, exchange: &mut Exchange) -> Located {
    let relative = match &exchange.mapped {
        Some(mapped) => mapped.relative.clone(),
        None => exchange
            .path
            .strip_prefix(b"/")
            .unwrap_or(&exchange.path)
            .to_vec(),
    };
    at(watcher, exchange, relative)
}

/// The same for a path from the root that is not the request's.
pub fn at(watcher: &Watcher, exchange: &mut Exchange, relative: Vec<u8>) -> Located {
    if !exchange.settings.files.hidden && names::is_hidden(&relative) {
        exchange.trace("content", None, || {
            "hidden: names that begin with a dot, and backup copies, are as if they were not there (`hidden`)".into()
        });
        return Located::Refused(Status::NOT_FOUND, None);
    }
    let with_slash = relative.is_empty() || relative.ends_with(b"/");
    match open(watcher, exchange, &relative) {
        Err(error) => Located::Refused(status_of(error), Some((relative, error))),
        Ok(resolved) => match (resolved.metadata.kind, with_slash) {
            (Kind::File, false) => Located::File(found(watcher, exchange, relative, resolved)),
            (Kind::Directory, true) => index(watcher, exchange, relative, resolved),
            (Kind::Directory, false) => Located::SlashMissing,
            // A file has nothing below it.
            (Kind::File | Kind::Other, true) => {
                Located::Refused(Status::NOT_FOUND, Some((relative, ResolveError::NotFound)))
            }
            (Kind::Other, false) => not_a_file(exchange, &relative),
        },
    }
}

/// The first index file that is there.
fn index(
    watcher: &Watcher,
    exchange: &mut Exchange,
    relative: Vec<u8>,
    folder: Resolved,
) -> Located {
    let settings = Arc::clone(&exchange.settings);
    for name in index_names(&settings) {
        let candidate = [relative.as_slice(), name.as_bytes()].concat();
        match open(watcher, exchange, &candidate) {
            Ok(resolved) if resolved.metadata.kind == Kind::File => {
                exchange.trace("content", None, || format!("index file `{name}`"));
                return Located::File(found(watcher, exchange, candidate, resolved));
            }
            Ok(resolved) if resolved.metadata.kind == Kind::Other => {
                return not_a_file(exchange, &candidate);
            }
            Ok(_) | Err(ResolveError::NotFound | ResolveError::LinkDangling) => {}
            // Not to be passed over: the next name, or a listing, might show what was meant to be
            // closed.
            Err(error) => return Located::Refused(status_of(error), Some((candidate, error))),
        }
    }
    Located::Folder { relative, folder }
}

fn not_a_file(exchange: &Exchange, relative: &[u8]) -> Located {
    refuse(exchange, relative);
    Located::Refused(Status::FORBIDDEN, None)
}

/// Says why a path below the root can't be had, for an answer that says it to the client.
pub fn complain(exchange: &Exchange, relative: &[u8], error: ResolveError) {
    // What is missing is told at a level that few want: nothing is put together for nobody.
    let area = if error_log::speaks_httpd() {
        httpd_message::FILE_DOES_NOT_EXIST.module
    } else {
        message::FILE_MISSING.area
    };
    if error == ResolveError::NotFound && !error_log::is_wanted(area, Level::Info, exchange) {
        return;
    }
    let (root, relative) = (
        root(exchange).unwrap_or(Path::new("")),
        String::from_utf8_lossy(relative),
    );
    let shown = format!(
        "{}/{relative}",
        root.display().to_string().trim_end_matches('/')
    );
    let is_link = matches!(
        error,
        ResolveError::LinkDenied | ResolveError::LinkLoop | ResolveError::LinkDangling
    );
    if error_log::speaks_httpd() {
        return match error {
            ResolveError::NotFound => {
                error_log::log_httpd(
                    &httpd_message::FILE_DOES_NOT_EXIST,
                    None,
                    exchange,
                    format_args!("File does not exist: {shown}"),
                );
            }
            _ if is_link => {
                let text = format_args!(
                    "Symbolic link not allowed or link target not accessible: {shown}"
                );
                error_log::log_httpd(&httpd_message::LINK_REFUSED, None, exchange, text);
            }
            ResolveError::Io(errno) => {
                error_log::log_httpd(
                    &httpd_message::FILE_PERMISSIONS,
                    Some(errno),
                    exchange,
                    format_args!("file cannot be read: {shown}"),
                );
            }
            _ => {
                let text = format_args!("file permissions deny server access: {shown}");
                error_log::log_httpd(
                    &httpd_message::FILE_PERMISSIONS,
                    Some(EACCES),
                    exchange,
                    text,
                );
            }
        };
    }
    match error {
        ResolveError::NotFound => {
            error_log::log_about(&message::FILE_MISSING, exchange, format_args!("{shown}"))
        }
        // As good as missing, unless the policy for links has to do with it.
        ResolveError::LinkDangling => error_log::log_about(
            &message::FILE_MISSING,
            exchange,
            format_args!("{shown}: {error}"),
        ),
        _ if is_link => error_log::log_about(
            &message::SYMLINK_REFUSED,
            exchange,
            format_args!("{shown}: {error}"),
        ),
        ResolveError::Io(_) | ResolveError::Descriptors => {
            error_log::log_about(
                &message::FILE_READ_FAILED,
                exchange,
                format_args!("{shown}: {error}"),
            );
        }
        _ => error_log::log_about(
            &message::ACCESS_DENIED,
            exchange,
            format_args!("{shown}: {error}"),
        ),
    }
}

/// Says that a folder has neither an index file nor a listing. Apache's rules have said so
/// themselves.
pub fn complain_of_folder(exchange: &Exchange, relative: &[u8]) {
    if error_log::speaks_httpd() {
        return;
    }
    let (root, relative) = (
        root(exchange).unwrap_or(Path::new("")),
        String::from_utf8_lossy(relative),
    );
    let names = index_names(&exchange.settings)
        .collect::<Vec<_>>()
        .join(", ");
    let facts = format_args!(
        "{}/{relative}: no index file ({names}), and listings are off (`listing`)",
        root.display()
    );
    error_log::log_about(&message::ACCESS_DENIED, exchange, facts);
}

/// Says that there is a FIFO, a socket or a device.
pub fn refuse(exchange: &Exchange, relative: &[u8]) {
    let root = root(exchange).map(Path::to_path_buf).unwrap_or_default();
    error_log::log_about(
        &message::NOT_A_FILE,
        exchange,
        format_args!("{}/{}", root.display(), String::from_utf8_lossy(relative)),
    );
}

/// The script that is a folder's first index file.
pub fn index_script(
    watcher: &Watcher,
    exchange: &mut Exchange,
    relative: &[u8],
) -> Option<Vec<u8>> {
    let settings = Arc::clone(&exchange.settings);
    for name in index_names(&settings) {
        let candidate = [relative, name.as_bytes()].concat();
        match script::kind(watcher, exchange, &candidate) {
            Ok(script::Kind::File) if names::is_php(&candidate) => {
                exchange.trace("content", None, || format!("index file `{name}`"));
                return Some(candidate);
            }
            Ok(script::Kind::File) => return None,
            Ok(_) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Where PHP is run its index is one, too, after those that were named.
fn index_names(settings: &Settings) -> impl Iterator<Item = &str> {
    let of_php = (!matches!(settings.php, PhpUse::Off) && !settings.files.index.is_empty())
        .then_some("index.php");
    let named = settings
        .files
        .index
        .iter()
        .map(String::as_str)
        .chain(of_php);
    named.filter(|name| is_index_name(name, settings.files.hidden))
}

/// Only plain paths below the folder.
fn is_index_name(name: &str, hidden: bool) -> bool {
    let plain = name
        .split('/')
        .all(|component| !matches!(component, "" | "." | ".."));
    plain
        && !name.contains('\0')
        && (hidden
            || !name
                .as_bytes()
                .split(|byte| *byte == b'/')
                .any(names::is_hidden_name))
}

fn found(
    watcher: &Watcher,
    exchange: &mut Exchange,
    relative: Vec<u8>,
    original: Resolved,
) -> Found {
    let siblings = siblings(watcher, exchange, &relative, &original.metadata);
    let root = root(exchange).map(Path::to_path_buf).unwrap_or_default();
    exchange.trace("content", None, || {
        let codings: String = siblings
            .iter()
            .map(|(coding, _)| format!(", with a precompressed {}", coding.suffix()))
            .collect();
        format!(
            "file {}/{}, {} bytes{codings}",
            root.display(),
            String::from_utf8_lossy(&relative),
            original.metadata.size
        )
    });
    Found {
        relative,
        original,
        siblings,
    }
}

/// Only for types that are worth compressing: nobody prepares `.jpg.br`, and each look costs.
fn siblings(
    watcher: &Watcher,
    exchange: &mut Exchange,
    relative: &[u8],
    original: &Metadata,
) -> Vec<(Coding, Resolved)> {
    let settings = Arc::clone(&exchange.settings);
    let content_type = names::content_type(&settings.files, relative);
    if !settings.files.precompressed || !is_compressible(&settings, content_type.as_deref()) {
        return Vec::new();
    }
    let mut sibling = |coding: Coding| {
        let path = [relative, coding.suffix().as_bytes()].concat();
        let resolved = look(watcher, exchange, &path).ok()?;
        is_sibling(original, &resolved.metadata).then_some((coding, resolved))
    };
    [Coding::Gzip, Coding::Brotli, Coding::Zstd]
        .into_iter()
        .filter_map(&mut sibling)
        .collect()
}

/// A sibling that is older than the file was made from something else. In whole seconds, because
/// not every tool that copies a time of modification copies all of it.
fn is_sibling(original: &Metadata, sibling: &Metadata) -> bool {
    sibling.kind == Kind::File && sibling.size > 0 && sibling.mtime_s >= original.mtime_s
}

fn open(
    watcher: &Watcher,
    exchange: &mut Exchange,
    relative: &[u8],
) -> Result<Resolved, ResolveError> {
    let result = look(watcher, exchange, relative);
    if let Err(error) = &result {
        let root = root(exchange).map(Path::to_path_buf).unwrap_or_default();
        exchange.trace("content", None, || {
            format!(
                "{}/{}: {error}",
                root.display(),
                String::from_utf8_lossy(relative)
            )
        });
    }
    result
}

fn look(
    watcher: &Watcher,
    exchange: &mut Exchange,
    relative: &[u8],
) -> Result<Resolved, ResolveError> {
    let policy = link_policy(exchange.settings.files.symlinks);
    let mapped = exchange
        .mapped
        .as_ref()
        .map(|mapped| Arc::clone(&mapped.root));
    let root = mapped
        .as_deref()
        .or(exchange.site.root.as_deref())
        .ok_or(ResolveError::NotFound)?;
    resolve(watcher, root, relative, policy, &mut exchange.stamps)
}

/// Where files are looked for.
pub fn root(exchange: &Exchange) -> Option<&Path> {
    exchange
        .mapped
        .as_ref()
        .map(|mapped| &*mapped.root)
        .or(exchange.site.root.as_deref())
}

pub fn link_policy(policy: SymlinkPolicy) -> LinkPolicy {
    match policy {
        SymlinkPolicy::Follow => LinkPolicy::Follow,
        SymlinkPolicy::OwnerMatch => LinkPolicy::OwnerMatch,
        SymlinkPolicy::Inside => LinkPolicy::Inside,
        SymlinkPolicy::Never => LinkPolicy::Never,
    }
}

pub fn status_of(error: ResolveError) -> Status {
    match error {
        ResolveError::NotFound | ResolveError::LinkDangling => Status::NOT_FOUND,
        ResolveError::Denied | ResolveError::LinkDenied | ResolveError::LinkLoop => {
            Status::FORBIDDEN
        }
        ResolveError::Descriptors => Status::SERVICE_UNAVAILABLE,
        ResolveError::Io(_) => Status::INTERNAL_SERVER_ERROR,
    }
}
