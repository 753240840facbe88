//! From what is wanted to pools: which programs, how many processes each, and how the gateway
//! treats them.
//!
//! Caveat: each worker has its own connections, and a kept connection occupies a process. So there
//! are as many processes as connections, the same number for each worker: no worker waits for
//! connections that another one keeps. php-fpm keeps what a request sets (`php_value`,
//! `php_admin_value`) in the process that served it, where it affects the next request. So where
//! rules may set something, there is a second pool, whose processes serve one request each; the
//! code cache belongs to the parent and survives. Settings known before any request
//! (`php_admin_value` of a host) get a pool that is started with them and whose processes are
//! reused. php-cgi drops what a request sets by itself, but a site's `.user.ini` could switch off
//! the script that sets it; its second pool reads no such files, and is for requests with
//! `php_admin_value` that were not known before. lsphp takes content that a script leaves unread
//! for its next request; its second pool, for content that may stay unread, serves one request per
//! process.

use crate::{
    choice,
    detect::{Found, installed},
    module,
};
use saker_config::{
    Diagnostic, Model,
    model::{
        Activity, Backend, BackendAddress, Epoch, Htaccess, Member, Php, PhpKind, PhpPool,
        PhpPools, PhpProgram, PhpSet, PhpUse, PhpValue, ProgramUser, Protocol, Settings, Tuning,
        Upstream,
    },
};
use std::{collections::HashSet, path::Path, sync::Arc};

/// Estimated memory of one process, used if no process count is configured, and the bounds of that
/// estimate.
const PROCESS_BYTES: u64 = 128 << 20;
const PROCESSES_GUESSED: (u64, u64) = (4, 40);
/// Pools for what hosts set. Each is a socket and a task; PHP runs in it only while it is asked
/// for.
const SETS_MAX: usize = 256;

/// Writes the pools into the model. `always`: rules that are read at the time of a request may ask
/// for PHP.
pub fn settle(model: &mut Model, workers: usize, always: bool) {
    if always || wants_php(model) {
        let all = all_pools(model, workers, always);
        model.php_pools = PhpPools::new(all);
    }
}

fn all_pools(model: &Model, workers: usize, always: bool) -> Vec<PhpPool> {
    let found = found(&model.php);
    // `.htaccess` files have settings for PHP, too, which must not stay in a process.
    let has_settings = always
        || model
            .all_settings()
            .any(|(_, settings)| settings.htaccess != Htaccess::Off);
    let of_server = found
        .iter()
        .flat_map(|found| pools(model, found, None, workers, has_settings));
    let (of_users, users) = (one_of_each_version(&found), users(model, always));
    let of_users = users.iter().flat_map(|user| {
        of_users
            .iter()
            .flat_map(|found| pools(model, found, Some(user), workers, has_settings))
    });
    let mut all: Vec<PhpPool> = of_server.chain(of_users).collect();
    for set in sets(model, &users) {
        let fpms = found.iter().filter(|found| found.kind == PhpKind::Fpm);
        all.extend(
            fpms.map(|found| pool(model, found, set.user.as_ref(), workers, &Kept::Set(set))),
        );
    }
    let locked = locked_sets(model, &users);
    for set in &locked {
        let cgis = found.iter().filter(|found| found.kind == PhpKind::Cgi);
        let kept = Kept::Locked(set, locked.len());
        all.extend(cgis.map(|found| pool(model, found, set.user.as_ref(), workers, &kept)));
    }
    // Two sets with one name would be the wrong one for each other.
    let mut sockets = HashSet::new();
    all.retain(|pool| sockets.insert(pool.socket.clone()));
    all
}

/// Describes the planned pools for `saker check`; `None`: PHP isn't used.
pub fn explain(model: &Model) -> Option<String> {
    let is_wanted = wants_php(model) || model.php_pools.first().is_some();
    let shown = |pool: &PhpPool| {
        format!(
            "{} ({}), {} processes",
            pool.name,
            pool.program.display(),
            pool.processes
        )
    };
    let none = || {
        format!(
            "{}. Until then PHP files are answered 503",
            choice::missing(&model.php.program)
        )
    };
    is_wanted.then(|| model.php_pools.first().map_or_else(none, shown))
}

/// Explains why there is no pool although a specific PHP is configured. The first request reports
/// which site needs it.
pub fn none_of_the_named(model: &Model) -> Option<String> {
    let is_missing = wants_php(model)
        && model.php_pools.first().is_none()
        && model.php.program != PhpProgram::Auto;
    is_missing.then(|| choice::missing(&model.php.program))
}

