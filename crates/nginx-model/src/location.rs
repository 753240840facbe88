//! Locations: their settings, and the choice of one for a path.
//!
//! Called by: `load`, which builds them, and `saker-nginx`, for every request.
//! Caveat: the choice is nginx's: an exact match ends the search, the longest prefix is remembered,
//! and regular expressions come in the order of the file unless the prefix is marked `^~`.
//! Out of scope: the rewrite phase.

use crate::{
    conf::LocationConf,
    modules::{
        body::BodyFiles,
        cache::CacheUse,
        rewrite::{Condition, Statement},
        upstream_conf::{Gateway, Param, Store},
        upstream_rewrites::Rewrite,
    },
    text::Text,
    values::Regex,
};
use saker_config::model::{Origin, Settings, Upstream};
use saker_pipeline::ProxyOptions;
use saker_telemetry::error_log::SiteLog;
use std::{collections::HashMap, sync::Arc};

/// The way a location is chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum LocationKind {
    /// `=`
    Exact,
    /// A prefix; `^~` keeps regular expressions out.
    Prefix { is_final: bool },
    /// `~` and `~*`
    Regex(Regex),
    /// `@name`
    Named,
    /// The block of an `if` or of `limit_except`, or a server outside of its locations.
    Block,
}

/// Methods in capitals.
pub type Methods = Box<[Box<str>]>;

/// A location with its merged settings.
#[derive(Debug)]
pub struct Location {
    /// As written, without its modifier.
    pub name: Box<str>,
    pub kind: LocationKind,
    pub conf: LocationConf,
    /// Settings of the features.
    pub settings: Arc<Settings>,
    /// The rewrite phase.
    pub script: Box<[Op]>,
    pub inner: LocationTree,
    /// `limit_except`: methods that it does not apply to, and its settings.
    pub limit_except: Option<(Methods, Arc<Location>)>,
    /// The upstream that answers.
    pub proxied: Option<Proxied>,
    /// Its error logs. `None`: the process's.
    pub error_log: Option<Arc<SiteLog>>,
    pub origin: Origin,
}

/// A step of a script.
#[derive(Clone, Debug)]
pub enum Op {
    Plain(Statement),
    If(Arc<If>),
}

/// `if`
#[derive(Clone, Debug)]
pub struct If {
    pub condition: Condition,
    pub ops: Box<[Op]>,
    /// Settings of the block; `None` in servers, whose blocks have none.
    pub location: Option<Arc<Location>>,
    /// As written.
    pub source: Box<str>,
}

/// The upstream of a location.
#[derive(Clone, Debug)]
pub struct Proxied {
    pub gateway: Gateway,
    /// `None`: the address has variables.
    pub upstream: Option<Arc<Upstream>>,
    /// The upstream is a group with servers whose names are resolved at run time.
    pub is_resolved: bool,
    /// The replacement of the location's name; `None`: the path is sent as it came.
    pub uri: Option<Box<str>>,
    /// Host and port as written (`$proxy_host`).
    pub host: Box<str>,
    pub text: Text,
    pub options: Arc<ProxyOptions>,
    /// Replacements in `Location` and `Refresh`.
    pub redirects: Arc<[Rewrite]>,
    pub cache: Option<Arc<CacheUse>>,
    /// Fields or parameters for the upstream. Values that do not differ between requests are written out.
    pub params: Arc<[Param]>,
}

impl Location {
    /// Returns true if the location is addressed by prefix and a request without its final slash
    /// is redirected to it.
    fn redirects_slash(&self) -> bool {
        self.name.ends_with('/') && self.conf.upstreams.pass.is_some()
    }

    /// Returns true if its error logs are not those of its server.
    pub fn has_other_logs(&self, outside: &Location) -> bool {
        match (&self.error_log, &outside.error_log) {
            (Some(own), Some(other)) => !Arc::ptr_eq(own, other),
            (own, other) => own.is_some() != other.is_some(),
        }
    }

    /// Visits the location, its blocks, and the locations inside.
    pub fn each(&self, seen: &mut dyn FnMut(&Location)) {
        seen(self);
        self.inner.each(seen);
        if let Some((_, inner)) = &self.limit_except {
            inner.each(seen);
        }
        for op in &self.script {
            if let Op::If(condition) = op
                && let Some(inner) = &condition.location
            {
                inner.each(seen);
            }
        }
    }

    /// Returns true if content of requests goes to files (`client_body_in_file_only`).
    pub fn keeps_bodies(&self) -> bool {
        let files = self.conf.body.files.unwrap_or(BodyFiles::Off);
        files != BodyFiles::Off && self.conf.upstreams.pass.is_some()
    }

    /// Returns true if requests may write files (`dav_methods`, `proxy_store` and its kin).
    pub fn writes_files(&self) -> bool {
        let methods = self.conf.handlers.dav_methods.as_deref();
        let upstreams = &self.conf.upstreams;
        let store = upstreams
            .pass
            .as_ref()
            .and_then(|pass| upstreams.of(pass.gateway).store.as_ref());
        methods.is_some_and(|methods| !methods.is_empty())
            || self.keeps_bodies()
            || store.is_some_and(|store| *store != Store::Off)
    }
}

