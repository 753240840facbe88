//! `<Macro>`: lines kept under a name, and put in with other words for its parameters (mod_macro).
//!
//! The difficulty is faithful replacement: parameters are found anywhere in the text, the leftmost
//! first and the longest of those, `@name` is replaced by the argument in double quotes with its
//! quotes escaped, and what was put in is not looked through again. Lines were joined and trimmed
//! when the macro was defined, so that line numbers in a macro count its logical lines without
//! comments.

use crate::{
    limits::{MACRO_PARAMETERS_MAX, SHOWN_WORD_BYTES_MAX},
    word::{word, words},
};
use std::{collections::HashMap, sync::Arc};

const PREFIXES: &[u8] = b"$%@";
const IGNORE_EMPTY: &[u8] = b"/IgnoreEmptyArgs";
const IGNORE_NESTING: &[u8] = b"/IgnoreBadNesting";

/// A macro as defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Macro {
    /// Lower case.
    pub name: Arc<[u8]>,
    pub parameters: Vec<Vec<u8>>,
    pub lines: Vec<Vec<u8>>,
    /// `defined on line 3 of "a.conf"`.
    pub location: String,
    pub ignores_empty: bool,
    pub ignores_nesting: bool,
}

/// The macros that are defined.
#[derive(Clone, Debug, Default)]
pub struct Macros {
    by_name: HashMap<Vec<u8>, Arc<Macro>>,
    /// Apache's table is made by the first definition, which its errors tell.
    pub(crate) any_defined: bool,
    pub(crate) ignore_empty: bool,
    pub(crate) ignore_nesting: bool,
}

impl Macros {
    /// By its name in any case.
    pub fn find(&self, name: &[u8]) -> Option<&Arc<Macro>> {
        self.by_name.get(&name.to_ascii_lowercase())
    }

    pub(crate) fn insert(&mut self, definition: Macro) {
        self.by_name
            .insert(definition.name.to_vec(), Arc::new(definition));
    }

    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        self.by_name.remove(&name.to_ascii_lowercase()).is_some()
    }
}

/// The head of a definition, from the arguments of `<Macro`: what is found odd, or why it can't be.
pub(crate) fn head(arguments: &[u8], location: String) -> Result<(Macro, Vec<String>), String> {
    if arguments.is_empty() {
        return Err("<Macro macro definition: empty name".into());
    }
    let (name, mut rest) = word(arguments);
    if name.is_empty() {
        return Err("<Macro macro definition: name not found".into());
    }
    let name: Arc<[u8]> = name.to_ascii_lowercase().into();
    let (mut ignores_empty, mut ignores_nesting, mut odd) = (false, false, Vec::new());
    let place = format!("macro '{}' ({location})", shown(&name));
    while rest.first() == Some(&b'/') {
        let (flag, left) = word(rest);
        match flag {
            flag if flag.eq_ignore_ascii_case(IGNORE_EMPTY) => ignores_empty = true,
            flag if flag.eq_ignore_ascii_case(IGNORE_NESTING) => ignores_nesting = true,
            flag => odd.push(format!("{place}: unknown flag '{}'", shown(&flag))),
        }
        rest = left;
    }
    if name.first().is_some_and(|first| PREFIXES.contains(first)) {
        odd.push(format!(
            "{place} better prefix a macro name with any of '$%@'"
        ));
    }
    let parameters = words(rest);
    if parameters.len() > MACRO_PARAMETERS_MAX {
        return Err(format!(
            "{place}: more than {MACRO_PARAMETERS_MAX} arguments"
        ));
    }
    check_parameters(&parameters, &place, &mut odd)?;
    Ok((
        Macro {
            name,
            parameters,
            lines: Vec::new(),
            location,
            ignores_empty,
            ignores_nesting,
        },
        odd,
    ))
}

fn check_parameters(
    parameters: &[Vec<u8>],
    place: &str,
    odd: &mut Vec<String>,
) -> Result<(), String> {
    for (index, parameter) in parameters.iter().enumerate() {
        let (number, name) = (index + 1, shown(parameter));
        if parameter.is_empty() {
            return Err(format!("{place}: empty argument #{number} name"));
        }
        if !PREFIXES.contains(&parameter[0]) {
            odd.push(format!(
                "{place} argument name '{name}' (#{number}) without expected prefix, better prefix argument names with one of '$%@'."
            ));
        }
        if parameter.starts_with(b"${") {
            odd.push(format!("{place} argument name '{name}' (#{number}) clashes with 'Define' syntax '${{...}}', better use '$(...)'."));
        }
        for (other_index, other) in parameters.iter().enumerate().skip(number) {
            let other_number = other_index + 1;
            if other == parameter {
                return Err(format!(
                    "argument name conflict in {place}: argument '{name}': #{number} and #{other_number}, change argument names!"
                ));
            }
            if !other.is_empty() && (other.starts_with(parameter) || parameter.starts_with(other)) {
                odd.push(format!(
                    "{place}: argument name prefix conflict ({name} #{number} and {} #{other_number}), be careful about your macro definition!",
                    shown(other)
                ));
            }
        }
    }
    Ok(())
}

impl Macro {
    /// Remarks about its lines.
    pub(crate) fn oddities(&self) -> Vec<String> {
        let place = format!("macro '{}' ({})", shown(&self.name), self.location);
        if self.lines.is_empty() {
            return vec![format!("{place}: empty contents!")];
        }
        let mut used = vec![false; self.parameters.len()];
        for piece in self.lines.iter().flat_map(|line| self.pieces(line)) {
            if let Piece::Parameter(at) = piece {
                used.get_mut(at).into_iter().for_each(|used| *used = true);
            }
        }
        let unused = self
            .parameters
            .iter()
            .enumerate()
            .zip(used)
            .filter(|(_, used)| !used)
            .map(|(parameter, _)| parameter);
        unused
            .map(|(index, parameter)| {
                format!(
                    "{place}: argument '{}' (#{}) never used",
                    shown(parameter),
                    index + 1
                )
            })
            .collect()
    }

