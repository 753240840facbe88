//! mod_filter, mod_deflate, mod_brotli: which filters content goes through, and how it is encoded.
//! The filters are in `saker_content_filters`.
//!
//! Difficulty: Apache's filters are chosen by name, place, extension, type and expression. Chains
//! are links whose providers are asked in the reverse of their order, and a link that an inner
//! section says anything about is the inner section's alone: it forgets the providers, and the
//! types, that an outer section gave it.

use crate::{
    arguments::texts,
    reading::{Reading, Set, said},
};
use saker_ap_expr::{Dependencies, Evaluation, Expression, Facts};
use saker_apache_syntax::Node;
use saker_config::model::{CodedTags, Compression, CompressionCoding};
use saker_content_filters::{Stage, catalog};
use std::{collections::BTreeMap, sync::Arc};

/// DEFLATE leaves shorter bodies as they are, and says nothing of it.
const DEFLATE_BYTES_MIN: u64 = 69;

/// Files up to it are encoded whole, and kept; larger ones while they are sent.
pub const WHOLE_BYTES_MAX: u64 = 32 << 20;

#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// SetOutputFilter; an empty list is `None` said aloud.
    pub set: Option<Vec<Box<str>>>,
    /// SetInputFilter.
    pub input: Option<Vec<Box<str>>>,
    /// Providers of the links of chains, by their names.
    links: BTreeMap<Box<str>, Link>,
    chain: Chain,
    deflate_level: Option<u32>,
    deflate_tags: Option<CodedTags>,
    brotli_quality: Option<u32>,
    brotli_tags: Option<CodedTags>,
}

/// Names of links, in order.
#[derive(Clone, Debug, Default)]
struct Chain {
    /// Nothing of outer sections stays.
    is_new: bool,
    names: Vec<Box<str>>,
}

/// FilterDeclare, with its providers.
#[derive(Clone, Debug, Default)]
struct Link {
    /// `None`: the first provider's.
    stage: Option<Stage>,
    providers: Vec<Arc<Provider>>,
}

#[derive(Debug)]
struct Provider {
    filter: Box<str>,
    condition: Condition,
}

#[derive(Debug)]
enum Condition {
    Holds(Expression),
    /// The content is of one of these types (AddOutputFilterByType).
    Types(Vec<Box<str>>),
}

impl Condition {
    fn is_met(&self, content_type: Option<&str>, evaluation: &mut Evaluation<'_>) -> bool {
        match self {
            Condition::Holds(expression) => expression.evaluate(evaluation).unwrap_or(false),
            Condition::Types(types) => {
                let essence = content_type
                    .map(|kind| kind.split([';', ' ', '\t']).next().unwrap_or_default());
                essence.is_some_and(|essence| {
                    types.iter().any(|kind| kind.eq_ignore_ascii_case(essence))
                })
            }
        }
    }
}

/// A filter that content goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen<'f> {
    pub name: &'f str,
    /// Links of chains look at answers with status 200 alone.
    pub only_success: bool,
}

