use super::*;
use proptest::prelude::*;

fn trust(address: IpAddr) -> Trust {
    match address.to_string().as_str() {
        text if text.starts_with("10.") || text == "::1" => Trust::Inside,
        text if text.starts_with("11.") => Trust::Outside,
        _ => Trust::No,
    }
}

fn client(peer: &str, list: &str) -> String {
    let peer = SocketAddr::new(peer.parse().unwrap(), 1);
    follow(peer, elements_from_end(list).map(parse_hop), trust)
        .client
        .to_string()
}

#[test]
fn lists_are_read_from_their_end() {
    for (peer, list, expected) in [
        ("10.0.0.1", "1.2.3.4", "1.2.3.4:0"),
        ("10.0.0.1", "9.9.9.9, 1.2.3.4", "1.2.3.4:0"),
        ("10.0.0.1", "9.9.9.9, 1.2.3.4, 10.0.0.2", "1.2.3.4:0"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3:0"),
        ("10.0.0.1", "1.2.3.4:567", "1.2.3.4:567"),
        ("10.0.0.1", "[2001:db8::1]:567", "[2001:db8::1]:567"),
        ("10.0.0.1", "\"[2001:db8::1]\"", "[2001:db8::1]:0"),
        ("10.0.0.1", "2001:db8::1", "[2001:db8::1]:0"),
        ("::1", "::ffff:1.2.3.4", "1.2.3.4:0"),
        // A client that connects directly says what it likes.
        ("1.1.1.1", "10.0.0.9", "1.1.1.1:1"),
        // What cannot be read ends the list, at the hop that named it.
        ("10.0.0.1", "1.2.3.4, garbage", "10.0.0.1:1"),
        ("10.0.0.1", "1.2.3.4, garbage, 10.0.0.2", "10.0.0.2:0"),
        ("10.0.0.1", "", "10.0.0.1:1"),
        ("10.0.0.1", ", ,", "10.0.0.1:1"),
        ("10.0.0.1", "unknown", "10.0.0.1:1"),
        ("10.0.0.1", "1.2.3.4,", "10.0.0.1:1"),
        ("10.0.0.1", "1.2.3.4.5", "10.0.0.1:1"),
        ("10.0.0.1", "fe80::1%1", "10.0.0.1:1"),
        ("10.0.0.1", "[fe80::1%1]:80", "10.0.0.1:1"),
        ("10.0.0.1", "[1.2.3.4]", "10.0.0.1:1"),
        ("10.0.0.1", "1.2.3.4:99999", "10.0.0.1:1"),
        ("10.0.0.1", "01.2.3.4", "10.0.0.1:1"),
        // A proxy outside does not know our networks.
        ("11.0.0.1", "192.168.0.1", "11.0.0.1:1"),
        ("10.0.0.1", "192.168.0.1", "192.168.0.1:0"),
    ] {
        assert_eq!(client(peer, list), expected, "{peer} {list}");
    }
}

#[test]
fn elements_of_forwarded() {
    let shown = |field| {
        let elements = forwarded_from_end(field);
        let each = elements.iter().map(|element| {
            format!(
                "{}|{}",
                element.client.unwrap_or("-"),
                element.scheme.unwrap_or("-")
            )
        });
        each.collect::<Vec<_>>().join(" ")
    };
    for (field, expected) in [
        ("for=1.2.3.4", "1.2.3.4|-"),
        (
            "For=\"[2001:db8::1]:80\";Proto=https, for=10.0.0.1;by=x",
            "10.0.0.1|- \"[2001:db8::1]:80\"|https",
        ),
        ("proto=\"http\"", "-|http"),
        ("for=\"a,b;c\";proto=http", "\"a,b;c\"|http"),
        ("for=\"a\\\",b\", for=c", "c|- \"a\\\",b\"|-"),
        ("for=\", for=1.2.3.4", "1.2.3.4|- \"|-"),
        (
            "for=\"a\\, for=\"[2001:db8::1]:80\"",
            "\"[2001:db8::1]:80\"|- \"a\\|-",
        ),
        ("", "-|-"),
        ("for", "-|-"),
        ("for=\"1.2.3.4, for=5.6.7.8", "5.6.7.8|- \"1.2.3.4|-"),
    ] {
        assert_eq!(shown(field), expected, "{field}");
    }
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

proptest! {
    /// Nothing in front of an untrusted hop changes the outcome.
    #[test]
    fn clients_cannot_write_the_list(made_up in ".{0,60}") {
        prop_assert_eq!(client("10.0.0.1", &format!("{made_up},1.2.3.4")), "1.2.3.4:0");
        prop_assert_eq!(client("1.1.1.1", &made_up), "1.1.1.1:1");
        let _ = forwarded_from_end(&made_up);
    }
}

#[test]
fn loose_lists_have_blanks_empty_elements_and_zeros() {
    for (list, expected) in [
        ("1.2.3.4,", "1.2.3.4:0"),
        ("1.2.3.4, ,", "1.2.3.4:0"),
        ("1.2.3.4 10.0.0.2", "1.2.3.4:0"),
        ("01.2.3.004", "1.2.3.4:0"),
        ("010.1.2.3:80", "10.1.2.3:80"),
        ("[2001:db8::1]:567", "[2001:db8::1]:567"),
        ("9.9.9.9, 1.2.3.4 ,10.0.0.2", "1.2.3.4:0"),
        ("1.2.3.4, garbage", "10.0.0.1:1"),
        ("1.2.3.+4", "10.0.0.1:1"),
        ("1.2.3.4.5", "10.0.0.1:1"),
        ("1.2.3.256", "10.0.0.1:1"),
        (" , ", "10.0.0.1:1"),
        ("", "10.0.0.1:1"),
    ] {
        let peer = "10.0.0.1:1".parse().unwrap();
        let found = follow(peer, loose_hops_from_end(list), trust);
        assert_eq!(found.client.to_string(), expected, "{list:?}");
    }
}
