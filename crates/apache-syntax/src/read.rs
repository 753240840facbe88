//! From text to a tree: line by line, carrying out what Apache carries out while it reads.
//!
//! The difficulty is that three things nest in each other and each ends in its own way: sections
//! end at their closing line and in their file; conditions read on from whatever is being read, so
//! that a macro may open what its user closes; included files stand on their own. Every error is
//! reported and reading goes on as if the obvious had been meant, so that all of them are told at
//! once. Whether a directive is known, may stand where it stands, and has the right arguments is
//! asked later (`check.rs`).

use crate::{
    condition::Condition,
    environment::Environment,
    files::Files,
    include,
    limits::{
        EXPANDED_BYTES_MAX, INCLUDE_DEPTH_MAX, Limits, SHOWN_LINE_BYTES_MAX, UNDEFINED_PER_LINE_MAX,
    },
    line::{Feed, Line},
    macros::shown,
    permission::{Permission, Verdict},
    report::Report,
    row::{Row, Treatment},
    rows::find_row,
    shape,
    tree::Node,
    word::word,
};
use saker_config::{Diagnostic, Severity, model::Origin};
use std::{
    mem,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The effect of a directive while it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keyword {
    Condition(Condition),
    Define,
    UnDefine,
    Include {
        optional: bool,
    },
    LoadModule,
    ServerRoot,
    Macro,
    Use,
    UndefMacro,
    MacroIgnoreEmptyArgs,
    MacroIgnoreBadNesting,
    /// A section whose lines are no configuration.
    Verbatim,
    /// Nothing, now and later.
    Nothing,
}

/// Returns whether a directive is carried out while it is read, and never again.
pub(crate) fn acts_while_read(row: &Row) -> bool {
    Keyword::of(row).is_some()
}

impl Keyword {
    fn of(row: &Row) -> Option<Keyword> {
        Some(match row.name {
            "Define" => Keyword::Define,
            "UnDefine" => Keyword::UnDefine,
            "Include" => Keyword::Include { optional: false },
            "IncludeOptional" => Keyword::Include { optional: true },
            "LoadModule" => Keyword::LoadModule,
            "LoadFile" | "DefaultRuntimeDir" => Keyword::Nothing,
            "ServerRoot" => Keyword::ServerRoot,
            "<Macro" => Keyword::Macro,
            "Use" => Keyword::Use,
            "UndefMacro" => Keyword::UndefMacro,
            "MacroIgnoreEmptyArgs" => Keyword::MacroIgnoreEmptyArgs,
            "MacroIgnoreBadNesting" => Keyword::MacroIgnoreBadNesting,
            name if name.starts_with("<Lua") || name == "<Perl" => Keyword::Verbatim,
            name => Keyword::Condition(Condition::of(name)?),
        })
    }
}

/// A file and the macros that are being put into it, the innermost last.
pub(crate) struct Stream {
    pub(crate) feeds: Vec<Feed>,
}

pub(crate) struct Reading<'f> {
    pub(crate) files: &'f dyn Files,
    pub(crate) environment: Environment,
    pub(crate) report: Report,
    /// Permissions of an `.htaccess` file.
    pub(crate) permission: Option<&'f Permission>,
    pub(crate) limits: Limits,
    pub(crate) macro_uses: usize,
    pub(crate) text_bytes: usize,
    /// The files that were read.
    pub(crate) sources: Vec<PathBuf>,
    /// Sections that are not closed yet, the innermost last.
    open: Vec<Node>,
    done: Vec<Node>,
    nodes: usize,
    sequence: u32,
    nesting: usize,
    include_depth: usize,
    /// A bound was met: nothing more is read.
    stopped: bool,
}

