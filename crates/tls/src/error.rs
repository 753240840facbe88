//! Why a session ended badly: whose fault, what the log says. The alert for the peer, if there is
//! one, is in the output already.

use rustls::{AlertDescription, Error, PeerIncompatible};
use std::{borrow::Cow, fmt};

/// A session that met a fault is over: send what is in the output, then close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsError {
    /// An HTTP/1 request in the clear: answer in the clear that this port speaks TLS.
    PlainHttp,
    /// HTTP/2 with prior knowledge, in the clear.
    PlainHttp2Preface,
    /// The first bytes are neither TLS nor HTTP.
    NotTls,
    /// The peer gave up, with this alert.
    PeerAlert(Cow<'static, str>),
    /// We gave up.
    Refused {
        whose: Whose,
        reason: Cow<'static, str>,
    },
    /// The session had ended before.
    Ended,
}

/// Side that has to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// It broke the protocol, or showed a certificate that is no good.
    Peer,
    /// Both keep the protocol, and have nothing in common (version, cipher, protocol name, server
    /// name).
    Neither,
    /// Configuration or our own error.
    Ours,
}

impl TlsError {
    pub(crate) fn refused(whose: Whose, reason: impl Into<Cow<'static, str>>) -> TlsError {
        TlsError::Refused {
            whose,
            reason: reason.into(),
        }
    }

    pub(crate) fn peer(reason: &'static str) -> TlsError {
        TlsError::refused(Whose::Peer, reason)
    }
}

impl From<Error> for TlsError {
    fn from(error: Error) -> TlsError {
        let whose = match &error {
            Error::AlertReceived(alert) => return TlsError::PeerAlert(alert_name(*alert)),
            Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon)
            | Error::PeerIncompatible(_)
            | Error::NoApplicationProtocol => Whose::Neither,
            Error::General(_)
            | Error::FailedToGetCurrentTime
            | Error::FailedToGetRandomBytes
            | Error::InconsistentKeys(_)
            | Error::Other(_) => Whose::Ours,
            _ => Whose::Peer,
        };
        TlsError::refused(whose, error.to_string())
    }
}

/// As RFC 8446 section 6 writes it.
fn alert_name(alert: AlertDescription) -> Cow<'static, str> {
    match alert.as_str() {
        Some(name) => snake_case(name).into(),
        None => format!("alert {}", u8::from(alert)).into(),
    }
}

fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for (index, letter) in name.char_indices() {
        let after_capital = name[..index]
            .chars()
            .next_back()
            .is_some_and(|before| before.is_ascii_uppercase());
        if letter.is_ascii_uppercase() && index > 0 && !after_capital {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::PlainHttp => f.write_str("an HTTP request in the clear"),
            TlsError::PlainHttp2Preface => f.write_str("HTTP/2 in the clear"),
            TlsError::NotTls => f.write_str("the first bytes are not TLS"),
            TlsError::PeerAlert(alert) => write!(f, "the peer ended it with the alert {alert}"),
            TlsError::Refused { reason, .. } => f.write_str(reason),
            TlsError::Ended => f.write_str("the session has ended"),
        }
    }
}

impl std::error::Error for TlsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_have_the_names_of_the_standard() {
        let name = |alert| alert_name(alert).into_owned();
        assert_eq!(name(AlertDescription::CloseNotify), "close_notify");
        assert_eq!(name(AlertDescription::UnknownCA), "unknown_ca");
        assert_eq!(name(AlertDescription::BadRecordMac), "bad_record_mac");
        assert_eq!(name(AlertDescription::from(99)), "alert 99");
    }

    #[test]
    fn whose_fault_it_is() {
        let whose = |error: Error| match TlsError::from(error) {
            TlsError::Refused { whose, .. } => whose,
            other => panic!("{other:?}"),
        };
        assert_eq!(whose(Error::NoApplicationProtocol), Whose::Neither);
        assert_eq!(whose(Error::DecryptError), Whose::Peer);
        assert_eq!(whose(Error::FailedToGetRandomBytes), Whose::Ours);
        assert_eq!(
            TlsError::from(Error::AlertReceived(AlertDescription::UserCanceled)),
            TlsError::PeerAlert("user_canceled".into())
        );
    }
}
