//! Programs started for a request by CGI/1.1 (RFC 3875), and reports of their failures.
//!
//! Absent on purpose: whether a script may be run at all, which the rules have decided.

use crate::{failure::Failure, programs::Whose};
use saker_cgi::{
    Fault, Variables,
    plain_cgi::{arguments, environment},
};
use saker_net::program::{ProgramLimits, ProgramPlan};
use saker_pipeline::{Exchange, ProcessManner, Script};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

/// The file's name without its folder.
pub fn name(script: &Script) -> &[u8] {
    script
        .filename
        .rsplit(|byte| *byte == b'/')
        .next()
        .unwrap_or_default()
}

/// Scripts that say the whole head (Apache's naming).
pub fn says_whole_head(script: &Script) -> bool {
    name(script).starts_with(b"nph-")
}

pub fn whose(exchange: &Exchange, script: &Script, timeout_ms: u64) -> Whose {
    Whose {
        client: exchange.log_context(),
        name: String::from_utf8_lossy(name(script)).into(),
        timeout_ms,
    }
}

/// The script itself with the words of the query (RFC 3875 section 4.4; whatever the method, as in
/// Apache), or its interpreter with the script as its argument; in the script's folder.
pub fn plan(
    exchange: &Exchange,
    script: &Script,
    manner: &ProcessManner,
    variables: &Variables,
    has_input: bool,
) -> ProgramPlan {
    let file = Path::new(OsStr::from_bytes(&script.filename));
    let (program, own_name, words) = match &manner.interpreter {
        // It might take words of the client's for options of its own.
        Some(interpreter) => (
            interpreter.clone(),
            interpreter.file_name().unwrap_or_default().to_owned(),
            vec![file.into()],
        ),
        None => {
            let words = exchange.query.as_deref().map(arguments).unwrap_or_default();
            (
                file.to_owned(),
                OsStr::from_bytes(name(script)).to_owned(),
                words.into_iter().map(OsString::from_vec).collect(),
            )
        }
    };
    ProgramPlan {
        file: program,
        name: own_name,
        arguments: words,
        environment: environment(variables)
            .map(|(name, value)| {
                (
                    OsString::from_vec(name.into()),
                    OsString::from_vec(value.into()),
                )
            })
            .collect(),
        folder: file.parent().unwrap_or(Path::new("/")).to_owned(),
        limits: ProgramLimits {
            cpu_s: manner.cpu_s,
            memory_bytes: manner.memory_bytes,
            processes: manner.processes,
        },
        has_input,
        user: manner.user.clone(),
    }
}

/// In the words of Apache's log, which people look for.
pub fn complaint(failure: &Failure, script: &Script) -> String {
    let (name, file) = (
        String::from_utf8_lossy(name(script)),
        String::from_utf8_lossy(&script.filename),
    );
    match failure {
        Failure::NotStarted(error) => format!("exec of '{file}' failed: {error}"),
        Failure::Broken(broken) if broken.fault == Fault::Premature => {
            format!("End of script output before headers: {name}")
        }
        Failure::Broken(broken) if broken.fault == Fault::Malformed => {
            format!(
                "malformed header from script '{name}': Bad header: {}",
                broken.excerpt.escape_ascii()
            )
        }
        Failure::Timeout => format!("Script timed out before returning headers: {name}"),
        other => format!("{name}: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_cgi::Broken;

    #[test]
    fn failures_are_told_as_apache_does() {
        let script = Script {
            filename: b"/srv/a b/x.cgi".into(),
            ..Script::default()
        };
        let rows = [
            (
                Failure::Broken(Fault::Premature.into()),
                "End of script output before headers: x.cgi",
            ),
            (
                Failure::Broken(Broken::at(Fault::Malformed, b"no\tcolon")),
                "malformed header from script 'x.cgi': Bad header: no\\tcolon",
            ),
            (
                Failure::Timeout,
                "Script timed out before returning headers: x.cgi",
            ),
        ];
        for (failure, text) in rows {
            assert_eq!(complaint(&failure, &script), text);
        }
        assert!(
            !says_whole_head(&script)
                && says_whole_head(&Script {
                    filename: b"/a/nph-x".into(),
                    ..Script::default()
                })
        );
    }
}
