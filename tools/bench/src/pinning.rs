//! Programs that commands are run by: where they are, and the core that they run on.
//!
//! Called by: whatever starts a server, a load tool, or an upstream.
//! Caveat: the words become part of the command line, so a report shows them.
//! Out of scope: cores of threads of this process (`sampling`).

use saker_testkit::require;

/// Words before a command that pin it to a core.
pub fn pinning(core: Option<usize>) -> Result<Vec<String>, String> {
    let Some(core) = core else {
        return Ok(Vec::new());
    };
    Ok(vec![program("taskset")?, "-c".into(), core.to_string()])
}

/// Returns the path of an installed program.
pub fn program(name: &str) -> Result<String, String> {
    Ok(require(name)?.display().to_string())
}
