//! Other proxies on the way to servers (ProxyRemote, ProxyRemoteMatch, NoProxy), and hosts whose
//! servers a database names (mod_proxy_express).
//!
//! Place in the walk: `call` asks for each URL that a request is passed on to. Difficulty: what
//! goes through is the same server for the pools only as long as it goes through the same proxy.
//! Absent on purpose: NoProxy by what a name resolves to; networks are compared with addresses that
//! stand in its place.

use crate::{proxy::proxied::Proxied, state::state, worker::ApacheRules};
use saker_ap_expr::Subnet;
use saker_apache_model::{host::Host, proxy::pass::Encoding};
use saker_config::model::{BackendAddress, Protocol, Through, Upstream};
use saker_pipeline::Exchange;
use saker_telemetry::{error_log, message};
use std::{net::IpAddr, sync::Arc};

/// The proxy on the way to a URL, with its number; the first that is for it. `asked`: the host of
/// the request, which is what NoProxy is compared with (mod_proxy as it behaves; of a forward proxy
/// it is the server's).
pub fn on_the_way<'h>(
    host: &'h Host,
    asked: &[u8],
    url: &[u8],
) -> Option<(usize, &'h Arc<Through>)> {
    let remotes = &host.proxy.remotes;
    if remotes.is_empty() || is_direct(&host.proxy.direct, asked) {
        return None;
    }
    let url = std::str::from_utf8(url).ok()?;
    remotes
        .iter()
        .position(|remote| remote.is_for(url))
        .and_then(|at| Some((at, &remotes.get(at)?.through)))
}

/// NoProxy: names, domains with their dot, addresses, networks.
fn is_direct(words: &[Box<str>], host: &[u8]) -> bool {
    let host = String::from_utf8_lossy(host).to_ascii_lowercase();
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    words.iter().any(|word| match address {
        Some(address) => {
            Subnet::parse(word.as_bytes()).is_ok_and(|network| network.contains(address))
                || word.eq_ignore_ascii_case(&host)
        }
        None if word.starts_with('.') => {
            host.len() > word.len() && host.ends_with(&*word.to_ascii_lowercase())
        }
        None => word.eq_ignore_ascii_case(&host),
    })
}

/// The same servers, asked through a proxy: over a tunnel where TLS is to be theirs, else by their
/// whole URL (RFC 9112 section 3.2.2).
pub fn through(upstream: &Upstream, proxy: &Arc<Through>) -> Upstream {
    let mut upstream = upstream.clone();
    for member in &mut upstream.members {
        if member.backend.protocol != Protocol::Http1
            || !matches!(member.backend.address, BackendAddress::Tcp { .. })
        {
            continue;
        }
        if member.backend.tls.is_none() {
            member.path = format!("http://{}{}", member.authority, member.path).into();
        }
        let mut backend = (*member.backend).clone();
        backend.through = Some(Arc::clone(proxy));
        member.backend = Arc::new(backend);
    }
    upstream
}

/// The server of the host that is asked for, if the database has one. A database that can't be read
/// has none (mod_proxy_express as it behaves).
pub fn express(rules: &ApacheRules, exchange: &mut Exchange, host: &Host) {
    let Some(express) = &host.proxy.express else {
        return;
    };
    exchange.depends_on_request();
    let records = match rules.read_database(&express.kind, &express.file) {
        Ok(records) => records,
        Err(reason) => {
            let file = express.file.display();
            return error_log::log_about(
                &message::HANDLER_NOT_THERE,
                exchange,
                format_args!("ProxyExpressDBMFile {file}: {reason}"),
            );
        }
    };
    let name = match (exchange.host.is_empty(), host.server_name.as_deref()) {
        (true, Some(own)) => own.as_bytes().to_vec(),
        _ => exchange.host.to_ascii_lowercase(),
    };
    // Some of what makes such files counts the byte behind a text.
    let ended = [name.as_slice(), b"\0"].concat();
    let Some(backend) = records
        .get(name.as_slice())
        .or_else(|| records.get(ended.as_slice()))
        .and_then(|values| values.first())
    else {
        return;
    };
    let backend = backend.strip_suffix(b"\0").unwrap_or(backend);
    let url = [backend, &exchange.path].concat();
    state(exchange).proxied = Some(Box::new(Proxied {
        url,
        encoding: Encoding::Decoded,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_reached_directly() {
        let words: Vec<Box<str>> = [".inside.test", "one.test", "10.0.0.0/8", "192.168.1.1"]
            .map(Into::into)
            .into();
        for (host, expected) in [
            ("a.inside.test", true),
            ("inside.test", false),
            ("ONE.test", true),
            ("two.one.test", false),
            ("10.1.2.3", true),
            ("192.168.1.1", true),
            ("192.168.1.2", false),
            ("[::1]", false),
            ("", false),
        ] {
            assert_eq!(is_direct(&words, host.as_bytes()), expected, "{host}");
        }
    }
}
