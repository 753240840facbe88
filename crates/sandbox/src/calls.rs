//! seccomp: the system calls that a server needs are allowed; all others are refused and reported.
//!
//! Called by: `enforce`.
//! Caveat: a refused call returns an error, so a library that tries a new one falls back to an old
//! one. Of `clone`, only new threads are allowed; `clone3`, whose flags a filter cannot see, is
//! answered as on a kernel without it.

use crate::call_table::{ALLOWED, OLDER, PROGRAMS};
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
pub fn restrict(starts_programs: bool) -> Result<(), String> {
    saker_net::refused_calls::listen().map_err(|error| format!("SIGSYS: {error}"))?;
    if !starts_programs {
        apply(without_clone3())?;
    }
    apply(allowed(starts_programs).map(|rules| (rules, SeccompAction::Trap, SeccompAction::Allow)))
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

fn allowed(starts_programs: bool) -> Result<Rules, seccompiler::BackendError> {
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
    if starts_programs {
        rules.extend(PROGRAMS.iter().map(|call| (*call, Vec::new())));
        return Ok(rules);
    }
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
    fn programs_need_their_calls_and_nothing_else_does() {
        let (without, with) = (allowed(false).unwrap(), allowed(true).unwrap());
        assert!(with.contains_key(&libc::SYS_execve) && !without.contains_key(&libc::SYS_execve));
        assert!(with[&libc::SYS_clone].is_empty() && without[&libc::SYS_clone].len() == 1);
        for never in [
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
            assert!(
                !with.contains_key(&never) && !without.contains_key(&never),
                "{never}"
            );
        }
    }

    #[test]
    fn both_filters_compile_for_this_processor() {
        let architecture: TargetArch = std::env::consts::ARCH.try_into().unwrap();
        for starts_programs in [false, true] {
            let rules = allowed(starts_programs).unwrap();
            let filter = SeccompFilter::new(
                rules,
                SeccompAction::Trap,
                SeccompAction::Allow,
                architecture,
            );
            assert!(!BpfProgram::try_from(filter.unwrap()).unwrap().is_empty());
        }
    }
}
