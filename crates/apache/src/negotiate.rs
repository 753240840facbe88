//! Which of several files answers for a name that is none of them (mod_negotiation with
//! MultiViews).
//!
//! Place in the walk: before the rules of the folder, as Apache does it, so that they see the file
//! that was chosen. Difficulty: the client's four wishes are weighed one after the other, type
//! first, and clients that take anything would always get the smallest file if what they say
//! without weights were taken at its word. Absent on purpose: transparent negotiation (RFC 2295),
//! which no client ever asked for.

use saker_apache_model::modules::negotiation::Negotiation;
use saker_http::HeadView;
use std::cmp::Ordering;

/// One of the files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variant {
    pub name: Vec<u8>,
    pub media_type: Box<str>,
    pub languages: Vec<Box<str>>,
    pub coding: Option<Box<str>>,
    pub charset: Option<Box<str>>,
    pub bytes: u64,
    /// Quality of the source, from a type map.
    pub source: f32,
    /// The content, where it is in the type map itself (`Body:`).
    pub body: Option<Vec<u8>>,
}

/// The result of a negotiation.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// An index.
    Variant(usize),
    /// The client takes none of them.
    None,
}

/// The preferences that a client sends, with weights.
struct Wishes {
    /// `None`: there is no Accept field. An empty one accepts nothing, as in Apache.
    types: Option<Vec<(String, Option<f32>)>>,
    languages: Vec<(String, Option<f32>)>,
    charsets: Option<Vec<(String, Option<f32>)>>,
    codings: Option<Vec<(String, Option<f32>)>>,
}

/// Weights for what is taken without having been named.
const ANY_TYPE: f32 = 0.01;

const ANY_SUBTYPE: f32 = 0.02;

const OTHER_LANGUAGE: f32 = 0.001;

/// The charset of text that names none.
const LATIN_1: &str = "iso-8859-1";

/// Weight of plain content, for clients that take codings.
const PLAIN: f32 = 0.0001;

