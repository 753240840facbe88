//! `[php]`: PHP processes managed by the server; and `php` of sites and routes.
//!
//! Called by: `file` and `settings`; `parse_use` also by dynamic virtual hosts.
//! Out of scope: looking for installed PHP programs.

use crate::{
    context::{PHP, ROUTE, SITE},
    kind::{Kind, Word},
    model::{
        Backend, BackendAddress, HostPattern, Member, Php, PhpKind, PhpProgram, PhpUse,
        ProgramUser, Protocol, Settings, Tuning, Upstream,
    },
    row::{Draft, Row, Rows},
    value::{Spanned, Value, ValueError},
};
use std::sync::Arc;

pub static USE: Word = Word {
    expects: "\"auto\", \"off\", \"unix:/path/of/socket\" or \"host:port\"",
    pattern: "^(auto|off|unix:/.+|.+:[0-9]+)$",
    read: |text| {
        parse_use(text)
            .map(|_| Value::Text(text.to_owned()))
            .map_err(ValueError::new)
    },
};

static PROGRAM: Word = Word {
    expects: "\"auto\", \"lsphp\", \"php-fpm\", \"php-cgi\" or the path of such a program",
    pattern: "^(auto|lsphp|php-fpm|php-cgi|/.+)$",
    read: |text| {
        program(text)
            .map(|_| Value::Text(text.to_owned()))
            .ok_or_else(|| ValueError::new("it is none of these programs"))
    },
};

impl Draft for Php {
    fn rows() -> Rows<Self> {
        &[PHP_ROWS]
    }
}

pub const PHP_ROWS: &[Row<Php>] = &[
    Row {
        name: "program",
        contexts: PHP,
        kind: Kind::Word(&PROGRAM),
        default: Some("\"auto\""),
        summary: "PHP program to run. `auto`: the first type installed of lsphp, php-fpm and \
                  php-cgi, in its newest version. For a path, the file name tells the type.",
        apache: Some("FcgidWrapper"),
        aliases: &["binary", "command", "path"],
        since: "0.2",
        set: |php, given| php.program = program(&given.text()).unwrap_or(PhpProgram::Auto),
        ..Row::BASE
    },
    Row {
        name: "processes",
        contexts: PHP,
        kind: Kind::Integer {
            min: 1,
            max: 10_000,
        },
        example: Some("20"),
        summary: "Maximum number of PHP processes, and so of concurrent requests; rounded up to a \
                  multiple of the number of workers. Default: 4 to 40, by the machine's memory.",
        apache: Some("FcgidMaxProcesses"),
        aliases: &["max_children", "children", "workers", "max_processes"],
        since: "0.2",
        set: |php, given| php.processes_max = Some(given.number() as usize),
        ..Row::BASE
    },
    Row {
        name: "memory",
        contexts: PHP,
        kind: Kind::Bytes {
            min: 0,
            max: 1 << 40,
        },
        default: Some("0"),
        unit: Some("bytes"),
        summary: "Address-space limit per process, enforced by the kernel. 0: none; `memory_limit` \
                  of php.ini applies in any case.",
        apache: Some("RLimitMEM"),
        aliases: &["memory_max", "rlimit_as"],
        since: "0.2",
        set: |php, given| php.memory_bytes_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "run_time",
        contexts: PHP,
        kind: Kind::Duration {
            min_ms: 0,
            max_ms: 86_400_000,
        },
        default: Some("\"0s\""),
        summary: "Maximum run time of a script; then its process is terminated (php-fpm, lsphp) or, \
                  with php-cgi, the client gets 504 while the script continues. \"0s\": no limit; \
                  `max_execution_time` of php.ini counts CPU time only.",
        apache: Some("FcgidIOTimeout"),
        aliases: &["request_terminate_timeout", "max_process_time"],
        since: "0.2",
        set: |php, given| php.run_time_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "queue",
        contexts: PHP,
        kind: Kind::Integer {
            min: 0,
            max: 1_000_000,
        },
        default: Some("1024"),
        summary: "Maximum number of requests that wait while all processes are busy; more get 503.",
        aliases: &["queue_max", "backlog"],
        since: "0.2",
        set: |php, given| php.queue_max = given.number() as usize,
        ..Row::BASE
    },
    Row {
        name: "queue_timeout",
        contexts: PHP,
        kind: Kind::Duration {
            min_ms: 1,
            max_ms: 3_600_000,
        },
        default: Some("\"30s\""),
        summary: "Maximum time a request waits for a process; then 503.",
        since: "0.2",
        set: |php, given| php.queue_timeout_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "pool_idle_timeout",
        contexts: PHP,
        kind: Kind::Duration {
            min_ms: 0,
            max_ms: 86_400_000 * 7,
        },
        default: Some("\"5m\""),
        summary: "Idle time after which a pool is stopped with all its processes; the next request \
                  starts it again. \"0s\": never. With one pool per user, this allows thousands of \
                  sites on one machine.",
        since: "0.2",
        set: |php, given| php.pool_idle_timeout_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "requests",
        contexts: PHP,
        kind: Kind::Integer {
            min: 0,
            max: 1_000_000_000,
        },
        default: Some("10000"),
        summary: "Number of requests after which a process is replaced. 0: never.",
        apache: Some("FcgidMaxRequestsPerProcess"),
        aliases: &["max_requests"],
        since: "0.2",
        set: |php, given| php.requests_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "idle_timeout",
        contexts: PHP,
        kind: Kind::Duration {
            min_ms: 1_000,
            max_ms: 86_400_000,
        },
        default: Some("\"10s\""),
        summary: "Idle time after which a process exits (php-fpm, lsphp).",
        apache: Some("FcgidIdleTimeout"),
        aliases: &["process_idle_timeout", "max_idle"],
        since: "0.2",
        set: |php, given| php.idle_timeout_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "user",
        contexts: PHP,
        kind: Kind::Text,
        example: Some("\"www-data\""),
        summary: "User that PHP runs as; requires the server to be started as root. Default: \
                  `saker-php` if that user exists, else the server's user, and `www-data` or \
                  `nobody` instead of root.",
        apache: Some("SuexecUserGroup"),
        since: "0.2",
        set: |php, given| php.user = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "group",
        contexts: PHP,
        kind: Kind::Text,
        example: Some("\"www-data\""),
        summary: "Group that PHP runs as. Default: the user's primary group.",
        apache: Some("SuexecUserGroup"),
        since: "0.2",
        set: |php, given| php.group = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "ini",
        contexts: PHP,
        kind: Kind::Path,
        example: Some("\"/etc/php/8.2/fpm/php.ini\""),
        summary: "Path of php.ini, or of its directory. Default: PHP's built-in path.",
        apache: Some("PHPIniDir"),
        aliases: &[
            "php_ini",
            "phprc",
            "php_value",
            "php_admin_value",
            "memory_limit",
            "upload_max_filesize",
        ],
        since: "0.2",
        set: |php, given| php.ini = Some(given.path()),
        ..Row::BASE
    },
];

