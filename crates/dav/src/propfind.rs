//! PROPFIND (RFC 4918 section 9.1).
//!
//! Called by: the handler, in a job.
//! Caveat: links below a collection are left out, and so are members that clients are not shown;
//! a lock-null resource is shown in its collection.
//! Out of scope: access rules of members, which `members` asks before a whole tree is listed.

use crate::{
    dead_properties::PropertyStore,
    depth::Depth,
    live_properties::{self, Subject},
    locks::{Locks, is_below},
    multistatus::{Multistatus, PropStat},
    names,
    operation::{Failure, Operation, Outcome},
    reply::Reply,
    resource::Resource,
    tree::{ENTRIES_MAX, joined},
    xml::{self, Element},
};
use saker_files::{Kind, Metadata, edit};
use saker_http::Status;
use saker_net::jobs::Cancel;
use saker_static_files::{entity_tag, names::is_hidden_name};
use saker_telemetry::{error_log, message};
use std::{collections::HashSet, fs::File, io};

/// Collections inside of each other.
const DEPTH_MAX: usize = 100;
/// Properties that are asked for by name.
const NAMES_MAX: usize = 1000;

/// The properties that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    All,
    Names,
    These(Vec<Element>),
}

/// A request.
pub struct Asked<'a> {
    pub depth: Depth,
    pub wanted: &'a Wanted,
    /// URLs of collections that the client may not see inside of.
    pub refused: &'a [Vec<u8>],
}

/// Reads the request's content; none asks for all properties. Repeated names count once.
///
/// # Errors
/// 400 if it is not understood or has too many names.
pub fn wanted(content: &[u8]) -> Result<Wanted, Status> {
    if content.is_empty() {
        return Ok(Wanted::All);
    }
    let root = xml::parse(content).map_err(|_| Status::BAD_REQUEST)?;
    if !root.is_dav("propfind") {
        return Err(Status::BAD_REQUEST);
    }
    if root.child("allprop").is_some() {
        return Ok(Wanted::All);
    }
    if root.child("propname").is_some() {
        return Ok(Wanted::Names);
    }
    let properties = root.child("prop").ok_or(Status::BAD_REQUEST)?;
    let mut known = HashSet::new();
    let names: Vec<Element> = properties
        .elements()
        .filter(|element| known.insert((element.namespace.as_str(), element.name.as_str())))
        .map(|element| Element {
            namespace: element.namespace.clone(),
            name: element.name.clone(),
            ..Element::default()
        })
        .collect();
    match names.len() > NAMES_MAX {
        true => Err(Status::BAD_REQUEST),
        false => Ok(Wanted::These(names)),
    }
}

/// Carries the request out.
///
/// # Errors
/// 404; 507 if the response is too long; 500 for damaged stores.
pub fn run(
    operation: &Operation,
    resource: &Resource,
    asked: &Asked<'_>,
    cancel: &Cancel,
) -> Outcome {
    let depth = asked.depth;
    let locks = operation.locks()?;
    if resource.found.is_none() && !locks.has_own(&resource.path) {
        return Err(Status::NOT_FOUND.into());
    }
    let mut finder = Finder {
        operation,
        locks,
        wanted: asked.wanted,
        refused: asked.refused,
        cancel,
        found: Multistatus::new(),
    };
    let store = resource.properties();
    let metadata = resource.found.as_ref().map(|found| found.metadata);
    finder.add(&resource.url, &resource.path, metadata, store)?;
    if let Some(directory) = resource.collection().filter(|_| depth != Depth::Zero) {
        finder.members(directory, (&resource.url, &resource.path), (depth, 0))?;
    }
    Ok(Reply::xml(Status(207), finder.found.finish()))
}

struct Finder<'o> {
    operation: &'o Operation,
    locks: Locks,
    wanted: &'o Wanted,
    refused: &'o [Vec<u8>],
    cancel: &'o Cancel,
    found: Multistatus,
}

