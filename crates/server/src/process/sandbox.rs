//! The sandbox of the server's process: what its configuration needs is allowed, and nothing else.
//!
//! Called by: the start, as the last step with a single thread; reloads; status reports.
//! Caveat: Landlock can't be widened. A reload that needs more is refused, and a new server takes
//! over, without loss ([`Supervisor::outgrown`]; `launcher`, or `saker reload`). Where there is a broker, it
//! opens what the configuration names and starts programs, so nothing of that is allowed here.
//! Out of scope: how the kernel is told (`saker_sandbox`).

use super::{console_parts, model_paths, privileges, supervisor::Supervisor};
use saker_apache::Apache;
use saker_broker_client::BrokerClient;
use saker_cli::source::Read;
use saker_config::{
    Model,
    model::{
        AccessLogTarget, Address, AuthRules, Automatic, DatabaseUrl, Htaccess, LocatedPath,
        Sandbox, Settings, SymlinkPolicy, UserDirectories,
    },
};
use saker_pipeline::FrontEnd;
use saker_sandbox::{InForce, Policy};
use saker_serving::tls_state;
use saker_telemetry::{error_log, error_log::ErrorLogTarget, message};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Interval of checks for refused system calls.
const LOOK: Duration = Duration::from_secs(1);

/// Read by the C library, and by the libraries that servers use: for names, time zones, modules,
/// and the machine's size. Descriptors of other processes stay closed: Landlock forbids tracing.
const SYSTEM_READ: [&str; 17] = [
    "/usr",
    "/lib",
    "/lib64",
    "/proc",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/run/systemd/resolve",
    "/run/NetworkManager",
    "/run/resolvconf",
    "/run/connman",
    "/var/lib/sss",
    "/var/lib/extrausers",
    "/nix/store",
    "/gnu/store",
    "/dev/urandom",
    "/dev/random",
    "/dev/zero",
];
/// Devices that libraries write to.
const SYSTEM_WRITE: [&str; 4] = ["/dev/null", "/dev/full", "/dev/tty", "/dev/pts"];
/// Parts of /etc that a server running as root does not read.
const SECRET: [&str; 8] = [
    "shadow",
    "shadow-",
    "gshadow",
    "gshadow-",
    "sudoers",
    "sudoers.d",
    "ssh",
    "security",
];
/// Users and their homes.
const ACCOUNTS: &str = "/etc/passwd";
/// Directories that libmodsecurity's rules have it write to.
const MODSECURITY_WRITE: [&str; 3] = ["/var/log", "/var/cache/modsecurity", "/var/lib/modsecurity"];

/// Confines the process.
///
/// # Errors
/// The reason why it can't be done, where the configuration insists.
pub fn enforce(read: &Read, broker: Option<&BrokerClient>) -> Result<(), String> {
    let mode = read.model.server.sandbox;
    if mode == Sandbox::Off {
        return Ok(());
    }
    let mut allowed = needs(read, broker);
    system(&mut allowed);
    // Even where a broker does: what this process may open as well costs no question.
    opened_by_main(&read.model, &mut allowed);
    if read.front_end.is_some() {
        // No configuration of another server names a console; `saker console` opens one.
        edited(&read.model, &mut allowed);
    }
    let in_force = saker_sandbox::enforce(allowed);
    let missing: Vec<&str> = reasons(in_force).collect();
    if mode == Sandbox::On && !missing.is_empty() {
        return Err(format!(
            "the sandbox can't be put in force (`sandbox = \"on\"` in [server]): {}",
            missing.join("; ")
        ));
    }
    error_log::log(&message::SANDBOX, format_args!("{}", summary(in_force)));
    Ok(())
}

/// Each once.
fn reasons(in_force: &InForce) -> impl Iterator<Item = &str> {
    let files = in_force.files.as_ref().err();
    let calls = in_force
        .calls
        .as_ref()
        .err()
        .filter(|reason| Some(*reason) != files);
    files.into_iter().chain(calls).map(String::as_str)
}