/// Whom it is to run as, besides the server's. Rules that are read later may ask for it in all of
/// their hosts.
fn users(model: &Model, always: bool) -> Vec<ProgramUser> {
    let wanted = |settings: &Settings| always || matches!(settings.php, PhpUse::Managed);
    let asking = model
        .all_settings()
        .filter(|(_, settings)| wanted(settings));
    let mut users: Vec<ProgramUser> = asking
        .filter_map(|(_, settings)| settings.program_user.clone())
        .collect();
    users.sort();
    users.dedup();
    users
}

/// Those that php-fpm's pool file can say, for those users that have pools.
fn sets<'m>(model: &'m Model, users: &[ProgramUser]) -> Vec<&'m PhpSet> {
    let has_pools = |set: &PhpSet| set.user.as_ref().is_none_or(|user| users.contains(user));
    let is_sayable = |set: &PhpSet| !set.values().is_empty() && set.values().iter().all(sayable);
    let mut sets: Vec<&PhpSet> = model
        .php_sets
        .iter()
        .filter(|set| has_pools(set) && is_sayable(set))
        .collect();
    sets.sort();
    sets.dedup();
    sets.truncate(SETS_MAX);
    sets
}

/// The administrators' values of all sets that can be said, for php-cgi.
fn locked_sets(model: &Model, users: &[ProgramUser]) -> Vec<PhpSet> {
    let has_pools = |set: &&PhpSet| set.user.as_ref().is_none_or(|user| users.contains(user));
    let of_administrator = |set: &PhpSet| {
        let values = set.values().iter().filter(|value| value.is_admin);
        PhpSet::new(set.user.clone(), values.cloned().collect())
    };
    let mut sets: Vec<PhpSet> = model
        .php_sets
        .iter()
        .filter(has_pools)
        .map(of_administrator)
        .filter(|set| !set.values().is_empty() && set.values().iter().all(sayable))
        .collect();
    sets.sort();
    sets.dedup();
    sets.truncate(SETS_MAX);
    sets
}

/// The folders of the root folder.
fn top_folders() -> Arc<[Box<str>]> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let entries = std::fs::read_dir("/").into_iter().flatten().flatten();
    let mut names: Vec<Box<str>> = entries
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.bytes().all(is_plain))
        .map(String::into_boxed_str)
        .collect();
    names.sort();
    names.into()
}

/// Between single quotes, where php-fpm puts the pool's name for `$pool`.
fn sayable(value: &PhpValue) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let is_plain = |byte: &u8| !byte.is_ascii_control() && !matches!(byte, b'\'' | b'$');
    let text = std::str::from_utf8(&value.value).is_ok();
    !value.name.is_empty()
        && value.name.iter().all(is_name)
        && !value.value.is_empty()
        && text
        && value.value.iter().all(is_plain)
}

/// State that a pool's processes keep between requests.
enum Kept<'m> {
    Everything,
    /// They end with the request.
    Nothing,
    Set(&'m PhpSet),
    /// One of so many sets that are locked, with php-cgi, which starts all of its processes
    /// at once.
    Locked(&'m PhpSet, usize),
}

/// A machine with many such sets has this part of the usual number of processes for each.
const LOCKED_PART_MAX: usize = 4;

impl Kept<'_> {
    /// For the socket's name, with a character that no user's name has there. The same set has the
    /// same name after a reload.
    fn mark(&self) -> String {
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        match self {
            Kept::Everything => String::new(),
            Kept::Nothing => "+once".into(),
            Kept::Set(set) | Kept::Locked(set, _) => {
                let parts = set.values().iter().flat_map(|value| {
                    [
                        &*value.name,
                        &value.value,
                        if value.is_admin { b"!" } else { b"" },
                    ]
                });
                let bytes = parts.flat_map(|part| part.iter().copied().chain(std::iter::once(0)));
                format!("+{:016x}", bytes.fold(0xcbf2_9ce4_8422_2325, fnv))
            }
        }
    }
}

/// There may be thousands of users, and each pool has a socket.
fn one_of_each_version(found: &[Found]) -> Vec<&Found> {
    let mut kept: Vec<&Found> = Vec::new();
    for found in found {
        if !kept.iter().any(|other| other.version == found.version) {
            kept.push(found);
        }
    }
    kept
}

fn wants_php(model: &Model) -> bool {
    model
        .all_settings()
        .any(|(_, settings)| matches!(settings.php, PhpUse::Managed))
}

/// Those that may be used, the first choice first.
pub fn found(php: &Php) -> Vec<Found> {
    let mut found = match &php.program {
        PhpProgram::Auto => installed(),
        PhpProgram::Kind(kind) => installed()
            .into_iter()
            .filter(|found| found.kind == *kind)
            .collect(),
        PhpProgram::Path(path) => Found::named(path).into_iter().collect(),
    };
    module::prefer(php, &mut found);
    found
}

/// Remarks about mod_php that a configuration loads: there is nothing to run in its place, or only
/// other versions.
pub fn problems(model: &Model) -> Vec<Diagnostic> {
    module::problems(&model.php, &found(&model.php))
}

