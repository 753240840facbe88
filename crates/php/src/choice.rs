//! Resolves a requested PHP, given by kind, version, program name or path, and the fallback if none
//! is installed.
//!
//! Called by: the command line (`--php`), `saker check`.
//! Caveat: the protocol a program speaks is inferred from its name alone, as in `detect`.
//! Out of scope: externally managed PHP (`unix:PATH`, `HOST:PORT`).

use crate::detect::{Found, installed};
use saker_config::model::{PhpKind, PhpProgram};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Reads `auto`, a kind (`php-fpm`, `php-cgi`, `lsphp`; `fpm` and `cgi` are short for the first
/// two), a version (`8.2`), a program's name (`php-cgi8.2`) or a path.
///
/// # Errors
/// Nothing of that kind is installed; a sentence for the operator.
pub fn choose(text: &str) -> Result<PhpProgram, String> {
    choose_from(text, &installed())
}

fn choose_from(text: &str, installed: &[Found]) -> Result<PhpProgram, String> {
    let of_kind =
        |kind: PhpKind| kind.name() == text || kind.name().strip_prefix("php-") == Some(text);
    if text == "auto" {
        return Ok(PhpProgram::Auto);
    }
    if let Some(kind) = PhpKind::ALL.into_iter().find(|kind| of_kind(*kind)) {
        let program = PhpProgram::Kind(kind);
        return if installed.iter().any(|found| found.kind == kind) {
            Ok(program)
        } else {
            Err(missing_in(&program, installed))
        };
    }
    if text.contains('/') {
        return program_at(Path::new(text));
    }
    let is_named = |path: &Path| path.file_name().is_some_and(|name| name == text);
    // `php-cgi` is often a link to the one with the version in its name.
    let is_link = |path: &Path| fs::canonicalize(path).is_ok_and(|target| is_named(&target));
    let is_meant = |found: &&Found| {
        is_named(&found.program)
            || found.version.as_deref() == Some(text)
            || is_link(&found.program)
    };
    match installed.iter().find(is_meant) {
        Some(found) => Ok(PhpProgram::Path(found.program.clone())),
        None => Err(format!("no such PHP is installed ({})", shown(installed))),
    }
}

fn program_at(path: &Path) -> Result<PhpProgram, String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    let absolute = std::path::absolute(path).map_err(|error| error.to_string())?;
    match Found::named(&absolute) {
        _ if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 => Err("not a program that can be run".into()),
        Some(_) => Ok(PhpProgram::Path(absolute)),
        None => Err("a program whose name begins with php-fpm, php-cgi or lsphp serves requests; this one may not".into()),
    }
}

/// Why there is no PHP, and which package brings it.
pub fn missing(wanted: &PhpProgram) -> String {
    missing_in(wanted, &installed())
}

fn missing_in(wanted: &PhpProgram, installed: &[Found]) -> String {
    match wanted {
        PhpProgram::Auto => format!("no PHP is installed: {}", package(PhpKind::Fpm)),
        PhpProgram::Kind(kind) => format!(
            "{} is not installed ({}): {}",
            kind.name(),
            shown(installed),
            package(*kind)
        ),
        PhpProgram::Path(path) => format!("{} can't be run ({})", path.display(), shown(installed)),
    }
}

fn package(kind: PhpKind) -> &'static str {
    match kind {
        PhpKind::Fpm => "install the package php-fpm (Debian: apt install php-fpm)",
        PhpKind::Cgi => "install the package php-cgi (Debian: apt install php-cgi)",
        PhpKind::Lsphp => "install a package such as lsphp83 from LiteSpeed's repository",
    }
}

fn shown(installed: &[Found]) -> String {
    let shown = |found: &Found| match (&found.version, found.program.file_name()) {
        (None, Some(name)) if name == found.kind.name() => name.to_string_lossy().into_owned(),
        _ => format!("{} as {}", found.name(), found.program.display()),
    };
    let all: Vec<String> = installed.iter().map(shown).collect();
    if all.is_empty() {
        "no PHP is".to_owned()
    } else {
        format!("installed: {}", all.join(", "))
    }
}

/// Says whether a folder has PHP files of its own, so that a server without PHP has something to
/// say.
pub fn has_scripts(folder: &Path) -> bool {
    let names = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .take(ENTRIES_MAX)
        .map(|entry| PathBuf::from(entry.file_name()));
    names.into_iter().any(|name| {
        name.extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("php"))
    })
}

/// Maximum number of directory entries scanned for PHP files.
const ENTRIES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(program: &str) -> Found {
        Found::named(Path::new(program)).unwrap()
    }

    #[test]
    fn what_is_installed_is_chosen_by_any_of_its_names() {
        let installed = [
            found("/opt/lsphp83/bin/lsphp"),
            found("/usr/sbin/php-fpm8.9"),
            found("/usr/bin/php-cgi8.9"),
        ];
        let path = |path: &str| Ok(PhpProgram::Path(path.into()));
        for (text, expected) in [
            ("auto", Ok(PhpProgram::Auto)),
            ("php-fpm", Ok(PhpProgram::Kind(PhpKind::Fpm))),
            ("fpm", Ok(PhpProgram::Kind(PhpKind::Fpm))),
            ("cgi", Ok(PhpProgram::Kind(PhpKind::Cgi))),
            ("lsphp", Ok(PhpProgram::Kind(PhpKind::Lsphp))),
            ("php-cgi8.9", path("/usr/bin/php-cgi8.9")),
            ("8.9", path("/usr/sbin/php-fpm8.9")),
            ("8.3", path("/opt/lsphp83/bin/lsphp")),
        ] {
            assert_eq!(choose_from(text, &installed), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_there_is_said_with_the_way_out() {
        let installed = [found("/nowhere/php-cgi")];
        for (text, reason) in [
            (
                "php-fpm",
                "php-fpm is not installed (installed: php-cgi): install the package php-fpm (Debian: apt install php-fpm)",
            ),
            (
                "php-fpm7.4",
                "no such PHP is installed (installed: php-cgi)",
            ),
            (
                "/nowhere/else/php-cgi",
                "No such file or directory (os error 2)",
            ),
            ("/", "not a program that can be run"),
            (
                "/bin/sh",
                "a program whose name begins with php-fpm, php-cgi or lsphp serves requests; this one may not",
            ),
        ] {
            assert_eq!(choose_from(text, &installed), Err(reason.into()), "{text}");
        }
        assert!(
            choose_from("lsphp", &[])
                .unwrap_err()
                .starts_with("lsphp is not installed (no PHP is): ")
        );
        assert_eq!(
            missing_in(&PhpProgram::Auto, &[]),
            "no PHP is installed: install the package php-fpm (Debian: apt install php-fpm)"
        );
    }
}
