//! Services of systemd that would end with the server that systemd knows: those of other programs
//! (Debian's `apache2.service`), which are told of no successor.
//!
//! Called by: upgrades, before they start another server.
//! Caveat: systemd reads the PID file again when the main process ends (systemd.service(5),
//! `PIDFile=`); without one, it takes the service for ended, and stops what is left of it.
//! Out of scope: services that say their main process themselves (`NOTIFY_SOCKET`).

use std::{fs, process::Command};

/// Returns the service of a process that systemd has started, if it would end with that process.
pub fn that_ends_with(pid: u64, environment: &[(String, String)]) -> Option<String> {
    let has = |wanted: &str| environment.iter().any(|(name, _)| name == wanted);
    if !has("INVOCATION_ID") || has("NOTIFY_SOCKET") {
        return None;
    }
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let unit = unit(&groups)?;
    let asked = Command::new("systemctl")
        .args(["show", "--property=Type", "--property=PIDFile", "--", unit])
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&asked.stdout);
    (asked.status.success() && ends_with_main_process(&said)).then(|| unit.to_owned())
}

/// The unit of a process by its groups (`0::/system.slice/apache2.service`).
fn unit(groups: &str) -> Option<&str> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let unit = group.rsplit('/').next()?;
    unit.ends_with(".service").then_some(unit)
}

fn ends_with_main_process(properties: &str) -> bool {
    let has = |start: &str| properties.lines().any(|line| line.starts_with(start));
    has("Type=") && !has("PIDFile=/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_without_a_pid_file_end() {
        assert!(ends_with_main_process("Type=forking\nPIDFile=\n"));
        assert!(ends_with_main_process("Type=simple\n"));
        assert!(!ends_with_main_process(
            "Type=forking\nPIDFile=/run/nginx.pid\n"
        ));
        assert!(!ends_with_main_process(""));
        assert_eq!(
            unit("1:name=systemd:/x\n0::/system.slice/apache2.service\n"),
            Some("apache2.service")
        );
        assert_eq!(unit("0::/user.slice/user-0.slice/session-1.scope\n"), None);
        assert_eq!(unit("0::/\n"), None);
    }

    #[test]
    fn only_systemd_is_asked_about_its_services() {
        let own = u64::from(std::process::id());
        assert_eq!(that_ends_with(own, &[]), None);
        let told = |name: &str| (name.to_owned(), "x".to_owned());
        let notifies = [told("INVOCATION_ID"), told("NOTIFY_SOCKET")];
        assert_eq!(that_ends_with(own, &notifies), None);
    }
}
