//! mod_ssl on the request's side: SSLRequireSSL, SSLRequire, SSLVerifyClient and SSLCipherSuite of
//! sections, SSLOptions, SSLUserName.
//!
//! Difficulty: Apache shakes hands again in the middle of a connection when a section wants a
//! certificate; TLS 1.3 and rustls do not. So a host with such a section asks every client for a
//! certificate, forcing none (`process`), and the section looks at what came of it; a section that
//! wants more than was asked for refuses, and so does a .htaccess file of a host that asks for
//! none. What a handshake demands is in `server` and `modules/ssl_server`.

use super::{
    access::{AccessRequest, set_authorization},
    core::texts,
};
use crate::{
    host::Host,
    local::{Local, Set, said},
    modules::ssl_ciphers,
    reading::{Place, Reading},
    state::State,
};
use saker_ap_expr::{Dependency, Expression, ExpressionOptions, base64_decode, base64_encode};
use saker_apache_syntax::Node;
use saker_auth::AuthRequest;
use saker_config::model::{CipherSuite, ClientCertificates, SiteName, TlsVersion};
use saker_http::Status;
use saker_pipeline::Exchange;
use saker_telemetry::{error_log, httpd_message};
use saker_tls::{ClientVerification, NameForm, SessionInfo};
use std::{borrow::Cow, sync::Arc};

/// Words of SSLOptions.
const STRICT_REQUIRE: u8 = 1;
const STANDARD_VARIABLES: u8 = 1 << 1;
const CERTIFICATE_DATA: u8 = 1 << 2;
const FAKE_BASIC_AUTH: u8 = 1 << 3;
const LEGACY_NAMES: u8 = 1 << 4;

#[derive(Clone, Debug, Default)]
pub struct Ssl {
    /// SSLRequireSSL.
    only_encrypted: bool,
    required: Vec<Arc<Expression>>,
    /// SSLVerifyClient and SSLVerifyDepth of sections.
    demand: Option<ClientCertificates>,
    depth_max: Option<u32>,
    ciphers: Option<Arc<[CipherSuite]>>,
    user_name: Option<Box<str>>,
    options: Options,
}

/// Words with and without sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options {
    /// Said without sign: what is outside does not count.
    absolute: bool,
    on: u8,
    off: u8,
}

impl Options {
    fn under(self, over: Options) -> Options {
        match over.absolute {
            true => over,
            false => Options {
                absolute: self.absolute,
                on: (self.on & !over.off) | over.on,
                off: (self.off & !over.on) | over.off,
            },
        }
    }

    fn has(self, word: u8) -> bool {
        self.on & word != 0
    }
}

