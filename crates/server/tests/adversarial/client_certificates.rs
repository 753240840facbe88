//! Attempts to bypass client certificates: other names in the handshake than in the request, other
//! spellings, other ports and addresses, state left by an authorized client (cached routes,
//! tickets, open connections), and sections of a site with stricter requirements than its host.
//!
//! Caveat: over h3 the client learns of a refused certificate after the handshake, so a connection
//! may begin and be lost.

use crate::{
    harness::{Answer, PROTOCOLS, Protocol, Request, ask, http1_bytes, read_answer, tls_exchange},
    http3_client,
    operate::{self, folder, start_in},
    tls_site::{self, certificate, openssl, signed},
};
use saker_testkit::{
    ServerProcess, TempDir, apache2::load_modules, free_port, require, wait_for_text,
};
use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const SECRET: &str = "for staff only";
const PATIENCE: Duration = Duration::from_secs(30);

/// Certificates of the server and of clients, and two document roots.
fn files(name: &str) -> TempDir {
    let dir = folder(name);
    certificate(&dir, "site", "localhost");
    for authority in ["authority", "others"] {
        certificate(&dir, authority, authority);
    }
    signed(&dir, "friend", "authority");
    signed(&dir, "stranger", "others");
    dir.write("staff/index.html", SECRET).unwrap();
    dir
}

/// The same by a client that shows the certificate of that name.
fn ask_as(
    dir: &Path,
    name: &str,
    address: SocketAddr,
    protocol: Protocol,
    request: &Request<'_>,
) -> Answer {
    let file = |ending: &str| {
        dir.join(format!("{name}.{ending}"))
            .to_string_lossy()
            .into_owned()
    };
    let (chain, key) = (file("pem"), file("key"));
    match protocol {
        Protocol::Plain => ask(address, protocol, request),
        Protocol::Http1 => {
            let arguments = ["-cert", &chain, "-cert_chain", &chain, "-key", &key];
            read_answer(&tls_exchange(
                address,
                request.server_name,
                "http/1.1",
                &arguments,
                &http1_bytes(request),
            ))
        }
        Protocol::Http2 => {
            let mut command = Command::new(require("curl").unwrap());
            command.args([
                "-sk", "-i", "-m", "20", "--http2", "--cert", &chain, "--key", &key, "-H",
            ]);
            command
                .arg(format!("Host: {}", request.host))
                .args(["--connect-to", &format!("::{address}")]);
            let server_name = request.server_name.unwrap_or("127.0.0.1");
            command.arg(format!(
                "https://{server_name}:{}{}",
                address.port(),
                request.target
            ));
            read_answer(&command.stdin(Stdio::null()).output().unwrap().stdout)
        }
        Protocol::Http3 => {
            let mut client = http3_client::Client::who_shows(dir, name);
            client.name = request.server_name.unwrap_or("127.0.0.1").to_owned();
            let mut connection = client.connect(&address.to_string());
            let pseudo = [
                (":method", request.method),
                (":scheme", "https"),
                (":authority", request.host),
                (":path", request.target),
            ];
            let stream = connection.open_with(&pseudo, request.fields, true);
            let response = connection.response(stream);
            Answer {
                status: response.status,
                fields: response.fields,
                body: response.body,
            }
        }
    }
}

/// True if a handshake for this name (`None`: without one) fails for a client without a
/// certificate.
fn is_shut_out(address: SocketAddr, server_name: Option<&str>, protocol: Protocol) -> bool {
    if protocol == Protocol::Http3 {
        let mut client = http3_client::Client::default();
        client.name = server_name.unwrap_or("127.0.0.1").into();
        let mut connection = client.begin(&address.to_string());
        connection.pass(Duration::from_millis(300));
        return connection.is_gone();
    }
    let request = Request::get("staff.test", "/").with_server_name(server_name);
    ask(address, protocol, &request).status == 0
}

