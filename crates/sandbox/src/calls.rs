//! seccomp: the system calls that a server needs are allowed; all others are refused and reported.
//!
//! Called by: `enforce`.
//! Caveat: a refused call returns an error, so a library that tries a new one falls back to an old
//! one. Of `clone`, only new threads are allowed; `clone3`, whose flags a filter cannot see, is
//! answered as on a kernel without it.

use crate::call_table::{ALLOWED, OLDER};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Families of sockets.
const FAMILIES: [i32; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

/// Restricts all threads of this process.
///
/// # Errors
/// The reason why nothing is restricted.
pub fn restrict() -> Result<(), String> {
    saker_net::refused_calls::listen().map_err(|error| format!("SIGSYS: {error}"))?;
    apply(without_clone3())?;
    apply(allowed().map(|rules| (rules, SeccompAction::Trap, SeccompAction::Allow)))
}

type Filter = Result<(Rules, SeccompAction, SeccompAction), seccompiler::BackendError>;

fn apply(filter: Filter) -> Result<(), String> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH);
    let compiled = filter.and_then(|(rules, otherwise, matched)| {
        let filter = SeccompFilter::new(rules, otherwise, matched, architecture?)?;
        BpfProgram::try_from(filter)
    });
    let program = compiled.map_err(|error| format!("seccomp: {error}"))?;
    apply_filter_all_threads(&program).map_err(|error| format!("seccomp: {error}"))
}

fn without_clone3() -> Filter {
    let rules = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let absent = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    Ok((rules, SeccompAction::Allow, absent))
}

fn allowed() -> Result<Rules, seccompiler::BackendError> {
    let plain = ALLOWED.iter().chain(OLDER);
    let mut rules: Rules = plain.map(|call| (*call, Vec::new())).collect();
    let condition = |operator, value| {
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
    };
    let family = |family: &i32| condition(SeccompCmpOp::Eq, u64::from(family.unsigned_abs()));
    rules.insert(
        libc::SYS_socket,
        FAMILIES.iter().map(family).collect::<Result<_, _>>()?,
    );
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let is_thread = condition(SeccompCmpOp::MaskedEq(thread), thread)?;
    rules.insert(libc::SYS_clone, vec![is_thread]);
    rules.insert(libc::SYS_clone3, Vec::new());
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_their_neighbors_are_out_of_reach() {
        let rules = allowed().unwrap();
        assert_eq!(rules[&libc::SYS_clone].len(), 1, "threads alone");
        for never in [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_bpf,
            libc::SYS_io_uring_setup,
            libc::SYS_process_vm_writev,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_setuid,
            libc::SYS_keyctl,
        ] {
            assert!(!rules.contains_key(&never), "{never}");
        }
    }

    #[test]
    fn the_filter_compiles_for_this_processor() {
        let architecture: TargetArch = std::env::consts::ARCH.try_into().unwrap();
        let (otherwise, matched) = (SeccompAction::Trap, SeccompAction::Allow);
        let filter = SeccompFilter::new(allowed().unwrap(), otherwise, matched, architecture);
        assert!(!BpfProgram::try_from(filter.unwrap()).unwrap().is_empty());
    }
}
