//! XML of requests as a small tree, and text for responses.
//!
//! Called by: the methods that have XML content (PROPFIND, PROPPATCH, LOCK), and the stores of
//! properties and locks, which keep what clients sent.
//! Caveat: document types are refused, so there are no entities but the five of XML itself; depth
//! and the number of nodes are bounded.
//! Out of scope: encodings other than UTF-8, comments, and processing instructions, which are not
//! kept.

use quick_xml::{
    NsReader,
    escape::resolve_predefined_entity,
    events::{BytesStart, Event},
    name::ResolveResult,
};
use std::collections::HashMap;

/// The namespace of WebDAV (RFC 4918 section 14).
pub const DAV: &str = "DAV:";
/// The namespace of `xml:lang`.
const XML: &str = "http://www.w3.org/XML/1998/namespace";

/// Elements inside of each other.
const DEPTH_MAX: usize = 64;
/// Elements, attributes, and pieces of text of a document.
const NODES_MAX: usize = 20_000;
/// Attributes of an element, declarations of prefixes included.
const ATTRIBUTES_MAX: usize = 64;
/// Every element has a copy of its namespace.
const NAMESPACE_BYTES_MAX: usize = 512;

/// Numbers of prefixes by their namespaces: a document may have as many as it has elements.
type Prefixes<'e> = HashMap<&'e str, usize>;

/// An element with its namespace resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Empty: no namespace.
    pub namespace: String,
    pub name: String,
    /// Namespace, local name, and value.
    pub attributes: Vec<(String, String, String)>,
    pub children: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Element(Element),
    Text(String),
}

/// Reason why a document is refused. The client gets 400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlError(pub String);

impl Element {
    /// True if the element is the one of that name in the namespace of WebDAV.
    pub fn is_dav(&self, name: &str) -> bool {
        self.namespace == DAV && self.name == name
    }

    pub fn elements(&self) -> impl Iterator<Item = &Element> {
        self.children.iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// Returns the first child element of that name in the namespace of WebDAV.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.elements().find(|element| element.is_dav(name))
    }

    /// Returns the element's own text, without that of its children.
    pub fn text(&self) -> String {
        let texts = self.children.iter().map(|node| match node {
            Node::Text(text) => text.as_str(),
            Node::Element(_) => "",
        });
        texts.collect()
    }

    /// Appends the element as XML that declares its own namespaces.
    pub fn write(&self, out: &mut String) {
        let mut prefixes = Prefixes::new();
        let mut declarations = String::new();
        self.declare_namespaces(&mut prefixes, &mut declarations);
        self.write_with(&prefixes, &declarations, out);
    }

    /// Gives each namespace of the element and its children a prefix, and declares it.
    fn declare_namespaces<'e>(&'e self, into: &mut Prefixes<'e>, declarations: &mut String) {
        let own = std::iter::once(&self.namespace);
        let of_attributes = self.attributes.iter().map(|(namespace, ..)| namespace);
        for namespace in own.chain(of_attributes) {
            let at = into.len();
            if namespace.is_empty() || namespace == XML || into.contains_key(namespace.as_str()) {
                continue;
            }
            into.insert(namespace, at);
            declarations.push_str(&format!(" xmlns:ns{at}=\"{}\"", escaped(namespace)));
        }
        self.elements()
            .for_each(|element| element.declare_namespaces(into, declarations));
    }

    fn write_with(&self, prefixes: &Prefixes<'_>, declarations: &str, out: &mut String) {
        let name = qualified(prefixes, &self.namespace, &self.name);
        out.push('<');
        out.push_str(&name);
        out.push_str(declarations);
        for (namespace, attribute, value) in &self.attributes {
            out.push(' ');
            out.push_str(&qualified(prefixes, namespace, attribute));
            out.push_str("=\"");
            out.push_str(&escaped(value));
            out.push('"');
        }
        if self.children.is_empty() {
            return out.push_str("/>");
        }
        out.push('>');
        for child in &self.children {
            match child {
                Node::Element(element) => element.write_with(prefixes, "", out),
                Node::Text(text) => out.push_str(&escaped(text)),
            }
        }
        out.push_str("</");
        out.push_str(&name);
        out.push('>');
    }
}

