//! OpenID providers: discovery (OpenID Connect Discovery section 4), token requests and responses.
//!
//! Called by: the access phase, which sends the requests.
//! Caveat: a provider's metadata must name the issuer that it was fetched for, and its endpoints are
//! reached by TLS unless the issuer itself is a server on this machine.
//! Out of scope: ID tokens (`attempt`), sessions, dynamic registration.

use crate::{
    claims::Claims,
    encoding::{escape, form},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

/// Metadata of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provider {
    pub issuer: String,
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub jwks_uri: String,
    pub userinfo_endpoint: Option<String>,
    pub end_session_endpoint: Option<String>,
    /// The client's secret goes into the form instead of `Authorization`.
    pub secret_in_form: bool,
}

/// The answer to a token request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    pub id_token: Option<String>,
    pub access_token: Option<String>,
    pub refresh_token: Option<String>,
}

/// Returns the URL of the metadata of an issuer.
pub fn discovery_url(issuer: &str) -> String {
    format!(
        "{}/.well-known/openid-configuration",
        issuer.trim_end_matches('/')
    )
}

/// True for `https:`, and for `http:` to this machine.
pub fn is_safe_url(url: &str) -> bool {
    let is_graphic = url
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_here = matches!(host, "localhost" | "::1")
        || host
            .parse::<std::net::Ipv4Addr>()
            .is_ok_and(|address| address.is_loopback());
    is_graphic
        && !host.is_empty()
        && !authority.contains('@')
        && !url.contains('#')
        && (scheme == "https" || scheme == "http" && is_here)
}

impl Provider {
    /// Reads the metadata that was fetched for `issuer`.
    ///
    /// # Errors
    /// Why it can't be used.
    pub fn parse(content: &[u8], issuer: &str) -> Result<Provider, String> {
        let claims = Claims::parse(content).ok_or("its metadata is not a JSON object")?;
        let text = |name: &str| claims.0.get(name).and_then(Value::as_str);
        if text("issuer") != Some(issuer) {
            return Err(format!(
                "its metadata is of the issuer `{}`, not `{issuer}`",
                text("issuer").unwrap_or_default().escape_debug()
            ));
        }
        let url = |name: &str| match text(name) {
            Some(url) if is_safe_url(url) => Ok(Some(url.to_owned())),
            Some(url) => Err(format!(
                "its `{name}` is not an https: URL: {}",
                url.escape_debug()
            )),
            None => Ok(None),
        };
        let required =
            |name: &str| url(name)?.ok_or_else(|| format!("its metadata has no `{name}`"));
        let methods = claims.texts("token_endpoint_auth_methods_supported");
        let has = |method: &str| methods.iter().any(|known| known == method);
        Ok(Provider {
            issuer: issuer.to_owned(),
            authorization_endpoint: required("authorization_endpoint")?,
            token_endpoint: required("token_endpoint")?,
            jwks_uri: required("jwks_uri")?,
            userinfo_endpoint: url("userinfo_endpoint")?,
            end_session_endpoint: url("end_session_endpoint")?,
            secret_in_form: !has("client_secret_basic") && has("client_secret_post"),
        })
    }

    /// The value of `Authorization` and the form of a token request; `secret` is `None` for a public
    /// client (RFC 6749 section 2.3.1).
    pub fn token_request(
        &self,
        grant: &[(&str, &str)],
        client_id: &str,
        secret: Option<&str>,
    ) -> (Option<String>, String) {
        let mut pairs = grant.to_vec();
        match secret {
            Some(secret) if !self.secret_in_form => {
                let (mut user, mut password) = (String::new(), String::new());
                escape(client_id, &mut user);
                escape(secret, &mut password);
                let credentials = STANDARD.encode(format!("{user}:{password}"));
                (Some(format!("Basic {credentials}")), form(&pairs))
            }
            secret => {
                pairs.push(("client_id", client_id));
                pairs.extend(secret.map(|secret| ("client_secret", secret)));
                (None, form(&pairs))
            }
        }
    }

