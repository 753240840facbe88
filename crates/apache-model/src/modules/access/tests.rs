//! Diagnostics of access directives, in the words of `apache2 -t`.

use crate::load::load;
use saker_apache_syntax::{InMemory, Setup};

const MODULES: &[&str] = &[
    "authn_core",
    "authn_file",
    "authn_anon",
    "authn_socache",
    "authz_core",
    "authz_host",
    "authz_user",
    "authz_groupfile",
    "authz_owner",
    "auth_basic",
    "auth_digest",
    "access_compat",
    "allowmethods",
    "remoteip",
    "setenvif",
    "env",
    "ssl",
];

/// Messages about the last lines of a configuration, errors first.
fn told(lines: &str) -> Vec<String> {
    let mut text = String::from("Listen 127.0.0.1:8080\nDocumentRoot /srv\n");
    MODULES.iter().for_each(|module| {
        text.push_str(&format!(
            "LoadModule {module}_module modules/mod_{module}.so\n"
        ))
    });
    text.push_str(lines);
    let files = InMemory::default().with("/etc/httpd.conf", text);
    let loaded = load(&Setup::new("/etc", "/etc/httpd.conf"), &files);
    let mut all: Vec<_> = loaded
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.origin.line > 2 + MODULES.len() as u32)
        .collect();
    all.sort_by_key(|diagnostic| !diagnostic.is_error());
    all.iter()
        .map(|diagnostic| {
            format!(
                "{}{}",
                if diagnostic.is_error() { "" } else { "(" },
                diagnostic.message
            )
        })
        .collect()
}

fn in_section(lines: &str) -> Vec<String> {
    told(&format!("<Location />\n{lines}\n</Location>\n"))
}

#[test]
fn errors_are_worded_like_apaches() {
    for (lines, expected) in [
        ("Require ip", "'require ip' requires an argument"),
        ("Require ip x", "ip address 'x' appears to be invalid"),
        ("Require method BREW", "Invalid Method 'BREW'"),
        ("Require method get", "Invalid Method 'get'"),
        (
            "Require expr x",
            "Cannot parse expression in require line: syntax error, unexpected $end, expecting '('",
        ),
        (
            "Require all",
            "Argument for 'Require all' must be 'granted' or 'denied'",
        ),
        (
            "Require all granted x",
            "Argument for 'Require all' must be 'granted' or 'denied'",
        ),
        ("Require foo", "Unknown Authz provider: foo"),
        (
            "Require not ip 10",
            "negative Require directive has no effect in <RequireAny> directive",
        ),
        (
            "Require user %{foo",
            "Cannot parse expression in require line: syntax error, unexpected T_ERROR, expecting T_VAR_END or ':': Unterminated string or variable",
        ),
        ("AuthBasicProvider foo", "Unknown Authn provider: foo"),
        (
            "AuthDigestQop auth-int",
            "AuthDigestQop is deprecated: only 'auth' is supported",
        ),
        (
            "AuthDigestAlgorithm MD5-sess",
            "Unsupported algorithm in AuthDigestAlgorithm: MD5-sess",
        ),
        (
            "AuthDigestNonceLifetime x",
            "Invalid time in AuthDigestNonceLifetime: x",
        ),
        (
            "AuthBasicUseDigestAlgorithm x",
            "Invalid algorithm in AuthBasicUseDigestAlgorithm: x",
        ),
        (
            "<RequireAll>\n</RequireAll>",
            "<RequireAll> directive contains no authorization directives",
        ),
        (
            "<RequireNone>\nRequire all granted\n</RequireNone>",
            "<RequireNone> directive has no effect in <RequireAny> directive",
        ),
        (
            "<RequireAll>\nRequire not all denied\n</RequireAll>",
            "<RequireAll> directive contains only negative authorization directives",
        ),
        (
            "<RequireAll>\n<RequireNone>\nRequire all granted\n</RequireNone>\n</RequireAll>",
            "<RequireAll> directive contains only negative authorization directives",
        ),
        (
            "<RequireAll x>\nRequire all granted\n</RequireAll>",
            "<RequireAll> directive doesn't take additional arguments",
        ),
        (
            "AuthMerging x",
            "AuthMerging must be one of: Off | And | Or",
        ),
        ("Satisfy x", "Satisfy either 'any' or 'all'."),
        ("Order x", "unknown order"),
        ("Allow to all", "allow and deny must be followed by 'from'"),
        ("SetEnvIf X (", "SetEnvIf regex could not be compiled."),
        ("SetEnvIf X a", "Missing envariable expression for SetEnvIf"),
        (
            "SSLVerifyClient maybe",
            "SSLVerifyClient: Invalid argument 'maybe'",
        ),
    ] {
        assert_eq!(
            in_section(lines).first().map(String::as_str),
            Some(expected),
            "{lines}"
        );
    }
}

#[test]
fn valid_lines_have_no_diagnostics() {
    for lines in [
        "Require env",
        "Require method",
        "Require local",
        "Require user",
        "Require host example.com",
        "Require forward-dns example.com",
        "Require valid-user",
        "Require group a b",
        "Require file-owner",
        "Require ssl",
        "Require expr \"%{REMOTE_USER} == 'x'\"",
        "<RequireAll>\nRequire all granted\nRequire not ip 10\n</RequireAll>",
        "<RequireAny>\n<RequireAll>\nRequire all granted\n<RequireNone>\nRequire ip 10\n</RequireNone>\n</RequireAll>\n</RequireAny>",
        "AuthType None",
        "AuthBasicProvider socache file anon",
        "AuthDigestNonceLifetime 0",
        "<Limit POST PUT>\nOrder deny,allow\nDeny from all\nRequire valid-user\n</Limit>",
        "SSLRequireSSL",
        "SSLRequire %{REMOTE_ADDR} =~ m/^127/",
        "SSLRequire %{SSL_CIPHER_USEKEYSIZE} >= 128",
        "Require ssl-verify-client",
        "Require expr %{SSL_CLIENT_VERIFY} == 'SUCCESS'",
        "AuthBasicFake user",
        "AllowMethods GET",
    ] {
        assert_eq!(in_section(lines), Vec::<String>::new(), "{lines}");
    }
    assert_eq!(
        told(
            "<AuthzProviderAlias ip home \"10 11\">\n</AuthzProviderAlias>\n<Location />\nRequire home\n</Location>\n"
        ),
        Vec::<String>::new()
    );
    let aliased = "<AuthnProviderAlias file one>\nAuthUserFile /x\n</AuthnProviderAlias>\n<Location />\nAuthBasicProvider one\n</Location>\n";
    assert_eq!(told(aliased), Vec::<String>::new());
}

/// Unsupported rules deny, with a warning.
#[test]
fn unsupported_rules_deny_with_a_warning() {
    for lines in ["Require ldap-search x", "SSLVerifyClient require"] {
        assert!(
            in_section(lines)
                .first()
                .is_some_and(|message| message.starts_with('(')),
            "{lines}: {:?}",
            in_section(lines)
        );
    }
}
