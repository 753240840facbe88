//! Fields that leave the server and that enter the store: `LSC-Cookie`, the protocol's own fields,
//! `X-LiteSpeed-Cache` (LSCache protocol 5, 6.4, 6.7, 10).
//!
//! Called by: the page cache's filter, last.
//! Caveat: what a client sees depends on hit or miss and on a front cache; crawlers rely on the
//! control field of misses.
//! Out of scope: Cache-Status.

use super::{
    control::{Audience, CONTROL},
    purge::{PURGE, PURGE_2},
    tags::TAG,
    vary::VARY,
};
use saker_http::{Fields, fields::known_name};

pub const LSC_COOKIE: &str = "LSC-Cookie";
pub const STATUS: &str = "X-LiteSpeed-Cache";
/// Magento's list for caches that support bans.
pub const BAN_TAGS: &str = "X-Magento-Tags";

/// Result of the cache for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    Hit(Audience),
    /// Stored now.
    Miss,
    /// Not stored.
    Uncached,
}

/// Prepares a response for the client. `litemage`: the Magento variant.
pub fn finish(fields: &mut Fields, served: Served, front_cache: bool, litemage: bool) {
    match status_value(served, litemage) {
        Some(value) => fields.set(STATUS, value.as_bytes()),
        None => {
            fields.remove(STATUS);
        }
    }
    if front_cache {
        return;
    }
    show_cookies(fields);
    let hit = matches!(served, Served::Hit(_));
    // Misses keep control and tags: crawlers read them.
    let hidden: &[&str] = if hit {
        &[CONTROL, TAG, VARY, PURGE, PURGE_2]
    } else {
        &[VARY, PURGE, PURGE_2]
    };
    hidden.iter().for_each(|name| {
        fields.remove(name);
    });
}

/// Removes the field that bans test (`obj.http.X-Magento-Tags`); once a page is stored, only the
/// cache needs it.
pub fn hide_ban_tags(fields: &mut Fields) {
    fields.remove(BAN_TAGS);
}

/// Removes everything that controls a cache from the page that stands for an error: it was about the
/// page's own URL, and has been obeyed there.
pub fn hide_control(fields: &mut Fields) {
    [CONTROL, TAG, VARY, PURGE, PURGE_2, STATUS, BAN_TAGS]
        .iter()
        .for_each(|name| {
            fields.remove(name);
        });
}

/// Removes fields of an entry that must not be replayed (6.4); `rules::fields` removes the others.
pub fn strip_for_store(fields: &mut Fields) {
    [STATUS, PURGE, PURGE_2, "Set-Cookie", "Set-Cookie2", "Date"]
        .iter()
        .for_each(|name| {
            fields.remove(name);
        });
}

fn status_value(served: Served, litemage: bool) -> Option<&'static str> {
    match (served, litemage) {
        (Served::Hit(_), true) => Some("litemage,hit"),
        (Served::Hit(Audience::Public), false) => Some("hit"),
        (Served::Hit(Audience::Private { .. }), false) => Some("hit,private"),
        (Served::Miss, _) => Some("miss"),
        (Served::Uncached, _) => None,
    }
}

/// Turns every `LSC-Cookie` into a `Set-Cookie`, in its place.
fn show_cookies(fields: &mut Fields) {
    if !fields.has(LSC_COOKIE) {
        return;
    }
    let mut shown = Fields::new();
    for (name, value) in fields.iter() {
        let name = if name.eq_ignore_ascii_case(LSC_COOKIE) {
            "Set-Cookie"
        } else {
            name
        };
        shown.append(known_name(name), value.to_vec());
    }
    *fields = shown;
}