impl Filters {
    pub const DIRECTIVES: &'static [(&'static str, Set<Filters>)] = &[
        ("SetOutputFilter", |node, filters, reading| {
            filters.set = Some(named(node, reading));
            Ok(())
        }),
        ("SetInputFilter", |node, filters, reading| {
            filters.input = Some(named(node, reading));
            Ok(())
        }),
        ("AddOutputFilterByType", add_by_type),
        ("FilterDeclare", declare),
        ("FilterProvider", add_provider),
        ("FilterProtocol", check_protocol),
        ("FilterChain", set_chain),
        ("DeflateCompressionLevel", |node, filters, _| {
            set_number(
                node,
                &mut filters.deflate_level,
                1,
                9,
                "Compression Level must be between 1 and 9",
            )
        }),
        ("DeflateAlterEtag", |node, filters, _| {
            set_tags(node, &mut filters.deflate_tags)
        }),
        ("BrotliCompressionQuality", |node, filters, _| {
            set_number(
                node,
                &mut filters.brotli_quality,
                0,
                11,
                "BrotliCompressionQuality must be between 0 and 11",
            )
        }),
        ("BrotliAlterETag", |node, filters, _| {
            set_tags(node, &mut filters.brotli_tags)
        }),
    ];

    pub fn merge(&self, over: &Filters) -> Filters {
        let mut links = self.links.clone();
        links.extend(
            over.links
                .iter()
                .map(|(name, link)| (name.clone(), link.clone())),
        );
        let outside = self.chain.names.iter().filter(|_| !over.chain.is_new);
        Filters {
            set: said(&self.set, &over.set),
            input: said(&self.input, &over.input),
            links,
            chain: Chain {
                is_new: self.chain.is_new || over.chain.is_new,
                names: outside.chain(&over.chain.names).cloned().collect(),
            },
            deflate_level: over.deflate_level.or(self.deflate_level),
            deflate_tags: over.deflate_tags.or(self.deflate_tags),
            brotli_quality: over.brotli_quality.or(self.brotli_quality),
            brotli_tags: over.brotli_tags.or(self.brotli_tags),
        }
    }

    /// Returns whether no directive names a filter here.
    pub fn is_empty(&self) -> bool {
        self.set.is_none() && self.chain.names.is_empty()
    }

    /// The filters in the order in which content goes through them. `by_extension`: of
    /// AddOutputFilter. What expressions asked for is noted.
    pub fn chosen<'f>(
        &'f self,
        stage_of: impl Fn(&str) -> Option<Stage>,
        by_extension: &'f [Box<str>],
        content_type: Option<&str>,
        facts: &dyn Facts,
        dependencies: &mut Dependencies,
    ) -> Vec<Chosen<'f>> {
        let direct = by_extension.iter().chain(self.set.iter().flatten());
        let mut chosen: Vec<(Option<Stage>, Chosen<'f>)> = direct
            .map(|name| {
                (
                    stage_of(name),
                    Chosen {
                        name,
                        only_success: false,
                    },
                )
            })
            .collect();
        for link in self
            .chain
            .names
            .iter()
            .filter_map(|name| self.links.get(name))
        {
            let mut evaluation = Evaluation::new(facts);
            let met = link
                .providers
                .iter()
                .rev()
                .find(|one| one.condition.is_met(content_type, &mut evaluation));
            dependencies.merge(&evaluation.dependencies);
            let stage = link.stage.or_else(|| {
                link.providers
                    .first()
                    .and_then(|first| stage_of(&first.filter))
            });
            chosen.extend(met.map(|one| {
                (
                    stage,
                    Chosen {
                        name: &one.filter,
                        only_success: true,
                    },
                )
            }));
        }
        chosen.sort_by_key(|(stage, _)| *stage);
        chosen.into_iter().map(|(_, one)| one).collect()
    }

    /// The entity tag of what INFLATE has decoded.
    pub fn decoded_tag(&self, tag: &[u8]) -> Option<Vec<u8>> {
        match self.deflate_tags.unwrap_or(CodedTags::Coding) {
            CodedTags::Absent => None,
            CodedTags::Same => Some(tag.to_vec()),
            CodedTags::Coding | CodedTags::Level => {
                Some([tag.strip_suffix(b"\"").unwrap_or(tag), b"-gunzip\""].concat())
            }
        }
    }

    /// The compression of content that passes these filters.
    pub fn compression(
        &self,
        chosen: &[Chosen<'_>],
        content_type: Option<&str>,
        environment: impl Fn(&str) -> bool,
    ) -> Compression {
        let html_only = environment("gzip-only-text/html")
            && content_type.is_none_or(|kind| !kind.starts_with("text/html"));
        let mut codings = Vec::new();
        for one in chosen {
            let coding = match one.name.to_ascii_lowercase().as_str() {
                "deflate" if !environment("no-gzip") && !html_only => CompressionCoding::Gzip,
                "brotli_compress" if !environment("no-brotli") => CompressionCoding::Brotli,
                _ => continue,
            };
            if !codings.contains(&coding) {
                codings.push(coding);
            }
        }
        let has_brotli = codings.contains(&CompressionCoding::Brotli);
        let tags = if has_brotli {
            self.brotli_tags
        } else {
            self.deflate_tags
        };
        Compression {
            // BROTLI_COMPRESS makes a stream of nothing, too; DEFLATE does not.
            min_bytes: match (has_brotli, codings.len()) {
                (true, 1) => 0,
                (true, _) => 1,
                (false, _) => DEFLATE_BYTES_MIN,
            },
            codings,
            max_bytes: WHOLE_BYTES_MAX,
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

/// Names between semicolons; unknown ones are reported.
fn named_filters(text: &str, node: &Node, reading: &mut Reading<'_>) -> Vec<Box<str>> {
    let names: Vec<Box<str>> = text
        .split(';')
        .filter(|name| !name.is_empty())
        .map(Into::into)
        .collect();
    let defined = &reading.aliases.filters;
    for name in names.iter().filter(|name| {
        catalog::find(name).is_none()
            && !defined.iter().any(|known| known.eq_ignore_ascii_case(name))
    }) {
        reading.warn(
            node,
            format!("the filter {name} is not there: content goes out without it"),
        );
    }
    names
}

fn named(node: &Node, reading: &mut Reading<'_>) -> Vec<Box<str>> {
    let text = texts(node).into_iter().next().unwrap_or_default();
    if text.eq_ignore_ascii_case("none") {
        Vec::new()
    } else {
        named_filters(&text, node, reading)
    }
}

/// One link of the chain for each filter, where it was named first.
impl Filters {
    /// AddOutputFilterByType of one filter.
    pub fn by_types(filter: &str, types: Vec<Box<str>>) -> Filters {
        let mut filters = Filters::default();
        filters.add_by_types(filter.into(), types);
        filters
    }

    fn add_by_types(&mut self, filter: Box<str>, types: Vec<Box<str>>) {
        let name: Box<str> = format!("BYTYPE:{}", filter.to_ascii_uppercase()).into();
        if !self.links.contains_key(&name) {
            self.chain.names.push(name.clone());
        }
        let provider = Provider {
            filter,
            condition: Condition::Types(types),
        };
        let link = self.links.entry(name).or_default();
        link.providers.push(Arc::new(provider));
    }
}

fn add_by_type(
    node: &Node,
    filters: &mut Filters,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let mut words = texts(node).into_iter();
    let text = words.next().unwrap_or_default();
    let types: Vec<Box<str>> = words.map(Into::into).collect();
    for filter in named_filters(&text, node, reading) {
        if !is_registered(&filter, filters, reading) {
            return Err(format!("Unknown provider filter {filter}"));
        }
        filters.add_by_types(filter, types.clone());
    }
    Ok(())
}

/// Filters of Apache's modules that do nothing here; they may be named.
const OTHERS: [&str; 12] = [
    "BYTERANGE",
    "CACHE",
    "CHARSETOUT",
    "CHUNK",
    "CONTENT_LENGTH",
    "FIXUP_HEADERS_OUT",
    "HTTP_HEADER",
    "MOD_EXPIRES",
    "OLD_WRITE",
    "REFLECTOR",
    "XLATEOUT",
    "xml2enc",
];

/// Returns whether mod_filter would find a filter of that name.
fn is_registered(name: &str, filters: &Filters, reading: &Reading<'_>) -> bool {
    let mut declared = filters.links.keys().chain(&reading.aliases.filters);
    catalog::find(name).is_some()
        || OTHERS.iter().any(|other| other.eq_ignore_ascii_case(name))
        || declared.any(|other| other.eq_ignore_ascii_case(name))
}

/// A name that is declared anew has no providers.
fn declare(node: &Node, filters: &mut Filters, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let word = |at: usize| words.get(at).map(String::as_str).unwrap_or_default();
    let stage = match word(1).to_ascii_uppercase().as_str() {
        "CONTENT_SET" => Stage::ContentSet,
        "PROTOCOL" => Stage::Protocol,
        "CONNECTION" | "NETWORK" => Stage::Connection,
        _ => Stage::Resource,
    };
    filters.links.insert(
        word(0).into(),
        Link {
            stage: Some(stage),
            providers: Vec::new(),
        },
    );
    Ok(())
}

fn add_provider(
    node: &Node,
    filters: &mut Filters,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let words = node.arguments();
    let word = |at: usize| words.get(at).map(Vec::as_slice).unwrap_or_default();
    let text = |at: usize| String::from_utf8_lossy(word(at)).into_owned();
    let condition = Expression::compile(word(2), reading.expression_options())
        .map_err(|error| format!("Error parsing FilterProvider expression:{error}"))?;
    let provider = Provider {
        filter: text(1).into(),
        condition: Condition::Holds(condition),
    };
    named_filters(&provider.filter, node, reading);
    filters
        .links
        .entry(text(0).into())
        .or_default()
        .providers
        .push(Arc::new(provider));
    Ok(())
}

/// Checks FilterProtocol. Its words about fields are kept in order by the filters themselves: each
/// knows what it changes.
fn check_protocol(node: &Node, filters: &mut Filters, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let word = |at: usize| words.get(at).map(String::as_str).unwrap_or_default();
    let link = filters
        .links
        .get(word(0))
        .ok_or("FilterProtocol: No such filter")?;
    let has = |name: &str| {
        link.providers
            .iter()
            .any(|one| one.filter.eq_ignore_ascii_case(name))
    };
    if words.len() > 2 && !has(word(1)) {
        return Err("FilterProtocol: No such provider for this filter".into());
    }
    Ok(())
}

/// `+` adds at the end, `@` at the beginning, `-` takes away, `=` begins anew, `!` empties.
fn set_chain(node: &Node, filters: &mut Filters, _: &mut Reading<'_>) -> Result<(), String> {
    let chain = &mut filters.chain;
    for word in texts(node) {
        let name = word.trim_start_matches(['+', '@', '-', '=', '!']);
        match word.bytes().next() {
            Some(b'@') => chain.names.insert(0, name.into()),
            Some(b'-') => chain.names.retain(|known| **known != *name),
            Some(b'=') => {
                *chain = Chain {
                    is_new: true,
                    names: vec![name.into()],
                }
            }
            Some(b'!') => {
                *chain = Chain {
                    is_new: true,
                    names: Vec::new(),
                }
            }
            _ => chain.names.push(name.into()),
        }
    }
    Ok(())
}

fn set_number(
    node: &Node,
    slot: &mut Option<u32>,
    min: u32,
    max: u32,
    complaint: &str,
) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    *slot = Some(
        word.parse()
            .ok()
            .filter(|number| (min..=max).contains(number))
            .ok_or(complaint)?,
    );
    Ok(())
}

fn set_tags(node: &Node, slot: &mut Option<CodedTags>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    *slot = Some(match word.to_ascii_lowercase().as_str() {
        "addsuffix" => CodedTags::Coding,
        "nochange" => CodedTags::Same,
        "remove" => CodedTags::Absent,
        _ => {
            return Err(format!(
                "{} should be 'AddSuffix' (default), 'NoChange' or 'Remove'",
                node.canonical_name()
            ));
        }
    });
    Ok(())
}

#[cfg(test)]
#[path = "filters_tests.rs"]
mod tests;
