use super::*;
use saker_config::model::OidcRules;
use std::sync::Arc;

fn claims(text: &str) -> Claims {
    Claims::parse(text.as_bytes()).expect("an object")
}

#[test]
fn users_groups_and_addresses() {
    let mut rules = AuthRules::default();
    let ann = claims(
        r#"{"sub":"ann","groups":["staff"],"email":"Ann@Example.org","email_verified":true}"#,
    );
    let eve = claims(r#"{"sub":"eve","email":"ann@example.org"}"#);
    let odd =
        claims(r#"{"sub":"odd","email":"x@evil.example@example.org.evil","email_verified":true}"#);
    let allowed = |rules: &AuthRules, claims: &Claims| {
        is_allowed(
            rules,
            &claims.text("sub").unwrap_or_default(),
            "groups",
            claims,
        )
    };
    assert!(allowed(&rules, &ann) && allowed(&rules, &eve));
    rules.users = vec!["eve".into()];
    assert!(!allowed(&rules, &ann) && allowed(&rules, &eve));
    (rules.users, rules.groups) = (Vec::new(), vec!["staff".into()]);
    assert!(allowed(&rules, &ann) && !allowed(&rules, &eve));
    rules.groups = Vec::new();
    let with = |emails: &[&str], domains: &[&str], unverified_emails| {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        let oidc = OidcRules {
            emails: texts(emails),
            domains: texts(domains),
            unverified_emails,
            ..OidcRules::default()
        };
        AuthRules {
            oidc: Some(Arc::new(oidc)),
            ..AuthRules::default()
        }
    };
    let by_email = with(&["ann@example.org"], &[], false);
    assert!(allowed(&by_email, &ann) && !allowed(&by_email, &eve));
    assert!(allowed(&with(&["ann@example.org"], &[], true), &eve));
    let by_domain = with(&[], &["example.org"], false);
    assert!(allowed(&by_domain, &ann) && !allowed(&by_domain, &eve) && !allowed(&by_domain, &odd));
    assert!(!allowed(&with(&[], &["org"], false), &ann));
    let mut both = with(&[], &["example.org"], false);
    both.groups = vec!["admins".into()];
    assert!(!allowed(&both, &ann), "an address is no membership");
    both.groups = vec!["staff".into()];
    assert!(allowed(&both, &ann));
}
