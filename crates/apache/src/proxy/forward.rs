//! Requests for other servers than this one's hosts, where it is a forward proxy (ProxyRequests
//! On).
//!
//! Place in the walk: before the host's rules, which have no say in what is not theirs. Difficulty:
//! an open proxy is found within hours. So it passes nothing on unless a `<Proxy>` section with
//! rules about access is for the URL; Apache, without any, lets everybody. Absent on purpose: FTP,
//! and other proxies on the way of CONNECT (it is refused where ProxyRemote names one).

use crate::{
    host_name::is_named,
    proxy::proxied::Proxied,
    state::{peek, state},
    verdict::Verdict,
};
use saker_apache_model::{host::Host, proxy::pass::Encoding};
use saker_config::model::{Backend, BackendAddress, Member, Protocol, Tuning, Upstream};
use saker_http::{Method, Status, Version, target};
use saker_pipeline::{Exchange, Response};
use saker_telemetry::{error_log, message};

/// Finds out whether the request is for another server, and notes it. `Some`: it is for none at
/// all.
pub fn detect(exchange: &mut Exchange, host: &Host) -> Option<Verdict> {
    let view = exchange.head.view();
    let is_connect = view.method() == Method::Connect;
    let url = match target::split(view.method(), view.target_as_sent()) {
        Ok(target::Target::Absolute {
            scheme, authority, ..
        }) if host.proxy.forwards_requests => {
            if is_ours(exchange, scheme, authority) {
                return None;
            }
            view.target_as_sent().to_vec()
        }
        // Over connections that many requests share it is not carried out.
        Ok(target::Target::Authority(authority))
            if host.proxy.forwards_requests && view.version() <= Version::Http11 =>
        {
            authority.to_vec()
        }
        _ if is_connect => {
            return Some(Verdict::Answer(crate::methods::with_methods(
                Status::METHOD_NOT_ALLOWED,
                host,
            )));
        }
        _ => return None,
    };
    exchange.depends_on_request();
    let own = state(exchange);
    own.proxied = Some(Box::new(Proxied {
        url,
        encoding: Encoding::Whole,
    }));
    own.is_forwarded = true;
    None
}

/// By scheme, name and port.
fn is_ours(exchange: &Exchange, scheme: &[u8], authority: &[u8]) -> bool {
    let is_secure = scheme.eq_ignore_ascii_case(b"https");
    let port = port_of(authority).unwrap_or(if is_secure { 443 } else { 80 });
    is_secure == exchange.client.secure
        && port == exchange.client.local.port()
        && is_named(exchange)
}

fn port_of(authority: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(authority).ok()?;
    text.rsplit_once(':')
        .filter(|(_, port)| !port.contains(']'))?
        .1
        .parse()
        .ok()
}

/// Refuses a forwarded request unless the settings in force for the URL allow it.
pub fn refusal(exchange: &Exchange, host: &Host, url: &[u8]) -> Option<Verdict> {
    if !peek(exchange).is_some_and(|own| own.is_forwarded) {
        return None;
    }
    let mut sections = host
        .proxy
        .sections
        .iter()
        .filter(|section| section.is_for(url));
    let is_ruled = sections.any(|section| section.local.auth.has_rules());
    let complain = |reason: &str| {
        let url = String::from_utf8_lossy(url);
        error_log::log_about(
            &message::ACCESS_REFUSED,
            exchange,
            format_args!("{url}: {reason}"),
        );
        Some(Verdict::Answer(Response::new(Status::FORBIDDEN)))
    };
    if !is_ruled {
        return complain(
            "a forward proxy passes on what a <Proxy> section with rules about access is for",
        );
    }
    let is_allowed = |port: u16| {
        host.proxy
            .connect_ports
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&port))
    };
    match exchange.head.view().method() {
        Method::Connect if !port_of(url).is_some_and(is_allowed) => {
            complain("AllowCONNECT does not name the port")
        }
        Method::Connect if !host.proxy.remotes.is_empty() => {
            complain("CONNECT through another proxy is not supported")
        }
        _ => None,
    }
}

/// The upstream of a tunnel.
pub fn tunnel_to(authority: &str, timeout_ms: u64) -> Option<Upstream> {
    let (name, port) = authority.rsplit_once(':')?;
    let backend = Backend::new(
        Protocol::Http1,
        BackendAddress::Tcp {
            host: name.into(),
            port: port.parse().ok()?,
        },
    );
    let tuning = Tuning {
        kept_max: 0,
        timeout_ms,
        ..Tuning::default()
    };
    Some(Upstream::new(authority, vec![Member::new(backend, tuning)]))
}

/// Access is decided by what was said to the proxy, and refused as a proxy refuses (RFC 9110
/// sections 11.7.1 and 15.5.8).
pub fn as_proxy(exchange: &mut Exchange, decide: impl FnOnce(&mut Exchange) -> Verdict) -> Verdict {
    if !peek(exchange).is_some_and(|own| own.is_forwarded) {
        return decide(exchange);
    }
    let head = exchange.head.clone();
    exchange.head = {
        let is_credentials = |name: &[u8], which: &str| name.eq_ignore_ascii_case(which.as_bytes());
        let view = head.view();
        let others = view
            .fields()
            .filter(|(name, _)| !is_credentials(name, "Authorization"));
        head.with_fields(others.map(|(name, value)| {
            if is_credentials(name, "Proxy-Authorization") {
                (&b"Authorization"[..], value)
            } else {
                (name, value)
            }
        }))
    };
    let verdict = decide(exchange);
    exchange.head = match exchange.access.user.is_some() {
        // They were for us.
        true => head.with_fields(
            head.view()
                .fields()
                .filter(|(name, _)| !name.eq_ignore_ascii_case(b"Proxy-Authorization")),
        ),
        false => head,
    };
    match verdict {
        Verdict::Answer(mut response) if response.status == Status::UNAUTHORIZED => {
            response.status = Status(407);
            let challenges: Vec<Vec<u8>> = {
                let lines = response
                    .fields()
                    .iter()
                    .filter(|(name, _)| name.eq_ignore_ascii_case("WWW-Authenticate"));
                lines.map(|(_, value)| value.to_vec()).collect()
            };
            let fields = response.fields_mut();
            fields.remove("WWW-Authenticate");
            challenges
                .into_iter()
                .for_each(|challenge| fields.append("Proxy-Authenticate", challenge));
            Verdict::Answer(response)
        }
        verdict => verdict,
    }
}
