//! Seals records of any kind and content with a client's key, for what no decent client sends.

use aws_lc_rs::{
    aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, LessSafeKey, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, HKDF_SHA384, KeyType, Prk},
};
use rustls::{ClientConnection, ConnectionTrafficSecrets};
use std::sync::{Arc, Mutex};

pub const ALERT: u8 = 21;
pub const HANDSHAKE: u8 = 22;
pub const DATA: u8 = 23;

pub struct Raw {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
    is_tls13: bool,
    secret: Option<Vec<u8>>,
}

/// Keeps the traffic secret that key updates start from.
#[derive(Debug, Default)]
pub struct Secrets(Mutex<Option<Vec<u8>>>);

impl rustls::KeyLog for Secrets {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        if label == "CLIENT_TRAFFIC_SECRET_0" {
            *self.0.lock().unwrap() = Some(secret.to_vec());
        }
    }
}

impl Raw {
    pub fn new(client: ClientConnection, secrets: &Arc<Secrets>, is_tls13: bool) -> Raw {
        let secret = secrets.0.lock().unwrap().take();
        let (sequence, secrets) = client.dangerous_extract_secrets().unwrap().tx;
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            _ => panic!("not a cipher of these tests"),
        };
        Raw {
            key: less_safe(algorithm, key.as_ref()),
            iv: iv.as_ref().try_into().unwrap(),
            sequence,
            is_tls13,
            secret,
        }
    }

    pub fn record(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut nonce = self.iv;
        nonce
            .iter_mut()
            .skip(4)
            .zip(self.sequence.to_be_bytes())
            .for_each(|(byte, digit)| *byte ^= digit);
        let mut sealed = content.to_vec();
        let explicit = if self.is_tls13 { &[][..] } else { &nonce[4..] };
        if self.is_tls13 {
            sealed.push(kind);
        }
        let outer = if self.is_tls13 { DATA } else { kind };
        let fragment = u16::try_from(explicit.len() + sealed.len() + 16)
            .unwrap()
            .to_be_bytes();
        let header = [outer, 3, 3, fragment[0], fragment[1]];
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        let tls12 = [&self.sequence.to_be_bytes()[..], &header[..3], &length].concat();
        let additional = if self.is_tls13 {
            header.to_vec()
        } else {
            tls12
        };
        let unique = Nonce::assume_unique_for_key(nonce);
        self.key
            .seal_in_place_append_tag(unique, Aad::from(additional), &mut sealed)
            .unwrap();
        self.sequence += 1;
        [&header[..], explicit, &sealed].concat()
    }

    /// RFC 8446 section 7.2.
    pub fn update(&mut self) {
        let secret = self.secret.take().unwrap();
        let next = expand(&secret, "traffic upd", secret.len());
        let algorithm = if secret.len() == 32 {
            &AES_128_GCM
        } else {
            &AES_256_GCM
        };
        self.key = less_safe(algorithm, &expand(&next, "key", algorithm.key_len()));
        self.iv = expand(&next, "iv", 12).try_into().unwrap();
        (self.sequence, self.secret) = (0, Some(next));
    }
}

fn less_safe(algorithm: &'static Algorithm, key: &[u8]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(algorithm, key).unwrap())
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label without context (RFC 8446 section 7.1).
fn expand(secret: &[u8], label: &str, length: usize) -> Vec<u8> {
    let algorithm = if secret.len() == 32 {
        HKDF_SHA256
    } else {
        HKDF_SHA384
    };
    let label = format!("tls13 {label}");
    let info = [
        &u16::try_from(length).unwrap().to_be_bytes()[..],
        &[u8::try_from(label.len()).unwrap()],
        label.as_bytes(),
        &[0],
    ]
    .concat();
    let mut out = vec![0; length];
    Prk::new_less_safe(algorithm, secret)
        .expand(&[&info], Length(length))
        .unwrap()
        .fill(&mut out)
        .unwrap();
    out
}
