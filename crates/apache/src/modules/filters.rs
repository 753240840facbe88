//! mod_filter, mod_deflate, mod_brotli: which of our encoders a response goes through.
//!
//! Difficulty: Apache's filters are chosen by name, place, extension, type and expression, and any of these may name a filter that is no
//! encoder here. So names are gathered in Apache's order, and those that stand for encoders become codings in that order; what is none is
//! said when the configuration is read. Absent on purpose: encoding by streaming; what is encoded is encoded whole.

use super::core::texts;
use crate::{
    local::{Local, Set, said},
    reading::Reading,
};
use saker_config::model::{CodedTags, Compression, CompressionCoding};
use saker_config_apache::Node;
use saker_expressions::{Dependencies, Evaluation, Expression, ExpressionOptions, Facts};
use std::{collections::BTreeMap, sync::Arc};

/// DEFLATE leaves shorter bodies as they are, and says nothing of it.
const DEFLATE_BYTES_MIN: u64 = 69;
/// Bodies up to it are encoded; larger ones go out as they are.
const BYTES_MAX: u64 = 32 << 20;

#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// SetOutputFilter; an empty list is `None` said aloud.
    pub set: Option<Vec<Box<str>>>,
    /// AddOutputFilterByType: a filter, and the types it is for.
    by_type: Vec<(Box<str>, Vec<Box<str>>)>,
    /// FilterProvider, by the name of what it provides for.
    providers: BTreeMap<Box<str>, Vec<Arc<Provider>>>,
    chain: Vec<Box<str>>,
    deflate_level: Option<u32>,
    deflate_tags: Option<CodedTags>,
    brotli_quality: Option<u32>,
    brotli_tags: Option<CodedTags>,
}

#[derive(Debug)]
struct Provider {
    filter: Box<str>,
    condition: Expression,
}

impl Filters {
    pub const DIRECTIVES: &'static [(&'static str, Set)] = &[
        ("SetOutputFilter", set_output_filter),
        ("AddOutputFilterByType", add_by_type),
        ("FilterDeclare", |_, _, _| Ok(())),
        ("FilterProvider", add_provider),
        ("FilterChain", set_chain),
        ("DeflateCompressionLevel", |node, local, _| {
            set_number(node, &mut local.filters.deflate_level, 1, 9, "Compression Level must be between 1 and 9")
        }),
        ("DeflateAlterEtag", |node, local, _| set_tags(node, &mut local.filters.deflate_tags)),
        ("BrotliCompressionQuality", |node, local, _| {
            set_number(node, &mut local.filters.brotli_quality, 0, 11, "BrotliCompressionQuality must be between 0 and 11")
        }),
        ("BrotliAlterETag", |node, local, _| set_tags(node, &mut local.filters.brotli_tags)),
    ];

    pub fn under(&self, over: &Filters) -> Filters {
        let mut providers = self.providers.clone();
        for (name, more) in &over.providers {
            providers.entry(name.clone()).or_default().extend(more.iter().cloned());
        }
        Filters {
            set: said(&self.set, &over.set),
            by_type: self.by_type.iter().chain(&over.by_type).cloned().collect(),
            providers,
            chain: self.chain.iter().chain(&over.chain).cloned().collect(),
            deflate_level: over.deflate_level.or(self.deflate_level),
            deflate_tags: over.deflate_tags.or(self.deflate_tags),
            brotli_quality: over.brotli_quality.or(self.brotli_quality),
            brotli_tags: over.brotli_tags.or(self.brotli_tags),
        }
    }

    /// Whether nobody ever asks for a filter here.
    pub fn is_empty(&self) -> bool {
        self.set.is_none() && self.by_type.is_empty() && self.chain.is_empty()
    }

    /// Names in the order in which content goes through them. `by_extension`: of AddOutputFilter. What expressions asked for is noted.
    pub fn names<'f>(
        &'f self,
        by_extension: &'f [Box<str>],
        content_type: Option<&str>,
        facts: &dyn Facts,
        dependencies: &mut Dependencies,
    ) -> Vec<&'f str> {
        let mut names: Vec<&str> = self.set.iter().flatten().chain(by_extension).map(|name| &**name).collect();
        let essence = content_type.map(|kind| kind.split(';').next().unwrap_or_default().trim_ascii());
        let is_for = |types: &[Box<str>]| essence.is_some_and(|essence| types.iter().any(|kind| kind.eq_ignore_ascii_case(essence)));
        // One link of the chain for each filter, where it was named first.
        for (at, (filter, _)) in self.by_type.iter().enumerate() {
            let same = |other: &(Box<str>, Vec<Box<str>>)| other.0.eq_ignore_ascii_case(filter);
            let is_first = !self.by_type.iter().take(at).any(same);
            if is_first && self.by_type.iter().any(|other| same(other) && is_for(&other.1)) {
                names.push(filter);
            }
        }
        for link in &self.chain {
            let mut evaluation = Evaluation::new(facts);
            let providers = self.providers.get(link).map(Vec::as_slice).unwrap_or_default();
            names.extend(providers.iter().find(|one| one.condition.evaluate(&mut evaluation).unwrap_or(false)).map(|one| &*one.filter));
            dependencies.merge(&evaluation.dependencies);
            if providers.is_empty() {
                names.push(link);
            }
        }
        names
    }

    /// How content is encoded that goes through these filters.
    pub fn compression(&self, names: &[&str], content_type: Option<&str>, environment: impl Fn(&str) -> bool) -> Compression {
        let html_only = environment("gzip-only-text/html") && content_type.is_none_or(|kind| !kind.starts_with("text/html"));
        let mut codings = Vec::new();
        for name in names {
            let coding = match name.to_ascii_lowercase().as_str() {
                "deflate" if !environment("no-gzip") && !html_only => CompressionCoding::Gzip,
                "brotli_compress" if !environment("no-brotli") => CompressionCoding::Brotli,
                _ => continue,
            };
            if !codings.contains(&coding) {
                codings.push(coding);
            }
        }
        let has_brotli = codings.contains(&CompressionCoding::Brotli);
        let tags = if has_brotli { self.brotli_tags } else { self.deflate_tags };
        Compression {
            codings,
            min_bytes: if has_brotli { 1 } else { DEFLATE_BYTES_MIN },
            max_bytes: BYTES_MAX,
            gzip_level: self.deflate_level.unwrap_or(6),
            brotli_quality: self.brotli_quality.unwrap_or(5),
            every_type: true,
            even_if_larger: true,
            errors: false,
            tags: tags.unwrap_or(CodedTags::Coding),
            ..Compression::default()
        }
    }
}

