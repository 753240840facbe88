//! Locks of WebDAV as a weapon, and destinations in odd spellings: what a user may not write, no lock
//! keeps from others, and no COPY or MOVE reaches.
//!
//! Two users, one of whom has a collection of his own below that of both. Out of scope: links, properties
//! and XML (`serving::webdav`).

use crate::{
    harness::{self, Answer, ApacheSite, PROTOCOLS, Protocol, Request},
    operate::folder,
};
use std::{fs, os::unix::fs::PermissionsExt};

const ANN: (&str, &str) = ("Authorization", "Basic YW5uOnBhc3N3b3Jk");
const BOB: (&str, &str) = ("Authorization", "Basic Ym9iOnBhc3N3b3Jk");
const LOCK: &[u8] = b"<?xml version=\"1.0\"?><D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope>\
    <D:locktype><D:write/></D:locktype></D:lockinfo>";

fn start(name: &str) -> ApacheSite {
    let dir = folder(name);
    for path in ["www/dav/bob", "www/dav/all", "www/plain", "locks"] {
        fs::create_dir_all(dir.join(path)).unwrap();
    }
    for path in [
        "www",
        "www/dav",
        "www/dav/bob",
        "www/dav/all",
        "www/plain",
        "locks",
    ] {
        fs::set_permissions(dir.join(path), fs::Permissions::from_mode(0o777)).unwrap();
    }
    let users = "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\nbob:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n";
    dir.write("users", users).unwrap();
    harness::apache(
        dir,
        "DavLockDB {dir}/locks/db\n<Location /dav>\nDav On\nAuthType Basic\nAuthName x\nAuthUserFile {dir}/users\n\
         Require valid-user\n</Location>\n<Location /dav/bob>\nRequire user bob\n</Location>\n",
    )
}

fn send(
    site: &ApacheSite,
    protocol: Protocol,
    (method, target): (&str, &str),
    fields: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let request = Request {
        method,
        target,
        body,
        ..Request::get("localhost", target).with_fields(fields)
    };
    site.ask(protocol, &request)
}

#[test]
fn locks_reach_no_further_than_their_users() {
    let site = start("webdav-locks");
    for protocol in PROTOCOLS {
        let status = |request: (&str, &str), fields: &[(&str, &str)], body: &[u8]| {
            send(&site, protocol, request, fields, body).status
        };
        // Both spellings of what a lock without a depth is.
        for depth in [&[ANN][..], &[ANN, ("Depth", "infinity")]] {
            assert_eq!(status(("LOCK", "/dav/"), depth, LOCK), 403, "{protocol:?}");
        }
        assert_eq!(
            status(("PUT", "/dav/bob/a"), &[BOB], b"1") / 100,
            2,
            "{protocol:?}"
        );
        let shallow = send(
            &site,
            protocol,
            ("LOCK", "/dav/"),
            &[ANN, ("Depth", "0")],
            LOCK,
        );
        let token = shallow.field("lock-token").unwrap().to_owned();
        assert_eq!(
            status(("UNLOCK", "/dav/"), &[ANN, ("Lock-Token", &token)], b""),
            204
        );
        let deep = send(&site, protocol, ("LOCK", "/dav/all/"), &[ANN], LOCK);
        assert_eq!(deep.status, 200, "{protocol:?}: what is all hers");
        let token = deep.field("lock-token").unwrap().to_owned();
        let tagged = format!("<https://localhost/dav/all/> ({token})");
        let guessed = "(<opaquelocktoken:00000000-0000-4000-8000-000000000000>)";
        for condition in [
            "(Not <DAV:no-lock>)",
            guessed,
            "(<DAV:no-lock>) (Not <a:b>)",
        ] {
            let found = status(("PUT", "/dav/all/a"), &[BOB, ("If", condition)], b"2");
            assert!(
                matches!(found, 412 | 423),
                "{protocol:?} {condition}: {found}"
            );
        }
        for target in [
            "/dav/all/a",
            "/dav//all/./a",
            "/dav/%61ll/a",
            "/dav/x/../all/a",
        ] {
            let found = status(("PUT", target), &[BOB, ("If", &tagged)], b"2");
            assert_eq!(
                found, 403,
                "{protocol:?} {target}: the token of another user"
            );
            assert_eq!(
                status(("PUT", target), &[BOB], b"2"),
                423,
                "{protocol:?} {target}"
            );
        }
        assert_eq!(
            status(("LOCK", "/dav/all/"), &[BOB, ("If", &tagged)], b""),
            403
        );
        assert_eq!(
            status(("UNLOCK", "/dav/all/"), &[BOB, ("Lock-Token", &token)], b""),
            403
        );
        assert_eq!(
            status(("DELETE", "/dav/all/"), &[BOB], b""),
            423,
            "{protocol:?}"
        );
        assert_eq!(
            status(("UNLOCK", "/dav/all/"), &[ANN, ("Lock-Token", &token)], b""),
            204
        );
    }
}

