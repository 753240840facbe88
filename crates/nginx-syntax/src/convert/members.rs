//! Servers of upstreams.
//!
//! Called by: `convert`, for `http`; `streams`.
//! Caveat: limits and times of a server are the upstream's in saker.toml: they are named, and left out.
//! Out of scope: how one of the servers is chosen.

use super::{reported::left_out, text::quoted};
use crate::{Report, tree::Directive};
use std::fmt::Write as _;

/// A member with its parameters; `None`: it is not used, or cannot be said, which is reported.
pub fn member(directive: &Directive, scheme: &str, report: &mut Report) -> Option<String> {
    let url = url(scheme, directive.argument(0));
    let mut out = format!("{{ address = {}", quoted(&url));
    for word in directive.texts().skip(1) {
        match word.split_once('=') {
            Some(("weight", weight)) if weight.parse::<u32>().is_ok() => {
                let _ = write!(out, ", weight = {weight}");
            }
            None if word == "backup" => out.push_str(", standby = true"),
            None if word == "down" => return None,
            // Names are looked up again, and failures counted, without being told.
            None if word == "resolve" => {}
            Some(("max_fails" | "fail_timeout" | "slow_start" | "max_conns", _)) => {
                let message = format!("`{word}` of a server is not converted");
                let help = "see `failures_in_a_row`, `retry_after`, `slow_start`, and `connections` \
                            of [[upstream]]";
                report.warn(directive, message, Some(help.to_owned()));
            }
            _ => {
                left_out(directive, report);
                return None;
            }
        }
    }
    out.push_str(" }");
    Some(out)
}

/// An address with its scheme.
pub fn url(scheme: &str, address: &str) -> String {
    match address.strip_prefix("unix:") {
        Some(path) => format!("{scheme}+unix:{path}"),
        None => format!("{scheme}://{address}"),
    }
}
