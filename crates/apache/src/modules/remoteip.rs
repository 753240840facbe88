//! mod_remoteip: the client behind trusted proxies, as their field names it.
//!
//! Before everything else that looks at the client. The list is read as everywhere
//! (`saker_ipset::forwarded`); the fields are rewritten as Apache does. Absent on purpose: the PROXY
//! preface, which is the listener's business.

use saker_apache_model::{host::Host, modules::remoteip::RemoteIp};
use saker_http::field_name::is_alike;
use saker_ipset::forwarded::{self, Trust};
use saker_pipeline::{Client, Exchange};
use saker_telemetry::{error_log, message};
use std::{
    net::{IpAddr, SocketAddr},
    rc::Rc,
};

/// The client that the fields of a request name.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    client: IpAddr,
    /// The part of the field that was not read, or not believed.
    left: Option<String>,
    /// Proxies outside of our networks, the nearest one first.
    proxies: Vec<IpAddr>,
}

/// Puts the client in the place of its proxy.
pub fn find_client(exchange: &mut Exchange, host: &Host) {
    let settings = &host.defaults.remoteip;
    let Some(header) = &settings.header else {
        return;
    };
    // Logs name the client, so no answer goes out without its walk.
    exchange.depends_on_request();
    drop_spoofs(exchange, settings);
    let lines = exchange
        .head
        .view()
        .fields()
        .filter(|(name, _)| name.eq_ignore_ascii_case(header.as_bytes()))
        .map(|(_, value)| value);
    let text = String::from_utf8_lossy(&lines.collect::<Vec<_>>().join(&b", "[..])).into_owned();
    if text.is_empty() {
        return;
    }
    let Some(named) = read(settings, exchange.client.ip(), &text) else {
        return;
    };
    let mut fields = vec![(header.clone(), named.left.clone().unwrap_or_default())];
    if let Some(name) = settings
        .proxies_header
        .as_ref()
        .filter(|_| !named.proxies.is_empty())
    {
        let list: Vec<String> = named.proxies.iter().map(IpAddr::to_string).collect();
        fields.push((name.clone(), list.join(", ")));
    }
    set_fields(exchange, &fields);
    exchange.client = Rc::new(with_address(&exchange.client, named.client));
}

/// Takes away other spellings of the fields that tell the client's address: programs can't tell
/// them from the real ones.
fn drop_spoofs(exchange: &mut Exchange, settings: &RemoteIp) {
    let is_spoof = |name: &[u8]| {
        let is_alike_only = |own: &str| {
            is_alike(name, own.as_bytes()) && !name.eq_ignore_ascii_case(own.as_bytes())
        };
        [&settings.header, &settings.proxies_header]
            .into_iter()
            .flatten()
            .any(|own| is_alike_only(own))
    };
    if exchange
        .head
        .view()
        .fields()
        .any(|(name, _)| is_spoof(name))
    {
        exchange.head = exchange.head.with_fields(
            exchange
                .head
                .view()
                .fields()
                .filter(|(name, _)| !is_spoof(name)),
        );
    }
}

fn with_address(client: &Client, address: IpAddr) -> Client {
    let mut named = client.with_address(SocketAddr::new(address, 0));
    named.account.clone_from(&client.account);
    named
}

/// Empty values take the field away.
fn set_fields(exchange: &mut Exchange, fields: &[(Box<str>, String)]) {
    let head = exchange.head.clone();
    let others = head.view().fields().filter(|(name, _)| {
        !fields
            .iter()
            .any(|(own, _)| name.eq_ignore_ascii_case(own.as_bytes()))
    });
    let own = fields
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    exchange.head = head.with_fields(others.chain(own));
}

/// `None`: the field changes nothing.
fn read(settings: &RemoteIp, connection: IpAddr, text: &str) -> Option<Named> {
    let trust = |address| match settings.is_internal(address) {
        None => Trust::No,
        Some(false) => Trust::Outside,
        Some(true) => Trust::Inside,
    };
    // Apache takes no ports.
    let hops =
        forwarded::elements_from_end(text).map(|hop| Some(SocketAddr::new(hop.parse().ok()?, 0)));
    let found = forwarded::follow(SocketAddr::new(connection, 0), hops, trust);
    if let Some((address, named_by)) = found.disbelieved {
        error_log::log(
            &message::REMOTE_ADDRESS,
            format_args!("{address}, named by {named_by}"),
        );
    }
    if found.believed == 0 {
        return None;
    }
    let left = (0..found.believed).try_fold(text, |left, _| Some(left.rsplit_once(',')?.0));
    Some(Named {
        client: found.client.ip(),
        left: left.map(|left| left.trim().to_owned()),
        proxies: found.proxies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_ap_expr::Subnet;
    use saker_apache_model::modules::remoteip::Proxy;
    use std::sync::Arc;

    fn settings() -> RemoteIp {
        let proxy = |text: &str, is_internal| Proxy {
            network: Subnet::parse(text.as_bytes()).unwrap(),
            is_internal,
        };
        let proxies = vec![
            proxy("127.0.0.1", true),
            proxy("10.0.0.0/8", true),
            proxy("11.0.0.0/8", false),
        ];
        RemoteIp {
            proxies: Some(Arc::new(proxies)),
            ..RemoteIp::default()
        }
    }

    #[test]
    fn as_apache_reads_it() {
        for (text, expected) in [
            ("1.2.3.4", "1.2.3.4||"),
            ("1.2.3.4, 5.6.7.8", "5.6.7.8|1.2.3.4|"),
            ("1.2.3.4, 10.0.0.1", "1.2.3.4||"),
            ("9.9.9.9, 1.2.3.4,10.0.0.1", "1.2.3.4|9.9.9.9|"),
            ("garbage", "-"),
            ("1.2.3.4, garbage", "-"),
            ("192.168.0.1", "192.168.0.1||"),
            ("11.0.0.1, 192.168.0.1", "192.168.0.1|11.0.0.1|"),
            ("2.2.2.2, 11.0.0.1", "2.2.2.2||11.0.0.1"),
            ("192.168.5.5, 11.0.0.1", "11.0.0.1|192.168.5.5|"),
            ("::1", "::1||"),
            ("2.2.2.2, 11.0.0.1, 10.0.0.2", "2.2.2.2||11.0.0.1"),
            ("1.2.3.4:80", "-"),
            ("", "-"),
        ] {
            let shown =
                read(&settings(), "127.0.0.1".parse().unwrap(), text).map_or("-".into(), |named| {
                    let proxies: Vec<String> =
                        named.proxies.iter().map(IpAddr::to_string).collect();
                    format!(
                        "{}|{}|{}",
                        named.client,
                        named.left.unwrap_or_default(),
                        proxies.join(",")
                    )
                });
            assert_eq!(shown, expected, "{text}");
        }
        assert_eq!(
            read(&settings(), "1.1.1.1".parse().unwrap(), "2.2.2.2"),
            None
        );
        let everybody = read(&RemoteIp::default(), "1.1.1.1".parse().unwrap(), "2.2.2.2").unwrap();
        assert_eq!(
            (
                everybody.client.to_string().as_str(),
                everybody.proxies.len()
            ),
            ("2.2.2.2", 1)
        );
    }
}
