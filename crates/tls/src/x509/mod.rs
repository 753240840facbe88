//! Certificates as mod_ssl shows them, under the names that mod_ssl gives it (`M_SERIAL`,
//! `S_DN_CN`, `SAN_DNS_0` …).
//!
//! Called by: rules, logs and programs, one variable at a time, long after the handshake. Caveat:
//! the texts are OpenSSL's, because users compare them with what `openssl x509` prints; what does
//! not parse is absent. Out of scope: everything that decides about trust; rustls has decided.

mod algorithms;
mod names;
mod value;

pub use names::NameForm;

use crate::der::{self, Der};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use names::{component, components, name_text};
use value::{NAMES_MAX, hex, text};
use x509_parser::{
    certificate::X509Certificate, extensions::GeneralName, extensions::X509Extension,
};

/// A parsed certificate.
#[derive(Clone, Debug)]
pub struct Certificate<'a> {
    whole: &'a [u8],
    parsed: X509Certificate<'a>,
}

/// `msUPN`.
const USER_PRINCIPAL_NAME: &str = "1.3.6.1.4.1.311.20.2.3";
/// `id-on-dnsSRV`.
const DNS_SERVICE_NAME: &str = "1.3.6.1.5.5.7.8.7";
const UTF8_STRING: u8 = 0x0c;
const IA5_STRING: u8 = 0x16;

impl<'a> Certificate<'a> {
    /// Parses a certificate (RFC 5280 section 4.1).
    pub fn parse(whole: &'a [u8]) -> Option<Certificate<'a>> {
        let parsed = der::parse(whole)?;
        Some(Certificate { whole, parsed })
    }

    /// Returns a variable by its name after `SSL_CLIENT_` or `SSL_SERVER_`, in any case of letters
    /// but for components.
    pub fn variable(&self, name: &str, form: NameForm, now: i64) -> Option<String> {
        let upper = name.to_ascii_uppercase();
        Some(match upper.as_str() {
            "M_VERSION" => (self.parsed.version().0 + 1).to_string(),
            "M_SERIAL" => self.serial_text(),
            "V_START" => time_text(self.parsed.validity().not_before.timestamp()),
            "V_END" => time_text(self.not_after()),
            "V_REMAIN" => (self.not_after().saturating_sub(now).max(0) / 86_400).to_string(),
            "S_DN" => name_text(self.parsed.subject(), form),
            "I_DN" => name_text(self.parsed.issuer(), form),
            "A_KEY" => algorithms::name(&self.parsed.public_key().algorithm.algorithm),
            "A_SIG" => algorithms::name(&self.parsed.signature_algorithm.algorithm),
            "CERT" => pem(self.whole),
            "CERT_RFC4523_CEA" => format!(
                "{{ serialNumber {}, issuer rdnSequence:\"{}\" }}",
                self.parsed.serial,
                self.issuer_name()
            ),
            _ => return self.part(&upper),
        })
    }

    pub fn is_self_issued(&self) -> bool {
        self.parsed.subject().as_raw() == self.parsed.issuer().as_raw()
    }

    fn not_after(&self) -> i64 {
        self.parsed.validity().not_after.timestamp()
    }

    fn issuer_name(&self) -> String {
        name_text(self.parsed.issuer(), NameForm::Rfc2253)
    }

    /// A component of a name, or an alternative name; `_0` and so on for those that are there more
    /// than once.
    fn part(&self, upper: &str) -> Option<String> {
        if let Some(part) = upper.strip_prefix("S_DN_") {
            return component(self.parsed.subject(), part);
        }
        if let Some(part) = upper.strip_prefix("I_DN_") {
            return component(self.parsed.issuer(), part);
        }
        let (kind, index) = upper.strip_prefix("SAN_")?.rsplit_once('_')?;
        let index: usize = index.parse().ok()?;
        self.alternative_names()
            .filter(|(known, _)| known.eq_ignore_ascii_case(kind))
            .nth(index)
            .map(|(_, text)| text)
    }

    /// Components and alternative names with the ends of their variables' names, as programs are
    /// told them.
    pub fn parts(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for (prefix, name) in [
            ("S_DN", self.parsed.subject()),
            ("I_DN", self.parsed.issuer()),
        ] {
            all.extend(
                components(name)
                    .into_iter()
                    .map(|(part, text)| (format!("{prefix}_{part}"), text)),
            );
        }
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for (kind, text) in self.alternative_names().take(NAMES_MAX) {
            let at = counts
                .iter()
                .position(|(known, _)| *known == kind)
                .unwrap_or_else(|| {
                    counts.push((kind, 0));
                    counts.len() - 1
                });
            if let Some((_, count)) = counts.get_mut(at) {
                all.push((format!("SAN_{kind}_{count}"), text));
                *count += 1;
            }
        }
        all
    }

    /// Returns the alternative names that mod_ssl has variables for (RFC 5280 section 4.2.1.6).
    fn alternative_names(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let names = self.parsed.subject_alternative_name().ok().flatten();
        let names = names.map_or(&[][..], |extension| &extension.value.general_names);
        names.iter().filter_map(|name| match name {
            GeneralName::RFC822Name(text) => Some(("Email", (*text).to_owned())),
            GeneralName::DNSName(text) => Some(("DNS", (*text).to_owned())),
            GeneralName::OtherName(kind, value) => other_name(&algorithms::dotted(kind), value),
            _ => None,
        })
    }

    /// Returns the values of extensions with this object id (`1.2.3.4`): text as it is, everything
    /// else in hexadecimal.
    pub fn extension_values(&self, object_id: &str) -> Vec<String> {
        let extensions = self.parsed.extensions().iter();
        let own = extensions.filter(|extension| algorithms::dotted(&extension.oid) == object_id);
        let shown = |extension: &X509Extension<'_>| match Der(extension.value).next() {
            Some((UTF8_STRING | IA5_STRING | 0x13, content)) => text(content),
            _ => hex(extension.value),
        };
        own.map(shown).collect()
    }

    fn serial_text(&self) -> String {
        let serial = self.parsed.raw_serial();
        let digits = serial
            .iter()
            .position(|byte| *byte != 0)
            .and_then(|at| serial.get(at..))
            .unwrap_or(&[0]);
        hex(digits)
    }
}

/// `value`: `[0] EXPLICIT`, as it stands behind the kind.
fn other_name(kind: &str, value: &[u8]) -> Option<(&'static str, String)> {
    let (tag, value) = Der(Der(value).expect(0xa0)?).next()?;
    match (kind, tag) {
        (USER_PRINCIPAL_NAME, UTF8_STRING) => Some(("OTHER_msUPN", text(value))),
        (DNS_SERVICE_NAME, IA5_STRING) => Some(("OTHER_dnsSRV", text(value))),
        _ => None,
    }
}

/// `Nov 21 09:12:12 2026 GMT`, as OpenSSL prints times.
fn time_text(seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    time.strftime("%b %e %H:%M:%S %Y GMT").to_string()
}

/// RFC 7468, with the line end that OpenSSL writes behind it.
pub fn pem(der: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in STANDARD.encode(der).as_bytes().chunks(64) {
        text.push_str(std::str::from_utf8(line).unwrap_or_default());
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests;
