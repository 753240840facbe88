//! One-time passwords of authenticator apps (RFC 6238, over RFC 4226): SHA-1, six digits, 30
//! seconds.
//!
//! Called by: log-in, and the command that makes secrets.
//! Caveat: a code is good in its own interval and the ones beside it, and once: the caller keeps
//! the interval of the last code.

use aws_lc_rs::hmac;

const INTERVAL_S: i64 = 30;
const DIGITS: u32 = 6;
/// RFC 4648 section 6.
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Returns the interval that a code belongs to, if it is right now and its interval is later than
/// `last`.
pub fn verify(secret: &[u8], code: &str, now_s: i64, last: Option<i64>) -> Option<i64> {
    let code = code.trim();
    if code.len() != DIGITS as usize || !code.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let now = now_s.div_euclid(INTERVAL_S);
    // RFC 6238 section 5.2: at most one interval for the delay.
    [now - 1, now, now + 1].into_iter().find(|interval| {
        let own = format!("{:06}", at(secret, *interval));
        let is_right =
            aws_lc_rs::constant_time::verify_slices_are_equal(own.as_bytes(), code.as_bytes());
        is_right.is_ok() && last.is_none_or(|last| *interval > last)
    })
}

/// RFC 4226 section 5.3.
fn at(secret: &[u8], interval: i64) -> u32 {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let tag = hmac::sign(&key, &interval.to_be_bytes());
    let tag = tag.as_ref();
    let offset = usize::from(tag[tag.len() - 1] & 0xf);
    let four: [u8; 4] = std::array::from_fn(|at| tag[offset + at]);
    (u32::from_be_bytes(four) & 0x7fff_ffff) % 10u32.pow(DIGITS)
}

pub fn encode(secret: &[u8]) -> String {
    let (mut text, mut bits, mut count) = (String::new(), 0u32, 0);
    for byte in secret {
        bits = bits << 8 | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            text.push(char::from(BASE32[(bits >> count & 31) as usize]));
        }
    }
    if count > 0 {
        text.push(char::from(BASE32[(bits << (5 - count) & 31) as usize]));
    }
    text
}

pub fn decode(text: &str) -> Option<Vec<u8>> {
    let (mut secret, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = BASE32
            .iter()
            .position(|own| *own == byte.to_ascii_uppercase())?;
        bits = bits << 5 | value as u32;
        count += 5;
        if count >= 8 {
            count -= 8;
            secret.push((bits >> count & 0xff) as u8);
        }
    }
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6238 appendix B, SHA-1; the last six digits.
    #[test]
    fn vectors_of_the_standard() {
        let secret = b"12345678901234567890";
        for (time, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(verify(secret, code, time, None), Some(time / 30), "{time}");
        }
    }

    #[test]
    fn a_code_is_good_for_a_while_and_once() {
        let secret = b"12345678901234567890";
        let used = verify(secret, "287082", 59, None);
        assert_eq!(used, Some(1));
        assert_eq!(verify(secret, "287082", 59, used), None);
        assert_eq!(verify(secret, "287082", 89, None), Some(1));
        assert_eq!(verify(secret, "287082", 90, None), None);
        for wrong in ["", "28708", "2870822", "28708x", "287083"] {
            assert_eq!(verify(secret, wrong, 59, None), None, "{wrong}");
        }
    }

    /// RFC 4648 section 10, without padding.
    #[test]
    fn base32() {
        for (plain, text) in [
            ("", ""),
            ("f", "MY"),
            ("fo", "MZXQ"),
            ("foo", "MZXW6"),
            ("foob", "MZXW6YQ"),
            ("fooba", "MZXW6YTB"),
            ("foobar", "MZXW6YTBOI"),
        ] {
            assert_eq!(encode(plain.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(plain.as_bytes()));
        }
        assert_eq!(decode("M1"), None);
    }
}
