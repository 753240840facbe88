//! The log-in of a browser: to the provider, back to the callback, and out again.
//!
//! Called by: `sessions`, to begin one; `identity`, for the callback and logout paths.
//! Caveat: what the provider and the client send is not trusted: the callback needs the cookie of
//! its attempt, and errors appear in the log in the characters of their specification only.
//! Out of scope: cookies' contents and tokens (`saker_identity`).

use super::{
    place::{Place, lines},
    state::{Identities, uncached},
};
use saker_config::model::OidcRules;
use saker_http::{KnownField, Method, Status, query};
use saker_identity::{
    Claims,
    attempt::{ATTEMPT_S, Attempt},
    cookie::{ATTEMPTS_MAX, CookieNames, PARTS_MAX},
    provider::{Provider, Tokens, error_of},
    session::Session,
};
use saker_net::clock::monotonic_ns;
use saker_pipeline::{Exchange, Response, respond};
use saker_telemetry::{error_log, message};
use std::sync::Arc;

/// Age at which the key set of a provider is fetched again.
pub const KEYS_MS: u64 = 3_600_000;

/// Reason why a log-in failed, and the status for the client.
type Failed = (Status, String);

impl Identities {
    /// Sends the client to the provider.
    pub(super) async fn begin(
        &self,
        exchange: &Exchange,
        oidc: &Arc<OidcRules>,
        place: &Place,
    ) -> Response {
        let Some(provider) = self.provider(exchange, oidc).await else {
            return uncached(Status::SERVICE_UNAVAILABLE);
        };
        let target = exchange.head.view().target();
        let context = (&*oidc.issuer, &*oidc.client_id, &*place.host);
        let attempt = Attempt::begin(target, exchange.now);
        let sealed = attempt
            .as_ref()
            .and_then(|attempt| attempt.seal(&place.keys, context));
        let (Some(attempt), Some(sealed)) = (attempt, sealed) else {
            return uncached(Status::INTERNAL_SERVER_ERROR);
        };
        let scope = scope(oidc);
        let redirect_uri = own_url(exchange, &oidc.callback);
        let url = attempt.authorization_url(&provider, &oidc.client_id, &redirect_uri, &scope);
        let mut response = redirect(&url);
        let fields = response.fields_mut();
        for name in abandoned(exchange, &place.names) {
            fields.append("Set-Cookie", place.names.line(&name, "", 0));
        }
        let name = place.names.attempt(&attempt.state);
        fields.append(
            "Set-Cookie",
            place.names.line(&name, &sealed, ATTEMPT_S as u64),
        );
        response
    }

    /// The provider's metadata; `None`: there is none, which has been logged.
    pub(super) async fn provider(
        &self,
        exchange: &Exchange,
        oidc: &OidcRules,
    ) -> Option<std::rc::Rc<Provider>> {
        let log = |why: &str| provider_failed(exchange, oidc, why);
        let documents = &self.documents;
        documents
            .metadata(exchange, &oidc.issuer, oidc.ca_file.as_deref(), &log)
            .await
    }

    /// Answers the callback and logout paths. `None`: it is another path.
    pub(super) async fn own_path(
        &self,
        exchange: &Exchange,
        oidc: &Arc<OidcRules>,
    ) -> Option<Response> {
        let is_callback = exchange.path == oidc.callback.as_bytes();
        if !is_callback && exchange.path != oidc.logout.as_bytes() {
            return None;
        }
        let place = match self.place(exchange, oidc) {
            Ok(place) => place,
            Err(refusal) => return Some(*refusal),
        };
        Some(match is_callback {
            true => self.callback(exchange, oidc, &place).await,
            false => self.logout(exchange, oidc, &place).await,
        })
    }

