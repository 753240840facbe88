//! `cargo xtask`: the house rules, the demo site, the files of the benches, the generated pages.
//!
//! Absent on purpose: building and testing, which Cargo and the Makefile do.

mod demo;
mod tidy;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

const HELP: &str = "cargo xtask tidy              check the house rules; all findings at once
cargo xtask demo [DIR]        make the demo site (demo/site)
cargo xtask bench-files DIR   make the files that the benches serve
cargo xtask docs              write docs/reference.md anew
";
const REFERENCE: &str = "docs/reference.md";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy(),
        ["demo"] => done(demo::write(&root().join("demo/site"))),
        ["demo", folder] => done(demo::write(Path::new(folder))),
        ["bench-files", folder] => done(saker_testkit::bench_files::write(Path::new(folder))),
        ["docs"] => done(write_reference()),
        _ => {
            eprint!("{HELP}");
            ExitCode::FAILURE
        }
    }
}

fn tidy() -> ExitCode {
    let findings = tidy::check(&root(), REFERENCE, &saker_config::reference_markdown());
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("tidy: {} findings", findings.len());
    ExitCode::FAILURE
}

fn write_reference() -> io::Result<()> {
    let path = root().join(REFERENCE);
    fs::create_dir_all(root().join("docs"))?;
    fs::write(path, saker_config::reference_markdown())
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
