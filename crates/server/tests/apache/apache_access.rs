//! Access control where one request alone does not show it: Digest with its nonces, password files
//! that change, slow hashes, and caching. Digest is compared with the real apache2.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use md5::{Digest, Md5};
use saker_testkit::{
    Client, Response, ServerProcess, TempDir,
    apache2::{load_modules, start_apache2},
    free_port, wait_for, wait_until, wait_until_or,
};
use std::{fs, io, net::SocketAddr, process::Command, thread, time::Instant};

const MODULES: &[&str] = &[
    "mpm_event",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_user",
    "authz_host",
    "auth_basic",
    "auth_digest",
    "access_compat",
    "ssl",
    "setenvif",
    "headers",
    "remoteip",
];

/// A folder with a page in it, and a configuration around `conf` for a server at `address`.
fn configuration(dir: &TempDir, address: SocketAddr, conf: &str) -> io::Result<std::path::PathBuf> {
    let root = dir.display().to_string();
    let mut text = format!("ServerRoot {root}\nServerName server.test\nListen {address}\n");
    text.push_str(&load_modules(MODULES));
    text.push_str(&format!(
        "PidFile {root}/pid\nDefaultRuntimeDir {root}\nErrorLog {root}/error-{}.log\nDocumentRoot {root}/site\nUser www-data\nGroup www-data\n{}",
        address.port(),
        conf.replace("{root}", &root)
    ));
    dir.write("site/page.txt", "page\n")?;
    dir.write(&format!("{}.conf", address.port()), text)
}

fn saker(dir: &TempDir, conf: &str) -> (ServerProcess, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let file = configuration(dir, address, conf).unwrap();
    let saker = operate::apache("")
        .existing_file(file)
        .at(address)
        .start_in(dir);
    (saker, address)
}

fn apache(dir: &TempDir, conf: &str) -> (ServerProcess, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let file = configuration(dir, address, conf).unwrap();
    (start_apache2(&file, address).unwrap(), address)
}

fn ask(address: SocketAddr, method: &str, target: &str, fields: &[(&str, &str)]) -> Response {
    let mut all = vec![("Host", "server.test")];
    all.extend_from_slice(fields);
    Client::connect(address)
        .unwrap()
        .request(method, target, &all)
        .unwrap()
}

fn basic(user: &str, password: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let text = format!("{user}:{password}");
    let letters = text.as_bytes().chunks(3).flat_map(|part| {
        let number = (0..3).fold(0_u32, |number, at| {
            number << 8 | u32::from(part.get(at).copied().unwrap_or(0))
        });
        (0..=part.len()).map(move |at| char::from(LETTERS[(number >> (18 - 6 * at) & 63) as usize]))
    });
    format!("Basic {}", letters.collect::<String>())
}

fn md5(text: &str) -> String {
    Md5::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The value of a parameter of a challenge.
pub fn parameter<'t>(challenge: &'t str, name: &str) -> Option<&'t str> {
    challenge
        .split_once(&format!("{name}=\""))?
        .1
        .split('"')
        .next()
}

/// `Authorization` of digest authentication (RFC 2617 section 3.2.2).
pub struct Proof<'p> {
    pub user: &'p str,
    pub password: &'p str,
    pub realm: &'p str,
    pub method: &'p str,
    pub uri: &'p str,
    pub nonce: &'p str,
    /// Further parameters, each with a comma before it.
    pub more: &'p str,
}

impl Proof<'_> {
    pub fn value(&self) -> String {
        let Proof {
            user,
            password,
            realm,
            method,
            uri,
            nonce,
            more,
        } = self;
        let secret = md5(&format!("{user}:{realm}:{password}"));
        let second = md5(&format!("{method}:{uri}"));
        let response = md5(&format!("{secret}:{nonce}:00000001:abc:auth:{second}"));
        format!(
            "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", response=\"{response}\", cnonce=\"abc\", nc=00000001{more}"
        )
    }
}

