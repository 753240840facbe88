//! mod_alias: other folders under a path, and redirects.
//!
//! Runs before anything is mapped below the document root, redirects of a section again in its
//! fixups. Difficulty: a prefix ends at a slash, several slashes count as one, and what is appended
//! to a target is escaped unless it came by a pattern.

use crate::{
    arguments::{is_url, texts},
    modules::core::is_known_status,
    reading::{Place, Reading, Set},
};
use saker_ap_expr::{
    LimitReached, Pattern, PatternOptions, Spans, StringExpression, escape_uri,
    words::expand_groups,
};
use saker_apache_syntax::Node;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf, sync::Arc};

/// The part of a directive that a path is compared with.
#[derive(Clone, Debug)]
pub enum From {
    Prefix(Box<[u8]>),
    Pattern(Arc<Pattern>),
    /// Everything in the section (one argument in a `<Location>`); the section's own path is taken
    /// away.
    Section,
}

/// Alias, AliasMatch, ScriptAlias, ScriptAliasMatch.
#[derive(Clone, Debug)]
pub struct Mapping {
    pub from: From,
    /// A path of the file system; with `$1` and so on after a pattern.
    pub to: Box<[u8]>,
    /// The path of a section, where it depends on the request.
    pub expression: Option<Arc<StringExpression>>,
    /// Handler `cgi-script`.
    pub is_script: bool,
}

/// Redirect and its kin.
#[derive(Clone, Debug)]
pub struct Redirect {
    pub from: From,
    /// `None` for a status that is no redirect.
    pub to: Option<Box<[u8]>>,
    /// The target of a section, where it depends on the request.
    pub expression: Option<Arc<StringExpression>>,
    pub status: u16,
}

#[derive(Clone, Debug, Default)]
pub struct Alias {
    pub mappings: Vec<Mapping>,
    pub redirects: Vec<Redirect>,
    pub redirect_relative: Option<bool>,
    pub preserve_path: Option<bool>,
}

/// The file that a path is mapped to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    pub file: Vec<u8>,
    /// Handler `cgi-script`.
    pub is_script: bool,
    /// The part of the path that stands for a folder, and that folder; not after patterns.
    pub context: Option<(Vec<u8>, Vec<u8>)>,
}

/// The result of a redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirected {
    pub status: u16,
    pub location: Option<Vec<u8>>,
    /// A path stays a path.
    pub is_relative: bool,
}

