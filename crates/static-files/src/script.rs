//! Scripts within paths: `/shop/index.php/item/7` is the script `/shop/index.php` with the path
//! info `/item/7`.
//!
//! Called by: the PHP and CGI handlers.
//! Caveat: the source of a script must never be shown.
//! Out of scope: running it.

use crate::{document_root, file_errors, index::index_names, names};
use saker_files::{Kind as FileKind, ResolveError, Watcher, cached_stat};
use saker_http::Status;
use saker_pipeline::{
    Exchange, Handled, Response, Script, Trust,
    file_routes::{follow_file, follow_index},
};
use std::{os::unix::ffi::OsStrExt, path::Path, sync::Arc};

pub enum Kind {
    File,
    Folder,
    Nothing,
}

/// Ends of components that are named like PHP files, from the left.
pub fn ends(relative: &[u8]) -> impl Iterator<Item = usize> {
    let slashes = relative
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/')
        .map(|(at, _)| at);
    slashes
        .chain([relative.len()])
        .filter(|end| relative.get(..*end).is_some_and(names::is_php))
}

/// Response fields of the site's own programs that may control this server.
pub fn trust(exchange: &Exchange) -> Trust {
    Trust {
        accel: true,
        litespeed: true,
        files: exchange.routing.settings.send_files.clone(),
        hides: true,
        unheeded: Box::default(),
    }
}

/// The kind of file at a path below the root.
/// # Errors
/// The status, and the reason if it has not been logged.
pub fn kind(
    watcher: &Watcher,
    exchange: &mut Exchange,
    relative: &[u8],
) -> Result<Kind, (Status, Option<ResolveError>)> {
    let policy = document_root::link_policy(exchange.routing.settings.files.symlinks);
    let root = document_root::root(exchange)
        .map(Path::to_path_buf)
        .ok_or((Status::NOT_FOUND, None))?;
    match cached_stat(
        watcher,
        &root,
        relative,
        policy,
        &mut exchange.cache.change_tokens,
    ) {
        Ok(metadata) => Ok(match metadata.kind {
            FileKind::File => Kind::File,
            FileKind::Directory => Kind::Folder,
            FileKind::Other => {
                file_errors::log_not_a_file(exchange, relative);
                return Err((Status::FORBIDDEN, None));
            }
        }),
        Err(error) => match document_root::status_of(error) {
            Status::NOT_FOUND => Ok(Kind::Nothing),
            status => Err((status, Some(error))),
        },
    }
}

/// A directory's first index file, if that is a script.
pub enum IndexScript {
    None,
    Script(Vec<u8>),
    /// It has a route of its own: the phases must restart.
    Restart,
    /// The answer to a request whose route could not be determined.
    Answered(Response),
}

/// The script that is a directory's first index file.
pub fn index_script(watcher: &Watcher, exchange: &mut Exchange, relative: &[u8]) -> IndexScript {
    let settings = Arc::clone(&exchange.routing.settings);
    for name in index_names(&settings) {
        let candidate = [relative, name.as_bytes()].concat();
        match kind(watcher, exchange, &candidate) {
            Ok(Kind::File) if names::is_php(&candidate) => {
                exchange.trace("content", None, || format!("index file `{name}`"));
                return match follow_index(exchange, watcher, name.as_bytes()) {
                    Ok(false) => IndexScript::Script(candidate),
                    Ok(true) => IndexScript::Restart,
                    Err(refused) => IndexScript::Answered(refused),
                };
            }
            Ok(Kind::File) | Err(_) => return IndexScript::None,
            Ok(_) => {}
        }
    }
    IndexScript::None
}

/// Asks the routes of a script for the path in front of its path info.
/// # Errors
/// Another route decides first, or it could not be determined.
pub fn follow_script(
    watcher: &Watcher,
    exchange: &mut Exchange,
    path_info: &[u8],
) -> Result<(), Handled> {
    match follow_file(exchange, watcher, path_info.len()) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Handled::Restart),
        Err(refused) => Err(Handled::Answered(refused)),
    }
}

/// The same as [`kind`], and logs errors.
pub fn kind_or_complaint(
    watcher: &Watcher,
    exchange: &mut Exchange,
    relative: &[u8],
) -> Result<Kind, Status> {
    kind(watcher, exchange, relative).map_err(|(status, why)| {
        why.into_iter()
            .for_each(|error| file_errors::log_unavailable(exchange, relative, error));
        status
    })
}

/// The script as a program sees it, and its path info.
pub fn told(exchange: &Exchange, relative: &[u8], path_info: &[u8]) -> Script {
    let root = document_root::root(exchange)
        .map(|root| root.as_os_str().as_bytes())
        .unwrap_or_default();
    let root = root.strip_suffix(b"/").unwrap_or(root);
    // What an alias stands for is part of the path, though not of the file's name.
    let prefix = exchange
        .path
        .strip_suffix(document_root::relative(exchange))
        .unwrap_or(b"/");
    Script {
        filename: [root, b"/", relative].concat(),
        path: [prefix, relative, path_info].concat(),
        path_info: path_info.to_vec(),
        path_translated: (!path_info.is_empty()).then(|| [root, path_info].concat()),
        document_root: root.to_vec(),
        server_name: exchange.host.clone(),
        server_port: exchange.client.local.port(),
        server_software: b"Saker"[..].into(),
        // Credentials are not checked here; they are for the program.
        passes_authorization: true,
        ..Script::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_scripts_in_paths() {
        for (path, scripts) in [
            ("index.php", &["index.php"][..]),
            (
                "a/index.php/b/c.phtml",
                &["a/index.php", "a/index.php/b/c.phtml"],
            ),
            ("INDEX.PHP", &["INDEX.PHP"]),
            ("a.php/", &["a.php"]),
            ("php/a.html", &[]),
            (".php/x", &[".php"]),
            ("", &[]),
        ] {
            let found: Vec<&str> = ends(path.as_bytes()).map(|end| &path[..end]).collect();
            assert_eq!(found, scripts, "{path}");
        }
    }
}
