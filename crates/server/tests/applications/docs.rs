//! Pairs of configurations in the pages of `docs/`, so that what the pages say is run.
//!
//! Called by: `run`, for folders of `conversions`.
//! Caveat: a pair is a comment `<!-- conversion: NAME -->`, a block of the other server, and a block
//! of `toml`; the folder's `adapt` file replaces paths and addresses in both, one replacement a line
//! (`text => other`), each of which must occur.
//! Out of scope: blocks without the comment.

use std::{fs, path::Path};

/// Returns the other server's configuration, with the name of its file, and Saker's.
///
/// # Panics
/// If no page has the pair.
pub fn pair(name: &str, case: &Path) -> ((String, String), String) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mark = format!("<!-- conversion: {name} -->");
    let page = fs::read_dir(docs)
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok())
        .find(|page| page.contains(&mark))
        .unwrap_or_else(|| panic!("no page has {mark}"));
    let rest = page.split_once(&mark).unwrap().1;
    let mut blocks = rest.split("\n```");
    let mut next = || {
        let block = blocks
            .nth(1)
            .unwrap_or_else(|| panic!("{mark} needs two blocks"));
        let (language, text) = block.split_once('\n').unwrap_or((block, ""));
        (language.to_owned(), text.to_owned())
    };
    let (language, other) = next();
    let (toml, saker) = next();
    assert_eq!(toml, "toml", "{mark}");
    let file = match language.as_str() {
        "nginx" => "nginx.conf",
        "lighttpd" => "lighttpd.conf",
        "haproxy" => "haproxy.cfg",
        "caddy" => "Caddyfile",
        "vcl" => "default.vcl",
        // Not in Debian; the requests file says what they answer.
        "yaml" | "openlitespeed" => "other.toml",
        other => panic!("{mark}: unknown language {other}"),
    };
    let adapt = fs::read_to_string(case.join("adapt")).unwrap_or_default();
    let (mut other, mut saker) = (other + "\n", saker + "\n");
    for line in adapt.lines().filter(|line| !line.starts_with('#')) {
        let (from, to) = line
            .split_once(" => ")
            .unwrap_or_else(|| panic!("adapt: {line}"));
        assert!(
            other.contains(from) || saker.contains(from),
            "adapt: nothing says {from}"
        );
        (other, saker) = (other.replace(from, to), saker.replace(from, to));
    }
    let reference = match file {
        "other.toml" => saker.clone(),
        _ => other,
    };
    ((file.to_owned(), reference), saker)
}
