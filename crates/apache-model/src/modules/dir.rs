//! mod_dir: index files, slashes behind folders, and what answers for what is not there.

use crate::{
    arguments::{set_flag, texts},
    reading::{Reading, Set, said},
};
use saker_apache_syntax::Node;

#[derive(Clone, Debug, Default)]
pub struct Dir {
    /// In order; those that begin with a slash are paths of the site. `None`: `index.html`.
    pub index: Option<Vec<Box<str>>>,
    pub slash: Option<bool>,
    /// Redirect to the index file instead of showing it, with this status.
    pub index_redirect: Option<Option<u16>>,
    /// `disabled` is `None`.
    pub fallback: Option<Option<Box<str>>>,
    pub check_handler: Option<bool>,
}

impl Dir {
    pub const DIRECTIVES: &'static [(&'static str, Set<Dir>)] = &[
        ("DirectoryIndex", set_index),
        ("DirectorySlash", |node, dir, _| {
            set_flag(node, &mut dir.slash)
        }),
        ("DirectoryCheckHandler", |node, dir, _| {
            set_flag(node, &mut dir.check_handler)
        }),
        ("DirectoryIndexRedirect", set_index_redirect),
        ("FallbackResource", set_fallback),
    ];

    pub fn merge(&self, over: &Dir) -> Dir {
        Dir {
            index: said(&self.index, &over.index),
            slash: over.slash.or(self.slash),
            index_redirect: over.index_redirect.or(self.index_redirect),
            fallback: said(&self.fallback, &over.fallback),
            check_handler: over.check_handler.or(self.check_handler),
        }
    }

    /// Names to try, in order.
    pub fn index_names(&self) -> impl Iterator<Item = &str> {
        let named = self
            .index
            .as_deref()
            .unwrap_or_default()
            .iter()
            .map(|name| &**name);
        let default = self.index.is_none().then_some("index.html");
        named.chain(default)
    }
}

/// Lines in one section add up; `disabled` alone empties the list.
fn set_index(node: &Node, dir: &mut Dir, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let index = dir.index.get_or_insert_default();
    match words.as_slice() {
        [] => return Err("DirectoryIndex requires at least one argument".into()),
        [only] if only.eq_ignore_ascii_case("disabled") => index.clear(),
        names => index.extend(names.iter().map(|name| name.as_str().into())),
    }
    Ok(())
}

fn set_index_redirect(node: &Node, dir: &mut Dir, _: &mut Reading<'_>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    dir.index_redirect = Some(match word.to_ascii_lowercase().as_str() {
        "on" | "temp" => Some(302),
        "off" => None,
        "permanent" => Some(301),
        "seeother" => Some(303),
        number => match number.parse() {
            Ok(status @ 300..=399) => Some(status),
            _ => {
                return Err(
                    "DirectoryIndexRedirect only accepts values between 300 and 399".into(),
                );
            }
        },
    });
    Ok(())
}

fn set_fallback(node: &Node, dir: &mut Dir, _: &mut Reading<'_>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    dir.fallback = Some((!word.eq_ignore_ascii_case("disabled")).then(|| word.into()));
    Ok(())
}
