//! mod_proxy_html and mod_xml2enc: their directives. The filter is `saker_content_filters::proxy_html`.
//!
//! Called by: `dir_config`, whose table names the setters.
//! Caveat: as in Apache, rules of an inner section come before those outside, each of the two in
//! reverse order where both have some.
//! Variables and conditions of rules (flags `V` and `v`, a fourth argument) count with
//! ProxyHTMLInterp only.
//! Out of scope: variables in values of variables, which Apache looks for and clients could send.

use crate::{
    arguments::{set_flag, texts},
    reading::{Reading, Set, said},
};
use saker_ap_expr::{Dependencies, Evaluation, Expression, Facts, Pattern, PatternOptions};
use saker_apache_syntax::Node;
use saker_content_filters::proxy_html::{
    CharsetOut, Charsets, Encoding, HtmlRules, LinkNames, UrlRule, UrlRuleFlags, encoding_named,
};
use std::sync::Arc;

/// Settings of few hosts, so that all others have a pointer only.
#[derive(Clone, Debug, Default)]
pub struct ProxyHtml(Option<Arc<HtmlSettings>>);

#[derive(Clone, Debug, Default)]
struct HtmlSettings {
    is_on: Option<bool>,
    urls: Vec<Arc<MappedRule>>,
    links: Option<Arc<LinkNames>>,
    events: Option<Arc<Vec<Box<[u8]>>>>,
    is_extended: Option<bool>,
    strips_comments: Option<bool>,
    /// `Some(None)`: that of the page.
    doctype: Option<Option<Arc<str>>>,
    /// Lower case, and slashes for backslashes.
    fixups: Option<(bool, bool)>,
    default_charset: Option<(&'static Encoding, Box<str>)>,
    charset_out: Option<CharsetOut>,
    obeys_meta: Option<bool>,
    interpolates: Option<bool>,
}

/// A rule, and what it is made of for each page.
#[derive(Debug)]
struct MappedRule {
    /// Without variables. `None`: it makes sense only with them.
    plain: Option<Arc<UrlRule>>,
    from: Box<[u8]>,
    to: Box<[u8]>,
    /// `None`: the left side is a text.
    pattern: Option<PatternOptions>,
    flags: UrlRuleFlags,
    has_variables_in_from: bool,
    has_variables_in_to: bool,
    condition: Option<Expression>,
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
        ("ProxyHTMLMeta", |node, html, _| {
            set_flag(node, &mut html.own().obeys_meta)
        }),
        ("ProxyHTMLInterp", |node, html, _| {
            set_flag(node, &mut html.own().interpolates)
        }),
        ("ProxyHTMLCharsetOut", set_charset_out),
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

    /// The rules for a page. `None`: without attributes that have addresses the filter does nothing.
    /// Facts that conditions depend on are added to `seen`.
    pub fn rules(&self, facts: &dyn Facts, seen: &mut Dependencies) -> Option<HtmlRules> {
        self.0.as_ref()?.rules(facts, seen)
    }

    pub fn charsets(&self) -> Charsets {
        let mut charsets = Charsets::default();
        if let Some(html) = &self.0 {
            if let Some((encoding, name)) = &html.default_charset {
                (charsets.default, charsets.default_name) = (encoding, name.clone());
            }
            charsets.out.clone_from(&html.charset_out);
        }
        charsets
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
            default_charset: said(&self.default_charset, &over.default_charset),
            charset_out: said(&self.charset_out, &over.charset_out),
            obeys_meta: over.obeys_meta.or(self.obeys_meta),
            interpolates: over.interpolates.or(self.interpolates),
        }
    }

