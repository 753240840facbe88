//! One direction's key: nonces, additional data, sealing and opening of single records (RFC 8446
//! section 5, RFC 5246 section 6.2.3).
//!
//! The difficulty is that three ways of protection look alike: TLS 1.3; TLS 1.2 with GCM, whose
//! nonces travel in the record (RFC 5288); and TLS 1.2 with ChaCha20-Poly1305, whose don't (RFC
//! 7905).

use crate::error::{TlsError, Whose};
use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use rustls::ConnectionTrafficSecrets;

pub const HEADER: usize = 5;
const TAG: usize = 16;
const EXPLICIT_NONCE: usize = 8;
/// Plaintext of a record (RFC 8446 section 5.1).
pub const PLAINTEXT_MAX: usize = 1 << 14;

/// Record protection: protocol version and kind of cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    Tls13,
    Tls12Gcm,
    Tls12ChaCha20,
}

pub struct RecordKey {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    /// Sequence number of the next record.
    pub sequence: u64,
    pub protection: Protection,
}

/// Why a record can't be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    Mac,
    TooLong,
    /// TLS 1.3: nothing but padding.
    NoType,
}

impl RecordKey {
    pub fn new(
        secrets: &ConnectionTrafficSecrets,
        sequence: u64,
        is_tls13: bool,
    ) -> Result<RecordKey, TlsError> {
        let unusable = || TlsError::refused(Whose::Ours, "the agreed keys can't be used");
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(unusable()),
        };
        let protection = match (is_tls13, algorithm == &CHACHA20_POLY1305) {
            (true, _) => Protection::Tls13,
            (false, true) => Protection::Tls12ChaCha20,
            (false, false) => Protection::Tls12Gcm,
        };
        let key =
            LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).map_err(|_| unusable())?);
        let iv = iv.as_ref().try_into().map_err(|_| unusable())?;
        Ok(RecordKey {
            key,
            iv,
            sequence,
            protection,
        })
    }

    /// Bytes by which a record is longer than its plaintext.
    pub fn overhead(&self) -> usize {
        match self.protection {
            Protection::Tls13 => HEADER + 1 + TAG,
            Protection::Tls12Gcm => HEADER + EXPLICIT_NONCE + TAG,
            Protection::Tls12ChaCha20 => HEADER + TAG,
        }
    }

    /// Longest fragment of a record that may come: RFC 8446 section 5.2, RFC 5246 section 6.2.3.
    pub fn fragment_max(&self) -> usize {
        PLAINTEXT_MAX
            + if self.protection == Protection::Tls13 {
                256
            } else {
                2048
            }
    }

    /// Appends a record. `fill` appends its plaintext, which must be of `length`.
    pub fn seal(
        &mut self,
        kind: u8,
        length: usize,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), TlsError> {
        let is_tls13 = self.protection == Protection::Tls13;
        let nonce = self.nonce();
        let fragment = u16::try_from(length + self.overhead() - HEADER)
            .unwrap_or(u16::MAX)
            .to_be_bytes();
        let header = [
            if is_tls13 { 23 } else { kind },
            3,
            3,
            fragment[0],
            fragment[1],
        ];
        out.extend_from_slice(&header);
        if self.protection == Protection::Tls12Gcm {
            out.extend_from_slice(&nonce[NONCE_LEN - EXPLICIT_NONCE..]);
        }
        let start = out.len();
        fill(out);
        debug_assert_eq!(out.len() - start, length);
        if is_tls13 {
            out.push(kind);
        }
        let additional = self.additional(header, length);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = self.key.seal_in_place_separate_tag(
            nonce,
            Aad::from(additional.as_ref()),
            &mut out[start..],
        );
        let tag =
            sealed.map_err(|_| TlsError::refused(Whose::Ours, "a record could not be sealed"))?;
        out.extend_from_slice(tag.as_ref());
        self.sequence += 1;
        Ok(())
    }

    /// Opens a record in place: its type and its plaintext.
    pub fn open<'r>(
        &mut self,
        header: [u8; HEADER],
        fragment: &'r mut [u8],
    ) -> Result<(u8, &'r [u8]), Broken> {
        let mut nonce = self.nonce();
        let mut fragment = fragment;
        if self.protection == Protection::Tls12Gcm {
            let (explicit, rest) = fragment
                .split_at_mut_checked(EXPLICIT_NONCE)
                .ok_or(Broken::Mac)?;
            nonce[..NONCE_LEN - EXPLICIT_NONCE]
                .copy_from_slice(&self.iv[..NONCE_LEN - EXPLICIT_NONCE]);
            nonce[NONCE_LEN - EXPLICIT_NONCE..].copy_from_slice(explicit);
            fragment = rest;
        }
        let length = fragment.len().checked_sub(TAG).ok_or(Broken::Mac)?;
        let additional = self.additional(header, length);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = self
            .key
            .open_in_place(nonce, Aad::from(additional.as_ref()), fragment)
            .map_err(|_| Broken::Mac)?;
        self.sequence += 1;
        let (kind, content) = match self.protection {
            // RFC 8446 section 5.4: padding counts, too.
            Protection::Tls13 if opened.len() > PLAINTEXT_MAX + 1 => return Err(Broken::TooLong),
            Protection::Tls13 => without_padding(opened)?,
            _ => (header[0], &*opened),
        };
        if content.len() > PLAINTEXT_MAX {
            Err(Broken::TooLong)
        } else {
            Ok((kind, content))
        }
    }

    /// RFC 8446 section 5.3, RFC 7905 section 2; for GCM in TLS 1.2 any that is not used twice will
    /// do (RFC 5288 section 3).
    fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, digit) in nonce[NONCE_LEN - 8..]
            .iter_mut()
            .zip(self.sequence.to_be_bytes())
        {
            *byte ^= digit;
        }
        nonce
    }

    fn additional(&self, header: [u8; HEADER], length: usize) -> Additional {
        let mut bytes = [0; 13];
        if self.protection == Protection::Tls13 {
            bytes[..HEADER].copy_from_slice(&header);
            return Additional {
                bytes,
                length: HEADER,
            };
        }
        bytes[..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8..11].copy_from_slice(&header[..3]);
        bytes[11..].copy_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
        Additional {
            bytes,
            length: bytes.len(),
        }
    }
}

struct Additional {
    bytes: [u8; 13],
    length: usize,
}

impl AsRef<[u8]> for Additional {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// RFC 8446 section 5.4: the type is the last byte that is not zero.
fn without_padding(opened: &[u8]) -> Result<(u8, &[u8]), Broken> {
    let end = opened
        .iter()
        .rposition(|byte| *byte != 0)
        .ok_or(Broken::NoType)?;
    Ok((opened[end], &opened[..end]))
}
