//! mod_php of an Apache configuration, whose place PHP of the server's own takes: its version, its
//! settings, and remarks where there is none.
//!
//! Called by: `plan`.
//! Caveat: Debian keeps settings for each kind of PHP apart (`/etc/php/8.2/apache2`, `…/fpm`), and
//! sites were set up with those of mod_php. Only distributions' own programs are given them: others
//! can't load the extensions that they name.

use crate::{
    choice,
    detect::{Found, version_in},
};
use saker_config::{
    Diagnostic, Severity,
    model::{Php, PhpKind, PhpModule},
};
use std::path::{Path, PathBuf};

/// Folders of distributions' programs.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// `8.2` of `libphp8.2.so`.
fn version(module: &PhpModule) -> Option<Box<str>> {
    version_in(&module.file.file_name()?.to_string_lossy())
}

fn is_of(version: &str, found: &Found) -> bool {
    let rest = found.version.as_deref();
    let rest = rest.and_then(|found| found.strip_prefix(version));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Puts those of the module's version in front.
pub fn prefer(php: &Php, found: &mut [Found]) {
    if let Some(version) = php.module.as_ref().and_then(version) {
        // A stable sort.
        found.sort_by_key(|found| !is_of(&version, found));
    }
}

/// The folder of the module's php.ini for this program, below `root`. PHPIniDir has precedence.
pub fn ini(root: &Path, php: &Php, found: &Found) -> Option<PathBuf> {
    let version = php.module.as_ref().and_then(version)?;
    let is_distributions = found.kind != PhpKind::Lsphp
        && found
            .program
            .parent()
            .is_some_and(|folder| FOLDERS.iter().any(|known| folder == Path::new(known)));
    let folder = root.join(format!("etc/php/{version}/apache2"));
    let is_meant = php.ini.is_none() && is_distributions && is_of(&version, found);
    (is_meant && folder.join("php.ini").is_file()).then_some(folder)
}

/// `found`: all that may run in the module's place.
pub fn problems(php: &Php, found: &[Found]) -> Vec<Diagnostic> {
    let Some(module) = &php.module else {
        return Vec::new();
    };
    let (message, help) = match (found.first(), version(module)) {
        (None, _) => (
            "PHP files are answered with 503, since there is no PHP that runs in the place of mod_php".to_owned(),
            choice::missing(&php.program),
        ),
        (Some(first), Some(version)) if !found.iter().any(|found| is_of(&version, found)) => (
            format!("mod_php is PHP {version}, and none that is there is known to be: PHP files are run by {}", first.name()),
            format!("install the package php{version}-fpm"),
        ),
        _ => return Vec::new(),
    };
    let mut diagnostic = Diagnostic::without_source(module.origin.clone(), message);
    (diagnostic.severity, diagnostic.help) = (Severity::Warning, Some(help));
    vec![diagnostic]
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::Origin;
    use std::fs;

    fn php(file: &str) -> Php {
        let module = PhpModule {
            file: file.into(),
            origin: Origin::built_in(),
        };
        Php {
            module: Some(module),
            ..Php::default()
        }
    }

    fn found(program: &str) -> Found {
        Found::named(Path::new(program)).unwrap()
    }

    #[test]
    fn the_modules_version_comes_first() {
        let all = || {
            vec![
                found("/usr/local/lsws/lsphp83/bin/lsphp"),
                found("/usr/sbin/php-fpm8.4"),
                found("/usr/sbin/php-fpm7.4"),
            ]
        };
        for (file, first) in [
            ("modules/libphp7.4.so", "php-fpm 7.4"),
            ("/usr/lib/apache2/modules/libphp8.4.so", "php-fpm 8.4"),
            ("modules/libphp8.1.so", "lsphp 8.3"),
            ("modules/libphp.so", "lsphp 8.3"),
        ] {
            let mut all = all();
            prefer(&php(file), &mut all);
            assert_eq!(all[0].name(), first, "{file}");
        }
    }

    #[test]
    fn remarks() {
        let said = |php: &Php, found: &[Found]| -> Vec<String> {
            let problems = problems(php, found);
            assert!(problems.iter().all(|problem| !problem.is_error()));
            problems
                .iter()
                .map(|problem| format!("{}; {}", problem.message, problem.help.as_deref().unwrap()))
                .collect()
        };
        let old = php("modules/libphp7.4.so");
        let none = said(&old, &[]);
        assert!(
            none[0].starts_with("PHP files are answered with 503") && none[0].contains("no PHP"),
            "{none:?}"
        );
        let other = said(&old, &[found("/usr/sbin/php-fpm8.2")]);
        assert!(
            other[0].contains("PHP 7.4") && other[0].contains("php-fpm 8.2"),
            "{other:?}"
        );
        assert!(said(&old, &[found("/usr/sbin/php-fpm7.4")]).is_empty());
        assert_eq!(said(&old, &[found("/nowhere/php-cgi")]).len(), 1);
        assert!(said(&Php::default(), &[]).is_empty());
    }

    #[test]
    fn settings_of_the_module() {
        let root = std::env::temp_dir().join(format!("saker-php-module-{}", std::process::id()));
        let folder = root.join("etc/php/8.2/apache2");
        fs::create_dir_all(&folder).unwrap();
        let php = php("modules/libphp8.2.so");
        let fpm = found("/usr/sbin/php-fpm8.2");
        assert_eq!(ini(&root, &php, &fpm), None);
        fs::write(folder.join("php.ini"), "upload_max_filesize = 64M\n").unwrap();
        assert_eq!(ini(&root, &php, &fpm), Some(folder));
        assert_eq!(ini(&root, &php, &found("/usr/sbin/php-fpm8.3")), None);
        assert_eq!(ini(&root, &php, &found("/opt/lsphp82/bin/lsphp")), None);
        let named = Php {
            ini: Some("/etc/php".into()),
            ..php
        };
        assert_eq!(ini(&root, &named, &fpm), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
