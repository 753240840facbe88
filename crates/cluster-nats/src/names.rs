//! Names of streams and subjects.
//!
//! Called by: the other modules.
//! Caveat: a subject consists of words between dots, with `*` and `>` for any; so a name becomes
//! one word, in which other characters than letters, digits, `-` and `_` are written as `=2E`.
//! Prefixes have no dots (`saker_config`).

use std::fmt::Write as _;

pub fn stream(prefix: &str, name: &str) -> String {
    format!("{prefix}-{name}")
}

pub fn subject(prefix: &str, name: &str) -> String {
    format!("{prefix}.{name}")
}

/// A name as one word of a subject.
pub fn word(name: &str) -> String {
    let mut word = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => word.push(char::from(byte)),
            // Writing to a string does not fail.
            _ => drop(write!(word, "={byte:02X}")),
        }
    }
    word
}

/// The name whose word is the last one of a subject.
pub fn name(subject: &str) -> Option<String> {
    let (_, word) = subject.rsplit_once('.')?;
    let (mut name, mut rest) = (Vec::with_capacity(word.len()), word.as_bytes());
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'=' {
            name.push(*byte);
            continue;
        }
        let (digits, behind) = rest.split_first_chunk::<2>()?;
        let digits = std::str::from_utf8(digits).ok()?;
        name.push(u8::from_str_radix(digits, 16).ok()?);
        rest = behind;
    }
    String::from_utf8(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_word_and_come_back() {
        for text in [
            "certificate-shop.example",
            "192.0.2.0/24",
            "2001:db8::/32",
            "a=b *.>+_\u{e9}",
        ] {
            let subject = format!("saker.bans.{}", word(text));
            assert_eq!(subject.split('.').count(), 3, "{subject}");
            assert!(!subject.contains([' ', '*', '>']), "{subject}");
            assert_eq!(name(&subject).as_deref(), Some(text));
        }
        for odd in ["", "a.=", "a.=4", "a.=zz", "a.=ff"] {
            assert_eq!(name(odd), None, "{odd}");
        }
    }
}
