//! mod_mime: what a file's extensions say about its type, coding, language, charset, handler and
//! filters.
//!
//! Difficulty: a name may have several extensions in any order, each means something for itself,
//! and the last one of a kind wins (of codings all count).

use crate::{
    arguments::texts,
    reading::{Reading, Set, said},
};
use saker_apache_syntax::Node;
use std::{collections::HashMap, sync::Arc};

/// The settings of one extension. `Some(None)`: taken back by a Remove… directive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    pub media_type: Option<Option<Box<str>>>,
    pub coding: Option<Option<Box<str>>>,
    pub language: Option<Option<Box<str>>>,
    pub charset: Option<Option<Box<str>>>,
    pub handler: Option<Option<Box<str>>>,
    pub output_filters: Option<Option<Box<str>>>,
    pub input_filters: Option<Option<Box<str>>>,
}

impl Extension {
    fn merge(&self, over: &Extension) -> Extension {
        Extension {
            media_type: said(&self.media_type, &over.media_type),
            coding: said(&self.coding, &over.coding),
            language: said(&self.language, &over.language),
            charset: said(&self.charset, &over.charset),
            handler: said(&self.handler, &over.handler),
            output_filters: said(&self.output_filters, &over.output_filters),
            input_filters: said(&self.input_filters, &over.input_filters),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Mime {
    /// By extension in lower case, without the dot.
    pub extensions: Arc<HashMap<Box<str>, Extension>>,
    pub default_language: Option<Box<str>>,
    pub use_path_info: Option<bool>,
    pub multiviews_match: Option<MultiviewsMatch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultiviewsMatch {
    Any,
    NegotiatedOnly,
    /// Handlers, filters, or both.
    Also {
        handlers: bool,
        filters: bool,
    },
}

/// The facts that a name tells about its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub media_type: Option<Box<str>>,
    pub charset: Option<Box<str>>,
    pub languages: Vec<Box<str>>,
    pub codings: Vec<Box<str>>,
    pub handler: Option<Box<str>>,
    pub output_filters: Vec<Box<str>>,
    pub input_filters: Vec<Box<str>>,
}

impl Facts {
    /// The type with the charset that some extension stands for, in the place of its own.
    pub fn content_type(&self) -> Option<Box<str>> {
        let media_type = self.media_type.as_ref()?;
        let Some(charset) = &self.charset else {
            return Some(media_type.clone());
        };
        let kept = media_type.split(';').filter(|part| {
            !part
                .trim_start()
                .to_ascii_lowercase()
                .starts_with("charset=")
        });
        let kept: Vec<&str> = kept.collect();
        Some(format!("{}; charset={charset}", kept.join(";").trim_end()).into())
    }
}

/// One of the facts of an extension.
type Slot = fn(&mut Extension) -> &mut Option<Option<Box<str>>>;

impl Mime {
    pub const DIRECTIVES: &'static [(&'static str, Set<Mime>)] = &[
        ("AddType", |node, mime, _| {
            add(node, mime, |extension| &mut extension.media_type)
        }),
        ("AddEncoding", |node, mime, _| {
            add(node, mime, |extension| &mut extension.coding)
        }),
        ("AddLanguage", |node, mime, _| {
            add(node, mime, |extension| &mut extension.language)
        }),
        ("AddCharset", |node, mime, _| {
            add(node, mime, |extension| &mut extension.charset)
        }),
        ("AddHandler", |node, mime, _| {
            add(node, mime, |extension| &mut extension.handler)
        }),
        ("AddOutputFilter", |node, mime, _| {
            add(node, mime, |extension| &mut extension.output_filters)
        }),
        ("AddInputFilter", |node, mime, _| {
            add(node, mime, |extension| &mut extension.input_filters)
        }),
        ("RemoveType", |node, mime, _| {
            remove(node, mime, |extension| &mut extension.media_type)
        }),
        ("RemoveEncoding", |node, mime, _| {
            remove(node, mime, |extension| &mut extension.coding)
        }),
        ("RemoveLanguage", |node, mime, _| {
            remove(node, mime, |extension| &mut extension.language)
        }),
        ("RemoveCharset", |node, mime, _| {
            remove(node, mime, |extension| &mut extension.charset)
        }),
        ("RemoveHandler", |node, mime, _| {
            remove(node, mime, |extension| &mut extension.handler)
        }),
        ("RemoveOutputFilter", |node, mime, _| {
            remove(node, mime, |extension| &mut extension.output_filters)
        }),
        ("RemoveInputFilter", |node, mime, _| {
            remove(node, mime, |extension| &mut extension.input_filters)
        }),
        ("DefaultLanguage", set_default_language),
        ("ModMimeUsePathInfo", |node, mime, _| {
            crate::arguments::set_flag(node, &mut mime.use_path_info)
        }),
        ("MultiviewsMatch", set_multiviews_match),
    ];

    pub fn merge(&self, over: &Mime) -> Mime {
        // Distributions name some hundred of them, and most sections none: those share the table.
        let mut extensions = Arc::clone(&self.extensions);
        for (name, extension) in over.extensions.iter() {
            let merged = extensions
                .get(name)
                .map_or_else(|| extension.clone(), |outside| outside.merge(extension));
            Arc::make_mut(&mut extensions).insert(name.clone(), merged);
        }
        Mime {
            extensions,
            default_language: said(&self.default_language, &over.default_language),
            use_path_info: over.use_path_info.or(self.use_path_info),
            multiviews_match: over.multiviews_match.or(self.multiviews_match),
        }
    }

    /// `types`: from TypesConfig, by extension in lower case.
    pub fn facts(&self, file_name: &[u8], types: &HashMap<Box<str>, Box<str>>) -> Facts {
        let name = String::from_utf8_lossy(
            file_name
                .rsplit(|byte| *byte == b'/')
                .next()
                .unwrap_or_default(),
        )
        .into_owned();
        let mut facts = Facts::default();
        // What comes before the first dot is the name, even where it is empty.
        for part in name
            .trim_start_matches('.')
            .split('.')
            .skip(1)
            .filter(|part| !part.is_empty())
        {
            let lower = part.to_ascii_lowercase();
            self.apply(&mut facts, &lower, types);
        }
        if facts.languages.is_empty() {
            facts.languages.extend(self.default_language.clone());
        }
        facts
    }

    fn apply(&self, facts: &mut Facts, extension: &str, types: &HashMap<Box<str>, Box<str>>) {
        let said = self.extensions.get(extension);
        let own = |slot: fn(&Extension) -> &Option<Option<Box<str>>>| {
            said.and_then(|said| slot(said).clone())
        };
        match own(|said| &said.media_type) {
            Some(None) => {}
            Some(media_type) => facts.media_type = media_type,
            None => facts.media_type = types.get(extension).cloned().or(facts.media_type.take()),
        }
        if let Some(Some(charset)) = own(|said| &said.charset) {
            facts.charset = Some(charset);
        }
        if let Some(Some(handler)) = own(|said| &said.handler) {
            facts.handler = Some(handler);
        }
        facts.languages.extend(own(|said| &said.language).flatten());
        facts.codings.extend(own(|said| &said.coding).flatten());
        let split = |names: Option<Option<Box<str>>>| {
            names
                .flatten()
                .map(|names| names.split(';').map(Into::into).collect::<Vec<Box<str>>>())
        };
        facts
            .output_filters
            .extend(split(own(|said| &said.output_filters)).unwrap_or_default());
        facts
            .input_filters
            .extend(split(own(|said| &said.input_filters)).unwrap_or_default());
    }
}

/// A `mime.types` file: a type, then its extensions, on each line.
pub fn types(text: &str) -> HashMap<Box<str>, Box<str>> {
    let mut all = HashMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_ascii_whitespace();
        let Some(kind) = words.next() else { continue };
        for extension in words {
            all.insert(extension.to_ascii_lowercase().into(), kind.into());
        }
    }
    all
}

