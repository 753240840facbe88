//! mod_proxy_html and mod_xml2enc: their directives. The filter is `saker_content_filters::proxy_html`.
//!
//! Called by: `dir_config`, whose table names the setters.
//! Caveat: as in Apache, rules of an inner section come before those outside, each of the two in
//! reverse order where both have some.
//! Out of scope: rules with variables or conditions (flags `V` and `v`, a fourth argument), which are
//! reported and left out.

use crate::{
    arguments::{set_flag, texts},
    reading::{Reading, Set, said},
};
use saker_ap_expr::{Pattern, PatternOptions};
use saker_apache_syntax::Node;
use saker_content_filters::proxy_html::{
    Charsets, HtmlRules, LinkNames, UrlRule, UrlRuleFlags, encoding_named,
};
use std::sync::Arc;

/// Settings of few hosts, so that all others have a pointer only.
#[derive(Clone, Debug, Default)]
pub struct ProxyHtml(Option<Arc<HtmlSettings>>);

#[derive(Clone, Debug, Default)]
struct HtmlSettings {
    is_on: Option<bool>,
    urls: Vec<Arc<UrlRule>>,
    links: Option<Arc<LinkNames>>,
    events: Option<Arc<Vec<Box<[u8]>>>>,
    is_extended: Option<bool>,
    strips_comments: Option<bool>,
    /// `Some(None)`: that of the page.
    doctype: Option<Option<Arc<str>>>,
    /// Lower case, and slashes for backslashes.
    fixups: Option<(bool, bool)>,
    charsets: Option<Charsets>,
}

impl ProxyHtml {
    pub const DIRECTIVES: &'static [(&'static str, Set<ProxyHtml>)] = &[
        ("ProxyHTMLEnable", |node, html, _| {
            set_flag(node, &mut html.own().is_on)
        }),
        ("ProxyHTMLURLMap", add_rule),
        ("ProxyHTMLLinks", add_links),
        ("ProxyHTMLEvents", add_events),
        ("ProxyHTMLExtended", |node, html, _| {
            set_flag(node, &mut html.own().is_extended)
        }),
        ("ProxyHTMLStripComments", |node, html, _| {
            set_flag(node, &mut html.own().strips_comments)
        }),
        ("ProxyHTMLDoctype", set_doctype),
        ("ProxyHTMLFixups", set_fixups),
        ("xml2EncDefault", set_default_charset),
    ];

    fn own(&mut self) -> &mut HtmlSettings {
        Arc::make_mut(self.0.get_or_insert_default())
    }

    pub fn merge(&self, over: &ProxyHtml) -> ProxyHtml {
        ProxyHtml(match (&self.0, &over.0) {
            (Some(settings), Some(over)) => Some(Arc::new(settings.merge(over))),
            (settings, over) => over.clone().or_else(|| settings.clone()),
        })
    }

    pub fn is_on(&self) -> bool {
        self.0.as_ref().is_some_and(|html| html.is_on == Some(true))
    }

    /// The rules for pages. `None`: without attributes that have addresses the filter does nothing.
    pub fn rules(&self) -> Option<HtmlRules> {
        self.0.as_ref()?.rules()
    }

    pub fn charsets(&self) -> Charsets {
        let html = self.0.as_ref();
        html.and_then(|html| html.charsets.clone())
            .unwrap_or_default()
    }
}

impl HtmlSettings {
    fn merge(&self, over: &HtmlSettings) -> HtmlSettings {
        let urls = match (self.urls.is_empty(), over.urls.is_empty()) {
            (false, false) => self.urls.iter().chain(&over.urls).rev().cloned().collect(),
            (true, _) => over.urls.clone(),
            (_, true) => self.urls.clone(),
        };
        HtmlSettings {
            is_on: over.is_on.or(self.is_on),
            urls,
            links: said(&self.links, &over.links),
            events: said(&self.events, &over.events),
            is_extended: over.is_extended.or(self.is_extended),
            strips_comments: over.strips_comments.or(self.strips_comments),
            doctype: said(&self.doctype, &over.doctype),
            fixups: over.fixups.or(self.fixups),
            charsets: said(&self.charsets, &over.charsets),
        }
    }

    fn rules(&self) -> Option<HtmlRules> {
        let (lower_case, dos_paths) = self.fixups.unwrap_or_default();
        Some(HtmlRules {
            urls: self.urls.clone(),
            links: Arc::clone(self.links.as_ref()?),
            events: self.events.clone().unwrap_or_default(),
            is_extended: self.is_extended == Some(true),
            strips_comments: self.strips_comments == Some(true),
            doctype: self.doctype.clone().flatten(),
            lower_case,
            dos_paths,
        })
    }
}

