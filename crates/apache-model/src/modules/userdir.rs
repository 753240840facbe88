//! mod_userdir: `/~name/` as a folder of a user's.
//!
//! Difficulty: there may be several places, and the first that is there is taken; so what is not
//! there has to be noticed when it appears. Absent on purpose: users that only a directory service
//! knows; homes are those of `/etc/passwd`.

use crate::{
    arguments::texts,
    reading::{Reading, Set, said},
};
use saker_apache_syntax::Node;
use std::path::PathBuf;

#[derive(Clone, Debug, Default)]
pub struct UserDir {
    places: Option<Vec<Box<str>>>,
    /// `disabled` alone: for all but those that are enabled.
    disabled: Option<bool>,
    disabled_users: Vec<Box<str>>,
    enabled_users: Vec<Box<str>>,
}

/// A place of a user's pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    File(Vec<u8>),
    Redirect(Vec<u8>),
}

impl UserDir {
    pub const DIRECTIVES: &'static [(&'static str, Set<UserDir>)] = &[("UserDir", set)];

    pub fn merge(&self, over: &UserDir) -> UserDir {
        let pick = |outside: &Vec<Box<str>>, over: &Vec<Box<str>>| {
            if over.is_empty() {
                outside.clone()
            } else {
                over.clone()
            }
        };
        UserDir {
            places: said(&self.places, &over.places),
            disabled: over.disabled.or(self.disabled),
            disabled_users: pick(&self.disabled_users, &over.disabled_users),
            enabled_users: pick(&self.enabled_users, &over.enabled_users),
        }
    }

    /// The places for a path, in order. `home` knows a user's home.
    pub fn places(&self, path: &[u8], home: &mut dyn FnMut(&str) -> Option<Vec<u8>>) -> Vec<Place> {
        let Some(places) = &self.places else {
            return Vec::new();
        };
        let Some(rest) = path.strip_prefix(b"/~") else {
            return Vec::new();
        };
        let (user, behind) = rest.split_at(
            rest.iter()
                .position(|byte| *byte == b'/')
                .unwrap_or(rest.len()),
        );
        let Ok(user) = std::str::from_utf8(user) else {
            return Vec::new();
        };
        if matches!(user, "" | "." | "..") || !self.is_enabled(user) {
            return Vec::new();
        }
        places
            .iter()
            .filter_map(|place| crate::modules::userdir::place(place, user, behind, home))
            .collect()
    }

    /// Folders of homes among the places.
    pub fn home_folders(&self) -> impl Iterator<Item = PathBuf> {
        let below_home = |place: &str| match place.split_once('*') {
            Some((before, behind)) if before.starts_with('/') => {
                Some(behind.trim_matches('/').to_owned())
            }
            None if !place.starts_with('/') && !place.contains(':') => {
                Some(place.trim_matches('/').to_owned())
            }
            _ => None,
        };
        self.places
            .iter()
            .flatten()
            .filter_map(move |place| below_home(place))
            .filter(|place| !place.is_empty())
            .map(PathBuf::from)
    }

    fn is_enabled(&self, user: &str) -> bool {
        let has = |list: &[Box<str>]| list.iter().any(|name| **name == *user);
        has(&self.enabled_users) || self.disabled != Some(true) && !has(&self.disabled_users)
    }
}

fn place(
    place: &str,
    user: &str,
    behind: &[u8],
    home: &mut dyn FnMut(&str) -> Option<Vec<u8>>,
) -> Option<Place> {
    let with_user = match place.split_once('*') {
        Some((before, after)) => format!("{before}{user}{after}"),
        None => format!("{}/{user}", place.trim_end_matches('/')),
    };
    if place.starts_with('/') {
        return Some(Place::File([with_user.as_bytes(), behind].concat()));
    }
    if place.contains(':') {
        // What follows a star is not looked at.
        let (before, slash) = place
            .split_once('*')
            .map_or((place.trim_end_matches('/'), "/"), |(before, _)| {
                (before, "")
            });
        let behind = saker_ap_expr::escape_uri(behind);
        return Some(Place::Redirect(
            [
                before.as_bytes(),
                slash.as_bytes(),
                user.as_bytes(),
                &behind,
            ]
            .concat(),
        ));
    }
    if place.contains('*') {
        return None;
    }
    Some(Place::File(
        [home(user)?.as_slice(), b"/", place.as_bytes(), behind].concat(),
    ))
}

fn set(node: &Node, userdir: &mut UserDir, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let (first, rest) = words.split_first().ok_or("UserDir requires an argument.")?;
    let users = || {
        rest.iter()
            .map(|name| name.as_str().into())
            .collect::<Vec<Box<str>>>()
    };
    let settings = userdir;
    match first.to_ascii_lowercase().as_str() {
        "disabled" | "disable" if rest.is_empty() => settings.disabled = Some(true),
        "disabled" | "disable" => settings.disabled_users.append(&mut users()),
        "enabled" | "enable" if rest.is_empty() => {
            return Err("UserDir \"enable\" keyword requires a list of usernames".into());
        }
        "enabled" | "enable" => settings.enabled_users.append(&mut users()),
        _ => settings.places = Some(words.iter().map(|word| word.as_str().into()).collect()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_users() {
        let run = |settings: &UserDir, path: &str| {
            let found = settings.places(path.as_bytes(), &mut |user| {
                (user == "ann").then(|| b"/home/ann".to_vec())
            });
            let shown = |place: &Place| match place {
                Place::File(file) => String::from_utf8_lossy(file).into_owned(),
                Place::Redirect(url) => format!("-> {}", String::from_utf8_lossy(url)),
            };
            found.iter().map(shown).collect::<Vec<_>>().join(" ")
        };
        let of = |places: &[&str]| UserDir {
            places: Some(places.iter().map(|place| (*place).into()).collect()),
            ..UserDir::default()
        };
        let cases = [
            (of(&["public_html"]), "/~ann/x", "/home/ann/public_html/x"),
            (of(&["public_html"]), "/~bob/x", ""),
            (of(&["/srv/users"]), "/~bob", "/srv/users/bob"),
            (
                of(&["/srv/*/web", "public_html"]),
                "/~ann/",
                "/srv/ann/web/ /home/ann/public_html/",
            ),
            (
                of(&["http://x.test/*/"]),
                "/~bob/a",
                "-> http://x.test/bob/a",
            ),
            (of(&["http://x.test"]), "/~bob/a", "-> http://x.test/bob/a"),
            (of(&["public_html"]), "/~../x", ""),
            (
                UserDir {
                    disabled: Some(true),
                    ..of(&["/srv"])
                },
                "/~ann",
                "",
            ),
            (
                UserDir {
                    disabled: Some(true),
                    enabled_users: vec!["ann".into()],
                    ..of(&["/srv"])
                },
                "/~ann",
                "/srv/ann",
            ),
            (
                UserDir {
                    disabled_users: vec!["ann".into()],
                    ..of(&["/srv"])
                },
                "/~ann",
                "",
            ),
            (UserDir::default(), "/~ann", ""),
        ];
        for (settings, path, expected) in cases {
            assert_eq!(run(&settings, path), expected, "{settings:?} {path}");
        }
    }
}
