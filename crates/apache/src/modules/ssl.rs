//! mod_ssl on the request's side: SSLRequireSSL, SSLRequire, SSLVerifyClient and SSLCipherSuite of
//! sections, SSLOptions, SSLUserName.
//!
//! Difficulty: Apache shakes hands again in the middle of a connection when a section wants a
//! certificate; TLS 1.3 and rustls do not. So a host with such a section asks every client for a
//! certificate, forcing none (`process`), and the section looks at what came of it; a section that
//! wants more than was asked for refuses, and so does a .htaccess file of a host that asks for
//! none. What a handshake demands is in `server` and `modules/ssl_server`.

use crate::{modules::access::credentials::set_authorization, state::State};
use saker_ap_expr::{Predicate, RequestPart, RequestTest, base64_decode, base64_encode};
use saker_apache_model::{
    dir_config::DirConfig,
    host::Host,
    modules::ssl::{CERTIFICATE_DATA, FAKE_BASIC_AUTH, STANDARD_VARIABLES, Ssl},
};
use saker_config::model::SiteName;
use saker_http::Status;
use saker_pipeline::Exchange;
use saker_telemetry::{error_log, httpd_message};
use saker_tls::{ClientVerification, SessionInfo};
use std::borrow::Cow;

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
/// such files of users have. A name of that form that is really sent is a forgery, whatever the
/// options.
pub fn fake_basic_auth(exchange: &mut Exchange, local: &DirConfig) -> Result<(), Status> {
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
pub fn fixups(exchange: &mut Exchange, local: &DirConfig) {
    let Some(session) = exchange.client.session.clone() else {
        let is_secure = exchange.secure_test();
        exchange.cache.environment_tests.push(is_secure);
        if exchange.client.secure {
            exchange.environment.set_known(b"HTTPS", b"on");
        }
        return;
    };
    let ssl = &local.ssl;
    if let Some(name) = &ssl.user_name {
        exchange.depends_on_request();
        let value = session
            .variable(name, ssl.form(), exchange.now)
            .filter(|value| !value.is_empty());
        exchange.access.user = value
            .map(|value| value.as_ref().into())
            .or(exchange.access.user.take());
    }
    exchange.environment.set_known(b"HTTPS", b"on");
    let name = session.server_name.as_ref();
    exchange.cache.environment_tests.push(RequestTest {
        part: RequestPart::TlsServerName,
        predicate: match name {
            Some(name) => Predicate::Equals(name.as_bytes().into()),
            None => Predicate::Present,
        },
        result: name.is_some(),
    });
    if let Some(name) = name {
        exchange
            .environment
            .set_known(b"SSL_TLS_SNI", name.as_bytes());
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
        // They belong to this connection, and the content may show them.
        exchange.depends_on_request();
    }
    told.iter()
        .for_each(|(name, value)| exchange.environment.set(name.as_bytes(), value.as_bytes()));
}

/// Returns whether a variable of the environment may differ on another connection.
pub fn may_vary(host: &Host, local: &DirConfig, name: Option<&[u8]>) -> bool {
    let exports = [&host.defaults, local]
        .iter()
        .any(|local| local.ssl.options.has(STANDARD_VARIABLES | CERTIFICATE_DATA));
    let is_of_tls = |name: &[u8]| {
        let prefix = name.get(..4);
        prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(b"SSL_"))
    };
    let is_name = || name.is_some_and(|name| name.eq_ignore_ascii_case(b"SSL_TLS_SNI"));
    name.is_none_or(is_of_tls) && (exports || is_name())
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

/// Returns whether the request's host has that name.
fn answers(exchange: &Exchange, name: &str) -> bool {
    exchange.routing.site.names.iter().any(|own| match own {
        SiteName::Exact(own) => own == name,
        SiteName::Wildcard(parent) => name
            .strip_suffix(parent.as_str())
            .is_some_and(|start| start.ends_with('.')),
        SiteName::Any => true,
    }) || exchange.routing.site.patterns.iter().any(|pattern| {
        saker_ap_expr::glob_matches(
            pattern.as_bytes(),
            name.as_bytes(),
            saker_ap_expr::GlobOptions::default(),
        )
    })
}
