//! Additions to the client's request for programs and upstreams: `upstream_headers`,
//! `environment`, `request_id`.
//!
//! Called by: `settings`, for sites and routes. A route's edit of a field or variable replaces the
//! site's; the others stay.
//! Out of scope: response fields (`fields`).

use super::fields::FIELD_NAME;
use crate::{
    context::{ROUTE, SITE, UPSTREAM_FIELD},
    diagnostic::quoted,
    kind::{KeyKind, Kind, TableKind, Word},
    model::{ProgramVariable, RequestFieldAction, RequestFieldEdit, Settings, Template},
    report::Report,
    row::{Draft, Row, Rows},
    value::{Fields, Spanned, Value, ValueError},
};
use saker_http::chars;

/// A text with variables.
pub static TEMPLATE: Word = Word {
    expects: "a text, which may contain variables such as `$host` and `$remote_addr`",
    pattern: "^([^\\x00-\\x1f\\x7f]|\\t)*$",
    read: |text| read_template(text).map(Value::parsed),
};

static SET_VALUE: Word = Word {
    expects: "a text, which may contain variables such as `$host` and `$remote_addr`",
    pattern: "^([^\\x00-\\x1f\\x7f]|\\t)*$",
    read: |text| {
        read_template(text)
            .map(RequestFieldAction::Set)
            .map(Value::parsed)
    },
};

static REQUEST_ID: Word = Word {
    expects: "the name of a header field, such as \"X-Request-Id\"",
    pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
    read: |text| (FIELD_NAME.read)(text).map(Value::Text),
};

static VARIABLE: KeyKind = KeyKind {
    expects: "names of variables",
    pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
    is_case_sensitive: true,
    read: read_variable,
};

const EDIT: Kind = Kind::OneOf(&[
    Kind::Word(&SET_VALUE),
    Kind::Table(&TableKind {
        context: UPSTREAM_FIELD,
        read: read_edit,
    }),
]);

#[derive(Debug, Default)]
pub struct EditDraft {
    actions: Vec<RequestFieldAction>,
}

impl Draft for EditDraft {
    fn rows() -> Rows<Self> {
        &[EDIT_ROWS]
    }
}

pub const ROWS: &[Row<Settings>] = &[
    Row {
        name: "upstream_headers",
        contexts: SITE.or(ROUTE),
        kind: Kind::MapOf(&FIELD_NAME, &EDIT),
        default: Some("{}"),
        example: Some("{ X-Real-IP = \"$remote_addr\", Cookie = { remove = true } }"),
        summary: "Request fields that upstreams and programs get: set (a text), or edited (a \
                  table). Values may contain variables (docs/routes.md). A text that is empty for a \
                  request removes the field. The client's request is unchanged for rules, cache \
                  and logs.",
        apache: Some("RequestHeader"),
        aliases: &["proxy_set_header", "header_up", "proxy_headers"],
        since: "0.2",
        set: |settings, given| merge(&mut settings.upstream_fields, given),
        ..Row::BASE
    },
    Row {
        name: "environment",
        contexts: SITE.or(ROUTE),
        kind: Kind::MapOf(&VARIABLE, &Kind::Word(&TEMPLATE)),
        default: Some("{}"),
        example: Some("{ APP_ENV = \"production\", SERVER_NAME = \"$host\" }"),
        summary: "Variables for PHP, CGI, FastCGI, LSAPI, SCGI and uwsgi programs, in addition to \
                  those of CGI, which they may override. Values may contain variables (docs/routes.md).",
        apache: Some("SetEnv, ProxyFCGISetEnvIf"),
        aliases: &[
            "fastcgi_param",
            "uwsgi_param",
            "scgi_param",
            "setenv",
            "env",
        ],
        since: "0.2",
        set: |settings, given| set_variables(settings, given),
        ..Row::BASE
    },
    Row {
        name: "request_id",
        contexts: SITE.or(ROUTE),
        kind: Kind::OneOf(&[Kind::Word(&REQUEST_ID), Kind::Boolean]),
        default: Some("false"),
        example: Some("\"X-Request-Id\""),
        summary: "Give each request that reaches an upstream or a program an id of 32 hexadecimal \
                  digits, in this request field (`true`: X-Request-Id) and in the variable \
                  REQUEST_ID of programs and logs. An id in the request is kept if a trusted proxy \
                  sent it (`trusted_proxies`), and replaced otherwise.",
        apache: Some("UNIQUE_ID"),
        aliases: &["unique_id"],
        since: "0.2",
        set: |settings, given| {
            settings.request_id = match given.value {
                Value::Text(name) => Some(name.into()),
                Value::Boolean(true) => Some("X-Request-Id".into()),
                _ => None,
            };
        },
        ..Row::BASE
    },
];

