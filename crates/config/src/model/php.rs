//! PHP managed by the server: its settings (`[php]`), and the pools made from them.
//!
//! Called by: the supervisor of PHP processes, and the gateway.
//! Out of scope: the keys (`directives/php`).

use super::{HostPattern, Origin, ProgramUser, Upstream};
use std::{path::PathBuf, sync::Arc};

/// `[php]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Php {
    pub program: PhpProgram,
    /// Processes of one pool; `None`: by the machine's memory.
    pub processes_max: Option<usize>,
    /// Memory limit of one process; 0: only memory_limit of php.ini applies.
    pub memory_bytes_max: u64,
    /// Time limit of one request; 0: only max_execution_time of php.ini applies.
    pub run_time_ms: u64,
    /// Requests that wait for a process, and for how long.
    pub queue_max: usize,
    pub queue_timeout_ms: u64,
    /// Idle time after which a pool stops; the next request starts it again. 0: never.
    pub pool_idle_timeout_ms: u64,
    /// Requests after which a process is replaced; 0: never.
    pub requests_max: u64,
    /// Idle time after which a process exits.
    pub idle_timeout_ms: u64,
    /// User that PHP runs as; requires root. `None`: the server's user, never root.
    pub user: Option<String>,
    pub group: Option<String>,
    /// Directory of php.ini, or the file; `None`: PHP's default.
    pub ini: Option<PathBuf>,
    /// mod_php, if an Apache configuration loads it: PHP runs in its place.
    pub module: Option<PhpModule>,
    pub origin: Origin,
}

/// A module of Apache's that brings PHP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhpModule {
    /// The file that LoadModule names, whose name may have a version (`libphp8.2.so`).
    pub file: PathBuf,
    pub origin: Origin,
}

impl Default for Php {
    fn default() -> Php {
        Php {
            program: PhpProgram::Auto,
            processes_max: None,
            memory_bytes_max: 0,
            run_time_ms: 0,
            queue_max: 1024,
            queue_timeout_ms: 30_000,
            pool_idle_timeout_ms: 300_000,
            requests_max: 10_000,
            idle_timeout_ms: 10_000,
            user: None,
            group: None,
            ini: None,
            module: None,
            origin: Origin::built_in(),
        }
    }
}

/// PHP program to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhpProgram {
    /// The first type that is installed: lsphp, php-fpm, php-cgi.
    Auto,
    Kind(PhpKind),
    /// A program, whose name tells its type.
    Path(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhpKind {
    Lsphp,
    Fpm,
    Cgi,
}

impl PhpKind {
    /// In order of preference.
    pub const ALL: [PhpKind; 3] = [PhpKind::Lsphp, PhpKind::Fpm, PhpKind::Cgi];

    pub fn name(self) -> &'static str {
        match self {
            PhpKind::Lsphp => "lsphp",
            PhpKind::Fpm => "php-fpm",
            PhpKind::Cgi => "php-cgi",
        }
    }
}

/// The way PHP files are served at a path of a native site.
#[derive(Clone, Debug, Default)]
pub enum PhpUse {
    /// PHP is off; PHP files are not served.
    #[default]
    Off,
    /// The server's own pool.
    Managed,
    /// An external php-fpm.
    Upstream(Arc<Upstream>),
    /// An external php-fpm whose socket depends on the host name.
    ByHost(HostPattern),
}

/// `php_value` and the like.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PhpValue {
    pub name: Box<[u8]>,
    pub value: Box<[u8]>,
    /// Can't be changed by `.htaccess`, `.user.ini` or the script.
    pub is_admin: bool,
}

/// Values that sites are known to set, by user: PHP can be started with them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PhpSet {
    pub user: Option<ProgramUser>,
    values: Arc<[PhpValue]>,
}

impl PhpSet {
    pub fn new(user: Option<ProgramUser>, mut values: Vec<PhpValue>) -> PhpSet {
        values.sort();
        PhpSet {
            user,
            values: values.into(),
        }
    }

