//! ngx_http_core_module: connections of clients, their programs' peculiarities, and lines of the
//! error log; and other settings of a single word.
//!
//! Called by: `load`.
//! Caveat: `keepalive_requests` and `keepalive_timeout` of `http` are limits of the listeners; those
//! of inner levels are applied with each response.
//! Out of scope: their effects (`saker-nginx`).

use crate::{
    inherit::{flags, inherit},
    reading::{Reading, Setters},
    text::Text,
    values::{invalid, size_argument, time_argument, time_ms},
};
use saker_nginx_syntax::Directive;
use saker_telemetry::message::Level;
use std::sync::Arc;

/// Programs that get no persistent connections (`keepalive_disable`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAliveDisabled {
    /// Old versions of Internet Explorer, after a POST.
    pub msie6: bool,
    /// Safari and its kin on macOS.
    pub safari: bool,
}

/// Settings of the directives.
#[derive(Clone, Debug, Default)]
pub struct ClientsConf {
    pub chunks: Option<bool>,
    pub keepalive_disabled: Option<KeepAliveDisabled>,
    pub keepalive_age_ms: Option<u64>,
    /// `keepalive_timeout`: the second parameter, in seconds.
    pub keepalive_field_s: Option<Option<u64>>,
    pub msie_padding: Option<bool>,
    pub msie_refresh: Option<bool>,
    pub log_not_found: Option<bool>,
    pub rewrite_log: Option<bool>,
    pub warns_of_unset: Option<bool>,
    pub early_hints: Option<Arc<[Text]>>,
    pub ignores_invalid_fields: Option<bool>,
    pub merges_slashes: Option<bool>,
    pub subrequest_bytes: Option<u64>,
    pub varies: Option<bool>,
    pub limit_req_level: Option<Level>,
    pub limit_conn_level: Option<Level>,
}

impl ClientsConf {
    pub fn inherit(&mut self, outer: &ClientsConf) {
        inherit!(self, outer:
            chunks keepalive_disabled keepalive_age_ms keepalive_field_s msie_padding msie_refresh
            log_not_found rewrite_log warns_of_unset early_hints
            ignores_invalid_fields merges_slashes subrequest_bytes varies limit_req_level
            limit_conn_level
        );
    }
}

pub const FLAGS: Setters<ClientsConf> = flags!(
    "chunked_transfer_encoding" chunks
    "msie_padding" msie_padding
    "msie_refresh" msie_refresh
    "log_not_found" log_not_found
    "rewrite_log" rewrite_log
    "uninitialized_variable_warn" warns_of_unset
    "ignore_invalid_headers" ignores_invalid_fields
    "merge_slashes" merges_slashes
    "gzip_vary" varies
);

pub const SETTERS: Setters<ClientsConf> = &[
    ("keepalive_disable", |d, conf, _| {
        let mut disabled = KeepAliveDisabled {
            msie6: false,
            safari: false,
        };
        for word in d.texts() {
            match word {
                "none" => {}
                "msie6" => disabled.msie6 = true,
                "safari" => disabled.safari = true,
                other => return Err(invalid(other)),
            }
        }
        conf.keepalive_disabled = Some(disabled);
        Ok(())
    }),
    ("keepalive_time", |d, conf, _| {
        conf.keepalive_age_ms = Some(time_argument(d)?);
        Ok(())
    }),
    ("early_hints", |d, conf, reading| {
        conf.early_hints = Some(conditions(d, reading)?);
        Ok(())
    }),
    ("subrequest_output_buffer_size", |d, conf, _| {
        conf.subrequest_bytes = Some(size_argument(d)?);
        Ok(())
    }),
    ("limit_req_log_level", |d, conf, _| {
        conf.limit_req_level = Some(level(d)?);
        Ok(())
    }),
    ("limit_conn_log_level", |d, conf, _| {
        conf.limit_conn_level = Some(level(d)?);
        Ok(())
    }),
];

/// Reads the second parameter of `keepalive_timeout`.
///
/// # Errors
/// nginx's message.
pub fn set_keepalive_field(directive: &Directive, conf: &mut ClientsConf) -> Result<(), String> {
    let text = directive.argument(1);
    conf.keepalive_field_s = Some(match text {
        "" => None,
        text => {
            let ms = time_ms(text).ok_or_else(|| invalid(text))?;
            Some(ms / 1000).filter(|seconds| *seconds > 0)
        }
    });
    Ok(())
}

fn conditions(directive: &Directive, reading: &mut Reading<'_>) -> Result<Arc<[Text]>, String> {
    directive.texts().map(|text| reading.text(text)).collect()
}

fn level(directive: &Directive) -> Result<Level, String> {
    Ok(match directive.argument(0) {
        "info" => Level::Info,
        "notice" => Level::Notice,
        "warn" => Level::Warn,
        "error" => Level::Error,
        other => return Err(invalid(other)),
    })
}
