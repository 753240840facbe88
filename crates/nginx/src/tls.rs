//! Variables of TLS sessions.
//!
//! Called by: `builtin`.
//! Caveat: what certificates of clients say has no value here; the model refuses such variables
//! outside of logs.

use saker_nginx_model::variables::Builtin;
use saker_tls::{ClientVerification, SessionInfo};

/// Returns the value of a variable; `None`: it has none.
pub fn variable(session: &SessionInfo, builtin: Builtin) -> Option<Vec<u8>> {
    let text = match builtin {
        Builtin::SslProtocol => session.version.name().to_owned(),
        Builtin::SslCipher => session.cipher_openssl.to_owned(),
        Builtin::SslServerName => session.server_name.clone()?,
        Builtin::SslSessionReused => if session.resumed { "r" } else { "." }.to_owned(),
        Builtin::SslClientVerify => match (&session.client_verification, &session.client_refusal) {
            (ClientVerification::Success, _) => "SUCCESS".to_owned(),
            (_, Some(why)) => format!("FAILED:{why}"),
            _ => "NONE".to_owned(),
        },
        _ => return None,
    };
    Some(text.into_bytes())
}
