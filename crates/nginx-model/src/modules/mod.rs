//! Modules: settings, inheritance, and setters; one file each.
//!
//! Called by: `load`.
//! Caveat: a setter sees the settings of its level alone; outer levels are merged in later.

pub mod access;
pub mod autoindex;
pub mod compression;
pub mod core;
pub mod headers;
pub mod limits;
pub mod listen;
pub mod log;
pub mod maps;
pub mod realip;
pub mod rewrite;
pub mod secure_link;
pub mod tls;
pub mod upstream;
pub mod upstream_conf;
pub mod upstream_setters;

use crate::reading::{Setter, Setters};

/// Setters of settings of levels, by module.
pub const SETTERS: &[Setters] = &[
    core::SETTERS,
    access::SETTERS,
    autoindex::SETTERS,
    compression::SETTERS,
    headers::SETTERS,
    limits::SETTERS,
    log::SETTERS,
    secure_link::SETTERS,
    upstream_setters::PROXY,
    upstream_setters::FASTCGI,
    upstream_setters::UWSGI,
    upstream_setters::SCGI,
    upstream_setters::GRPC,
];

/// Returns the setter of a directive.
pub fn setter(name: &str) -> Option<Setter> {
    let mut all = SETTERS.iter().flat_map(|setters| setters.iter());
    all.find(|(known, _)| *known == name)
        .map(|(_, setter)| *setter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_nginx_syntax::{Support, rows};

    /// Directives that `load` and `read_http` read themselves.
    const OTHERS: &[&str] = &[
        "break",
        "daemon",
        "error_log",
        "events",
        "geo",
        "hash",
        "http",
        "if",
        "ip_hash",
        "keepalive",
        "keepalive_timeout",
        "least_conn",
        "limit_conn_zone",
        "limit_except",
        "limit_req_zone",
        "listen",
        "location",
        "log_format",
        "map",
        "pid",
        "random",
        "real_ip_header",
        "real_ip_recursive",
        "return",
        "rewrite",
        "server",
        "server_name",
        "set",
        "set_real_ip_from",
        "split_clients",
        "upstream",
        "user",
        "worker_connections",
        "worker_processes",
        "worker_shutdown_timeout",
    ];

    #[test]
    fn honored_directives_have_setters_and_setters_have_rows() {
        for row in rows().filter(|row| row.support == Support::Honored) {
            let is_known =
                setter(row.name).is_some() || OTHERS.contains(&row.name) || tls::is_tls(row.name);
            assert!(is_known, "{} is honored and nothing reads it", row.name);
        }
        for (name, _) in SETTERS.iter().flat_map(|setters| setters.iter()) {
            let mut all = rows().filter(|row| row.name == *name);
            let is_honored = all.any(|row| row.support == Support::Honored);
            assert!(is_honored, "{name} has a setter and no honored row");
        }
    }
}
