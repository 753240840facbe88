//! `[site.referrers]`, `[site.signed]`, `[site.trigger]`: what links may lead to.
//!
//! Each is a table that stands for itself: a route's takes the place of the site's, whole.
//! Difficulty: which keys of `signed` mean something depends on `form`, so they are collected first
//! and judged together.

use crate::{
    diagnostic::quoted,
    model::{
        PathPattern, ReferrerPattern, Referrers, Refusal, SignAlgorithm, SignForm, SignPart,
        SignedUrls, TokenForm, Trigger,
    },
    reader::{Reader, Table},
    row::{Fault, Kind, REFERRERS, ROUTE, ROW, Row, SIGNED, SITE, Set, TRIGGER, TableKind, Word},
    source::At,
    value::{Given, Value},
};
use saker_http::Status;
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::PathBuf,
    sync::Arc,
};

static REFERRER: Word = Word {
    expects: "a host (\"example.org\", \"*.example.org\", \"www.example.*\", with a path if need be), \"own\" or \"~pattern\"",
    pattern: "",
    read: |text| {
        ReferrerPattern::read(text)
            .map(|_| Value::Text(text.to_owned()))
            .map_err(Fault::new)
    },
};

static EXTENSION: Word = Word {
    expects: "an extension without its dot, such as \"jpg\"",
    pattern: "^[^./*]+$",
    read: |text| match text.is_empty() || text.contains(['.', '/', '*']) {
        true => Err(Fault::plain(None)),
        false => Ok(Value::Text(text.to_ascii_lowercase())),
    },
};

static PLACE: Word = Word {
    expects: "a path of this site, such as \"/img/no.png\"",
    pattern: "^/",
    read: |text| {
        if text.starts_with('/') {
            Ok(Value::Text(text.to_owned()))
        } else {
            Err(Fault::plain(None))
        }
    },
};

static GOAL: Word = Word {
    expects: "a path (\"/sorry\") or a URL (\"https://...\")",
    pattern: "^(/|https?://)",
    read: |text| {
        let is_goal =
            text.starts_with('/') || text.starts_with("http://") || text.starts_with("https://");
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_goal && is_plain {
            Ok(Value::Text(text.to_owned()))
        } else {
            Err(Fault::plain(None))
        }
    },
};

static ARGUMENT: Word = Word {
    expects: "the name of an argument, such as \"md5\"",
    pattern: "^[A-Za-z0-9_.~-]+$",
    read: |text| match !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.~-".contains(&byte))
    {
        true => Ok(Value::Text(text.to_owned())),
        false => Err(Fault::plain(None)),
    },
};