    async fn callback(
        &self,
        exchange: &Exchange,
        oidc: &Arc<OidcRules>,
        place: &Place,
    ) -> Response {
        if exchange.head.view().method() != Method::Get {
            let mut response = uncached(Status::METHOD_NOT_ALLOWED);
            response.fields_mut().set("Allow", &b"GET"[..]);
            return response;
        }
        match self.complete(exchange, oidc, place).await {
            Ok(response) => response,
            Err((status, why)) => {
                let address = exchange.client.ip();
                error_log::log_about(
                    &message::LOGIN_FAILED,
                    exchange,
                    format_args!("address={address} {}: {why}", oidc.issuer),
                );
                uncached(status)
            }
        }
    }

    async fn complete(
        &self,
        exchange: &Exchange,
        oidc: &Arc<OidcRules>,
        place: &Place,
    ) -> Result<Response, Failed> {
        let parameter = |name: &str| {
            let value = query::value(exchange.query.as_deref()?, name.as_bytes())?;
            Some(query::form_decoded(value).into_owned())
        };
        let bad = |why: &str| (Status::BAD_REQUEST, why.to_owned());
        let state = parameter("state").ok_or_else(|| bad("the callback has no state"))?;
        let name = place.names.attempt(&String::from_utf8_lossy(&state));
        let context = (&*oidc.issuer, &*oidc.client_id, &*place.host);
        let attempt = exchange
            .head
            .view()
            .cookie(name.as_bytes())
            .and_then(|cookie| Attempt::open(cookie, &state, &place.keys, context, exchange.now))
            .ok_or_else(|| bad("no log-in of this browser has this state, or it took too long"))?;
        if let Some(error) = parameter("error") {
            return Err((
                Status::FORBIDDEN,
                format!("the provider says {}", shown(&error)),
            ));
        }
        // RFC 9207 section 2.4: an answer of another provider's.
        if parameter("iss").is_some_and(|issuer| issuer != oidc.issuer.as_bytes()) {
            return Err(bad("the callback is of another issuer"));
        }
        let code = parameter("code")
            .and_then(|code| String::from_utf8(code).ok())
            .ok_or_else(|| bad("the callback has no code"))?;
        let redirect_uri = own_url(exchange, &oidc.callback);
        let grant = [
            ("grant_type", "authorization_code"),
            ("code", code.as_str()),
            ("redirect_uri", redirect_uri.as_str()),
            ("code_verifier", attempt.verifier.as_str()),
        ];
        let tokens = self.tokens(exchange, oidc, &grant).await?;
        let claims = self.claims(exchange, oidc, &tokens, Some(&attempt)).await?;
        let session = Session {
            claims: Session::kept(claims),
            id: format!("{:x}-{}", monotonic_ns(), attempt.state),
            ends_s: exchange.now + oidc.session_lifetime_s,
            renews_s: exchange.now + oidc.renew_s,
            refresh_token: tokens.refresh_token,
        };
        let lines =
            lines(&session, oidc, place, place.parts(exchange), exchange.now).ok_or_else(|| {
                error_log::log_about(
                    &message::SESSION_TOO_LONG,
                    exchange,
                    format_args!("{}", oidc.issuer),
                );
                (
                    Status::INTERNAL_SERVER_ERROR,
                    "the session is too long".to_owned(),
                )
            })?;
        let mut response = redirect(&attempt.return_path);
        let fields = response.fields_mut();
        lines
            .into_iter()
            .for_each(|line| fields.append("Set-Cookie", line));
        // Last: curl 7.88 forgets removals that other cookies follow.
        fields.append("Set-Cookie", place.names.line(&name, "", 0));
        Ok(response)
    }

