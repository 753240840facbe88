//! Log-in with a directory, tokens, and an OpenID Connect provider, against a real slapd and a real
//! provider (oidc-provider), with curl for the browser.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

mod connections;
mod http3;
mod keys;

use crate::{
    databases::{Slapd, certificates::Certificates},
    openid_provider::{CurlBrowser as Browser, Page, Provider},
    operate::{self, wait_until},
    tls_site,
};
use jsonwebtoken::{Algorithm, EncodingKey, crypto::sign};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use saker_ap_expr::base64_encode;
use saker_testkit::{Response, Saker, TempDir, free_port, saker::adjustable_clock};
use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

/// An upstream that says which fields it got; its URL, and the number of requests.
fn echo() -> (String, Arc<AtomicUsize>) {
    server(|head| {
        let cacheable = match head.starts_with("GET /app/cached") {
            true => "Cache-Control: max-age=60\r\n",
            false => "",
        };
        let told: Vec<&str> = head
            .lines()
            .filter(|line| line.to_ascii_lowercase().starts_with("remote"))
            .collect();
        let target = head.split(' ').nth(1).unwrap_or_default();
        let body = format!("{target} {}\n", told.join(" | "));
        format!(
            "HTTP/1.1 200 OK\r\n{cacheable}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    })
}

/// A server on HTTP/1.1 with an answer for each head.
fn server(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (answer, count) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (answer, counted) = (Arc::clone(&answer), Arc::clone(&counted));
            thread::spawn(move || {
                let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
                loop {
                    while let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                        let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
                        bytes.drain(..at + 4);
                        counted.fetch_add(1, Relaxed);
                        if stream.write_all(answer(&head).as_bytes()).is_err() {
                            return;
                        }
                    }
                    match stream.read(&mut piece) {
                        Ok(read) if read > 0 => bytes.extend_from_slice(&piece[..read]),
                        _ => return,
                    }
                }
            });
        }
    });
    (url, count)
}

fn get(saker: &Saker, path: &str, fields: &[(&str, &str)]) -> Response {
    saker
        .connect()
        .unwrap()
        .request("GET", path, fields)
        .unwrap()
}

// Directories.

const PEOPLE: &str = "\
dn: ou=people,dc=test\nobjectClass: organizationalUnit\nou: people\n\n\
dn: uid=ann,ou=people,dc=test\nobjectClass: inetOrgPerson\nuid: ann\ncn: Ann\nsn: A\nmail: ann@example.org\nuserPassword: secret\n\n\
dn: cn=Bob\\, B (x)*,ou=people,dc=test\nobjectClass: inetOrgPerson\nuid: bob\ncn: Bob, B (x)*\nsn: B\nuserPassword: secret\n\n\
dn: cn=one,ou=people,dc=test\nobjectClass: inetOrgPerson\nuid: twice\ncn: one\nsn: C\nuserPassword: secret\n\n\
dn: cn=two,ou=people,dc=test\nobjectClass: inetOrgPerson\nuid: twice\ncn: two\nsn: C\nuserPassword: secret\n\n\
dn: uid=nopass,ou=people,dc=test\nobjectClass: inetOrgPerson\nuid: nopass\ncn: N\nsn: N\n\n\
dn: uid=referred,ou=people,dc=test\nobjectClass: referral\nobjectClass: extensibleObject\nuid: referred\nref: ldap://127.0.0.1:1/uid=ann,ou=people,dc=test\n\n\
dn: ou=groups,dc=test\nobjectClass: organizationalUnit\nou: groups\n\n\
dn: cn=staff,ou=groups,dc=test\nobjectClass: groupOfNames\ncn: staff\nmember: uid=ann,ou=people,dc=test\n\n\
dn: cn=Domain Users,ou=groups,dc=test\nobjectClass: groupOfNames\ncn: Domain Users\nmember: cn=Bob\\, B (x)*,ou=people,dc=test\n\n";

