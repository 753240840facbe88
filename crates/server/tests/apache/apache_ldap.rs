//! mod_authnz_ldap against a real slapd, beside the real apache2: the same log-ins, the same answers.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::{databases::Slapd, operate};
use saker_ap_expr::base64_encode;
use saker_testkit::{
    Client, TempDir,
    apache2::{load_modules, start_apache2, unprivileged_user},
    free_port,
};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
};

const SCHEMA: &str =
    "include /etc/ldap/schema/cosine.schema\ninclude /etc/ldap/schema/inetorgperson.schema";

const PEOPLE: &str = "\
dn: ou=people,dc=test\nobjectClass: organizationalUnit\nou: people\n\n\
dn: uid=ann,ou=people,dc=test\nobjectClass: inetOrgPerson\nuid: ann\ncn: Ann\nsn: A\nmail: ann@example.org\nemployeeType: chief\nuserPassword: secret\n\n\
dn: cn=Bob\\, B (x)*,ou=people,dc=test\nobjectClass: inetOrgPerson\nuid: bob\ncn: Bob, B (x)*\nsn: B\nuserPassword: secret\n\n\
dn: ou=far,ou=people,dc=test\nobjectClass: organizationalUnit\nou: far\n\n\
dn: uid=eve,ou=far,ou=people,dc=test\nobjectClass: inetOrgPerson\nuid: eve\ncn: Eve\nsn: E\nemployeeType: staff\nuserPassword: secret\n\n\
dn: cn=one,ou=people,dc=test\nobjectClass: inetOrgPerson\nuid: twice\ncn: one\nsn: C\nuserPassword: secret\n\n\
dn: cn=two,ou=people,dc=test\nobjectClass: inetOrgPerson\nuid: twice\ncn: two\nsn: C\nuserPassword: secret\n\n\
dn: ou=groups,dc=test\nobjectClass: organizationalUnit\nou: groups\n\n\
dn: cn=staff,ou=groups,dc=test\nobjectClass: groupOfNames\ncn: staff\nmember: uid=ann,ou=people,dc=test\nmember: uid=eve,ou=far,ou=people,dc=test\n\n\
dn: cn=other,ou=groups,dc=test\nobjectClass: groupOfNames\ncn: other\nmember: cn=Bob\\, B (x)*,ou=people,dc=test\n\n\
dn: cn=names,ou=groups,dc=test\nobjectClass: groupOfNames\nobjectClass: extensibleObject\ncn: names\nmember: dc=test\nuid: ann\n\n";

/// Paths with their rules. All have a bind, a URL, and Basic authentication.
const PLACES: &[(&str, &str, &str)] = &[
    ("all", "", "Require valid-user"),
    ("one", "?uid?one", "Require valid-user"),
    ("filter", "?uid?sub?(employeeType=*)", "Require valid-user"),
    (
        "bare-filter",
        "?uid?sub?employeeType=chief",
        "Require valid-user",
    ),
    ("by-cn", "?cn", "Require valid-user"),
    ("user", "", "Require ldap-user ann \"bob\""),
    ("dn", "", "Require ldap-dn uid=ann,ou=people,dc=test"),
    ("group", "", "Require ldap-group cn=staff,ou=groups,dc=test"),
    (
        "no-group",
        "",
        "Require ldap-group cn=missing,ou=groups,dc=test",
    ),
    (
        "names",
        "",
        "AuthLDAPGroupAttribute uid\nAuthLDAPGroupAttributeIsDN off\nRequire ldap-group cn=names,ou=groups,dc=test",
    ),
    (
        "attribute",
        "",
        "Require ldap-attribute employeeType=chief cn=\"Bob, B (x)*\"",
    ),
    (
        "filter-rule",
        "",
        "Require ldap-filter &(employeeType=chief)(sn=A)",
    ),
    (
        "env",
        "?uid,mail",
        "Require expr %{env:AUTHENTICATE_MAIL} == 'ann@example.org'\nRequire user nobody",
    ),
    (
        "renamed",
        "?uid,cn",
        "AuthLDAPRemoteUserAttribute cn\nRequire user Ann",
    ),
    (
        "as-dn",
        "",
        "AuthLDAPRemoteUserIsDN on\nRequire user \"uid=ann,ou=people,dc=test\"",
    ),
    (
        "both",
        "",
        "<RequireAll>\nRequire valid-user\nRequire not ldap-group cn=other,ou=groups,dc=test\n</RequireAll>",
    ),
];

