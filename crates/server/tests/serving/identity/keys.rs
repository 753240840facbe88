//! Keys of `[site.auth.ldap]`, `[site.auth.jwt]`, and `[site.auth.oidc]` that say where names and
//! groups stand, and for how long.
//!
//! Called by: `cargo test -p saker --test serving identity::keys::`.
//! Caveat: tokens whose time depends on the machine's clock are minutes away from its limits.
//! Out of scope: forged tokens (scenarios `jwt` and `jwt_claims`).

use super::{Browser, Issuer, PEOPLE, SCHEMA, ldap_site, log_in, operate, sign, stage, with_token};
use crate::{databases::Slapd, tls_site};
use jsonwebtoken::{Algorithm, EncodingKey};
use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

#[test]
fn names_and_groups_of_a_directory() {
    let dir = operate::folder("identity-ldap-keys");
    dir.write("www/staff/a.txt", "a\n").unwrap();
    dir.write("password", "secret\nsecond line\n").unwrap();
    // One level below the others, and members by attribute.
    let people = format!(
        "{PEOPLE}dn: ou=deep,ou=people,dc=test\nobjectClass: organizationalUnit\nou: deep\n\n\
         dn: uid=dora,ou=deep,ou=people,dc=test\nobjectClass: inetOrgPerson\nuid: dora\ncn: Dora\nsn: D\nmail: dora@example.org\n\
         manager: cn=staff,ou=groups,dc=test\nuserPassword: secret\n\n"
    );
    let slapd = Slapd::start_with(&dir, &people, SCHEMA, "");
    let url = slapd.url();
    let with = |ldap: &str, more: &str| {
        ldap_site(&url, "", &format!("{ldap}\ncache = \"0s\""), more)
            .replace("password = \"secret\"", "password_file = \"password\"")
    };
    let staff = "[[site.route]]\npath = \"/staff/*\"\n[site.route.auth]\ngroups = [\"staff\"]\n";
    let text = with("group_attribute = \"manager\"", staff);
    let saker = operate::start_in(dir, &text);
    let statuses = |names: &[&str], path: &str| -> Vec<u16> {
        let status = |name: &&str| log_in(&saker, path, &format!("{name}:secret")).status;
        names.iter().map(status).collect()
    };
    assert_eq!(statuses(&["ann", "dora"], "/index.html"), [200, 200]);
    assert_eq!(statuses(&["ann", "dora"], "/staff/a.txt"), [401, 200]);
    for (ldap, names, expected) in [
        ("scope = \"one\"", ["ann", "dora"], [200, 401]),
        (
            "user_attribute = \"mail\"",
            ["ann@example.org", "ann"],
            [200, 401],
        ),
        (
            "filter = \"(&(objectClass=inetOrgPerson)(cn=?))\"",
            ["Dora", "dor*"],
            [200, 401],
        ),
        (
            "filter = \"(&(mail=*)(uid=?))\"",
            ["ann", "bob"],
            [200, 401],
        ),
    ] {
        operate::rewrite(&saker, &with(ldap, ""));
        assert!(operate::reload(&saker).status.success());
        assert_eq!(statuses(&names, "/index.html"), expected, "{ldap}");
    }
    // Without the password of `bind_dn`, all are refused.
    saker.dir.write("password", "wrong\n").unwrap();
    assert!(operate::reload(&saker).status.success());
    assert_eq!(statuses(&["ann", "dora"], "/index.html"), [500, 500]);
    drop(slapd);
}

#[test]
fn clocks_may_differ_by_the_leeway() {
    let issuer = Issuer::new("a");
    let dir = operate::folder("identity-leeway");
    dir.write("keys.pem", issuer.pem()).unwrap();
    let text = |leeway: &str| {
        let site = format!(
            "[site.auth.jwt]\nalgorithms = [\"ES256\"]\nkeys_file = \"keys.pem\"\nleeway = \"{leeway}\"\n"
        );
        operate::configuration("workers = 1", &site)
    };
    let saker = operate::start_in(dir, &text("5m"));
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let token = |claims: String| {
        let message = format!(
            "{}.{}",
            super::base64url(b"{\"alg\":\"ES256\",\"kid\":\"a\"}"),
            super::base64url(claims.as_bytes())
        );
        let key = EncodingKey::from_ec_der(issuer.key.serialized_der());
        let signature = sign(message.as_bytes(), &key, Algorithm::ES256).unwrap();
        format!("{message}.{signature}")
    };
    let expired = |ago: u64| token(format!("{{\"sub\":\"ann\",\"exp\":{}}}", now - ago));
    let early = |until: u64| {
        token(format!(
            "{{\"sub\":\"ann\",\"exp\":4102444800,\"nbf\":{}}}",
            now + until
        ))
    };
    assert_eq!(with_token(&saker, &expired(60)), 200);
    assert_eq!(with_token(&saker, &expired(3600)), 401);
    assert_eq!(with_token(&saker, &early(120)), 200);
    assert_eq!(with_token(&saker, &early(7200)), 401);
    operate::rewrite(&saker, &text("0s"));
    assert!(operate::reload(&saker).status.success());
    assert_eq!(with_token(&saker, &expired(60)), 401);
    assert_eq!(with_token(&saker, &early(120)), 401);
    assert_eq!(with_token(&saker, &token("{\"sub\":\"ann\"}".into())), 401);
}