impl<'f> Reading<'f> {
    pub fn new(
        files: &'f dyn Files,
        environment: Environment,
        permission: Option<&'f Permission>,
        limits: Limits,
    ) -> Reading<'f> {
        Reading {
            files,
            environment,
            report: Report::default(),
            permission,
            limits,
            macro_uses: 0,
            text_bytes: 0,
            sources: Vec::new(),
            open: Vec::new(),
            done: Vec::new(),
            nodes: 0,
            sequence: 0,
            nesting: 0,
            include_depth: 0,
            stopped: false,
        }
    }

    /// Reads a file that `from` includes, or the main one.
    pub fn file(&mut self, path: &Path, from: Option<&Line>) {
        let name: Arc<str> = path.display().to_string().into();
        if self.sources.len() >= self.limits.files_max {
            return self.stop(from, format!("more than {} files", self.limits.files_max));
        }
        match self.files.read(path) {
            Ok(text) => {
                self.sources.push(path.to_owned());
                self.text(name, text.into());
            }
            Err(error) => {
                let message = format!(
                    "Could not open configuration file {name}: {}",
                    include::reason(&error)
                );
                match from {
                    Some(line) => self.error(line, message),
                    None => {
                        let origin = Origin {
                            file: name,
                            line: 0,
                            column: 0,
                        };
                        self.report
                            .add(self.sequence, Diagnostic::without_source(origin, message));
                    }
                }
            }
        }
    }

    /// Reads a text whose sections have to be closed in it.
    pub fn text(&mut self, name: Arc<str>, text: Arc<[u8]>) {
        self.text_bytes += text.len();
        let mut stream = Stream {
            feeds: vec![Feed::new(name, text)],
        };
        let base = self.open.len();
        while let Some(line) = self.next_line(&mut stream) {
            self.line(&mut stream, &line, base);
        }
        self.close_down_to(base, Severity::Error);
    }

    /// The sections and directives that stand in no section.
    pub fn finish(&mut self) -> Vec<Node> {
        mem::take(&mut self.done)
    }

    pub fn next_line(&mut self, stream: &mut Stream) -> Option<Line> {
        while !self.stopped {
            let is_last = stream.feeds.len() == 1;
            let feed = stream.feeds.last_mut()?;
            self.sequence = self.sequence.saturating_add(1);
            match feed.next_line() {
                Some(Ok(line)) => return Some(line),
                None if is_last => return None,
                None => drop(stream.feeds.pop()),
                Some(Err(too_long)) => {
                    let line = Line {
                        file: feed.name.clone(),
                        text: Vec::new(),
                        number: too_long.0,
                        column: 1,
                    };
                    self.error(
                        &line,
                        format!(
                            "Error reading {} at line {}: Line too long",
                            line.file, line.number
                        ),
                    );
                }
            }
        }
        None
    }

    /// One line of a file or section; sections up to `base` are not its business.
    fn line(&mut self, stream: &mut Stream, line: &Line, base: usize) {
        if line.text.is_empty() || line.text.first() == Some(&b'#') {
            return;
        }
        let Some(expanded) = self.expanded(line) else {
            return;
        };
        let (mut name, mut rest) = word(&expanded);
        if name.is_empty() {
            return;
        }
        if name.get(1) != Some(&b'/') {
            name.pop_if(|last| *last == b'>');
            if name.first() == Some(&b'<') && rest.is_empty() {
                rest = b">";
            }
        }
        let row = self.present(&name);
        match row.and_then(|row| Some((row, Keyword::of(row)?))) {
            Some((row, keyword)) => self.execute(keyword, row, stream, line, rest),
            None if name.starts_with(b"</") => self.close(line, &name, base),
            None => self.add(line, &name, rest),
        }
    }

    /// The line with its variables put in.
    fn expanded(&mut self, line: &Line) -> Option<Vec<u8>> {
        let Some((expanded, undefined)) = self
            .environment
            .variables
            .expand(&line.text, EXPANDED_BYTES_MAX)
        else {
            self.error(
                line,
                format!(
                    "the line is longer than {EXPANDED_BYTES_MAX} bytes with its variables put in"
                ),
            );
            return None;
        };
        self.text_bytes += expanded.len().saturating_sub(line.text.len());
        if self.text_bytes > self.limits.text_bytes_max {
            self.stop(
                Some(line),
                format!(
                    "more than {} bytes with variables and macros put in",
                    self.limits.text_bytes_max
                ),
            );
            return None;
        }
        for name in undefined.into_iter().take(UNDEFINED_PER_LINE_MAX) {
            let message = format!("Config variable ${{{}}} is not defined", shown(&name));
            let reference = [b"${", name.as_slice(), b"}"].concat();
            self.report.add(
                self.sequence,
                diagnostic(line, &reference, Severity::Warning, message, None),
            );
        }
        Some(expanded)
    }

    /// The row of a directive whose module is there.
    pub fn present(&self, name: &[u8]) -> Option<&'static Row> {
        find_row(name).filter(|row| self.environment.modules.has_any(row.modules))
    }

    /// Its row is found when all modules are loaded: Apache asks no sooner.
    fn add(&mut self, line: &Line, name: &[u8], rest: &[u8]) {
        self.nodes += 1;
        if self.nodes > self.limits.nodes_max {
            return self.stop(
                Some(line),
                format!("more than {} directives", self.limits.nodes_max),
            );
        }
        let origin = Origin {
            file: line.file.clone(),
            line: line.number,
            column: line.column,
        };
        let name: Box<str> = String::from_utf8_lossy(name).into();
        let node = Node {
            row: None,
            name,
            text: rest.into(),
            children: Vec::new(),
            origin,
            sequence: self.sequence,
        };
        if !node.is_section() {
            return self.append(node);
        }
        if self.nests_too_deep() {
            return self.stop(
                Some(line),
                format!("sections nest deeper than {}", self.limits.nesting_max),
            );
        }
        self.open.push(node);
    }

    fn append(&mut self, node: Node) {
        self.open
            .last_mut()
            .map_or(&mut self.done, |section| &mut section.children)
            .push(node);
    }

    fn nests_too_deep(&self) -> bool {
        self.open.len() + self.nesting >= self.limits.nesting_max
    }

    /// A line `</name>`.
    fn close(&mut self, line: &Line, name: &[u8], base: usize) {
        let inner = name.get(2..).unwrap_or_default();
        let Some(section) = self.open.get(base..).and_then(<[Node]>::last) else {
            return self.error(
                line,
                format!("{} without matching <{} section", shown(name), shown(inner)),
            );
        };
        let wanted = section.name.trim_start_matches('<').to_owned();
        let saw = inner.strip_suffix(b">").unwrap_or(inner);
        let matches = |section: &Node| {
            section
                .name
                .as_bytes()
                .get(1..)
                .is_some_and(|name| name.eq_ignore_ascii_case(saw))
        };
        let meant = self
            .open
            .iter()
            .skip(base)
            .rposition(matches)
            .map(|at| base + at);
        if saw.len() == inner.len() {
            self.error(
                line,
                format!("{}> directive missing closing '>'", shown(name)),
            );
        } else if !wanted.as_bytes().eq_ignore_ascii_case(saw) {
            self.error(
                line,
                format!("Expected </{wanted}> but saw </{}>", shown(saw)),
            );
        }
        if let Some(at) = meant {
            self.pop_down_to(at);
        }
    }

    fn pop_down_to(&mut self, length: usize) {
        while self.open.len() > length {
            let Some(section) = self.open.pop() else {
                return;
            };
            self.append(section);
        }
    }

    /// At the end of what they stand in. Apache forgives it at the end of a condition.
    fn close_down_to(&mut self, base: usize, severity: Severity) {
        for section in self.open.iter().skip(base).rev().filter(|_| !self.stopped) {
            let message = format!("{}> was not closed.", section.name);
            let help = Some(format!("add </{}>", section.name.trim_start_matches('<')));
            self.report.add(
                section.sequence,
                section.diagnostic(severity, message, help),
            );
        }
        self.pop_down_to(base);
    }

    fn execute(
        &mut self,
        keyword: Keyword,
        row: &'static Row,
        stream: &mut Stream,
        line: &Line,
        rest: &[u8],
    ) {
        if !self.is_permitted(row, line) {
            if row.is_section() {
                self.skip_section(row, keyword, stream, line);
            }
            return;
        }
        if let Treatment::NoEffect(reason) | Treatment::Unsupported(reason) = row.treatment {
            self.complain(
                line,
                Severity::Note,
                format!("{} is not honored: {reason}", row.title()),
                None,
            );
        }
        match keyword {
            Keyword::Condition(condition) => self.condition(condition, row, stream, line, rest),
            Keyword::Macro => self.define_macro(stream, line, rest),
            Keyword::Verbatim => self.skip_section(row, keyword, stream, line),
            keyword => match shape::arguments(row, rest) {
                Ok(arguments) => self.execute_plain(keyword, stream, line, rest, &arguments),
                Err(message) => self.error(line, message),
            },
        }
    }

    fn is_permitted(&mut self, row: &'static Row, line: &Line) -> bool {
        match self
            .permission
            .map_or(Verdict::Permitted, |permission| permission.verdict(row))
        {
            Verdict::Permitted => true,
            Verdict::Ignored => {
                self.complain(
                    line,
                    Severity::Warning,
                    format!("{} in .htaccess forbidden by AllowOverride", row.name),
                    None,
                );
                false
            }
            Verdict::Refused => {
                let help = self.permission.map(|permission| permission.help(row));
                self.complain(
                    line,
                    Severity::Error,
                    format!("{} not allowed here", row.name),
                    help,
                );
                false
            }
        }
    }

    fn execute_plain(
        &mut self,
        keyword: Keyword,
        stream: &mut Stream,
        line: &Line,
        rest: &[u8],
        arguments: &[Vec<u8>],
    ) {
        let first = arguments.first().map(Vec::as_slice).unwrap_or_default();
        match keyword {
            Keyword::Define | Keyword::UnDefine if first.contains(&b':') => {
                self.error(line, "Variable name must not contain ':'")
            }
            Keyword::Define => self
                .environment
                .variables
                .define(first, arguments.get(1).map(Vec::as_slice)),
            Keyword::UnDefine => self.environment.variables.undefine(first),
            Keyword::Include { optional } => self.include(line, first, optional),
            Keyword::LoadModule => self.load_module(line, arguments),
            Keyword::ServerRoot => self.server_root(line, first),
            Keyword::Use => self.use_macro(stream, line, rest),
            Keyword::UndefMacro => self.undefine_macro(line, rest),
            Keyword::MacroIgnoreEmptyArgs => self.environment.macros.ignore_empty = true,
            Keyword::MacroIgnoreBadNesting => self.environment.macros.ignore_nesting = true,
            Keyword::Condition(_) | Keyword::Macro | Keyword::Verbatim | Keyword::Nothing => {}
        }
    }

    fn include(&mut self, line: &Line, path: &[u8], optional: bool) {
        if self.include_depth >= INCLUDE_DEPTH_MAX || self.nests_too_deep() {
            let message = format!(
                "Exceeded maximum include depth of {INCLUDE_DEPTH_MAX}, There appears to be a recursion."
            );
            return self.stop(Some(line), message);
        }
        match include::files_of(self.files, &self.environment.path(path), optional) {
            Ok(paths) => {
                self.include_depth += 1;
                for path in paths {
                    self.file(&path, Some(line));
                }
                self.include_depth -= 1;
            }
            Err(message) => self.error(line, message),
        }
    }

    fn server_root(&mut self, line: &Line, path: &[u8]) {
        let path = self.environment.path(path);
        match self.files.kind(&path) {
            Some(crate::files::FileKind::Directory) => self.environment.server_root = path,
            _ => self.error(line, "ServerRoot must be a valid directory"),
        }
    }

    /// The lines up to the closing one are part of what is being read, and sections in them have to
    /// be closed in them.
    pub fn container(&mut self, row: &Row, stream: &mut Stream, line: &Line) {
        if self.nests_too_deep() {
            return self.stop(
                Some(line),
                format!("sections nest deeper than {}", self.limits.nesting_max),
            );
        }
        let base = self.open.len();
        let closing = format!("</{}>", row.name.trim_start_matches('<')).into_bytes();
        self.nesting += 1;
        loop {
            let Some(next) = self.next_line(stream) else {
                self.close_down_to(base, Severity::Warning);
                self.complain(
                    line,
                    Severity::Warning,
                    format!("{} was not closed.", row.title()),
                    None,
                );
                break;
            };
            if self.open.len() == base && next.text.eq_ignore_ascii_case(&closing) {
                break;
            }
            self.line(stream, &next, base);
        }
        self.nesting -= 1;
    }

    fn skip_section(&mut self, row: &Row, keyword: Keyword, stream: &mut Stream, line: &Line) {
        match keyword {
            Keyword::Condition(_) => self.soak(row, stream, line),
            _ => {
                let closing = format!("</{}>", row.name.trim_start_matches('<')).into_bytes();
                while let Some(next) = self.next_line(stream) {
                    if next.text.eq_ignore_ascii_case(&closing) {
                        return;
                    }
                }
                self.error(line, format!("{} was not closed.", row.title()));
            }
        }
    }

    pub fn error(&mut self, line: &Line, message: impl Into<String>) {
        self.complain(line, Severity::Error, message.into(), None);
    }

    /// About the first word of a line. What is unfinished because a bound was met is no fault of
    /// the configuration.
    pub fn complain(
        &mut self,
        line: &Line,
        severity: Severity,
        message: String,
        help: Option<String>,
    ) {
        if self.stopped {
            return;
        }
        let cause = line
            .text
            .split(u8::is_ascii_whitespace)
            .next()
            .unwrap_or_default();
        self.report.add(
            self.sequence,
            diagnostic(line, cause, severity, message, help),
        );
        // The first error is all that is told of an .htaccess file.
        self.stopped = self.permission.is_some() && severity == Severity::Error;
    }

    /// A bound was met: everything that follows would be wrong.
    pub fn stop(&mut self, line: Option<&Line>, message: String) {
        if self.stopped {
            return;
        }
        match line {
            Some(line) => self.error(line, message),
            None => self.report.add(
                self.sequence,
                Diagnostic::without_source(Origin::command_line(), message),
            ),
        }
        self.stopped = true;
    }
}

/// With the line shown and the cause underlined.
fn diagnostic(
    line: &Line,
    cause: &[u8],
    severity: Severity,
    message: String,
    help: Option<String>,
) -> Diagnostic {
    let at = line
        .text
        .windows(cause.len().max(1))
        .position(|window| window == cause)
        .unwrap_or(0);
    let before = String::from_utf8_lossy(line.text.get(..at).unwrap_or_default())
        .chars()
        .count() as u32;
    let indent = line.column.saturating_sub(1).min(200);
    let origin = Origin {
        file: line.file.clone(),
        line: line.number,
        column: indent + before + 1,
    };
    let length = String::from_utf8_lossy(cause).chars().count().max(1) as u32;
    let text = line.text.get(..SHOWN_LINE_BYTES_MAX).unwrap_or(&line.text);
    let shown = format!(
        "{}{}",
        " ".repeat(indent as usize),
        String::from_utf8_lossy(text)
    );
    Diagnostic::with_line(severity, origin, length, message, help, &shown)
}