impl Finder<'_> {
    fn members(
        &mut self,
        directory: &File,
        (url, path): (&[u8], &[u8]),
        (depth, level): (Depth, usize),
    ) -> Result<(), Failure> {
        let failed = |error: &io::Error| Failure::of_file(path, error);
        let names = edit::entry_names(directory, ENTRIES_MAX).map_err(|error| failed(&error))?;
        let mut names = names.ok_or(Status::INSUFFICIENT_STORAGE)?;
        names.sort_unstable();
        for name in names {
            self.cancel.check().map_err(|error| failed(&error))?;
            if self.found.is_too_long() {
                return Err(Status::INSUFFICIENT_STORAGE.into());
            }
            if names::is_reserved(&name) || self.is_hidden(&name) {
                continue;
            }
            let Ok(Some(entry)) = edit::stat_entry(directory, &name) else {
                continue;
            };
            let member_path = joined(path, &name);
            let mut member_url = joined(url, &name);
            match entry.metadata.kind {
                Kind::File => {
                    let store = PropertyStore::of_member(directory, &name);
                    self.add(&member_url, &member_path, Some(entry.metadata), Some(store))?;
                }
                Kind::Directory => {
                    member_url.push(b'/');
                    if self.refused.contains(&member_url) {
                        self.found.add_status(&member_url, Status::FORBIDDEN);
                        continue;
                    }
                    let inner = edit::enter_directory(directory, &name).ok();
                    let store = inner.as_ref().map(PropertyStore::of_collection);
                    self.add(&member_url, &member_path, Some(entry.metadata), store)?;
                    if let Some(inner) = inner.filter(|_| depth == Depth::Infinity) {
                        if level >= DEPTH_MAX {
                            return Err(Status::INSUFFICIENT_STORAGE.into());
                        }
                        self.members(&inner, (&member_url, &member_path), (depth, level + 1))?;
                    }
                }
                // Links, and what is no content.
                Kind::Other => {}
            }
        }
        self.lock_null_members(directory, url, path)
    }

    fn is_hidden(&self, name: &[u8]) -> bool {
        !self.operation.settings.files.hidden && is_hidden_name(name)
    }

    /// Adds names that are locked and have no file.
    fn lock_null_members(
        &mut self,
        directory: &File,
        url: &[u8],
        path: &[u8],
    ) -> Result<(), Failure> {
        let mut names: Vec<Vec<u8>> = self
            .locks
            .0
            .iter()
            .filter(|lock| is_below(&lock.path, path))
            .filter_map(|lock| {
                let rest = lock.path.get(path.len()..)?;
                let name = rest.strip_prefix(b"/").unwrap_or(rest);
                (!name.contains(&b'/')).then(|| name.to_vec())
            })
            .filter(|name| matches!(edit::stat_entry(directory, name), Ok(None)))
            .collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            self.cancel
                .check()
                .map_err(|error| Failure::of_file(path, &error))?;
            if self.found.is_too_long() {
                return Err(Status::INSUFFICIENT_STORAGE.into());
            }
            self.add(&joined(url, &name), &joined(path, &name), None, None)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        url: &[u8],
        path: &[u8],
        metadata: Option<Metadata>,
        store: Option<PropertyStore<'_>>,
    ) -> Result<(), Failure> {
        let operation = self.operation;
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let subject = Subject {
            metadata,
            path,
            locks: &self.locks,
            shows_locks: operation.webdav.lock_discovery,
            now_s: operation.now_s,
            content_type: operation.content_type(name, metadata.map(|metadata| metadata.kind)),
            entity_tag: metadata
                .and_then(|metadata| entity_tag(&operation.settings, &metadata, operation.now_s)),
        };
        let dead = match store {
            Some(store) => kept(&store, path)?,
            None => Vec::new(),
        };
        let (declarations, parts) = found(self.wanted, &subject, &dead);
        self.found.add_properties(url, &declarations, &parts);
        match self.found.is_too_long() {
            true => Err(Status::INSUFFICIENT_STORAGE.into()),
            false => Ok(()),
        }
    }
}

/// Reads a store. One that is damaged is logged and has no properties: it must not hide its
/// collection.
fn kept(store: &PropertyStore<'_>, path: &[u8]) -> Result<Vec<Element>, Failure> {
    match store.read() {
        Ok(properties) => Ok(properties),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let shown = String::from_utf8_lossy(path);
            error_log::log(
                &message::WEBDAV_FILE_FAILED,
                format_args!("{shown}: its properties are damaged: {error}"),
            );
            Ok(Vec::new())
        }
        Err(error) => Err(Failure::of_file(path, &error)),
    }
}

