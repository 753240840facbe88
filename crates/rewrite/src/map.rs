//! RewriteMap: declarations, the internal functions, and the format of text maps.
//!
//! Called by: `settings` and `run`.
//! Caveat: text maps are split at white space only, the first line with a key wins, and a line
//! without a value is ignored.
//! Out of scope: reading and watching the files, programs, DBM files, and databases, which the
//! caller does.

use crate::DirectiveError;
use saker_ap_expr::{escape_uri, unescape};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// Longest line of a text map; the rest counts as the next line, as in httpd.
const LINE_BYTES_MAX: usize = 1024;

/// A declared map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    pub name: String,
    pub source: MapSource,
}

/// Source of a map's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapSource {
    Text(PathBuf),
    /// A text map whose values are alternatives, with `|` between.
    Random(PathBuf),
    Internal(InternalMap),
    /// Started once; a key per line in, a value per line out, `NULL` for none.
    Program {
        arguments: Vec<String>,
        user: Option<String>,
        group: Option<String>,
    },
    Dbm {
        kind: String,
        file: PathBuf,
    },
    /// An SQL query; `cached`: for the life of the configuration (`fastdbd`).
    Dbd {
        query: String,
        cached: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternalMap {
    ToLower,
    ToUpper,
    Escape,
    Unescape,
}

impl Map {
    /// `RewriteMap name source [user:group]`. `path` makes a path absolute (ServerRoot); `None`
    /// from it is a bad path.
    pub fn declare(
        name: &str,
        source: &str,
        account: Option<&str>,
        path: impl Fn(&str) -> Option<PathBuf>,
    ) -> Result<Map, DirectiveError> {
        let (kind, rest) = kind_of(source);
        let file = |kind: &str, text: &str| {
            path(text).ok_or_else(|| {
                DirectiveError(format!("RewriteMap: bad path to {kind} map: {text}"))
            })
        };
        let source = match kind {
            "txt" => MapSource::Text(file("txt", rest)?),
            "rnd" => MapSource::Random(file("rnd", rest)?),
            "dbm" => {
                let (kind, name) = dbm_parts(rest)
                    .ok_or_else(|| DirectiveError(format!("RewriteMap: bad map:{source}")))?;
                MapSource::Dbm {
                    kind: kind.to_owned(),
                    file: file("dbm", name)?,
                }
            }
            "dbd" | "fastdbd" => MapSource::Dbd {
                query: rest.to_owned(),
                cached: kind == "fastdbd",
            },
            "prg" => program(rest, account, &file)?,
            "int" => MapSource::Internal(internal(rest)?),
            _ => MapSource::Text(file("txt", source)?),
        };
        Ok(Map {
            name: name.to_owned(),
            source,
        })
    }

    /// The file that must be there for the map to work, if there is one.
    pub fn file(&self) -> Option<&Path> {
        match &self.source {
            MapSource::Text(file) | MapSource::Random(file) | MapSource::Dbm { file, .. } => {
                Some(file)
            }
            MapSource::Program { arguments, .. } => arguments.first().map(Path::new),
            MapSource::Internal(_) | MapSource::Dbd { .. } => None,
        }
    }

    /// True if the map rewrites its key; the trace then prints the value twice.
    pub(crate) fn changes_key(&self) -> bool {
        matches!(
            self.source,
            MapSource::Internal(
                InternalMap::ToLower | InternalMap::ToUpper | InternalMap::Unescape
            )
        )
    }
}

impl MapSource {
    pub(crate) fn trace_kind(&self) -> &'static str {
        match self {
            MapSource::Text(_) | MapSource::Random(_) => "[txt]",
            MapSource::Dbm { .. } => "[dbm]",
            _ => "",
        }
    }
}

