//! `[site.auth.jwt]`: access with JSON Web Tokens (RFC 7519, RFC 6750).
//!
//! Called by: `settings`, for sites and routes.
//! Caveat: key files are read in `check/auth_sources`.
//! Out of scope: users and groups with access, which are keys of `[site.auth]`.

use super::auth::{SOURCE, edit, row};
use crate::{
    context::AUTH_JWT,
    kind::{KeyKind, Kind, Word},
    model::{JwtRules, Settings},
    row::Row,
    value::{Spanned, Value, ValueError},
};
use saker_identity::{algorithm, keys::ALGORITHMS, provider::is_safe_url};
use std::sync::Arc;

pub static SAFE_URL: Word = Word {
    expects: "an https: URL, such as \"https://id.example.org\" (http: for a server on this machine)",
    pattern: "^https?://",
    read: |text| match is_safe_url(text) {
        true => Ok(Value::Text(text.to_owned())),
        false => Err(ValueError::plain(None)),
    },
};

pub static TOKEN: Word = Word {
    expects: "a name of letters, digits, `-`, `_`, and `.`",
    pattern: "^[A-Za-z0-9._-]+$",
    read: |text| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        match !text.is_empty() && text.bytes().all(is_plain) {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(ValueError::plain(None)),
        }
    },
};

static CLAIM: KeyKind = KeyKind {
    expects: "a claim",
    pattern: "^[!-~]+$",
    is_case_sensitive: true,
    read: |text| match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err(ValueError::plain(None)),
    },
};

pub const TEXT_OR_TEXTS: Kind = Kind::OneOf(&[Kind::Text, Kind::ListOf(&Kind::Text)]);

