//! Command lines of each kind of PHP: arguments, environment, and php-fpm's pool file.
//!
//! The listening socket is descriptor 0 for lsphp and php-cgi. php-fpm opens its sockets by name,
//! but takes one that it inherits under that name in FPM_SOCKETS; the name given to it is not the
//! socket's own, because php-fpm deletes the file of that name when it ends, and reads a colon in
//! it as HOST:PORT. So it is the same name for all, where no file can be. Absent on purpose: what a
//! request sets (`php_value`); that travels with each request.

use crate::{settings::Script, temporary};
use rustix::fs::MemfdFlags;
use saker_broker::{Grant, SpawnKind, SpawnRequest, any_number, descriptor};
use saker_broker_client::BrokerClient;
use saker_config::model::{Php, PhpKind, PhpPool, PhpValue, ProgramUser};
use saker_net::{ChildManner, ChildSignal, child, process::Identity, program::ProgramLimits};
use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    fs, io,
    os::{
        fd::{AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    process::{Command, Stdio},
    sync::Arc,
};

/// The name under which php-fpm knows the socket that it inherits.
const FPM_NAME: &str = "/proc/saker-php-fpm.sock";

/// Everything that decides how a pool's PHP is started: while it is the same, so is the PHP.
#[derive(Clone, Debug)]
pub struct Spec {
    pub php: Php,
    pub pool: PhpPool,
    pub whom: Whom,
}

/// Whom PHP runs as, and who starts it.
#[derive(Clone, Debug)]
pub enum Whom {
    /// The server does; `None`: as itself.
    Us(Option<Arc<Identity>>),
    Broker(Arc<BrokerClient>, ProgramUser),
}

impl PartialEq for Whom {
    fn eq(&self, other: &Whom) -> bool {
        match (self, other) {
            (Whom::Us(one), Whom::Us(other)) => one == other,
            (Whom::Broker(_, one), Whom::Broker(_, other)) => one == other,
            _ => false,
        }
    }
}

/// A request to the broker, and what goes along.
pub struct Borrowed {
    pub request: SpawnRequest,
    pub is_listener_input: bool,
    pub inherited: Vec<OwnedFd>,
    pub script: Option<Script>,
}

impl Spec {
    /// True if a PHP that runs by one would have to be replaced to run by the other.
    pub fn is_same(&self, other: &Spec) -> bool {
        let (one, two) = (&self.pool, &other.pool);
        let is_same_pool = one.kind == two.kind
            && one.serves_once == two.serves_once
            && one.program == two.program
            && one.socket == two.socket
            && one.processes == two.processes
            && one.module_ini == two.module_ini
            && one.settings == two.settings
            && one.locked_folders == two.locked_folders;
        let without_place = |php: &Php| Php {
            origin: saker_config::model::Origin::built_in(),
            module: None,
            ..php.clone()
        };
        is_same_pool
            && without_place(&self.php) == without_place(&other.php)
            && self.whom == other.whom
    }

    /// Asks a PHP to finish what it does and leave.
    pub fn graceful_signal(&self) -> ChildSignal {
        match self.pool.kind {
            PhpKind::Fpm => ChildSignal::Quit,
            PhpKind::Lsphp => ChildSignal::Usr1,
            PhpKind::Cgi => ChildSignal::Term,
        }
    }

    /// Time that running requests get to finish when PHP is replaced.
    pub fn drain_ms(&self) -> u64 {
        if self.php.run_time_ms > 0 {
            self.php.run_time_ms + 1_000
        } else {
            60_000
        }
    }

    /// A command that serves requests from this listening socket, and says what it has to say on
    /// standard error; with a file that it reads, which has to be there as long as it runs.
    pub fn command(&self, listener: BorrowedFd<'_>) -> io::Result<(Command, Option<Script>)> {
        let mut script = None;
        let mut command = self.bare();
        let own = listener.try_clone_to_owned()?;
        let mut manner = ChildManner {
            identity: self.child_identity(),
            ..ChildManner::default()
        };
        manner.memory_bytes_max = self.memory_bytes_max();
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        match self.pool.kind {
            PhpKind::Fpm => self.fpm(&mut command, own, &mut manner)?,
            PhpKind::Lsphp => {
                self.lsphp(&mut command);
                command.stdin(own);
            }
            PhpKind::Cgi => {
                let file = Script::write()?;
                self.cgi(&mut command, file.path().as_os_str());
                script = Some(file);
                command.stdin(own);
            }
        }
        child::prepare(&mut command, manner);
        Ok((command, script))
    }

    /// The grant that [`Spec::borrowed`] needs: the same, with any number where one may change from
    /// start to start.
    pub fn grant(&self, user: &ProgramUser) -> Grant {
        let mut command = self.bare();
        match self.pool.kind {
            PhpKind::Fpm => {}
            PhpKind::Lsphp => self.lsphp(&mut command),
            PhpKind::Cgi => self.cgi(&mut command, OsStr::new(ANY_SCRIPT)),
        }
        let (mut arguments, mut environment) = self.told(&command);
        // Afterwards, for no argument of a command has the NUL of a pattern.
        let script = Script::any_path(&any_number());
        for argument in &mut arguments {
            *argument = with_script(argument, &script);
        }
        for (_, value) in environment.iter_mut().filter(|(name, _)| is_counted(name)) {
            *value = any_number();
        }
        Grant::Program {
            user: user.user.clone(),
            group: user.group.clone(),
            file: self.pool.program.clone(),
            arguments,
            environment,
        }
    }

    /// Arguments and environment, with what stands for the descriptors that php-fpm inherits.
    fn told(&self, command: &Command) -> (Vec<OsString>, Vec<(OsString, OsString)>) {
        let mut arguments: Vec<OsString> = command.get_args().map(OsStr::to_owned).collect();
        let variables = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let mut environment: Vec<(OsString, OsString)> = variables.collect();
        if self.pool.kind == PhpKind::Fpm {
            arguments
                .extend(["--nodaemonize", "--force-stderr", "--fpm-config"].map(OsString::from));
            arguments.push(
                [OsStr::new("/proc/self/fd/"), &descriptor(1)]
                    .into_iter()
                    .collect(),
            );
            environment.push((
                "FPM_SOCKETS".into(),
                inherited_as(OsStr::new(FPM_NAME), &descriptor(0)),
            ));
        }
        (arguments, environment)
    }

    /// The same for the broker. Files of the server's are not the user's to read, so that php-fpm's
    /// goes along as a descriptor.
    pub fn borrowed(&self, user: &ProgramUser, listener: BorrowedFd<'_>) -> io::Result<Borrowed> {
        let mut command = self.bare();
        let (mut script, mut inherited) = (None, Vec::new());
        match self.pool.kind {
            PhpKind::Fpm => inherited = vec![listener.try_clone_to_owned()?, self.pool_memory()?],
            PhpKind::Lsphp => self.lsphp(&mut command),
            PhpKind::Cgi => {
                let file = Script::write()?;
                self.cgi(&mut command, file.path().as_os_str());
                script = Some(file);
            }
        }
        let (arguments, environment) = self.told(&command);
        let request = SpawnRequest {
            kind: SpawnKind::Program,
            user: user.user.clone(),
            group: user.group.clone(),
            file: self.pool.program.clone(),
            name: self.pool.program.clone().into(),
            arguments,
            environment,
            folder: "/".into(),
            limits: ProgramLimits {
                memory_bytes: self.memory_bytes_max().map(|bytes| (bytes, bytes)),
                ..ProgramLimits::default()
            },
        };
        Ok(Borrowed {
            request,
            is_listener_input: self.pool.kind != PhpKind::Fpm,
            inherited,
            script,
        })
    }

    /// A command that prints where PHP reads its configuration from.
    pub fn question(&self) -> Command {
        let mut command = self.bare();
        command
            .arg("-i")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        child::prepare(
            &mut command,
            ChildManner {
                identity: self.child_identity(),
                ..ChildManner::default()
            },
        );
        command
    }

    fn bare(&self) -> Command {
        let mut command = Command::new(&self.pool.program);
        let path =
            std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        command.env_clear().env("PATH", path).current_dir("/");
        // How databases are reached and what time it is is often said there.
        for name in ["TZ", "LANG", "LC_ALL", "PHP_INI_SCAN_DIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if let Some(folder) = temporary::of_environment() {
            command.env("TMPDIR", folder);
        }
        if let Some(ini) = self.php.ini.as_ref().or(self.pool.module_ini.as_ref()) {
            command.arg("-c").arg(ini);
        }
        if self.php.ini.is_none()
            && std::env::var_os("PHP_INI_SCAN_DIR").is_none()
            && let Some(folder) = &self.pool.module_ini
        {
            command.env("PHP_INI_SCAN_DIR", folder.join("conf.d"));
        }
        command
    }

    /// php-fpm's parent stays root and makes its workers the user's; the others become him before
    /// they begin.
    fn child_identity(&self) -> Option<Identity> {
        self.identity()
            .filter(|_| self.pool.kind != PhpKind::Fpm)
            .cloned()
    }

    fn identity(&self) -> Option<&Identity> {
        match &self.whom {
            Whom::Us(identity) => identity.as_deref(),
            Whom::Broker(..) => None,
        }
    }

    fn memory_bytes_max(&self) -> Option<u64> {
        Some(self.php.memory_bytes_max).filter(|bytes| *bytes > 0)
    }

    fn cgi(&self, command: &mut Command, script: &OsStr) {
        if self.pool.serves_once {
            // A site's `auto_prepend_file` there would take the place of the script.
            command.arg("-d").arg("user_ini.filename=");
        }
        command.arg("-d").arg(run_first(script));
        if !self.pool.settings.is_empty() {
            command.arg("-d").arg(self.locked_settings(script));
        }
        command.env("PHP_FCGI_CHILDREN", self.pool.processes.to_string());
        command.env("PHP_FCGI_MAX_REQUESTS", self.requests_max().to_string());
    }

    fn lsphp(&self, command: &mut Command) {
        let (children, idle_s) = (
            self.pool.processes.to_string(),
            self.php.idle_timeout_ms.div_ceil(1000).to_string(),
        );
        // With one child, lsphp would be that child itself, with no parent to start the next one.
        command.env("LSAPI_CHILDREN", self.pool.processes.max(2).to_string());
        command
            .env("LSAPI_MAX_IDLE_CHILDREN", children)
            .env("LSAPI_EXTRA_CHILDREN", "0")
            .env("LSAPI_MAX_IDLE", idle_s);
        command.env("LSPHP_ENABLE_USER_INI", "on");
        if self.pool.serves_once {
            command.env("LSAPI_MAX_REQS", "1");
        } else if self.php.requests_max > 0 {
            command.env("LSAPI_MAX_REQS", self.php.requests_max.to_string());
        }
        if self.php.run_time_ms > 0 {
            command.env(
                "LSAPI_MAX_PROCESS_TIME",
                self.php.run_time_ms.div_ceil(1000).to_string(),
            );
        }
    }

    fn fpm(
        &self,
        command: &mut Command,
        listener: OwnedFd,
        manner: &mut ChildManner,
    ) -> io::Result<()> {
        // In memory: the disk of the state directory may be full.
        let pool = self.pool_memory()?;
        command
            .arg("--nodaemonize")
            .arg("--force-stderr")
            .arg("--fpm-config")
            .arg(format!("/proc/self/fd/{}", pool.as_raw_fd()));
        command.stdin(Stdio::null());
        command.env(
            "FPM_SOCKETS",
            inherited_as(
                OsStr::new(FPM_NAME),
                OsStr::new(&listener.as_raw_fd().to_string()),
            ),
        );
        manner.inherited = vec![listener, pool];
        Ok(())
    }

    /// Pool file, in memory and unnamed, so that no other process can open it.
    fn pool_memory(&self) -> io::Result<OwnedFd> {
        let memory = rustix::fs::memfd_create("php-fpm.conf", MemfdFlags::CLOEXEC)?;
        let mut file = fs::File::from(memory);
        io::Write::write_all(&mut file, self.pool_text().as_bytes())?;
        Ok(file.into())
    }

    /// All scripts that the rules name are for PHP, whatever their names end in.
    fn pool_text(&self) -> String {
        let mut text = String::from(
            "[global]\nerror_log = /proc/self/fd/2\nlog_level = warning\ndaemonize = no\n",
        );
        let drain_s = self.drain_ms().div_ceil(1000);
        let _ = write!(
            text,
            "process_control_timeout = {drain_s}s\n\n[saker]\nlisten = {FPM_NAME}\n"
        );
        if let Some(identity) = self.identity() {
            let _ = write!(
                text,
                "user = {}\ngroup = {}\n",
                identity.uid(),
                identity.gid()
            );
        }
        let (children, idle_s) = (self.pool.processes, self.php.idle_timeout_ms.div_ceil(1000));
        let _ = write!(
            text,
            "pm = ondemand\npm.max_children = {children}\npm.process_idle_timeout = {idle_s}s\n"
        );
        let _ = writeln!(
            text,
            "pm.max_requests = {}",
            if self.pool.serves_once {
                1
            } else {
                self.php.requests_max
            }
        );
        if self.php.run_time_ms > 0 {
            let _ = writeln!(
                text,
                "request_terminate_timeout = {}s",
                self.php.run_time_ms.div_ceil(1000)
            );
        }
        text.push_str("catch_workers_output = yes\ndecorate_workers_output = no\nsecurity.limit_extensions =\n");
        for PhpValue {
            name,
            value,
            is_admin,
        } in self.pool.settings.iter()
        {
            let directive = if *is_admin {
                "php_admin_value"
            } else {
                "php_value"
            };
            let (name, value) = (
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(value),
            );
            // `plan::sayable` has seen to it that it means itself.
            let _ = writeln!(text, "{directive}[{name}] = '{value}'");
        }
        text
    }

    /// The pool's settings in php.ini's words for php-cgi, for which only sections for folders lock
    /// them (main/php_ini.c); some count at its start alone, so that they stand in front, too. The
    /// script that runs first has to be inside of open_basedir.
    fn locked_settings(&self, script: &OsStr) -> OsString {
        let mut lines = Vec::new();
        for PhpValue { name, value, .. } in self.pool.settings.iter() {
            let also = match &**name {
                b"open_basedir" => [&b":"[..], script.as_bytes()],
                _ => [&b""[..], b""],
            };
            // `plan::sayable` has seen to it that it means itself.
            let parts = [name, &b"='"[..], value, also[0], also[1], b"'\n"];
            lines.extend(parts.concat());
        }
        let mut text = lines.clone();
        for folder in self.pool.locked_folders.iter() {
            text.extend_from_slice(format!("[PATH=/{folder}]\n").as_bytes());
            text.extend_from_slice(&lines);
        }
        OsString::from_vec(text)
    }

    /// php-cgi knows no "never".
    fn requests_max(&self) -> u64 {
        if self.php.requests_max > 0 {
            self.php.requests_max
        } else {
            1_000_000_000
        }
    }
}

/// Stands for the script's path in arguments until they are a grant's. No setting has its control
/// characters.
const ANY_SCRIPT: &str = "\u{1}script\u{1}";

/// An argument with the path in the places of [`ANY_SCRIPT`].
fn with_script(argument: &OsStr, script: &OsStr) -> OsString {
    let stand_in = ANY_SCRIPT.as_bytes();
    let (mut text, mut rest) = (Vec::new(), argument.as_bytes());
    while let Some(at) = rest
        .windows(stand_in.len())
        .position(|part| part == stand_in)
    {
        let (before, behind) = rest.split_at(at);
        text.extend_from_slice(before);
        text.extend_from_slice(script.as_bytes());
        rest = behind.strip_prefix(stand_in).unwrap_or_default();
    }
    text.extend_from_slice(rest);
    OsString::from_vec(text)
}

/// php-cgi's setting for the script that runs before each script: in php.ini's words, of which
/// nothing means anything but itself between these quotes.
fn run_first(script: &OsStr) -> OsString {
    [OsStr::new("auto_prepend_file='"), script, OsStr::new("'")]
        .into_iter()
        .collect()
}

/// Variables that hold a number of the configuration's.
fn is_counted(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"PHP_FCGI_") || name.starts_with(b"LSAPI_")
}

