//! A Debian machine of the test's own: this machine's packages, and copies of what they and the
//! server write to.
//!
//! The test program is run once more as the first process of mount, network and process namespaces
//! (unshare(1)); whatever it starts ends with it, and nothing of the machine is changed. Ports
//! below 1024 are root's there, as on a machine with its defaults.
// Each test program uses its part; what is missing is said as it comes.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use saker_testkit::{TempDir, require};
use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Beyond what all of it takes on a busy machine; then it is ended with everything that it has
/// started.
const SECONDS_MAX: &str = "300";
/// Set where the namespaces are.
const OWN: &str = "SAKER_TEST_MACHINE";
/// Folders that packages and servers write to on a Debian machine.
const COVERED: [&str; 6] = [
    "/etc",
    "/var/www",
    "/var/lib/apache2",
    "/var/lib/logrotate",
    "/var/cache/apache2",
    "/var/lib/wordpress",
];

/// Runs an ignored test of this program as root of a machine of its own; returns what it says.
pub fn on_its_own(test: &str) -> String {
    for program in [
        "apache2",
        "a2ensite",
        "openssl",
        "curl",
        "logrotate",
        "fail2ban-regex",
        "ip",
        "unshare",
        "pgrep",
        "setpriv",
    ] {
        require(program).unwrap();
    }
    let output = Command::new("timeout")
        .args([
            "-k",
            "5",
            SECONDS_MAX,
            "unshare",
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ])
        // A shell is the first process, which takes leave of servers whose parents have ended.
        .args(["sh", "-c", "\"$0\" \"$@\"; exit $?"])
        .arg(std::env::current_exe().unwrap())
        .env(OWN, "1")
        .args([
            "--ignored",
            "--exact",
            test,
            "--nocapture",
            "--test-threads",
            "1",
        ])
        .output()
        .unwrap();
    let said = text(&output);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
    said
}

pub fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Runs to its end; what it says where it fails is the test's.
pub fn run<S: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = S>) -> String {
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", PATH)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(
        output.status.success(),
        "{program}: {}\n{}",
        output.status,
        text(&output)
    );
    text(&output)
}