const CREDENTIALS: &[&str] = &[
    "ann:secret",
    "ann:wrong",
    "ann:",
    "ANN:secret",
    "bob:secret",
    "eve:secret",
    "twice:secret",
    "Ann:secret",
    "*:secret",
    "nobody:secret",
    ")(uid=*:secret",
    ":secret",
];

fn configuration(port: u16, url: &str) -> String {
    let mut text = load_modules(&[
        "mpm_event",
        "authn_core",
        "authz_core",
        "authz_user",
        "auth_basic",
        "ldap",
        "authnz_ldap",
        "dir",
        "env",
    ]);
    text.push_str(&format!(
        "ServerName ldap.test\nListen 127.0.0.1:{port}\nDocumentRoot {{dir}}/www\n\
         <Directory {{dir}}/www>\nRequire all granted\n</Directory>\n"
    ));
    for (path, more, rules) in PLACES {
        let url = match more.is_empty() {
            true => format!("{url}/ou=people,dc=test?uid"),
            false => format!("{url}/ou=people,dc=test{more}"),
        };
        text.push_str(&format!(
            "<Location /{path}>\nAuthType Basic\nAuthName x\nAuthBasicProvider ldap\n\
             AuthLDAPURL \"{url}\"\nAuthLDAPBindDN cn=admin,dc=test\nAuthLDAPBindPassword secret\n\
             {rules}\n</Location>\n"
        ));
    }
    text
}

fn answers(address: SocketAddr) -> Vec<(String, u16)> {
    let mut all = Vec::new();
    for (path, ..) in PLACES {
        for credentials in CREDENTIALS.iter().copied().map(Some).chain([None]) {
            let field = credentials.map(|text| {
                let encoded = base64_encode(text.as_bytes());
                format!("Basic {}", String::from_utf8(encoded).unwrap())
            });
            let fields: Vec<(&str, &str)> = field
                .iter()
                .map(|value| ("Authorization", value.as_str()))
                .collect();
            let mut client = Client::connect(address).unwrap();
            let response = client.request("GET", &format!("/{path}/a.txt"), &fields);
            let status = response.unwrap().status;
            all.push((format!("{path} {credentials:?}"), status));
        }
    }
    all
}

#[test]
fn the_same_log_ins_as_apache() {
    let dir = TempDir::new("apache-ldap").unwrap();
    for (path, ..) in PLACES {
        dir.write(&format!("www/{path}/a.txt"), "a").unwrap();
    }
    fs::set_permissions(&*dir, fs::Permissions::from_mode(0o755)).unwrap();
    let ldap_port = free_port().unwrap();
    let url = format!("ldap://127.0.0.1:{ldap_port}");
    let _slapd = Slapd::start_with(&dir, PEOPLE, SCHEMA, &url);
    let apache = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let text = configuration(apache.port(), &url).replace("{dir}", &dir.to_string_lossy());
    let root = dir.display();
    let server = format!(
        "ServerRoot {root}\nPidFile {root}/pid\nErrorLog {root}/apache.log\n{}\n{text}",
        unprivileged_user()
    );
    let file = dir.write("httpd.conf", server).unwrap();
    let apache = start_apache2(&file, apache).unwrap();
    let expected = answers(apache.address());
    let port = free_port().unwrap();
    let text = configuration(port, &url).replace("{dir}", &dir.to_string_lossy());
    let saker = operate::apache(&format!("ServerRoot {{dir}}\n{text}"))
        .file("saker.conf")
        .at(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .start_in(&dir);
    let found = answers(saker.address());
    let differences: Vec<String> = expected
        .iter()
        .zip(&found)
        .filter(|(apache, saker)| apache.1 != saker.1)
        .map(|(apache, saker)| format!("{}: apache2 {}, saker {}", apache.0, apache.1, saker.1))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    // Each place but one lets a user in.
    let granted = expected.iter().filter(|(_, status)| *status == 200).count();
    assert!(granted >= PLACES.len() - 1, "{expected:?}");
}
