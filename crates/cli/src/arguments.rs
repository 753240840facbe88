//! The command line, declared. Names are a contract: scripts, units and benches use them.
//!
//! What this version can't do yet is declared all the same, so that `promises` can refuse it by
//! name.

use crate::address;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use saker_config::model::{Acme, Address};
use saker_ipset::Block;
use std::path::{Path, PathBuf};

const WORKERS_MAX: usize = 1024;

#[derive(Debug, Parser)]
#[command(
    name = "saker",
    version,
    about = "Saker, a web server: serves files from a folder or by a configuration",
    after_help = "\
Examples:
  saker serve                        this folder on http://127.0.0.1:8080/
  saker check -c saker.toml          is it right? (nginx -t, apachectl -t)
  saker run -c saker.toml            the server itself, in the foreground
  saker reload                       (nginx -s reload, apachectl graceful)
  saker explain http://example.org/  why does this URL get what it gets?

Exit status: 0 done, 1 the configuration has errors, 2 wrong usage or can't be
done, 3 no server is running."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(Box<Serve>),
    Run(Run),
    Check(Check),
    Explain(Explain),
    Status(Status),
    Reload(Reload),
    Stop(Stop),
    ReopenLogs(ReopenLogs),
    Purge(Purge),
    Cache(Cache),
    Ban(Ban),
    Unban(Unban),
    Bans(Bans),
    SignUrl(Box<SignUrl>),
    Hosts(Hosts),
    /// Print the JSON Schema of saker.toml (for editors)
    Schema,
    /// Print the reference of all directives of saker.toml, in Markdown
    Reference,
    Completions(Completions),
    Man(Man),
    /// Print the version
    Version,
}

/// Serve a folder, without any configuration
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker serve                              this folder on http://127.0.0.1:8080/ and https://127.0.0.1:8443/
  saker serve /srv/site --http 80          a folder, on every address of this machine, without TLS
  saker serve /srv/site --domain example.org www.example.org
                                           https://example.org/, with a certificate by Let's Encrypt
  saker serve --http unix:/run/site.sock   behind another server
  saker serve --access-log - --workers 1   with each request shown

Without --cert and --domain, https uses a certificate by a local authority of this machine's own,
made when first needed; what is printed says how to trust it.")]
pub struct Serve {
    /// Document root [default: .]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
    /// Listen here for http: 8080, :8080, 127.0.0.1:8080, [::1]:8080, localhost:8080 or unix:/path;
    /// port 0 takes a free one [default: 127.0.0.1:8080, where --https is not given either]
    #[arg(long, value_name = "ADDR", num_args = 1.., value_parser = listening)]
    pub http: Vec<ListenArgument>,
    /// Listen here for https (HTTP/1.1 and HTTP/2); addresses as for --http
    /// [default: 127.0.0.1:8443, where --http is not given either]
    #[arg(long, value_name = "ADDR", num_args = 1.., value_parser = listening)]
    pub https: Vec<ListenArgument>,
    /// Certificate chain in PEM, leaf first
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub cert: Option<PathBuf>,
    /// Key of the certificate in PEM [default: it is in the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert", value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,
    /// Get and renew a certificate for these names from Let's Encrypt, whose terms you agree to by
    /// this; listens on ports 80 and 443 where no address is named
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with = "cert")]
    pub domain: Vec<String>,
    /// Another authority for --domain: letsencrypt-staging (for trials), or the URL of a directory
    /// (https://...)
    #[arg(long, value_name = "NAME|URL", requires = "domain", value_parser = authority)]
    pub authority: Option<String>,
    /// Where the authority may write to
    #[arg(long, value_name = "ADDRESS", requires = "domain")]
    pub email: Option<String>,
    /// Worker threads; auto is one per core
    #[arg(long, value_name = "N", default_value = "auto", value_parser = workers)]
    pub workers: WorkersArgument,
    /// Access log: a file, - for standard output, '|program', or off
    #[arg(long, value_name = "FILE|-|off", default_value = "off", value_parser = access_log, value_hint = ValueHint::FilePath)]
    pub access_log: AccessLogArgument,
    /// PHP: auto (whichever is installed), php-fpm, php-cgi, lsphp, a version (8.2), a program's
    /// path, off, or a php-fpm that runs already: unix:PATH or HOST:PORT
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub php: String,
    /// Obey .htaccess files (not yet: auto is off; `saker run --apache` obeys them)
    #[arg(
        long,
        value_name = "on|off",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub htaccess: Switch,
    /// Page cache: auto keeps what responses say is for all, or LSCache's fields; on goes by all of
    /// HTTP's rules
    #[arg(
        long,
        value_name = "auto|on|off",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub cache: Switch,
    /// Control socket and pid file go here [default: $XDG_RUNTIME_DIR/saker/ADDR or
    /// /tmp/saker-UID/ADDR]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state_dir: Option<PathBuf>,
}

