//! The lab: the five published comparisons in one run, and a report that an administrator can judge
//! servers by.
//!
//! `plan` chooses rows, rounds and seconds so that the run ends in time, `bench` (the runner)
//! measures, `verdict` says who is ahead and whether that is more than the machine's noise, and
//! `page`, `markdown` and `summary` write the same outcome three times. The difficulty is honesty
//! on a small machine: every rule that decides is in `verdict` and printed with the report. Absent
//! on purpose: comparing with figures from elsewhere. All ratios are of one run.

mod arguments;
mod charts;
mod escape;
mod groups;
mod machine;
mod markdown;
mod page;
#[cfg(test)]
mod page_tests;
mod plan;
mod progress;
mod readme_table;
mod report;
#[cfg(test)]
mod samples;
mod summary;
mod verdict;

pub use arguments::{Setting, help, parse};
pub use readme_table::table;

use crate::{
    report as figures,
    runner::{Bench, Part},
    stage::Stage,
};
use report::Report;
use std::{fs, path::Path, sync::Arc, time::Instant};

pub fn run(setting: &Setting) -> Result<(), String> {
    let begun = Instant::now();
    let rows = plan::rows(setting);
    let stage = setting
        .stage
        .as_deref()
        .map(Stage::connect)
        .transpose()?
        .map(Arc::new);
    let bench = Bench::prepare(
        &setting.bench,
        &rows,
        stage.map_or(Part::Everything, Part::Load),
    )?;
    let plans = plan::plan(&rows, setting, |row| bench.subjects(row).len());
    if setting.is_plan_only {
        print!("{}", plan::listed(&plans));
        return Ok(());
    }
    let progress = progress::Bar::new(&plans, setting.budget());
    let (mut results, mut absent) = (Vec::new(), setting.absent.clone());
    for entry in &plans {
        if progress.is_over(entry) {
            absent.push(format!("{}: the time was over", entry.plan.row.name));
            continue;
        }
        progress.begin(entry);
        results.push(bench.run_row(entry.plan, &progress));
        progress.end(entry);
    }
    progress.finish();
    let facts = machine::Facts {
        absent,
        ..machine::facts(setting, begun.elapsed())
    };
    let report = Report::new(&results, facts);
    write(&setting.out, &report, &figures::json(&results))?;
    print!("{}", markdown::overview(&report));
    println!(
        "\nThe whole report: {}",
        setting.out.join("index.html").display()
    );
    Ok(())
}

fn write(out: &Path, report: &Report<'_>, raw: &serde_json::Value) -> Result<(), String> {
    fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let json = |value: &serde_json::Value| {
        serde_json::to_string_pretty(value).map_err(|error| error.to_string())
    };
    let files = [
        ("index.html", page::html(report)),
        ("report.md", markdown::whole(report)),
        ("summary.json", json(&summary::json(report))?),
        ("raw.json", json(raw)?),
    ];
    for (name, text) in files {
        let file = out.join(name);
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}
