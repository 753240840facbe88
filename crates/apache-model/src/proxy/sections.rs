//! `<Proxy>` and `<ProxyMatch>`: settings for what is passed on to certain URLs, and for the
//! servers behind them.
//!
//! Difficulty: such a section is two things. Its URL is the beginning of the URLs that its settings
//! (access above all) are for; and it names a worker or balancer that ProxySet, BalancerMember and
//! parameters on its own line are about.

use crate::{
    arguments::texts,
    dir_config::DirConfig,
    modules::alias::compile,
    proxy::{
        draft::{ProxyDraft, add_member, pairs, set_parameters},
        section::{Matcher, ProxySection},
    },
    reading::Reading,
    upstream_tls::{self, UpstreamTlsDraft},
};
use saker_apache_syntax::Node;
use std::sync::Arc;

/// Reads a section with everything in it. The errors of what is in it are among the diagnostics.
pub fn read(node: &Node, draft: &mut ProxyDraft, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let is_pattern = node.is("<ProxyMatch") || words.first().is_some_and(|word| word == "~");
    let mut words = words
        .iter()
        .skip(usize::from(words.first().is_some_and(|word| word == "~")));
    let url = words.next().ok_or_else(|| {
        format!(
            "{} directive requires additional arguments",
            node.canonical_name()
        )
    })?;
    let matcher = match (is_pattern, url.contains(['*', '?', '['])) {
        (true, _) => Matcher::Pattern(compile(url.as_bytes())?),
        (_, true) => Matcher::Wild(url.as_bytes().into()),
        _ => Matcher::Prefix(without_socket(url).as_bytes().into()),
    };
    define(node, draft, url, words, &matcher)?;
    let (mut local, mut upstream_tls) = (DirConfig::default(), UpstreamTlsDraft::default());
    for child in &node.children {
        let outcome = match child.canonical_name() {
            "BalancerMember" => add_member(child, draft, Some(url)),
            "ProxySet" => set_parameters(child, draft, Some(url)),
            _ => upstream_tls::set(child, &mut upstream_tls, reading.server_root).unwrap_or_else(
                || {
                    crate::read_section::read_one(child, &mut local, reading);
                    Ok(())
                },
            ),
        };
        if let Err(message) = outcome {
            reading.diagnostics.push(child.error(message, None));
        }
    }
    crate::read_section::check_access(node, &local, reading);
    draft.sections.push(Arc::new(ProxySection {
        matcher,
        local: Arc::new(local),
        upstream_tls,
    }));
    Ok(())
}

/// Parameters on the section's own line.
fn define<'w>(
    node: &Node,
    draft: &mut ProxyDraft,
    url: &str,
    words: impl Iterator<Item = &'w String>,
    matcher: &Matcher,
) -> Result<(), String> {
    let parameters = pairs(words, node.canonical_name())?;
    match (parameters.is_empty(), matcher) {
        (true, _) => Ok(()),
        (_, Matcher::Pattern(_) | Matcher::Wild(_)) => {
            Err("Multiple <ProxyMatch> arguments not (yet) supported.".into())
        }
        (_, Matcher::Prefix(_)) if !url.contains(':') => {
            Err("<Proxy > arguments are not supported for non url.".into())
        }
        _ => draft
            .define(url, &parameters)
            .map_err(|error| format!("<Proxy > {error}")),
    }
}

/// The URLs of requests name no socket while rules look at them.
fn without_socket(url: &str) -> &str {
    match url.get(..5) {
        Some(scheme) if scheme.eq_ignore_ascii_case("unix:") => {
            url.split_once('|').map_or(url, |(_, url)| url)
        }
        _ => url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(matcher: Matcher) -> ProxySection {
        ProxySection {
            matcher,
            local: Arc::default(),
            upstream_tls: UpstreamTlsDraft::default(),
        }
    }

    #[test]
    fn which_urls_a_section_is_for() {
        let bytes = |text: &str| -> Box<[u8]> { text.as_bytes().into() };
        let prefix = section(Matcher::Prefix(bytes("http://a/x")));
        assert!(prefix.is_for(b"http://a/xy") && !prefix.is_for(b"http://a/y"));
        let every = section(Matcher::Wild(bytes("*")));
        assert!(every.is_for(b"http://a/b/c"));
        let wild = section(Matcher::Wild(bytes("http://*.example/*")));
        assert!(wild.is_for(b"http://a.example/b/c") && !wild.is_for(b"http://a.test/"));
        let pattern = section(Matcher::Pattern(compile(b"^fcgi://").unwrap()));
        assert!(pattern.is_for(b"fcgi://x/") && !pattern.is_for(b"http://x/"));
        assert_eq!(without_socket("unix:/a.sock|fcgi://x/"), "fcgi://x/");
    }
}
