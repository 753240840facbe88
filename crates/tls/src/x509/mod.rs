//! What a certificate says, under the names that mod_ssl gives it (`M_SERIAL`, `S_DN_CN`,
//! `SAN_DNS_0` …).
//!
//! Asked for one at a time, by rules, logs and programs, long after the handshake; certificates of
//! peers come here, so everything that does not parse is simply not there. The texts are OpenSSL's,
//! because users compare them with what `openssl x509` printed. Absent on purpose: everything that
//! decides about trust; rustls has decided.

mod algorithms;
mod names;

pub use names::NameForm;

use crate::der::{Der, SEQUENCE, general_times};
use names::{component, components, name_text};

/// A certificate's fields, still encoded.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    whole: &'a [u8],
    /// 0 for the first version, as on the wire.
    version: u8,
    serial: &'a [u8],
    issuer: &'a [u8],
    subject: &'a [u8],
    not_before: i64,
    not_after: i64,
    key_algorithm: &'a [u8],
    signature_algorithm: &'a [u8],
    extensions: Option<&'a [u8]>,
}

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// `id-ce-subjectAltName`, 2.5.29.17.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// `msUPN`, 1.3.6.1.4.1.311.20.2.3.
const USER_PRINCIPAL_NAME: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x14, 0x02, 0x03];
/// `id-on-dnsSRV`, 1.3.6.1.5.5.7.8.7.
const DNS_SERVICE_NAME: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x08, 0x07];
const UTF8_STRING: u8 = 0x0c;
const IA5_STRING: u8 = 0x16;
/// Of alternative names and of components that a program is told: as many as a certificate of a
/// person has, and then some.
const NAMES_MAX: usize = 64;

