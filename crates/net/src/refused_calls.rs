//! System calls that a seccomp filter refuses (`saker-sandbox`): they return an error, and are
//! remembered by their number.
//!
//! Called by: the sandbox, before it installs the filter; the main thread, which reports them.
//! Caveat: the handler runs in the middle of anything, on any thread: it touches registers and one
//! atomic number. A process that is asked to run on without it would be killed by the first refused
//! call.
//! Out of scope: which calls are refused.
#![allow(unsafe_code)]

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

/// Bits by number of the call.
static REFUSED: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// Sent by seccomp, and not by a process (`SYS_SECCOMP`, sigaction(2)).
const OF_SECCOMP: i32 = 1;
/// Calls up to this number are older than what libraries try first and do without.
const OLD_MAX: i64 = libc::SYS_clone3 - 1;

/// Handles the signal that a refused call raises.
///
/// # Errors
/// The kernel's.
pub fn listen() -> io::Result<()> {
    // SAFETY: all zeros are a valid `sigaction`, an empty mask included.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = refuse;
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_NODEFER;
    // SAFETY: sigaction(2) reads the struct that lives until after the call; the handler has the
    // three parameters that SA_SIGINFO stands for, and calls nothing but atomic operations. Test:
    // a_worker_of_root_is_confined (server).
    match unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Numbers of the calls that were refused since the last time.
pub fn take() -> impl Iterator<Item = u32> {
    (0_u32..).zip(&REFUSED).flat_map(|(word, bits)| {
        let bits = match bits.load(Ordering::Relaxed) {
            0 => 0,
            _ => bits.swap(0, Ordering::Relaxed),
        };
        (0..64)
            .filter(move |bit| bits & (1 << bit) != 0)
            .map(move |bit| word * 64 + bit)
    })
}

fn remember(number: i64) {
    if let Ok(number) = usize::try_from(number)
        && let Some(bits) = REFUSED.get(number / 64)
    {
        bits.fetch_or(1 << (number % 64), Ordering::Relaxed);
    }
}

/// The result that the call is given.
fn result_of(number: i64) -> i64 {
    i64::from(match number > OLD_MAX {
        true => -libc::ENOSYS,
        false => -libc::EPERM,
    })
}

extern "C" fn refuse(_: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes pointers to both to a handler with SA_SIGINFO, for as long as the
    // handler runs, and nothing else has them. Test: a_worker_of_root_is_confined (server).
    let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    if info.si_code != OF_SECCOMP {
        return;
    }
    // The registers are those at the call, which was skipped; it returns what is stored here.
    #[cfg(target_arch = "x86_64")]
    {
        let register = &mut context.uc_mcontext.gregs[libc::REG_RAX as usize];
        remember(*register);
        *register = result_of(*register);
    }
    #[cfg(target_arch = "aarch64")]
    {
        let registers = &mut context.uc_mcontext.regs;
        let number = registers[8].cast_signed();
        remember(number);
        registers[0] = result_of(number).cast_unsigned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_remembered_until_they_are_taken() {
        for number in [0, 63, 64, 101, 1023, 1024, -1, i64::MAX] {
            remember(number);
        }
        assert_eq!(take().collect::<Vec<_>>(), [0, 63, 64, 101, 1023]);
        assert_eq!(take().count(), 0);
        assert_eq!(result_of(59), -1);
        assert_eq!(result_of(449), -38, "libraries try something older");
    }
}