fn summary(in_force: &InForce) -> String {
    let by = match (&in_force.files, in_force.restricts_ports) {
        (Ok(_), true) => Some("files and ports by Landlock"),
        (Ok(_), false) => Some("files by Landlock"),
        (Err(_), _) => None,
    };
    let calls = in_force.calls.is_ok().then_some("system calls by seccomp");
    let confined: Vec<&str> = by.into_iter().chain(calls).collect();
    let mut text = match confined.is_empty() {
        true => "nothing is confined".to_owned(),
        false => confined.join(", "),
    };
    for reason in reasons(in_force) {
        text += &format!("; {reason}");
    }
    text
}

/// The part of the status report.
pub fn report(mode: Sandbox) -> Value {
    let mode = mode.name();
    let Some(in_force) = saker_sandbox::in_force() else {
        return json!({ "mode": mode, "summary": "off (`sandbox` in [server])" });
    };
    let policy = in_force.policy();
    let files = in_force.files.is_ok();
    json!({
        "mode": mode,
        "summary": summary(in_force),
        "landlock": in_force.files.as_ref().ok(),
        "seccomp": in_force.calls.is_ok(),
        "reasons": reasons(in_force).collect::<Vec<_>>(),
        "reads": files.then_some(&policy.reads),
        "writes": files.then_some(&policy.writes),
        "main_writes": files.then_some(&policy.main_writes),
        "ports": in_force.restricts_ports.then_some(&policy.ports),
    })
}

/// Logs system calls that were refused, for as long as the server runs.
pub async fn report_refused_calls() {
    loop {
        tokio::time::sleep(LOOK).await;
        for name in saker_sandbox::refused_calls() {
            error_log::log(&message::SANDBOX_REFUSED, format_args!("{name}"));
        }
    }
}

/// Returns true if the server will be confined once it has given up its rights.
pub fn is_expected(read: &Read, broker: Option<&BrokerClient>) -> bool {
    let model = &read.model;
    let is_root = rustix::process::geteuid().is_root();
    let user = model.server.user.as_deref().and_then(privileges::uid_of);
    let becomes_user = is_root && user.is_some_and(|uid| uid != 0);
    let has_broker = broker.is_some() && becomes_user;
    model.server.sandbox != Sandbox::Off
        && own_programs(model, read.front_end.as_ref(), has_broker).is_none()
}

impl Supervisor {
    /// Refuses a configuration that needs more than is in force.
    pub(super) fn check_sandbox(&self, read: &Read) -> Result<(), String> {
        let Some(in_force) = saker_sandbox::in_force() else {
            return Ok(());
        };
        let lacking = in_force.lacks(&needs(read, self.shared.broker.as_deref()));
        if lacking.is_empty() {
            return Ok(());
        }
        self.outgrown.set(true);
        Err(format!(
            "the sandbox in force allows too little for this configuration, which needs to {}; a new server can take over \
             without loss (`saker reload`, a signal, or `watch = true` starts one)\n",
            lacking.join(", ")
        ))
    }

    /// A configuration that could not be loaded, perhaps because the sandbox does not let this
    /// process read new parts of it.
    pub(super) fn note_unloaded(&self, text: String) -> String {
        let is_confined = saker_sandbox::in_force().is_some_and(|now| now.files.is_ok());
        if is_confined && self.shared.broker.is_none() && text.contains("ermission denied") {
            self.outgrown.set(true);
        }
        text
    }
}

/// Needs of a configuration that this process has to meet itself, besides those that every server
/// has ([`system`]).
fn needs(read: &Read, broker: Option<&BrokerClient>) -> Policy {
    let (model, front_end) = (&read.model, read.front_end.as_ref());
    let mut policy = Policy {
        own_programs: own_programs(model, front_end, broker.is_some() && has_become_user(model)),
        ..Policy::default()
    };
    if policy.own_programs.is_some() {
        // Nothing is confined; of many sites, the rest would take its time.
        return policy;
    }
    content(model, front_end.is_some(), &mut policy);
    let nginx = front_end.and_then(|one| one.downcast_ref::<saker_nginx::FrontEnd>());
    if nginx.is_some_and(|nginx| nginx.nginx.writes_files()) {
        // Names of their directories may have variables.
        policy.write_all_content();
    }
    used_by_requests(model, &mut policy);
    state(model, &mut policy);
    if broker.is_some() && has_become_user(model) {
        // The broker binds listeners that are not bound yet, and opens the rest.
        policy.ports = Some(endpoint_ports(model).chain(leaving_ports(model)).collect());
        return policy;
    }
    opened_by_main(model, &mut policy);
    // A reload may add some, unless the configuration insists on the sandbox.
    if model.server.sandbox == Sandbox::On {
        policy.ports = Some(ports(model).chain(leaving_ports(model)).collect());
    }
    policy
}