pub const SETTINGS_ROWS: &[Row<Settings>] = &[
    Row {
        name: "user",
        contexts: SITE.or(ROUTE),
        kind: Kind::Text,
        example: Some("\"alice\""),
        summary: "User that PHP (`php = \"auto\"`) and programs (`cgi`) of this site run as, in a \
                  separate pool; requires the server to be started as root. `cgi` scripts and \
                  their directories must pass the checks of suEXEC: owned by the user and not \
                  writable by anyone else. Default: the users of [php] and [server].",
        apache: Some("SuexecUserGroup, AssignUserID"),
        aliases: &["run_as", "uid"],
        since: "0.2",
        set: |settings, given| set_user(&mut settings.program_user, given.text()),
        ..Row::BASE
    },
    Row {
        name: "group",
        contexts: SITE.or(ROUTE),
        kind: Kind::Text,
        example: Some("\"alice\""),
        summary: "Group that goes with `user`. Default: the user's primary group.",
        apache: Some("SuexecUserGroup, AssignUserID"),
        aliases: &["gid"],
        since: "0.2",
        set: |settings, given| set_group(&mut settings.program_user, given.text()),
        ..Row::BASE
    },
    Row {
        name: "cgi",
        contexts: SITE.or(ROUTE),
        kind: Kind::ListOf(&Kind::Text),
        default: Some("[]"),
        example: Some("[\"*.cgi\", \"*.pl\"]"),
        summary: "CGI programs, by file name; `*` matches any part. They are executed for each \
                  request (CGI/1.1). Matching files are never sent as files. At most 256 run at a \
                  time.",
        apache: Some("AddHandler cgi-script, ScriptAlias"),
        aliases: &["cgi_bin", "cgi_pattern"],
        since: "0.2",
        set: |settings, given| settings.cgi = given.texts(),
        ..Row::BASE
    },
    Row {
        name: "php",
        contexts: SITE.or(ROUTE),
        kind: Kind::Word(&USE),
        default: Some("\"off\""),
        summary: "PHP: `auto` uses the server's own PHP processes (see [php]), `unix:/path` or \
                  `host:port` a running php-fpm (the path may contain parts of the host name, as \
                  in `root`), `off` disables PHP. The source of PHP files is never sent.",
        apache: Some("SetHandler, AddHandler"),
        aliases: &["fastcgi_pass", "php_fastcgi"],
        since: "0.2",
        set: |settings, given| settings.php = use_of(given),
        ..Row::BASE
    },
];

