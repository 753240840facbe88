//! PROPPATCH (RFC 4918 section 9.2).
//!
//! Called by: the handler, in a job.
//! Caveat: all instructions are carried out or none; they are applied in memory and written once.
//! Out of scope: properties of lock-null resources, which have no place.

use crate::{
    live_properties::{is_executable, is_protected},
    multistatus::{Multistatus, PropStat},
    operation::{Failure, Operation, Outcome},
    reply::Reply,
    resource::Resource,
    xml::{self, Element, Node},
};
use rustix::fs::{Mode, fchmod};
use saker_files::Kind;
use saker_http::Status;
use std::io;

/// Instructions of a request.
const CHANGES_MAX: usize = 1000;

/// An instruction of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Set(Element),
    Remove(Element),
}

impl Change {
    fn property(&self) -> &Element {
        let (Change::Set(property) | Change::Remove(property)) = self;
        property
    }
}

/// Reads the request's content.
///
/// # Errors
/// 400 if it is not understood or has too many instructions.
pub fn changes(content: &[u8]) -> Result<Vec<Change>, Status> {
    let root = xml::parse(content).map_err(|_| Status::BAD_REQUEST)?;
    if !root.is_dav("propertyupdate") {
        return Err(Status::BAD_REQUEST);
    }
    let mut changes = Vec::new();
    for instruction in root.elements() {
        let is_set = instruction.is_dav("set");
        if !is_set && !instruction.is_dav("remove") {
            continue;
        }
        let properties = instruction.child("prop").ok_or(Status::BAD_REQUEST)?;
        // RFC 4918 section 4.3: `xml:lang` in scope belongs to the property.
        let language = language(properties).or_else(|| language(instruction));
        for property in properties.elements() {
            if changes.len() >= CHANGES_MAX {
                return Err(Status::BAD_REQUEST);
            }
            let mut property = property.clone();
            if let Some(language) = language.filter(|_| self::language(&property).is_none()) {
                property.attributes.push(language.clone());
            }
            changes.push(match is_set {
                true => Change::Set(property),
                false => Change::Remove(property),
            });
        }
    }
    Ok(changes)
}

fn language(element: &Element) -> Option<&(String, String, String)> {
    let is_language = |attribute: &&(String, String, String)| {
        attribute.0.ends_with("/XML/1998/namespace") && attribute.1 == "lang"
    };
    element.attributes.iter().find(is_language)
}

/// Carries the request out.
///
/// # Errors
/// 404, 412, 423, 403; 500 and 507 if nothing could be stored.
pub fn run(operation: &Operation, resource: &Resource, changes: &[Change]) -> Outcome {
    let Some(found) = &resource.found else {
        return Err(Status::NOT_FOUND.into());
    };
    operation.check_name(resource)?;
    let locks = operation.locks()?;
    operation.check_if(&locks, resource)?;
    operation.check_write(&locks, resource)?;
    let is_file = found.metadata.kind == Kind::File;
    if changes
        .iter()
        .any(|change| refusal(change, is_file).is_some())
    {
        return Ok(refused(resource, changes, is_file));
    }
    let store = resource.properties().ok_or(Status::CONFLICT)?;
    let failed = |error: io::Error| Failure::of_file(&resource.path, &error);
    let mut properties = store.read().map_err(failed)?;
    let before = properties.clone();
    let mut mode = found.metadata.mode;
    for change in changes {
        let property = change.property();
        if is_executable(property) {
            let executes = matches!(change, Change::Set(_)) && property.text().trim() == "T";
            mode = if executes {
                mode | 0o100
            } else {
                mode & !0o111
            };
            continue;
        }
        properties.retain(|own| own.namespace != property.namespace || own.name != property.name);
        if let Change::Set(property) = change {
            properties.push(property.clone());
        }
    }
    if properties != before {
        store.write(&properties).map_err(failed)?;
    }
    if mode != found.metadata.mode {
        set_mode(resource, mode).map_err(failed)?;
    }
    Ok(done(resource, changes))
}

