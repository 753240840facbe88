//! Process attributes: user, limits, cores, name.
//!
//! Called by: the server, once at start (before workers exist), and each worker (`pin_to_cores`).
//! Caveat: root must be given up for good: supplementary groups, then group, then user, then a
//! check that it worked. Other processes of that user must not see its secrets (memory with keys,
//! the state directory), so the process cannot be traced or inspected (PR_SET_DUMPABLE), and holds
//! a group that they don't.
#![allow(unsafe_code)]

use rustix::{
    process::{Gid, Resource, Rlimit, Uid},
    thread::CpuSet,
};
use std::{
    ffi::{CStr, CString, OsString},
    io,
    mem::MaybeUninit,
    ops::RangeInclusive,
    os::unix::ffi::OsStringExt,
    path::PathBuf,
    ptr,
    sync::OnceLock,
};

/// The cores of the process before the first thread was bound to one.
static UNPINNED: OnceLock<CpuSet> = OnceLock::new();

/// Linux keeps 15 bytes of a name.
const NAME_BYTES_MAX: usize = 15;

/// The reentrant look-ups are given at most this much room for one entry (groups may list thousands
/// of members).
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Groups that no user database hands out (systemd's "Users, Groups, UIDs and GIDs": unused). One
/// of them guards the state directory.
pub const GUARD_GROUPS: RangeInclusive<u32> = 1_879_048_192..=2_147_483_646;

/// Becomes `user` (a name or a number) with `group`, or else the user's own group, and the user's
/// supplementary groups; on all threads. Already being that user and group is a success. Afterwards
/// root can't be regained, or this is an error. Becoming root is refused. `guard`: a group that the
/// process keeps besides. Other processes of the user can't trace this one then, and not read its
/// memory.
pub fn become_user(user: &str, group: Option<&str>, guard: Option<u32>) -> io::Result<()> {
    let identity = Identity::look_up(user, group)?;
    if identity.uid == 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "refusing to run as root: name another user",
        ));
    }
    if !rustix::process::geteuid().is_root() {
        return identity.is_ours();
    }
    identity.set_groups()?;
    guard.map_or(Ok(()), hold_group)?;
    // SAFETY: setgid takes a number and touches no memory of ours; glibc applies it to all threads.
    // Test: root_is_gone_for_good.
    check(unsafe { libc::setgid(identity.gid) })?;
    // SAFETY: as above. Last, because it takes away the right to do the others.
    check(unsafe { libc::setuid(identity.uid) })?;
    identity.prove()?;
    hide_memory()
}

/// Adds a group to those of the process. Only root can; in a user namespace that does not know the
/// group, not even root.
pub fn hold_group(gid: u32) -> io::Result<()> {
    let mut groups: Vec<u32> = rustix::process::getgroups()?
        .into_iter()
        .map(Gid::as_raw)
        .filter(|other| *other != gid)
        .collect();
    groups.push(gid);
    // SAFETY: setgroups reads `groups.len()` numbers through the pointer during the call; the
    // vector has that many and lives longer. Test: root_is_gone_for_good.
    check(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })
}

/// The kernel does so by itself when the user changes, unless it was told not to (fs.suid_dumpable
/// = 1).
fn hide_memory() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
    match dumpable_behavior()? {
        DumpableBehavior::Dumpable => Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?),
        _ => Ok(()),
    }
}

/// The number of a user given by name or number; `None` if there is no such user.
pub fn user_id(user: &str) -> io::Result<Option<u32>> {
    let entry = user_entry(&CString::new(user)?)?;
    Ok(entry.map(|entry| entry.uid).or_else(|| user.parse().ok()))
}

/// The home of a user given by name; `None` if there is no such user, or he has none.
pub fn home_of(user: &str) -> io::Result<Option<PathBuf>> {
    Ok(user_entry(&CString::new(user)?)?
        .map(|entry| entry.home)
        .filter(|home| home.is_absolute()))
}

