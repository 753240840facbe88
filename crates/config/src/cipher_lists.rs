//! OpenSSL's language of cipher lists and groups, over those that are there.
//!
//! Called by: the models of Apache (`SSLCipherSuite`) and nginx (`ssl_ciphers`, `ssl_ecdh_curve`).
//! Caveat: words for outdated suites are common in configurations; as for OpenSSL, they match
//! nothing. A list of which nothing remains (CBC and SHA-1 alone) leaves the choice to the server,
//! with a warning: its own suites are stronger.

use crate::model::{CipherSuite, Group, TlsVersion};

/// The suites of one directive for one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub version: TlsVersion,
    /// `None`: nothing remains of the list.
    pub suites: Option<Vec<CipherSuite>>,
}

/// A suite with its names (OpenSSL's, IANA's), in OpenSSL's order.
struct Known(CipherSuite, &'static str, &'static str);

const SUITES_12: [Known; 6] = [
    Known(
        CipherSuite::EcdheEcdsaAes256Gcm,
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    ),
    Known(
        CipherSuite::EcdheRsaAes256Gcm,
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    ),
    Known(
        CipherSuite::EcdheEcdsaChaCha20,
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
    Known(
        CipherSuite::EcdheRsaChaCha20,
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
    Known(
        CipherSuite::EcdheEcdsaAes128Gcm,
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    ),
    Known(
        CipherSuite::EcdheRsaAes128Gcm,
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    ),
];

const SUITES_13: [Known; 3] = [
    Known(
        CipherSuite::Tls13Aes256Gcm,
        "TLS_AES_256_GCM_SHA384",
        "TLS_AES_256_GCM_SHA384",
    ),
    Known(
        CipherSuite::Tls13ChaCha20,
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256",
    ),
    Known(
        CipherSuite::Tls13Aes128Gcm,
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_128_GCM_SHA256",
    ),
];

/// `[SSL|TLSv1.3] list`. `None`: the server's own choice.
pub fn read(words: &[String]) -> Result<Option<Read>, String> {
    let (protocol, list) = match words {
        [list] => ("SSL", list.as_str()),
        [protocol, list, ..] => (protocol.as_str(), list.as_str()),
        [] => return Err("SSLCipherSuite requires an argument".into()),
    };
    let (version, suites) = match protocol.to_ascii_uppercase().as_str() {
        "SSL" if is_default(list) => return Ok(None),
        "SSL" => (TlsVersion::Tls12, list_12(list)),
        "TLSV1.3" => (TlsVersion::Tls13, list_13(list)),
        _ => return Err(format!("procotol '{protocol}' not supported")),
    };
    Ok(Some(Read {
        version,
        suites: Some(suites).filter(|suites| !suites.is_empty()),
    }))
}

/// The warning about a list of which nothing remains.
pub fn without_any(directive: &str, words: &[String]) -> Option<String> {
    let read = read(words)
        .ok()
        .flatten()
        .filter(|read| read.suites.is_none())?;
    let (list, has) = match read.version {
        TlsVersion::Tls13 => (words.get(1), "AES-GCM and ChaCha20"),
        TlsVersion::Tls12 => (words.last(), "ECDHE with AES-GCM or ChaCha20"),
    };
    let list = list.map(String::as_str).unwrap_or_default();
    Some(format!(
        "{directive}: of {list} nothing remains that Saker has ({has}): its own ciphers are used"
    ))
}

/// Distributions' words for what they think right; and lists that only take away what is not there.
fn is_default(list: &str) -> bool {
    list.starts_with("PROFILE=") || list.eq_ignore_ascii_case("DEFAULT")
}

/// The suites of both directives of a host together; empty: the server's own choice.
pub fn together(of_12: Option<&[CipherSuite]>, of_13: Option<&[CipherSuite]>) -> Vec<CipherSuite> {
    if of_12.is_none() && of_13.is_none() {
        return Vec::new();
    }
    // The cheap first, as where nothing is said.
    let own_12 = || SUITES_12.iter().rev().map(|known| known.0).collect();
    let own_13 = || {
        [
            CipherSuite::Tls13Aes128Gcm,
            CipherSuite::Tls13Aes256Gcm,
            CipherSuite::Tls13ChaCha20,
        ]
        .to_vec()
    };
    [
        of_13.map_or_else(own_13, <[_]>::to_vec),
        of_12.map_or_else(own_12, <[_]>::to_vec),
    ]
    .concat()
}

/// Returns whether a session's cipher, by OpenSSL's name, is one of these. Those of TLS 1.3 are chosen
/// by the host alone.
pub fn include(suites: &[CipherSuite], cipher: &str) -> bool {
    let known = SUITES_12.iter().find(|known| known.1 == cipher);
    known.is_none_or(|known| suites.contains(&known.0))
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split([':', ',', ' ', ';'])
        .filter(|word| !word.is_empty())
}

/// The suites of TLS 1.3 that a list names.
pub fn list_13(list: &str) -> Vec<CipherSuite> {
    let named = |word: &str| {
        SUITES_13
            .iter()
            .find(|known| known.1 == word)
            .map(|known| known.0)
    };
    words(list).filter_map(named).collect()
}

/// Groups in the order of preference; those that are not there are passed over, as OpenSSL does with
/// a `?` before them.
pub fn groups(list: &str) -> Vec<Group> {
    let group = |word: &str| match word
        .trim_start_matches(['?', '*', '-'])
        .to_ascii_lowercase()
        .as_str()
    {
        "x25519mlkem768" => Some(Group::X25519MlKem768),
        "x25519" => Some(Group::X25519),
        "p-256" | "secp256r1" | "prime256v1" => Some(Group::Secp256r1),
        "p-384" | "secp384r1" => Some(Group::Secp384r1),
        _ => None,
    };
    list.split([':', '/']).filter_map(group).collect()
}

/// The suites of TLS 1.2 that a list chooses. ciphers(1): `!` takes out for good, `-` takes out, `+` puts at the end, a bare word adds.
pub fn list_12(list: &str) -> Vec<CipherSuite> {
    let (mut chosen, mut gone): (Vec<CipherSuite>, Vec<CipherSuite>) = (Vec::new(), Vec::new());
    for word in words(list).filter(|word| !word.starts_with('@')) {
        let (sign, name) = match word.as_bytes().first() {
            Some(sign @ (b'!' | b'-' | b'+')) => (*sign, word.get(1..).unwrap_or_default()),
            _ => (b' ', word),
        };
        let meant: Vec<CipherSuite> = SUITES_12
            .iter()
            .filter(|known| is_meant(known, name))
            .map(|known| known.0)
            .collect();
        match sign {
            b'!' | b'-' => {
                chosen.retain(|suite| !meant.contains(suite));
                gone.extend(meant.into_iter().filter(|_| sign == b'!'));
            }
            b'+' => chosen.sort_by_key(|suite| meant.contains(suite)),
            _ => {
                let new: Vec<_> = meant
                    .into_iter()
                    .filter(|suite| !chosen.contains(suite) && !gone.contains(suite))
                    .collect();
                chosen.extend(new);
            }
        }
    }
    chosen
}

/// Several words with `+` between have to hold all.
fn is_meant(known: &Known, name: &str) -> bool {
    known.1 == name || known.2 == name || name.split('+').all(|word| has(known.1, word))
}

fn has(suite: &str, word: &str) -> bool {
    let is_ecdsa = suite.contains("-ECDSA-");
    match word {
        "ALL" | "DEFAULT" | "HIGH" | "TLSv1.2" | "ECDHE" | "EECDH" | "kECDHE" | "kEECDH" => true,
        "ECDSA" | "aECDSA" => is_ecdsa,
        "aRSA" => !is_ecdsa,
        "AES" | "AESGCM" | "FIPS" => suite.contains("AES"),
        "AES128" => suite.contains("AES128"),
        "AES256" => suite.contains("AES256"),
        "CHACHA20" => suite.contains("CHACHA20"),
        "SUITEB128" => is_ecdsa && suite.contains("AES"),
        "SUITEB192" => is_ecdsa && suite.contains("AES256"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let name = |suite: &CipherSuite| {
            let known = SUITES_12
                .iter()
                .chain(&SUITES_13)
                .find(|known| known.0 == *suite)
                .unwrap();
            known
                .1
                .replace("-GCM-SHA256", "")
                .replace("-GCM-SHA384", "")
                .replace("-POLY1305", "")
                .replace("ECDHE-", "")
        };
        match read(&words) {
            Ok(None) => "own".into(),
            Ok(Some(Read { suites: None, .. })) => "nothing".into(),
            Ok(Some(Read {
                suites: Some(suites),
                ..
            })) => suites.iter().map(name).collect::<Vec<_>>().join(" "),
            Err(_) => "error".into(),
        }
    }

    /// Each as `openssl ciphers` has it, as far as the suites go that are here.
    #[test]
    fn lists() {
        for (words, expected) in [
            (
                &["HIGH:!aNULL"][..],
                "ECDSA-AES256 RSA-AES256 ECDSA-CHACHA20 RSA-CHACHA20 ECDSA-AES128 RSA-AES128",
            ),
            (
                &["HIGH:!aNULL:!MD5:!3DES:!CAMELLIA:!AES128"],
                "ECDSA-AES256 RSA-AES256 ECDSA-CHACHA20 RSA-CHACHA20",
            ),
            (
                &[
                    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES128-GCM-SHA256",
                ],
                "ECDSA-AES128 RSA-AES128",
            ),
            (
                &["SSL", "ECDHE+AESGCM:-AES256:AES256"],
                "ECDSA-AES128 RSA-AES128 ECDSA-AES256 RSA-AES256",
            ),
            (
                &["ECDHE+aRSA:!CHACHA20:+AES256:@STRENGTH"],
                "RSA-AES128 RSA-AES256",
            ),
            (
                &["ALL:!ECDSA:RSA:kRSA"],
                "RSA-AES256 RSA-CHACHA20 RSA-AES128",
            ),
            (
                &[
                    "TLSv1.3",
                    "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_CCM_SHA256",
                ],
                "TLS_CHACHA20_POLY1305_SHA256",
            ),
            (&["PROFILE=SYSTEM"], "own"),
            (&["RC4-SHA:AES128-SHA"], "nothing"),
            (&["TLSv1.3", "nonsense"], "nothing"),
            (&["TLSv9", "HIGH"], "error"),
        ] {
            assert_eq!(shown(words), expected, "{words:?}");
        }
    }

    #[test]
    fn both_versions_are_always_there() {
        assert!(together(None, None).is_empty());
        let only = together(Some(&[CipherSuite::EcdheRsaAes128Gcm]), None);
        assert_eq!(
            (only.len(), only.first(), only.last()),
            (
                4,
                Some(&CipherSuite::Tls13Aes128Gcm),
                Some(&CipherSuite::EcdheRsaAes128Gcm)
            )
        );
    }
}