impl Ssl {
    pub const DIRECTIVES: &'static [(&'static str, Set)] = &[
        ("SSLRequireSSL", |_, local, _| {
            local.ssl.only_encrypted = true;
            Ok(())
        }),
        ("SSLRequire", add_required),
        ("SSLVerifyClient", set_verify_client),
        ("SSLVerifyDepth", |node, local, _| {
            local.ssl.depth_max = Some(depth(node)?);
            Ok(())
        }),
        ("SSLCipherSuite", |node, local, reading| {
            let words = texts(node);
            let read = ssl_ciphers::read(&words)?.filter(|read| read.version == TlsVersion::Tls12);
            local.ssl.ciphers = read.and_then(|read| read.suites).map(Into::into);
            reading.diagnostics.extend(
                ssl_ciphers::without_any("SSLCipherSuite", &words)
                    .map(|text| node.warning(text, None)),
            );
            Ok(())
        }),
        ("SSLUserName", |node, local, _| {
            local.ssl.user_name = texts(node).into_iter().next().map(Into::into);
            Ok(())
        }),
        ("SSLOptions", set_options),
    ];

    pub fn under(&self, over: &Ssl) -> Ssl {
        Ssl {
            only_encrypted: self.only_encrypted || over.only_encrypted,
            required: self
                .required
                .iter()
                .chain(&over.required)
                .cloned()
                .collect(),
            demand: over.demand.or(self.demand),
            depth_max: over.depth_max.or(self.depth_max),
            ciphers: said(&self.ciphers, &over.ciphers),
            user_name: said(&self.user_name, &over.user_name),
            options: self.options.under(over.options),
        }
    }

    pub fn is_strict(&self) -> bool {
        self.options.has(STRICT_REQUIRE)
    }

    fn form(&self) -> NameForm {
        if self.options.has(LEGACY_NAMES) {
            NameForm::Legacy
        } else {
            NameForm::Rfc2253
        }
    }

    pub fn lets_in(&self, request: &mut AccessRequest<'_>) -> bool {
        let is_encrypted = request.exchange.client.tls;
        if self.only_encrypted && !is_encrypted {
            request.log(format_args!(
                "access to {} failed, reason: SSL connection required",
                request.path_text()
            ));
            return false;
        }
        // Apache lets everybody in who comes without TLS; whoever has written it did not mean that.
        if let Some(reason) = self.session_lacks(request) {
            request.log(format_args!(
                "access to {} failed, reason: {reason}",
                request.path_text()
            ));
            return false;
        }
        // As Apache: without TLS there is nothing that these could look at.
        !is_encrypted
            || self
                .required
                .iter()
                .all(|required| holds(request, required))
    }

    /// Why this connection's handshake is not enough for the section.
    fn session_lacks(&self, request: &mut AccessRequest<'_>) -> Option<String> {
        let judges = matches!(
            self.demand,
            Some(ClientCertificates::Required | ClientCertificates::Optional)
        );
        if !judges && self.ciphers.is_none() {
            return None;
        }
        request.depends_on(Dependency::Transport);
        let session = request.exchange.client.session.as_deref();
        if judges && let Some(reason) = self.certificate_lacks(request, session) {
            return Some(reason);
        }
        let is_listed = |ciphers: &Arc<[CipherSuite]>| {
            session.is_none_or(|session| ssl_ciphers::include(ciphers, session))
        };
        let is_other = self
            .ciphers
            .as_ref()
            .is_some_and(|ciphers| !is_listed(ciphers));
        is_other.then(|| "the connection's cipher is none of the section's".into())
    }

    /// Why the client's certificate, or that it has shown none, is not enough.
    fn certificate_lacks(
        &self,
        request: &AccessRequest<'_>,
        session: Option<&SessionInfo>,
    ) -> Option<String> {
        let depth_max = self.depth_max.unwrap_or(request.host.client_depth_max);
        let is_required = self.demand == Some(ClientCertificates::Required);
        let none = || {
            match session {
            None => "the connection is not under TLS".to_owned(),
            Some(SessionInfo { client_refusal: Some(why), .. }) => format!("the certificate that was shown is not good: {why}"),
            Some(_) if request.exchange.site.tls.client_certificates == ClientCertificates::Off => {
                "the host asks for no certificates in its handshake: set `SSLVerifyClient optional` in its <VirtualHost>".to_owned()
            }
            Some(_) => "no certificate was shown".to_owned(),
        }
        };
        match session.map_or(ClientVerification::None, |session| {
            session.client_verification
        }) {
            ClientVerification::None => is_required.then(none),
            ClientVerification::Generous => {
                Some("no authority vouches for the certificate that was shown".into())
            }
            ClientVerification::Success => {
                let depth = session.map_or(u32::MAX, |session| session.client_depth);
                (depth > depth_max).then(|| format!("the chain of certificates has depth {depth}, and SSLVerifyDepth is {depth_max}"))
            }
        }
    }
}

/// What sections of a host want of certificates, which its handshake has to ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionDemands {
    pub asks: bool,
    /// One of them takes certificates that nobody vouches for.
    pub takes_unknown: bool,
    /// The longest chain that one of them takes.
    pub depth_max: Option<u32>,
}

impl SectionDemands {
    /// Of these settings and all within them.
    pub fn add(&mut self, local: &Local) {
        match local.ssl.demand {
            None | Some(ClientCertificates::Off) => {}
            Some(demand) => {
                self.asks = true;
                self.takes_unknown |= demand == ClientCertificates::OptionalNoAuthority;
            }
        }
        self.depth_max = self.depth_max.max(local.ssl.depth_max);
        let inner = local.core.files.iter().map(|inner| &inner.local);
        inner
            .chain(local.core.conditions.iter().map(|inner| &inner.local))
            .for_each(|local| self.add(local));
    }
}

fn holds(request: &mut AccessRequest<'_>, required: &Expression) -> bool {
    let holds = request.evaluate(required).unwrap_or(false);
    if !holds {
        request.log(format_args!(
            "access to {} failed, reason: Failed expression of SSLRequire",
            request.path_text()
        ));
    }
    holds
}

/// `SSL_…` of the connection, and `HTTPS`.
pub fn variable<'e>(exchange: &'e Exchange, state: &State, name: &str) -> Option<Cow<'e, [u8]>> {
    if name.eq_ignore_ascii_case("HTTPS") {
        return Some(Cow::Borrowed(if exchange.client.secure {
            b"on"
        } else {
            b"off"
        }));
    }
    let form = state
        .local
        .as_ref()
        .map(|local| local.ssl.form())
        .unwrap_or_default();
    let value = exchange
        .client
        .session
        .as_ref()?
        .variable(name, form, exchange.now)?;
    Some(match value {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    })
}

