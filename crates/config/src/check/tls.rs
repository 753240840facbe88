//! Checks of TLS and automatic certificates that need the whole configuration: listeners against
//! sites, sites against `[acme]`.
//!
//! Caveat: an item that is present but broken has been reported and must not be reported as
//! missing; see [`Mentions`](crate::configuration::Mentions).

use crate::{
    configuration::Configuration,
    diagnostic::Severity,
    directives::{site::SiteDraft, stream::StreamDraft, stream_target::ListenAddress},
    model::{Acme, AcmeChallenge, Address, Automatic, SiteName},
    source::Location,
};

/// Severity, location, message and help.
type Complaint = (Severity, Location, String, &'static str);

pub(super) fn whole(configuration: &mut Configuration) {
    if configuration.has_syntax_errors {
        return;
    }
    let mut complaints = bare_listeners(configuration);
    complaints.extend(
        configuration
            .sites
            .iter()
            .flat_map(|site| site_alone(configuration, site)),
    );
    complaints.extend(
        configuration
            .streams
            .iter()
            .flat_map(|stream| of_stream(configuration, stream)),
    );
    for (severity, at, message, help) in complaints {
        configuration.report(severity, &at, message, Some(help.into()));
    }
}

/// TLS listeners for which no site has a certificate.
fn bare_listeners(configuration: &Configuration) -> Vec<Complaint> {
    let has_certificate = |site: &&SiteDraft| site.tls.material().is_some();
    let listeners = configuration
        .listeners
        .iter()
        .filter(|(listener, _)| listener.tls.is_some());
    let bare = listeners.filter(|(listener, _)| {
        !configuration
            .sites
            .iter()
            .filter(has_certificate)
            .any(|site| site.is_on(&listener.address))
    });
    let help = match configuration.mentions.material {
        true => "add `certificate` or `automatic` to [site.tls] of a site on this listener",
        false => {
            "add [site.tls] to a site, with certificate = \"chain.pem\" and key = \"key.pem\", or \
             with automatic = true"
        }
    };
    let mut complaints: Vec<Complaint> = Vec::new();
    for (listener, at) in bare {
        // `:443` is two addresses at one location.
        if complaints.last().is_none_or(|(_, last, ..)| {
            last.span != at.span || last.source.order != at.source.order
        }) {
            let message = format!("no site has a certificate for {}", listener.address);
            complaints.push((Severity::Error, at.clone(), message, help));
        }
    }
    complaints
}

fn site_alone(configuration: &Configuration, site: &SiteDraft) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    if !is_encrypted(configuration, site) && !configuration.listeners.is_empty() {
        complaints.extend(unused(configuration, site));
    }
    match &site.tls.automatic {
        Some((Automatic::On, at)) => complaints.extend(automatic(configuration, site, at)),
        Some((Automatic::OnDemand, at)) if !configuration.mentions.ask && !site.is_looked_up => {
            complaints.push(without_rule(at));
        }
        _ => {}
    }
    match &site.tls.automatic {
        Some((Automatic::On | Automatic::OnDemand, at)) if complaints.is_empty() => {
            complaints.extend(out_of_reach(configuration, at))
        }
        _ => {}
    }
    complaints
}

fn without_rule(at: &Location) -> Complaint {
    let help = "add ask = \"http://...\" to [acme]: otherwise anyone could order certificates \
                until the authority's rate limit is reached";
    let message = "on-demand certificates require `ask`, which decides on names";
    (Severity::Error, at.clone(), message.into(), help)
}

/// Automatic certificates of a stream.
fn of_stream(configuration: &Configuration, stream: &StreamDraft) -> Vec<Complaint> {
    let names = stream.certificate_names.as_ref();
    let names: Vec<(SiteName, Location)> = names
        .map(|(names, at)| {
            names
                .iter()
                .map(|name| (name.clone(), at.clone()))
                .collect()
        })
        .unwrap_or_default();
    let mut complaints = Vec::new();
    match &stream.tls.automatic {
        Some((Automatic::On, at)) => {
            if let Some((_, at)) = names.iter().find(|(name, _)| *name == SiteName::Any) {
                let help = "list names, such as [\"db.example.org\"]";
                let message = "cannot order a certificate for \"*\"";
                complaints.push((Severity::Error, at.clone(), message.into(), help));
            }
            complaints.extend(wildcards(configuration, &names));
            if complaints.is_empty() {
                complaints.extend(out_of_reach(configuration, at));
            }
        }
        Some((Automatic::OnDemand, at)) if !configuration.mentions.ask => {
            complaints.push(without_rule(at));
        }
        _ => {}
    }
    complaints
}

fn is_encrypted(configuration: &Configuration, site: &SiteDraft) -> bool {
    configuration
        .listeners
        .iter()
        .any(|(listener, _)| listener.tls.is_some() && site.is_on(&listener.address))
}

