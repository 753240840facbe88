//! ProxyPass and ProxyPassMatch: for which paths, and what URL they become.
//!
//! Difficulty: what is compared and what is passed on need not be the same text. By default both
//! are the decoded path; with `nocanon` the path goes on as it was received, and with
//! `mapping=encoded` it is compared as it was received, too (Apache manual, mod_proxy,
//! "ProxyPass").

use crate::modules::alias::{compile, prefix_length, substitute};
use saker_ap_expr::Pattern;
use std::{borrow::Cow, sync::Arc};

/// The part of a directive that a path is compared with.
#[derive(Clone, Debug)]
pub enum From {
    Prefix(Box<[u8]>),
    Pattern(Arc<Pattern>),
    /// The path of the section that it stands in.
    Section,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub nocanon: bool,
    pub noquery: bool,
    pub interpolates: bool,
    /// `mapping=encoded` or `mapping=servlet`.
    pub is_encoded: bool,
    /// `mapping=servlet`.
    pub is_servlet: bool,
}

#[derive(Clone, Debug)]
pub struct Pass {
    pub from: From,
    /// `None` for `!`.
    pub to: Option<Box<str>>,
    pub flags: Flags,
}

/// A path in its forms.
#[derive(Clone, Copy)]
pub struct Paths<'p> {
    pub decoded: &'p [u8],
    /// As received, without the query.
    pub raw: &'p [u8],
    /// With it.
    pub raw_with_query: &'p [u8],
}

/// The form of the text that follows the server in the URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Decoded: it is encoded before it goes out, and the query added.
    #[default]
    Decoded,
    /// Ready; the query is added.
    Ready,
    /// Ready, with its query.
    Whole,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// Not for this one.
    No,
    /// `!`
    Exception,
    To {
        url: Vec<u8>,
        encoding: Encoding,
    },
}

impl Pass {
    /// `fill_in`: puts variables into texts, where that is wanted.
    pub fn passes(
        &self,
        paths: Paths<'_>,
        section: &From,
        fill_in: &dyn Fn(&str) -> String,
    ) -> Passed {
        let from = if matches!(self.from, From::Section) {
            section
        } else {
            &self.from
        };
        let subject = if self.flags.is_encoded {
            paths.raw
        } else {
            paths.decoded
        };
        let to = self.to.as_deref().map(|to| {
            if self.flags.interpolates {
                Cow::Owned(fill_in(to))
            } else {
                Cow::Borrowed(to)
            }
        });
        match from {
            From::Prefix(prefix) if self.flags.is_servlet => {
                self.to_servlet(to.as_deref(), paths.raw, prefix)
            }
            From::Prefix(prefix) => match prefix_length(subject, prefix) {
                Some(length) => self.to_prefix(to.as_deref(), paths, (prefix, subject, length)),
                None => Passed::No,
            },
            From::Pattern(pattern) => self.to_pattern(to.as_deref(), paths, (pattern, subject)),
            From::Section => Passed::No,
        }
    }

    fn to_prefix(
        &self,
        to: Option<&str>,
        paths: Paths<'_>,
        (prefix, subject, length): (&[u8], &[u8], usize),
    ) -> Passed {
        let Some(to) = to else {
            return Passed::Exception;
        };
        let url = |text: &[u8], from: usize| {
            [to.as_bytes(), text.get(from..).unwrap_or_default()].concat()
        };
        // If decoding has made the beginning another one, what was received can't go on (Apache
        // falls back likewise).
        if self.flags.nocanon && prefix_length(paths.raw, prefix) == Some(length) {
            let raw = if self.flags.noquery {
                paths.raw
            } else {
                paths.raw_with_query
            };
            return Passed::To {
                url: url(raw, length),
                encoding: Encoding::Whole,
            };
        }
        let encoding = if self.flags.is_encoded {
            Encoding::Ready
        } else {
            Encoding::Decoded
        };
        Passed::To {
            url: url(subject, length),
            encoding,
        }
    }

