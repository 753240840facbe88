//! mod_speling: what is not there, but almost: another case, one slip of the fingers, another
//! ending.
//!
//! Place in the walk: fixups, after everything else that might have found a file. Difficulty: how
//! far two names are apart decides whether the client is sent on or gets a choice; the ranks are
//! Apache's. The names of a folder are bounded.

use crate::verdict::Verdict;
use crate::{
    host::Host,
    local::{Local, Set},
    modules::alias::Redirected,
    rules::redirect,
    signature,
    state::peek,
    walk::link_policy,
};
use saker_ap_expr::escape_uri;
use saker_files::{EntryChoice, Watcher, read_directory, resolve};
use saker_http::{Method, Status, escape};
use saker_pipeline::{Exchange, Response, respond::page};
use std::path::Path;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speling {
    is_on: Option<bool>,
    case_only: Option<bool>,
    by_base_name: Option<bool>,
}

impl Speling {
    pub const DIRECTIVES: &'static [(&'static str, Set)] = &[
        ("CheckSpelling", |node, local, _| {
            super::dir::set_flag(node, &mut local.speling.is_on)
        }),
        ("CheckCaseOnly", |node, local, _| {
            super::dir::set_flag(node, &mut local.speling.case_only)
        }),
        ("CheckBasenameMatch", |node, local, _| {
            super::dir::set_flag(node, &mut local.speling.by_base_name)
        }),
    ];

    /// As Apache: what a section says of any of them replaces all that was said outside.
    pub fn under(&self, over: &Speling) -> Speling {
        if *over == Speling::default() {
            *self
        } else {
            *over
        }
    }

    /// How a name that is there is like the one that was asked for.
    fn likeness(&self, asked: &[u8], there: &[u8]) -> Option<Likeness> {
        let near = || likeness(asked, there).filter(|_| self.case_only != Some(true));
        let same_base =
            || self.by_base_name != Some(false) && base(asked).eq_ignore_ascii_case(base(there));
        match asked.eq_ignore_ascii_case(there) {
            true => Some(Likeness::Case),
            false => near().or_else(|| same_base().then_some(Likeness::BaseName)),
        }
    }
}

/// The nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    Case,
    Transposed,
    Missing,
    Extra,
    Mistyped,
    BaseName,
}

impl Likeness {
    fn as_str(self) -> &'static str {
        match self {
            Likeness::Case => "miscapitalized",
            Likeness::Transposed => "transposed characters",
            Likeness::Missing => "character missing",
            Likeness::Extra => "extra character",
            Likeness::Mistyped => "mistyped character",
            Likeness::BaseName => "common basename",
        }
    }
}

/// Names of a folder that are looked at.
const NAMES_MAX: usize = 10_000;

/// Sends the client to what he may have meant.
pub fn correct(
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &Local,
) -> Option<Verdict> {
    let own = peek(exchange)?;
    let is_for_us = local.speling.is_on == Some(true) && own.kind.is_none() && !own.is_subrequest;
    if !is_for_us
        || !matches!(exchange.head.view().method(), Method::Get | Method::Head)
        || exchange.path == b"/"
    {
        return None;
    }
    let at = own.filename.iter().rposition(|byte| *byte == b'/')?;
    let (folder, asked) = (
        own.filename.get(..at)?.to_vec(),
        own.filename.get(at + 1..)?.to_vec(),
    );
    // The path has to end in the same words, or it was led here by an alias of another name.
    let url = exchange
        .path
        .strip_suffix([asked.as_slice(), &exchange.path_info].concat().as_slice())?
        .to_vec();
    let relative = folder.strip_prefix(b"/").unwrap_or(&folder);
    let found = resolve(
        watcher,
        Path::new("/"),
        relative,
        link_policy(local.core.options.in_force()),
        &mut exchange.stamps,
    )
    .ok()?;
    let choose = |name: &[u8]| {
        if name == asked {
            // There, and yet not to be had (a link without an end): nothing to correct.
            return EntryChoice::Stop;
        }
        match local.speling.likeness(&asked, name) {
            Some(_) => EntryChoice::Take,
            None => EntryChoice::Skip,
        }
    };
    let listing = read_directory(&found.file, NAMES_MAX, choose).ok()?;
    let like = listing
        .entries
        .into_iter()
        .filter_map(|entry| Some((local.speling.likeness(&asked, &entry.name)?, entry.name)));
    let mut like: Vec<(Likeness, Vec<u8>)> = like.collect();
    like.sort();
    match like.as_slice() {
        [] => None,
        [(first, name), rest @ ..]
            if *first != Likeness::BaseName
                && rest.first().is_none_or(|(second, _)| second != first) =>
        {
            let location = target(exchange, &url, name);
            Some(redirect(
                exchange,
                host,
                Redirected {
                    status: 301,
                    location: Some(location),
                    is_relative: false,
                },
            ))
        }
        several => Some(Verdict::Answer(choice(
            exchange, host, local, &url, several,
        ))),
    }
}

