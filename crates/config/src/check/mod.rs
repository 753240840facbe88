//! Checks that need the whole configuration: duplicates, missing items, references to nothing.
//!
//! Called by: `load`, after `resolve`.

mod auth;
mod auth_sources;
mod cluster;
mod dynamic_vhosts;
mod routes;
mod streams;
mod tls;

use crate::{
    configuration::Configuration,
    diagnostic::Severity,
    directives::site::SiteDraft,
    model::{Address, ProgramUser, SiteName},
    source::Location,
};
use saker_net::process::Identity;
use std::collections::{HashMap, HashSet};

/// Runs all checks. `top` is the start of the first file.
pub(crate) fn whole(configuration: &mut Configuration, top: &Location) {
    if !configuration.has_syntax_errors {
        something_to_do(configuration, top);
    }
    listeners_once(configuration);
    addresses_apart(configuration);
    streams::addresses_apart(configuration);
    streams::certified(configuration);
    console_encrypted(configuration);
    site_listeners(configuration);
    names_once(configuration);
    routes::reachable(configuration);
    auth_sources::complete(configuration);
    auth::complete(configuration);
    program_users(configuration);
    dynamic_vhosts::whole(configuration);
    cluster::whole(configuration);
    tls::whole(configuration);
}

/// The user of PHP and programs must exist and must not be root, as in Apache.
fn program_users(configuration: &mut Configuration) {
    let mut wrong = Vec::new();
    for site in &configuration.sites {
        let of_routes = site.routes.iter().map(|route| &*route.settings);
        let mut users = std::iter::once(&site.settings)
            .chain(of_routes)
            .filter_map(|settings| settings.program_user.as_ref());
        wrong.extend(
            users
                .find_map(complaint)
                .map(|message| (site.at.clone(), message)),
        );
    }
    wrong
        .into_iter()
        .for_each(|(at, message)| configuration.report(Severity::Error, &at, message, None));
}

fn complaint(user: &ProgramUser) -> Option<String> {
    if user.user.is_empty() {
        return Some("`group` without `user`".into());
    }
    match Identity::look_up(&user.user, user.group.as_deref()) {
        Ok(identity) if identity.uid() == 0 => Some("programs and PHP must not run as root".into()),
        Ok(_) => None,
        Err(error) => Some(format!("`user`: {error}")),
    }
}

fn something_to_do(configuration: &mut Configuration, top: &Location) {
    // Streams alone are something to do, too; and what one of both needs the other for is said.
    let is_streams_only = !configuration.streams.is_empty()
        && !configuration.has_listeners
        && !configuration.has_sites;
    if is_streams_only {
        return;
    }
    if !configuration.has_listeners {
        let help = "add [[listener]] with address = \":80\"";
        configuration.report(
            Severity::Error,
            top,
            "missing [[listener]]".into(),
            Some(help.into()),
        );
    }
    if !configuration.has_sites {
        let help = "add [[site]] with root = \"/srv/www\"";
        configuration.report(
            Severity::Error,
            top,
            "missing [[site]]".into(),
            Some(help.into()),
        );
    }
}

/// Metrics and the console are not served where sites are: both would get a part of the
/// connections.
fn addresses_apart(configuration: &mut Configuration) {
    let metrics = configuration.metrics.as_ref();
    let metrics = metrics.and_then(|(metrics, at)| Some(("[metrics]", metrics.address?, at, 9145)));
    let console = configuration.console.as_ref();
    let console = console.and_then(|(console, at)| Some(("[console]", console.address?, at, 7080)));
    let peers = configuration.cluster.as_ref();
    let peers =
        peers.and_then(|(cluster, at)| Some(("[cluster.peers]", cluster.peers.listen?, at, 7443)));
    let mut complaints = Vec::new();
    for (table, own, at, usual) in metrics.into_iter().chain(console).chain(peers) {
        let mut listeners = configuration.listeners.iter();
        let shared = listeners.find_map(|(listener, _)| match &listener.address {
            Address::Tcp(other) if streams::is_shared(own, *other) => {
                Some(format!("the listener {other}"))
            }
            _ => None,
        });
        let with_metrics = metrics.filter(|_| table != "[metrics]");
        let with_metrics = with_metrics.filter(|(_, other, ..)| streams::is_shared(own, *other));
        let with_console = console.filter(|_| table == "[cluster.peers]");
        let with_console = with_console.filter(|(_, other, ..)| streams::is_shared(own, *other));
        let table_of = |found: Option<_>, name: &str| found.map(|_| name.to_owned());
        let other = shared
            .or(table_of(with_metrics, "[metrics]"))
            .or(table_of(with_console, "[console]"));
        if let Some(other) = other {
            let message = format!("the address of {table} is that of {other}");
            complaints.push((
                at.clone(),
                message,
                format!("choose another port, such as {usual}"),
            ));
        }
    }
    for (at, message, help) in complaints {
        configuration.report(Severity::Error, &at, message, Some(help));
    }
}

