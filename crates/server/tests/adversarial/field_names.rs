//! Field names that programs can't tell apart are one name for every trust decision.
//!
//! A client that may not say `Remote-User` says `Remote_User`, `remote.user` or nominates the real
//! one by `Connection`. What reaches the program or server behind is recorded byte by byte, over
//! every protocol of the client and of the backend.

use crate::harness::{PROTOCOLS, Protocol, Request, apache, ask, native, tls_exchange};
use crate::operate::{PATIENCE, folder, wait_until};
use saker_testkit::{Client, Saker};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    sync::{Arc, Mutex},
    thread,
};

/// Comes last in each request, so that all before it has been recorded when it has.
const LAST: (&str, &str) = ("X-Last", "last-value");
const SPELLINGS: [&str; 5] = [
    "Remote_User",
    "remote_user",
    "Remote.User",
    "REMOTE~USER",
    "remote!user",
];

/// A backend that keeps what it is told, of any protocol, and answers as a server over HTTP/1.
#[derive(Clone)]
struct Recorder {
    address: SocketAddr,
    told: Arc<Mutex<Vec<u8>>>,
}

impl Recorder {
    fn start() -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let recorder = Recorder {
            address: listener.local_addr().unwrap(),
            told: Arc::default(),
        };
        let told = Arc::clone(&recorder.told);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let told = Arc::clone(&told);
                thread::spawn(move || {
                    let mut piece = [0; 65_536];
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    while let Ok(count @ 1..) = stream.read(&mut piece) {
                        let is_whole = {
                            let mut told = told.lock().unwrap();
                            told.extend_from_slice(&piece[..count]);
                            told.windows(LAST.1.len())
                                .any(|part| part == LAST.1.as_bytes())
                        };
                        if is_whole {
                            // To other protocols it means nothing, and ends the conversation.
                            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
                            return;
                        }
                    }
                });
            }
        });
        recorder
    }

    /// Everything told since the last time, once the last field is among it.
    fn take(&self) -> String {
        let is_whole = || {
            self.told
                .lock()
                .unwrap()
                .windows(LAST.1.len())
                .any(|part| part == LAST.1.as_bytes())
        };
        wait_until("the backend was told", is_whole);
        String::from_utf8_lossy(&std::mem::take(&mut *self.told.lock().unwrap())).into_owned()
    }
}

/// An authorizer that lets everybody pass, as `ann`, and records what it was asked with.
fn authorizer() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (
        listener.local_addr().unwrap(),
        Arc::<Mutex<Vec<String>>>::default(),
    );
    let heads = Arc::clone(&asked);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let heads = Arc::clone(&heads);
            thread::spawn(move || {
                let (mut head, mut piece) = (Vec::new(), [0; 4096]);
                while let Ok(count @ 1..) = stream.read(&mut piece) {
                    head.extend_from_slice(&piece[..count]);
                    if head.ends_with(b"\r\n\r\n") {
                        heads
                            .lock()
                            .unwrap()
                            .push(String::from_utf8_lossy(&std::mem::take(&mut head)).into_owned());
                        stream
                            .write_all(b"HTTP/1.1 204 No Content\r\nRemote-User: ann\r\n\r\n")
                            .unwrap();
                    }
                }
            });
        }
    });
    (address, asked)
}

/// A route for each protocol of backends, `/PROTOCOL/*`.
fn routes(recorder: &Recorder, more: &str) -> String {
    let route = |scheme: &&str| {
        format!(
            "\n[[site.route]]\npath = \"/{scheme}/*\"\nproxy = \"{scheme}://{}\"\n{more}\n",
            recorder.address
        )
    };
    ["http", "fcgi", "scgi", "uwsgi", "lsapi", "ajp"]
        .iter()
        .map(route)
        .collect()
}

fn get<'r>(target: &'r str, fields: &'r [(&'r str, &'r str)]) -> Request<'r> {
    Request::get("localhost", target).with_fields(fields)
}

