//! Arguments of the commands that write and show configurations, and of `trust`.
//!
//! Called by: `arguments`.
//! Caveat: names of commands and options are a contract with scripts.
//! Out of scope: what a command does.

use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Write a saker.toml for the application in a directory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker init                               look into this directory, ask, write ./saker.toml
  saker init /srv/shop --yes               ask nothing
  saker init /srv/shop --domain example.org www.example.org -o /etc/saker/saker.toml
                                           for https://example.org/, with a certificate from
                                           Let's Encrypt, and agree to its terms of service

Known are the applications that have a preset (`preset` in the reference), Node.js servers,
single-page applications, PHP and static pages. The result passes `saker check`.")]
pub struct Init {
    /// Directory of the application [default: .]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
    /// Preset to use instead of looking into the directory
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// PHP: auto (managed by Saker), off, or the address of a running php-fpm: unix:PATH or
    /// HOST:PORT [default: the one that is found]
    #[arg(long, value_name = "HOW")]
    pub php: Option<String>,
    /// Names of the site; listens on ports 80 and 443, with automatic certificates
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub domain: Vec<String>,
    /// File to write [default: saker.toml in the current directory]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Ask nothing
    #[arg(short, long)]
    pub yes: bool,
    /// Overwrite the file
    #[arg(long)]
    pub force: bool,
}

/// Print the configuration of another server as saker.toml, and report what it can't say
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker convert --vcl /etc/varnish/default.vcl >saker.toml
  saker convert --nginx /etc/nginx/nginx.conf >saker.toml

The listener and the names of the site are not in VCL: set them in the result.
Exit status: 0 done (there may be warnings), 1 the file has errors, or refuses requests in a way
that saker.toml can't say.")]
pub struct Convert {
    /// Varnish's configuration (VCL 4)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "nginx")]
    pub vcl: Option<PathBuf>,
    /// nginx's configuration, with everything that it includes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "vcl")]
    pub nginx: Option<PathBuf>,
}

/// Format configuration files: spaces, blank lines, line breaks; comments and order stay
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker fmt                        ./saker.toml, or else /etc/saker/saker.toml
  saker fmt /etc/saker/conf.d/*.toml
  saker fmt --check saker.toml     for a commit hook: exit status 1 if the file would change
  saker fmt - <saker.toml          from standard input to standard output

Files with syntax errors are reported and stay as they are.")]
pub struct Fmt {
    /// Files; - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Change nothing; list the files that would change, with exit status 1 if there are any
    #[arg(long, conflicts_with = "stdout")]
    pub check: bool,
    /// Print the result instead of changing the file
    #[arg(long)]
    pub stdout: bool,
}

/// Print the configuration, with its includes and presets
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker config                     the files as they are, in the order in which they are read
  saker config --expanded          one configuration that serves the same, each value with its origin:
                                   file and line, preset, or default
  saker config --json | jq '.configuration.site[].root'")]
pub struct Config {
    /// Configuration file [default: ./saker.toml, or else /etc/saker/saker.toml]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Resolve includes, presets, and defaults
    #[arg(long)]
    pub expanded: bool,
    /// Print the expanded configuration as JSON, with `origins` by JSON Pointer
    #[arg(long)]
    pub json: bool,
}

/// Make this machine's browsers and tools trust the local certificate authority
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker trust                      Chromium, Chrome, and Firefox of this user; as root, the system, too
  sudo saker trust --system --certificate ~/.local/share/saker/authority/authority.pem
  saker trust --print > ca.pem     the certificate, for other machines
  saker trust --remove             undo

The authority signs the certificates of `saker serve` and of sites with `automatic = \"local\"`. Its
key is readable by you alone and stays on this machine.")]
pub struct Trust {
    /// Install in the system's certificates (curl, wget, Python, PHP …); needs root
    #[arg(long)]
    pub system: bool,
    /// Install in the NSS databases of this user (Chromium, Chrome, Firefox); needs certutil
    #[arg(long)]
    pub nss: bool,
    /// Print the authority's certificate; install nothing
    #[arg(long, conflicts_with_all = ["system", "nss", "remove"])]
    pub print: bool,
    /// Remove it again
    #[arg(long)]
    pub remove: bool,
    /// The authority's certificate [default: this user's authority, or that of --config]
    #[arg(long, value_name = "FILE", conflicts_with = "config", value_hint = ValueHint::FilePath)]
    pub certificate: Option<PathBuf>,
    /// Configuration file of the server whose authority is meant
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}
