//! Settings of `stream` and of its servers, with their setters.
//!
//! Called by: `read`.
//! Caveat: what a server does not set comes from `stream` as a whole, as in `http`.

use crate::{
    checks,
    inherit::inherit,
    log_to::{self, LogTo},
    modules::{
        access::{self, AccessConf},
        limits::{self, LimitsConf},
        log::{self, LogConf},
        resolver::ResolverConf,
        tls::{TlsConf, is_tls, unknown_command},
        upstream_conf::LocalAddress,
        upstream_setters::local_address,
    },
    reading::Reading,
    text::Text,
    values::{flag, invalid, number_argument, size_argument, time_argument},
};
use saker_nginx_syntax::Directive;
use saker_telemetry::message::Level;
use std::sync::Arc;

/// Settings of a level.
#[derive(Clone, Debug, Default)]
pub struct StreamConf {
    pub access: AccessConf,
    pub limits: LimitsConf,
    pub log: LogConf,
    pub tls: TlsConf,
    pub proxy: StreamProxyConf,
    pub resolver: ResolverConf,
    pub connections_log_level: Option<Level>,
    pub error_logs: Option<Arc<[LogTo]>>,
    /// Networks of trusted proxies.
    pub real_ip_from: Vec<String>,
    pub alpn: Option<Vec<Vec<u8>>>,
    pub handshake_timeout_ms: Option<u64>,
    pub preface_timeout_ms: Option<u64>,
    pub reads_hello: Option<bool>,
    pub hello_bytes_max: Option<u64>,
    pub hello_timeout_ms: Option<u64>,
}

/// Settings of the connection to upstreams.
#[derive(Clone, Debug, Default)]
pub struct StreamProxyConf {
    pub connect_timeout_ms: Option<u64>,
    pub timeout_ms: Option<u64>,
    pub sends_preface: Option<bool>,
    pub half_closes: Option<bool>,
    pub upload_rate: Option<u64>,
    pub download_rate: Option<u64>,
    pub requests: Option<u64>,
    pub responses: Option<u64>,
    pub retries: Option<bool>,
    pub tries_max: Option<u64>,
    pub tries_ms: Option<u64>,
    pub keeps_alive: Option<bool>,
    pub local: Option<LocalAddress>,
    pub tls: Option<bool>,
    pub tls_verifies: Option<bool>,
    pub tls_depth: Option<u32>,
    pub tls_authorities: Option<Box<str>>,
    pub tls_revoked: Option<Box<str>>,
    pub tls_certificate: Option<Box<str>>,
    pub tls_key: Option<Box<str>>,
    pub tls_name: Option<Text>,
    pub tls_protocols: Option<Vec<Box<str>>>,
    pub tls_ciphers: Option<Box<str>>,
    pub tls_ciphers_13: Option<Box<str>>,
    pub tls_passphrases: Option<Box<str>>,
    pub tls_sends_name: Option<bool>,
    pub tls_resumes: Option<bool>,
}

impl StreamConf {
    /// Takes what is not set from the outer level.
    pub fn inherit(&mut self, outer: &StreamConf) {
        self.access.inherit(&outer.access);
        self.limits.inherit(&outer.limits);
        self.log.inherit(&outer.log);
        self.tls.inherit(&outer.tls);
        self.proxy.inherit(&outer.proxy);
        self.resolver.inherit(&outer.resolver);
        if self.real_ip_from.is_empty() {
            self.real_ip_from.clone_from(&outer.real_ip_from);
        }
        inherit!(self, outer:
            connections_log_level error_logs alpn handshake_timeout_ms preface_timeout_ms reads_hello hello_bytes_max
            hello_timeout_ms
        );
    }

    /// Applies a directive.
    ///
    /// # Errors
    /// nginx's message.
    pub fn set(&mut self, directive: &Directive, reading: &mut Reading<'_>) -> Result<(), String> {
        let name = directive.name();
        checks::check(directive)?;
        if let Some((_, set)) = access::SETTERS.iter().find(|(known, _)| *known == name) {
            return set(directive, &mut self.access, reading);
        }
        if let Some((_, set)) = limits::SETTERS.iter().find(|(known, _)| *known == name) {
            return set(directive, &mut self.limits, reading);
        }
        match name {
            "error_log" => {
                let log = LogTo::read(directive, reading.prefix)?;
                log_to::add(&mut self.error_logs, log);
            }
            "access_log" => {
                if directive.arguments.len() == 1 && directive.argument(0) != "off" {
                    return Err("log format is not specified".to_owned());
                }
                log::access_log(directive, &mut self.log, reading)?;
            }
            "limit_conn_log_level" => {
                self.connections_log_level = Some(match directive.argument(0) {
                    "info" => Level::Info,
                    "notice" => Level::Notice,
                    "warn" => Level::Warn,
                    "error" => Level::Error,
                    other => return Err(format!("invalid value \"{other}\"")),
                });
            }
            "set_real_ip_from" => {
                let text = directive.argument(0);
                if text != "unix:" && crate::values::network(text).is_none() {
                    return Err(format!("invalid value \"{text}\""));
                }
                self.real_ip_from.push(text.to_owned());
            }
            "ssl_alpn" => {
                let words = directive.texts();
                self.alpn = Some(words.map(|word| word.as_bytes().to_vec()).collect());
            }
            "ssl_handshake_timeout" => self.handshake_timeout_ms = Some(time_argument(directive)?),
            "proxy_protocol_timeout" => self.preface_timeout_ms = Some(time_argument(directive)?),
            "resolver" | "resolver_timeout" => drop(self.resolver.set(directive)?),
            "ssl_preread" => self.reads_hello = Some(flag(directive)?),
            "preread_buffer_size" => self.hello_bytes_max = Some(size_argument(directive)?),
            "preread_timeout" => self.hello_timeout_ms = Some(time_argument(directive)?),
            _ if is_tls(name) => self.tls.set(directive, reading)?,
            _ => self.proxy.set(directive, reading)?,
        }
        Ok(())
    }
}