    fn rules(&self, facts: &dyn Facts, seen: &mut Dependencies) -> Option<HtmlRules> {
        let (lower_case, dos_paths) = self.fixups.unwrap_or_default();
        let urls = self.urls.iter();
        Some(HtmlRules {
            urls: match self.interpolates == Some(true) {
                true => urls.filter_map(|rule| rule.resolved(facts, seen)).collect(),
                false => urls.filter_map(|rule| rule.plain.clone()).collect(),
            },
            obeys_meta: self.obeys_meta == Some(true),
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
    let (mut has_variables_in_from, mut has_variables_in_to) = (false, false);
    for letter in letters {
        match letter {
            b'h' => flags.skips_links = true,
            b'H' => flags.skips_links = false,
            b'e' => flags.skips_events = true,
            b'E' => flags.skips_events = false,
            b'c' => flags.skips_scripts = true,
            b'C' => flags.skips_scripts = false,
            b'L' => flags.is_last = true,
            b'l' => flags.goes_on = true,
            b'R' => is_pattern = true,
            b'i' => options.caseless = true,
            b'n' | b'x' | b's' => {}
            b'^' => flags.at_start = true,
            b'$' => flags.at_end = true,
            b'V' => has_variables_in_to = true,
            b'v' => has_variables_in_from = true,
            _ => {}
        }
    }
    if from.is_empty() {
        return Err("ProxyHTMLURLMap needs something to replace".into());
    }
    let condition = match words.get(3).filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => {
            let compiled = Expression::compile(condition(text), reading.expression_options());
            Some(compiled.map_err(|error| format!("ProxyHTMLURLMap: {}", error.message))?)
        }
    };
    let mut rule = MappedRule {
        plain: None,
        from: from.as_slice().into(),
        to: to.as_slice().into(),
        pattern: is_pattern.then_some(options),
        flags,
        has_variables_in_from,
        has_variables_in_to,
        condition,
    };
    if !(is_pattern && has_variables_in_from) {
        let made = rule.made(from, to);
        rule.plain = Some(made.ok_or("ProxyHTMLURLMap: the pattern can't be compiled")?);
    }
    html.own().urls.push(Arc::new(rule));
    Ok(())
}

/// Conditions in the words of old versions: `VAR`, `VAR=value`, and both with a `!` before them.
fn condition(text: &[u8]) -> Vec<u8> {
    let (is_not, rest) = match text.strip_prefix(b"!") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let is_word = |name: &[u8]| {
        !name.is_empty()
            && name
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    };
    let (name, value) = match rest.iter().position(|byte| *byte == b'=') {
        Some(at) => (rest.get(..at), rest.get(at + 1..)),
        None => (Some(rest), None),
    };
    let Some(name) = name.filter(|name| is_word(name)) else {
        return text.to_vec();
    };
    let name = [b"reqenv('", name, b"')"].concat();
    let not: &[u8] = if is_not { b"!" } else { b"" };
    match value {
        None => [not, &name].concat(),
        Some(value) if !value.is_empty() => [&name, not, b"='", value, b"'"].concat(),
        Some(_) => text.to_vec(),
    }
}

impl MappedRule {
    fn made(&self, from: &[u8], to: &[u8]) -> Option<Arc<UrlRule>> {
        Some(Arc::new(match self.pattern {
            Some(options) => {
                UrlRule::of_pattern(Pattern::compile(from, options).ok()?, to, self.flags)
            }
            None => UrlRule::of_text(from, to, self.flags),
        }))
    }

    /// The rule for a page. `None`: its condition doesn't hold, or nothing is left to look for.
    fn resolved(&self, facts: &dyn Facts, seen: &mut Dependencies) -> Option<Arc<UrlRule>> {
        if let Some(condition) = &self.condition {
            let mut evaluation = Evaluation::new(facts);
            let holds = condition.evaluate(&mut evaluation);
            seen.merge(&evaluation.dependencies);
            if !holds.unwrap_or(false) {
                return None;
            }
        }
        if !self.has_variables_in_from && !self.has_variables_in_to {
            return self.plain.clone();
        }
        let side = |text: &[u8], has_variables: bool| match has_variables {
            true => interpolated(text, facts),
            false => text.to_vec(),
        };
        let from = side(&self.from, self.has_variables_in_from);
        let to = side(&self.to, self.has_variables_in_to);
        (!from.is_empty()).then(|| self.made(&from, &to))?
    }
}

/// A text with `${NAME}` and `${NAME|default}` replaced.
fn interpolated(text: &[u8], facts: &dyn Facts) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.windows(2).position(|piece| piece == b"${") {
        let behind = rest.get(at + 2..).unwrap_or_default();
        let Some(end) = behind.iter().position(|byte| *byte == b'}') else {
            break;
        };
        out.extend_from_slice(rest.get(..at).unwrap_or_default());
        let mut words = behind
            .get(..end)
            .unwrap_or_default()
            .splitn(2, |byte| *byte == b'|');
        let name = words.next().unwrap_or_default();
        match facts.environment(name) {
            Some(value) => out.extend_from_slice(&value),
            None => out.extend_from_slice(words.next().unwrap_or_default()),
        }
        rest = behind.get(end + 1..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
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
    html.own().default_charset = Some((default, word.into()));
    Ok(())
}

/// A charset, or `*` for that of the page.
fn set_charset_out(node: &Node, html: &mut ProxyHtml, _: &mut Reading<'_>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    html.own().charset_out = Some(match word.starts_with('*') {
        true => CharsetOut::Own,
        false => {
            let encoding = encoding_named(word.as_bytes())
                .ok_or_else(|| format!("ProxyHTMLCharsetOut: charset not supported: {word}"))?;
            CharsetOut::Named(encoding, word.into())
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_pipeline::Environment;

    fn environment(all: &[(&str, &str)]) -> Environment {
        let mut environment = Environment::default();
        for (name, value) in all {
            environment.set(name.as_bytes(), value.as_bytes());
        }
        environment
    }

    fn rule(from: &str, to: &str) -> MappedRule {
        let mut rule = MappedRule {
            plain: None,
            from: from.as_bytes().into(),
            to: to.as_bytes().into(),
            pattern: None,
            flags: UrlRuleFlags::default(),
            has_variables_in_from: false,
            has_variables_in_to: false,
            condition: None,
        };
        rule.plain = rule.made(from.as_bytes(), to.as_bytes());
        rule
    }

    #[test]
    fn inner_rules_come_first() {
        let of = |names: &[&str]| HtmlSettings {
            urls: names.iter().map(|name| Arc::new(rule("/", name))).collect(),
            links: Some(Arc::default()),
            ..HtmlSettings::default()
        };
        let order = |html: HtmlSettings| -> Vec<String> {
            let rules = html
                .rules(&Environment::default(), &mut Dependencies::new())
                .unwrap();
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
        assert!(
            ProxyHtml::default()
                .rules(&Environment::default(), &mut Dependencies::new())
                .is_none()
        );
    }

    #[test]
    fn variables_in_rules() {
        let variables = environment(&[("A", "/a"), ("B", "${A}"), ("EMPTY", "")]);
        for (text, expected) in [
            ("${A}/x", "/a/x"),
            ("${A|no}${NONE|yes}${NONE}", "/ayes"),
            ("${B}", "${A}"),
            ("${EMPTY|x}", ""),
            ("${A", "${A"),
            ("$A}", "$A}"),
        ] {
            let found = interpolated(text.as_bytes(), &variables);
            assert_eq!(String::from_utf8(found).unwrap(), expected, "{text}");
        }
        let mut varied = rule("${A}", "${A}/to");
        varied.has_variables_in_from = true;
        varied.has_variables_in_to = true;
        let resolved =
            |rule: &MappedRule, facts: &Environment| rule.resolved(facts, &mut Dependencies::new());
        let made = resolved(&varied, &variables).unwrap();
        assert_eq!(&*made.to, b"/a/to");
        assert!(resolved(&varied, &Environment::default()).is_none());
        varied.pattern = Some(PatternOptions::HTTPD);
        assert!(resolved(&varied, &variables).is_some());
        assert!(resolved(&varied, &environment(&[("A", "(")])).is_none());
    }

    #[test]
    fn conditions_in_old_words() {
        for (text, expected) in [
            ("A", "reqenv('A')"),
            ("!A", "!reqenv('A')"),
            ("A=b c", "reqenv('A')='b c'"),
            ("!A=b", "reqenv('A')!='b'"),
            ("%{HTTP_HOST} == 'a'", "%{HTTP_HOST} == 'a'"),
            ("-n %{A}", "-n %{A}"),
        ] {
            let found = condition(text.as_bytes());
            assert_eq!(String::from_utf8(found).unwrap(), expected, "{text}");
        }
    }
}
