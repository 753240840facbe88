use super::*;
use crate::NoBody;
use saker_config::model::{Address, Addresses, Origin, Site};
use saker_http::{RequestHead, Version};
use std::{rc::Rc, sync::Arc};

fn trusted(field: &str) -> TrustedProxies {
    TrustedProxies {
        addresses: Addresses {
            set: Arc::new(["10.0.0.0/8".parse().unwrap()].into_iter().collect()),
            networks: vec!["10.0.0.0/8".parse().unwrap()],
            ..Addresses::default()
        },
        field: field.into(),
        unix: true,
        is_recursive: true,
        is_loose: false,
    }
}

fn connection(peer: &str, tls: bool) -> Client {
    let local = "198.51.100.1:80".parse().unwrap();
    let listener = Arc::new(Address::Tcp(local));
    let mut client = Client::new(peer.parse().unwrap(), local, listener, tls);
    client.tls = tls;
    client
}

fn shown(field: &str, tls: bool, fields: &[(&str, &str)]) -> String {
    let head = RequestHead::build("GET", "/", Version::Http11, fields);
    let named = named(&trusted(field), &connection("10.0.0.1:9", tls), head.view());
    format!("{} {}", named.address, named.secure)
}

#[test]
fn loose_lists() {
    let list = "X-Forwarded-For";
    for (value, strict, loose) in [
        ("1.2.3.4,", "10.0.0.1:9", "1.2.3.4:0"),
        ("1.2.3.4 10.1.1.1", "10.0.0.1:9", "1.2.3.4:0"),
        ("01.2.3.4", "10.0.0.1:9", "1.2.3.4:0"),
        ("6.6.6.6, 1.2.3.4", "1.2.3.4:0", "1.2.3.4:0"),
    ] {
        let head = RequestHead::build("GET", "/", Version::Http11, &[(list, value)]);
        for (is_loose, expected) in [(false, strict), (true, loose)] {
            let trusted = TrustedProxies {
                is_loose,
                ..trusted(list)
            };
            let named = named(&trusted, &connection("10.0.0.1:9", false), head.view());
            assert_eq!(named.address.to_string(), expected, "{value}, {is_loose}");
        }
    }
}

#[test]
fn clients_of_each_field() {
    let list = "X-Forwarded-For";
    for (field, fields, expected) in [
        (list, &[][..], "10.0.0.1:9 false"),
        (list, &[(list, "1.2.3.4")], "1.2.3.4:0 false"),
        // Several lines are one list.
        (
            list,
            &[(list, "6.6.6.6"), (list, "1.2.3.4, 10.1.1.1")],
            "1.2.3.4:0 false",
        ),
        (list, &[("X_Forwarded_For", "6.6.6.6")], "10.0.0.1:9 false"),
        (list, &[("Forwarded", "for=6.6.6.6")], "10.0.0.1:9 false"),
        (
            "X-Real-IP",
            &[("X-Real-IP", "[2001:db8::1]:80")],
            "[2001:db8::1]:80 false",
        ),
        (
            "CF-Connecting-IP",
            &[("cf-connecting-ip", "1.2.3.4")],
            "1.2.3.4:0 false",
        ),
        (
            "Forwarded",
            &[("Forwarded", "for=\"1.2.3.4:5\";proto=https")],
            "1.2.3.4:5 true",
        ),
        (
            "Forwarded",
            &[(
                "Forwarded",
                "for=6.6.6.6;proto=https, for=1.2.3.4;proto=http, for=10.0.0.2;proto=https",
            )],
            "1.2.3.4:0 false",
        ),
        (
            "Forwarded",
            &[("Forwarded", "for=_hidden;proto=https")],
            "10.0.0.1:9 false",
        ),
    ] {
        assert_eq!(shown(field, false, fields), expected, "{field} {fields:?}");
    }
}

#[test]
fn schemes() {
    let (list, proto) = ("X-Forwarded-For", "X-Forwarded-Proto");
    for (tls, fields, expected) in [
        (
            false,
            &[(list, "1.2.3.4"), (proto, "https")][..],
            "1.2.3.4:0 true",
        ),
        (
            false,
            &[(list, "1.2.3.4"), (proto, "HTTP")],
            "1.2.3.4:0 false",
        ),
        (
            false,
            &[(list, "1.2.3.4, 10.0.0.2"), (proto, "https, http")],
            "1.2.3.4:0 true",
        ),
        (
            false,
            &[(list, "6.6.6.6, 1.2.3.4"), (proto, "https, http")],
            "1.2.3.4:0 false",
        ),
        (
            false,
            &[(list, "1.2.3.4"), (proto, "gopher")],
            "1.2.3.4:0 false",
        ),
        (
            true,
            &[(list, "1.2.3.4"), (proto, "http")],
            "1.2.3.4:0 true",
        ),
        (false, &[(proto, "https")], "10.0.0.1:9 true"),
    ] {
        assert_eq!(shown(list, tls, fields), expected, "{fields:?}");
    }
}

#[test]
fn fields_of_proxies_are_dropped_from_others() {
    let fields = [
        ("X-Forwarded-For", "6.6.6.6"),
        ("x_forwarded_proto", "https"),
        ("CF-Connecting-IP", "6.6.6.6"),
        ("Forwarded", "for=6.6.6.6"),
        ("X-Real-IP", "6.6.6.6"),
        ("Client-IP", "6.6.6.6"),
        ("X-Forwarded", "6.6.6.6"),
        ("X-Forwarded-Ssl", "on"),
        ("X-Forwarded-Anything", "1"),
        ("X-Other", "1"),
    ];
    for (forwarding, expected) in [
        (Forwarding::Unknown, 10),
        (Forwarding::Direct, 1),
        (Forwarding::Proxied, 9),
    ] {
        let mut client = connection("192.0.2.1:9", false);
        client.forwarding = forwarding;
        let head = RequestHead::build("GET", "/", Version::Http11, &fields);
        let site = Arc::new(Site::new(Origin::built_in()));
        let mut exchange = Exchange::new(Rc::new(client), head, Box::new(NoBody), site, 0);
        drop_made_up_fields(&mut exchange, &trusted("CF-Connecting-IP"));
        assert_eq!(
            exchange.head.view().fields().count(),
            expected,
            "{forwarding:?}"
        );
    }
}

#[test]
fn peers_of_unix_sockets_have_no_address() {
    let mut trusted = trusted("X-Forwarded-For");
    assert!(trusted.trusts("0.0.0.0".parse().unwrap()));
    trusted.unix = false;
    assert!(!trusted.trusts("0.0.0.0".parse().unwrap()));
    assert!(!trusted.is_idle() && TrustedProxies::default().is_idle());
}
