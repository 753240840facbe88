//! Log-in at an OpenID Connect provider (`[console.oidc]`): authorization code flow with PKCE.
//!
//! Called by: `log_in_pages`.
//! Caveat: the provider says who the user is; the configuration says which roles the values of a
//! claim have, and a user without one is refused. Keys are fetched for each log-in, which the
//! limits on log-ins bound; metadata is kept. An e-mail address counts only if it is verified.
//! Out of scope: tokens and attempts (`saker_identity`), sessions (`sessions`).

use crate::{
    backend::{Backend, Fetch},
    cookie,
    exchange::{Request, Response},
    users::{Role, role_of, sha256},
};
use saker_config::model::ConsoleOidc;
use saker_identity::{
    Claims, KeySet, SealKeys,
    attempt::{ATTEMPT_S, Attempt},
    provider::{Provider, Tokens, discovery_url, error_of},
};
use saker_net::clock::{monotonic_ms, realtime_s};
use saker_telemetry::{error_log, message};
use std::rc::Rc;

const CALLBACK: &str = "/login/oidc/callback";
/// Begins the names of these users, so that none is taken for one of the users file, where names
/// have no colon.
const PREFIX: &str = "oidc:";
/// Longest name (OpenID Connect Core section 2, `sub`).
const NAME_BYTES_MAX: usize = 255;
/// Time that metadata is used.
const METADATA_MS: u64 = 3_600_000;
/// Time until a failed fetch is repeated.
const RETRY_MS: u64 = 5_000;

/// Status and reason of a refusal.
type Refusal = (u16, String);

/// A user that the provider has proven.
#[derive(Debug, PartialEq, Eq)]
pub struct Proven {
    pub name: String,
    pub role: Role,
    /// The site of an owner.
    pub site: Option<String>,
    pub stamp: [u8; 32],
}

/// Changes with the settings on which sessions depend.
pub fn stamp(oidc: &ConsoleOidc) -> [u8; 32] {
    let parts = (&oidc.issuer, &oidc.client_id, &oidc.user_claim);
    sha256(format!("{parts:?} {:?} {:?}", oidc.roles_claim, oidc.roles).as_bytes())
}

