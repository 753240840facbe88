//! mod_dav: which requests its handler takes, past the rules for index files, variants, and
//! corrected names.
//!
//! Called by: `fixups`, `content`, and `map_to_storage`.
//! Caveat: GET, HEAD, and POST are not mod_dav's.
//! Out of scope: the methods (`saker-dav`).

use saker_config::model::has_name_of_webdav;
use saker_pipeline::Exchange;

/// Methods of mod_dav that change or describe files.
const METHODS: &[&[u8]] = &[
    b"OPTIONS",
    b"PUT",
    b"DELETE",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
];

/// Returns true if the handler of WebDAV answers the request.
pub fn takes(exchange: &Exchange) -> bool {
    exchange.routing.settings.webdav_in_use().is_some()
        && METHODS.contains(&exchange.head.view().method_token())
}

/// Returns true for names that WebDAV keeps for itself, which no client is served.
pub fn is_reserved(exchange: &Exchange) -> bool {
    exchange.routing.settings.webdav_in_use().is_some() && has_name_of_webdav(&exchange.path)
}