    /// Asks the token endpoint.
    ///
    /// # Errors
    /// 403 if it refuses, 502 if it does not answer as it should.
    pub(super) async fn tokens(
        &self,
        exchange: &Exchange,
        oidc: &OidcRules,
        grant: &[(&str, &str)],
    ) -> Result<Tokens, Failed> {
        let broken = |why: String| (Status::BAD_GATEWAY, why);
        let provider = self.provider(exchange, oidc).await;
        let provider = provider.ok_or_else(|| broken("its metadata is not known".into()))?;
        let secret = oidc.client_secret.as_ref().map(|secret| &*secret.0);
        let (credentials, form) = provider.token_request(grant, &oidc.client_id, secret);
        let fields = credentials
            .map(|value| ("Authorization", value))
            .into_iter()
            .collect();
        let to = (&*provider.token_endpoint, oidc.ca_file.as_deref());
        let answer = self.documents.send(exchange, to, fields, Some(form)).await;
        let answer = answer.map_err(broken)?;
        match answer.status {
            200 => Tokens::parse(&answer.content)
                .ok_or_else(|| broken("the token endpoint's answer is not JSON".into())),
            400..500 => Err((
                Status::FORBIDDEN,
                format!(
                    "the token endpoint refuses with {} {}",
                    answer.status,
                    error_of(&answer.content).unwrap_or_default()
                ),
            )),
            status => Err(broken(format!("the token endpoint answers {status}"))),
        }
    }

    /// The claims that tokens prove; `attempt`: of a log-in, not of its renewal.
    ///
    /// # Errors
    /// Why they prove nothing.
    pub(super) async fn claims(
        &self,
        exchange: &Exchange,
        oidc: &OidcRules,
        tokens: &Tokens,
        attempt: Option<&Attempt>,
    ) -> Result<Claims, Failed> {
        let broken = |why: &str| (Status::BAD_GATEWAY, why.to_owned());
        let provider = self.provider(exchange, oidc).await;
        let provider = provider.ok_or_else(|| broken("its metadata is not known"))?;
        let token = tokens
            .id_token
            .as_deref()
            .ok_or_else(|| broken("there is no ID token"))?;
        let source = self
            .documents
            .keys(&provider.jwks_uri, oidc.ca_file.as_deref());
        let source = source.ok_or_else(|| broken("its keys have no URL"))?;
        let log = |why: &str| provider_failed(exchange, oidc, why);
        let keys = source.current(exchange, KEYS_MS, &log).await;
        let keys = keys.ok_or_else(|| broken("its keys are not known"))?;
        let of = (&*oidc.issuer, &*oidc.client_id);
        let check = |keys: &saker_identity::KeySet| match attempt {
            Some(attempt) => attempt.id_token(token, keys, of, exchange.now),
            None => saker_identity::attempt::id_token(token, keys, of, exchange.now),
        };
        let mut outcome = check(&keys);
        if outcome == Err(saker_identity::TokenError::UnknownKey)
            && let Some(newer) = source.newer_than(exchange, &keys, &log).await
        {
            outcome = check(&newer);
        }
        let mut claims =
            outcome.map_err(|error| (Status::FORBIDDEN, format!("ID token: {error}")))?;
        if oidc.userinfo {
            self.add_userinfo(exchange, oidc, &provider, tokens, &mut claims)
                .await?;
        }
        Ok(claims)
    }

    /// Adds claims of the userinfo endpoint (OpenID Connect Core section 5.3).
    async fn add_userinfo(
        &self,
        exchange: &Exchange,
        oidc: &OidcRules,
        provider: &Provider,
        tokens: &Tokens,
        claims: &mut Claims,
    ) -> Result<(), Failed> {
        let broken = |why: &str| (Status::BAD_GATEWAY, format!("userinfo: {why}"));
        let url = provider
            .userinfo_endpoint
            .as_deref()
            .ok_or_else(|| broken("it has none"))?;
        let token = tokens
            .access_token
            .as_deref()
            .ok_or_else(|| broken("no access token"))?;
        let is_token = token.bytes().all(|byte| byte.is_ascii_graphic());
        let fields = vec![("Authorization", format!("Bearer {token}"))];
        let to = (url, oidc.ca_file.as_deref());
        if !is_token {
            return Err(broken("the access token has odd characters"));
        }
        let answer = self.documents.send(exchange, to, fields, None).await;
        let answer = answer.map_err(|why| broken(&why))?;
        let more = Claims::parse(&answer.content)
            .filter(|_| answer.status == 200)
            .ok_or_else(|| broken(&format!("it answers {}", answer.status)))?;
        // Section 5.3.2: the claims may be another user's.
        if more.text("sub").is_none() || more.text("sub") != claims.text("sub") {
            return Err(broken("it is about another user"));
        }
        for (name, value) in more.0 {
            claims.0.entry(name).or_insert(value);
        }
        Ok(())
    }