#[test]
fn names_that_are_not_plain_reach_no_backend() {
    let recorder = Recorder::start();
    let saker = native(folder("field-names"), "", &routes(&recorder, ""));
    let fields = [
        ("X_Mark", "spoofed-1"),
        ("x.mark", "spoofed-2"),
        ("X!Mark", "spoofed-3"),
        ("X-Mark", "plain-value"),
        LAST,
    ];
    for scheme in ["http", "fcgi", "scgi", "uwsgi", "lsapi", "ajp"] {
        for protocol in PROTOCOLS {
            ask(
                saker.server.address(),
                protocol,
                &get(&format!("/{scheme}/x"), &fields),
            );
            let told = recorder.take();
            assert!(
                told.contains("plain-value") && !told.contains("spoofed"),
                "{scheme} {protocol:?}: {told}"
            );
        }
    }
}

/// `pass`, and still no two names of one variable.
#[test]
fn underscores_pass_where_the_operator_wants_it() {
    let recorder = Recorder::start();
    let site = format!(
        "underscores = \"pass\"\n{}\n[[site.route]]\npath = \"/not/*\"\nunderscores = \"drop\"\nproxy = \"http://{}\"\n",
        routes(&recorder, ""),
        recorder.address
    );
    let saker = native(folder("field-names-pass"), "", &site);
    let fields = [
        ("X_Mark", "spoofed-1"),
        ("X-Mark", "plain-value"),
        ("x.mark", "spoofed-2"),
        ("api_key", "key-value"),
        LAST,
    ];
    for scheme in ["http", "fcgi", "scgi", "uwsgi", "lsapi", "ajp"] {
        ask(
            saker.server.address(),
            Protocol::Http1,
            &get(&format!("/{scheme}/x"), &fields),
        );
        let told = recorder.take();
        let is_variable = matches!(scheme, "fcgi" | "scgi" | "uwsgi");
        assert!(
            told.contains("plain-value") && told.contains("key-value") && !told.contains("spoofed"),
            "{scheme}: {told}"
        );
        assert!(
            !is_variable || told.contains("HTTP_API_KEY"),
            "{scheme}: {told}"
        );
    }
    ask(
        saker.server.address(),
        Protocol::Http1,
        &get("/not/x", &fields),
    );
    let told = recorder.take();
    assert!(
        told.contains("plain-value") && !told.contains("key-value"),
        "{told}"
    );
}

