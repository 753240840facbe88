//! Pages that the route cache answers with: what chose a page in full dispatch chooses it there, too,
//! where rules edit the request, set variables of the cache, or proxies describe the client.
//!
//! Each sequence asks often enough for the page to be answered by the route cache, and then as another
//! client.

use crate::{
    cache_origin::{Cached, NativeParts, Origin, ok, origin},
    harness::{Protocol, Request, ask, http1_bytes, read_answer, tls_exchange},
    operate::{self, folder},
    tls_site::{certificate, signed},
};
use saker_testkit::{apache2::load_modules, free_port};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicUsize, Ordering},
};

/// Numbers its answers, and repeats a field of the request that they vary by.
fn numbered(varied: &'static str) -> Origin {
    let count = AtomicUsize::new(0);
    origin(move |head| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let text = format!("{number} {}", head.first(&varied.to_ascii_lowercase()));
        let mut fields = vec![("Cache-Control", "public, max-age=600")];
        if !varied.is_empty() {
            fields.push(("Vary", varied));
        }
        ok(&fields, &text)
    })
}

fn get(server: &Cached, target: &str, fields: &[(&str, &str)]) -> String {
    let request = Request::get("localhost", target).with_fields(fields);
    let answer = ask(server.plain(), Protocol::Plain, &request);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.text()
}

/// The page that all get, once the route cache knows it.
fn settled(server: &Cached, target: &str, fields: &[(&str, &str)]) -> String {
    let page = get(server, target, fields);
    for _ in 0..4 {
        assert_eq!(get(server, target, fields), page);
    }
    page
}

fn apache(name: &str, origin: &Origin, lines: &str) -> Cached {
    let lines = format!("CacheEnable disk /\nCacheIgnoreNoLastMod On\n{lines}");
    Cached::apache(folder(name), origin, &lines)
}

/// A tenant's rules about its own requests say nothing about another's host.
#[test]
fn an_edited_host_is_not_the_host_of_the_request() {
    let dir = folder("kept-pages-host");
    let plain = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let host = |name: &str| {
        format!(
            "<VirtualHost {plain}>\nServerName {name}.test\nDocumentRoot {{dir}}/{name}\n<Directory {{dir}}/{name}>\nAllowOverride All\nRequire all granted\n</Directory>\n</VirtualHost>\n"
        )
    };
    for (tenant, edit) in [
        ("set", "RequestHeader set Host victim.test"),
        ("unset", "RequestHeader unset Host"),
        ("victim", ""),
    ] {
        dir.write(&format!("{tenant}/page.txt"), tenant).unwrap();
        dir.write(&format!("{tenant}/.htaccess"), edit).unwrap();
    }
    let modules = load_modules(&["mpm_event", "authz_core", "headers"]);
    let hosts = ["victim", "set", "unset"].map(host).concat();
    let text = format!(
        "ServerRoot {{dir}}\nServerName localhost\nListen {plain}\nPidFile {{dir}}/pid\nErrorLog {{dir}}/error.log\n{modules}{hosts}"
    );
    let _server = operate::apache(&text).at(plain).start_in(&dir);
    let seen = |host: &str| {
        let request = Request::get(host, "/page.txt");
        ask(plain, Protocol::Plain, &request).text()
    };
    for tenant in ["set", "unset"] {
        let host = format!("{tenant}.test");
        for _ in 0..5 {
            assert_eq!(seen(&host), tenant);
        }
        assert_eq!(seen("victim.test"), "victim", "after {tenant}");
        fs::write(dir.join("victim/page.txt"), "victim").unwrap();
    }
    let mut stream = TcpStream::connect(plain).unwrap();
    stream.write_all(b"GET /page.txt HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\nvictim"), "{answer}");
}

/// A field that rules set or take away is the rules' alone.
#[test]
fn fields_that_rules_edit_do_not_choose_a_page() {
    let origin = numbered("X-Internal");
    let lines = "SetEnvIf X-Badge ^staff$ inside\nRequestHeader unset X-Internal\nRequestHeader set X-Internal staff env=inside\n";
    let native = NativeParts {
        route: "request = { headers = { X-Internal = \"$http_x_badge\" } }",
        cache: "obey = [\"http\"]\n",
        ..NativeParts::default()
    };
    let servers = [
        apache("kept-pages-edited", &origin, lines),
        Cached::native_with(folder("kept-pages-edits"), &origin, &native),
    ];
    for server in servers {
        let inside = settled(&server, "/page", &[("X-Badge", "staff")]);
        assert!(inside.ends_with(" staff"), "{inside}");
        let page = settled(&server, "/page", &[]);
        assert_ne!(page, inside);
        for name in ["X-Internal", "X_Internal"] {
            assert_eq!(settled(&server, "/page", &[(name, "staff")]), page);
        }
        assert_eq!(settled(&server, "/page", &[("X-Badge", "staff")]), inside);
    }
}

