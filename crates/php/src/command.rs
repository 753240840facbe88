//! What each kind of PHP is told when it is started: arguments, environment, and php-fpm's pool file.
//!
//! The listening socket is descriptor 0 for lsphp and php-cgi. php-fpm opens its sockets by name, but takes one that it inherits under that
//! name in FPM_SOCKETS; the name given to it is not the socket's own, because php-fpm deletes the file of that name when it ends.
//! Absent on purpose: what a request sets (`php_value`); that travels with each request.

use crate::settings::Script;
use rustix::fs::MemfdFlags;
use saker_config::model::{Php, PhpKind, PhpPool, PhpValue, ProgramUser};
use saker_net::{
    ChildManner, ChildSignal, child,
    process::Identity,
    program::ProgramLimits,
    starter::{Order, OrderKind, Starter, descriptor},
};
use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    fs, io,
    os::{
        fd::{AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
};

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
    Lent(Arc<Starter>, ProgramUser),
}

impl PartialEq for Whom {
    fn eq(&self, other: &Whom) -> bool {
        match (self, other) {
            (Whom::Us(one), Whom::Us(other)) => one == other,
            (Whom::Lent(_, one), Whom::Lent(_, other)) => one == other,
            _ => false,
        }
    }
}

/// For the starter: an order, with what goes along.
pub struct Borrowed {
    pub order: Order,
    pub is_listener_input: bool,
    pub inherited: Vec<OwnedFd>,
    pub script: Option<Script>,
}

impl Spec {
    /// Whether a PHP that runs by one would have to be replaced to run by the other.
    pub fn is_same(&self, other: &Spec) -> bool {
        let (one, two) = (&self.pool, &other.pool);
        let is_same_pool = one.kind == two.kind
            && one.program == two.program
            && one.socket == two.socket
            && one.processes == two.processes
            && one.settings == two.settings;
        let without_place = |php: &Php| Php { origin: saker_config::model::Origin::built_in(), ..php.clone() };
        is_same_pool && without_place(&self.php) == without_place(&other.php) && self.whom == other.whom
    }

    /// Asks a PHP to finish what it does and leave.
    pub fn graceful_signal(&self) -> ChildSignal {
        match self.pool.kind {
            PhpKind::Fpm => ChildSignal::Quit,
            PhpKind::Lsphp => ChildSignal::Usr1,
            PhpKind::Cgi => ChildSignal::Term,
        }
    }

    /// How long requests that run may take to end when PHP is replaced.
    pub fn drain_ms(&self) -> u64 {
        if self.php.run_time_ms > 0 { self.php.run_time_ms + 1_000 } else { 60_000 }
    }

    fn pool_file(&self) -> PathBuf {
        self.pool.socket.with_extension("conf")
    }

    /// The name under which php-fpm knows the socket.
    fn fpm_name(&self) -> PathBuf {
        self.pool.socket.with_extension("fpm")
    }

    /// A command that serves requests from this listening socket, and says what it has to say on standard error; with a file that it reads, which
    /// has to be there as long as it runs.
    pub fn command(&self, listener: BorrowedFd<'_>) -> io::Result<(Command, Option<Script>)> {
        let mut script = None;
        let mut command = self.bare();
        let own = listener.try_clone_to_owned()?;
        let mut manner = ChildManner { identity: self.child_identity(), ..ChildManner::default() };
        manner.memory_bytes_max = self.memory_bytes_max();
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        match self.pool.kind {
            PhpKind::Fpm => self.fpm(&mut command, own, &mut manner)?,
            PhpKind::Lsphp => {
                self.lsphp(&mut command);
                command.stdin(own);
            }
            PhpKind::Cgi => {
                script = Some(self.cgi(&mut command)?);
                command.stdin(own);
            }
        }
        child::prepare(&mut command, manner);
        Ok((command, script))
    }