fn pools(
    model: &Model,
    found: &Found,
    user: Option<&ProgramUser>,
    workers: usize,
    has_settings: bool,
) -> Vec<PhpPool> {
    let usual = pool(model, found, user, workers, &Kept::Everything);
    let is_lsphp = found.kind == PhpKind::Lsphp;
    if !has_settings && !is_lsphp {
        return vec![usual];
    }
    let once = pool(model, found, user, workers, &Kept::Nothing);
    let upstream = Arc::new(Upstream {
        alone: is_lsphp.then(|| Arc::clone(&once.upstream)),
        ..Upstream::clone(&usual.upstream)
    });
    vec![PhpPool { upstream, ..usual }, once]
}

fn pool(
    model: &Model,
    found: &Found,
    user: Option<&ProgramUser>,
    workers: usize,
    kept: &Kept<'_>,
) -> PhpPool {
    let php = &model.php;
    let version = found.version.as_deref().unwrap_or("any");
    let whose = user
        .map(|user| format!("-{}", file_name(user)))
        .unwrap_or_default();
    let socket = model.server.state_dir.join(format!(
        "{}-{version}{}{whose}.sock",
        found.kind.name(),
        kept.mark()
    ));
    let guess = || match kept {
        Kept::Locked(_, sets) => guessed().div_ceil((*sets).clamp(1, LOCKED_PART_MAX)),
        _ => guessed(),
    };
    let per_worker = php
        .processes_max
        .unwrap_or_else(guess)
        .div_ceil(workers.max(1))
        .max(1);
    let processes = per_worker * workers.max(1);
    let serves_once = matches!(kept, Kept::Nothing);
    let ends_with_request = serves_once && found.kind != PhpKind::Cgi;
    let tuning = Tuning {
        forks_on_demand: found.kind == PhpKind::Fpm,
        ..tuning(
            php,
            processes,
            if ends_with_request { 0 } else { per_worker },
        )
    };
    let backend = Backend {
        is_own_php: true,
        ..Backend::new(protocol(found.kind), BackendAddress::Unix(socket.clone()))
    };
    let (shown, settings) = shown_and_settings(found, kept);
    let name = user.map_or_else(|| shown.clone(), |user| format!("{shown} of {}", user.user));
    let upstream = Arc::new(Upstream::new(&name, vec![Member::new(backend, tuning)]));
    let (name, program, user) = (name.into(), found.program.clone(), user.cloned());
    let locked_folders = match kept {
        Kept::Locked(..) => top_folders(),
        _ => Arc::default(),
    };
    let module_ini = module::ini(Path::new("/"), php, found);
    PhpPool {
        name,
        user,
        kind: found.kind,
        version: found.version.clone(),
        program,
        module_ini,
        socket,
        processes,
        serves_once,
        settings,
        locked_folders,
        upstream,
    }
}

/// A pool's name for messages, and the values that it is started with.
fn shown_and_settings(found: &Found, kept: &Kept<'_>) -> (String, Arc<[PhpValue]>) {
    match kept {
        Kept::Everything => (found.name(), Arc::default()),
        Kept::Nothing if found.kind == PhpKind::Cgi => (
            format!("{} without .user.ini", found.name()),
            Arc::default(),
        ),
        Kept::Nothing => (
            format!("{}, a process for each request", found.name()),
            Arc::default(),
        ),
        Kept::Set(set) | Kept::Locked(set, _) => (
            format!("{} with settings of its own", found.name()),
            Arc::clone(set.values()),
        ),
    }
}

/// One that no other user has.
fn file_name(user: &ProgramUser) -> String {
    let whole = user.group.as_ref().map_or_else(
        || user.user.clone(),
        |group| format!("{}.{group}", user.user),
    );
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    whole
        .chars()
        .map(|c| {
            if is_plain(c) {
                c.to_string()
            } else {
                format!("%{:x}", u32::from(c))
            }
        })
        .collect()
}

fn tuning(php: &Php, processes: usize, kept_max: usize) -> Tuning {
    let usual = Tuning::default();
    Tuning {
        // A slow upload would hold one of few processes, and PHP begins when all of it is there
        // anyway.
        request_ahead_bytes: u64::MAX,
        connections_max: processes,
        kept_max,
        // Shorter than the time after which the process itself gives up on an idle connection.
        kept_ms: php.idle_timeout_ms.saturating_sub(1000).clamp(500, 30_000),
        queue_max: php.queue_max,
        queue_timeout_ms: php.queue_timeout_ms,
        timeout_ms: if php.run_time_ms > 0 {
            php.run_time_ms + 5_000
        } else {
            300_000
        },
        epoch: Epoch::default(),
        activity: (php.pool_idle_timeout_ms > 0).then(Activity::default),
        ..usual
    }
}

