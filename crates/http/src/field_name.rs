//! Comparison of field names for trust decisions.
//!
//! Called by: everything that removes, sets, or trusts such a field. CGI, FastCGI, WSGI, and
//! similar protocols turn a field name into a variable by writing `_` for every character other
//! than a letter or digit (RFC 3875 section 4.1.18), so `Remote-User`, `remote_user`, and
//! `Remote.User` are one variable to a program. A field that decides about permissions is therefore
//! compared in that form.
//! Caveat: semantics of HTTP itself use the exact name (RFC 9110 section 5.1), ignoring case.
//! Nothing here allocates.

/// Each byte as a variable's name shows it: letters in lower case, digits, `_` for the rest.
static FOLDED: [u8; 256] = folded();

/// True if programs can't tell the two names apart: they are equal, in any case, once every
/// character other than letters and digits is `_`.
#[inline]
pub fn is_alike(one: &[u8], other: &[u8]) -> bool {
    // Most names differ in length: nothing is read for those.
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(one, other)| FOLDED[usize::from(*one)] == FOLDED[usize::from(*other)])
}

/// True if `name` is alike to one of `names`.
#[inline]
pub fn is_alike_any(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|known| is_alike(name, known.as_bytes()))
}

/// True for names of letters, digits and hyphens only: no two of them become one variable, except
/// by case.
#[inline]
pub fn is_plain(name: &[u8]) -> bool {
    name.iter()
        .all(|byte| FOLDED[usize::from(*byte)] != b'_' || *byte == b'-')
}

const fn folded() -> [u8; 256] {
    let mut table = [b'_'; 256];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() {
            table[byte] = (byte as u8).to_ascii_lowercase();
        }
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_become_one_variable_are_alike() {
        for other in [
            "Remote-User",
            "remote-user",
            "REMOTE_USER",
            "Remote_User",
            "remote.user",
            "Remote!User",
            "remote~USER",
        ] {
            assert!(
                is_alike(b"Remote-User", other.as_bytes())
                    && is_alike(other.as_bytes(), b"Remote-User"),
                "{other}"
            );
        }
        for other in [
            "RemoteUser",
            "Remote-Users",
            "Remote--User",
            "Remote-Use",
            "Remote0User",
            "",
            "-Remote-User",
        ] {
            assert!(
                !is_alike(b"Remote-User", other.as_bytes())
                    && !is_alike(other.as_bytes(), b"Remote-User"),
                "{other}"
            );
        }
        assert!(
            is_alike_any(b"x_real_ip", &["forwarded", "x-real-ip"])
                && !is_alike_any(b"x_real_ips", &["forwarded", "x-real-ip"])
        );
    }

    /// Against the definition, for every byte.
    #[test]
    fn the_table_is_the_definition() {
        let variable = |byte: u8| {
            if byte.is_ascii_alphanumeric() {
                byte.to_ascii_uppercase()
            } else {
                b'_'
            }
        };
        for one in 0..=255 {
            for other in 0..=255 {
                assert_eq!(
                    is_alike(&[one], &[other]),
                    variable(one) == variable(other),
                    "{one} {other}"
                );
            }
            assert_eq!(
                is_plain(&[one]),
                one.is_ascii_alphanumeric() || one == b'-',
                "{one}"
            );
        }
    }
}