/// User and group may come in any order; `check` reports a group without a user.
fn set_user(slot: &mut Option<ProgramUser>, user: String) {
    slot.get_or_insert_default().user = user;
}

fn set_group(slot: &mut Option<ProgramUser>, group: String) {
    slot.get_or_insert_default().group = Some(group);
}

/// Parses `auto`, a type, or a path; `None`: neither.
pub fn program(text: &str) -> Option<PhpProgram> {
    let kind = |text: &str| PhpKind::ALL.into_iter().find(|kind| kind.name() == text);
    match text {
        "auto" => Some(PhpProgram::Auto),
        path if path.starts_with('/') => Some(PhpProgram::Path(path.into())),
        name => kind(name).map(PhpProgram::Kind),
    }
}

fn use_of(given: Spanned) -> PhpUse {
    parse_use(&given.text()).unwrap_or_default()
}

fn use_help(text: &str) -> String {
    const FORMS: &str = "must be auto, off, unix:PATH or HOST:PORT";
    let bare = text.split_once("://").map_or(text, |(_, rest)| rest);
    if text.starts_with('/') {
        return format!("{FORMS}: write unix:{text}");
    }
    if text.contains("://") && tcp(bare).is_some() {
        return format!("{FORMS}: write {bare}");
    }
    match text.parse::<std::net::IpAddr>() {
        Ok(_) => format!("{FORMS}: write {text}:9000"),
        Err(_) if text.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{FORMS}: the version follows from `program` of [php]")
        }
        Err(_) => FORMS.to_owned(),
    }
}

/// Parses `auto`, `off`, `unix:PATH`, `HOST:PORT`. The error says what is wrong.
pub fn parse_use(text: &str) -> Result<PhpUse, String> {
    match text {
        "auto" => return Ok(PhpUse::Managed),
        "off" => return Ok(PhpUse::Off),
        _ => {}
    }
    if text.starts_with("unix:/") && text.contains('%') {
        let pattern = HostPattern::parse(text).ok_or("invalid placeholder after `%`")?;
        return Ok(PhpUse::ByHost(pattern));
    }
    let address = match text.strip_prefix("unix:") {
        Some(path) if path.starts_with('/') => BackendAddress::Unix(path.into()),
        Some(_) => return Err("the path of a socket starts with \"/\"".into()),
        None => tcp(text).ok_or_else(|| use_help(text))?,
    };
    // As in mod_proxy_fcgi: an external php-fpm may have few processes, and a kept connection
    // occupies one.
    let tuning = Tuning {
        kept_max: 0,
        request_ahead_bytes: u64::MAX,
        ..Tuning::default()
    };
    let member = Member::new(Backend::new(Protocol::FastCgi, address), tuning);
    Ok(PhpUse::Upstream(Arc::new(Upstream::new(
        text,
        vec![member],
    ))))
}

fn tcp(text: &str) -> Option<BackendAddress> {
    let (host, port) = text.rsplit_once(':')?;
    let is_host = !host.is_empty()
        && !host.contains(['/', ' ', '@'])
        && (host.starts_with('[') == host.contains(':'));
    let port = port.parse().ok().filter(|port| *port != 0)?;
    is_host.then(|| BackendAddress::Tcp {
        host: host.into(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses() {
        assert!(
            matches!(parse_use("auto"), Ok(PhpUse::Managed))
                && matches!(parse_use("off"), Ok(PhpUse::Off))
        );
        for (text, shown) in [
            ("unix:/run/php.sock", "fcgi at unix:/run/php.sock"),
            ("127.0.0.1:9000", "fcgi://127.0.0.1:9000"),
            ("[::1]:9000", "fcgi://[::1]:9000"),
            ("php.example:9000", "fcgi://php.example:9000"),
        ] {
            let Ok(PhpUse::Upstream(upstream)) = parse_use(text) else {
                panic!("{text}")
            };
            assert_eq!(upstream.members[0].backend.to_string(), shown);
        }
        for text in [
            "",
            "on",
            "unix:php.sock",
            "localhost",
            "localhost:0",
            "::1:9000",
            "http://a:80",
        ] {
            assert!(parse_use(text).is_err(), "{text}");
        }
    }

    #[test]
    fn programs() {
        assert_eq!(program("php-fpm"), Some(PhpProgram::Kind(PhpKind::Fpm)));
        assert_eq!(
            program("/opt/lsphp"),
            Some(PhpProgram::Path("/opt/lsphp".into()))
        );
        assert_eq!(program("perl"), None);
    }
}
