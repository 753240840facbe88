//! `saker serve` and `saker run`: arguments to a configuration source; returns when the server has
//! stopped.
//!
//! Called by: `lib`.

use crate::nginx;
use crate::program::RunServer;
use crate::source::{ApacheInput, NginxInput, Source, load_nginx};
use crate::{
    address,
    arguments::{AccessLogArgument, ListenArgument, Run, Serve, Switch},
    locations,
    output::cannot,
    php,
};
use clap::{Args, FromArgMatches};
use saker_config::{
    ServeOptions,
    model::{
        AccessLogTarget, Acme, AcmeDirectory, Address, CacheOffer, CacheUse, CertificateFiles,
        Htaccess, Origin, PhpUse, Workers,
    },
};
use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::ExitCode,
};

const HTTP_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
const HTTPS_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8443);

pub fn serve(serve: Serve, run_server: RunServer) -> ExitCode {
    let is_placed = serve.state_dir.is_some();
    let options = serve_options(serve).and_then(|options| {
        if is_placed {
            Ok(options)
        } else {
            locations::open_serve_base().map(|()| options)
        }
    });
    if options
        .as_ref()
        .is_ok_and(|options| !is_placed && has_local_certificate(options))
    {
        locations::make_data_folder();
    }
    match options {
        Ok(options) => run_server(Source::Directory(Box::new(options))),
        Err(why) => cannot(why),
    }
}

fn has_local_certificate(options: &ServeOptions) -> bool {
    !options.https.is_empty() && options.certificate.is_none() && options.domains.is_empty()
}

/// Options of `saker serve DIR` for commands that only inspect it, taken from the command line's
/// own defaults.
pub fn options_of(directory: &Path, state_dir: Option<&Path>) -> Result<ServeOptions, String> {
    let command = Serve::augment_args(clap::Command::new("serve").no_binary_name(true));
    let matches = command
        .try_get_matches_from(["--".as_ref(), directory.as_os_str()])
        .map_err(|error| error.to_string())?;
    let serve = Serve::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    serve_options(Serve {
        state_dir: state_dir.map(Path::to_owned),
        ..serve
    })
}

pub fn run(run: Run, run_server: RunServer) -> ExitCode {
    let workers = run.workers.and_then(|workers| workers.count());
    let state_dir = run.state_dir.as_deref().map(locations::absolute);
    let source = match run.input.apache {
        Some(file) => {
            let input = ApacheInput {
                file,
                defines: run.input.define,
                ..ApacheInput::default()
            };
            run.php
                .as_deref()
                .map(php::program)
                .transpose()
                .map(|php| Source::Apache {
                    input,
                    workers,
                    state_dir,
                    php,
                })
        }
        None if run.input.nginx.is_some() && run.php.is_none() => {
            let input = NginxInput {
                file: run.input.nginx.unwrap_or_default(),
                ..NginxInput::default()
            };
            nginx::prepare(&load_nginx(&input).process);
            Ok(Source::Nginx {
                input,
                workers,
                state_dir,
            })
        }
        None if run.php.is_some() => {
            Err("--php goes with --apache; saker.toml has `program` in [php]".into())
        }
        None => locations::configuration(run.file.or(run.input.config).as_deref()).map(|path| {
            Source::File {
                path,
                workers,
                state_dir,
            }
        }),
    };
    source.map_or_else(cannot, run_server)
}

fn htaccess(switch: Switch) -> Htaccess {
    match switch {
        Switch::Auto => Htaccess::Auto,
        Switch::On => Htaccess::On,
        Switch::Off => Htaccess::Off,
    }
}

