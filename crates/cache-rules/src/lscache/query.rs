//! `CacheKeyModify` (LSCache protocol 4.2): query parameters that are left out of keys.
//!
//! Called by: the configuration, when sections merge, and the page cache, for every key. The
//! application still gets the whole query.
//! Caveat: names are compared as written, without decoding.
//! Out of scope: No-Vary-Search.

use saker_http::query::{Parameter, parameters};

/// Parameters to leave out, in the configured order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyEdits {
    removed: Vec<Removed>,
    removed_from_path: Vec<Removed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Removed {
    Name(Vec<u8>),
    Prefix(Vec<u8>),
}

/// The argument is not `-qs:name`, `-qs:prefix*` or `clear`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownEdit;

impl KeyEdits {
    /// Adds an argument after the inherited ones. One argument may contain several, separated by
    /// white space or commas.
    pub fn add(&mut self, argument: &[u8]) -> Result<(), UnknownEdit> {
        for word in argument
            .split(|byte| *byte == b',' || byte.is_ascii_whitespace())
            .filter(|word| !word.is_empty())
        {
            if word.eq_ignore_ascii_case(b"clear") {
                self.removed.clear();
                continue;
            }
            let name = super::tags::strip_prefix(word, b"-qs:")
                .filter(|name| !name.is_empty())
                .ok_or(UnknownEdit)?;
            self.remove(name);
        }
        Ok(())
    }

    /// Leaves out a parameter, or with `*` at its end all with that prefix.
    pub fn remove(&mut self, name: &[u8]) {
        self.removed.push(Removed::new(name));
    }

    /// Leaves out `;name=value` at the end of paths, as [`remove`](Self::remove) does in queries.
    pub fn remove_from_path(&mut self, name: &[u8]) {
        self.removed_from_path.push(Removed::new(name));
    }

    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.removed_from_path.is_empty()
    }

    /// The query of the key; `None` if nothing remains. The rest stays as it is, in its order.
    pub fn edited(&self, query: Option<&[u8]>) -> Option<Vec<u8>> {
        let query = query?;
        if self.removed.is_empty() {
            return Some(query.to_vec());
        }
        let kept: Vec<&[u8]> = parameters(query)
            .filter(|parameter| !removes(&self.removed, *parameter))
            .map(|parameter| parameter.text)
            .collect();
        let edited = kept.join(&b"&"[..]);
        (!edited.is_empty()).then_some(edited)
    }

    /// The path of the key, without a trailing `;name=value` that is left out, as
    /// `CacheIgnoreURLSessionIdentifiers` does.
    pub fn edited_path<'a>(&self, path: &'a [u8]) -> &'a [u8] {
        let mut path = path;
        let is_identifier = |piece: &[u8]| {
            let parameter = Parameter::new(piece);
            parameter.value.is_some()
                && !piece.contains(&b'/')
                && removes(&self.removed_from_path, parameter)
        };
        while let Some(at) = memchr::memrchr(b';', path).filter(|at| is_identifier(&path[at + 1..]))
        {
            path = &path[..at];
        }
        path
    }
}

impl Removed {
    /// `*` at the end stands for any rest.
    fn new(name: &[u8]) -> Removed {
        match name.strip_suffix(b"*") {
            Some(prefix) => Removed::Prefix(prefix.to_vec()),
            None => Removed::Name(name.to_vec()),
        }
    }
}

fn removes(all: &[Removed], parameter: Parameter<'_>) -> bool {
    // Some applications separate parameters by semicolons, too.
    if parameter.text.contains(&b';') {
        return false;
    }
    let name = parameter.name;
    all.iter().any(|removed| match removed {
        Removed::Name(held) => held == name,
        Removed::Prefix(prefix) => name.starts_with(prefix),
    })
}
