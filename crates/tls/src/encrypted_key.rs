//! Private keys under a passphrase, as OpenSSL writes them: PKCS #8 (RFC 5958 with PBES2 of RFC
//! 8018), and the older form with lines in the PEM that say how (RFC 1421 section 4.6; the key
//! comes of the passphrase by OpenSSL's EVP_BytesToKey with MD5).
//!
//! Only files that the operator configured are read here, at start and when they change.
//! Absent on purpose: PBES1 and ciphers that nobody has written keys with for twenty years; scrypt.

use crate::der::{Der, SEQUENCE};
use aws_lc_rs::{
    cipher::{
        AES_128, AES_192, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey,
        UnboundCipherKey,
    },
    iv::FixedLength,
    pbkdf2,
};
use des::{
    TdesEde3,
    cipher::{Block, BlockCipherDecrypt, KeyInit},
};
use md5::{Digest, Md5};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
    pem::PemObject,
};
use std::num::NonZeroU32;

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;

/// 1.2.840.113549.1.5.13, and 12.
const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
/// More rounds would take minutes.
const ROUNDS_MAX: u32 = 50_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The passphrase, most likely.
    Wrong,
    /// Of a kind that is not read.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cipher {
    Aes128,
    Aes192,
    Aes256,
    TripleDes,
}

pub fn is_encrypted(pem: &[u8]) -> bool {
    section(pem)
        .is_some_and(|section| section.label == "ENCRYPTED PRIVATE KEY" || section.cipher.is_some())
}

/// The key in the first encrypted section.
pub fn decrypt(pem: &[u8], passphrase: &[u8]) -> Result<PrivateKeyDer<'static>, Fault> {
    let section = section(pem).ok_or(Fault::Unknown)?;
    let content = section.content().ok_or(Fault::Unknown)?;
    if section.label == "ENCRYPTED PRIVATE KEY" {
        let plain = pkcs8(&content, passphrase)?;
        return Ok(PrivatePkcs8KeyDer::from(plain).into());
    }
    let (cipher, iv) = section.cipher.and_then(dek_info).ok_or(Fault::Unknown)?;
    let salt = iv.get(..8).ok_or(Fault::Unknown)?;
    let plain = open(
        cipher,
        &bytes_to_key(passphrase, salt, cipher.key_bytes()),
        &iv,
        content,
    )?;
    match section.label {
        "RSA PRIVATE KEY" => Ok(PrivatePkcs1KeyDer::from(plain).into()),
        "EC PRIVATE KEY" => Ok(PrivateSec1KeyDer::from(plain).into()),
        _ => Err(Fault::Unknown),
    }
}

struct Section<'p> {
    label: &'p str,
    /// Of `DEK-Info`.
    cipher: Option<&'p str>,
    base64: &'p str,
}

/// The first private key.
fn section(pem: &[u8]) -> Option<Section<'_>> {
    let text = std::str::from_utf8(pem).ok()?;
    let mut rest = text;
    loop {
        let (_, after) = rest.split_once("-----BEGIN ")?;
        let (label, after) = after.split_once("-----")?;
        let (body, after) = after.split_once("-----END ")?;
        rest = after;
        if label.ends_with("PRIVATE KEY") {
            let lines = body.lines().filter_map(|line| line.split_once(':'));
            let cipher = lines
                .into_iter()
                .find(|(name, _)| *name == "DEK-Info")
                .map(|(_, value)| value.trim());
            let base64 = match body.rfind(':') {
                Some(at) => body.get(at..)?.split_once('\n')?.1,
                None => body,
            };
            return Some(Section {
                label,
                cipher,
                base64,
            });
        }
    }
}

impl Section<'_> {
    fn content(&self) -> Option<Vec<u8>> {
        // What the section is called does not matter to who decodes it.
        let plain = format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            self.base64.trim()
        );
        CertificateDer::from_pem_slice(plain.as_bytes())
            .ok()
            .map(|content| content.to_vec())
    }
}

/// `AES-256-CBC,0123456789ABCDEF…`
fn dek_info(value: &str) -> Option<(Cipher, Vec<u8>)> {
    let (name, digits) = value.split_once(',')?;
    let cipher = match name {
        "AES-128-CBC" => Cipher::Aes128,
        "AES-192-CBC" => Cipher::Aes192,
        "AES-256-CBC" => Cipher::Aes256,
        "DES-EDE3-CBC" => Cipher::TripleDes,
        _ => return None,
    };
    let pairs = digits.trim().as_bytes().chunks(2);
    let iv: Option<Vec<u8>> = pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    iv.map(|iv| (cipher, iv))
}