/// The properties of a resource that were asked for, and the declarations of their prefixes.
fn found(wanted: &Wanted, subject: &Subject<'_>, dead: &[Element]) -> (String, Vec<PropStat>) {
    let (mut text, mut missing, mut unknown) = (String::new(), String::new(), Vec::new());
    match wanted {
        Wanted::All => {
            dead.iter()
                .for_each(|property| write_line(property, &mut text));
            live_properties::write_all(subject, false, &mut text);
        }
        Wanted::Names => {
            for property in dead {
                let name = Element {
                    children: Vec::new(),
                    attributes: Vec::new(),
                    ..property.clone()
                };
                write_line(&name, &mut text);
            }
            live_properties::write_all(subject, true, &mut text);
        }
        Wanted::These(names) => {
            for name in names {
                let is_it =
                    |own: &&Element| own.namespace == name.namespace && own.name == name.name;
                if live_properties::write_one(subject, name, &mut text) {
                    continue;
                }
                match dead.iter().find(is_it) {
                    Some(property) => write_line(property, &mut text),
                    None => write_missing(name, &mut unknown, &mut missing),
                }
            }
        }
    }
    let mut declarations = live_properties::declarations(&text);
    for (at, namespace) in unknown.iter().enumerate() {
        declarations.push_str(&format!(" xmlns:g{at}=\"{}\"", xml::escaped(namespace)));
    }
    let part = |status, properties| PropStat {
        status,
        properties,
        description: "",
    };
    let mut parts = Vec::new();
    if !text.is_empty() || missing.is_empty() {
        parts.push(part(Status::OK, text));
    }
    if !missing.is_empty() {
        parts.push(part(Status::NOT_FOUND, missing));
    }
    (declarations, parts)
}

fn write_line(property: &Element, out: &mut String) {
    property.write(out);
    out.push('\n');
}

/// Appends the name of a property that the resource does not have.
fn write_missing(name: &Element, namespaces: &mut Vec<String>, out: &mut String) {
    if name.namespace.is_empty() {
        return out.push_str(&format!("<{}/>\n", name.name));
    }
    let known = namespaces.iter().position(|known| *known == name.namespace);
    let at = known.unwrap_or_else(|| {
        namespaces.push(name.namespace.clone());
        namespaces.len() - 1
    });
    out.push_str(&format!("<g{at}:{}/>\n", name.name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_says_what_is_wanted() {
        assert_eq!(wanted(b""), Ok(Wanted::All));
        let of = |inner: &str| {
            wanted(format!("<p:propfind xmlns:p='DAV:'>{inner}</p:propfind>").as_bytes())
        };
        assert_eq!(of("<p:allprop/>"), Ok(Wanted::All));
        assert_eq!(of("<p:propname/>"), Ok(Wanted::Names));
        let Ok(Wanted::These(names)) = of("<p:prop><a xmlns='u:'>text</a><b/></p:prop>") else {
            panic!("no names");
        };
        let names: Vec<_> = names
            .iter()
            .map(|name| (name.namespace.as_str(), name.name.as_str()))
            .collect();
        assert_eq!(names, [("u:", "a"), ("", "b")]);
        assert_eq!(of(""), Err(Status::BAD_REQUEST));
        assert_eq!(wanted(b"<propfind/>"), Err(Status::BAD_REQUEST));
        assert_eq!(wanted(b"<"), Err(Status::BAD_REQUEST));
    }

    #[test]
    fn names_count_once_and_have_a_limit() {
        let of = |inner: &str| {
            wanted(format!("<p:propfind xmlns:p='DAV:'>{inner}</p:propfind>").as_bytes())
        };
        let repeated = of(&format!(
            "<p:prop>{}<b xmlns='u:'/></p:prop>",
            "<b/>".repeat(2000)
        ));
        assert!(matches!(repeated, Ok(Wanted::These(names)) if names.len() == 2));
        let many = |count: usize| -> String { (0..count).map(|at| format!("<a{at}/>")).collect() };
        assert!(of(&format!("<p:prop>{}</p:prop>", many(NAMES_MAX))).is_ok());
        assert_eq!(
            of(&format!("<p:prop>{}</p:prop>", many(NAMES_MAX + 1))),
            Err(Status::BAD_REQUEST)
        );
    }

    #[test]
    fn damaged_properties_hide_nothing() {
        let dir = saker_testkit::TempDir::new("propfind-damage").unwrap();
        std::fs::create_dir(dir.join(".DAV")).unwrap();
        std::fs::write(dir.join(".DAV/a.saker"), "<").unwrap();
        let folder = File::open(&*dir).unwrap();
        let store = PropertyStore::of_member(&folder, b"a");
        assert!(store.read().is_err());
        assert!(kept(&store, b"/srv/a").unwrap().is_empty());
    }
}
