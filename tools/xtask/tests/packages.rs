//! The packages and the image as a machine gets them: installed, upgraded, removed, and purged in a
//! Debian root that has nothing but Debian's own; the image unpacked and run.
//!
//! Called by: `cargo test -p xtask --test packages`, as root; needs the server's debug build, which
//! is packed in place of a release build (`cargo build -p saker`).
//! Caveat: systemd does not run in the root: the server is started as its unit says, by setpriv(1).
//! The root comes from Debian's mirror once, and is kept in `SAKER_CACHE`.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole program is tests.

use saker_testkit::{TempDir, require, wait_until};
use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

/// Set where the namespaces are: the folder with packages and root.
const OWN: &str = "SAKER_TEST_PACKAGES";
const RELEASE: &str = "bookworm";

fn is_root() -> bool {
    run(Command::new("id").arg("-u")).trim() == "0"
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn binary() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("saker");
    assert!(path.exists(), "{}: cargo build -p saker", path.display());
    path
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        text(&output)
    );
    text(&output)
}

fn package(parts: &[&str], version: &str, out: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .arg("package")
        .args(parts)
        .args(["--quick", "--version", version]);
    run(command.arg("--binary").arg(binary()).arg("--out").arg(out));
}

fn deb(folder: &Path, name: &str) -> PathBuf {
    let found = fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let named = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|file| file.to_string_lossy().starts_with(&format!("{name}_")))
    };
    found
        .into_iter()
        .find(named)
        .unwrap_or_else(|| panic!("no package {name}"))
}

/// A test of this program in namespaces of its own, which end with everything that it has started.
fn on_its_own(test: &str, folder: &Path) {
    let mut command = Command::new("timeout");
    command
        .args([
            "-k", "5", "300", "unshare", "--mount", "--net", "--pid", "--fork",
        ])
        .args([
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            "\"$0\" \"$@\"; exit $?",
        ])
        .arg(env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            test,
            "--nocapture",
            "--test-threads",
            "1",
        ])
        .env(OWN, folder);
    let said = run(&mut command);
    assert!(said.contains("1 passed"), "{said}");
}

