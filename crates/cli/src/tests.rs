//! Tests of the declared command line and its texts.

use super::*;
use arguments::WorkersArgument;
use clap::{CommandFactory, error::ErrorKind};

fn parse(line: &str) -> Result<Command, clap::Error> {
    Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command)
}

#[test]
fn the_declaration_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn lines_that_scripts_rely_on() {
    for line in [
        "saker serve",
        "saker serve /srv --http 8080 :8081 --http [::1]:80 --workers auto --access-log /var/log/a.log --state-dir /run/s",
        "saker serve --https 8443 --cert c --key k --php 127.0.0.1:9000 --htaccess on --cache off",
        "saker run -c saker.toml --workers 2 --state-dir /run/s",
        "saker run --apache httpd.conf -D SSL -DFOREGROUND",
        "saker run saker.toml --workers 2",
        "saker check saker.toml",
        "saker check -c saker.toml --json",
        "saker check --apache httpd.conf",
        "saker explain http://localhost/ -c saker.toml -H Accept:x -H Cookie:y --method HEAD",
        "saker explain /x --serve .",
        "saker status --json --state-dir /run/s",
        "saker status --prometheus -c saker.toml",
        "saker reload -c saker.toml",
        "saker stop --now",
        "saker purge --tag shop /x",
        "saker purge --site example.org --soft",
        "saker purge --all --state-dir /run/s",
        "saker cache stat --json",
        "saker cache list --site example.org --max 5",
        "saker cache show https://example.org/x?y -c saker.toml",
        "saker cache purge --tag a --tag b",
        "saker schema",
        "saker init /srv/shop --yes --force --php unix:/run/php.sock -o saker.toml",
        "saker init --domain example.org www.example.org --preset wordpress",
        "saker fmt a.toml b.toml --check",
        "saker fmt - --stdout",
        "saker config --expanded -c saker.toml",
        "saker config --json",
        "saker trust --system --nss --remove -c saker.toml",
        "saker trust --print --certificate ca.pem",
        "saker reference",
        "saker completions zsh",
        "saker man",
        "saker man out",
        "saker version",
    ] {
        parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn lines_that_are_refused() {
    for (line, kind) in [
        ("saker run -c a --apache b", ErrorKind::ArgumentConflict),
        ("saker run -D SSL", ErrorKind::MissingRequiredArgument),
        ("saker run --workers 0", ErrorKind::ValueValidation),
        ("saker run --workers 1025", ErrorKind::ValueValidation),
        ("saker run --workers -1", ErrorKind::UnknownArgument),
        ("saker serve --http example.org", ErrorKind::ValueValidation),
        ("saker serve --htaccess maybe", ErrorKind::InvalidValue),
        ("saker serve a b", ErrorKind::UnknownArgument),
        ("saker explain", ErrorKind::MissingRequiredArgument),
        ("saker explain / -H nocolon", ErrorKind::ValueValidation),
        (
            "saker explain / -c a --serve b",
            ErrorKind::ArgumentConflict,
        ),
        (
            "saker status --json --prometheus",
            ErrorKind::ArgumentConflict,
        ),
        ("saker stop -c a --apache b", ErrorKind::ArgumentConflict),
        ("saker fmt --check --stdout", ErrorKind::ArgumentConflict),
        ("saker trust --print --remove", ErrorKind::ArgumentConflict),
        ("saker start", ErrorKind::InvalidSubcommand),
        ("saker -V", ErrorKind::DisplayVersion),
    ] {
        assert_eq!(parse(line).unwrap_err().kind(), kind, "{line}");
    }
}

#[test]
fn workers() {
    for (line, expected) in [
        ("saker serve --workers 3", WorkersArgument::Count(3)),
        ("saker serve", WorkersArgument::Auto),
    ] {
        assert!(
            matches!(parse(line).unwrap(), Command::Serve(serve) if serve.workers == expected),
            "{line}"
        );
    }
}

#[test]
fn fields_are_split_at_the_first_colon() {
    let cli = Cli::try_parse_from(["saker", "explain", "/", "-H", "Host:  a:80 "]).unwrap();
    assert!(
        matches!(cli.command, Command::Explain(explain) if explain.headers == [("Host".into(), "a:80".into())])
    );
}

#[test]
fn every_command_says_what_it_does() {
    for command in Cli::command().get_subcommands() {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for argument in command
            .get_arguments()
            .filter(|argument| !argument.is_hide_set() && !argument.is_positional())
        {
            let described = argument.get_help().is_some()
                || matches!(argument.get_id().as_str(), "help" | "method");
            assert!(described, "{} {}", command.get_name(), argument.get_id());
        }
    }
}

#[test]
fn names_of_apache() {
    for (name, expected) in [
        ("/usr/sbin/apache2", true),
        ("httpd", true),
        ("apachectl", true),
        ("saker", false),
        ("/opt/httpd/saker", false),
    ] {
        assert_eq!(apache::is_name(name), expected, "{name}");
    }
}
