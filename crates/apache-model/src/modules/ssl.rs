//! Settings of mod_ssl in sections: SSLRequireSSL, SSLRequire, SSLVerifyClient, SSLCipherSuite,
//! SSLOptions, SSLUserName.
//!
//! Called by: `dir_config`, whose table names the setters; `assemble`, which collects what the
//! sections of a host demand of its handshake.
//! Out of scope: what a handshake demands (`tls`); checking requests (`saker_apache`).

use crate::{
    arguments::texts,
    reading::{Place, Reading, Set, said},
};
use saker_ap_expr::{Expression, ExpressionOptions};
use saker_apache_syntax::Node;
use saker_config::{
    cipher_lists,
    model::{CipherSuite, ClientCertificates, TlsVersion},
};
use saker_tls::NameForm;
use std::sync::Arc;

/// Words of SSLOptions.
const STRICT_REQUIRE: u8 = 1;

pub const STANDARD_VARIABLES: u8 = 1 << 1;

pub const CERTIFICATE_DATA: u8 = 1 << 2;

pub const FAKE_BASIC_AUTH: u8 = 1 << 3;

const LEGACY_NAMES: u8 = 1 << 4;

#[derive(Clone, Debug, Default)]
pub struct Ssl {
    /// SSLRequireSSL.
    pub only_encrypted: bool,
    pub required: Vec<Arc<Expression>>,
    /// SSLVerifyClient and SSLVerifyDepth of sections.
    pub demand: Option<ClientCertificates>,
    pub depth_max: Option<u32>,
    pub ciphers: Option<Arc<[CipherSuite]>>,
    pub user_name: Option<Box<str>>,
    pub options: Options,
}

/// Words with and without sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Said without sign: what is outside does not count.
    absolute: bool,
    on: u8,
    off: u8,
}

impl Options {
    fn merge(self, over: Options) -> Options {
        match over.absolute {
            true => over,
            false => Options {
                absolute: self.absolute,
                on: (self.on & !over.off) | over.on,
                off: (self.off & !over.on) | over.off,
            },
        }
    }

    pub fn has(self, word: u8) -> bool {
        self.on & word != 0
    }
}

impl Ssl {
    pub const DIRECTIVES: &'static [(&'static str, Set<Ssl>)] = &[
        ("SSLRequireSSL", |_, ssl, _| {
            ssl.only_encrypted = true;
            Ok(())
        }),
        ("SSLRequire", add_required),
        ("SSLVerifyClient", set_verify_client),
        ("SSLVerifyDepth", |node, ssl, _| {
            ssl.depth_max = Some(depth(node)?);
            Ok(())
        }),
        ("SSLCipherSuite", |node, ssl, reading| {
            let words = texts(node);
            let read = cipher_lists::read(&words)?.filter(|read| read.version == TlsVersion::Tls12);
            ssl.ciphers = read.and_then(|read| read.suites).map(Into::into);
            reading.diagnostics.extend(
                cipher_lists::without_any("SSLCipherSuite", &words)
                    .map(|text| node.warning(text, None)),
            );
            Ok(())
        }),
        ("SSLUserName", |node, ssl, _| {
            ssl.user_name = texts(node).into_iter().next().map(Into::into);
            Ok(())
        }),
        ("SSLOptions", set_options),
    ];

    pub fn merge(&self, over: &Ssl) -> Ssl {
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
            options: self.options.merge(over.options),
        }
    }

    pub fn is_strict(&self) -> bool {
        self.options.has(STRICT_REQUIRE)
    }

    pub fn form(&self) -> NameForm {
        if self.options.has(LEGACY_NAMES) {
            NameForm::Legacy
        } else {
            NameForm::Rfc2253
        }
    }
}

/// The certificates that sections of a host demand, which its handshake has to ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionDemands {
    pub asks: bool,
    /// One of them takes certificates of unknown authorities.
    pub takes_unknown: bool,
    /// The longest chain that one of them takes.
    pub depth_max: Option<u32>,
}

impl SectionDemands {
    /// Adds the settings of one section, without sections inside it.
    pub fn add(&mut self, ssl: &Ssl) {
        match ssl.demand {
            None | Some(ClientCertificates::Off) => {}
            Some(demand) => {
                self.asks = true;
                self.takes_unknown |= demand == ClientCertificates::OptionalNoAuthority;
            }
        }
        self.depth_max = self.depth_max.max(ssl.depth_max);
    }
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

fn add_required(node: &Node, ssl: &mut Ssl, reading: &mut Reading<'_>) -> Result<(), String> {
    let options = ExpressionOptions {
        tls_require: true,
        ..reading.expression_options()
    };
    let expression = Expression::compile(node.argument_text(), options);
    ssl.required.push(
        expression
            .map(Arc::new)
            .map_err(|error| format!("Cannot parse expression: {}", error.message))?,
    );
    Ok(())
}

fn set_verify_client(node: &Node, ssl: &mut Ssl, reading: &mut Reading<'_>) -> Result<(), String> {
    let demand = demand(node)?;
    ssl.demand = Some(demand);
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
fn set_options(node: &Node, ssl: &mut Ssl, _: &mut Reading<'_>) -> Result<(), String> {
    let options = &mut ssl.options;
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
                *options = options.merge(Options {
                    on: bit,
                    ..Options::default()
                })
            }
            Some(b'-') => {
                *options = options.merge(Options {
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
        let merged = outer.merge(&over);
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
            assert_eq!(outer.merge(inner).on, expected, "{outer:?} {inner:?}");
        }
    }
}
