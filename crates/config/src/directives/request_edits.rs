//! `[site.route.request]`: edits of the request before the action of the route.
//!
//! Called by: `route`.
//! Caveat: fields that frame a message, or that trust decisions read, can't be edited.

use super::{
    map::LocatedTemplate,
    matcher::{ANY_NAME, FIELD, METHOD},
    template::TEXT,
};
use crate::{
    context::REQUEST,
    kind::{Kind, TableKind},
    report::Report,
    row::{Draft, Row, Rows},
    source::Location,
    value::{Fields, Spanned, Value},
};
use saker_http::chars;

pub static REQUEST_TABLE: TableKind = TableKind {
    context: REQUEST,
    read: read_request,
};

const EDITS: Kind = Kind::OneOf(&[Kind::Boolean, Kind::Word(&TEXT)]);

/// Framing, connection, and host (RFC 9110 sections 7.2, 7.6.1, and 8.6).
const FIXED: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// An edit by name; `None` removes.
pub type Edit = (String, Option<LocatedTemplate>);

/// Edits of a request while they are read.
#[derive(Clone, Debug, Default)]
pub struct RequestDraft {
    pub headers: Vec<Edit>,
    pub query: Vec<Edit>,
    pub cookies: Vec<Edit>,
    pub method: Option<String>,
    /// Values that mean nothing.
    wrong: Vec<Location>,
}

impl Draft for RequestDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

pub const ROWS: &[Row<RequestDraft>] = &[
    Row {
        name: "headers",
        contexts: REQUEST,
        kind: Kind::MapOf(&FIELD, &EDITS),
        default: Some("{}"),
        example: Some("{ X-Tenant = \"$tenant\", X-Debug = false }"),
        summary: "Request fields to set, with variables; `false` removes.",
        apache: Some("RequestHeader"),
        since: "0.2",
        aliases: &["header", "request_header", "proxy_set_header"],
        set: |draft, given| draft.headers = draft.edits(given),
        ..Row::BASE
    },
    Row {
        name: "query",
        contexts: REQUEST,
        kind: Kind::MapOf(&ANY_NAME, &EDITS),
        default: Some("{}"),
        example: Some("{ lang = \"$1\", utm_source = false }"),
        summary: "Query parameters to set, with variables; `false` removes. What a program may know \
                  by the name goes as well: `user.id`, `User_Id`, and `user_id[]` for `user_id`.",
        since: "0.2",
        aliases: &["args", "parameters"],
        set: |draft, given| draft.query = draft.edits(given),
        ..Row::BASE
    },
    Row {
        name: "cookies",
        contexts: REQUEST,
        kind: Kind::MapOf(&ANY_NAME, &EDITS),
        default: Some("{}"),
        example: Some("{ tracking = false }"),
        summary: "Cookies to set, with variables; `false` removes. What a program may know by the \
                  name goes as well, as in `query`.",
        since: "0.2",
        aliases: &["cookie"],
        set: |draft, given| draft.cookies = draft.edits(given),
        ..Row::BASE
    },
    Row {
        name: "method",
        contexts: REQUEST,
        kind: Kind::Word(&METHOD),
        example: Some("\"GET\""),
        summary: "Another method.",
        since: "0.2",
        aliases: &["proxy_method"],
        set: |draft, given| draft.method = Some(given.text()),
        ..Row::BASE
    },
];

impl RequestDraft {
    fn edits(&mut self, given: Spanned) -> Vec<Edit> {
        let mut edits = Vec::new();
        for (name, one) in given.map() {
            match one.value {
                Value::Boolean(true) => self.wrong.push(one.at),
                Value::Boolean(false) => edits.push((name, None)),
                _ => edits.extend(super::map::located(&one).map(|text| (name, Some(text)))),
            }
        }
        edits
    }
}

fn read_request(report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = RequestDraft::default();
    draft.fill(fields);
    for at in &draft.wrong {
        let help = "write false to remove it, or the text to set";
        report.error(at, "`true` does nothing here", Some(help.into()));
    }
    for (name, value) in &draft.headers {
        if FIXED.contains(&name.as_str()) {
            let at = value.as_ref().map_or(&fields.at, |(_, at)| at);
            let message = format!("the request field `{name}` cannot be edited");
            report.error(at, message, Some("remove it".into()));
        }
    }
    for (name, value) in &draft.cookies {
        if !chars::is_token(name.as_bytes()) {
            let at = value.as_ref().map_or(&fields.at, |(_, at)| at);
            report.error(at, format!("`{name}` is not the name of a cookie"), None);
        }
    }
    Some(Value::parsed(draft))
}