#[test]
fn conditions_are_counted() {
    let site = start("webdav-conditions");
    let many = "(<a:b>)".repeat(1001);
    let nested = "(".repeat(500);
    let lists = "<http://localhost/dav/all/x> ([\"a\"]) ".repeat(150);
    let lists = lists.trim_end().to_owned();
    for protocol in PROTOCOLS {
        let status = |condition: &str| {
            let fields = [ANN, ("If", condition)];
            send(&site, protocol, ("PUT", "/dav/all/b"), &fields, b"1").status
        };
        for (condition, expected) in [
            (&many, [400, 431]),
            (&nested, [400, 400]),
            (&lists, [412, 412]),
        ] {
            let found = status(condition);
            let shown = condition.get(..20);
            assert!(expected.contains(&found), "{protocol:?} {shown:?}: {found}");
        }
        assert_eq!(
            send(&site, protocol, ("GET", "/dav/all/b"), &[ANN], b"").status,
            404
        );
    }
}

#[test]
fn destinations_in_odd_spellings() {
    let site = start("webdav-spellings");
    for protocol in PROTOCOLS {
        let status = |method: &str, fields: &[(&str, &str)]| {
            send(&site, protocol, (method, "/dav/all/from"), fields, b"").status
        };
        let created = send(&site, protocol, ("PUT", "/dav/all/from"), &[ANN], b"1").status;
        assert!(matches!(created, 201 | 204), "{protocol:?}: {created}");
        for destination in [
            "/dav/bob/x",
            "/dav//bob/x",
            "/dav/./bob/x",
            "/dav/all/../bob/x",
            "/dav/all/%2e%2e/bob/x",
            "/dav/%62ob/x",
            "/dav/bob%2Fx",
            "/dav%2fbob/x",
            "/dav/all/..%2fbob/x",
            "//dav/bob/x",
            "https://localhost/dav/bob/x",
            "https://LOCALHOST/dav/bob/x",
            "https://ann@localhost/dav/bob/x",
            "https://localhost@evil.test/dav/all/x",
            "https://evil.test/dav/all/x",
            "http://localhost/dav/all/x",
            "ftp://localhost/dav/all/x",
            "/plain/x",
            "/../../etc/x",
            "/dav/all/../../../x",
            "/dav/all/.DAV/x",
            "/dav/all/x%00",
            "/dav/all/x#y",
            "/dav/all/x?y",
            "\\\\evil\\x",
            "*",
            "",
        ] {
            for method in ["COPY", "MOVE"] {
                let found = status(method, &[ANN, ("Destination", destination)]);
                assert!(
                    (400..=502).contains(&found),
                    "{protocol:?} {method} {destination}: {found}"
                );
            }
        }
    }
    let names = |path: &str| {
        let entries = fs::read_dir(site.dir.join(path)).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.collect::<Vec<_>>()
    };
    assert!(names("www/dav/bob").is_empty() && names("www/plain").is_empty());
    assert_eq!(names("www/dav/all"), ["from"]);
}