    async fn logout(&self, exchange: &Exchange, oidc: &Arc<OidcRules>, place: &Place) -> Response {
        let view = exchange.head.view();
        // Another site's image or form ends no session.
        if view.first("sec-fetch-site") == Some(b"cross-site") {
            return uncached(Status::FORBIDDEN);
        }
        let provider = self.provider(exchange, oidc).await;
        let after = oidc
            .logged_out
            .as_deref()
            .map(|to| match to.starts_with('/') {
                true => own_url(exchange, to),
                false => to.to_owned(),
            });
        let url =
            provider.and_then(|provider| provider.logout_url(&oidc.client_id, after.as_deref()));
        let mut response = match url.or(after) {
            Some(url) => redirect(&url),
            None => {
                let mut response =
                    respond::page(uncached(Status::OK), b"You have logged out.", b"");
                response.fields_mut().set("Cache-Control", &b"no-store"[..]);
                response
            }
        };
        let fields = response.fields_mut();
        for part in 0..PARTS_MAX {
            let name = place.names.session(part);
            if part == 0 || view.cookie(name.as_bytes()).is_some() {
                fields.append("Set-Cookie", place.names.line(&name, "", 0));
            }
        }
        response
    }
}

/// An error of the provider's, if it has the characters of one (RFC 6749 section 4.1.2.1).
fn shown(error: &[u8]) -> String {
    match error.len() <= 64 && error.iter().all(u8::is_ascii_graphic) {
        true => String::from_utf8_lossy(error).into_owned(),
        false => "an unreadable error".into(),
    }
}

/// Cookies of log-ins under way, if there are too many of them.
fn abandoned(exchange: &Exchange, names: &CookieNames) -> Vec<String> {
    let prefix = names.attempts();
    let of_attempts: Vec<String> = exchange
        .head
        .view()
        .cookies()
        .filter_map(|cookie| String::from_utf8(cookie.name.to_vec()).ok())
        .filter(|name| name.starts_with(&prefix))
        .filter(|name| {
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        })
        .collect();
    match of_attempts.len() < ATTEMPTS_MAX {
        true => Vec::new(),
        false => of_attempts,
    }
}

fn scope(oidc: &OidcRules) -> String {
    let mut scope = "openid".to_owned();
    for word in oidc.scopes.iter().filter(|word| *word != "openid") {
        scope.push(' ');
        scope.push_str(word);
    }
    scope
}

/// URL of a path on the request's host.
fn own_url(exchange: &Exchange, path: &str) -> String {
    let scheme = if exchange.client.secure {
        "https"
    } else {
        "http"
    };
    let view = exchange.head.view();
    let host = view.known(KnownField::Host).filter(|host| !host.is_empty());
    let host = String::from_utf8_lossy(host.unwrap_or(&exchange.host)).into_owned();
    format!("{scheme}://{host}{path}")
}

fn redirect(to: &str) -> Response {
    let mut response = uncached(Status::FOUND);
    response
        .fields_mut()
        .set("Location", to.as_bytes().to_vec());
    response
}

pub fn provider_failed(exchange: &Exchange, oidc: &OidcRules, why: &str) {
    error_log::log_about(
        &message::PROVIDER_FAILED,
        exchange,
        format_args!("{}: {why}", oidc.issuer),
    );
}
