//! The command line, declared.
//!
//! Called by: `lib`, which parses the arguments; the manual pages and shell completions.
//! Caveat: names of commands and options are a contract with scripts, unit files and benchmarks.
//! Out of scope: what a command does.

mod cluster;
mod console;
mod editing;
mod release;

use crate::address;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
pub use cluster::{Cluster, ClusterCommand};
pub use console::{Api, Console, ConsoleCommand, TokenCommand, Top, UserCommand, UsersPlace};
pub use editing::{Config, Convert, Fmt, Init, Trust};
pub use release::{Takeover, TakeoverFrom, UPGRADE_TIMEOUT_S, Upgrade, Version};
use saker_config::model::{Acme, Address};
use saker_ipset::Block;
use std::path::{Path, PathBuf};

const WORKERS_MAX: usize = 1024;

#[derive(Debug, Parser)]
#[command(
    name = "saker",
    version,
    about = "Saker, a web server: serves a directory, or the sites of a configuration file",
    after_help = "\
Examples:
  saker serve                        serve this directory at http://127.0.0.1:8080/
  saker init                         write a saker.toml for the application in this directory
  saker check -c saker.toml          test a configuration (nginx -t, apachectl -t)
  saker run -c saker.toml            run the server in the foreground
  saker reload                       reload the configuration (nginx -s reload, apachectl graceful)
  saker explain http://example.org/  show which rules decide the response to a URL

Exit status: 0 done, 1 the configuration has errors, 2 wrong usage or failure,
3 no server is running, 4 another upgrade is under way."
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
    Init(Init),
    Fmt(Fmt),
    Config(Config),
    Convert(Convert),
    Trust(Trust),
    Status(Status),
    Reload(Reload),
    Upgrade(Upgrade),
    Takeover(Box<Takeover>),
    Stop(Stop),
    ReopenLogs(ReopenLogs),
    Purge(Purge),
    Cache(Cache),
    Ban(Ban),
    Unban(Unban),
    Bans(Bans),
    SignUrl(Box<SignUrl>),
    Hosts(Hosts),
    Cluster(Cluster),
    Console(Console),
    Top(Top),
    Api(Api),
    /// Print the JSON Schema of saker.toml, for editors
    Schema,
    /// Print the reference of all saker.toml directives as Markdown
    Reference,
    Completions(Completions),
    Man(Man),
    Version(Version),
}

/// Serve a directory without a configuration file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker serve                              this directory at http://127.0.0.1:8080/ and https://127.0.0.1:8443/
  saker serve /srv/site --http 80          a directory, on all addresses of this machine, without TLS
  saker serve /srv/site --domain example.org www.example.org
                                           https://example.org/, with a certificate from Let's Encrypt
  saker serve --http unix:/run/site.sock   behind another server
  saker serve --access-log - --workers 1   print each request

Without --cert and --domain, HTTPS uses a certificate issued by a local certificate authority,
created on first use; the output explains how to trust it.")]
pub struct Serve {
    /// Document root [default: .]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
    /// Listen for HTTP on: 8080, :8080, 127.0.0.1:8080, [::1]:8080, localhost:8080 or unix:/path;
    /// port 0 picks a free port [default: 127.0.0.1:8080 unless --https is given]
    #[arg(long, value_name = "ADDR", num_args = 1.., value_parser = listening)]
    pub http: Vec<ListenArgument>,
    /// Listen for HTTPS (HTTP/1.1 and HTTP/2); addresses as for --http
    /// [default: 127.0.0.1:8443 unless --http is given]
    #[arg(long, value_name = "ADDR", num_args = 1.., value_parser = listening)]
    pub https: Vec<ListenArgument>,
    /// Certificate chain in PEM format, leaf first
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub cert: Option<PathBuf>,
    /// Private key of the certificate in PEM format [default: read from the --cert file]
    #[arg(long, value_name = "FILE", requires = "cert", value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,
    /// Obtain and renew a certificate for these names from Let's Encrypt, and agree to its terms of
    /// service; listens on ports 80 and 443 unless an address is given
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with = "cert")]
    pub domain: Vec<String>,
    /// Certificate authority for --domain: letsencrypt, letsencrypt-staging (for testing), or the
    /// URL of an ACME directory (https://...)
    #[arg(long, value_name = "NAME|URL", requires = "domain", value_parser = authority)]
    pub authority: Option<String>,
    /// Contact address for the certificate authority
    #[arg(long, value_name = "ADDRESS", requires = "domain")]
    pub email: Option<String>,
    /// Number of worker threads; auto: one per core
    #[arg(long, value_name = "N", default_value = "auto", value_parser = workers)]
    pub workers: WorkersArgument,
    /// Access log: a file, - (standard output), '|program', or off
    #[arg(long, value_name = "FILE|-|off", default_value = "off", value_parser = access_log, value_hint = ValueHint::FilePath)]
    pub access_log: AccessLogArgument,
    /// PHP: auto (the installed one), php-fpm, php-cgi, lsphp, a version (8.2), the path of a
    /// program, off, or the address of a running php-fpm: unix:PATH or HOST:PORT
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub php: String,
    /// Apply .htaccess files; auto: where one lies in the directory or on the way to a file
    #[arg(
        long,
        value_name = "auto|on|off",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub htaccess: Switch,
    /// Page cache: auto stores responses that are explicitly shared (public, s-maxage, or LSCache
    /// headers); on applies all of HTTP's caching rules
    #[arg(
        long,
        value_name = "auto|on|off",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub cache: Switch,
    /// Directory of the control socket and the pid file [default: $XDG_RUNTIME_DIR/saker/ADDR or
    /// /tmp/saker-UID/ADDR]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state_dir: Option<PathBuf>,
}

