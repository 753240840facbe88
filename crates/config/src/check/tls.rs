//! Checks of TLS and automatic certificates that need the whole configuration: listeners against
//! sites, sites against `[acme]`.
//!
//! What seems to be missing is not complained about where it is there but broken, which has been
//! reported: hence [`Meant`].

use crate::{
    diagnostic::Severity,
    directives::SiteDraft,
    load::Loader,
    model::{Acme, AcmeChallenge, Address, Automatic, SiteName},
    reader::table_in,
    source::At,
};
use toml::de::{DeTable, DeValue};

/// What the files mean to say, be it as broken as it may.
#[derive(Debug, Default)]
pub(crate) struct Meant {
    tls_listener: bool,
    material: bool,
    dns_command: bool,
    ask: bool,
}

impl Meant {
    /// Adds what one file says.
    pub fn note(&mut self, file: &DeTable<'_>) {
        let has = |table: &str, key: &str| {
            table_in(file, table).is_some_and(|table| table.contains_key(key))
        };
        self.dns_command |= has("acme", "dns_command");
        self.ask |= has("acme", "ask");
        self.tls_listener |= tables(file, "listener").any(|listener| {
            listener
                .get("tls")
                .is_some_and(|tls| !is_false(tls.get_ref()))
        });
        self.material |= tables(file, "site").any(|site| site.contains_key("tls"));
    }
}

/// `problem`, where, and the way out.
type Complaint = (Severity, At, String, &'static str);

pub(super) fn whole(loader: &mut Loader) {
    if loader.has_syntax_errors {
        return;
    }
    let mut complaints = bare_listeners(loader);
    complaints.extend(
        loader
            .sites
            .iter()
            .flat_map(|site| site_alone(loader, site)),
    );
    for (severity, at, message, help) in complaints {
        loader.report(severity, &at, message, Some(help.into()));
    }
}

/// TLS listeners on which no site has a certificate.
fn bare_listeners(loader: &Loader) -> Vec<Complaint> {
    let has_certificate = |site: &&SiteDraft| site.tls.material().is_some();
    let listeners = loader
        .listeners
        .iter()
        .filter(|(listener, _)| listener.tls.is_some());
    let bare = listeners.filter(|(listener, _)| {
        !loader
            .sites
            .iter()
            .filter(has_certificate)
            .any(|site| site.is_on(&listener.address))
    });
    let help = match loader.meant.material {
        true => "add `certificate` or `automatic` to [site.tls] of a site that is found on it",
        false => {
            "add to a site [site.tls] with certificate = \"chain.pem\" and key = \"key.pem\", or with automatic = true"
        }
    };
    let mut complaints: Vec<Complaint> = Vec::new();
    for (listener, at) in bare {
        // `:443` is two addresses of one place.
        if complaints.last().is_none_or(|(_, last, ..)| {
            last.span != at.span || last.source.order != at.source.order
        }) {
            let message = format!("no site has a certificate for {}", listener.address);
            complaints.push((Severity::Error, at.clone(), message, help));
        }
    }
    complaints
}

fn site_alone(loader: &Loader, site: &SiteDraft) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    if !is_encrypted(loader, site) && !loader.listeners.is_empty() {
        complaints.extend(unused(loader, site));
    }
    match &site.tls.automatic {
        Some((Automatic::On, at)) => complaints.extend(automatic(loader, site, at)),
        Some((Automatic::OnDemand, at)) if !loader.meant.ask && !site.is_looked_up => {
            let help = "add ask = \"http://...\" to [acme]: else anyone could have certificates made without end, against the authority's limits";
            complaints.push((
                Severity::Error,
                at.clone(),
                "certificates on demand need a rule for which names".into(),
                help,
            ));
        }
        _ => {}
    }
    match &site.tls.automatic {
        Some((Automatic::On | Automatic::OnDemand, at)) if complaints.is_empty() => {
            complaints.extend(out_of_reach(loader, at))
        }
        _ => {}
    }
    complaints
}

fn is_encrypted(loader: &Loader, site: &SiteDraft) -> bool {
    loader
        .listeners
        .iter()
        .any(|(listener, _)| listener.tls.is_some() && site.is_on(&listener.address))
}

