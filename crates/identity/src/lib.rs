//! Identities that tokens prove: JSON Web Tokens (RFC 7519) and log-in with OpenID Connect.
//!
//! Bytes and `now` go in, decisions and texts come out. `keys`, `claims`, and `token` check tokens;
//! `seal`, `cookie`, and `session` keep a log-in in cookies; `attempt` and `provider` are the
//! authorization code flow, `local_path` guards its way back.
//!
//! Called by: saker.toml's reader, which checks key files; the access phase of native sites.
//! Caveat: signatures are checked by `jsonwebtoken` over aws-lc. The flow itself is written here:
//! the crate `openidconnect` brings an RSA and elliptic curve stack of its own and types for parts
//! of the protocol that are not used, while what is needed is a URL, a form, and a token.
//! Out of scope: fetching documents, request and response fields, configuration.

pub mod attempt;
pub mod claims;
pub mod cookie;
mod encoding;
pub mod keys;
pub mod local_path;
pub mod provider;
pub mod seal;
pub mod session;
pub mod token;

pub use claims::Claims;
pub use encoding::random_id;
pub use jsonwebtoken::Algorithm;
pub use keys::{KeySet, algorithm};
pub use seal::SealKeys;
pub use token::{TokenError, TokenRules};
