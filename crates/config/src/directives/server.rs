//! `[server]`: process settings; its logs are in `logs`.
//!
//! Called by: `file`.
//! Out of scope: `error_log` and `log_level` (`logs`).

use super::{fields::FIELD_VALUE, logs, trusted_proxies};
use crate::{
    context::SERVER,
    kind::{Kind, Word},
    model::{Affinity, Sandbox, Server, Workers},
    row::{Draft, Row, Rows},
    value::{Spanned, Value, ValueError},
};
use saker_net::process::user_id;

const CORE: Kind = Kind::Integer { min: 0, max: 4095 };

/// A user name. Its existence is checked when the server starts; root is refused here.
static USER: Word = Word {
    expects: "a user name",
    pattern: "",
    read: |text| match user_id(text) {
        _ if text.is_empty() => Err(ValueError::new("it must not be empty")),
        Ok(Some(0)) => Err(ValueError::with_help(
            "the server must not run as root",
            "name another user, such as \"www-data\"",
        )),
        _ => Ok(Value::Text(text.to_owned())),
    },
};

impl Draft for Server {
    fn rows() -> Rows<Self> {
        &[ROWS, trusted_proxies::ROWS, logs::LOG_ROWS]
    }
}

pub const ROWS: &[Row<Server>] = &[
    Row {
        name: "workers",
        contexts: SERVER,
        kind: Kind::OneOf(&[Kind::Choice(&["auto"]), Kind::Integer { min: 1, max: 1024 }]),
        default: Some("\"auto\""),
        summary: "Number of worker threads, each with its own connections. `auto`: one per CPU \
                  core available to the process.",
        apache: Some("StartServers, ThreadsPerChild"),
        aliases: &["worker_processes", "threads"],
        set: |server, given| server.workers = workers(given),
        ..Row::BASE
    },
    Row {
        name: "affinity",
        contexts: SERVER,
        kind: Kind::OneOf(&[Kind::Choice(&["off", "auto"]), Kind::ListOf(&CORE)]),
        default: Some("\"off\""),
        summary: "CPU affinity of workers: `auto` pins the nth worker to the nth core, a list pins \
                  workers to the listed cores.",
        aliases: &["worker_cpu_affinity", "cpu_affinity"],
        set: |server, given| server.affinity = affinity(given),
        ..Row::BASE
    },
    Row {
        name: "user",
        contexts: SERVER,
        kind: Kind::OneOf(&[
            Kind::Word(&USER),
            Kind::Integer {
                min: 1,
                max: 4_294_967_294,
            },
        ]),
        example: Some("\"www-data\""),
        summary: "User (name or number) to switch to after binding, when started as root. Must not \
                  be root.",
        apache: Some("User"),
        set: |server, given| server.user = Some(name_or_number(given)),
        ..Row::BASE
    },
    Row {
        name: "group",
        contexts: SERVER,
        kind: Kind::OneOf(&[
            Kind::Text,
            Kind::Integer {
                min: 0,
                max: 4_294_967_294,
            },
        ]),
        example: Some("\"www-data\""),
        summary: "Group to switch to after binding, when started as root. Default: the user's \
                  primary group.",
        apache: Some("Group"),
        set: |server, given| server.group = Some(name_or_number(given)),
        ..Row::BASE
    },
    Row {
        name: "sandbox",
        contexts: SERVER,
        kind: Kind::Choice(&["auto", "on", "off"]),
        default: Some("\"auto\""),
        summary: "Confines the process to what its configuration needs: files and TCP ports by \
                  Landlock, system calls by seccomp. `auto`: as far as the kernel and the \
                  configuration allow; `saker status` shows what is in force. `on`: otherwise the \
                  server does not start.",
        since: "0.2",
        set: |server, given| server.sandbox = sandbox(&given.text()),
        ..Row::BASE
    },
    Row {
        name: "state_dir",
        contexts: SERVER,
        kind: Kind::Path,
        default: Some("\"/var/lib/saker\""),
        summary: "Directory of the control socket, the process ID and everything that must survive \
                  a restart.",
        apache: Some("DefaultRuntimeDir, PidFile"),
        aliases: &["pid"],
        set: |server, given| server.state_dir = given.path(),
        ..Row::BASE
    },
    Row {
        name: "control_users",
        contexts: SERVER,
        kind: Kind::ListOf(&Kind::Word(&USER)),
        default: Some("[]"),
        example: Some("[\"deploy\"]"),
        summary: "Users allowed to control the running server (`saker status`, `reload`, `stop`, \
                  `purge`, `ban` …), besides root and the user who started it. The user that the \
                  server switches to is not among them.",
        since: "0.2",
        set: |server, given| server.control_users = given.texts(),
        ..Row::BASE
    },
    Row {
        name: "watch",
        contexts: SERVER,
        kind: Kind::Boolean,
        default: Some("false"),
        example: Some("true"),
        summary: "Reload when a file of the configuration changes, appears in an included \
                  directory, or goes. Changes that follow each other within a second make one \
                  reload; if the new configuration has errors, the old one stays in force, and the \
                  error log has all of them (SK0202).",
        since: "0.2",
        aliases: &["auto_reload", "autoreload"],
        set: |server, given| server.watch = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "server_field",
        contexts: SERVER,
        kind: Kind::Word(&FIELD_VALUE),
        default: Some("\"Saker\""),
        summary: "Value of the `Server` response field; \"\" sends none.",
        apache: Some("ServerTokens"),
        aliases: &["server_tokens", "server_name_header"],
        set: |server, given| server.server_field = given.text(),
        ..Row::BASE
    },
    Row {
        name: "resource_memory",
        contexts: SERVER,
        kind: Kind::Bytes {
            min: 0,
            max: 1 << 40,
        },
        default: Some("\"64MiB\""),
        unit: Some("bytes"),
        summary: "Memory for the route caches of all workers, including the bodies of small files.",
        apache: Some("CacheSize"),
        set: |server, given| server.resource_memory_bytes_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "resource_entries",
        contexts: SERVER,
        kind: Kind::Integer {
            min: 0,
            max: 100_000_000,
        },
        default: Some("65536"),
        summary: "Maximum number of entries in the route cache. 0 disables it.",
        aliases: &["open_file_cache"],
        set: |server, given| server.resource_entries_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "resource_file_max",
        contexts: SERVER,
        kind: Kind::Bytes {
            min: 0,
            max: 64 << 20,
        },
        default: Some("\"16KiB\""),
        unit: Some("bytes"),
        summary: "Files up to this size are kept in memory; larger ones are sent with sendfile \
                  from the kernel's page cache.",
        set: |server, given| server.resource_file_bytes_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "shutdown_timeout",
        contexts: SERVER,
        kind: Kind::Duration {
            min_ms: 0,
            max_ms: 86_400_000,
        },
        default: Some("\"30s\""),
        summary: "Maximum time for running requests to finish when the server stops or is \
                  replaced.",
        apache: Some("GracefulShutdownTimeout"),
        aliases: &["worker_shutdown_timeout"],
        set: |server, given| server.shutdown_timeout_ms = given.number(),
        ..Row::BASE
    },
];

fn workers(given: Spanned) -> Workers {
    match given.value {
        Value::Number(count) => Workers::Count(count as usize),
        _ => Workers::Auto,
    }
}

fn sandbox(word: &str) -> Sandbox {
    match word {
        "on" => Sandbox::On,
        "off" => Sandbox::Off,
        _ => Sandbox::Auto,
    }
}

fn affinity(given: Spanned) -> Affinity {
    match given.value {
        Value::List(cores) if !cores.is_empty() => Affinity::Cores(
            cores
                .into_iter()
                .map(|core| core.number() as usize)
                .collect(),
        ),
        Value::Text(word) if word == "auto" => Affinity::Auto,
        _ => Affinity::Off,
    }
}

fn name_or_number(given: Spanned) -> String {
    match given.value {
        Value::Number(number) => number.to_string(),
        _ => given.text(),
    }
}