/// FakeBasicAuth: who shows a certificate is taken for having sent its name, with the password that
/// such files of users have. A name of that form that somebody really sends is a forgery, whatever
/// the options.
pub fn fake_basic_auth(exchange: &mut Exchange, local: &Local) -> Result<(), Status> {
    let sent = exchange
        .head
        .view()
        .first("authorization")
        .and_then(|value| value.strip_prefix(b"Basic "))
        .map(base64_decode);
    let session = exchange
        .client
        .session
        .as_ref()
        .filter(|session| session.client_verification == ClientVerification::Success);
    let name = session
        .filter(|_| local.ssl.options.has(FAKE_BASIC_AUTH))
        .and_then(|session| session.client_name());
    let Some(name) = name else {
        let is_forged =
            sent.is_some_and(|sent| sent.starts_with(b"/") && sent.ends_with(b":password"));
        return if is_forged {
            Err(Status::FORBIDDEN)
        } else {
            Ok(())
        };
    };
    // What this step itself has put there in an earlier round is no forgery.
    let own = [name.as_bytes(), b":password"].concat();
    if sent
        .is_some_and(|sent| sent != own && sent.starts_with(b"/") && sent.ends_with(b":password"))
    {
        return Err(Status::FORBIDDEN);
    }
    exchange.depends_on_request();
    set_authorization(
        exchange,
        &[b"Basic ".as_slice(), &base64_encode(&own)].concat(),
    );
    Ok(())
}

/// Among the fixups: the user's name out of the certificate, and what programs are told.
pub fn fixups(exchange: &mut Exchange, local: &Local) {
    let Some(session) = exchange.client.session.clone() else {
        if exchange.client.secure {
            exchange.environment.set(b"HTTPS", b"on");
        }
        return;
    };
    let ssl = &local.ssl;
    if let Some(name) = &ssl.user_name {
        exchange.depends_on_request();
        let value = session
            .variable(name, ssl.form(), exchange.now)
            .filter(|value| !value.is_empty());
        exchange.user = value
            .map(|value| value.as_ref().into())
            .or(exchange.user.take());
    }
    exchange.environment.set(b"HTTPS", b"on");
    if let Some(name) = &session.server_name {
        exchange.environment.set(b"SSL_TLS_SNI", name.as_bytes());
    }
    export(exchange, ssl, &session);
}

fn export(exchange: &mut Exchange, ssl: &Ssl, session: &SessionInfo) {
    let mut told = Vec::new();
    if ssl.options.has(STANDARD_VARIABLES) {
        told.extend(session.standard_variables(ssl.form(), exchange.now));
    }
    if ssl.options.has(CERTIFICATE_DATA) {
        told.extend(session.certificate_variables());
    }
    if !told.is_empty() {
        // They are this connection's, and whoever makes the content may show them.
        exchange.depends_on_request();
    }
    told.iter()
        .for_each(|(name, value)| exchange.environment.set(name.as_bytes(), value.as_bytes()));
}

/// Whether a variable of the environment may be another one over another connection.
pub fn may_vary(host: &Host, local: &Local, name: Option<&[u8]>) -> bool {
    let exports = [&host.defaults, local]
        .iter()
        .any(|local| local.ssl.options.has(STANDARD_VARIABLES | CERTIFICATE_DATA));
    name.is_none_or(|name| name.starts_with(b"SSL_")) && (exports || name == Some(b"SSL_TLS_SNI"))
}

/// SSLStrictSNIVHostCheck: a client that names a host in its request, and none in its handshake,
/// gets nothing. SSLVHostSNIPolicy strict: nor does one that names another host (RFC 9110 section
/// 15.5.20). Both hosts unknown are both the default one.
pub fn refusal_of_name(exchange: &mut Exchange, host: &Host) -> Option<Status> {
    if !host.strict_names && !host.same_host_only {
        return None;
    }
    let session = exchange.client.session.clone()?;
    exchange.depends_on_request();
    let refused = |status, message, text: &str| {
        error_log::log_httpd(message, None, exchange, format_args!("{text}"));
        Some(status)
    };
    match &session.server_name {
        None if host.strict_names && !exchange.host.is_empty() => {
            let text = "No hostname was provided via SNI for a name based virtual host";
            refused(Status::FORBIDDEN, &httpd_message::NAME_MISSING, text)
        }
        Some(name)
            if host.same_host_only
                && answers(exchange, name)
                    != answers(exchange, &String::from_utf8_lossy(&exchange.host)) =>
        {
            let asked = String::from_utf8_lossy(&exchange.host);
            let text = format!(
                "Hostname {name} provided via SNI and hostname {asked} provided via HTTP have no compatible SSL setup"
            );
            refused(
                Status::MISDIRECTED_REQUEST,
                &httpd_message::NAME_MISMATCH,
                &text,
            )
        }
        _ => None,
    }
}