/// Two listeners. On the first the open site, which is for clients that name none, a guarded one
/// and guarded subdomains; on the second only the guarded one, and there its name is open on
/// neither.
fn native(name: &str) -> (saker_testkit::Saker, SocketAddr) {
    let dir = files(name);
    let second = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let tls = "[site.tls]\ncertificate = \"{dir}/site.pem\"\nkey = \"{dir}/site.key\"\n";
    let guard = "client_certificates = \"required\"\nclient_ca = \"{dir}/authority.pem\"\n";
    let site = |names: &str, listener: &str, root: &str, guard: &str| {
        format!(
            "[[site]]\nnames = [{names}]\nlisteners = [{listener}]\nroot = \"{{dir}}/{root}\"\n{tls}{guard}\n"
        )
    };
    let (one, other) = ("\"{address}\"", format!("\"{second}\""));
    let text = format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n[[listener]]\naddress = {one}\ntls = true\n[[listener]]\naddress = {other}\ntls = true\n{}",
        [
            site("\"open.test\", \"localhost\"", one, "www", ""),
            site("\"staff.test\"", one, "staff", guard),
            site("\"*.wild.test\"", one, "staff", guard),
            site("\"other.test\"", &other, "staff", guard),
            site("\"open.test\"", &other, "staff", guard),
            site("\"staff.test\"", &other, "www", ""),
        ]
        .concat()
    );
    (start_in(dir, &text), second)
}

/// Every spelling of the guarded host, once an authorized client has had the page by that very
/// spelling, and by every handshake that asks for no certificate.
#[test]
fn no_spelling_of_the_host_leads_around_the_handshake() {
    let (saker, _) = native("certificates-spellings");
    let (address, port) = (saker.server.address(), saker.server.address().port());
    let with_port = [format!("staff.test:{port}"), format!("STAFF.test.:{port}")];
    let hosts = [
        "staff.test",
        "staff.test.",
        "STAFF.TEST",
        "Staff.Test.",
        &with_port[0],
        &with_port[1],
    ];
    for protocol in PROTOCOLS {
        for host in hosts {
            let by = |name| Request::get(host, "/index.html").with_server_name(name);
            for _ in 0..2 {
                let answer = ask_as(
                    &saker.dir,
                    "friend",
                    address,
                    protocol,
                    &by(Some("staff.test")),
                );
                assert_eq!(
                    (answer.status, &*answer.text()),
                    (200, SECRET),
                    "{protocol:?} {host}"
                );
            }
            for name in [None, Some("open.test"), Some("unknown.test")] {
                let answer = ask(address, protocol, &by(name));
                assert_eq!(
                    (answer.status, answer.text().contains(SECRET)),
                    (421, false),
                    "{protocol:?} {host} by {name:?}"
                );
                // A certificate that the server did not request does not count.
                let answer = ask_as(&saker.dir, "friend", address, protocol, &by(name));
                assert_eq!(
                    (answer.status, answer.text().contains(SECRET)),
                    (421, false),
                    "{protocol:?} {host} by {name:?}"
                );
            }
        }
        for host in ["x.wild.test", "X.Wild.Test."] {
            let answer = ask(
                address,
                protocol,
                &Request::get(host, "/index.html").with_server_name(Some("open.test")),
            );
            assert_eq!(
                (answer.status, answer.text().contains(SECRET)),
                (421, false),
                "{protocol:?} {host}"
            );
        }
        let open = ask(
            address,
            protocol,
            &Request::get("open.test.", "/index.html").with_server_name(None),
        );
        assert_eq!(
            (open.status, open.text().contains("hello")),
            (200, true),
            "{protocol:?}"
        );
        for name in ["staff.test", "STAFF.test", "a.wild.test"] {
            assert!(
                is_shut_out(address, Some(name), protocol),
                "{protocol:?} {name}"
            );
        }
    }
    assert!(is_shut_out(address, Some("staff.test."), Protocol::Http1));
}

/// RFC 9112 section 3.2.2: the target's host counts, whatever the Host field says.
#[test]
fn absolute_targets_name_the_site_too() {
    let (saker, _) = native("certificates-absolute");
    let address = saker.server.address();
    for target in [
        "https://staff.test/index.html",
        "https://STAFF.TEST./index.html",
        "http://staff.test:443/index.html",
        "HTTPS://staff.test./",
    ] {
        for host in ["open.test", "staff.test", "localhost"] {
            let answer = ask(
                address,
                Protocol::Http1,
                &Request::get(host, target).with_server_name(Some("open.test")),
            );
            assert_eq!(
                (answer.status, answer.text().contains(SECRET)),
                (421, false),
                "{target} {host}"
            );
        }
    }
}