fn bytes_to_key(passphrase: &[u8], salt: &[u8], key_bytes: usize) -> Vec<u8> {
    let (mut key, mut last) = (Vec::new(), Vec::new());
    while key.len() < key_bytes {
        last = Md5::new()
            .chain_update(&last)
            .chain_update(passphrase)
            .chain_update(salt)
            .finalize()
            .to_vec();
        key.extend_from_slice(&last);
    }
    key.truncate(key_bytes);
    key
}

fn pkcs8(der: &[u8], passphrase: &[u8]) -> Result<Vec<u8>, Fault> {
    let (cipher, key, iv, content) = parameters(der, passphrase).ok_or(Fault::Unknown)?;
    open(cipher, &key, &iv, content)
}

type Opened = (Cipher, Vec<u8>, Vec<u8>, Vec<u8>);

/// RFC 8018 appendix A.4.
fn parameters(der: &[u8], passphrase: &[u8]) -> Option<Opened> {
    let mut outer = Der(Der(der).expect(SEQUENCE)?);
    let mut algorithm = Der(outer.expect(SEQUENCE)?);
    if algorithm.expect(OBJECT_IDENTIFIER)? != PBES2 {
        return None;
    }
    let mut schemes = Der(algorithm.expect(SEQUENCE)?);
    let (mut derivation, mut encryption) = (
        Der(schemes.expect(SEQUENCE)?),
        Der(schemes.expect(SEQUENCE)?),
    );
    let cipher = cipher_of(encryption.expect(OBJECT_IDENTIFIER)?)?;
    let iv = encryption.expect(OCTET_STRING)?.to_vec();
    if derivation.expect(OBJECT_IDENTIFIER)? != PBKDF2 {
        return None;
    }
    let mut derivation = Der(derivation.expect(SEQUENCE)?);
    let salt = derivation.expect(OCTET_STRING)?;
    let rounds = derivation
        .expect(INTEGER)?
        .iter()
        .try_fold(0u32, |sum, byte| {
            sum.checked_mul(256)?.checked_add(u32::from(*byte))
        })?;
    derivation.optional(INTEGER);
    let prf = match derivation.optional(SEQUENCE) {
        Some(prf) => prf_of(Der(prf).expect(OBJECT_IDENTIFIER)?)?,
        None => pbkdf2::PBKDF2_HMAC_SHA1,
    };
    let mut key = vec![0; cipher.key_bytes()];
    pbkdf2::derive(
        prf,
        NonZeroU32::new(rounds).filter(|rounds| rounds.get() <= ROUNDS_MAX)?,
        salt,
        passphrase,
        &mut key,
    );
    Some((cipher, key, iv, outer.expect(OCTET_STRING)?.to_vec()))
}

fn cipher_of(identifier: &[u8]) -> Option<Cipher> {
    match identifier {
        [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x02] => Some(Cipher::Aes128),
        [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x16] => Some(Cipher::Aes192),
        [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x2a] => Some(Cipher::Aes256),
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x03, 0x07] => Some(Cipher::TripleDes),
        _ => None,
    }
}

/// RFC 8018 appendix B.1.
fn prf_of(identifier: &[u8]) -> Option<pbkdf2::Algorithm> {
    match identifier.strip_prefix(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02])? {
        [7] => Some(pbkdf2::PBKDF2_HMAC_SHA1),
        [9] => Some(pbkdf2::PBKDF2_HMAC_SHA256),
        [10] => Some(pbkdf2::PBKDF2_HMAC_SHA384),
        [11] => Some(pbkdf2::PBKDF2_HMAC_SHA512),
        _ => None,
    }
}

impl Cipher {
    fn key_bytes(self) -> usize {
        match self {
            Cipher::Aes128 => 16,
            Cipher::Aes192 | Cipher::TripleDes => 24,
            Cipher::Aes256 => 32,
        }
    }

    fn of_aws_lc(self) -> Option<&'static Algorithm> {
        match self {
            Cipher::Aes128 => Some(&AES_128),
            Cipher::Aes192 => Some(&AES_192),
            Cipher::Aes256 => Some(&AES_256),
            Cipher::TripleDes => None,
        }
    }
}