const SCHEMA: &str =
    "include /etc/ldap/schema/cosine.schema\ninclude /etc/ldap/schema/inetorgperson.schema";

fn directory(dir: &TempDir) -> Slapd {
    Slapd::start_with(dir, PEOPLE, SCHEMA, "")
}

/// Lines of `[site.auth]` and `[site.auth.ldap]` for a URL.
fn ldap_site(url: &str, auth: &str, ldap: &str, more: &str) -> String {
    operate::configuration(
        "workers = 1",
        &format!(
            "[site.auth]\n{auth}\n[site.auth.ldap]\nurl = \"{url}\"\nbase = \"ou=people,dc=test\"\n\
             bind_dn = \"cn=admin,dc=test\"\npassword = \"secret\"\n{ldap}\n{more}"
        ),
    )
}

fn base64(bytes: &[u8]) -> String {
    String::from_utf8(base64_encode(bytes)).unwrap()
}

fn base64url(bytes: &[u8]) -> String {
    let text = base64(bytes).replace('+', "-").replace('/', "_");
    text.trim_end_matches('=').to_owned()
}

fn basic(credentials: &str) -> String {
    format!("Basic {}", base64(credentials.as_bytes()))
}

fn log_in(saker: &Saker, path: &str, credentials: &str) -> Response {
    get(saker, path, &[("Authorization", &basic(credentials))])
}

#[test]
fn users_of_a_directory() {
    let dir = operate::folder("identity-ldap");
    for folder in ["staff", "dn", "domain"] {
        dir.write(&format!("www/{folder}/a.txt"), "a\n").unwrap();
    }
    let slapd = directory(&dir);
    let (upstream, _) = echo();
    let routes = format!(
        "group_filter = \"(member=?)\"\ngroup_base = \"ou=groups,dc=test\"\ncache = \"0s\"\n\
         [[site.route]]\npath = \"/staff/*\"\n[site.route.auth]\ngroups = [\"staff\"]\n\
         [[site.route]]\npath = \"/dn/*\"\n[site.route.auth]\ngroups = [\"cn=staff,ou=groups,dc=test\"]\n\
         [[site.route]]\npath = \"/domain/*\"\n[site.route.auth]\ngroups = [\"domain users\"]\n\
         [[site.route]]\npath = \"/app/*\"\nproxy = \"{upstream}\"\n"
    );
    let auth = "fields = { Remote-Mail = \"mail\" }\nvariables = { AUTH_MAIL = \"mail\" }";
    let saker = operate::start_in(dir, &ldap_site(&slapd.url(), auth, &routes, ""));
    for (path, credentials, expected) in [
        ("/index.html", "ann:secret", 200),
        ("/index.html", "ANN:secret", 200),
        ("/index.html", "bob:secret", 200),
        ("/index.html", "ann:wrong", 401),
        // Binds without a password succeed, as anonymous ones.
        ("/index.html", "ann:", 401),
        ("/index.html", "ann", 401),
        ("/index.html", "ann:\0", 401),
        ("/index.html", ":secret", 401),
        ("/index.html", "nobody:secret", 401),
        ("/index.html", "nopass:secret", 401),
        ("/index.html", "nopass:", 401),
        ("/index.html", "twice:secret", 401),
        ("/index.html", "referred:secret", 401),
        // Names can't change the filter.
        ("/index.html", "*:secret", 401),
        ("/index.html", "an*:secret", 401),
        ("/index.html", "ann)(uid=*:secret", 401),
        ("/index.html", "x)(|(uid=ann:secret", 401),
        ("/index.html", "an\\6e:secret", 401),
        ("/staff/a.txt", "ann:secret", 200),
        ("/staff/a.txt", "bob:secret", 401),
        ("/dn/a.txt", "ann:secret", 200),
        ("/dn/a.txt", "bob:secret", 401),
        ("/domain/a.txt", "bob:secret", 200),
        ("/domain/a.txt", "ann:secret", 401),
    ] {
        let status = log_in(&saker, path, credentials).status;
        assert_eq!(
            status,
            expected,
            "{path} {credentials:?}\n{}",
            saker.server.stderr()
        );
    }
    assert_eq!(get(&saker, "/index.html", &[]).status, 401);
    let told = |name: &str| {
        let authorization = basic(&format!("{name}:secret"));
        let fields = [
            ("Authorization", &*authorization),
            ("Remote-Mail", "evil@example.org"),
            ("Remote_Mail", "evil@example.org"),
        ];
        get(&saker, "/app/me", &fields).text()
    };
    assert_eq!(told("ann"), "/app/me Remote-Mail: ann@example.org\n");
    assert_eq!(told("bob"), "/app/me \n");
}