    /// `mapping=servlet`: the path is compared as a servlet container would read it, which sees no
    /// parameters (`;name=value` at the end of a segment) and resolves `..;` like `..`. What goes on
    /// is that path, without dot segments, with the parameters of the segments that remain.
    fn to_servlet(&self, to: Option<&str>, raw: &[u8], prefix: &[u8]) -> Passed {
        let Some(segments) = servlet_segments(raw) else {
            return Passed::No;
        };
        let is_open = prefix.ends_with(b"/");
        let wanted = prefix.strip_prefix(b"/").unwrap_or(prefix);
        let wanted = wanted.strip_suffix(b"/").unwrap_or(wanted);
        let wanted: Vec<&[u8]> = match wanted {
            b"" => Vec::new(),
            wanted => wanted.split(|byte| *byte == b'/').collect(),
        };
        let is_match = segments.len() >= wanted.len()
            && wanted
                .iter()
                .zip(&segments)
                .all(|(wanted, segment)| *wanted == bare(segment));
        if !is_match || is_open && segments.len() == wanted.len() {
            return Passed::No;
        }
        let Some(to) = to else {
            return Passed::Exception;
        };
        let (matched, rest) = segments.split_at(wanted.len());
        let mut url = to.as_bytes().to_vec();
        // Parameters of the last segment of all are not passed on, as in Apache.
        if !is_open && !rest.is_empty() {
            let last = matched.last().copied().unwrap_or_default();
            url.extend_from_slice(last.get(bare(last).len()..).unwrap_or_default());
        }
        for (number, segment) in rest.iter().enumerate() {
            if number > 0 || !is_open {
                url.push(b'/');
            }
            url.extend_from_slice(segment);
        }
        Passed::To {
            url,
            encoding: Encoding::Ready,
        }
    }

    fn to_pattern(
        &self,
        to: Option<&str>,
        paths: Paths<'_>,
        (pattern, subject): (&Pattern, &[u8]),
    ) -> Passed {
        let spans = match pattern.captures(subject) {
            Ok(Some(spans)) => spans,
            Ok(None) => return Passed::No,
            // One that is given up is taken to match nothing that could be passed on: better no
            // answer than a wrong one.
            Err(_) => {
                return Passed::To {
                    url: Vec::new(),
                    encoding: Encoding::Whole,
                };
            }
        };
        let Some(to) = to else {
            return Passed::Exception;
        };
        let raw = || pattern.captures(paths.raw_with_query).ok().flatten();
        if self.flags.nocanon
            && let Some(spans) = raw()
        {
            let found = with_path(
                to,
                substitute(to.as_bytes(), paths.raw_with_query, &spans),
                paths.raw_with_query,
            );
            return Passed::To {
                url: found,
                encoding: Encoding::Whole,
            };
        }
        let encoding = if self.flags.is_encoded {
            Encoding::Ready
        } else {
            Encoding::Decoded
        };
        Passed::To {
            url: with_path(to, substitute(to.as_bytes(), subject, &spans), subject),
            encoding,
        }
    }
}

/// The path that rules see with `mapping=servlet`: that of the segments, without parameters. `None`:
/// it leads above the root.
pub fn servlet_path(raw: &[u8]) -> Option<Vec<u8>> {
    let segments: Vec<&[u8]> = servlet_segments(raw)?.into_iter().map(bare).collect();
    Some([b"/", &*segments.join(&b'/')].concat())
}

/// A segment without its parameters.
fn bare(segment: &[u8]) -> &[u8] {
    segment
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
}

/// The segments of a path, with their parameters, dot segments resolved and empty ones dropped; an
/// empty last one stands for a slash at the end. `None`: it leads above the root.
fn servlet_segments(path: &[u8]) -> Option<Vec<&[u8]>> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = path
        .strip_prefix(b"/")?
        .split(|byte| *byte == b'/')
        .peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match bare(segment) {
            b".." => drop(kept.pop()?),
            b"." | b"" => {}
            _ => {
                kept.push(segment);
                continue;
            }
        }
        if is_last {
            kept.push(b"");
        }
    }
    Some(kept)
}

/// A target without groups has the whole path behind it.
fn with_path(to: &str, mut found: Vec<u8>, path: &[u8]) -> Vec<u8> {
    if found == to.as_bytes() {
        found.extend_from_slice(path);
    }
    found
}

/// One ProxyPass line.
pub struct Line {
    pub pass: Pass,
    pub parameters: Vec<(String, String)>,
}

/// `[path] url [name=value …]`; in a section without the path.
pub fn parse(
    name: &str,
    words: &[String],
    in_section: bool,
    mut by_pattern: bool,
) -> Result<Line, String> {
    let mut words = words.iter().map(String::as_str).peekable();
    if words.peek() == Some(&"~") && !in_section {
        if by_pattern {
            return Err("ProxyPassMatch invalid syntax ('~' usage).".into());
        }
        by_pattern = true;
        words.next();
    }
    let needs_path = || format!("{name} needs a path when not defined in a location");
    let from = match in_section {
        true => From::Section,
        false => {
            let path = words.next().ok_or_else(needs_path)?;
            if by_pattern {
                From::Pattern(compile(path.as_bytes())?)
            } else {
                From::Prefix(path.as_bytes().into())
            }
        }
    };
    let to = words.next().ok_or_else(needs_path)?;
    let mut line = Line {
        pass: Pass {
            from,
            to: (to != "!").then(|| to.into()),
            flags: Flags::default(),
        },
        parameters: Vec::new(),
    };
    for word in words {
        parameter(&mut line, word, in_section && to.starts_with('/'))?;
    }
    Ok(line)
}

