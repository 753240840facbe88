//! mod_remoteip: the client behind trusted proxies, as their field names it.
//!
//! Before everything else that looks at the client. Difficulty: the list is read from its end, hop
//! by hop, as long as the hop before is trusted to say the truth; a proxy outside of our own
//! networks is not believed to know addresses inside of them. Absent on purpose: the PROXY preface,
//! which is the listener's business.

use saker_apache_model::{host::Host, modules::remoteip::RemoteIp};
use saker_http::field_name::is_alike;
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
    /// Proxies outside of our networks, the nearest one last.
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
    let mut named = Named {
        client: connection,
        left: Some(text.to_owned()),
        proxies: Vec::new(),
    };
    let mut has_changed = false;
    while let Some(left) = named.left.clone() {
        let Some(is_internal) = settings.is_internal(named.client) else {
            break;
        };
        let (before, last) = left
            .rsplit_once(',')
            .map_or((None, left.as_str()), |(before, last)| (Some(before), last));
        let Ok(address) = last.trim().parse::<IpAddr>() else {
            break;
        };
        if !is_internal && is_private(address) {
            error_log::log(
                &message::REMOTE_ADDRESS,
                format_args!("{address}, named by {}", named.client),
            );
            break;
        }
        if !is_internal {
            named.proxies.insert(0, named.client);
        }
        named.client = address;
        named.left = before.map(|before| before.trim().to_owned());
        has_changed = true;
    }
    has_changed.then_some(named)
}

/// Networks that no proxy outside can vouch for, as mod_remoteip has them.
fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            address.is_private() || address.is_link_local() || address.is_loopback()
        }
        IpAddr::V6(address) => address.segments()[0] & 0xe000 != 0x2000,
    }
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

    #[test]
    fn private_addresses() {
        for (address, expected) in [
            ("10.1.1.1", true),
            ("172.31.0.1", true),
            ("8.8.8.8", false),
            ("::1", true),
            ("fe80::1", true),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_private(address.parse().unwrap()), expected, "{address}");
        }
    }
}
