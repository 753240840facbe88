//! `saker serve` and `saker run`: from arguments to a server. Returns when it has stopped.

use super::{
    arguments::{AccessLogArgument, HttpArgument, Run, Serve},
    cannot, place, promises,
};
use crate::process::{self, Source};
use saker_config::{
    ServeOptions,
    model::{AccessLogTarget, Address, Workers},
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
};

const HTTP_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

pub fn serve(serve: Serve) -> ExitCode {
    match serve_options(serve) {
        Ok(options) => process::run(Source::Directory(options)),
        Err(why) => cannot(why),
    }
}

pub fn run(run: Run) -> ExitCode {
    let path = promises::refuse_input(&run.input).map_err(str::to_owned).and_then(|()| place::configuration(run.input.config.as_deref()));
    match path {
        Ok(path) => process::run(Source::File { path, workers: run.workers.and_then(|workers| workers.count()), state_dir: run.state_dir }),
        Err(why) => cannot(why),
    }
}

fn serve_options(serve: Serve) -> Result<ServeOptions, String> {
    promises::refuse_serve(&serve)?;
    let (http, directory) = addresses_and_directory(serve.http, serve.directory)?;
    let state_dir = match (serve.state_dir, http.first()) {
        (Some(named), _) => named,
        (None, first) => place::serve_state_dir(first.unwrap_or(&Address::Tcp(HTTP_DEFAULT)))?,
    };
    let root = document_root(&directory)?;
    let workers = serve.workers.count().map_or(Workers::Auto, Workers::Count);
    let (access_log, state_dir) = (target(serve.access_log), Some(state_dir));
    Ok(ServeOptions { root, http, workers, access_log, state_dir, ..ServeOptions::default() })
}

fn addresses_and_directory(values: Vec<HttpArgument>, named: Option<PathBuf>) -> Result<(Vec<Address>, PathBuf), String> {
    let (mut http, mut directories) = (Vec::new(), Vec::from_iter(named));
    for value in values {
        match value {
            HttpArgument::Addresses(addresses) => http.extend(addresses),
            HttpArgument::Directory(directory) => directories.push(directory),
        }
    }
    if http.is_empty() {
        http.push(Address::Tcp(HTTP_DEFAULT));
    }
    match (directories.pop(), directories.pop()) {
        (Some(one), Some(other)) => Err(format!("one folder at a time: {} and {} are two", other.display(), one.display())),
        (one, _) => Ok((http, one.unwrap_or_else(|| ".".into()))),
    }
}

/// Absolute, so that it stays the same whatever becomes of the working directory.
pub fn document_root(directory: &Path) -> Result<PathBuf, String> {
    match std::fs::canonicalize(directory) {
        Ok(root) if root.is_dir() => Ok(root),
        Ok(_) => Err(format!("{}: not a directory", directory.display())),
        Err(error) => Err(format!("{}: {error}", directory.display())),
    }
}

fn target(argument: AccessLogArgument) -> Option<AccessLogTarget> {
    match argument {
        AccessLogArgument::Off => None,
        AccessLogArgument::Stdout => Some(AccessLogTarget::Stdout),
        AccessLogArgument::File(path) => Some(AccessLogTarget::File(path)),
        AccessLogArgument::Program(command) => Some(AccessLogTarget::Program(command)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::arguments::{Cli, Command},
        control::state_dir::tests::Scratch,
    };
    use clap::Parser;

    fn options(arguments: &[&str]) -> Result<ServeOptions, String> {
        let cli = Cli::try_parse_from(["saker", "serve"].iter().chain(arguments)).map_err(|error| error.to_string())?;
        match cli.command {
            Command::Serve(serve) => serve_options(*serve),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn defaults_are_local_and_quiet() {
        let scratch = Scratch::new();
        let path = scratch.0.to_str().unwrap();
        let options = options(&[path, "--state-dir", path]).unwrap();
        assert_eq!(options.http, [Address::Tcp(HTTP_DEFAULT)]);
        assert_eq!((options.workers, options.access_log, options.state_dir), (Workers::Auto, None, Some(scratch.0.clone())));
    }

    #[test]
    fn everything_said() {
        let scratch = Scratch::new();
        let path = scratch.0.to_str().unwrap();
        let said = [path, "--http", "127.0.0.1:81", "unix:/x", "--http", "[::1]:82", "--workers", "3", "--access-log", "-"];
        let rest = ["--php", "off", "--htaccess", "off", "--cache", "auto", "--state-dir", path];
        let options = options(&[&said[..], &rest[..]].concat()).unwrap();
        let addresses: Vec<String> = options.http.iter().map(Address::to_string).collect();
        assert_eq!(addresses, ["127.0.0.1:81", "unix:/x", "[::1]:82"]);
        assert_eq!((options.workers, options.access_log), (Workers::Count(3), Some(AccessLogTarget::Stdout)));
    }

    #[test]
    fn the_folder_may_stand_behind_the_addresses() {
        let scratch = Scratch::new();
        let path = scratch.0.to_str().unwrap();
        let behind = options(&["--state-dir", path, "--http", "8080", "localhost:81", path]).unwrap();
        assert_eq!(
            (behind.http.last(), &behind.root),
            (Some(&Address::Tcp("127.0.0.1:81".parse().unwrap())), &std::fs::canonicalize(path).unwrap())
        );
        assert!(options(&["--state-dir", path, ".", "--http", "8080", path]).unwrap_err().starts_with("one folder at a time: . and "));
        assert!(options(&["--http", "8080", "example.org"]).unwrap_err().contains("not an address"));
    }

    #[test]
    fn what_later_versions_bring_is_refused() {
        for (arguments, sentence) in [
            (&["--https", "8443"][..], promises::TLS),
            (&["--cert", "c.pem", "--key", "k.pem"], promises::TLS),
            (&["--htaccess", "on"], promises::HTACCESS),
            (&["--php", "unix:/run/php.sock"], promises::PHP),
            (&["--php", "on"], promises::PHP),
            (&["--cache", "on"], promises::PAGE_CACHE),
        ] {
            assert_eq!(options(arguments).unwrap_err(), sentence, "{arguments:?}");
        }
    }

    #[test]
    fn roots() {
        let scratch = Scratch::new();
        std::fs::write(scratch.join("file"), "").unwrap();
        assert!(document_root(&scratch.join("file")).unwrap_err().ends_with("not a directory"));
        assert!(document_root(&scratch.join("missing")).is_err());
        assert!(document_root(Path::new(".")).unwrap().is_absolute());
    }
}
