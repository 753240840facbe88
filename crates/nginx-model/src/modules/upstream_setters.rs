//! Setters of the modules for upstreams.
//!
//! Called by: `load`, through the list of all setters.

use crate::{
    modules::{
        cache, tls,
        upstream_conf::{
            Gateway, HttpVersion, LocalAddress, Param, Pass, Store, UpstreamConf, UpstreamsConf,
        },
    },
    reading::{Reading, Setters},
    text::{Part, Text},
    values::{
        Regex, access_mode, flag, invalid, number_argument, size, size_argument, time_argument,
    },
    variables::{Builtin, Variable},
};
use saker_nginx_syntax::Directive;
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

fn own(conf: &mut UpstreamsConf, gateway: Gateway) -> &mut UpstreamConf {
    conf.of_mut(gateway)
}

/// Setters that all kinds have, and further ones.
macro_rules! setters {
    ($prefix:literal $gateway:ident; $($more:expr),* $(,)?) => {
        &[
            (concat!($prefix, "_pass"), |d, conf, reading| {
                pass(d, conf, reading, Gateway::$gateway)
            }),
            (concat!($prefix, "_connect_timeout"), |d, conf, _| {
                own(conf, Gateway::$gateway).connect_timeout_ms = Some(time_argument(d)?);
                Ok(())
            }),
            (concat!($prefix, "_read_timeout"), |d, conf, _| {
                own(conf, Gateway::$gateway).read_timeout_ms = Some(time_argument(d)?);
                Ok(())
            }),
            (concat!($prefix, "_send_timeout"), |d, conf, _| {
                own(conf, Gateway::$gateway).send_timeout_ms = Some(time_argument(d)?);
                Ok(())
            }),
            (concat!($prefix, "_next_upstream_timeout"), |d, conf, _| {
                own(conf, Gateway::$gateway).next_timeout_ms = Some(time_argument(d)?);
                Ok(())
            }),
            (concat!($prefix, "_buffer_size"), |d, conf, _| {
                own(conf, Gateway::$gateway).head_bytes = Some(size_argument(d)?);
                Ok(())
            }),
            (concat!($prefix, "_socket_keepalive"), |d, conf, _| {
                own(conf, Gateway::$gateway).keeps_alive = Some(flag(d)?);
                Ok(())
            }),
            (concat!($prefix, "_bind"), |d, conf, reading| {
                own(conf, Gateway::$gateway).local = Some(local_address(d, reading)?);
                Ok(())
            }),
            (concat!($prefix, "_hide_header"), |d, conf, _| {
                add_words(&mut own(conf, Gateway::$gateway).hidden, d);
                Ok(())
            }),
            (concat!($prefix, "_pass_header"), |d, conf, _| {
                add_words(&mut own(conf, Gateway::$gateway).passed, d);
                Ok(())
            }),
            (concat!($prefix, "_ignore_headers"), |d, conf, _| {
                add_words(&mut own(conf, Gateway::$gateway).ignored, d);
                Ok(())
            }),
            (concat!($prefix, "_intercept_errors"), |d, conf, _| {
                own(conf, Gateway::$gateway).intercepts_errors = Some(flag(d)?);
                Ok(())
            }),
            (concat!($prefix, "_next_upstream"), |d, conf, _| {
                add_words(&mut own(conf, Gateway::$gateway).next, d);
                Ok(())
            }),
            (concat!($prefix, "_next_upstream_tries"), |d, conf, _| {
                own(conf, Gateway::$gateway).tries_max = Some(number_argument(d)?);
                Ok(())
            }),
            $($more),*
        ]
    };
}

