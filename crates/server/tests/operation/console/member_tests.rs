//! Tests of single members: connections, TLS, and the answer; and nothing but configured members.

use crate::{
    console::fixture::{Fixture, Keys, cookie_of},
    console::languages::opened,
    console::live::Origin,
    operate::{apache, folder},
    tls_site,
};
use saker_testkit::{TempDir, free_port, require};
use serde_json::{Value, json};
use std::{
    net::{Ipv4Addr, TcpListener},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

const PATH: &str = "/api/v1/upstreams/test";

#[test]
fn members_are_tested_and_nothing_else_is() {
    let origin = Origin::start("");
    let good = format!("http://{}", origin.address);
    let closed = format!("http://127.0.0.1:{}", free_port().unwrap());
    // One that no configuration names.
    let stranger = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let unknown = format!("http://{}", stranger.local_addr().unwrap());
    static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
    thread::spawn(move || {
        for _ in stranger.incoming() {
            CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        }
    });
    let site = format!(
        "[[site.route]]\npath = \"/app/*\"\nproxy = \"app\"\n[[upstream]]\nname = \"app\"\nservers = [\"{good}\", \"{closed}\"]\n"
    );
    let keys = Keys {
        site: &site,
        ..Keys::default()
    };
    let fixture = Fixture::start_in(folder("console-member-tests"), &keys);
    let (viewer, operator) = (fixture.token("viewer"), fixture.token("operator"));
    let test = |token: &str, upstream: &str, member: &str| {
        let order = json!({ "upstream": upstream, "member": member });
        fixture.api(token, "POST", PATH, &order)
    };
    let (status, tested) = test(&operator, "app", &good);
    assert_eq!(status, 200, "{tested}");
    assert_eq!(
        (&tested["status"], &tested["request"], &tested["is_passed"]),
        (&json!(200), &json!("GET /"), &json!(true)),
        "{tested}"
    );
    assert!(tested["connect_ms"].as_f64().is_some() && tested["answer_ms"].as_f64().is_some());
    let (status, tested) = test(&operator, "app", &closed);
    assert_eq!(
        (status, &tested["is_passed"], &tested["connect_ms"]),
        (200, &json!(false), &Value::Null),
        "{tested}"
    );
    assert!(tested["error_of_member"].is_string(), "{tested}");
    assert_eq!(test(&viewer, "app", &good).0, 403);
    for (upstream, member) in [
        ("app", unknown.as_str()),
        ("other", &good),
        ("app", ""),
        ("app", "file:///etc/passwd"),
        ("app", &format!("{good}@127.0.0.1")),
        ("app", &good.to_uppercase()),
        ("app", &format!("{good}\0")),
    ] {
        let (status, answer) = test(&operator, upstream, member);
        assert_eq!(status, 404, "{upstream} {member}: {answer}");
    }
    assert_eq!(CONNECTIONS.load(Ordering::Relaxed), 0);
    // What is known of the members stays, and the page shows the result.
    let cookie = fixture.administrator();
    let form = format!("upstream=app&member={good}");
    let page = fixture
        .submit("/upstreams/test", &cookie, &form)
        .text()
        .to_owned();
    assert!(page.contains("GET / was answered with 200 in "), "{page}");
    let form = format!("upstream=app&member={closed}");
    let page = fixture
        .submit("/upstreams/test", &cookie, &form)
        .text()
        .to_owned();
    assert!(page.contains("no connection"), "{page}");
    let (_, report) = fixture.api(&viewer, "GET", "/api/v1/upstreams", &Value::Null);
    let members = report["upstreams"][0]["members"]
        .as_array()
        .unwrap()
        .clone();
    for member in members {
        assert_eq!(
            (&member["state"], &member["failures"]),
            (&json!("up"), &json!(0)),
            "{report}"
        );
    }
    fixture.add_user("eve", "viewer", "secret");
    let logged_in = fixture.submit("/login", "", "name=eve&password=secret");
    let form = format!("upstream=app&member={good}");
    let refused = fixture.submit("/upstreams/test", &cookie_of(&logged_in), &form);
    assert_eq!(refused.status, 403);
}

#[test]
fn tls_and_staples_are_reported() {
    let dir = folder("console-member-tls");
    tls_site::certificate(&dir, "site", "localhost");
    let tls_port = free_port().unwrap();
    let site = format!(
        "[site.tls]\ncertificate = \"{{dir}}/site.pem\"\nkey = \"{{dir}}/site.key\"\n\
         [[site.route]]\npath = \"/good/*\"\nproxy = \"good\"\n\
         [[site.route]]\npath = \"/bad/*\"\nproxy = \"bad\"\n\
         [[upstream]]\nname = \"good\"\nservers = [\"https://localhost:{tls_port}\"]\ntls = {{ verify = false }}\n\
         [[upstream]]\nname = \"bad\"\nservers = [\"https://localhost:{tls_port}\"]\n\
         [[listener]]\naddress = \"127.0.0.1:{tls_port}\"\ntls = true\n"
    );
    let keys = Keys {
        site: &site,
        ..Keys::default()
    };
    let fixture = Fixture::start_in(dir, &keys);
    let token = fixture.token("operator");
    let member = json!(format!("https://localhost:{tls_port}"));
    let test = |upstream: &str| {
        let order = json!({ "upstream": upstream, "member": member });
        fixture.api(&token, "POST", PATH, &order).1
    };
    let good = test("good");
    assert_eq!(
        (&good["is_tls"], &good["status"]),
        (&json!(true), &json!(200)),
        "{good}"
    );
    let bad = test("bad");
    assert_eq!(
        (&bad["is_passed"], &bad["connect_ms"]),
        (&json!(false), &Value::Null),
        "a certificate of an unknown authority: {bad}"
    );
    let (_, certificates) = fixture.api(&token, "GET", "/api/v1/certificates", &Value::Null);
    assert_eq!(
        certificates["certificates"][0]["ocsp"]["state"], "off",
        "{certificates}"
    );
    let cookie = fixture.administrator();
    let page = fixture.page("/upstreams", &cookie).text().to_owned();
    assert!(page.contains("no OCSP response is stapled"), "{page}");
}

/// Makes `site.pem` and `site.key` of an authority, with the responder at this port, and `site.der`.
fn certificate_of_authority(dir: &TempDir, responder: u16) {
    let script = format!(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 30\n\
         openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout site.key -out site.csr -subj /CN=site\n\
         printf 'subjectAltName=DNS:localhost\\nauthorityInfoAccess=OCSP;URI:http://127.0.0.1:{responder}/\\n' >extensions\n\
         openssl x509 -req -in site.csr -CA ca.pem -CAkey ca.key -set_serial 4096 -days 20 -extfile extensions -out site.pem\n\
         chmod 600 site.key\n\
         printf 'V\\t350101000000Z\\t\\t1000\\tunknown\\t/CN=site\\n' >index\n\
         openssl ocsp -index index -rsigner ca.pem -rkey ca.key -CA ca.pem -issuer ca.pem -cert site.pem -ndays 5 -respout site.der"
    );
    require("openssl").unwrap();
    let output = Command::new("sh")
        .args(["-ec", &script])
        .current_dir(&**dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A response from a file is stapled.
#[test]
fn staples_have_a_time() {
    let dir = folder("console-staples");
    certificate_of_authority(&dir, 1);
    let keys = Keys {
        site: "[site.tls]\ncertificate = \"{dir}/site.pem\"\nkey = \"{dir}/site.key\"\nocsp = \"{dir}/site.der\"\n\
               [[listener]]\naddress = \"127.0.0.1:0\"\ntls = true\n",
        ..Keys::default()
    };
    let fixture = Fixture::start_in(dir, &keys);
    let token = fixture.token("viewer");
    let (_, answer) = fixture.api(&token, "GET", "/api/v1/certificates", &Value::Null);
    let one = &answer["certificates"][0];
    assert_eq!(one["ocsp"]["state"], "stapled", "{answer}");
    let until_s = one["ocsp"]["until_unix_s"].as_i64().unwrap();
    let end_s = one["not_after_unix_s"].as_i64().unwrap();
    // Five days of the twenty that the certificate has.
    assert_eq!((end_s - until_s + 43_200) / 86_400, 15, "{answer}");
    assert!(
        matches!(one["days_left"].as_i64(), Some(19 | 20)),
        "{answer}"
    );
    let cookie = fixture.administrator();
    let page = fixture.page("/upstreams", &cookie).text().to_owned();
    assert!(
        page.contains("an OCSP response is stapled, good for 1"),
        "{page}"
    );
}

/// A responder that is not there leaves a certificate without its response.
#[test]
fn missing_staples_are_reported() {
    let dir = folder("console-staples-missing");
    certificate_of_authority(&dir, free_port().unwrap());
    let text = "LoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule ssl_module modules/mod_ssl.so\n\
                LoadModule socache_shmcb_module modules/mod_socache_shmcb.so\n\
                Listen {address}\nServerName localhost\nSSLUseStapling on\n\
                SSLStaplingCache shmcb:{dir}/stapling(32768)\n<VirtualHost {address}>\nServerName localhost\n\
                DocumentRoot {dir}/www\nSSLEngine on\nSSLCertificateFile {dir}/site.pem\n\
                SSLCertificateKeyFile {dir}/site.key\nSSLCertificateChainFile {dir}/ca.pem\n</VirtualHost>\n";
    let fixture = opened(apache(text).start(dir));
    let token = fixture.token("viewer");
    let (_, answer) = fixture.api(&token, "GET", "/api/v1/certificates", &Value::Null);
    let ocsp = &answer["certificates"][0]["ocsp"];
    assert_eq!(
        (&ocsp["state"], &ocsp["until_unix_s"]),
        (&json!("missing"), &Value::Null),
        "{answer}"
    );
}
