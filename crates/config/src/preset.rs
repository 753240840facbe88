//! Presets: the settings and routes that an application needs, as TOML of a site's keys.
//!
//! Called by: `site` and `read_route`, which read a preset before the keys of the site or route, so
//! that these override it; `expand`, which shows the result.
//! Caveat: `{base}` in a preset stands for the path of the route that uses it, and for nothing in a
//! site. A preset's denials come before the routes of the site, its other routes after them, and a
//! route of the site with the same path takes the place of the preset's.
//! Out of scope: finding out which application a directory holds (`saker init`).

use crate::{
    reader::{Reader, Table, table_in},
    source::{Location, Source},
};
use std::{collections::HashSet, sync::Arc};
use toml::de::{DeTable, DeValue};

/// An application's settings.
#[derive(Debug)]
pub struct Preset {
    pub name: &'static str,
    /// One sentence, for `saker init` and the documentation.
    pub summary: &'static str,
    text: &'static str,
}

macro_rules! presets {
    ($($name:literal $summary:literal;)*) => {
        /// All presets, in the order of the documentation.
        pub const PRESETS: &[Preset] = &[$(Preset {
            name: $name,
            summary: $summary,
            text: include_str!(concat!("presets/", $name, ".toml")),
        }),*];

        /// Names of the presets, as the row's kind wants them.
        pub(crate) const NAMES: &[&str] = &[$($name),*];
    };
}

presets! {
    "wordpress" "WordPress: permalinks; no PHP in uploads; wp-config.php, backups, and logs denied";
    "laravel" "Laravel (root: public): front controller; long lifetimes for built assets";
    "symfony" "Symfony (root: public): front controller; no other scripts";
    "drupal" "Drupal: front controller; only its own scripts; settings and templates denied";
    "magento" "Magento 2 (root: pub): front controller, static.php and get.php for what is missing";
    "nextcloud" "Nextcloud: WebDAV discovery, scripts with paths, private directories denied";
    "joomla" "Joomla: addresses without index.php; no PHP in media; configuration denied";
    "mediawiki" "MediaWiki: short addresses below /wiki/; settings and parts denied";
    "phpmyadmin" "phpMyAdmin: configuration and parts denied";
    "roundcube" "Roundcube: only its entry scripts; configuration, logs, and temp denied";
    "dokuwiki" "DokuWiki: pretty addresses; data and conf denied";
    "spa" "Single-page application: index.html for addresses without a file, immutable assets";
    "static" "Static pages: addresses without .html, lifetimes for assets";
    "proxy" "In front of an application server: page cache, error pages, scanners denied";
}

/// Prefix of the file name in origins of values that a preset sets.
const ORIGIN: &str = "preset ";

/// Returns true for the file name of an origin in a preset.
pub(crate) fn is_preset(file: &str) -> bool {
    file.starts_with(ORIGIN)
}