/// Raises the soft limit of open descriptors to the hard one and returns the limit now in force.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        rustix::process::setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            },
        )?;
    }
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Marks every descriptor but the standard ones to be closed when another program takes this
/// process over. Those that are to be inherited are marked so after this, between fork and exec.
/// Makes system calls alone, so that it may be called there.
pub fn close_at_exec() {
    // SAFETY: close_range takes numbers and touches no memory of ours; with CLOSE_RANGE_CLOEXEC it
    // closes nothing in this process, so that no owner of a descriptor is deceived. Tests:
    // nothing_of_the_server_goes_along, nothing_is_inherited_but_what_was_ordered (crate `broker`).
    if unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3_u32,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    } == 0
    {
        return;
    }
    // Before Linux 5.11.
    let limit = rustix::process::getrlimit(Resource::Nofile)
        .current
        .unwrap_or(DESCRIPTORS_LOOKED_AT)
        .min(DESCRIPTORS_LOOKED_AT);
    for number in 3..i32::try_from(limit).unwrap_or(i32::MAX) {
        // SAFETY: fcntl with F_SETFD takes numbers, closes nothing, and fails for what is not open.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// Without close_range(2): numbers above are not in use by servers that run on such kernels.
const DESCRIPTORS_LOOKED_AT: u64 = 1 << 20;

/// After something large was taken apart: a configuration of thousands of hosts leaves more free
/// memory behind than it keeps.
pub fn give_back_freed_memory() {
    // SAFETY: malloc_trim takes its own locks, touches no memory that is in use, and has no
    // precondition (malloc_trim(3)); it only gives pages that hold nothing back to the kernel.
    // Test: giving_back_memory_takes_none_that_is_used.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Binds the calling thread to cores, by the kernel's numbers (see [`allowed_cores`]).
pub fn pin_to_cores(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for core in cores {
        if *core >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(*core);
    }
    if let Ok(before) = rustix::thread::sched_getaffinity(None) {
        UNPINNED.get_or_init(|| before);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Lets the calling thread run wherever it could before any was bound to a core: threads begin
/// where the one was that made them.
pub fn unpin() {
    if let Some(before) = UNPINNED.get() {
        // Cores that have been taken away since leave those that there are.
        let _ = rustix::thread::sched_setaffinity(None, before);
    }
}

/// The cores that this thread may run on (cpusets and taskset considered), ascending. Empty only if
/// the kernel won't tell.
pub fn allowed_cores() -> Vec<usize> {
    let Ok(cores) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..CpuSet::MAX_CPU)
        .filter(|core| cores.is_set(*core))
        .collect()
}

/// Names the calling thread as `ps` and `top` show it; on the main thread that is the process. Cut
/// to 15 bytes, NUL left out.
pub fn set_process_name(name: &str) -> io::Result<()> {
    let bytes: Vec<u8> = name
        .bytes()
        .filter(|byte| *byte != 0)
        .take(NAME_BYTES_MAX)
        .collect();
    let name = CString::new(bytes)?;
    Ok(rustix::thread::set_name(&name)?)
}

/// A user with a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    uid: u32,
    gid: u32,
    /// Known to the user database, so that supplementary groups can be looked up.
    name: Option<CString>,
}

impl Identity {
    /// By names or numbers; without a group the user's own.
    pub fn look_up(user: &str, group: Option<&str>) -> io::Result<Identity> {
        let name = CString::new(user)?;
        let group = group.map(group_id).transpose()?;
        if let Some(entry) = user_entry(&name)? {
            return Ok(Identity {
                uid: entry.uid,
                gid: group.unwrap_or(entry.gid),
                name: Some(name),
            });
        }
        let number = user.parse::<u32>().ok().filter(|uid| *uid != u32::MAX);
        match (number, group) {
            (Some(uid), Some(gid)) => Ok(Identity {
                uid,
                gid,
                name: None,
            }),
            (Some(_), None) => Err(not_found("user given by number needs a group", user)),
            (None, _) => Err(not_found("no such user", user)),
        }
    }

    pub fn uid(&self) -> u32 {
        self.uid
    }

    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// Without root there is nothing to change: right only if it is so already.
    fn is_ours(&self) -> io::Result<()> {
        let is_ours = rustix::process::getuid().as_raw() == self.uid
            && rustix::process::getgid().as_raw() == self.gid;
        if is_ours {
            Ok(())
        } else {
            Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "only root can change user and group",
            ))
        }
    }

    /// For a process that has not begun yet, and one that has one thread.
    pub(crate) fn take(&self) -> io::Result<()> {
        if rustix::process::geteuid().is_root() {
            self.set_groups()?;
        }
        // SAFETY: setgid takes a number and touches no memory of ours. Test:
        // a_program_is_started_and_its_end_is_heard (crate `broker`).
        check(unsafe { libc::setgid(self.gid) })?;
        // SAFETY: as above. Last, because it takes away the right to do the others.
        check(unsafe { libc::setuid(self.uid) })
    }

    fn set_groups(&self) -> io::Result<()> {
        match &self.name {
            // SAFETY: initgroups reads the NUL-terminated string during the call and keeps nothing
            // (initgroups(3)); the CString lives longer. Test: root_is_gone_for_good.
            Some(name) => check(unsafe { libc::initgroups(name.as_ptr(), self.gid) }),
            // SAFETY: setgroups reads one gid_t through the pointer during the call; `self.gid` is
            // one. Test: a_number_needs_a_group.
            None => check(unsafe { libc::setgroups(1, &raw const self.gid) }),
        }
    }

    /// Belief is not enough: with a saved user id left over, or capabilities kept, root would be
    /// one call away.
    fn prove(&self) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let is_changed = rustix::process::getuid() == uid
            && rustix::process::geteuid() == uid
            && rustix::process::getgid() == gid
            && rustix::process::getegid() == gid;
        // SAFETY: setuid takes a number and touches no memory of ours; it is expected to fail.
        // Test: root_is_gone_for_good.
        let is_root_again = unsafe { libc::setuid(0) } == 0;
        if is_changed && !is_root_again {
            Ok(())
        } else {
            Err(io::Error::other("root privileges could not be given up"))
        }
    }
}