    /// Its lines with these arguments, as text. `None`: more than `bytes_max`.
    pub(crate) fn expand(&self, arguments: &[Vec<u8>], bytes_max: usize) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        for line in &self.lines {
            for piece in self.pieces(line) {
                match piece {
                    Piece::Text(piece) => text.extend(piece),
                    Piece::Parameter(at) => self.put(at, arguments, &mut text),
                }
                if text.len() > bytes_max {
                    return None;
                }
            }
            text.push(b'\n');
        }
        Some(text)
    }

    fn put(&self, at: usize, arguments: &[Vec<u8>], text: &mut Vec<u8>) {
        let argument = arguments.get(at).map(Vec::as_slice).unwrap_or_default();
        if self
            .parameters
            .get(at)
            .is_none_or(|parameter| parameter.first() != Some(&b'@'))
        {
            return text.extend(argument);
        }
        text.push(b'"');
        for byte in argument {
            text.extend(matches!(byte, b'"' | b'\\').then_some(b'\\'));
            text.push(*byte);
        }
        text.push(b'"');
    }

    fn pieces<'m>(&'m self, line: &'m [u8]) -> impl Iterator<Item = Piece<'m>> {
        let mut rest = line;
        let mut next = None;
        std::iter::from_fn(move || {
            if let Some(parameter) = next.take() {
                return Some(Piece::Parameter(parameter));
            }
            if rest.is_empty() {
                return None;
            }
            let found =
                (0..rest.len()).find_map(|at| Some((at, self.parameter_at(rest.get(at..)?)?)));
            let (end, length) = match found {
                Some((at, (parameter, length))) => {
                    next = Some(parameter);
                    (at, length)
                }
                None => (rest.len(), 0),
            };
            let (text, after) = rest.split_at(end);
            rest = after.get(length..).unwrap_or_default();
            Some(Piece::Text(text))
        })
    }

    /// The longest parameter at the beginning of the text, and its length.
    fn parameter_at(&self, text: &[u8]) -> Option<(usize, usize)> {
        let here = self
            .parameters
            .iter()
            .enumerate()
            .filter(|(_, parameter)| text.starts_with(parameter));
        here.map(|(index, parameter)| (index, parameter.len()))
            .max_by_key(|(index, length)| (*length, std::cmp::Reverse(*index)))
    }
}

enum Piece<'m> {
    Text(&'m [u8]),
    Parameter(usize),
}

/// A word of the configuration as it stands in messages.
pub(crate) fn shown(text: &[u8]) -> String {
    let cut = text
        .get(..SHOWN_WORD_BYTES_MAX)
        .filter(|cut| cut.len() < text.len());
    match cut {
        Some(cut) => format!("{}...", String::from_utf8_lossy(cut)),
        None => String::from_utf8_lossy(text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn define(arguments: &str, lines: &[&str]) -> Macro {
        let (mut definition, _) = head(arguments.as_bytes(), "here".into()).unwrap();
        definition.lines = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        definition
    }

    fn expanded(definition: &Macro, arguments: &[&str]) -> String {
        let arguments: Vec<Vec<u8>> = arguments
            .iter()
            .map(|argument| argument.as_bytes().to_vec())
            .collect();
        String::from_utf8(definition.expand(&arguments, 1000).unwrap()).unwrap()
    }

    #[test]
    fn replacement() {
        let definition = define("Foo $a @b %c $ab", &["$a-$ab x$", "@b%c", "plain"]);
        assert_eq!(&*definition.name, b"foo");
        assert_eq!(
            expanded(&definition, &["1", "2 \"3\\", "$a", "4"]),
            "1-4 x$\n\"2 \\\"3\\\\\"$a\nplain\n"
        );
        assert_eq!(expanded(&define("v", &["", "x"]), &[]), "\nx\n");
        assert_eq!(
            define("v $a", &["$a$a"]).expand(&[b"xxxx".to_vec()], 7),
            None
        );
    }

    #[test]
    fn heads_that_apache_refuses() {
        for (arguments, error) in [
            ("", "<Macro macro definition: empty name"),
            ("\"\" a", "<Macro macro definition: name not found"),
            ("v \"\"", "macro 'v' (here): empty argument #1 name"),
            (
                "v $a $a",
                "argument name conflict in macro 'v' (here): argument '$a': #1 and #2, change argument names!",
            ),
        ] {
            assert_eq!(
                head(arguments.as_bytes(), "here".into()).unwrap_err(),
                error
            );
        }
    }

    #[test]
    fn oddities() {
        let odd = |arguments: &str| head(arguments.as_bytes(), "here".into()).unwrap().1.len();
        assert_eq!(
            (
                odd("v $a @b"),
                odd("v $a $ab"),
                odd("v a"),
                odd("$v"),
                odd("v ${a}"),
                odd("v /IgnoreEmptyArgs $a"),
                odd("v /x")
            ),
            (0, 1, 1, 1, 1, 0, 1)
        );
        assert_eq!(
            define("v $a $b", &["$a"]).oddities(),
            ["macro 'v' (here): argument '$b' (#2) never used"]
        );
        assert_eq!(
            define("v", &[]).oddities(),
            ["macro 'v' (here): empty contents!"]
        );
    }
}