/// Run the server by a configuration, in the foreground
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker run                                   by ./saker.toml, or else /etc/saker/saker.toml
  saker run -c /srv/saker.toml --workers 4

Signals: TERM finishes running requests (for a bounded time) and stops, HUP reads
the configuration again, USR1 reopens the logs.")]
pub struct Run {
    #[command(flatten)]
    pub input: Input,
    /// Worker threads, over what the configuration says
    #[arg(long, value_name = "N", value_parser = workers)]
    pub workers: Option<WorkersArgument>,
    /// With --apache, which PHP runs what is for mod_php: auto, php-fpm, php-cgi, lsphp, a version
    /// (8.2) or a program's path
    #[arg(long, value_name = "PROGRAM")]
    pub php: Option<String>,
    /// Control socket and pid file go here, over server.state_dir of the configuration
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state_dir: Option<PathBuf>,
}

/// Check a configuration; all errors at once
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 right (there may be warnings), 1 the configuration has errors, 2 it can't be done.")]
pub struct Check {
    #[command(flatten)]
    pub input: Input,
    /// Diagnostics as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// Show what decides the answer to a URL, step by step, with file and line
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker explain http://example.org/shop/
  saker explain /style.css --serve .
  saker explain -H 'Accept-Encoding: br' --method HEAD http://example.org/app.js

No server need run: the request is walked through here, and nothing is sent anywhere.")]
pub struct Explain {
    /// http://HOST/PATH, or only /PATH for the site that answers hosts nobody claims
    #[arg(value_hint = ValueHint::Url)]
    pub url: String,
    #[command(flatten)]
    pub input: Input,
    /// As if by saker serve DIR
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "apache"], value_hint = ValueHint::DirPath)]
    pub serve: Option<PathBuf>,
    /// Where the server runs that may keep it [default: as the configuration says]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state_dir: Option<PathBuf>,
    /// A field of the request
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = field)]
    pub headers: Vec<(String, String)>,
    #[arg(long, default_value = "GET")]
    pub method: String,
}

/// Show what the running server does
#[derive(Debug, Args)]
#[command(after_help = "\
A scraper can ask the server itself: curl --unix-socket STATE_DIR/control.sock http://saker/metrics")]
pub struct Status {
    #[command(flatten)]
    pub target: Target,
    /// As JSON
    #[arg(long, conflicts_with = "prometheus")]
    pub json: bool,
    /// As Prometheus text
    #[arg(long)]
    pub prometheus: bool,
}

/// Take the changed configuration; a wrong one leaves the old one in force
#[derive(Debug, Args)]
pub struct Reload {
    #[command(flatten)]
    pub target: Target,
}

/// Stop the running server, and wait until it is gone
#[derive(Debug, Args)]
pub struct Stop {
    #[command(flatten)]
    pub target: Target,
    /// Cut running requests instead of finishing them
    #[arg(long)]
    pub now: bool,
}

/// Reopen log files, after a rotation has moved them away
#[derive(Debug, Args)]
pub struct ReopenLogs {
    #[command(flatten)]
    pub target: Target,
}

/// Throw pages out of the page cache
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker purge https://example.org/news/     every variant of one page
  saker purge --tag product_17              what applications have tagged so
  saker purge --ban 'req.url ~ ^/shop/'     by an expression, as Varnish has them
  saker purge --site example.org --soft     all of a site: stale from now on, made anew when asked for
  saker purge --all")]
pub struct Purge {
    /// https://HOST/PATH?QUERY, or /PATH of --site (without it: of every name of every site)
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub urls: Vec<String>,
    /// What is tagged so
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// What an expression over req.url, req.http.host, obj.status and obj.http.NAME is true of
    #[arg(long = "ban", value_name = "EXPRESSION")]
    pub bans: Vec<String>,
    /// Of this site only, by one of its names; alone: everything of it
    #[arg(long, value_name = "HOST")]
    pub site: Option<String>,
    /// Everything
    #[arg(long)]
    pub all: bool,
    /// Make it stale instead: it is served while a new one is made
    #[arg(long)]
    pub soft: bool,
    #[command(flatten)]
    pub target: Target,
}