fn extension_of(word: &str) -> Box<str> {
    word.strip_prefix('.')
        .unwrap_or(word)
        .to_ascii_lowercase()
        .into()
}

fn add(node: &Node, mime: &mut Mime, slot: Slot) -> Result<(), String> {
    let mut words = texts(node).into_iter();
    // Apache lowers what it compares: types, codings, languages.
    let value: Box<str> = words.next().unwrap_or_default().to_ascii_lowercase().into();
    for word in words {
        *slot(
            Arc::make_mut(&mut mime.extensions)
                .entry(extension_of(&word))
                .or_default(),
        ) = Some(Some(value.clone()));
    }
    Ok(())
}

fn remove(node: &Node, mime: &mut Mime, slot: Slot) -> Result<(), String> {
    for word in texts(node) {
        *slot(
            Arc::make_mut(&mut mime.extensions)
                .entry(extension_of(&word))
                .or_default(),
        ) = Some(None);
    }
    Ok(())
}

fn set_default_language(node: &Node, mime: &mut Mime, _: &mut Reading<'_>) -> Result<(), String> {
    mime.default_language = texts(node).into_iter().next().map(Into::into);
    Ok(())
}

fn set_multiviews_match(node: &Node, mime: &mut Mime, _: &mut Reading<'_>) -> Result<(), String> {
    let words: Vec<String> = texts(node)
        .iter()
        .map(|word| word.to_ascii_lowercase())
        .collect();
    let has = |name: &str| words.iter().any(|word| word == name);
    mime.multiviews_match = Some(
        match (
            has("any"),
            has("negotiatedonly"),
            has("handlers"),
            has("filters"),
        ) {
            (true, false, false, false) => MultiviewsMatch::Any,
            (false, true, false, false) => MultiviewsMatch::NegotiatedOnly,
            (false, false, handlers, filters) if handlers || filters => {
                MultiviewsMatch::Also { handlers, filters }
            }
            _ => return Err("Unrecognized option for MultiviewsMatch".into()),
        },
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mime() -> (Mime, HashMap<Box<str>, Box<str>>) {
        let mut mime = Mime::default();
        let entry = |mime: &mut Mime, name: &str, set: &dyn Fn(&mut Extension)| {
            set(Arc::make_mut(&mut mime.extensions)
                .entry(name.into())
                .or_default())
        };
        entry(&mut mime, "gz", &|extension| {
            extension.coding = Some(Some("x-gzip".into()))
        });
        entry(&mut mime, "en", &|extension| {
            extension.language = Some(Some("en".into()))
        });
        entry(&mut mime, "php", &|extension| {
            extension.handler = Some(Some("php".into()))
        });
        let types = [("html", "text/html"), ("tar", "application/x-tar")];
        (
            mime,
            types
                .into_iter()
                .map(|(name, kind)| (name.into(), kind.into()))
                .collect(),
        )
    }

    #[test]
    fn extensions_in_any_order() {
        let (mime, types) = mime();
        for name in ["a.html.en.gz", "a.gz.en.html", "x/y.z/a.en.HTML.gz"] {
            let facts = mime.facts(name.as_bytes(), &types);
            assert_eq!(
                (
                    facts.media_type.as_deref(),
                    facts.languages.len(),
                    facts.codings.len()
                ),
                (Some("text/html"), 1, 1),
                "{name}"
            );
        }
        assert_eq!(mime.facts(b"html", &types), Facts::default());
        assert_eq!(mime.facts(b".html", &types), Facts::default());
        assert_eq!(
            mime.facts(b"a.php.txt", &types).handler.as_deref(),
            Some("php")
        );
    }

    #[test]
    fn inner_sections_add_and_take_back() {
        let (mime, types) = mime();
        let mut over = Mime::default();
        Arc::make_mut(&mut over.extensions)
            .entry("gz".into())
            .or_default()
            .coding = Some(None);
        Arc::make_mut(&mut over.extensions)
            .entry("php".into())
            .or_default()
            .media_type = Some(Some("text/plain".into()));
        let merged = mime.merge(&over);
        assert!(merged.facts(b"a.gz", &types).codings.is_empty());
        let php = merged.facts(b"a.php", &types);
        assert_eq!(
            (php.handler.as_deref(), php.media_type.as_deref()),
            (Some("php"), Some("text/plain"))
        );
    }
}
