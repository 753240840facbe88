//! `saker explain URL`: prints the dispatch of a request that is never sent, step by step.
//!
//! Called by: `lib`.

use crate::dispatch_trace::Question;
use crate::source::{ApacheInput, NginxInput, load_apache_keeping_places, load_native, load_nginx};
use crate::{
    arguments, cache, check,
    exit_status::CONFIGURATION_ERRORS,
    explain_stream, locations,
    output::{self, cannot},
    start,
};
use saker_config::{Diagnostics, Model};
use saker_console::LiveChanges;
use saker_pipeline::{FrontEnd, TraceStep};
use saker_serving::services::MakeServices;
use std::{fmt::Write as _, path::Path, process::ExitCode, sync::Arc};

pub fn explain(explain: arguments::Explain, make_services: MakeServices) -> ExitCode {
    let (model, front_end) = match configuration(&explain) {
        Ok(configuration) => configuration,
        Err(status) => return status,
    };
    if let Some(steps) = explain_stream::steps(&model, &explain.url) {
        return match steps {
            Ok(steps) => output::print(render(&steps)),
            Err(message) => cannot(message),
        };
    }
    // Servers of `saker serve` have state directories of their own.
    let of_model = explain
        .serve
        .is_none()
        .then(|| model.server.state_dir.clone());
    let state_dir = explain.state_dir.clone().or(of_model);
    let mut steps = Vec::new();
    if let Some(state_dir) = &state_dir {
        steps.extend(live_changes(state_dir, &model));
    }
    let outcome = crate::dispatch_trace::explain(
        make_services,
        (model, front_end),
        &Question {
            method: &explain.method,
            url: &explain.url,
            headers: &explain.headers,
        },
        &mut |step| steps.push(step),
    );
    // Only the running server knows the cached entries.
    if let Some(at) = steps
        .iter()
        .rposition(|step| step.phase == "cache" && step.text.starts_with("looked up"))
        && let Some(state_dir) = state_dir
    {
        let kept = cache::kept_of(&state_dir, &absolute(&explain.url)).into_iter();
        steps.splice(
            at + 1..at + 1,
            kept.map(|text| TraceStep {
                phase: "cache",
                text,
                origin: None,
            }),
        );
    }
    let printed = output::print(render(&steps));
    outcome.map_or_else(cannot, |()| printed)
}

/// Puts the changes that operators have made in the running server in force, as it does; the steps
/// say what was wrong with them.
fn live_changes(state_dir: &Path, model: &Model) -> Vec<TraceStep> {
    let complaints = match LiveChanges::load(state_dir) {
        Ok(changes) => changes.apply(model),
        Err(why) => vec![why],
    };
    let step = |why: String| TraceStep {
        phase: "live_changes",
        text: format!("changes of the running server are not taken into account: {why}"),
        origin: None,
    };
    complaints.into_iter().map(step).collect()
}

/// The URL with its scheme and host.
fn absolute(url: &str) -> String {
    match url {
        _ if url.starts_with('/') => format!("http://localhost{url}"),
        _ if url.contains("://") => url.to_owned(),
        _ => format!("http://{url}"),
    }
}

/// The configuration that a server would use; the error is the command's exit code.
fn configuration(explain: &arguments::Explain) -> Result<(Model, Option<FrontEnd>), ExitCode> {
    if let Some(directory) = &explain.serve {
        let options = start::options_of(directory, explain.state_dir.as_deref()).map_err(cannot)?;
        return Ok((Model::for_directory(options), None));
    }
    let refused = |diagnostics: &Diagnostics| {
        check::report(diagnostics);
        ExitCode::from(CONFIGURATION_ERRORS)
    };
    if let Some(path) = &explain.input.apache {
        let input = ApacheInput {
            file: path.clone(),
            defines: explain.input.define.clone(),
            ..ApacheInput::default()
        };
        let loaded = load_apache_keeping_places(&input, true);
        if loaded.has_errors() {
            return Err(refused(&Diagnostics(loaded.diagnostics)));
        }
        return Ok((loaded.model, Some(Arc::new(loaded.apache))));
    }
    if let Some(path) = &explain.input.nginx {
        let loaded = load_nginx(&NginxInput {
            file: path.clone(),
            ..NginxInput::default()
        });
        if loaded.report.has_errors() {
            return Err(refused(&Diagnostics(loaded.report.diagnostics)));
        }
        let front_end = saker_nginx::FrontEnd::new(loaded.nginx);
        return Ok((loaded.model, Some(Arc::new(front_end))));
    }
    let path = locations::configuration(explain.input.config.as_deref()).map_err(cannot)?;
    let loaded = load_native(&path).map_err(|diagnostics| refused(&diagnostics))?;
    Ok((loaded.model, None))
}

fn render(steps: &[TraceStep]) -> String {
    let width = steps.iter().map(|step| step.phase.len()).max().unwrap_or(0);
    let mut page = String::new();
    for TraceStep {
        phase,
        text,
        origin,
    } in steps
    {
        // Text from a request or a file name must not move the cursor.
        let text: String = text
            .chars()
            .map(|c| if c.is_control() { '\u{fffd}' } else { c })
            .collect();
        let _ = match origin {
            Some(origin) => writeln!(page, "{phase:<width$}  {text}  [{origin}]"),
            None => writeln!(page, "{phase:<width$}  {text}"),
        };
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::Origin;

    #[test]
    fn steps_are_aligned_and_tame() {
        let origin = Some(Origin {
            file: "saker.toml".into(),
            line: 12,
            column: 1,
        });
        let steps = [
            TraceStep {
                phase: "select_host",
                text: "example.org".into(),
                origin,
            },
            TraceStep {
                phase: "content",
                text: "/\x1b[2J".into(),
                origin: None,
            },
        ];
        assert_eq!(
            render(&steps),
            "select_host  example.org  [saker.toml:12:1]\ncontent      /\u{fffd}[2J\n"
        );
    }
}