/// Keep clients out, from now on and over a restart
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker ban 192.0.2.7 --for 1h --reason 'scans for wp-login'
  saker ban 192.0.2.0/24 2001:db8::/32      for good

Open connections of theirs end, too. Lists of thousands are better in a file: see
deny_files in [guard].")]
pub struct Ban {
    /// Addresses or blocks
    #[arg(value_name = "ADDRESS|BLOCK", required = true, value_parser = block)]
    pub blocks: Vec<Block>,
    /// For so long: 90s, 30m, 1h, 7d, a number of seconds, or -1 for good [default: for good]
    #[arg(long = "for", value_name = "TIME", value_parser = ban_time, allow_negative_numbers = true)]
    pub time: Option<BanTime>,
    /// Shown by saker bans
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub target: Target,
}

/// Let banned clients in again
#[derive(Debug, Args)]
pub struct Unban {
    /// Addresses and blocks as they were banned; what holds an address besides is said
    #[arg(value_name = "ADDRESS|BLOCK", value_parser = block)]
    pub blocks: Vec<Block>,
    /// Everybody
    #[arg(long, conflicts_with = "blocks")]
    pub all: bool,
    #[command(flatten)]
    pub target: Target,
}

/// Show who is banned, why and for how long
#[derive(Debug, Args)]
pub struct Bans {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub target: Target,
}

/// Make a signed URL
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker sign-url -c saker.toml --for 1h https://example.org/dl/film.mp4
  saker sign-url --form nginx --secret-file links.secret --for 1h --address 192.0.2.7 /s/film.mp4
  saker sign-url --form lighttpd --secret-file links.secret --prefix /dl/ /dl/film.mp4

The rule is that of [site.signed] or [site.route.signed] which is in force for the URL; with --form
it is made of the options that have the names of its keys.")]
pub struct SignUrl {
    /// https://HOST/PATH?QUERY or /PATH, as it would be without a signature
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub url: String,
    /// Configuration with the rule [default: ./saker.toml, or else /etc/saker/saker.toml]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Good for so long: 90s, 15m, 2h, 7d
    #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
    pub good_for_s: Option<i64>,
    /// Good until this time in seconds since 1970 (lighttpd, mod_auth_token: from this time)
    #[arg(long, value_name = "SECONDS", conflicts_with = "good_for_s")]
    pub time: Option<i64>,
    /// For the client with this address only
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<std::net::IpAddr>,
    #[command(flatten)]
    pub options: SignOptions,
}

/// A rule in place of a configuration's.
#[derive(Debug, Args)]
pub struct SignOptions {
    /// saker, nginx, nginx-path, lighttpd or mod_auth_token
    #[arg(long, value_name = "FORM", conflicts_with = "config")]
    pub form: Option<String>,
    /// The secret (other users of the machine may see it; better a file)
    #[arg(long, value_name = "TEXT", requires = "form")]
    pub secret: Option<String>,
    /// File with the secret in its first line
    #[arg(long, value_name = "FILE", requires = "form", value_hint = ValueHint::FilePath)]
    pub secret_file: Option<PathBuf>,
    /// What stands before the token
    #[arg(long, value_name = "PATH", requires = "form")]
    pub prefix: Option<String>,
    /// What is hashed (nginx)
    #[arg(long, value_name = "TEXT", requires = "form")]
    pub expression: Option<String>,
    /// Argument with the signature (nginx: md5, saker: sig)
    #[arg(long, value_name = "NAME", requires = "form")]
    pub argument: Option<String>,
    /// Argument with the time of the end
    #[arg(long, value_name = "NAME", requires = "form")]
    pub expires_argument: Option<String>,
    /// md5, hmac-sha1 or hmac-sha256 (lighttpd)
    #[arg(long, value_name = "NAME", requires = "form")]
    pub algorithm: Option<String>,
    /// Segments of the path that are signed (lighttpd)
    #[arg(long, value_name = "N", requires = "form")]
    pub path_segments: Option<u32>,
    /// The arguments are signed, too (lighttpd)
    #[arg(long, requires = "form")]
    pub sign_query: bool,
    /// The client's address is signed, too (saker, mod_auth_token)
    #[arg(long, requires = "form")]
    pub sign_address: bool,
    /// The host is signed, too (saker)
    #[arg(long, requires = "form")]
    pub sign_host: bool,
}