fn serve_options(serve: Serve) -> Result<ServeOptions, String> {
    let mut directories = Vec::from_iter(serve.directory);
    let (http, https) = (
        addresses(serve.http, &mut directories),
        addresses(serve.https, &mut directories),
    );
    let domains = domains(serve.domain, &mut directories)?;
    let (mut http, mut https) = with_defaults(http, https, !domains.is_empty())?;
    with_ports_of_their_own(http.iter_mut().chain(&mut https))?;
    let directory = only_directory(directories)?;
    if https.is_empty() && (serve.cert.is_some() || !domains.is_empty()) {
        return Err("--cert and --domain need an HTTPS address: add --https ADDR".into());
    }
    let certificate = serve
        .cert
        .map(|cert| certificate(&cert, serve.key.as_deref()))
        .transpose()?;
    // A state directory that was chosen for this start may be gone with the next; certificates must
    // not be.
    let folder = if serve.state_dir.is_none() && !domains.is_empty() {
        Some(locations::certificates_folder()?)
    } else {
        None
    };
    let serve_is_placed = serve.state_dir.is_some();
    let state_dir = match (serve.state_dir, http.iter().chain(&https).next()) {
        (Some(named), _) => locations::absolute(&named),
        (None, first) => locations::serve_state_dir(first.unwrap_or(&Address::Tcp(HTTP_DEFAULT))),
    };
    let root = document_root(&directory)?;
    let workers = serve.workers.count().map_or(Workers::Auto, Workers::Count);
    let (access_log, state_dir) = (target(serve.access_log), Some(state_dir));
    let acme = acme(serve.authority, serve.email, folder);
    let (cache, cache_folder) = cache(
        serve.cache,
        serve_is_placed,
        http.iter().chain(&https).next(),
    );
    let (php, php_program) = php::choose(&serve.php)?;
    let php_user = if matches!(php, PhpUse::Managed) {
        saker_php::of_folder(&root)
    } else {
        None
    };
    Ok(ServeOptions {
        root,
        http,
        https,
        certificate,
        domains,
        acme,
        workers,
        access_log,
        state_dir,
        php,
        php_program,
        php_user,
        cache,
        cache_folder,
        htaccess: htaccess(serve.htaccess),
        ..ServeOptions::default()
    })
}

/// Settings and directory of the page cache. Without a state directory chosen by the user, it is
/// the user's cache directory, because XDG_RUNTIME_DIR is in memory.
fn cache(switch: Switch, is_placed: bool, first: Option<&Address>) -> (CacheUse, Option<PathBuf>) {
    let usual = CacheUse {
        is_on: true,
        offer: CacheOffer::ALL,
        ..CacheUse::default()
    };
    let cache = match switch {
        Switch::Off => CacheUse::default(),
        Switch::On => usual,
        Switch::Auto => CacheUse {
            shared_words_only: true,
            ..usual
        },
    };
    let folder = if is_placed {
        None
    } else {
        locations::cache_folder(first.unwrap_or(&Address::Tcp(HTTP_DEFAULT)))
    };
    (cache, folder)
}

/// Names that can get a certificate without a DNS helper; a directory after them is added to the
/// others. Every such name contains a dot.
fn domains(values: Vec<String>, directories: &mut Vec<PathBuf>) -> Result<Vec<String>, String> {
    let is_folder = |value: &String| {
        value.contains('/')
            || value.starts_with('.')
            || (!value.contains('.') && Path::new(value).is_dir())
    };
    let (folders, names): (Vec<String>, Vec<String>) = values.into_iter().partition(is_folder);
    directories.extend(folders.into_iter().map(PathBuf::from));
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_name =
        |name: &str| name.contains('.') && name.trim_end_matches('.').split('.').all(is_label);
    match names.iter().find(|name| !is_name(name)) {
        Some(name) if name.starts_with("*.") => Err(format!(
            "--domain {name}: a wildcard needs `dns_command` of [acme]: write a saker.toml"
        )),
        Some(name) => Err(format!(
            "--domain {name}: not a name that an authority could look up, such as example.org"
        )),
        None => Ok(names),
    }
}

fn acme(authority: Option<String>, email: Option<String>, folder: Option<PathBuf>) -> Acme {
    let directories = authority.map(|url| {
        vec![AcmeDirectory {
            url,
            external_account: None,
            profile: None,
        }]
    });
    let usual = Acme::default();
    Acme {
        directories: directories.unwrap_or(usual.directories),
        email,
        folder,
        ..Acme::default()
    }
}

/// The addresses among the values; a folder among them goes to the others.
fn addresses(values: Vec<ListenArgument>, directories: &mut Vec<PathBuf>) -> Vec<Address> {
    let mut addresses = Vec::new();
    for value in values {
        match value {
            ListenArgument::Addresses(more) => addresses.extend(more),
            ListenArgument::Directory(directory) => directories.push(directory),
        }
    }
    addresses
}

/// Neither named: both, on loopback, or for a domain the real ports. One named: only that one.
fn with_defaults(
    http: Vec<Address>,
    https: Vec<Address>,
    for_domain: bool,
) -> Result<(Vec<Address>, Vec<Address>), String> {
    match (http.is_empty() && https.is_empty(), for_domain) {
        (false, _) => Ok((http, https)),
        (true, false) => Ok((
            vec![Address::Tcp(HTTP_DEFAULT)],
            vec![Address::Tcp(HTTPS_DEFAULT)],
        )),
        (true, true) => Ok((address::parse("80")?, address::parse("443")?)),
    }
}

