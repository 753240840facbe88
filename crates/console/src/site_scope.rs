//! Limits of owners: what they ask for is about their site, and so are the answers.
//!
//! Called by: the API and event streams, after the gate.
//! Caveat: what cannot be limited to a site is refused. A URL with a host is: the page cache looks
//! for it at the site of that host, whichever site the order names.
//! Out of scope: which routes owners have (`routes`).

use crate::{sessions::Identity, users::Role};
use saker_control::{CacheVerb, PurgeOrder, WarmOrder, WarmVerb};
use saker_live::tail::Filter;
use serde_json::{Value, json};

/// Concurrent requests of an owner's warm-up.
const OWNER_CONCURRENCY_MAX: usize = 4;

/// The site that an identity is limited to.
pub fn site(identity: &Identity) -> Option<&str> {
    match identity.role {
        // One that is no site's name: an owner without a site owns nothing.
        Role::Owner => Some(identity.site.as_deref().unwrap_or("")),
        _ => None,
    }
}

/// The verb, limited to the site of an owner; the error is a sentence for the client.
pub fn limited(identity: &Identity, verb: CacheVerb) -> Result<CacheVerb, String> {
    let Some(site) = site(identity) else {
        return Ok(verb);
    };
    let of_site = |order: PurgeOrder| {
        order.urls.iter().try_for_each(|url| path(url))?;
        Ok::<_, String>(PurgeOrder {
            site: Some(site.to_owned()),
            ..order
        })
    };
    match verb {
        CacheVerb::Stat => Ok(CacheVerb::Stat),
        CacheVerb::List { max, .. } => Ok(CacheVerb::List {
            site: Some(site.to_owned()),
            max,
        }),
        CacheVerb::Show { url } => {
            path(&url)?;
            Ok(CacheVerb::Show { url })
        }
        CacheVerb::Count(order) => of_site(order).map(CacheVerb::Count),
        CacheVerb::Purge(order) => of_site(order).map(CacheVerb::Purge),
        CacheVerb::Body { entry } => Ok(CacheVerb::Body { entry }),
        // Begun by owners, a job fetches their pages alone; `warm_pages` knows whose a job is.
        CacheVerb::Warm(WarmVerb::Begin(order)) => {
            Ok(CacheVerb::Warm(WarmVerb::Begin(WarmOrder {
                site: Some(site.to_owned()),
                variations: Vec::new(),
                concurrency: order.concurrency.min(OWNER_CONCURRENCY_MAX),
                ..order
            })))
        }
        CacheVerb::Warm(WarmVerb::Look { job, from }) => {
            Ok(CacheVerb::Warm(WarmVerb::Look { job, from }))
        }
        CacheVerb::Warm(WarmVerb::Stop { job }) => Ok(CacheVerb::Warm(WarmVerb::Stop { job })),
        CacheVerb::Warm(WarmVerb::Add { .. }) => Err("owners cannot add to a warm-up".to_owned()),
    }
}

fn path(url: &str) -> Result<(), String> {
    match url.starts_with('/') && !url.starts_with("//") {
        true => Ok(()),
        false => Err("name pages by their path, without a host".to_owned()),
    }
}

/// The parts of an answer that are about the site of an owner.
pub fn own(identity: &Identity, answer: Value) -> Value {
    let Some(site) = site(identity) else {
        return answer;
    };
    let list = |name: &str| -> Option<Value> {
        let all = answer.get(name)?.as_array()?.iter();
        Some(all.filter(|one| one["site"] == site).cloned().collect())
    };
    let mut own = json!({ "ok": answer["ok"] });
    // Sites of a purge are names alone, and only the own one was ordered.
    for name in ["pages", "bytes", "is_cut", "number"] {
        let of_order = answer.get("sites").and_then(|sites| sites[0].get("site"));
        if let (Some(value), None) = (answer.get(name), of_order) {
            own[name] = value.clone();
        }
    }
    for name in ["sites", "entries"] {
        if let Some(list) = list(name) {
            own[name] = list;
        }
    }
    own
}

