//! Arguments of `saker cluster`.
//!
//! Called by: the command line.

use super::Target;
use clap::{Args, Subcommand};

/// Inspect the cluster that shares purges of the page cache
#[derive(Debug, Args)]
pub struct Cluster {
    #[command(subcommand)]
    pub command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the servers, and whether this one is in sync (exit status 2 if not)
    Status {
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
}