/// Setters of kinds whose responses can be cached.
macro_rules! cache_setters {
    ($prefix:literal $gateway:ident) => {
        &[
            (concat!($prefix, "_cache"), |d, conf, reading| {
                cache::set_zone(d, &mut own(conf, Gateway::$gateway).cache, reading)
            }),
            (concat!($prefix, "_buffers"), |d, conf, _| {
                let number = number_argument(d)?;
                let bytes = size(d.argument(1)).ok_or_else(|| invalid(d.argument(1)))?;
                own(conf, Gateway::$gateway).buffers = Some((number, bytes));
                Ok(())
            }),
            (concat!($prefix, "_max_temp_file_size"), |d, conf, _| {
                own(conf, Gateway::$gateway).disk_bytes = Some(size_argument(d)?);
                Ok(())
            }),
            (concat!($prefix, "_cache_key"), |d, conf, reading| {
                own(conf, Gateway::$gateway).cache.key = Some(reading.text(d.argument(0))?);
                Ok(())
            }),
            (concat!($prefix, "_cache_valid"), |d, conf, _| {
                cache::set_valid(d, &mut own(conf, Gateway::$gateway).cache)
            }),
            (concat!($prefix, "_cache_bypass"), |d, conf, reading| {
                let conf = own(conf, Gateway::$gateway);
                cache::conditions(d, &mut conf.cache.bypass, reading)
            }),
            (concat!($prefix, "_no_cache"), |d, conf, reading| {
                let conf = own(conf, Gateway::$gateway);
                cache::conditions(d, &mut conf.cache.no_cache, reading)
            }),
            (concat!($prefix, "_cache_use_stale"), |d, conf, _| {
                let words = cache::words(d, &cache::STALE_WORDS)?;
                own(conf, Gateway::$gateway).cache.use_stale = Some(words);
                Ok(())
            }),
            (concat!($prefix, "_cache_methods"), |d, conf, _| {
                own(conf, Gateway::$gateway).cache.caches_post = Some(cache::caches_post(d)?);
                Ok(())
            }),
            (concat!($prefix, "_cache_lock"), |d, conf, _| {
                own(conf, Gateway::$gateway).cache.locks = Some(flag(d)?);
                Ok(())
            }),
            (concat!($prefix, "_cache_lock_timeout"), |d, conf, _| {
                own(conf, Gateway::$gateway).cache.lock_timeout_ms = Some(time_argument(d)?);
                Ok(())
            }),
            (concat!($prefix, "_cache_lock_age"), |d, conf, _| {
                own(conf, Gateway::$gateway).cache.lock_age_ms = Some(time_argument(d)?);
                Ok(())
            }),
            (concat!($prefix, "_cache_revalidate"), |d, conf, _| {
                own(conf, Gateway::$gateway).cache.revalidates = Some(flag(d)?);
                Ok(())
            }),
            (
                concat!($prefix, "_cache_background_update"),
                |d, conf, _| {
                    own(conf, Gateway::$gateway).cache.updates_in_background = Some(flag(d)?);
                    Ok(())
                },
            ),
            (concat!($prefix, "_cache_max_range_offset"), |d, conf, _| {
                own(conf, Gateway::$gateway).cache.range_offset_max = Some(size_argument(d)?);
                Ok(())
            }),
            (concat!($prefix, "_cache_min_uses"), |d, conf, _| {
                own(conf, Gateway::$gateway).cache.uses_min = Some(number_argument(d)?);
                Ok(())
            }),
        ]
    };
}

pub const PROXY_CACHE: Setters<UpstreamsConf> = cache_setters!("proxy" Proxy);
pub const FASTCGI_CACHE: Setters<UpstreamsConf> = cache_setters!("fastcgi" FastCgi);
pub const UWSGI_CACHE: Setters<UpstreamsConf> = cache_setters!("uwsgi" Uwsgi);
pub const SCGI_CACHE: Setters<UpstreamsConf> = cache_setters!("scgi" Scgi);

macro_rules! flag_setter {
    ($name:expr, $gateway:ident $field:ident) => {
        ($name, |d, conf, _| {
            own(conf, Gateway::$gateway).$field = Some(flag(d)?);
            Ok(())
        })
    };
}

macro_rules! word_setter {
    ($name:expr, $gateway:ident $field:ident) => {
        ($name, |d, conf, _| {
            own(conf, Gateway::$gateway).$field = Some(d.argument(0).into());
            Ok(())
        })
    };
}

macro_rules! text_setter {
    ($name:expr, $gateway:ident $field:ident) => {
        ($name, |d, conf, reading| {
            own(conf, Gateway::$gateway).$field = Some(reading.text(d.argument(0))?);
            Ok(())
        })
    };
}

macro_rules! protocols_setter {
    ($name:expr, $gateway:ident) => {
        ($name, |d, conf, _| {
            let words = d.texts().map(Into::into).collect();
            own(conf, Gateway::$gateway).tls_protocols = Some(words);
            Ok(())
        })
    };
}