/// Look into the page cache
#[derive(Debug, Args)]
pub struct Cache {
    #[command(subcommand)]
    pub command: CacheCommand,
}

#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// How full it is, in all and by site
    Stat {
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// The pages in it
    List {
        /// Of this site only
        #[arg(long, value_name = "HOST")]
        site: Option<String>,
        /// So many at most
        #[arg(long, value_name = "N", default_value_t = 1000)]
        max: usize,
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Everything known of a page's entries (exit status 2: there is none)
    Show {
        /// https://HOST/PATH?QUERY, or /PATH
        #[arg(value_hint = ValueHint::Url)]
        url: String,
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    Purge(Purge),
    Warm(Warm),
}

/// Look into what is known of a database's hosts
#[derive(Debug, Args)]
pub struct Hosts {
    #[command(subcommand)]
    pub command: HostsCommand,
}

#[derive(Debug, Subcommand)]
pub enum HostsCommand {
    /// How many are known, and how the database answers
    Stat {
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Forget what is known of hosts: the database is asked at their next request
    Purge {
        /// Names of hosts
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// All of them
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        target: Target,
    },
}

/// Make pages before visitors ask for them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker cache warm --sitemap https://example.org/sitemap.xml
  saker cache warm --sitemap https://example.org/robots.txt --concurrency 8
  saker cache warm --list urls.txt --vary currency=,EUR,USD
  saker cache warm -H 'User-Agent: iPhone Mobile' https://example.org/

The requests are made inside of the running server, by the rules of the site, and give way
to visitors. Exit status: 0, or 2 if some pages failed.")]
pub struct Warm {
    /// https://HOST/PATH?QUERY
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub urls: Vec<String>,
    /// What this sitemap names: a sitemap, an index of them, packed or not, or the robots.txt that
    /// names them
    #[arg(long = "sitemap", value_name = "URL", value_hint = ValueHint::Url)]
    pub sitemaps: Vec<String>,
    /// What this file names, a URL a line; - for standard input
    #[arg(long = "list", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub lists: Vec<PathBuf>,
    /// Each page with each of these values of a cookie, an empty one being none; several: in all
    /// combinations
    #[arg(long, value_name = "COOKIE=VALUE,...", value_parser = cookie_values)]
    pub vary: Vec<(String, Vec<String>)>,
    /// A field of each request
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = field)]
    pub headers: Vec<(String, String)>,
    /// Requests at a time
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub concurrency: usize,
    /// Requests a second at most [default: as fast as they are answered]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub rate: u32,
    /// Show nothing but what it came to
    #[arg(short, long)]
    pub quiet: bool,
    /// That as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub target: Target,
}

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker completions bash > /etc/bash_completion.d/saker
  saker completions zsh > /usr/local/share/zsh/site-functions/_saker
  saker completions fish > ~/.config/fish/completions/saker.fish")]
pub struct Completions {
    pub shell: Shell,
}

/// Print the manual page, or write those of all commands into a directory
#[derive(Debug, Args)]
pub struct Man {
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

/// What a server would run by.
#[derive(Debug, Args)]
pub struct Input {
    /// Configuration [default: ./saker.toml, or else /etc/saker/saker.toml]
    #[arg(short, long, value_name = "FILE", conflicts_with = "apache", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Apache's configuration, as it is
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub apache: Option<PathBuf>,
    /// Define NAME for <IfDefine>
    #[arg(short = 'D', value_name = "NAME", requires = "apache")]
    pub define: Vec<String>,
}

/// Which running server.
#[derive(Debug, Args)]
pub struct Target {
    /// The server's state directory [default: where a server runs, if it is one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state_dir: Option<PathBuf>,
    /// The server's configuration, which names the state directory; --state-dir overrides it
    #[arg(short, long, value_name = "FILE", conflicts_with = "apache", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// The Apache configuration that the server runs by; --state-dir overrides it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub apache: Option<PathBuf>,
    /// Define NAME for <IfDefine>
    #[arg(short = 'D', value_name = "NAME", requires = "apache")]
    pub define: Vec<String>,
}

/// `--http` and `--https` take several values, and so take the folder in `saker serve --http 8080
/// DIR` for one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenArgument {
    /// A bare port is two.
    Addresses(Vec<Address>),
    Directory(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkersArgument {
    Auto,
    Count(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLogArgument {
    Off,
    Stdout,
    File(PathBuf),
    Program(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    Auto,
    On,
    Off,
}

impl WorkersArgument {
    pub fn count(self) -> Option<usize> {
        match self {
            WorkersArgument::Auto => None,
            WorkersArgument::Count(count) => Some(count),
        }
    }
}

fn listening(text: &str) -> Result<ListenArgument, String> {
    let names_directory = |path: &Path| {
        path.is_absolute() || path.starts_with(".") || path.starts_with("..") || path.is_dir()
    };
    match address::parse(text) {
        Ok(addresses) => Ok(ListenArgument::Addresses(addresses)),
        Err(_) if names_directory(Path::new(text)) => {
            Ok(ListenArgument::Directory(PathBuf::from(text)))
        }
        Err(why) => Err(why),
    }
}

fn workers(text: &str) -> Result<WorkersArgument, String> {
    match text.parse::<usize>() {
        _ if text == "auto" => Ok(WorkersArgument::Auto),
        Ok(count) if (1..=WORKERS_MAX).contains(&count) => Ok(WorkersArgument::Count(count)),
        _ => Err(format!("auto, or a number from 1 to {WORKERS_MAX}")),
    }
}

fn access_log(text: &str) -> Result<AccessLogArgument, String> {
    match text {
        "off" => Ok(AccessLogArgument::Off),
        "-" => Ok(AccessLogArgument::Stdout),
        "" => Err("a file, - or off".into()),
        "|" => Err("the command is missing behind the |".into()),
        path => match path.strip_prefix('|') {
            Some(command) => Ok(AccessLogArgument::Program(command.trim().into())),
            None => Ok(AccessLogArgument::File(PathBuf::from(path))),
        },
    }
}

/// The URL of its directory.
fn authority(text: &str) -> Result<String, String> {
    match Acme::directory_of(text) {
        // Whose accounts are made elsewhere first.
        Some(Acme::ZERO_SSL) => {
            Err("ZeroSSL wants an account: write a saker.toml, see [acme]".into())
        }
        Some(directory) => Ok(directory.to_owned()),
        None if text
            .strip_prefix("https://")
            .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/')) =>
        {
            Ok(text.to_owned())
        }
        None => {
            Err("letsencrypt, letsencrypt-staging, or the URL of a directory (https://...)".into())
        }
    }
}

fn seconds(text: &str) -> Result<i64, String> {
    let wrong = || "a number with a unit, as in 90s, 15m, 2h or 7d".to_owned();
    let (number, unit) = text.split_at(text.len() - text.chars().last().map_or(0, char::len_utf8));
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    number
        .parse::<u32>()
        .map(|number| i64::from(number) * factor)
        .map_err(|_| wrong())
}

fn cookie_values(text: &str) -> Result<(String, Vec<String>), String> {
    let (name, values) = text
        .split_once('=')
        .ok_or("a cookie has a name and values, as in currency=EUR,USD")?;
    let is_plain = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b';')
    };
    match name.is_empty() || !is_plain(name) || !is_plain(values) {
        true => Err("that is no cookie".into()),
        false => Ok((
            name.to_owned(),
            values.split(',').map(str::to_owned).collect(),
        )),
    }
}

/// How long a ban holds; `None`: for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanTime(pub Option<u64>);

fn block(text: &str) -> Result<Block, String> {
    text.parse()
        .map_err(|()| "an address (192.0.2.7, 2001:db8::1) or a block (192.0.2.0/24)".into())
}

/// As fail2ban says it, too: a number of seconds, where less than 0 is for good.
fn ban_time(text: &str) -> Result<BanTime, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .unwrap_or((text, 1));
    match number.parse::<i64>() {
        Ok(number) if number < 0 && factor == 1 => Ok(BanTime(None)),
        Ok(number @ 1..) => Ok(BanTime(number.unsigned_abs().checked_mul(factor))),
        _ => Err("a time such as 90s, 30m, 1h or 7d".into()),
    }
}

/// Whether name and value are allowed is for the parser of requests to say.
fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("a field has a colon, as in 'Accept-Encoding: br'")?;
    Ok((name.to_owned(), value.trim().to_owned()))
}
