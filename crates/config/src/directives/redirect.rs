//! `[[site.redirect]]`: the short form of a route that redirects.
//!
//! Called by: `site`.
//! Caveat: redirects and routes of a site are matched in the order of the file.

use super::{
    path_pattern::PATTERN,
    route::{self, REDIRECT_TO, RouteDraft},
};
use crate::{
    context::REDIRECT,
    kind::Kind,
    model::{Route, Settings},
    reader::{Reader, Table},
    row::{self, Draft, Row, Rows},
    source::Location,
    value::{Key, Spanned},
};
use std::sync::Arc;

/// A redirect while it is read: a route with different keys.
#[derive(Debug)]
pub struct RedirectDraft(RouteDraft);

impl Draft for RedirectDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }

    fn set(&mut self, key: Key, given: Spanned) -> Option<Spanned> {
        let given = row::set_own(self, key, given)?;
        self.0.set(key, given)
    }
}

pub const ROWS: &[Row<RedirectDraft>] = &[
    Row {
        name: "from",
        contexts: REDIRECT,
        kind: Kind::Word(&PATTERN),
        example: Some("\"/old/*\""),
        required: true,
        summary: "Pattern of decoded paths that have moved. `*` matches anything, including \
                  slashes.",
        apache: Some("Redirect, RedirectMatch"),
        aliases: &["path"],
        set: |redirect, given| redirect.0.set_pattern(given),
        ..Row::BASE
    },
    Row {
        name: "to",
        contexts: REDIRECT,
        kind: Kind::Word(&REDIRECT_TO),
        example: Some("\"/new/$1\""),
        required: true,
        summary: "Target, as in `redirect` of a route.",
        aliases: &["redirect", "target"],
        set: |redirect, given| redirect.0.redirect = Some(given.located_text()),
        ..Row::BASE
    },
];

/// Reads one `[[site.redirect]]`. Returns `None` if something is missing, which has been reported.
pub fn read(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    header: Location,
    site: &Arc<Settings>,
) -> Option<Route> {
    let mut redirect = RedirectDraft(RouteDraft {
        settings: Settings::clone(site),
        ..RouteDraft::default()
    });
    reader.fill(table, REDIRECT, &header, &mut redirect);
    let RedirectDraft(mut draft) = redirect;
    if draft.redirect.is_none() {
        draft.status = None;
    }
    route::finish(reader, draft, header, REDIRECT)
}
