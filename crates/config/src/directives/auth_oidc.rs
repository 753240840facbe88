//! `[site.auth.oidc]`: log-in at an OpenID Connect provider.
//!
//! Called by: `settings`, for sites and routes.
//! Caveat: files are read, and the way back from the provider is checked, in `check/auth_sources`.
//! Out of scope: users and groups with access, which are keys of `[site.auth]`.

use super::{
    auth::{SOURCE, edit, row},
    auth_jwt::SAFE_URL,
};
use crate::{
    context::AUTH_OIDC,
    diagnostic::quoted,
    kind::{Kind, Word},
    model::{OidcRules, Secret, Settings},
    row::Row,
    value::{Spanned, Value, ValueError},
};
use std::sync::Arc;

static PATH: Word = Word {
    expects: "a path without a query, such as \"/oidc/callback\"",
    pattern: "^/[A-Za-z0-9._~/-]+$",
    read: |text| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~/-".contains(&byte);
        let is_path = text.len() > 1
            && text.starts_with('/')
            && text.bytes().all(is_plain)
            && !text.contains("//")
            && !text.split('/').any(|part| matches!(part, "." | ".."));
        match is_path {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(ValueError::plain(None)),
        }
    },
};

static AFTER: Word = Word {
    expects: "a path, or an https: URL",
    pattern: "^(/|https?://)",
    read: |text| {
        let is_path = saker_identity::local_path::local_path(text.as_bytes()) == text;
        match is_path || saker_identity::provider::is_safe_url(text) {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(ValueError::plain(None)),
        }
    },
};

static SCOPE: Word = Word {
    expects: "a scope, such as \"email\"",
    pattern: "^[!#-\\[\\]-~]+$",
    read: |text| {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        match !text.is_empty() && text.bytes().all(is_plain) {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(ValueError::plain(None)),
        }
    },
};

pub static ISSUER: Word = Word {
    expects: SAFE_URL.expects,
    pattern: SAFE_URL.pattern,
    read: |text| {
        let value = (SAFE_URL.read)(text)?;
        match text.strip_suffix("/.well-known/openid-configuration") {
            Some(issuer) => Err(ValueError::with_help(
                "this is the URL of its metadata",
                format!("write {}", quoted(issuer)),
            )),
            None => Ok(value),
        }
    },
};

static EMAIL: Word = Word {
    expects: "an address, such as \"ann@example.org\"",
    pattern: "^[^@ ]+@[^@ ]+$",
    read: |text| {
        let parts = text.split_once('@');
        let is_plain = |part: &str| !part.is_empty() && !part.contains(['@', ' ']);
        match parts.is_some_and(|(user, domain)| is_plain(user) && is_plain(domain)) {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(ValueError::plain(text.starts_with('@').then(|| {
                format!("write domains = [{}]", quoted(text.trim_start_matches('@')))
            }))),
        }
    },
};

/// The domain of an address. Compared as a whole, so nothing else would ever be met.
static DOMAIN: Word = Word {
    expects: "a domain, such as \"example.org\"",
    pattern: "^[^@* /:]+$",
    read: |text| match text.is_empty() || text.contains(['@', '*', ' ', '/', ':']) {
        false => Ok(Value::Text(text.to_owned())),
        true => {
            let bare = text.trim_start_matches(['*', '.', '@']);
            Err(ValueError::plain(
                (bare != text && !bare.is_empty()).then(|| format!("write {}", quoted(bare))),
            ))
        }
    },
};

const EMAILS: Kind = Kind::ListOf(&Kind::Word(&EMAIL));
const DOMAINS: Kind = Kind::ListOf(&Kind::Word(&DOMAIN));
pub const SCOPES: Kind = Kind::ListOf(&Kind::Word(&SCOPE));

