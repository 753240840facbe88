//! `[console]`: pages and an API for operators.
//!
//! Called by: `file`.
//! Out of scope: serving them (`saker-console`); that the address is a safe one (`check`).

use super::{console_oidc, metrics::ADDRESS};
use crate::{
    context::{CONSOLE, CONSOLE_OIDC, FILE},
    kind::{Kind, Word},
    model::Console,
    row::{Draft, Row, Rows},
    value::{Value, ValueError},
};

static NAME: Word = Word {
    expects: "a host name without a port, such as \"console.example.org\"",
    pattern: "^[A-Za-z0-9._-]+$",
    read: |text| {
        let is_name = !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        match is_name {
            true => Ok(Value::parsed(Box::<str>::from(text.to_ascii_lowercase()))),
            false => Err(ValueError::plain(None)),
        }
    },
};

impl Draft for Console {
    fn rows() -> Rows<Self> {
        &[ROWS, console_oidc::ROWS]
    }
}

pub const ROWS: &[Row<Console>] = &[
    Row {
        name: "console",
        contexts: FILE,
        kind: Kind::Section(CONSOLE),
        summary: "The console.",
        since: "0.2",
        aliases: &["admin", "dashboard", "webadmin"],
        ..Row::BASE
    },
    Row {
        name: "address",
        contexts: CONSOLE,
        kind: Kind::Word(&ADDRESS),
        required: true,
        example: Some("\"127.0.0.1:7080\""),
        summary: "Address on which the console is served. It is not an address of a [[listener]]; \
                  one that other machines can reach requires `tls = true`.",
        since: "0.2",
        aliases: &["listen", "bind"],
        set: |console, given| {
            console.origin = given.origin();
            console.address = given.parsed();
        },
        ..Row::BASE
    },
    Row {
        name: "tls",
        contexts: CONSOLE,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "Serve the console over TLS, with the certificates of the sites?",
        since: "0.2",
        aliases: &["secure", "https"],
        set: |console, given| console.tls = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "names",
        contexts: CONSOLE,
        kind: Kind::ListOf(&Kind::Word(&NAME)),
        default: Some("[]"),
        example: Some("[\"console.example.org\"]"),
        summary: "Host names under which the console may be requested; requests for other names \
                  get 421. IP addresses and `localhost` are always accepted.",
        since: "0.2",
        aliases: &["name", "host", "hosts"],
        set: |console, given| console.names = given.parsed_list(),
        ..Row::BASE
    },
    Row {
        name: "users",
        contexts: CONSOLE,
        kind: Kind::Path,
        example: Some("\"/etc/saker/console-users\""),
        summary: "File with the users and API tokens of the console, written by `saker console \
                  user add`. Default: `console-users` in the state directory.",
        since: "0.2",
        aliases: &["user_file", "htpasswd"],
        set: |console, given| console.users = Some(given.path()),
        ..Row::BASE
    },
    Row {
        name: "confirm_time",
        contexts: CONSOLE,
        kind: Kind::Duration {
            min_ms: 10_000,
            max_ms: 3_600_000,
        },
        default: Some("\"1m\""),
        summary: "Time in which a change that the console has applied must be confirmed; otherwise \
                  it is undone. The operator can choose another one with each change.",
        since: "0.2",
        set: |console, given| console.confirm_time_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "oidc",
        contexts: CONSOLE,
        kind: Kind::Section(CONSOLE_OIDC),
        summary: "Log-in at an OpenID Connect provider.",
        since: "0.2",
        aliases: &["sso", "openid"],
        ..Row::BASE
    },
];