/// Run the server with a configuration file, in the foreground
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker run                                   with ./saker.toml, or else /etc/saker/saker.toml
  saker run /srv/saker.toml --workers 4

Signals: TERM stops the server once open requests have finished (within
shutdown_timeout), HUP reloads the configuration, USR1 reopens the log files.")]
pub struct Run {
    /// The same as --config FILE
    #[arg(conflicts_with_all = ["config", "apache"], value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub input: Input,
    /// Number of worker threads; overrides the configuration
    #[arg(long, value_name = "N", value_parser = workers)]
    pub workers: Option<WorkersArgument>,
    /// With --apache, the PHP that runs scripts meant for mod_php: auto, php-fpm, php-cgi, lsphp, a
    /// version (8.2), or the path of a program
    #[arg(long, value_name = "PROGRAM")]
    pub php: Option<String>,
    /// Directory of the control socket and the pid file; overrides server.state_dir
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state_dir: Option<PathBuf>,
}

/// Test a configuration and report all errors at once
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 no errors (there may be warnings), 1 the configuration has errors, 2 failure.")]
pub struct Check {
    /// The same as --config FILE
    #[arg(conflicts_with_all = ["config", "apache"], value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub input: Input,
    /// Varnish's configuration: report what `saker convert` can't say
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "cost", "apache", "config"], value_hint = ValueHint::FilePath)]
    pub vcl: Option<PathBuf>,
    /// Print diagnostics as JSON to standard output
    #[arg(long)]
    pub json: bool,
    /// List the rules that keep responses off the route cache, and those that it asks as conditions
    #[arg(long)]
    pub cost: bool,
}

/// Show step by step, with file and line, what decides the response to a URL
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker explain http://example.org/shop/
  saker explain /style.css --serve .
  saker explain -H 'Accept-Encoding: br' --method HEAD http://example.org/app.js

No server needs to run: the request is dispatched by this command, and nothing is sent.")]
pub struct Explain {
    /// http://HOST/PATH, just /PATH for the default site, or tcp://, tls:// or udp://HOST:PORT of a stream
    #[arg(value_hint = ValueHint::Url)]
    pub url: String,
    #[command(flatten)]
    pub input: Input,
    /// Explain what `saker serve DIR` would do
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "apache", "nginx"], value_hint = ValueHint::DirPath)]
    pub serve: Option<PathBuf>,
    /// State directory of the running server whose page cache is consulted
    /// [default: from the configuration]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state_dir: Option<PathBuf>,
    /// Add a request header
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = field)]
    pub headers: Vec<(String, String)>,
    #[arg(long, default_value = "GET")]
    pub method: String,
}

/// Show the status of the running server
#[derive(Debug, Args)]
#[command(after_help = "\
Scrapers can query the server directly: curl --unix-socket STATE_DIR/control.sock http://saker/metrics")]
pub struct Status {
    #[command(flatten)]
    pub target: Target,
    /// Print as JSON
    #[arg(long, conflicts_with = "prometheus")]
    pub json: bool,
    /// Print in Prometheus text format
    #[arg(long)]
    pub prometheus: bool,
    /// Print nothing; exit with 0 if the server answers and is not stopping, with 2 if it is
    /// stopping, with 3 if none is running
    #[arg(long, conflicts_with_all = ["json", "prometheus"])]
    pub healthy: bool,
}