const DIGEST: &str = "<Location />\nAuthType Digest\nAuthName \"the realm\"\nAuthDigestDomain / /other\nAuthUserFile {root}/digest\nRequire valid-user\n\
                      </Location>\n<Location /short>\nAuthName \"the realm\"\nAuthDigestNonceLifetime 1\n</Location>\n\
                      <Location /no-realm>\nAuthDigestNonceLifetime 1\n</Location>\n";

/// One line per request: what came of it, without what is different each time.
fn digest_exchange(address: SocketAddr) -> Vec<String> {
    let first = ask(address, "GET", "/page.txt", &[]);
    let challenge = first
        .field("WWW-Authenticate")
        .unwrap_or_default()
        .to_owned();
    let nonce = parameter(&challenge, "nonce")
        .unwrap_or_default()
        .to_owned();
    let shown = |response: &Response, nonce: &str| {
        let field = |name: &str| response.field(name).unwrap_or("-").to_owned();
        let challenge = field("WWW-Authenticate");
        let other = parameter(&challenge, "nonce").unwrap_or("-").to_owned();
        format!(
            "{} {} {}",
            response.status,
            challenge.replace(&other, "NONCE"),
            field("Authentication-Info").replace(nonce, "NONCE")
        )
    };
    let info = |text: String| {
        text.split("rspauth=\"")
            .next()
            .unwrap_or_default()
            .to_owned()
            + if text.contains("rspauth=") {
                "info"
            } else {
                ""
            }
    };
    let good = Proof {
        user: "me",
        password: "secret",
        realm: "the realm",
        method: "GET",
        uri: "/page.txt",
        nonce: &nonce,
        more: ", qop=auth",
    };
    // Another digit of its hash, whichever is there.
    let other = if nonce[20..].starts_with('0') {
        "1"
    } else {
        "0"
    };
    let turned = format!("{}{other}{}", &nonce[..20], &nonce[21..]);
    let proofs = [
        ("good", "GET", "/page.txt", Proof { ..good }),
        ("again", "GET", "/page.txt", Proof { ..good }),
        (
            "with algorithm",
            "GET",
            "/page.txt",
            Proof {
                more: ", qop=auth, algorithm=MD5",
                ..good
            },
        ),
        (
            "other algorithm",
            "GET",
            "/page.txt",
            Proof {
                more: ", qop=auth, algorithm=SHA-256",
                ..good
            },
        ),
        (
            "quoted qop",
            "GET",
            "/page.txt",
            Proof {
                more: ", qop=\"auth\"",
                ..good
            },
        ),
        ("no qop", "GET", "/page.txt", Proof { more: "", ..good }),
        (
            "other qop",
            "GET",
            "/page.txt",
            Proof {
                more: ", qop=auth-int",
                ..good
            },
        ),
        (
            "wrong password",
            "GET",
            "/page.txt",
            Proof {
                password: "wrong",
                ..good
            },
        ),
        (
            "unknown user",
            "GET",
            "/page.txt",
            Proof {
                user: "nobody",
                ..good
            },
        ),
        (
            "wrong realm",
            "GET",
            "/page.txt",
            Proof {
                realm: "other",
                ..good
            },
        ),
        ("other method", "HEAD", "/page.txt", Proof { ..good }),
        (
            "head",
            "HEAD",
            "/page.txt",
            Proof {
                method: "HEAD",
                ..good
            },
        ),
        ("other path", "GET", "/other.txt", Proof { ..good }),
        ("other query", "GET", "/page.txt?a", Proof { ..good }),
        ("escaped path", "GET", "/%70age.txt", Proof { ..good }),
        (
            "whole uri",
            "GET",
            "/page.txt",
            Proof {
                uri: "http://server.test/page.txt",
                ..good
            },
        ),
        (
            "not there",
            "GET",
            "/nothing",
            Proof {
                uri: "/nothing",
                ..good
            },
        ),
        (
            "invented nonce",
            "GET",
            "/page.txt",
            Proof {
                nonce: "abc",
                ..good
            },
        ),
        (
            "changed nonce",
            "GET",
            "/page.txt",
            Proof {
                nonce: &turned,
                ..good
            },
        ),
        (
            "no realm",
            "GET",
            "/no-realm",
            Proof {
                uri: "/no-realm",
                ..good
            },
        ),
    ];
    let mut lines = vec![format!("first: {}", shown(&first, &nonce))];
    for (name, method, target, proof) in &proofs {
        let response = ask(
            address,
            method,
            target,
            &[("Authorization", &proof.value())],
        );
        lines.push(format!("{name}: {}", info(shown(&response, &nonce))));
    }
    let short = ask(address, "GET", "/short", &[]);
    let nonce = parameter(short.field("WWW-Authenticate").unwrap_or_default(), "nonce")
        .unwrap_or_default()
        .to_owned();
    let late = Proof {
        uri: "/short",
        nonce: &nonce,
        ..good
    };
    let response = wait_for("the nonce ends", || {
        let fields = [("Authorization", &*late.value())];
        Some(ask(address, "GET", "/short", &fields)).filter(|response| response.status != 200)
    });
    lines.push(format!("late: {}", shown(&response, &nonce)));
    lines
}