fn set_mode(resource: &Resource, mode: u32) -> io::Result<()> {
    // The file that was found, whatever has its name by now.
    match &resource.found {
        Some(found) if !found.is_link => Ok(fchmod(&found.file, Mode::from(mode & 0o777))?),
        _ => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Reason why an instruction can't be carried out.
fn refusal(change: &Change, is_file: bool) -> Option<&'static str> {
    let property = change.property();
    if is_protected(property) || is_executable(property) && matches!(change, Change::Remove(_)) {
        return Some("Property is read-only.");
    }
    if !is_executable(property) {
        return None;
    }
    let is_flag = matches!(property.text().trim(), "T" | "F");
    (!is_flag || !is_file).then_some("The property is T or F, and files only have it.")
}

fn names<'c>(changes: impl Iterator<Item = &'c Change>) -> String {
    let mut out = String::new();
    for change in changes {
        let name = Element {
            children: Vec::<Node>::new(),
            attributes: Vec::new(),
            ..change.property().clone()
        };
        name.write(&mut out);
        out.push('\n');
    }
    out
}

fn done(resource: &Resource, changes: &[Change]) -> Reply {
    let part = PropStat {
        status: Status::OK,
        properties: names(changes.iter()),
        description: "",
    };
    multistatus(resource, &[part])
}

fn refused(resource: &Resource, changes: &[Change], is_file: bool) -> Reply {
    let parts: Vec<PropStat> = changes
        .iter()
        .map(|change| {
            let why = refusal(change, is_file);
            PropStat {
                status: match why {
                    Some(_) => Status::CONFLICT,
                    None => Status::FAILED_DEPENDENCY,
                },
                properties: names(std::iter::once(change)),
                description: why
                    .unwrap_or("The other instructions of the request could not be carried out."),
            }
        })
        .collect();
    multistatus(resource, &parts)
}

fn multistatus(resource: &Resource, parts: &[PropStat]) -> Reply {
    let mut found = Multistatus::new();
    found.add_properties(&resource.url, "", parts);
    Reply::xml(Status(207), found.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_read_in_order() {
        let text = "<D:propertyupdate xmlns:D='DAV:' xmlns:u='u:'><D:set xml:lang='de'><D:prop>\
            <u:a>1</u:a><u:b xml:lang='en'/></D:prop></D:set><D:other/><D:remove><D:prop><u:a/>\
            </D:prop></D:remove></D:propertyupdate>";
        let changes = changes(text.as_bytes()).unwrap();
        let shown: Vec<String> = changes
            .iter()
            .map(|change| {
                let mut out = String::new();
                change.property().write(&mut out);
                out
            })
            .collect();
        assert_eq!(
            shown,
            [
                "<ns0:a xmlns:ns0=\"u:\" xml:lang=\"de\">1</ns0:a>",
                "<ns0:b xmlns:ns0=\"u:\" xml:lang=\"en\"/>",
                "<ns0:a xmlns:ns0=\"u:\"/>",
            ]
        );
        assert!(matches!(changes.last(), Some(Change::Remove(_))));
    }

    #[test]
    fn instructions_have_a_limit() {
        let of = |count: usize| {
            let properties = "<a/>".repeat(count);
            let text = format!(
                "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop>{properties}</D:prop></D:set>\
                 </D:propertyupdate>"
            );
            changes(text.as_bytes()).map(|changes| changes.len())
        };
        assert_eq!(of(CHANGES_MAX), Ok(CHANGES_MAX));
        assert_eq!(of(CHANGES_MAX + 1), Err(Status::BAD_REQUEST));
    }

    #[test]
    fn other_content_is_refused() {
        for text in [
            "",
            "<x/>",
            "<propertyupdate/>",
            "<D:propertyupdate xmlns:D='DAV:'><D:set/></D:propertyupdate>",
        ] {
            assert_eq!(changes(text.as_bytes()), Err(Status::BAD_REQUEST), "{text}");
        }
    }
}