/// Reload the configuration; on errors the old one stays in force
#[derive(Debug, Args)]
pub struct Reload {
    #[command(flatten)]
    pub target: Target,
    /// If the server's program file was replaced, replace the server, too (`saker upgrade`)
    #[arg(long)]
    pub upgrade: bool,
}

/// Stop the running server and wait until it has exited
#[derive(Debug, Args)]
pub struct Stop {
    #[command(flatten)]
    pub target: Target,
    /// Abort open requests instead of finishing them
    #[arg(long)]
    pub now: bool,
}

/// Reopen log files
#[derive(Debug, Args)]
pub struct ReopenLogs {
    #[command(flatten)]
    pub target: Target,
}

/// Purge pages from the page cache
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker purge https://example.org/news/     all variants of a page
  saker purge --tag product_17              all pages with a tag
  saker purge --ban 'req.url ~ ^/shop/'     all pages that match a ban expression (as in Varnish)
  saker purge --count --ban 'obj.status == 404'   only count them
  saker purge --site example.org --soft     mark all pages of a site stale
  saker purge --all")]
pub struct Purge {
    /// https://HOST/PATH?QUERY, or /PATH (of --site, or of all sites)
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub urls: Vec<String>,
    /// Purge pages with this tag
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Purge pages that match an expression over req.url, req.http.host, obj.status and
    /// obj.http.NAME
    #[arg(long = "ban", value_name = "EXPRESSION")]
    pub bans: Vec<String>,
    /// Limit the purge to the site with this host name; alone: purge the whole site
    #[arg(long, value_name = "HOST")]
    pub site: Option<String>,
    /// Purge everything
    #[arg(long)]
    pub all: bool,
    /// Mark pages stale instead of removing them: they are served while being refreshed
    #[arg(long)]
    pub soft: bool,
    /// Only count the pages that the purge would concern
    #[arg(long, conflicts_with = "wait")]
    pub count: bool,
    /// Wait until the purge is in force on all servers of the cluster that live, up to this time:
    /// 5s (at most 60s); exit status 2 with the names of the others
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "10s", value_parser = crate::wait_time::parse)]
    pub wait: Option<u64>,
    #[command(flatten)]
    pub target: Target,
}

/// Ban client addresses; bans survive restarts
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker ban 192.0.2.7 --for 1h --reason 'scans for wp-login'
  saker ban 192.0.2.0/24 2001:db8::/32      permanently

Open connections of banned clients are closed, too. For thousands of addresses use a file:
see deny_files in [guard].")]
pub struct Ban {
    /// IP addresses or CIDR blocks
    #[arg(value_name = "ADDRESS|BLOCK", required = true, value_parser = block)]
    pub blocks: Vec<Block>,
    /// Duration: 90s, 30m, 1h, 7d, a number of seconds, or -1 (permanent) [default: permanent]
    #[arg(long = "for", value_name = "TIME", value_parser = ban_time, allow_negative_numbers = true)]
    pub time: Option<BanTime>,
    /// Reason, shown by `saker bans`
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub target: Target,
}

/// Lift bans
#[derive(Debug, Args)]
pub struct Unban {
    /// IP addresses and CIDR blocks, as they were banned; other bans that still cover an address
    /// are reported
    #[arg(value_name = "ADDRESS|BLOCK", value_parser = block)]
    pub blocks: Vec<Block>,
    /// Lift all bans
    #[arg(long, conflicts_with = "blocks")]
    pub all: bool,
    #[command(flatten)]
    pub target: Target,
}

/// List bans with their reasons and remaining times
#[derive(Debug, Args)]
pub struct Bans {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub target: Target,
}

/// Create a signed URL
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker sign-url -c saker.toml --for 1h https://example.org/dl/film.mp4
  saker sign-url --form nginx --secret-file links.secret --for 1h --address 192.0.2.7 /s/film.mp4
  saker sign-url --form lighttpd --secret-file links.secret --prefix /dl/ /dl/film.mp4

The rule is the [site.signed] or [site.route.signed] section that applies to the URL; with --form
the rule is given by the options below, which are named after its keys.")]
pub struct SignUrl {
    /// https://HOST/PATH?QUERY or /PATH, without a signature
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub url: String,
    /// Configuration file with the rule [default: ./saker.toml, or else /etc/saker/saker.toml]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Validity: 90s, 15m, 2h, 7d
    #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
    pub good_for_s: Option<i64>,
    /// Expiry time in seconds since 1970 (lighttpd, mod_auth_token: start time)
    #[arg(long, value_name = "SECONDS", conflicts_with = "good_for_s")]
    pub time: Option<i64>,
    /// Valid only for the client with this IP address
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<std::net::IpAddr>,
    #[command(flatten)]
    pub options: SignOptions,
}

