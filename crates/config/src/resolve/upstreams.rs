//! Upstreams named by routes and `authorize`: names are looked up, URLs become upstreams of one
//! server.
//!
//! Called by: `resolve::all`, when all files have been read, as a route may name an upstream of
//! another file.

use crate::{
    configuration::Configuration,
    diagnostic::{Diagnostic, Severity, quoted},
    directives::{
        upstream::default_kept,
        upstream_server::{read_bytes_server, read_server},
    },
    model::{
        Action, Authorize, Backend, BackendAddress, BackendTls, DiscoveredServer, Discovery,
        Member, MemberState, Origin, ProxyTerms, Revision, Tuning, Upstream,
    },
};
use std::{collections::HashMap, net::IpAddr, path::Path, sync::Arc};

/// Longest silence of a server that a document is fetched from.
const FETCH_TIMEOUT_MS: u64 = 10_000;
/// Longest URL of a server that is added to a running server.
const ADDRESS_BYTES_MAX: usize = 512;

/// Origin, message, and help.
type Complaint = (Origin, String, String);

/// Resolves the upstreams of all routes.
pub(super) fn resolve(configuration: &mut Configuration) {
    let mut known: HashMap<String, Arc<Upstream>> = HashMap::new();
    for (name, upstream, at) in std::mem::take(&mut configuration.upstreams) {
        let said_twice = format!("duplicate upstream {}", quoted(&name));
        // A broken upstream exists for those that name it.
        let upstream = upstream.unwrap_or_else(|| Upstream::new(&name, Vec::new()));
        if known.insert(name, Arc::new(upstream)).is_some() {
            configuration.report(
                Severity::Error,
                &at,
                said_twice,
                Some("give each a unique name".into()),
            );
        }
    }
    let mut all: Vec<Arc<Upstream>> = known.values().map(Arc::clone).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    let mut complaints: Vec<Complaint> = Vec::new();
    let mut find = |said: &str, origin: &Origin| {
        if let Some(upstream) = known.get(said) {
            if let Some(message) = for_streams(upstream) {
                let help = "write it with http://, or name the upstream in [[stream]]";
                complaints.push((origin.clone(), message, help.to_owned()));
                return None;
            }
            return Some(Arc::clone(upstream));
        }
        let Some(upstream) = of_url(said) else {
            let near = crate::suggest::nearest(said, known.keys().map(String::as_str));
            let help = near.map_or_else(
                || "add [[upstream]] with this name".to_owned(),
                |name| format!("did you mean \"{name}\"?"),
            );
            let message = format!("unknown upstream {}", quoted(said));
            complaints.push((origin.clone(), message, help));
            return None;
        };
        all.push(Arc::clone(&upstream));
        known.insert(said.to_owned(), Arc::clone(&upstream));
        Some(upstream)
    };
    for site in &mut configuration.sites {
        authorized(&mut site.settings.authorize, &mut find);
        for route in &mut site.routes {
            if route.settings.authorize.is_some() {
                authorized(&mut Arc::make_mut(&mut route.settings).authorize, &mut find);
            }
            if let Action::Proxy(proxy) = &mut route.action
                && let Some(upstream) = find(&proxy.said, &proxy.origin)
            {
                proxy.upstream = upstream;
            }
            if let Action::Proxy(proxy) = &mut route.action {
                mirrored(&mut proxy.terms, &mut find);
            }
        }
    }
    // A collector is no upstream of requests: its health is not checked.
    if let Some((tracing, _)) = &mut configuration.tracing {
        tracing.upstream = tracing.endpoint.as_deref().and_then(of_url);
    }
    configuration.resolved = all;
    for (origin, message, help) in complaints {
        report(configuration, origin, message, help);
    }
}

/// Reports an error about a value by its origin, with its line where the source is known.
fn report(configuration: &mut Configuration, origin: Origin, message: String, help: String) {
    let mut texts = configuration.texts.iter();
    let source = texts.find(|source| source.name == origin.file);
    match source.and_then(|source| source.locate(&origin)) {
        Some(at) => configuration.report(Severity::Error, &at, message, Some(help)),
        None => configuration.diagnostics.push(Diagnostic::without_source(
            origin,
            format!("{message} ({help})"),
        )),
    }
}

/// A message about an upstream that no request can be sent to.
fn for_streams(upstream: &Upstream) -> Option<String> {
    let mut members = upstream.templates();
    let member = members.find(|member| member.backend.protocol.is_of_streams())?;
    let name = quoted(&upstream.name);
    Some(match upstream.members.is_empty() {
        true => format!("upstream {name} is for streams: its `scheme` is not of HTTP"),
        false => format!(
            "upstream {name} is for streams: its server {} speaks no HTTP",
            member.backend
        ),
    })
}

/// Resolves the upstream of `authorize`.
fn authorized(
    authorize: &mut Option<Arc<Authorize>>,
    find: &mut impl FnMut(&str, &Origin) -> Option<Arc<Upstream>>,
) {
    let Some(authorize) = authorize.as_mut().map(Arc::make_mut) else {
        return;
    };
    authorize.upstream = authorize
        .said
        .as_deref()
        .and_then(|said| find(said, &authorize.origin));
}

/// Resolves the upstream of `mirror`.
fn mirrored(
    terms: &mut Arc<ProxyTerms>,
    find: &mut impl FnMut(&str, &Origin) -> Option<Arc<Upstream>>,
) {
    let Some(mut mirror) = terms.mirror.clone() else {
        return;
    };
    let own = Arc::make_mut(&mut mirror);
    own.upstream = find(&own.said, &own.origin);
    Arc::make_mut(terms).mirror = Some(mirror);
}