impl Wishes {
    fn of(head: HeadView<'_>) -> Wishes {
        let list = |name: &'static str| -> Vec<(String, Option<f32>)> {
            let lines = head
                .all(name)
                .flat_map(|line| line.split(|byte| *byte == b','));
            lines.filter_map(weighed).collect()
        };
        let present = |name: &'static str| head.all(name).next().map(|_| list(name));
        Wishes {
            types: present("accept"),
            languages: list("accept-language"),
            charsets: present("accept-charset"),
            codings: present("accept-encoding"),
        }
    }

    fn of_type(&self, media_type: &str) -> f32 {
        let Some(types) = &self.types else {
            return 1.0;
        };
        // Clients that give no weights at all mean the exact types more than the stars.
        let no_weights = types.iter().all(|(_, weight)| weight.is_none());
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        let major = essence.split('/').next().unwrap_or_default();
        let rate = |(range, weight): &(String, Option<f32>)| {
            let (closeness, star) = match range.as_str() {
                "*/*" | "*" => (0, ANY_TYPE),
                range if range.strip_suffix("/*") == Some(major) => (1, ANY_SUBTYPE),
                range if range == essence => (2, 1.0),
                _ => return None,
            };
            let plain = if no_weights { star } else { 1.0 };
            Some((closeness, weight.unwrap_or(plain)))
        };
        types
            .iter()
            .filter_map(rate)
            .max_by_key(|(closeness, _)| *closeness)
            .map_or(0.0, |(_, weight)| weight)
    }

    /// `some_have`: other variants have a language.
    fn of_languages(&self, languages: &[Box<str>], some_have: bool) -> f32 {
        match languages {
            [] if some_have => OTHER_LANGUAGE,
            _ if self.languages.is_empty() || languages.is_empty() => 1.0,
            languages => languages
                .iter()
                .map(|language| self.of_language(language))
                .fold(0.0, f32::max),
        }
    }

    /// An exact match, or a range that is a prefix, or any; and the primary tag of what was asked
    /// for, where nothing else is said of it.
    fn of_language(&self, language: &str) -> f32 {
        let mut best: Option<(usize, f32)> = None;
        for (range, weight) in &self.languages {
            let weight = weight.unwrap_or(1.0);
            let is_prefix = language
                .strip_prefix(range.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
            let found = match range.as_str() {
                "*" => Some((0, weight)),
                range if is_prefix => Some((range.len() + 1, weight)),
                range if range.split('-').next() == Some(language) => Some((1, OTHER_LANGUAGE)),
                _ => None,
            };
            best = [best, found]
                .into_iter()
                .flatten()
                .max_by_key(|(closeness, _)| *closeness);
        }
        best.map_or(0.0, |(_, weight)| weight)
    }

    /// Text without a charset is in ISO 8859-1, which every client takes unless it says otherwise.
    fn of_charset(&self, variant: &Variant) -> f32 {
        let Some(accepted) = &self.charsets else {
            return 1.0;
        };
        let charset = match variant.charset.as_deref() {
            None if !variant.media_type.starts_with("text/") => return 1.0,
            charset => charset.unwrap_or(LATIN_1),
        };
        let find = |name: &str| {
            let known = accepted.iter().find(|(known, _)| known == name);
            known.map(|(_, weight)| weight.unwrap_or(1.0))
        };
        let unsaid = if charset == LATIN_1 { 1.0 } else { 0.0 };
        find(charset).or_else(|| find("*")).unwrap_or(unsaid)
    }

    fn of_coding(&self, coding: Option<&str>) -> f32 {
        let Some(accepted) = &self.codings else {
            // As Apache: a client that names none may know none.
            return if coding.is_none() { 1.0 } else { 0.5 };
        };
        let find = |name: &str| {
            accepted
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, weight)| weight.unwrap_or(1.0))
        };
        match coding {
            None => find("identity").or_else(|| find("*")).unwrap_or(PLAIN),
            Some(coding) => {
                let bare = coding.strip_prefix("x-").unwrap_or(coding);
                find(coding)
                    .or_else(|| find(bare))
                    .or_else(|| find(&format!("x-{bare}")))
                    .or_else(|| find("*"))
                    .unwrap_or(0.0)
            }
        }
    }
}

/// A name in lower case, and its weight if it has one.
fn weighed(item: &[u8]) -> Option<(String, Option<f32>)> {
    let text = std::str::from_utf8(item).ok()?.trim().to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?.to_owned();
    let weight = parts
        .find_map(|part| part.strip_prefix("q="))
        .map(|weight| weight.trim().parse().unwrap_or(0.0_f32).clamp(0.0, 1.0));
    Some((name, weight))
}

struct Rated {
    at: usize,
    kind: f32,
    language: f32,
    rank: Option<usize>,
    charset: f32,
    /// It names a charset other than the default one.
    names_charset: bool,
    coding: f32,
    bytes: u64,
}

/// Chooses for one client.
pub fn choose(variants: &[Variant], head: HeadView<'_>, settings: &Negotiation) -> Choice {
    let wishes = Wishes::of(head);
    let force = settings.force();
    let some_have = variants.iter().any(|variant| !variant.languages.is_empty());
    let rate = |any_language: bool| {
        let rated = variants.iter().enumerate().map(|(at, variant)| Rated {
            at,
            kind: wishes.of_type(&variant.media_type) * variant.source,
            language: if any_language {
                1.0
            } else {
                wishes.of_languages(&variant.languages, some_have)
            },
            rank: variant
                .languages
                .iter()
                .filter_map(|language| settings.rank(language))
                .min()
                .filter(|_| force.prefer || any_language),
            charset: wishes.of_charset(variant),
            names_charset: variant
                .charset
                .as_deref()
                .is_some_and(|charset| charset != LATIN_1),
            coding: wishes.of_coding(variant.coding.as_deref()),
            bytes: variant.bytes,
        });
        let fits = |rated: &Rated| {
            let weights = [rated.kind, rated.language, rated.charset, rated.coding];
            weights.iter().all(|weight| *weight > 0.0)
        };
        rated
            .filter(fits)
            .reduce(|best, next| if is_better(&next, &best) { next } else { best })
            .map(|best| best.at)
    };
    let chosen = rate(false).or_else(|| if force.fallback { rate(true) } else { None });
    chosen.map_or(Choice::None, Choice::Variant)
}