impl Alias {
    pub const DIRECTIVES: &'static [(&'static str, Set<Alias>)] = &[
        ("Alias", |node, alias, reading| {
            add_mapping(node, alias, reading, false)
        }),
        ("ScriptAlias", |node, alias, reading| {
            add_mapping(node, alias, reading, true)
        }),
        ("AliasMatch", |node, alias, _| {
            add_mapping_by_pattern(node, alias, false)
        }),
        ("ScriptAliasMatch", |node, alias, _| {
            add_mapping_by_pattern(node, alias, true)
        }),
        ("Redirect", |node, alias, reading| {
            add_redirect(node, alias, reading, None)
        }),
        ("RedirectTemp", |node, alias, reading| {
            add_redirect(node, alias, reading, Some(302))
        }),
        ("RedirectPermanent", |node, alias, reading| {
            add_redirect(node, alias, reading, Some(301))
        }),
        ("RedirectMatch", add_redirect_by_pattern),
        ("RedirectRelative", |node, alias, _| {
            crate::arguments::set_flag(node, &mut alias.redirect_relative)
        }),
        ("AliasPreservePath", |node, alias, _| {
            crate::arguments::set_flag(node, &mut alias.preserve_path)
        }),
    ];

    /// Inner ones are asked first.
    pub fn merge(&self, over: &Alias) -> Alias {
        Alias {
            mappings: over
                .mappings
                .iter()
                .chain(&self.mappings)
                .cloned()
                .collect(),
            redirects: over
                .redirects
                .iter()
                .chain(&self.redirects)
                .cloned()
                .collect(),
            redirect_relative: over.redirect_relative.or(self.redirect_relative),
            preserve_path: over.preserve_path.or(self.preserve_path),
        }
    }

    /// Folders that something is mapped to, or that are on the way there as far as that is certain.
    pub fn folders(&self) -> impl Iterator<Item = PathBuf> {
        self.mappings
            .iter()
            .filter_map(|mapping| match mapping.from {
                From::Pattern(_) => certain_folder(&mapping.to, b'$'),
                From::Prefix(_) | From::Section => {
                    let whole = PathBuf::from(OsStr::from_bytes(&mapping.to));
                    if whole.is_dir() {
                        Some(whole)
                    } else {
                        certain_folder(&mapping.to, b'/')
                    }
                }
            })
    }

    /// Maps a decoded path. `evaluate` gives an expression's path; without one, the mapping does not
    /// apply.
    ///
    /// # Errors
    /// A pattern was given up.
    pub fn map(
        &self,
        path: &[u8],
        section: Option<&[u8]>,
        evaluate: impl Fn(&StringExpression) -> Option<Vec<u8>>,
    ) -> Result<Option<Mapped>, LimitReached> {
        // Without AliasPreservePath the whole section is one file or folder.
        let section = section.filter(|_| self.preserve_path == Some(true));
        for mapping in self.mappings.iter() {
            let file = match &mapping.expression {
                None => mapping.file(path, section)?,
                Some(expression) => match evaluate(expression) {
                    Some(to) => Mapping {
                        to: to.into(),
                        ..mapping.clone()
                    }
                    .file(path, section)?,
                    None => None,
                },
            };
            if let Some(file) = file {
                return Ok(Some(Mapped {
                    context: mapping.context(path, &file),
                    is_script: mapping.is_script,
                    file,
                }));
            }
        }
        Ok(None)
    }

    /// These redirects without those that have a path of their own: `Redirect URL` in a section.
    pub fn of_section_alone(&self) -> Alias {
        let mut own = self.clone();
        own.redirects
            .retain(|redirect| matches!(redirect.from, From::Section));
        own
    }

    /// Redirects a decoded path.
    ///
    /// # Errors
    /// A pattern was given up.
    pub fn redirect(
        &self,
        path: &[u8],
        query: Option<&[u8]>,
        evaluate: impl Fn(&StringExpression) -> Option<Vec<u8>>,
    ) -> Result<Option<Redirected>, LimitReached> {
        let is_relative = self.redirect_relative == Some(true);
        for redirect in self.redirects.iter() {
            let redirected = match &redirect.expression {
                Some(expression) => Some(redirect.evaluated(evaluate(expression), query)),
                None => redirect.answer(path, query)?,
            };
            if let Some(redirected) = redirected {
                return Ok(Some(Redirected {
                    is_relative,
                    ..redirected
                }));
            }
        }
        Ok(None)
    }
}

impl Mapping {
    fn file(&self, path: &[u8], section: Option<&[u8]>) -> Result<Option<Vec<u8>>, LimitReached> {
        let behind = |prefix: &[u8]| path.get(prefix_length(path, prefix)?..);
        Ok(match &self.from {
            From::Prefix(prefix) => behind(prefix).map(|rest| [&self.to, rest].concat()),
            From::Pattern(pattern) => pattern
                .captures(path)?
                .map(|spans| substitute(&self.to, path, &spans)),
            From::Section => match section.and_then(behind) {
                Some(rest) => Some([&self.to, rest].concat()),
                None => Some(self.to.to_vec()),
            },
        })
    }
}

impl Mapping {
    fn context(&self, path: &[u8], file: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let From::Prefix(prefix) = &self.from else {
            return None;
        };
        let taken = prefix_length(path, prefix)?;
        let folder = file.len().checked_sub(path.len() - taken)?;
        Some((path.get(..taken)?.to_vec(), file.get(..folder)?.to_vec()))
    }
}

fn is_target(to: &[u8]) -> bool {
    to.starts_with(b"/") || is_url(&String::from_utf8_lossy(to))
}

impl Redirect {
    fn answer(
        &self,
        path: &[u8],
        query: Option<&[u8]>,
    ) -> Result<Option<Redirected>, LimitReached> {
        let location = match &self.from {
            From::Prefix(prefix) => {
                let rest = prefix_length(path, prefix).and_then(|length| path.get(length..));
                let Some(rest) = rest else { return Ok(None) };
                self.to
                    .as_ref()
                    .map(|to| with_query([to, escape_uri(rest).as_slice()].concat(), query))
            }
            From::Pattern(pattern) => {
                let Some(spans) = pattern.captures(path)? else {
                    return Ok(None);
                };
                let to = self.to.as_ref().map(|to| substitute(to, path, &spans));
                // As Apache: what is neither a URL nor a path is an error.
                if to.as_deref().is_some_and(|to| !is_target(to)) {
                    return Ok(Some(Redirected {
                        status: 500,
                        location: None,
                        is_relative: false,
                    }));
                }
                to.map(|to| with_query(escape_target(&to), query))
            }
            From::Section => self
                .to
                .as_ref()
                .map(|to| with_query(escape_before_query(to), query)),
        };
        Ok(Some(Redirected {
            status: self.status,
            location,
            is_relative: false,
        }))
    }