impl<'a> Certificate<'a> {
    /// RFC 5280 section 4.1.
    pub fn parse(whole: &'a [u8]) -> Option<Certificate<'a>> {
        let mut outer = Der(Der(whole).expect(SEQUENCE)?);
        let mut fields = Der(outer.expect(SEQUENCE)?);
        let version = fields
            .optional(0xa0)
            .and_then(|field| Der(field).expect(INTEGER)?.last().copied())
            .unwrap_or(0);
        let serial = fields.expect(INTEGER)?;
        fields.expect(SEQUENCE)?;
        let issuer = fields.expect(SEQUENCE)?;
        let (not_before, not_after) = general_times(fields.expect(SEQUENCE)?)?;
        let subject = fields.expect(SEQUENCE)?;
        let key_algorithm =
            Der(Der(fields.expect(SEQUENCE)?).expect(SEQUENCE)?).expect(OBJECT_IDENTIFIER)?;
        fields.optional(0x81);
        fields.optional(0x82);
        let extensions = fields
            .optional(0xa3)
            .and_then(|field| Der(field).expect(SEQUENCE));
        let signature_algorithm = Der(outer.expect(SEQUENCE)?).expect(OBJECT_IDENTIFIER)?;
        Some(Certificate {
            whole,
            version,
            serial,
            issuer,
            subject,
            not_before,
            not_after,
            key_algorithm,
            signature_algorithm,
            extensions,
        })
    }

    /// What stands behind `SSL_CLIENT_` or `SSL_SERVER_` in a variable's name; in any case of
    /// letters but for components.
    pub fn variable(&self, name: &str, form: NameForm, now: i64) -> Option<String> {
        let upper = name.to_ascii_uppercase();
        Some(match upper.as_str() {
            "M_VERSION" => (u16::from(self.version) + 1).to_string(),
            "M_SERIAL" => self.serial_text(),
            "V_START" => time_text(self.not_before),
            "V_END" => time_text(self.not_after),
            "V_REMAIN" => (self.not_after.saturating_sub(now).max(0) / 86_400).to_string(),
            "S_DN" => name_text(self.subject, form),
            "I_DN" => name_text(self.issuer, form),
            "A_KEY" => algorithms::name(self.key_algorithm),
            "A_SIG" => algorithms::name(self.signature_algorithm),
            "CERT" => pem(self.whole),
            "CERT_RFC4523_CEA" => format!(
                "{{ serialNumber {}, issuer rdnSequence:\"{}\" }}",
                self.serial_decimal(),
                self.issuer_name()
            ),
            _ => return self.part(&upper),
        })
    }

    pub fn is_self_issued(&self) -> bool {
        self.subject == self.issuer
    }

    fn issuer_name(&self) -> String {
        name_text(self.issuer, NameForm::Rfc2253)
    }

    /// A component of a name, or an alternative name; `_0` and so on for those that are there more
    /// than once.
    fn part(&self, upper: &str) -> Option<String> {
        if let Some(part) = upper.strip_prefix("S_DN_") {
            return component(self.subject, part);
        }
        if let Some(part) = upper.strip_prefix("I_DN_") {
            return component(self.issuer, part);
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
        for (prefix, name) in [("S_DN", self.subject), ("I_DN", self.issuer)] {
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

    /// RFC 5280 section 4.2.1.6, as far as mod_ssl has names for them.
    fn alternative_names(&self) -> impl Iterator<Item = (&'static str, String)> + use<'a> {
        let mut names = Der(self
            .extension(SUBJECT_ALT_NAME)
            .and_then(|value| Der(value).expect(SEQUENCE))
            .unwrap_or_default());
        std::iter::from_fn(move || names.next()).filter_map(|(tag, content)| match tag {
            0x81 => Some(("Email", text(content))),
            0x82 => Some(("DNS", text(content))),
            0xa0 => other_name(content),
            _ => None,
        })
    }

    fn extension(&self, wanted: &[u8]) -> Option<&'a [u8]> {
        self.extensions()
            .find(|(kind, _)| *kind == wanted)
            .map(|(_, value)| value)
    }

    fn extensions(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut extensions = Der(self.extensions.unwrap_or_default());
        std::iter::from_fn(move || {
            let mut extension = Der(extensions.expect(SEQUENCE)?);
            let kind = extension.expect(OBJECT_IDENTIFIER)?;
            extension.optional(BOOLEAN);
            Some((kind, extension.expect(OCTET_STRING)?))
        })
    }

    /// Values of extensions with this object id (`1.2.3.4`): texts as they are, everything else in
    /// hexadecimal.
    pub fn extension_values(&self, object_id: &str) -> Vec<String> {
        let values = self
            .extensions()
            .filter(|(kind, _)| algorithms::dotted(kind) == object_id);
        let shown = |value: &[u8]| match Der(value).next() {
            Some((UTF8_STRING | IA5_STRING | 0x13, content)) => text(content),
            _ => hex(value),
        };
        values.map(|(_, value)| shown(value)).collect()
    }

    fn serial_text(&self) -> String {
        let digits = self
            .serial
            .iter()
            .position(|byte| *byte != 0)
            .and_then(|at| self.serial.get(at..))
            .unwrap_or(&[0]);
        hex(digits)
    }

    /// Of any length: digit by digit.
    fn serial_decimal(&self) -> String {
        let mut digits = vec![0u8];
        for byte in self.serial {
            let mut carry = u32::from(*byte);
            for digit in &mut digits {
                carry += u32::from(*digit) << 8;
                (*digit, carry) = ((carry % 10) as u8, carry / 10);
            }
            while carry > 0 {
                digits.push((carry % 10) as u8);
                carry /= 10;
            }
        }
        digits
            .iter()
            .rev()
            .map(|digit| char::from(b'0' + digit))
            .collect()
    }
}

fn other_name(content: &[u8]) -> Option<(&'static str, String)> {
    let mut fields = Der(content);
    let kind = fields.expect(OBJECT_IDENTIFIER)?;
    let (tag, value) = Der(fields.expect(0xa0)?).next()?;
    match (kind, tag) {
        (USER_PRINCIPAL_NAME, UTF8_STRING) => Some(("OTHER_msUPN", text(value))),
        (DNS_SERVICE_NAME, IA5_STRING) => Some(("OTHER_dnsSRV", text(value))),
        _ => None,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// `Nov 21 09:12:12 2026 GMT`, as OpenSSL prints times.
fn time_text(seconds: i64) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let date = crate::der::date(seconds);
    let mut parts = date.rsplitn(3, '-');
    let day: u8 = parts.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let month = parts
        .next()
        .and_then(|text| text.parse::<usize>().ok())
        .and_then(|month| MONTHS.get(month.wrapping_sub(1)))
        .unwrap_or(&"Jan");
    let (year, of_day) = (parts.next().unwrap_or_default(), seconds.rem_euclid(86_400));
    format!(
        "{month} {day:2} {:02}:{:02}:{:02} {year} GMT",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

/// RFC 7468, with the line end that OpenSSL writes behind it.
pub fn pem(der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::with_capacity(der.len() * 4 / 3 + 4);
    for chunk in der.chunks(3) {
        let bits = chunk
            .iter()
            .fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        let digit = |at: usize| {
            ALPHABET
                .get((bits >> (18 - 6 * at)) as usize & 63)
                .map_or('=', |byte| char::from(*byte))
        };
        (0..4).for_each(|at| encoded.push(if at <= chunk.len() { digit(at) } else { '=' }));
    }
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in encoded.as_bytes().chunks(64) {
        text.push_str(std::str::from_utf8(line).unwrap_or_default());
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests;
