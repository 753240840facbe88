//! Host and authority (RFC 9110 section 7.2; RFC 3986 section 3.2).

/// `host[:port]`, checked. No user information, no empty host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// As sent: a name, an IPv4 address, or an IPv6 address in brackets.
    pub host: &'a [u8],
    pub port: Option<u16>,
}

/// `None` where the text is not a valid authority (bad bytes, port over 65535 or not digits, unclosed bracket, user info…).
/// An empty port (`host:`) is as none. Underscores are let through: they are in use.
pub fn parse_authority(_text: &[u8]) -> Option<Authority<'_>> {
    unimplemented!()
}

/// The host in lower case, without one trailing dot, for comparison with a site's names.
pub fn canonical_host(_host: &[u8]) -> Vec<u8> {
    unimplemented!()
}
