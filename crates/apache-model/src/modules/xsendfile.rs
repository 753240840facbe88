//! mod_xsendfile: programs may have files sent in place of their own content.
//!
//! The gateway does it (`saker_pipeline::Trust`); here is what it may. X-LiteSpeed-Location is
//! believed of all programs besides, as LiteSpeed does with the same configurations: it leads to a
//! path, whose own rules hold. Absent on purpose: removing files that were sent (AllowFileDelete).

use crate::{
    arguments::{set_flag, texts},
    reading::{Reading, Set},
};
use saker_apache_syntax::Node;
use saker_config::model::SendFiles;
use saker_pipeline::Trust;
use std::{path::PathBuf, sync::Arc};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XSendFile {
    is_on: Option<bool>,
    ignores_entity_tag: Option<bool>,
    ignores_last_modified: Option<bool>,
    unescapes: Option<bool>,
    unsets_encoding: Option<bool>,
    /// Inner ones first.
    roots: Vec<PathBuf>,
}

impl XSendFile {
    pub const DIRECTIVES: &'static [(&'static str, Set<XSendFile>)] = &[
        ("XSendFile", |node, xsendfile, _| {
            set_flag(node, &mut xsendfile.is_on)
        }),
        ("XSendFileIgnoreEtag", |node, xsendfile, _| {
            set_flag(node, &mut xsendfile.ignores_entity_tag)
        }),
        ("XSendFileIgnoreLastModified", |node, xsendfile, _| {
            set_flag(node, &mut xsendfile.ignores_last_modified)
        }),
        ("XSendFileUnescape", |node, xsendfile, _| {
            set_flag(node, &mut xsendfile.unescapes)
        }),
        ("XSendFileUnsetContentEncoding", |node, xsendfile, _| {
            set_flag(node, &mut xsendfile.unsets_encoding)
        }),
        ("XSendFilePath", add_root),
    ];

    pub fn merge(&self, over: &XSendFile) -> XSendFile {
        XSendFile {
            is_on: over.is_on.or(self.is_on),
            ignores_entity_tag: over.ignores_entity_tag.or(self.ignores_entity_tag),
            ignores_last_modified: over.ignores_last_modified.or(self.ignores_last_modified),
            unescapes: over.unescapes.or(self.unescapes),
            unsets_encoding: over.unsets_encoding.or(self.unsets_encoding),
            roots: over.roots.iter().chain(&self.roots).cloned().collect(),
        }
    }

    /// The requests of responses that this server obeys.
    pub fn trust(&self, litespeed: bool) -> Trust {
        let files = (self.is_on == Some(true)).then(|| {
            Arc::new(SendFiles {
                roots: self.roots.clone(),
                beside_script: true,
                follows_links: true,
                // Version 0.12, which distributions have, takes names as they are.
                is_escaped: self.unescapes == Some(true),
                keeps_entity_tag: self.ignores_entity_tag != Some(true),
                keeps_last_modified: self.ignores_last_modified != Some(true),
                keeps_encoding: self.unsets_encoding == Some(false),
                keeps_no_type: true,
                is_for_success: true,
            })
        });
        Trust {
            litespeed,
            files,
            ..Trust::default()
        }
    }
}

fn add_root(
    node: &Node,
    xsendfile: &mut XSendFile,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let words = texts(node);
    let Some(root) = words.first() else {
        return Err("XSendFilePath takes a folder".into());
    };
    if words.get(1).is_some_and(|word| word == "AllowFileDelete") {
        reading.warn(node, "files that were sent are not removed");
    }
    xsendfile.roots.push(root.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_folders_come_first_and_nothing_is_on_by_itself() {
        let of = |root: &str, is_on| XSendFile {
            is_on,
            roots: vec![root.into()],
            ..XSendFile::default()
        };
        let merged = of("/outer", Some(true)).merge(&of("/inner", None));
        let files = merged.trust(true).files.unwrap();
        assert_eq!(
            files.roots,
            [PathBuf::from("/inner"), PathBuf::from("/outer")]
        );
        assert!(!files.is_escaped && files.keeps_entity_tag && !files.keeps_encoding);
        assert_eq!(
            of("/x", None).trust(true),
            Trust {
                litespeed: true,
                ..Trust::default()
            }
        );
    }
}