impl InternalMap {
    pub fn apply(self, key: &[u8]) -> Vec<u8> {
        match self {
            InternalMap::ToLower => key.to_ascii_lowercase(),
            InternalMap::ToUpper => key.to_ascii_uppercase(),
            InternalMap::Escape => escape_uri(key),
            // httpd's texts end at a NUL.
            InternalMap::Unescape => {
                let (mut text, _) = unescape(key, false);
                text.truncate(
                    text.iter()
                        .position(|byte| *byte == 0)
                        .unwrap_or(text.len()),
                );
                text
            }
        }
    }
}

/// A text map's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextMap {
    values: HashMap<Box<[u8]>, Box<[u8]>>,
}

impl TextMap {
    /// Lines of key and value with white space between; `#` begins a comment line.
    pub fn parse(content: &[u8]) -> TextMap {
        let mut values = HashMap::new();
        let lines = content.split(|byte| *byte == b'\n').flat_map(|line| {
            // An empty line has no chunk, and no meaning.
            line.chunks(LINE_BYTES_MAX)
        });
        for line in lines {
            if line
                .first()
                .is_none_or(|byte| *byte == b'#' || byte.is_ascii_whitespace())
            {
                continue;
            }
            let mut words = line
                .split(|byte| byte.is_ascii_whitespace() || *byte == 0x0b)
                .filter(|word| !word.is_empty());
            if let (Some(key), Some(value)) = (words.next(), words.next()) {
                values.entry(key.into()).or_insert_with(|| value.into());
            }
        }
        TextMap { values }
    }

    /// Builds a map from database rows, with every value unchanged.
    pub fn of_pairs<'p>(pairs: impl IntoIterator<Item = (&'p [u8], &'p [u8])>) -> TextMap {
        TextMap {
            values: pairs
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        }
    }

    pub fn value(&self, key: &[u8]) -> Option<&[u8]> {
        self.values.get(key).map(AsRef::as_ref)
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// The kind, ignoring case, and the rest. A plain path has no kind.
fn kind_of(source: &str) -> (&'static str, &str) {
    for kind in ["txt:", "rnd:", "dbd:", "fastdbd:", "prg:", "int:"] {
        if let Some((start, rest)) = source.split_at_checked(kind.len())
            && start.eq_ignore_ascii_case(kind)
        {
            return (&kind[..kind.len() - 1], rest);
        }
    }
    match source.split_at_checked(3) {
        Some((start, rest)) if start.eq_ignore_ascii_case("dbm") => ("dbm", rest),
        _ => ("", source),
    }
}

/// `:file` or `=type:file`.
fn dbm_parts(rest: &str) -> Option<(&str, &str)> {
    match rest.strip_prefix(':') {
        Some(file) => Some(("default", file)),
        None => rest.strip_prefix('=')?.split_once(':'),
    }
}

fn program(
    rest: &str,
    account: Option<&str>,
    file: &dyn Fn(&str, &str) -> Result<PathBuf, DirectiveError>,
) -> Result<MapSource, DirectiveError> {
    let mut arguments = words(rest);
    let Some(first) = arguments.first_mut() else {
        return Err(DirectiveError(format!(
            "RewriteMap: bad path to prg map: {rest}"
        )));
    };
    *first = file("prg", first)?.to_string_lossy().into_owned();
    let mut parts = account
        .unwrap_or_default()
        .split(':')
        .filter(|part| !part.is_empty())
        .map(str::to_owned);
    Ok(MapSource::Program {
        arguments,
        user: parts.next(),
        group: parts.next(),
    })
}

/// A command line's words; quotes hold them together.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut open) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None, '"' | '\'') => (quote, open) = (Some(c), true),
            (None, c) if c.is_ascii_whitespace() => {
                if std::mem::take(&mut open) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (_, c) => {
                open = true;
                word.push(c);
            }
        }
    }
    if open {
        words.push(word);
    }
    words
}