fn has_become_user(model: &Model) -> bool {
    let now = rustix::process::geteuid();
    let user = model.server.user.as_deref().and_then(privileges::uid_of);
    !now.is_root() && user == Some(now.as_raw())
}

/// The reason why the process starts programs itself. `has_broker`: programs of the server's user
/// are started by the broker.
fn own_programs(
    model: &Model,
    front_end: Option<&FrontEnd>,
    has_broker: bool,
) -> Option<&'static str> {
    let is_apache = front_end.is_some_and(|one| one.downcast_ref::<Apache>().is_some());
    if is_apache {
        return Some("Apache's maps, filters, and includes may name some");
    }
    let logs = model.access_logs().map(|log| &log.target);
    let logs_to_program = logs
        .into_iter()
        .any(|target| matches!(target, AccessLogTarget::Program(_)))
        || model_paths::error_log_targets(model)
            .any(|target| matches!(target, ErrorLogTarget::Program(_)));
    if logs_to_program {
        return Some("log programs");
    }
    if model.tls.acme.dns_command.is_some() {
        return Some("the command for DNS records of certificates");
    }
    if has_broker {
        return None;
    }
    if !model.php_pools.all().is_empty() {
        return Some("PHP, without a broker: start the server as root, with `user` in [server]");
    }
    let has_programs = |settings: &Settings| !settings.cgi.is_empty();
    let any = model
        .all_settings()
        .any(|(_, settings)| settings.may(has_programs));
    any.then_some("CGI, without a broker: start the server as root, with `user` in [server]")
}

/// Needs of every server, at its start.
fn system(policy: &mut Policy) {
    policy.reads.extend(SYSTEM_READ.map(PathBuf::from));
    policy.writes.extend(SYSTEM_WRITE.map(PathBuf::from));
    // Its files are replaced by renaming, so they can't be named one by one; permissions protect
    // what is root's. For root itself, they don't.
    if !rustix::process::geteuid().is_root() {
        policy.reads.insert("/etc".into());
    } else {
        let entries = std::fs::read_dir("/etc").into_iter().flatten().flatten();
        let harmless =
            entries.filter(|entry| !SECRET.iter().any(|name| entry.file_name() == *name));
        policy.reads.extend(harmless.map(|entry| entry.path()));
    }
    policy.writes.insert(std::env::temp_dir());
    // Files of standard output and errors.
    let streams = ["/proc/self/fd/1", "/proc/self/fd/2"].map(std::fs::canonicalize);
    let files = streams.into_iter().flatten().filter(|path| path.is_file());
    policy.writes.extend(files);
}

/// Document roots, and what else is served as files.
fn content(model: &Model, has_front_end: bool, policy: &mut Policy) {
    let follows = |settings: &Settings| {
        matches!(
            settings.files.symlinks,
            SymlinkPolicy::Follow | SymlinkPolicy::OwnerMatch
        ) || settings.htaccess != Htaccess::Off
    };
    if has_front_end
        || model
            .all_settings()
            .any(|(_, settings)| settings.may(follows))
    {
        policy.read_all_content();
    }
    for root in model
        .sites
        .iter()
        .filter_map(|site| site.root.as_ref())
        .chain(&model.hosts.roots)
    {
        policy.read_content(root);
    }
    for (site, settings) in model.all_settings() {
        settings.each(&mut |settings| of_settings(site.root.as_deref(), settings, policy));
    }
}