fn is_better(one: &Rated, best: &Rated) -> bool {
    let ranked = match (one.rank, best.rank) {
        (Some(one), Some(best)) => best.cmp(&one),
        (one, best) => one.is_some().cmp(&best.is_some()),
    };
    let order = one
        .kind
        .total_cmp(&best.kind)
        .then(one.language.total_cmp(&best.language))
        .then(ranked)
        .then(one.charset.total_cmp(&best.charset))
        .then(one.names_charset.cmp(&best.names_charset));
    order
        .then(one.coding.total_cmp(&best.coding))
        .then(best.bytes.cmp(&one.bytes))
        == Ordering::Greater
}

/// The value of Vary: what the variants differ in.
pub fn vary(variants: &[Variant]) -> String {
    let differ = |of: &dyn Fn(&Variant) -> String| {
        let first = variants.first().map(of);
        variants.iter().any(|variant| Some(of(variant)) != first)
    };
    // Transparent negotiation needs a URL for each variant (RFC 2295).
    let is_transparent = variants.iter().all(|variant| variant.body.is_none());
    let mut names = Vec::new();
    names.extend(is_transparent.then_some("negotiate"));
    names.extend(differ(&|variant| variant.media_type.to_string()).then_some("accept"));
    names.extend(differ(&|variant| variant.languages.join(",")).then_some("accept-language"));
    names.extend(
        differ(&|variant| variant.charset.as_deref().unwrap_or_default().to_owned())
            .then_some("accept-charset"),
    );
    names.extend(
        differ(&|variant| variant.coding.as_deref().unwrap_or_default().to_owned())
            .then_some("accept-encoding"),
    );
    names.join(",")
}

