//! Tokens to a tree: blocks, `include`, and the check of each directive against its row.
//!
//! Called by: `saker-nginx-model`, for a start, a reload, and `check`.
//! Caveat: a file that includes itself is refused; nginx reads it until it runs out of files.
//! Out of scope: the meaning of arguments.

use crate::{
    files::{Files, has_wildcards, matching},
    lexer::{LexError, Lexer, Token, Word},
    report::{COMMAND_LINE, Report},
    row::{Body, Row, contexts},
    rows,
    tree::Directive,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Depth of blocks, and of included files.
const DEPTH_MAX: usize = 64;
/// Begins the message about a text that ends too early.
const END_OF_FILE: &str = "unexpected end of file";
/// Files that a configuration may have; more of them include each other.
const FILES_MAX: usize = 10_000;

/// A configuration as a tree.
#[derive(Debug, Default)]
pub struct Tree {
    pub directives: Vec<Directive>,
    /// Every file that was read.
    pub sources: Vec<PathBuf>,
    /// Texts of the files, for `-T`.
    pub texts: Vec<(PathBuf, String)>,
    /// Patterns of included files.
    pub includes: Vec<String>,
    pub report: Report,
}

/// Reads a configuration. `file` is absolute; `global`: directives of `-g`, which come first.
pub fn read(files: &dyn Files, file: &Path, global: &str) -> Tree {
    let mut reader = Reader {
        files,
        base: file.parent().unwrap_or(Path::new("/")).to_owned(),
        tree: Tree::default(),
        depth: 0,
    };
    let mut directives = Vec::new();
    if !global.is_empty() {
        let name: Arc<str> = COMMAND_LINE.into();
        reader.text(&name, global, contexts::MAIN, &mut directives);
    }
    reader.file(file, contexts::MAIN, &mut directives, None);
    reader.tree.directives = directives;
    reader.tree
}

struct Reader<'f> {
    files: &'f dyn Files,
    /// Directory that relative paths of `include` refer to.
    base: PathBuf,
    tree: Tree,
    depth: usize,
}

