use super::*;
use crate::encoding::base64url;
use aws_lc_rs::{
    encoding::{AsDer, PublicKeyX509Der},
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
        RsaKeyPair,
    },
};
use base64::{Engine, engine::general_purpose::STANDARD};
use jsonwebtoken::{EncodingKey, crypto::sign};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW: i64 = 1_700_000_000;

fn rules() -> TokenRules {
    TokenRules {
        algorithms: vec![Algorithm::HS256],
        leeway_s: 60,
        ..TokenRules::default()
    }
}

fn signed(header: &str, claims: &str, key: &EncodingKey, algorithm: Algorithm) -> String {
    let message = format!(
        "{}.{}",
        base64url(header.as_bytes()),
        base64url(claims.as_bytes())
    );
    let signature = sign(message.as_bytes(), key, algorithm).expect("signed");
    format!("{message}.{signature}")
}

fn hs256(claims: &str) -> String {
    let key = EncodingKey::from_secret(SECRET);
    signed("{\"alg\":\"HS256\"}", claims, &key, Algorithm::HS256)
}

fn outcome(token: &str, rules: &TokenRules) -> Result<Claims, TokenError> {
    let keys = KeySet::secret(SECRET).expect("a secret");
    verify(token.as_bytes(), &keys, rules, NOW)
}

fn good() -> String {
    format!("{{\"sub\":\"ann\",\"exp\":{}}}", NOW + 10)
}

#[test]
fn time_and_its_edges() {
    let at = |claims: String| outcome(&hs256(&claims), &rules()).err();
    assert_eq!(at(good()), None);
    assert_eq!(at(format!("{{\"exp\":{}}}", NOW - 59)), None);
    assert_eq!(
        at(format!("{{\"exp\":{}}}", NOW - 60)),
        Some(TokenError::Expired)
    );
    assert_eq!(at("{}".into()), Some(TokenError::WithoutEnd));
    assert_eq!(
        at("{\"exp\":\"9999999999\"}".into()),
        Some(TokenError::WithoutEnd)
    );
    let with_start = |start: i64| at(format!("{{\"exp\":{},\"nbf\":{start}}}", NOW + 10));
    assert_eq!(with_start(NOW + 60), None);
    assert_eq!(with_start(NOW + 61), Some(TokenError::NotYetValid));
    assert_eq!(
        at(format!("{{\"exp\":{},\"nbf\":\"x\"}}", NOW + 10)),
        Some(TokenError::Malformed)
    );
    assert_eq!(
        at("{\"exp\":-9223372036854775808}".into()),
        Some(TokenError::Expired)
    );
    assert_eq!(at("{\"exp\":1e300}".into()), None);
}

#[test]
fn issuer_and_audience() {
    let strict = TokenRules {
        issuer: Some("https://id.example".into()),
        audiences: vec!["shop".into(), "api".into()],
        ..rules()
    };
    let with = |more: &str| {
        let claims = good().replacen('{', &format!("{{{more}"), 1);
        outcome(&hs256(&claims), &strict).err()
    };
    let issuer = "\"iss\":\"https://id.example\",";
    assert_eq!(with(""), Some(TokenError::Issuer));
    assert_eq!(
        with("\"iss\":\"https://id.example/\","),
        Some(TokenError::Issuer)
    );
    assert_eq!(
        with("\"iss\":[\"https://id.example\"],"),
        Some(TokenError::Issuer)
    );
    assert_eq!(with(issuer), Some(TokenError::Audience));
    assert_eq!(with(&format!("{issuer}\"aud\":\"api\",")), None);
    assert_eq!(with(&format!("{issuer}\"aud\":[\"x\",\"shop\"],")), None);
    assert_eq!(
        with(&format!("{issuer}\"aud\":\"api2\",")),
        Some(TokenError::Audience)
    );
}

