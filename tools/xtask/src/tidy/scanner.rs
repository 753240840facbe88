//! Just enough of Rust's grammar to measure it: what is code, what is a test, where functions begin
//! and end.
//!
//! The one difficulty is text that looks like code: comments (which nest), strings, raw strings,
//! characters beside lifetimes. They are blanked out, byte for byte, before anything is looked for.
//! Absent on purpose: macros are not expanded, types are not known.

/// `text` with everything that is not code turned into blanks; lines and columns stay.
pub fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = at + opaque_length(&bytes[at..], at > 0 && is_word(bytes[at - 1]));
        let after = end.max(at + 1);
        code[at..end]
            .iter_mut()
            .filter(|byte| **byte != b'\n')
            .for_each(|byte| *byte = b' ');
        at = after;
    }
    String::from_utf8_lossy(&code).into_owned()
}

/// The literals of texts in `text`, with their quotes.
pub fn texts(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let begin = at;
            let length = opaque_length(&bytes[at..], at > 0 && is_word(bytes[at - 1]));
            at += length.max(1);
            let is_text = length > 0 && !matches!(bytes[begin], b'/' | b'\'');
            if let Some(found) = text.get(begin..at).filter(|_| is_text) {
                return Some(found);
            }
        }
        None
    })
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// Line of its `fn`, from 1.
    pub line: usize,
    /// From `fn` to its closing brace.
    pub lines: usize,
}

/// All functions of `code` (from [`code_only`]), nested ones too.
pub fn functions(code: &str) -> Vec<Function> {
    words(code, "fn")
        .filter_map(|at| function(code, at))
        .collect()
}

/// The lines (from 1) that belong to `#[cfg(test)]` items.
pub fn test_lines(code: &str) -> Vec<bool> {
    let mut lines = vec![false; code.lines().count() + 2];
    for (at, mark) in code.match_indices("#[cfg(test)]") {
        let end = item_end(code, at + mark.len()).unwrap_or(code.len());
        lines[line_of(code, at)..=line_of(code, end.min(code.len()))].fill(true);
    }
    lines
}

/// The modules in files of their own that `text` declares for tests only: the path of a `#[path]`
/// attribute, or else the name.
pub fn test_modules(text: &str) -> Vec<ModuleFile> {
    let code = code_only(text);
    let marks = code
        .match_indices("#[cfg(test)]")
        .map(|(at, mark)| at + mark.len());
    marks
        .filter_map(|at| Some(at..item_end(&code, at)?))
        .filter_map(|item| module_file(&text[item.clone()], &code[item]))
        .collect()
}

/// Naming of a module's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModuleFile {
    Name(String),
    Path(String),
}

fn module_file(text: &str, code: &str) -> Option<ModuleFile> {
    let name = code[words(code, "mod").next()? + 3..].trim();
    if name.contains('{') {
        return None;
    }
    let path = text
        .split_once("#[path = \"")
        .and_then(|(_, rest)| rest.split('"').next());
    Some(path.map_or_else(
        || ModuleFile::Name(name.to_owned()),
        |path| ModuleFile::Path(path.to_owned()),
    ))
}

/// Offsets of `word` where it stands alone.
pub fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |at| {
            let (before, after) = (
                text[..*at].bytes().next_back(),
                text[at + word.len()..].bytes().next(),
            );
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
}

