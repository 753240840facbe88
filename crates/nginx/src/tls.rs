//! Variables of TLS sessions.
//!
//! Called by: `builtin`.
//! Caveat: a certificate that was shown has its variables, whether or not it was verified;
//! `$ssl_client_verify` tells.

use saker_nginx_model::variables::Builtin;
use saker_tls::{ClientVerification, NameForm, SessionInfo};
use sha1::{Digest, Sha1};
use std::borrow::Cow;

/// Returns the outcome of the check of a client's certificate.
pub fn client_verify(session: &SessionInfo) -> String {
    match (&session.client_verification, &session.client_refusal) {
        (ClientVerification::Success, _) => "SUCCESS".to_owned(),
        (ClientVerification::Generous, _) => format!("FAILED:{}", missing_issuer(session)),
        (_, Some(why)) => format!("FAILED:{}", openssl_words(why)),
        _ => "NONE".to_owned(),
    }
}

/// OpenSSL's words for the faults of certificates that configurations compare with.
fn openssl_words(why: &str) -> &str {
    const WORDS: [(&str, &str); 5] = [
        ("CaUsedAsEndEntity", "self-signed certificate"),
        ("UnknownIssuer", "unable to verify the first certificate"),
        ("expired", "certificate has expired"),
        ("not valid yet", "certificate is not yet valid"),
        ("evoked", "certificate revoked"),
    ];
    let known = WORDS.iter().find(|(part, _)| why.contains(part));
    known.map_or(why, |(_, words)| words)
}

/// OpenSSL's words for a chain that no authority vouches for.
fn missing_issuer(session: &SessionInfo) -> &'static str {
    let chain = session.client_certificates.as_slice();
    let value = |name| session.variable(name, NameForm::Rfc2253, 0);
    let is_own_issuer = value("SSL_CLIENT_S_DN") == value("SSL_CLIENT_I_DN");
    match chain {
        [_] if is_own_issuer => "self-signed certificate",
        [_] => "unable to verify the first certificate",
        _ => "unable to get local issuer certificate",
    }
}

/// Returns the value of a variable; `None`: it has none.
pub fn variable(session: &SessionInfo, builtin: Builtin) -> Option<Vec<u8>> {
    let text = match builtin {
        Builtin::SslProtocol => session.version.name().to_owned(),
        Builtin::SslCipher => session.cipher_openssl.to_owned(),
        Builtin::SslServerName => session.server_name.clone()?,
        Builtin::SslSessionReused => if session.resumed { "r" } else { "." }.to_owned(),
        Builtin::SslClientVerify => client_verify(session),
        Builtin::SslCurve => match session.group? {
            // OpenSSL's names.
            "secp256r1" => "prime256v1".to_owned(),
            group => group.to_owned(),
        },
        Builtin::SslCiphers if !session.resumed => session.offered.as_ref()?.suites(),
        Builtin::SslCurves if !session.resumed => session.offered.as_ref()?.groups(),
        Builtin::SslAlpnProtocol => return session.alpn.clone(),
        // Client hellos are not decrypted here.
        Builtin::SslEchStatus => "NOT_TRIED".to_owned(),
        _ => return of_client(session, builtin).map(String::into_bytes),
    };
    Some(text.into_bytes())
}

/// Values that the client's certificate has.
fn of_client(session: &SessionInfo, builtin: Builtin) -> Option<String> {
    let certificate = session.client_certificates.first()?;
    let value = |name: &str, form: NameForm| {
        let now = saker_net::clock::realtime_s();
        session.variable(name, form, now).map(Cow::into_owned)
    };
    let pem = || value("SSL_CLIENT_CERT", NameForm::Rfc2253);
    Some(match builtin {
        Builtin::SslClientSubject => value("SSL_CLIENT_S_DN", NameForm::Rfc2253)?,
        Builtin::SslClientIssuer => value("SSL_CLIENT_I_DN", NameForm::Rfc2253)?,
        Builtin::SslClientSubjectLegacy => value("SSL_CLIENT_S_DN", NameForm::Legacy)?,
        Builtin::SslClientIssuerLegacy => value("SSL_CLIENT_I_DN", NameForm::Legacy)?,
        Builtin::SslClientSerial => value("SSL_CLIENT_M_SERIAL", NameForm::Rfc2253)?,
        Builtin::SslClientStart => value("SSL_CLIENT_V_START", NameForm::Rfc2253)?,
        Builtin::SslClientEnd => value("SSL_CLIENT_V_END", NameForm::Rfc2253)?,
        Builtin::SslClientRemain => value("SSL_CLIENT_V_REMAIN", NameForm::Rfc2253)?,
        Builtin::SslClientRawCert => pem()?,
        // The lines of a field that continues.
        Builtin::SslClientCert => pem()?.trim_end().replace('\n', "\n\t"),
        Builtin::SslClientEscapedCert => {
            let mut escaped = String::new();
            for byte in pem()?.bytes() {
                match byte {
                    b'-' | b'.' | b'_' | b'~' => escaped.push(char::from(byte)),
                    _ if byte.is_ascii_alphanumeric() => escaped.push(char::from(byte)),
                    _ => escaped.push_str(&format!("%{byte:02X}")),
                }
            }
            escaped
        }
        Builtin::SslClientFingerprint => {
            let digest = Sha1::digest(certificate);
            digest.iter().map(|byte| format!("{byte:02x}")).collect()
        }
        _ => return None,
    })
}
