//! `ssi`, `substitute`, `negotiation`, `languages`: processing of content.
//!
//! Called by: `settings`, for sites and routes.
//! Out of scope: whether a pattern of `substitute` compiles, which the front end checks.

use crate::{
    context::{ROUTE, SITE},
    kind::{Kind, Word},
    model::{ContentRules, Settings},
    row::Row,
    value::{Spanned, Value, ValueError},
};
use std::sync::Arc;

static EXTENSION: Word = Word {
    expects: "an extension without its dot, such as \"shtml\"",
    pattern: "^[A-Za-z0-9_-]+$",
    read: |text| match is_plain(text) {
        true => Ok(Value::Text(text.to_ascii_lowercase())),
        false => Err(ValueError::plain(
            text.strip_prefix('.')
                .filter(|rest| is_plain(rest))
                .map(|rest| format!("write \"{rest}\"")),
        )),
    },
};

static LANGUAGE: Word = Word {
    expects: "a language tag, such as \"de\" or \"pt-BR\"",
    pattern: "^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$",
    read: |text| {
        let mut parts = text.split('-');
        let first = parts.next().unwrap_or_default();
        let is_tag = (2..=8).contains(&first.len())
            && first.bytes().all(|byte| byte.is_ascii_alphabetic())
            && parts.all(|part| {
                (1..=8).contains(&part.len())
                    && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
            });
        match is_tag {
            true => Ok(Value::Text(text.to_ascii_lowercase())),
            false => Err(ValueError::plain(None)),
        }
    },
};

static SUBSTITUTION: Word = Word {
    expects: "a substitution, such as \"s/old/new/\" or \"s|http:|https:|n\"",
    pattern: "^s",
    read: |text| match problem(text) {
        None => Ok(Value::Text(text.to_owned())),
        Some(help) => Err(ValueError::plain(Some(help.to_owned()))),
    },
};

static MEDIA_TYPE: Word = Word {
    expects: "a media type without parameters, such as \"text/css\"",
    pattern: "^[^/;\\s]+/[^/;\\s]+$",
    read: |text| {
        let is_token =
            |part: &str| !part.is_empty() && part.bytes().all(saker_http::chars::is_token_char);
        let is_type = text
            .split_once('/')
            .is_some_and(|(kind, rest)| is_token(kind) && is_token(rest));
        match is_type {
            true => Ok(Value::Text(text.to_ascii_lowercase())),
            false => Err(ValueError::plain(None)),
        }
    },
};

fn is_plain(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !text.is_empty() && text.bytes().all(is_plain)
}

/// The reason why a text is no substitution.
fn problem(text: &str) -> Option<&'static str> {
    let Some(rest) = text.strip_prefix('s') else {
        return Some("begin it with s, as in s/old/new/");
    };
    let mut letters = rest.chars();
    let Some(delimiter) = letters.next().filter(char::is_ascii_punctuation) else {
        return Some("put a delimiter behind s: s/old/new/, or s|old|new|");
    };
    let mut parts = letters.as_str().splitn(3, delimiter);
    let from = parts.next().unwrap_or_default();
    let (Some(_), Some(flags)) = (parts.next(), parts.next()) else {
        return Some("it needs three delimiters: s/old/new/");
    };
    if from.is_empty() {
        return Some("the pattern is empty");
    }
    let is_flag = |letter: char| matches!(letter, 'i' | 'n' | 'f' | 'q');
    (!flags.chars().all(is_flag)).then_some(
        "flags are i (ignore case), n (a fixed text, no regular expression), f, and q; a delimiter \
         that the texts contain can't be used",
    )
}

pub const ROWS: &[Row<Settings>] = &[
    Row {
        name: "ssi",
        contexts: SITE.or(ROUTE),
        kind: Kind::ListOf(&Kind::Word(&EXTENSION)),
        default: Some("[]"),
        example: Some("[\"shtml\"]"),
        summary: "Extensions of files with server-side includes (`<!--#include virtual=\"/nav.html\" \
                  -->`), in the language of Apache's mod_include. Included pages obey the rules of \
                  their own paths. Programs are not run (`#exec`).",
        apache: Some("Options Includes, AddOutputFilter INCLUDES"),
        aliases: &["includes", "server_side_includes", "ssi_types"],
        since: "0.2",
        set: |settings, given| edit(settings, given, |rules, given| rules.ssi = given.texts()),
        ..Row::BASE
    },
    Row {
        name: "substitute",
        contexts: SITE.or(ROUTE),
        kind: Kind::ListOf(&Kind::Word(&SUBSTITUTION)),
        default: Some("[]"),
        example: Some(
            "[\"s|http://old.example|https://new.example|n\", \"s/Copyright ([0-9]+)/© $1/i\"]",
        ),
        summary: "Replacements in the content of files and PHP pages, line by line and in order: \
                  `s/pattern/replacement/flags` with a PCRE2 pattern, `$1` for its groups, and any \
                  delimiter. Flags: `i` ignores case, `n` takes the pattern as a fixed text.",
        apache: Some("Substitute"),
        aliases: &["sub_filter", "subs_filter", "replace"],
        since: "0.2",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.substitute = given.texts()
            });
        },
        ..Row::BASE
    },
    Row {
        name: "substitute_types",
        contexts: SITE.or(ROUTE),
        kind: Kind::ListOf(&Kind::Word(&MEDIA_TYPE)),
        default: Some("[\"text/html\"]"),
        example: Some("[\"text/html\", \"text/css\"]"),
        summary: "Media types of content that `substitute` edits.",
        apache: Some("AddOutputFilterByType SUBSTITUTE"),
        aliases: &["sub_filter_types"],
        since: "0.2",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.substitute_types = given.texts()
            });
        },
        ..Row::BASE
    },
    Row {
        name: "negotiation",
        contexts: SITE.or(ROUTE),
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "For a path without a file, such as `/page`, choose among `page.*` by the client's \
                  Accept fields, and obey type maps (`page.var`)?",
        apache: Some("Options MultiViews"),
        aliases: &["multiviews", "multi_views", "content_negotiation"],
        since: "0.2",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.negotiation = given.boolean()
            });
        },
        ..Row::BASE
    },
    Row {
        name: "languages",
        contexts: SITE.or(ROUTE),
        kind: Kind::ListOf(&Kind::Word(&LANGUAGE)),
        default: Some("[]"),
        example: Some("[\"en\", \"de\"]"),
        summary: "Languages of files such as `page.html.de`, which `/page.html` and `/page` choose \
                  by Accept-Language; the first is for clients that take none of them. Includes \
                  `negotiation`.",
        apache: Some("AddLanguage, LanguagePriority, ForceLanguagePriority"),
        aliases: &["add_language"],
        since: "0.2",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.languages = given.texts()
            });
        },
        ..Row::BASE
    },
];

/// Changes the content rules of a site or route.
fn edit(settings: &mut Settings, given: Spanned, change: fn(&mut ContentRules, Spanned)) {
    let rules = Arc::make_mut(settings.content.get_or_insert_default());
    rules.origin = given.origin();
    change(rules, given);
    if rules.is_default() {
        settings.content = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substitutions() {
        for (text, is_good) in [
            ("s/a/b/", true),
            ("s|http:|https:|n", true),
            ("s#a#b#iq", true),
            ("s/a//", true),
            ("s/a/b", false),
            ("s//b/", false),
            ("s/a/b/g", false),
            ("s/a/b/c/", false),
            ("sxaxbx", false),
            ("a/b/", false),
            ("s", false),
        ] {
            assert_eq!(problem(text).is_none(), is_good, "{text}");
        }
    }
}
