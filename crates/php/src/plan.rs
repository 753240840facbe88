//! From what is wanted to pools: which programs, how many processes each, and how the gateway treats them.
//!
//! Difficulty: each worker has connections of its own, and a connection that is kept holds a process. So there are as many processes as
//! connections, the same number for each worker: none can be kept waiting by what another keeps.
//! php-fpm keeps what a request sets (`php_value`, `php_admin_value`) in the process that served it, for whoever comes next. So where rules may
//! set something there is a second pool of it, whose processes serve one request each; the code cache is the parent's and stays.

use crate::detect::{Found, detect};
use saker_config::{
    Model,
    model::{
        Activity, Backend, BackendAddress, Epoch, Member, Php, PhpKind, PhpPool, PhpPools, PhpProgram, PhpUse, ProgramUser, Protocol,
        Settings, Tuning, Upstream,
    },
};
use std::{path::Path, sync::Arc};

/// What one process is reckoned to need, where nobody said how many there shall be; and the bounds of that guess.
const PROCESS_BYTES: u64 = 128 << 20;
const PROCESSES_GUESSED: (u64, u64) = (4, 40);
/// The name of a socket has no more room (unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Writes the pools into the model. `always`: rules that are read at the time of a request may ask for PHP.
pub fn settle(model: &mut Model, workers: usize, always: bool) {
    if always || wants_php(model) {
        let found = found(&model.php);
        let of_server = found.iter().flat_map(|found| pools(model, found, None, workers, always));
        let (of_users, users) = (one_of_each_version(&found), users(model, always));
        let of_users = users.iter().flat_map(|user| of_users.iter().flat_map(|found| pools(model, found, Some(user), workers, always)));
        model.php_pools = PhpPools::new(of_server.chain(of_users).collect());
    }
}

/// For `saker check`: what would be run; `None`: nobody wants any.
pub fn explain(model: &Model) -> Option<String> {
    let is_wanted = wants_php(model) || model.php_pools.first().is_some();
    let shown = |pool: &PhpPool| format!("{} ({}), {} processes", pool.name, pool.program.display(), pool.processes);
    is_wanted.then(|| model.php_pools.first().map_or_else(|| "none is installed: PHP files are answered 503".to_owned(), shown))
}

/// Whom it is to run as, besides the server's. Rules that are read later may ask for it in all of their hosts.
fn users(model: &Model, always: bool) -> Vec<ProgramUser> {
    let wanted = |settings: &Settings| always || matches!(settings.php, PhpUse::Managed);
    let asking = model.all_settings().filter(|(_, settings)| wanted(settings));
    let mut users: Vec<ProgramUser> = asking.filter_map(|(_, settings)| settings.program_user.clone()).collect();
    users.sort();
    users.dedup();
    users
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
    model.all_settings().any(|(_, settings)| matches!(settings.php, PhpUse::Managed))
}

fn found(php: &Php) -> Vec<Found> {
    let search_path = || std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let all = || detect(Path::new("/"), &search_path());
    match &php.program {
        PhpProgram::Auto => all(),
        PhpProgram::Kind(kind) => all().into_iter().filter(|found| found.kind == *kind).collect(),
        PhpProgram::Path(path) => Found::named(path).into_iter().collect(),
    }
}

fn pools(model: &Model, found: &Found, user: Option<&ProgramUser>, workers: usize, has_settings: bool) -> Vec<PhpPool> {
    let also_once = has_settings && found.kind == PhpKind::Fpm;
    let all: Option<Vec<PhpPool>> =
        [false, true].into_iter().take(1 + usize::from(also_once)).map(|once| pool(model, found, user, workers, once)).collect();
    // Neither without the other, since settings would go to the one that is there.
    all.unwrap_or_default()
}

