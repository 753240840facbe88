//! `saker check`: tests a configuration and reports all errors at once.
//!
//! Called by: `lib`; Apache's `-t`.

use crate::source::{ApacheInput, NginxInput, load_apache, load_native, load_nginx, settle_php};
use crate::{
    arguments::Check,
    cost,
    exit_status::{CONFIGURATION_ERRORS, OK},
    locations,
    output::{self, cannot},
    preflight,
};
use saker_apache::CostLine;
use saker_config::{Diagnostic, Diagnostics, Loaded, Model, Severity};
use saker_serving::tls_state;
use saker_tls::LoadProblem;
use serde_json::{Value, json};
use std::{path::Path, process::ExitCode};

pub fn check(check: &Check) -> ExitCode {
    let input = &check.input;
    let path = match input.apache.as_ref().or(input.nginx.as_ref()) {
        Some(path) => Ok(path.clone()),
        None => locations::configuration(check.file.as_deref().or(check.input.config.as_deref())),
    };
    match path {
        Ok(path) if check.json => check_json(&path, check),
        Ok(path) => check_text(&path, check),
        Err(why) => cannot(why),
    }
}

/// Rendered on standard error, where a person or a log sees it.
pub fn report(diagnostics: &Diagnostics) {
    match output::errors_are_colored() {
        true => output::error(diagnostics.colored()),
        false => output::error(diagnostics),
    }
}

/// A configuration without errors.
struct Checked {
    summary: String,
    warnings: Diagnostics,
    /// Set if it was asked for.
    cost: Option<Vec<CostLine>>,
}

/// Checks the file, and the certificates, keys, and log directories that it names.
fn load(path: &Path, check: &Check) -> Result<Checked, Diagnostics> {
    let input = &check.input;
    let (Loaded { model, warnings }, cost) = match input.apache {
        Some(_) => apache(path, check)?,
        None if input.nginx.is_some() => (nginx(path)?, None),
        None => {
            let loaded = load_native(path)?;
            let cost = check.cost.then(|| cost::of_model(&loaded.model));
            (loaded, cost)
        }
    };
    let all = Diagnostics(warnings.into_iter().chain(of_machine(&model)).collect());
    if all.iter().any(Diagnostic::is_error) {
        Err(all)
    } else {
        Ok(Checked {
            summary: summary(model, input.apache.is_some()),
            warnings: all,
            cost,
        })
    }
}

/// Files and other facts that the configuration names and that this machine lacks, or that the
/// server could not use.
pub fn of_machine(model: &Model) -> Vec<Diagnostic> {
    let of_certificates = tls_state::problems(model).into_iter().map(diagnostic);
    of_certificates
        .chain(preflight::problems(model))
        .chain(saker_php::problems(model))
        .collect()
}

/// Notes too: they say what Apache would have done and we do not.
fn apache(path: &Path, check: &Check) -> Result<(Loaded, Option<Vec<CostLine>>), Diagnostics> {
    let input = ApacheInput {
        file: path.to_owned(),
        defines: check.input.define.clone(),
        ..ApacheInput::default()
    };
    let loaded = load_apache(&input);
    if loaded.has_errors() {
        return Err(Diagnostics(loaded.diagnostics));
    }
    let cost = check.cost.then(|| cost::of_apache(&input, &loaded.apache));
    let loaded = Loaded {
        model: loaded.model,
        warnings: loaded.diagnostics,
    };
    Ok((loaded, cost))
}

/// Warnings and notes say what nginx would have done and we do not.
fn nginx(path: &Path) -> Result<Loaded, Diagnostics> {
    let loaded = load_nginx(&NginxInput {
        file: path.to_owned(),
        ..NginxInput::default()
    });
    match loaded.report.has_errors() {
        true => Err(Diagnostics(loaded.report.diagnostics)),
        false => Ok(Loaded {
            model: loaded.model,
            warnings: loaded.report.diagnostics,
        }),
    }
}