fn parameter(line: &mut Line, word: &str, has_path: bool) -> Result<(), String> {
    let flags = &mut line.pass.flags;
    match word.to_ascii_lowercase().as_str() {
        "nocanon" => flags.nocanon = true,
        "noquery" => flags.noquery = true,
        "interpolate" => flags.interpolates = true,
        lower => match (word.split_once('='), lower) {
            (None, _) if has_path => return Err("ProxyPass|ProxyPassMatch can not have a path when defined in a location".into()),
            (None, _) => return Err("Invalid ProxyPass|ProxyPassMatch parameter. Parameter must be in the form 'key=value'.".into()),
            (_, "mapping=encoded") => flags.is_encoded = true,
            (_, "mapping=servlet") => (flags.is_encoded, flags.is_servlet) = (true, true),
            (Some((key, value)), _) => line.parameters.push((key.to_ascii_lowercase(), value.to_owned())),
        },
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(line: &str, by_pattern: bool, decoded: &str, raw: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let line = parse("ProxyPass", &words, false, by_pattern).unwrap();
        let path = raw.split('?').next().unwrap();
        let paths = Paths {
            decoded: decoded.as_bytes(),
            raw: path.as_bytes(),
            raw_with_query: raw.as_bytes(),
        };
        match line
            .pass
            .passes(paths, &From::Section, &|text| text.replace("${A}", "1"))
        {
            Passed::No => "no".into(),
            Passed::Exception => "!".into(),
            Passed::To { url, encoding } => {
                format!("{} {encoding:?}", String::from_utf8_lossy(&url))
            }
        }
    }

    #[test]
    fn prefixes() {
        for (line, decoded, raw, expected) in [
            (
                "/a http://b",
                "/a/x y",
                "/a/x%20y?q",
                "http://b/x y Decoded",
            ),
            ("/a http://b", "/ab", "/ab", "no"),
            ("/a/ http://b/", "/a/x", "/a/x", "http://b/x Decoded"),
            ("/a !", "/a/x", "/a/x", "!"),
            (
                "/a http://b nocanon",
                "/a/x y",
                "/a/x%20y?q",
                "http://b/x%20y?q Whole",
            ),
            (
                "/a http://b nocanon",
                "/a/x",
                "/%61/x",
                "http://b/x Decoded",
            ),
            (
                "/a http://b mapping=encoded",
                "/a/x/y",
                "/a/x%2fy?q",
                "http://b/x%2fy Ready",
            ),
            (
                "/a http://b/s mapping=servlet",
                "/",
                "/x/..;p=1/a;q/./y;r/?q",
                "http://b/s;q/y;r/ Ready",
            ),
            (
                "/a/ http://b/",
                "/a/..;/a/y",
                "/a/..;/a/y",
                "http://b/..;/a/y Decoded",
            ),
            (
                "/a/ http://b/ mapping=servlet",
                "/",
                "/a//y",
                "http://b/y Ready",
            ),
            ("/a http://b mapping=servlet", "/", "/ab", "no"),
            ("/a/ http://b/ mapping=servlet", "/", "/a", "no"),
            ("/a http://b mapping=servlet", "/", "/a/../..;/a", "no"),
            ("/a ! mapping=servlet", "/", "/b/..;/a", "!"),
            (
                "/a http://b${A} interpolate",
                "/a/x",
                "/a/x",
                "http://b1/x Decoded",
            ),
        ] {
            assert_eq!(passed(line, false, decoded, raw), expected, "{line} {raw}");
        }
    }

    #[test]
    fn patterns() {
        for (line, decoded, raw, expected) in [
            (
                "^/(.*\\.php)$ fcgi://h/srv/$1",
                "/a.php",
                "/a.php",
                "fcgi://h/srv/a.php Decoded",
            ),
            (
                "\\.gif$ http://b",
                "/x.gif",
                "/x.gif",
                "http://b/x.gif Decoded",
            ),
            ("\\.gif$ http://b", "/x.jpg", "/x.jpg", "no"),
            ("^/no !", "/no/x", "/no/x", "!"),
            (
                "^/(.*)$ http://b/$1 nocanon",
                "/x y",
                "/x%20y?q",
                "http://b/x%20y?q Whole",
            ),
        ] {
            assert_eq!(passed(line, true, decoded, raw), expected, "{line} {raw}");
        }
    }

    #[test]
    fn faults() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let fault = |line: &str, in_section| {
            parse("ProxyPass", &words(line), in_section, false)
                .err()
                .unwrap()
        };
        assert_eq!(
            fault("/a", false),
            "ProxyPass needs a path when not defined in a location"
        );
        assert_eq!(
            fault("/a http://b", true),
            "ProxyPass|ProxyPassMatch can not have a path when defined in a location"
        );
        assert!(fault("/a http://b x", false).starts_with("Invalid ProxyPass"));
    }
}
