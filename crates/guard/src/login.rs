//! Guessing of passwords: attempts that are regained with time, as LiteSpeed's WordPressProtect counts them.
//!
//! Of `attempts` in `within_s` seconds each is regained after its share of the time, so there is no moment at which all are. Those that go
//! through are given back by whoever sees the answer.
//! Difficulty: `system.multicall` of XML-RPC tries many passwords in one request; [`Calls`] counts them in the body as it passes by.

/// What a client has used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// In thousandths.
    used: u64,
    at: i64,
}

impl Attempts {
    /// What is used at `now`, in thousandths.
    pub fn used(&self, attempts: u32, within_s: u64, now: i64) -> u64 {
        let passed_s = u64::try_from(now.saturating_sub(self.at)).unwrap_or(0);
        self.used.saturating_sub(passed_s.saturating_mul(u64::from(attempts) * 1000) / within_s.max(1))
    }

    /// Counts some, and returns what is used then. Never much more than the limit, so that an end comes.
    pub fn add(&mut self, count: u32, attempts: u32, within_s: u64, now: i64) -> u64 {
        let most = u64::from(attempts) * 2000;
        self.used = self.used(attempts, within_s, now).saturating_add(u64::from(count) * 1000).min(most);
        self.at = self.at.max(now);
        self.used
    }

    pub fn give_back(&mut self, count: u32) {
        self.used = self.used.saturating_sub(u64::from(count) * 1000);
    }
}

/// Counts what a body of XML-RPC calls, piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    matched: usize,
    found: u32,
}

/// A call has it once, each call inside of a `system.multicall` once more, as the name of a member.
const METHOD_NAME: &[u8] = b"methodName";

impl Calls {
    pub fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            // Its letters but the first don't begin it again, so what has failed can only begin anew.
            self.matched = match METHOD_NAME.get(self.matched) {
                Some(next) if next == byte => self.matched + 1,
                _ => usize::from(METHOD_NAME.first() == Some(byte)),
            };
            if self.matched == METHOD_NAME.len() {
                (self.matched, self.found) = (0, self.found.saturating_add(1));
            }
        }
    }

    /// Passwords that may have been tried; at least one. The outer call has the word in two tags, each inner one once.
    pub fn count(&self) -> u32 {
        self.found.saturating_sub(2).max(1)
    }
}

/// `wp-login.php` or `xmlrpc.php` in any folder, whatever follows it.
pub fn door(path: &[u8]) -> Option<Door> {
    path.split(|byte| *byte == b'/').find_map(|name| match name {
        b"wp-login.php" => Some(Door::Login),
        b"xmlrpc.php" => Some(Door::XmlRpc),
        _ => None,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Login,
    XmlRpc,
}

/// WordPress leads on from the login with a cookie that has something in it.
pub fn is_success<'v>(status: u16, mut cookies: impl Iterator<Item = &'v [u8]>) -> bool {
    let logged_in = |cookie: &[u8]| {
        let Some(rest) = cookie.strip_prefix(b"wordpress_logged_in_") else { return false };
        let value = rest.split(|byte| *byte == b'=').nth(1).and_then(|rest| rest.split(|byte| *byte == b';').next()).unwrap_or_default();
        !matches!(value.trim_ascii(), b"" | b"+" | b"%20" | b"deleted")
    };
    matches!(status, 302 | 303) && cookies.any(logged_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_regained_one_by_one() {
        let mut client = Attempts::default();
        for number in 1..=10 {
            assert_eq!(client.add(1, 10, 300, 1000), number * 1000);
        }
        assert_eq!(client.used(10, 300, 1029), 10_000 - 966);
        assert_eq!(client.used(10, 300, 1030), 9000);
        assert_eq!(client.used(10, 300, 1300), 0);
        assert_eq!(client.used(10, 300, 900), 10_000, "a clock that is set back forgives nothing");
        client.add(u32::MAX, 10, 300, 1000);
        assert_eq!(client.used(10, 300, 1000), 20_000);
        client.give_back(3);
        assert_eq!(client.used(10, 300, 1000), 17_000);
        assert_eq!(Attempts::default().add(1, u32::MAX, 0, i64::MAX), 1000);
    }

    #[test]
    fn calls_are_counted_wherever_the_body_is_cut() {
        let call = "<methodCall><methodName>wp.getUsersBlogs</methodName></methodCall>";
        let inner = "<member><name>methodName</name><value><string>wp.getUsersBlogs</string></value></member>";
        let many = format!("<methodCall><methodName>system.multicall</methodName>{}</methodCall>", inner.repeat(500));
        for (text, count) in [("", 1), (call, 1), (many.as_str(), 500), ("methodmethodName".repeat(5).as_str(), 3)] {
            for size in [1, 3, 7, 64, 100_000] {
                let mut calls = Calls::default();
                text.as_bytes().chunks(size).for_each(|piece| calls.read(piece));
                assert_eq!(calls.count(), count);
            }
        }
    }

    #[test]
    fn doors() {
        assert_eq!(door(b"/wp-login.php"), Some(Door::Login));
        assert_eq!(door(b"/blog/wp-login.php/x"), Some(Door::Login));
        assert_eq!(door(b"/blog/xmlrpc.php"), Some(Door::XmlRpc));
        assert_eq!(door(b"/not-wp-login.php"), None);
    }

    #[test]
    fn successes() {
        let cookies = |value: &'static str| std::iter::once(value.as_bytes());
        assert!(is_success(302, cookies("wordpress_logged_in_abc=admin%7C1; path=/")));
        assert!(!is_success(200, cookies("wordpress_logged_in_abc=admin%7C1; path=/")));
        for other in
            ["wordpress_logged_in_abc=%20; path=/", "wordpress_logged_in_abc=; path=/", "wordpress_test_cookie=WP", "wp-postpass_1=x"]
        {
            assert!(!is_success(302, cookies(other)), "{other}");
        }
    }
}
