//! `[[site.redirect]]`: a route that redirects, in fewer words.

use super::route::{self, PATTERN, REDIRECT_TO, RouteDraft, text_at};
use crate::{
    model::{Route, Settings},
    reader::{Reader, Table},
    row::{Kind, REDIRECT, ROW, Row, Set},
    source::At,
};
use std::sync::Arc;

pub static ROWS: &[Row] = &[
    Row {
        name: "from",
        contexts: REDIRECT,
        kind: Kind::Word(&PATTERN),
        example: Some("\"/old/*\""),
        required: true,
        summary: "Paths (decoded) that have moved. A `*` stands for anything, slashes included.",
        apache: Some("Redirect, RedirectMatch"),
        aliases: &["path"],
        set: Set::Route(|route, given| route.set_pattern(given)),
        ..ROW
    },
    Row {
        name: "to",
        contexts: REDIRECT,
        kind: Kind::Word(&REDIRECT_TO),
        example: Some("\"/new/$1\""),
        required: true,
        summary: "Where to, as in `redirect` of a route.",
        aliases: &["redirect", "target"],
        set: Set::Route(|route, given| route.redirect = Some(text_at(given))),
        ..ROW
    },
];

/// Reads one `[[site.redirect]]`. `None` where something is missing, which has been reported.
pub fn read(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    header: At,
    site: &Arc<Settings>,
) -> Option<Route> {
    let mut draft = RouteDraft {
        settings: Settings::clone(site),
        ..RouteDraft::default()
    };
    reader.fill(table, REDIRECT, &header, &mut draft);
    if draft.redirect.is_none() {
        draft.status = None;
    }
    route::finish(reader, draft, header, REDIRECT)
}