#[test]
fn digest_is_apaches() {
    let dir = TempDir::new("digest").unwrap();
    let file = format!(
        "other:the realm:x\nme:other:{}\nme:the realm:{}\n",
        md5("x"),
        md5("me:the realm:secret")
    );
    dir.write("digest", file).unwrap();
    let (_apache, theirs) = apache(&dir, DIGEST);
    let (_saker, ours) = saker(&dir, DIGEST);
    let (expected, actual) = thread::scope(|scope| {
        let expected = scope.spawn(|| digest_exchange(theirs));
        let actual = scope.spawn(|| digest_exchange(ours));
        (expected.join().unwrap(), actual.join().unwrap())
    });
    assert!(expected[1].starts_with("good: 200"), "{expected:#?}");
    for (expected, actual) in expected.iter().zip(&actual) {
        assert_eq!(actual, expected);
    }
}

#[test]
fn the_confirmation_of_digest_can_be_checked() {
    let dir = TempDir::new("digest-info").unwrap();
    dir.write(
        "digest",
        format!("me:the realm:{}\n", md5("me:the realm:secret")),
    )
    .unwrap();
    let (_saker, address) = saker(&dir, DIGEST);
    let challenge = ask(address, "GET", "/page.txt", &[])
        .field("WWW-Authenticate")
        .unwrap_or_default()
        .to_owned();
    let nonce = parameter(&challenge, "nonce").unwrap_or_default();
    let proof = Proof {
        user: "me",
        password: "secret",
        realm: "the realm",
        method: "GET",
        uri: "/page.txt",
        nonce,
        more: ", qop=auth",
    };
    let response = ask(
        address,
        "GET",
        "/page.txt",
        &[("Authorization", &proof.value())],
    );
    let expected = Proof {
        method: "",
        ..proof
    }
    .value();
    let answer = parameter(&expected, "response").unwrap_or_default();
    let info = response.field("Authentication-Info").unwrap_or_default();
    assert_eq!(
        info,
        format!("rspauth=\"{answer}\", cnonce=\"abc\", nc=00000001, qop=auth")
    );
}

