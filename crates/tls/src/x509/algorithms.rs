//! Names of algorithms as OpenSSL prints them; what has none here stands as its number.

use x509_parser::asn1_rs::Oid;

/// Encoded object ids (RFC 3279, 4055, 5758, 8410) and OpenSSL's long names.
const NAMES: &[(&[u8], &str)] = &[
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01],
        "rsaEncryption",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05],
        "sha1WithRSAEncryption",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a],
        "rsassaPss",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b],
        "sha256WithRSAEncryption",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c],
        "sha384WithRSAEncryption",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d],
        "sha512WithRSAEncryption",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0e],
        "sha224WithRSAEncryption",
    ),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01],
        "id-ecPublicKey",
    ),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01],
        "ecdsa-with-SHA1",
    ),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x01],
        "ecdsa-with-SHA224",
    ),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
        "ecdsa-with-SHA256",
    ),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03],
        "ecdsa-with-SHA384",
    ),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04],
        "ecdsa-with-SHA512",
    ),
    (&[0x2b, 0x65, 0x70], "ED25519"),
    (&[0x2b, 0x65, 0x71], "ED448"),
];

/// Returns OpenSSL's name of an algorithm, or its number.
pub fn name(object_id: &Oid<'_>) -> String {
    NAMES
        .iter()
        .find(|(known, _)| *known == object_id.as_bytes())
        .map_or_else(|| dotted(object_id), |(_, name)| (*name).to_owned())
}

/// Object id in its dotted form (X.690 section 8.19: the first number holds two). asn1-rs 0.7 takes
/// the first number for one byte, which is wrong for `2.999`.
pub fn dotted(object_id: &Oid<'_>) -> String {
    let mut numbers = Vec::new();
    let mut number = 0u64;
    for byte in object_id.as_bytes() {
        number = number.saturating_mul(128) + u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(std::mem::take(&mut number));
        }
    }
    let Some((first, rest)) = numbers.split_first() else {
        return String::new();
    };
    let root = (first / 40).min(2);
    let head = [root, first - 40 * root];
    head.iter()
        .chain(rest)
        .map(u64::to_string)
        .collect::<Vec<_>>()
        .join(".")
}
