//! The list of all setters: which module a directive belongs to.
//!
//! Called by: `read_http`, for each directive of a level.
//! Caveat: a setter sees the settings of its own module alone.

use crate::{
    conf::LocationConf,
    modules::{
        access, autoindex, body, browser, clients, compression, core, filters, gzip_conditions,
        handlers, headers, limits, log, realip, resolver, secure_link, upstream_conf::Gateway,
        upstream_rewrites, upstream_setters,
    },
    reading::{Reading, Setters},
};
use saker_nginx_syntax::Directive;

/// Applies a directive. `None`: no module has a setter for it.
pub fn apply(
    directive: &Directive,
    conf: &mut LocationConf,
    reading: &mut Reading<'_>,
) -> Option<Result<(), String>> {
    let name = directive.name();
    if let Some(setter) = find(upstream_rewrites::SETTERS, name) {
        let proxy = conf.upstreams.of_mut(Gateway::Proxy);
        return Some(setter(directive, &mut proxy.rewrites, reading));
    }
    if name == "keepalive_timeout"
        && let Err(message) = clients::set_keepalive_field(directive, &mut conf.clients)
    {
        return Some(Err(message));
    }
    macro_rules! modules {
        ($($setters:expr, $part:ident;)*) => {
            $(if let Some(setter) = find($setters, name) {
                return Some(setter(directive, &mut conf.$part, reading));
            })*
        };
    }
    modules!(
        core::SETTERS, core;
        access::SETTERS, access;
        autoindex::SETTERS, autoindex;
        body::SETTERS, body;
        browser::SETTERS, browser;
        clients::FLAGS, clients;
        clients::SETTERS, clients;
        compression::SETTERS, compression;
        filters::SETTERS, filters;
        filters::FLAGS, filters;
        gzip_conditions::SETTERS, gzip;
        handlers::SETTERS, handlers;
        headers::SETTERS, headers;
        limits::SETTERS, limits;
        log::SETTERS, log;
        realip::SETTERS, real_ip;
        resolver::SETTERS, resolver;
        secure_link::SETTERS, secure_link;
        upstream_setters::PROXY, upstreams;
        upstream_setters::FASTCGI, upstreams;
        upstream_setters::UWSGI, upstreams;
        upstream_setters::SCGI, upstreams;
        upstream_setters::GRPC, upstreams;
        upstream_setters::MEMCACHED, upstreams;
        upstream_setters::PROXY_CACHE, upstreams;
        upstream_setters::FASTCGI_CACHE, upstreams;
        upstream_setters::UWSGI_CACHE, upstreams;
        upstream_setters::SCGI_CACHE, upstreams;
    );
    None
}

fn find<T>(setters: Setters<T>, name: &str) -> Option<crate::reading::Setter<T>> {
    let found = setters.iter().find(|(known, _)| *known == name)?;
    Some(found.1)
}

/// Iterates over the names of directives with setters.
pub fn names() -> impl Iterator<Item = &'static str> {
    fn of<T>(setters: Setters<T>) -> impl Iterator<Item = &'static str> {
        setters.iter().map(|(name, _)| *name)
    }
    of(core::SETTERS)
        .chain(of(access::SETTERS))
        .chain(of(autoindex::SETTERS))
        .chain(of(body::SETTERS))
        .chain(of(browser::SETTERS))
        .chain(of(clients::FLAGS))
        .chain(of(clients::SETTERS))
        .chain(of(compression::SETTERS))
        .chain(of(filters::SETTERS))
        .chain(of(filters::FLAGS))
        .chain(of(gzip_conditions::SETTERS))
        .chain(of(handlers::SETTERS))
        .chain(of(headers::SETTERS))
        .chain(of(limits::SETTERS))
        .chain(of(log::SETTERS))
        .chain(of(realip::SETTERS))
        .chain(of(resolver::SETTERS))
        .chain(of(secure_link::SETTERS))
        .chain(of(upstream_rewrites::SETTERS))
        .chain(of(upstream_setters::PROXY))
        .chain(of(upstream_setters::FASTCGI))
        .chain(of(upstream_setters::UWSGI))
        .chain(of(upstream_setters::SCGI))
        .chain(of(upstream_setters::GRPC))
        .chain(of(upstream_setters::MEMCACHED))
        .chain(of(upstream_setters::PROXY_CACHE))
        .chain(of(upstream_setters::FASTCGI_CACHE))
        .chain(of(upstream_setters::UWSGI_CACHE))
        .chain(of(upstream_setters::SCGI_CACHE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::tls;
    use saker_nginx_syntax::{Support, rows};

    /// Directives that `load` and `read_http` read themselves.
    const OTHERS: &[&str] = &[
        "break",
        "charset_map",
        "daemon",
        "error_log",
        "events",
        "fastcgi_cache_path",
        "geo",
        "geoip_country",
        "geoip_org",
        "geoip_proxy",
        "geoip_proxy_recursive",
        "hash",
        "http",
        "if",
        "ip_hash",
        "keepalive",
        "keepalive_requests",
        "keepalive_time",
        "keepalive_timeout",
        "least_conn",
        "limit_conn_zone",
        "limit_except",
        "limit_req_zone",
        "listen",
        "load_module",
        "location",
        "log_format",
        "map",
        "pid",
        "proxy_cache_path",
        "random",
        "return",
        "rewrite",
        "scgi_cache_path",
        "server",
        "server_name",
        "set",
        "split_clients",
        "sticky",
        "upstream",
        "use",
        "user",
        "uwsgi_cache_path",
        "worker_connections",
        "worker_cpu_affinity",
        "worker_priority",
        "worker_processes",
        "worker_rlimit_core",
        "worker_rlimit_nofile",
        "worker_rlimit_sigpending",
        "worker_shutdown_timeout",
        "working_directory",
    ];
    /// Directives that `stream` reads itself, with a name that `http` does not have.
    const STREAM: &[&str] = &[
        "pass",
        "preread_buffer_size",
        "preread_timeout",
        "proxy_download_rate",
        "proxy_half_close",
        "proxy_protocol",
        "proxy_protocol_timeout",
        "proxy_requests",
        "proxy_responses",
        "proxy_ssl",
        "proxy_timeout",
        "proxy_upload_rate",
        "stream",
    ];

    #[test]
    fn honored_directives_have_setters_and_setters_have_rows() {
        for row in rows().filter(|row| row.support == Support::Honored) {
            let is_known = names().any(|name| name == row.name)
                || OTHERS.contains(&row.name)
                || STREAM.contains(&row.name)
                || tls::is_tls(row.name);
            assert!(is_known, "{} is honored and nothing reads it", row.name);
        }
        for name in names() {
            let mut all = rows().filter(|row| row.name == name);
            let is_honored = all.any(|row| row.support.is_honored());
            assert!(is_honored, "{name} has a setter and no honored row");
        }
    }
}