/// The server with the rights that a unit in `contrib` gives it, and no other (setpriv(1)).
pub fn with_rights_of(unit: &str) -> Command {
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../contrib")
            .join(unit),
    )
    .unwrap();
    let rights = text
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="))
        .expect("a set of capabilities");
    let rights: String = rights
        .split(' ')
        .map(|right| format!(",+{}", right.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    let mut command = Command::new("setpriv");
    command
        .arg(format!("--bounding-set=-all{rights}"))
        .arg(crate::operate::SAKER)
        .env("PATH", PATH);
    command
}

/// Root's search path on Debian.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Lays a file system over a folder that takes what is written, in memory.
pub fn overlay(folder: &str) {
    let own = Path::new("/run/written").join(folder.trim_start_matches('/').replace('/', "-"));
    let (upper, work) = (own.join("upper"), own.join("work"));
    fs::create_dir_all(&upper).unwrap();
    fs::create_dir_all(&work).unwrap();
    let options = format!(
        "lowerdir={folder},upperdir={},workdir={}",
        upper.display(),
        work.display()
    );
    run(
        "mount",
        ["-t", "overlay", "overlay", "-o", &options, folder],
    );
}

pub struct Machine {
    pub dir: TempDir,
}

impl Machine {
    pub fn lay_out(name: &str) -> Machine {
        assert!(
            std::env::var_os(OWN).is_some() && std::process::id() < 10,
            "only in namespaces of its own"
        );
        let machine = Machine {
            dir: TempDir::new(name).unwrap(),
        };
        fs::set_permissions(&machine.dir, fs::Permissions::from_mode(0o711)).unwrap();
        // What the boot of a machine makes there.
        run("mount", ["-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"]);
        overlay("/var/lib");
        for path in COVERED
            .map(Path::new)
            .into_iter()
            .filter(|path| path.exists())
        {
            machine.cover(path);
        }
        for folder in ["/run/lock", "/run/apache2", "/run/php"] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::set_permissions("/run/lock", fs::Permissions::from_mode(0o1777)).unwrap();
        // As the package makes it.
        let logs = machine.dir.join("log");
        fs::create_dir_all(logs.join("apache2")).unwrap();
        run("mount", ["--bind", &logs.to_string_lossy(), "/var/log"]);
        machine.stock_logs();
        // Where containers keep services from being started.
        let policy = Path::new("/usr/sbin/policy-rc.d");
        if policy.exists() {
            let allowed = machine
                .dir
                .write("policy-rc.d", "#!/bin/sh\nexit 0\n")
                .unwrap();
            machine.replace(policy, &allowed);
        }
        run("ip", ["link", "set", "lo", "up"]);
        fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "1024").unwrap();
        machine
    }

    /// `/var/log/apache2` as after the installation of the package.
    pub fn stock_logs(&self) {
        let folder = Path::new("/var/log/apache2");
        fs::remove_dir_all(folder).unwrap();
        run(
            "install",
            [
                "-d",
                "-m",
                "750",
                "-o",
                "root",
                "-g",
                "adm",
                "/var/log/apache2",
            ],
        );
        for name in ["access.log", "error.log", "other_vhosts_access.log"] {
            run(
                "install",
                [
                    "-m",
                    "640",
                    "-o",
                    "root",
                    "-g",
                    "adm",
                    "/dev/null",
                    &folder.join(name).to_string_lossy(),
                ],
            );
        }
    }

    /// Lays a copy over a folder.
    fn cover(&self, path: &Path) {
        let copy = self.dir.join(
            path.strip_prefix("/")
                .unwrap()
                .to_string_lossy()
                .replace('/', "-"),
        );
        run(
            "cp",
            ["-a", &path.to_string_lossy(), &copy.to_string_lossy()],
        );
        run(
            "mount",
            ["--bind", &copy.to_string_lossy(), &path.to_string_lossy()],
        );
    }

    /// Lays a program over another, until [`restore`](Self::restore).
    pub fn replace(&self, path: &Path, by: &Path) {
        fs::set_permissions(by, fs::Permissions::from_mode(0o755)).unwrap();
        run(
            "mount",
            ["--bind", &by.to_string_lossy(), &path.to_string_lossy()],
        );
    }

    pub fn restore(&self, path: &Path) {
        run("umount", [path]);
    }

    /// A certificate below `/etc/ssl`, its key 0600 in a folder of root's alone (0700).
    pub fn certificate(&self, name: &str) -> (PathBuf, PathBuf) {
        let keys = PathBuf::from("/etc/ssl/keys");
        run(
            "install",
            [
                "-d",
                "-m",
                "700",
                "-o",
                "root",
                "-g",
                "root",
                &keys.to_string_lossy(),
            ],
        );
        let (certificate, key) = (
            PathBuf::from(format!("/etc/ssl/certs/{name}.pem")),
            keys.join(format!("{name}.key")),
        );
        let (subject, names) = (format!("/CN={name}"), format!("subjectAltName=DNS:{name}"));
        let words = [
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "30",
        ];
        let own = [
            "-subj",
            &subject,
            "-addext",
            &names,
            "-keyout",
            &key.to_string_lossy(),
            "-out",
            &certificate.to_string_lossy(),
        ]
        .map(str::to_owned);
        run("openssl", words.map(str::to_owned).into_iter().chain(own));
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        (certificate, key)
    }
}

/// Mode, user and group of each file below a folder, and its own.
pub fn owners(folder: &str) -> Vec<String> {
    let listed = run("find", [folder, "-printf", "%m %u:%g %p\n"]);
    let mut lines: Vec<String> = listed.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Effective users of a process and of what it has started, the process first.
pub fn users_of(pid: u32) -> Vec<u32> {
    let children = Command::new("pgrep")
        .args(["-P", &pid.to_string()])
        .output()
        .unwrap()
        .stdout;
    let children = String::from_utf8_lossy(&children).into_owned();
    let owner = |pid: &str| fs::metadata(format!("/proc/{pid}")).map(|found| found.uid());
    std::iter::once(owner(&pid.to_string()).unwrap())
        .chain(children.lines().filter_map(|pid| owner(pid.trim()).ok()))
        .collect()
}