fn add_rule(node: &Node, html: &mut ProxyHtml, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = saker_ap_expr::words::words(node.argument_text());
    let (Some(from), Some(to)) = (words.first(), words.get(1)) else {
        return Err("ProxyHTMLURLMap takes two to four arguments".into());
    };
    let letters = words.get(2).map(Vec::as_slice).unwrap_or_default();
    let (mut flags, mut options, mut is_pattern) =
        (UrlRuleFlags::default(), PatternOptions::HTTPD, false);
    for letter in letters {
        match letter {
            b'h' => flags.skips_links = true,
            b'H' => flags.skips_links = false,
            b'e' => flags.skips_events = true,
            b'E' => flags.skips_events = false,
            b'c' => flags.skips_scripts = true,
            b'C' => flags.skips_scripts = false,
            b'L' => flags.is_last = true,
            b'l' => flags.is_last = false,
            b'R' => is_pattern = true,
            b'i' => options.caseless = true,
            b'n' | b'x' | b's' => {}
            b'^' => flags.at_start = true,
            b'$' => flags.at_end = true,
            b'V' | b'v' => {
                reading.warn(
                    node,
                    "rules with variables are not supported: this one is left out",
                );
                return Ok(());
            }
            _ => {}
        }
    }
    if words.len() > 3 {
        reading.warn(
            node,
            "rules with conditions are not supported: this one is left out",
        );
        return Ok(());
    }
    if from.is_empty() {
        return Err("ProxyHTMLURLMap needs something to replace".into());
    }
    let rule = match is_pattern {
        true => {
            let pattern = Pattern::compile(from, options)
                .map_err(|_| "ProxyHTMLURLMap: the pattern can't be compiled".to_owned())?;
            UrlRule::of_pattern(pattern, to, flags)
        }
        false => UrlRule::of_text(from, to, flags),
    };
    html.own().urls.push(Arc::new(rule));
    Ok(())
}

/// An element, and its attributes.
fn add_links(node: &Node, html: &mut ProxyHtml, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let lower = |word: &String| -> Box<[u8]> { word.to_ascii_lowercase().into_bytes().into() };
    let Some((element, attributes)) = words.split_first() else {
        return Ok(());
    };
    let links = Arc::make_mut(html.own().links.get_or_insert_default());
    let of_element = links.entry(lower(element)).or_default();
    of_element.extend(attributes.iter().map(lower));
    Ok(())
}

fn add_events(node: &Node, html: &mut ProxyHtml, _: &mut Reading<'_>) -> Result<(), String> {
    let events = Arc::make_mut(html.own().events.get_or_insert_default());
    let lower = |word: &String| word.to_ascii_lowercase().into_bytes().into();
    events.extend(texts(node).iter().map(lower));
    Ok(())
}

/// `HTML`, `HTML5`, `XHTML`, each with `Legacy`, or a document type with its mark of XML.
fn set_doctype(node: &Node, html: &mut ProxyHtml, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let first = words.first().map(String::as_str).unwrap_or_default();
    let is_legacy = words
        .get(1)
        .is_some_and(|word| word.eq_ignore_ascii_case("legacy"));
    let own = |name: &str, file: &str| {
        format!(
            "<!DOCTYPE html PUBLIC \"-//W3C//DTD {name}//EN\" \"http://www.w3.org/TR/{file}\">\n"
        )
    };
    let text = match (first.to_ascii_lowercase().as_str(), is_legacy) {
        ("html", false) => {
            own("HTML 4.01", "html4/strict.dtd").replace("!DOCTYPE html", "!DOCTYPE HTML")
        }
        ("html", true) => own("HTML 4.01 Transitional", "html4/loose.dtd")
            .replace("!DOCTYPE html", "!DOCTYPE HTML"),
        ("html5", _) => "<!DOCTYPE html>\n".into(),
        ("xhtml", false) => own("XHTML 1.0 Strict", "xhtml1/DTD/xhtml1-strict.dtd"),
        ("xhtml", true) => own(
            "XHTML 1.0 Transitional",
            "xhtml1/DTD/xhtml1-transitional.dtd",
        ),
        _ => first.to_owned(),
    };
    html.own().doctype = Some((!text.is_empty()).then(|| text.into()));
    Ok(())
}

fn set_fixups(node: &Node, html: &mut ProxyHtml, _: &mut Reading<'_>) -> Result<(), String> {
    let (mut lower_case, mut dos_paths) = html.own().fixups.unwrap_or_default();
    for word in texts(node) {
        match word.to_ascii_lowercase().as_str() {
            "lowercase" => lower_case = true,
            "dospath" => dos_paths = true,
            "reset" => (lower_case, dos_paths) = (false, false),
            _ => return Err(format!("ProxyHTMLFixups: unknown word '{word}'")),
        }
    }
    html.own().fixups = Some((lower_case, dos_paths));
    Ok(())
}

fn set_default_charset(
    node: &Node,
    html: &mut ProxyHtml,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    let default = encoding_named(word.as_bytes())
        .ok_or_else(|| format!("Default charset not supported: {word}"))?;
    html.own().charsets = Some(Charsets { default });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_rules_come_first() {
        let of = |names: &[&str]| HtmlSettings {
            urls: names
                .iter()
                .map(|name| {
                    let flags = UrlRuleFlags::default();
                    Arc::new(UrlRule::of_text(b"/", name.as_bytes(), flags))
                })
                .collect(),
            links: Some(Arc::default()),
            ..HtmlSettings::default()
        };
        let order = |html: HtmlSettings| -> Vec<String> {
            let rules = html.rules().unwrap();
            let names = rules
                .urls
                .iter()
                .map(|rule| String::from_utf8_lossy(&rule.to).into_owned());
            names.collect()
        };
        assert_eq!(
            order(of(&["a", "b"]).merge(&of(&["c", "d"]))),
            ["d", "c", "b", "a"]
        );
        assert_eq!(order(of(&["a", "b"]).merge(&of(&[]))), ["a", "b"]);
        assert!(ProxyHtml::default().rules().is_none());
    }
}
