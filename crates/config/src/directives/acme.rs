//! `[acme]`: certificate authorities and challenges for automatic certificates.
//!
//! Out of scope: which sites get them (`[site.tls]`); whether names, challenges and commands fit
//! together, which is checked when all files have been read (`check`).

use crate::{
    context::{ACME, ACME_DIRECTORY},
    diagnostic::quoted,
    kind::{Kind, TableKind, Word},
    model::{Acme, AcmeChallenge, AcmeDirectory, AcmeProfile, ExternalAccount},
    reader::Reader,
    report::Report,
    row::{Draft, Row, Rows},
    source::Location,
    value::{Fields, Spanned, Value, ValueError},
};

static DIRECTORY: Word = Word {
    expects: "\"letsencrypt\", \"letsencrypt-staging\", \"zerossl\" or the URL of an ACME \
              directory (\"https://...\")",
    pattern: "^(letsencrypt|letsencrypt-staging|zerossl|https://.+)$",
    read: |text| read_directory(text).map(|url| Value::Text(url.to_owned())),
};

static ASK: Word = Word {
    expects: "a URL, such as \"http://127.0.0.1:9000/may-have-certificate\"",
    pattern: "^https?://[^ ]+$",
    read: |text| read_ask(text).map(Value::Text),
};

static EMAIL: Word = Word {
    expects: "an email address",
    pattern: "^[^@ ]+@[^@ ]+$",
    read: read_email,
};

static HMAC_KEY: Word = Word {
    expects: "a key in base64url",
    pattern: "^[A-Za-z0-9_+/-]+=*$",
    read: |text| base64url(text).map(Value::parsed),
};

static PROFILE: Word = Word {
    expects: "the name of a profile, such as `shortlived`",
    pattern: "^[A-Za-z0-9._-]+$",
    read: read_profile,
};

const DIRECTORY_TABLE: Kind = Kind::Table(&TableKind {
    context: ACME_DIRECTORY,
    read: read_directory_table,
});
const ONE_DIRECTORY: Kind = Kind::OneOf(&[Kind::Word(&DIRECTORY), DIRECTORY_TABLE]);

#[derive(Debug, Default)]
pub struct DirectoryDraft {
    url: Option<String>,
    key_id: Option<(String, Location)>,
    hmac_key: Option<(Vec<u8>, Location)>,
    profile: Option<String>,
}

impl Draft for DirectoryDraft {
    fn rows() -> Rows<Self> {
        &[DIRECTORY_ROWS]
    }
}

/// `[acme]` while it is read.
#[derive(Debug, Default)]
pub struct AcmeDraft {
    pub acme: Acme,
    has_challenges: bool,
    challenges_at: Option<Location>,
    without_account: Option<Location>,
}

impl Draft for AcmeDraft {
    fn rows() -> Rows<Self> {
        &[ACME_ROWS]
    }
}