impl Preset {
    pub fn find(name: &str) -> Option<&'static Preset> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Returns the text for a base, which is empty or a path without a slash at its end.
    pub fn text(&self, base: &str) -> String {
        let mut text = String::with_capacity(self.text.len());
        for line in self.text.lines() {
            let line = match line.starts_with("path_regex") {
                true => line.replace("{base}", &escaped(base)),
                false => line.replace("{base}", base),
            };
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    /// The text as a file beside the one that names the preset.
    pub fn source(&self, base: &str, beside: &Source) -> Arc<Source> {
        let name = format!("{ORIGIN}{}", self.name);
        let (folder, order) = (beside.base.clone(), beside.order);
        Arc::new(Source::new(&name, folder, self.text(base), order))
    }
}

/// A path as part of a regular expression.
fn escaped(base: &str) -> String {
    base.replace('.', "\\.")
}

/// Returns the preset that a table of a site or route names. An unknown name is reported when the
/// key is read.
pub(crate) fn named_in(table: &Table<'_>) -> Option<&'static Preset> {
    Preset::find(table.get("preset")?.get_ref().as_str()?)
}

/// Returns the base of a preset in a route: the path of the route, up to its `/*`.
pub(crate) fn base_of(table: &Table<'_>) -> Option<String> {
    let path = table.get("path")?.get_ref().as_str()?;
    let base = path.strip_suffix("/*")?;
    let is_plain = base
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    (is_plain && (base.is_empty() || base.starts_with('/'))).then(|| base.to_owned())
}

/// Reports a route whose path is no base for its preset. Returns the preset's text otherwise.
pub(crate) fn source_of_route(reader: &mut Reader<'_>, table: &Table<'_>) -> Option<Arc<Source>> {
    let preset = named_in(table)?;
    match base_of(table) {
        Some(base) => Some(preset.source(&base, reader.source())),
        None => {
            let at = reader.at(table.get("preset")?.span());
            let help = "write a path such as \"/blog/*\", of letters, digits, `.`, `_`, `-`, and \
                        slashes";
            reader.error(
                &at,
                "a preset in a route needs one `path` that ends in `/*`",
                Some(help.into()),
            );
            None
        }
    }
}

/// Parses a preset's text for a site or route, whose own `headers` replace those of the preset's
/// routes. The text has no errors, which a test ensures.
pub(crate) fn parsed<'t>(source: &'t Source, own: &Table<'_>) -> DeTable<'t> {
    let mut table = DeTable::parse_recoverable(&source.text).0.into_inner();
    let Some(own) = table_in(own, "headers") else {
        return table;
    };
    let is_own = |name: &str| {
        own.keys()
            .any(|key| key.get_ref().eq_ignore_ascii_case(name))
    };
    if let Some(DeValue::Array(routes)) = table.get_mut("route").map(|node| node.get_mut()) {
        for route in routes.iter_mut() {
            if let DeValue::Table(route) = route.get_mut()
                && let Some(DeValue::Table(headers)) =
                    route.get_mut("headers").map(|node| node.get_mut())
            {
                let replaced: Vec<String> = headers
                    .keys()
                    .map(|key| key.get_ref().to_string())
                    .filter(|key| is_own(key))
                    .collect();
                for key in replaced {
                    headers.remove(key.as_str());
                }
            }
        }
    }
    table
}

/// Puts a preset's routes around those of a site: denials, own routes, the others.
pub(crate) fn around<'n, 't, T>(
    own: Vec<T>,
    preset: Vec<T>,
    table_of: impl Fn(&T) -> &'n Table<'t>,
) -> Vec<T>
where
    't: 'n,
{
    let replaced: HashSet<String> = own.iter().flat_map(|one| paths(table_of(one))).collect();
    let (mut all, mut last) = (Vec::new(), Vec::new());
    for one in preset {
        let table = table_of(&one);
        let its = paths(table);
        if its.iter().all(|path| replaced.contains(path)) {
            continue;
        }
        match table.get("deny").map(|node| node.get_ref()) {
            Some(DeValue::Boolean(true)) => all.push(one),
            _ => last.push(one),
        }
    }
    all.extend(own);
    all.extend(last);
    all
}

/// The patterns of a route.
fn paths(table: &Table<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for key in ["path", "path_regex"] {
        match table.get(key).map(|node| node.get_ref()) {
            Some(DeValue::String(text)) => found.push(text.to_string()),
            Some(DeValue::Array(list)) => found.extend(
                list.iter()
                    .filter_map(|one| one.get_ref().as_str().map(str::to_owned)),
            ),
            _ => {}
        }
    }
    found
}

/// The tables of a preset's routes, with their locations.
pub(crate) fn routes<'n, 't>(
    table: &'n Table<'t>,
    source: &Arc<Source>,
) -> Vec<(&'n Table<'t>, Location)> {
    let Some(DeValue::Array(list)) = table.get("route").map(|node| node.get_ref()) else {
        return Vec::new();
    };
    let location = |span| Location {
        source: Arc::clone(source),
        span,
    };
    list.iter()
        .filter_map(|one| Some((one.get_ref().as_table()?, location(one.span()))))
        .collect()
}

#[cfg(test)]
mod tests;
