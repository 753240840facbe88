//! Cookies of a log-in: names, `Set-Cookie` lines, values over several cookies.
//!
//! Called by: the access phase, with what `session` and `attempt` have sealed.
//! Caveat: a name with the prefix `__Host-` can't be set by another host or over plain HTTP (RFC
//! 6265bis section 4.1.3.2), so it is used wherever the connection is secure.
//! Out of scope: reading the `Cookie` field.

use crate::encoding::{base64url, sha256};

/// Longest value of one cookie: browsers keep 4096 bytes of name, value, and attributes.
const VALUE_BYTES_MAX: usize = 3800;
/// Cookies that a value may take.
pub const PARTS_MAX: usize = 4;
/// Cookies of log-ins under way that a client may have; then all of them are removed.
pub const ATTEMPTS_MAX: usize = 5;

/// Names of the cookies of one provider and client id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieNames {
    prefix: &'static str,
    tag: String,
    is_secure: bool,
}

impl CookieNames {
    /// `is_secure`: the client's connection is.
    pub fn new(issuer: &str, client_id: &str, is_secure: bool) -> CookieNames {
        let mut tag = base64url(&sha256(format!("{issuer}\n{client_id}").as_bytes()));
        tag.truncate(8);
        CookieNames {
            prefix: if is_secure { "__Host-" } else { "" },
            tag,
            is_secure,
        }
    }

    /// The name of a part of the session, from 0.
    pub fn session(&self, part: usize) -> String {
        let suffix = match part {
            0 => String::new(),
            part => format!(".{part}"),
        };
        format!("{}saker-session-{}{suffix}", self.prefix, self.tag)
    }

    /// The name of the cookie of a log-in under way, by its `state`.
    pub fn attempt(&self, state: &str) -> String {
        let state: String = state
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(12)
            .collect();
        format!("{}{state}", self.attempts())
    }

    /// The beginning of the names of all log-ins under way.
    pub fn attempts(&self) -> String {
        format!("{}saker-login-{}-", self.prefix, self.tag)
    }

    /// A `Set-Cookie` value. `lifetime_s`: 0 removes the cookie.
    pub fn line(&self, name: &str, value: &str, lifetime_s: u64) -> Vec<u8> {
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; Max-Age={lifetime_s}; HttpOnly; SameSite=Lax{secure}")
            .into_bytes()
    }

    /// The `Set-Cookie` values of a session; `had`: parts of the client's session so far. `None`:
    /// the session is too long.
    pub fn session_lines(&self, value: &str, lifetime_s: u64, had: usize) -> Option<Vec<Vec<u8>>> {
        let parts: Vec<&str> = (0..value.len())
            .step_by(VALUE_BYTES_MAX)
            .filter_map(|from| value.get(from..value.len().min(from + VALUE_BYTES_MAX)))
            .collect();
        if parts.len() > PARTS_MAX {
            return None;
        }
        let set = parts
            .iter()
            .enumerate()
            .map(|(at, part)| self.line(&self.session(at), part, lifetime_s));
        let removed =
            (parts.len()..had.min(PARTS_MAX)).map(|at| self.line(&self.session(at), "", 0));
        Some(set.chain(removed).collect())
    }

    /// The value of a session from its cookies, and how many there were.
    pub fn joined<'c>(&self, cookie: impl Fn(&str) -> Option<&'c [u8]>) -> (Vec<u8>, usize) {
        let (mut value, mut count) = (Vec::new(), 0);
        while count < PARTS_MAX {
            let Some(part) = cookie(&self.session(count)) else {
                break;
            };
            value.extend_from_slice(part);
            count += 1;
        }
        (value, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[Vec<u8>]) -> Vec<String> {
        let lines = lines.iter().map(|line| String::from_utf8_lossy(line));
        lines
            .map(|line| {
                line.split(';').next().unwrap_or_default().len().to_string()
                    + &line[line.find(';').unwrap_or(0)..]
            })
            .collect()
    }

    #[test]
    fn secure_cookies_have_the_prefix() {
        let names = CookieNames::new("https://id.example", "shop", true);
        assert!(names.session(0).starts_with("__Host-saker-session-"));
        let line = String::from_utf8(names.line("n", "v", 60)).unwrap();
        assert_eq!(
            line,
            "n=v; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure"
        );
        let plain = CookieNames::new("https://id.example", "shop", false);
        assert!(plain.session(1).starts_with("saker-session-") && plain.session(1).ends_with(".1"));
        assert!(
            !String::from_utf8(plain.line("n", "v", 0))
                .unwrap()
                .contains("Secure")
        );
        let other = CookieNames::new("https://id.example", "blog", true);
        assert_ne!(other.session(0), names.session(0));
        assert!(names.attempt("a;b=c_-d").ends_with("-abcd"));
    }

    #[test]
    fn long_values_take_several_cookies() {
        let names = CookieNames::new("i", "c", true);
        for (length, had, cookies, removed) in [
            (3800, 0, 1, 0),
            (3801, 0, 2, 0),
            (3800, 3, 1, 2),
            (4 * 3800, 9, 4, 0),
        ] {
            let value = "v".repeat(length);
            let lines = names.session_lines(&value, 60, had).unwrap();
            assert_eq!(lines.len(), cookies + removed, "{:?}", text(&lines));
            let jar: Vec<(String, String)> = lines
                .iter()
                .filter_map(|line| {
                    let line = String::from_utf8_lossy(line).into_owned();
                    let (name, rest) = line.split_once('=')?;
                    let (value, rest) = rest.split_once(';')?;
                    (!rest.contains("Max-Age=0;")).then(|| (name.to_owned(), value.to_owned()))
                })
                .collect();
            let cookie = |name: &str| {
                let found = jar.iter().find(|(known, _)| known == name)?;
                Some(found.1.as_bytes())
            };
            assert_eq!(names.joined(cookie), (value.into_bytes(), cookies));
        }
        assert!(
            names
                .session_lines(&"v".repeat(4 * 3800 + 1), 60, 0)
                .is_none()
        );
    }
}