/// CBC with PKCS #7 padding. What comes out is a SEQUENCE, if the passphrase was right.
fn open(cipher: Cipher, key: &[u8], iv: &[u8], mut content: Vec<u8>) -> Result<Vec<u8>, Fault> {
    let plain = match cipher.of_aws_lc() {
        Some(algorithm) => {
            let iv = <[u8; 16]>::try_from(iv).map_err(|_| Fault::Unknown)?;
            let key = UnboundCipherKey::new(algorithm, key)
                .and_then(PaddedBlockDecryptingKey::cbc_pkcs7)
                .map_err(|_| Fault::Unknown)?;
            let context = DecryptionContext::Iv128(FixedLength::from(&iv));
            key.decrypt(&mut content, context)
                .map_err(|_| Fault::Wrong)?
                .to_vec()
        }
        None => triple_des(key, iv, &content)?,
    };
    let is_sequence = Der(&plain).expect(SEQUENCE).is_some();
    if is_sequence {
        Ok(plain)
    } else {
        Err(Fault::Wrong)
    }
}

fn triple_des(key: &[u8], iv: &[u8], content: &[u8]) -> Result<Vec<u8>, Fault> {
    let cipher = TdesEde3::new_from_slice(key).map_err(|_| Fault::Unknown)?;
    let mut before = <[u8; 8]>::try_from(iv).map_err(|_| Fault::Unknown)?;
    let (blocks, rest) = content.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(Fault::Unknown);
    }
    let mut plain = Vec::with_capacity(content.len());
    for block in blocks {
        let mut opened = Block::<TdesEde3>::from(*block);
        cipher.decrypt_block(&mut opened);
        plain.extend(
            opened
                .iter()
                .zip(before)
                .map(|(byte, before)| byte ^ before),
        );
        before = *block;
    }
    let padding = plain.last().copied().map_or(0, usize::from);
    let end = plain
        .len()
        .checked_sub(padding)
        .filter(|_| (1..=8).contains(&padding))
        .ok_or(Fault::Wrong)?;
    if plain
        .get(end..)
        .is_none_or(|bytes| bytes.iter().any(|byte| usize::from(*byte) != padding))
    {
        return Err(Fault::Wrong);
    }
    plain.truncate(end);
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::aws_lc_rs::sign::any_supported_type;
    use std::process::Command;

    fn openssl(arguments: &str, folder: &std::path::Path) -> Vec<u8> {
        let program = saker_testkit::require("openssl").unwrap();
        let output = Command::new(program)
            .args(arguments.split(' '))
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }

    #[test]
    fn what_openssl_writes() {
        let dir = saker_testkit::TempDir::new("encrypted-key").unwrap();
        openssl("genrsa -out rsa.pem 2048", &dir);
        openssl("ecparam -name prime256v1 -genkey -noout -out ec.pem", &dir);
        for arguments in [
            "pkcs8 -topk8 -in rsa.pem -v2 aes-256-cbc -passout pass:secret",
            "pkcs8 -topk8 -in ec.pem -v2 aes-128-cbc -v2prf hmacWithSHA512 -passout pass:secret",
            "pkcs8 -topk8 -in ec.pem -v2 des3 -v2prf hmacWithSHA1 -passout pass:secret",
            "rsa -traditional -in rsa.pem -aes256 -passout pass:secret",
            "rsa -traditional -in rsa.pem -aes192 -passout pass:secret",
            "rsa -traditional -in rsa.pem -des3 -passout pass:secret",
            "ec -in ec.pem -aes128 -passout pass:secret",
        ] {
            let pem = openssl(arguments, &dir);
            assert!(is_encrypted(&pem), "{arguments}");
            let key =
                decrypt(&pem, b"secret").unwrap_or_else(|fault| panic!("{arguments}: {fault:?}"));
            assert!(any_supported_type(&key).is_ok(), "{arguments}");
            assert_eq!(
                decrypt(&pem, b"other").err(),
                Some(Fault::Wrong),
                "{arguments}"
            );
        }
        let plain = std::fs::read(dir.join("rsa.pem")).unwrap();
        assert!(!is_encrypted(&plain));
    }

    #[test]
    fn what_is_broken_is_no_key() {
        for pem in [
            "",
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: RC2,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n",
        ] {
            assert_eq!(
                decrypt(pem.as_bytes(), b"x").err(),
                Some(Fault::Unknown),
                "{pem}"
            );
        }
        let cut = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIFHDBOBgkqhkiG9w0BBQ0wQTApBgkqhkiG\n-----END ENCRYPTED PRIVATE KEY-----\n";
        assert_eq!(decrypt(cut.as_bytes(), b"x").err(), Some(Fault::Unknown));
    }
}
