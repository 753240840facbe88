//! From Apache's settings to those that our handlers know.

use crate::{
    dir_config::DirConfig,
    host::Host,
    modules::{cache, dav::Types},
};
use saker_apache_syntax::options::{FOLLOW_SYM_LINKS, INDEXES, SYM_LINKS_IF_OWNER_MATCH};
use saker_config::model::{
    Compression, EntityTagParts, Files, Settings, SymlinkPolicy, Underscores, Visitors, WebDav,
};
use saker_http::range::RangeRules;
use std::sync::Arc;

/// Apache's default of `MaxRangeOverlaps` and `MaxRangeReversals`.
const RANGE_TURNS_MAX: u16 = 20;

/// Made for every outcome that is not kept. `cache`: what the cache's directives come to for the
/// path.
pub fn settings(local: &DirConfig, host: &Host, cache: cache::Verdict) -> Settings {
    let options = local.core.options.in_force();
    let etag = local.core.file_etag.in_force();
    let symlinks = if options.contains(FOLLOW_SYM_LINKS) {
        SymlinkPolicy::Follow
    } else if options.contains(SYM_LINKS_IF_OWNER_MATCH) {
        SymlinkPolicy::OwnerMatch
    } else {
        SymlinkPolicy::Never
    };
    let defaults = Files::default();
    let files = Files {
        // Index files are tried by the rules, as requests of their own.
        index: Vec::new(),
        listing: options.contains(INDEXES),
        hidden: true,
        symlinks,
        entity_tag: EntityTagParts {
            inode: etag.inode,
            mtime: etag.mtime,
            size: etag.size,
        },
        precompressed: false,
        charset: String::new(),
        takes_post: true,
        default_type: String::new(),
        // Apache's default.
        ranges_max: local.core.ranges_max.unwrap_or(200),
        range_rules: RangeRules::InOrder {
            overlaps_max: local.core.range_overlaps_max.unwrap_or(RANGE_TURNS_MAX),
            reversals_max: local.core.range_reversals_max.unwrap_or(RANGE_TURNS_MAX),
        },
        ..defaults
    };
    let pages = local
        .core
        .error_documents
        .iter()
        .filter_map(|(status, page)| Some((*status, page.clone()?)));
    Settings {
        files,
        compression: Compression {
            codings: Vec::new(),
            ..Compression::default()
        },
        error_pages: pages.collect(),
        // Whatever the text is.
        error_text_type: Some("text/html; charset=iso-8859-1".into()),
        cache: local.cache.in_use(cache),
        links: local.auth_token.links(),
        visitors: Visitors {
            logins: local.wordpress_protect.in_use(),
            ..Visitors::default()
        },
        modsecurity: local.security.in_use(),
        throttle: local.limitipconn.throttle(),
        webdav: webdav(local, host),
        trace: host.trace_enabled,
        body_bytes_max: Some(local.core.request_body_bytes_max.unwrap_or(1 << 30)),
        // As mod_proxy_http and http2env do.
        underscores: Underscores::Servers,
        ..Settings::default()
    }
}

/// Rules of WebDAV; the host's access files are not for clients to write.
fn webdav(local: &DirConfig, host: &Host) -> Option<Arc<WebDav>> {
    let types = || Types {
        core: local.core.clone(),
        mime: local.mime.clone(),
        types: Arc::clone(&host.types),
    };
    let rules = local.dav.in_use(types)?;
    Some(Arc::new(WebDav {
        protected_names: host.access_file_names.to_vec(),
        origin: host.origin.clone(),
        ..rules
    }))
}