pub const ROWS: &[Row<Settings>] = &[
    Row {
        example: Some("\"https://id.example.org/realms/staff\""),
        apache: Some("OIDCProviderMetadataURL"),
        aliases: &[
            "provider",
            "provider_url",
            "discovery",
            "discovery_url",
            "url",
        ],
        ..row(
            AUTH_OIDC,
            "issuer",
            Kind::Word(&ISSUER),
            "The provider: its metadata is at this URL and `/.well-known/openid-configuration`. Required.",
            |settings, given| oidc(settings, given, |rules, given| rules.issuer = given.text()),
        )
    },
    Row {
        example: Some("\"shop\""),
        apache: Some("OIDCClientID"),
        ..row(
            AUTH_OIDC,
            "client_id",
            Kind::Text,
            "Id of this site at the provider. Required.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    rules.client_id = given.text()
                })
            },
        )
    },
    Row {
        example: Some("\"secret\""),
        apache: Some("OIDCClientSecret"),
        ..row(
            AUTH_OIDC,
            "client_secret",
            Kind::Text,
            "Secret of this site at the provider. Without one, the site is a public client, protected by \
             PKCE (RFC 7636) alone.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    rules.client_secret = Some(Secret(given.text().into()))
                })
            },
        )
    },
    Row {
        example: Some("\"/etc/saker/oidc-secret\""),
        ..row(
            AUTH_OIDC,
            "client_secret_file",
            Kind::Path,
            "File with the secret in its first line; root alone may be able to read it.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    let origin = given.origin();
                    rules.client_secret_file = Some((given.path(), origin));
                })
            },
        )
    },
    Row {
        default: Some("[\"openid\", \"email\", \"profile\"]"),
        apache: Some("OIDCScope"),
        ..row(
            AUTH_OIDC,
            "scopes",
            SCOPES,
            "Scopes to ask for; `openid` is always among them. Some providers give a refresh token only \
             for `offline_access`.",
            |settings, given| oidc(settings, given, |rules, given| rules.scopes = given.texts()),
        )
    },
    Row {
        default: Some("\"/oidc/callback\""),
        apache: Some("OIDCRedirectURI"),
        aliases: &["redirect_uri", "redirect_url", "callback_url"],
        ..row(
            AUTH_OIDC,
            "callback",
            Kind::Word(&PATH),
            "Path that the provider sends clients back to: register `https://HOST/oidc/callback` there. \
             In a route, it must be a path of the route.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    rules.callback = given.text()
                })
            },
        )
    },
    Row {
        default: Some("\"/oidc/logout\""),
        ..row(
            AUTH_OIDC,
            "logout",
            Kind::Word(&PATH),
            "Path that ends the session, here and at the provider.",
            |settings, given| oidc(settings, given, |rules, given| rules.logout = given.text()),
        )
    },
    Row {
        example: Some("\"/goodbye\""),
        apache: Some("OIDCDefaultLoggedOutURL"),
        ..row(
            AUTH_OIDC,
            "logged_out",
            Kind::Word(&AFTER),
            "Path or URL for clients that have logged out; register it at the provider, too. Default: a \
             short page.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    rules.logged_out = Some(given.text())
                })
            },
        )
    },
    Row {
        default: Some("[]"),
        example: Some("[\"ann@example.org\"]"),
        ..row(
            AUTH_OIDC,
            "emails",
            EMAILS,
            "Addresses (claim `email`) with access, besides `domains`. `users` and `groups` of [site.auth] \
             have to hold, too. Without any of these, everyone who can log in at the provider has \
             access.",
            |settings, given| oidc(settings, given, |rules, given| rules.emails = given.texts()),
        )
    },
    Row {
        default: Some("[]"),
        example: Some("[\"example.org\"]"),
        ..row(
            AUTH_OIDC,
            "domains",
            DOMAINS,
            "Domains of addresses with access; not those below them.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    rules.domains = given.texts()
                })
            },
        )
    },
    Row {
        default: Some("false"),
        ..row(
            AUTH_OIDC,
            "unverified_emails",
            Kind::Boolean,
            "Accept addresses without the claim `email_verified`, for providers that do not send it? \
             Where users can choose their address freely, they could choose another one's.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    rules.unverified_emails = given.boolean()
                })
            },
        )
    },
    Row {
        default: Some("false"),
        ..row(
            AUTH_OIDC,
            "userinfo",
            Kind::Boolean,
            "Fetch claims from the provider's userinfo endpoint, too? Needed where the ID token has no \
             e-mail address or groups.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    rules.userinfo = given.boolean()
                })
            },
        )
    },
    Row {
        default: Some("\"sub\""),
        apache: Some("OIDCRemoteUserClaim"),
        ..row(
            AUTH_OIDC,
            "user_claim",
            Kind::Word(&SOURCE),
            "Claim with the name of the user, for `users`, REMOTE_USER, and logs. Only `sub` never \
             changes hands.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    rules.user_claim = given.text()
                })
            },
        )
    },
    Row {
        default: Some("\"groups\""),
        ..row(
            AUTH_OIDC,
            "groups_claim",
            Kind::Word(&SOURCE),
            "Claim with the groups of the user, for `groups`.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    rules.groups_claim = given.text()
                })
            },
        )
    },
    Row {
        default: Some("\"8h\""),
        apache: Some("OIDCSessionMaxDuration"),
        ..row(
            AUTH_OIDC,
            "session_lifetime",
            Kind::Duration {
                min_ms: 60_000,
                max_ms: 366 * 86_400_000,
            },
            "Time from a log-in to the next one; the provider may not ask for a password then.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    rules.session_lifetime_s = (given.number() / 1000) as i64
                })
            },
        )
    },
    Row {
        default: Some("\"15m\""),
        ..row(
            AUTH_OIDC,
            "renew",
            Kind::Duration {
                min_ms: 1000,
                max_ms: 86_400_000,
            },
            "Time after which the provider is asked whether the user still exists, and for current claims, \
             if it gave a refresh token. A refusal ends the session; while the provider does not answer, \
             the session stays.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    rules.renew_s = (given.number() / 1000) as i64
                })
            },
        )
    },
    Row {
        example: Some("\"/etc/saker/session-keys\""),
        apache: Some("OIDCCryptoPassphrase"),
        ..row(
            AUTH_OIDC,
            "key_file",
            Kind::Path,
            "File with keys of session cookies, for machines that share sessions: a line of 32 characters \
             or more each (`openssl rand -base64 48`). The first one seals, all of them open. Default: a \
             key that the server makes in its state directory.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    let origin = given.origin();
                    rules.key_file = Some((given.path(), origin));
                })
            },
        )
    },
    Row {
        example: Some("\"/etc/saker/provider-ca.pem\""),
        ..row(
            AUTH_OIDC,
            "ca_file",
            Kind::Path,
            "Authorities for the certificate of the provider. Default: those of the system.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    rules.ca_file = Some(given.path())
                })
            },
        )
    },
    Row {
        default: Some("false"),
        ..row(
            AUTH_OIDC,
            "allow_http",
            Kind::Boolean,
            "Log in over plain HTTP, too? Only for development: anyone on the way can take over the \
             session. Otherwise such requests are answered with 403.",
            |settings, given| {
                oidc(settings, given, |rules, given| {
                    rules.allow_http = given.boolean()
                })
            },
        )
    },
];

/// Changes the provider of a site or route.
fn oidc(settings: &mut Settings, given: Spanned, change: fn(&mut OidcRules, Spanned)) {
    let origin = given.origin();
    edit(settings, given.clone(), |_, _| {});
    if let Some(rules) = settings.auth.as_mut() {
        let rules = Arc::make_mut(Arc::make_mut(rules).oidc.get_or_insert_default());
        rules.origin = origin;
        change(rules, given);
    }
}