/// What a site says about TLS that it never speaks.
fn unused(loader: &Loader, site: &SiteDraft) -> Vec<Complaint> {
    if loader.meant.tls_listener
        && loader
            .listeners
            .iter()
            .all(|(listener, _)| listener.tls.is_none())
    {
        return Vec::new();
    }
    let help =
        "add tls = true to a [[listener]] on which the site is found, such as that of \":443\"";
    let idle = site.tls.material().map(|at| {
        let message = "this site has certificates, but no listener for TLS".to_owned();
        (Severity::Warning, at.clone(), message, help)
    });
    let nowhere = site.https_redirect.as_ref().map(|(_, at)| {
        let message = "`https_redirect` leads nowhere: the site has no listener for TLS".to_owned();
        (Severity::Error, at.clone(), message, help)
    });
    idle.into_iter().chain(nowhere).collect()
}

/// Authorities look at two ports, whatever a listener's is. Something in front may bring them here,
/// hence no error.
fn out_of_reach(loader: &Loader, at: &At) -> Option<Complaint> {
    let usual = Acme::default();
    let challenges = loader
        .acme
        .as_ref()
        .map_or(&usual.challenges, |(acme, _)| &acme.challenges);
    let has_listener = |port: u16, tls: bool| {
        loader
            .listeners
            .iter()
            .filter(|(listener, _)| listener.tls.is_some() == tls)
            .any(|(listener, _)| match &listener.address {
                Address::Tcp(address) => address.port() == port,
                Address::Unix(_) => true,
            })
    };
    let is_found = |way: &AcmeChallenge| match way {
        AcmeChallenge::Http01 => has_listener(80, false),
        AcmeChallenge::TlsAlpn01 => has_listener(443, true),
        AcmeChallenge::Dns01 => true,
    };
    if loader.listeners.is_empty() || challenges.is_empty() || challenges.iter().any(is_found) {
        return None;
    }
    let (message, help) = match challenges.as_slice() {
        [AcmeChallenge::Http01] => (
            "no listener on port 80, where an authority looks (http-01)",
            "add a [[listener]] with address = \":80\"",
        ),
        [AcmeChallenge::TlsAlpn01] => (
            "no TLS listener on port 443, where an authority looks (tls-alpn-01)",
            "add a [[listener]] with address = \":443\" and tls = true",
        ),
        _ => (
            "no listener on port 80 and none for TLS on port 443, where an authority looks",
            "add a [[listener]] with address = \":80\", unless one of those ports is forwarded to a listener",
        ),
    };
    Some((Severity::Warning, at.clone(), message.into(), help))
}

fn automatic(loader: &Loader, site: &SiteDraft, at: &At) -> Vec<Complaint> {
    let names = site.names.as_deref().unwrap_or_default();
    if !names.is_empty() && names.iter().all(|(name, _)| *name == SiteName::Any)
        || site.names.is_none()
    {
        let help = "give the site `names`, such as [\"example.org\", \"www.example.org\"], or write automatic = \"on-demand\"";
        return vec![(
            Severity::Error,
            at.clone(),
            "there is no certificate for \"*\"".into(),
            help,
        )];
    }
    let by_record = loader
        .acme
        .as_ref()
        .is_some_and(|(acme, _)| acme.challenges.contains(&AcmeChallenge::Dns01));
    let wildcard = names
        .iter()
        .find(|(name, _)| matches!(name, SiteName::Wildcard(_)));
    let help = match loader.meant.dns_command {
        true => "add \"dns-01\" to `challenges` of [acme]",
        false => {
            "add dns_command = \"/path/of/program\" to [acme], or name each host, or write automatic = \"on-demand\""
        }
    };
    let complaint = wildcard
        .filter(|_| !by_record && !dns_is_broken(loader))
        .map(|(_, at)| {
            let message = "a certificate for this needs a record in the zone (dns-01)".to_owned();
            (Severity::Error, at.clone(), message, help)
        });
    complaint.into_iter().collect()
}

/// A command that is meant and could not be read.
fn dns_is_broken(loader: &Loader) -> bool {
    loader.meant.dns_command
        && loader
            .acme
            .as_ref()
            .is_none_or(|(acme, _)| acme.dns_command.is_none())
}

/// The tables of `[[key]]`.
fn tables<'n, 't>(file: &'n DeTable<'t>, key: &str) -> impl Iterator<Item = &'n DeTable<'t>> {
    let array = match file.get(key).map(|node| node.get_ref()) {
        Some(DeValue::Array(array)) => Some(array),
        _ => None,
    };
    array
        .into_iter()
        .flat_map(|array| array.iter())
        .filter_map(|element| match element.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        })
}

fn is_false(value: &DeValue<'_>) -> bool {
    matches!(value, DeValue::Boolean(false))
}