fn diagnostic(problem: LoadProblem) -> Diagnostic {
    if problem.is_denied && !preflight::is_root() {
        return preflight::not_looked_at(
            &problem.origin,
            problem
                .message
                .split(" can't be read")
                .next()
                .unwrap_or_default(),
        );
    }
    let severity = if problem.is_error() {
        Severity::Error
    } else {
        Severity::Warning
    };
    let mut diagnostic = Diagnostic::without_source(problem.origin, problem.message);
    (diagnostic.severity, diagnostic.help) = (severity, problem.help);
    diagnostic
}

fn check_text(path: &Path, check: &Check) -> ExitCode {
    match load(path, check) {
        Ok(checked) => {
            report(&checked.warnings);
            let cost = checked.cost.map(|lines| cost::text(&lines));
            output::print(format!(
                "{}{}: ok: {}\n",
                cost.unwrap_or_default(),
                path.display(),
                checked.summary
            ))
        }
        Err(diagnostics) => {
            report(&diagnostics);
            let errors = diagnostics
                .iter()
                .filter(|diagnostic| diagnostic.is_error())
                .count();
            output::error(format_args!(
                "{}: {}\n",
                path.display(),
                counted(errors, "error")
            ));
            ExitCode::from(CONFIGURATION_ERRORS)
        }
    }
}

fn check_json(path: &Path, check: &Check) -> ExitCode {
    let (status, report) = match load(path, check) {
        Ok(checked) => {
            let mut report = json_report(path, &checked.warnings.0);
            if let Some(lines) = checked.cost {
                report["cost"] = cost::json(&lines);
            }
            (OK, report)
        }
        Err(diagnostics) => (CONFIGURATION_ERRORS, json_report(path, &diagnostics.0)),
    };
    let printed = output::print(format!("{report:#}\n"));
    if printed == ExitCode::from(OK) {
        ExitCode::from(status)
    } else {
        printed
    }
}

fn json_report(path: &Path, diagnostics: &[Diagnostic]) -> Value {
    json!({
        "file": path.to_string_lossy(),
        "ok": !diagnostics.iter().any(Diagnostic::is_error),
        "diagnostics": diagnostics.iter().map(json_diagnostic).collect::<Vec<_>>(),
    })
}

/// Line 0 stands for "no place in a file".
fn json_diagnostic(diagnostic: &Diagnostic) -> Value {
    json!({
        "severity": match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        },
        "file": &*diagnostic.origin.file,
        "line": diagnostic.origin.line,
        "column": diagnostic.origin.column,
        "length": diagnostic.length,
        "message": diagnostic.message,
        "help": diagnostic.help,
    })
}

/// Summary of sites and their PHP. Apache's configuration only mentions PHP if one is present.
fn summary(mut model: Model, is_apache: bool) -> String {
    settle_php(&mut model, is_apache);
    let php = saker_php::explain(&model)
        .map(|php| format!("\nPHP: {php}"))
        .unwrap_or_default();
    let shared = match &model.server.user {
        Some(user) if saker_php::shares_servers_user(&model) => format!(
            "\nPHP runs as the server's own user {user}: a script may read and change what belongs to that user, logs among it. To keep them apart, \
             name another user in [php] or for each site, or make a user {}",
            saker_php::OWN_USER
        ),
        _ => String::new(),
    };
    format!(
        "{}, {}{php}{shared}",
        counted(model.listeners.len(), "listener"),
        counted(model.sites.len(), "site")
    )
}

pub fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::Origin;

    #[test]
    fn json_has_place_and_help() {
        let origin = Origin {
            file: "saker.toml".into(),
            line: 3,
            column: 7,
        };
        let report = json_report(
            Path::new("saker.toml"),
            &[Diagnostic::without_source(origin, "no such key".into())],
        );
        let diagnostic = &report["diagnostics"][0];
        assert_eq!(report["ok"], false);
        assert_eq!(
            (
                &diagnostic["line"],
                &diagnostic["column"],
                &diagnostic["severity"]
            ),
            (&json!(3), &json!(7), &json!("error"))
        );
        assert_eq!(json_report(Path::new("saker.toml"), &[])["ok"], true);
    }

    #[test]
    fn plurals() {
        assert_eq!(
            [counted(0, "site"), counted(1, "site"), counted(2, "site")],
            ["0 sites", "1 site", "2 sites"]
        );
    }
}
