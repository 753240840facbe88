//! Arguments of the commands about the program itself: `upgrade` and `version`.
//!
//! Called by: `arguments`.
//! Caveat: names of commands and options are a contract with scripts.
//! Out of scope: what a command does.

use super::Target;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Replace the running server by a new one without refusing or cutting off a request
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker upgrade                      after the program file was replaced: the same file again
  saker upgrade /opt/saker-0.3/saker
  systemctl reload saker             the same, for a service

The new server has the command line of the running one. It takes over the sockets, the page cache
and the bans; the old one finishes its requests and ends. If the new one can't be had, or refuses
the configuration, the old one goes on.")]
pub struct Upgrade {
    /// The new program [default: the file that the running server was started from]
    #[arg(value_name = "BINARY", value_hint = ValueHint::FilePath)]
    pub binary: Option<PathBuf>,
    #[command(flatten)]
    pub target: Target,
}

/// Print the version
#[derive(Debug, Args)]
pub struct Version {
    /// Print version, target, and build as JSON
    #[arg(long)]
    pub json: bool,
}
