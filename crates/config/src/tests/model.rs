//! Meaning of a file: values in the model, and a route's settings over its site's.

#![allow(clippy::unwrap_used, clippy::panic)]

use saker_config::{
    Model,
    model::{
        AccessLogTarget, Acme, AcmeChallenge, Action, Affinity, Automatic, CacheOffer, CacheUse,
        CipherSuite, ClientCertificates, ErrorPage, Excess, FieldEditAction, Group, PathPattern,
        Rate, RequestRate, SiteName, TlsVersion, Workers,
    },
    parse,
};
use saker_telemetry::error_log::ErrorLogTarget;
use std::path::{Path, PathBuf};

fn model(text: &str) -> Model {
    parse(text, "saker.toml", Path::new("/etc/saker"))
        .unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
        .model
}

const LISTENER: &str = "[[listener]]\naddress = \":8080\"\n[[site]]\nroot = \"www\"\n";

#[test]
fn server_and_listeners() {
    let model = model(
        "[server]\nworkers = 3\naffinity = [0, 2]\nuser = 33\nerror_log = \"log/error.log\"\nshutdown_timeout = \"2m\"\n\
         [[listener]]\naddress = \":8080\"\nproxy_protocol_from = [\"10.0.0.0/8\"]\n\
         [[listener]]\naddresses = [\"unix:/run/a\", \"[::1]:1\"]\nmode = \"0660\"\nbacklog = 7\n[[site]]\nroot = \"/\"\n",
    );
    assert_eq!(
        (model.server.workers, model.server.affinity),
        (Workers::Count(3), Affinity::Cores(vec![0, 2]))
    );
    assert_eq!(model.server.user.as_deref(), Some("33"));
    assert_eq!(
        model.server.error_log.target,
        ErrorLogTarget::File(PathBuf::from("/etc/saker/log/error.log"))
    );
    assert_eq!(model.server.shutdown_timeout_ms, 120_000);
    let shown: Vec<String> = model
        .listeners
        .iter()
        .map(|listener| listener.address.to_string())
        .collect();
    assert_eq!(
        shown,
        ["0.0.0.0:8080", "[::]:8080", "unix:/run/a", "[::1]:1"]
    );
    assert_eq!(
        model
            .listeners
            .iter()
            .map(|listener| listener.mode)
            .collect::<Vec<_>>(),
        [None, None, Some(0o660), None]
    );
    assert!(model.listeners[1].proxy_protocol_from[0].contains([10, 1, 2, 3].into()));
    assert_eq!(
        (
            model.listeners[2].backlog,
            model.listeners[2].origin.to_string()
        ),
        (7, "saker.toml:11:14".into())
    );
}

#[test]
fn a_route_lies_over_its_site() {
    let model = model(&format!(
        "{LISTENER}index = [\"a\", \"b\"]\nlisting = true\ntypes = {{ x = \"a/x\", y = \"a/y\" }}\n\
         [site.headers]\nA = \"site\"\nB = \"site\"\n[site.error_pages]\n404 = \"/site404\"\n500 = \"/site500\"\n[site.compression]\nmin = 5\n\
         [[site.route]]\npath = \"/r/*\"\nindex = [\"c\"]\ntypes = {{ Y = \"b/y\" }}\nheaders = {{ b = \"route\", C = {{ append = \"c\", always = true }} }}\n\
         error_pages = {{ 503 = \"text:busy\", 5xx = \"/class\" }}\ncompression.max = 9\n"
    ));
    let site = &model.sites[0];
    assert_eq!(site.root, Some(PathBuf::from("/etc/saker/www")));
    let (below, over) = (&site.settings, &site.routes[0].settings);
    assert_eq!(over.files.index, ["c"]);
    assert!(over.files.listing);
    assert_eq!(
        (
            over.files.types["x"].as_str(),
            over.files.types["y"].as_str()
        ),
        ("a/x", "b/y")
    );
    let edits: Vec<_> = over
        .fields
        .iter()
        .map(|edit| (edit.name.as_str(), edit.action.clone(), edit.always))
        .collect();
    let set = |text: &str| FieldEditAction::Set(text.into());
    assert_eq!(
        edits,
        [
            ("A", set("site"), false),
            ("b", set("route"), false),
            ("C", FieldEditAction::Append("c".into()), true)
        ]
    );
    assert_eq!(over.error_pages[&404], ErrorPage::Path("/site404".into()));
    assert_eq!(over.error_pages[&500], ErrorPage::Path("/class".into()));
    assert_eq!(over.error_pages[&503], ErrorPage::Text("busy".into()));
    assert_eq!(
        (over.compression.min_bytes, over.compression.max_bytes),
        (5, 9)
    );
    assert_eq!(
        (
            below.files.index.len(),
            below.fields.len(),
            below.compression.max_bytes,
            below.error_pages.len()
        ),
        (2, 2, 4 << 20, 2)
    );
}