/// A signing rule given on the command line.
#[derive(Debug, Args)]
pub struct SignOptions {
    /// Form of the link: saker, nginx, nginx-path, lighttpd or mod_auth_token
    #[arg(long, value_name = "FORM", conflicts_with = "config")]
    pub form: Option<String>,
    /// Secret (visible to other users of this machine; prefer --secret-file)
    #[arg(long, value_name = "TEXT", requires = "form")]
    pub secret: Option<String>,
    /// File with the secret on its first line
    #[arg(long, value_name = "FILE", requires = "form", value_hint = ValueHint::FilePath)]
    pub secret_file: Option<PathBuf>,
    /// Path prefix before the token
    #[arg(long, value_name = "PATH", requires = "form")]
    pub prefix: Option<String>,
    /// Expression that is hashed (nginx)
    #[arg(long, value_name = "TEXT", requires = "form")]
    pub expression: Option<String>,
    /// Query argument of the signature (nginx: md5, saker: sig)
    #[arg(long, value_name = "NAME", requires = "form")]
    pub argument: Option<String>,
    /// Query argument of the expiry time
    #[arg(long, value_name = "NAME", requires = "form")]
    pub expires_argument: Option<String>,
    /// Algorithm: md5, hmac-sha1 or hmac-sha256 (lighttpd)
    #[arg(long, value_name = "NAME", requires = "form")]
    pub algorithm: Option<String>,
    /// Number of signed path segments (lighttpd)
    #[arg(long, value_name = "N", requires = "form")]
    pub path_segments: Option<u32>,
    /// Sign the query arguments, too (lighttpd)
    #[arg(long, requires = "form")]
    pub sign_query: bool,
    /// Sign the client address, too (saker, mod_auth_token)
    #[arg(long, requires = "form")]
    pub sign_address: bool,
    /// Sign the host name, too (saker)
    #[arg(long, requires = "form")]
    pub sign_host: bool,
}

/// Inspect, purge and warm the page cache
#[derive(Debug, Args)]
pub struct Cache {
    #[command(subcommand)]
    pub command: CacheCommand,
}