macro_rules! request_setter {
    ($name:expr, $gateway:ident $field:ident) => {
        ($name, |d, conf, reading| {
            own(conf, Gateway::$gateway).request.$field = Some(reading.text(d.argument(0))?);
            Ok(())
        })
    };
}

macro_rules! passing_setter {
    ($name:expr, $gateway:ident $field:ident) => {
        ($name, |d, conf, _| {
            own(conf, Gateway::$gateway).request.$field = Some(flag(d)?);
            Ok(())
        })
    };
}

macro_rules! param_setter {
    ($name:expr, $gateway:ident) => {
        ($name, |d, conf, reading| {
            param(d, conf, reading, Gateway::$gateway)
        })
    };
}

macro_rules! depth_setter {
    ($name:expr, $gateway:ident) => {
        ($name, |d, conf, _| {
            let depth = u32::try_from(number_argument(d)?);
            let depth = depth.map_err(|_| invalid(d.argument(0)))?;
            own(conf, Gateway::$gateway).tls_depth = Some(depth);
            Ok(())
        })
    };
}

pub const PROXY: Setters<UpstreamsConf> = setters!("proxy" Proxy;
    ("proxy_cache_convert_head", |d, conf, _| {
        own(conf, Gateway::Proxy).cache.converts_head = Some(flag(d)?);
        Ok(())
    }),
    flag_setter!("proxy_buffering", Proxy is_buffered),
    flag_setter!("proxy_ignore_client_abort", Proxy outlives_client),
    flag_setter!("proxy_request_buffering", Proxy buffers_request),
    flag_setter!("proxy_ssl_verify", Proxy tls_verifies),
    depth_setter!("proxy_ssl_verify_depth", Proxy),
    flag_setter!("proxy_ssl_server_name", Proxy tls_sends_name),
    flag_setter!("proxy_ssl_session_reuse", Proxy tls_resumes),
    text_setter!("proxy_ssl_certificate", Proxy tls_certificate),
    text_setter!("proxy_ssl_certificate_key", Proxy tls_key),
    word_setter!("proxy_ssl_trusted_certificate", Proxy tls_authorities),
    text_setter!("proxy_ssl_name", Proxy tls_name),
    param_setter!("proxy_set_header", Proxy),
    word_setter!("proxy_ssl_crl", Proxy tls_revoked),
    protocols_setter!("proxy_ssl_protocols", Proxy),
    word_setter!("proxy_ssl_ciphers", Proxy tls_ciphers),
    word_setter!("proxy_ssl_password_file", Proxy tls_passphrases),
    ("proxy_ssl_conf_command", |d, conf, reading| {
        command(d, conf.of_mut(Gateway::Proxy), reading)
    }),
    request_setter!("proxy_method", Proxy method),
    ("proxy_http_version", |d, conf, _| {
        own(conf, Gateway::Proxy).version = Some(match d.argument(0) {
            "1.0" => HttpVersion::Http10,
            "1.1" => HttpVersion::Http11,
            "2" => HttpVersion::Http2,
            other => return Err(invalid(other)),
        });
        Ok(())
    }),
    ("proxy_set_body", |d, conf, reading| {
        conf.of_mut(Gateway::Proxy).request.content = content(d, reading)?;
        Ok(())
    }),
    passing_setter!("proxy_pass_request_headers", Proxy passes_fields),
    passing_setter!("proxy_pass_request_body", Proxy passes_content),
    passing_setter!("proxy_pass_trailers", Proxy passes_trailers),
    text_setter!("proxy_limit_rate", Proxy limit_rate),
    flag_setter!("proxy_force_ranges", Proxy forces_ranges),
    ("proxy_store", |d, conf, reading| {
        conf.of_mut(Gateway::Proxy).store = Some(store(d, reading)?);
        Ok(())
    }),
    ("proxy_store_access", |d, conf, _| {
        conf.of_mut(Gateway::Proxy).store_mode = Some(access_mode(d)?);
        Ok(())
    }),
);

