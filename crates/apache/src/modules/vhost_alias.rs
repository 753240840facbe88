//! mod_vhost_alias: a document root, and a folder of scripts, made of the host's name, or of the address that the connection came in on.

use super::{alias::certain_folder, core::texts};
use crate::local::{Set, said};
use saker_config_apache::Node;
use std::path::PathBuf;

#[derive(Clone, Debug, Default)]
pub struct VhostAlias {
    /// A pattern with `%` parts, and whether they are of the address. `none` is no pattern.
    root: Option<Option<Pattern>>,
    /// The same for what is below `/cgi-bin/`.
    scripts: Option<Option<Pattern>>,
}

type Pattern = (Box<str>, bool);

impl VhostAlias {
    pub const DIRECTIVES: &'static [(&'static str, Set)] = &[
        ("VirtualDocumentRoot", |node, local, _| set(node, &mut local.vhost_alias.root, false)),
        ("VirtualDocumentRootIP", |node, local, _| set(node, &mut local.vhost_alias.root, true)),
        ("VirtualScriptAlias", |node, local, _| set(node, &mut local.vhost_alias.scripts, false)),
        ("VirtualScriptAliasIP", |node, local, _| set(node, &mut local.vhost_alias.scripts, true)),
    ];

    pub fn under(&self, over: &VhostAlias) -> VhostAlias {
        VhostAlias { root: said(&self.root, &over.root), scripts: said(&self.scripts, &over.scripts) }
    }

    /// The folder that all document roots are in.
    pub fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let pattern = self.root.iter().flatten().map(|(pattern, _)| pattern);
        pattern.filter_map(|pattern| certain_folder(pattern.as_bytes(), b'%'))
    }

    /// The document root for a host.
    pub fn document_root(&self, host: &str, address: &str, port: u16) -> Option<String> {
        Some(folder(self.root.as_ref()?.as_ref()?, host, address, port))
    }

    /// The folder of its scripts.
    pub fn scripts(&self, host: &str, address: &str, port: u16) -> Option<String> {
        Some(folder(self.scripts.as_ref()?.as_ref()?, host, address, port))
    }
}

fn folder((pattern, of_address): &Pattern, host: &str, address: &str, port: u16) -> String {
    let name = if *of_address { address } else { host };
    interpolated(pattern, &name.to_ascii_lowercase(), port)
}

fn set(node: &Node, slot: &mut Option<Option<Pattern>>, of_address: bool) -> Result<(), String> {
    let text = texts(node).into_iter().next().unwrap_or_default();
    if text.eq_ignore_ascii_case("none") {
        *slot = Some(None);
        return Ok(());
    }
    if !text.starts_with('/') {
        return Err("format string must start with '/'".into());
    }
    let mut rest = text.as_str();
    while let Some((_, behind)) = rest.split_once('%') {
        rest = match behind.strip_prefix(['%', 'p']) {
            Some(rest) => rest,
            None => part(behind).ok_or("syntax error in format string")?.1,
        };
    }
    *slot = Some(Some((text.into(), of_address)));
    Ok(())
}

/// Which part of something: `2` the second, `-1` the last, `2+` and all behind it, `-2+` and all before it, `0` everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    number: usize,
    from_end: bool,
    and_more: bool,
}

/// `N` or `N.M` behind a percent sign, and what follows it.
fn part(text: &str) -> Option<((Part, Option<Part>), &str)> {
    let (first, rest) = one_part(text)?;
    match rest.strip_prefix('.').and_then(one_part) {
        Some((second, rest)) => Some(((first, Some(second)), rest)),
        None => Some(((first, None), rest)),
    }
}

fn one_part(text: &str) -> Option<(Part, &str)> {
    let (from_end, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let digit = rest.chars().next()?.to_digit(10)?;
    let rest = rest.get(1..)?;
    let (and_more, rest) = rest.strip_prefix('+').map_or((false, rest), |rest| (true, rest));
    Some((Part { number: digit as usize, from_end, and_more }, rest))
}

impl Part {
    /// Of things that are separated, or of letters; `_` for what is not there.
    fn of<'t>(self, pieces: &[&'t str], joint: &str) -> String {
        if self.number == 0 {
            return pieces.join(joint);
        }
        let at = if self.from_end { pieces.len().checked_sub(self.number) } else { Some(self.number - 1) };
        let chosen: Option<&[&'t str]> = at.filter(|at| *at < pieces.len()).and_then(|at| match (self.and_more, self.from_end) {
            (true, true) => pieces.get(..=at),
            (true, false) => pieces.get(at..),
            (false, _) => pieces.get(at..=at),
        });
        chosen.map_or_else(|| "_".to_owned(), |pieces| pieces.join(joint))
    }
}

fn interpolated(pattern: &str, name: &str, port: u16) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some((before, behind)) = rest.split_once('%') {
        out.push_str(before);
        rest = match (behind.strip_prefix('%'), behind.strip_prefix('p'), part(behind)) {
            (Some(behind), _, _) => {
                out.push('%');
                behind
            }
            (_, Some(behind), _) => {
                out.push_str(&port.to_string());
                behind
            }
            (_, _, Some(((first, second), behind))) => {
                let text = first.of(&name.split('.').collect::<Vec<_>>(), ".");
                match second {
                    None => out.push_str(&text),
                    Some(second) => {
                        let letters: Vec<String> = text.chars().map(String::from).collect();
                        out.push_str(&second.of(&letters.iter().map(String::as_str).collect::<Vec<_>>(), ""));
                    }
                }
                behind
            }
            _ => behind,
        };
    }
    out.push_str(rest);
    // A name can't lead elsewhere.
    out.trim_end_matches('/').replace("/../", "/_/").replace('\0', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of Apache's manual, and edges.
    #[test]
    fn names_become_folders() {
        let cases = [
            ("/usr/local/apache/vhosts/%0", "www.domain.example.com", "/usr/local/apache/vhosts/www.domain.example.com"),
            ("/vhosts/%3+/%2.1/%2.2/%2.3/%2", "www.domain.example.com", "/vhosts/example.com/d/o/m/domain"),
            ("/vhosts/%3+/%2.-1/%2.-2/%2.-3/%2", "www.domain.example.com", "/vhosts/example.com/n/i/a/domain"),
            ("/vhosts/%3+/%2.1/%2.2/%2.3/%2.4+", "www.domain.example.com", "/vhosts/example.com/d/o/m/ain"),
            ("/v/%-1/%-2/%-3+", "a.b.c", "/v/c/b/a"),
            ("/v/%5/%1.9", "a.b", "/v/_/_"),
            ("/v/%%%p/", "a.b", "/v/%80"),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(interpolated(pattern, name, 80), expected, "{pattern}");
        }
    }
}
