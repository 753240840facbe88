//! Settings of a site that its owner may change, and changed texts of the configuration for them.
//!
//! Called by: `owner_pages`.
//! Caveat: owners give values, never texts: the server makes the text itself, of the file as it is,
//! for keys of a short list, which act on responses of the site alone and name no file, no program,
//! and no other server. The outcome is compared with the text before: a change of anything else is
//! refused, whatever the value was.
//! Out of scope: applying (`editor`).

use crate::{Backend, Language, editor};
use saker_config::form;
use toml_edit::{DocumentMut, Item};

/// Keys of `[[site]]` that owners change.
pub const KEYS: [&str; 6] = [
    "listing",
    "charset",
    "default_type",
    "etag",
    "languages",
    "https_redirect",
];
/// Longest value.
const VALUE_BYTES_MAX: usize = 256;

/// The table of a site, in a file.
#[derive(Debug)]
pub struct SiteTable {
    pub open: editor::OpenFile,
    /// Path of the table, as forms have it.
    pub path: String,
}

/// Finds the one table of the site with this first name.
///
/// # Errors
/// There is none, or it cannot be told which one it is.
pub fn find(backend: &dyn Backend, site: &str) -> Result<SiteTable, String> {
    if backend.language() != Language::Native {
        return Err("only sites of saker.toml have settings that owners change".to_owned());
    }
    let mut found = Vec::new();
    for name in editor::files(backend) {
        let open = editor::open(backend, &name)?;
        for at in positions(&open.text, site)? {
            found.push((open.clone(), format!("site.{at}")));
        }
    }
    match (found.pop(), found.is_empty()) {
        (Some((open, path)), true) => Ok(SiteTable { open, path }),
        _ => Err("the configuration has no table for this site alone".to_owned()),
    }
}

/// Positions of the sites with this first name.
fn positions(text: &str, site: &str) -> Result<Vec<usize>, String> {
    let document: DocumentMut = text.parse().map_err(|_| "a file is no TOML".to_owned())?;
    let sites = match document.get("site") {
        None => return Ok(Vec::new()),
        Some(Item::ArrayOfTables(sites)) => sites,
        Some(_) => return Err("sites of a file are not written as [[site]]".to_owned()),
    };
    let is_it = |names: Option<&Item>| {
        let first = names
            .and_then(Item::as_array)
            .and_then(|names| names.get(0));
        let first = first.and_then(|name| name.as_str()).unwrap_or_default();
        first.trim_end_matches('.').eq_ignore_ascii_case(site)
    };
    let all = sites.iter().enumerate();
    let own = all.filter(|(_, table)| is_it(table.get("names")));
    Ok(own.map(|(at, _)| at).collect())
}

/// The text with other values, in which nothing else has changed.
///
/// # Errors
/// A key is not the owner's, or a value is of another kind.
pub fn changed(text: &str, path: &str, values: &[(&str, &str)]) -> Result<String, String> {
    for (name, value) in values {
        if !KEYS.contains(name) {
            return Err(format!("owners do not change `{name}`"));
        }
        if value.len() > VALUE_BYTES_MAX || value.contains(char::is_control) {
            return Err(format!(
                "the value of `{name}` is too long, or has odd characters"
            ));
        }
    }
    let after = form::change(text, path, values)?;
    match without_own(text, path)? == without_own(&after, path)? {
        true => Ok(after),
        false => Err("the change would reach beyond the settings of the site".to_owned()),
    }
}

/// Everything that a text says but for the owner's keys, as it would be written anew.
fn without_own(text: &str, path: &str) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|_| "a text is no TOML".to_owned())?;
    let at: Option<usize> = path.strip_prefix("site.").and_then(|at| at.parse().ok());
    let sites = document
        .get_mut("site")
        .and_then(Item::as_array_of_tables_mut);
    let table = sites.zip(at).and_then(|(sites, at)| sites.get_mut(at));
    let table = table.ok_or("there is no such site")?;
    for key in KEYS {
        table.remove(key);
    }
    Ok(document
        .to_string()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "include = [\"other.toml\"]\n[server]\nuser = \"www-data\"\n\n# A\n[[site]]\nnames = [\"a.example\"]\nroot = \"/srv/a\"\n\n\
        [[site]]\nnames = [\"B.example.\", \"www.b.example\"]\nroot = \"/srv/b\"\nlisting = false # no\n[site.tls]\nautomatic = true\n";

    #[test]
    fn sites_are_known_by_their_first_name() {
        let of = |site: &str| positions(TEXT, site).expect("TOML");
        assert_eq!((of("a.example"), of("b.example")), (vec![0], vec![1]));
        for other in ["www.b.example", "", "*", "example", "a.example."] {
            assert_eq!(of(other), Vec::<usize>::new(), "{other}");
        }
        assert!(positions("site = [{ names = [\"a.example\"] }]", "a.example").is_err());
        assert!(positions("[[site", "a.example").is_err());
    }

    #[test]
    fn owners_change_their_keys_of_their_site() {
        let values = [
            ("listing", "true"),
            ("charset", "iso-8859-1"),
            ("etag", "[]"),
        ];
        let after = changed(TEXT, "site.1", &values).expect("changed");
        assert!(
            after.contains("listing = true # no") && after.contains("charset = \"iso-8859-1\"")
        );
        assert!(after.starts_with(TEXT.split("[[site]]\nnames = [\"B").next().expect("a part")));
        let back = changed(
            &after,
            "site.1",
            &[("charset", ""), ("etag", ""), ("listing", "false")],
        );
        assert_eq!(back.as_deref(), Ok(TEXT));
    }

    #[test]
    fn nothing_else_is_reached() {
        for (name, value) in [
            ("root", "/etc"),
            ("names", "[\"c.example\"]"),
            ("include", "[\"/etc/passwd\"]"),
            ("tls.certificate", "/etc/ssl/private/x.pem"),
            ("server.user", "root"),
            ("autoindex", "true"),
            ("Listing", "true"),
            ("", "true"),
            ("site.0.root", "/"),
            ("php", "auto"),
            ("headers", "{ A = \"b\" }"),
            ("send_files", "[\"/\"]"),
            ("cgi", "[\"/*\"]"),
        ] {
            assert!(changed(TEXT, "site.1", &[(name, value)]).is_err(), "{name}");
        }
        for (name, value) in [
            ("listing", "true\nroot = \"/\""),
            ("listing", "true }"),
            ("listing", "1"),
            ("charset", "\u{0}"),
            ("etag", "[\"mtime\"]\n[server]\nuser = \"root\""),
            ("etag", "{ root = \"/\" }"),
            ("languages", "\"en\""),
            ("https_redirect", "{ a = 1 }"),
            ("https_redirect", "true, root = \"/\""),
        ] {
            assert!(
                changed(TEXT, "site.1", &[(name, value)]).is_err(),
                "{name} {value}"
            );
        }
        // What would be code elsewhere is a text here, and no value that a check would take.
        for value in [
            "utf-8\" # x",
            "utf-8\"]",
            "'",
            "\\",
            "[[site]]",
            "x\u{2028}y",
        ] {
            if let Ok(after) = changed(TEXT, "site.1", &[("charset", value)]) {
                let document: DocumentMut = after.parse().expect("TOML");
                assert_eq!(document["site"][1]["charset"].as_str(), Some(value));
                assert_eq!(document["server"]["user"].as_str(), Some("www-data"));
            }
        }
        for path in ["site.2", "site", "", "server", "site.1.tls", "site.0.1"] {
            assert!(
                changed(TEXT, path, &[("listing", "true")]).is_err(),
                "{path}"
            );
        }
    }
}