/// Makes an upstream of one server from a URL.
fn of_url(said: &str) -> Option<Arc<Upstream>> {
    let server = read_server(said).ok().filter(|_| said.contains(':'))?;
    let tuning = Arc::new(Tuning {
        kept_max: default_kept(server.backend.protocol),
        ..Tuning::default()
    });
    Some(Arc::new(Upstream::new(said, vec![server.member(&tuning)])))
}

/// The upstream with other servers: those at `added` URLs besides its own, and without those whose
/// addresses are `removed`. Servers that `before` has keep their state. A server that is added is
/// like the first one of the upstream in everything but its address.
///
/// # Errors
/// The reason why the servers do not fit the upstream.
pub fn with_servers(
    base: &Upstream,
    before: &Upstream,
    (added, removed): (&[String], &[String]),
) -> Result<Upstream, String> {
    let first = base.templates().next();
    let first = first.ok_or("the upstream has no server to take settings from")?;
    let kept = base.members.iter().filter(|member| {
        let address = member.address();
        !removed.contains(&address)
    });
    let mut members: Vec<Member> = kept.cloned().collect();
    for url in added {
        let member = like(first, url)?;
        let address = member.address();
        if members.iter().any(|own| own.address() == address) {
            return Err(format!("the upstream has {address} already"));
        }
        let known = before.members.iter().find(|own| own.address() == address);
        members.push(known.cloned().unwrap_or(member));
    }
    match members.is_empty() {
        true => Err("an upstream needs a server".to_owned()),
        false => Ok(Upstream {
            members,
            revision: Revision::default(),
            ..base.clone()
        }),
    }
}

/// The upstream with the servers that its source names, besides its own. Servers that `before` has
/// keep their state.
pub fn with_discovered(
    configured: &Upstream,
    before: &Upstream,
    found: &[DiscoveredServer],
) -> Upstream {
    let mut members = configured.members.clone();
    let Some(discovery) = configured.discovery.as_deref() else {
        return configured.clone();
    };
    let template = &discovery.template;
    for server in found {
        let host = match server.ip {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let (host, port) = (host.into(), server.port);
        let backend = Backend {
            address: BackendAddress::Tcp { host, port },
            ..Backend::clone(&template.backend)
        };
        let is_same = |one: &&Member| *one.backend == backend;
        if members.iter().any(|own| is_same(&own)) {
            continue;
        }
        let known = before.members.iter().find(is_same);
        members.push(Member {
            weight: server.weight.saturating_mul(100),
            set: server.set,
            state: known.map_or_else(MemberState::default, |known| known.state.clone()),
            backend: known
                .map_or_else(|| Arc::new(backend.clone()), |one| Arc::clone(&one.backend)),
            ..template.clone()
        });
    }
    // Without `found`, which would hold the new upstream: a circle that nothing frees.
    let discovery = Discovery {
        found: Revision::default(),
        ..discovery.clone()
    };
    Upstream {
        members,
        discovery: Some(Arc::new(discovery)),
        revision: Revision::default(),
        ..configured.clone()
    }
}

/// The address of a server of an upstream at a URL.
///
/// # Errors
/// The reason why it does not fit the upstream.
pub fn server_address(upstream: &Upstream, url: &str) -> Result<String, String> {
    let first = upstream.templates().next();
    let first = first.ok_or("the upstream has no server to take settings from")?;
    like(first, url).map(|member| member.address())
}

/// A server like another one, at its own address.
fn like(first: &Member, url: &str) -> Result<Member, String> {
    if url.len() > ADDRESS_BYTES_MAX || url.contains(|c: char| c.is_control() || c == ' ') {
        return Err("invalid URL of a server".to_owned());
    }
    let server = match first.backend.protocol.is_of_streams() {
        true => read_bytes_server(url),
        false => read_server(url),
    };
    let server = server.map_err(|error| {
        let words = [error.message, error.help];
        let words: Vec<String> = words.into_iter().flatten().collect();
        match words.is_empty() {
            true => format!("invalid URL of a server: {url}"),
            false => words.join("; "),
        }
    })?;
    let backend = &first.backend;
    let is_same = server.backend.protocol == backend.protocol
        && server.backend.tls.is_some() == backend.tls.is_some();
    if !is_same {
        return Err(format!(
            "servers of this upstream have URLs with {}://",
            backend.scheme()
        ));
    }
    if !server.path.is_empty() && server.path != first.path {
        return Err("the path is not that of the other servers".to_owned());
    }
    Ok(Member {
        backend: Arc::new(Backend {
            address: server.backend.address,
            ..Backend::clone(backend)
        }),
        weight: 100,
        route: None,
        redirect: None,
        is_standby: false,
        is_spare: false,
        is_disabled: false,
        is_stopped: false,
        is_draining: false,
        state: MemberState::default(),
        ..first.clone()
    })
}

/// Upstream and target for a document that the server itself fetches from a URL; `authority`: a file
/// of authorities instead of the system's. `None`: not an http: or https: URL.
pub fn fetched_from(url: &str, authority: Option<&Path>) -> Option<(Arc<Upstream>, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at_checked(at)?;
    let target = match target.starts_with('/') {
        true => target.to_owned(),
        false => format!("/{target}"),
    };
    let mut server = read_server(&format!("{scheme}://{host}")).ok()?;
    server.backend.tls = match scheme {
        "https" => Some(BackendTls {
            authorities: authority.map(Path::to_owned).into_iter().collect(),
            ..BackendTls::default()
        }),
        "http" => None,
        _ => return None,
    };
    let tuning = Arc::new(Tuning {
        timeout_ms: FETCH_TIMEOUT_MS,
        connect_timeout_ms: FETCH_TIMEOUT_MS,
        ..Tuning::default()
    });
    let upstream = Upstream::new(&format!("{scheme}://{host}"), vec![server.member(&tuning)]);
    Some((Arc::new(upstream), target))
}