#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Show cache size and hit rates, in total and by site
    Stat {
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// List cached pages
    List {
        /// Limit the list to the site with this host name
        #[arg(long, value_name = "HOST")]
        site: Option<String>,
        /// Maximum number of pages
        #[arg(long, value_name = "N", default_value_t = 1000)]
        max: usize,
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Show all details of the entries of a page (exit status 2: not cached)
    Show {
        /// https://HOST/PATH?QUERY, or /PATH
        #[arg(value_hint = ValueHint::Url)]
        url: String,
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Print the content of an entry, up to 256 kB of it
    Body {
        /// Id of the entry, as `saker cache show` prints it
        entry: String,
        #[command(flatten)]
        target: Target,
    },
    Purge(Purge),
    Warm(Warm),
}

/// Inspect and purge dynamic virtual hosts
#[derive(Debug, Args)]
pub struct Hosts {
    #[command(subcommand)]
    pub command: HostsCommand,
}

#[derive(Debug, Subcommand)]
pub enum HostsCommand {
    /// Show the number of known hosts and the state of the database
    Stat {
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Forget hosts, so that their next request queries the database
    Purge {
        /// Host names
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Forget all hosts
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        target: Target,
    },
}

/// Warm the cache: fetch pages before clients request them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker cache warm --sitemap https://example.org/sitemap.xml
  saker cache warm --sitemap https://example.org/robots.txt --concurrency 8
  saker cache warm --list urls.txt --vary currency=,EUR,USD
  saker cache warm -H 'User-Agent: iPhone Mobile' https://example.org/

The running server makes these requests internally, under the rules of the site, with lower
priority than client requests. Exit status: 0, or 2 if some pages failed.")]
pub struct Warm {
    /// https://HOST/PATH?QUERY
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub urls: Vec<String>,
    /// Fetch the pages of a sitemap: a sitemap, a sitemap index (also compressed), or the
    /// robots.txt that lists them
    #[arg(long = "sitemap", value_name = "URL", value_hint = ValueHint::Url)]
    pub sitemaps: Vec<String>,
    /// Fetch the URLs listed in a file, one per line; -: standard input
    #[arg(long = "list", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub lists: Vec<PathBuf>,
    /// Fetch each page once per value of this cookie (an empty value: without the cookie); several
    /// options: all combinations
    #[arg(long, value_name = "COOKIE=VALUE,...", value_parser = cookie_values)]
    pub vary: Vec<(String, Vec<String>)>,
    /// Add a header to each request
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = field)]
    pub headers: Vec<(String, String)>,
    /// Number of concurrent requests
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub concurrency: usize,
    /// Maximum requests per second [default: unlimited]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub rate: u32,
    /// Print only the summary
    #[arg(short, long)]
    pub quiet: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub target: Target,
}

/// Print a shell completion script
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker completions bash > /etc/bash_completion.d/saker
  saker completions zsh > /usr/local/share/zsh/site-functions/_saker
  saker completions fish > ~/.config/fish/completions/saker.fish")]
pub struct Completions {
    pub shell: Shell,
}

/// Print the manual page, or write the pages of all commands to a directory
#[derive(Debug, Args)]
pub struct Man {
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

/// The configuration that a command reads.
#[derive(Debug, Args)]
pub struct Input {
    /// Configuration file [default: ./saker.toml, or else /etc/saker/saker.toml]
    #[arg(short, long, value_name = "FILE", conflicts_with = "apache", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Apache configuration file (httpd.conf, apache2.conf)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub apache: Option<PathBuf>,
    /// nginx configuration file (nginx.conf)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "apache"], value_hint = ValueHint::FilePath)]
    pub nginx: Option<PathBuf>,
    /// Define NAME for <IfDefine>
    #[arg(short = 'D', value_name = "NAME", requires = "apache")]
    pub define: Vec<String>,
}

/// The running server that a command talks to.
#[derive(Debug, Args)]
pub struct Target {
    /// State directory of the server [default: that of the only running server]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state_dir: Option<PathBuf>,
    /// Configuration file of the server, which names its state directory; --state-dir overrides it
    #[arg(short, long, value_name = "FILE", conflicts_with = "apache", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Apache configuration file of the server; --state-dir overrides it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub apache: Option<PathBuf>,
    /// nginx configuration file of the server; --state-dir overrides it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "apache"], value_hint = ValueHint::FilePath)]
    pub nginx: Option<PathBuf>,
    /// Define NAME for <IfDefine>
    #[arg(short = 'D', value_name = "NAME", requires = "apache")]
    pub define: Vec<String>,
    /// Console of a server on another machine: https://HOST:7080; its token is in the environment
    /// variable SAKER_TOKEN, or in --token-file
    #[arg(long, value_name = "URL", conflicts_with_all = ["state_dir", "config", "apache", "nginx"], value_hint = ValueHint::Url)]
    pub remote: Option<String>,
    /// File with the token for --remote
    #[arg(long, value_name = "FILE", requires = "remote", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// Certificate authority of the console at --remote in PEM format [default: the system's]
    #[arg(long, value_name = "FILE", requires = "remote", value_hint = ValueHint::FilePath)]
    pub remote_ca: Option<PathBuf>,
}

/// A value of `--http` or `--https`. Both take several values, so that the directory in `saker
/// serve --http 8080 DIR` is parsed as one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenArgument {
    /// A bare port stands for two addresses.
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
        "|" => Err("missing command after `|`".into()),
        path => match path.strip_prefix('|') {
            Some(command) => Ok(AccessLogArgument::Program(command.trim().into())),
            None => Ok(AccessLogArgument::File(PathBuf::from(path))),
        },
    }
}

/// The URL of an authority's ACME directory.
fn authority(text: &str) -> Result<String, String> {
    match Acme::directory_of(text) {
        // Its accounts are created elsewhere first.
        Some(Acme::ZERO_SSL) => {
            Err("ZeroSSL requires an account: use a saker.toml with [acme]".into())
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
        true => Err("invalid cookie".into()),
        false => Ok((
            name.to_owned(),
            values.split(',').map(str::to_owned).collect(),
        )),
    }
}

/// Duration of a ban; `None`: permanent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanTime(pub Option<u64>);

fn block(text: &str) -> Result<Block, String> {
    text.parse()
        .map_err(|()| "an address (192.0.2.7, 2001:db8::1) or a block (192.0.2.0/24)".into())
}

/// Accepts what fail2ban passes, too: a number of seconds, negative for a permanent ban.
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

/// Splits a header; the request parser decides whether name and value are allowed.
fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("a header needs a colon, as in 'Accept-Encoding: br'")?;
    Ok((name.to_owned(), value.trim().to_owned()))
}
