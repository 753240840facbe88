//! mod_include's settings, and mod_request's: what pages with server-side includes say where, and when files are such
//! pages. What they do is in `includes`.

use crate::{
    arguments::{set_flag, texts},
    reading::{Reading, Set, said},
};
use saker_apache_syntax::Node;
use saker_ssi::Settings;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XBitHack {
    #[default]
    Off,
    On,
    /// With Last-Modified for files that their group may execute, too.
    Full,
}

#[derive(Clone, Debug, Default)]
pub struct Include {
    pub x_bit_hack: Option<XBitHack>,
    pub last_modified: Option<bool>,
    pub entity_tag: Option<bool>,
    pub legacy_expressions: Option<bool>,
    error_message: Option<Box<[u8]>>,
    time_format: Option<Box<[u8]>>,
    undefined_echo: Option<Box<[u8]>>,
    start_tag: Option<Box<[u8]>>,
    end_tag: Option<Box<[u8]>>,
    /// Bytes of a request's content that its page keeps for its parts (mod_request).
    kept_bytes: Option<u64>,
}

/// Size limit of kept content, whatever the configuration says: it is kept in memory.
pub const KEPT_BYTES_MAX: u64 = 16 << 20;

impl Include {
    pub const DIRECTIVES: &'static [(&'static str, Set<Include>)] = &[
        ("XBitHack", set_x_bit_hack),
        ("SSIErrorMsg", |node, include, _| {
            set_text(node, &mut include.error_message)
        }),
        ("SSITimeFormat", |node, include, _| {
            set_text(node, &mut include.time_format)
        }),
        ("SSIUndefinedEcho", |node, include, _| {
            set_text(node, &mut include.undefined_echo)
        }),
        ("SSIStartTag", |node, include, _| {
            set_tag(node, &mut include.start_tag)
        }),
        ("SSIEndTag", |node, include, _| {
            set_tag(node, &mut include.end_tag)
        }),
        ("SSILegacyExprParser", |node, include, _| {
            set_flag(node, &mut include.legacy_expressions)
        }),
        ("SSILastModified", |node, include, _| {
            set_flag(node, &mut include.last_modified)
        }),
        ("SSIEtag", |node, include, _| {
            set_flag(node, &mut include.entity_tag)
        }),
        ("KeptBodySize", |node, include, _| {
            let bytes = texts(node).into_iter().next().unwrap_or_default().parse();
            include.kept_bytes =
                Some(bytes.map_err(|_| "KeptBodySize must be a size in bytes, or zero.")?);
            Ok(())
        }),
    ];

    pub fn merge(&self, over: &Include) -> Include {
        // A host that says one of them has none of the server's (mod_include as it behaves).
        let tags = if over.start_tag.is_some() || over.end_tag.is_some() {
            over
        } else {
            self
        };
        Include {
            x_bit_hack: over.x_bit_hack.or(self.x_bit_hack),
            last_modified: over.last_modified.or(self.last_modified),
            entity_tag: over.entity_tag.or(self.entity_tag),
            legacy_expressions: over.legacy_expressions.or(self.legacy_expressions),
            error_message: said(&self.error_message, &over.error_message),
            time_format: said(&self.time_format, &over.time_format),
            undefined_echo: said(&self.undefined_echo, &over.undefined_echo),
            start_tag: tags.start_tag.clone(),
            end_tag: tags.end_tag.clone(),
            kept_bytes: over.kept_bytes.or(self.kept_bytes),
        }
    }

    /// Bytes of content that are kept; longer content is refused. `None`: it is not kept.
    pub fn kept_bytes(&self) -> Option<u64> {
        let bytes = self.kept_bytes.filter(|bytes| *bytes > 0)?;
        Some(bytes.min(KEPT_BYTES_MAX))
    }

    /// The settings in force for a page.
    pub fn settings(&self, may_run: bool) -> Settings {
        let default = Settings::default();
        Settings {
            start_tag: self.start_tag.clone().unwrap_or(default.start_tag),
            end_tag: self.end_tag.clone().unwrap_or(default.end_tag),
            error_message: self.error_message.clone().unwrap_or(default.error_message),
            time_format: self.time_format.clone().unwrap_or(default.time_format),
            undefined_echo: self
                .undefined_echo
                .clone()
                .unwrap_or(default.undefined_echo),
            legacy_expressions: self.legacy_expressions.unwrap_or(false),
            may_run,
        }
    }
}

fn first(node: &Node) -> Box<[u8]> {
    node.arguments()
        .into_iter()
        .next()
        .unwrap_or_default()
        .into()
}

/// Bytes as they are: a page's charset is its own.
fn set_text(node: &Node, slot: &mut Option<Box<[u8]>>) -> Result<(), String> {
    *slot = Some(first(node));
    Ok(())
}

fn set_tag(node: &Node, slot: &mut Option<Box<[u8]>>) -> Result<(), String> {
    let tag = first(node);
    if tag.iter().any(u8::is_ascii_whitespace) {
        return Err(format!(
            "{} may not contain any whitespaces",
            node.canonical_name()
        ));
    }
    if tag.is_empty() {
        return Err(format!("{} may not be empty", node.canonical_name()));
    }
    *slot = Some(tag);
    Ok(())
}

fn set_x_bit_hack(node: &Node, include: &mut Include, _: &mut Reading<'_>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    include.x_bit_hack = Some(match word.to_ascii_lowercase().as_str() {
        "off" => XBitHack::Off,
        "on" => XBitHack::On,
        "full" => XBitHack::Full,
        _ => return Err("XBitHack must be set to Off, On, or Full".into()),
    });
    Ok(())
}
