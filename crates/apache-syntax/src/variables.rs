//! `${NAME}`: variables from `Define` and `-D`, then the environment of the process.
//!
//! The difficulty is that Apache's two tables compare differently: `${X}` finds a variable whatever
//! its case, `<IfDefine X>` asks for the exact name, and the environment is exact again. What a
//! variable holds is not looked through for further variables, and what is not defined stays as it
//! was written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The environment of the process.
pub type ProcessEnvironment = HashMap<Vec<u8>, Vec<u8>>;

/// Variables; `.htaccess` files and included files see a copy or the same ones in turn.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    /// For `<IfDefine>`.
    defined: BTreeSet<Vec<u8>>,
    /// Lower case; for `${}`.
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    environment: ProcessEnvironment,
}

impl Variables {
    pub fn new(environment: ProcessEnvironment) -> Variables {
        Variables {
            environment,
            ..Variables::default()
        }
    }

    pub fn define(&mut self, name: &[u8], value: Option<&[u8]>) {
        self.defined.insert(name.to_vec());
        if let Some(value) = value {
            self.values
                .insert(name.to_ascii_lowercase(), value.to_vec());
        }
    }

    pub fn undefine(&mut self, name: &[u8]) {
        self.defined.remove(name);
        self.values.remove(&name.to_ascii_lowercase());
    }

    pub fn is_defined(&self, name: &[u8]) -> bool {
        self.defined.contains(name)
    }

    pub fn defined(&self) -> impl Iterator<Item = &[u8]> {
        self.defined.iter().map(Vec::as_slice)
    }

    pub fn value(&self, name: &[u8]) -> Option<&[u8]> {
        self.values
            .get(&name.to_ascii_lowercase())
            .or_else(|| self.environment.get(name))
            .map(Vec::as_slice)
    }

    /// The line with its variables put in, and the names of undefined ones (those with a colon
    /// belong to a map of mod_rewrite). `None`: longer than `bytes_max`.
    pub fn expand(&self, line: &[u8], bytes_max: usize) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
        let (mut expanded, mut undefined) = (Vec::with_capacity(line.len()), Vec::new());
        let mut rest = line;
        while let Some(at) = rest.windows(2).position(|pair| pair == b"${") {
            let (before, from) = rest.split_at(at);
            expanded.extend(before);
            let Some(end) = from.iter().position(|byte| *byte == b'}') else {
                rest = from;
                break;
            };
            let (reference, after) = from.split_at(end + 1);
            let name = reference.get(2..end).unwrap_or_default();
            match self.value(name) {
                Some(value) => expanded.extend(value),
                None => {
                    expanded.extend(reference);
                    undefined.extend((!name.contains(&b':')).then(|| name.to_vec()));
                }
            }
            rest = after;
            if expanded.len() > bytes_max {
                return None;
            }
        }
        expanded.extend(rest);
        (expanded.len() <= bytes_max).then_some((expanded, undefined))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        let mut variables = Variables::new([(b"Home".to_vec(), b"/root".to_vec())].into());
        variables.define(b"x", Some(b"y"));
        variables.define(b"y", Some(b"a b"));
        variables.define(b"dollar", Some(b"$"));
        variables.define(b"flag", None);
        variables
    }

    fn expanded(line: &str) -> (String, Vec<String>) {
        let (text, undefined) = variables().expand(line.as_bytes(), 1000).unwrap();
        let string = |bytes| String::from_utf8(bytes).unwrap();
        (string(text), undefined.into_iter().map(string).collect())
    }

    #[test]
    fn references() {
        let rows = [
            ("${x}", "y"),
            ("-${X}${y}-", "-ya b-"),
            ("${Home}", "/root"),
            ("$${x}", "$y"),
            ("${dollar}{x}", "${x}"),
            ("${map:${x}}", "${map:${x}}"),
            ("$x {x} ${x", "$x {x} ${x"),
            ("$1 $", "$1 $"),
        ];
        for (line, text) in rows {
            assert_eq!(expanded(line), (text.to_owned(), vec![]), "{line}");
        }
    }

    #[test]
    fn what_is_not_defined_stays() {
        for (line, name) in [
            ("${HOME}", "HOME"),
            ("${}", ""),
            ("${${x}", "${x"),
            ("${flag}", "flag"),
        ] {
            assert_eq!(
                expanded(line),
                (line.to_owned(), vec![name.to_owned()]),
                "{line}"
            );
        }
    }

    #[test]
    fn names_for_conditions_are_exact() {
        let mut variables = variables();
        assert!(
            variables.is_defined(b"flag")
                && variables.is_defined(b"x")
                && !variables.is_defined(b"X")
        );
        variables.undefine(b"X");
        assert_eq!(variables.value(b"x"), None);
        assert!(variables.is_defined(b"x"));
    }

    #[test]
    fn the_bound() {
        assert!(variables().expand(b"${y}${y}", 6).is_some());
        assert_eq!(variables().expand(b"${y}${y}", 5), None);
        assert_eq!(variables().expand(b"123456", 5), None);
    }
}