pub const ACME_ROWS: &[Row<AcmeDraft>] = &[
    Row {
        name: "directory",
        contexts: ACME,
        kind: Kind::OneOf(&[
            Kind::Word(&DIRECTORY),
            DIRECTORY_TABLE,
            Kind::ListOf(&ONE_DIRECTORY),
        ]),
        default: Some("\"letsencrypt\""),
        example: Some(
            "[\"letsencrypt\", { url = \"zerossl\", key_id = \"abc\", hmac_key = \"c2VjcmV0\" }]",
        ),
        summary: "Certificate authority: `letsencrypt`, `letsencrypt-staging` (for tests), \
                  `zerossl`, or the URL of an ACME directory. With a list, the next one is tried \
                  when one fails.",
        apache: Some("MDCertificateAuthority"),
        aliases: &[
            "acme_ca",
            "ca",
            "directories",
            "server",
            "directory_url",
            "staging",
        ],
        set: set_directories,
        ..Row::BASE
    },
    Row {
        name: "email",
        contexts: ACME,
        kind: Kind::Word(&EMAIL),
        example: Some("\"webmaster@example.org\""),
        summary: "Contact address for the certificate authority.",
        apache: Some("MDContactEmail"),
        aliases: &["contact", "mail"],
        set: |draft, given| draft.acme.email = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "challenges",
        contexts: ACME,
        kind: Kind::ListOf(&Kind::Choice(&["http-01", "tls-alpn-01", "dns-01"])),
        example: Some("[\"tls-alpn-01\", \"http-01\"]"),
        summary: "Challenge types, in order of preference: `http-01` (on port 80), `tls-alpn-01` \
                  (on port 443), `dns-01` (requires `dns_command`; the only type for `*.` names). \
                  Default: dns-01 if `dns_command` is set, then tls-alpn-01, then http-01.",
        apache: Some("MDCAChallenges"),
        aliases: &["challenge"],
        set: set_challenges,
        ..Row::BASE
    },
    Row {
        name: "dns_command",
        contexts: ACME,
        kind: Kind::Text,
        example: Some("\"/usr/local/bin/zone-record\""),
        summary: "Program for dns-01, with its arguments. Three more are appended: `set` or \
                  `clear`, the name of a TXT record (`_acme-challenge.example.org`), and its \
                  value. It must exit with status 0 within two minutes.",
        apache: Some("MDChallengeDns01"),
        aliases: &["acme_dns", "dns", "dns_hook"],
        set: |draft, given| draft.acme.dns_command = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "dns_wait",
        contexts: ACME,
        kind: Kind::Duration {
            min_ms: 0,
            max_ms: 3_600_000,
        },
        default: Some("\"30s\""),
        summary: "Time to wait for a record to propagate, between `dns_command` and the \
                  authority's check.",
        aliases: &["propagation_delay", "dns_delay"],
        set: |draft, given| draft.acme.dns_wait_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "ask",
        contexts: ACME,
        kind: Kind::Word(&ASK),
        example: Some("\"http://127.0.0.1:9000/may-have-certificate\""),
        summary: "For sites with `automatic = \"on-demand\"`: URL that is requested with \
                  `?domain=NAME` before a certificate is ordered; status 200 allows it, any other \
                  refuses. For a site with `lookup` the database must know the name as well, with \
                  or without `ask`.",
        aliases: &["on_demand_tls", "permission"],
        set: |draft, given| draft.acme.ask = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "directory_ca",
        contexts: ACME,
        kind: Kind::Path,
        example: Some("\"/etc/ssl/own-authority.pem\""),
        summary: "CA certificates (PEM) to trust for the ACME directory, in addition to the \
                  system's.",
        apache: Some("MDCACertificateFile"),
        aliases: &["acme_ca_root", "ca_root"],
        set: |draft, given| draft.acme.directory_ca = Some(given.path()),
        ..Row::BASE
    },
];