#[test]
fn programs_are_told_plain_names_only() {
    let dir = folder("field-names-cgi");
    dir.write(
        "www/env.cgi",
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nenv\n",
    )
    .unwrap();
    std::fs::set_permissions(
        dir.join("www/env.cgi"),
        std::fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    let saker = native(
        dir,
        "",
        "cgi = [\"*.cgi\"]\n\n[[site.route]]\npath = \"/open/*\"\nunderscores = \"pass\"\n",
    );
    let fields = [
        ("X_Mark", "spoofed-1"),
        ("x.mark", "spoofed-2"),
        ("X-Mark", "plain-value"),
        ("Proxy", "spoofed-3"),
        ("own_name", "spoofed-4"),
    ];
    for protocol in PROTOCOLS {
        let text = ask(saker.server.address(), protocol, &get("/env.cgi", &fields)).text();
        assert!(
            text.contains("HTTP_X_MARK=plain-value") && !text.contains("spoofed"),
            "{protocol:?}: {text}"
        );
    }
}

/// `authorize_fields` in every spelling, over every protocol of clients and upstreams, also with
/// underscores allowed and on routes without authorization.
#[test]
fn what_an_authorizer_says_of_the_client_cant_be_forged() {
    let recorder = Recorder::start();
    let (door, asked) = authorizer();
    let open = format!(
        "\n[[site.route]]\npath = \"/open/*\"\nauthorize = \"off\"\nproxy = \"http://{}\"\n",
        recorder.address
    );
    for underscores in ["drop", "pass"] {
        let authorize = format!(
            "authorize = \"http://{door}\"\nauthorize_fields = [\"Remote-User\"]\nunderscores = \"{underscores}\"\n"
        );
        let saker = native(
            folder("field-names-authorize"),
            "",
            &format!("{authorize}{}{open}", routes(&recorder, "")),
        );
        for (number, spelling) in ["Remote-User", "REMOTE-USER"]
            .iter()
            .chain(&SPELLINGS)
            .enumerate()
        {
            let fields = [
                (*spelling, "forged-value"),
                ("X_Forwarded_Host", "forged-value"),
                ("x.original.uri", "/forged-value"),
                LAST,
            ];
            let protocol = PROTOCOLS[number % PROTOCOLS.len()];
            for scheme in ["http", "fcgi", "scgi", "uwsgi", "lsapi", "ajp"] {
                ask(
                    saker.server.address(),
                    protocol,
                    &get(&format!("/{scheme}/x"), &fields),
                );
                let told = recorder.take();
                let forged = told.contains("forged-value") && underscores == "drop";
                assert!(
                    told.contains("ann") && !forged && !says(&told, spelling),
                    "{underscores} {scheme} {spelling} {protocol:?}: {told}"
                );
            }
            ask(saker.server.address(), protocol, &get("/open/x", &fields));
            let told = recorder.take();
            assert!(
                !says(&told, spelling) && !told.contains("ann"),
                "nobody has vouched for it: {told}"
            );
        }
    }
    for head in asked.lock().unwrap().iter() {
        assert!(!head.contains("forged-value"), "it was asked with: {head}");
    }
}

/// True if something was told by that name, or by the variable that it becomes.
fn says(told: &str, spelling: &str) -> bool {
    let lower = told.to_ascii_lowercase();
    let value_of = |name: &str| {
        lower.find(name).is_some_and(|at| {
            lower[at..]
                .chars()
                .take(name.len() + 30)
                .collect::<String>()
                .contains("forged")
        })
    };
    value_of(&spelling.to_ascii_lowercase()) || value_of("http_remote_user")
}

/// A client can't make the fields of the authorizer vanish as those of its own hop, nor say them
/// behind the content.
#[test]
fn fields_of_the_authorizer_survive_connection_and_trailers() {
    let recorder = Recorder::start();
    let (door, _) = authorizer();
    let authorize =
        format!("authorize = \"http://{door}\"\nauthorize_fields = [\"Remote-User\"]\n");
    let saker = native(
        folder("field-names-hop"),
        "",
        &format!("{authorize}{}", routes(&recorder, "")),
    );
    // More than is read ahead, so that it goes on in chunks, and trailers with it.
    let content = format!("{}{}", "a".repeat(0x5000 - LAST.1.len()), LAST.1);
    let request = format!(
        "POST /http/x HTTP/1.1\r\nHost: localhost\r\nConnection: close, Remote-User, remote_user\r\nTransfer-Encoding: chunked\r\n\r\n\
         5000\r\n{content}\r\n0\r\nRemote-User: forged-value\r\nREMOTE_USER: forged-value\r\nX_Forwarded_For: forged-value\r\nX-Sum: forged-value\r\n\r\n"
    );
    let answer = tls_exchange(
        saker.server.address(),
        Some("localhost"),
        "http/1.1",
        &[],
        request.as_bytes(),
    );
    let told = recorder.take();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    assert!(
        told.contains("Remote-User: ann\r\n") && !told.contains("forged-value"),
        "{told}"
    );
}

/// An error page that a program generates is requested before the client is authorized.
#[test]
fn error_pages_are_not_told_forged_fields_either() {
    let recorder = Recorder::start();
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let site = format!(
        "authorize = \"http://{nobody}\"\nauthorize_fields = [\"Remote-User\"]\nerror_pages = {{ 503 = \"/http/page\" }}\n\
         \n[[site.route]]\npath = \"/http/*\"\nproxy = \"http://{}\"\n",
        recorder.address
    );
    let saker = native(folder("field-names-error"), "", &site);
    ask(
        saker.server.address(),
        Protocol::Http1,
        &get("/index.html", &[("Remote-User", "forged-value"), LAST]),
    );
    let told = recorder.take();
    assert!(!told.contains("forged-value"), "{told}");
}

/// Fields about the client's way here are ours to say, in every spelling.
#[test]
fn servers_hear_of_the_clients_address_from_us_alone() {
    let recorder = Recorder::start();
    let proxied =
        |underscores: &str| format!("underscores = \"{underscores}\"\n{}", routes(&recorder, ""));
    let spoofs = [
        ("X_Forwarded_For", "6.6.6.6"),
        ("x.forwarded.host", "forged.test"),
        ("X_FORWARDED_PROTO", "gopher"),
        ("X!Forwarded!Server", "forged.test"),
        LAST,
    ];
    for underscores in ["drop", "pass"] {
        let saker = native(folder("field-names-forwarded"), "", &proxied(underscores));
        for protocol in PROTOCOLS {
            ask(saker.server.address(), protocol, &get("/http/x", &spoofs));
            let told = recorder.take();
            let is_forged = ["6.6.6.6", "forged.test", "gopher"]
                .iter()
                .any(|value| told.contains(value));
            assert!(
                told.contains("X-Forwarded-For: 127.0.0.1") && !is_forged,
                "{underscores} {protocol:?}: {told}"
            );
        }
    }
}

/// Through a server that passes underscores to a second one over HTTP/2: what one of them drops
/// comes nowhere.
#[test]
fn http2_towards_a_server_obeys_the_same_rule() {
    let recorder = Recorder::start();
    let second = crate::operate::start("field-names-h2c-second", &second(&recorder));
    let to_second = format!(
        "\n[[site.route]]\npath = \"/http/*\"\nproxy = \"h2c://{}\"\n",
        second.server.address()
    );
    let fields = [("X_Mark", "marked-value"), ("X-Other", "plain-value"), LAST];
    for (underscores, is_told) in [("drop", false), ("pass", true)] {
        let saker = native(
            folder("field-names-h2c"),
            "",
            &format!("underscores = \"{underscores}\"\n{to_second}"),
        );
        ask(
            saker.server.address(),
            Protocol::Http2,
            &get("/http/x", &fields),
        );
        let told = recorder.take();
        assert_eq!(
            (told.contains("marked-value"), told.contains("plain-value")),
            (is_told, true),
            "{underscores}: {told}"
        );
    }
}

fn second(recorder: &Recorder) -> String {
    crate::operate::configuration(
        "",
        &format!("underscores = \"pass\"\n{}", routes(recorder, "")),
    )
}

/// As the real Apache: servers get what was sent, programs plain names only; but nothing that rules
/// set or a proxy vouches for can be forged.
#[test]
fn apaches_configuration() {
    let recorder = Recorder::start();
    let to = recorder.address;
    let site = apache(
        folder("field-names-apache"),
        &format!(
            "ProxyPass /http http://{to}/\nProxyPass /fcgi fcgi://{to}/\nProxyPass /ajp ajp://{to}/\n\
             RequestHeader set X-Set own-value\nRequestHeader unset X-Unset\n\
             RemoteIPHeader X-Client\nRemoteIPProxiesHeader X-By\nRemoteIPInternalProxy 127.0.0.1\n"
        ),
    );
    let fields = [
        ("Other_Name", "other-value"),
        ("X_Set", "forged-1"),
        ("x.set", "forged-2"),
        ("X_Unset", "forged-3"),
        ("X_Client", "forged-4"),
        ("X_By", "forged-5"),
        ("x_forwarded_for", "forged-6"),
        ("X-Client", "9.8.7.6"),
        LAST,
    ];
    for protocol in [Protocol::Plain].into_iter().chain(PROTOCOLS) {
        for (scheme, gets_underscores) in [("http", true), ("fcgi", false), ("ajp", false)] {
            site.ask(protocol, &get(&format!("/{scheme}/x"), &fields));
            let told = recorder.take();
            assert!(
                told.contains("own-value") && !told.contains("forged"),
                "{scheme} {protocol:?}: {told}"
            );
            assert_eq!(
                told.contains("other-value"),
                gets_underscores,
                "{scheme} {protocol:?}: {told}"
            );
        }
    }
    // Without the field itself its spellings are worth nothing either.
    site.ask(
        Protocol::Plain,
        &get(
            "/http/x",
            &[("X_Client", "forged-4"), ("x.client", "forged-4"), LAST],
        ),
    );
    let told = recorder.take();
    assert!(
        told.contains("X-Forwarded-For: 127.0.0.1") && !told.contains("forged"),
        "{told}"
    );
}

/// The plain name is not taken for a forgery.
#[test]
fn plain_fields_pass_as_they_are() {
    let recorder = Recorder::start();
    let saker: Saker = native(folder("field-names-plain"), "", &routes(&recorder, ""));
    let fields = [
        ("Remote-User", "own-claim"),
        ("X-1", "one"),
        ("A--B", "two"),
        LAST,
    ];
    ask(
        saker.server.address(),
        Protocol::Http1,
        &get("/http/x", &fields),
    );
    let told = recorder.take();
    assert!(
        told.contains("Remote-User: own-claim")
            && told.contains("X-1: one")
            && told.contains("A--B: two"),
        "{told}"
    );
    drop(Client::connect(saker.server.address()));
}

/// Fields and parameters that rules of nginx set replace all spellings of the client's, also by a
/// decision that earlier requests have made, and are those of each client.
#[test]
fn fields_of_nginx_take_the_place_of_all_spellings() {
    let recorder = Recorder::start();
    let to = recorder.address;
    let saker = crate::operate::nginx(&format!(
        "worker_processes 1;\nevents {{ }}\nhttp {{\naccess_log off;\nunderscores_in_headers on;\nignore_invalid_headers off;\n\
         server {{\nlisten {{address}};\n\
         location /http/ {{\nproxy_pass http://{to};\nproxy_set_header Remote-User own-$http_x_claim;\n\
         proxy_set_header _Odd own-odd;\nproxy_set_header X-Gone \"\";\nproxy_set_header Proxy-Connection own-framing;\n}}\n\
         location /fcgi/ {{\nfastcgi_pass {to};\nfastcgi_param HTTP_REMOTE_USER own-$http_x_claim;\n\
         fastcgi_param HTTP__ODD own-odd;\nfastcgi_param HTTP_X_GONE \"\";\nfastcgi_param EMPTY \"\" if_not_empty;\n}}\n\
         location /bare/ {{\nfastcgi_pass {to};\nfastcgi_pass_request_headers off;\n\
         fastcgi_param NAME own-$http_x_claim;\nfastcgi_param END {};\n}}\n}}\n}}\n",
        LAST.1
    ))
    .start(folder("field-names-nginx"));
    let forged = SPELLINGS
        .into_iter()
        .chain(["Remote-User", "_odd", "-Odd", "x_gone", "X-Gone"]);
    let forged: Vec<(&str, &str)> = forged.map(|name| (name, "forged")).collect();
    for claim in ["one", "two", "one"] {
        for target in ["/http/x", "/fcgi/x", "/bare/x"] {
            for connection in ["keep-alive", "Remote-User, _Odd"] {
                let own = [("Connection", connection), ("X-Claim", claim), LAST];
                let fields = [&forged[..], &own].concat();
                let mut client = saker.connect().unwrap();
                // The recorder answers in HTTP, which is no answer of a program.
                drop(client.request("GET", target, &fields));
                let told = recorder.take();
                assert!(
                    told.contains(&format!("own-{claim}")) && !told.contains("forged"),
                    "{target} {claim} {connection}: {told}"
                );
                assert_eq!(
                    told.matches("own-odd").count(),
                    usize::from(target != "/bare/x"),
                    "{target}: {told}"
                );
                assert_eq!(told.contains("HTTP_X_CLAIM"), target == "/fcgi/x", "{told}");
                assert!(
                    !told.contains("EMPTY") && !told.contains("own-framing"),
                    "{told}"
                );
            }
        }
    }
}
