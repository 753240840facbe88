//! Diagnostics about certificates and keys that are not as they should be.

use super::authority::{Authority, Key, Leaf, Sites, origin};
use rcgen::date_time_ymd;
use saker_tls::{LoadProblem, Severity};
use std::{fs, os::unix::fs::PermissionsExt};

fn said(sites: &Sites) -> Vec<(Severity, String)> {
    let (_, problems) = sites.load();
    problems
        .into_iter()
        .map(
            |LoadProblem {
                 severity, message, ..
             }| {
                (
                    severity,
                    message.replace(&sites.dir.display().to_string(), "DIR"),
                )
            },
        )
        .collect()
}

fn site(leaf: &Leaf) -> Sites {
    Sites::new().with(&["a.example"], &[leaf])
}

fn only(sites: &Sites, severity: Severity, part: &str) {
    let said = said(sites);
    assert!(
        said.len() == 1 && said[0].0 == severity && said[0].1.contains(part),
        "{said:?}"
    );
}

#[test]
fn errors() {
    let authority = Authority::new("A");
    let (leaf, other) = (
        authority.leaf(Key::Ecdsa, &["a.example"]),
        authority.leaf(Key::Ecdsa, &["a.example"]),
    );
    let with_key = |key: &str| {
        let sites = site(&leaf);
        sites.write_key("1.key", key);
        sites
    };
    only(
        &with_key(&other.key),
        Severity::Error,
        "the key in DIR/1.key is not that of the certificate in DIR/1.pem",
    );
    only(
        &with_key("nonsense"),
        Severity::Error,
        "DIR/1.key has no private key",
    );
    only(
        &with_key(
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n",
        ),
        Severity::Error,
        "is encrypted",
    );
    only(
        &with_key("-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"),
        Severity::Error,
        "can't be used",
    );
    let sites = site(&leaf);
    sites.dir.write("1.pem", "").unwrap();
    only(
        &sites,
        Severity::Error,
        "DIR/1.pem has no certificate in PEM",
    );
    sites
        .dir
        .write(
            "1.pem",
            "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
        )
        .unwrap();
    only(
        &sites,
        Severity::Error,
        "the certificate in DIR/1.pem can't be used",
    );
    fs::remove_file(sites.dir.join("1.pem")).unwrap();
    only(
        &sites,
        Severity::Error,
        "DIR/1.pem (certificate) can't be read",
    );
}

#[test]
fn everything_wrong_is_told_at_once_with_its_place() {
    let authority = Authority::new("A");
    let leaf = authority.leaf(Key::Ecdsa, &["a.example"]);
    let sites = Sites::new()
        .with(&["a.example"], &[&leaf])
        .with(&["a.example"], &[&leaf])
        .with(&["a.example"], &[&leaf]);
    sites.write_key("1.key", "");
    fs::remove_file(sites.dir.join("3.key")).unwrap();
    let (_, problems) = sites.load();
    let places: Vec<_> = problems
        .iter()
        .map(|problem| (problem.is_error(), problem.origin.clone()))
        .collect();
    assert_eq!(places, [(true, origin(1)), (true, origin(3))]);
    assert!(
        problems[1].to_string().starts_with("saker.toml:3:1: ") && problems[1].help.is_some(),
        "{}",
        problems[1]
    );
}

#[test]
fn warnings() {
    let authority = Authority::new("A");
    let between = |from, to| {
        authority.leaf_with(Key::Ecdsa, &["a.example"], |params| {
            (params.not_before, params.not_after) = (from, to)
        })
    };
    let (past, present, future) = (
        date_time_ymd(2020, 1, 1),
        date_time_ymd(2024, 1, 1),
        date_time_ymd(2061, 2, 3),
    );
    only(
        &site(&between(past, present)),
        Severity::Warning,
        "ran out on 2024-01-01",
    );
    only(
        &site(&between(future, date_time_ymd(2062, 1, 1))),
        Severity::Warning,
        "not valid before 2061-02-03",
    );
    let sites = Sites::new().with(
        &["a.example", "b.example", "*.c.example"],
        &[&authority.leaf(Key::Ecdsa, &["a.example", "*.d.example"])],
    );
    only(&sites, Severity::Warning, "covers b.example, *.c.example");
    let sites = site(&authority.leaf(Key::Ecdsa, &["a.example"]));
    fs::set_permissions(sites.dir.join("1.key"), fs::Permissions::from_mode(0o644)).unwrap();
    only(
        &sites,
        Severity::Warning,
        "every user of this machine can read the key DIR/1.key",
    );
    only(
        &Sites::new().with(&["a.example"], &[]),
        Severity::Warning,
        "no certificate is configured for a.example",
    );
    // Nothing is shown where handshakes are refused.
    let refusing = Sites::new()
        .with(&["a.example"], &[])
        .where_tls(|tls, _| tls.rejects_handshakes = true);
    assert!(said(&refusing).is_empty());
    let mut unordered = authority.leaf(Key::Ecdsa, &["a.example"]);
    unordered.chain += &Authority::new("B").pem();
    only(&site(&unordered), Severity::Warning, "out of order");
    let mut reversed = authority.leaf(Key::Ecdsa, &["a.example"]);
    reversed.chain = authority.pem() + &reversed.chain;
    only(
        &site(&reversed),
        Severity::Error,
        "that of a later certificate",
    );
}

#[test]
fn staples_that_are_none() {
    let authority = Authority::new("A");
    let sites = site(&authority.leaf(Key::Ecdsa, &["a.example"])).where_tls(|tls, dir| {
        tls.certificates[0].ocsp = Some(dir.write("ocsp.der", "not a response").unwrap())
    });
    only(
        &sites,
        Severity::Warning,
        "DIR/ocsp.der is no OCSP response",
    );
}

#[test]
fn ten_thousand_sites_load_and_are_taken_over() {
    let authority = Authority::new("A");
    let leaf = authority.leaf(Key::Ecdsa, &["*.many.example"]);
    let mut sites = Sites::new().with(&["0.many.example"], &[&leaf]);
    let tls = sites.sites[0].1.clone();
    for number in 1..10_000 {
        sites.sites.push((
            vec![saker_config::model::SiteName::Exact(format!(
                "{number}.many.example"
            ))],
            tls.clone(),
        ));
    }
    let start = std::time::Instant::now();
    let (identities, problems) = sites.load();
    assert!(problems.is_empty() && identities.covers("9999.many.example"));
    assert_eq!(identities.files().len(), 2);
    // Taken over, not read: the key is gone, but unchanged files are what counts.
    let (_, problems) = sites.load_after(Some(&identities));
    assert!(problems.is_empty());
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}