/// The page of a client whose field rules derive from another one.
#[test]
fn fields_that_rules_derive_choose_a_page() {
    let origin = numbered("X-Country");
    let lines = "SetEnvIf X-Geo DE german\nRequestHeader set X-Country de env=german\n";
    let server = apache("kept-pages-derived", &origin, lines);
    let all = settled(&server, "/page", &[]);
    let german = settled(&server, "/page", &[("X-Geo", "DE")]);
    assert!(all.ends_with(" -") && german.ends_with(" de"), "{german}");
    assert_eq!(settled(&server, "/page", &[]), all);
}

/// Variables of the cache that rules about the request set: variants, and pages that are not to be
/// kept.
#[test]
fn variables_of_the_cache_hold_for_kept_pages() {
    let origin = numbered("");
    let lines =
        "SetEnvIf User-Agent Mobile lscache_vary_value=mobile\nSetEnvIf Cookie editor modcache=0\n";
    let server = apache("kept-pages-variables", &origin, lines);
    let mobile = ("User-Agent", "Mobile");
    for (target, first, second) in [
        ("/a", &[mobile][..], &[][..]),
        ("/b", &[][..], &[mobile][..]),
    ] {
        let page = settled(&server, target, first);
        let other = settled(&server, target, second);
        assert_ne!(page, other, "{target}");
        assert_eq!(settled(&server, target, first), page);
        assert_ne!(get(&server, target, &[("Cookie", "editor=1")]), page);
    }
}

/// Asks through a proxy that names the connection's port, and says that it is encrypted if it is 443.
fn by_proxy(server: &Cached, port: u16) -> String {
    const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
    let encrypted: &[u8] = match port {
        443 => &[0x20, 0, 5, 1, 0, 0, 0, 0],
        _ => &[],
    };
    let mut bytes = [SIGNATURE, &[0x21, 0x11, 0, 12 + encrypted.len() as u8]].concat();
    bytes.extend_from_slice(&[127, 0, 0, 1, 127, 0, 0, 1, 0xd0, 0]);
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes.extend_from_slice(encrypted);
    bytes.extend_from_slice(b"GET /page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(server.plain()).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    read_answer(&answer).text()
}

/// A proxy in front speaks for encrypted clients and others over one listener.
#[test]
fn pages_are_of_the_scheme_that_a_proxy_names() {
    let origin = numbered("");
    let parts = NativeParts {
        listener: "proxy_protocol_from = [\"127.0.0.1\"]",
        cache: "obey = [\"http\"]\n",
        ..NativeParts::default()
    };
    let server = Cached::native_with(folder("kept-pages-scheme"), &origin, &parts);
    let port = server.plain().port();
    let page = by_proxy(&server, port);
    for _ in 0..4 {
        assert_eq!(by_proxy(&server, port), page);
    }
    let encrypted = by_proxy(&server, 443);
    assert_ne!(encrypted, page);
    assert_eq!(by_proxy(&server, 443), encrypted);
    assert_eq!(by_proxy(&server, port), page);
}

/// A client with a certificate is a known user, who gets no page of the others unless it is for users,
/// too.
#[test]
fn clients_with_certificates_get_no_page_of_the_others() {
    let dir = folder("kept-pages-certificates");
    certificate(&dir, "authority", "authority");
    signed(&dir, "friend", "authority");
    let (chain, key) = (dir.join("friend.pem"), dir.join("friend.key"));
    let count = AtomicUsize::new(0);
    let origin = origin(move |_| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        ok(&[("Cache-Control", "max-age=600")], &number.to_string())
    });
    let parts = NativeParts {
        cache: "obey = [\"http\"]\n",
        tls: "client_certificates = \"optional\"\nclient_ca = \"{dir}/authority.pem\"",
        ..NativeParts::default()
    };
    let server = Cached::native_with(dir, &origin, &parts);
    let seen = |arguments: &[&str]| {
        let bytes = http1_bytes(&Request::get("localhost", "/page"));
        let answer = tls_exchange(
            server.tls(),
            Some("localhost"),
            "http/1.1",
            arguments,
            &bytes,
        );
        read_answer(&answer).text()
    };
    let page = seen(&[]);
    for _ in 0..4 {
        assert_eq!(seen(&[]), page);
    }
    let friend = [
        "-cert",
        chain.to_str().unwrap(),
        "-key",
        key.to_str().unwrap(),
    ];
    let own = seen(&friend);
    assert!(own != page && own != seen(&friend), "{own}");
    assert_eq!(seen(&[]), page);
}