#[test]
fn a_directory_that_is_down_denies() {
    let dir = operate::folder("identity-ldap-down");
    let mut slapd = Some(directory(&dir));
    let url = slapd.as_ref().unwrap().url();
    let remembered =
        "[[site.route]]\npath = \"/remembered*\"\n[site.route.auth.ldap]\ncache = \"1h\"\n";
    dir.write("www/remembered.txt", "a\n").unwrap();
    let text = ldap_site(&url, "", "cache = \"0s\"\ntimeout = \"2s\"", remembered);
    let saker = operate::start_in(dir, &text);
    assert_eq!(log_in(&saker, "/index.html", "ann:secret").status, 200);
    assert_eq!(log_in(&saker, "/remembered.txt", "ann:secret").status, 200);
    drop(slapd.take());
    for credentials in ["ann:secret", "ann:wrong", "nobody:secret"] {
        assert_eq!(
            log_in(&saker, "/index.html", credentials).status,
            500,
            "{credentials}"
        );
    }
    // Remembered is the log-in with this password alone.
    assert_eq!(log_in(&saker, "/remembered.txt", "ann:secret").status, 200);
    assert_eq!(log_in(&saker, "/remembered.txt", "ann:wrong").status, 500);
    assert_eq!(log_in(&saker, "/remembered.txt", "bob:secret").status, 500);
    saker
        .server
        .wait_for_stderr("directory can't be asked", saker_testkit::PATIENCE)
        .unwrap();
    std::fs::remove_dir_all(saker.dir.join("ldap")).unwrap();
    slapd = Some(directory(&saker.dir));
    assert_eq!(
        log_in(&saker, "/index.html", "ann:secret").status,
        200,
        "{}",
        saker.server.stderr()
    );
    drop(slapd);
}

#[test]
fn a_directory_with_start_tls() {
    let dir = operate::folder("identity-ldap-tls");
    let certificates = Certificates::make(&dir);
    let port = free_port().unwrap();
    let more = format!(
        "{SCHEMA}\nTLSCACertificateFile {}\nTLSCertificateFile {}\nTLSCertificateKeyFile {}\nsecurity tls=1",
        certificates.path("ca.pem"),
        certificates.path("server.pem"),
        certificates.path("server.key")
    );
    let slapd = Slapd::start_with(&dir, PEOPLE, &more, &format!("ldap://127.0.0.1:{port}"));
    let url = format!("ldap://localhost:{port}");
    let tls = format!(
        "start_tls = true\nca_file = \"{}\"",
        certificates.path("ca.pem")
    );
    let saker = operate::start_in(dir, &ldap_site(&url, "", &tls, ""));
    assert_eq!(
        log_in(&saker, "/index.html", "ann:secret").status,
        200,
        "{}",
        saker.server.stderr()
    );
    assert_eq!(log_in(&saker, "/index.html", "ann:wrong").status, 401);
    for tls in ["", "start_tls = true"] {
        operate::rewrite(&saker, &ldap_site(&url, "", tls, ""));
        assert!(operate::reload(&saker).status.success());
        assert_eq!(
            log_in(&saker, "/index.html", "ann:secret").status,
            500,
            "{tls:?}"
        );
    }
    drop(slapd);
}