fn internal(name: &str) -> Result<InternalMap, DirectiveError> {
    match name {
        "tolower" => Ok(InternalMap::ToLower),
        "toupper" => Ok(InternalMap::ToUpper),
        "escape" => Ok(InternalMap::Escape),
        "unescape" => Ok(InternalMap::Unescape),
        _ => Err(DirectiveError(format!(
            "RewriteMap: internal map not found:{name}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declare(source: &str, account: Option<&str>) -> Result<MapSource, String> {
        let path = |text: &str| {
            if text.is_empty() {
                None
            } else {
                Some(Path::new("/root").join(text))
            }
        };
        Map::declare("m", source, account, path)
            .map(|map| map.source)
            .map_err(|error| error.0)
    }

    #[test]
    fn declarations() {
        let program =
            |arguments: &[&str], user: Option<&str>, group: Option<&str>| MapSource::Program {
                arguments: arguments.iter().map(|word| word.to_string()).collect(),
                user: user.map(str::to_owned),
                group: group.map(str::to_owned),
            };
        let cases = [
            ("txt:a.txt", MapSource::Text("/root/a.txt".into())),
            ("TXT:/a", MapSource::Text("/a".into())),
            ("a.txt", MapSource::Text("/root/a.txt".into())),
            ("rnd:a", MapSource::Random("/root/a".into())),
            ("int:tolower", MapSource::Internal(InternalMap::ToLower)),
            (
                "dbm:a",
                MapSource::Dbm {
                    kind: "default".into(),
                    file: "/root/a".into(),
                },
            ),
            (
                "dbm=sdbm:a",
                MapSource::Dbm {
                    kind: "sdbm".into(),
                    file: "/root/a".into(),
                },
            ),
            (
                "dbd:select 1",
                MapSource::Dbd {
                    query: "select 1".into(),
                    cached: false,
                },
            ),
            (
                "fastdbd:select 1",
                MapSource::Dbd {
                    query: "select 1".into(),
                    cached: true,
                },
            ),
            (
                "prg:bin/x 'a b' c",
                program(&["/root/bin/x", "a b", "c"], None, None),
            ),
        ];
        for (text, source) in cases {
            assert_eq!(declare(text, None), Ok(source), "{text}");
        }
        assert_eq!(
            declare("prg:/x", Some("www:web")),
            Ok(program(&["/x"], Some("www"), Some("web")))
        );
        for (text, message) in [
            ("txt:", "RewriteMap: bad path to txt map: "),
            ("prg:", "RewriteMap: bad path to prg map: "),
            ("dbmx", "RewriteMap: bad map:dbmx"),
            ("dbm=x", "RewriteMap: bad map:dbm=x"),
            ("int:nothing", "RewriteMap: internal map not found:nothing"),
        ] {
            assert_eq!(declare(text, None), Err(message.to_owned()));
        }
    }

    #[test]
    fn text_maps() {
        let map = TextMap::parse(b"# comment\n a x\nkey value rest\nkey second\nalone\nalone  \n\ttab x\nk2\t\tv|w\r\nlast end");
        let value = |key: &str| {
            map.value(key.as_bytes())
                .map(|value| String::from_utf8_lossy(value).into_owned())
        };
        assert_eq!(value("key").as_deref(), Some("value"));
        assert_eq!(value("k2").as_deref(), Some("v|w"));
        assert_eq!(value("last").as_deref(), Some("end"));
        assert_eq!(
            [
                value("a"),
                value("alone"),
                value("tab"),
                value("#"),
                value("")
            ],
            [const { None }; 5]
        );
        assert_eq!(map.len(), 3);
    }

    #[test]
    fn internal_functions() {
        assert_eq!(InternalMap::ToUpper.apply(b"aB"), b"AB");
        assert_eq!(InternalMap::ToLower.apply(b"aB"), b"ab");
        assert_eq!(InternalMap::Escape.apply(b"a b?"), b"a%20b%3f");
        assert_eq!(
            InternalMap::Unescape.apply(b"a%20b%2Fc%zz%00d"),
            b"a b/c%zz"
        );
    }
}
