//! `--php` of `saker serve` and `saker run --apache`.
//!
//! Called by: `start`.

use saker_config::{
    model::{PhpProgram, PhpUse},
    parse_php_use,
};

const FORMS: &str =
    "it has to be auto, php-fpm, php-cgi, lsphp, a version such as 8.2, or the path of a program";

/// Parses `--php` of `saker serve`: the server behind PHP, and the program if Saker runs it.
///
/// # Errors
/// The text has none of the forms, or the program is not installed; a sentence for the operator.
pub fn choose(text: &str) -> Result<(PhpUse, PhpProgram), String> {
    match parse_php_use(text) {
        Ok(php) => Ok((php, PhpProgram::Auto)),
        Err(reason) if text.starts_with("unix:") => Err(format!("--php {text}: {reason}")),
        Err(_) if is_program(text) => program(text).map(|program| (PhpUse::Managed, program)),
        Err(_) => Err(format!(
            "--php {text}: {FORMS}; or off, unix:PATH or HOST:PORT of a php-fpm that runs already"
        )),
    }
}

/// Parses `--php` of `saker run --apache`: the PHP that runs files configured for mod_php.
///
/// # Errors
/// As for [`choose`].
pub fn program(text: &str) -> Result<PhpProgram, String> {
    match is_program(text) {
        true => saker_php::choose(text).map_err(|reason| format!("--php {text}: {reason}")),
        false => Err(format!("--php {text}: {FORMS}")),
    }
}

/// Says whether it looks like one.
fn is_program(text: &str) -> bool {
    let is_version = text.contains('.')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    matches!(text, "auto" | "fpm" | "cgi")
        || is_version
        || text.contains('/')
        || text.starts_with("php")
        || text.starts_with("lsphp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        assert!(matches!(
            choose("auto"),
            Ok((PhpUse::Managed, PhpProgram::Auto))
        ));
        assert!(matches!(choose("off"), Ok((PhpUse::Off, _))));
        assert!(matches!(
            choose("unix:/run/php/fpm.sock"),
            Ok((PhpUse::Upstream(_), _))
        ));
        assert!(matches!(
            choose("localhost:9000"),
            Ok((PhpUse::Upstream(_), _))
        ));
        for (text, reason) in [
            ("on", "it has to be auto, php-fpm, php-cgi, lsphp"),
            ("unix:php.sock", "the path of a socket starts with \"/\""),
            ("/nowhere/php-cgi", "No such file"),
            ("./php-cgi", "No such file"),
            ("99.9", "no such PHP is installed"),
            ("php99", "no such PHP is installed"),
            ("localhost", "it has to be auto"),
        ] {
            let error = choose(text).map(drop).unwrap_err();
            assert!(
                error.starts_with(&format!("--php {text}: ")) && error.contains(reason),
                "{error}"
            );
        }
        assert!(program("off").is_err() && program("unix:/run/x").is_err());
    }
}
