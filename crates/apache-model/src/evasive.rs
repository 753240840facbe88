//! mod_evasive: DOSPageCount and its like. Of the whole server, as Apache has them; what they do is
//! `pipeline::throttle::evasive`.

use crate::{arguments::texts, reading::ServerSet};
use saker_apache_syntax::Node;
use saker_config::model::Evasive;
use saker_ipset::{AddressSet, Block};
use std::{path::Path, sync::Arc};

/// The settings, once any was set.
#[derive(Clone, Debug, Default)]
pub struct EvasiveDraft {
    said: Option<Evasive>,
    whitelist: Vec<Block>,
}

impl EvasiveDraft {
    pub fn in_force(&self) -> Option<Evasive> {
        let whitelist: AddressSet = self.whitelist.iter().copied().collect();
        self.said.clone().map(|said| Evasive {
            whitelist: Arc::new(whitelist),
            ..said
        })
    }
}

pub const SETTERS: &[(&str, ServerSet<EvasiveDraft>)] = &[
    ("DOSPageCount", |node, draft, _| {
        set(node, draft, |evasive| &mut evasive.page_count_max)
    }),
    ("DOSSiteCount", |node, draft, _| {
        set(node, draft, |evasive| &mut evasive.site_count_max)
    }),
    ("DOSPageInterval", |node, draft, _| {
        set(node, draft, |evasive| &mut evasive.page_interval_s)
    }),
    ("DOSSiteInterval", |node, draft, _| {
        set(node, draft, |evasive| &mut evasive.site_interval_s)
    }),
    ("DOSBlockingPeriod", |node, draft, _| {
        set(node, draft, |evasive| &mut evasive.blocking_s)
    }),
    ("DOSWhitelist", set_whitelist),
];

/// A number that is none, or 0, leaves the module's own in force.
fn set(
    node: &Node,
    draft: &mut EvasiveDraft,
    field: fn(&mut Evasive) -> &mut u32,
) -> Result<(), String> {
    let number = texts(node)
        .into_iter()
        .next()
        .and_then(|word| word.parse().ok())
        .filter(|number| *number > 0);
    let evasive = draft.said.get_or_insert_default();
    if let Some(number) = number {
        *field(evasive) = number;
    }
    Ok(())
}

/// `127.0.0.1`, `192.0.2.*`, or a block.
fn set_whitelist(node: &Node, draft: &mut EvasiveDraft, _: &Path) -> Result<(), String> {
    draft.said.get_or_insert_default();
    for word in texts(node) {
        let block = block(&word)
            .ok_or_else(|| format!("{}: {word} is no address", node.canonical_name()))?;
        draft.whitelist.push(block);
    }
    Ok(())
}

fn block(word: &str) -> Option<Block> {
    let Some(start) = word.find('*') else {
        return word.parse().ok();
    };
    let known: Vec<&str> = word
        .get(..start)?
        .trim_end_matches('.')
        .split('.')
        .filter(|part| !part.is_empty())
        .collect();
    if known.len() > 3
        || word
            .get(start..)?
            .chars()
            .any(|letter| !matches!(letter, '*' | '.'))
    {
        return None;
    }
    let bits = known.len() * 8;
    let filled = known
        .into_iter()
        .chain(std::iter::repeat("0"))
        .take(4)
        .collect::<Vec<_>>()
        .join(".");
    format!("{filled}/{bits}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whitelists() {
        for (word, expected) in [
            ("127.0.0.1", Some("127.0.0.1")),
            ("192.0.2.*", Some("192.0.2.0/24")),
            ("10.*.*.*", Some("10.0.0.0/8")),
            ("2001:db8::/32", Some("2001:db8::/32")),
            ("example.org", None),
            ("10.*.1", None),
            ("1.2.3.4.*", None),
        ] {
            assert_eq!(
                block(word).map(|block| block.to_string()).as_deref(),
                expected,
                "{word}"
            );
        }
    }
}
