//! All conditions of a site, wherever they are.
//!
//! Called by: `addresses` and `templates`, which give conditions what they need of other files.
//! Caveat: routes inherit the conditional settings of their site, whose conditions come once.

use crate::{
    directives::site::SiteDraft,
    model::{LogCondition, Matcher, Origin},
};

/// Conditions, and where they are.
pub(super) struct Conditions<'s> {
    pub matcher: &'s Matcher,
    pub origin: &'s Origin,
    /// They are tested after the request.
    pub is_of_log: bool,
}

/// Iterates over the conditions of a site: of routes, of settings, and of logs.
pub(super) fn all_conditions(site: &SiteDraft) -> impl Iterator<Item = Conditions<'_>> {
    let of_routes = site
        .routes
        .iter()
        .filter_map(|route| Some((route.matcher.as_ref()?, &route.origin)));
    let inherited = site.settings.conditionals.len();
    let conditionals = site
        .routes
        .iter()
        .flat_map(move |route| route.settings.conditionals.iter().skip(inherited))
        .chain(&site.settings.conditionals);
    let of_logs = site.access_logs.iter().flat_map(|log| {
        let (only, except) = match &log.log.condition {
            Some(LogCondition::Matches { only, except, .. }) => (only.as_ref(), except.as_ref()),
            _ => (None, None),
        };
        let matchers = only.into_iter().chain(except);
        matchers.map(|matcher| Conditions {
            matcher: &matcher.0,
            origin: &log.log.origin,
            is_of_log: true,
        })
    });
    of_routes
        .chain(conditionals.map(|conditional| (&conditional.matcher, &conditional.origin)))
        .map(|(matcher, origin)| Conditions {
            matcher,
            origin,
            is_of_log: false,
        })
        .chain(of_logs)
}
