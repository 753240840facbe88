//! Directives that are not converted, and what is said about them.
//!
//! Called by: `convert` and its parts.
//! Caveat: what closes something is an error; what only changes something is a warning.

use crate::{Report, tree::Directive};

/// Returns true for settings whose effect Saker has without being told, and for those that say in
/// words what holds without them.
pub fn is_implied(directive: &Directive) -> bool {
    matches!(
        (directive.name(), directive.argument(0)),
        ("satisfy", "all") | ("auth_request" | "auth_jwt" | "ssl_reject_handshake", "off")
    ) || is_of_fields(directive.name()) && directive.argument(0) == "on"
        || is_implied_name(directive.name())
}

/// Directives that say whether upstreams get the fields of clients.
fn is_of_fields(name: &str) -> bool {
    name.ends_with("_pass_request_headers")
}

/// The same for settings by name alone.
pub fn is_implied_name(name: &str) -> bool {
    matches!(
        name,
        "sendfile"
            | "tcp_nopush"
            | "tcp_nodelay"
            | "types_hash_max_size"
            | "server_names_hash_bucket_size"
            | "server_names_hash_max_size"
            | "gzip"
            | "gzip_vary"
            | "gzip_types"
            | "gzip_proxied"
            | "gzip_comp_level"
            | "gzip_buffers"
            | "gzip_http_version"
            | "gzip_min_length"
            | "gzip_disable"
            | "gzip_static"
            | "open_file_cache"
            | "open_file_cache_valid"
            | "open_file_cache_min_uses"
            | "open_file_cache_errors"
            | "server_tokens"
            | "http2"
            | "proxy_http_version"
            | "proxy_buffering"
            | "ssl_protocols"
            | "ssl_prefer_server_ciphers"
            | "ssl_ciphers"
            | "ssl_session_cache"
            | "ssl_session_timeout"
            | "ssl_session_tickets"
            | "ssl_dhparam"
    )
}

/// Reports a directive that has no counterpart here.
pub fn left_out(directive: &Directive, report: &mut Report) {
    let message = format!("`{}` is not converted", directive.name());
    let help = "see docs/coming-from-nginx.md, or run the configuration with `saker run --nginx`";
    warn_once(directive, message, Some(help), report);
}

/// Warns of a directive. Settings of a server are read for each of its locations.
pub fn warn_once(directive: &Directive, message: String, help: Option<&str>, report: &mut Report) {
    let origin = directive.origin();
    let mut known = report.diagnostics.iter();
    if !known.any(|known| known.message == message && known.origin == origin) {
        report.warn(directive, message, help.map(str::to_owned));
    }
}

/// Returns true for directives that refuse requests, or keep fields of clients from applications, and
/// have no counterpart here.
pub fn closes(directive: &Directive) -> bool {
    let is_closing = matches!(
        directive.name(),
        "if" | "auth_request"
            | "auth_jwt"
            | "satisfy"
            | "limit_except"
            | "valid_referers"
            | "secure_link"
            | "secure_link_md5"
            | "secure_link_secret"
            | "ssl_crl"
            | "ssl_reject_handshake"
    );
    (is_closing || is_of_fields(directive.name())) && !is_implied(directive)
}

/// Returns true for handlers of locations that have no counterpart here: without them, files would
/// be served that never were.
pub fn answers(name: &str) -> bool {
    matches!(
        name,
        "memcached_pass"
            | "perl"
            | "js_content"
            | "stub_status"
            | "empty_gif"
            | "api"
            | "upstream_conf"
            | "status"
            | "f4f"
            | "hls"
    )
}

/// Reports a directive that closes something: the result denies instead.
pub fn closed(directive: &Directive, report: &mut Report) {
    let message = format!(
        "`{}` is not converted: the result denies what it is about",
        directive.name()
    );
    let help = "write the rule by hand (docs/routes.md), and remove `deny = true`";
    report.error(directive, message, Some(help.to_owned()));
}
