//! URLs that requests are passed on to: the server's part and the path, and the path as Apache
//! writes it.
//!
//! Difficulty: the path came decoded and is encoded anew, but by mod_proxy's own list of
//! characters, which is not that of redirects.

/// Scheme, socket and authority, and what follows them from its slash on; empty where nothing does.
pub fn split(url: &[u8]) -> Option<(&[u8], &[u8])> {
    let bar = if url.get(..5)?.eq_ignore_ascii_case(b"unix:") {
        url.iter().position(|byte| *byte == b'|')? + 1
    } else {
        0
    };
    let rest = url.get(bar..)?;
    let colon = rest
        .iter()
        .position(|byte| *byte == b':')
        .filter(|colon| *colon > 0)?;
    if !rest.get(..colon)?.iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    let authority = match rest.get(colon + 1..)?.starts_with(b"//") {
        true => bar + colon + 3,
        // Behind a socket the host may be left out.
        false if bar > 0 => bar + colon + 1,
        false => return None,
    };
    let behind = url.get(authority..)?;
    let end = authority
        + behind
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?'))
            .unwrap_or(behind.len());
    Some(url.split_at(end))
}

/// As `ap_proxy_canonenc` with `enc_path`: everything that is not in Apache's list is encoded,
/// percent signs among it. `keeps_slashes`: `%2F` stays as it is (AllowEncodedSlashes NoDecode).
pub fn encode(path: &[u8], keeps_slashes: bool) -> Vec<u8> {
    const ALLOWED: &[u8] = b"~$-_.+!*'(),;:@&=/";
    let mut out = Vec::with_capacity(path.len() + 16);
    for (at, byte) in path.iter().enumerate() {
        let is_slash = || {
            keeps_slashes
                && path
                    .get(at + 1..at + 3)
                    .is_some_and(|digits| digits.eq_ignore_ascii_case(b"2f"))
        };
        match byte {
            b'%' if is_slash() => out.push(b'%'),
            byte if byte.is_ascii_alphanumeric() || ALLOWED.contains(byte) => out.push(*byte),
            byte => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    out
}

/// Returns whether a text may stand in a request line as it is.
pub fn is_clean(text: &[u8]) -> bool {
    text.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
}

/// The part of a balancer's URL that it is known by.
pub fn balancer_name(url: &str) -> Option<Box<str>> {
    let (head, _) = split(url.as_bytes())?;
    let head = std::str::from_utf8(head).ok()?.to_ascii_lowercase();
    head.strip_prefix("balancer://")
        .filter(|name| !name.is_empty())?;
    Some(head.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_path() {
        for (url, expected) in [
            ("http://a:1/b/c", Some(("http://a:1", "/b/c"))),
            ("http://a", Some(("http://a", ""))),
            ("http://a?x=/", Some(("http://a", "?x=/"))),
            (
                "unix:/run/a.sock|fcgi://x/var/www/",
                Some(("unix:/run/a.sock|fcgi://x", "/var/www/")),
            ),
            (
                "unix:/run/a.sock|http:",
                Some(("unix:/run/a.sock|http:", "")),
            ),
            (
                "unix:/run/a.sock|http:/b",
                Some(("unix:/run/a.sock|http:", "/b")),
            ),
            (
                "unix:/run/a.sock|http:?b",
                Some(("unix:/run/a.sock|http:", "?b")),
            ),
            (
                "unix:/run/a.sock|http:///b",
                Some(("unix:/run/a.sock|http://", "/b")),
            ),
            ("http:/b", None),
            ("balancer://b//c", Some(("balancer://b", "//c"))),
            ("unix:/run/a.sock", None),
            ("/a/http://b", None),
            ("://a", None),
            ("a", None),
        ] {
            let found = split(url.as_bytes());
            assert_eq!(
                found,
                expected.map(|(head, path)| (head.as_bytes(), path.as_bytes())),
                "{url}"
            );
        }
    }

    #[test]
    fn paths_are_encoded_as_apache_does() {
        for (path, keeps, expected) in [
            ("/a b", false, "/a%20b"),
            ("/a?b#c", false, "/a%3Fb%23c"),
            ("/~x;y=1,(2)", false, "/~x;y=1,(2)"),
            ("/a%2fb", false, "/a%252fb"),
            ("/a%2fb%20", true, "/a%2fb%2520"),
            ("/ä[1]", false, "/%C3%A4%5B1%5D"),
        ] {
            assert_eq!(
                encode(path.as_bytes(), keeps),
                expected.as_bytes(),
                "{path}"
            );
        }
        assert!(is_clean(b"/a") && !is_clean(b"/a b") && !is_clean(b"/\n"));
    }
}
