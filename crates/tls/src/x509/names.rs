//! Distinguished names as text: RFC 2253 as OpenSSL writes it, the old form with slashes, and
//! single components by mod_ssl's letters.
//!
//! Difficulty: the texts are compared by users' rules, so escapes, order and short names are
//! OpenSSL's, not the newest standard's.

use super::{
    algorithms::dotted,
    value::{NAMES_MAX, hex, text},
};
use x509_parser::{
    asn1_rs::{Oid, ToDer as _},
    x509::X509Name,
};

/// Spelling of a distinguished name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameForm {
    /// `CN=x,O=y,C=US`: the last part first.
    #[default]
    Rfc2253,
    /// `/C=US/O=y/CN=x`: `SSLOptions +LegacyDNStringFormat`, and the user of FakeBasicAuth.
    Legacy,
}

const UNIVERSAL_STRING: u32 = 0x1c;
const BMP_STRING: u32 = 0x1e;

/// A kind of component: its encoded id, OpenSSL's short name, mod_ssl's letters.
struct Kind(&'static [u8], &'static str, &'static [&'static str]);

/// mod_ssl's letters come first, in the order in which programs are told them.
const KINDS: &[Kind] = &[
    Kind(&[0x55, 4, 6], "C", &["C"]),
    Kind(&[0x55, 4, 8], "ST", &["ST", "SP"]),
    Kind(&[0x55, 4, 7], "L", &["L"]),
    Kind(&[0x55, 4, 10], "O", &["O"]),
    Kind(&[0x55, 4, 11], "OU", &["OU"]),
    Kind(&[0x55, 4, 3], "CN", &["CN"]),
    Kind(&[0x55, 4, 12], "title", &["T"]),
    Kind(&[0x55, 4, 43], "initials", &["I"]),
    Kind(&[0x55, 4, 42], "GN", &["G"]),
    Kind(&[0x55, 4, 4], "SN", &["S"]),
    Kind(&[0x55, 4, 13], "description", &["D"]),
    Kind(
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1],
        "UID",
        &["UID"],
    ),
    Kind(
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1],
        "emailAddress",
        &["Email"],
    ),
    Kind(
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
        "DC",
        &[],
    ),
    Kind(&[0x55, 4, 5], "serialNumber", &[]),
    Kind(&[0x55, 4, 9], "street", &[]),
    Kind(&[0x55, 4, 15], "businessCategory", &[]),
    Kind(&[0x55, 4, 17], "postalCode", &[]),
    Kind(&[0x55, 4, 41], "name", &[]),
    Kind(&[0x55, 4, 44], "generationQualifier", &[]),
    Kind(&[0x55, 4, 46], "dnQualifier", &[]),
    Kind(&[0x55, 4, 65], "pseudonym", &[]),
    Kind(&[0x55, 4, 97], "organizationIdentifier", &[]),
];

/// One `type=value`; entries of one set share its number.
struct Entry<'a> {
    set: usize,
    kind: &'a Oid<'a>,
    tag: u32,
    value: &'a [u8],
    /// The value with its head.
    whole: Vec<u8>,
}

fn entries<'a>(name: &'a X509Name<'_>) -> Vec<Entry<'a>> {
    let sets = name.iter_rdn().enumerate();
    let members = sets.flat_map(|(set, members)| members.iter().map(move |member| (set, member)));
    let entry = |(set, member): (usize, &'a x509_parser::x509::AttributeTypeAndValue<'_>)| {
        let value = member.attr_value();
        Entry {
            set,
            kind: member.attr_type(),
            tag: value.tag().0,
            value: value.data,
            whole: value.to_der_vec().unwrap_or_default(),
        }
    };
    members.map(entry).collect()
}