    /// Sorted by name.
    pub fn values(&self) -> &Arc<[PhpValue]> {
        &self.values
    }
}

/// An installed PHP, and its socket once it runs.
#[derive(Clone, Debug)]
pub struct PhpPool {
    /// `php-fpm 8.2`, for messages.
    pub name: Box<str>,
    pub kind: PhpKind,
    /// `8.2`, if its name has it.
    pub version: Option<Box<str>>,
    pub program: PathBuf,
    /// Directory of the settings of mod_php that it runs in the place of: php.ini, and `conf.d`.
    pub module_ini: Option<PathBuf>,
    /// User that it runs as; `None`: the user of `[php]`.
    pub user: Option<ProgramUser>,
    /// Its listening socket, which the server owns.
    pub socket: PathBuf,
    pub processes: usize,
    /// Settings of a request end with it, and no file of a site changes that: each process of
    /// php-fpm serves one request; php-cgi reads no `.user.ini`. For lsphp, each process serves one
    /// request, too, because of content that it leaves unread ([`Upstream::alone`]).
    pub serves_once: bool,
    /// Values it is started with, which requests need not send. Sorted by name.
    pub settings: Arc<[PhpValue]>,
    /// Top folders of the machine, in which php-cgi locks these settings.
    pub locked_folders: Arc<[Box<str>]>,
    pub upstream: Arc<Upstream>,
}

/// All pools, grouped by user, the default version first. Empty: PHP is missing or not used.
#[derive(Clone, Debug, Default)]
pub struct PhpPools(Arc<[PhpPool]>);

impl PhpPools {
    pub fn new(mut all: Vec<PhpPool>) -> PhpPools {
        // Stable, so that the first pool of a user remains the first.
        all.sort_by(|one, other| one.user.cmp(&other.user));
        PhpPools(all.into())
    }

    pub fn all(&self) -> &[PhpPool] {
        &self.0
    }

    pub fn first(&self) -> Option<&PhpPool> {
        self.first_of(None)
    }

    /// The pools of a user; `None`: the server's.
    pub fn first_of(&self, user: Option<&ProgramUser>) -> Option<&PhpPool> {
        self.all_of(user).next()
    }

