//! Fields on their way out and into the store: `LSC-Cookie`, the protocol's own fields,
//! `X-LiteSpeed-Cache` (LSCache protocol 5, 6.4, 6.7, 10).
//!
//! Place in the walk: the last filter of a response that the cache had a say in. Difficulty: what a
//! visitor sees depends on hit, miss and on whether a front cache stands between; crawlers rely on
//! the control of misses.

use super::{
    control::{Audience, CONTROL},
    purge::{PURGE, PURGE_2},
    tags::TAG,
    vary::VARY,
};
use saker_http::{Fields, fields::known_name};

pub const LSC_COOKIE: &str = "LSC-Cookie";
pub const STATUS: &str = "X-LiteSpeed-Cache";
/// Magento's list for caches that know bans.
pub const BAN_TAGS: &str = "X-Magento-Tags";

/// What the cache did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    Hit(Audience),
    /// Stored now.
    Miss,
    /// Not stored.
    Uncached,
}

/// Gives a response the form that goes out. `litemage`: Magento's flavour of the word.
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

/// Takes out what bans go by (`obj.http.X-Magento-Tags`), which is the cache's business once a page
/// is kept.
pub fn hide_ban_tags(fields: &mut Fields) {
    fields.remove(BAN_TAGS);
}

/// Takes out of an entry's fields what is not to be replayed (6.4); the rest of that is
/// `rules::fields`'.
pub fn strip_for_store(fields: &mut Fields) {
    [STATUS, PURGE, PURGE_2, "Set-Cookie", "Date"]
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

/// Every `LSC-Cookie` becomes a `Set-Cookie`, in its place.
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