pub const DIRECTORY_ROWS: &[Row<DirectoryDraft>] = &[
    Row {
        name: "url",
        contexts: ACME_DIRECTORY,
        kind: Kind::Word(&DIRECTORY),
        example: Some("\"zerossl\""),
        required: true,
        summary: "As `directory`.",
        apache: Some("MDCertificateAuthority"),
        aliases: &["directory"],
        set: |draft, given| draft.url = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "key_id",
        contexts: ACME_DIRECTORY,
        kind: Kind::Text,
        example: Some("\"abc\""),
        summary: "Key identifier of an existing account (external account binding).",
        apache: Some("MDExternalAccountBinding"),
        aliases: &["kid", "eab_kid", "acme_eab"],
        set: |draft, given| {
            let at = given.at.clone();
            draft.key_id = Some((given.text(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "hmac_key",
        contexts: ACME_DIRECTORY,
        kind: Kind::Word(&HMAC_KEY),
        example: Some("\"c2VjcmV0\""),
        summary: "HMAC key of that account, in base64url.",
        apache: Some("MDExternalAccountBinding"),
        aliases: &["hmac", "mac_key", "eab_hmac_key"],
        set: |draft, given| {
            let at = given.at.clone();
            draft.hmac_key = Some((given.parsed::<Vec<u8>>(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "profile",
        contexts: ACME_DIRECTORY,
        kind: Kind::Word(&PROFILE),
        example: Some("\"shortlived\""),
        summary: "Profile of the certificates, by its name at the authority: Let's Encrypt's \
                  `shortlived` are valid for six days. Nothing is ordered from an authority that \
                  doesn't offer it. Default: the authority's own; for IP addresses `shortlived` \
                  where it is offered, because Let's Encrypt wants that. It counts from the next \
                  order.",
        apache: Some("MDProfile"),
        aliases: &["acme_profile", "cert_profile"],
        set: |draft, given| draft.profile = Some(given.text()),
        ..Row::BASE
    },
];

fn set_directories(draft: &mut AcmeDraft, given: Spanned) {
    let all = given.one_or_many();
    let directory = |given: &Spanned| match &given.value {
        Value::Text(url) => Some(AcmeDirectory {
            url: url.clone(),
            external_account: None,
            profile: None,
        }),
        value => value.parsed_as(),
    };
    let is_bare =
        |given: &&Spanned| matches!(&given.value, Value::Text(url) if url == Acme::ZERO_SSL);
    draft.without_account = all.iter().find(is_bare).map(|given| given.at.clone());
    let directories: Vec<AcmeDirectory> = all.iter().filter_map(directory).collect();
    if !directories.is_empty() {
        draft.acme.directories = directories;
    }
}

fn set_challenges(draft: &mut AcmeDraft, given: Spanned) {
    draft.challenges_at = Some(given.at.clone());
    draft.has_challenges = true;
    draft.acme.challenges = given.texts().iter().map(|word| challenge(word)).collect();
}

fn challenge(word: &str) -> AcmeChallenge {
    match word {
        "http-01" => AcmeChallenge::Http01,
        "dns-01" => AcmeChallenge::Dns01,
        _ => AcmeChallenge::TlsAlpn01,
    }
}

/// Checks the table and completes its settings.
pub fn finish(reader: &mut Reader<'_>, draft: AcmeDraft) -> Acme {
    if let Some(at) = &draft.without_account {
        wants_account(&mut reader.report, at);
    }
    let AcmeDraft {
        mut acme,
        has_challenges,
        challenges_at,
        ..
    } = draft;
    match (&challenges_at, &acme.dns_command) {
        (Some(at), _) if acme.challenges.is_empty() => {
            reader.error(
                at,
                "`challenges` is empty: certificates require at least one",
                Some("remove `challenges` for the default".into()),
            );
        }
        (Some(at), None) if acme.challenges.contains(&AcmeChallenge::Dns01) => {
            reader.error(
                at,
                "dns-01 without `dns_command`",
                Some("add dns_command = \"/path/of/program\"".into()),
            );
        }
        _ => {}
    }
    if acme.dns_command.is_some() && !has_challenges {
        acme.challenges.insert(0, AcmeChallenge::Dns01);
    }
    acme
}

fn wants_account(report: &mut Report<'_>, at: &Location) {
    let help =
        "ZeroSSL's console shows one: { url = \"zerossl\", key_id = \"...\", hmac_key = \"...\" }";
    report.error(
        at,
        "ZeroSSL wants an account (`key_id` and `hmac_key`)",
        Some(help.into()),
    );
}

fn read_directory_table(report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = DirectoryDraft::default();
    draft.fill(fields);
    let external_account = match (draft.key_id, draft.hmac_key) {
        (Some((key_id, _)), Some((hmac_key, _))) => Some(ExternalAccount { key_id, hmac_key }),
        (Some((_, at)), None) if !fields.has("hmac_key") => {
            report.error(
                &at,
                "`key_id` without `hmac_key`",
                Some("the authority issues both together".into()),
            );
            None
        }
        (None, Some((_, at))) if !fields.has("key_id") => {
            report.error(
                &at,
                "`hmac_key` without `key_id`",
                Some("the authority issues both together".into()),
            );
            None
        }
        (None, None)
            if draft.url.as_deref() == Some(Acme::ZERO_SSL)
                && !fields.has("key_id")
                && !fields.has("hmac_key") =>
        {
            wants_account(report, &fields.at);
            None
        }
        _ => None,
    };
    Some(Value::parsed(AcmeDirectory {
        url: draft.url?,
        external_account,
        profile: draft.profile.map(|name| AcmeProfile {
            name,
            is_mandatory: true,
        }),
    }))
}

fn read_profile(text: &str) -> Result<Value, ValueError> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match !text.is_empty() && text.bytes().all(is_name) {
        true => Ok(Value::Text(text.to_owned())),
        false => Err(ValueError::plain(None)),
    }
}

fn read_directory(text: &str) -> Result<&str, ValueError> {
    match (Acme::directory_of(text), text) {
        (Some(directory), _) => Ok(directory),
        (None, url) if !is_url(url, &["https"]) => {
            let near =
                crate::suggest::nearest(text, ["letsencrypt", "letsencrypt-staging", "zerossl"]);
            let insecure = text.strip_prefix("http://").map(|rest| {
                format!(
                    "ACME directories require HTTPS: {}",
                    quoted(&format!("https://{rest}"))
                )
            });
            Err(ValueError::plain(insecure.or_else(|| {
                near.map(|name| format!("did you mean \"{name}\"?"))
            })))
        }
        (None, url) => Ok(url),
    }
}

fn read_ask(text: &str) -> Result<String, ValueError> {
    match is_url(text, &["http", "https"]) {
        true if text.contains('#') => Err(ValueError::new("the URL must not have a fragment")),
        true => Ok(text.to_owned()),
        false => Err(ValueError::plain(None)),
    }
}

fn is_url(text: &str, schemes: &[&str]) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    schemes.contains(&scheme)
        && !rest.is_empty()
        && !rest.starts_with(['/', ':', '?'])
        && rest.bytes().all(|byte| byte.is_ascii_graphic())
}

fn read_email(text: &str) -> Result<Value, ValueError> {
    let text = text.strip_prefix("mailto:").unwrap_or(text);
    let (user, host) = text.split_once('@').ok_or(ValueError::plain(None))?;
    let is_plain = |part: &str| {
        !part.is_empty()
            && !part.contains(|c: char| c == '@' || c == ',' || c.is_whitespace() || c.is_control())
    };
    if is_plain(user) && is_plain(host) {
        Ok(Value::Text(text.to_owned()))
    } else {
        Err(ValueError::plain(None))
    }
}

/// Decodes base64url without padding (RFC 4648 section 5), as authorities issue keys; padding and
/// plain base64 are accepted.
fn base64url(text: &str) -> Result<Vec<u8>, ValueError> {
    let sextet = |byte: u8| match byte {
        b'A'..=b'Z' => Ok(byte - b'A'),
        b'a'..=b'z' => Ok(byte - b'a' + 26),
        b'0'..=b'9' => Ok(byte - b'0' + 52),
        b'-' | b'+' => Ok(62),
        b'_' | b'/' => Ok(63),
        _ => Err(ValueError::plain(None)),
    };
    let sextets: Vec<u8> = text
        .trim_end_matches('=')
        .bytes()
        .map(sextet)
        .collect::<Result<_, _>>()?;
    if sextets.is_empty() || sextets.len() % 4 == 1 {
        return Err(ValueError::new("it is truncated"));
    }
    let octets = |four: &[u8]| {
        let bits = four.iter().enumerate().fold(0_u32, |bits, (at, sextet)| {
            bits | u32::from(*sextet) << (18 - 6 * at)
        });
        bits.to_be_bytes()
            .into_iter()
            .skip(1)
            .take(four.len() - 1)
            .collect::<Vec<u8>>()
    };
    Ok(sextets.chunks(4).flat_map(octets).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_of_rfc_4648_section_10() {
        for (text, octets) in [
            ("Zg", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(base64url(text), Ok(octets.as_bytes().to_vec()), "{text}");
        }
        assert_eq!(base64url("-_-_"), Ok(vec![0xfb, 0xff, 0xbf]));
        for bad in ["", "=", "Z", "Zm9vY", "Z g", "Zg\n"] {
            assert!(base64url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn directories() {
        assert_eq!(read_directory("letsencrypt"), Ok(Acme::LETS_ENCRYPT));
        assert_eq!(
            read_directory("https://ca.example/dir"),
            Ok("https://ca.example/dir")
        );
        for bad in [
            "",
            "http://ca.example/dir",
            "https://",
            "https:///x",
            "https://a b",
            "letsencript",
        ] {
            assert!(read_directory(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn mail_addresses() {
        assert!(matches!(read_email("mailto:a@b.c"), Ok(Value::Text(text)) if text == "a@b.c"));
        for bad in ["", "a", "@b", "a@", "a@b@c", "a b@c", "a@b,c@d"] {
            assert!(read_email(bad).is_err(), "{bad}");
        }
    }
}