pub const FASTCGI: Setters<UpstreamsConf> = setters!("fastcgi" FastCgi;
    flag_setter!("fastcgi_buffering", FastCgi is_buffered),
    flag_setter!("fastcgi_keep_conn", FastCgi keeps_connections),
    flag_setter!("fastcgi_ignore_client_abort", FastCgi outlives_client),
    flag_setter!("fastcgi_request_buffering", FastCgi buffers_request),
    text_setter!("fastcgi_index", FastCgi index),
    ("fastcgi_catch_stderr", |d, conf, _| {
        let caught = &mut conf.of_mut(Gateway::FastCgi).caught_errors;
        let before = caught.take().unwrap_or_default();
        let all = before.iter().cloned().chain([d.argument(0).into()]);
        *caught = Some(all.collect());
        Ok(())
    }),
    param_setter!("fastcgi_param", FastCgi),
    passing_setter!("fastcgi_pass_request_headers", FastCgi passes_fields),
    passing_setter!("fastcgi_pass_request_body", FastCgi passes_content),
    text_setter!("fastcgi_limit_rate", FastCgi limit_rate),
    flag_setter!("fastcgi_force_ranges", FastCgi forces_ranges),
    ("fastcgi_store", |d, conf, reading| {
        conf.of_mut(Gateway::FastCgi).store = Some(store(d, reading)?);
        Ok(())
    }),
    ("fastcgi_store_access", |d, conf, _| {
        conf.of_mut(Gateway::FastCgi).store_mode = Some(access_mode(d)?);
        Ok(())
    }),
    ("fastcgi_split_path_info", |d, conf, reading| {
        let regex = Regex::compile(d.argument(0), false, &mut reading.variables)?;
        if regex.pattern.groups() < 2 {
            return Err(format!("pattern \"{}\" must have 2 captures", d.argument(0)));
        }
        own(conf, Gateway::FastCgi).split_path = Some(regex);
        Ok(())
    }),
);

pub const UWSGI: Setters<UpstreamsConf> = setters!("uwsgi" Uwsgi;
    flag_setter!("uwsgi_buffering", Uwsgi is_buffered),
    flag_setter!("uwsgi_ignore_client_abort", Uwsgi outlives_client),
    flag_setter!("uwsgi_request_buffering", Uwsgi buffers_request),
    flag_setter!("uwsgi_ssl_verify", Uwsgi tls_verifies),
    depth_setter!("uwsgi_ssl_verify_depth", Uwsgi),
    ("uwsgi_modifier1", |d, conf, _| {
        conf.of_mut(Gateway::Uwsgi).modifier1 = Some(byte(d)?);
        Ok(())
    }),
    ("uwsgi_modifier2", |d, conf, _| {
        conf.of_mut(Gateway::Uwsgi).modifier2 = Some(byte(d)?);
        Ok(())
    }),
    flag_setter!("uwsgi_ssl_server_name", Uwsgi tls_sends_name),
    flag_setter!("uwsgi_ssl_session_reuse", Uwsgi tls_resumes),
    text_setter!("uwsgi_ssl_certificate", Uwsgi tls_certificate),
    text_setter!("uwsgi_ssl_certificate_key", Uwsgi tls_key),
    word_setter!("uwsgi_ssl_trusted_certificate", Uwsgi tls_authorities),
    text_setter!("uwsgi_ssl_name", Uwsgi tls_name),
    word_setter!("uwsgi_ssl_crl", Uwsgi tls_revoked),
    protocols_setter!("uwsgi_ssl_protocols", Uwsgi),
    word_setter!("uwsgi_ssl_ciphers", Uwsgi tls_ciphers),
    word_setter!("uwsgi_ssl_password_file", Uwsgi tls_passphrases),
    ("uwsgi_ssl_conf_command", |d, conf, reading| {
        command(d, conf.of_mut(Gateway::Uwsgi), reading)
    }),
    param_setter!("uwsgi_param", Uwsgi),
    passing_setter!("uwsgi_pass_request_headers", Uwsgi passes_fields),
    passing_setter!("uwsgi_pass_request_body", Uwsgi passes_content),
    text_setter!("uwsgi_limit_rate", Uwsgi limit_rate),
    flag_setter!("uwsgi_force_ranges", Uwsgi forces_ranges),
    ("uwsgi_store", |d, conf, reading| {
        conf.of_mut(Gateway::Uwsgi).store = Some(store(d, reading)?);
        Ok(())
    }),
    ("uwsgi_store_access", |d, conf, _| {
        conf.of_mut(Gateway::Uwsgi).store_mode = Some(access_mode(d)?);
        Ok(())
    }),
);

