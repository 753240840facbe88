//! CGI programs of native sites (`cgi`): files that are run for a request (CGI/1.1, RFC 3875).
//!
//! Called by: the content phase, beside PHP and before the gateway, which starts the program.
//! Caveat: the source of a program must never be shown. A file with a program's name is run or
//! refused; one that can't be executed is an error (500), never content.
//! Out of scope: sites with Apache rules; interpreters by extension (a program's first line names
//! it).

use saker_config::model::Action;
use saker_files::Watcher;
use saker_http::Status;
use saker_pipeline::{
    CallNames, Exchange, Handled, Handler, LocalFuture, ProcessManner, ProxyOptions, Response,
    UpstreamRequest, UpstreamTarget,
};
use saker_static_files::{Located, document_root, locate, names, script};
use std::sync::Arc;

pub struct CgiFiles {
    watcher: Watcher,
}

/// A program's path below the root, and the path info.
type Found = (Vec<u8>, Vec<u8>);

impl CgiFiles {
    pub fn new(watcher: Watcher) -> CgiFiles {
        CgiFiles { watcher }
    }

    fn answer(&self, exchange: &mut Exchange) -> Handled {
        let is_for_files = exchange.routing.scripts_by_name && *exchange.action() == Action::Files;
        if exchange.routing.settings.cgi.is_empty()
            || !is_for_files
            || document_root::root(exchange).is_none()
        {
            return Handled::Declined;
        }
        match self.find(exchange) {
            Ok((relative, path_info)) => {
                Handled::Forward(Box::new(call(exchange, &relative, &path_info)))
            }
            Err(instead) => instead,
        }
    }

    /// The error: what is done instead. Declined if the path names no program.
    fn find(&self, exchange: &mut Exchange) -> Result<Found, Handled> {
        let refused = |status| Handled::Answered(Response::new(status));
        let relative = document_root::relative(exchange).to_vec();
        if !exchange.routing.settings.files.hidden && names::is_hidden(&relative) {
            return Err(Handled::Declined);
        }
        for end in ends(&relative) {
            let (name, rest) = relative.split_at(end);
            if !is_program(&exchange.routing.settings.cgi, name) {
                continue;
            }
            match script::kind_or_complaint(&self.watcher, exchange, name).map_err(refused)? {
                script::Kind::File => {
                    script::follow_script(&self.watcher, exchange, rest)?;
                    return Ok((name.to_vec(), rest.to_vec()));
                }
                script::Kind::Folder => {}
                script::Kind::Nothing => return Err(refused(Status::NOT_FOUND)),
            }
        }
        if !relative.is_empty() && !relative.ends_with(b"/") {
            return Err(Handled::Declined);
        }
        match locate::locate(&self.watcher, exchange) {
            Located::File(found) if is_program(&exchange.routing.settings.cgi, &found.relative) => {
                Ok((found.relative, Vec::new()))
            }
            Located::Restart => Err(Handled::Restart),
            Located::Answered(refused) => Err(Handled::Answered(refused)),
            _ => Err(Handled::Declined),
        }
    }
}

impl Handler for CgiFiles {
    fn name(&self) -> &'static str {
        "cgi"
    }

    fn handle<'a>(&'a self, exchange: &'a mut Exchange) -> LocalFuture<'a, Handled> {
        self.answer(exchange).ready()
    }
}

/// Ends of components, from the left.
fn ends(relative: &[u8]) -> impl Iterator<Item = usize> {
    let slashes = relative
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/')
        .map(|(at, _)| at);
    slashes.chain([relative.len()]).filter(|end| *end > 0)
}

/// Compares the file name with the patterns; `*` stands for any part of it.
fn is_program(patterns: &[String], relative: &[u8]) -> bool {
    let name = relative
        .rsplit(|byte| *byte == b'/')
        .next()
        .unwrap_or_default();
    !name.is_empty()
        && patterns
            .iter()
            .any(|pattern| matches(pattern.as_bytes(), name))
}

/// Matches a name against a pattern with stars: each part as early as possible, the last at the
/// end.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut parts = pattern.split(|byte| *byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&[u8]> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle.iter().filter(|part| !part.is_empty()) {
        let Some(at) = rest.windows(part.len()).position(|window| window == *part) else {
            return false;
        };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

fn call(exchange: &Exchange, relative: &[u8], path_info: &[u8]) -> UpstreamRequest {
    let process = ProcessManner {
        user: exchange.routing.settings.program_user.clone(),
        ..ProcessManner::default()
    };
    let script = script::told(exchange, relative, path_info);
    let manner = ProxyOptions {
        trust: script::trust(exchange),
        ..ProxyOptions::default()
    };
    UpstreamRequest {
        to: UpstreamTarget::Process(Arc::new(process)),
        target: exchange.head.view().target().to_vec(),
        script: Some(Box::new(script)),
        manner: Arc::new(manner),
        names: CallNames::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs() {
        for (pattern, name, is_one) in [
            ("*", "x", true),
            ("*.cgi", "a/x.cgi", true),
            ("*.cgi", "x.cgi.txt", false),
            ("*.cgi", ".cgi", true),
            ("print*", "printenv", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("a*a", "a", false),
            ("x", "x", true),
            ("x", "xy", false),
            ("*", "a/", false),
        ] {
            assert_eq!(
                is_program(&[pattern.to_owned()], name.as_bytes()),
                is_one,
                "{pattern} {name}"
            );
        }
    }
}
