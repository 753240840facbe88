//! Properties that clients set and the server only keeps (RFC 4918 section 4).
//!
//! Called by: PROPFIND and PROPPATCH; COPY, MOVE, and DELETE, which take them along.
//! Caveat: they lie beside their file, in `.DAV/NAME.saker`, and those of a collection in its own
//! `.DAV/.saker`, so they move with a directory. Each file is replaced whole.
//! Out of scope: properties that the server computes (`live_properties`).

use crate::{
    names::{PROPERTY_DIRECTORY, TEMPORARY_PREFIX},
    xml::{self, Element, Node},
};
use saker_files::{
    edit::{self, ReplacementFile},
    open_entry,
};
use std::{
    fs::File,
    io::{self, Read},
};

/// All properties of a resource together, as XML.
const BYTES_MAX: usize = 1 << 20;
const SUFFIX: &[u8] = b".saker";
const NAMESPACE: &str = "urn:saker:properties";

/// The store of the properties of one resource.
pub struct PropertyStore<'d> {
    /// The directory that has `.DAV`.
    directory: &'d File,
    /// Empty for a collection itself, whose directory is `directory`.
    name: &'d [u8],
}

impl<'d> PropertyStore<'d> {
    /// Returns the store of a file in `directory`.
    pub fn of_member(directory: &'d File, name: &'d [u8]) -> PropertyStore<'d> {
        PropertyStore { directory, name }
    }

    /// Returns the store of a collection.
    pub fn of_collection(directory: &'d File) -> PropertyStore<'d> {
        PropertyStore {
            directory,
            name: b"",
        }
    }

    fn file_name(&self) -> Vec<u8> {
        [self.name, SUFFIX].concat()
    }

    /// Opens `.DAV`; `None`: there is none.
    fn folder(&self) -> io::Result<Option<File>> {
        match edit::enter_directory(self.directory, PROPERTY_DIRECTORY.as_bytes()) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the properties.
    ///
    /// # Errors
    /// Those of reading them; `InvalidData` if the file is damaged.
    pub fn read(&self) -> io::Result<Vec<Element>> {
        let Some(folder) = self.folder()? else {
            return Ok(Vec::new());
        };
        let file = match open_entry(&folder, &self.file_name()) {
            Ok((file, _)) => file,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
        let root = xml::parse(&text)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.0))?;
        let elements = root.children.into_iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        });
        Ok(elements.collect())
    }

    /// Replaces the properties.
    ///
    /// # Errors
    /// Those of writing them; `FileTooLarge` beyond the limit.
    pub fn write(&self, properties: &[Element]) -> io::Result<()> {
        if properties.is_empty() {
            return self.remove();
        }
        // Each property declares its own namespaces: an element has a limit of attributes.
        let mut text = format!("<s:properties xmlns:s=\"{NAMESPACE}\">");
        for property in properties {
            property.write(&mut text);
        }
        text.push_str("</s:properties>");
        // What can't be read again must not be kept.
        if text.len() > BYTES_MAX || xml::parse(text.as_bytes()).is_err() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let folder = self.make_folder()?;
        let mut file = ReplacementFile::begin(&folder, TEMPORARY_PREFIX)?;
        file.write(text.as_bytes())?;
        file.sync()?;
        file.put(&self.file_name())?;
        Ok(())
    }

    fn make_folder(&self) -> io::Result<File> {
        match edit::make_directory(self.directory, PROPERTY_DIRECTORY.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => edit::enter_directory(self.directory, PROPERTY_DIRECTORY.as_bytes()),
        }
    }

    /// Removes the properties, and `.DAV` with the last ones.
    ///
    /// # Errors
    /// Those of removing them.
    pub fn remove(&self) -> io::Result<()> {
        let Some(folder) = self.folder()? else {
            return Ok(());
        };
        match edit::remove_entry(&folder, &self.file_name()) {
            Err(error) if !is_absent(&error) => return Err(error),
            _ => {}
        }
        // Not empty, most of the time.
        let _ = edit::remove_directory(self.directory, PROPERTY_DIRECTORY.as_bytes());
        Ok(())
    }

    /// Gives the properties to another resource, in place of its own.
    ///
    /// # Errors
    /// Those of reading and writing them.
    pub fn copy_to(&self, other: &PropertyStore<'_>) -> io::Result<()> {
        other.write(&self.read()?)
    }
}

fn is_absent(error: &io::Error) -> bool {
    // A name that is too long for its suffix has no properties.
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    fn property(name: &str, text: &str) -> Element {
        Element {
            namespace: "u:".to_owned(),
            name: name.to_owned(),
            attributes: Vec::new(),
            children: vec![Node::Text(text.to_owned())],
        }
    }

    #[test]
    fn properties_are_kept_per_resource() {
        let dir = TempDir::new("dead-properties").unwrap();
        let folder = File::open(&*dir).unwrap();
        let (one, other, all) = (
            PropertyStore::of_member(&folder, b"a"),
            PropertyStore::of_member(&folder, b"b"),
            PropertyStore::of_collection(&folder),
        );
        assert!(one.read().unwrap().is_empty());
        one.write(&[property("x", "1 < 2")]).unwrap();
        all.write(&[property("y", "2")]).unwrap();
        assert_eq!(one.read().unwrap(), [property("x", "1 < 2")]);
        assert!(other.read().unwrap().is_empty());
        one.copy_to(&other).unwrap();
        one.remove().unwrap();
        one.remove().unwrap();
        assert!(one.read().unwrap().is_empty());
        assert_eq!(other.read().unwrap(), [property("x", "1 < 2")]);
        assert_eq!(all.read().unwrap(), [property("y", "2")]);
        other.write(&[]).unwrap();
        all.remove().unwrap();
        assert!(!dir.join(".DAV").exists(), "removed with the last");
    }

    #[test]
    fn many_namespaces_are_kept() {
        let dir = TempDir::new("dead-namespaces").unwrap();
        let folder = File::open(&*dir).unwrap();
        let store = PropertyStore::of_member(&folder, b"a");
        let all: Vec<Element> = (0..200)
            .map(|at| Element {
                namespace: format!("u:{at}"),
                ..property("x", "1")
            })
            .collect();
        store.write(&all).unwrap();
        assert_eq!(store.read().unwrap(), all);
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let dir = TempDir::new("dead-limit").unwrap();
        let folder = File::open(&*dir).unwrap();
        let store = PropertyStore::of_member(&folder, b"a");
        store.write(&[property("x", "1")]).unwrap();
        let long = "l".repeat(BYTES_MAX);
        let error = store.write(&[property("x", &long)]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(store.read().unwrap(), [property("x", "1")]);
        let mut many = property("x", "");
        many.children = vec![Node::Element(property("y", "")); 20_000];
        let error = store.write(&[many]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "too many nodes");
        assert_eq!(store.read().unwrap(), [property("x", "1")]);
        let name = vec![b'n'; 255];
        let long_name = PropertyStore::of_member(&folder, &name);
        assert!(long_name.read().unwrap().is_empty());
        assert!(long_name.write(&[property("x", "1")]).is_err());
    }
}
