//! `cargo xtask`: the house rules, the demo site, the files of the benches, the generated pages,
//! the packages.
//!
//! Absent on purpose: building and testing, which Cargo and the Makefile do.

mod demo;
mod package;
mod tidy;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

const HELP: &str = "cargo xtask tidy              check the house rules; all findings at once
cargo xtask demo [DIR]        make the demo site (demo/site)
cargo xtask bench-files DIR   make the files that the benches serve
cargo xtask docs              write the pages that are made from tables anew
cargo xtask package [PART...] [--binary FILE] [--out DIR] [--version V] [--quick]
                              package a binary: deb, rpm, tarball, image, sbom (without parts: all)
";

/// Pages that are generated from tables.
const PAGES: &[tidy::Page] = &[
    ("docs/reference.md", saker_config::reference_markdown),
    ("docs/messages.md", messages_markdown),
    ("docs/metrics.md", metrics_markdown),
    (
        "docs/apache-directives.md",
        saker_apache_syntax::reference_markdown,
    ),
    ("docs/nginx.md", saker_nginx_syntax::reference_markdown),
];

fn messages_markdown() -> String {
    format!(
        "# Error log messages\n\nEvery line of the error log carries the id of its message. \
         Ids are stable: an id is never reused.\n\nThis page is generated from \
         `crates/telemetry/src/message.rs` by `cargo xtask docs`.\n\n{}",
        saker_telemetry::message::markdown()
    )
}

fn metrics_markdown() -> String {
    format!(
        "# Metrics\n\nThe counters and gauges of `saker status`, in the Prometheus text format \
         under `/metrics` of the control socket. Counters start at 0 with the process.\n\n\
         This page is generated from `crates/telemetry/src/metrics.rs` by `cargo xtask docs`.\
         \n\n{}",
        saker_telemetry::metrics::markdown()
    )
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy(),
        ["demo"] => done(demo::write(&root().join("demo/site"))),
        ["demo", folder] => done(demo::write(Path::new(folder))),
        ["bench-files", folder] => done(saker_testkit::bench_files::write(Path::new(folder))),
        ["docs"] => done(write_pages()),
        ["package", rest @ ..] => done(package::package(&root(), rest)),
        _ => {
            eprint!("{HELP}");
            ExitCode::FAILURE
        }
    }
}

fn tidy() -> ExitCode {
    let findings = tidy::check(&root(), PAGES);
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("tidy: {} findings", findings.len());
    ExitCode::FAILURE
}

fn write_pages() -> io::Result<()> {
    fs::create_dir_all(root().join("docs"))?;
    PAGES
        .iter()
        .try_for_each(|(path, made)| fs::write(root().join(path), made()))
}

/// The repository, wherever Cargo was called.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own).to_path_buf()
}

fn done(outcome: io::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