pub fn group_id(group: &str) -> io::Result<u32> {
    let name = CString::new(group)?;
    if let Some(gid) = group_entry(&name)? {
        return Ok(gid);
    }
    group
        .parse()
        .ok()
        .filter(|gid| *gid != u32::MAX)
        .ok_or_else(|| not_found("no such group", group))
}

/// Entry of a user in the user database.
#[derive(Debug)]
struct UserEntry {
    uid: u32,
    gid: u32,
    home: PathBuf,
}

/// Looks up a user name through the system's name services.
fn user_entry(name: &CStr) -> io::Result<Option<UserEntry>> {
    with_growing_buffer(|buffer| {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found: *mut libc::passwd = ptr::null_mut();
        // SAFETY: getpwnam_r reads the NUL-terminated name, writes the entry, at most buffer.len()
        // bytes of strings and the result pointer, all live and exclusively borrowed for the call
        // (guaranteed here). Test: looks_up_users_and_groups.
        let error = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        if error != 0 || found.is_null() {
            return (error, None);
        }
        // SAFETY: success with a result pointer means that the entry is filled in (getpwnam_r(3)).
        let entry = unsafe { entry.assume_init() };
        // SAFETY: its strings are NUL-terminated and lie in `buffer`, which is there and unchanged
        // until this closure returns; the bytes are copied. Test: looks_up_users_and_groups.
        let home = unsafe { CStr::from_ptr(entry.pw_dir) }.to_bytes().to_vec();
        (
            0,
            Some(UserEntry {
                uid: entry.pw_uid,
                gid: entry.pw_gid,
                home: OsString::from_vec(home).into(),
            }),
        )
    })
}

fn group_entry(name: &CStr) -> io::Result<Option<u32>> {
    with_growing_buffer(|buffer| {
        let mut entry = MaybeUninit::<libc::group>::uninit();
        let mut found: *mut libc::group = ptr::null_mut();
        // SAFETY: as for getpwnam_r in `user_entry`. Test: looks_up_users_and_groups.
        let error = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        if error != 0 || found.is_null() {
            return (error, None);
        }
        // SAFETY: as in `user_entry`.
        let entry = unsafe { entry.assume_init() };
        (0, Some(entry.gr_gid))
    })
}