pub const ROWS: &[Row<Settings>] = &[
    Row {
        example: Some("[\"RS256\", \"ES256\"]"),
        aliases: &["algorithm", "alg", "algs"],
        ..row(
            AUTH_JWT,
            "algorithms",
            Kind::ListOf(&Kind::Choice(&ALGORITHMS)),
            "Algorithms that tokens may be signed with (RFC 7518). Required. `none` is not among them, \
             and a public key is never used as the secret of `HS256`.",
            |settings, given| {
                jwt(settings, given, |rules, given| {
                    let names = given.texts();
                    rules.algorithms = names.iter().filter_map(|name| algorithm(name)).collect();
                })
            },
        )
    },
    Row {
        example: Some("\"/etc/saker/issuer.jwks\""),
        aliases: &["auth_jwt_key_file", "jwks_file", "public_key"],
        ..row(
            AUTH_JWT,
            "keys_file",
            Kind::Path,
            "File with the issuer's public keys: a JWK set (RFC 7517), or PEM. Read when the \
             configuration is loaded.",
            |settings, given| {
                jwt(settings, given, |rules, given| {
                    let origin = given.origin();
                    rules.keys_file = Some((given.path(), origin));
                })
            },
        )
    },
    Row {
        example: Some("\"/etc/saker/token-secret\""),
        aliases: &["secret", "key", "shared_secret"],
        ..row(
            AUTH_JWT,
            "secret_file",
            Kind::Path,
            "File with the shared secret of `HS256`, `HS384`, and `HS512`, 32 bytes at least. Root \
             alone may be able to read it.",
            |settings, given| {
                jwt(settings, given, |rules, given| {
                    let origin = given.origin();
                    rules.secret_file = Some((given.path(), origin));
                })
            },
        )
    },
    Row {
        example: Some("\"https://id.example.org/.well-known/jwks.json\""),
        aliases: &["auth_jwt_key_request", "jwks_url", "jwks_uri"],
        ..row(
            AUTH_JWT,
            "keys_url",
            Kind::Word(&SAFE_URL),
            "URL of the issuer's public keys, a JWK set. Exactly one of `keys_file`, `secret_file`, and \
             `keys_url` is required.",
            |settings, given| {
                jwt(settings, given, |rules, given| {
                    rules.keys_url = Some(given.text())
                })
            },
        )
    },
    Row {
        default: Some("\"1h\""),
        ..row(
            AUTH_JWT,
            "refresh",
            Kind::Duration {
                min_ms: 5_000,
                max_ms: 7 * 86_400_000,
            },
            "Time after which the keys of `keys_url` are fetched again; if that fails, the previous ones \
             stay. A token with an unknown key has them fetched at once, every 30 seconds at most.",
            |settings, given| {
                jwt(settings, given, |rules, given| {
                    rules.refresh_ms = given.number()
                })
            },
        )
    },
    Row {
        example: Some("\"/etc/saker/issuer-ca.pem\""),
        ..row(
            AUTH_JWT,
            "ca_file",
            Kind::Path,
            "Authorities for the certificate of `keys_url`. Default: those of the system.",
            |settings, given| {
                jwt(settings, given, |rules, given| {
                    rules.ca_file = Some(given.path())
                })
            },
        )
    },
    Row {
        example: Some("\"https://id.example.org\""),
        ..row(
            AUTH_JWT,
            "issuer",
            Kind::Text,
            "Value that the claim `iss` must have.",
            |settings, given| {
                jwt(settings, given, |rules, given| {
                    rules.issuer = Some(given.text())
                })
            },
        )
    },
    Row {
        example: Some("\"shop\""),
        aliases: &["aud", "audiences"],
        ..row(
            AUTH_JWT,
            "audience",
            TEXT_OR_TEXTS,
            "Values of which the claim `aud` must have one.",
            |settings, given| {
                jwt(settings, given, |rules, given| {
                    let all = given.one_or_many().into_iter();
                    rules.audiences = all.map(Spanned::text).collect();
                })
            },
        )
    },
    Row {
        default: Some("\"1m\""),
        ..row(
            AUTH_JWT,
            "leeway",
            Kind::Duration {
                min_ms: 0,
                max_ms: 600_000,
            },
            "Tolerated difference of clocks for `exp`, which tokens must have, and `nbf`.",
            |settings, given| {
                jwt(settings, given, |rules, given| {
                    rules.leeway_s = (given.number() / 1000) as i64
                })
            },
        )
    },
    Row {
        example: Some("{ scope = [\"orders\", \"admin\"], email_verified = \"true\" }"),
        aliases: &["require", "auth_jwt_require"],
        ..row(
            AUTH_JWT,
            "claims",
            Kind::MapOf(&CLAIM, &TEXT_OR_TEXTS),
            "Claims that a token must have, each with one of these values; lists and the words of \
             `scope` are looked through. Tokens without them are answered with 403. A name with dots \
             also finds claims inside objects: `realm_access.roles`.",
            |settings, given| {
                jwt(settings, given, |rules, given| {
                    let texts = |given: Spanned| {
                        let all = given.one_or_many().into_iter();
                        all.map(Spanned::text).collect()
                    };
                    let claims = given.map().into_iter();
                    rules.claims = claims.map(|(name, given)| (name, texts(given))).collect();
                })
            },
        )
    },
    Row {
        example: Some("\"access_token\""),
        ..row(
            AUTH_JWT,
            "cookie",
            Kind::Word(&TOKEN),
            "Cookie that may have the token instead of `Authorization`.",
            |settings, given| {
                jwt(settings, given, |rules, given| {
                    rules.cookie = Some(given.text())
                })
            },
        )
    },
    Row {
        example: Some("\"access_token\""),
        ..row(
            AUTH_JWT,
            "query",
            Kind::Word(&TOKEN),
            "Parameter of the query that may have the token (RFC 6750 section 2.3). It is in access \
             logs, browser histories, and `Referer` then: use it where nothing else is possible.",
            |settings, given| {
                jwt(settings, given, |rules, given| {
                    rules.query = Some(given.text())
                })
            },
        )
    },
    Row {
        default: Some("\"sub\""),
        ..row(
            AUTH_JWT,
            "user_claim",
            Kind::Word(&SOURCE),
            "Claim with the name of the user, for `users`, REMOTE_USER, and logs. Tokens must have it.",
            |settings, given| {
                jwt(settings, given, |rules, given| {
                    rules.user_claim = given.text()
                })
            },
        )
    },
    Row {
        default: Some("\"groups\""),
        ..row(
            AUTH_JWT,
            "groups_claim",
            Kind::Word(&SOURCE),
            "Claim with the groups of the user, for `groups`.",
            |settings, given| {
                jwt(settings, given, |rules, given| {
                    rules.groups_claim = given.text()
                })
            },
        )
    },
];

/// Changes the token rules of a site or route.
fn jwt(settings: &mut Settings, given: Spanned, change: fn(&mut JwtRules, Spanned)) {
    let origin = given.origin();
    edit(settings, given.clone(), |_, _| {});
    if let Some(rules) = settings.auth.as_mut() {
        let rules = Arc::make_mut(Arc::make_mut(rules).jwt.get_or_insert_default());
        rules.origin = origin;
        change(rules, given);
    }
}