    /// URL that ends the session at the provider (OpenID Connect RP-Initiated Logout section 2).
    pub fn logout_url(&self, client_id: &str, return_to: Option<&str>) -> Option<String> {
        let url = self.end_session_endpoint.as_ref()?;
        let mut pairs = vec![("client_id", client_id)];
        pairs.extend(return_to.map(|url| ("post_logout_redirect_uri", url)));
        let joint = if url.contains('?') { '&' } else { '?' };
        Some(format!("{url}{joint}{}", form(&pairs)))
    }
}

impl Tokens {
    /// `None`: the content is not the answer to a token request.
    pub fn parse(content: &[u8]) -> Option<Tokens> {
        let claims = Claims::parse(content)?;
        let text = |name: &str| {
            claims
                .0
                .get(name)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        Some(Tokens {
            id_token: text("id_token"),
            access_token: text("access_token"),
            refresh_token: text("refresh_token"),
        })
    }
}

/// The error of a refused token request, as text of the specification's characters (RFC 6749
/// section 5.2).
pub fn error_of(content: &[u8]) -> Option<String> {
    let claims = Claims::parse(content)?;
    let error = claims.0.get("error")?.as_str()?;
    let is_plain = error.bytes().all(|byte| byte.is_ascii_graphic());
    (is_plain && error.len() <= 64).then(|| error.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"issuer":"https://id.example","authorization_endpoint":"https://id.example/auth",
        "token_endpoint":"https://id.example/token","jwks_uri":"https://id.example/keys",
        "token_endpoint_auth_methods_supported":["client_secret_post"]}"#;

    #[test]
    fn metadata_is_of_the_issuer_and_safe() {
        let parse = |text: &str| Provider::parse(text.as_bytes(), "https://id.example");
        let provider = parse(GOOD).unwrap();
        assert!(provider.secret_in_form && provider.end_session_endpoint.is_none());
        for (from, to) in [
            (
                "\"issuer\":\"https://id.example\"",
                "\"issuer\":\"https://evil.example\"",
            ),
            ("https://id.example/token", "http://id.example/token"),
            ("https://id.example/keys", "file:///etc/passwd"),
            ("\"jwks_uri\"", "\"other\""),
            ("{", "["),
        ] {
            assert!(parse(&GOOD.replacen(from, to, 1)).is_err(), "{to}");
        }
    }

    #[test]
    fn urls_that_secrets_may_be_sent_to() {
        for url in [
            "https://id.example",
            "https://id.example:8443/realms/a",
            "http://127.0.0.1:5556/dex",
            "http://[::1]:80/",
            "http://localhost/x",
        ] {
            assert!(is_safe_url(url), "{url}");
        }
        for url in [
            "http://id.example",
            "http://127.0.0.1.evil.example/",
            "http://localhost.evil.example",
            "http://localhost@evil.example/",
            "https://",
            "https:///x",
            "https://a b",
            "ftp://a",
            "//a",
            "https://a\\b",
            "https://a/#b",
        ] {
            assert!(!is_safe_url(url), "{url}");
        }
    }

    #[test]
    fn secrets_go_where_the_provider_takes_them() {
        let mut provider = Provider::default();
        let (field, form) = provider.token_request(&[("code", "c")], "a b", Some("s:%"));
        assert_eq!(field.as_deref(), Some("Basic YSUyMGI6cyUzQSUyNQ=="));
        assert_eq!(form, "code=c");
        provider.secret_in_form = true;
        let (field, form) = provider.token_request(&[("code", "c")], "a b", Some("s:%"));
        assert_eq!(
            (field, &*form),
            (None, "code=c&client_id=a%20b&client_secret=s%3A%25")
        );
        let (field, form) = provider.token_request(&[("code", "c")], "a", None);
        assert_eq!((field, &*form), (None, "code=c&client_id=a"));
        assert_eq!(
            error_of(b"{\"error\":\"invalid_grant\"}").as_deref(),
            Some("invalid_grant")
        );
        assert_eq!(error_of(b"{\"error\":\"a\\nb\"}"), None);
    }
}
