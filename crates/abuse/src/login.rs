//! Guessing of passwords: attempts that are regained with time, as LiteSpeed's WordPressProtect
//! counts them.
//!
//! Each of the `attempts` in `within_s` seconds is regained after its share of the time, so they
//! never all return at once. The code that sees the response refunds successful ones.
//! Caveat: `system.multicall` of XML-RPC tries many passwords in one request; `xml_rpc` counts them
//! in the body as it streams through.

/// Attempts used by a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Used attempts, in thousandths.
    used: u64,
    at: i64,
}

impl Attempts {
    /// Returns the attempts used at `now`, in thousandths.
    pub fn used(&self, attempts: u32, within_s: u64, now: i64) -> u64 {
        let passed_s = u64::try_from(now.saturating_sub(self.at)).unwrap_or(0);
        self.used
            .saturating_sub(passed_s.saturating_mul(u64::from(attempts) * 1000) / within_s.max(1))
    }

    /// Counts attempts, and returns the number used then. Limited to twice the maximum, so that a
    /// block ends.
    pub fn add(&mut self, count: u32, attempts: u32, within_s: u64, now: i64) -> u64 {
        let most = u64::from(attempts) * 2000;
        self.used = self
            .used(attempts, within_s, now)
            .saturating_add(u64::from(count) * 1000)
            .min(most);
        self.at = self.at.max(now);
        self.used
    }

    /// Counts attempts, and returns the number added, in thousandths: less if the limit is far
    /// exceeded already.
    pub fn charge(&mut self, count: u32, attempts: u32, within_s: u64, now: i64) -> u64 {
        let before = self.used(attempts, within_s, now);
        self.add(count, attempts, within_s, now)
            .saturating_sub(before)
    }

    /// Takes back a charge, in thousandths.
    pub fn give_back(&mut self, charged: u64) {
        self.used = self.used.saturating_sub(charged);
    }
}

/// Names of the scripts that take passwords.
const LOGIN_SCRIPTS: [(&[u8], LoginScript); 2] = [
    (b"wp-login.php", LoginScript::Login),
    (b"xmlrpc.php", LoginScript::XmlRpc),
];

/// `wp-login.php` or `xmlrpc.php` in any folder, whatever follows it: also where only the
/// application behind sees a folder's end (`%2F`, `\`), no difference between letters, or the end
/// of the name.
pub fn login_script(path: &[u8]) -> Option<LoginScript> {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let begins = |before: &[u8]| {
        let is_escape = |escape: &[u8]| {
            before.len() >= 3
                && before
                    .get(before.len() - 3..)
                    .is_some_and(|end| end.eq_ignore_ascii_case(escape))
        };
        !before
            .last()
            .is_some_and(|byte| is_of_name(byte) || *byte == b'.')
            || is_escape(b"%2f")
            || is_escape(b"%5c")
    };
    LOGIN_SCRIPTS.iter().find_map(|(name, door)| {
        let mut places = path
            .windows(name.len())
            .enumerate()
            .filter(|(_, window)| window.eq_ignore_ascii_case(name))
            .map(|(at, _)| at);
        let is_there = |at: usize| {
            begins(path.get(..at).unwrap_or_default())
                && !path.get(at + name.len()).is_some_and(is_of_name)
        };
        places.any(is_there).then_some(*door)
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginScript {
    Login,
    XmlRpc,
}

/// WordPress leads on from the login with a cookie that has something in it.
pub fn is_success<'v>(status: u16, mut cookies: impl Iterator<Item = &'v [u8]>) -> bool {
    let logged_in = |cookie: &[u8]| {
        let Some(rest) = cookie.strip_prefix(b"wordpress_logged_in_") else {
            return false;
        };
        let value = rest
            .split(|byte| *byte == b'=')
            .nth(1)
            .and_then(|rest| rest.split(|byte| *byte == b';').next())
            .unwrap_or_default();
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
        assert_eq!(
            client.used(10, 300, 900),
            10_000,
            "a clock that is set back forgives nothing"
        );
        client.add(u32::MAX, 10, 300, 1000);
        assert_eq!(client.used(10, 300, 1000), 20_000);
        client.give_back(3000);
        assert_eq!(client.used(10, 300, 1000), 17_000);
        assert_eq!(Attempts::default().add(1, u32::MAX, 0, i64::MAX), 1000);
    }

    #[test]
    fn only_what_was_charged_is_given_back() {
        let mut client = Attempts::default();
        client.add(3, 10, 300, 1000);
        let charged = client.charge(u32::MAX, 10, 300, 1000);
        assert_eq!((charged, client.charge(1, 10, 300, 1000)), (17_000, 0));
        client.give_back(charged);
        assert_eq!(
            client.used(10, 300, 1000),
            3000,
            "attempts of before are not forgiven"
        );
    }

    #[test]
    fn doors() {
        assert_eq!(login_script(b"/wp-login.php"), Some(LoginScript::Login));
        assert_eq!(
            login_script(b"/blog/wp-login.php/x"),
            Some(LoginScript::Login)
        );
        assert_eq!(login_script(b"/blog/xmlrpc.php"), Some(LoginScript::XmlRpc));
        for path in [
            "//xmlrpc.php",
            "/XMLRPC.php",
            "/xmlrpc.php/x",
            "/xmlrpc.php;x",
            "/xmlrpc.php%00",
            "/xmlrpc.php%2Fx",
            "/a%2fxmlrpc.php",
            "/a%5Cxmlrpc.php",
            "/a\\xmlrpc.php",
            "xmlrpc.php",
            "/xmlrpc.phpx/xmlrpc.php",
        ] {
            assert_eq!(
                login_script(path.as_bytes()),
                Some(LoginScript::XmlRpc),
                "{path}"
            );
        }
        for path in [
            "/not-wp-login.php",
            "/wp-login.phpx",
            "/wp-login.php-x",
            "/x.xmlrpc.php",
            "/xmlrpc",
            "/xmlrpc_php",
            "",
        ] {
            assert_eq!(login_script(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn successes() {
        let cookies = |value: &'static str| std::iter::once(value.as_bytes());
        assert!(is_success(
            302,
            cookies("wordpress_logged_in_abc=admin%7C1; path=/")
        ));
        assert!(!is_success(
            200,
            cookies("wordpress_logged_in_abc=admin%7C1; path=/")
        ));
        for other in [
            "wordpress_logged_in_abc=%20; path=/",
            "wordpress_logged_in_abc=; path=/",
            "wordpress_test_cookie=WP",
            "wp-postpass_1=x",
        ] {
            assert!(!is_success(302, cookies(other)), "{other}");
        }
    }
}
