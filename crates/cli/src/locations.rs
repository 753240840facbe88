//! Default locations: the configuration, the state directory of `saker serve`, the running server.
//!
//! Called by: the commands that need them.
//! Caveat: each `saker serve` has a state directory of its own, named for its first address, below
//! one of the user; so two can run side by side, and two on the same address find each other's
//! lock. Below `/tmp` another user may have created that directory first; it must pass the checks
//! of [`StateDir`].

use crate::source::{ApacheInput, NginxInput, apache_setup, load_apache, load_nginx};
use crate::{arguments::Target, output};
use rustix::process::getuid;
use saker_apache::Loaded;
use saker_config::{
    Diagnostics,
    model::{Address, Server},
};
use saker_control::{StateDir, apache_state, state_dir};
use saker_serving::tls_state::is_own_folder;
use std::{
    io,
    net::SocketAddr,
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
    path::{Path, PathBuf},
};

const CONFIGURATIONS: [&str; 2] = ["saker.toml", "/etc/saker/saker.toml"];
/// Characters of a Unix socket's name that are kept, to make its state directory recognizable.
const SHOWN_CHARS_MAX: usize = 40;

/// The named configuration, or the first of the usual ones that is there.
pub fn configuration(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let found = CONFIGURATIONS
        .iter()
        .map(Path::new)
        .find(|path| path.exists());
    found.map(Path::to_owned).ok_or_else(|| {
        format!(
            "no configuration file: give one with -c FILE ({} do not exist)",
            CONFIGURATIONS.join(" and ")
        )
    })
}

/// The same locations, whatever becomes of the working directory.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Default state directory of a `saker serve` that listens on `address`.
pub fn serve_state_dir(address: &Address) -> PathBuf {
    own_serve_base().join(serve_name(address, std::process::id()))
}

/// Checks where those are, for `process` only looks at the directory itself.
pub fn open_serve_base() -> Result<(), String> {
    StateDir::open(&own_serve_base())
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Directory of the page cache of a `saker serve` that listens on `address`. `None`: below its
/// state directory.
pub fn cache_folder(address: &Address) -> Option<PathBuf> {
    // A directory with a new name at each start would never be found again.
    if matches!(address, Address::Tcp(address) if address.port() == 0) {
        return None;
    }
    let home = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let caches = home("XDG_CACHE_HOME").or_else(|| Some(home("HOME")?.join(".cache")))?;
    Some(
        caches
            .join("saker")
            .join(serve_name(address, std::process::id())),
    )
}

/// Directory in which `saker serve --domain` keeps accounts and certificates if no state directory
/// is named: one for all servers of a user.
pub fn certificates_folder() -> Result<PathBuf, String> {
    let home = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let data = home("XDG_DATA_HOME").or_else(|| Some(home("HOME")?.join(".local/share")));
    data.map(|data| data.join("saker")).ok_or_else(|| {
        "no directory for certificates: HOME is not set (use --state-dir DIR)".to_owned()
    })
}

/// Makes the folder for data in the user's home, where a new machine has none yet: the local
/// authority in a directory that is gone after the next start of the machine would have to be
/// trusted again and again. Where it can't be made, it is there.
pub fn make_data_folder() {
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_absolute() && is_own_folder(home));
    if let Some(home) = home.filter(|_| std::env::var_os("XDG_DATA_HOME").is_none()) {
        let _ = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(home.join(".local/share"));
    }
}