    /// The same for the starter. Files of the server's are not the user's to read, so that php-fpm's goes along as a descriptor.
    pub fn borrowed(&self, user: &ProgramUser, listener: BorrowedFd<'_>) -> io::Result<Borrowed> {
        let mut command = self.bare();
        let (mut script, mut inherited) = (None, Vec::new());
        match self.pool.kind {
            PhpKind::Fpm => inherited = vec![listener.try_clone_to_owned()?, self.pool_memory()?],
            PhpKind::Lsphp => self.lsphp(&mut command),
            PhpKind::Cgi => script = Some(self.cgi(&mut command)?),
        }
        let mut order = Order {
            kind: OrderKind::Program,
            user: user.user.clone(),
            group: user.group.clone(),
            file: self.pool.program.clone(),
            name: self.pool.program.clone().into(),
            arguments: command.get_args().map(OsStr::to_owned).collect(),
            environment: command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect(),
            folder: "/".into(),
            limits: ProgramLimits { memory_bytes: self.memory_bytes_max().map(|bytes| (bytes, bytes)), ..ProgramLimits::default() },
        };
        if self.pool.kind == PhpKind::Fpm {
            order.arguments.extend(["--nodaemonize", "--force-stderr", "--fpm-config"].map(OsString::from));
            order.arguments.push([OsStr::new("/proc/self/fd/"), &descriptor(1)].into_iter().collect());
            order.environment.push(("FPM_SOCKETS".into(), inherited_as(self.fpm_name().as_os_str(), &descriptor(0))));
        }
        Ok(Borrowed { order, is_listener_input: self.pool.kind != PhpKind::Fpm, inherited, script })
    }

    /// A command that prints where PHP reads its configuration from.
    pub fn question(&self) -> Command {
        let mut command = self.bare();
        command.arg("-i").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        child::prepare(&mut command, ChildManner { identity: self.child_identity(), ..ChildManner::default() });
        command
    }

    fn bare(&self) -> Command {
        let mut command = Command::new(&self.pool.program);
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        command.env_clear().env("PATH", path).current_dir("/");
        // How databases are reached and what time it is is often said there.
        for name in ["TZ", "LANG", "LC_ALL", "TMPDIR", "PHP_INI_SCAN_DIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if let Some(ini) = &self.php.ini {
            command.arg("-c").arg(ini);
        }
        command
    }

    /// php-fpm's parent stays root and makes its workers the user's; the others become him before they begin.
    fn child_identity(&self) -> Option<Identity> {
        self.identity().filter(|_| self.pool.kind != PhpKind::Fpm).cloned()
    }

    fn identity(&self) -> Option<&Identity> {
        match &self.whom {
            Whom::Us(identity) => identity.as_deref(),
            Whom::Lent(..) => None,
        }
    }

    fn memory_bytes_max(&self) -> Option<u64> {
        Some(self.php.memory_bytes_max).filter(|bytes| *bytes > 0)
    }

    fn cgi(&self, command: &mut Command) -> io::Result<Script> {
        let file = Script::write()?;
        let mut setting = OsString::from("auto_prepend_file=");
        setting.push(file.path());
        command.arg("-d").arg(setting);
        command.env("PHP_FCGI_CHILDREN", self.pool.processes.to_string());
        command.env("PHP_FCGI_MAX_REQUESTS", self.requests_max().to_string());
        Ok(file)
    }

    fn lsphp(&self, command: &mut Command) {
        let (children, idle_s) = (self.pool.processes.to_string(), self.php.idle_timeout_ms.div_ceil(1000).to_string());
        // With one child lsphp would be that child itself, and nobody would be there to make the next.
        command.env("LSAPI_CHILDREN", self.pool.processes.max(2).to_string());
        command.env("LSAPI_MAX_IDLE_CHILDREN", children).env("LSAPI_EXTRA_CHILDREN", "0").env("LSAPI_MAX_IDLE", idle_s);
        command.env("LSPHP_ENABLE_USER_INI", "on");
        if self.php.requests_max > 0 {
            command.env("LSAPI_MAX_REQS", self.php.requests_max.to_string());
        }
        if self.php.run_time_ms > 0 {
            command.env("LSAPI_MAX_PROCESS_TIME", self.php.run_time_ms.div_ceil(1000).to_string());
        }
    }

    fn fpm(&self, command: &mut Command, listener: OwnedFd, manner: &mut ChildManner) -> io::Result<()> {
        let path = self.pool_file();
        // Only ours to read and write; what stood there may have been another's.
        let _ = fs::remove_file(&path);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        io::Write::write_all(&mut file, self.pool_text().as_bytes())?;
        command.arg("--nodaemonize").arg("--force-stderr").arg("--fpm-config").arg(&path).stdin(Stdio::null());
        command.env("FPM_SOCKETS", inherited_as(self.fpm_name().as_os_str(), OsStr::new(&listener.as_raw_fd().to_string())));
        manner.inherited = Some(listener);
        Ok(())
    }

