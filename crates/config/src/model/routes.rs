//! `[[site.route]]`: conditions, an action, and settings; and the index that finds them by path.
//!
//! Called by: route selection, handlers, `check`, and `explain`.
//! Out of scope: the keys (`directives/route`).

use super::{Action, Matcher, Origin, PathPattern, RequestEdits, Rewrite, Settings};
use saker_matchers::PathIndex;
use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, LazyLock},
};

/// A route.
#[derive(Clone, Debug)]
pub struct Route {
    /// Name for `@name`.
    pub name: Option<Box<str>>,
    pub pattern: PathPattern,
    /// Found by its name only, not by its path.
    pub is_named_only: bool,
    /// Conditions in addition to the path.
    pub matcher: Option<Matcher>,
    /// Change of the path before the action.
    pub rewrite: Option<Arc<Rewrite>>,
    pub action: Action,
    /// Edits of the request before the action.
    pub request: Option<Arc<RequestEdits>>,
    /// The site's settings, overridden by the route's.
    pub settings: Arc<Settings>,
    /// Only for internal redirects; requests from clients get 404.
    pub is_internal: bool,
    /// The groups of the path pattern are used after the path may have changed.
    pub keeps_captures: bool,
    /// Access logs instead of those of the site: positions in its list, which has them behind its
    /// own.
    pub access_logs: Option<Arc<[usize]>>,
    pub origin: Origin,
}

impl Route {
    /// A route without further conditions.
    pub fn new(
        pattern: PathPattern,
        action: Action,
        settings: Arc<Settings>,
        origin: Origin,
    ) -> Route {
        Route {
            name: None,
            pattern,
            is_named_only: false,
            matcher: None,
            rewrite: None,
            action,
            request: None,
            settings,
            is_internal: false,
            keeps_captures: false,
            access_logs: None,
            origin,
        }
    }

    /// Returns true if neither path nor query of the request choose what answers: as an error page,
    /// the route is one for every client.
    pub fn is_fixed_page(&self) -> bool {
        match (&self.action, self.rewrite.as_deref()) {
            (Action::Respond { .. } | Action::Redirect(_) | Action::Deny, None) => true,
            (Action::Files, Some(rewrite)) => rewrite.is_constant(),
            (_, Some(_)) | (Action::Files | Action::Proxy(_), None) => false,
        }
    }
}

/// Routes in the order of the file. The first match wins.
#[derive(Clone, Debug)]
pub struct Routes {
    list: Arc<[Route]>,
    index: Arc<Index>,
}

/// No routes. Sites of other languages than `saker.toml` have none, and share them.
impl Default for Routes {
    fn default() -> Routes {
        static NONE: LazyLock<Routes> = LazyLock::new(|| Vec::new().into());
        NONE.clone()
    }
}

#[derive(Debug, Default)]
struct Index {
    paths: PathIndex,
    names: HashMap<Box<str>, usize>,
}

impl Routes {
    /// Iterates over the positions of the routes that may match a path, in order.
    pub fn candidates(&self, path: &[u8]) -> impl Iterator<Item = usize> {
        self.index.paths.candidates(path)
    }

    /// Returns the position of the route with a name.
    pub fn named(&self, name: &str) -> Option<usize> {
        self.index.names.get(name).copied()
    }

    /// The same routes with other settings.
    #[must_use]
    pub fn with_settings(&self, settings: impl Fn(&Route) -> Arc<Settings>) -> Routes {
        Routes {
            list: self
                .list
                .iter()
                .map(|route| Route {
                    settings: settings(route),
                    ..route.clone()
                })
                .collect(),
            index: Arc::clone(&self.index),
        }
    }
}

impl Deref for Routes {
    type Target = [Route];

    fn deref(&self) -> &[Route] {
        &self.list
    }
}

impl From<Vec<Route>> for Routes {
    fn from(list: Vec<Route>) -> Routes {
        let by_path = |route: &'_ Route| !route.is_named_only;
        let paths = PathIndex::new(
            list.iter()
                .map(|route| by_path(route).then_some(&route.pattern)),
        );
        let named = list.iter().enumerate();
        let names = named.filter_map(|(at, route)| Some((route.name.clone()?, at)));
        Routes {
            index: Arc::new(Index {
                paths,
                names: names.collect(),
            }),
            list: list.into(),
        }
    }
}

impl<const N: usize> From<[Route; N]> for Routes {
    fn from(list: [Route; N]) -> Routes {
        Vec::from(list).into()
    }
}
