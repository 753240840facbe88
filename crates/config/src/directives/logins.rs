//! `[site.logins]`: protection of WordPress logins against password guessing.
//!
//! A route's table replaces the site's.

use crate::{
    context::{LOGINS, ROUTE, SITE},
    kind::{Kind, TableKind},
    model::{LoginAction, Logins, Settings},
    report::Report,
    row::{Draft, Row, Rows},
    value::{Fields, Value},
};
use std::sync::Arc;

const OFF: Kind = Kind::Choice(&["off"]);

impl Draft for Logins {
    fn rows() -> Rows<Self> {
        &[LOGIN_ROWS]
    }
}

pub const ROWS: &[Row<Settings>] = &[Row {
    name: "logins",
    contexts: SITE.or(ROUTE),
    kind: Kind::OneOf(&[
        OFF,
        Kind::Table(&TableKind {
            context: LOGINS,
            read: read_logins,
        }),
    ]),
    default: Some("\"off\""),
    summary: "Protection of wp-login.php and xmlrpc.php of WordPress against password guessing.",
    since: "0.2",
    apache: Some("WordPressProtect"),
    aliases: &["wordpress_protect", "wpprotect", "brute_force"],
    set: |settings, given| settings.visitors.logins = given.parsed_as(),
    ..Row::BASE
}];

pub const LOGIN_ROWS: &[Row<Logins>] = &[
    Row {
        name: "action",
        contexts: LOGINS,
        kind: Kind::Choice(&["throttle", "deny", "drop", "challenge"]),
        default: Some("\"throttle\""),
        summary: "Action on further attempts: `throttle` delays them from half of `attempts` on \
                  and answers 429 beyond, `deny` answers 403, `drop` closes the connection, \
                  `challenge` requires proof of work.",
        since: "0.2",
        set: |rule, given| {
            rule.action = match given.text().as_str() {
                "deny" => LoginAction::Deny,
                "drop" => LoginAction::Drop,
                "challenge" => LoginAction::Challenge,
                _ => LoginAction::Throttle,
            }
        },
        ..Row::BASE
    },
    Row {
        name: "attempts",
        contexts: LOGINS,
        kind: Kind::Integer {
            min: 1,
            max: 100_000,
        },
        default: Some("10"),
        summary: "Number of failed attempts per address; each is regained after its share of \
                  `within`.",
        since: "0.2",
        aliases: &["limit"],
        set: |rule, given| rule.attempts = given.number() as u32,
        ..Row::BASE
    },
    Row {
        name: "within",
        contexts: LOGINS,
        kind: Kind::Duration {
            min_ms: 1000,
            max_ms: 30 * 86_400_000,
        },
        default: Some("\"5m\""),
        summary: "Time in which all attempts are regained.",
        since: "0.2",
        set: |rule, given| rule.within_s = given.number() / 1000,
        ..Row::BASE
    },
];

fn read_logins(_report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut rule = Logins::default();
    rule.fill(fields);
    Some(Value::parsed(Arc::new(rule)))
}