/// The state directory of the running server that is meant.
pub fn running_server(target: &Target) -> Result<PathBuf, Absent> {
    if let Some(state_dir) = &target.state_dir {
        return Ok(state_dir.clone());
    }
    if let Some(config) = &target.config {
        return match saker_config::load(config) {
            Ok(loaded) => Ok(loaded.model.server.state_dir.clone()),
            Err(diagnostics) => Err(Absent::Configuration(diagnostics.to_string())),
        };
    }
    if let Some(file) = &target.apache {
        let input = ApacheInput {
            file: file.clone(),
            defines: target.define.clone(),
            ..ApacheInput::default()
        };
        let loaded = load_apache(&input);
        return match loaded.has_errors() {
            true => Err(Absent::Configuration(
                Diagnostics(loaded.diagnostics).to_string(),
            )),
            false => only_one(&state_dirs(
                loaded.model.server.state_dir.clone(),
                of_apache2(&input, &loaded),
                loaded.overview.pid_file.as_deref(),
            )),
        };
    }
    if let Some(file) = &target.nginx {
        let input = NginxInput {
            file: file.clone(),
            ..NginxInput::default()
        };
        let loaded = load_nginx(&input);
        return match loaded.report.has_errors() {
            true => Err(Absent::Configuration(
                Diagnostics(loaded.report.diagnostics).to_string(),
            )),
            false => only_one(&state_dirs(
                loaded.model.server.state_dir.clone(),
                of_nginx(&input, &loaded),
                Some(Path::new(&loaded.process.pid_file)),
            )),
        };
    }
    only_one(&candidates(&own_serve_base(), &Server::default().state_dir))
}

/// State directories of a server that runs by a configuration of Apache or nginx: one that was
/// started as `saker run`, one that was started as `apache2` or `nginx`, and where earlier versions
/// of that had it.
fn state_dirs(of_run: PathBuf, of_program: PathBuf, pid_file: Option<&Path>) -> Vec<PathBuf> {
    let mut all = vec![of_run, of_program];
    all.extend(pid_file.and_then(apache_state::beside_pid_file));
    all.sort();
    all.dedup();
    all
}

/// The state directory of a server that was started as `apache2` with this configuration.
pub fn of_apache2(input: &ApacheInput, loaded: &Loaded) -> PathBuf {
    let (_, file) = apache_setup(input);
    let user = loaded.model.server.user.as_deref();
    apache_state::of_program(&file, loaded.overview.pid_file.as_deref(), user)
}

/// The state directory of a server that was started as `nginx` with this configuration.
pub fn of_nginx(input: &NginxInput, loaded: &saker_nginx::Loaded) -> PathBuf {
    let user = loaded.model.server.user.as_deref();
    let pid_file = Path::new(&loaded.process.pid_file);
    apache_state::of_program(&absolute(&input.file), Some(pid_file), user)
}

/// Reason why no server can be reached.
#[derive(Debug, PartialEq, Eq)]
pub enum Absent {
    /// The configuration that names the state directory is wrong: rendered diagnostics.
    Configuration(String),
    None(Vec<PathBuf>),
    Several(Vec<PathBuf>),
}

fn own_serve_base() -> PathBuf {
    serve_base(
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
        getuid().as_raw(),
    )
}

fn serve_base(runtime_dir: Option<PathBuf>, uid: u32) -> PathBuf {
    match runtime_dir {
        Some(directory) if directory.is_absolute() && directory.is_dir() => directory.join("saker"),
        _ => PathBuf::from(format!("/tmp/saker-{uid}")),
    }
}

/// Only characters that mean nothing anywhere: programs read a colon in a path as HOST:PORT, or as
/// the end of an entry of a list. Port 0 means another port each time, so the process makes the
/// name.
fn serve_name(address: &Address, pid: u32) -> String {
    match address {
        Address::Tcp(address) if address.port() == 0 => format!("{}-pid-{pid}", host_name(address)),
        Address::Tcp(address) => format!("{}-{}", host_name(address), address.port()),
        Address::Unix(path) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_safe = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            let shown: String = name.chars().filter(is_safe).take(SHOWN_CHARS_MAX).collect();
            format!("unix-{shown}-{:016x}", hash(path.as_os_str().as_bytes()))
        }
    }
}

fn host_name(address: &SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!(
            "ipv6-{}",
            address
                .ip()
                .segments()
                .map(|segment| format!("{segment:x}"))
                .join("-")
        ),
    }
}

