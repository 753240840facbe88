//! State that a page shares with everything that it includes.
//!
//! Called by: `includes`; `call`, for programs on a page; kept in the state of the page's requests.
//! Caveat: a page's variables are for programs alone: rules about access don't see them, so that an
//! author can't set what another section asks for.

use saker_ssi::{Value, Variables};
use std::cell::RefCell;

/// State that a page shares with everything that it includes.
pub struct Shared {
    pub variables: RefCell<Variables>,
    /// Modification time of the page that the client asked for.
    pub modified_s: i64,
    pub owner: u32,
}

/// Beginnings of names that tell programs about the request and the system. A page says nothing
/// under them, so that it speaks for no user and loads nothing into a program.
const OF_SYSTEM: [&str; 22] = [
    "AUTH",
    "BASH",
    "CONTENT",
    "CONTEXT",
    "DOCUMENT_ROOT",
    "ENV",
    "GATEWAY",
    "HTTP",
    "IFS",
    "LD_",
    "NODE",
    "PATH",
    "PERL",
    "PHP",
    "PYTHON",
    "QUERY_STRING",
    "REDIRECT",
    "REMOTE",
    "REQUEST",
    "SCRIPT",
    "SERVER",
    "SSL",
];

impl Shared {
    /// The variables that programs on the page get; those that are made when they are used are empty,
    /// as in Apache.
    pub fn for_programs(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let variables = self.variables.borrow();
        let told = variables.iter().filter(|(name, _)| is_the_pages(name));
        told.map(|(name, value)| match value {
            Value::Text(text) => (name.to_vec(), text.to_vec()),
            Value::Lazy(_) => (name.to_vec(), Vec::new()),
        })
        .collect()
    }
}

fn is_the_pages(name: &[u8]) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_of_system = *upper != *b"QUERY_STRING_UNESCAPED"
        && OF_SYSTEM
            .iter()
            .any(|start| upper.starts_with(start.as_bytes()));
    let is_name = !name.is_empty()
        && !name[0].is_ascii_digit()
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    is_name && !is_of_system
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_ssi::Lazy;

    #[test]
    fn pages_speak_for_themselves_alone() {
        let mut variables = Variables::default();
        for name in [
            "own",
            "DOCUMENT_NAME",
            "QUERY_STRING_UNESCAPED",
            "HTTP_PROXY",
            "Remote_User",
            "LD_PRELOAD",
            "QUERY_STRING",
            "DOCUMENT_ROOT",
            "a=b",
            "no-gzip",
            "1",
        ] {
            variables.set(name.as_bytes(), b"x");
        }
        variables.set_lazy(b"DATE_GMT", Lazy::DateGmt);
        let shared = Shared {
            variables: RefCell::new(variables),
            modified_s: 0,
            owner: 0,
        };
        let told = shared.for_programs();
        let names: Vec<&[u8]> = told.iter().map(|(name, _)| name.as_slice()).collect();
        let expected: [&[u8]; 4] = [
            b"own",
            b"DOCUMENT_NAME",
            b"QUERY_STRING_UNESCAPED",
            b"DATE_GMT",
        ];
        assert_eq!(names, expected);
        assert_eq!(told.last().map(|(_, value)| value.len()), Some(0));
    }
}