impl Reader<'_> {
    fn file(
        &mut self,
        path: &Path,
        context: u32,
        out: &mut Vec<Directive>,
        include: Option<&Directive>,
    ) {
        let bytes = match self.files.read(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                let message = format!("open() \"{}\" failed ({})", path.display(), system(&error));
                match include {
                    Some(include) => self.tree.report.error(include, message, None),
                    None => self.tree.report.error_without_place(message),
                }
                return;
            }
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let name: Arc<str> = path.to_string_lossy().into();
        self.tree.sources.push(path.to_owned());
        self.tree.texts.push((path.to_owned(), text.clone()));
        self.text(&name, &text, context, out);
    }

    fn text(&mut self, name: &Arc<str>, text: &str, context: u32, out: &mut Vec<Directive>) {
        self.tree.report.add_file(name, text);
        let mut lexer = Lexer::new(text);
        let end = self.block(name, &mut lexer, context, out, true);
        if let Err(error) = end {
            let of_option = "unexpected end of parameter, expecting \";\"";
            let message = match **name == *COMMAND_LINE && error.message.starts_with(END_OF_FILE) {
                true => of_option.to_owned(),
                false => error.message,
            };
            self.tree.report.error_at(name, error.line, message);
        }
    }

    /// Reads directives until the block or the file ends.
    fn block(
        &mut self,
        file: &Arc<str>,
        lexer: &mut Lexer<'_>,
        context: u32,
        out: &mut Vec<Directive>,
        is_file: bool,
    ) -> Result<(), LexError> {
        let mut words: Vec<Word> = Vec::new();
        let is_option = **file == *COMMAND_LINE;
        loop {
            let token = lexer.next_token()?;
            let fail = |message: &str| {
                Err(LexError {
                    message: message.to_owned(),
                    line: lexer.line(),
                })
            };
            let (has_words, is_open) = (!words.is_empty(), token == Some(Token::Open));
            match token {
                Some(Token::Word(word)) => words.push(word),
                Some(Token::Open) if is_option => {
                    return fail("block directives are not supported in -g option");
                }
                Some(Token::End) if !has_words => return fail("unexpected \";\""),
                Some(Token::Open) if !has_words => return fail("unexpected \"{\""),
                Some(Token::Close) if has_words || is_file => return fail("unexpected \"}\""),
                Some(Token::Close) => return Ok(()),
                Some(Token::End | Token::Open) => {
                    let words = std::mem::take(&mut words);
                    self.directive(file, lexer, context, words, is_open, out)?;
                }
                None if has_words => {
                    return fail("unexpected end of file, expecting \";\" or \"}\"");
                }
                None if is_file => return Ok(()),
                None => return fail("unexpected end of file, expecting \"}\""),
            }
        }
    }

    fn directive(
        &mut self,
        file: &Arc<str>,
        lexer: &mut Lexer<'_>,
        context: u32,
        words: Vec<Word>,
        is_open: bool,
        out: &mut Vec<Directive>,
    ) -> Result<(), LexError> {
        let mut words = words.into_iter();
        let Some(name) = words.next() else {
            return Ok(());
        };
        let mut directive = Directive {
            name,
            arguments: words.collect(),
            block: None,
            file: Arc::clone(file),
            end_line: lexer.line(),
            row: None,
        };
        let is_free = context & contexts::FREE != 0;
        if directive.name() == "include" && !is_open {
            self.include(&directive, context, out);
            return Ok(());
        }
        directive.row = match is_free {
            true => None,
            false => self.checked(&directive, context, is_open),
        };
        let inner = inner_context(&directive, context);
        if is_free && is_open {
            return Err(LexError {
                message: "unexpected \"{\"".to_owned(),
                line: lexer.line(),
            });
        }
        if is_open {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err(LexError {
                    message: "too many nested blocks".to_owned(),
                    line: lexer.line(),
                });
            }
            let mut block = Vec::new();
            self.block(file, lexer, inner, &mut block, false)?;
            self.depth -= 1;
            directive.block = Some(block);
        }
        if is_free || directive.row.is_some() {
            out.push(directive);
        }
        Ok(())
    }

    /// Returns the row of a directive that may stand here.
    fn checked(
        &mut self,
        directive: &Directive,
        context: u32,
        is_open: bool,
    ) -> Option<&'static Row> {
        let name = directive.name();
        let mut known = rows::all(name).peekable();
        if context & contexts::UNKNOWN != 0 {
            return None;
        }
        if known.peek().is_none() {
            let help = rows::similar(name).map(|other| format!("did you mean \"{other}\"?"));
            let message = format!("unknown directive \"{name}\"");
            self.tree.report.error(directive, message, help);
            return None;
        }
        let Some(row) = known.find(|row| row.contexts & context != 0) else {
            let message = format!("\"{name}\" directive is not allowed here");
            self.tree.report.error(directive, message, None);
            return None;
        };
        let problem = match (row.body, is_open) {
            (Body::None, true) => Some(format!("directive \"{name}\" is not terminated by \";\"")),
            (Body::Block | Body::Free, false) => {
                Some(format!("directive \"{name}\" has no opening \"{{\""))
            }
            _ if !row.takes(directive.arguments.len()) => Some(format!(
                "invalid number of arguments in \"{name}\" directive"
            )),
            _ => None,
        };
        if let Some(problem) = problem {
            self.tree.report.error(directive, problem, None);
            return None;
        }
        Some(row)
    }

    fn include(&mut self, directive: &Directive, context: u32, out: &mut Vec<Directive>) {
        if directive.arguments.len() != 1 {
            let message = "invalid number of arguments in \"include\" directive";
            return self.tree.report.error(directive, message, None);
        }
        if self.depth >= DEPTH_MAX || self.tree.sources.len() >= FILES_MAX {
            let message = "too many nested files";
            return self.tree.report.error(directive, message, None);
        }
        let path = self.base.join(directive.argument(0));
        let pattern = path.to_string_lossy().into_owned();
        self.depth += 1;
        match has_wildcards(&pattern) {
            true => {
                self.tree.includes.push(pattern.clone());
                for path in matching(self.files, &pattern) {
                    self.file(&path, context, out, Some(directive));
                }
            }
            false => self.file(&path, context, out, Some(directive)),
        }
        self.depth -= 1;
    }
}