impl StreamProxyConf {
    fn inherit(&mut self, outer: &StreamProxyConf) {
        inherit!(self, outer:
            connect_timeout_ms timeout_ms sends_preface half_closes upload_rate download_rate
            requests responses retries tries_max tries_ms keeps_alive local tls tls_verifies tls_depth
            tls_authorities tls_revoked tls_certificate tls_key tls_name tls_protocols
            tls_ciphers tls_ciphers_13 tls_passphrases tls_sends_name tls_resumes
        );
    }

    fn set(&mut self, directive: &Directive, reading: &mut Reading<'_>) -> Result<(), String> {
        let text = || directive.argument(0).into();
        match directive.name() {
            "proxy_connect_timeout" => self.connect_timeout_ms = Some(time_argument(directive)?),
            "proxy_timeout" => self.timeout_ms = Some(time_argument(directive)?),
            "proxy_protocol" => self.sends_preface = Some(flag(directive)?),
            "proxy_half_close" => self.half_closes = Some(flag(directive)?),
            "proxy_upload_rate" => self.upload_rate = Some(rate(directive)?),
            "proxy_download_rate" => self.download_rate = Some(rate(directive)?),
            "proxy_requests" => self.requests = Some(number_argument(directive)?),
            "proxy_responses" => self.responses = Some(number_argument(directive)?),
            "proxy_next_upstream" => self.retries = Some(flag(directive)?),
            "proxy_next_upstream_tries" => self.tries_max = Some(number_argument(directive)?),
            "proxy_next_upstream_timeout" => self.tries_ms = Some(time_argument(directive)?),
            "proxy_socket_keepalive" => self.keeps_alive = Some(flag(directive)?),
            "proxy_bind" => {
                let local = local_address(directive, reading)?;
                if matches!(&local, LocalAddress::At(text) if text.plain().is_none()) {
                    return Err(
                        "\"proxy_bind\" with variables is not supported: all sessions \
                                leave from one address"
                            .to_owned(),
                    );
                }
                self.local = Some(local);
            }
            "proxy_ssl" => self.tls = Some(flag(directive)?),
            "proxy_ssl_server_name" => self.tls_sends_name = Some(flag(directive)?),
            "proxy_ssl_session_reuse" => self.tls_resumes = Some(flag(directive)?),
            "proxy_ssl_verify" => self.tls_verifies = Some(flag(directive)?),
            "proxy_ssl_verify_depth" => self.tls_depth = Some(depth(directive)?),
            "proxy_ssl_trusted_certificate" => self.tls_authorities = Some(text()),
            "proxy_ssl_crl" => self.tls_revoked = Some(text()),
            "proxy_ssl_certificate" => self.tls_certificate = Some(text()),
            "proxy_ssl_certificate_key" => self.tls_key = Some(text()),
            "proxy_ssl_ciphers" => self.tls_ciphers = Some(text()),
            "proxy_ssl_password_file" => self.tls_passphrases = Some(text()),
            "proxy_ssl_conf_command" => match directive.argument(0) {
                "Ciphersuites" => self.tls_ciphers_13 = Some(directive.argument(1).into()),
                "CipherString" => self.tls_ciphers = Some(directive.argument(1).into()),
                _ => unknown_command(directive, reading),
            },
            "proxy_ssl_protocols" => {
                self.tls_protocols = Some(directive.texts().map(Into::into).collect());
            }
            "proxy_ssl_name" => {
                let name = reading.text(directive.argument(0))?;
                if name.plain().is_none() {
                    return Err(
                        "\"proxy_ssl_name\" with variables is not supported: one name is \
                                sent to all upstreams"
                            .to_owned(),
                    );
                }
                self.tls_name = Some(name);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The depth of a chain of certificates.
fn depth(directive: &Directive) -> Result<u32, String> {
    let depth = u32::try_from(number_argument(directive)?);
    depth.map_err(|_| invalid(directive.argument(0)))
}

/// A speed, which must not depend on variables.
fn rate(directive: &Directive) -> Result<u64, String> {
    match directive.argument(0).contains('$') {
        true => Err(invalid(directive.argument(0))),
        false => size_argument(directive),
    }
}
