//! Links of the documents: each leads to a file of the repository, and to a heading of it.
//!
//! Called by: the tidy task, for all Markdown files.
//! Caveat: an anchor is made of a heading as GitHub and mdBook make it, the second of the same text
//! with `-1`.
//! Out of scope: links to other sites, which no test may fetch.

use super::finding::{File, Finding};
use std::{collections::BTreeMap, path::Path};

const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks all documents.
pub fn check(root: &Path, files: &[File], findings: &mut Vec<Finding>) {
    contents(files, findings);
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    let anchors: BTreeMap<&str, Vec<String>> = documents
        .clone()
        .map(|file| (file.path.as_str(), anchors(&file.text)))
        .collect();
    for file in documents {
        for (line, link) in links(&file.text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => file.path.clone(),
                path => beside(&file.path, path),
            };
            let known = anchors.get(target.as_str());
            let what = match known {
                None if !root.join(&target).exists() => format!("link to `{link}`: no such file"),
                Some(known) if !anchor.is_empty() && !known.iter().any(|one| one == anchor) => {
                    format!("link to `{link}`: no such heading")
                }
                _ => continue,
            };
            findings.push(Finding::new(&file.path, line, what));
        }
    }
}

/// The table of contents of the site (mdBook) has every page.
fn contents(files: &[File], findings: &mut Vec<Finding>) {
    let Some(summary) = files.iter().find(|file| file.path == SUMMARY) else {
        return;
    };
    let listed: Vec<String> = links(&summary.text)
        .map(|(_, link)| beside(SUMMARY, link))
        .collect();
    for page in files {
        let is_page = page.path.starts_with("docs/") && page.path.ends_with(".md");
        if is_page && page.path != SUMMARY && !listed.contains(&page.path) {
            let what = format!("is missing in {SUMMARY}");
            findings.push(Finding::new(&page.path, 0, what));
        }
    }
}

/// The path of a link, seen from a document, below the root.
fn beside(document: &str, link: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Links to files and headings of the repository.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    prose(text).flat_map(|(number, line)| {
        line.match_indices("](").filter_map(move |(at, _)| {
            let link = line[at + 2..].split(')').next()?;
            let is_code = line[..at].matches('`').count() % 2 == 1;
            let is_elsewhere = link.contains("://") || link.starts_with("mailto:");
            (!is_code && !is_elsewhere && !link.is_empty()).then_some((number, link))
        })
    })
}

fn anchors(text: &str) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).filter_map(|(_, line)| {
        let rest = line.trim_start_matches('#');
        (rest.len() < line.len() && rest.starts_with(' ')).then_some(rest.trim())
    });
    headings
        .map(|heading| {
            let anchor = anchor(heading);
            let count = counts.entry(anchor.clone()).or_default();
            *count += 1;
            match *count {
                1 => anchor,
                more => format!("{anchor}-{}", more - 1),
            }
        })
        .collect()
}

/// The anchor of a heading: its words in lower case, joined by hyphens.
fn anchor(heading: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let shown: String = heading.chars().filter(|c| kept(*c)).collect();
    shown.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_anchors_that_sites_give_them() {
        assert_eq!(
            anchor("Coming from `.htaccess` files"),
            "coming-from-htaccess-files"
        );
        assert_eq!(
            anchors("# A b\n```\n# not one\n```\n## A b\n#hash\n### C\n"),
            ["a-b", "a-b-1", "c"]
        );
    }

    #[test]
    fn broken_links_are_found_and_others_are_not() {
        let text = "# Top\n[good](#top) [file](../Cargo.toml) [site](https://example.org/x)\n\
                    `[code](none)` [bad](none.md)\n[no heading](#none)\n```\n[block](none)\n```\n";
        let file = File {
            path: "docs/page.md".into(),
            text: text.into(),
        };
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let mut findings = Vec::new();
        check(root, &[file], &mut findings);
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("none.md") && found[1].contains("#none"),
            "{found:?}"
        );
        let page = |path: &str, text: &str| File {
            path: path.into(),
            text: text.into(),
        };
        let pages = [
            page(SUMMARY, "- [A](a.md)\n"),
            page("docs/a.md", ""),
            page("docs/b.md", ""),
        ];
        let mut findings = Vec::new();
        contents(&pages, &mut findings);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].file, "docs/b.md");
        assert_eq!(beside("docs/a.md", "../contrib/./x"), "contrib/x");
    }
}