/// An empty Debian machine.
fn lay_out_root(folder: &Path) {
    let cache = env::var_os("SAKER_CACHE").map_or_else(
        || {
            PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/root".into()))
                .join(".cache/saker")
        },
        PathBuf::from,
    );
    fs::create_dir_all(&cache).unwrap();
    let archive = cache.join(format!("debian-{RELEASE}.tar"));
    if !archive.exists() {
        let new = archive.with_extension("new.tar");
        let program = require("mmdebstrap").unwrap();
        run(Command::new(program)
            .args([
                "--quiet",
                "--variant=essential",
                "--include=adduser",
                RELEASE,
            ])
            .arg(&new));
        fs::rename(new, &archive).unwrap();
    }
    fs::create_dir_all(folder).unwrap();
    run(Command::new("tar")
        .args(["--extract", "--exclude=./dev/*", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(folder));
}

fn chroot(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("chroot");
    command
        .arg(root)
        .args(words)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("LC_ALL", "C");
    command
}

fn install(root: &Path, deb: &Path) {
    fs::copy(deb, root.join("new.deb")).unwrap();
    let said = run(&mut chroot(root, &["dpkg", "--install", "/new.deb"]));
    assert!(!said.contains("warning"), "{said}");
    fs::remove_file(root.join("new.deb")).unwrap();
}

/// The server, in its root.
struct Server(Child);

impl Server {
    /// As user saker, with the rights of the unit.
    fn start(root: &Path) -> Server {
        let unit = fs::read_to_string(root.join("lib/systemd/system/saker.service")).unwrap();
        let setting = |name: &str| {
            let line = unit.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name}")).to_owned()
        };
        let rights = setting("AmbientCapabilities=CAP_").to_lowercase();
        assert_eq!(setting("CapabilityBoundingSet=CAP_").to_lowercase(), rights);
        let mut command = as_saker(root, &rights);
        command.args(setting("ExecStart=").split(' '));
        Server(command.stderr(Stdio::inherit()).spawn().unwrap())
    }
}

fn as_saker(root: &Path, rights: &str) -> Command {
    let mut command = chroot(root, &["setpriv", "--reuid=saker", "--regid=saker"]);
    command
        .args(["--init-groups", "--no-new-privs"])
        .arg(format!("--inh-caps=-all,+{rights}"))
        .arg(format!("--ambient-caps=-all,+{rights}"))
        .arg(format!("--bounding-set=-all,+{rights}"));
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn curl(arguments: &[&str]) -> String {
    let mut command = Command::new(require("curl").unwrap());
    command.args(["-sS", "-m", "20"]).args(arguments);
    text(&command.output().unwrap())
}

#[test]
fn lintian_finds_no_error() {
    let folder = TempDir::new("packages-lintian").unwrap();
    package(&["deb"], "0.2.0", &folder);
    let debs = ["saker", "saker-compat", "saker-dbgsym"].map(|name| deb(&folder, name));
    let output = Command::new(require("lintian").unwrap())
        .args(["--allow-root", "--fail-on", "error"])
        .args(&debs)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let sums = fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert_eq!(sums.lines().count(), debs.len(), "{sums}");
    // Twice the same.
    let again = TempDir::new("packages-again").unwrap();
    package(&["deb"], "0.2.0", &again);
    assert_eq!(fs::read_to_string(again.join("SHA256SUMS")).unwrap(), sums);
}

#[test]
fn the_rpm_package_has_what_the_debian_one_has() {
    require("rpm").unwrap();
    let dir = TempDir::new("package-rpm").unwrap();
    package(&["rpm", "deb"], "9.8.7", &dir);
    let machine = env::consts::ARCH;
    let file = dir.join(format!("saker-9.8.7-1.{machine}.rpm"));
    let ask = |option: &str| run(Command::new("rpm").args(["-qp", option]).arg(&file));
    let facts = ask("--info");
    for fact in [
        "Version     : 9.8.7",
        "License     : Apache-2.0 OR MIT",
        "Build Host  : localhost",
    ] {
        assert!(facts.contains(fact), "{fact}: {facts}");
    }
    let (requires, scripts) = (ask("--requires"), ask("--scripts"));
    assert!(
        requires.contains("glibc >= 2.") && requires.contains("libgcc"),
        "{requires}"
    );
    assert!(!requires.contains("libc.so"), "{requires}");
    for part in [
        "useradd --system",
        "systemctl reload saker.service",
        "disable --now",
    ] {
        assert!(scripts.contains(part), "{part}: {scripts}");
    }
    assert!(ask("--configfiles").contains("/etc/saker/saker.toml\n"));

    let (unpacked, debian) = (dir.join("unpacked"), dir.join("debian"));
    fs::create_dir(&unpacked).unwrap();
    let unpack = "rpm2cpio \"$0\" | cpio --quiet -idm";
    run(Command::new("sh")
        .args(["-c", unpack])
        .arg(&file)
        .current_dir(&unpacked));
    run(Command::new("dpkg-deb")
        .arg("-x")
        .arg(deb(&dir, "saker"))
        .arg(&debian));
    let same = |path: &str, there: &str| {
        assert_eq!(
            fs::read(unpacked.join(path)).unwrap(),
            fs::read(debian.join(there)).unwrap(),
            "{path}"
        );
    };
    same("usr/bin/saker", "usr/bin/saker");
    same("etc/saker/saker.toml", "etc/saker/saker.toml");
    same(
        "usr/lib/systemd/system/saker.service",
        "lib/systemd/system/saker.service",
    );
    assert!(unpacked.join("etc/saker/sites-enabled").is_dir());
    assert!(!unpacked.join("etc/apparmor.d").exists());
    let said = run(Command::new(unpacked.join("usr/bin/saker")).args(["version", "--json"]));
    assert!(said.contains("\"version\""), "{said}");
    for (name, _) in [("pre", 0), ("post", 1), ("preun", 0), ("postun", 0)] {
        let script = repository().join("contrib/rpm").join(name);
        run(Command::new("sh").arg("-n").arg(script));
    }
    // The same commit and binary, the same bytes.
    let again = TempDir::new("package-rpm-again").unwrap();
    package(&["rpm"], "9.8.7", &again);
    let second = again.join(file.file_name().unwrap());
    assert!(
        fs::read(&file).unwrap() == fs::read(second).unwrap(),
        "not reproducible"
    );
}

#[test]
fn the_unit_is_hardened() {
    let unit = repository().join("contrib/debian/saker.service");
    // The threshold is ten times the score.
    run(Command::new(require("systemd-analyze").unwrap())
        .args(["security", "--offline=yes", "--no-pager", "--threshold=20"])
        .arg(unit));
}

#[test]
fn the_apparmor_profile_is_read() {
    let profile = repository().join("contrib/debian/apparmor");
    run(Command::new(require("apparmor_parser").unwrap())
        .args(["--skip-kernel-load", "--skip-cache"])
        .arg(profile));
}

/// As the package has it, with users that are on every machine: a folder of the server's own, in
/// which its user may have put what it likes.
#[test]
fn logs_are_rotated_with_the_rights_of_the_server() {
    if !is_root() {
        return println!("left out: needs root");
    }
    let folder = TempDir::new("packages-logrotate").unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let logs = folder.join("log");
    fs::create_dir(&logs).unwrap();
    let secret = folder.write("secret", "root's\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(logs.join("access.log"), "a line\n").unwrap();
    std::os::unix::fs::symlink(&secret, logs.join("linked.log")).unwrap();
    fs::hard_link(&secret, logs.join("hard.log")).unwrap();
    fs::copy(&secret, logs.join("unreadable.log")).unwrap();
    run(Command::new("chown").arg("nobody:nogroup").arg(&logs));
    run(Command::new("chown")
        .arg("nobody:nogroup")
        .arg(logs.join("access.log")));
    let rules = fs::read_to_string(repository().join("contrib/debian/logrotate")).unwrap();
    assert!(rules.contains("su saker saker") && rules.contains("create 640 saker saker"));
    let rules = rules
        .replace("saker saker", "nobody nogroup")
        .replace("/var/log/saker", &logs.to_string_lossy())
        .replace("[ -d /run/systemd/system ]", "true")
        .replace(
            "systemctl",
            &format!("id -u >{}; true", folder.join("who").display()),
        );
    let rules = folder.write("rules", rules).unwrap();
    fs::set_permissions(&rules, fs::Permissions::from_mode(0o644)).unwrap();
    for _ in 0..3 {
        fs::write(logs.join("access.log"), "a line\n").unwrap();
        let output = Command::new(require("logrotate").unwrap())
            .args(["--force", "--state"])
            .args([&folder.join("state"), &rules])
            .output()
            .unwrap();
        // It says that it can't read the one of root's.
        let said = text(&output);
        assert!(
            output.status.success() || said.contains("unreadable.log"),
            "{said}"
        );
    }
    let rotated = |name: &str| logs.join(name).exists();
    assert!(rotated("access.log.1") && rotated("access.log.2.gz"));
    assert!(!rotated("linked.log.1") && !rotated("hard.log.1"));
    assert!(!rotated("unreadable.log.2.gz"), "root's rights were used");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "root's\n");
    // The signal is root's to send.
    assert_eq!(fs::read_to_string(folder.join("who")).unwrap(), "0\n");
}

#[test]
fn packages_on_a_clean_debian() {
    if !is_root() {
        return println!("left out: needs root");
    }
    let _turn = saker_testkit::heavy();
    let folder = TempDir::new("packages-root").unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    package(&["deb"], "0.2.0", &folder.join("first"));
    package(&["deb"], "0.2.1", &folder.join("second"));
    lay_out_root(&folder.join("root"));
    on_its_own("on_a_clean_debian", &folder);
}

#[test]
#[ignore = "changes what it can reach; run by packages_on_a_clean_debian"]
fn on_a_clean_debian() {
    let folder = PathBuf::from(env::var_os(OWN).expect("only in namespaces of its own"));
    let root = folder.join("root");
    let (before, accounts_before) = (listing(&root), accounts(&root));
    run(Command::new("ip").args(["link", "set", "lo", "up"]));
    run(Command::new("mount")
        .args(["-t", "proc", "proc"])
        .arg(root.join("proc")));
    run(Command::new("mount")
        .args(["--rbind", "/dev"])
        .arg(root.join("dev")));
    install(&root, &deb(&folder.join("first"), "saker"));
    let mut server = Server::start(&root);
    answers(&root);
    upgrade(&root, &folder, &mut server);
    let configuration = root.join("etc/saker/saker.toml");
    assert!(
        fs::read_to_string(&configuration)
            .unwrap()
            .ends_with("# mine\n")
    );
    compat(&root, &folder);
    // What runs is stopped: its user is about to go.
    run(&mut chroot(&root, &["dpkg", "--remove", "saker"]));
    server.0.wait().unwrap();
    assert!(!root.join("usr/bin/saker").exists() && configuration.exists());
    again_and_purged(&root, &folder);
    run(Command::new("umount").arg(root.join("proc")));
    run(Command::new("umount").args(["-R"]).arg(root.join("dev")));
    let after = listing(&root);
    let of = |one: &[String], other: &[String]| -> Vec<String> {
        one.iter()
            .filter(|line| !other.contains(line))
            .cloned()
            .collect()
    };
    assert_eq!(
        (of(&after, &before), of(&before, &after)),
        (vec![], vec![]),
        "what is left"
    );
    assert_eq!(accounts(&root), accounts_before);
    let known = run(Command::new("dpkg-query")
        .arg(format!(
            "--admindir={}",
            root.join("var/lib/dpkg").display()
        ))
        .args(["--show", "--showformat=${Package}\n"]));
    assert!(!known.contains("saker"), "{known}");
}

/// Installed anew over what a removal has left, and purged at once: what is the administrator's own
/// stays, the rest goes.
fn again_and_purged(root: &Path, folder: &Path) {
    let etc = root.join("etc/saker");
    let link = etc.join("sites-enabled/default.toml");
    fs::remove_file(&link).unwrap();
    install(root, &deb(&folder.join("first"), "saker"));
    assert!(!link.exists(), "what was switched off stays off");
    let text = fs::read_to_string(etc.join("saker.toml")).unwrap();
    assert!(text.ends_with("# mine\n"));
    let own = etc.join("conf.d/own.toml");
    fs::write(&own, "# own\n").unwrap();
    run(&mut chroot(root, &["dpkg", "--purge", "saker"]));
    assert!(own.exists() && !etc.join("saker.toml").exists());
    fs::remove_dir_all(etc).unwrap();
}

/// Users, groups with their members, and diversions: what packages add lines to.
fn accounts(root: &Path) -> Vec<(&'static str, String)> {
    let files = [
        "etc/passwd",
        "etc/group",
        "etc/shadow",
        "etc/gshadow",
        "etc/subuid",
        "etc/subgid",
        "var/lib/dpkg/diversions",
        "var/lib/dpkg/statoverride",
    ];
    let text = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
    files.map(|file| (file, text(file))).into()
}

/// The welcome page over all protocols, a certificate for its name, and a healthy server.
fn answers(root: &Path) {
    wait_until("the server answers", || {
        curl(&["http://127.0.0.1/"]).contains("Saker is serving")
    });
    let secure = curl(&[
        "-k",
        "--http2",
        "-w",
        "%{http_version}",
        "https://localhost/",
    ]);
    assert!(
        secure.contains("Saker is serving") && secure.ends_with('2'),
        "{secure}"
    );
    let script = repository().join("crates/server/tests/serving/http3_programs/client.py");
    let said = run(Command::new(require("aioquic-python").unwrap())
        .arg(script)
        .args(["127.0.0.1:443", "many", "/"]));
    assert!(said.contains("200"), "{said}");
    run(&mut chroot(root, &["saker", "status", "--healthy"]));
    run(&mut chroot(root, &["saker", "check"]));
}

/// A later version over a changed configuration, while the server runs.
fn upgrade(root: &Path, folder: &Path, server: &mut Server) {
    let configuration = root.join("etc/saker/saker.toml");
    let text = fs::read_to_string(&configuration).unwrap();
    fs::write(&configuration, text + "# mine\n").unwrap();
    fs::remove_file(root.join("etc/saker/sites-enabled/default.toml")).unwrap();
    install(root, &deb(&folder.join("second"), "saker"));
    let link = root.join("etc/saker/sites-enabled/default.toml");
    assert!(!link.exists(), "what was switched off stays off");
    std::os::unix::fs::symlink("../sites-available/default.toml", link).unwrap();
    let before = pid(root);
    // As the unit does, after the program was replaced.
    let reloaded = run(as_saker(root, "net_bind_service").args(["saker", "reload", "--upgrade"]));
    assert!(reloaded.contains("handed over"), "{reloaded}");
    assert_ne!(pid(root), before);
    server.0.wait().unwrap();
    answers(root);
}

fn pid(root: &Path) -> String {
    fs::read_to_string(root.join("var/lib/saker/saker.pid")).unwrap()
}

/// Saker under other servers' names, and the way back.
fn compat(root: &Path, folder: &Path) {
    let nginx = root.join("usr/sbin/nginx");
    fs::write(&nginx, "#!/bin/sh\necho another server\n").unwrap();
    fs::set_permissions(&nginx, fs::Permissions::from_mode(0o755)).unwrap();
    install(root, &deb(&folder.join("second"), "saker-compat"));
    let said = run(&mut chroot(root, &["nginx", "-v"]));
    assert!(said.contains("Saker"), "{said}");
    assert!(run(&mut chroot(root, &["apache2", "-v"])).contains("Apache"));
    run(&mut chroot(root, &["dpkg", "--purge", "saker-compat"]));
    assert!(run(&mut chroot(root, &["nginx"])).contains("another server"));
    assert!(!root.join("usr/sbin/apache2").exists());
    fs::remove_file(nginx).unwrap();
}

/// Every path with its mode and owner, without copies, locks, and logs of dpkg and adduser.
fn listing(root: &Path) -> Vec<String> {
    let said = run(Command::new("find")
        .args([".", "-xdev", "-printf", "%m %u:%g %p\n"])
        .current_dir(root));
    let own = [
        "./var/lib/dpkg/status-old",
        "./var/lib/dpkg/diversions",
        "./var/lib/dpkg/triggers/",
        "./var/lib/dpkg/lock",
        "./var/log/dpkg.log",
        "./etc/passwd-",
        "./etc/group-",
        "./etc/shadow-",
        "./etc/gshadow-",
        "./etc/.pwd.lock",
        "./etc/subuid-",
        "./etc/subgid-",
        "./run/adduser",
    ];
    let mut lines: Vec<String> = said
        .lines()
        .filter(|line| !own.iter().any(|path| line.contains(path)) && !line.contains("./dev/"))
        .map(str::to_owned)
        .collect();
    lines.sort_unstable();
    lines
}

#[test]
fn the_image_runs_without_root_and_without_writing() {
    if !is_root() {
        return println!("left out: needs root");
    }
    let _turn = saker_testkit::heavy();
    let folder = TempDir::new("packages-image").unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    package(&["image"], "0.2.0", &folder);
    let archive = deb_like(&folder, "saker-0.2.0-oci-");
    let layout = folder.join("layout");
    fs::create_dir(&layout).unwrap();
    run(Command::new("tar")
        .arg("-xf")
        .arg(archive)
        .arg("-C")
        .arg(&layout));
    run(Command::new(require("umoci").unwrap())
        .args(["unpack", "--image"])
        .arg(format!("{}:0.2.0", layout.display()))
        .arg(folder.join("bundle")));
    on_its_own("in_a_container", &folder);
}

fn deb_like(folder: &Path, start: &str) -> PathBuf {
    let found = fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    found
        .into_iter()
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(start))
        })
        .unwrap_or_else(|| panic!("no {start}"))
}

