use super::*;
use crate::{Client, NoBody};
use saker_config::model::{Address, Origin, Site};
use saker_http::{RequestHead, Version};
use saker_matchers::{Names, Template};
use std::{net::SocketAddr, rc::Rc, sync::Arc};

fn exchange(forwarding: Forwarding, fields: &[(&str, &str)]) -> Exchange {
    let address: SocketAddr = "192.0.2.7:4711".parse().unwrap();
    let local = "198.51.100.1:80".parse().unwrap();
    let mut client = Client::new(address, local, Arc::new(Address::Tcp(local)), false);
    client.forwarding = forwarding;
    if forwarding == Forwarding::Proxied {
        client.peer = "10.0.0.1:1".parse().unwrap();
    }
    let head = RequestHead::build("QUERY", "/a%20b?x=1&y", Version::Http11, fields);
    let site = Arc::new(Site::new(Origin::built_in()));
    let mut exchange = Exchange::new(Rc::new(client), head, Box::new(NoBody), site, 0);
    exchange.host = b"example.org".to_vec();
    exchange.path = b"/a b\r\nX: y".to_vec();
    exchange.query = Some(b"x=1&y".to_vec());
    exchange
}

fn shown(text: &str, exchange: &Exchange) -> String {
    let template = Template::parse(text).unwrap();
    let template = template.link(&Names::default()).unwrap();
    String::from_utf8(crate::texts::value(&template, exchange).unwrap()).unwrap()
}

#[test]
fn values() {
    let fields = [("Cookie", "a=1; b=2"), ("X-Key", "k"), ("x-key", "l")];
    let exchange = exchange(Forwarding::Unknown, &fields);
    for (text, expected) in [
        (
            "$scheme://$host$request_uri",
            "http://example.org/a%20b?x=1&y",
        ),
        ("$remote_addr:$remote_port", "192.0.2.7:4711"),
        ("$server_addr:$server_port", "198.51.100.1:80"),
        ("$method $server_protocol", "QUERY HTTP/1.1"),
        // Decoded control characters end no line.
        ("[$uri]", "[/a b%0D%0AX: y]"),
        ("$query|$args|$arg_x|$arg_y|$arg_z", "?x=1&y|x=1&y|1||"),
        ("$cookie_b$cookie_c", "2"),
        ("$http_x_key", "k, l"),
        ("$remote_user$request_id", ""),
        ("$proxy_add_x_forwarded_for", "192.0.2.7"),
    ] {
        assert_eq!(shown(text, &exchange), expected, "{text}");
    }
}

#[test]
fn earlier_hops_are_listed_where_they_may_be_believed() {
    let fields = [("X-Forwarded-For", "203.0.113.1")];
    for (forwarding, expected) in [
        (Forwarding::Unknown, "203.0.113.1, 192.0.2.7"),
        (Forwarding::Direct, "192.0.2.7"),
        (Forwarding::Proxied, "203.0.113.1, 10.0.0.1"),
    ] {
        let exchange = exchange(forwarding, &fields);
        assert_eq!(shown("$proxy_add_x_forwarded_for", &exchange), expected);
    }
}

#[test]
fn ids_are_accepted_from_trusted_proxies_alone() {
    let id = |forwarding, fields: &[(&str, &str)]| {
        let mut exchange = exchange(forwarding, fields);
        identify(&mut exchange, "X-Request-Id");
        shown("$request_id", &exchange)
    };
    let given = [("x-request-id", "abc-1")];
    assert_eq!(id(Forwarding::Proxied, &given), "abc-1");
    for (forwarding, fields) in [
        (Forwarding::Unknown, &given[..]),
        (Forwarding::Direct, &given),
        (Forwarding::Proxied, &[]),
        (Forwarding::Proxied, &[("X-Request-Id", "a b")]),
        (Forwarding::Proxied, &[("X-Request-Id", "")]),
        (
            Forwarding::Proxied,
            &[("X-Request-Id", "a"), ("X-Request-Id", "b")],
        ),
    ] {
        let id = id(forwarding, fields);
        assert_eq!(id.len(), 32, "{id}");
        assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    }
    assert_ne!(id(Forwarding::Unknown, &[]), id(Forwarding::Unknown, &[]));
    let longest = "a".repeat(REQUEST_ID_BYTES_MAX);
    assert_eq!(
        id(Forwarding::Proxied, &[("X-Request-Id", &longest)]),
        longest
    );
    let too_long = "a".repeat(REQUEST_ID_BYTES_MAX + 1);
    assert_eq!(
        id(Forwarding::Proxied, &[("X-Request-Id", &too_long)]).len(),
        32
    );
}