/// TLS settings of a site without a TLS listener.
fn unused(configuration: &Configuration, site: &SiteDraft) -> Vec<Complaint> {
    if configuration.mentions.tls_listener
        && configuration
            .listeners
            .iter()
            .all(|(listener, _)| listener.tls.is_none())
    {
        return Vec::new();
    }
    let help = "add tls = true to a [[listener]] of the site, such as the one on \":443\"";
    let idle = site.tls.material().map(|at| {
        let message = "this site has certificates, but no listener with TLS".to_owned();
        (Severity::Warning, at.clone(), message, help)
    });
    let nowhere = site.https_redirect.as_ref().map(|(_, at)| {
        let message =
            "`https_redirect` has no target: the site has no listener with TLS".to_owned();
        (Severity::Error, at.clone(), message, help)
    });
    idle.into_iter().chain(nowhere).collect()
}

/// Certificate authorities connect to two fixed ports. Something in front of the server may forward
/// them, so this is only a warning.
fn out_of_reach(configuration: &Configuration, at: &Location) -> Option<Complaint> {
    let usual = Acme::default();
    let challenges = configuration
        .acme
        .as_ref()
        .map_or(&usual.challenges, |(acme, _)| &acme.challenges);
    let is_at = |address: &Address, port: u16| match address {
        Address::Tcp(address) => address.port() == port,
        Address::Unix(_) => true,
    };
    let has_listener = |port: u16, tls: bool| {
        configuration
            .listeners
            .iter()
            .filter(|(listener, _)| listener.tls.is_some() == tls)
            .any(|(listener, _)| is_at(&listener.address, port))
    };
    let streams = configuration.streams.iter();
    let mut of_streams = streams
        .filter(|stream| stream.tls_at.is_some())
        .flat_map(|stream| &stream.listen);
    let has_stream = of_streams.any(|(listen, _)| match listen {
        ListenAddress::Stream(address) => is_at(address, 443),
        ListenAddress::Datagrams(_) => false,
    });
    let is_found = |way: &AcmeChallenge| match way {
        AcmeChallenge::Http01 => has_listener(80, false),
        AcmeChallenge::TlsAlpn01 => has_stream || has_listener(443, true),
        AcmeChallenge::Dns01 => true,
    };
    if configuration.listeners.is_empty() && configuration.streams.is_empty()
        || challenges.is_empty()
        || challenges.iter().any(is_found)
    {
        return None;
    }
    let (message, help) = match challenges.as_slice() {
        [AcmeChallenge::Http01] => (
            "no listener on port 80, which the authority connects to (http-01)",
            "add a [[listener]] with address = \":80\"",
        ),
        [AcmeChallenge::TlsAlpn01] => (
            "no TLS listener on port 443, which the authority connects to (tls-alpn-01)",
            "add a [[listener]] with address = \":443\" and tls = true",
        ),
        _ => (
            "no listener on port 80 and no TLS listener on port 443, which the authority connects \
             to",
            "add a [[listener]] with address = \":80\", unless one of those ports is forwarded to a listener",
        ),
    };
    Some((Severity::Warning, at.clone(), message.into(), help))
}

fn automatic(configuration: &Configuration, site: &SiteDraft, at: &Location) -> Vec<Complaint> {
    let names = site.names.as_deref().unwrap_or_default();
    if !names.is_empty() && names.iter().all(|(name, _)| *name == SiteName::Any)
        || site.names.is_none()
    {
        let help = "add `names` to the site, such as [\"example.org\", \"www.example.org\"], or \
                    set automatic = \"on-demand\"";
        return vec![(
            Severity::Error,
            at.clone(),
            "cannot order a certificate for \"*\"".into(),
            help,
        )];
    }
    wildcards(configuration, names)
}

/// Wildcards that no challenge could be met for.
fn wildcards(configuration: &Configuration, names: &[(SiteName, Location)]) -> Vec<Complaint> {
    let by_record = configuration
        .acme
        .as_ref()
        .is_some_and(|(acme, _)| acme.challenges.contains(&AcmeChallenge::Dns01));
    let wildcard = names
        .iter()
        .find(|(name, _)| matches!(name, SiteName::Wildcard(_)));
    let help = match configuration.mentions.dns_command {
        true => "add \"dns-01\" to `challenges` of [acme]",
        false => {
            "add dns_command = \"/path/of/program\" to [acme], or list each host name, or set \
             automatic = \"on-demand\""
        }
    };
    let complaint = wildcard
        .filter(|_| !by_record && !dns_is_broken(configuration))
        .map(|(_, at)| {
            let message = "a wildcard certificate requires the dns-01 challenge".to_owned();
            (Severity::Error, at.clone(), message, help)
        });
    complaint.into_iter().collect()
}

/// Returns whether `dns_command` is mentioned but broken.
fn dns_is_broken(configuration: &Configuration) -> bool {
    configuration.mentions.dns_command
        && configuration
            .acme
            .as_ref()
            .is_none_or(|(acme, _)| acme.dns_command.is_none())
}