fn of_settings(site: Option<&Path>, settings: &Settings, policy: &mut Policy) {
    let root = settings.root.as_ref().map(|root| &*root.folder);
    root.into_iter().for_each(|root| policy.read_content(root));
    let sent = settings.send_files.iter().flat_map(|files| &files.roots);
    sent.for_each(|root| policy.read_content(root));
    if let Some(root) = settings
        .links
        .signed
        .as_ref()
        .and_then(|signed| signed.root.as_ref())
    {
        policy.read_content(root);
    }
    if let Some(rules) = &settings.user_directories {
        // Homes of users that come later are there, mostly.
        policy.reads.insert("/home".into());
        let accounts = std::fs::read_to_string(ACCOUNTS).unwrap_or_default();
        homes(&accounts, rules).for_each(|home| policy.read_content(home));
    }
    if let Some(webdav) = settings.webdav_in_use() {
        if let Some(root) = root.or(site) {
            policy.write_content(root);
        }
        webdav
            .lock_database
            .iter()
            .for_each(|file| policy.write_beside(file));
    }
    if let Some(rules) = &settings.modsecurity {
        rules.files.iter().for_each(|file| policy.read_beside(file));
        policy.writes.extend(MODSECURITY_WRITE.map(PathBuf::from));
    }
    let Some(auth) = &settings.auth else { return };
    let files = auth.user_file.iter().chain(&auth.group_file);
    files.for_each(|file| policy.read_beside(file));
    let of_identity = identity_files(auth);
    of_identity.for_each(|file| policy.read_beside(file));
    auth.database
        .iter()
        .for_each(|url| of_database(url, policy));
}

/// Homes of the users that have pages.
fn homes<'a>(accounts: &'a str, rules: &'a UserDirectories) -> impl Iterator<Item = &'a Path> {
    accounts.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, uid) = (fields.next()?, fields.nth(1)?.parse().ok()?);
        let home = Path::new(fields.nth(2)?);
        (rules.allows(name, uid) && home.is_absolute()).then_some(home)
    })
}

/// Authorities, keys, and secrets of directories and of identity providers.
fn identity_files(auth: &AuthRules) -> impl Iterator<Item = &Path> {
    let ldap = auth.ldap.iter().flat_map(|ldap| {
        let authority = ldap.ca_file.as_deref();
        authority.into_iter().chain(located(&ldap.password_file))
    });
    let jwt = auth.jwt.iter().flat_map(|jwt| {
        let authority = jwt.ca_file.as_deref().into_iter();
        authority
            .chain(located(&jwt.keys_file))
            .chain(located(&jwt.secret_file))
    });
    let oidc = auth.oidc.iter().flat_map(|oidc| {
        let authority = oidc.ca_file.as_deref().into_iter();
        authority
            .chain(located(&oidc.client_secret_file))
            .chain(located(&oidc.key_file))
    });
    ldap.chain(jwt).chain(oidc)
}

fn located(file: &Option<LocatedPath>) -> Option<&Path> {
    file.as_ref().map(|(path, _)| path.as_path())
}

/// SQLite writes a journal beside its file.
fn of_database(url: &DatabaseUrl, policy: &mut Policy) {
    if let Some(path) = url.0.strip_prefix("sqlite:") {
        let path = path.trim_start_matches("//");
        let file = path.split_once('?').map_or(path, |(file, _)| file);
        policy.write_beside(Path::new(file));
    }
}

/// Files that requests lead to besides content.
fn used_by_requests(model: &Model, policy: &mut Policy) {
    let lists = model.address_lists.iter().map(|list| list.path());
    let databases = model.geo_databases.iter().map(|database| database.path());
    let cluster = model.cluster.ca_file.iter();
    let cluster = cluster
        .chain(&model.cluster.password_file)
        .chain(&model.cluster.secret_file);
    if let Some(folder) = &model.cluster.folder {
        policy.write_content(folder);
    }
    lists
        .chain(databases)
        .chain(cluster.map(PathBuf::as_path))
        .for_each(|file| policy.read_beside(file));
    model
        .hosts
        .database
        .iter()
        .for_each(|url| of_database(url, policy));
    for log in model.access_logs() {
        if let AccessLogTarget::ByHost(path) = &log.target {
            let has_host = |part: &&Path| part.to_string_lossy().contains('%');
            let whole = path.ancestors().take_while(has_host).last().unwrap_or(path);
            policy.write_beside(whole);
        }
        if let AccessLogTarget::Below(directory) = &log.target {
            policy.write_content(directory);
        }
    }
}