#[test]
#[ignore = "changes what it can reach; run by the_image_runs_without_root_and_without_writing"]
fn in_a_container() {
    let folder = PathBuf::from(env::var_os(OWN).expect("only in namespaces of its own"));
    let bundle = folder.join("bundle");
    let config = fs::read_to_string(bundle.join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    let root = bundle.join("rootfs");
    run(Command::new("ip").args(["link", "set", "lo", "up"]));
    let path = root.to_str().unwrap();
    run(Command::new("mount").args(["--bind", path, path]));
    // What a container's runtime mounts.
    run(Command::new("mount")
        .args(["-t", "proc", "proc"])
        .arg(root.join("proc")));
    run(Command::new("mount")
        .args(["--rbind", "/dev"])
        .arg(root.join("dev")));
    run(Command::new("mount").args(["-o", "remount,bind,ro", path]));
    for (folder, options) in [
        ("var/lib/saker", "uid=65532,gid=65532,mode=750"),
        ("tmp", "mode=1777"),
    ] {
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(root.join(folder)));
    }
    let words: Vec<&str> = config["process"]["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    let user = &config["process"]["user"];
    assert_eq!(
        (user["uid"].as_u64(), user["gid"].as_u64()),
        (Some(65532), Some(65532))
    );
    let inside = |words: &[&str]| {
        let mut command = Command::new("chroot");
        command
            .args(["--userspec=65532:65532", "--groups=", path])
            .args(words);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin");
        command
    };
    let mut server = Server(
        inside(&words)
            .stderr(Stdio::inherit())
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    wait_until("the image answers", || {
        curl(&["http://127.0.0.1:8080/"]).contains("Saker is serving")
    });
    assert!(curl(&["-k", "https://127.0.0.1:8443/"]).contains("Saker is serving"));
    run(&mut inside(&[
        "/usr/bin/saker",
        "status",
        "--healthy",
        "--state-dir",
        "/var/lib/saker",
    ]));
    run(&mut inside(&[
        "/usr/bin/saker",
        "stop",
        "--state-dir",
        "/var/lib/saker",
    ]));
    server.0.wait().unwrap();
    let healthy = inside(&[
        "/usr/bin/saker",
        "status",
        "--healthy",
        "--state-dir",
        "/var/lib/saker",
    ])
    .status();
    assert_eq!(healthy.unwrap().code(), Some(3));
}