#[test]
fn users_of_a_provider_by_their_address() {
    let stage = stage(
        "identity-oidc-keys",
        "users = [\"ann@example.org\", \"eve@example.org\"]",
        "client_secret_file = \"client-secret\"\nuser_claim = \"email\"\nunverified_emails = true\nlogout = \"/bye\"\n\
         emails = [\"ann@example.org\", \"eve@example.org\", \"bob@example.org\"]\nsession_lifetime = \"5m\"\nkey_file = \"session-keys\"",
    );
    let (dir, url) = (&*stage.saker.dir, &stage.url);
    let browser = |name: &str| Browser::new(dir, name, "--http2");
    let (ann, bob, eve) = (browser("ann"), browser("bob"), browser("eve"));
    let me = format!("{url}/app/me");
    for (browser, name, status) in [(&ann, "ann", 200), (&eve, "eve", 200), (&bob, "bob", 403)] {
        let page = browser.log_in(&me, name);
        let said = stage.saker.server.stderr();
        assert_eq!(page.status, status, "{name}: {page:?} {said}");
    }
    // The first key seals, all of them open.
    let reload = |keys: &str| {
        fs::write(dir.join("session-keys"), keys).unwrap();
        assert!(operate::reload(&stage.saker).status.success());
    };
    let (old, new) = ("a".repeat(40), "b".repeat(40));
    reload(&format!("{new}\n{old}\n"));
    assert_eq!(ann.open(&me, &[]).status, 200);
    reload(&format!("{new}\n"));
    assert_eq!(ann.open(&me, &[]).status, 302);
    reload(&format!("{old}\n"));
    assert_eq!(ann.open(&me, &[]).status, 200);
    // Its own path alone ends a session.
    assert_eq!(ann.open(&format!("{url}/oidc/logout"), &[]).status, 404);
    assert_eq!(ann.open(&me, &[]).status, 200);
    let page = ann.open(&format!("{url}/bye"), &[]);
    assert!(
        page.status == 302 && page.heads.contains("/session/end?"),
        "{page:?}"
    );
    assert_eq!(ann.open(&me, &[]).status, 302);
    // Five minutes are over, whatever the cookie's own age.
    assert_eq!(eve.open(&me, &[]).status, 200);
    stage.saker.advance_clock(400).unwrap();
    operate::wait_until("the session is over", || eve.open(&me, &[]).status == 302);
}

#[test]
fn groups_of_a_provider_by_their_claim() {
    let stage = stage(
        "identity-oidc-groups",
        "groups = [\"ann@example.org\"]",
        "groups_claim = \"email\"\nunverified_emails = true",
    );
    let (dir, url) = (&*stage.saker.dir, &stage.url);
    let browser = |name: &str| Browser::new(dir, name, "--http1.1");
    let (ann, bob) = (browser("ann"), browser("bob"));
    assert_eq!(ann.log_in(&format!("{url}/app/me"), "ann").status, 200);
    assert_eq!(bob.log_in(&format!("{url}/app/me"), "bob").status, 403);
    // The claim with the usual name is none.
    assert_eq!(ann.open(&format!("{url}/staff/a.txt"), &[]).status, 403);
}

/// Keys and metadata come over https: from a server whose certificate is of the authority alone.
#[test]
fn authorities_of_issuers_are_those_of_the_file() {
    let issuer = Issuer::new("one");
    let keys = format!("{{\"keys\":[{}]}}", issuer.jwk());
    let dir = operate::folder("identity-ca-issuer");
    tls_site::leaf_certificate(&dir, "site", "localhost");
    let other = operate::start_in(dir, &tls_site::configuration("", ""));
    let url = format!("https://localhost:{}", other.server.address().port());
    let metadata = format!(
        "{{\"issuer\":\"{url}\",\"authorization_endpoint\":\"https://id.test/authorize\",\"token_endpoint\":\"{url}/token\",\
         \"jwks_uri\":\"{url}/keys\",\"response_types_supported\":[\"code\"],\"subject_types_supported\":[\"public\"],\
         \"id_token_signing_alg_values_supported\":[\"ES256\"]}}"
    );
    let metadata_file = "www/.well-known/openid-configuration";
    for (file, text) in [("www/keys", &keys), (metadata_file, &metadata)] {
        other.dir.write(file, text).unwrap();
    }
    let authority = other.dir.join("site.pem").display().to_string();
    for (line, status) in [
        (format!("ca_file = \"{authority}\""), 200),
        (String::new(), 503),
    ] {
        let jwt = format!(
            "[site.auth.jwt]\nalgorithms = [\"ES256\"]\nkeys_url = \"{url}/keys\"\n{line}\n"
        );
        let saker = operate::start("identity-ca", &operate::configuration("workers = 1", &jwt));
        assert_eq!(with_token(&saker, &issuer.token("ann")), status, "{line}");
        let oidc = format!(
            "[site.auth.oidc]\nissuer = \"{url}\"\nclient_id = \"shop\"\nallow_http = true\n{line}\n"
        );
        let saker = operate::start("identity-ca", &operate::configuration("workers = 1", &oidc));
        let mut client = saker.connect().unwrap();
        let answer = client
            .request("GET", "/index.html", &[("Accept", "text/html")])
            .unwrap();
        let is_sent = answer.status == 302;
        assert_eq!(is_sent, status == 200, "{line}: {}", saker.server.stderr());
    }
}