/// The host of an issuer.
pub fn shown(issuer: &str) -> &str {
    let rest = issuer.split_once("://").map_or(issuer, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// Sends the browser to the provider.
pub async fn begin(backend: &dyn Backend, request: &Request) -> Result<Response, Refusal> {
    let oidc = settings(backend)?;
    let down = || (502, "The provider does not answer as it should.".to_owned());
    let provider = provider(backend, &oidc).await.ok_or_else(down)?;
    let (authority, keys) = (authority(request)?, keys(backend)?);
    let attempt = Attempt::begin(b"/", realtime_s()).ok_or_else(no_random)?;
    let context = (&*oidc.issuer, &*oidc.client_id, authority.as_bytes());
    let sealed = attempt.seal(keys, context).ok_or_else(no_random)?;
    let mut scope = "openid".to_owned();
    for word in oidc.scopes.iter().filter(|word| *word != "openid") {
        scope.push(' ');
        scope.push_str(word);
    }
    let back = redirect_uri(request, &authority);
    let url = attempt.authorization_url(&provider, &oidc.client_id, &back, &scope);
    let set = cookie::set_attempt(&sealed, request.is_secure, ATTEMPT_S);
    Ok(Response::see_other(&url).with("Set-Cookie", set))
}

/// The attempt that the browser comes back with.
pub fn attempt(backend: &dyn Backend, request: &Request) -> Result<Attempt, Refusal> {
    let oidc = settings(backend)?;
    let authority = authority(request)?;
    let context = (&*oidc.issuer, &*oidc.client_id, authority.as_bytes());
    let (state, keys) = (request.query.get("state"), keys(backend)?);
    let sealed = cookie::attempt(request).unwrap_or_default();
    Attempt::open(
        sealed.as_bytes(),
        state.as_bytes(),
        keys,
        context,
        realtime_s(),
    )
    .ok_or_else(|| {
        let text = "no log-in of this browser has this state, or it took too long";
        (400, text.to_owned())
    })
}

/// Redeems the code that the browser brings.
pub async fn prove(
    backend: &dyn Backend,
    request: &Request,
    attempt: &Attempt,
) -> Result<Proven, Refusal> {
    let oidc = settings(backend)?;
    let query = &request.query;
    if !query.get("error").is_empty() {
        let error = query.get("error");
        let is_plain = error.len() <= 64 && error.bytes().all(|byte| byte.is_ascii_graphic());
        let shown = if is_plain {
            error
        } else {
            "an unreadable error"
        };
        return Err((403, format!("the provider says {shown}")));
    }
    // RFC 9207 section 2.4: an answer of another provider's.
    if !query.get("iss").is_empty() && query.get("iss") != oidc.issuer {
        return Err((400, "the callback is of another issuer".to_owned()));
    }
    let broken = |why: String| (502, why);
    let provider = provider(backend, &oidc).await;
    let provider = provider.ok_or_else(|| broken("its metadata is not known".into()))?;
    let token = id_token(backend, &oidc, &provider, (request, attempt)).await?;
    let document = get(backend, &oidc, &provider.jwks_uri).await;
    let keys = document
        .and_then(|content| KeySet::public(&content))
        .map_err(|why| broken(format!("its keys: {why}")))?;
    let of = (&*oidc.issuer, &*oidc.client_id);
    let claims = attempt.id_token(&token, &keys, of, realtime_s());
    let claims = claims.map_err(|error| (403, format!("ID token: {error}")))?;
    granted(&oidc, &claims).map_err(|why| (403, why))
}

/// Asks the token endpoint.
async fn id_token(
    backend: &dyn Backend,
    oidc: &ConsoleOidc,
    provider: &Provider,
    (request, attempt): (&Request, &Attempt),
) -> Result<String, Refusal> {
    let back = redirect_uri(request, &authority(request)?);
    let grant = [
        ("grant_type", "authorization_code"),
        ("code", request.query.get("code")),
        ("redirect_uri", back.as_str()),
        ("code_verifier", attempt.verifier.as_str()),
    ];
    let secret = oidc.client_secret.as_ref().map(|secret| &*secret.0);
    let (credentials, form) = provider.token_request(&grant, &oidc.client_id, secret);
    let fields = credentials.map(|value| ("Authorization", value));
    let fetch = Fetch {
        url: provider.token_endpoint.clone(),
        ca_file: oidc.ca_file.clone(),
        fields: fields.into_iter().collect(),
        form: Some(form),
    };
    let broken = |why: String| (502, why);
    let (status, content) = backend.fetch(fetch).await.map_err(broken)?;
    match status {
        200 => Tokens::parse(&content)
            .and_then(|tokens| tokens.id_token)
            .ok_or_else(|| broken("the token endpoint's answer has no ID token".into())),
        400..500 => Err((
            403,
            format!(
                "the token endpoint refuses with {status} {}",
                error_of(&content).unwrap_or_default()
            ),
        )),
        status => Err(broken(format!("the token endpoint answers {status}"))),
    }
}

/// The provider's metadata; `None`: there is none, which has been logged.
async fn provider(backend: &dyn Backend, oidc: &ConsoleOidc) -> Option<Rc<Provider>> {
    let (state, own) = (&backend.state().oidc, stamp(oidc));
    let known = || {
        let known = state.known.borrow();
        let (stamp, fetched_ms, provider) = known.as_ref()?;
        let is_good = *stamp == own && monotonic_ms().saturating_sub(*fetched_ms) < METADATA_MS;
        is_good.then(|| Rc::clone(provider))
    };
    if let Some(known) = known() {
        return Some(known);
    }
    let _turn = state.fetching.lock().await;
    let failed_ms = state.failed_ms.get();
    let may_try = failed_ms.is_none_or(|at| monotonic_ms().saturating_sub(at) >= RETRY_MS);
    if let Some(known) = known() {
        return Some(known);
    }
    if !may_try {
        return None;
    }
    let document = get(backend, oidc, &discovery_url(&oidc.issuer)).await;
    match document.and_then(|content| Provider::parse(&content, &oidc.issuer)) {
        Ok(provider) => {
            let provider = Rc::new(provider);
            let entry = (own, monotonic_ms(), Rc::clone(&provider));
            *state.known.borrow_mut() = Some(entry);
            Some(provider)
        }
        Err(why) => {
            state.failed_ms.set(Some(monotonic_ms()));
            let facts = format_args!("{} (console): {why}", oidc.issuer);
            error_log::log(&message::PROVIDER_FAILED, facts);
            None
        }
    }
}

async fn get(backend: &dyn Backend, oidc: &ConsoleOidc, url: &str) -> Result<Vec<u8>, String> {
    let fetch = Fetch {
        url: url.to_owned(),
        ca_file: oidc.ca_file.clone(),
        ..Fetch::default()
    };
    match backend.fetch(fetch).await? {
        (200, content) => Ok(content),
        (status, _) => Err(format!("it answers {status}")),
    }
}

/// The role of a user; the error is for the log.
fn granted(oidc: &ConsoleOidc, claims: &Claims) -> Result<Proven, String> {
    let is_verified = claims.text("email_verified").as_deref() == Some("true");
    let may_count = |claim: &str| claim != "email" || is_verified;
    let name = claims.text(&oidc.user_claim);
    let name = name
        .filter(|name| may_count(&oidc.user_claim) && name.len() <= NAME_BYTES_MAX)
        .ok_or_else(|| format!("the ID token has no usable claim `{}`", oidc.user_claim))?;
    let values = match may_count(&oidc.roles_claim) {
        true => claims.texts(&oidc.roles_claim),
        false => Vec::new(),
    };
    let own = oidc
        .roles
        .iter()
        .filter(|(value, _)| values.iter().any(|own| **own == **value));
    // The highest; the first one of those that are equal.
    let roles = own.rev().filter_map(|(_, role)| role_of(role).ok());
    let (role, site) = roles
        .max_by_key(|(role, _)| *role)
        .ok_or_else(|| format!("user {name:?} has none of the roles of [console.oidc]"))?;
    Ok(Proven {
        name: format!("{PREFIX}{name}"),
        role,
        site,
        stamp: stamp(oidc),
    })
}

fn settings(backend: &dyn Backend) -> Result<ConsoleOidc, Refusal> {
    let oidc = backend.settings().oidc;
    oidc.ok_or_else(|| (404, "There is no log-in at a provider here.".to_owned()))
}

fn keys(backend: &dyn Backend) -> Result<&SealKeys, Refusal> {
    backend.state().oidc.keys.as_ref().ok_or_else(no_random)
}

fn no_random() -> Refusal {
    (500, "the system gives no random bytes".to_owned())
}

/// The console as the browser knows it; the gate has looked at the host.
fn authority(request: &Request) -> Result<String, Refusal> {
    let authority = request.only_field("host").ok().flatten();
    let authority = authority.map(str::to_ascii_lowercase);
    authority.ok_or_else(|| (400, "the request has no host".to_owned()))
}

fn redirect_uri(request: &Request, authority: &str) -> String {
    let scheme = if request.is_secure { "https" } else { "http" };
    format!("{scheme}://{authority}{CALLBACK}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oidc(roles_claim: &str, roles: &[(&str, &str)]) -> ConsoleOidc {
        ConsoleOidc {
            roles_claim: roles_claim.into(),
            roles: roles
                .iter()
                .map(|(value, role)| ((*value).into(), (*role).into()))
                .collect(),
            ..ConsoleOidc::default()
        }
    }

    fn claims(text: &str) -> Claims {
        Claims::parse(text.as_bytes()).expect("an object")
    }

    #[test]
    fn the_highest_role_counts_and_none_is_refused() {
        let oidc = oidc(
            "groups",
            &[
                ("shop", "owner:shop.example"),
                ("blog", "owner:blog.example"),
                ("ops", "operator"),
                ("all", "viewer"),
            ],
        );
        let granted = |groups: &str| {
            let claims = claims(&format!("{{\"sub\":\"ann\",\"groups\":{groups}}}"));
            granted(&oidc, &claims).map(|one| (one.name, one.role, one.site))
        };
        let ann = || "oidc:ann".to_owned();
        let site = |name: &str| Some(name.to_owned());
        assert_eq!(
            granted("[\"all\",\"ops\",\"shop\"]"),
            Ok((ann(), Role::Operator, None))
        );
        assert_eq!(granted("\"all\""), Ok((ann(), Role::Viewer, None)));
        assert_eq!(
            granted("[\"blog\",\"shop\"]"),
            Ok((ann(), Role::Owner, site("shop.example")))
        );
        for none in [
            "[]",
            "null",
            "[\"OPS\",\"op\",\"ops \"]",
            "{\"ops\":1}",
            "\"ops,all\"",
        ] {
            assert!(granted(none).is_err(), "{none}");
        }
    }

    #[test]
    fn addresses_count_when_they_are_verified() {
        let oidc = oidc("email", &[("ann@example.org", "administrator")]);
        let role = |verified: &str| {
            let claims = claims(&format!(
                "{{\"sub\":\"x\",\"email\":\"ann@example.org\"{verified}}}"
            ));
            granted(&oidc, &claims).map(|one| one.role).ok()
        };
        assert_eq!(role(",\"email_verified\":true"), Some(Role::Administrator));
        assert_eq!(role(",\"email_verified\":false"), None);
        assert_eq!(role(""), None);
    }

    #[test]
    fn settings_that_roles_depend_on_change_the_stamp() {
        let before = oidc("groups", &[("a", "viewer")]);
        assert_eq!(stamp(&before), stamp(&before.clone()));
        for after in [
            oidc("groups", &[("a", "operator")]),
            oidc("groups", &[]),
            oidc("roles", &[("a", "viewer")]),
            ConsoleOidc {
                issuer: "https://b".into(),
                ..before.clone()
            },
        ] {
            assert_ne!(stamp(&before), stamp(&after), "{after:?}");
        }
        assert_eq!(shown("https://id.example/realms/a"), "id.example");
    }
}