/// Calls a reentrant look-up again with more room as long as it says ERANGE. "Not there" has many
/// spellings (getpwnam(3), ERRORS).
fn with_growing_buffer<T>(
    look_up: impl Fn(&mut [u8]) -> (i32, Option<T>),
) -> io::Result<Option<T>> {
    let mut buffer = vec![0; 1024];
    loop {
        match look_up(&mut buffer) {
            (libc::ERANGE, _) if buffer.len() < ENTRY_BYTES_MAX => {
                buffer.resize(buffer.len() * 4, 0)
            }
            (libc::EINTR, _) => {}
            (0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM, found) => {
                return Ok(found);
            }
            (error, _) => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn not_found(what: &str, name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{what}: {name}"))
}

/// The machine's name in lower case; empty if the system does not tell.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_ascii().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn giving_back_memory_takes_none_that_is_used() {
        let mut kept = Vec::new();
        for number in 0..10_000_u32 {
            let text = number.to_string().repeat(20);
            if number % 2 == 0 {
                kept.push(text);
            }
        }
        give_back_freed_memory();
        assert!(
            kept.iter()
                .zip((0..10_000_u32).step_by(2))
                .all(|(text, number)| *text == number.to_string().repeat(20))
        );
    }

    /// Runs one of the ignored tests below in a process of its own: changing the user can't be
    /// undone.
    fn in_own_process(test: &str) {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let test = format!("process::tests::{test}");
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", &test])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    #[test]
    fn root_is_gone_for_good() {
        in_own_process("child_becomes_nobody");
    }

    #[test]
    fn a_number_needs_a_group() {
        in_own_process("child_becomes_a_number");
    }

    #[test]
    #[ignore = "changes the user of the process; run by root_is_gone_for_good"]
    fn child_becomes_nobody() {
        become_user("nobody", None, Some(*GUARD_GROUPS.start())).unwrap();
        assert!(
            rustix::process::getgroups()
                .unwrap()
                .contains(&Gid::from_raw(*GUARD_GROUPS.start()))
        );
        assert!(!matches!(
            rustix::process::dumpable_behavior(),
            Ok(rustix::process::DumpableBehavior::Dumpable)
        ));
        let uid = user_entry(c"nobody").unwrap().unwrap().uid;
        assert_eq!(rustix::process::getuid().as_raw(), uid);
        assert!(!rustix::process::getgroups().unwrap().contains(&Gid::ROOT));
        assert!(std::fs::read("/etc/shadow").is_err());
        become_user("nobody", None, None).unwrap();
        assert!(become_user("daemon", None, None).is_err());
    }

    #[test]
    #[ignore = "changes the user of the process; run by a_number_needs_a_group"]
    fn child_becomes_a_number() {
        assert!(become_user("54321", None, None).is_err());
        become_user("54321", Some("54322"), None).unwrap();
        assert_eq!(rustix::process::getuid().as_raw(), 54321);
        assert_eq!(
            rustix::process::getgroups().unwrap(),
            [Gid::from_raw(54322)]
        );
    }

    #[test]
    fn looks_up_users_and_groups() {
        let root = user_entry(c"root").unwrap().unwrap();
        assert_eq!(
            (root.uid, root.gid, root.home.to_str()),
            (0, 0, Some("/root"))
        );
        assert_eq!(group_entry(c"root").unwrap(), Some(0));
        assert!(user_entry(c"no-such-user-here").unwrap().is_none());
        assert_eq!(group_id("12345").unwrap(), 12345);
        assert!(group_id("no-such-group-here").is_err());
    }

    #[test]
    fn unusable_users_are_refused() {
        for user in ["root", "0", "no-such-user-here", "", "4294967295", "a\0b"] {
            assert!(become_user(user, Some("0"), None).is_err(), "{user:?}");
        }
    }

    #[test]
    fn descriptor_limit_reaches_the_hard_one() {
        let limit = raise_descriptor_limit().unwrap();
        assert_eq!(
            rustix::process::getrlimit(Resource::Nofile)
                .current
                .unwrap_or(u64::MAX),
            limit
        );
    }

    #[test]
    fn pinning_leaves_one_core() {
        std::thread::spawn(|| {
            let core = *allowed_cores().last().unwrap();
            pin_to_cores(&[core]).unwrap();
            assert_eq!(allowed_cores(), [core]);
            assert!(pin_to_cores(&[usize::MAX]).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn names_are_cut() {
        std::thread::spawn(|| {
            set_process_name("saker\0 worker number 7").unwrap();
            assert_eq!(
                rustix::thread::name().unwrap().as_bytes(),
                b"saker worker nu"
            );
        })
        .join()
        .unwrap();
    }
}