fn hashed(arguments: &[&str], password: &str) -> String {
    let output = Command::new("htpasswd")
        .arg("-nb")
        .args(arguments)
        .args(["me", password])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

const BASIC: &str = "<Location />\nAuthType Basic\nAuthName x\nAuthUserFile {root}/users\nRequire valid-user\n</Location>\n\
                     <Location /open>\nRequire all granted\n</Location>\n";

#[test]
fn a_password_file_acts_when_it_changes() {
    let dir = TempDir::new("users").unwrap();
    dir.write("users", hashed(&["-B", "-C", "4"], "old"))
        .unwrap();
    let (_saker, address) = saker(&dir, BASIC);
    let status = |password: &str| {
        ask(
            address,
            "GET",
            "/page.txt",
            &[("Authorization", &basic("me", password))],
        )
        .status
    };
    assert_eq!(
        (status("old"), status("new"), status("old")),
        (200, 401, 200)
    );
    dir.write("users", hashed(&["-m"], "new")).unwrap();
    wait_until("the new password is taken", || status("new") == 200);
    assert_eq!(status("old"), 401);
    fs::remove_file(dir.join("users")).unwrap();
    wait_until("the file's users are gone with it", || status("new") == 500);
    dir.write("users", hashed(&["-s"], "old")).unwrap();
    wait_until("the file's users are back with it", || status("old") == 200);
}

/// A worker goes on while a password is checked that takes its time.
#[test]
fn a_slow_hash_holds_up_nobody_else() {
    let dir = TempDir::new("slow").unwrap();
    dir.write("users", hashed(&["-B", "-C", "12"], "slow"))
        .unwrap();
    dir.write("site/open", "open").unwrap();
    let (_saker, address) = saker(&dir, BASIC);
    let authorization = basic("me", "slow");
    let slow = Instant::now();
    let checking = thread::spawn({
        let authorization = authorization.clone();
        move || {
            ask(
                address,
                "GET",
                "/page.txt",
                &[("Authorization", &authorization)],
            )
            .status
        }
    });
    let mut others = 0;
    while !checking.is_finished() {
        assert_eq!(ask(address, "GET", "/open", &[]).status, 200);
        others += 1;
    }
    assert_eq!(checking.join().unwrap(), 200);
    let first = slow.elapsed();
    assert!(others > 3, "{others} requests in {first:?}");
    // On a busy machine one of several is fast.
    wait_until("the outcome is kept", || {
        let again = Instant::now();
        let fields = [("Authorization", &*authorization)];
        assert_eq!(ask(address, "GET", "/page.txt", &fields).status, 200);
        again.elapsed() < first / 4
    });
}

/// Over and over, so that what is kept would show.
#[test]
fn what_one_client_may_see_is_not_kept_for_others() {
    let dir = TempDir::new("kept").unwrap();
    dir.write("users", hashed(&["-s"], "secret")).unwrap();
    let more = "<Location /by-field>\nAuthType None\nRequire expr %{HTTP:X-Key} == 'open'\n</Location>\n\
                <Location /by-variable>\nAuthType None\nSetEnvIf X-Key open key\nOrder deny,allow\nDeny from all\nAllow from env=key\nRequire all granted\n\
                </Location>\n<Location /encrypted>\nAuthType None\nRequire all granted\nSSLRequireSSL\n</Location>\n\
                <Location /session>\nAuthType None\nRequire expr %{SSL_CLIENT_VERIFY} != 'SUCCESS'\n</Location>\n\
                <Location /certificate>\nAuthType None\nRequire all granted\nSSLVerifyClient require\n</Location>\n";
    for name in [
        "by-field",
        "by-variable",
        "encrypted",
        "session",
        "certificate",
    ] {
        dir.write(&format!("site/{name}"), name).unwrap();
    }
    let (_saker, address) = saker(&dir, &format!("{BASIC}{more}"));
    let authorization = basic("me", "secret");
    for round in 0..4 {
        let status =
            |target: &str, fields: &[(&str, &str)]| ask(address, "GET", target, fields).status;
        assert_eq!(
            status("/page.txt", &[("Authorization", &authorization)]),
            200,
            "{round}"
        );
        assert_eq!(status("/page.txt", &[]), 401, "{round}");
        for target in ["/by-field", "/by-variable"] {
            assert_eq!(
                (status(target, &[("X-Key", "open")]), status(target, &[])),
                (200, 403),
                "{round} {target}"
            );
        }
        for target in ["/encrypted", "/certificate"] {
            assert_eq!(status(target, &[]), 403, "{round} {target}");
        }
        assert_eq!(
            status("/session", &[]),
            200,
            "{round}: no certificate is none that was found good"
        );
    }
}

/// Names of users and of clients behind proxies, in lines that are written when the walk is over.
#[test]
fn logs_say_who_asked() {
    let dir = TempDir::new("who").unwrap();
    dir.write("users", hashed(&["-s"], "secret")).unwrap();
    dir.write("site/open", "open").unwrap();
    let conf = "RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1\nCustomLog {root}/access.log \"%U %a %{c}a %u %s\"\n";
    let (_saker, address) = saker(&dir, &format!("{BASIC}{conf}"));
    let authorization = basic("me", "secret");
    ask(
        address,
        "GET",
        "/page.txt",
        &[
            ("Authorization", &authorization),
            ("X-Forwarded-For", "192.0.2.1"),
        ],
    );
    ask(address, "GET", "/open", &[("X-Forwarded-For", "192.0.2.2")]);
    ask(address, "GET", "/open", &[("X-Forwarded-For", "192.0.2.3")]);
    ask(address, "GET", "/open", &[]);
    let expected = "/page.txt 192.0.2.1 127.0.0.1 me 200\n/open 192.0.2.2 127.0.0.1 - 200\n/open 192.0.2.3 127.0.0.1 - 200\n\
                    /open 127.0.0.1 127.0.0.1 - 200\n";
    let log = || fs::read_to_string(dir.join("access.log")).unwrap_or_default();
    wait_until_or(|| log() == expected, log);
}

/// Output of `saker explain` for a page under `section`.
fn explained(section: &str, fields: &[&str]) -> String {
    let dir = TempDir::new("explain").unwrap();
    let conf =
        format!("BrowserMatch \"Mozilla/2\" nokeepalive\n<Location />\n{section}\n</Location>\n");
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let file = configuration(&dir, address, &conf).unwrap();
    let mut command = Command::new(crate::operate::SAKER);
    command.arg("explain").arg("--apache").arg(file);
    command.args(fields.iter().flat_map(|field| ["-H", field]));
    let output = command
        .arg(format!("http://server.test:{}/page.txt", address.port()))
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn rules_about_paths_and_recorded_tests_are_kept() {
    // Kept for all requests, for those with the same results of tests, or not at all.
    let (all, tested, none) = ((true, false), (true, true), (false, false));
    for (section, expected) in [
        ("Require all granted", all),
        ("Order allow,deny\nAllow from all", all),
        ("Order deny,allow\nDeny from all\nAllow from all", all),
        ("Require method GET", all),
        ("Require expr %{REQUEST_URI} =~ /page/", all),
        ("<Limit POST>\nRequire all denied\n</Limit>", all),
        ("Require all granted\nRequire ip 10", all),
        ("Order deny,allow\nDeny from env=nokeepalive", tested),
        ("Require ip 127\nRequire all granted", tested),
        (
            "<RequireAll>\nRequire all granted\nRequire not ip 10\n</RequireAll>",
            tested,
        ),
        ("Require expr %{HTTP:X-Key} == ''", tested),
        ("Require expr tolower(%{HTTP:X-Key}) == ''", tested),
        ("Require expr %{TIME_HOUR} -lt 25", none),
        ("Require local", none),
    ] {
        let text = explained(section, &[]);
        assert!(text.contains("response        200"), "{section}\n{text}");
        let is_kept = |line: &str| line.starts_with("kept            in memory");
        let found = (
            text.lines().any(is_kept),
            text.contains("same results of the rules' tests"),
        );
        assert_eq!(found, expected, "{section}\n{text}");
    }
}

#[test]
fn explain_names_the_rule_that_decided() {
    let text = explained(
        "<RequireAny>\nRequire ip 10\nRequire expr %{HTTP:X-Key} == 'open'\n</RequireAny>",
        &["X-Key: open"],
    );
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("access "))
        .collect();
    assert!(lines[0].contains("`Require ip 10`: denied  ["), "{text}");
    assert!(
        lines[1].contains("`Require expr %{HTTP:X-Key} == 'open'`: granted  ["),
        "{text}"
    );
}
