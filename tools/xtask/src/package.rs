//! `cargo xtask package`: Debian packages, the RPM package, the tarball, the container image, and what a release
//! says about itself.
//!
//! Called by: `make deb`, `make rpm`, `make image`, and `make dist`; the tests of the packages, with a debug
//! binary.
//! Caveat: needs dpkg-deb, rpmbuild, and binutils, no debhelper: what a package holds is one table
//! ([`contents`]), and the scripts are in `contrib/debian` and `contrib/rpm`. The same binary at the same commit gives
//! the same bytes.
//! Out of scope: building the binary; publishing.

mod binary;
mod contents;
mod deb;
mod image;
mod options;
mod release;
mod rpm;
mod tree;

use options::{Options, wrong};
use std::{
    env, io,
    path::{Path, PathBuf},
    process::Command,
};

/// The parts of a release that can be asked for.
const PARTS: [&str; 5] = ["deb", "rpm", "tarball", "image", "sbom"];

/// `cargo xtask package PART... [--binary FILE] [--out DIR] [--version V] [--quick]`.
pub fn package(root: &Path, words: &[&str]) -> io::Result<()> {
    let (options, parts) = parse(root, words)?;
    std::fs::create_dir_all(&options.out)?;
    let all = |part: &str| parts.is_empty() || parts.iter().any(|asked| asked == part);
    if all("deb") {
        deb::write(&options)?;
    }
    if all("rpm") {
        rpm::write(&options)?;
    }
    if all("tarball") {
        release::tarball(&options)?;
    }
    if all("image") {
        image::write(&options)?;
    }
    if all("sbom") {
        release::sbom(&options)?;
    }
    release::checksums(&options)
}

fn parse(root: &Path, words: &[&str]) -> io::Result<(Options, Vec<String>)> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut options = Options {
        root: root.into(),
        binary: target.join("release/saker"),
        out: target.join("dist"),
        version: env!("CARGO_PKG_VERSION").into(),
        time: commit_time(root),
        is_quick: false,
    };
    let (mut parts, mut words) = (Vec::new(), words.iter());
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or_else(|| wrong(format!("{word}: a value is missing")))
        };
        match *word {
            "--binary" => options.binary = value()?.into(),
            "--out" => options.out = value()?.into(),
            "--version" => options.version = (*value()?).into(),
            "--quick" => options.is_quick = true,
            part if PARTS.contains(&part) => parts.push(part.to_owned()),
            other => return Err(wrong(format!("`{other}`: not one of {}", PARTS.join(", ")))),
        }
    }
    if !options.binary.is_file() {
        return Err(wrong(format!(
            "{}: no binary there (cargo build --release -p saker)",
            options.binary.display()
        )));
    }
    Ok((options, parts))
}

/// The time of the last commit, or what SOURCE_DATE_EPOCH says: builds of the same commit are the
/// same.
fn commit_time(root: &Path) -> u64 {
    let said = env::var("SOURCE_DATE_EPOCH").ok().or_else(|| {
        let output = Command::new("git")
            .args(["log", "-1", "--format=%ct"])
            .current_dir(root)
            .output()
            .ok()?;
        String::from_utf8(output.stdout).ok()
    });
    said.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