/// Chooses a free port for each address with port 0 that stands there a second time: listeners are
/// told apart by their addresses. The first is bound as it is.
fn with_ports_of_their_own<'a>(all: impl Iterator<Item = &'a mut Address>) -> Result<(), String> {
    let mut seen: Vec<SocketAddr> = Vec::new();
    // Kept until the end, so that each port is chosen once.
    let mut chosen = Vec::new();
    for address in all {
        let Address::Tcp(address) = address else {
            continue;
        };
        if address.port() == 0 && seen.contains(address) {
            let failed = |error| format!("cannot listen on {address}: {error}");
            let socket = TcpListener::bind(*address).map_err(failed)?;
            *address = socket.local_addr().map_err(failed)?;
            chosen.push(socket);
        } else {
            seen.push(*address);
        }
    }
    Ok(())
}

fn only_directory(mut directories: Vec<PathBuf>) -> Result<PathBuf, String> {
    match (directories.pop(), directories.pop()) {
        (Some(one), Some(other)) => Err(format!(
            "more than one directory: {} and {}",
            other.display(),
            one.display()
        )),
        (one, _) => Ok(one.unwrap_or_else(|| ".".into())),
    }
}

/// Absolute, like the document root.
fn certificate(certificate: &Path, key: Option<&Path>) -> Result<CertificateFiles, String> {
    let absolute = |path: &Path| {
        std::fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let (certificate, key) = (
        absolute(certificate)?,
        absolute(key.unwrap_or(certificate))?,
    );
    Ok(CertificateFiles::new(
        certificate,
        key,
        Origin::command_line(),
    ))
}

/// Absolute, so that it stays the same whatever becomes of the working directory.
fn document_root(directory: &Path) -> Result<PathBuf, String> {
    match std::fs::canonicalize(directory) {
        Ok(root) if root.is_dir() => Ok(root),
        Ok(file) => Err(format!(
            "{}: not a directory; its folder is served by: saker serve {}",
            directory.display(),
            folder_of(&file)
        )),
        Err(error) => Err(format!("cannot serve {}: {error}", directory.display())),
    }
}

fn folder_of(file: &Path) -> std::path::Display<'_> {
    file.parent().unwrap_or(Path::new("/")).display()
}

