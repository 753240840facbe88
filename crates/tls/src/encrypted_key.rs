//! Private keys under a passphrase, as OpenSSL writes them: PKCS #8 (RFC 5958 with PBES2 of RFC
//! 8018, by the `pkcs8` crate), and the older form with a `DEK-Info` line in the PEM (RFC 1421
//! section 4.6; the key is derived by OpenSSL's EVP_BytesToKey with MD5).
//!
//! Called by: loading of certificates, at start and when the files change.
//! Out of scope: PBES1, scrypt.

use crate::der::{Der, SEQUENCE};
use aws_lc_rs::{
    cipher::{
        AES_128, AES_192, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey,
        UnboundCipherKey,
    },
    iv::FixedLength,
};
use des::{
    TdesEde3,
    cipher::{Block, BlockCipherDecrypt, KeyInit},
};
use md5::{Digest, Md5};
use pkcs8::{EncryptedPrivateKeyInfo, pkcs5};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
    pem::PemObject,
};

/// More rounds would take minutes.
const ROUNDS_MAX: u32 = 50_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecryptError {
    /// The passphrase, most likely.
    Wrong,
    /// The format is not supported.
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
pub fn decrypt(pem: &[u8], passphrase: &[u8]) -> Result<PrivateKeyDer<'static>, DecryptError> {
    let section = section(pem).ok_or(DecryptError::Unknown)?;
    let content = section.content().ok_or(DecryptError::Unknown)?;
    if section.label == "ENCRYPTED PRIVATE KEY" {
        let plain = pkcs8(&content, passphrase)?;
        return Ok(PrivatePkcs8KeyDer::from(plain).into());
    }
    let (cipher, iv) = section
        .cipher
        .and_then(dek_info)
        .ok_or(DecryptError::Unknown)?;
    let salt = iv.get(..8).ok_or(DecryptError::Unknown)?;
    let plain = open(
        cipher,
        &bytes_to_key(passphrase, salt, cipher.key_bytes()),
        &iv,
        content,
    )?;
    match section.label {
        "RSA PRIVATE KEY" => Ok(PrivatePkcs1KeyDer::from(plain).into()),
        "EC PRIVATE KEY" => Ok(PrivateSec1KeyDer::from(plain).into()),
        _ => Err(DecryptError::Unknown),
    }
}

struct Section<'p> {
    label: &'p str,
    /// Cipher named in `DEK-Info`.
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

/// Decrypts an `EncryptedPrivateKeyInfo` (RFC 5958 section 3).
fn pkcs8(der: &[u8], passphrase: &[u8]) -> Result<Vec<u8>, DecryptError> {
    let key = EncryptedPrivateKeyInfo::try_from(der).map_err(|_| DecryptError::Unknown)?;
    let rounds = key
        .encryption_algorithm
        .pbes2()
        .and_then(|parameters| parameters.kdf.pbkdf2())
        .map(|derivation| derivation.iteration_count);
    if !rounds.is_some_and(|rounds| (1..=ROUNDS_MAX).contains(&rounds)) {
        return Err(DecryptError::Unknown);
    }
    match key.decrypt(passphrase) {
        Ok(plain) => Ok(plain.as_bytes().to_vec()),
        Err(pkcs8::Error::EncryptedPrivateKey(
            pkcs5::Error::UnsupportedAlgorithm { .. }
            | pkcs5::Error::AlgorithmParametersInvalid { .. },
        )) => Err(DecryptError::Unknown),
        Err(_) => Err(DecryptError::Wrong),
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
fn open(
    cipher: Cipher,
    key: &[u8],
    iv: &[u8],
    mut content: Vec<u8>,
) -> Result<Vec<u8>, DecryptError> {
    let plain = match cipher.of_aws_lc() {
        Some(algorithm) => {
            let iv = <[u8; 16]>::try_from(iv).map_err(|_| DecryptError::Unknown)?;
            let key = UnboundCipherKey::new(algorithm, key)
                .and_then(PaddedBlockDecryptingKey::cbc_pkcs7)
                .map_err(|_| DecryptError::Unknown)?;
            let context = DecryptionContext::Iv128(FixedLength::from(&iv));
            key.decrypt(&mut content, context)
                .map_err(|_| DecryptError::Wrong)?
                .to_vec()
        }
        None => triple_des(key, iv, &content)?,
    };
    let is_sequence = Der(&plain).expect(SEQUENCE).is_some();
    if is_sequence {
        Ok(plain)
    } else {
        Err(DecryptError::Wrong)
    }
}

fn triple_des(key: &[u8], iv: &[u8], content: &[u8]) -> Result<Vec<u8>, DecryptError> {
    let cipher = TdesEde3::new_from_slice(key).map_err(|_| DecryptError::Unknown)?;
    let mut before = <[u8; 8]>::try_from(iv).map_err(|_| DecryptError::Unknown)?;
    let (blocks, rest) = content.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(DecryptError::Unknown);
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
        .ok_or(DecryptError::Wrong)?;
    if plain
        .get(end..)
        .is_none_or(|bytes| bytes.iter().any(|byte| usize::from(*byte) != padding))
    {
        return Err(DecryptError::Wrong);
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
                Some(DecryptError::Wrong),
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
                Some(DecryptError::Unknown),
                "{pem}"
            );
        }
        let cut = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIFHDBOBgkqhkiG9w0BBQ0wQTApBgkqhkiG\n-----END ENCRYPTED PRIVATE KEY-----\n";
        assert_eq!(
            decrypt(cut.as_bytes(), b"x").err(),
            Some(DecryptError::Unknown)
        );
    }
}
