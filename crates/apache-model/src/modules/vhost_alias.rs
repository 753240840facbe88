//! mod_vhost_alias: a document root, and a folder of scripts, made of the host's name, or of the
//! address that the connection came in on.

use crate::{
    arguments::texts,
    modules::alias::certain_folder,
    reading::{Set, said},
};
use saker_apache_syntax::Node;
use saker_config::model::HostPattern;
use std::path::PathBuf;

#[derive(Clone, Debug, Default)]
pub struct VhostAlias {
    /// A pattern with `%` parts, and whether they are of the address. `none` is no pattern.
    root: Option<Option<Pattern>>,
    /// The same for what is below `/cgi-bin/`.
    scripts: Option<Option<Pattern>>,
}

type Pattern = (HostPattern, bool);

impl VhostAlias {
    pub const DIRECTIVES: &'static [(&'static str, Set<VhostAlias>)] = &[
        ("VirtualDocumentRoot", |node, vhost_alias, _| {
            set(node, &mut vhost_alias.root, false)
        }),
        ("VirtualDocumentRootIP", |node, vhost_alias, _| {
            set(node, &mut vhost_alias.root, true)
        }),
        ("VirtualScriptAlias", |node, vhost_alias, _| {
            set(node, &mut vhost_alias.scripts, false)
        }),
        ("VirtualScriptAliasIP", |node, vhost_alias, _| {
            set(node, &mut vhost_alias.scripts, true)
        }),
    ];

    pub fn merge(&self, over: &VhostAlias) -> VhostAlias {
        VhostAlias {
            root: said(&self.root, &over.root),
            scripts: said(&self.scripts, &over.scripts),
        }
    }

    /// The folder that all document roots are in.
    pub fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let pattern = self.root.iter().flatten().map(|(pattern, _)| pattern);
        pattern.filter_map(|pattern| certain_folder(pattern.as_str().as_bytes(), b'%'))
    }

    /// Returns true if a document root or a folder of scripts depends on the host's name or address.
    pub fn is_used(&self) -> bool {
        self.root.iter().chain(&self.scripts).any(Option::is_some)
    }

    /// Returns true if it is the address that one of them depends on.
    pub fn is_of_address(&self) -> bool {
        let patterns = self.root.iter().chain(&self.scripts).flatten();
        patterns.into_iter().any(|(_, of_address)| *of_address)
    }

    /// The document root for a host.
    pub fn document_root(&self, host: &str, address: &str, port: u16) -> Option<String> {
        Some(folder(self.root.as_ref()?.as_ref()?, host, address, port))
    }

    /// The folder of its scripts.
    pub fn scripts(&self, host: &str, address: &str, port: u16) -> Option<String> {
        Some(folder(
            self.scripts.as_ref()?.as_ref()?,
            host,
            address,
            port,
        ))
    }
}

fn folder((pattern, of_address): &Pattern, host: &str, address: &str, port: u16) -> String {
    let name = if *of_address { address } else { host };
    pattern.of(name, port)
}

fn set(node: &Node, slot: &mut Option<Option<Pattern>>, of_address: bool) -> Result<(), String> {
    let text = texts(node).into_iter().next().unwrap_or_default();
    if text.eq_ignore_ascii_case("none") {
        *slot = Some(None);
        return Ok(());
    }
    if !text.starts_with('/') {
        return Err("format string must start with '/'".into());
    }
    let pattern = HostPattern::parse(&text).ok_or("syntax error in format string")?;
    *slot = Some(Some((pattern, of_address)));
    Ok(())
}