fn inherited_as(name: &OsStr, descriptor: &OsStr) -> OsString {
    [name, OsStr::new("="), descriptor].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::Upstream;

    fn spec(kind: PhpKind) -> Spec {
        let pool = PhpPool {
            name: "php".into(),
            kind,
            version: None,
            program: "/usr/bin/php".into(),
            module_ini: None,
            user: None,
            socket: "/run/saker/php.sock".into(),
            processes: 6,
            serves_once: false,
            settings: Arc::default(),
            locked_folders: Arc::default(),
            upstream: Arc::new(Upstream::new("php", Vec::new())),
        };
        Spec {
            php: Php {
                run_time_ms: 1500,
                ..Php::default()
            },
            pool,
            whom: Whom::Us(None),
        }
    }

    #[test]
    fn the_pool_file_of_php_fpm() {
        let text = spec(PhpKind::Fpm).pool_text();
        for line in [
            "listen = /proc/saker-php-fpm.sock",
            "pm = ondemand",
            "pm.max_children = 6",
            "request_terminate_timeout = 2s",
            "process_control_timeout = 3s",
            "security.limit_extensions =",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
        assert!(!text.contains("user ="));
        let usual = spec(PhpKind::Fpm);
        let once = Spec {
            pool: PhpPool {
                serves_once: true,
                ..usual.pool.clone()
            },
            ..usual
        };
        assert!(
            once.pool_text()
                .lines()
                .any(|line| line == "pm.max_requests = 1")
        );
        let value = PhpValue {
            name: b"open_basedir".as_slice().into(),
            value: b"/srv/a:/tmp".as_slice().into(),
            is_admin: true,
        };
        let own = Spec {
            pool: PhpPool {
                settings: [value].into(),
                serves_once: false,
                ..once.pool.clone()
            },
            ..once.clone()
        };
        assert!(
            own.pool_text()
                .ends_with("\nphp_admin_value[open_basedir] = '/srv/a:/tmp'\n"),
            "{}",
            own.pool_text()
        );
        let of_module = Spec {
            pool: PhpPool {
                module_ini: Some("/etc/php/8.2/apache2".into()),
                ..own.pool.clone()
            },
            ..own.clone()
        };
        assert!(!own.is_same(&of_module));
        let command = of_module.bare();
        assert!(
            command.get_args().eq(["-c", "/etc/php/8.2/apache2"])
                && command.get_envs().any(|(name, value)| {
                    name == "PHP_INI_SCAN_DIR"
                        && value == Some(OsStr::new("/etc/php/8.2/apache2/conf.d"))
                })
        );
        assert!(!own.is_same(&Spec {
            pool: PhpPool {
                settings: Arc::default(),
                ..own.pool.clone()
            },
            ..own.clone()
        }));
    }

    #[test]
    fn settings_of_php_cgi_are_locked_in_all_folders() {
        let usual = spec(PhpKind::Cgi);
        let value = |name: &str, value: &str| PhpValue {
            name: name.as_bytes().into(),
            value: value.as_bytes().into(),
            is_admin: true,
        };
        let locked = Spec {
            pool: PhpPool {
                settings: [value("memory_limit", "7M"), value("open_basedir", "/a b")].into(),
                locked_folders: ["srv".into(), "var".into()].into(),
                ..usual.pool.clone()
            },
            ..usual
        };
        let text = |script: &OsStr| {
            let lines = [
                OsStr::new("memory_limit='7M'\nopen_basedir='/a b:"),
                script,
                OsStr::new("'\n"),
            ]
            .join(OsStr::new(""));
            let sections = ["[PATH=/srv]\n", "[PATH=/var]\n"].map(OsStr::new);
            [&*lines, sections[0], &*lines, sections[1], &*lines].join(OsStr::new(""))
        };
        let script = OsStr::new("/tmp/x.php");
        assert_eq!(locked.locked_settings(script), text(script));
        let user = ProgramUser {
            user: "nobody".into(),
            group: None,
        };
        let Grant::Program { arguments, .. } = locked.grant(&user) else {
            panic!("a program");
        };
        assert_eq!(arguments.len(), 4);
        assert_eq!(arguments[1], run_first(&Script::any_path(&any_number())));
        assert_eq!(arguments[3], text(&Script::any_path(&any_number())));
    }

    #[test]
    fn what_a_change_of_means_a_new_php() {
        let one = spec(PhpKind::Fpm);
        assert!(one.is_same(&Spec {
            pool: PhpPool {
                upstream: Arc::new(Upstream::new("x", Vec::new())),
                ..one.pool.clone()
            },
            ..one.clone()
        }));
        assert!(!one.is_same(&Spec {
            pool: PhpPool {
                processes: 7,
                ..one.pool.clone()
            },
            ..one.clone()
        }));
        assert!(!one.is_same(&Spec {
            php: Php {
                memory_bytes_max: 1,
                ..one.php.clone()
            },
            ..one.clone()
        }));
    }

    /// With as many processes as there are, and whatever the file is called.
    #[test]
    fn an_order_is_what_was_granted() {
        let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let user = ProgramUser {
            user: "alice".into(),
            group: None,
        };
        for kind in [PhpKind::Fpm, PhpKind::Lsphp, PhpKind::Cgi] {
            let spec = spec(kind);
            let fewer = Spec {
                pool: PhpPool {
                    processes: 2,
                    ..spec.pool.clone()
                },
                ..spec.clone()
            };
            let borrowed = spec
                .borrowed(&user, std::os::fd::AsFd::as_fd(&socket))
                .unwrap();
            let Grant::Program {
                arguments,
                environment,
                ..
            } = fewer.grant(&user)
            else {
                panic!()
            };
            let is_granted =
                |pattern: &OsString, text: &OsString| saker_broker::matches(pattern, text);
            assert_eq!(arguments.len(), borrowed.request.arguments.len());
            assert!(
                arguments
                    .iter()
                    .zip(&borrowed.request.arguments)
                    .all(|(pattern, text)| is_granted(pattern, text)),
                "{arguments:?}"
            );
            for (name, value) in &borrowed.request.environment {
                assert!(
                    environment
                        .iter()
                        .any(|(known, pattern)| known == name && is_granted(pattern, value)),
                    "{name:?} {value:?}"
                );
            }
        }
    }

    #[test]
    fn the_environment_of_the_others() {
        let spec = spec(PhpKind::Lsphp);
        let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let (command, _) = spec.command(std::os::fd::AsFd::as_fd(&socket)).unwrap();
        let value = |name: &str| {
            command
                .get_envs()
                .find(|(key, _)| *key == name)
                .and_then(|(_, value)| value)
        };
        assert_eq!(value("LSAPI_CHILDREN"), Some(OsStr::new("6")));
        assert_eq!(value("LSAPI_MAX_PROCESS_TIME"), Some(OsStr::new("2")));
        assert_eq!(value("HOME"), None);
        let once = Spec {
            pool: PhpPool {
                serves_once: true,
                ..spec.pool.clone()
            },
            ..spec.clone()
        };
        let (command, _) = once.command(std::os::fd::AsFd::as_fd(&socket)).unwrap();
        assert!(
            command
                .get_envs()
                .any(|(name, value)| name == "LSAPI_MAX_REQS" && value == Some(OsStr::new("1")))
        );
    }
}
