//! Landlock: files that may be read and written, and TCP ports that may be bound.
//!
//! Called by: `enforce`.
//! Caveat: nothing here grants the right to execute a file. Connecting, UDP ports, and Unix sockets
//! are not restricted, because upstreams may be anywhere.

use crate::policy::Policy;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort,
    PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope,
};
use std::path::Path;

/// The newest interface that is made use of; an older kernel enforces what it knows.
const KNOWN: ABI = ABI::V6;
/// The first one with ports.
pub const PORTS_ABI: u8 = 4;

/// Restricts this thread and those that it starts. Returns the version of the kernel's interface.
///
/// # Errors
/// The reason why nothing is restricted.
pub fn restrict(policy: &Policy) -> Result<u8, String> {
    let status = try_restrict(policy).map_err(|error| format!("Landlock: {error}"))?;
    match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => Ok(effective_abi as u8),
        LandlockStatus::NotEnabled => {
            Err("Landlock is not enabled (add it to the kernel's `lsm=` list)".into())
        }
        LandlockStatus::NotImplemented => {
            Err("the kernel has no Landlock (Linux 5.13 or later)".into())
        }
    }
}

fn try_restrict(policy: &Policy) -> Result<RestrictionStatus, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::Signal)?;
    if policy.ports.is_some() {
        rules = rules.handle_access(AccessNet::BindTcp)?;
    }
    let mut rules = rules.create()?;
    for path in &policy.reads {
        rules = allow(rules, path, AccessFs::ReadFile | AccessFs::ReadDir)?;
    }
    for path in policy.writes.iter().chain(&policy.main_writes) {
        rules = allow(rules, path, writing())?;
    }
    for port in policy.ports.iter().flatten() {
        rules = rules.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
    }
    rules.restrict_self()
}

/// Takes the writes of the main thread alone from this thread, and from those that it starts. What
/// is in force goes on to hold.
///
/// # Errors
/// The reason why that can't be done.
pub fn restrict_worker(policy: &Policy) -> Result<(), String> {
    let restricted = || -> Result<RestrictionStatus, RulesetError> {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(writing() & !(AccessFs::ReadFile | AccessFs::ReadDir))?
            .create()?;
        for path in &policy.writes {
            rules = allow(
                rules,
                path,
                writing() & !(AccessFs::ReadFile | AccessFs::ReadDir),
            )?;
        }
        rules.restrict_self()
    };
    restricted()
        .map(drop)
        .map_err(|error| format!("Landlock: {error}"))
}

/// Everything but execution and the creation of devices.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_all(KNOWN)
        & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

/// A path that cannot be opened needs no rule: it cannot be used either.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    mut access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(opened) = PathFd::new(path) else {
        return Ok(rules);
    };
    if !path.is_dir() {
        access &= AccessFs::from_file(KNOWN);
    }
    rules.add_rule(PathBeneath::new(opened, access))
}