/// The locations of a server, or those inside of a location.
#[derive(Debug, Default)]
pub struct LocationTree {
    exact: HashMap<Box<[u8]>, Arc<Location>, foldhash::fast::RandomState>,
    /// Sorted by name; each with the index of the longest other one that is its prefix.
    prefixes: Vec<(Arc<Location>, Option<usize>)>,
    regexes: Vec<Arc<Location>>,
}

/// The outcome of a search.
#[derive(Clone, Debug)]
pub enum Choice {
    None,
    Found(Arc<Location>),
    /// A path without the final slash of a proxied location: redirected.
    Slash(Arc<Location>),
}

/// Decides whether a regular expression matches, and keeps its groups.
pub trait RegexMatcher {
    fn matches(&mut self, regex: &Regex) -> bool;
}

enum Search {
    None,
    Exact(Arc<Location>),
    Prefix(Arc<Location>),
    Slash(Arc<Location>),
}

impl LocationTree {
    /// Builds the tree from locations in the order of the file.
    pub fn new(locations: Vec<Arc<Location>>) -> LocationTree {
        let mut tree = LocationTree::default();
        for location in locations {
            let name = location.name.as_bytes();
            match &location.kind {
                LocationKind::Exact => drop(tree.exact.insert(name.into(), location)),
                LocationKind::Prefix { .. } => tree.prefixes.push((location, None)),
                LocationKind::Regex(_) => tree.regexes.push(location),
                LocationKind::Named | LocationKind::Block => {}
            }
        }
        tree.prefixes
            .sort_by(|one, other| one.0.name.as_bytes().cmp(other.0.name.as_bytes()));
        let mut open: Vec<usize> = Vec::new();
        for index in 0..tree.prefixes.len() {
            let name = tree.name(index).to_vec();
            while open
                .last()
                .is_some_and(|last| !name.starts_with(tree.name(*last)))
            {
                open.pop();
            }
            if let Some((_, link)) = tree.prefixes.get_mut(index) {
                *link = open.last().copied();
            }
            open.push(index);
        }
        tree
    }

    fn name(&self, index: usize) -> &[u8] {
        self.prefixes
            .get(index)
            .map_or(b"", |(location, _)| location.name.as_bytes())
    }

    /// Visits all locations, and those inside of them.
    pub fn each(&self, seen: &mut dyn FnMut(&Location)) {
        self.iter().for_each(|location| location.each(seen));
    }

    /// Returns true if nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty() && self.regexes.is_empty()
    }

    /// Iterates over the locations.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Location>> {
        let prefixes = self.prefixes.iter().map(|(location, _)| location);
        self.exact.values().chain(prefixes).chain(&self.regexes)
    }

    /// Chooses the location of a path.
    pub fn choose(&self, path: &[u8], matcher: &mut dyn RegexMatcher) -> Choice {
        self.descend(path, matcher).0
    }

    /// Chooses a location. `true`: expressions of outer levels do not replace it. A prefix with `^~`
    /// keeps those of its own level away, and no others, as in nginx.
    fn descend(&self, path: &[u8], matcher: &mut dyn RegexMatcher) -> (Choice, bool) {
        let (prefix, is_final) = match self.search(path) {
            Search::Exact(location) => return (Choice::Found(location), true),
            Search::Slash(location) => return (Choice::Slash(location), true),
            Search::None => (Choice::None, false),
            Search::Prefix(location) => {
                let is_final = location.kind == LocationKind::Prefix { is_final: true };
                match location.inner.descend(path, matcher) {
                    (inner, true) => return (inner, true),
                    (Choice::None, false) => (Choice::Found(location), is_final),
                    (inner, false) => (inner, is_final),
                }
            }
        };
        let regexes = self.regexes.iter().filter(|_| !is_final);
        for location in regexes {
            let LocationKind::Regex(regex) = &location.kind else {
                continue;
            };
            if matcher.matches(regex) {
                let inner = match location.inner.choose(path, matcher) {
                    Choice::None => Choice::Found(Arc::clone(location)),
                    inner => inner,
                };
                return (inner, true);
            }
        }
        (prefix, false)
    }

    fn search(&self, path: &[u8]) -> Search {
        if let Some(location) = self.exact.get(path) {
            return Search::Exact(Arc::clone(location));
        }
        let behind = self
            .prefixes
            .partition_point(|(location, _)| location.name.as_bytes() <= path);
        // A location `path/` sorts directly behind `path`, but for names in between.
        if let Some(found) = self.slash_of(path, behind) {
            return Search::Slash(found);
        }
        let mut at = behind.checked_sub(1);
        while let Some((location, link)) = at.and_then(|at| self.prefixes.get(at)) {
            if path.starts_with(location.name.as_bytes()) {
                return Search::Prefix(Arc::clone(location));
            }
            at = *link;
        }
        Search::None
    }

    /// Returns the proxied location whose name is the path and a slash, unless the path has a
    /// location of its own.
    fn slash_of(&self, path: &[u8], behind: usize) -> Option<Arc<Location>> {
        if behind > 0 && self.name(behind - 1) == path {
            return None;
        }
        self.prefixes
            .iter()
            .skip(behind)
            .map(|(location, _)| location)
            .take_while(|location| location.name.as_bytes().starts_with(path))
            .take(SLASH_SEARCH_MAX)
            .find(|location| location.name.len() == path.len() + 1 && location.redirects_slash())
            .cloned()
    }
}

/// Names between `path` and `path/` that are looked at: those that continue with a character that
/// sorts before the slash.
const SLASH_SEARCH_MAX: usize = 16;