/// The context of a directive's block.
fn inner_context(directive: &Directive, context: u32) -> u32 {
    let Some(row) = directive.row else {
        // Nothing is reported about the inside of a block that cannot be placed.
        return match context & contexts::FREE {
            0 => contexts::UNKNOWN,
            free => free,
        };
    };
    if row.body == Body::Free {
        return contexts::FREE;
    }
    contexts::inside(row.name, context)
}

/// An error of the system in nginx's form.
fn system(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    match error.raw_os_error() {
        Some(code) => format!("{code}: {text}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeMap, io};

    struct InMemory(BTreeMap<&'static str, &'static str>);

    impl Files for InMemory {
        fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
            let text = self.0.get(path.to_str().unwrap_or_default());
            text.map(|text| text.as_bytes().to_vec())
                .ok_or_else(|| io::Error::from_raw_os_error(2))
        }

        fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
            let below = self.0.keys().filter_map(|name| {
                let rest = Path::new(name).strip_prefix(path).ok()?;
                rest.iter().next().map(PathBuf::from)
            });
            Ok(below.collect())
        }
    }

    fn read_text(text: &'static str) -> Tree {
        let files = BTreeMap::from([
            ("/e/nginx.conf", text),
            ("/e/d/b.conf", "server { listen 82; }"),
            ("/e/d/a.conf", "server { listen 81; }"),
            ("/e/d/a.conf~", "nonsense"),
            ("/e/loop", "include loop;"),
        ]);
        read(&InMemory(files), Path::new("/e/nginx.conf"), "")
    }

    fn complaints(text: &'static str) -> String {
        let tree = read_text(text);
        let all = tree.report.emergencies.iter().map(ToString::to_string);
        all.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn included_files_come_in_order() {
        let tree = read_text("events {} http { include d/*.conf; }");
        assert!(!tree.report.has_errors(), "{:?}", tree.report);
        let servers = tree.directives[1].inside();
        let listens: Vec<&str> = servers
            .iter()
            .map(|server| server.inside()[0].argument(0))
            .collect();
        assert_eq!(listens, ["81", "82"]);
        assert_eq!(tree.sources.len(), 3);
    }

    #[test]
    fn options_have_no_lines() {
        let cases = [
            ("daemon off", "unexpected end of parameter, expecting \";\""),
            ("user 'a;", "unexpected end of parameter, expecting \";\""),
            (
                "events { }",
                "block directives are not supported in -g option",
            ),
            ("nonsense;", "unknown directive \"nonsense\""),
        ];
        for (global, expected) in cases {
            let files = InMemory(BTreeMap::from([("/e/nginx.conf", "events { }")]));
            let tree = read(&files, Path::new("/e/nginx.conf"), global);
            let first = tree.report.emergencies.first().map(ToString::to_string);
            let expected = format!("[emerg] {expected} in command line");
            assert_eq!(first, Some(expected), "{global}");
        }
    }

    #[test]
    fn errors_in_nginxs_words() {
        let cases = [
            (
                "nonsense;",
                "[emerg] unknown directive \"nonsense\" in /e/nginx.conf:1",
            ),
            (
                "http {\n listen 80;\n}",
                "[emerg] \"listen\" directive is not allowed here in /e/nginx.conf:2",
            ),
            (
                "user;\nhttp",
                "[emerg] invalid number of arguments in \"user\" directive in /e/nginx.conf:1\n\
                 [emerg] unexpected end of file, expecting \";\" or \"}\" in /e/nginx.conf:2",
            ),
            (
                "http { server { } ",
                "[emerg] unexpected end of file, expecting \"}\" in /e/nginx.conf:1",
            ),
            ("}", "[emerg] unexpected \"}\" in /e/nginx.conf:1"),
            (
                "events;",
                "[emerg] directive \"events\" has no opening \"{\" in /e/nginx.conf:1",
            ),
            (
                "user a { }",
                "[emerg] directive \"user\" is not terminated by \";\" in /e/nginx.conf:1",
            ),
            (
                "include none;",
                "[emerg] open() \"/e/none\" failed (2: No such file or directory) in /e/nginx.conf:1",
            ),
            ("http { types { a b; c d e; } map $a $b { x y; } }", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(complaints(text), expected, "{text}");
        }
        assert!(complaints("include loop;").contains("too many nested files"));
    }
}
