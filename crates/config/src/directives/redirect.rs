//! `[[site.redirect]]`: the short form of a route that redirects.
//!
//! Called by: `site`.
//! Caveat: redirects and routes of a site are matched in the order of the file.

use super::{
    matcher::{NamedMatchers, REGEX},
    path_pattern::PATTERN,
    read_route::{self, Inherited, ReadRoute},
    route::RouteDraft,
    template::REDIRECT_TO,
};
use crate::{
    context::REDIRECT,
    kind::Kind,
    reader::{Reader, Table},
    row::{self, Draft, Row, Rows},
    source::Location,
    value::{Key, Spanned},
};
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
        kind: Kind::OneOf(&[Kind::Word(&PATTERN), Kind::ListOf(&Kind::Word(&PATTERN))]),
        example: Some("\"/old/*\""),
        summary: "Pattern of decoded paths that have moved. `*` matches anything, including \
                  slashes.",
        apache: Some("Redirect, RedirectMatch"),
        aliases: &["path"],
        set: |redirect, given| redirect.0.set_patterns(given),
        ..Row::BASE
    },
    Row {
        name: "from_regex",
        contexts: REDIRECT,
        kind: Kind::Word(&REGEX),
        example: Some("'^/article/([0-9]+)$'"),
        summary: "Regular expression (PCRE2) for decoded paths that have moved, instead of `from`.",
        since: "0.2",
        aliases: &["path_regex", "regex"],
        set: |redirect, given| redirect.0.set_patterns(given),
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
        set: |redirect, given| redirect.0.redirect = super::map::located(&given),
        ..Row::BASE
    },
];

/// Reads one `[[site.redirect]]`. Returns nothing if something is missing, which has been reported.
pub fn read(
    reader: &mut Reader<'_>,
    table: &Table<'_>,
    header: Location,
    site: &Inherited,
    named: &NamedMatchers,
) -> Vec<ReadRoute> {
    let mut redirect = RedirectDraft(RouteDraft::below(site));
    reader.fill(table, REDIRECT, &header, &mut redirect);
    let RedirectDraft(mut draft) = redirect;
    if draft.redirect.is_none() {
        draft.status = None;
    }
    read_route::check_path(reader, table, &draft, &header, REDIRECT);
    read_route::finish(reader, draft, header, REDIRECT, (site, named))
}