fn target(exchange: &Exchange, url: &[u8], name: &[u8]) -> Vec<u8> {
    let mut target = escape_uri(&[url, name, &exchange.path_info].concat());
    if let Some(query) = &exchange.query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    target
}

fn choice(
    exchange: &mut Exchange,
    host: &Host,
    local: &Local,
    url: &[u8],
    several: &[(Likeness, Vec<u8>)],
) -> Response {
    let mut text = b"That is not here, but there are names like it:</p>\n<ul>\n".to_vec();
    let mut variants: Vec<Vec<u8>> = Vec::new();
    for (likeness, name) in several {
        let target = target(exchange, url, name);
        variants.push(
            [
                b"\"".as_slice(),
                &target,
                b"\";\"",
                likeness.as_str().as_bytes(),
                b"\"",
            ]
            .concat(),
        );
        text.extend_from_slice(b"<li><a href=\"");
        escape::html(&target, &mut text);
        text.extend_from_slice(b"\">");
        escape::html(&target, &mut text);
        text.extend_from_slice(format!("</a> ({})\n", likeness.as_str()).as_bytes());
    }
    text.extend_from_slice(b"</ul>\n<p>");
    exchange.environment.set(b"VARIANTS", &variants.join(&b','));
    let footer = signature::footer(exchange, host, local);
    page(Response::new(Status(300)), &text, &footer)
}

/// What stands before the first dot.
fn base(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == b'.').next().unwrap_or_default()
}

/// One slip: two characters the wrong way round, one left out, one too many, one wrong; whatever
/// their case.
fn likeness(asked: &[u8], there: &[u8]) -> Option<Likeness> {
    let same = asked
        .iter()
        .zip(there)
        .take_while(|(one, other)| one.eq_ignore_ascii_case(other))
        .count();
    let (asked, there) = (asked.get(same..)?, there.get(same..)?);
    let after = |text: &'_ [u8], count: usize| text.get(count..).map(<[u8]>::to_ascii_lowercase);
    match (asked, there) {
        ([a, b, ..], [c, d, ..])
            if a.eq_ignore_ascii_case(d)
                && b.eq_ignore_ascii_case(c)
                && after(asked, 2) == after(there, 2) =>
        {
            Some(Likeness::Transposed)
        }
        ([_, ..], [_, ..]) if after(asked, 1) == after(there, 1) => Some(Likeness::Mistyped),
        ([_, ..], _) if after(asked, 1) == after(there, 0) => Some(Likeness::Extra),
        (_, [_, ..]) if after(asked, 0) == after(there, 1) => Some(Likeness::Missing),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_names_are_alike() {
        let on = Speling::default();
        let rows = [
            ("Page.html", "page.html", Some(Likeness::Case)),
            ("pgae.html", "page.html", Some(Likeness::Transposed)),
            ("page.htm", "page.html", Some(Likeness::Missing)),
            ("pagee.html", "page.html", Some(Likeness::Extra)),
            ("pzge.HTML", "page.html", Some(Likeness::Mistyped)),
            ("page.php", "page.html", Some(Likeness::BaseName)),
            ("page", "page.html", Some(Likeness::BaseName)),
            ("pages.php", "page.html", None),
            ("", "x", Some(Likeness::Missing)),
            ("egap.html", "page.html", None),
        ];
        for (asked, there, expected) in rows {
            assert_eq!(
                on.likeness(asked.as_bytes(), there.as_bytes()),
                expected,
                "{asked} {there}"
            );
        }
        let case = Speling {
            case_only: Some(true),
            by_base_name: Some(false),
            ..on
        };
        assert_eq!(
            case.likeness(b"PAGE.html", b"page.html"),
            Some(Likeness::Case)
        );
        assert_eq!(
            (
                case.likeness(b"pag.html", b"page.html"),
                case.likeness(b"page.php", b"page.html")
            ),
            (None, None)
        );
    }
}
