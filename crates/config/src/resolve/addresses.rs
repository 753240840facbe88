//! Files of addresses and geolocation databases: each is read once and shared by the tables that
//! name it.
//!
//! Called by: `resolve::all`, when all files have been read, so that an invalid line of a list is
//! reported with the other diagnostics, by the list's name and line.

use super::conditions::all_conditions;
use crate::{
    configuration::Configuration,
    diagnostic::{Diagnostic, Severity},
    directives::site::SiteDraft,
    model::{AccessControl, AccessRules, Addresses, Matcher, Origin},
    source::Location,
};
use saker_ipset::{AddressList, GeoDatabase, ListFault};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Reads the databases and lists of `[abuse]` and of all sites and routes, and reports those that
/// can't be read.
pub(super) fn resolve(configuration: &mut Configuration) {
    let databases = configuration
        .abuse
        .as_ref()
        .map(|(abuse, _)| abuse.admittance.databases.clone())
        .unwrap_or_default();
    let unreadable = databases
        .iter()
        .filter_map(|database| database.refresh().err());
    configuration.diagnostics.extend(unreadable.map(diagnostic));
    for site in &mut configuration.sites {
        let missing = share_databases(site, &databases);
        configuration.diagnostics.extend(missing);
    }
    for stream in &mut configuration.streams {
        let rules = &mut stream.access;
        let is_by_place = rules.allow.is_by_place() || rules.deny.is_by_place();
        let missing = is_by_place && databases.is_empty();
        configuration
            .diagnostics
            .extend(missing.then(|| no_database(&stream.at)));
        rules.databases.clone_from(&databases);
    }
    let mut lists = Lists::default();
    all_addresses(configuration).for_each(|addresses| lists.read(addresses));
    let sets = attach_sets(configuration, &mut lists, &databases);
    configuration.diagnostics.extend(sets);
    configuration.diagnostics.extend(lists.unreadable);
    configuration.lists = lists.known.into_values().collect();
    configuration.databases = databases;
}

/// Shares the databases of `[abuse]` with a site and its routes. Returns an error for each that
/// uses countries or autonomous systems without a database.
fn share_databases(site: &mut SiteDraft, databases: &[Arc<GeoDatabase>]) -> Vec<Diagnostic> {
    let mut missing = Vec::new();
    let at = site.at.clone();
    for guard in guards(site) {
        let is_by_place = guard.locates
            || guard.admittance.allow.is_by_place()
            || guard.admittance.deny.is_by_place();
        if is_by_place && databases.is_empty() {
            missing.push(no_database(&at));
        }
        guard.admittance.databases = databases.to_vec();
    }
    missing
}

fn no_database(at: &Location) -> Diagnostic {
    let message = "locating clients needs a database: `geoip` in [abuse] names none";
    Diagnostic::new(Severity::Error, at, message.into(), None)
}

/// Iterates over `[site.access]` of a site and of its routes.
fn guards(site: &mut SiteDraft) -> impl Iterator<Item = &mut AccessControl> {
    let routes = site
        .routes
        .iter_mut()
        .map(|route| Arc::make_mut(&mut route.settings));
    std::iter::once(&mut site.settings)
        .chain(routes)
        .filter_map(|settings| settings.guard.as_mut().map(Arc::make_mut))
}

fn all_addresses(configuration: &mut Configuration) -> impl Iterator<Item = &mut Addresses> {
    let server = configuration.abuse.iter_mut().flat_map(|(abuse, _)| {
        let AccessRules { allow, deny, .. } = &mut abuse.admittance;
        [allow, deny, &mut abuse.exempt]
    });
    let streams = configuration.streams.iter_mut().flat_map(|stream| {
        let AccessRules { allow, deny, .. } = &mut stream.access;
        [allow, deny]
    });
    let sites = configuration.sites.iter_mut().flat_map(guards);
    let proxies = configuration
        .server
        .iter_mut()
        .map(|(server, _)| &mut server.trusted_proxies.addresses);
    server
        .chain(proxies)
        .chain(streams)
        .chain(sites.flat_map(|guard| {
            let AccessRules { allow, deny, .. } = &mut guard.admittance;
            [allow, deny]
        }))
}

/// Gives the matchers of clients their lists and databases.
fn attach_sets(
    configuration: &Configuration,
    lists: &mut Lists,
    databases: &[Arc<GeoDatabase>],
) -> Vec<Diagnostic> {
    let mut missing = Vec::new();
    let matchers = configuration
        .sites
        .iter()
        .flat_map(|site| all_conditions(site).map(move |conditions| (site, conditions.matcher)));
    for (site, matcher) in matchers {
        matcher.visit(&mut |inner| {
            let Matcher::Client(set) = inner else { return };
            let all = set.files.iter().map(|path| lists.list(path)).collect();
            set.attach(all, databases.to_vec());
            if !set.countries.is_empty() && databases.is_empty() {
                missing.push(no_database(&site.at));
            }
        });
    }
    missing
}

/// Files of addresses that were read, by path.
#[derive(Default)]
struct Lists {
    known: HashMap<PathBuf, Arc<AddressList>>,
    unreadable: Vec<Diagnostic>,
}

impl Lists {
    /// Makes the set of networks, and reads the files that have not been read yet.
    fn read(&mut self, addresses: &mut Addresses) {
        addresses.set = Arc::new(
            addresses
                .networks
                .iter()
                .filter_map(|network| network.to_string().parse().ok())
                .collect(),
        );
        for list in &mut addresses.lists {
            *list = self.list(list.path());
        }
    }

    /// The list of a file, which is read the first time.
    fn list(&mut self, path: &Path) -> Arc<AddressList> {
        if let Some(known) = self.known.get(path) {
            return Arc::clone(known);
        }
        let list = Arc::new(AddressList::new(path.to_owned()));
        if let Err(fault) = list.refresh() {
            self.unreadable.push(diagnostic(fault));
        }
        self.known.insert(path.to_owned(), Arc::clone(&list));
        list
    }
}

fn diagnostic(fault: ListFault) -> Diagnostic {
    let origin = Origin {
        file: fault.path.display().to_string().into(),
        line: fault.line,
        column: u32::from(fault.line != 0),
    };
    Diagnostic::without_source(origin, fault.message)
}
