//! `[site.signed]`: URLs that require a signature and expire.
//!
//! A route's table replaces the site's.
//! Caveat: which keys have an effect depends on `form`, so they are collected first and checked
//! together.

use super::refusal::LOCAL_PATH;
use crate::{
    context::{ROUTE, SIGNED, SITE},
    diagnostic::quoted,
    kind::{Kind, TableKind, Word},
    model::{PathPattern, Settings, SignAlgorithm, SignForm, SignPart, SignedUrls, TokenForm},
    report::Report,
    row::{Draft, Row, Rows},
    source::Location,
    value::{Fields, Key, Spanned, Value, ValueError},
};
use saker_http::Status;
use std::{path::PathBuf, sync::Arc};

static ARGUMENT: Word = Word {
    expects: "the name of an argument, such as \"md5\"",
    pattern: "^[A-Za-z0-9_.~-]+$",
    read: |text| match !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.~-".contains(&byte))
    {
        true => Ok(Value::Text(text.to_owned())),
        false => Err(ValueError::plain(None)),
    },
};

static EXPRESSION: Word = Word {
    expects: "the text to hash, such as \"$expires$uri$remote_addr $secret\"",
    pattern: "",
    read: |text| match SignPart::read(text) {
        Ok(_) => Ok(Value::Text(text.to_owned())),
        Err(offset) => {
            let rest: String = text
                .get(offset..)
                .unwrap_or_default()
                .chars()
                .take(24)
                .collect();
            let help = "variables are $expires, $uri, $remote_addr, $host, $secret and $arg_NAME";
            Err(ValueError::with_help(
                format!("unknown variable {}", quoted(&rest)),
                help,
            ))
        }
    },
};

const OFF: Kind = Kind::Choice(&["off"]);
const FORMS: &[&str] = &["saker", "nginx", "nginx-path", "lighttpd", "mod_auth_token"];
const ALGORITHMS: &[(&str, SignAlgorithm)] = &[
    ("md5", SignAlgorithm::Md5),
    ("hmac-sha1", SignAlgorithm::HmacSha1),
    ("hmac-sha256", SignAlgorithm::HmacSha256),
];
const DEFAULT_EXPRESSION: &str = "$expires$uri$remote_addr $secret";
const SECRETS_MAX: usize = 16;
const YEAR_MS: u64 = 365 * 86_400_000;

#[derive(Debug, Default)]
pub struct SignedDraft {
    form: String,
    secrets: Vec<Spanned>,
    secret_file: Option<(PathBuf, Location)>,
    prefix: Option<String>,
    root: Option<PathBuf>,
    expired: Option<u16>,
    expression: Option<(String, Location)>,
    hash_argument: Option<(String, Location)>,
    expires_argument: Option<(String, Location)>,
    algorithm: Option<(SignAlgorithm, Location)>,
    lifetime: Option<(u64, Location)>,
    path_segments: Option<(u64, Location)>,
    query: Option<(bool, Location)>,
    address: Option<(bool, Location)>,
    host: Option<(bool, Location)>,
    /// A value is broken, and reported.
    has_unread: bool,
}

pub const ROWS: &[Row<Settings>] = &[Row {
    name: "signed",
    contexts: SITE.or(ROUTE),
    kind: Kind::OneOf(&[
        OFF,
        Kind::Table(&TableKind {
            context: SIGNED,
            read: read_signed,
        }),
    ]),
    default: Some("\"off\""),
    summary: "Require signed URLs, which expire.",
    since: "0.2",
    apache: Some("AuthTokenSecret"),
    aliases: &["secure_link", "secdownload", "signed_urls"],
    set: |settings, given| settings.links.signed = given.parsed_as(),
    ..Row::BASE
}];