/// Tunnels are asked for like everything else.
#[test]
fn nor_does_an_upgrade_or_a_tunnel() {
    let (saker, _) = native("certificates-tunnels");
    let address = saker.server.address();
    let upgrade = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for (method, host) in [
        ("GET", "staff.test"),
        ("POST", "staff.test."),
        ("OPTIONS", "STAFF.test"),
        ("HEAD", "staff.test"),
    ] {
        let request = Request {
            method,
            fields: &upgrade,
            ..Request::get(host, "/index.html").with_server_name(Some("open.test"))
        };
        assert_eq!(
            ask(address, Protocol::Http1, &request).status,
            421,
            "{method} {host}"
        );
    }
    let mut client = http3_client::Client::default();
    client.name = "open.test".into();
    let mut connection = client.connect(&address.to_string());
    connection.until(|peer| peer.allows_tunnels());
    for host in ["staff.test.", "STAFF.test"] {
        let pseudo = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "https"),
            (":authority", host),
            (":path", "/"),
        ];
        let stream = connection.open_with(&pseudo, &[("sec-websocket-version", "13")], false);
        connection.until(|peer| peer.responses[&stream].status != 0);
        assert_eq!(connection.peer().responses[&stream].status, 421, "{host}");
    }
}

/// A name means different sites on different ports.
#[test]
fn demands_are_those_of_the_port() {
    let (saker, second) = native("certificates-ports");
    for protocol in PROTOCOLS {
        // For clients without a name or with an unknown one there is the guarded site, which is the
        // first.
        for name in [
            None,
            Some("unknown.test"),
            Some("other.test"),
            Some("open.test"),
        ] {
            assert!(is_shut_out(second, name, protocol), "{protocol:?} {name:?}");
        }
        let answer = ask(
            second,
            protocol,
            &Request::get("staff.test", "/index.html").with_server_name(Some("staff.test")),
        );
        assert_eq!(
            (answer.status, answer.text().contains("hello")),
            (200, true),
            "{protocol:?}"
        );
        for host in ["other.test", "open.test.", "unknown.test", "127.0.0.1"] {
            let answer = ask(
                second,
                protocol,
                &Request::get(host, "/index.html").with_server_name(Some("staff.test")),
            );
            assert_eq!(
                (answer.status, answer.text().contains(SECRET)),
                (421, false),
                "{protocol:?} {host}"
            );
        }
        for name in ["other.test", "open.test", "unknown.test"] {
            let request = Request::get(name, "/index.html").with_server_name(Some(name));
            let answer = ask_as(&saker.dir, "friend", second, protocol, &request);
            assert_eq!(
                (answer.status, &*answer.text()),
                (200, SECRET),
                "{protocol:?} {name}"
            );
        }
    }
}

/// A connection that was open before the authorities changed is not good for the site any more.
#[test]
fn other_authorities_end_what_open_connections_may_do() {
    let (saker, _) = native("certificates-changed");
    let address = saker.server.address();
    let mut client = http3_client::Client::who_shows(&saker.dir, "friend");
    client.name = "staff.test".into();
    let mut open = client.connect(&address.to_string());
    assert_eq!(open.get("/index.html").text(), SECRET);
    assert_eq!(open.get("/index.html").text(), SECRET);
    fs::copy(saker.dir.join("others.pem"), saker.dir.join("next")).unwrap();
    fs::rename(saker.dir.join("next"), saker.dir.join("authority.pem")).unwrap();
    let end = Instant::now() + PATIENCE;
    loop {
        let response = open.get("/index.html");
        if response.status == 421 {
            assert!(!response.text().contains(SECRET));
            break;
        }
        assert!(
            response.status == 200 && Instant::now() < end,
            "{response:?}"
        );
    }
    // Nor does its ticket help.
    let lost = client.begin(&address.to_string()).until_lost();
    assert!(
        matches!(lost, saker_quic::Lost::AbortedByPeer { .. }),
        "{lost:?}"
    );
    let request = Request::get("staff.test", "/index.html").with_server_name(Some("staff.test"));
    assert_eq!(
        ask_as(&saker.dir, "stranger", address, Protocol::Http2, &request).text(),
        SECRET
    );
}

/// A server by Apache's configuration; `listen` are addresses, the first of which is asked whether
/// it is there.
fn apache(dir: TempDir, listen: &[SocketAddr], conf: &str) -> (ServerProcess, TempDir) {
    let modules = [
        "mpm_event",
        "authz_core",
        "authn_core",
        "authn_file",
        "auth_basic",
        "authz_user",
        "mime",
        "dir",
        "ssl",
        "socache_shmcb",
        "http2",
        "headers",
    ];
    let modules = load_modules(&modules);
    let listen_lines: String = listen
        .iter()
        .map(|address| format!("Listen {address}\n"))
        .collect();
    let text = format!(
        "ServerRoot {{dir}}\nServerName main.test\n{listen_lines}PidFile {{dir}}/pid\nErrorLog {{dir}}/error.log\n{modules}Protocols h2 http/1.1 h3\n\
         TypesConfig /etc/mime.types\nDirectoryIndex index.html\nDocumentRoot {{dir}}/www\n<Directory {{dir}}>\nAllowOverride All\nRequire all granted\n</Directory>\n\
         SSLCertificateFile {{dir}}/site.pem\nSSLCertificateKeyFile {{dir}}/site.key\nSSLCACertificateFile {{dir}}/authority.pem\n{conf}"
    );
    let server = operate::apache(&text)
        .at(SocketAddr::new([127, 0, 0, 1].into(), listen[0].port()))
        .start_in(&dir);
    (server, dir)
}