/// The filter, limited to the site of an owner.
pub fn filter(identity: &Identity, filter: Filter) -> Filter {
    Filter {
        site: site(identity).map(str::to_owned),
        ..filter
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::By;

    fn identity(role: Role, site: Option<&str>) -> Identity {
        Identity {
            name: "ada".into(),
            role,
            site: site.map(str::to_owned),
            is_account: true,
            by: By::Token,
        }
    }

    #[test]
    fn owners_are_limited_to_their_site_and_others_are_not() {
        let (owner, viewer) = (
            identity(Role::Owner, Some("a.example")),
            identity(Role::Viewer, None),
        );
        let order = |url: &str, site: Option<&str>| PurgeOrder {
            urls: vec![url.to_owned()],
            site: site.map(str::to_owned),
            ..PurgeOrder::default()
        };
        let limited_to = |verb| match limited(&owner, verb) {
            Ok(CacheVerb::Purge(order) | CacheVerb::Count(order)) => order.site,
            Ok(CacheVerb::List { site, .. }) => site,
            _ => None,
        };
        let own = Some("a.example".to_owned());
        for site in [None, Some("b.example")] {
            assert_eq!(limited_to(CacheVerb::Purge(order("/x", site))), own);
            assert_eq!(limited_to(CacheVerb::Count(order("/x", site))), own);
            let site = site.map(str::to_owned);
            assert_eq!(limited_to(CacheVerb::List { site, max: 1 }), own);
        }
        for url in [
            "http://b.example/",
            "//b.example/",
            "b.example/",
            "HTTP://B.example/",
            "",
            " /",
        ] {
            assert!(
                limited(&owner, CacheVerb::Purge(order(url, None))).is_err(),
                "{url}"
            );
            let show = CacheVerb::Show {
                url: url.to_owned(),
            };
            assert!(limited(&owner, show.clone()).is_err(), "{url}");
            assert_eq!(limited(&viewer, show.clone()), Ok(show), "{url}");
        }
        let warm = |site: Option<&str>| {
            let order = WarmOrder {
                concurrency: 256,
                site: site.map(str::to_owned),
                variations: vec![vec![("Cookie".to_owned(), "a=b".to_owned())]],
                ..WarmOrder::default()
            };
            limited(&owner, CacheVerb::Warm(WarmVerb::Begin(order)))
        };
        for site in [None, Some("b.example")] {
            let Ok(CacheVerb::Warm(WarmVerb::Begin(order))) = warm(site) else {
                panic!("an order to warm");
            };
            assert_eq!((order.site, order.concurrency), (own.clone(), 4));
            assert!(order.variations.is_empty());
        }
        let nobody = identity(Role::Owner, None);
        let all = CacheVerb::Purge(PurgeOrder {
            all: true,
            ..PurgeOrder::default()
        });
        assert!(
            matches!(limited(&nobody, all), Ok(CacheVerb::Purge(order)) if order.site.as_deref() == Some(""))
        );
    }

    #[test]
    fn answers_are_about_the_own_site() {
        let owner = identity(Role::Owner, Some("a.example"));
        let answer = json!({
            "ok": true, "bytes": 7, "bytes_max": 9,
            "sites": [{ "site": "a.example", "hits": 1 }, { "site": "b.example", "hits": 2 }],
        });
        assert_eq!(
            own(&owner, answer.clone()),
            json!({ "ok": true, "sites": [{ "site": "a.example", "hits": 1 }] })
        );
        assert_eq!(own(&identity(Role::Viewer, None), answer.clone()), answer);
        let shown = json!({ "ok": true, "entries": [{ "site": "b.example" }, { "site": "a.example" }, {}] });
        assert_eq!(
            own(&owner, shown)["entries"],
            json!([{ "site": "a.example" }])
        );
        let counted = json!({ "ok": true, "pages": 3, "bytes": 4, "is_cut": false });
        assert_eq!(own(&owner, counted.clone()), counted);
        let narrowed = filter(
            &owner,
            Filter {
                host: "b".into(),
                ..Filter::default()
            },
        );
        assert_eq!(narrowed.site.as_deref(), Some("a.example"));
    }
}
