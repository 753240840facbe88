//! Arguments of the commands about the program and its place: `upgrade`, `takeover`, and `version`.
//!
//! Called by: `arguments`.
//! Caveat: names of commands and options are a contract with scripts.
//! Out of scope: what a command does.

use super::Target;
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

/// Time for a new program to read the configuration, and for the new server to listen.
pub const UPGRADE_TIMEOUT_S: u64 = 120;

/// Replace the running server by a new one without refusing or cutting off a request
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker upgrade                      after the program file was replaced: the same file again
  saker upgrade /opt/saker-0.3/saker
  systemctl reload saker             the same, for a service

The new server has the command line of the running one. It takes over the sockets, the page cache
and the bans; the old one finishes its requests and ends. If the new one can't be had, or refuses
the configuration, the old one goes on. The program may be a script that starts the server, in the
background, too.

Exit status: 0 this command has replaced the server, 1 the new one refused the configuration, 2
failure, 3 no server is running, 4 not replaced by this command: another upgrade is under way, or
was done meanwhile.")]
pub struct Upgrade {
    /// The new program [default: the file that the running server was started from]
    #[arg(value_name = "BINARY", value_hint = ValueHint::FilePath)]
    pub binary: Option<PathBuf>,
    /// Time for the new program to read the configuration, and then again to listen; what has not by
    /// then is killed
    #[arg(long = "timeout", value_name = "SECONDS", default_value_t = UPGRADE_TIMEOUT_S,
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout_s: u64,
    #[command(flatten)]
    pub target: Target,
}

/// Put Saker in the place of a running Apache or nginx, with its configuration
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker takeover apache --dry-run          check the configuration, and record answers
  saker takeover apache                    systemd's services apache2 and saker-apache
  saker takeover nginx --list urls.txt

The configuration is checked, and the running server's answers to the URLs are recorded: by default
to the first page of each host, on each port. Then that server is stopped and Saker is started. If
one answer differs in status, redirect, media type, or content, Saker is stopped, and the other
server is started again. Exit status: 0 taken over, 1 not taken over, and the other server serves, 2
failure.")]
pub struct Takeover {
    /// The server whose place is taken
    pub from: TakeoverFrom,
    /// URLs to compare
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub urls: Vec<String>,
    /// Compare the URLs in a file, one per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub list: Option<PathBuf>,
    /// Configuration file [default: /etc/apache2/apache2.conf, /etc/nginx/nginx.conf]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub configuration: Option<PathBuf>,
    /// Change nothing: check, and record
    #[arg(long)]
    pub dry_run: bool,
    /// systemd's service of the other server [default: apache2, nginx]
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// Command that starts the other server, without systemd
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "stop",
        conflicts_with = "service"
    )]
    pub start: Option<String>,
    /// Command that stops it, and returns when it has ended
    #[arg(long, value_name = "COMMAND", requires = "start")]
    pub stop: Option<String>,
    /// Command that starts Saker, without systemd
    #[arg(long, value_name = "COMMAND", requires = "saker_stop")]
    pub saker_start: Option<String>,
    /// Command that stops it, and returns when it has ended
    #[arg(long, value_name = "COMMAND", requires = "saker_start")]
    pub saker_stop: Option<String>,
}

/// The server whose place Saker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TakeoverFrom {
    Apache,
    Nginx,
}

/// Print the version
#[derive(Debug, Args)]
pub struct Version {
    /// Print version, target, and build as JSON
    #[arg(long)]
    pub json: bool,
}