pub const SCGI: Setters<UpstreamsConf> = setters!("scgi" Scgi;
    flag_setter!("scgi_buffering", Scgi is_buffered),
    flag_setter!("scgi_ignore_client_abort", Scgi outlives_client),
    flag_setter!("scgi_request_buffering", Scgi buffers_request),
    param_setter!("scgi_param", Scgi),
    passing_setter!("scgi_pass_request_headers", Scgi passes_fields),
    passing_setter!("scgi_pass_request_body", Scgi passes_content),
    text_setter!("scgi_limit_rate", Scgi limit_rate),
    flag_setter!("scgi_force_ranges", Scgi forces_ranges),
    ("scgi_store", |d, conf, reading| {
        conf.of_mut(Gateway::Scgi).store = Some(store(d, reading)?);
        Ok(())
    }),
    ("scgi_store_access", |d, conf, _| {
        conf.of_mut(Gateway::Scgi).store_mode = Some(access_mode(d)?);
        Ok(())
    }),
);

pub const GRPC: Setters<UpstreamsConf> = setters!("grpc" Grpc;
    flag_setter!("grpc_ssl_verify", Grpc tls_verifies),
    depth_setter!("grpc_ssl_verify_depth", Grpc),
    flag_setter!("grpc_ssl_server_name", Grpc tls_sends_name),
    flag_setter!("grpc_ssl_session_reuse", Grpc tls_resumes),
    text_setter!("grpc_ssl_certificate", Grpc tls_certificate),
    text_setter!("grpc_ssl_certificate_key", Grpc tls_key),
    word_setter!("grpc_ssl_trusted_certificate", Grpc tls_authorities),
    text_setter!("grpc_ssl_name", Grpc tls_name),
    word_setter!("grpc_ssl_crl", Grpc tls_revoked),
    protocols_setter!("grpc_ssl_protocols", Grpc),
    word_setter!("grpc_ssl_ciphers", Grpc tls_ciphers),
    word_setter!("grpc_ssl_password_file", Grpc tls_passphrases),
    ("grpc_ssl_conf_command", |d, conf, reading| {
        command(d, conf.of_mut(Gateway::Grpc), reading)
    }),
    param_setter!("grpc_set_header", Grpc),
);

pub const MEMCACHED: Setters<UpstreamsConf> = &[
    ("memcached_pass", |d, conf, reading| {
        pass(d, conf, reading, Gateway::Memcached)
    }),
    ("memcached_buffer_size", |d, conf, _| {
        own(conf, Gateway::Memcached).head_bytes = Some(size_argument(d)?);
        Ok(())
    }),
    ("memcached_gzip_flag", |d, conf, _| {
        let flag = u32::try_from(number_argument(d)?).map_err(|_| invalid(d.argument(0)))?;
        own(conf, Gateway::Memcached).gzip_flag = Some(flag);
        Ok(())
    }),
    ("memcached_connect_timeout", |d, conf, _| {
        own(conf, Gateway::Memcached).connect_timeout_ms = Some(time_argument(d)?);
        Ok(())
    }),
    ("memcached_read_timeout", |d, conf, _| {
        own(conf, Gateway::Memcached).read_timeout_ms = Some(time_argument(d)?);
        Ok(())
    }),
    ("memcached_send_timeout", |d, conf, _| {
        own(conf, Gateway::Memcached).send_timeout_ms = Some(time_argument(d)?);
        Ok(())
    }),
    ("memcached_next_upstream", |d, conf, _| {
        add_words(&mut own(conf, Gateway::Memcached).next, d);
        Ok(())
    }),
    ("memcached_next_upstream_timeout", |d, conf, _| {
        own(conf, Gateway::Memcached).next_timeout_ms = Some(time_argument(d)?);
        Ok(())
    }),
    ("memcached_socket_keepalive", |d, conf, _| {
        own(conf, Gateway::Memcached).keeps_alive = Some(flag(d)?);
        Ok(())
    }),
    ("memcached_bind", |d, conf, reading| {
        own(conf, Gateway::Memcached).local = Some(local_address(d, reading)?);
        Ok(())
    }),
    ("memcached_next_upstream_tries", |d, conf, _| {
        own(conf, Gateway::Memcached).tries_max = Some(number_argument(d)?);
        Ok(())
    }),
];

