//! Confinement of the server's process: files and ports by Landlock, system calls by seccomp.
//!
//! Called by: the start, once privileges are dropped and before there are threads; reloads, which
//! compare what they need with what is in force; log messages about files that cannot be opened.
//! Caveat: what is in force can never be widened. A configuration that needs more needs a new
//! server, which an upgrade starts without loss.
//! Out of scope: what a configuration needs (`server`), and programs, which the broker starts
//! outside of all this.

mod call_table;
mod calls;
mod files;
mod policy;

pub use policy::{Policy, hierarchy};

use std::{
    path::Path,
    sync::{Mutex, OnceLock, PoisonError},
};

/// The confinement of this process, or the reasons why parts of it are missing.
#[derive(Clone, Debug)]
pub struct InForce {
    policy: Policy,
    /// The version of Landlock's interface.
    pub files: Result<u8, String>,
    /// Landlock restricts binding, too.
    pub restricts_ports: bool,
    pub calls: Result<(), String>,
}

static IN_FORCE: OnceLock<InForce> = OnceLock::new();
/// System calls that were reported; each is reported once.
static REPORTED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Confines this thread, and all that begin later; system calls of the others, too. Once per
/// process: later calls return what is in force.
pub fn enforce(policy: Policy) -> &'static InForce {
    IN_FORCE.get_or_init(|| {
        let policy = policy.settled();
        let (files, calls) = match policy.own_programs {
            // They would inherit it, and could not do what programs do.
            Some(reason) => {
                let text = format!("this process starts programs: {reason}");
                (Err(text.clone()), Err(text))
            }
            None => (files::restrict(&policy), calls::restrict()),
        };
        InForce {
            restricts_ports: policy.ports.is_some()
                && files.as_ref().is_ok_and(|abi| *abi >= files::PORTS_ABI),
            policy,
            files,
            calls,
        }
    })
}

/// Takes from this thread, and from those that it starts, what only the main thread may write: the
/// files of the configuration. A worker has clients' bytes in its hands. It shares its memory with
/// the main thread, so this is a hurdle and no wall.
///
/// # Errors
/// The reason why that can't be done.
pub fn restrict_worker() -> Result<(), String> {
    match IN_FORCE.get() {
        Some(in_force) if in_force.files.is_ok() && !in_force.policy.main_writes.is_empty() => {
            files::restrict_worker(&in_force.policy)
        }
        _ => Ok(()),
    }
}

/// The confinement in force, if there is any.
pub fn in_force() -> Option<&'static InForce> {
    IN_FORCE.get()
}

/// Returns true if the sandbox is the reason why a path cannot be read. Looks at the file system:
/// for files that could not be opened.
pub fn denies_reading(path: &Path) -> bool {
    in_force().is_some_and(|in_force| in_force.files.is_ok() && !in_force.policy.may_read(path))
}

/// Names of the system calls that were refused since the last call, each once.
pub fn refused_calls() -> Vec<String> {
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    let fresh = |number: &u32| !reported.contains(number);
    let new: Vec<u32> = saker_net::refused_calls::take().filter(fresh).collect();
    reported.extend(&new);
    new.into_iter().map(call_table::name).collect()
}

impl InForce {
    /// Operations that a configuration needs and this process may not do.
    pub fn lacks(&self, needed: &Policy) -> Vec<String> {
        let mut lacking = Vec::new();
        if let Some(reason) = needed.own_programs
            && (self.files.is_ok() || self.calls.is_ok())
        {
            lacking.push(format!("start programs ({reason})"));
        }
        if self.files.is_err() {
            return lacking;
        }
        let reads = needed
            .reads
            .iter()
            .filter(|path| !self.policy.may_read(path));
        lacking.extend(reads.map(|path| format!("read {}", path.display())));
        let writes = needed
            .writes
            .iter()
            .filter(|path| !self.policy.may_write(path));
        lacking.extend(writes.map(|path| format!("write {}", path.display())));
        let main_writes = needed
            .main_writes
            .iter()
            .filter(|path| !self.policy.main_may_write(path));
        lacking.extend(main_writes.map(|path| format!("write {}", path.display())));
        if let (true, Some(needed), Some(allowed)) =
            (self.restricts_ports, &needed.ports, &self.policy.ports)
        {
            let ports = needed.difference(allowed);
            lacking.extend(ports.map(|port| format!("bind TCP port {port}")));
        }
        lacking
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }
}