/// One socket for all addresses of the machine, hosts for some of them, and one name on two ports.
#[test]
fn apache_hosts_by_address_and_port() {
    let dir = files("certificates-apache");
    let (wide, narrow) = (
        SocketAddr::from(([0, 0, 0, 0], free_port().unwrap())),
        SocketAddr::from(([127, 0, 0, 1], free_port().unwrap())),
    );
    let conf = format!(
        "<VirtualHost 127.0.0.1:{0}>\nServerName open.test\nSSLEngine on\n</VirtualHost>\n\
         <VirtualHost 127.0.0.2:{0}>\nServerName staff.test\nServerAlias open.test\nSSLEngine on\nDocumentRoot {{dir}}/staff\nSSLVerifyClient require\n</VirtualHost>\n\
         <VirtualHost *:{1}>\nServerName open.test\nSSLEngine on\nDocumentRoot {{dir}}/staff\nSSLVerifyClient require\n</VirtualHost>\n\
         <VirtualHost *:{1}>\nServerName staff.test\nSSLEngine on\n</VirtualHost>\n",
        wide.port(),
        narrow.port()
    );
    let (_server, dir) = apache(dir, &[wide, narrow], &conf);
    let at = |last: u8| SocketAddr::new(IpAddr::from([127, 0, 0, last]), wide.port());
    for protocol in PROTOCOLS {
        for name in [
            None,
            Some("open.test"),
            Some("staff.test"),
            Some("unknown.test"),
        ] {
            for host in ["staff.test", "staff.test.", "open.test", "unknown.test"] {
                let answer = ask(
                    at(1),
                    protocol,
                    &Request::get(host, "/index.html").with_server_name(name),
                );
                assert_eq!(
                    (answer.status, answer.text().contains("hello")),
                    (200, true),
                    "{protocol:?} {host} by {name:?}"
                );
            }
            assert!(is_shut_out(at(2), name, protocol), "{protocol:?} {name:?}");
            let request = Request::get("staff.test", "/index.html").with_server_name(name);
            assert_eq!(
                ask_as(&dir, "friend", at(2), protocol, &request).text(),
                SECRET,
                "{protocol:?} {name:?}"
            );
            if name != Some("staff.test") {
                assert!(is_shut_out(narrow, name, protocol), "{protocol:?} {name:?}");
            }
        }
        for host in ["open.test", "OPEN.test.", "unknown.test"] {
            let answer = ask(
                narrow,
                protocol,
                &Request::get(host, "/index.html").with_server_name(Some("staff.test")),
            );
            assert_eq!(
                (answer.status, answer.text().contains(SECRET)),
                (421, false),
                "{protocol:?} {host}"
            );
        }
    }
}

/// Makes `deep`, signed by `between`, which is signed by `authority`; its file has both.
fn deep(dir: &TempDir) {
    let file = |name: &str| dir.join(name).to_string_lossy().into_owned();
    let made = openssl(&[
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "30",
        "-subj",
        "/CN=between",
        "-CA",
        &file("authority.pem"),
        "-CAkey",
        &file("authority.key"),
        "-addext",
        "basicConstraints=critical,CA:TRUE",
        "-out",
        &file("between.pem"),
        "-keyout",
        &file("between.key"),
    ]);
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    signed(dir, "deep", "between");
    let both = [
        fs::read(dir.join("deep.pem")).unwrap(),
        fs::read(dir.join("between.pem")).unwrap(),
    ]
    .concat();
    fs::write(dir.join("deep.pem"), both).unwrap();
}

