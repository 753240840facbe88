//! systemd's two small protocols: readiness (sd_notify) and inherited sockets (socket activation).
//! See sd_notify(3), sd_listen_fds(3).
//!
//! Called by: the server at start, reload and stop.
//! Caveat: systemd's own functions can clear the environment variables so that children don't act
//! on them, but changing the environment is unsound once threads exist. We leave it alone:
//! LISTEN_PID names our process, so children ignore LISTEN_FDS; the sockets are closed on exec; and
//! programs we start get an environment made for them.
//! Out of scope: the file descriptor store and the watchdog.
#![allow(unsafe_code)]

use crate::BoundSocket;
use std::{
    env, io,
    os::{
        fd::{FromRawFd, OwnedFd, RawFd},
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    sync::atomic::{AtomicBool, Ordering},
};

/// SD_LISTEN_FDS_START.
const FIRST_FD: RawFd = 3;

/// More inherited sockets than this are a mistake in the environment.
const FDS_MAX: RawFd = 1024;

static SOCKETS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Sends lines such as `READY=1`, `RELOADING=1` or `STATUS=…` to the service manager. Without one
/// (no NOTIFY_SOCKET) this does nothing.
pub fn notify(state: &str) -> io::Result<()> {
    match env::var_os("NOTIFY_SOCKET") {
        Some(path) => notify_at(path.as_bytes(), state),
        None => Ok(()),
    }
}

/// The listening sockets that systemd bound for us, with their names; empty when there are none,
/// and from the second call on. To be called first thing in `main`: descriptors 3 and up belong to
/// systemd's list only until the process opens something itself. Inherited sockets that aren't
/// listening streams are closed.
pub fn activated_sockets() -> Vec<BoundSocket> {
    if SOCKETS_TAKEN.swap(true, Ordering::SeqCst) {
        return Vec::new();
    }
    let variable = |name| env::var(name).unwrap_or_default();
    let count = inherited_count(
        &variable("LISTEN_PID"),
        std::process::id(),
        &variable("LISTEN_FDS"),
    );
    let names = variable("LISTEN_FDNAMES");
    let names = names
        .split(':')
        .map(|name| Some(name.to_owned()).filter(|name| !name.is_empty()))
        .chain(std::iter::repeat(None));
    (FIRST_FD..FIRST_FD + count)
        .zip(names)
        .filter_map(|(fd, name)| BoundSocket::adopt(take(fd)?, name).ok())
        .collect()
}

fn notify_at(path: &[u8], state: &str) -> io::Result<()> {
    let address = match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

/// Number of descriptors are ours: none unless LISTEN_PID is our process.
fn inherited_count(listen_pid: &str, our_pid: u32, listen_fds: &str) -> RawFd {
    let is_for_us = listen_pid.parse() == Ok(our_pid);
    listen_fds
        .parse()
        .ok()
        .filter(|count| is_for_us && (0..=FDS_MAX).contains(count))
        .unwrap_or(0)
}

fn take(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: F_GETFD takes a number and touches no memory of ours; it fails on a descriptor that
    // isn't open.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: the descriptor is open (just checked) and nothing else in the process owns it:
    // systemd opened it for exactly this process (LISTEN_PID), the caller comes first in `main`
    // (documented), and SOCKETS_TAKEN prevents taking it twice. Test: takes_over_inherited_sockets.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bind, BindOptions, LocalAddress, bind};
    use std::{os::fd::AsRawFd, process::Command};

    #[test]
    fn notifies_abstract_and_path_sockets() {
        let name = format!("saker-notify-test-{}", std::process::id());
        let receiver =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        notify_at(format!("@{name}").as_bytes(), "READY=1\nSTATUS=serving").unwrap();
        let mut buffer = [0; 100];
        let count = receiver.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"READY=1\nSTATUS=serving");

        let path = env::temp_dir().join(&name);
        let receiver = UnixDatagram::bind(&path).unwrap();
        notify_at(path.as_os_str().as_bytes(), "STOPPING=1").unwrap();
        let count = receiver.recv(&mut buffer).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(&buffer[..count], b"STOPPING=1");
        assert!(notify_at(path.as_os_str().as_bytes(), "READY=1").is_err());
    }

    #[test]
    fn descriptors_count_only_for_the_process_they_were_meant_for() {
        for (pid, fds, expected) in [
            ("42", "2", 2),
            ("41", "2", 0),
            ("", "2", 0),
            ("42", "", 0),
            ("42", "-1", 0),
            ("42", "1025", 0),
            ("42", "99999999999", 0),
            ("42 ", "1", 0),
        ] {
            assert_eq!(inherited_count(pid, 42, fds), expected, "{pid:?} {fds:?}");
        }
    }

    /// A shell stands in for systemd: it moves the sockets to 3 and 4 and starts this test program
    /// again under its own process id.
    #[test]
    fn takes_over_inherited_sockets() {
        let socket = bind(
            Bind::Tcp("127.0.0.1:0".parse().unwrap()),
            BindOptions::default(),
        )
        .unwrap();
        let LocalAddress::Ip(address) = socket.local_address().unwrap() else {
            panic!("not an IP address")
        };
        let inheritable = rustix::io::dup(&socket).unwrap();
        let script = format!(
            "exec 3<&{} 4</dev/null; LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=web:odd EXPECTED={address} \
             exec \"$0\" --ignored --exact systemd::tests::child_takes_sockets",
            inheritable.as_raw_fd()
        );
        let output = Command::new("bash")
            .args(["-c", &script])
            .arg(env::current_exe().unwrap())
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
    #[ignore = "needs inherited descriptors; run by takes_over_inherited_sockets"]
    fn child_takes_sockets() {
        let sockets = activated_sockets();
        assert_eq!(sockets.len(), 1, "the listening socket, not /dev/null");
        assert_eq!(sockets[0].name(), Some("web"));
        assert_eq!(
            sockets[0].local_address().unwrap().to_string(),
            env::var("EXPECTED").unwrap()
        );
        assert!(
            activated_sockets().is_empty(),
            "a second call must not own them again"
        );
    }
}