pub const SIGNED_ROWS: &[Row<SignedDraft>] = &[
    Row {
        name: "form",
        contexts: SIGNED,
        kind: Kind::Choice(FORMS),
        default: Some("\"saker\""),
        summary: "Format of links. `saker`: HMAC-SHA256 over path and all arguments, in the \
                  argument `sig`. `nginx`: MD5 of `expression`, as secure_link_md5. `nginx-path`: \
                  MD5 in the path, as secure_link_secret. `lighttpd`: as mod_secdownload. \
                  `mod_auth_token`: as that Apache module.",
        since: "0.2",
        set: |draft, given| draft.form = given.text(),
        ..Row::BASE
    },
    Row {
        name: "secret",
        contexts: SIGNED,
        kind: Kind::OneOf(&[Kind::Text, Kind::ListOf(&Kind::Text)]),
        example: Some("\"a long random text\""),
        summary: "Secret shared with the program that makes links. With several, links are made \
                  with the first and accepted with each, so that secrets can be rotated.",
        since: "0.2",
        aliases: &[
            "secrets",
            "secure_link_secret",
            "secdownload.secret",
            "AuthTokenSecret",
        ],
        set: |draft, given| {
            draft.secrets = if let Value::List(list) = given.value {
                list
            } else {
                vec![given]
            }
        },
        ..Row::BASE
    },
    Row {
        name: "secret_file",
        contexts: SIGNED,
        kind: Kind::Path,
        example: Some("\"/etc/saker/links.secret\""),
        summary: "File with the secrets, one per line, instead of `secret`; read when the \
                  configuration is loaded.",
        since: "0.2",
        set: |draft, given| {
            let at = given.at.clone();
            draft.secret_file = Some((given.path(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "prefix",
        contexts: SIGNED,
        kind: Kind::Word(&LOCAL_PATH),
        example: Some("\"/dl/\""),
        summary: "Path before the token, for formats with a token in the path. Default: the part \
                  of the route's path before `*`; `/` for a site.",
        since: "0.2",
        aliases: &[
            "uri_prefix",
            "uri-prefix",
            "secdownload.uri-prefix",
            "AuthTokenPrefix",
        ],
        set: |draft, given| draft.prefix = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "root",
        contexts: SIGNED,
        kind: Kind::Path,
        example: Some("\"/srv/downloads\""),
        summary: "Directory of the files, for formats with a token in the path. Default: below the \
                  prefix, in the site's root.",
        since: "0.2",
        aliases: &[
            "document_root",
            "document-root",
            "secdownload.document-root",
        ],
        set: |draft, given| draft.root = Some(crate::folder::without_parents(given.path())),
        ..Row::BASE
    },
    Row {
        name: "expired_status",
        contexts: SIGNED,
        kind: Kind::Integer { min: 403, max: 410 },
        default: Some("410"),
        summary: "Status for expired links: 410 or 403. Invalid ones get 403.",
        since: "0.2",
        set: |draft, given| draft.expired = Some(given.number() as u16),
        ..Row::BASE
    },
    Row {
        name: "expression",
        contexts: SIGNED,
        kind: Kind::Word(&EXPRESSION),
        default: Some("\"$expires$uri$remote_addr $secret\""),
        summary: "With `form = \"nginx\"`: the text to hash, in the syntax of secure_link_md5, \
                  with $secret for the secret. Variables: $expires (also $secure_link_expires), \
                  $uri, $remote_addr, $host, $secret and $arg_NAME.",
        since: "0.2",
        aliases: &["secure_link_md5"],
        set: |draft, given| draft.expression = Some(given.located_text()),
        ..Row::BASE
    },
    Row {
        name: "argument",
        contexts: SIGNED,
        kind: Kind::Word(&ARGUMENT),
        example: Some("\"md5\""),
        summary: "Name of the argument with the signature. Default: `md5` with `form = \"nginx\"`, \
                  `sig` with `form = \"saker\"`.",
        since: "0.2",
        set: |draft, given| draft.hash_argument = Some(given.located_text()),
        ..Row::BASE
    },
    Row {
        name: "expires_argument",
        contexts: SIGNED,
        kind: Kind::Word(&ARGUMENT),
        default: Some("\"expires\""),
        summary: "Name of the argument with the expiration time, in seconds since 1970. With `form \
                  = \"nginx\"`, an expression without $expires has none.",
        since: "0.2",
        set: |draft, given| draft.expires_argument = Some(given.located_text()),
        ..Row::BASE
    },
    Row {
        name: "algorithm",
        contexts: SIGNED,
        kind: Kind::Choice(&["md5", "hmac-sha1", "hmac-sha256"]),
        default: Some("\"hmac-sha256\""),
        summary: "With `form = \"lighttpd\"`: secdownload.algorithm.",
        since: "0.2",
        aliases: &["secdownload.algorithm"],
        set: |draft, given| {
            let (text, at) = given.located_text();
            draft.algorithm = ALGORITHMS
                .iter()
                .find(|(name, _)| *name == text)
                .map(|(_, algorithm)| (*algorithm, at));
        },
        ..Row::BASE
    },
    Row {
        name: "lifetime",
        contexts: SIGNED,
        kind: Kind::Duration {
            min_ms: 1000,
            max_ms: 100 * YEAR_MS,
        },
        default: Some("\"60s\""),
        summary: "With `form = \"lighttpd\"` or `\"mod_auth_token\"`: how long a link is valid \
                  after its timestamp.",
        since: "0.2",
        aliases: &["timeout", "secdownload.timeout", "AuthTokenTimeout"],
        set: |draft, given| {
            let at = given.at.clone();
            draft.lifetime = Some((given.number() / 1000, at));
        },
        ..Row::BASE
    },
    Row {
        name: "path_segments",
        contexts: SIGNED,
        kind: Kind::Integer { min: 0, max: 1000 },
        default: Some("0"),
        summary: "With `form = \"lighttpd\"`: number of path segments that are signed, so that a \
                  link covers everything below; 0: all.",
        since: "0.2",
        aliases: &["path-segments", "secdownload.path-segments"],
        set: |draft, given| {
            let at = given.at.clone();
            draft.path_segments = Some((given.number(), at));
        },
        ..Row::BASE
    },
    Row {
        name: "query",
        contexts: SIGNED,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "With `form = \"lighttpd\"`: sign the query too?",
        since: "0.2",
        aliases: &[
            "hash_querystr",
            "hash-querystr",
            "secdownload.hash-querystr",
        ],
        set: |draft, given| draft.query = Some(given.located_boolean()),
        ..Row::BASE
    },
    Row {
        name: "address",
        contexts: SIGNED,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "Sign the client's address, so that a link works for one client only? With `form \
                  = \"nginx\"`, use $remote_addr in the expression instead.",
        since: "0.2",
        aliases: &["limit_by_ip", "AuthTokenLimitByIp"],
        set: |draft, given| draft.address = Some(given.located_boolean()),
        ..Row::BASE
    },
    Row {
        name: "host",
        contexts: SIGNED,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "With `form = \"saker\"`: sign the host too?",
        since: "0.2",
        set: |draft, given| draft.host = Some(given.located_boolean()),
        ..Row::BASE
    },
];

fn read_signed(report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = SignedDraft {
        form: "saker".into(),
        ..SignedDraft::default()
    };
    draft.fill(fields);
    check_form(report, &draft);
    let expired = Status(draft.expired.unwrap_or(410));
    if !matches!(expired.0, 403 | 410) {
        report.error(
            fields.location("expired_status"),
            format!("`expired_status` must be 403 or 410, not {}", expired.0),
            None,
        );
    }
    let secrets = secrets(report, &mut draft, &fields.at);
    let mut prefix = draft.prefix.clone().unwrap_or_default();
    if !prefix.is_empty() && !prefix.ends_with('/') {
        prefix.push('/');
    }
    let root = draft.root.as_deref().map(Into::into);
    Some(Value::parsed(Arc::new(SignedUrls {
        form: form(draft),
        secrets,
        prefix,
        root,
        expired,
        is_free_elsewhere: false,
    })))
}

/// Reports keys that have no effect with this form.
fn check_form(report: &mut Report<'_>, draft: &SignedDraft) {
    let (lighttpd, token) = (
        draft.form == "lighttpd",
        matches!(draft.form.as_str(), "lighttpd" | "mod_auth_token"),
    );
    let (nginx, ours) = (draft.form == "nginx", draft.form == "saker");
    let at = |given: Option<&Location>| given.cloned();
    let given = [
        (
            "expression",
            at(draft.expression.as_ref().map(|given| &given.1)),
            nginx,
        ),
        (
            "argument",
            at(draft.hash_argument.as_ref().map(|given| &given.1)),
            nginx || ours,
        ),
        (
            "expires_argument",
            at(draft.expires_argument.as_ref().map(|given| &given.1)),
            nginx || ours,
        ),
        (
            "algorithm",
            at(draft.algorithm.as_ref().map(|given| &given.1)),
            lighttpd,
        ),
        (
            "lifetime",
            at(draft.lifetime.as_ref().map(|given| &given.1)),
            token,
        ),
        (
            "path_segments",
            at(draft.path_segments.as_ref().map(|given| &given.1)),
            lighttpd,
        ),
        (
            "query",
            at(draft.query.as_ref().map(|given| &given.1)),
            lighttpd,
        ),
        (
            "address",
            at(draft.address.as_ref().map(|given| &given.1)),
            token || ours,
        ),
        ("host", at(draft.host.as_ref().map(|given| &given.1)), ours),
    ];
    for (name, at, _) in given.into_iter().filter(|(_, _, means)| !means) {
        if let Some(at) = at {
            // A part that an operator wrongly believes to be signed would be a security hole.
            report.error(
                &at,
                format!("`{name}` has no effect with `form = \"{}\"`", draft.form),
                Some("remove it".into()),
            );
        }
    }
}

fn secrets(report: &mut Report<'_>, draft: &mut SignedDraft, at: &Location) -> Vec<Vec<u8>> {
    let said: Vec<Vec<u8>> = std::mem::take(&mut draft.secrets)
        .into_iter()
        .map(|one| one.text().into_bytes())
        .collect();
    let read = draft.secret_file.iter().map(|(path, _)| path.clone());
    report.read_files.extend(read);
    let all = match &draft.secret_file {
        Some((_, file_at)) if !said.is_empty() => {
            report.error(
                file_at,
                "`secret` and `secret_file` exclude each other",
                Some("keep one of them".into()),
            );
            said
        }
        Some((path, file_at)) => match saker_net::privileged::read(path) {
            Ok(text) => {
                let lines = text
                    .split(|byte| *byte == b'\n')
                    .map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec());
                let all: Vec<Vec<u8>> = lines.filter(|line| !line.is_empty()).collect();
                if all.is_empty() {
                    report.error(file_at, format!("no secret in {}", path.display()), None);
                }
                all
            }
            Err(error) => {
                report.error(file_at, format!("cannot read the file: {error}"), None);
                Vec::new()
            }
        },
        None if said.is_empty() && !draft.has_unread => {
            report.error(
                at,
                "missing `secret`",
                Some("add secret_file = \"/etc/saker/links.secret\"".into()),
            );
            said
        }
        None => said,
    };
    if all.len() > SECRETS_MAX {
        report.error(at, format!("more than {SECRETS_MAX} secrets"), None);
    }
    all
}

fn form(draft: SignedDraft) -> SignForm {
    let name = |given: Option<(String, Location)>, default: &str| {
        given.map_or_else(|| default.to_owned(), |(name, _)| name)
    };
    let expires = name(draft.expires_argument, "expires");
    let is = |flag: Option<(bool, Location)>| flag.is_some_and(|(flag, _)| flag);
    match draft.form.as_str() {
        "nginx-path" => SignForm::PathMd5,
        "nginx" => {
            let text = name(draft.expression, DEFAULT_EXPRESSION);
            let parts = SignPart::read(&text).unwrap_or_default();
            let expires_argument = parts.contains(&SignPart::Expires).then_some(expires);
            SignForm::Expression {
                parts,
                hash_argument: name(draft.hash_argument, "md5"),
                expires_argument,
            }
        }
        "lighttpd" | "mod_auth_token" => SignForm::Token(TokenForm {
            algorithm: match draft.algorithm {
                _ if draft.form == "mod_auth_token" => SignAlgorithm::Md5,
                given => given.map_or(SignAlgorithm::HmacSha256, |(algorithm, _)| algorithm),
            },
            lifetime_s: draft.lifetime.map_or(60, |(lifetime_s, _)| lifetime_s),
            path_segments: draft.path_segments.map_or(0, |(count, _)| count as u32),
            query: is(draft.query),
            address: is(draft.address),
        }),
        _ => SignForm::Whole {
            hash_argument: name(draft.hash_argument, "sig"),
            expires_argument: expires,
            address: is(draft.address),
            host: is(draft.host),
        },
    }
}

/// The default prefix of a rule is the part of its route's path before the first star.
pub fn apply_default_prefix(signed: &mut Option<Arc<SignedUrls>>, pattern: Option<&PathPattern>) {
    let Some(rule) = signed.as_mut().filter(|rule| rule.prefix.is_empty()) else {
        return;
    };
    let text = pattern.map(ToString::to_string).unwrap_or_default();
    let literal = text.split('*').next().unwrap_or_default();
    let end = literal.rfind('/').map_or(0, |slash| slash + 1);
    let prefix = literal
        .get(..end)
        .filter(|prefix| !prefix.is_empty())
        .unwrap_or("/");
    Arc::make_mut(rule).prefix = prefix.to_owned();
}

impl Draft for SignedDraft {
    fn rows() -> Rows<Self> {
        &[SIGNED_ROWS]
    }

    fn note_unread(&mut self, _key: Key) {
        self.has_unread = true;
    }
}
