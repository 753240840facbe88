//! User and password of a request with Basic authentication (RFC 7617), as the client says them.
//!
//! Called by: nginx's rules (auth_basic, `$remote_user`), and access logs in its formats.
//! Caveat: nothing is verified here.
//! Out of scope: what Apache takes for base64 (`saker_auth::basic`).

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Text ends at its padding or without, and the bits that no byte gets are of no matter.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Returns user and password of an `Authorization` field; `None`: it is for another scheme, is no
/// base64, or has no colon or an empty user.
pub fn parse(value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, rest) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let rest = rest.trim_ascii();
    let end = rest.iter().position(|byte| *byte == b'=');
    let mut user = BASE64.decode(&rest[..end.unwrap_or(rest.len())]).ok()?;
    let at = user.iter().position(|byte| *byte == b':')?;
    let password = user.split_off(at + 1);
    user.pop();
    (!user.is_empty()).then_some((user, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials() {
        for (value, expected) in [
            ("Basic YW5uOnNlY3JldA==", Some(("ann", "secret"))),
            ("bASIC   YW5uOnNlY3JldA", Some(("ann", "secret"))),
            ("Basic YW5uOnNlY3JldB==", Some(("ann", "secret"))),
            ("Basic YW5uOnNlY3JldA=x", Some(("ann", "secret"))),
            ("Basic YW5uOg==", Some(("ann", ""))),
            ("Basic YTpiOmM=", Some(("a", "b:c"))),
            ("Basic YW5uOnNlY3JldAxxx", None),
            ("Basic YW5u-nNlY3JldA==", None),
            ("Basic OnNlY3JldA==", None),
            ("Basic YW5u", None),
            ("Basic ", None),
            ("Basic", None),
            ("Bearer YW5uOnNlY3JldA==", None),
        ] {
            let expected = expected.map(|(user, password)| {
                let bytes = |text: &str| text.as_bytes().to_vec();
                (bytes(user), bytes(password))
            });
            assert_eq!(parse(value.as_bytes()), expected, "{value}");
        }
    }
}