/// From 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// The length of the comment, string or character that begins here, quotes included; 0 for code.
fn opaque_length(rest: &[u8], after_word: bool) -> usize {
    match rest {
        [b'/', b'/', ..] => rest
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment_length(rest),
        [b'"', ..] => quoted_length(rest, b'"'),
        [b'\'', ..] => character_length(rest),
        [b'r', b'"' | b'#', ..] if !after_word => raw_string_length(rest, 1),
        [b'b' | b'c', b'r', b'"' | b'#', ..] if !after_word => raw_string_length(rest, 2),
        _ => 0,
    }
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `'a'` is a character, `'a` a lifetime.
fn character_length(rest: &[u8]) -> usize {
    match rest {
        [_, b'\\', ..] => quoted_length(rest, b'\''),
        [_, first, ..] => {
            let width = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            if rest.get(1 + width) == Some(&b'\'') {
                width + 2
            } else {
                0
            }
        }
        _ => 0,
    }
}

/// `r#"…"#`; 0 for a raw identifier.
fn raw_string_length(rest: &[u8], prefix: usize) -> usize {
    let hashes = rest[prefix..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    let open = prefix + hashes;
    if rest.get(open) != Some(&b'"') {
        return 0;
    }
    let close: Vec<u8> = std::iter::once(b'"')
        .chain(std::iter::repeat_n(b'#', hashes))
        .collect();
    let body = &rest[open + 1..];
    body.windows(close.len())
        .position(|window| window == close)
        .map_or(rest.len(), |at| open + 1 + at + close.len())
}

fn function(code: &str, at: usize) -> Option<Function> {
    let after = code[at + 2..].trim_start();
    let name: String = after
        .chars()
        .take_while(|character| character.is_alphanumeric() || *character == '_')
        .collect();
    // `fn(u8)` is a type.
    if name.is_empty() {
        return None;
    }
    let end = item_end(code, at).filter(|end| code.as_bytes().get(*end) == Some(&b'}'))?;
    let line = line_of(code, at);
    Some(Function {
        name,
        line,
        lines: line_of(code, end) - line + 1,
    })
}

/// Returns the end of the item that begins at or after `at`: its `;`, or the brace that closes its
/// body.
fn item_end(code: &str, at: usize) -> Option<usize> {
    let (mut brackets, mut braces) = (0usize, 0usize);
    for (offset, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.saturating_sub(1),
            b'{' => braces += 1,
            b'}' if braces == 1 => return Some(offset),
            b'}' => braces = braces.saturating_sub(1),
            b';' if brackets == 0 && braces == 0 => return Some(offset),
            _ => {}
        }
    }
    None
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_code_is_blanked() {
        for (text, code) in [
            ("a // fn b\nc", "a c"),
            ("a /* x /* y */ z */ b", "a b"),
            (r#"f("{ \" }", 'x')"#, "f( , )"),
            (r"'\'' '{' 'a", "'a"),
            ("r#\"a\"b\"# r#type", "r#type"),
            ("br\"{\" x b\"{\" for\"", "x b for"),
            ("'é' x", "x"),
            ("<'a> &'static str", "<'a> &'static str"),
        ] {
            let blanked = code_only(text);
            assert_eq!(
                blanked.split_whitespace().collect::<Vec<_>>(),
                code.split_whitespace().collect::<Vec<_>>(),
                "{text}"
            );
            assert_eq!(code_only(text).len(), text.len(), "{text}");
        }
    }

    #[test]
    fn functions_are_measured() {
        let text = "fn one() {}\n\npub(crate) fn two<T>(x: [u8; 4]) -> T\nwhere\n    T: Copy,\n{\n    if x { \"}\" } // }\n}\n\
            trait A {\n    fn without_body(&self, f: fn(u8) -> u8);\n}\nimpl A {\n    fn nested() {\n        fn inner() {\n        }\n    }\n}\n";
        let found = functions(&code_only(text));
        let seen: Vec<_> = found
            .iter()
            .map(|function| (function.name.as_str(), function.line, function.lines))
            .collect();
        assert_eq!(
            seen,
            [
                ("one", 1, 1),
                ("two", 3, 6),
                ("nested", 13, 4),
                ("inner", 14, 2)
            ]
        );
    }

    #[test]
    fn lines_of_tests() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nmod more;\nfn d() {}\n";
        let lines = test_lines(&code_only(text));
        let marked: Vec<usize> = (1..lines.len()).filter(|line| lines[*line]).collect();
        assert_eq!(marked, [2, 3, 4, 5, 7, 8]);
    }

    #[test]
    fn modules_for_tests() {
        let text = "#[cfg(test)]\npub(crate) mod scratch;\nmod real;\n#[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod tests;\n\
            #[cfg(test)]\nmod inline {\n}\n#[cfg(test)]\nuse std::fmt;\n";
        assert_eq!(
            test_modules(text),
            [
                ModuleFile::Name("scratch".into()),
                ModuleFile::Path("a_tests.rs".into())
            ]
        );
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(
            words("unsafe unsafe_code an_unsafe (unsafe)", "unsafe").collect::<Vec<_>>(),
            [0, 30]
        );
    }
}
