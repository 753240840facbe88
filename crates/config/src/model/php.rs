//! PHP that the server runs itself: what is wanted of it (`[php]`), and the pools that were made of
//! that.

use super::{HostPattern, Origin, ProgramUser, Upstream};
use std::{path::PathBuf, sync::Arc};

/// `[php]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Php {
    pub program: PhpProgram,
    /// Of one pool; `None`: by the machine's memory.
    pub processes_max: Option<usize>,
    /// Of one process; 0: what php.ini says (memory_limit) is all.
    pub memory_bytes_max: u64,
    /// Of one request; 0: what php.ini says (max_execution_time) is all.
    pub run_time_ms: u64,
    /// Requests that wait for a process, and how long they do.
    pub queue_max: usize,
    pub queue_timeout_ms: u64,
    /// A pool that nobody asked for so long ends, and begins with the next request; 0: never.
    pub pool_idle_timeout_ms: u64,
    /// A process that has had so many requests makes room for a new one; 0: never.
    pub requests_max: u64,
    /// Idle processes leave after this.
    pub idle_timeout_ms: u64,
    /// Whom it runs as; only root can choose. `None`: the server's user, never root.
    pub user: Option<String>,
    pub group: Option<String>,
    /// Folder of php.ini, or the file; `None`: PHP's own.
    pub ini: Option<PathBuf>,
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
            origin: Origin::built_in(),
        }
    }
}

/// Which PHP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhpProgram {
    /// The first kind that is installed: lsphp, php-fpm, php-cgi.
    Auto,
    Kind(PhpKind),
    /// A program, whose name says its kind.
    Path(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhpKind {
    Lsphp,
    Fpm,
    Cgi,
}

impl PhpKind {
    /// In the order of preference.
    pub const ALL: [PhpKind; 3] = [PhpKind::Lsphp, PhpKind::Fpm, PhpKind::Cgi];

    pub fn name(self) -> &'static str {
        match self {
            PhpKind::Lsphp => "lsphp",
            PhpKind::Fpm => "php-fpm",
            PhpKind::Cgi => "php-cgi",
        }
    }
}

/// What is done with PHP's files at a place of a native site.
#[derive(Clone, Debug, Default)]
pub enum PhpUse {
    /// Nobody runs them, and nobody sees them.
    #[default]
    Off,
    /// By the pool of the server.
    Managed,
    /// By somebody else's.
    Upstream(Arc<Upstream>),
    /// By somebody else's, whose socket follows from the host's name.
    ByHost(HostPattern),
}

/// `php_value` and its kin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PhpValue {
    pub name: Box<[u8]>,
    pub value: Box<[u8]>,
    /// Can't be changed by `.htaccess`, `.user.ini` or the script.
    pub is_admin: bool,
}

/// What sites are known to set, for whom: PHP can be started with it.
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

    /// In the order of their names.
    pub fn values(&self) -> &Arc<[PhpValue]> {
        &self.values
    }
}

/// One PHP that is installed, and how it is reached once it runs.
#[derive(Clone, Debug)]
pub struct PhpPool {
    /// `php-fpm 8.2`, for people.
    pub name: Box<str>,
    pub kind: PhpKind,
    /// `8.2`, where its name says so.
    pub version: Option<Box<str>>,
    pub program: PathBuf,
    /// Whom it runs as; `None`: whom `[php]` says.
    pub user: Option<ProgramUser>,
    /// Its own listening socket, which is the server's.
    pub socket: PathBuf,
    pub processes: usize,
    /// Each of its processes serves one request, and what that has set is gone with it.
    pub serves_once: bool,
    /// What it is started with, so that requests that want this and no more need not bring it. In
    /// the order of their names.
    pub settings: Arc<[PhpValue]>,
    pub upstream: Arc<Upstream>,
}

/// All of them, each user's together, the one that is used where no version is named first. Empty:
/// there is no PHP, or nobody wants one.
#[derive(Clone, Debug, Default)]
pub struct PhpPools(Arc<[PhpPool]>);

impl PhpPools {
    pub fn new(mut all: Vec<PhpPool>) -> PhpPools {
        // Stable: of a user's the first stays the first.
        all.sort_by(|one, other| one.user.cmp(&other.user));
        PhpPools(all.into())
    }

    pub fn all(&self) -> &[PhpPool] {
        &self.0
    }

    pub fn first(&self) -> Option<&PhpPool> {
        self.first_of(None)
    }

    /// Of those that run as a user; `None`: the server's.
    pub fn first_of(&self, user: Option<&ProgramUser>) -> Option<&PhpPool> {
        self.all_of(user).next()
    }

    /// The one of a version, as handlers' names have it: `8.2`, `82`, `8`. `None`: there is none,
    /// and the first has to do.
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

    /// The one that stands in for this one where a request has settings of its own: one that was
    /// started with them, or else one that forgets them.
    pub fn for_settings<'p>(&'p self, pool: &'p PhpPool, values: &[PhpValue]) -> &'p PhpPool {
        let others = || {
            self.each_of(pool.user.as_ref())
                .filter(|other| other.program == pool.program)
        };
        let has_them = |other: &&PhpPool| {
            let has = |value: &PhpValue| other.settings.binary_search(value).is_ok();
            other.settings.len() == values.len() && values.iter().all(has)
        };
        others()
            .find(has_them)
            .or_else(|| others().find(|other| other.serves_once))
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
            user: None,
            socket: "/run/php.sock".into(),
            processes: 1,
            serves_once: false,
            settings: Arc::default(),
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
        assert!(pools.for_settings(first, &[changeable]).serves_once);
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