fn pool(model: &Model, found: &Found, user: Option<&ProgramUser>, workers: usize, serves_once: bool) -> Option<PhpPool> {
    let php = &model.php;
    let version = found.version.as_deref().unwrap_or("any");
    let whose = user.map(|user| format!("-{}", file_name(user))).unwrap_or_default();
    // With a character that no user's name has there.
    let once = if serves_once { "+once" } else { "" };
    let socket = model.server.state_dir.join(format!("{}-{version}{once}{whose}.sock", found.kind.name()));
    if socket.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return None;
    }
    let per_worker = php.processes_max.unwrap_or_else(guessed).div_ceil(workers.max(1)).max(1);
    let processes = per_worker * workers.max(1);
    let tuning = tuning(php, processes, if serves_once { 0 } else { per_worker });
    let backend = Backend::new(protocol(found.kind), BackendAddress::Unix(socket.clone()));
    let shown = if serves_once { format!("{}, a process for each request", found.name()) } else { found.name() };
    let name = user.map_or_else(|| shown.clone(), |user| format!("{shown} of {}", user.user));
    let upstream = Arc::new(Upstream::new(&name, vec![Member::new(backend, tuning)]));
    let (name, program, user) = (name.into(), found.program.clone(), user.cloned());
    Some(PhpPool { name, user, kind: found.kind, version: found.version.clone(), program, socket, processes, serves_once, upstream })
}

/// One that no other user has.
fn file_name(user: &ProgramUser) -> String {
    let whole = user.group.as_ref().map_or_else(|| user.user.clone(), |group| format!("{}.{group}", user.user));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    whole.chars().map(|c| if is_plain(c) { c.to_string() } else { format!("%{:x}", u32::from(c)) }).collect()
}

fn tuning(php: &Php, processes: usize, kept_max: usize) -> Tuning {
    let usual = Tuning::default();
    Tuning {
        // A slow upload would hold one of few processes, and PHP begins when all of it is there anyway.
        request_ahead_bytes: u64::MAX,
        connections_max: processes,
        kept_max,
        // Before the process thinks that nobody comes any more.
        kept_ms: php.idle_timeout_ms.saturating_sub(1000).clamp(500, 30_000),
        queue_max: php.queue_max,
        queue_timeout_ms: php.queue_timeout_ms,
        timeout_ms: if php.run_time_ms > 0 { php.run_time_ms + 5_000 } else { 300_000 },
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
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::{ServeOptions, model::Workers};

    fn model(php: PhpUse, state_dir: &str) -> Model {
        let options = ServeOptions { php, workers: Workers::Count(3), state_dir: Some(state_dir.into()), ..ServeOptions::default() };
        let mut model = Model::for_directory(options);
        model.php = Php { program: PhpProgram::Path("/opt/php-fpm8.2".into()), processes_max: Some(4), ..Php::default() };
        model
    }

    #[test]
    fn the_same_number_of_processes_for_each_worker() {
        let mut model = model(PhpUse::Managed, "/run/saker");
        settle(&mut model, 3, false);
        let pool = model.php_pools.first().unwrap();
        let tuning = &pool.upstream.members[0].tuning;
        assert_eq!((pool.processes, tuning.connections_max, tuning.kept_max), (6, 6, 2));
        assert_eq!(pool.upstream.members[0].backend.to_string(), "fcgi at unix:/run/saker/php-fpm-8.2.sock");
        assert_eq!(explain(&model).as_deref(), Some("php-fpm 8.2 (/opt/php-fpm8.2), 6 processes"));
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
        let once = model.php_pools.for_settings(model.php_pools.first().unwrap());
        let member = &once.upstream.members[0];
        assert_eq!(member.backend.to_string(), "fcgi at unix:/run/saker/php-fpm-8.2+once.sock");
        assert!(once.serves_once && member.tuning.kept_max == 0 && member.tuning.connections_max == 6);
    }

    #[test]
    fn a_socket_that_has_no_room_for_its_name() {
        let mut model = model(PhpUse::Managed, &format!("/{}", "x".repeat(120)));
        settle(&mut model, 1, false);
        assert!(model.php_pools.first().is_none());
        assert!(explain(&model).unwrap().contains("503"));
    }

    #[test]
    fn a_guess_is_within_its_bounds() {
        assert!((4..=40).contains(&guessed()));
    }
}