pub const EDIT_ROWS: &[Row<EditDraft>] = &[
    Row {
        name: "set",
        contexts: UPSTREAM_FIELD,
        kind: Kind::Word(&TEMPLATE),
        example: Some("\"$remote_addr\""),
        summary: "Set the field to this value, replacing what the client sent.",
        since: "0.2",
        set: |edit, given| edit.actions.push(RequestFieldAction::Set(given.parsed())),
        ..Row::BASE
    },
    Row {
        name: "append",
        contexts: UPSTREAM_FIELD,
        kind: Kind::Word(&TEMPLATE),
        example: Some("\"gzip\""),
        summary: "Append another line of the field.",
        aliases: &["add"],
        since: "0.2",
        set: |edit, given| {
            edit.actions
                .push(RequestFieldAction::Append(given.parsed()))
        },
        ..Row::BASE
    },
    Row {
        name: "if_absent",
        contexts: UPSTREAM_FIELD,
        kind: Kind::Word(&TEMPLATE),
        example: Some("\"en\""),
        summary: "Set the field only if the request does not have it.",
        since: "0.2",
        set: |edit, given| {
            edit.actions
                .push(RequestFieldAction::SetIfAbsent(given.parsed()))
        },
        ..Row::BASE
    },
    Row {
        name: "remove",
        contexts: UPSTREAM_FIELD,
        kind: Kind::Boolean,
        example: Some("true"),
        summary: "Remove the field.",
        aliases: &["unset", "delete"],
        since: "0.2",
        set: |edit, given| {
            let removal = given.boolean().then_some(RequestFieldAction::Remove);
            edit.actions.extend(removal);
        },
        ..Row::BASE
    },
];

fn merge(edits: &mut Vec<RequestFieldEdit>, given: Spanned) {
    for (name, one) in given.map() {
        let Some(action) = one.parsed_as::<RequestFieldAction>() else {
            continue;
        };
        edits.retain(|edit| !edit.name.eq_ignore_ascii_case(&name));
        edits.push(RequestFieldEdit {
            name: name.into(),
            action,
            origin: one.origin(),
        });
    }
}

fn set_variables(settings: &mut Settings, given: Spanned) {
    for (name, one) in given.map() {
        settings.variables.retain(|known| *known.name != *name);
        settings.variables.push(ProgramVariable {
            name: name.into(),
            origin: one.origin(),
            value: one.parsed(),
        });
    }
}

fn read_edit(report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = EditDraft::default();
    draft.fill(fields);
    match (draft.actions.len(), draft.actions.pop()) {
        (1, Some(action)) => Some(Value::parsed(action)),
        _ if fields.has_unknown => None,
        (count, _) => {
            let message = match count {
                0 => "this edit has no effect",
                _ => "this edit has several actions",
            };
            let help = "write one of `set`, `append`, `if_absent`, `remove = true`";
            report.error(&fields.at, message, Some(help.into()));
            None
        }
    }
}

/// A template for a field or a variable: one line.
pub fn read_template(text: &str) -> Result<Template, ValueError> {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(ValueError::with_help(
            "control characters are not allowed",
            "the value is one line",
        ));
    }
    super::template::template(text)
}

fn read_variable(text: &str) -> Result<String, ValueError> {
    let is_name = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && chars::is_token(text.as_bytes());
    if !is_name {
        return Err(ValueError::with_help(
            format!("{} is not the name of a variable", quoted(text)),
            "names consist of letters, digits and `_`",
        ));
    }
    // CVE-2016-5385: programs take it for their own proxy; LD_ variables load code into them.
    if text == "HTTP_PROXY" || text.starts_with("LD_") {
        return Err(ValueError::new(
            "this variable would change how programs run",
        ));
    }
    Ok(text.to_owned())
}