// Tokens with keys from a URL.

struct Issuer {
    key: KeyPair,
    id: &'static str,
}

impl Issuer {
    fn new(id: &'static str) -> Issuer {
        Issuer {
            key: KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap(),
            id,
        }
    }

    fn pem(&self) -> String {
        self.key.public_key_pem()
    }

    fn jwk(&self) -> String {
        let point = self.key.der_bytes();
        format!(
            "{{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"{}\",\"x\":\"{}\",\"y\":\"{}\"}}",
            self.id,
            base64url(&point[1..33]),
            base64url(&point[33..65])
        )
    }

    fn token(&self, user: &str) -> String {
        let header = format!("{{\"alg\":\"ES256\",\"kid\":\"{}\"}}", self.id);
        let claims = format!("{{\"sub\":\"{user}\",\"exp\":4102444800}}");
        let message = format!(
            "{}.{}",
            base64url(header.as_bytes()),
            base64url(claims.as_bytes())
        );
        let key = EncodingKey::from_ec_der(self.key.serialized_der());
        let signature = sign(message.as_bytes(), &key, Algorithm::ES256).unwrap();
        format!("{message}.{signature}")
    }
}

fn with_token(saker: &Saker, token: &str) -> u16 {
    get(
        saker,
        "/index.html",
        &[("Authorization", &format!("Bearer {token}"))],
    )
    .status
}

#[test]
fn keys_from_a_url_are_fetched_when_they_change() {
    let (old, new) = (Issuer::new("old"), Issuer::new("new"));
    let document = Arc::new(Mutex::new(format!("{{\"keys\":[{}]}}", old.jwk())));
    let served = Arc::clone(&document);
    let (url, fetched) = server(move |_| {
        let text = served.lock().unwrap().clone();
        match text.as_str() {
            "" => "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n".into(),
            text => format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            ),
        }
    });
    let dir = operate::folder("identity-jwks");
    let text = format!(
        "[site.auth.jwt]\nalgorithms = [\"ES256\", \"HS256\"]\nkeys_url = \"{url}/keys\"\n"
    );
    let saker = operate::start_in(dir, &operate::configuration("workers = 1", &text));
    for _ in 0..3 {
        assert_eq!(
            with_token(&saker, &old.token("ann")),
            200,
            "{}",
            saker.server.stderr()
        );
    }
    assert_eq!(fetched.load(Relaxed), 1, "one fetch is enough");
    // An unknown key is looked for once, not by each request.
    *document.lock().unwrap() = String::new();
    for _ in 0..3 {
        assert_eq!(with_token(&saker, &new.token("ann")), 401);
    }
    assert!(fetched.load(Relaxed) <= 2);
    assert_eq!(
        with_token(&saker, &old.token("ann")),
        200,
        "keys stay when a fetch fails"
    );
    // The public key is no secret.
    let message = format!(
        "{}.{}",
        base64url(b"{\"alg\":\"HS256\",\"kid\":\"old\"}"),
        base64url(b"{\"sub\":\"ann\",\"exp\":4102444800}")
    );
    for secret in [
        old.pem().into_bytes(),
        old.jwk().into_bytes(),
        old.key.der_bytes().to_vec(),
    ] {
        let signature = sign(
            message.as_bytes(),
            &EncodingKey::from_secret(&secret),
            Algorithm::HS256,
        )
        .unwrap();
        assert_eq!(with_token(&saker, &format!("{message}.{signature}")), 401);
    }
}

