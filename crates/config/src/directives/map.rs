//! `[map.NAME]`: maps from a text to a value.
//!
//! Called by: `file`.
//! Caveat: maps are linked when all files have been read (`resolve/templates`), because values may
//! use other maps.

use super::{matcher::read_regex, template::TEXT};
use crate::{
    context::MAP,
    kind::{KeyKind, Kind, TableKind},
    model::Template,
    report::Report,
    row::{Draft, Row, Rows},
    source::Location,
    value::{Fields, Spanned, Value},
};
use saker_net::privileged;
use std::{
    fs,
    path::{Path, PathBuf},
};

static ANY_TEXT: KeyKind = KeyKind {
    expects: "texts",
    pattern: "",
    is_case_sensitive: true,
    read: |text| Ok(text.to_owned()),
};

static REGEX_TEXT: KeyKind = KeyKind {
    expects: "regular expressions (PCRE2)",
    pattern: "",
    is_case_sensitive: true,
    read: |text| read_regex(text).map(|_| text.to_owned()),
};

const VALUES: Kind = Kind::MapOf(&ANY_TEXT, &Kind::Word(&TEXT));

pub static MAP_TABLE: Kind = Kind::Table(&TableKind {
    context: MAP,
    read: read_map,
});

/// Maximum size of a map file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A value and where it was written.
pub type LocatedTemplate = (Template, Location);

/// A map while it is read.
#[derive(Clone, Debug, Default)]
pub struct MapDraft {
    pub source: Option<LocatedTemplate>,
    pub default: Option<LocatedTemplate>,
    pub exact: Vec<(String, LocatedTemplate)>,
    pub prefix: Vec<(String, LocatedTemplate)>,
    pub suffix: Vec<(String, LocatedTemplate)>,
    pub regex: Vec<(String, LocatedTemplate)>,
    files: Vec<(PathBuf, Location)>,
}

impl Draft for MapDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

pub const ROWS: &[Row<MapDraft>] = &[
    Row {
        name: "source",
        contexts: MAP,
        kind: Kind::Word(&TEXT),
        required: true,
        example: Some("\"$uri\""),
        summary: "The text to look up.",
        since: "0.2",
        aliases: &["from", "key"],
        set: |map, given| map.source = located(&given),
        ..Row::BASE
    },
    Row {
        name: "default",
        contexts: MAP,
        kind: Kind::Word(&TEXT),
        default: Some("\"\""),
        summary: "The value of a text that the map does not have.",
        since: "0.2",
        set: |map, given| map.default = located(&given),
        ..Row::BASE
    },
    Row {
        name: "exact",
        contexts: MAP,
        kind: VALUES,
        default: Some("{}"),
        example: Some("{ \"/old\" = \"/new\" }"),
        summary: "Values of whole texts.",
        since: "0.2",
        aliases: &["values", "entries"],
        set: |map, given| map.exact = entries(given),
        ..Row::BASE
    },
    Row {
        name: "prefix",
        contexts: MAP,
        kind: VALUES,
        default: Some("{}"),
        example: Some("{ \"/shop/\" = \"shop\" }"),
        summary: "Values of texts that begin with a text; the longest wins.",
        since: "0.2",
        aliases: &["prefixes"],
        set: |map, given| map.prefix = entries(given),
        ..Row::BASE
    },
    Row {
        name: "suffix",
        contexts: MAP,
        kind: VALUES,
        default: Some("{}"),
        example: Some("{ \".example.org\" = \"main\" }"),
        summary: "Values of texts that end with a text; the longest wins.",
        since: "0.2",
        aliases: &["suffixes", "hostnames"],
        set: |map, given| map.suffix = entries(given),
        ..Row::BASE
    },
    Row {
        name: "regex",
        contexts: MAP,
        kind: Kind::MapOf(&REGEX_TEXT, &Kind::Word(&TEXT)),
        default: Some("{}"),
        example: Some("{ '(?i)android|iphone' = \"mobile\" }"),
        summary: "Values of texts that match a regular expression, in the order of the file. `$1` \
                  to `$9` in the value are its groups.",
        since: "0.2",
        aliases: &["regexp", "patterns"],
        set: |map, given| map.regex = entries(given),
        ..Row::BASE
    },
    Row {
        name: "file",
        contexts: MAP,
        kind: Kind::OneOf(&[Kind::Path, Kind::ListOf(&Kind::Path)]),
        example: Some("\"redirects.txt\""),
        summary: "Files with further whole texts: a text and its value per line, separated by \
                  spaces. `#` begins a comment, a semicolon at the end is ignored. A `$` in a \
                  value is a dollar sign. Read at start and at reloads.",
        apache: Some("RewriteMap"),
        since: "0.2",
        aliases: &["files", "include"],
        set: |map, given| {
            let each = given.one_or_many().into_iter();
            map.files = each.map(Spanned::located_path).collect();
        },
        ..Row::BASE
    },
];

/// The maps of a file with their names.
pub fn maps(given: Spanned) -> impl Iterator<Item = (String, MapDraft, Location)> {
    given
        .map()
        .into_iter()
        .filter_map(|(name, one)| Some((name, one.parsed_as()?, one.at)))
}

pub fn located(given: &Spanned) -> Option<LocatedTemplate> {
    Some((given.parsed_as()?, given.at.clone()))
}

/// The entries of a table of texts with variables.
pub fn entries(given: Spanned) -> Vec<(String, LocatedTemplate)> {
    given
        .map()
        .into_iter()
        .filter_map(|(key, one)| Some((key, located(&one)?)))
        .collect()
}

fn read_map(report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = MapDraft::default();
    draft.fill(fields);
    for (path, at) in std::mem::take(&mut draft.files) {
        report.read_files.push(path.clone());
        match read_file(&path) {
            Ok(lines) => draft.exact.extend(
                lines
                    .into_iter()
                    .map(|(key, value)| (key, (Template::literal(&value), at.clone()))),
            ),
            Err(reason) => report.error(
                &at,
                format!(
                    "cannot read the map file {}: {reason}",
                    path.strip_prefix(&at.source.base)
                        .unwrap_or(&path)
                        .display()
                ),
                Some("a line has a text and its value, separated by spaces".into()),
            ),
        }
    }
    Some(Value::parsed(draft))
}

fn read_file(path: &Path) -> Result<Vec<(String, String)>, String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("not a regular file".into());
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(format!("larger than {FILE_BYTES_MAX} bytes"));
    }
    let bytes = privileged::read(path).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not valid UTF-8".to_owned())?;
    parse_lines(&text)
}

fn parse_lines(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let line = line.strip_suffix(';').unwrap_or(line).trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((key, value)) = line.split_once(|c: char| c.is_ascii_whitespace()) else {
            return Err(format!("line {}: missing value", number + 1));
        };
        let value = value.trim();
        if value.chars().any(char::is_control) {
            return Err(format!(
                "line {}: control characters are not allowed",
                number + 1
            ));
        }
        lines.push((key.to_owned(), value.to_owned()));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_map_file() {
        let lines = parse_lines("# old new\n/a /b\n\n/c\t /d e;\r\n").unwrap();
        assert_eq!(
            lines,
            [("/a".into(), "/b".into()), ("/c".into(), "/d e".to_owned())]
        );
        assert_eq!(
            parse_lines("/a /b\n/c").unwrap_err(),
            "line 2: missing value"
        );
        assert!(parse_lines("/a b\u{1b}c").is_err());
    }
}