fn known(kind: &Oid<'_>) -> Option<&'static Kind> {
    KINDS.iter().find(|known| known.0 == kind.as_bytes())
}

pub fn name_text(name: &X509Name<'_>, form: NameForm) -> String {
    let all = entries(name);
    match form {
        NameForm::Legacy => {
            let (mut written, mut before) = (String::new(), None);
            for entry in &all {
                let separator = if before == Some(entry.set) { '+' } else { '/' };
                written.push_str(&format!(
                    "{separator}{}={}",
                    short(entry),
                    legacy_value(entry)
                ));
                before = Some(entry.set);
            }
            written
        }
        NameForm::Rfc2253 => {
            let (mut written, mut before) = (String::new(), None);
            // RFC 2253 section 2.1: from the last to the first.
            for entry in all.iter().rev() {
                let separator = before.map_or("", |set| if set == entry.set { "+" } else { "," });
                written.push_str(&format!("{separator}{}={}", short(entry), escaped(entry)));
                before = Some(entry.set);
            }
            written
        }
    }
}

fn short(entry: &Entry<'_>) -> String {
    known(entry.kind).map_or_else(|| dotted(entry.kind), |kind| kind.1.to_owned())
}

/// OpenSSL writes what is not printable as `\xHH`.
fn legacy_value(entry: &Entry<'_>) -> String {
    let is_printable = |byte: &u8| (b' '..=b'~').contains(byte);
    entry
        .value
        .iter()
        .map(|byte| {
            if is_printable(byte) {
                char::from(*byte).to_string()
            } else {
                format!("\\x{byte:02X}")
            }
        })
        .collect()
}

/// RFC 2253 section 2.4; kinds without a name as `#` and their encoding.
fn escaped(entry: &Entry<'_>) -> String {
    if known(entry.kind).is_none() {
        return format!("#{}", hex(&entry.whole));
    }
    let value = value(entry);
    let last = value.chars().count().saturating_sub(1);
    let mut written = String::with_capacity(value.len());
    for (at, letter) in value.chars().enumerate() {
        let is_special = matches!(letter, ',' | '+' | '"' | '\\' | '<' | '>' | ';');
        match letter {
            letter if u32::from(letter) < 0x20 || letter == '\u{7f}' => {
                written.push_str(&format!("\\{:02X}", u32::from(letter)))
            }
            '#' | ' ' if at == 0 => written.extend(['\\', letter]),
            ' ' if at == last => written.extend(['\\', letter]),
            letter if is_special => written.extend(['\\', letter]),
            letter => written.push(letter),
        }
    }
    written
}

/// In UTF-8, whatever kind of string it is.
fn value(entry: &Entry<'_>) -> String {
    match entry.tag {
        BMP_STRING => {
            let units: Vec<u16> = entry
                .value
                .as_chunks::<2>()
                .0
                .iter()
                .map(|pair| u16::from_be_bytes(*pair))
                .collect();
            String::from_utf16_lossy(&units)
        }
        UNIVERSAL_STRING => {
            let letters = entry
                .value
                .as_chunks::<4>()
                .0
                .iter()
                .map(|bytes| u32::from_be_bytes(*bytes));
            letters
                .map(|letter| char::from_u32(letter).unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect()
        }
        // PrintableString, IA5String and UTF8String are UTF-8; TeletexString is taken for Latin-1,
        // as OpenSSL does.
        0x14 => entry.value.iter().map(|byte| char::from(*byte)).collect(),
        _ => text(entry.value),
    }
}

/// By mod_ssl's letters, with `_RAW` (not escaped) and `_0` and so on behind it.
pub fn component(name: &X509Name<'_>, part: &str) -> Option<String> {
    let part = part.strip_suffix("_RAW").unwrap_or(part);
    let (letters, index) = match part
        .rsplit_once('_')
        .map(|(letters, index)| (letters, index.parse::<usize>()))
    {
        Some((letters, Ok(index))) => (letters, index),
        _ => (part, 0),
    };
    let kind = KINDS
        .iter()
        .find(|kind| kind.2.iter().any(|own| own.eq_ignore_ascii_case(letters)))?;
    entries(name)
        .iter()
        .filter(|entry| entry.kind.as_bytes() == kind.0)
        .nth(index)
        .map(value)
}

/// All that have letters, as programs are told them: the first of a kind without a number, too.
pub fn components(name: &X509Name<'_>) -> Vec<(String, String)> {
    let all = entries(name);
    let mut told = Vec::new();
    for kind in KINDS {
        let Some(letters) = kind.2.first() else {
            continue;
        };
        let own: Vec<&Entry<'_>> = all
            .iter()
            .filter(|entry| entry.kind.as_bytes() == kind.0)
            .take(NAMES_MAX)
            .collect();
        told.extend(
            own.first()
                .map(|entry| ((*letters).to_owned(), value(entry))),
        );
        let numbered = own.iter().enumerate().filter(|(at, _)| *at > 0);
        told.extend(numbered.map(|(at, entry)| (format!("{letters}_{at}"), value(entry))));
    }
    told
}