/// The configuration's own files, those that it names, logs, and sockets.
fn opened_by_main(model: &Model, policy: &mut Policy) {
    let (files, directories) = model_paths::read_later(model);
    let server = &model.server;
    let all = model
        .sources
        .iter()
        .chain(&server.value_files)
        .chain(&files);
    all.for_each(|file| policy.read_beside(file));
    policy.reads.extend(directories);
    let of_handshakes = model
        .sites
        .iter()
        .flat_map(|site| &site.tls.handshake_certificates);
    policy.reads.extend(
        of_handshakes
            .flat_map(|one| [&one.base].into_iter().chain(&one.folders))
            .cloned(),
    );
    for (base, pattern) in &server.includes {
        let pattern = base.join(pattern);
        let is_plain = |part: &&Path| {
            let bytes = part.as_os_str().as_encoded_bytes();
            !bytes.iter().any(|byte| b"*?[".contains(byte))
        };
        let plain = pattern.ancestors().skip(1).find(is_plain);
        policy.reads.extend(plain.map(Path::to_path_buf));
    }
    model_paths::log_files(model).for_each(|file| policy.write_beside(file));
    server
        .pid_file
        .iter()
        .for_each(|file| policy.write_beside(file));
    for listener in &model.listeners {
        if let Address::Unix(path) = &listener.address {
            policy.write_beside(path);
        }
    }
}

/// Files that the console's editor writes, where this user may. Workers may not.
fn edited(model: &Model, policy: &mut Policy) {
    let sources = model.sources.iter();
    sources.for_each(|source| policy.main_write_beside(source));
}

/// Directories that the server itself writes to.
fn state(model: &Model, policy: &mut Policy) {
    policy.writes.insert(model.server.state_dir.clone());
    policy.writes.extend(model.cache.folder.clone());
    policy.writes.extend(model.tls.acme.folder.clone());
    if let Some(oidc) = &model.console.oidc {
        let authority = oidc.ca_file.as_deref().into_iter();
        let files = authority.chain(located(&oidc.client_secret_file));
        files.for_each(|file| policy.read_beside(file));
    }
    if model.console.address.is_some() {
        edited(model, policy);
    }
    if model
        .sites
        .iter()
        .any(|site| site.tls.automatic == Automatic::Local)
    {
        policy.writes.insert(tls_state::authority_folder(model));
    }
    let traces = model
        .listeners
        .iter()
        .filter_map(|one| one.http3.as_ref()?.qlog.clone());
    policy.writes.extend(traces);
}

/// Ports that connections to upstreams leave from. Any (0) is always allowed: `listen` without
/// `bind` gets one anyway.
fn leaving_ports(model: &Model) -> impl Iterator<Item = u16> {
    let members = model
        .upstreams
        .iter()
        .flat_map(|upstream| &upstream.members);
    let local = members.filter_map(|member| Some(member.backend.local?.port()));
    std::iter::once(0).chain(local)
}

fn ports(model: &Model) -> impl Iterator<Item = u16> {
    let listeners = model.listeners.iter().filter_map(|one| match &one.address {
        Address::Tcp(address) => Some(address.port()),
        Address::Unix(_) => None,
    });
    listeners.chain(endpoint_ports(model))
}

/// Ports of metrics and of the console, which this process binds itself. `saker console` may open
/// one that no configuration names.
fn endpoint_ports(model: &Model) -> impl Iterator<Item = u16> {
    let addresses = [model.metrics.address, model.console.address];
    let named = addresses.into_iter().flatten();
    named
        .map(|address| address.port())
        .chain(std::iter::once(console_parts::PORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_of_users_with_pages() {
        let accounts = "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/var/www:\n\
                        ann:x:1000:1000:Ann:/srv/people/ann:/bin/sh\nbob:x:1001:1001::relative:\n\
                        odd:x\neve:x:1002:1002::/home/eve:\n";
        let of = |rules: &UserDirectories| -> Vec<PathBuf> {
            homes(accounts, rules).map(Path::to_path_buf).collect()
        };
        let all = UserDirectories::default();
        assert_eq!(
            of(&all),
            [Path::new("/srv/people/ann"), Path::new("/home/eve")]
        );
        let without = UserDirectories {
            deny: vec!["ann".into()],
            ..all
        };
        assert_eq!(of(&without), [Path::new("/home/eve")]);
        let mut policy = Policy::default();
        policy.read_content(Path::new("/srv/people/ann"));
        assert!(policy.reads.contains(Path::new("/srv/people")));
    }
}
