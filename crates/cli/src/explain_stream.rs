//! `saker explain tcp://…`, `tls://…`, `udp://…`: the way of a session that is never begun.
//!
//! Called by: `explain`, for URLs with one of these schemes.
//! Caveat: the client is not known, so rules about it are shown and not decided; of a handshake,
//! the server name is known, and no protocol.
//! Out of scope: streams of nginx's configuration, whose rules have variables.

use saker_config::{
    Model,
    model::{Address, BackendAddress, SiteName, Stream, StreamRoute, StreamServer, StreamTarget},
};
use saker_net::proxy_preface::PrefaceVersion;
use saker_pipeline::TraceStep;
use std::net::{IpAddr, SocketAddr};

/// Returns the steps of a session; `None`: the URL is not one of a stream.
///
/// # Errors
/// Nothing listens there, or the URL has no port.
pub fn steps(model: &Model, url: &str) -> Option<Result<Vec<TraceStep>, String>> {
    let (scheme, rest) = url.split_once("://")?;
    if !matches!(scheme, "tcp" | "tls" | "udp") {
        return None;
    }
    Some(of_session(model, scheme, rest.trim_end_matches('/')))
}

fn of_session(model: &Model, scheme: &str, rest: &str) -> Result<Vec<TraceStep>, String> {
    let (host, port) = rest
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)))
        .ok_or_else(|| format!("no port in {rest}: write {scheme}://host:port"))?;
    let ip: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let hears = |address: SocketAddr| {
        address.port() == port
            && ip.is_none_or(|ip| address.ip() == ip || address.ip().is_unspecified())
    };
    let server = server(model, scheme, &hears)
        .ok_or_else(|| format!("no [[stream]] listens on {rest} ({scheme})"))?;
    let stream = model
        .streams
        .get(server.number)
        .ok_or("streams of this configuration are not explained")?;
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let name = (scheme == "tls" && ip.is_none() && !name.is_empty()).then_some(name);
    let mut steps = vec![step(
        "stream",
        format!("{} takes the session", stream.name),
        Some(&stream.origin),
    )];
    before_routes(stream, server, &mut steps);
    route(stream, scheme, name.as_deref(), &mut steps);
    Ok(steps)
}

/// The settings of the listener, over the protocol of the scheme.
fn server<'m>(
    model: &'m Model,
    scheme: &str,
    hears: &dyn Fn(SocketAddr) -> bool,
) -> Option<&'m StreamServer> {
    if scheme == "udp" {
        let found = model.datagrams.iter().find(|one| hears(one.address))?;
        return Some(&found.server);
    }
    let mut streams = model.listeners.iter().filter_map(|listener| {
        let server = listener.stream.as_deref()?;
        match listener.address {
            Address::Tcp(address) => hears(address).then_some(server),
            Address::Unix(_) => None,
        }
    });
    streams.next()
}

fn before_routes(stream: &Stream, server: &StreamServer, steps: &mut Vec<TraceStep>) {
    let limits = [
        (stream.sessions_max, "connections"),
        (stream.sessions_per_client_max, "connections of one client"),
    ];
    for (max, what) in limits.into_iter().filter(|(max, _)| *max > 0) {
        let text = format!("at most {max} {what}");
        steps.push(step("limit", text, Some(&stream.origin)));
    }
    if !stream.access.is_idle() {
        let rules = &stream.access;
        let text = format!(
            "clients are looked up in {} allowed and {} denied networks",
            rules.allow.networks.len(),
            rules.deny.networks.len()
        );
        steps.push(step("access", text, Some(&stream.origin)));
    }
    if server.reads_hello {
        let text = "the ClientHello is looked at, and passed on".to_owned();
        steps.push(step("tls", text, Some(&stream.origin)));
    }
}

fn route(stream: &Stream, scheme: &str, name: Option<&str>, steps: &mut Vec<TraceStep>) {
    for route in &stream.routes {
        // A name is what the URL has; the rest is shown as a condition.
        let named = StreamRoute {
            protocols: Vec::new(),
            clients: Vec::new(),
            ..route.clone()
        };
        let no_client = IpAddr::from([0, 0, 0, 0]);
        let is_met = named.matches(name, std::iter::empty(), no_client);
        if !is_met || (scheme != "tls" && route.looks_at_hello()) {
            let text = format!("{} does not match", conditions(route));
            steps.push(step("route", text, Some(&route.origin)));
            continue;
        }
        let is_sure = route.protocols.is_empty() && route.clients.is_empty();
        let text = match is_sure {
            true => format!("{} matches", conditions(route)),
            false => format!("{} matches, depending on the client", conditions(route)),
        };
        steps.push(step("route", text, Some(&route.origin)));
        target(&route.target, &route.origin, steps);
        if is_sure {
            return;
        }
    }
    match &stream.default {
        Some(found) => target(found, &stream.origin, steps),
        None => {
            let text = "no route, and no `proxy` of the stream: refused".to_owned();
            steps.push(step("end", text, Some(&stream.origin)));
        }
    }
}

fn conditions(route: &StreamRoute) -> String {
    let names = route.names.iter().map(|name| match name {
        SiteName::Exact(name) => name.clone(),
        SiteName::Wildcard(name) => format!("*.{name}"),
        SiteName::Any => "*".to_owned(),
    });
    let protocols = route.protocols.iter();
    let protocols = protocols.map(|one| String::from_utf8_lossy(one).into_owned());
    let clients = route.clients.iter().map(ToString::to_string);
    let parts = [
        ("sni", names.collect::<Vec<_>>()),
        ("alpn", protocols.collect()),
        ("client", clients.collect()),
    ];
    let shown = parts.iter().filter(|(_, values)| !values.is_empty());
    let each: Vec<String> = shown
        .map(|(key, values)| format!("{key} {}", values.join(" ")))
        .collect();
    each.join(", ")
}

fn target(target: &StreamTarget, origin: &saker_config::model::Origin, steps: &mut Vec<TraceStep>) {
    let preface = match target.preface {
        None => "",
        Some(PrefaceVersion::V1) => ", with a PROXY header (version 1)",
        Some(PrefaceVersion::V2) => ", with a PROXY header (version 2)",
    };
    let members = target.upstream.members.iter().map(|member| {
        let role = if member.is_standby { " (standby)" } else { "" };
        match &member.backend.address {
            BackendAddress::Unix(path) => format!("unix:{}{role}", path.display()),
            BackendAddress::Tcp { host, port } => {
                let tls = if member.backend.tls.is_some() {
                    "tls://"
                } else {
                    ""
                };
                format!("{tls}{host}:{port}{role}")
            }
        }
    });
    let members: Vec<String> = members.collect();
    let text = format!("to {}{preface}", members.join(", "));
    steps.push(step("proxy", text, Some(origin)));
}

fn step(
    phase: &'static str,
    text: String,
    origin: Option<&saker_config::model::Origin>,
) -> TraceStep {
    TraceStep {
        phase,
        text,
        origin: origin.cloned(),
    }
}
