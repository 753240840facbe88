//! `[[site.when]]`: settings for requests that meet conditions.
//!
//! Called by: `site` and `read_route`, when the named matchers of the site are known.
//! Caveat: a change is applied to the settings of whichever route a request has, so its values are
//! kept and set once for each.
//! Out of scope: texts with variables, which `resolve/templates` links.

use super::matcher::{self, MATCH_OR_NAME, MatchTree, NamedMatchers};
use crate::{
    context::WHEN,
    kind::Kind,
    model::{CONDITIONALS_MAX, Conditional, Settings, SettingsChange},
    reader::{Reader, Table},
    row::{self, Draft, Row, Rows},
    source::Location,
    value::{Key, Spanned},
};

/// A table while it is read.
#[derive(Default)]
pub struct WhenDraft {
    matcher: Option<(MatchTree, Location)>,
    changes: Vec<(Key, Spanned)>,
    /// Takes each value once, to find out who has the key.
    scratch: Settings,
}

impl Draft for WhenDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }

    fn set(&mut self, key: Key, given: Spanned) -> Option<Spanned> {
        let given = row::set_own(self, key, given)?;
        let unset = self.scratch.set(key, given.clone());
        if unset.is_none() {
            self.changes.push((key, given));
        }
        unset
    }
}

pub const ROWS: &[Row<WhenDraft>] = &[Row {
    name: "match",
    contexts: WHEN,
    kind: MATCH_OR_NAME,
    required: true,
    example: Some("{ cookie = { \"wordpress_logged_in*\" = true } }"),
    summary: "The conditions: a table, the name of a [site.matcher.NAME], or a list of names of \
              which all must match.",
    apache: Some("<If>"),
    since: "0.2",
    aliases: &["matcher", "if", "conditions"],
    set: |draft, given| {
        let at = given.at.clone();
        draft.matcher = matcher::tree(given).map(|tree| (tree, at));
    },
    ..Row::BASE
}];

/// The key of sites and routes.
pub const SECTIONS: Kind = Kind::Sections(WHEN);

/// Reads the tables of a site or route.
pub fn read(reader: &mut Reader<'_>, table: &Table<'_>, named: &NamedMatchers) -> Vec<Conditional> {
    let mut all = Vec::new();
    for (table, at) in reader.sections(table, "when", WHEN) {
        let mut draft = WhenDraft::default();
        reader.fill(table, WHEN, &at, &mut draft);
        let Some((tree, matcher_at)) = draft.matcher else {
            continue;
        };
        let has = |key| reader.is_mentioned(table, key, WHEN);
        if !["headers", "cache", "throttle"].into_iter().any(has) {
            let help = "add `headers`, `cache`, or `throttle`";
            reader.error(&at, "conditions without settings", Some(help.into()));
        }
        all.push(Conditional {
            matcher: matcher::resolve(reader, tree, &matcher_at, named),
            change: change(draft.changes),
            origin: at.origin(),
        });
    }
    all
}

/// Reports more changes than one path may have.
pub fn check_count(reader: &mut Reader<'_>, count: usize, at: &Location) {
    if count > CONDITIONALS_MAX {
        let message = format!("{count} `when` tables apply here, more than {CONDITIONALS_MAX}");
        let help = "combine conditions with `any`, or use maps";
        reader.error(at, message, Some(help.into()));
    }
}

fn change(changes: Vec<(Key, Spanned)>) -> SettingsChange {
    SettingsChange::new(move |settings| {
        let before = std::mem::take(&mut settings.fields);
        for (key, given) in &changes {
            let unset = settings.set(*key, given.clone());
            debug_assert!(unset.is_none(), "{key:?} was accepted when it was read");
        }
        let edits = std::mem::replace(&mut settings.fields, before);
        for mut edit in edits {
            edit.is_per_request = true;
            let is_other = |other: &str| !other.eq_ignore_ascii_case(&edit.name);
            settings.fields.retain(|other| is_other(&other.name));
            settings.fields.push(edit);
        }
    })
}
