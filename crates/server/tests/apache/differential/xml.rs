//! WebDAV's XML in one form: namespaces instead of prefixes, resources in the order of their names.
//!
//! Caveat: what is different for every file and lock (times, entity tags, tokens) is left out, as are
//! explanations for people.

use quick_xml::{NsReader, events::Event, name::ResolveResult};
use std::fmt::Write as _;

/// Elements whose text is not compared.
const CHANGING: &[&str] = &[
    "{DAV:}creationdate",
    "{DAV:}getlastmodified",
    "{DAV:}getetag",
    "{DAV:}timeout",
    "{DAV:}responsedescription",
];

#[derive(Default)]
struct Element {
    name: String,
    text: String,
    children: Vec<Element>,
}

/// The text in its one form; `None`: it is no XML.
pub fn canonical(text: &str) -> Option<String> {
    let mut reader = NsReader::from_str(text);
    let mut open = vec![Element::default()];
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => {
                let (namespace, local) = reader.resolve_element(start.name());
                open.push(Element {
                    name: name(namespace, local.as_ref()),
                    ..Element::default()
                });
            }
            Event::Empty(start) => {
                let (namespace, local) = reader.resolve_element(start.name());
                let name = name(namespace, local.as_ref());
                open.last_mut()?.children.push(Element {
                    name,
                    ..Element::default()
                });
            }
            Event::End(_) => {
                let element = open.pop()?;
                open.last_mut()?.children.push(element);
            }
            Event::Text(text) => open.last_mut()?.text.push_str(&text.decode().ok()?),
            Event::GeneralRef(name) => {
                let name = name.decode().ok()?;
                let _ = write!(open.last_mut()?.text, "&{name};");
            }
            Event::Eof => break,
            _ => {}
        }
    }
    let mut root = open.pop()?.children.pop()?;
    sort(&mut root);
    let mut out = String::new();
    write(&root, 0, &mut out);
    Some(out)
}

fn name(namespace: ResolveResult<'_>, local: &[u8]) -> String {
    let local = String::from_utf8_lossy(local);
    match namespace {
        ResolveResult::Bound(namespace) => {
            format!("{{{}}}{local}", String::from_utf8_lossy(namespace.as_ref()))
        }
        _ => local.into_owned(),
    }
}

/// Resources by their names, and properties by theirs.
fn sort(element: &mut Element) {
    element.children.iter_mut().for_each(sort);
    if matches!(element.name.as_str(), "{DAV:}multistatus" | "{DAV:}prop") {
        element.children.sort_by_key(|child| {
            let mut text = String::new();
            write(child, 0, &mut text);
            text
        });
    }
}

fn write(element: &Element, depth: usize, out: &mut String) {
    let is_token = element.text.contains("opaquelocktoken:");
    // Apache calls codes that it does not know "(status)".
    let status = element.text.trim();
    let text = match element.name.as_str() {
        "{DAV:}status" => status.get(..12).unwrap_or(status),
        name if CHANGING.contains(&name) || is_token => "",
        _ => status,
    };
    let _ = writeln!(out, "{}{} {text}", " ".repeat(depth), element.name);
    for child in &element.children {
        write(child, depth + 1, out);
    }
}