/// SSLVerifyClient of sections: the handshake asks and forces nothing, and each section judges for
/// itself (mod_ssl renegotiates).
#[test]
fn apache_sections_judge_what_the_handshake_asked_for() {
    let dir = files("certificates-sections");
    deep(&dir);
    for path in [
        "plain", "require", "deep", "optional", "fake", "area", "named",
    ] {
        dir.write(&format!("www/{path}/index.html"), path).unwrap();
    }
    // The password of FakeBasicAuth is "password", here in SHA-1.
    dir.write("users", "/CN=friend:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n")
        .unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let conf = format!(
        "<Directory {{dir}}/www/area>\nSSLVerifyClient require\n</Directory>\n<VirtualHost {address}>\nServerName sections.test\nSSLEngine on\n\
         <Location /require>\nSSLVerifyClient require\n</Location>\n<Location /deep>\nSSLVerifyClient require\nSSLVerifyDepth 5\n</Location>\n\
         <Location /optional>\nSSLVerifyClient optional\n</Location>\n\
         <Location /fake>\nSSLVerifyClient require\nSSLOptions +FakeBasicAuth\nAuthType Basic\nAuthName x\nAuthUserFile {{dir}}/users\nRequire valid-user\n</Location>\n\
         <Location /named>\nHeader set X-Verify expr=%{{SSL_CLIENT_VERIFY}}:%{{SSL_CLIENT_S_DN_CN}}\n</Location>\n</VirtualHost>\n"
    );
    let (_server, dir) = apache(dir, &[address], &conf);
    let rows = [
        ("/plain/", [200, 200, 200, 200]),
        ("/require/", [403, 200, 403, 403]),
        ("/deep/", [403, 200, 200, 403]),
        ("/optional/", [200, 200, 403, 200]),
        ("/fake/", [403, 200, 403, 403]),
        ("/area/", [403, 200, 403, 403]),
    ];
    for protocol in PROTOCOLS {
        for (target, statuses) in rows {
            let request =
                Request::get("sections.test", target).with_server_name(Some("sections.test"));
            // In an order in which what the good one was given would show.
            let as_named = ["friend", "deep", "stranger"]
                .map(|name| ask_as(&dir, name, address, protocol, &request).status);
            let without = ask(address, protocol, &request).status;
            assert_eq!(
                [without, as_named[0], as_named[1], as_named[2]],
                statuses,
                "{protocol:?} {target}"
            );
        }
        let request =
            Request::get("sections.test", "/named/").with_server_name(Some("sections.test"));
        let told = |name: &str| {
            ask_as(&dir, name, address, protocol, &request)
                .field("x-verify")
                .map(str::to_owned)
        };
        assert_eq!(
            (told("friend").as_deref(), told("stranger").as_deref()),
            (Some("SUCCESS:friend"), Some("NONE:")),
            "{protocol:?}"
        );
    }
}

/// A file in the document root can't have a handshake ask; so it refuses, and the log says what to
/// set.
#[test]
fn apache_files_of_folders_cannot_ask_afterwards() {
    let dir = files("certificates-htaccess");
    dir.write("www/area/index.html", SECRET).unwrap();
    dir.write("www/area/.htaccess", "SSLVerifyClient require\n")
        .unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let conf =
        format!("<VirtualHost {address}>\nServerName a.test\nSSLEngine on\n</VirtualHost>\n");
    let (_server, dir) = apache(dir, &[address], &conf);
    for protocol in PROTOCOLS {
        let request = Request::get("a.test", "/area/index.html").with_server_name(Some("a.test"));
        let statuses = [
            ask(address, protocol, &request).status,
            ask_as(&dir, "friend", address, protocol, &request).status,
        ];
        assert_eq!(statuses, [403, 403], "{protocol:?}");
    }
    wait_for_text(dir.join("error.log"), |log| {
        log.contains("set `SSLVerifyClient optional` in its <VirtualHost>")
    });
}

#[test]
fn a_plain_listener_is_no_way_in_either() {
    let dir = files("certificates-plain");
    let plain = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let guard = "client_certificates = \"required\"\nclient_ca = \"{dir}/authority.pem\"";
    let text = tls_site::configuration(guard, "").replace(
        "[[site]]",
        &format!("[[listener]]\naddress = \"{plain}\"\n\n[[site]]"),
    );
    let saker = start_in(dir, &text.replace("{dir}/www", "{dir}/staff"));
    let request = Request::get("localhost", "/index.html");
    assert_eq!(
        ask_as(
            &saker.dir,
            "friend",
            saker.server.address(),
            Protocol::Http1,
            &request
        )
        .text(),
        SECRET
    );
    for host in ["localhost", "localhost.", "x"] {
        let answer = ask(plain, Protocol::Plain, &Request::get(host, "/index.html"));
        assert_eq!(
            (answer.status, answer.text().contains(SECRET)),
            (403, false),
            "{host}"
        );
    }
}
