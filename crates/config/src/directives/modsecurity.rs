//! `modsecurity`, `modsecurity_rules_file`, `modsecurity_rules`: rules for libmodsecurity, under
//! the names that nginx' connector has.
//!
//! A route's rules come behind the site's. Difficulty: sets are large (megabytes, and a tenth of a
//! second for OWASP's), so places with the same rules share one.

use crate::{
    diagnostic::{Diagnostic, Severity},
    load::Loader,
    model::{ModSecurity, ModSecurityMode, RulesText, Settings},
    modsecurity::{Engine, Reading, Remark, Rules},
    row::{Fault, Kind, ROUTE, ROW, Row, SITE, Set, Word},
    value::{Given, Value},
};
use std::{collections::HashMap, path::Path, path::PathBuf, sync::Arc};

static RULES: Word = Word {
    expects: "rules, such as \"SecRuleRemoveById 942100\"",
    pattern: "",
    read: |text| match text.trim().is_empty() || text.contains('\0') {
        true => Err(Fault::plain(None)),
        false => Ok(Value::Text(text.to_owned())),
    },
};

pub static ROWS: &[Row] = &[
    Row {
        name: "modsecurity",
        contexts: SITE.or(ROUTE),
        kind: Kind::OneOf(&[Kind::Boolean, Kind::Choice(&["on", "off", "detect"])]),
        default: Some("\"off\""),
        summary: "Put requests to ModSecurity's rules (package libmodsecurity3). \"on\": what they say is done as their SecRuleEngine has it, or if they have \
                  none; \"detect\": it is told to the log only. docs/modsecurity.md says what it costs.",
        apache: Some("SecRuleEngine"),
        since: "0.10",
        set: Set::Settings(|settings, given| {
            let (origin, mode) = (given.origin(), mode(given));
            // What is off without it stays what it is.
            if mode != ModSecurityMode::Off || settings.modsecurity.is_some() {
                let modsecurity = of(settings);
                (modsecurity.origin, modsecurity.mode) = (origin, mode);
            }
        }),
        ..ROW
    },
    Row {
        name: "modsecurity_rules_file",
        contexts: SITE.or(ROUTE),
        kind: Kind::OneOf(&[Kind::Path, Kind::ListOf(&Kind::Path)]),
        example: Some(
            "[\"/etc/modsecurity/modsecurity.conf\", \"/usr/share/modsecurity-crs/owasp-crs.load\"]",
        ),
        summary: "Files of rules, with `*` and `?` for parts of names. A route's come behind the site's.",
        apache: Some("modsecurity_rules_file"),
        since: "0.10",
        set: Set::Settings(|settings, given| of(settings).files.extend(files(given))),
        ..ROW
    },
    Row {
        name: "modsecurity_rules",
        contexts: SITE.or(ROUTE),
        kind: Kind::Word(&RULES),
        example: Some("\"SecRuleRemoveById 942100\""),
        summary: "Rules in their own language, behind those of all files. A route's come behind the site's.",
        apache: Some("modsecurity_rules"),
        since: "0.10",
        set: Set::Settings(|settings, given| of(settings).texts.push(text(given))),
        ..ROW
    },
];

fn of(settings: &mut Settings) -> &mut ModSecurity {
    Arc::make_mut(settings.modsecurity.get_or_insert_default())
}

fn mode(given: Given) -> ModSecurityMode {
    match given.value {
        Value::Boolean(true) => ModSecurityMode::On,
        Value::Text(word) if word == "on" => ModSecurityMode::On,
        Value::Text(word) if word == "detect" => ModSecurityMode::Detect,
        _ => ModSecurityMode::Off,
    }
}

fn files(given: Given) -> Vec<PathBuf> {
    match given.value {
        Value::Path(path) => vec![path],
        Value::List(list) => list.into_iter().map(Given::path).collect(),
        _ => Vec::new(),
    }
}

