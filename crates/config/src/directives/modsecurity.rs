//! `modsecurity`, `modsecurity_rules_file`, `modsecurity_rules`: ModSecurity rules, under the names
//! of its nginx connector.
//!
//! A route's rules are added after the site's.
//! Out of scope: compiling rules (`resolve/modsecurity`).

use crate::{
    context::{ROUTE, SITE},
    kind::{Kind, Word},
    model::{ModSecurity, ModSecurityMode, RulesText, Settings},
    row::Row,
    value::{Spanned, Value, ValueError},
};
use std::{path::PathBuf, sync::Arc};

static RULES: Word = Word {
    expects: "rules, such as \"SecRuleRemoveById 942100\"",
    pattern: "",
    read: |text| match text.trim().is_empty() || text.contains('\0') {
        true => Err(ValueError::plain(None)),
        false => Ok(Value::Text(text.to_owned())),
    },
};

pub const ROWS: &[Row<Settings>] = &[
    Row {
        name: "modsecurity",
        contexts: SITE.or(ROUTE),
        kind: Kind::OneOf(&[Kind::Boolean, Kind::Choice(&["on", "off", "detect"])]),
        default: Some("\"off\""),
        summary: "Check requests with ModSecurity rules (package libmodsecurity3). \"on\": rules \
                  are enforced as their SecRuleEngine says, or if they don't set it; \"detect\": \
                  matches are only logged. For its cost see docs/modsecurity.md.",
        apache: Some("SecRuleEngine"),
        aliases: &["waf", "mod_security"],
        since: "0.2",
        set: |settings, given| {
            let (origin, mode) = (given.origin(), mode(given));
            // "off" without inherited rules needs no settings.
            if mode != ModSecurityMode::Off || settings.modsecurity.is_some() {
                let modsecurity = modsecurity(settings);
                (modsecurity.origin, modsecurity.mode) = (origin, mode);
            }
        },
        ..Row::BASE
    },
    Row {
        name: "modsecurity_rules_file",
        contexts: SITE.or(ROUTE),
        kind: Kind::OneOf(&[Kind::Path, Kind::ListOf(&Kind::Path)]),
        example: Some(
            "[\"/etc/modsecurity/modsecurity.conf\", \"/usr/share/modsecurity-crs/owasp-crs.load\"]",
        ),
        summary: "Files with rules; `*` and `?` match parts of names. A route's files are added \
                  after the site's.",
        apache: Some("modsecurity_rules_file"),
        since: "0.2",
        set: |settings, given| modsecurity(settings).files.extend(files(given)),
        ..Row::BASE
    },
    Row {
        name: "modsecurity_rules",
        contexts: SITE.or(ROUTE),
        kind: Kind::Word(&RULES),
        example: Some("\"SecRuleRemoveById 942100\""),
        summary: "Rules in ModSecurity's own language, after those of all files. A route's rules \
                  are added after the site's.",
        apache: Some("modsecurity_rules"),
        since: "0.2",
        set: |settings, given| modsecurity(settings).texts.push(text(given)),
        ..Row::BASE
    },
];

fn modsecurity(settings: &mut Settings) -> &mut ModSecurity {
    Arc::make_mut(settings.modsecurity.get_or_insert_default())
}

fn mode(given: Spanned) -> ModSecurityMode {
    match given.value {
        Value::Boolean(true) => ModSecurityMode::On,
        Value::Text(word) if word == "on" => ModSecurityMode::On,
        Value::Text(word) if word == "detect" => ModSecurityMode::Detect,
        _ => ModSecurityMode::Off,
    }
}

fn files(given: Spanned) -> Vec<PathBuf> {
    match given.value {
        Value::Path(path) => vec![path],
        Value::List(list) => list.into_iter().map(Spanned::path).collect(),
        _ => Vec::new(),
    }
}

fn text(given: Spanned) -> RulesText {
    let (origin, base) = (given.origin(), given.at.source.base.clone());
    // A newline right after the opening quotes is not part of the text (TOML, "Multi-line basic
    // strings").
    let written = given.at.source.slice(given.at.span.clone());
    let is_below = ["\"\"\"\n", "'''\n", "\"\"\"\r\n", "'''\r\n"]
        .iter()
        .any(|opening| written.starts_with(opening));
    RulesText {
        text: given.text(),
        file: origin.file,
        line: origin.line + u32::from(is_below),
        base: base.into(),
    }
}