/// Whether the request's host has that name.
fn answers(exchange: &Exchange, name: &str) -> bool {
    exchange.site.names.iter().any(|own| match own {
        SiteName::Exact(own) => own == name,
        SiteName::Wildcard(parent) => name
            .strip_suffix(parent.as_str())
            .is_some_and(|start| start.ends_with('.')),
        SiteName::Any => true,
    }) || exchange.site.patterns.iter().any(|pattern| {
        saker_ap_expr::glob_matches(
            pattern.as_bytes(),
            name.as_bytes(),
            saker_ap_expr::GlobOptions::default(),
        )
    })
}

pub fn depth(node: &Node) -> Result<u32, String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    word.parse()
        .map_err(|_| "SSLVerifyDepth: Invalid argument".to_owned())
}

pub fn demand(node: &Node) -> Result<ClientCertificates, String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    Ok(match word.to_ascii_lowercase().as_str() {
        "none" | "off" => ClientCertificates::Off,
        "optional" => ClientCertificates::Optional,
        "optional_no_ca" => ClientCertificates::OptionalNoAuthority,
        "require" | "on" => ClientCertificates::Required,
        _ => return Err(format!("SSLVerifyClient: Invalid argument '{word}'")),
    })
}

fn add_required(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let options = ExpressionOptions {
        tls_require: true,
        ..reading.expression_options()
    };
    let expression = Expression::compile(node.argument_text(), options);
    local.ssl.required.push(
        expression
            .map(Arc::new)
            .map_err(|error| format!("Cannot parse expression: {}", error.message))?,
    );
    Ok(())
}

fn set_verify_client(
    node: &Node,
    local: &mut Local,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let demand = demand(node)?;
    local.ssl.demand = Some(demand);
    if demand == ClientCertificates::Off {
        return Ok(());
    }
    reading.warn(
        node,
        match reading.place {
            Place::Htaccess(_) => "a certificate is only asked for in the handshake: this is refused unless the host asks for one",
            _ => "a certificate is only asked for in the handshake: every client of this host is asked for one",
        },
    );
    Ok(())
}

/// As Apache reads them: the first word without a sign forgets what came before, and so does each
/// that follows.
fn set_options(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    let options = &mut local.ssl.options;
    for word in texts(node) {
        let name = word.trim_start_matches(['+', '-']);
        let bit = match name.to_ascii_lowercase().as_str() {
            "strictrequire" => STRICT_REQUIRE,
            "stdenvvars" => STANDARD_VARIABLES,
            "exportcertdata" => CERTIFICATE_DATA,
            "fakebasicauth" => FAKE_BASIC_AUTH,
            "legacydnstringformat" => LEGACY_NAMES,
            // Nothing here is ever negotiated again; and of the other Apache itself says that it is
            // gone.
            "optrenegotiate" | "compatenvvars" => 0,
            _ => return Err(format!("SSLOptions: Illegal option '{name}'")),
        };
        match word.as_bytes().first() {
            Some(b'+') => {
                *options = options.under(Options {
                    on: bit,
                    ..Options::default()
                })
            }
            Some(b'-') => {
                *options = options.under(Options {
                    off: bit,
                    ..Options::default()
                })
            }
            _ => {
                *options = Options {
                    absolute: true,
                    on: bit,
                    off: 0,
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_sections_add_and_never_take_back() {
        let required =
            || Arc::new(Expression::compile(b"true", ExpressionOptions::default()).unwrap());
        let outer = Ssl {
            only_encrypted: true,
            required: vec![required()],
            ..Ssl::default()
        };
        let over = Ssl {
            required: vec![required()],
            demand: Some(ClientCertificates::Off),
            ..Ssl::default()
        };
        let merged = outer.under(&over);
        assert!(
            merged.only_encrypted
                && merged.required.len() == 2
                && merged.demand == Some(ClientCertificates::Off)
        );
    }

    #[test]
    fn options_with_and_without_signs() {
        let bits = |on, off| Options {
            absolute: false,
            on,
            off,
        };
        for (outer, inner, expected) in [
            (bits(3, 0), bits(4, 1), 6),
            (
                bits(3, 0),
                Options {
                    absolute: true,
                    on: 8,
                    off: 0,
                },
                8,
            ),
            (bits(3, 0), bits(0, 0), 3),
            (
                Options {
                    absolute: true,
                    on: 1,
                    off: 0,
                },
                bits(2, 0),
                3,
            ),
        ] {
            assert_eq!(outer.under(inner).on, expected, "{outer:?} {inner:?}");
        }
    }
}
