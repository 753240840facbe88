//! `webdav` of sites and routes: files that clients write (RFC 4918).
//!
//! Called by: `settings`, for sites and routes.
//! Caveat: everyone whom the access rules let in may write.
//! Out of scope: who is let in (`auth`, `allow`), and what the methods do (`saker-dav`).

use crate::{
    context::{Contexts, ROUTE, SITE},
    kind::Kind,
    model::{Settings, WebDav},
    row::Row,
    value::Spanned,
};
use std::sync::Arc;

const EVERYWHERE: Contexts = SITE.or(ROUTE);

/// Changes the rules; there are none where all keys have their defaults.
fn edit(settings: &mut Settings, given: Spanned, change: impl FnOnce(&mut WebDav, Spanned)) {
    let mut rules = settings
        .webdav
        .take()
        .map_or_else(WebDav::default, |rules| WebDav::clone(&rules));
    rules.origin = given.origin();
    change(&mut rules, given);
    settings.webdav = (!rules.is_default()).then(|| Arc::new(rules));
}

pub const ROWS: &[Row<Settings>] = &[
    Row {
        name: "webdav",
        contexts: EVERYWHERE,
        kind: Kind::Boolean,
        default: Some("false"),
        example: Some("true"),
        summary: "Let clients list, write, copy, move, lock, and delete files by WebDAV (RFC 4918)? \
                  Everyone whom the access rules let in may do so: add `auth`. Names that `hidden` \
                  hides are as if they were not there, and `.htaccess`, `.htpasswd`, and \
                  `.user.ini` can't be written.",
        since: "0.2",
        apache: Some("Dav"),
        aliases: &["dav", "dav_methods", "webdav.activate"],
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.is_on = given.boolean()
            })
        },
        ..Row::BASE
    },
    Row {
        name: "webdav_depth_infinity",
        contexts: EVERYWHERE,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "Answer PROPFIND requests for a whole tree (`Depth: infinity`)? Clients get by \
                  without, and a large tree makes a large response.",
        since: "0.2",
        apache: Some("DavDepthInfinity"),
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.depth_infinity = given.boolean()
            })
        },
        ..Row::BASE
    },
    Row {
        name: "webdav_lock_database",
        contexts: EVERYWHERE,
        kind: Kind::Path,
        example: Some("\"/var/lib/saker/locks\""),
        summary: "File with the locks; its directory must be writable by the server's user. Paths \
                  that share files must share it. Default: `webdav-locks` in the state directory.",
        since: "0.2",
        apache: Some("DavLockDB"),
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.lock_database = Some(given.path())
            })
        },
        ..Row::BASE
    },
    Row {
        name: "webdav_lock_timeout_min",
        contexts: EVERYWHERE,
        kind: Kind::Duration {
            min_ms: 0,
            max_ms: 365 * 24 * 3_600_000,
        },
        default: Some("\"0s\""),
        example: Some("\"10m\""),
        summary: "Locks are given for this long at least, even if a client asks for less.",
        since: "0.2",
        apache: Some("DavMinTimeout"),
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.lock_timeout_min_s = given.number().div_ceil(1000)
            })
        },
        ..Row::BASE
    },
    Row {
        name: "webdav_xml_size",
        contexts: EVERYWHERE,
        kind: Kind::Bytes {
            min: 1,
            max: 64 << 20,
        },
        default: Some("\"1MB\""),
        unit: Some("bytes"),
        summary: "Maximum size of the XML of a request; a larger one is refused with 413. Uploads \
                  are limited by `body_size`.",
        since: "0.2",
        apache: Some("LimitXMLRequestBody"),
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.xml_bytes_max = given.number()
            })
        },
        ..Row::BASE
    },
];