#[test]
fn forged_tokens() {
    let token = hs256(&good());
    let (message, signature) = token.rsplit_once('.').expect("three parts");
    let (_, content) = message.split_once('.').expect("three parts");
    let none = base64url(b"{\"alg\":\"none\"}");
    let key = EncodingKey::from_secret(SECRET);
    let with_header = |header: &str| signed(header, &good(), &key, Algorithm::HS256);
    let changed = base64url(good().replace("ann", "bob").as_bytes());
    let header = base64url(b"{\"alg\":\"HS256\"}");
    for (forged, expected) in [
        (format!("{none}.{content}."), TokenError::Algorithm),
        (
            format!("{none}.{content}.{signature}"),
            TokenError::Algorithm,
        ),
        (format!("{message}."), TokenError::Signature),
        (format!("{message}.{signature}x"), TokenError::Signature),
        (
            format!("{header}.{changed}.{signature}"),
            TokenError::Signature,
        ),
        (
            format!("{message}.{content}.{signature}"),
            TokenError::Malformed,
        ),
        (message.to_owned(), TokenError::Malformed),
        (String::new(), TokenError::Malformed),
        ("..".into(), TokenError::Malformed),
        ("a.b.c".into(), TokenError::Malformed),
        (with_header("{\"alg\":\"HS384\"}"), TokenError::Algorithm),
        (with_header("{\"alg\":[\"HS256\"]}"), TokenError::Algorithm),
        (
            with_header("{\"alg\":\"HS256\",\"crit\":[\"exp\"]}"),
            TokenError::Critical,
        ),
        (
            with_header("{\"alg\":\"HS256\",\"b64\":false}"),
            TokenError::Critical,
        ),
        (with_header("{}"), TokenError::Algorithm),
        ("x".repeat(TOKEN_BYTES_MAX + 1), TokenError::TooLong),
        ("x".repeat(TOKEN_BYTES_MAX), TokenError::Malformed),
    ] {
        assert_eq!(outcome(&forged, &rules()), Err(expected), "{forged:.80}");
    }
}

#[test]
fn a_public_key_is_no_secret() {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let der = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).expect("encoded");
    let pem = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        STANDARD.encode(der.as_ref())
    );
    let keys = KeySet::public(pem.as_bytes()).expect("a public key");
    let both = TokenRules {
        algorithms: vec![Algorithm::ES256, Algorithm::HS256],
        ..rules()
    };
    for secret in [pem.as_bytes(), der.as_ref(), pair.public_key().as_ref()] {
        let key = EncodingKey::from_secret(secret);
        let forged = signed("{\"alg\":\"HS256\"}", &good(), &key, Algorithm::HS256);
        assert_eq!(
            verify(forged.as_bytes(), &keys, &both, NOW),
            Err(TokenError::UnknownKey)
        );
    }
    let pkcs8 = pair.to_pkcs8v1().expect("encoded");
    let key = EncodingKey::from_ec_der(pkcs8.as_ref());
    let real = signed("{\"alg\":\"ES256\"}", &good(), &key, Algorithm::ES256);
    assert!(verify(real.as_bytes(), &keys, &both, NOW).is_ok());
    assert_eq!(
        verify(real.as_bytes(), &keys, &rules(), NOW),
        Err(TokenError::Algorithm)
    );
}

#[test]
fn ed25519_and_rsa() {
    let pair = Ed25519KeyPair::generate().expect("a key");
    let jwk = format!(
        "{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"e\",\"x\":\"{}\"}}",
        base64url(pair.public_key().as_ref())
    );
    let all = TokenRules {
        algorithms: vec![Algorithm::EdDSA, Algorithm::RS256],
        ..rules()
    };
    let message = |header: &str| {
        format!(
            "{}.{}",
            base64url(header.as_bytes()),
            base64url(good().as_bytes())
        )
    };
    let text = message("{\"alg\":\"EdDSA\",\"kid\":\"e\"}");
    let token = format!("{text}.{}", base64url(pair.sign(text.as_bytes()).as_ref()));
    let keys = KeySet::public(jwk.as_bytes()).expect("a key");
    assert!(verify(token.as_bytes(), &keys, &all, NOW).is_ok());
    let text = message("{\"alg\":\"EdDSA\",\"kid\":\"f\"}");
    let token = format!("{text}.{}", base64url(pair.sign(text.as_bytes()).as_ref()));
    assert_eq!(
        verify(token.as_bytes(), &keys, &all, NOW),
        Err(TokenError::UnknownKey)
    );

    let pair = RsaKeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).expect("a key");
    let public = pair.public_key();
    let jwk = format!(
        "{{\"kty\":\"RSA\",\"n\":\"{}\",\"e\":\"{}\"}}",
        base64url(public.modulus().big_endian_without_leading_zero()),
        base64url(public.exponent().big_endian_without_leading_zero())
    );
    let text = message("{\"alg\":\"RS256\"}");
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        text.as_bytes(),
        &mut signature,
    )
    .expect("signed");
    let token = format!("{text}.{}", base64url(&signature));
    let keys = KeySet::public(jwk.as_bytes()).expect("a key");
    assert!(verify(token.as_bytes(), &keys, &all, NOW).is_ok());
}
