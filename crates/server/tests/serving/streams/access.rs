//! `[stream.access]` by files, countries, and autonomous systems.
//!
//! Called by: `mod`.
//! Caveat: PROXY headers name the clients. The database of places holds one network.
//! Out of scope: `allow` and `deny`, and spellings of addresses (`attacks`, `preface`).

use super::{Streams, connect, named, rest};
use crate::operate;
use saker_testkit::{
    free_port,
    mmdb::{Data, database},
};
use std::{
    io::Write,
    net::{Ipv4Addr, Shutdown, SocketAddr},
};

const PLACE: Data<'_> = Data::Map(&[
    ("country", Data::Map(&[("iso_code", Data::Text("XA"))])),
    ("autonomous_system_number", Data::Number(64_500)),
]);

#[test]
fn files_and_places_decide_who_is_served() {
    let a = named("a");
    let dir = operate::folder("stream-places");
    dir.write("place.mmdb", database([203, 0, 113, 0], 24, &PLACE))
        .unwrap();
    dir.write("list.txt", "203.0.113.0/24 # here\n").unwrap();
    let rules = [
        ("allow_files = [\"{dir}/list.txt\"]", true),
        ("deny_files = [\"{dir}/list.txt\"]", false),
        ("allow_countries = [\"XA\"]", true),
        ("deny_countries = [\"XA\"]", false),
        ("allow_asns = [64500]", true),
        ("deny_asns = [64500]", false),
    ];
    let rules = rules.map(|(rule, is_here_served)| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
        (rule, address, is_here_served)
    });
    let mut text = "[abuse]\ngeoip = [\"{dir}/place.mmdb\"]\n".to_owned();
    for (rule, address, _) in rules {
        text += &format!(
            "[[stream]]\nlisten = \"{address}\"\nproxy = \"{a}\"\nproxy_protocol_from = [\"127.0.0.1\"]\n\
             [stream.access]\n{rule}\n"
        );
    }
    let _streams = Streams::start_in(dir, &text);
    for (rule, address, is_here_served) in rules {
        for (client, is_served) in [
            ("203.0.113.7", is_here_served),
            ("198.51.100.7", !is_here_served),
        ] {
            let mut stream = connect(address);
            stream
                .write_all(format!("PROXY TCP4 {client} 192.0.2.1 5000 443\r\n").as_bytes())
                .unwrap();
            let _ = stream.shutdown(Shutdown::Write);
            let expected = if is_served { "a\nbye\n" } else { "" };
            assert_eq!(rest(&mut stream), expected, "{rule}: {client}");
        }
    }
}