fn qualified(prefixes: &Prefixes<'_>, namespace: &str, name: &str) -> String {
    if namespace == XML {
        return format!("xml:{name}");
    }
    match prefixes.get(namespace) {
        Some(at) => format!("ns{at}:{name}"),
        None => name.to_owned(),
    }
}

/// Text for content and attribute values. Control characters that XML 1.0 does not have become
/// spaces.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\r' => out.push_str("&#13;"),
            '\n' | '\t' => out.push(character),
            control if control < ' ' => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// Reads a document.
///
/// # Errors
/// The reason why it is refused.
pub fn parse(text: &[u8]) -> Result<Element, XmlError> {
    let text = std::str::from_utf8(text).map_err(|_| fault("it is not UTF-8"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = NsReader::from_str(text);
    reader.config_mut().check_end_names = true;
    let mut tree = Tree::default();
    loop {
        let event = reader.read_event().map_err(fault)?;
        match event {
            Event::Start(start) => {
                let element = element(&reader, &start, &mut tree.nodes)?;
                tree.open(element)?;
            }
            Event::Empty(start) => {
                let element = element(&reader, &start, &mut tree.nodes)?;
                tree.open(element)?;
                tree.close()?;
            }
            Event::End(_) => tree.close()?,
            Event::Text(text) => tree.text(&text.decode().map_err(fault)?)?,
            Event::CData(text) => tree.text(&text.decode().map_err(fault)?)?,
            Event::GeneralRef(reference) => {
                let character = reference.resolve_char_ref().map_err(fault)?;
                let name = reference.decode().map_err(fault)?;
                match (character, resolve_predefined_entity(&name)) {
                    (Some(character), _) => tree.text(character.encode_utf8(&mut [0; 4]))?,
                    (None, Some(text)) => tree.text(text)?,
                    (None, None) => return Err(fault("an entity is not declared")),
                }
            }
            Event::DocType(_) => return Err(fault("document types are refused")),
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
            Event::Eof => return tree.finish(),
        }
    }
}

fn fault(why: impl ToString) -> XmlError {
    XmlError(why.to_string())
}

/// The element of a start tag.
fn element(
    reader: &NsReader<&[u8]>,
    start: &BytesStart<'_>,
    nodes: &mut usize,
) -> Result<Element, XmlError> {
    let (namespace, local) = reader.resolve_element(start.name());
    let mut element = Element {
        namespace: bound(namespace)?,
        name: local_name(local.as_ref())?,
        ..Element::default()
    };
    for (at, attribute) in start.attributes().enumerate() {
        // quick_xml compares each attribute with those before it, and so does the check below.
        if at >= ATTRIBUTES_MAX {
            return Err(fault("an element has too many attributes"));
        }
        let attribute = attribute.map_err(fault)?;
        *nodes += 1;
        let is_declaration = attribute.key.as_namespace_binding().is_some();
        if is_declaration {
            continue;
        }
        let (namespace, local) = reader.resolve_attribute(attribute.key);
        let (namespace, name) = (bound(namespace)?, local_name(local.as_ref())?);
        // Namespaces in XML 1.0 section 6.3: two prefixes may stand for one namespace.
        let mut others = element.attributes.iter();
        if others.any(|other| other.0 == namespace && other.1 == name) {
            return Err(fault("an attribute is repeated"));
        }
        let value = attribute.unescape_value().map_err(fault)?;
        element
            .attributes
            .push((namespace, name, value.into_owned()));
    }
    Ok(element)
}

fn bound(namespace: ResolveResult<'_>) -> Result<String, XmlError> {
    match namespace {
        ResolveResult::Bound(namespace) if namespace.as_ref().len() > NAMESPACE_BYTES_MAX => {
            Err(fault("a namespace is too long"))
        }
        ResolveResult::Bound(namespace) => utf8(namespace.as_ref()),
        ResolveResult::Unbound => Ok(String::new()),
        ResolveResult::Unknown(_) => Err(fault("a namespace prefix is not declared")),
    }
}

/// A name without its prefix (Namespaces in XML 1.0 section 4, somewhat wider for characters beyond
/// ASCII). Names are written as they came, so nothing else may be in them.
fn local_name(bytes: &[u8]) -> Result<String, XmlError> {
    let name = utf8(bytes)?;
    let mut characters = name.chars();
    let is_valid = characters.next().is_some_and(begins_name) && characters.all(continues_name);
    match is_valid {
        true => Ok(name),
        false => Err(fault("a name is not valid")),
    }
}

fn begins_name(character: char) -> bool {
    character.is_alphabetic() || character == '_'
}

fn continues_name(character: char) -> bool {
    match character.is_ascii() {
        true => character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.'),
        false => {
            let is_separator = character.is_control() || character.is_whitespace();
            !is_separator && !matches!(character, '\u{fffe}' | '\u{ffff}')
        }
    }
}

fn utf8(bytes: &[u8]) -> Result<String, XmlError> {
    let text = std::str::from_utf8(bytes).map_err(|_| fault("it is not UTF-8"))?;
    Ok(text.to_owned())
}

/// The elements that are open, and the finished root.
#[derive(Default)]
struct Tree {
    open: Vec<Element>,
    root: Option<Element>,
    nodes: usize,
}

impl Tree {
    fn count(&mut self) -> Result<(), XmlError> {
        self.nodes += 1;
        match self.nodes > NODES_MAX {
            true => Err(fault("it has too many elements")),
            false => Ok(()),
        }
    }

    fn open(&mut self, element: Element) -> Result<(), XmlError> {
        self.count()?;
        if self.open.len() >= DEPTH_MAX {
            return Err(fault("its elements are nested too deep"));
        }
        if self.open.is_empty() && self.root.is_some() {
            return Err(fault("it has more than one root element"));
        }
        self.open.push(element);
        Ok(())
    }

    fn close(&mut self) -> Result<(), XmlError> {
        let Some(element) = self.open.pop() else {
            return Err(fault("an end tag has no start tag"));
        };
        match self.open.last_mut() {
            Some(parent) => parent.children.push(Node::Element(element)),
            None => self.root = Some(element),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), XmlError> {
        self.count()?;
        let Some(parent) = self.open.last_mut() else {
            return match text.trim().is_empty() {
                true => Ok(()),
                false => Err(fault("text stands outside of the root element")),
            };
        };
        match parent.children.last_mut() {
            Some(Node::Text(before)) => before.push_str(text),
            _ => parent.children.push(Node::Text(text.to_owned())),
        }
        Ok(())
    }

    fn finish(self) -> Result<Element, XmlError> {
        match self.root {
            Some(root) if self.open.is_empty() => Ok(root),
            _ => Err(fault("it ends early")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round(text: &str) -> String {
        let mut out = String::new();
        parse(text.as_bytes()).unwrap().write(&mut out);
        out
    }

    #[test]
    fn namespaces_are_kept_under_other_prefixes() {
        let cases = [
            ("<a/>", "<a/>"),
            (
                "<D:a xmlns:D=\"DAV:\">1 &lt; &#50;<![CDATA[<&]]></D:a>",
                "<ns0:a xmlns:ns0=\"DAV:\">1 &lt; 2&lt;&amp;</ns0:a>",
            ),
            (
                "<a xmlns=\"u:\" b=\"&quot;\" xml:lang=\"de\"><b xmlns=\"\"/><x:c xmlns:x=\"v:\" x:y='z'/></a>",
                "<ns0:a xmlns:ns0=\"u:\" xmlns:ns1=\"v:\" b=\"&quot;\" xml:lang=\"de\"><b/><ns1:c ns1:y=\"z\"/></ns0:a>",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(round(text), expected);
            assert_eq!(parse(expected.as_bytes()), parse(text.as_bytes()));
        }
    }

    #[test]
    fn what_is_no_document_is_refused() {
        let deep = "<a>".repeat(DEPTH_MAX + 1) + &"</a>".repeat(DEPTH_MAX + 1);
        let many = format!("<a>{}</a>", "<b/>".repeat(NODES_MAX));
        let bomb = "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>";
        let file = "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>";
        for text in [
            "",
            "<a>",
            "</a>",
            "<a></b>",
            "<a/><b/>",
            "text",
            "<a/>text",
            "<x:a/>",
            "<a>&b;</a>",
            "<a b=c/>",
            "<a b=\"1\" b=\"2\"/>",
            &deep,
            &many,
            bomb,
            file,
            "\u{0}",
        ] {
            assert!(
                parse(text.as_bytes()).is_err(),
                "{}",
                &text[..text.len().min(60)]
            );
        }
        assert!(parse(b"<a>\xff</a>").is_err());
        let deep = "<a>".repeat(DEPTH_MAX) + &"</a>".repeat(DEPTH_MAX);
        assert!(parse(deep.as_bytes()).is_ok());
    }

    #[test]
    fn namespaces_are_many() {
        let of = |range: std::ops::Range<usize>| -> String {
            let element = |at| format!("<x xmlns='u:{at}'/>");
            range.map(element).collect()
        };
        // Two of each: the second one gets the prefix of the first.
        let text = format!("<a>{}{}</a>", of(0..4000), of(0..4000));
        let written = round(&text);
        assert_eq!(written.matches(" xmlns:ns").count(), 4000);
        assert!(written.contains("<ns3999:x/><ns0:x/>"), "in their order");
    }

    #[test]
    fn elements_have_limits() {
        let with_namespace = |bytes: usize| format!("<a xmlns='{}'/>", "u".repeat(bytes));
        assert!(parse(with_namespace(NAMESPACE_BYTES_MAX).as_bytes()).is_ok());
        assert!(parse(with_namespace(NAMESPACE_BYTES_MAX + 1).as_bytes()).is_err());
        let with_attributes = |count: usize| {
            let attributes: String = (0..count).map(|at| format!(" a{at}=''")).collect();
            format!("<a{attributes}/>")
        };
        assert!(parse(with_attributes(ATTRIBUTES_MAX).as_bytes()).is_ok());
        assert!(parse(with_attributes(ATTRIBUTES_MAX + 1).as_bytes()).is_err());
    }

    #[test]
    fn names_are_those_of_xml() {
        for name in ["a", "_a-1.b", "\u{e4}\u{b7}", "\u{4e2d}"] {
            assert!(parse(format!("<{name}/>").as_bytes()).is_ok(), "{name}");
            assert!(
                parse(format!("<a {name}=''/>").as_bytes()).is_ok(),
                "{name}"
            );
        }
        for name in [
            "1a",
            "-a",
            ".a",
            "a&lt;",
            "a'b",
            "a<b",
            "a\u{85}b",
            "a\u{ffff}",
            "a:b:c",
        ] {
            assert!(parse(format!("<{name}/>").as_bytes()).is_err(), "{name}");
            assert!(
                parse(format!("<a {name}=''/>").as_bytes()).is_err(),
                "{name}"
            );
        }
        let repeated = "<a xmlns:x='u:' xmlns:y='u:' x:b='1' y:b='2'/>";
        assert!(parse(repeated.as_bytes()).is_err());
        let different = "<a xmlns:x='u:' xmlns:y='v:' x:b='1' y:b='2' b='3'/>";
        assert!(parse(different.as_bytes()).is_ok());
    }

    proptest! {
        #[test]
        fn any_input_is_read_or_refused(text in "[<>a-c/&;:=\"' x!\\[\\]-]{0,80}") {
            if let Ok(read) = parse(text.as_bytes()) {
                let mut out = String::new();
                read.write(&mut out);
                prop_assert_eq!(parse(out.as_bytes()).unwrap(), read);
            }
        }
    }
}