fn add_words(list: &mut Option<Arc<[Box<str>]>>, directive: &Directive) {
    let before = list.take().unwrap_or_default();
    let words = directive.texts().map(Into::into);
    *list = Some(before.iter().cloned().chain(words).collect());
}

fn pass(
    directive: &Directive,
    conf: &mut UpstreamsConf,
    reading: &mut Reading<'_>,
    gateway: Gateway,
) -> Result<(), String> {
    if conf.pass.is_some() {
        return Err(format!("\"{}\" directive is duplicate", directive.name()));
    }
    let text = directive.argument(0);
    let has_scheme = text.starts_with("http://") || text.starts_with("https://");
    if gateway == Gateway::Proxy && !text.contains('$') && !has_scheme {
        return Err("invalid URL prefix".to_owned());
    }
    conf.pass = Some(Pass {
        gateway,
        text: reading.text(text)?,
    });
    Ok(())
}

/// A command of OpenSSL's configuration (SSL_CONF_cmd(3)).
fn command(
    directive: &Directive,
    conf: &mut UpstreamConf,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let value = directive.argument(1);
    match directive.argument(0).to_ascii_lowercase().as_str() {
        "ciphersuites" => conf.tls_ciphers_13 = Some(value.into()),
        "cipherstring" => conf.tls_ciphers = Some(value.into()),
        _ => tls::unknown_command(directive, reading),
    }
    Ok(())
}

fn byte(directive: &Directive) -> Result<u8, String> {
    u8::try_from(number_argument(directive)?).map_err(|_| "value must be less than 256".to_owned())
}

/// Reads `proxy_set_body`. `None`: the content of the request.
fn content(directive: &Directive, reading: &mut Reading<'_>) -> Result<Option<Text>, String> {
    let is_read_anyway = reading.variables.reads_content;
    let text = reading.text(directive.argument(0))?;
    let of_request = Part::Variable(Variable::Builtin(Builtin::RequestBody));
    match &*text.parts {
        [part] if *part == of_request => {
            // The content goes on as it comes.
            reading.variables.reads_content = is_read_anyway;
            Ok(None)
        }
        _ => Ok(Some(text)),
    }
}

fn store(directive: &Directive, reading: &mut Reading<'_>) -> Result<Store, String> {
    Ok(match directive.argument(0) {
        "on" => Store::On,
        "off" => Store::Off,
        path => {
            let base = reading.prefix.to_owned();
            Store::At(reading.path_text(path, &base)?)
        }
    })
}

/// Reads `proxy_bind`.
pub fn local_address(
    directive: &Directive,
    reading: &mut Reading<'_>,
) -> Result<LocalAddress, String> {
    let text = directive.argument(0);
    match directive.argument(1) {
        "" => {}
        "transparent" => {
            let message = format!("`{} … transparent` has no effect", directive.name());
            let help = "upstreams see an address of this server; pass the client's in a field";
            reading.report.warn(directive, message, Some(help.into()));
            return Ok(LocalAddress::Off);
        }
        other => return Err(format!("invalid parameter \"{other}\"")),
    }
    if text == "off" {
        return Ok(LocalAddress::Off);
    }
    if !text.contains('$') && parse_local(text).is_none() {
        return Err(format!("invalid address \"{text}\""));
    }
    reading.text(text).map(LocalAddress::At)
}

/// Parses an address with or without a port.
pub fn parse_local(text: &str) -> Option<SocketAddr> {
    let ip = text
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    let ip = ip.ok().map(|ip| SocketAddr::new(ip, 0));
    ip.or_else(|| text.parse().ok())
}

fn param(
    directive: &Directive,
    conf: &mut UpstreamsConf,
    reading: &mut Reading<'_>,
    gateway: Gateway,
) -> Result<(), String> {
    let if_not_empty = match directive.arguments.get(2).map(|word| word.text.as_str()) {
        None => false,
        Some("if_not_empty") => true,
        Some(other) => return Err(format!("invalid parameter \"{other}\"")),
    };
    let param = Param {
        name: directive.argument(0).into(),
        value: reading.text(directive.argument(1))?,
        if_not_empty,
    };
    let params = &mut own(conf, gateway).params;
    let before = params.take().unwrap_or_default();
    *params = Some(before.iter().cloned().chain([param]).collect());
    Ok(())
}