fn protocol(kind: PhpKind) -> Protocol {
    match kind {
        PhpKind::Lsphp => Protocol::Lsapi,
        PhpKind::Fpm | PhpKind::Cgi => Protocol::FastCgi,
    }
}

fn guessed() -> usize {
    let (least, most) = PROCESSES_GUESSED;
    usize::try_from((memory_bytes() / PROCESS_BYTES).clamp(least, most)).unwrap_or(4)
}

fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::{ServeOptions, model::Workers};

    fn model(php: PhpUse, state_dir: &str) -> Model {
        let options = ServeOptions {
            php,
            workers: Workers::Count(3),
            state_dir: Some(state_dir.into()),
            ..ServeOptions::default()
        };
        let mut model = Model::for_directory(options);
        model.php = Php {
            program: PhpProgram::Path("/opt/php-fpm8.2".into()),
            processes_max: Some(4),
            ..Php::default()
        };
        model
    }

    #[test]
    fn the_same_number_of_processes_for_each_worker() {
        let mut model = model(PhpUse::Managed, "/run/saker");
        settle(&mut model, 3, false);
        let pool = model.php_pools.first().unwrap();
        let tuning = &pool.upstream.members[0].tuning;
        assert_eq!(
            (pool.processes, tuning.connections_max, tuning.kept_max),
            (6, 6, 2)
        );
        assert_eq!(
            pool.upstream.members[0].backend.to_string(),
            "fcgi at unix:/run/saker/php-fpm-8.2.sock"
        );
        assert_eq!(
            explain(&model).as_deref(),
            Some("php-fpm 8.2 (/opt/php-fpm8.2), 6 processes")
        );
    }

    #[test]
    fn none_where_nobody_wants_any() {
        let mut off = model(PhpUse::Off, "/run/saker");
        settle(&mut off, 1, false);
        assert!(off.php_pools.first().is_none() && explain(&off).is_none());
        settle(&mut off, 1, true);
        assert!(off.php_pools.first().is_some());
    }

    #[test]
    fn settings_have_a_pool_of_their_own() {
        let mut model = model(PhpUse::Managed, "/run/saker");
        settle(&mut model, 3, true);
        let value = |text: &str| PhpValue {
            name: b"open_basedir".as_slice().into(),
            value: text.as_bytes().into(),
            is_admin: true,
        };
        let once = model
            .php_pools
            .for_settings(model.php_pools.first().unwrap(), &[value("/a")]);
        let member = &once.upstream.members[0];
        assert_eq!(
            member.backend.to_string(),
            "fcgi at unix:/run/saker/php-fpm-8.2+once.sock"
        );
        assert!(
            once.serves_once && member.tuning.kept_max == 0 && member.tuning.connections_max == 6
        );
        model.php_sets = ["/a", "/a", "it's", "$pool", ""]
            .map(|text| PhpSet::new(None, vec![value(text)]))
            .into();
        model.php_sets.push(PhpSet::new(
            Some(ProgramUser {
                user: "nobody".into(),
                group: None,
            }),
            vec![value("/b")],
        ));
        settle(&mut model, 3, true);
        assert_eq!(
            model.php_pools.all().len(),
            3,
            "one for the set that can be said, of a user that has pools"
        );
        let own = model
            .php_pools
            .for_settings(model.php_pools.first().unwrap(), &[value("/a")]);
        assert!(
            !own.serves_once
                && own.settings.len() == 1
                && own.upstream.members[0].tuning.kept_max == 2
        );
    }

    #[test]
    fn unread_content_of_lsphp_ends_with_its_process() {
        let mut model = model(PhpUse::Managed, "/run/saker");
        model.php.program = PhpProgram::Path("/opt/lsphp82".into());
        settle(&mut model, 3, false);
        let [usual, once] = model.php_pools.all() else {
            panic!("two pools");
        };
        assert!(!usual.serves_once && once.serves_once && usual.kind == PhpKind::Lsphp);
        let alone = usual.upstream.alone.as_ref().unwrap();
        assert!(Arc::ptr_eq(alone, &once.upstream));
        assert_eq!(alone.members[0].tuning.kept_max, 0);
        let value = PhpValue {
            name: b"x".as_slice().into(),
            value: b"1".as_slice().into(),
            is_admin: true,
        };
        assert!(!model.php_pools.for_settings(usual, &[value]).serves_once);
    }

    #[test]
    fn any_state_directory_has_room_for_sockets() {
        let long = format!("/{}", "x".repeat(120));
        let mut model = model(PhpUse::Managed, &long);
        settle(&mut model, 1, false);
        assert!(model.php_pools.first().unwrap().socket.starts_with(&long));
    }

    #[test]
    fn a_guess_is_within_its_bounds() {
        assert!((4..=40).contains(&guessed()));
    }
}
