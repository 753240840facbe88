//! Sets of ModSecurity rules, compiled once each.
//!
//! Called by: `resolve::all`. Sets are large (megabytes, and a tenth of a second to compile for the
//! Core Rule Set), so sites and routes with the same rules share one.

use crate::{
    configuration::Configuration,
    diagnostic::{Diagnostic, Severity},
    model::{ModSecurity, ModSecurityMode, RulesText},
    modsecurity::{Engine, Reading, Remark, Rules},
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

type Same = (ModSecurityMode, Vec<PathBuf>, Vec<RulesText>);

/// Compiles each set once, and reports errors.
pub(super) fn resolve(configuration: &mut Configuration) {
    let mut known: HashMap<Same, Option<Arc<Rules>>> = HashMap::new();
    let mut found = Vec::new();
    for site in &mut configuration.sites {
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
    // Sets share files, so the same message may come up twice.
    for one in found {
        if !configuration
            .diagnostics
            .iter()
            .any(|known| known.origin == one.origin && known.message == one.message)
        {
            configuration.diagnostics.push(one);
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
    apply_mode(modsecurity, &mut reading);
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

/// Sets the engine mode of the rules, or reports that they don't block.
fn apply_mode(modsecurity: &ModSecurity, reading: &mut Reading) {
    let origin = &modsecurity.origin;
    if modsecurity.files.is_empty() && modsecurity.texts.is_empty() {
        let message = "no rules: set `modsecurity_rules_file` or `modsecurity_rules`";
        return reading.remark(origin.clone(), true, message.into());
    }
    let said = reading.engine();
    let mut say = |text: &str| reading.text(text, &origin.file, origin.line, Path::new("/"));
    match (modsecurity.mode, said) {
        (ModSecurityMode::Detect, _) => say("SecRuleEngine DetectionOnly"),
        (_, None) => say("SecRuleEngine On"),
        (_, Some(Engine::On)) => {}
        (_, Some(Engine::Detect)) => {
            let message = "the rules only detect (one of their files has `SecRuleEngine \
                           DetectionOnly`); `modsecurity_rules = \"SecRuleEngine On\"` enforces \
                           them, `modsecurity = \"detect\"` confirms detection only";
            reading.remark(origin.clone(), false, message.into());
        }
        (_, Some(Engine::Off)) => reading.remark(
            origin.clone(),
            false,
            "the rules turn themselves off (`SecRuleEngine Off`)".into(),
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