/// The value of Alternates (RFC 2295 section 8.3).
pub fn alternates(variants: &[Variant]) -> Vec<u8> {
    let one = |variant: &Variant| {
        let mut text = [b"{\"", variant.name.as_slice(), b"\" "].concat();
        text.extend_from_slice(format!("{}", variant.source).as_bytes());
        if !variant.media_type.is_empty() {
            text.extend_from_slice(format!(" {{type {}}}", variant.media_type).as_bytes());
        }
        if let Some(charset) = &variant.charset {
            text.extend_from_slice(format!(" {{charset {charset}}}").as_bytes());
        }
        if !variant.languages.is_empty() {
            text.extend_from_slice(
                format!(" {{language {}}}", variant.languages.join(", ")).as_bytes(),
            );
        }
        if let Some(coding) = &variant.coding {
            text.extend_from_slice(format!(" {{encoding {coding}}}").as_bytes());
        }
        text.extend_from_slice(format!(" {{length {}}}}}", variant.bytes).as_bytes());
        text
    };
    variants
        .iter()
        .map(one)
        .collect::<Vec<_>>()
        .join(&b", "[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http::{RequestHead, Version};

    /// Files, fields of the request, settings, and what is chosen.
    type Case<'c> = (
        &'c [Variant],
        &'c [(&'c str, &'c str)],
        &'c Negotiation,
        &'c str,
    );

    fn variant(
        name: &str,
        media_type: &str,
        language: &str,
        coding: Option<&str>,
        bytes: u64,
    ) -> Variant {
        let languages = if language.is_empty() {
            Vec::new()
        } else {
            vec![language.into()]
        };
        Variant {
            name: name.into(),
            media_type: media_type.into(),
            languages,
            coding: coding.map(Into::into),
            charset: None,
            bytes,
            source: 1.0,
            body: None,
        }
    }

    fn chosen(variants: &[Variant], fields: &[(&str, &str)], settings: &Negotiation) -> String {
        let head = RequestHead::build("GET", "/", Version::Http11, fields);
        match choose(variants, head.view(), settings) {
            Choice::Variant(at) => String::from_utf8(variants[at].name.clone()).unwrap(),
            Choice::None => "none".into(),
        }
    }

    #[test]
    fn clients_get_what_they_like_best() {
        let html = "text/html";
        let languages = [
            variant("en", html, "en", None, 3),
            variant("de", html, "de", None, 8),
            variant("fr", html, "fr", None, 3),
        ];
        let types = [
            variant("html", html, "", None, 8),
            variant("txt", "text/plain", "", None, 6),
        ];
        let codings = [
            variant("plain", "text/plain", "", None, 2),
            variant("gz", "text/plain", "", Some("x-gzip"), 23),
        ];
        let shorter = [
            variant("gz", "text/plain", "", Some("x-gzip"), 1),
            variant("plain", "text/plain", "", None, 2),
        ];
        let longer = [
            variant("gz", "text/plain", "", Some("x-gzip"), 3),
            variant("plain", "text/plain", "", None, 2),
        ];
        let mixed = [
            variant("none", html, "", None, 1),
            variant("en", html, "en", None, 9),
        ];
        let default = Negotiation::default();
        let ranked = Negotiation {
            priority: Some(vec!["de".into(), "en".into()]),
            force: None,
        };
        let cases: [Case<'_>; 22] = [
            (&languages, &[], &default, "en"),
            (&languages, &[("Accept-Language", "de")], &default, "de"),
            (
                &languages,
                &[("Accept-Language", "de;q=0.5, fr;q=0.8")],
                &default,
                "fr",
            ),
            (&languages, &[("Accept-Language", "es")], &default, "none"),
            (&languages, &[("Accept-Language", "de-at")], &default, "de"),
            (&languages, &[], &ranked, "de"),
            (&languages, &[("Accept-Language", "en, de")], &ranked, "de"),
            (
                &languages,
                &[("Accept-Language", "es")],
                &Negotiation {
                    force: Some(saker_apache_model::modules::negotiation::Force {
                        prefer: true,
                        fallback: true,
                    }),
                    ..ranked.clone()
                },
                "de",
            ),
            (&types, &[], &default, "txt"),
            (&types, &[("Accept", "text/html, */*")], &default, "html"),
            (
                &types,
                &[("Accept", "text/*;q=0.5, text/html;q=0.4")],
                &default,
                "txt",
            ),
            (&types, &[("Accept", "image/png")], &default, "none"),
            (&codings, &[], &default, "plain"),
            (&codings, &[("Accept-Encoding", "gzip")], &default, "gz"),
            (&codings, &[("Accept-Encoding", "br")], &default, "plain"),
            (
                &codings,
                &[("Accept-Encoding", "gzip;q=0")],
                &default,
                "plain",
            ),
            (&shorter, &[], &default, "plain"),
            (&shorter, &[("Accept-Encoding", "gzip")], &default, "gz"),
            (&shorter, &[("Accept-Encoding", "*")], &default, "gz"),
            (&longer, &[("Accept-Encoding", "*")], &default, "plain"),
            (&mixed, &[], &default, "en"),
            (&mixed, &[("Accept-Language", "fr")], &default, "none"),
        ];
        for (variants, fields, settings, expected) in cases {
            // What has no language is better than nothing.
            assert_eq!(chosen(variants, fields, settings), expected, "{fields:?}");
        }
    }

    #[test]
    fn what_variants_differ_in() {
        let variants = [
            variant("a.html.en", "text/html", "en", None, 3),
            variant("a.html.de", "text/html", "de", None, 8),
        ];
        assert_eq!(vary(&variants), "negotiate,accept-language");
        assert_eq!(vary(&variants[..1]), "negotiate");
        assert_eq!(
            String::from_utf8(alternates(&variants[..1])).unwrap(),
            "{\"a.html.en\" 1 {type text/html} {language en} {length 3}}"
        );
    }
}