fn text(given: Given) -> RulesText {
    let (origin, base) = (given.origin(), given.at.source.base.clone());
    // A newline right behind the opening quotes is none of the text (TOML, "Multi-line basic
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

type Same = (ModSecurityMode, Vec<PathBuf>, Vec<RulesText>);

/// Makes the sets, each once; what can't be made is reported.
pub(crate) fn finish(loader: &mut Loader) {
    let mut known: HashMap<Same, Option<Arc<Rules>>> = HashMap::new();
    let mut found = Vec::new();
    for site in &mut loader.sites {
        let routes = site
            .routes
            .iter_mut()
            .map(|route| Arc::make_mut(&mut route.settings));
        for settings in std::iter::once(&mut site.settings).chain(routes) {
            let Some(modsecurity) = settings
                .modsecurity
                .as_mut()
                .filter(|modsecurity| modsecurity.mode != ModSecurityMode::Off)
            else {
                continue;
            };
            let modsecurity = Arc::make_mut(modsecurity);
            let same = (
                modsecurity.mode,
                modsecurity.files.clone(),
                modsecurity.texts.clone(),
            );
            modsecurity.rules = known
                .entry(same)
                .or_insert_with(|| compile(modsecurity, &mut found))
                .clone();
        }
    }
    // Sets have files in common, and what is to be said of one is said once.
    for one in found {
        if !loader
            .diagnostics
            .iter()
            .any(|known| known.origin == one.origin && known.message == one.message)
        {
            loader.diagnostics.push(one);
        }
    }
}

fn compile(modsecurity: &ModSecurity, found: &mut Vec<Diagnostic>) -> Option<Arc<Rules>> {
    let mut reading = Reading::default();
    modsecurity
        .files
        .iter()
        .for_each(|pattern| reading.files(pattern, &modsecurity.origin));
    modsecurity
        .texts
        .iter()
        .for_each(|text| reading.text(&text.text, &text.file, text.line, &text.base));
    settle(modsecurity, &mut reading);
    let remarks = reading.take_remarks();
    let is_broken = remarks.iter().any(|remark| remark.is_error);
    found.extend(remarks.into_iter().map(diagnostic));
    if is_broken {
        return None;
    }
    match Rules::compile(reading, &modsecurity.origin) {
        Ok(rules) => Some(Arc::new(rules)),
        Err(fault) => {
            found.push(fault);
            None
        }
    }
}

/// Whether rules are asked, and whether they have the last word.
fn settle(modsecurity: &ModSecurity, reading: &mut Reading) {
    let origin = &modsecurity.origin;
    if modsecurity.files.is_empty() && modsecurity.texts.is_empty() {
        let message =
            "there are no rules: name some with `modsecurity_rules_file` or `modsecurity_rules`";
        return reading.remark(origin.clone(), true, message.into());
    }
    let said = reading.engine();
    let mut say = |text: &str| reading.text(text, &origin.file, origin.line, Path::new("/"));
    match (modsecurity.mode, said) {
        (ModSecurityMode::Detect, _) => say("SecRuleEngine DetectionOnly"),
        (_, None) => say("SecRuleEngine On"),
        (_, Some(Engine::On)) => {}
        (_, Some(Engine::Detect)) => {
            let message = "the rules only detect (`SecRuleEngine DetectionOnly` stands in one of their files); \
                           `modsecurity_rules = \"SecRuleEngine On\"` has them refuse, `modsecurity = \"detect\"` says that this is meant";
            reading.remark(origin.clone(), false, message.into());
        }
        (_, Some(Engine::Off)) => reading.remark(
            origin.clone(),
            false,
            "the rules switch themselves off (`SecRuleEngine Off`)".into(),
        ),
    }
}

pub(crate) fn diagnostic(remark: Remark) -> Diagnostic {
    let mut diagnostic = Diagnostic::without_source(remark.origin, remark.message);
    diagnostic.severity = if remark.is_error {
        Severity::Error
    } else {
        Severity::Warning
    };
    diagnostic
}
