//! `[site.headers]`: edits of response fields.
//!
//! A route's edit of a field replaces the site's edit of that field; the others stay.

use crate::{
    context::{FIELD, ROUTE, SITE, WHEN},
    kind::{KeyKind, Kind, TableKind, Word},
    model::{FieldEdit, FieldEditAction, Settings, Template},
    report::Report,
    row::{Draft, Row, Rows},
    value::{Fields, Spanned, Value, ValueError},
};
use saker_http::chars;
use std::sync::Arc;

pub static FIELD_VALUE: Word = Word {
    expects: "the value of a header field",
    pattern: "^([^\\x00-\\x1f\\x7f]|\\t)*$",
    read: read_value,
};

pub static FIELD_NAME: KeyKind = KeyKind {
    expects: "names of header fields",
    pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
    is_case_sensitive: false,
    read: read_name,
};

/// Fields that the engine sets itself: framing and connection (RFC 9110 sections 7.6.1 and 8.6, RFC
/// 9112 section 6), and Date.
const OWNED: &[&str] = &[
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const EDIT: Kind = Kind::OneOf(&[
    Kind::Word(&SET_VALUE),
    Kind::Table(&TableKind {
        context: FIELD,
        read: read_edit,
    }),
]);

static SET_VALUE: Word = Word {
    expects: "a string",
    pattern: "^([^\\x00-\\x1f\\x7f]|\\t)*$",
    read: |text| {
        variable_value(text).map(|value| Value::parsed((FieldEditAction::Set(value), false)))
    },
};

#[derive(Debug, Default)]
pub struct FieldDraft {
    actions: Vec<FieldEditAction>,
    always: bool,
}

impl Draft for FieldDraft {
    fn rows() -> Rows<Self> {
        &[FIELD_ROWS]
    }
}

pub const SETTINGS_ROWS: &[Row<Settings>] = &[Row {
    name: "headers",
    contexts: SITE.or(ROUTE).or(WHEN),
    kind: Kind::MapOf(&FIELD_NAME, &EDIT),
    default: Some("{}"),
    example: Some("{ \"X-Frame-Options\" = \"DENY\" }"),
    summary: "Response fields to set (a string), or to edit (a table).",
    apache: Some("Header"),
    aliases: &["add_header", "header", "fields"],
    set: |settings, given| merge(&mut settings.fields, given),
    ..Row::BASE
}];

pub const FIELD_ROWS: &[Row<FieldDraft>] = &[
    Row {
        name: "set",
        contexts: FIELD,
        kind: Kind::Word(&FIELD_VALUE),
        example: Some("\"DENY\""),
        summary: "Set the field to this value, replacing what the response has.",
        apache: Some("Header set"),
        set: |field, given| field.actions.push(FieldEditAction::Set(given.text())),
        ..Row::BASE
    },
    Row {
        name: "append",
        contexts: FIELD,
        kind: Kind::Word(&FIELD_VALUE),
        example: Some("\"Accept-Language\""),
        summary: "Append another line of the field.",
        apache: Some("Header add"),
        aliases: &["add"],
        set: |field, given| field.actions.push(FieldEditAction::Append(given.text())),
        ..Row::BASE
    },
    Row {
        name: "if_absent",
        contexts: FIELD,
        kind: Kind::Word(&FIELD_VALUE),
        example: Some("\"max-age=3600\""),
        summary: "Set the field only if the response does not have it.",
        apache: Some("Header setifempty"),
        set: |field, given| {
            field
                .actions
                .push(FieldEditAction::SetIfAbsent(given.text()))
        },
        ..Row::BASE
    },
    Row {
        name: "remove",
        contexts: FIELD,
        kind: Kind::Boolean,
        example: Some("true"),
        summary: "Remove the field.",
        apache: Some("Header unset"),
        aliases: &["unset", "delete"],
        set: |field, given| {
            field
                .actions
                .extend(given.boolean().then_some(FieldEditAction::Remove))
        },
        ..Row::BASE
    },
    Row {
        name: "always",
        contexts: FIELD,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "Apply to error responses too?",
        apache: Some("Header always"),
        set: |field, given| field.always = given.boolean(),
        ..Row::BASE
    },
];

fn merge(edits: &mut Vec<FieldEdit>, given: Spanned) {
    for (name, one) in given.map() {
        let origin = one.origin();
        let Some((action, always)) = one.parsed_as::<(FieldEditAction, bool)>() else {
            continue;
        };
        edits.retain(|field| !field.name.eq_ignore_ascii_case(&name));
        let mut action = action;
        let template = action
            .value_mut()
            .and_then(|value| Template::parse(value).ok())
            .filter(|template| template.text().contains('$'))
            .map(Arc::new);
        edits.push(FieldEdit {
            name,
            action,
            always,
            template,
            is_per_request: false,
            origin,
        });
    }
}

fn read_edit(report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = FieldDraft::default();
    draft.fill(fields);
    let given = ["set", "append", "if_absent", "remove"]
        .iter()
        .filter(|key| fields.has(key))
        .count();
    match (given, draft.actions.pop()) {
        (1, Some(action)) => Some(Value::parsed((action, draft.always))),
        (1, None) => {
            let removal = matches!(fields.value("remove"), Some(Value::Boolean(false)));
            if removal {
                report.error(
                    &fields.at,
                    "`remove = false` does nothing",
                    Some("remove the key".into()),
                );
            }
            None
        }
        _ => {
            if given == 0 && fields.has_unknown {
                return None;
            }
            let help = "write one of `set`, `append`, `if_absent`, `remove`";
            report.error(
                &fields.at,
                if given == 0 {
                    "this edit has no effect"
                } else {
                    "this edit has several actions"
                },
                Some(help.into()),
            );
            None
        }
    }
}

fn read_name(text: &str) -> Result<String, ValueError> {
    if !chars::is_token(text.as_bytes()) {
        return Err(ValueError::with_help(
            "it is not a token (RFC 9110, section 5.6.2)",
            "field names consist of letters, digits and !#$%&'*+-.^_`|~",
        ));
    }
    let lower = text.to_ascii_lowercase();
    match OWNED.contains(&lower.as_str()) {
        true => Err(ValueError::with_help(
            "the server sets this field itself",
            "remove it",
        )),
        false => Ok(text.to_owned()),
    }
}

fn read_value(text: &str) -> Result<Value, ValueError> {
    variable_value(text).map(Value::Text)
}

/// A value that may have variables.
fn variable_value(text: &str) -> Result<String, ValueError> {
    super::template::template(text)?;
    value(text)
}

/// RFC 9110 section 5.5.
fn value(text: &str) -> Result<String, ValueError> {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(ValueError::with_help(
            "control characters are not allowed",
            "a field value is one line",
        ));
    }
    match text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']) {
        true => Err(ValueError::new(
            "leading and trailing whitespace is not part of a field value",
        )),
        false => Ok(text.to_owned()),
    }
}
