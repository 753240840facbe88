//! `types` and `default_type` as the media types of sites and routes.
//!
//! Called by: `servers`, and `locations`.
//! Caveat: nginx's table replaces the one of the level above, Saker's is added to the built-in one.
//! Extensions that browsers run or show as pages are therefore named where a table is without them.

use super::text::quoted;
use crate::tree::Directive;
use std::collections::BTreeMap;

/// Extensions with their types.
type Table<'t> = BTreeMap<&'t str, &'t str>;

/// Extensions with the types that tables with nginx's `mime.types` have for them.
const USUAL: &[(&str, &[&str])] = &[
    ("htm", &["text/html"]),
    ("html", &["text/html"]),
    ("shtml", &["text/html"]),
    ("svg", &["image/svg+xml"]),
    ("xhtml", &["application/xhtml+xml"]),
    ("xml", &["text/xml", "application/xml"]),
];

/// Extensions of the built-in table that browsers run, or show as pages.
const ACTIVE: &[&str] = &[
    "atom", "cjs", "css", "dae", "dtd", "gpx", "htm", "html", "js", "kml", "mathml", "mjs", "mpd",
    "mpkg", "owl", "pdf", "rdf", "rng", "rss", "shtml", "svg", "swf", "wsdl", "xht", "xhtml",
    "xlf", "xml", "xsd", "xsl", "xslt", "xspf", "xul",
];

/// nginx's default where nothing is said.
const DEFAULT: &str = "text/plain";

/// Media types of one level.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MediaTypes {
    /// Lines of a site or a route.
    pub keys: String,
    /// All files have this type.
    pub whole: Option<String>,
}

impl MediaTypes {
    /// Reads the settings of a server.
    pub fn of_server(settings: &[&Directive]) -> MediaTypes {
        let default = default_type(settings);
        let mut types = MediaTypes::with(settings, default.unwrap_or(DEFAULT));
        // A field of the site would be set for answers of programs, too.
        if types.whole.take().is_some() {
            types.keys = table_line(&excluding(Table::new(), default.unwrap_or(DEFAULT)));
        }
        types.keys.extend(default.map(default_line));
        types
    }

    /// Reads the settings of a location in a server with others; `None`: it has none of its own.
    pub fn of_location(own: &[&Directive], server: &[&Directive]) -> Option<MediaTypes> {
        let says = |name: &str| own.iter().any(|known| known.name() == name);
        if !says("types") && !says("default_type") {
            return None;
        }
        let default = default_type(own).or_else(|| default_type(server));
        let all = if says("types") { own } else { server };
        let mut types = MediaTypes::with(all, default.unwrap_or(DEFAULT));
        types.keys.extend(default_type(own).map(default_line));
        Some(types)
    }

    fn with(all: &[&Directive], default: &str) -> MediaTypes {
        let tables = all.iter().filter(|known| known.name() == "types");
        let tables: Vec<Table<'_>> = tables.map(|table| entries(table)).collect();
        let merged = merged(tables.iter());
        if tables.is_empty() {
            return MediaTypes::default();
        }
        if merged.is_empty() {
            return MediaTypes {
                whole: Some(some_type(default).to_owned()),
                ..MediaTypes::default()
            };
        }
        let table = match is_usual(&merged) {
            // The built-in table has what `mime.types` has.
            true => self::merged(tables.iter().filter(|table| !is_usual(table))),
            false => excluding(merged, default),
        };
        MediaTypes {
            keys: table_line(&table),
            whole: None,
        }
    }
}

fn default_type<'d>(all: &[&'d Directive]) -> Option<&'d str> {
    let mut types = all.iter().filter(|known| known.name() == "default_type");
    types.next_back().map(|known| known.argument(0))
}

/// Without a type, browsers would guess one.
fn some_type(default: &str) -> &str {
    match default.is_empty() {
        true => "application/octet-stream",
        false => default,
    }
}

fn entries(table: &Directive) -> Table<'_> {
    let lines = table.inside().iter();
    let pairs = lines.flat_map(|line| line.texts().map(|extension| (extension, line.name())));
    pairs.collect()
}

fn merged<'a, 't: 'a>(tables: impl Iterator<Item = &'a Table<'t>>) -> Table<'t> {
    let pairs = tables.flatten();
    pairs.map(|(extension, kind)| (*extension, *kind)).collect()
}

fn is_usual(table: &Table<'_>) -> bool {
    let mut rows = USUAL.iter();
    rows.all(|(extension, types)| {
        let kind = table.get(extension);
        kind.is_some_and(|kind| types.contains(kind))
    })
}

/// A table with the default for all active extensions that it does not have.
fn excluding<'t>(mut table: Table<'t>, default: &'t str) -> Table<'t> {
    for extension in ACTIVE {
        table.entry(extension).or_insert(some_type(default));
    }
    table
}

fn table_line(table: &Table<'_>) -> String {
    let lines = table
        .iter()
        .map(|(extension, kind)| format!("{} = {}", quoted(extension), quoted(kind)));
    let lines: Vec<String> = lines.collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("types = {{ {} }}\n", lines.join(", ")),
    }
}

fn default_line(default: &str) -> String {
    format!("default_type = {}\n", quoted(default))
}
