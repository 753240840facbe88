//! Paths that a client may be sent back to after a log-in.
//!
//! Called by: `attempt`.
//! Caveat: browsers read `//host`, `/\host`, and these with tabs or line breaks in between as other
//! hosts (WHATWG URL Standard, section 4.4), so a path must not begin like that in any reading.
//! Escaped characters stay escaped in a `Location`, and are part of the path.
//! Out of scope: rights on the path; the request for it is checked like any other.

/// Longest path that is kept; for others it is `/`.
const PATH_BYTES_MAX: usize = 2048;

/// Returns the target of a request, if it is a path of the same host; else `/`.
pub fn local_path(target: &[u8]) -> &str {
    let is_local = target.starts_with(b"/")
        && !target.starts_with(b"//")
        && target.len() <= PATH_BYTES_MAX
        && target
            .iter()
            .all(|byte| byte.is_ascii_graphic() && *byte != b'\\' && *byte != b'#');
    match std::str::from_utf8(target) {
        Ok(path) if is_local => path,
        _ => "/",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_hosts_are_refused() {
        for (target, expected) in [
            ("/", "/"),
            (
                "/a/b?c=d&e=%2F%2Fevil.example",
                "/a/b?c=d&e=%2F%2Fevil.example",
            ),
            ("/%2F/evil.example", "/%2F/evil.example"),
            ("/%5Cevil.example", "/%5Cevil.example"),
            ("/a//b", "/a//b"),
            ("//evil.example", "/"),
            ("///evil.example", "/"),
            ("/\\evil.example", "/"),
            ("/a\\..\\\\evil.example", "/"),
            ("/\t/evil.example", "/"),
            ("/\n/evil.example", "/"),
            ("/a\r\nSet-Cookie: x", "/"),
            ("\\/evil.example", "/"),
            ("https://evil.example/", "/"),
            ("javascript:alert(1)", "/"),
            ("evil", "/"),
            ("", "/"),
            ("*", "/"),
            ("/a b", "/"),
            ("/ä", "/"),
            ("/a#b", "/"),
        ] {
            assert_eq!(local_path(target.as_bytes()), expected, "{target}");
        }
        let long = |length: usize| format!("/{}", "a".repeat(length - 1));
        assert_eq!(local_path(long(2048).as_bytes()), long(2048));
        assert_eq!(local_path(long(2049).as_bytes()), "/");
    }
}