static EXPRESSION: Word = Word {
    expects: "what is hashed, such as \"$expires$uri$remote_addr $secret\"",
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
            let help = "known are $expires, $uri, $remote_addr, $host, $secret and $arg_NAME";
            Err(Fault::with_help(
                format!("nothing is known as {}", quoted(&rest)),
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
pub struct RefusalDraft {
    redirect: Option<(String, At)>,
    instead: Option<(String, At)>,
}

#[derive(Debug, Default)]
pub struct ReferrersDraft {
    rule: Referrers,
    refusal: RefusalDraft,
}

#[derive(Debug, Default)]
pub struct SignedDraft {
    form: String,
    secrets: Vec<Given>,
    secret_file: Option<(PathBuf, At)>,
    prefix: Option<String>,
    root: Option<PathBuf>,
    expired: Option<u16>,
    expression: Option<(String, At)>,
    hash_argument: Option<(String, At)>,
    expires_argument: Option<(String, At)>,
    algorithm: Option<(SignAlgorithm, At)>,
    lifetime: Option<(u64, At)>,
    path_segments: Option<(u64, At)>,
    query: Option<(bool, At)>,
    address: Option<(bool, At)>,
    host: Option<(bool, At)>,
}

#[derive(Debug, Default)]
pub struct TriggerDraft {
    pages: Vec<PathPattern>,
    files: Vec<PathPattern>,
    within_ms: Option<u64>,
    by_cookie: bool,
    refusal: RefusalDraft,
}

target!(ReferrersDraft Referrers);
target!(SignedDraft Signed);
target!(TriggerDraft Trigger);

pub static ROWS: &[Row] = &[
    Row {
        name: "referrers",
        contexts: SITE.or(ROUTE),
        kind: Kind::OneOf(&[
            OFF,
            Kind::Table(&TableKind {
                context: REFERRERS,
                read: read_referrers,
            }),
        ]),
        default: Some("\"off\""),
        summary: "Hot-link protection: which pages may embed and link what is here.",
        since: "0.9",
        apache: Some("SetEnvIf Referer"),
        aliases: &[
            "valid_referers",
            "hotlink",
            "hotlink_protection",
            "referer",
            "referers",
        ],
        set: Set::Settings(|settings, given| {
            settings.links.referrers = if let Value::Referrers(rule) = given.value {
                Some(rule)
            } else {
                None
            }
        }),
        ..ROW
    },
    Row {
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
        summary: "Only URLs with a signature are answered, and only until they expire.",
        since: "0.9",
        apache: Some("AuthTokenSecret"),
        aliases: &["secure_link", "secdownload", "signed_urls"],
        set: Set::Settings(|settings, given| {
            settings.links.signed = if let Value::Signed(rule) = given.value {
                Some(rule)
            } else {
                None
            }
        }),
        ..ROW
    },
    Row {
        name: "trigger",
        contexts: SITE.or(ROUTE),
        kind: Kind::OneOf(&[
            OFF,
            Kind::Table(&TableKind {
                context: TRIGGER,
                read: read_trigger,
            }),
        ]),
        default: Some("\"off\""),
        summary: "Files that are only for who has asked for a page before.",
        since: "0.9",
        aliases: &["trigger_before_download", "trigger-before-download"],
        set: Set::Settings(|settings, given| {
            settings.links.trigger = if let Value::Trigger(rule) = given.value {
                Some(rule)
            } else {
                None
            }
        }),
        ..ROW
    },
    Row {
        name: "allow",
        contexts: REFERRERS,
        kind: Kind::ListOf(&Kind::Word(&REFERRER)),
        default: Some("[\"own\"]"),
        example: Some(
            "[\"own\", \"*.example.org\", \"friend.example/gallery/\", \"~\\\\.google\\\\.\"]",
        ),
        summary: "Referrers that are allowed: `own` (nginx: `server_names`) stands for the site's own names, `*.` in front for any labels, \
                  `.*` at the end likewise; a path is compared by its beginning; behind a `~` stands a pattern for all that follows the scheme, in any case.",
        since: "0.9",
        aliases: &["valid_referers"],
        set: Set::Referrers(|draft, given| {
            draft.rule.allow = given
                .texts()
                .iter()
                .filter_map(|text| ReferrerPattern::read(text).ok())
                .collect();
        }),
        ..ROW
    },
    Row {
        name: "none",
        contexts: REFERRERS,
        kind: Kind::Boolean,
        default: Some("true"),
        summary: "Allow requests that name no referrer (typed addresses, bookmarks, many apps)?",
        since: "0.9",
        set: Set::Referrers(|draft, given| draft.rule.without = given.boolean()),
        ..ROW
    },
    Row {
        name: "blocked",
        contexts: REFERRERS,
        kind: Kind::Boolean,
        default: Some("true"),
        summary: "Allow referrers that are no http or https URL, as some firewalls leave them?",
        since: "0.9",
        set: Set::Referrers(|draft, given| draft.rule.blocked = given.boolean()),
        ..ROW
    },
    Row {
        name: "extensions",
        contexts: REFERRERS,
        kind: Kind::ListOf(&Kind::Word(&EXTENSION)),
        default: Some("[]"),
        example: Some("[\"jpg\", \"png\", \"mp4\"]"),
        summary: "Only files with these extensions are protected; empty: everything.",
        since: "0.9",
        aliases: &["suffixes", "types"],
        set: Set::Referrers(|draft, given| draft.rule.extensions = given.texts()),
        ..ROW
    },
    Row {
        name: "redirect",
        contexts: REFERRERS,
        kind: Kind::Word(&GOAL),
        example: Some("\"https://example.org/\""),
        summary: "Others are sent there (302), in place of 403.",
        since: "0.9",
        set: Set::Referrers(|draft, given| {
            draft.refusal.redirect = Some(super::route::text_at(given))
        }),
        ..ROW
    },
    Row {
        name: "instead",
        contexts: REFERRERS,
        kind: Kind::Word(&PLACE),
        example: Some("\"/img/no-hotlinks.png\""),
        summary: "Others get what is at this path, in place of 403.",
        since: "0.9",
        aliases: &["image", "file", "replacement"],
        set: Set::Referrers(|draft, given| {
            draft.refusal.instead = Some(super::route::text_at(given))
        }),
        ..ROW
    },
    Row {
        name: "form",
        contexts: SIGNED,
        kind: Kind::Choice(FORMS),
        default: Some("\"saker\""),
        summary: "What links look like. `saker`: HMAC-SHA256 over path and all arguments, as the argument `sig`. `nginx`: MD5 of `expression`, as \
                  secure_link_md5. `nginx-path`: MD5 in the path, as secure_link_secret. `lighttpd`: as mod_secdownload. `mod_auth_token`: as that module of Apache.",
        since: "0.9",
        set: Set::Signed(|draft, given| draft.form = given.text()),
        ..ROW
    },
    Row {
        name: "secret",
        contexts: SIGNED,
        kind: Kind::OneOf(&[Kind::Text, Kind::ListOf(&Kind::Text)]),
        example: Some("\"a long random text\""),
        summary: "What whoever makes links knows. Of several, links are made with the first and good with each, so that a secret can be changed.",
        since: "0.9",
        aliases: &[
            "secrets",
            "secure_link_secret",
            "secdownload.secret",
            "AuthTokenSecret",
        ],
        set: Set::Signed(|draft, given| {
            draft.secrets = if let Value::List(list) = given.value {
                list
            } else {
                vec![given]
            }
        }),
        ..ROW
    },
    Row {
        name: "secret_file",
        contexts: SIGNED,
        kind: Kind::Path,
        example: Some("\"/etc/saker/links.secret\""),
        summary: "File with the secrets, one a line, in place of `secret`; read when the configuration is.",
        since: "0.9",
        set: Set::Signed(|draft, given| {
            let at = given.at.clone();
            draft.secret_file = Some((given.path(), at));
        }),
        ..ROW
    },
    Row {
        name: "prefix",
        contexts: SIGNED,
        kind: Kind::Word(&PLACE),
        example: Some("\"/dl/\""),
        summary: "What stands before the token, for forms with a token in the path. Without it, what stands before the `*` of the route's path; for a site `/`.",
        since: "0.9",
        aliases: &[
            "uri_prefix",
            "uri-prefix",
            "secdownload.uri-prefix",
            "AuthTokenPrefix",
        ],
        set: Set::Signed(|draft, given| draft.prefix = Some(given.text())),
        ..ROW
    },
    Row {
        name: "root",
        contexts: SIGNED,
        kind: Kind::Path,
        example: Some("\"/srv/downloads\""),
        summary: "Folder of the files, for forms with a token in the path. Without it they are below the prefix, at the site's own root.",
        since: "0.9",
        aliases: &[
            "document_root",
            "document-root",
            "secdownload.document-root",
        ],
        set: Set::Signed(|draft, given| {
            draft.root = Some(crate::folder::without_parents(given.path()))
        }),
        ..ROW
    },
    Row {
        name: "expired_status",
        contexts: SIGNED,
        kind: Kind::Integer { min: 403, max: 410 },
        default: Some("410"),
        summary: "Status for links that were good once: 410 or 403. Wrong ones are answered 403.",
        since: "0.9",
        set: Set::Signed(|draft, given| draft.expired = Some(given.number() as u16)),
        ..ROW
    },
    Row {
        name: "expression",
        contexts: SIGNED,
        kind: Kind::Word(&EXPRESSION),
        default: Some("\"$expires$uri$remote_addr $secret\""),
        summary: "With `form = \"nginx\"`: what is hashed, in the words of secure_link_md5, with $secret for the secret. Known are $expires (also \
                  $secure_link_expires), $uri, $remote_addr, $host, $secret and $arg_NAME.",
        since: "0.9",
        aliases: &["secure_link_md5"],
        set: Set::Signed(|draft, given| draft.expression = Some(super::route::text_at(given))),
        ..ROW
    },
    Row {
        name: "argument",
        contexts: SIGNED,
        kind: Kind::Word(&ARGUMENT),
        example: Some("\"md5\""),
        summary: "Name of the argument with the signature: `md5` for nginx's form, `sig` for ours.",
        since: "0.9",
        set: Set::Signed(|draft, given| draft.hash_argument = Some(super::route::text_at(given))),
        ..ROW
    },
    Row {
        name: "expires_argument",
        contexts: SIGNED,
        kind: Kind::Word(&ARGUMENT),
        default: Some("\"expires\""),
        summary: "Name of the argument with the time of the link's end, in seconds since 1970. With `form = \"nginx\"`, an expression without $expires has none.",
        since: "0.9",
        set: Set::Signed(|draft, given| {
            draft.expires_argument = Some(super::route::text_at(given))
        }),
        ..ROW
    },
    Row {
        name: "algorithm",
        contexts: SIGNED,
        kind: Kind::Choice(&["md5", "hmac-sha1", "hmac-sha256"]),
        default: Some("\"hmac-sha256\""),
        summary: "With `form = \"lighttpd\"`: secdownload.algorithm.",
        since: "0.9",
        aliases: &["secdownload.algorithm"],
        set: Set::Signed(|draft, given| {
            let (text, at) = super::route::text_at(given);
            draft.algorithm = ALGORITHMS
                .iter()
                .find(|(name, _)| *name == text)
                .map(|(_, algorithm)| (*algorithm, at));
        }),
        ..ROW
    },
    Row {
        name: "lifetime",
        contexts: SIGNED,
        kind: Kind::Duration {
            min_ms: 1000,
            max_ms: 100 * YEAR_MS,
        },
        default: Some("\"60s\""),
        summary: "With `form = \"lighttpd\"` and `\"mod_auth_token\"`: how long a link is good from the time that it names.",
        since: "0.9",
        aliases: &["timeout", "secdownload.timeout", "AuthTokenTimeout"],
        set: Set::Signed(|draft, given| {
            let at = given.at.clone();
            draft.lifetime = Some((given.number() / 1000, at));
        }),
        ..ROW
    },
    Row {
        name: "path_segments",
        contexts: SIGNED,
        kind: Kind::Integer { min: 0, max: 1000 },
        default: Some("0"),
        summary: "With `form = \"lighttpd\"`: only so many segments of the path are signed, so that a link is for all below; 0: all.",
        since: "0.9",
        aliases: &["path-segments", "secdownload.path-segments"],
        set: Set::Signed(|draft, given| {
            let at = given.at.clone();
            draft.path_segments = Some((given.number(), at));
        }),
        ..ROW
    },
    Row {
        name: "query",
        contexts: SIGNED,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "With `form = \"lighttpd\"`: the arguments are signed, too.",
        since: "0.9",
        aliases: &[
            "hash_querystr",
            "hash-querystr",
            "secdownload.hash-querystr",
        ],
        set: Set::Signed(|draft, given| draft.query = Some(flag_at(given))),
        ..ROW
    },
    Row {
        name: "address",
        contexts: SIGNED,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "The client's address is signed, so that a link is for one client. With `form = \"nginx\"`, $remote_addr in the expression says so.",
        since: "0.9",
        aliases: &["limit_by_ip", "AuthTokenLimitByIp"],
        set: Set::Signed(|draft, given| draft.address = Some(flag_at(given))),
        ..ROW
    },
    Row {
        name: "host",
        contexts: SIGNED,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "With `form = \"saker\"`: the host is signed, too.",
        since: "0.9",
        set: Set::Signed(|draft, given| draft.host = Some(flag_at(given))),
        ..ROW
    },
    Row {
        name: "pages",
        contexts: TRIGGER,
        kind: Kind::ListOf(&Kind::Word(&super::route::PATTERN)),
        required: true,
        example: Some("[\"/downloads.html\"]"),
        summary: "Who asks for one of these may have the files.",
        since: "0.9",
        aliases: &["trigger_url", "trigger-url"],
        set: Set::Trigger(|draft, given| draft.pages = patterns(given)),
        ..ROW
    },
    Row {
        name: "files",
        contexts: TRIGGER,
        kind: Kind::ListOf(&Kind::Word(&super::route::PATTERN)),
        required: true,
        example: Some("[\"/files/*\", \"*.zip\"]"),
        summary: "What may be had then.",
        since: "0.9",
        aliases: &["download_url", "download-url", "downloads"],
        set: Set::Trigger(|draft, given| draft.files = patterns(given)),
        ..ROW
    },
    Row {
        name: "within",
        contexts: TRIGGER,
        kind: Kind::Duration {
            min_ms: 1000,
            max_ms: 30 * 86_400_000,
        },
        default: Some("\"10m\""),
        summary: "How long after the page, or after another of the files.",
        since: "0.9",
        aliases: &["timeout", "trigger_timeout", "trigger-timeout"],
        set: Set::Trigger(|draft, given| draft.within_ms = Some(given.number())),
        ..ROW
    },
    Row {
        name: "by",
        contexts: TRIGGER,
        kind: Kind::Choice(&["address", "cookie"]),
        default: Some("\"address\""),
        summary: "How a client is known again: by its address, or by a signed cookie.",
        since: "0.9",
        set: Set::Trigger(|draft, given| draft.by_cookie = given.text() == "cookie"),
        ..ROW
    },
    Row {
        name: "redirect",
        contexts: TRIGGER,
        kind: Kind::Word(&GOAL),
        example: Some("\"/downloads.html\""),
        summary: "Others are sent there (302), in place of 403.",
        since: "0.9",
        aliases: &["deny_url", "deny-url"],
        set: Set::Trigger(|draft, given| {
            draft.refusal.redirect = Some(super::route::text_at(given))
        }),
        ..ROW
    },
];

fn flag_at(given: Given) -> (bool, At) {
    let at = given.at.clone();
    (given.boolean(), at)
}

fn patterns(given: Given) -> Vec<PathPattern> {
    let pattern = |one: Given| {
        if let Value::Pattern(pattern) = one.value {
            Some(pattern)
        } else {
            None
        }
    };
    given.list().into_iter().filter_map(pattern).collect()
}

fn read_referrers(reader: &mut Reader<'_>, table: &Table<'_>, at: At) -> Option<Value> {
    let mut draft = ReferrersDraft::default();
    reader.fill(table, REFERRERS, &at, &mut draft);
    draft.rule.refusal = refusal(reader, draft.refusal);
    Some(Value::Referrers(Arc::new(draft.rule)))
}

fn refusal(reader: &mut Reader<'_>, draft: RefusalDraft) -> Refusal {
    match (draft.redirect, draft.instead) {
        (Some(_), Some((_, at))) => {
            reader.error(
                &at,
                "`instead` beside `redirect`",
                Some("keep one of them".into()),
            );
            Refusal::Status(Status::FORBIDDEN)
        }
        (Some((to, _)), None) => Refusal::Redirect(to),
        (None, Some((path, _))) => Refusal::Instead(path),
        (None, None) => Refusal::Status(Status::FORBIDDEN),
    }
}

fn read_trigger(reader: &mut Reader<'_>, table: &Table<'_>, at: At) -> Option<Value> {
    let mut draft = TriggerDraft::default();
    reader.fill(table, TRIGGER, &at, &mut draft);
    let mut hasher = DefaultHasher::new();
    let texts =
        |patterns: &[PathPattern]| patterns.iter().map(ToString::to_string).collect::<Vec<_>>();
    (texts(&draft.pages), texts(&draft.files)).hash(&mut hasher);
    Some(Value::Trigger(Arc::new(Trigger {
        within_s: draft.within_ms.map_or(600, |ms| ms / 1000),
        by_cookie: draft.by_cookie,
        refusal: refusal(reader, draft.refusal),
        id: hasher.finish(),
        pages: draft.pages,
        files: draft.files,
    })))
}

fn read_signed(reader: &mut Reader<'_>, table: &Table<'_>, at: At) -> Option<Value> {
    let mut draft = SignedDraft {
        form: "saker".into(),
        ..SignedDraft::default()
    };
    reader.fill(table, SIGNED, &at, &mut draft);
    check_form(reader, &draft);
    let expired = Status(draft.expired.unwrap_or(410));
    if !matches!(expired.0, 403 | 410) {
        reader.error(
            &at,
            format!("`expired_status` is 403 or 410, not {}", expired.0),
            None,
        );
    }
    let secrets = secrets(reader, &mut draft, &at);
    let mut prefix = draft.prefix.clone().unwrap_or_default();
    if !prefix.is_empty() && !prefix.ends_with('/') {
        prefix.push('/');
    }
    let root = draft.root.as_deref().map(Into::into);
    Some(Value::Signed(Arc::new(SignedUrls {
        form: form(draft),
        secrets,
        prefix,
        root,
        expired,
        is_free_elsewhere: false,
    })))
}

/// Keys that say nothing with this form.
fn check_form(reader: &mut Reader<'_>, draft: &SignedDraft) {
    let (lighttpd, token) = (
        draft.form == "lighttpd",
        matches!(draft.form.as_str(), "lighttpd" | "mod_auth_token"),
    );
    let (nginx, ours) = (draft.form == "nginx", draft.form == "saker");
    let at = |given: Option<&At>| given.cloned();
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
            // What somebody believes to be signed and is not would be an open door.
            reader.error(
                &at,
                format!("`{name}` says nothing with `form = \"{}\"`", draft.form),
                Some("take it away".into()),
            );
        }
    }
}

fn secrets(reader: &mut Reader<'_>, draft: &mut SignedDraft, at: &At) -> Vec<Vec<u8>> {
    let said: Vec<Vec<u8>> = std::mem::take(&mut draft.secrets)
        .into_iter()
        .map(|one| one.text().into_bytes())
        .collect();
    let all = match &draft.secret_file {
        Some((_, file_at)) if !said.is_empty() => {
            reader.error(
                file_at,
                "`secret_file` beside `secret`",
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
                    reader.error(
                        file_at,
                        format!("there is no secret in {}", path.display()),
                        None,
                    );
                }
                all
            }
            Err(error) => {
                reader.error(
                    file_at,
                    format!("this file is not to be had: {error}"),
                    None,
                );
                Vec::new()
            }
        },
        None if said.is_empty() => {
            reader.error(
                at,
                "signed URLs without a secret",
                Some("add secret_file = \"/etc/saker/links.secret\"".into()),
            );
            said
        }
        None => said,
    };
    if all.len() > SECRETS_MAX {
        reader.error(at, format!("more than {SECRETS_MAX} secrets"), None);
    }
    all
}

fn form(draft: SignedDraft) -> SignForm {
    let name = |given: Option<(String, At)>, default: &str| {
        given.map_or_else(|| default.to_owned(), |(name, _)| name)
    };
    let expires = name(draft.expires_argument, "expires");
    let is = |flag: Option<(bool, At)>| flag.is_some_and(|(flag, _)| flag);
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

/// Where a rule says no prefix it is what stands before the first star of the path that it is for.
pub fn settle_prefix(signed: &mut Option<Arc<SignedUrls>>, pattern: Option<&PathPattern>) {
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