#[test]
fn routes_and_redirects_keep_their_order() {
    let model = model(&format!(
        "{LISTENER}[[site.redirect]]\nfrom = \"/a/*\"\nto = \"/1\"\n[[site.route]]\npath = \"*.b\"\ndeny = true\n\
         [[site.redirect]]\nfrom = \"/c\"\nto = \"/2\"\nstatus = 308\n[[site.route]]\npath = \"/d\"\nrespond = \"hi\"\n"
    ));
    let routes = &model.sites[0].routes;
    let patterns: Vec<_> = routes.iter().map(|route| route.pattern.clone()).collect();
    let expected = [
        PathPattern::Prefix("/a/".into()),
        PathPattern::Suffix(".b".into()),
        PathPattern::Exact("/c".into()),
        PathPattern::Exact("/d".into()),
    ];
    assert_eq!(patterns, expected);
    assert!(
        matches!(&routes[2].action, Action::Redirect(redirect) if redirect.status.0 == 308 && redirect.to.text() == "/2")
    );
    assert!(
        matches!(&routes[3].action, Action::Respond { status, content_type, body }
        if status.0 == 200 && content_type == "text/plain; charset=utf-8" && body.text() == "hi")
    );
    assert_eq!(routes[3].origin.line, 15);
}

#[test]
fn throttles() {
    let model = model(&format!(
        "{LISTENER}[site.throttle]\nout_per_site = \"1MB/s\"\nin_per_address = {{ rate = \"1KiB/s\", burst = 5, after = \"1kB\" }}\n\
         requests_static = \"30/m\"\nrequests_dynamic = {{ rate = \"2/s\", excess = \"delay\", delay_max = \"2s\" }}\n\
         [[site.route]]\npath = \"/\"\nthrottle.out_per_site = \"off\"\n"
    ));
    let throttle = &model.sites[0].settings.throttle;
    assert_eq!(
        throttle.out_site,
        Some(Rate {
            bytes_per_s: 1_000_000,
            burst_bytes: 1_000_000,
            after_bytes: 0
        })
    );
    assert_eq!(
        throttle.in_address,
        Some(Rate {
            bytes_per_s: 1024,
            burst_bytes: 5,
            after_bytes: 1000
        })
    );
    assert_eq!(
        throttle.static_requests,
        Some(RequestRate {
            per_1000_s: 500,
            burst: 1,
            excess: Excess::Refuse
        })
    );
    let delayed = RequestRate {
        per_1000_s: 2000,
        burst: 2,
        excess: Excess::Delay { at_most_ms: 2000 },
    };
    assert_eq!(throttle.dynamic_requests, Some(delayed));
    assert_eq!(model.sites[0].routes[0].settings.throttle.out_site, None);
    assert_eq!(
        model.sites[0].routes[0].settings.throttle.static_requests,
        throttle.static_requests
    );
}

#[test]
fn names_and_logs() {
    let model = model(&format!(
        "{LISTENER}names = [\"A.org\", \"*.B.org\", \"*\"]\naccess_log = [\"stdout\", \"x.log\", {{ path = \"y\", format = \"%h\" }}]\n\
         [[site]]\nnames = [\"c\"]\nroot = \"/\"\naccess_log = \"off\"\n"
    ));
    let names = [
        SiteName::Exact("a.org".into()),
        SiteName::Wildcard("b.org".into()),
        SiteName::Any,
    ];
    assert_eq!(model.sites[0].names, names);
    let logs: Vec<_> = model.sites[0]
        .access_logs
        .iter()
        .map(|log| (log.target.clone(), log.format.to_string()))
        .collect();
    let file = |name: &str| AccessLogTarget::File(Path::new("/etc/saker").join(name));
    assert_eq!(
        logs,
        [
            (AccessLogTarget::Stdout, "combined".into()),
            (file("x.log"), "combined".into()),
            (file("y"), "%h".into())
        ]
    );
    assert!(model.sites[1].access_logs.is_empty());
}

#[test]
fn a_file_that_cannot_be_read_is_a_diagnostic() {
    let shown = saker_config::load(Path::new("/no/such/saker.toml"))
        .unwrap_err()
        .to_string();
    assert!(
        shown.starts_with("/no/such/saker.toml: error: cannot read this file: "),
        "{shown}"
    );
    assert!(
        saker_config::load(Path::new("/"))
            .unwrap_err()
            .to_string()
            .contains("not a regular file")
    );
}

