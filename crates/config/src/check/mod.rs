//! Checks that need the whole configuration: what is there twice, what is missing, what refers to
//! nothing.

mod dynamic_vhosts;
mod routes;
mod tls;

pub(crate) use tls::Meant;

use crate::{
    diagnostic::Severity,
    directives::SiteDraft,
    load::Loader,
    model::{Address, ProgramUser, SiteName},
    source::At,
};
use saker_net::process::Identity;
use std::collections::{HashMap, HashSet};

/// `top` is the beginning of the first file.
pub(crate) fn whole(loader: &mut Loader, top: &At) {
    if !loader.has_syntax_errors {
        something_to_do(loader, top);
    }
    listeners_once(loader);
    site_listeners(loader);
    names_once(loader);
    routes::reachable(loader);
    program_users(loader);
    dynamic_vhosts::whole(loader);
    tls::whole(loader);
}

/// As Apache: who is to be run as has to be somebody, and not root.
fn program_users(loader: &mut Loader) {
    let mut wrong = Vec::new();
    for site in &loader.sites {
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
        .for_each(|(at, message)| loader.report(Severity::Error, &at, message, None));
}

fn complaint(user: &ProgramUser) -> Option<String> {
    if user.user.is_empty() {
        return Some("`group` goes with `user`, and there is none".into());
    }
    match Identity::look_up(&user.user, user.group.as_deref()) {
        Ok(identity) if identity.uid() == 0 => Some("programs and PHP are not run as root".into()),
        Ok(_) => None,
        Err(error) => Some(format!("`user`: {error}")),
    }
}

fn something_to_do(loader: &mut Loader, top: &At) {
    if !loader.has_listeners {
        let help = "add [[listener]] with address = \":80\"";
        loader.report(
            Severity::Error,
            top,
            "there is no [[listener]]".into(),
            Some(help.into()),
        );
    }
    if !loader.has_sites {
        let help = "add [[site]] with root = \"/srv/www\"";
        loader.report(
            Severity::Error,
            top,
            "there is no [[site]]".into(),
            Some(help.into()),
        );
    }
}

/// Port 0 is any free port, and may be given many times.
fn listeners_once(loader: &mut Loader) {
    let mut seen: HashMap<&Address, &At> = HashMap::new();
    let mut twice = Vec::new();
    for (listener, at) in &loader.listeners {
        if matches!(listener.address, Address::Tcp(address) if address.port() == 0) {
            continue;
        }
        match seen.get(&listener.address) {
            Some(first) => twice.push((
                at.clone(),
                format!("{} is listened on twice", listener.address),
                first.origin(),
            )),
            None => drop(seen.insert(&listener.address, at)),
        }
    }
    for (at, message, first) in twice {
        loader.report(
            Severity::Error,
            &at,
            message,
            Some(format!("the first is at {first}")),
        );
    }
}

fn site_listeners(loader: &mut Loader) {
    let known: HashSet<&Address> = loader
        .listeners
        .iter()
        .map(|(listener, _)| &listener.address)
        .collect();
    let mut unknown = Vec::new();
    for (address, at) in loader.sites.iter().flat_map(|site| &site.listeners) {
        if !known.contains(address) {
            unknown.push((
                at.clone(),
                format!("no [[listener]] has the address {address}"),
            ));
        }
    }
    let mut all: Vec<String> = known.iter().map(ToString::to_string).collect();
    all.sort();
    let help = (!all.is_empty()).then(|| format!("there are {}", all.join(", ")));
    for (at, message) in unknown {
        loader.report(Severity::Error, &at, message, help.clone());
    }
    idle_listeners(loader);
}

fn idle_listeners(loader: &mut Loader) {
    if loader.sites.is_empty() || loader.sites.iter().any(|site| site.listeners.is_empty()) {
        return;
    }
    let used: HashSet<&Address> = loader
        .sites
        .iter()
        .flat_map(|site| &site.listeners)
        .map(|(address, _)| address)
        .collect();
    let idle: Vec<(At, String)> = loader
        .listeners
        .iter()
        .filter(|(listener, _)| !used.contains(&listener.address))
        .map(|(listener, at)| {
            (
                at.clone(),
                format!("no site is found on {}", listener.address),
            )
        })
        .collect();
    for (at, message) in idle {
        let help = "add it to the `listeners` of a site";
        loader.report(Severity::Warning, &at, message, Some(help.into()));
    }
}

/// A name may be claimed once per listener.
fn names_once(loader: &mut Loader) {
    let mut claims: HashMap<SiteName, Vec<(usize, At)>> = HashMap::new();
    let mut twice = Vec::new();
    for (index, site) in loader.sites.iter().enumerate() {
        let any = [(SiteName::Any, site.at.clone())];
        for (name, at) in site.names.as_deref().unwrap_or(&any) {
            let earlier = claims.entry(name.clone()).or_default();
            match earlier.iter().find(|(other, _)| {
                loader
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
            true => format!("the name {} is given twice", shown(&name)),
            false => format!(
                "two sites have the name {} on the same listener",
                shown(&name)
            ),
        };
        loader.report(
            Severity::Error,
            &at,
            message,
            Some(format!("the first is at {first}")),
        );
    }
}

/// Whether a connection may reach both.
fn meet(a: &SiteDraft, b: &SiteDraft) -> bool {
    a.listeners.is_empty() || a.listeners.iter().any(|(address, _)| b.is_on(address))
}

fn shown(name: &SiteName) -> String {
    match name {
        SiteName::Exact(name) => format!("\"{name}\""),
        SiteName::Wildcard(name) => format!("\"*.{name}\""),
        SiteName::Any => "\"*\" (which a site without `names` has)".into(),
    }
}
