//! Completion of an Apache configuration that is being typed.
//!
//! Called by: the console's editor.
//! Caveat: lines and sections are looked at, and nothing more: modules that are not loaded have
//! their directives offered, too.
//! Out of scope: arguments that are not words of a fixed set (`arguments`).

use crate::{
    arguments::words,
    row::{Row, Treatment},
    rows::{find_row, rows},
};
use saker_config::completion::Completion;

/// Sections that stand for no context of their own.
const TRANSPARENT: &str = "<if";

/// Completes a text that ends where the cursor is.
pub fn complete(before: &str) -> Completion {
    let (above, line) = before.rsplit_once('\n').unwrap_or(("", before));
    let word = line.trim_start();
    let is_continued = above.trim_end_matches('\r').ends_with('\\');
    if is_continued || word.starts_with('#') {
        return Completion::default();
    }
    if let Some((name, given)) = word.split_once(char::is_whitespace) {
        return arguments(name, given);
    }
    let open = sections(above);
    if word.starts_with("</") {
        let close = open
            .last()
            .map(|name| (format!("</{name}>"), "Ends the section.".to_owned()));
        return Completion::of(word, close.into_iter());
    }
    let own = open.iter().rev().find(|name| {
        !format!("<{name}")
            .to_ascii_lowercase()
            .starts_with(TRANSPARENT)
    });
    let contexts = match own.map(|name| name.to_ascii_lowercase()) {
        // A file that is included may stand anywhere.
        None => "svd",
        Some(name) if name == "virtualhost" => "v",
        Some(name) if name.starts_with("proxy") => "pd",
        Some(_) => "d",
    };
    let fits = |row: &&Row| row.contexts.0.contains(|one| contexts.contains(one));
    let described = |row: &Row| (row.name.to_owned(), detail(row));
    let all = rows().filter(|row| !row.name.ends_with('*')).filter(fits);
    Completion::of(word, all.map(described))
}

/// Completes the last of the arguments of a directive.
fn arguments(name: &str, given: &str) -> Completion {
    let Some(row) = find_row(name.as_bytes()).filter(|_| !given.contains(['"', '\'', '>'])) else {
        return Completion::default();
    };
    let (given, typed) = given
        .rsplit_once(char::is_whitespace)
        .unwrap_or(("", given));
    let given: Vec<&str> = given.split_whitespace().collect();
    let all = words(row, &given, typed).into_iter();
    Completion::of(typed, all.map(|word| (word, detail(row))))
}

/// Names of the sections that are open at the end of these lines.
fn sections(above: &str) -> Vec<&str> {
    let mut open: Vec<&str> = Vec::new();
    for line in above.lines().map(str::trim) {
        let Some(rest) = line.strip_prefix('<') else {
            continue;
        };
        let end = rest.trim_start_matches('/').len();
        let name = &rest[rest.len() - end..];
        let name = name
            .split(|one: char| one.is_whitespace() || one == '>')
            .next()
            .unwrap_or_default();
        match rest.starts_with('/') {
            false => open.push(name),
            true => {
                let at = open.iter().rposition(|own| own.eq_ignore_ascii_case(name));
                open.truncate(at.unwrap_or(open.len()));
            }
        }
    }
    open
}

fn detail(row: &Row) -> String {
    let modules = row.modules.join(", ");
    match row.treatment {
        Treatment::Unsupported(why) | Treatment::Denies(why) | Treatment::Later(why) => {
            format!("{modules}: not supported: {why}")
        }
        _ => modules,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(before: &str) -> Vec<String> {
        let found = complete(before).candidates.into_iter();
        found.map(|one| one.text).collect()
    }

    #[test]
    fn arguments_of_directives() {
        for (before, offered) in [
            ("RewriteEngine ", &["On", "Off"][..]),
            ("\trewriteengine\to", &["On", "Off"]),
            ("Options Inc", &["Includes", "IncludesNOEXEC"]),
            ("Options -Indexes +fol", &["+FollowSymLinks"]),
            ("AllowOverride AuthConfig fi", &["FileInfo"]),
            ("AllowOverride AuthConfig Au", &[]),
            (
                "Require ",
                &[
                    "all",
                    "not",
                    "user",
                    "group",
                    "valid-user",
                    "ip",
                    "host",
                    "local",
                    "env",
                    "method",
                    "expr",
                    "forward-dns",
                ],
            ),
            ("<Directory /srv>\nRequire all ", &["granted", "denied"]),
            ("Require all granted ", &[]),
            ("Require method GET PO", &["POST"]),
            ("Header always uns", &["unset"]),
            ("Header set alw", &[]),
            ("<Limit GET PU", &["PUT"]),
            ("<Limit GET>", &[]),
            ("UseCanonicalName On ", &[]),
            ("RewriteEngine On ", &[]),
            ("ServerSignature \"O", &[]),
            ("NoSuchDirective o", &[]),
            ("Options é", &[]),
        ] {
            assert_eq!(texts(before), offered, "{before}");
        }
    }

    #[test]
    fn directives_of_the_section() {
        assert!(texts("DocumentR").contains(&"DocumentRoot".to_owned()));
        assert!(texts("<VirtualHost *:80>\n  serverna").contains(&"ServerName".to_owned()));
        assert!(!texts("<Directory />\nDocumentR").contains(&"DocumentRoot".to_owned()));
        assert!(
            texts("<Directory />\n</Directory>\nDocumentR").contains(&"DocumentRoot".to_owned())
        );
        assert!(texts("<IfModule x>\nDocumentR").contains(&"DocumentRoot".to_owned()));
        assert!(texts("<VirtualH").contains(&"<VirtualHost".to_owned()));
        assert_eq!(
            texts("<VirtualHost *>\n<Directory />\n</"),
            ["</Directory>"]
        );
        for nothing in ["# Docu", "ServerName Docu", "Header set \\\nDocu", "</"] {
            assert_eq!(texts(nothing), [""; 0], "{nothing}");
        }
    }
}