#[test]
fn users_stay_apart_under_htaccess_files() {
    let issuer = Issuer::new("a");
    let dir = operate::folder("identity-htaccess");
    dir.write("keys.pem", issuer.pem()).unwrap();
    dir.write("www/.htaccess", "Options +ExecCGI\n").unwrap();
    let script = dir
        .write(
            "www/me.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\nCache-Control: max-age=60\\r\\n\\r\\n%s' \"$REMOTE_USER\"\n",
        )
        .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(script, mode).unwrap();
    let text = "htaccess = true\ncgi = [\"*.cgi\"]\ncache = true\n[site.auth.jwt]\n\
                algorithms = [\"ES256\"]\nkeys_file = \"keys.pem\"\ncookie = \"token\"\n";
    let saker = operate::start_in(dir, &operate::configuration("workers = 1", text));
    for _ in 0..2 {
        for user in ["ann", "bob"] {
            let cookie = format!("token={}", issuer.token(user));
            let response = get(&saker, "/me.cgi", &[("Cookie", &cookie)]);
            assert_eq!(
                (response.status, &*response.text()),
                (200, user),
                "{}",
                saker.server.stderr()
            );
        }
        assert_eq!(get(&saker, "/me.cgi", &[]).status, 401);
    }
}

#[test]
fn an_issuer_that_is_down_denies() {
    let dir = operate::folder("identity-jwks-down");
    let issuer = Issuer::new("a");
    let (long, _) = server(|_| {
        let body = format!("{{\"keys\":[]}}{}", " ".repeat(300 << 10));
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let down = format!("http://127.0.0.1:{}", free_port().unwrap());
    let text = |url: &str| {
        let site =
            format!("[site.auth.jwt]\nalgorithms = [\"ES256\"]\nkeys_url = \"{url}/keys\"\n");
        operate::configuration("workers = 1", &site)
    };
    let saker = operate::start_in(dir, &text(&down));
    for url in [&down, &long] {
        operate::rewrite(&saker, &text(url));
        assert!(operate::reload(&saker).status.success());
        let before = saker.server.stderr().len();
        assert_eq!(with_token(&saker, &issuer.token("ann")), 503, "{url}");
        wait_until("the failure is in the error log", || {
            saker.server.stderr()[before..].contains("SK1401")
        });
    }
}

// A provider.

struct Stage {
    saker: Saker,
    provider: Option<Provider>,
    url: String,
    asked: Arc<AtomicUsize>,
}

fn stage(name: &str, auth: &str, oidc: &str) -> Stage {
    let dir = operate::folder(name);
    tls_site::certificate(&dir, "site", "localhost");
    dir.write("www/staff/a.txt", "staff\n").unwrap();
    dir.write("www/goodbye.txt", "goodbye\n").unwrap();
    let port = free_port().unwrap();
    let (upstream, asked) = echo();
    dir.write("client-secret", "a secret: with %\n").unwrap();
    dir.write("session-keys", format!("{}\n", "a".repeat(40)))
        .unwrap();
    let secret = match oidc.contains("client_secret_file") {
        true => "",
        false => "client_secret = \"a secret: with %\"",
    };
    if oidc.contains("session_lifetime") {
        adjustable_clock(&dir).unwrap();
    }
    let site = format!(
        "[site.auth]\n{auth}\nfields = {{ Remote-Email = \"email\", Remote-Name = \"sub\" }}\n\
         [site.auth.oidc]\nissuer = \"http://127.0.0.1:{port}\"\nclient_id = \"shop\"\n\
         {secret}\nscopes = [\"openid\", \"email\", \"groups\", \"profile\"]\n\
         logged_out = \"/goodbye.txt\"\n{oidc}\n\
         [[site.route]]\npath = \"/app/*\"\nproxy = \"{upstream}\"\ncache = true\n\
         [[site.route]]\npath = \"/goodbye.txt\"\n[site.route.auth]\nenabled = false\n\
         [[site.route]]\npath = \"/staff/*\"\n[site.route.auth]\ngroups = [\"staff\"]\n"
    );
    let text = tls_site::configuration("", &site);
    let saker = operate::start_in(dir, &text);
    let url = format!("https://{}", saker.server.address());
    let provider = Some(Provider::start(
        port,
        &format!("{url}/oidc/callback"),
        &format!("{url}/goodbye.txt"),
    ));
    Stage {
        saker,
        provider,
        url,
        asked,
    }
}

#[test]
fn browsers_log_in_at_a_provider() {
    let stage = stage("identity-oidc", "", "domains = [\"example.org\"]");
    let (dir, url) = (&*stage.saker.dir, &stage.url);
    for version in ["--http1.1", "--http2"] {
        let browser = |name: &str| Browser::new(dir, &format!("{name}{version}"), version);
        let (ann, bob, eve) = (browser("ann"), browser("bob"), browser("eve"));
        let page = ann.log_in(&format!("{url}/app/cached?a=b%2F&c"), "ann");
        assert_eq!(
            (page.status, &*page.text),
            (
                200,
                "/app/cached?a=b%2F&c Remote-Email: ann@example.org | Remote-Name: ann\n"
            ),
            "{page:?}\n{}",
            stage.saker.server.stderr()
        );
        assert_eq!(page.url, format!("{url}/app/cached?a=b%2F&c"));
        assert!(
            page.heads.contains("__Host-saker-session-"),
            "{}",
            page.heads
        );
        for line in page
            .heads
            .lines()
            .filter(|line| line.to_ascii_lowercase().starts_with("set-cookie: __host-"))
        {
            for attribute in ["; Path=/", "; Secure", "; HttpOnly", "; SameSite=Lax"] {
                assert!(
                    line.contains(attribute) && !line.contains("Domain"),
                    "{line}"
                );
            }
        }
        // Another user gets another page, and a client without a session none.
        let page = bob.log_in(&format!("{url}/app/cached?a=b%2F&c"), "bob");
        assert!(
            page.text.contains("Remote-Name: bob") && !page.text.contains("ann"),
            "{page:?}"
        );
        let page = browser("nobody").open(&format!("{url}/app/cached?a=b%2F&c"), &[]);
        assert_eq!(page.status, 302);
        assert!(
            page.heads
                .to_ascii_lowercase()
                .contains("cache-control: no-store")
        );
        // Groups of claims; fields of the client's own.
        assert_eq!(ann.open(&format!("{url}/staff/a.txt"), &[]).text, "staff\n");
        assert_eq!(bob.open(&format!("{url}/staff/a.txt"), &[]).status, 403);
        let forged = [
            "-H",
            "Remote-Email: evil",
            "-H",
            "Remote_Name: evil",
            "-H",
            "remote.email: evil",
        ];
        let page = ann.open(&format!("{url}/app/me"), &forged);
        assert_eq!(
            page.text,
            "/app/me Remote-Email: ann@example.org | Remote-Name: ann\n"
        );
        assert!(
            page.heads
                .to_ascii_lowercase()
                .contains("cache-control: private"),
            "{}",
            page.heads
        );
        // An address that was not verified does not count.
        assert_eq!(eve.log_in(&format!("{url}/app/me"), "eve").status, 403);
        // Scripts and forms are not sent away.
        let stranger = browser("stranger");
        for more in [
            &["-d", "a=b"][..],
            &["-H", "Sec-Fetch-Mode: cors"],
            &["-H", "X-Requested-With: x"],
        ] {
            assert_eq!(
                stranger.open(&format!("{url}/app/me"), more).status,
                401,
                "{more:?}"
            );
        }
        // Log-out.
        let page = ann.open(
            &format!("{url}/oidc/logout"),
            &["-H", "Sec-Fetch-Site: cross-site"],
        );
        assert_eq!(page.status, 403);
        let page = ann.open(&format!("{url}/oidc/logout"), &[]);
        assert!(
            page.status == 302 && page.heads.contains("/session/end?client_id=shop&"),
            "{page:?}"
        );
        assert_eq!(ann.open(&format!("{url}/app/me"), &[]).status, 302);
    }
}

#[test]
fn callbacks_and_cookies_of_others_are_refused() {
    let stage = stage("identity-oidc-forged", "", "");
    let (dir, url) = (&*stage.saker.dir, &stage.url);
    let browser = |name: &str| Browser::new(dir, name, "--http1.1");
    let (ann, eve) = (browser("ann"), browser("eve"));
    // Where the way back would lead to another host, it leads home.
    let page = ann.log_in(&format!("{url}//evil.example/%2e%2e"), "ann");
    assert_eq!(
        (page.status, page.url),
        (200, format!("{url}/")),
        "{}",
        page.heads
    );
    let page = ann.open(&format!("{url}/app/me"), &[]);
    assert!(page.text.contains("Remote-Name: ann"), "{page:?}");
    // A callback without the attempt's cookie: a code of another browser.
    let eve_page = eve.open(&format!("{url}/app/me"), &["-L"]);
    assert!(eve_page.url.contains("/interaction/"));
    let page = eve.open(
        &eve_page.url,
        &["-L", "-d", "prompt=login&login=eve&password=x"],
    );
    let mut next = eve.open(&page.url, &["-d", "prompt=consent"]);
    let location = |page: &Page| {
        let line = page
            .heads
            .lines()
            .rev()
            .find(|line| line.to_ascii_lowercase().starts_with("location: "));
        line.map(|line| line[10..].trim().to_owned())
            .unwrap_or_default()
    };
    while !location(&next).contains("/oidc/callback") {
        next = eve.open(&location(&next), &[]);
        assert!(next.status < 400, "{next:?}");
    }
    let callback = location(&next);
    assert_eq!(browser("victim").open(&callback, &[]).status, 400);
    assert_eq!(ann.open(&callback, &[]).status, 400);
    assert_eq!(
        eve.open(&callback.replace("state=", "state=x"), &[]).status,
        400
    );
    assert_eq!(
        eve.open(
            &format!("{callback}&iss=https%3A%2F%2Fevil.example")
                .replace("&iss=http%3A", "&old=http%3A"),
            &[]
        )
        .status,
        400
    );
    assert_eq!(eve.open(&callback, &["-X", "DELETE"]).status, 405);
    // curl reads its jar again after a redirect, and would find the attempt there.
    assert_eq!(eve.open(&callback, &[]).status, 302);
    let page = eve.open(&format!("{url}/app/me"), &[]);
    assert!(
        page.text.contains("Remote-Name: eve"),
        "{page:?} {}",
        stage.saker.server.stderr()
    );
    // Used once.
    assert_eq!(eve.open(&callback, &[]).status, 400);
    for target in [
        "/oidc/callback",
        "/oidc/callback?state=x",
        "/oidc/callback?error=x%0d%0aevil&state=y",
    ] {
        assert_eq!(
            eve.open(&format!("{url}{target}"), &[]).status,
            400,
            "{target}"
        );
    }
    // Cookies that were changed are none.
    let jar = std::fs::read_to_string(dir.join("jar-eve")).unwrap();
    let line = jar
        .lines()
        .find(|line| line.contains("__Host-saker-session"))
        .unwrap();
    let cookie: Vec<&str> = line.split('\t').collect();
    let (name, value) = (cookie[5], cookie[6]);
    let status = |cookie: String| {
        let stranger = browser("stranger");
        let status = stranger
            .open(
                &format!("{url}/app/me"),
                &["-H", &format!("Cookie: {cookie}")],
            )
            .status;
        stranger.forget();
        status
    };
    assert_eq!(status(format!("{name}={value}")), 200);
    assert_eq!(status(format!("{name}=")), 302);
    assert_eq!(status(format!("{name}=x{value}")), 302);
    assert_eq!(
        status(format!("{}={value}", name.trim_start_matches("__Host-"))),
        302
    );
    let changed = format!(
        "{}{}",
        if value.starts_with('A') { 'B' } else { 'A' },
        &value[1..]
    );
    assert_eq!(status(format!("{name}={changed}")), 302);
    // Many attempts do not fill the browser.
    let many = browser("many");
    let mut removed = 0;
    for _ in 0..12 {
        let page = many.open(&format!("{url}/app/me"), &[]);
        assert_eq!(page.status, 302);
        let lines = page.heads.matches("saker-login-").count();
        let of_page = page.heads.matches("Max-Age=0;").count();
        assert_eq!(lines, 1 + of_page, "{}", page.heads);
        removed = removed.max(of_page);
    }
    assert!(
        removed >= 5,
        "all of them are removed when there are too many"
    );
}

#[test]
fn sessions_are_renewed_and_outlive_a_provider_that_is_down() {
    let mut stage = stage(
        "identity-oidc-renewal",
        "",
        "renew = \"1s\"\nuserinfo = true",
    );
    let url = stage.url.clone();
    let dir = stage.saker.dir.to_path_buf();
    let browser = |name: &str| Browser::new(&dir, name, "--http1.1");
    let (ann, gone, big) = (browser("ann"), browser("gone"), browser("big"));
    assert_eq!(
        ann.log_in(&format!("{url}/app/me"), "ann").status,
        200,
        "{}",
        stage.saker.server.stderr()
    );
    assert_eq!(gone.log_in(&format!("{url}/app/me"), "gone").status, 200);
    // A long session takes several cookies.
    let page = big.log_in(&format!("{url}/app/me"), "big");
    assert!(page.status == 200 && page.heads.contains(".1="), "{page:?}");
    let page = big.open(&format!("{url}/app/me"), &[]);
    assert!(
        page.text.contains("Remote-Name: big"),
        "{page:?} {}",
        stage.saker.server.stderr()
    );
    wait_until("the session is renewed", || {
        let page = ann.open(&format!("{url}/app/me"), &[]);
        assert_eq!(page.status, 200, "{page:?} {}", stage.saker.server.stderr());
        page.heads.contains("__Host-saker-session-")
    });
    assert_eq!(
        ann.open(&format!("{url}/staff/a.txt"), &[]).text,
        "staff\n",
        "with its claims"
    );
    wait_until("the provider ends a session", || {
        gone.open(&format!("{url}/app/me"), &[]).status == 302
    });
    let before = stage.asked.load(Relaxed);
    drop(stage.provider.take());
    wait_until("the provider is missed", || {
        let page = ann.open(&format!("{url}/app/me"), &[]);
        assert_eq!(page.status, 200, "{page:?}");
        stage.saker.server.stderr().contains("SK1402")
    });
    assert!(stage.asked.load(Relaxed) > before);
    // Keys of sessions outlive the server.
    let key = std::fs::metadata(dir.join("state/session.key")).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&key.permissions()) & 0o777,
        0o600
    );
}

#[test]
fn plain_http_and_a_dead_provider_are_refused() {
    let site = |more: &str| {
        format!(
            "[site.auth.oidc]\nissuer = \"http://127.0.0.1:{}\"\nclient_id = \"shop\"\n{more}\n",
            free_port().unwrap()
        )
    };
    let dir = operate::folder("identity-oidc-plain");
    let saker = operate::start_in(dir, &operate::configuration("workers = 1", &site("")));
    for path in [
        "/index.html",
        "/oidc/callback?state=x&code=y",
        "/oidc/logout",
    ] {
        assert_eq!(get(&saker, path, &[]).status, 403, "{path}");
    }
    saker
        .server
        .wait_for_stderr("SK1406", saker_testkit::PATIENCE)
        .unwrap();
    operate::rewrite(
        &saker,
        &operate::configuration("workers = 1", &site("allow_http = true")),
    );
    assert!(operate::reload(&saker).status.success());
    assert_eq!(get(&saker, "/index.html", &[]).status, 503);
    saker
        .server
        .wait_for_stderr("SK1402", saker_testkit::PATIENCE)
        .unwrap();
    assert_eq!(
        get(&saker, "/index.html", &[("Sec-Fetch-Mode", "cors")]).status,
        401
    );
}