#[test]
fn ten_thousand_sites_are_read_in_time() {
    let site = |number: usize| {
        format!(
            "[[site]]\nnames = [\"host{number}.example.org\"]\nroot = \"/\"\nlisting = true\n[site.headers]\nA = \"b\"\n"
        )
    };
    let text: String = std::iter::once("[[listener]]\naddress = \":80\"\n".to_owned())
        .chain((0..10_000).map(site))
        .collect();
    let begun = std::time::Instant::now();
    assert_eq!(model(&text).sites.len(), 10_000);
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

#[test]
fn tls() {
    let model = parse(
        &std::fs::read_to_string(golden("good_tls.toml")).unwrap(),
        "good_tls.toml",
        Path::new("/etc/saker"),
    )
    .unwrap()
    .model;
    assert_eq!(
        model.tls.ticket_keys,
        [
            "/etc/saker/ticket-today.key",
            "/etc/saker/ticket-yesterday.key"
        ]
        .map(PathBuf::from)
    );
    assert_eq!(model.tls.ticket_rotation_ms, 3_600_000);
    let listeners: Vec<_> = model
        .listeners
        .iter()
        .map(|l| (l.http2, l.tls.as_ref().map(|tls| tls.strict_sni)))
        .collect();
    assert_eq!(
        listeners,
        [
            (false, None),
            (false, None),
            (true, Some(true)),
            (true, Some(true))
        ]
    );
    let automatic: Vec<Automatic> = model.sites.iter().map(|site| site.tls.automatic).collect();
    assert_eq!(
        automatic,
        [
            Automatic::On,
            Automatic::Off,
            Automatic::OnDemand,
            Automatic::Local
        ]
    );
    let redirects: Vec<_> = model
        .sites
        .iter()
        .map(|site| site.https_redirect.map(|to| (to.status.0, to.port)))
        .collect();
    assert_eq!(redirects, [Some((308, 443)), Some((301, 443)), None, None]);
}

#[test]
fn tls_of_a_site() {
    let model = parse(
        &std::fs::read_to_string(golden("good_tls.toml")).unwrap(),
        "good_tls.toml",
        Path::new("/etc/saker"),
    )
    .unwrap()
    .model;
    let site = &model.sites[1].tls;
    assert_eq!(
        (site.minimum_version, &site.ciphers[..]),
        (TlsVersion::Tls13, &[CipherSuite::Tls13Aes256Gcm][..])
    );
    assert_eq!(site.groups, [Group::X25519, Group::Secp256r1]);
    assert_eq!(
        (site.client_certificates, &site.client_ca),
        (
            ClientCertificates::Optional,
            &Some("/etc/saker/ca.pem".into())
        )
    );
    assert_eq!(site.client_crl, [PathBuf::from("/etc/saker/ca.crl")]);
    let files: Vec<_> = site
        .certificates
        .iter()
        .map(|one| {
            (
                one.certificate.to_str(),
                one.key.to_str(),
                one.ocsp.is_some(),
            )
        })
        .collect();
    let (rsa, ecdsa) = (Some("/etc/saker/rsa.pem"), Some("/etc/saker/ecdsa.pem"));
    assert_eq!(
        files,
        [
            (rsa, Some("/etc/saker/rsa.key"), false),
            (ecdsa, ecdsa, true)
        ]
    );
}

#[test]
fn suites_of_both_versions_unless_one_is_ruled_out() {
    let site = |keys: &str| {
        let listener = "[[listener]]\naddress = \":8443\"\ntls = true\n[[site]]\nroot = \"/\"\nhttps_redirect = true\n[site.tls]\ncertificate = \"a\"\n";
        let model = model(&format!("{listener}{keys}"));
        (
            model.sites[0].tls.ciphers.clone(),
            model.sites[0].https_redirect.map(|to| to.port),
        )
    };
    let (ciphers, port) = site("ciphers = [\"ECDHE-RSA-AES256-GCM-SHA384\"]");
    assert_eq!(port, Some(8443));
    assert_eq!(ciphers[0], CipherSuite::EcdheRsaAes256Gcm);
    assert_eq!(
        (
            ciphers.len(),
            ciphers
                .iter()
                .filter(|suite| suite.version() == TlsVersion::Tls13)
                .count()
        ),
        (4, 3)
    );
    assert_eq!(site("ciphers = []").0, []);
    let (ciphers, _) = site(
        "minimum_version = \"1.3\"\nciphers = [\"TLS_AES_128_GCM_SHA256\", \"ECDHE-RSA-AES256-GCM-SHA384\"]",
    );
    assert_eq!(ciphers, [CipherSuite::Tls13Aes128Gcm]);
}

#[test]
fn acme() {
    use AcmeChallenge::{Dns01, Http01, TlsAlpn01};
    let acme = model(&std::fs::read_to_string(golden("good_tls.toml")).unwrap())
        .tls
        .acme;
    let urls: Vec<&str> = acme
        .directories
        .iter()
        .map(|directory| directory.url.as_str())
        .collect();
    assert_eq!(urls, [Acme::LETS_ENCRYPT, Acme::ZERO_SSL]);
    let account = acme.directories[1].external_account.as_ref().unwrap();
    assert_eq!(
        (account.key_id.as_str(), account.hmac_key.as_slice()),
        ("abc", b"secret".as_slice())
    );
    assert!(
        !format!("{acme:?}").contains(&format!("{:?}", b"secret")),
        "the key is not for logs"
    );
    assert_eq!(acme.challenges, [Dns01, TlsAlpn01, Http01]);
    let challenges = |text: &str| model(&format!("{text}\n{LISTENER}")).tls.acme.challenges;
    assert_eq!(challenges(""), [TlsAlpn01, Http01]);
    assert_eq!(
        challenges("[acme]\ndns_command = \"a\"\nchallenges = [\"http-01\"]"),
        [Http01]
    );
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/config")
        .join(name)
}

#[test]
fn the_cache_of_a_route_lies_over_its_sites() {
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/config/cache.toml"),
    )
    .unwrap();
    let model = model(&text);
    let store = &model.cache;
    assert_eq!(
        (
            store.folder.as_deref(),
            store.bytes_max,
            store.site_entries_max
        ),
        (Some(Path::new("/var/cache/saker")), 50 << 30, 100_000)
    );
    assert!(
        store.purgers[1].contains([10, 0, 0, 7].into())
            && !store.purgers[1].contains([10, 0, 0, 8].into())
    );
    let short = &model.sites[0].settings.cache;
    assert_eq!(
        **short,
        CacheUse {
            is_on: true,
            offer: CacheOffer::ALL,
            ..CacheUse::default()
        }
    );
    let long = &model.sites[1].settings.cache;
    assert!(long.is_on && long.obeys_http && !long.obeys_lscache && !long.private);
    assert_eq!(
        (
            long.ttl_default_s,
            long.ttl_override_s,
            long.ttl_max_s,
            long.ttl_min_s
        ),
        (Some(300), None, Some(86_400), 10)
    );
    assert_eq!(
        (
            long.lscache_ttl_s,
            long.grace_s,
            long.stale_if_error_s,
            long.heuristic_percent
        ),
        ((7200, 1800), 60, 86_400, 10)
    );
    let has = |name: &str| long.ignored_parameters.iter().any(|known| known == name);
    assert!(has("utm_*") && has("gclid") && has("campaign_*") && !has("tracking"));
    assert_eq!(
        long.session_cookies.as_deref(),
        Some(&["PHPSESSID".to_owned(), "wordpress_logged_in_*".to_owned()][..])
    );
    assert_eq!(
        (long.key_fields.as_slice(), long.entry_bytes_max),
        (&["X-Device".to_owned()][..], Some(2_000_000))
    );
    assert_eq!(
        long.offer,
        CacheOffer {
            pages: true,
            crawler: false,
            esi: true,
            litemage: false
        }
    );
    let [off, news] = &model.sites[1].routes[..] else {
        panic!("two routes")
    };
    assert!(!off.settings.cache.is_on && off.settings.cache.offer == CacheOffer::NOTHING);
    assert_eq!(
        *news.settings.cache,
        CacheUse {
            ttl_default_s: Some(10),
            ..CacheUse::clone(long)
        }
    );
    assert!(model.wants_cache());
}

#[test]
fn a_table_switches_the_cache_on_unless_it_says_otherwise() {
    let cache = |said: &str| {
        CacheUse::clone(
            &model(&format!("{LISTENER}{said}\n")).sites[0]
                .settings
                .cache,
        )
    };
    assert!(
        !cache("").is_on
            && !cache("cache = false").is_on
            && !cache("cache = { enabled = false, ttl = \"1s\" }").is_on
    );
    assert!(
        cache("cache = true").is_on
            && cache("cache = {}").is_on
            && cache("[site.cache]\nttl = \"1s\"").is_on
    );
    assert_eq!(
        cache("cache = { announce = [] }").offer,
        CacheOffer::NOTHING
    );
    assert!(
        !model(LISTENER).wants_cache()
            && model(&format!(
                "{LISTENER}[[site.route]]\npath = \"/a\"\ncache = true"
            ))
            .wants_cache()
    );
}
