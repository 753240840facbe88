//! The fields `Depth`, `Overwrite`, and `Timeout` (RFC 4918 sections 10.2, 10.6, 10.7).
//!
//! Called by: the methods that obey them.
//! Out of scope: `Destination` (`destination`), `If` (`if_header`).

use saker_http::{HeadView, Status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    Zero,
    One,
    Infinity,
}

/// Reads `Depth`; infinity without one.
///
/// # Errors
/// 400 for other values.
pub fn depth(view: HeadView<'_>) -> Result<Depth, Status> {
    match view.first("depth").map(<[u8]>::trim_ascii) {
        None => Ok(Depth::Infinity),
        Some(b"0") => Ok(Depth::Zero),
        Some(b"1") => Ok(Depth::One),
        Some(text) if text.eq_ignore_ascii_case(b"infinity") => Ok(Depth::Infinity),
        Some(_) => Err(Status::BAD_REQUEST),
    }
}

/// Reads `Overwrite`; true without one.
///
/// # Errors
/// 400 for other values.
pub fn overwrite(view: HeadView<'_>) -> Result<bool, Status> {
    match view.first("overwrite").map(<[u8]>::trim_ascii) {
        None | Some(b"T" | b"t") => Ok(true),
        Some(b"F" | b"f") => Ok(false),
        Some(_) => Err(Status::BAD_REQUEST),
    }
}

/// Reads the first value of `Timeout` that is understood, in seconds; `None`: infinite.
pub fn timeout_s(view: HeadView<'_>) -> Option<u64> {
    let values = view.first("timeout")?.split(|byte| *byte == b',');
    for value in values.map(<[u8]>::trim_ascii) {
        if value.eq_ignore_ascii_case(b"infinite") {
            return None;
        }
        let Some((unit, number)) = value.split_at_checked(7) else {
            continue;
        };
        if !unit.eq_ignore_ascii_case(b"second-")
            || number.is_empty()
            || !number.iter().all(u8::is_ascii_digit)
        {
            continue;
        }
        // RFC 4918 section 10.7: not beyond 2^32 - 1.
        let seconds = std::str::from_utf8(number).ok()?.parse::<u32>();
        return Some(u64::from(seconds.unwrap_or(u32::MAX)));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http::{RequestHead, Version};

    fn head(name: &str, value: &str) -> RequestHead {
        RequestHead::build("LOCK", "/", Version::Http11, &[(name, value)])
    }

    #[test]
    fn depths() {
        for (value, expected) in [
            ("0", Ok(Depth::Zero)),
            ("1", Ok(Depth::One)),
            ("Infinity", Ok(Depth::Infinity)),
            ("2", Err(Status::BAD_REQUEST)),
            ("", Err(Status::BAD_REQUEST)),
        ] {
            assert_eq!(depth(head("Depth", value).view()), expected, "{value}");
        }
        assert_eq!(depth(head("x", "1").view()), Ok(Depth::Infinity));
    }

    #[test]
    fn overwriting() {
        for (value, expected) in [
            ("T", Ok(true)),
            ("f", Ok(false)),
            ("x", Err(Status::BAD_REQUEST)),
        ] {
            assert_eq!(overwrite(head("Overwrite", value).view()), expected);
        }
        assert_eq!(overwrite(head("x", "F").view()), Ok(true));
    }

    #[test]
    fn timeouts() {
        for (value, expected) in [
            ("Second-100", Some(100)),
            ("Infinite, Second-5", None),
            ("Extend, second-5", Some(5)),
            ("Second-99999999999", Some(u64::from(u32::MAX))),
            ("Second--1", None),
            ("Second-", None),
            ("hours", None),
        ] {
            assert_eq!(
                timeout_s(head("Timeout", value).view()),
                expected,
                "{value}"
            );
        }
    }
}
