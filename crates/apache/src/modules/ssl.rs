//! mod_ssl as far as it decides over access: SSLRequireSSL, SSLRequire, SSLVerifyClient of sections.
//!
//! Difficulty: Apache asks for a certificate in the middle of a connection when a section wants one; here the handshake is the host's alone.
//! So a section that requires a certificate is served where the host requires one, and refused elsewhere; and what asks for variables
//! of TLS, which are not known here, is refused.

use super::{access::Inquiry, core::texts};
use crate::{
    local::{Local, Set},
    reading::{Place, Reading},
};
use saker_config::model::ClientCertificates;
use saker_config_apache::Node;
use saker_expressions::{Expression, ExpressionOptions};
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct Ssl {
    /// SSLRequireSSL.
    only_encrypted: bool,
    /// `None`: asks for what is not known here.
    required: Vec<Option<Arc<Expression>>>,
    /// SSLVerifyClient require.
    needs_certificate: Option<bool>,
    /// SSLOptions StrictRequire: `Satisfy Any` does not help.
    strict: Option<bool>,
}

impl Ssl {
    pub const DIRECTIVES: &'static [(&'static str, Set)] = &[
        ("SSLRequireSSL", |_, local, _| {
            local.ssl.only_encrypted = true;
            Ok(())
        }),
        ("SSLRequire", add_required),
        ("SSLVerifyClient", set_verify_client),
        ("SSLOptions", set_options),
    ];

    pub fn under(&self, over: &Ssl) -> Ssl {
        Ssl {
            only_encrypted: self.only_encrypted || over.only_encrypted,
            required: self.required.iter().chain(&over.required).cloned().collect(),
            needs_certificate: over.needs_certificate.or(self.needs_certificate),
            strict: over.strict.or(self.strict),
        }
    }

    pub fn is_strict(&self) -> bool {
        self.strict.unwrap_or_default()
    }

    pub fn lets_in(&self, inquiry: &mut Inquiry<'_>) -> bool {
        let is_encrypted = inquiry.exchange.client.tls;
        if self.only_encrypted && !is_encrypted {
            inquiry.log(format_args!("access to {} failed, reason: SSL connection required", inquiry.path()));
            return false;
        }
        if self.needs_certificate == Some(true) && inquiry.exchange.site.tls.client_certificates != ClientCertificates::Required {
            inquiry.log(format_args!("access to {} failed: only a host can require certificates of clients", inquiry.path()));
            return false;
        }
        // As Apache: without TLS there is nothing that could be required of it.
        !is_encrypted || self.required.iter().all(|required| holds(inquiry, required.as_deref()))
    }
}

fn holds(inquiry: &mut Inquiry<'_>, required: Option<&Expression>) -> bool {
    let holds = required.is_some_and(|expression| inquiry.evaluate(expression).unwrap_or(false));
    if !holds {
        inquiry.log(format_args!("access to {} failed, reason: Failed expression of SSLRequire", inquiry.path()));
    }
    holds
}

/// Whether an expression asks for what only the TLS session knows.
pub fn asks_session(text: &[u8]) -> bool {
    let upper = text.to_ascii_uppercase();
    ["SSL_", "SSL:", "PEEREXTLIST"].iter().any(|name| upper.windows(name.len()).any(|part| part == name.as_bytes()))
}

fn add_required(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let text = node.argument_text();
    let in_htaccess = matches!(reading.place, Place::Htaccess(_));
    let options = ExpressionOptions { tls_require: true, in_htaccess, ..ExpressionOptions::default() };
    let expression = Expression::compile(text, options).map_err(|error| format!("Cannot parse expression: {}", error.message))?;
    let is_known = !asks_session(text);
    if !is_known {
        reading.warn(node, "SSLRequire asks for variables of TLS, which are not known here: it refuses everybody");
    }
    local.ssl.required.push(is_known.then(|| Arc::new(expression)));
    Ok(())
}

fn set_verify_client(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default().to_ascii_lowercase();
    local.ssl.needs_certificate = Some(match word.as_str() {
        "none" | "off" => false,
        "require" => {
            reading.warn(node, "a certificate is only asked for in the handshake: this is refused unless the host itself requires one");
            true
        }
        "optional" | "optional_no_ca" => {
            reading.warn(node, "a certificate is only asked for in the handshake: here nobody is asked");
            false
        }
        _ => return Err(format!("SSLVerifyClient: Invalid argument '{word}'")),
    });
    Ok(())
}

/// `StrictRequire` alone has to do with access; of the rest is said what follows.
fn set_options(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    for word in texts(node) {
        let name = word.trim_start_matches(['+', '-']);
        let is_on = !word.starts_with('-');
        match name.to_ascii_lowercase().as_str() {
            "strictrequire" => local.ssl.strict = Some(is_on),
            "stdenvvars" | "exportcertdata" if is_on => {
                reading.warn(node, format!("SSLOptions {name}: programs don't get these variables yet"))
            }
            "fakebasicauth" if is_on => reading.warn(node, "SSLOptions FakeBasicAuth is not honoured: names and passwords are asked for"),
            "stdenvvars" | "exportcertdata" | "fakebasicauth" | "optrenegotiate" | "legacydnstringformat" | "compatenvvars" => {}
            _ => return Err(format!("SSLOptions: Illegal option '{name}'")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_sections_add_and_never_take_back() {
        let outer = Ssl { only_encrypted: true, required: vec![None], ..Ssl::default() };
        let merged = outer.under(&Ssl { required: vec![None], needs_certificate: Some(false), ..Ssl::default() });
        assert!(merged.only_encrypted && merged.required.len() == 2 && merged.needs_certificate == Some(false));
    }

    #[test]
    fn what_only_the_session_knows() {
        for (text, expected) in [
            ("%{SSL_CLIENT_S_DN_CN} eq 'x'", true),
            ("%{ssl:SSL_PROTOCOL}", true),
            ("'x' in PeerExtList('1.2')", true),
            ("%{REMOTE_ADDR} =~ m/^127/ and %{HTTPS} == 'on'", false),
        ] {
            assert_eq!(asks_session(text.as_bytes()), expected, "{text}");
        }
    }
}
