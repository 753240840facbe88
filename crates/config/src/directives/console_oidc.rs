//! `[console.oidc]`: log-in to the console at an OpenID Connect provider.
//!
//! Called by: `console`.
//! Caveat: the file with the secret is read in `check/auth_sources`. A user without one of the
//! roles has no access, so a provider that is open to all lets in those that `roles` names alone.
//! Out of scope: log-in to sites, which has keys of its own (`auth_oidc`).

use super::{
    auth::SOURCE,
    auth_oidc::{ISSUER, SCOPES},
};
use crate::{
    context::CONSOLE_OIDC,
    kind::{KeyKind, Kind, Word},
    model::{Console, ConsoleOidc, Secret},
    row::Row,
    value::{Spanned, Value, ValueError},
};

static CLAIM_VALUE: KeyKind = KeyKind {
    expects: "a value of the claim, such as a group",
    pattern: "^[^\\x00-\\x1f]+$",
    is_case_sensitive: true,
    read: |text| match !text.trim().is_empty() && !text.contains(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err(ValueError::plain(None)),
    },
};

static ROLE: Word = Word {
    expects: "a role: \"viewer\", \"operator\", \"administrator\", or \"owner:SITE\"",
    pattern: "^(viewer|operator|administrator|owner:[!-~]+)$",
    read: |text| {
        let is_owner = text.strip_prefix("owner:").is_some_and(|site| {
            !site.is_empty() && site.bytes().all(|byte| byte.is_ascii_graphic())
        });
        match text {
            "owner" => Err(ValueError::plain(Some(
                "name the site: \"owner:shop.example\"".into(),
            ))),
            "viewer" | "operator" | "administrator" => Ok(Value::Text(text.to_owned())),
            _ if is_owner => Ok(Value::Text(text.to_owned())),
            _ => Err(ValueError::plain(None)),
        }
    },
};

const ROLES: Kind = Kind::MapOf(&CLAIM_VALUE, &Kind::Word(&ROLE));

const fn row(
    name: &'static str,
    kind: Kind,
    summary: &'static str,
    set: fn(&mut Console, Spanned),
) -> Row<Console> {
    Row {
        name,
        contexts: CONSOLE_OIDC,
        kind,
        summary,
        since: "0.2",
        set,
        ..Row::BASE
    }
}

pub const ROWS: &[Row<Console>] = &[
    Row {
        example: Some("\"https://id.example.org/realms/staff\""),
        aliases: &["provider", "provider_url", "discovery_url", "url"],
        ..row(
            "issuer",
            Kind::Word(&ISSUER),
            "The provider: its metadata is at this URL and `/.well-known/openid-configuration`. \
             Required.",
            |console, given| edit(console, given, |oidc, given| oidc.issuer = given.text()),
        )
    },
    Row {
        example: Some("\"saker-console\""),
        ..row(
            "client_id",
            Kind::Text,
            "Id of the console at the provider. Required. Register `/login/oidc/callback` under each \
             URL by which browsers open the console.",
            |console, given| edit(console, given, |oidc, given| oidc.client_id = given.text()),
        )
    },
    Row {
        example: Some("\"secret\""),
        ..row(
            "client_secret",
            Kind::Text,
            "Secret of the console at the provider. Without one, the console is a public client, \
             protected by PKCE (RFC 7636) alone.",
            |console, given| {
                edit(console, given, |oidc, given| {
                    oidc.client_secret = Some(Secret(given.text().into()))
                })
            },
        )
    },
    Row {
        example: Some("\"/etc/saker/console-oidc-secret\""),
        ..row(
            "client_secret_file",
            Kind::Path,
            "File with the secret in its first line; root alone may be able to read it.",
            |console, given| {
                edit(console, given, |oidc, given| {
                    let origin = given.origin();
                    oidc.client_secret_file = Some((given.path(), origin));
                })
            },
        )
    },
    Row {
        default: Some("[\"openid\", \"email\", \"profile\"]"),
        ..row(
            "scopes",
            SCOPES,
            "Scopes to ask for; `openid` is always among them. Some providers send groups only for a \
             scope of their own.",
            |console, given| edit(console, given, |oidc, given| oidc.scopes = given.texts()),
        )
    },
    Row {
        default: Some("\"sub\""),
        ..row(
            "user_claim",
            Kind::Word(&SOURCE),
            "Claim of the ID token with the name that pages and the audit log show. Only `sub` never \
             changes hands.",
            |console, given| edit(console, given, |oidc, given| oidc.user_claim = given.text()),
        )
    },
    Row {
        default: Some("\"groups\""),
        ..row(
            "roles_claim",
            Kind::Word(&SOURCE),
            "Claim of the ID token whose values `roles` names, such as `realm_access.roles`. `email` \
             counts only if the provider has verified it.",
            |console, given| {
                edit(console, given, |oidc, given| {
                    oidc.roles_claim = given.text()
                })
            },
        )
    },
    Row {
        example: Some("{ saker-admins = \"administrator\", shop = \"owner:shop.example\" }"),
        aliases: &["role_mapping", "groups"],
        ..row(
            "roles",
            ROLES,
            "Roles by values of `roles_claim`. The highest role of a user counts; users without one \
             have no access. Required.",
            |console, given| {
                edit(console, given, |oidc, given| {
                    let pairs = given.map().into_iter();
                    oidc.roles = pairs
                        .map(|(value, role)| (value.into(), role.text().into()))
                        .collect();
                })
            },
        )
    },
    Row {
        example: Some("\"/etc/saker/provider-ca.pem\""),
        ..row(
            "ca_file",
            Kind::Path,
            "Authorities for the certificate of the provider, besides those of the system.",
            |console, given| {
                edit(console, given, |oidc, given| {
                    oidc.ca_file = Some(given.path())
                })
            },
        )
    },
];

/// Changes the provider.
fn edit(console: &mut Console, given: Spanned, change: fn(&mut ConsoleOidc, Spanned)) {
    let oidc = console.oidc.get_or_insert_default();
    oidc.origin = given.origin();
    change(oidc, given);
}