    /// The pool of a version as in handler names: `8.2`, `82`, `8`. `None`: not installed, so the
    /// first one is used.
    pub fn of_version(&self, wanted: &str, user: Option<&ProgramUser>) -> Option<&PhpPool> {
        let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).collect::<Vec<u8>>();
        let wanted = digits(wanted);
        let fits = |pool: &&PhpPool| {
            pool.version
                .as_deref()
                .is_some_and(|version| digits(version).starts_with(&wanted))
        };
        self.all_of(user).filter(|_| !wanted.is_empty()).find(fits)
    }

    /// The pool to use instead of this one for a request with its own settings: one that was
    /// started with them, or with those of them that are locked, or else one that drops them
    /// after each request.
    pub fn for_settings<'p>(&'p self, pool: &'p PhpPool, values: &[PhpValue]) -> &'p PhpPool {
        let others = || {
            self.each_of(pool.user.as_ref())
                .filter(|other| other.program == pool.program)
        };
        // php-cgi keeps nothing between requests, and is started with an administrator's values.
        let is_cgi = pool.kind == PhpKind::Cgi;
        let meant = || values.iter().filter(|value| value.is_admin || !is_cgi);
        let has_them = |other: &&PhpPool| {
            let has = |value: &PhpValue| other.settings.binary_search(value).is_ok();
            !other.settings.is_empty()
                && other.settings.len() == meant().count()
                && meant().all(has)
        };
        // lsphp drops them by itself.
        let needs_own = pool.kind != PhpKind::Lsphp && meant().next().is_some();
        others()
            .find(has_them)
            .or_else(|| others().find(|other| other.serves_once && needs_own))
            .unwrap_or(pool)
    }

    fn all_of(&self, user: Option<&ProgramUser>) -> impl Iterator<Item = &PhpPool> {
        self.each_of(user)
            .filter(|pool| !pool.serves_once && pool.settings.is_empty())
    }

    fn each_of(&self, user: Option<&ProgramUser>) -> impl Iterator<Item = &PhpPool> {
        let begin = self.0.partition_point(|pool| pool.user.as_ref() < user);
        self.0
            .iter()
            .skip(begin)
            .take_while(move |pool| pool.user.as_ref() == user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(version: Option<&str>) -> PhpPool {
        PhpPool {
            name: "php".into(),
            kind: PhpKind::Fpm,
            version: version.map(Into::into),
            program: "/usr/sbin/php-fpm".into(),
            module_ini: None,
            user: None,
            socket: "/run/php.sock".into(),
            processes: 1,
            serves_once: false,
            settings: Arc::default(),
            locked_folders: Arc::default(),
            upstream: Arc::new(Upstream::new("php", Vec::new())),
        }
    }

    #[test]
    fn who_stands_in_for_whom() {
        let once = |pool: PhpPool| PhpPool {
            serves_once: true,
            ..pool
        };
        let other = PhpPool {
            program: "/usr/bin/lsphp".into(),
            ..pool(Some("8.2"))
        };
        let pools = PhpPools::new(vec![once(pool(None)), pool(None), other.clone()]);
        assert!(pools.first().is_some_and(
            |pool| !pool.serves_once && pools.for_settings(pool, &[value("1")]).serves_once
        ));
        assert!(!pools.for_settings(&other, &[value("1")]).serves_once);
    }

    fn value(value: &str) -> PhpValue {
        PhpValue {
            name: b"x".as_slice().into(),
            value: value.as_bytes().into(),
            is_admin: true,
        }
    }

    #[test]
    fn who_was_started_with_it_stands_in_first() {
        let with = |text: &str| PhpPool {
            settings: [value(text)].into(),
            ..pool(None)
        };
        let pools = PhpPools::new(vec![
            with("2"),
            PhpPool {
                serves_once: true,
                ..pool(None)
            },
            pool(None),
            with("1"),
        ]);
        let first = pools.first().unwrap();
        assert!(first.settings.is_empty() && !first.serves_once);
        for (text, is_known) in [("1", true), ("2", true), ("3", false)] {
            let found = pools.for_settings(first, &[value(text)]);
            assert!(
                found.serves_once != is_known
                    && found
                        .settings
                        .first()
                        .is_none_or(|known| *known == value(text)),
                "{text}"
            );
        }
        let changeable = PhpValue {
            is_admin: false,
            ..value("1")
        };
        assert!(
            pools
                .for_settings(first, std::slice::from_ref(&changeable))
                .serves_once
        );
        let cgi = |pool: &PhpPool| PhpPool {
            kind: PhpKind::Cgi,
            ..pool.clone()
        };
        let pools = PhpPools::new(pools.all().iter().map(cgi).collect());
        let first = pools.first().unwrap();
        let alone = pools.for_settings(first, std::slice::from_ref(&changeable));
        assert!(!alone.serves_once && alone.settings.is_empty());
        let both = pools.for_settings(first, &[value("2"), changeable]);
        assert_eq!(both.settings.first(), Some(&value("2")));
        assert!(pools.for_settings(first, &[value("3")]).serves_once);
    }

    #[test]
    fn versions_as_handlers_name_them() {
        let pools = PhpPools::new(vec![pool(None), pool(Some("8.2")), pool(Some("7.4"))]);
        let found = |wanted| {
            pools
                .of_version(wanted, None)
                .and_then(|pool| pool.version.clone())
        };
        for (wanted, version) in [
            ("8.2", "8.2"),
            ("82", "8.2"),
            ("8", "8.2"),
            ("ea-php74", "7.4"),
        ] {
            assert_eq!(found(wanted).as_deref(), Some(version), "{wanted}");
        }
        assert!(
            found("").is_none()
                && found("81").is_none()
                && pools.first().is_some_and(|pool| pool.version.is_none())
        );
    }
}