    /// The redirect to what its expression gives. Anything but a URL or a path is an error (500).
    fn evaluated(&self, to: Option<Vec<u8>>, query: Option<&[u8]>) -> Redirected {
        let location = to
            .filter(|to| is_target(to))
            .map(|to| with_query(escape_before_query(&to), query));
        Redirected {
            status: if location.is_some() { self.status } else { 500 },
            location,
            is_relative: false,
        }
    }
}

/// Escapes the target of a section: the path as a path, and behind it what no field may have.
fn escape_before_query(url: &[u8]) -> Vec<u8> {
    let (origin, path, rest) = parts_of(url);
    let mut out = [origin, &escape_uri(path)].concat();
    out.retain(|byte| !byte.is_ascii_control());
    for byte in rest {
        match byte {
            b' '..=b'~' | 0x80.. => out.push(*byte),
            _ => out.extend_from_slice(format!("%{byte:02x}").as_bytes()),
        }
    }
    out
}

/// Escapes what a pattern has been replaced with: a captured `%` is one of the path. What is behind the
/// path keeps what is a URL's own.
fn escape_target(url: &[u8]) -> Vec<u8> {
    let (origin, path, rest) = parts_of(url);
    let mut out = [escape_origin(origin), escape_uri(path)].concat();
    for byte in rest {
        match byte {
            b'!'..=b'~'
                if !matches!(
                    byte,
                    b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
                ) =>
            {
                out.push(*byte)
            }
            _ => out.extend_from_slice(format!("%{byte:02x}").as_bytes()),
        }
    }
    out
}

/// Scheme and host, the path, and the query with the fragment.
fn parts_of(url: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let authority = url.windows(3).position(|part| part == b"://");
    let host_at = authority.map_or(0, |at| at + 3);
    let path_at = (url.iter().skip(host_at)).position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    let (origin, rest) = url.split_at(path_at.map_or(url.len(), |at| host_at + at));
    let end = rest.iter().position(|byte| matches!(byte, b'?' | b'#'));
    let (path, rest) = rest.split_at(end.unwrap_or(rest.len()));
    (origin, path, rest)
}

/// Escapes what no host has; the brackets of an IPv6 address stay.
fn escape_origin(origin: &[u8]) -> Vec<u8> {
    let parts = origin.split_inclusive(|byte| matches!(byte, b'[' | b']'));
    let escaped = parts.map(|part| match part.split_last() {
        Some((bracket @ (b'[' | b']'), before)) => [&escape_uri(before), &[*bracket][..]].concat(),
        _ => escape_uri(part),
    });
    escaped.collect::<Vec<_>>().concat()
}