/// Passwords do not cross a network in plain text.
fn console_encrypted(configuration: &mut Configuration) {
    let Some((console, at)) = &configuration.console else {
        return;
    };
    let Some(address) = console.address else {
        return;
    };
    let (message, help) = if !console.tls && !address.ip().is_loopback() {
        (
            format!(
                "other machines can reach the console on {address}, and its passwords would cross the network in plain text"
            ),
            "add `tls = true` to [console], or choose an address of this machine alone, such as \"127.0.0.1:7080\"",
        )
    } else if console.tls && is_plain_only(configuration) {
        (
            "no [[listener]] has TLS, and the console shows the certificate of the first that has"
                .to_owned(),
            "add [[listener]] with address = \":443\" and tls = true, or tls = true to one that is \
             there: those of [[stream]] are not for the console",
        )
    } else if console.tls && !configuration.mentions.material {
        (
            "no site has a certificate for the console".to_owned(),
            "add [site.tls] to a site, with certificate = \"chain.pem\" and key = \"key.pem\", or with automatic = true",
        )
    } else {
        return;
    };
    let at = at.clone();
    configuration.report(Severity::Error, &at, message, Some(help.into()));
}

/// Returns true if there are listeners, none of which has or mentions TLS.
fn is_plain_only(configuration: &Configuration) -> bool {
    let mut listeners = configuration.listeners.iter();
    !configuration.has_syntax_errors
        && !configuration.mentions.tls_listener
        && listeners.all(|(listener, _)| listener.tls.is_none())
}

/// A listener is known by its address, even where the kernel chooses the port.
fn listeners_once(configuration: &mut Configuration) {
    let mut seen: HashMap<&Address, &Location> = HashMap::new();
    let mut twice = Vec::new();
    for (listener, at) in &configuration.listeners {
        match seen.get(&listener.address) {
            Some(first) => {
                let mut help = format!("the first is at {}", first.origin());
                if matches!(listener.address, Address::Tcp(address) if address.port() == 0) {
                    help += "; with port 0 each listener needs an IP address of its own, such as 127.0.0.2";
                }
                let message = format!("duplicate listener address {}", listener.address);
                twice.push((at.clone(), message, help));
            }
            None => drop(seen.insert(&listener.address, at)),
        }
    }
    for (at, message, help) in twice {
        configuration.report(Severity::Error, &at, message, Some(help));
    }
}

fn site_listeners(configuration: &mut Configuration) {
    let known: HashSet<&Address> = configuration
        .listeners
        .iter()
        .map(|(listener, _)| &listener.address)
        .collect();
    let mut unknown = Vec::new();
    for (address, at) in configuration.sites.iter().flat_map(|site| &site.listeners) {
        if !known.contains(address) {
            unknown.push((at.clone(), format!("no [[listener]] has address {address}")));
        }
    }
    let mut all: Vec<String> = known.iter().map(ToString::to_string).collect();
    all.sort();
    let help = (!all.is_empty()).then(|| format!("addresses of listeners: {}", all.join(", ")));
    for (at, message) in unknown {
        configuration.report(Severity::Error, &at, message, help.clone());
    }
    idle_listeners(configuration);
}

fn idle_listeners(configuration: &mut Configuration) {
    if configuration.sites.is_empty()
        || configuration
            .sites
            .iter()
            .any(|site| site.listeners.is_empty())
    {
        return;
    }
    let used: HashSet<&Address> = configuration
        .sites
        .iter()
        .flat_map(|site| &site.listeners)
        .map(|(address, _)| address)
        .collect();
    let idle: Vec<(Location, String)> = configuration
        .listeners
        .iter()
        .filter(|(listener, _)| !used.contains(&listener.address))
        .map(|(listener, at)| {
            (
                at.clone(),
                format!("no site uses the listener {}", listener.address),
            )
        })
        .collect();
    for (at, message) in idle {
        let help = "add it to the `listeners` of a site";
        configuration.report(Severity::Warning, &at, message, Some(help.into()));
    }
}

/// A name must be unique per listener.
fn names_once(configuration: &mut Configuration) {
    let mut claims: HashMap<SiteName, Vec<(usize, Location)>> = HashMap::new();
    let mut twice = Vec::new();
    for (index, site) in configuration.sites.iter().enumerate() {
        let any = [(SiteName::Any, site.at.clone())];
        for (name, at) in site.names.as_deref().unwrap_or(&any) {
            let earlier = claims.entry(name.clone()).or_default();
            match earlier.iter().find(|(other, _)| {
                configuration
                    .sites
                    .get(*other)
                    .is_some_and(|other| meet(other, site))
            }) {
                Some((other, first)) => {
                    twice.push((at.clone(), name.clone(), first.origin(), *other == index))
                }
                None => earlier.push((index, at.clone())),
            }
        }
    }
    for (at, name, first, same_site) in twice {
        let message = match same_site {
            true => format!("duplicate name {}", shown(&name)),
            false => format!(
                "two sites have the name {} on the same listener",
                shown(&name)
            ),
        };
        configuration.report(
            Severity::Error,
            &at,
            message,
            Some(format!("the first is at {first}")),
        );
    }
}

/// Returns whether a connection may reach both sites.
fn meet(a: &SiteDraft, b: &SiteDraft) -> bool {
    a.listeners.is_empty() || a.listeners.iter().any(|(address, _)| b.is_on(address))
}

fn shown(name: &SiteName) -> String {
    match name {
        SiteName::Exact(name) => format!("\"{name}\""),
        SiteName::Wildcard(name) => format!("\"*.{name}\""),
        SiteName::Any => "\"*\" (the default of `names`)".into(),
    }
}
