//! Arguments of `saker console`.
//!
//! Called by: the command line.

use super::Target;
use clap::{Args, Subcommand, ValueHint};
use saker_console::Role;
use std::path::PathBuf;

/// Print a link for logging in to the console, which is opened if it is not
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker console                                    a link, good once and for five minutes
  saker console user add ada --role operator       a user; the password is read from the terminal
  saker console user add ada --totp < password     with one-time codes of an authenticator app
  saker console token add ci --role viewer         a token for the API, printed once

Roles: owner of a site (--site; sees its requests, sees and purges its cached pages), viewer (sees everything but the configuration), operator (purges pages,
bans clients, drains upstreams, too), administrator (changes the configuration, too).")]
#[command(args_conflicts_with_subcommands = true)]
pub struct Console {
    #[command(subcommand)]
    pub command: Option<ConsoleCommand>,
    #[command(flatten)]
    pub target: Target,
}

/// Call a route of a console's API
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker api                                              all routes with their parameters
  saker api status --remote https://www.example.org:7080
  saker api explain url=https://www.example.org/ --remote ...
  saker api configuration/check file=/etc/saker/saker.toml text=@saker.toml --remote ...
  saker api requests/events status=5 --remote ...        a line of JSON for each event

The token is in the environment variable SAKER_TOKEN, or in --token-file. A parameter that takes several
values is repeated.")]
pub struct Api {
    /// Path of the route below /api/v1 [default: list all routes]
    pub route: Option<String>,
    /// Parameters; NAME=@FILE takes the content of a file, NAME=@- standard input
    #[arg(value_name = "NAME=VALUE")]
    pub values: Vec<String>,
    /// Change something, where GET and POST have the same path
    #[arg(long)]
    pub post: bool,
    /// Console: https://HOST:7080, or http:// on this machine
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub remote: Option<String>,
    /// File with the token
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// Certificate authority of the console in PEM format [default: the system's]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub remote_ca: Option<PathBuf>,
}

/// Show live figures of the running server: requests, latencies, cache, upstreams
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  saker top                                      the running server; q ends it
  saker top --remote https://www.example.org:7080
  saker top --once                               one view, for scripts")]
pub struct Top {
    /// Print one view and end
    #[arg(long)]
    pub once: bool,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Debug, Subcommand)]
pub enum ConsoleCommand {
    /// Add, change or remove users
    #[command(subcommand)]
    User(UserCommand),
    /// Add or remove tokens for the API
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Add a user, or give one a new role and password; the password is read from the terminal, or
    /// from standard input
    Add {
        name: String,
        #[arg(long, default_value = "viewer", value_parser = role)]
        role: Role,
        /// The site of an owner, by its first name
        #[arg(long, value_name = "NAME", required_if_eq("role", "owner"))]
        site: Option<String>,
        /// Demand one-time codes of an authenticator app; prints the secret for it
        #[arg(long)]
        totp: bool,
        #[command(flatten)]
        place: UsersPlace,
    },
    /// Remove a user, and end the sessions
    Remove {
        name: String,
        #[command(flatten)]
        place: UsersPlace,
    },
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token, or replace the one of this name; prints it once
    Add {
        name: String,
        #[arg(long, default_value = "viewer", value_parser = role)]
        role: Role,
        /// The site of an owner, by its first name
        #[arg(long, value_name = "NAME", required_if_eq("role", "owner"))]
        site: Option<String>,
        #[command(flatten)]
        place: UsersPlace,
    },
    /// Remove a token
    Remove {
        name: String,
        #[command(flatten)]
        place: UsersPlace,
    },
}

/// The users file.
#[derive(Debug, Args)]
pub struct UsersPlace {
    /// Users file [default: from the configuration; console-users in the state directory]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub target: Target,
}

fn role(text: &str) -> Result<Role, String> {
    text.parse()
}