/// FNV-1a: the same for every start and every version.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// State directories in which something may run: those below `base`, the default one of `saker
/// run`, and those beside it.
fn candidates(base: &Path, of_run: &Path) -> Vec<PathBuf> {
    let mut found = match base.exists().then(|| StateDir::open(base)) {
        Some(Ok(_)) => entries(base),
        Some(Err(error)) => {
            output::error(format_args!("saker: {error}\n"));
            Vec::new()
        }
        None => Vec::new(),
    };
    found.push(of_run.to_owned());
    found.extend(apache_state::siblings(of_run));
    found
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    entries
}

fn only_one(candidates: &[PathBuf]) -> Result<PathBuf, Absent> {
    let mut running: Vec<PathBuf> = candidates
        .iter()
        .filter(|path| state_dir::running(path).is_some())
        .cloned()
        .collect();
    // An unreadable directory could hold one; connecting to it will report the reason.
    let locked = || candidates.iter().find(|path| is_closed(path)).cloned();
    match (running.len(), running.pop()) {
        (0, _) => locked().ok_or_else(|| Absent::None(candidates.to_vec())),
        (1, Some(only)) => Ok(only),
        (_, last) => Err(Absent::Several(running.into_iter().chain(last).collect())),
    }
}

fn is_closed(path: &Path) -> bool {
    std::fs::symlink_metadata(path.join(state_dir::SOCKET))
        .is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    #[test]
    fn names_for_addresses() {
        for (address, name) in [
            (
                Address::Tcp("127.0.0.1:8080".parse().unwrap()),
                "127.0.0.1-8080",
            ),
            (
                Address::Tcp("[::]:80".parse().unwrap()),
                "ipv6-0-0-0-0-0-0-0-0-80",
            ),
            (
                Address::Tcp("[fe80::1]:0".parse().unwrap()),
                "ipv6-fe80-0-0-0-0-0-0-1-pid-7",
            ),
            (
                Address::Unix("/run/a/http.sock".into()),
                "unix-http.sock-5e87b704c1bb4556",
            ),
        ] {
            assert_eq!(serve_name(&address, 7), name);
        }
        let of = |path: &str| serve_name(&Address::Unix(path.into()), 7);
        assert_ne!(of("/run/a/http.sock"), of("/run/b/http.sock"));
        for path in [
            format!("/{}/x.sock", "é".repeat(150)),
            "/run/a b:c;d'%$.sock".into(),
            format!("/run/{}", "x".repeat(100)),
            "/".into(),
        ] {
            let name = of(&path);
            let is_plain = name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            assert!(is_plain && name.len() <= 64, "{name}");
        }
    }

    #[test]
    fn base_of_serve() {
        let scratch = TempDir::private("unit").unwrap();
        assert_eq!(
            serve_base(Some(scratch.to_path_buf()), 7),
            scratch.join("saker")
        );
        for unusable in [None, Some(scratch.join("missing")), Some("relative".into())] {
            assert!(serve_base(unusable, 7).ends_with("saker-7"));
        }
    }

    #[test]
    fn the_one_that_runs() {
        let scratch = TempDir::private("unit").unwrap();
        let (base, of_run) = (scratch.join("base"), scratch.join("run"));
        let candidates = || candidates(&base, &of_run);
        assert_eq!(
            only_one(&candidates()),
            Err(Absent::None(vec![of_run.clone()]))
        );
        let open = |path: &Path| StateDir::open(path).unwrap().lock().unwrap();
        std::fs::create_dir_all(base.join("dead")).unwrap();
        std::fs::write(base.join("dead/saker.pid"), "1\n").unwrap();
        std::fs::set_permissions(&base, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        let first = open(&base.join("a"));
        assert_eq!(only_one(&candidates()), Ok(base.join("a")));
        let second = open(&of_run);
        assert_eq!(
            only_one(&candidates()),
            Err(Absent::Several(vec![base.join("a"), of_run.clone()]))
        );
        drop(first);
        assert_eq!(only_one(&candidates()), Ok(of_run.clone()));
        drop(second);
    }
}
