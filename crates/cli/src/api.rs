//! `saker api`: any route of a console's API, by its name, with checked parameters.
//!
//! Called by: `lib`.
//! Caveat: names and parameters are the table of the console itself, in the version of this command.
//! Out of scope: commands of their own for what is done often, which have `--remote`, too.

use crate::{
    arguments::Api,
    exit_status::CANNOT,
    output::{self, cannot},
    remote::Remote,
};
use saker_console::{ApiCall, api_routes};
use serde_json::Value;
use std::{
    fmt::Write as _,
    fs,
    io::{self, Read as _, Write as _},
    process::ExitCode,
};

pub fn api(asked: &Api) -> ExitCode {
    let Some(name) = &asked.route else {
        return output::print(list());
    };
    let Some(url) = &asked.remote else {
        return cannot(
            "name the console with --remote URL (of this machine: http://127.0.0.1:7080)",
        );
    };
    let made = find(name, asked.post).and_then(|call| {
        let values = asked
            .values
            .iter()
            .map(value)
            .collect::<Result<Vec<_>, _>>()?;
        Ok((call, call.request(&values)?))
    });
    let (call, (target, body)) = match made {
        Ok(made) => made,
        Err(error) => return cannot(error),
    };
    let (token, authority) = (asked.token_file.as_deref(), asked.remote_ca.as_deref());
    let remote = match Remote::new(url, token, authority) {
        Ok(remote) => remote,
        Err(error) => return cannot(error),
    };
    let mut events = Events::default();
    let mut take = |part: &[u8]| !call.is_stream() || events.take(part);
    match remote.call((call.method(), &target, &body), &mut take) {
        Ok((200, _)) if call.is_stream() => ExitCode::SUCCESS,
        Ok((200, content)) => output::print(pretty(&content)),
        Ok((status, content)) => {
            output::error(format_args!("saker: {}\n", refusal(status, &content)));
            ExitCode::from(CANNOT)
        }
        Err(error) => cannot(error),
    }
}

/// All routes, for people.
fn list() -> String {
    let mut out = String::new();
    for call in api_routes() {
        let (role, is_of_owners) = call.role();
        let owners = if is_of_owners { ", owner" } else { "" };
        let post = if is_twofold(call) && call.method() == "POST" {
            "--post "
        } else {
            ""
        };
        // Writing to a String never fails.
        let _ = writeln!(
            out,
            "{post}{}  ({role}{owners})\n    {}",
            call.name(),
            call.summary()
        );
        for (name, is_required, summary) in call.parameters() {
            let mark = if is_required { "" } else { "?" };
            let _ = writeln!(out, "      {name}{mark}: {summary}");
        }
    }
    out
}

/// Both GET and POST have the name.
fn is_twofold(call: ApiCall) -> bool {
    api_routes().filter(|one| one.name() == call.name()).count() > 1
}

fn find(name: &str, is_post: bool) -> Result<ApiCall, String> {
    let name = name.trim_start_matches("/api/v1/").trim_start_matches('/');
    let of_name: Vec<ApiCall> = api_routes().filter(|one| one.name() == name).collect();
    let wanted = |one: &&ApiCall| of_name.len() == 1 || (one.method() == "POST") == is_post;
    let found = of_name.iter().find(wanted).copied();
    found.ok_or_else(|| format!("there is no route `{name}` (`saker api` lists them)"))
}

/// `NAME=VALUE`, `NAME=@FILE`, or `NAME=@-` for standard input.
fn value(argument: &String) -> Result<(String, String), String> {
    let (name, value) = argument
        .split_once('=')
        .ok_or_else(|| format!("invalid parameter `{argument}` (expected NAME=VALUE)"))?;
    let value = match value.strip_prefix('@') {
        None => value.to_owned(),
        Some("-") => {
            let mut text = String::new();
            let read = io::stdin().read_to_string(&mut text);
            read.map_err(|error| format!("cannot read standard input: {error}"))?;
            text
        }
        Some(path) => {
            fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?
        }
    };
    Ok((name.to_owned(), value))
}

fn pretty(content: &[u8]) -> String {
    match serde_json::from_slice::<Value>(content) {
        Ok(value) => format!("{value:#}\n"),
        Err(_) => String::from_utf8_lossy(content).into_owned(),
    }
}

fn refusal(status: u16, content: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(content).unwrap_or_default();
    match answer["error"].as_str() {
        Some(error) => format!("the server refused: {error}"),
        None => format!("the server answered with status {status}"),
    }
}

/// The data of server-sent events, a line each.
#[derive(Default)]
struct Events {
    pending: Vec<u8>,
    is_body: bool,
}

impl Events {
    /// Prints the lines that are complete. Returns false if they are no longer read.
    fn take(&mut self, part: &[u8]) -> bool {
        self.pending.extend_from_slice(part);
        let mut out = io::stdout().lock();
        while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            let is_written = match (self.is_body, line.strip_prefix(b"data: ")) {
                (true, Some(data)) => out.write_all(data).and_then(|()| out.flush()).is_ok(),
                _ => true,
            };
            // The head ends with an empty line.
            self.is_body |= line == b"\r\n";
            if !is_written {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_has_a_name_of_its_own() {
        for call in api_routes() {
            let found = find(call.name(), call.method() == "POST").expect("a route");
            assert_eq!((found.name(), found.method()), (call.name(), call.method()));
            assert!(list().contains(call.name()), "{}", call.name());
        }
        assert!(find("nosuch", false).is_err());
        assert_eq!(
            find("/api/v1/status", false).map(|one| one.name()),
            Ok("status")
        );
    }

    #[test]
    fn values() {
        assert_eq!(
            value(&"a=b=c".to_owned()),
            Ok(("a".to_owned(), "b=c".to_owned()))
        );
        assert!(value(&"a".to_owned()).is_err());
        assert!(value(&"a=@/nosuch/file".to_owned()).is_err());
    }
}