    /// Its pool file, without a name that anybody else could open.
    fn pool_memory(&self) -> io::Result<OwnedFd> {
        let memory = rustix::fs::memfd_create("php-fpm.conf", MemfdFlags::CLOEXEC)?;
        let mut file = fs::File::from(memory);
        io::Write::write_all(&mut file, self.pool_text().as_bytes())?;
        Ok(file.into())
    }

    /// All scripts that the rules name are for PHP, whatever their names end in.
    fn pool_text(&self) -> String {
        let mut text = String::from("[global]\nerror_log = /proc/self/fd/2\nlog_level = warning\ndaemonize = no\n");
        let drain_s = self.drain_ms().div_ceil(1000);
        let _ = write!(text, "process_control_timeout = {drain_s}s\n\n[saker]\nlisten = {}\n", self.fpm_name().display());
        if let Some(identity) = self.identity() {
            let _ = write!(text, "user = {}\ngroup = {}\n", identity.uid(), identity.gid());
        }
        let (children, idle_s) = (self.pool.processes, self.php.idle_timeout_ms.div_ceil(1000));
        let _ = write!(text, "pm = ondemand\npm.max_children = {children}\npm.process_idle_timeout = {idle_s}s\n");
        let _ = writeln!(text, "pm.max_requests = {}", if self.pool.serves_once { 1 } else { self.php.requests_max });
        if self.php.run_time_ms > 0 {
            let _ = writeln!(text, "request_terminate_timeout = {}s", self.php.run_time_ms.div_ceil(1000));
        }
        text.push_str("catch_workers_output = yes\ndecorate_workers_output = no\nsecurity.limit_extensions =\n");
        for PhpValue { name, value, is_admin } in self.pool.settings.iter() {
            let directive = if *is_admin { "php_admin_value" } else { "php_value" };
            let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            // `plan::sayable` has seen to it that it means itself.
            let _ = writeln!(text, "{directive}[{name}] = '{value}'");
        }
        text
    }

    /// php-cgi knows no "never".
    fn requests_max(&self) -> u64 {
        if self.php.requests_max > 0 { self.php.requests_max } else { 1_000_000_000 }
    }
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
            user: None,
            socket: "/run/saker/php.sock".into(),
            processes: 6,
            serves_once: false,
            settings: Arc::default(),
            upstream: Arc::new(Upstream::new("php", Vec::new())),
        };
        Spec { php: Php { run_time_ms: 1500, ..Php::default() }, pool, whom: Whom::Us(None) }
    }

    #[test]
    fn the_pool_file_of_php_fpm() {
        let text = spec(PhpKind::Fpm).pool_text();
        for line in [
            "listen = /run/saker/php.fpm",
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
        let once = Spec { pool: PhpPool { serves_once: true, ..usual.pool.clone() }, ..usual };
        assert!(once.pool_text().lines().any(|line| line == "pm.max_requests = 1"));
        let value = PhpValue { name: b"open_basedir".as_slice().into(), value: b"/srv/a:/tmp".as_slice().into(), is_admin: true };
        let own = Spec { pool: PhpPool { settings: [value].into(), serves_once: false, ..once.pool.clone() }, ..once.clone() };
        assert!(own.pool_text().ends_with("\nphp_admin_value[open_basedir] = '/srv/a:/tmp'\n"), "{}", own.pool_text());
        assert!(!own.is_same(&Spec { pool: PhpPool { settings: Arc::default(), ..own.pool.clone() }, ..own.clone() }));
    }

    #[test]
    fn what_a_change_of_means_a_new_php() {
        let one = spec(PhpKind::Fpm);
        assert!(
            one.is_same(&Spec { pool: PhpPool { upstream: Arc::new(Upstream::new("x", Vec::new())), ..one.pool.clone() }, ..one.clone() })
        );
        assert!(!one.is_same(&Spec { pool: PhpPool { processes: 7, ..one.pool.clone() }, ..one.clone() }));
        assert!(!one.is_same(&Spec { php: Php { memory_bytes_max: 1, ..one.php.clone() }, ..one.clone() }));
    }

    #[test]
    fn the_environment_of_the_others() {
        let spec = spec(PhpKind::Lsphp);
        let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let (command, _) = spec.command(std::os::fd::AsFd::as_fd(&socket)).unwrap();
        let value = |name: &str| command.get_envs().find(|(key, _)| *key == name).and_then(|(_, value)| value);
        assert_eq!(value("LSAPI_CHILDREN"), Some(OsStr::new("6")));
        assert_eq!(value("LSAPI_MAX_PROCESS_TIME"), Some(OsStr::new("2")));
        assert_eq!(value("HOME"), None);
    }
}