/// The request's query goes along where the target has none.
fn with_query(mut location: Vec<u8>, query: Option<&[u8]>) -> Vec<u8> {
    if let Some(query) = query.filter(|_| !location.contains(&b'?')) {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    location
}

/// The folder before the mark in a path that is filled in from there on. `None` for the root.
pub fn certain_folder(template: &[u8], mark: u8) -> Option<PathBuf> {
    let certain = match mark {
        b'/' => template,
        mark => template.get(
            ..template
                .iter()
                .position(|byte| *byte == mark)
                .unwrap_or(template.len()),
        )?,
    };
    let folder = certain.get(..certain.iter().rposition(|byte| *byte == b'/')?)?;
    (folder.len() > 1).then(|| PathBuf::from(OsStr::from_bytes(folder)))
}

/// The length that the prefix takes of `path`, if it ends at a slash or with the path; runs of
/// slashes match one another.
pub fn prefix_length(path: &[u8], prefix: &[u8]) -> Option<usize> {
    let (mut at, mut from) = (0, 0);
    while let Some(byte) = prefix.get(from) {
        if path.get(at) != Some(byte) {
            return None;
        }
        (at, from) = match byte {
            b'/' => (past_slashes(path, at), past_slashes(prefix, from)),
            _ => (at + 1, from + 1),
        };
    }
    match (prefix.last(), path.get(at)) {
        (Some(b'/'), _) | (_, None | Some(b'/')) => Some(at),
        _ => None,
    }
}

fn past_slashes(text: &[u8], at: usize) -> usize {
    at + text
        .get(at..)
        .unwrap_or_default()
        .iter()
        .take_while(|byte| **byte == b'/')
        .count()
}

/// Puts `$0` to `$9` in. A backslash makes what is behind it stand for itself, and `&` is no group.
pub fn substitute(template: &[u8], subject: &[u8], spans: &Spans) -> Vec<u8> {
    let mut out = Vec::with_capacity(template.len() + subject.len());
    expand_groups(template, |group| spans.text(group, subject), &mut out);
    out
}

pub fn compile(text: &[u8]) -> Result<Arc<Pattern>, String> {
    Pattern::compile(text, PatternOptions::default())
        .map(Arc::new)
        .map_err(|_| "Regular expression could not be compiled.".to_owned())
}

fn add_mapping(
    node: &Node,
    alias: &mut Alias,
    reading: &mut Reading<'_>,
    is_script: bool,
) -> Result<(), String> {
    let mut words = node.arguments().into_iter();
    let (first, second) = (words.next().unwrap_or_default(), words.next());
    let mapping = match (second, reading.place == Place::Location) {
        (Some(_), true) | (None, false) => {
            return Err(format!(
                "{} takes {} here",
                node.canonical_name(),
                "a path and a folder, or inside a <Location> a folder alone"
            ));
        }
        (Some(to), false) => Mapping {
            from: From::Prefix(first.into()),
            to: folder(reading, &to),
            expression: None,
            is_script,
        },
        (None, true) => Mapping {
            from: From::Section,
            to: folder(reading, &first),
            expression: expression(node, reading, &first)?,
            is_script,
        },
    };
    alias.mappings.push(mapping);
    Ok(())
}

/// An argument with variables, which is evaluated for each request.
fn expression(
    node: &Node,
    reading: &mut Reading<'_>,
    text: &[u8],
) -> Result<Option<Arc<StringExpression>>, String> {
    if !text.windows(2).any(|pair| pair == b"%{") {
        return Ok(None);
    }
    StringExpression::compile(text, reading.expression_options())
        .map(|expression| Some(Arc::new(expression)))
        .map_err(|error| format!("{}: {error}", node.canonical_name()))
}

/// Absolute, with the slash at its end kept.
fn folder(reading: &Reading<'_>, text: &[u8]) -> Box<[u8]> {
    use std::os::unix::ffi::OsStrExt;
    reading.server_path(text).as_os_str().as_bytes().into()
}

fn add_mapping_by_pattern(node: &Node, alias: &mut Alias, is_script: bool) -> Result<(), String> {
    let words = node.arguments();
    let [pattern, to] = words.as_slice() else {
        return Err(format!("{} takes two arguments", node.canonical_name()));
    };
    alias.mappings.push(Mapping {
        from: From::Pattern(compile(pattern)?),
        to: to.as_slice().into(),
        expression: None,
        is_script,
    });
    Ok(())
}

fn status(word: &str) -> Option<u16> {
    match word.to_ascii_lowercase().as_str() {
        "permanent" => Some(301),
        "temp" => Some(302),
        "seeother" => Some(303),
        "gone" => Some(410),
        number => number.parse().ok(),
    }
}

/// A status that Apache has no line for is answered with 500. So is an informational one, which
/// ends no request (RFC 9110 section 15.2): the client would take the next response for this one's.
fn answered_as(status: u16, node: &Node, reading: &mut Reading<'_>) -> u16 {
    match status {
        100..=199 => {
            let message = format!(
                "{status} is informational and can't be the answer to a request: 500 is sent"
            );
            reading.warn(node, message);
            500
        }
        _ if is_known_status(status) => status,
        _ => 500,
    }
}

fn add_redirect(
    node: &Node,
    alias: &mut Alias,
    reading: &mut Reading<'_>,
    fixed: Option<u16>,
) -> Result<(), String> {
    let words = texts(node);
    let (status, rest) = match (fixed, words.split_first()) {
        (Some(fixed), _) => (fixed, words.as_slice()),
        (None, Some((first, rest)))
            if !first.starts_with('/') && !is_url(first) && status(first).is_some() =>
        {
            (status(first).unwrap_or(302), rest)
        }
        _ => (302, words.as_slice()),
    };
    let is_redirect = (300..400).contains(&status);
    let (from, to) = match rest {
        [from, to] if is_redirect => (From::Prefix(from.as_bytes().into()), Some(to)),
        [from] if !is_redirect => (From::Prefix(from.as_bytes().into()), None),
        // For all below the place.
        [to] if reading.place != Place::Server => (From::Section, Some(to)),
        [] if reading.place == Place::Location && !is_redirect => (From::Section, None),
        [_, _] => return Err("Redirect URL not valid for this status".into()),
        _ => return Err("Redirect to non-URL".into()),
    };
    let is_variable = |to: &str| matches!(from, From::Section) && to.starts_with("%{");
    if let Some(to) = to.filter(|to| !is_url(to) && !to.starts_with('/') && !is_variable(to)) {
        return Err(format!("Redirect to non-URL: {to}"));
    }
    let expression = match (&from, to) {
        (From::Section, Some(to)) => expression(node, reading, to.as_bytes())?,
        _ => None,
    };
    let to = to.map(|to| to.as_bytes().into());
    alias.redirects.push(Redirect {
        from,
        to,
        expression,
        status: answered_as(status, node, reading),
    });
    Ok(())
}

fn add_redirect_by_pattern(
    node: &Node,
    alias: &mut Alias,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let words = node.arguments();
    let named = words
        .first()
        .and_then(|word| status(&String::from_utf8_lossy(word)))
        .filter(|_| words.len() > 1);
    let code = named.unwrap_or(302);
    let (pattern, to) = match (words.as_slice(), (300..400).contains(&code)) {
        ([pattern, to], true) if named.is_none() => (pattern, Some(to)),
        ([_, pattern, to], true) => (pattern, Some(to)),
        ([_, pattern], false) => (pattern, None),
        _ => {
            return Err(
                "RedirectMatch takes a pattern and an URL, and a status before them".into(),
            );
        }
    };
    let redirect = Redirect {
        from: From::Pattern(compile(pattern)?),
        to: to.map(|to| to.as_slice().into()),
        expression: None,
        status: answered_as(code, node, reading),
    };
    alias.redirects.push(redirect);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_at_slashes() {
        let rows: [(&str, &str, Option<usize>); 8] = [
            ("/a/b", "/a", Some(2)),
            ("/ab", "/a", None),
            ("/a", "/a", Some(2)),
            ("/a", "/a/", None),
            ("/a/", "/a/", Some(3)),
            ("//a///b", "/a/", Some(6)),
            ("/a/b", "/", Some(1)),
            ("/b", "/a", None),
        ];
        for (path, prefix, length) in rows {
            assert_eq!(
                prefix_length(path.as_bytes(), prefix.as_bytes()),
                length,
                "{path} {prefix}"
            );
        }
    }

    #[test]
    fn targets_of_sections_are_escaped() {
        for (url, expected) in [
            (
                "http://[::1]:8080/a%20b/c d",
                "http://[::1]:8080/a%2520b/c%20d",
            ),
            ("http://x?a b", "http://x?a b"),
            ("http://x/é#f", "http://x/%c3%a9#f"),
            ("/a?b\r\nSet-Cookie: c", "/a?b%0d%0aSet-Cookie: c"),
            ("http://x\r\n.test/a\nb", "http://x.test/a%0ab"),
            ("", ""),
        ] {
            let escaped = escape_before_query(url.as_bytes());
            assert_eq!(String::from_utf8_lossy(&escaped), expected, "{url:?}");
        }
    }

    #[test]
    fn what_an_expression_gives_is_a_target_or_an_error() {
        let redirect = Redirect {
            from: From::Section,
            to: Some(b"%{env:TO}".as_slice().into()),
            expression: None,
            status: 307,
        };
        for (to, status, location) in [
            (Some("/a b"), 307, Some("/a%20b?q")),
            (Some("https://x/?own"), 307, Some("https://x/?own")),
            (Some("GET"), 500, None),
            (Some("a/b"), 500, None),
            (Some(""), 500, None),
            (None, 500, None),
        ] {
            let made = redirect.evaluated(to.map(|to| to.as_bytes().to_vec()), Some(b"q"));
            let found = made
                .location
                .map(|to| String::from_utf8_lossy(&to).into_owned());
            assert_eq!(
                (made.status, found.as_deref()),
                (status, location),
                "{to:?}"
            );
        }
    }

    #[test]
    fn redirects_keep_the_rest_and_the_query() {
        let redirect = Redirect {
            from: From::Prefix(b"/old".as_slice().into()),
            to: Some(b"https://x/new".as_slice().into()),
            expression: None,
            status: 301,
        };
        let answer = redirect.answer(b"/old/a b", Some(b"q=1"));
        let answer = answer.unwrap().unwrap();
        assert_eq!(
            answer.location.as_deref(),
            Some(&b"https://x/new/a%20b?q=1"[..])
        );
        assert_eq!(redirect.answer(b"/older", None), Ok(None));
    }
}