fn target(argument: AccessLogArgument) -> Option<AccessLogTarget> {
    match argument {
        AccessLogArgument::Off => None,
        AccessLogArgument::Stdout => Some(AccessLogTarget::Stdout),
        AccessLogArgument::File(path) => Some(AccessLogTarget::File(locations::absolute(&path))),
        AccessLogArgument::Program(command) => Some(AccessLogTarget::Program(command)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Cli, Command};
    use clap::Parser;
    use saker_testkit::TempDir;
    fn options(arguments: &[&str]) -> Result<ServeOptions, String> {
        let cli = Cli::try_parse_from(["saker", "serve"].iter().chain(arguments))
            .map_err(|error| error.to_string())?;
        match cli.command {
            Command::Serve(serve) => serve_options(*serve),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn defaults_are_local_and_quiet() {
        let scratch = TempDir::private("unit").unwrap();
        let path = scratch.to_str().unwrap();
        let options = options(&[path, "--state-dir", path]).unwrap();
        assert_eq!(
            (&options.http[..], &options.https[..]),
            (
                &[Address::Tcp(HTTP_DEFAULT)][..],
                &[Address::Tcp(HTTPS_DEFAULT)][..]
            )
        );
        assert_eq!(
            (options.workers, options.access_log, options.state_dir),
            (Workers::Auto, None, Some(scratch.to_path_buf()))
        );
    }

    #[test]
    fn everything_said() {
        let scratch = TempDir::private("unit").unwrap();
        let path = scratch.to_str().unwrap();
        let said = [
            path,
            "--http",
            "127.0.0.1:81",
            "unix:/x",
            "--http",
            "[::1]:82",
            "--workers",
            "3",
            "--access-log",
            "-",
        ];
        let rest = [
            "--php",
            "off",
            "--htaccess",
            "off",
            "--cache",
            "auto",
            "--state-dir",
            path,
        ];
        let options = options(&[&said[..], &rest[..]].concat()).unwrap();
        let addresses: Vec<String> = options.http.iter().map(Address::to_string).collect();
        assert_eq!(addresses, ["127.0.0.1:81", "unix:/x", "[::1]:82"]);
        assert_eq!(
            (options.workers, options.access_log),
            (Workers::Count(3), Some(AccessLogTarget::Stdout))
        );
    }

    #[test]
    fn the_folder_may_stand_behind_the_addresses() {
        let scratch = TempDir::private("unit").unwrap();
        let path = scratch.to_str().unwrap();
        let behind =
            options(&["--state-dir", path, "--http", "8080", "localhost:81", path]).unwrap();
        assert_eq!(
            (behind.http.last(), &behind.root),
            (
                Some(&Address::Tcp("127.0.0.1:81".parse().unwrap())),
                &std::fs::canonicalize(path).unwrap()
            )
        );
        assert!(
            options(&["--state-dir", path, ".", "--http", "8080", path])
                .unwrap_err()
                .starts_with("more than one directory: . and ")
        );
        assert!(
            options(&["--http", "8080", "example.org"])
                .unwrap_err()
                .contains("not an address")
        );
    }

    #[test]
    fn one_kind_of_address_named_is_the_only_one() {
        let scratch = TempDir::private("unit").unwrap();
        let path = scratch.to_str().unwrap();
        let only = |arguments: &[&str]| {
            let options = options(&[&[path, "--state-dir", path], arguments].concat()).unwrap();
            (options.http.len(), options.https.len())
        };
        assert_eq!(only(&["--https", "127.0.0.1:8443"]), (0, 1));
        assert_eq!(only(&["--http", "127.0.0.1:8080"]), (1, 0));
        assert_eq!(
            only(&["--https", "127.0.0.1:8443", "--http", "127.0.0.1:8080"]),
            (1, 1)
        );
    }

    #[test]
    fn any_free_port_is_another_one_for_each() {
        let scratch = TempDir::private("unit").unwrap();
        let path = scratch.to_str().unwrap();
        let any = "127.0.0.1:0";
        let of = |words: &[&str]| options(&[&[path, "--state-dir", path], words].concat()).unwrap();
        let both = of(&["--http", any, "--https", any, "--https", any]);
        let port = |address: &Address| match address {
            Address::Tcp(address) => address.port(),
            Address::Unix(_) => panic!("{address}"),
        };
        assert_eq!(port(&both.http[0]), 0);
        let [one, other] = [0, 1].map(|number| port(&both.https[number]));
        assert!(one != 0 && other != 0 && one != other, "{both:?}");
        let apart = of(&["--http", any, "--https", "127.0.0.2:0"]);
        assert_eq!([port(&apart.http[0]), port(&apart.https[0])], [0, 0]);
    }

    #[test]
    fn certificates_of_ones_own() {
        let scratch = TempDir::private("unit").unwrap();
        let path = scratch.to_str().unwrap();
        let file = scratch.join("cert.pem");
        std::fs::write(&file, "").unwrap();
        let file = std::fs::canonicalize(file).unwrap();
        let certificate =
            |arguments: &[&str]| options(&[&["--state-dir", path, path], arguments].concat());
        let both = certificate(&["--https", "127.0.0.1:1", "--cert", file.to_str().unwrap()])
            .unwrap()
            .certificate
            .unwrap();
        assert_eq!((&both.certificate, &both.key), (&file, &file));
        assert!(
            certificate(&["--https", "127.0.0.1:1", "--cert", "/missing.pem"])
                .unwrap_err()
                .contains("/missing.pem")
        );
        assert!(
            certificate(&["--http", "127.0.0.1:1", "--cert", file.to_str().unwrap()])
                .unwrap_err()
                .contains("--https")
        );
        assert!(
            certificate(&["--key", file.to_str().unwrap()])
                .unwrap_err()
                .contains("--cert")
        );
    }

    #[test]
    fn domains_and_their_authority() {
        let scratch = TempDir::private("unit").unwrap();
        let path = scratch.to_str().unwrap();
        let said =
            |arguments: &[&str]| options(&[&["--state-dir", path, path], arguments].concat());
        let plain = said(&["--domain", "example.org", "www.example.org"]).unwrap();
        let addresses: Vec<String> = plain
            .http
            .iter()
            .chain(&plain.https)
            .map(Address::to_string)
            .collect();
        assert_eq!(
            addresses,
            ["0.0.0.0:80", "[::]:80", "0.0.0.0:443", "[::]:443"]
        );
        assert_eq!((plain.domains.len(), plain.acme), (2, Acme::default()));
        assert_eq!(
            options(&["--state-dir", path, "--domain", "a.example", path])
                .unwrap()
                .root,
            plain.root
        );
        let other = said(&[
            "--domain",
            "a.example",
            "--authority",
            "letsencrypt-staging",
            "--email",
            "a@b.example",
        ])
        .unwrap()
        .acme;
        assert_eq!(
            (other.directories[0].url.as_str(), other.email.as_deref()),
            (Acme::LETS_ENCRYPT_STAGING, Some("a@b.example"))
        );
        for (arguments, reason) in [
            (
                &["--domain", "localhost"][..],
                "not a name that an authority could look up",
            ),
            (&["--domain", "*.example.org"], "dns_command"),
            (
                &["--domain", "example.org", "--http", "8080"],
                "add --https",
            ),
            (
                &["--domain", "example.org", "--authority", "http://x/"],
                "https://...",
            ),
            (
                &["--domain", "example.org", "--authority", "zerossl"],
                "account",
            ),
            (&["--authority", "letsencrypt"], "--domain"),
        ] {
            let refused = said(arguments).unwrap_err();
            assert!(refused.contains(reason), "{arguments:?}: {refused}");
        }
    }

    #[test]
    fn rules_of_htaccess_files() {
        let scratch = TempDir::private("unit").unwrap();
        let path = scratch.to_str().unwrap();
        let htaccess = |said: &[&str]| {
            let common = [path, "--state-dir", path];
            options(&[&common[..], said].concat()).unwrap().htaccess
        };
        assert_eq!(htaccess(&[]), Htaccess::Auto);
        assert_eq!(htaccess(&["--htaccess", "auto"]), Htaccess::Auto);
        assert_eq!(htaccess(&["--htaccess", "on"]), Htaccess::On);
        assert_eq!(htaccess(&["--htaccess", "off"]), Htaccess::Off);
    }

    #[test]
    fn what_the_page_cache_does() {
        let scratch = TempDir::private("unit").unwrap();
        let path = scratch.to_str().unwrap();
        let cache = |value: &str| options(&["--state-dir", path, path, "--cache", value]).unwrap();
        let (on, auto, off) = (cache("on"), cache("auto"), cache("off"));
        assert!(on.cache.is_on && !on.cache.shared_words_only && on.cache.offer == CacheOffer::ALL);
        assert!(auto.cache.is_on && auto.cache.shared_words_only && auto.cache.obeys_lscache);
        assert!(off.cache == CacheUse::default() && !off.cache.is_on);
        assert_eq!(
            on.cache_folder, None,
            "below the state directory that was named"
        );
    }

    #[test]
    fn who_runs_php() {
        let scratch = TempDir::private("unit").unwrap();
        let path = scratch.to_str().unwrap();
        let php = |value: &str| {
            options(&["--state-dir", path, path, "--php", value]).map(|options| options.php)
        };
        assert!(
            matches!(php("auto"), Ok(PhpUse::Managed)) && matches!(php("off"), Ok(PhpUse::Off))
        );
        assert!(matches!(php("unix:/run/php.sock"), Ok(PhpUse::Upstream(_))));
        assert!(php("on").unwrap_err().starts_with("--php on: "));
        let below = options(&["--state-dir", "some/where", path])
            .unwrap()
            .state_dir
            .unwrap();
        assert_eq!(
            below,
            std::env::current_dir().unwrap().join("some/where"),
            "whatever becomes of the working directory"
        );
    }

    #[test]
    fn who_only_looks_sees_what_runs() {
        let scratch = TempDir::private("unit").unwrap();
        let path = scratch.to_str().unwrap();
        for (looked_at, runs) in [
            (
                options_of(&scratch, Some(&scratch)),
                options(&[path, "--state-dir", path]),
            ),
            (options_of(&scratch, None), options(&[path])),
        ] {
            assert_eq!(
                format!("{:?}", looked_at.unwrap()),
                format!("{:?}", runs.unwrap())
            );
        }
        assert!(
            options_of(Path::new("--http"), None)
                .unwrap_err()
                .starts_with("cannot serve --http: "),
            "a folder, whatever its name"
        );
    }

    #[test]
    fn roots() {
        let scratch = TempDir::private("unit").unwrap();
        std::fs::write(scratch.join("file"), "").unwrap();
        assert!(
            document_root(&scratch.join("file"))
                .unwrap_err()
                .contains("not a directory; its folder")
        );
        assert!(document_root(&scratch.join("missing")).is_err());
        assert!(document_root(Path::new(".")).unwrap().is_absolute());
    }
}
