//! Conditions of a measurement: content, protocol, feature, congestion control.
//!
//! Called by: rows, and whatever starts a server for one.
//! Caveat: every server has to be able to serve a site, or it is left out of its rows.
//! Out of scope: the load (`tool`), and the machine (`test_env`).

use std::fmt;

/// Congestion control. Comparisons of HTTP/3 with TCP use the one that Linux offers to a network
/// namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Each server's default.
    Usual,
    Reno,
    Bbr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http1OverTls,
    Http2OverTls,
    Http3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    AccessLog,
    Throttle,
    /// `AllowOverride All` with an access rule in the file's folder, against `AllowOverride None`.
    Htaccess,
    /// The same with 20 rewrite rules.
    RewriteRules,
}

/// Content that is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Site {
    #[default]
    Files,
    /// A blog's paths, by its `.htaccess` against nginx's `try_files`.
    Permalinks,
    /// The same php-fpm behind all; what it costs itself is not counted.
    Php,
    /// The same server behind all.
    Proxy,
    /// The same, and its pages are kept.
    Cached,
    /// The same by clients that take gzip.
    CachedGzip,
    /// A kept page, and files.
    Shop,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::AccessLog => "access log",
            Feature::Throttle => "throttle",
            Feature::Htaccess => ".htaccess",
            Feature::RewriteRules => "rewrite rules",
        })
    }
}
