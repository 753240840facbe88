//! mod_auth_token: links to files that only who knows a secret can make, `prefix/TOKEN/TIME/path`,
//! for a time.
//!
//! Place in the walk: the guard looks at them when it is known what is in force
//! (`pipeline/guard/links.rs`), and the walk begins again with the path behind the token. As in the
//! module, a place without a secret asks for none, and paths that are not below the prefix pass.

use crate::{
    arguments::{set_flag, texts},
    reading::{Reading, Set, said},
};
use saker_apache_syntax::Node;
use saker_config::model::{Links, SignAlgorithm, SignForm, SignedUrls, TokenForm};
use saker_http::Status;
use std::sync::Arc;

/// The module's, in seconds.
const LIFETIME_S: u64 = 60;

#[derive(Clone, Debug, Default)]
pub struct AuthToken {
    secret: Option<Arc<str>>,
    prefix: Option<Arc<str>>,
    lifetime_s: Option<u64>,
    by_address: Option<bool>,
}

impl AuthToken {
    pub const DIRECTIVES: &'static [(&'static str, Set<AuthToken>)] = &[
        ("AuthTokenSecret", set_secret),
        ("AuthTokenPrefix", set_prefix),
        ("AuthTokenTimeout", set_timeout),
        ("AuthTokenLimitByIp", |node, auth_token, _| {
            set_flag(node, &mut auth_token.by_address)
        }),
    ];

    pub fn merge(&self, over: &AuthToken) -> AuthToken {
        AuthToken {
            secret: said(&self.secret, &over.secret),
            prefix: said(&self.prefix, &over.prefix),
            lifetime_s: over.lifetime_s.or(self.lifetime_s),
            by_address: over.by_address.or(self.by_address),
        }
    }

    pub fn links(&self) -> Links {
        let signed = self.secret.as_ref().map(|secret| {
            let form = TokenForm {
                algorithm: SignAlgorithm::Md5,
                lifetime_s: self.lifetime_s.unwrap_or(LIFETIME_S),
                path_segments: 0,
                query: false,
                address: self.by_address == Some(true),
            };
            Arc::new(SignedUrls {
                form: SignForm::Token(form),
                secrets: vec![secret.as_bytes().to_vec()],
                prefix: self.prefix.as_deref().unwrap_or("/").to_owned(),
                root: None,
                expired: Status::GONE,
                is_free_elsewhere: true,
            })
        });
        Links {
            signed,
            ..Links::default()
        }
    }
}

fn first(node: &Node) -> String {
    texts(node).into_iter().next().unwrap_or_default()
}

fn set_secret(node: &Node, auth_token: &mut AuthToken, _: &mut Reading<'_>) -> Result<(), String> {
    match first(node) {
        secret if secret.is_empty() => Err("AuthTokenSecret: an empty secret is none".into()),
        secret => {
            auth_token.secret = Some(secret.into());
            Ok(())
        }
    }
}

fn set_prefix(node: &Node, auth_token: &mut AuthToken, _: &mut Reading<'_>) -> Result<(), String> {
    let prefix = first(node);
    if !prefix.starts_with('/') {
        return Err("AuthTokenPrefix begins with a slash".into());
    }
    let end = if prefix.ends_with('/') { "" } else { "/" };
    auth_token.prefix = Some(format!("{prefix}{end}").into());
    Ok(())
}

fn set_timeout(node: &Node, auth_token: &mut AuthToken, _: &mut Reading<'_>) -> Result<(), String> {
    let seconds = first(node)
        .parse()
        .map_err(|_| "AuthTokenTimeout must be a number of seconds".to_owned())?;
    auth_token.lifetime_s = Some(seconds);
    Ok(())
}
