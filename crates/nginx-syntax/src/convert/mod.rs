//! An nginx configuration as `saker.toml`, as far as it can be said.
//!
//! Called by: `saker convert --nginx`.
//! Caveat: locations become routes in the order in which nginx would choose them. What closes
//! something and has no counterpart denies in the result, and is an error; what only changes
//! something is named, and left out.
//! Out of scope: running nginx's configuration as it is, which needs no conversion.

mod locations;
mod media_types;
mod members;
mod real_ip;
mod reported;
mod rewrites;
mod route;
mod servers;
mod settings;
mod streams;
mod text;
mod upstream;

use crate::{Files, Report, read, tree::Directive};
use locations::scheme_of_pass;
use members::member;
use reported::{is_implied, left_out};
use servers::Servers;
use std::{fmt::Write as _, path::Path};
use text::quoted;

/// The converted configuration, and what it does not say.
#[derive(Debug)]
pub struct Conversion {
    pub toml: String,
    pub report: Report,
}

/// Converts a configuration with everything that it includes.
pub fn convert(files: &dyn Files, file: &Path) -> Conversion {
    let tree = read(files, file, "");
    let mut report = tree.report;
    let mut toml = String::new();
    if report.has_errors() {
        return Conversion { toml, report };
    }
    for directive in &tree.directives {
        match directive.name() {
            "http" => http(directive, &mut toml, &mut report),
            "stream" => streams::stream(directive, &mut toml, &mut report),
            // Those that name what every server has.
            "events"
            | "user"
            | "worker_processes"
            | "pid"
            | "error_log"
            | "load_module"
            | "worker_rlimit_nofile"
            | "pcre_jit"
            | "daemon" => {}
            _ => left_out(directive, &mut report),
        }
    }
    Conversion { toml, report }
}

fn http(block: &Directive, toml: &mut String, report: &mut Report) {
    let outer: Vec<&Directive> = block.inside().iter().collect();
    let mut servers = Servers::new(&outer);
    let mut sites = String::new();
    for directive in &outer {
        match directive.name() {
            "server" => servers.server(directive, &mut sites, report),
            "upstream" => {
                let scheme = scheme_of(directive.argument(0), &outer);
                upstream(directive, scheme, toml, report);
            }
            _ if servers::is_inherited(directive) || is_implied(directive) => {}
            _ => left_out(directive, report),
        }
    }
    toml.insert_str(0, &servers.listeners());
    toml.push_str(&sites);
}

/// The scheme of a group's servers, by the first directive that passes requests to it.
fn scheme_of(group: &str, all: &[&Directive]) -> &'static str {
    fn find(group: &str, directive: &Directive) -> Option<&'static str> {
        let scheme = scheme_of_pass(directive.name());
        let target = directive.argument(0);
        let host = target.split_once("://").map_or(target, |(_, rest)| rest);
        let is_it = host.split('/').next() == Some(group);
        match scheme.filter(|_| is_it) {
            Some("http") if target.starts_with("https://") => Some("https"),
            Some("grpc") if target.starts_with("grpcs://") => Some("grpcs"),
            Some(scheme) => Some(scheme),
            None => (directive.inside().iter()).find_map(|inner| find(group, inner)),
        }
    }
    let found = all.iter().find_map(|directive| find(group, directive));
    found.unwrap_or("http")
}

fn upstream(block: &Directive, scheme: &str, toml: &mut String, report: &mut Report) {
    let (mut servers, mut extra) = (Vec::new(), String::new());
    for directive in block.inside() {
        match directive.name() {
            "server" => servers.extend(member(directive, scheme, report)),
            "least_conn" => extra.push_str("balance = \"least-requests\"\n"),
            "ip_hash" => extra.push_str("balance = \"client\"\n"),
            "random" if directive.argument(0) == "two" => {
                extra.push_str("balance = \"random-two\"\n");
            }
            "hash" if directive.argument(0) == "$request_uri" => {
                extra.push_str("balance = \"target\"\n");
            }
            // As many connections are kept as the load needs.
            "keepalive" | "zone" => {}
            _ => left_out(directive, report),
        }
    }
    let _ = writeln!(
        toml,
        "[[upstream]]\nname = {}\nservers = [{}]\n{extra}",
        quoted(block.argument(0)),
        servers.join(", ")
    );
}
