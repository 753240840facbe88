//! Setters of the modules for upstreams.
//!
//! Called by: `load`, through the list of all setters.

use crate::{
    modules::{
        cache,
        upstream_conf::{Gateway, Param, Pass, Redirect, UpstreamConf, UpstreamsConf},
    },
    reading::{Reading, Setters},
    values::{Regex, flag, number_argument, time_argument},
};
use saker_nginx_syntax::Directive;
use std::sync::Arc;

fn own(conf: &mut UpstreamsConf, gateway: Gateway) -> &mut UpstreamConf {
    let [proxy, fastcgi, uwsgi, scgi, grpc, memcached] = &mut conf.kinds;
    match gateway {
        Gateway::Proxy => proxy,
        Gateway::FastCgi => fastcgi,
        Gateway::Uwsgi => uwsgi,
        Gateway::Scgi => scgi,
        Gateway::Grpc => grpc,
        Gateway::Memcached => memcached,
    }
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
            (concat!($prefix, "_cache_methods"), |d, _, reading| {
                cache::methods(d, reading)
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

macro_rules! param_setter {
    ($name:expr, $gateway:ident) => {
        ($name, |d, conf, reading| {
            param(d, conf, reading, Gateway::$gateway)
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
    word_setter!("proxy_ssl_certificate", Proxy tls_certificate),
    word_setter!("proxy_ssl_certificate_key", Proxy tls_key),
    word_setter!("proxy_ssl_trusted_certificate", Proxy tls_authorities),
    text_setter!("proxy_ssl_name", Proxy tls_name),
    param_setter!("proxy_set_header", Proxy),
    ("proxy_redirect", redirect),
    ("proxy_cookie_domain", |d, conf, reading| cookie(d, conf, reading, false)),
    ("proxy_cookie_path", |d, conf, reading| cookie(d, conf, reading, true)),
);

pub const FASTCGI: Setters<UpstreamsConf> = setters!("fastcgi" FastCgi;
    flag_setter!("fastcgi_buffering", FastCgi is_buffered),
    flag_setter!("fastcgi_ignore_client_abort", FastCgi outlives_client),
    flag_setter!("fastcgi_request_buffering", FastCgi buffers_request),
    text_setter!("fastcgi_index", FastCgi index),
    param_setter!("fastcgi_param", FastCgi),
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
    word_setter!("uwsgi_ssl_certificate", Uwsgi tls_certificate),
    word_setter!("uwsgi_ssl_certificate_key", Uwsgi tls_key),
    word_setter!("uwsgi_ssl_trusted_certificate", Uwsgi tls_authorities),
    text_setter!("uwsgi_ssl_name", Uwsgi tls_name),
    param_setter!("uwsgi_param", Uwsgi),
);

pub const SCGI: Setters<UpstreamsConf> = setters!("scgi" Scgi;
    flag_setter!("scgi_buffering", Scgi is_buffered),
    flag_setter!("scgi_ignore_client_abort", Scgi outlives_client),
    flag_setter!("scgi_request_buffering", Scgi buffers_request),
    param_setter!("scgi_param", Scgi),
);

pub const GRPC: Setters<UpstreamsConf> = setters!("grpc" Grpc;
    flag_setter!("grpc_ssl_verify", Grpc tls_verifies),
    word_setter!("grpc_ssl_certificate", Grpc tls_certificate),
    word_setter!("grpc_ssl_certificate_key", Grpc tls_key),
    word_setter!("grpc_ssl_trusted_certificate", Grpc tls_authorities),
    text_setter!("grpc_ssl_name", Grpc tls_name),
    param_setter!("grpc_set_header", Grpc),
);

pub const MEMCACHED: Setters<UpstreamsConf> = &[
    ("memcached_pass", |d, conf, reading| {
        pass(d, conf, reading, Gateway::Memcached)
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

fn redirect(
    directive: &Directive,
    conf: &mut UpstreamsConf,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let (from, to) = (directive.argument(0), directive.argument(1));
    let one = match (from, directive.arguments.len()) {
        ("off", 1) => Redirect::Off,
        ("default", 1) => Redirect::Default,
        (_, 1) => return Err(format!("invalid parameter \"{from}\"")),
        _ if from.starts_with('~') || from.contains('$') || to.contains('$') => {
            let help = "write the URL and its replacement without variables and expressions";
            reading.report.warn(
                directive,
                "a `proxy_redirect` with variables or an expression has no effect",
                Some(help.into()),
            );
            return Ok(());
        }
        _ => Redirect::Replace(from.into(), to.into()),
    };
    let list = &mut own(conf, Gateway::Proxy).redirects;
    let before = list.take().unwrap_or_default();
    *list = Some(before.iter().cloned().chain([one]).collect());
    Ok(())
}

fn cookie(
    directive: &Directive,
    conf: &mut UpstreamsConf,
    reading: &mut Reading<'_>,
    is_path: bool,
) -> Result<(), String> {
    let (from, to) = (directive.argument(0), directive.argument(1));
    let conf = own(conf, Gateway::Proxy);
    let list = match is_path {
        true => &mut conf.cookie_paths,
        false => &mut conf.cookie_domains,
    };
    if from == "off" {
        *list = Some(Arc::default());
        return Ok(());
    }
    if from.starts_with('~') || from.contains('$') || to.contains('$') {
        let message = format!(
            "a `{}` with variables or an expression has no effect",
            directive.name()
        );
        let help = "write both values without variables and expressions";
        reading.report.warn(directive, message, Some(help.into()));
        return Ok(());
    }
    let before = list.take().unwrap_or_default();
    let own = (from.into(), to.into());
    *list = Some(before.iter().cloned().chain([own]).collect());
    Ok(())
}