/// Filters that somebody here stands for; others are named when they are asked for.
const KNOWN: &[&str] = &["deflate", "brotli_compress", "includes", "substitute", "sed", "rate_limit", "buffer", "data", "inflate"];

fn filters(text: &str, node: &Node, reading: &mut Reading<'_>) -> Vec<Box<str>> {
    let names: Vec<Box<str>> = text.split(';').filter(|name| !name.is_empty()).map(Into::into).collect();
    for name in names.iter().filter(|name| !KNOWN.iter().any(|known| known.eq_ignore_ascii_case(name))) {
        reading.warn(node, format!("the filter {name} is not there: content goes out without it"));
    }
    names
}

fn set_output_filter(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let text = texts(node).into_iter().next().unwrap_or_default();
    local.filters.set = Some(if text.eq_ignore_ascii_case("none") { Vec::new() } else { filters(&text, node, reading) });
    Ok(())
}

fn add_by_type(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let mut words = texts(node).into_iter();
    let text = words.next().unwrap_or_default();
    let types: Vec<Box<str>> = words.map(Into::into).collect();
    for filter in filters(&text, node, reading) {
        local.filters.by_type.push((filter, types.clone()));
    }
    Ok(())
}

fn add_provider(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = node.arguments();
    let word = |at: usize| words.get(at).map(Vec::as_slice).unwrap_or_default();
    let text = |at: usize| String::from_utf8_lossy(word(at)).into_owned();
    let condition = Expression::compile(word(2), ExpressionOptions::default())
        .map_err(|error| format!("Error parsing FilterProvider expression:{error}"))?;
    let provider = Provider { filter: text(1).into(), condition };
    filters(&provider.filter, node, reading);
    local.filters.providers.entry(text(0).into()).or_default().push(Arc::new(provider));
    Ok(())
}

/// `+` adds at the end, `@` at the beginning, `-` takes away, `=` begins anew, `!` empties.
fn set_chain(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    let chain = &mut local.filters.chain;
    for word in texts(node) {
        let name = word.trim_start_matches(['+', '@', '-', '=', '!']);
        match word.bytes().next() {
            Some(b'@') => chain.insert(0, name.into()),
            Some(b'-') => chain.retain(|known| **known != *name),
            Some(b'=') => *chain = vec![name.into()],
            Some(b'!') => chain.clear(),
            _ => chain.push(name.into()),
        }
    }
    Ok(())
}

fn set_number(node: &Node, slot: &mut Option<u32>, min: u32, max: u32, complaint: &str) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    *slot = Some(word.parse().ok().filter(|number| (min..=max).contains(number)).ok_or(complaint)?);
    Ok(())
}

fn set_tags(node: &Node, slot: &mut Option<CodedTags>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    *slot = Some(match word.to_ascii_lowercase().as_str() {
        "addsuffix" => CodedTags::Coding,
        "nochange" => CodedTags::Same,
        "remove" => CodedTags::Absent,
        _ => return Err(format!("{} should be 'AddSuffix' (default), 'NoChange' or 'Remove'", node.canonical_name())),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::facts::OfEnvironment;
    use saker_pipeline::Environment;

    fn codings(filters: &Filters, content_type: &str, environment: &[&str]) -> Vec<CompressionCoding> {
        let none = Environment::default();
        let names = filters.names(&[], Some(content_type), &OfEnvironment(&none), &mut Dependencies::new());
        filters.compression(&names, Some(content_type), |name| environment.contains(&name)).codings
    }

    #[test]
    fn names_become_codings_in_their_order() {
        use CompressionCoding::{Brotli, Gzip};
        let by_type = |names: &[&str]| Filters {
            by_type: names.iter().map(|name| ((*name).into(), vec!["text/html".into()])).collect(),
            ..Filters::default()
        };
        let cases = [
            (by_type(&["BROTLI_COMPRESS", "DEFLATE"]), "text/html; charset=utf-8", &[][..], vec![Brotli, Gzip]),
            (by_type(&["DEFLATE"]), "TEXT/HTML", &[], vec![Gzip]),
            (by_type(&["DEFLATE"]), "text/css", &[], vec![]),
            (by_type(&["DEFLATE"]), "text/html", &["no-gzip"], vec![]),
            (Filters { set: Some(vec!["DEFLATE".into()]), ..Filters::default() }, "image/png", &[], vec![Gzip]),
            (Filters { set: Some(vec!["DEFLATE".into()]), ..Filters::default() }, "text/css", &["gzip-only-text/html"], vec![]),
            (Filters { set: Some(vec!["INCLUDES".into()]), ..Filters::default() }, "text/html", &[], vec![]),
        ];
        for (filters, content_type, environment, expected) in cases {
            assert_eq!(codings(&filters, content_type, environment), expected, "{filters:?} {content_type} {environment:?}");
        }
    }
}
