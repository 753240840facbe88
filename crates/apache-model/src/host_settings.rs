//! Settings gathered from all hosts: upstreams, PHP settings, GeoIP databases, ModSecurity rules.
//!
//! Called by: `assemble` and `load`, once the hosts are there.

use crate::{
    host::Host,
    modules::{php::Php, security::Security},
};
use saker_config::{Diagnostic, Model, model::PhpSet, modsecurity::Rules};
use saker_ipset::GeoDatabase;
use std::sync::Arc;

/// The PHP settings of a host's scripts, as far as its configuration tells without a request:
/// everywhere in it, or below a folder or path.
pub fn known_sets(host: &Host) -> Vec<PhpSet> {
    let mut sets = vec![host.defaults.php.clone()];
    for (section, is_folder) in host
        .directories
        .iter()
        .map(|section| (section, true))
        .chain(host.locations.iter().map(|section| (section, false)))
    {
        if section.local.php.settings.is_empty() {
            continue;
        }
        let around = host
            .directories
            .iter()
            .filter(|outer| is_folder && section.is_below(outer) && !Arc::ptr_eq(outer, section));
        let outer = around.fold(host.defaults.php.clone(), |php, outer| {
            php.merge(&outer.local.php)
        });
        sets.push(outer.merge(&section.local.php));
    }
    let user = &host.defaults.cgi.user;
    sets.iter()
        .map(Php::told)
        .filter(|told| !told.is_empty())
        .map(|told| PhpSet::new(user.clone(), told))
        .collect()
}

/// Makes the sets of all hosts and their sections; what can't be made is reported, each mistake
/// once.
pub fn of_hosts(hosts: &[Arc<Host>], diagnostics: &mut Vec<Diagnostic>) -> Vec<Arc<Rules>> {
    let mut found: Vec<Arc<Rules>> = Vec::new();
    let mut note = |security: &Security| match security.rules() {
        Ok(Some(rules)) if found.iter().any(|known| Arc::ptr_eq(known, &rules)) => {}
        Ok(rules) => found.extend(rules),
        Err(faults) => {
            for fault in faults {
                let is_known = diagnostics
                    .iter()
                    .any(|known| known.origin == fault.origin && known.message == fault.message);
                if !is_known {
                    diagnostics.push(fault);
                }
            }
        }
    };
    for host in hosts {
        let outside = &host.defaults.security;
        note(outside);
        let inner = host
            .directories
            .iter()
            .chain(&host.locations)
            .map(|section| &section.local.security);
        inner
            .filter(|security| !security.is_idle())
            .for_each(|security| note(&outside.merge(security)));
    }
    found
}

/// Each once.
pub fn add_upstreams(model: &mut Model, hosts: &[Arc<Host>]) {
    for upstream in hosts.iter().flat_map(|host| host.proxy.workers.upstreams()) {
        if !model
            .upstreams
            .iter()
            .any(|known| Arc::ptr_eq(known, &upstream))
        {
            model.upstreams.push(upstream);
        }
    }
}

/// Those that are looked at again while the server runs.
pub fn geo_databases(hosts: &[Arc<Host>]) -> Vec<Arc<GeoDatabase>> {
    let of_host = |host: &Arc<Host>| {
        let sections = host
            .directories
            .iter()
            .chain(&host.locations)
            .map(|section| &section.local);
        let locals = std::iter::once(&host.defaults).chain(sections);
        locals
            .flat_map(|local| local.geo.databases())
            .cloned()
            .collect::<Vec<_>>()
    };
    let mut databases: Vec<Arc<GeoDatabase>> = Vec::new();
    for database in hosts.iter().flat_map(of_host) {
        if !databases.iter().any(|known| Arc::ptr_eq(known, &database)) {
            databases.push(database);
        }
    }
    databases
}
