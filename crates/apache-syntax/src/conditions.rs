//! Sections that are read or skipped: `<IfModule>`, `<IfDefine>`, `<IfVersion>`, `<IfFile>`,
//! `<IfDirective>`, `<IfSection>`; and `LoadModule`, which decides the first of them.
//!
//! What is skipped is still looked at for sections, so that the right closing line ends it: `<` at
//! the beginning of a line opens one there, known or not.

use crate::{
    condition::Condition,
    limits::EXPANDED_BYTES_MAX,
    line::Line,
    macros::shown,
    modules::{LoadOutcome, Provision, find_module, modules},
    read::{Reading, Stream},
    row::Row,
    shape,
    word::{word, words},
};
use saker_config::{Severity, model::Origin, nearest};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

/// Directives that close something.
const OF_ACCESS: &[&str] = &[
    "Require",
    "Deny",
    "Order",
    "Satisfy",
    "SSLRequire",
    "SSLRequireSSL",
    "SSLVerifyClient",
];

impl Reading<'_> {
    pub(crate) fn condition(
        &mut self,
        condition: Condition,
        row: &'static Row,
        stream: &mut Stream,
        line: &Line,
        rest: &[u8],
    ) {
        match self.holds(condition, row, rest) {
            Ok(true) => self.container(row, stream, line),
            Ok(false) => {
                let guard = self.unknown_guard(condition, rest);
                self.soak_guarded(row, stream, line, guard.as_deref());
            }
            Err(message) => {
                self.error(line, message);
                self.soak(row, stream, line);
            }
        }
    }

    fn holds(&self, condition: Condition, row: &Row, rest: &[u8]) -> Result<bool, String> {
        if condition == Condition::Version {
            return self.version_holds(row, rest);
        }
        let argument = shape::section_argument(&row.title(), rest)?;
        let (argument, reversed) = match argument.strip_prefix(b"!") {
            Some(argument) => (argument, true),
            None => (argument, false),
        };
        if argument.is_empty() {
            return Err(format!(
                "{} directive requires additional arguments",
                row.title()
            ));
        }
        let (name, _) = word(argument);
        Ok(self.is_so(condition, &name) != reversed)
    }

    /// The unknown module of a section that Apache would read, if it decides over access.
    fn unknown_guard(&self, condition: Condition, rest: &[u8]) -> Option<String> {
        let text = rest.strip_suffix(b">").unwrap_or(rest);
        let (name, _) = word(text);
        let is_guard = condition == Condition::Module
            && !name.starts_with(b"!")
            && self.environment.modules.is_unknown_guard(&name);
        is_guard.then(|| shown(&name))
    }

    fn is_so(&self, condition: Condition, name: &[u8]) -> bool {
        match condition {
            Condition::Module => self.environment.modules.answers_to(name),
            Condition::Define => self.environment.variables.is_defined(name),
            Condition::File => {
                !name.is_empty() && self.files.kind(&self.environment.path(name)).is_some()
            }
            Condition::Directive => self.present(name).is_some(),
            Condition::Section => self.present(&[b"<", name].concat()).is_some(),
            Condition::Version => false,
        }
    }

    fn version_holds(&self, row: &Row, rest: &[u8]) -> Result<bool, String> {
        let unclosed = || format!("{} directive missing closing '>'", row.title());
        let mut words = words(rest);
        if words.len() > 3 || words.first().is_none_or(Vec::is_empty) {
            return Err(format!("{} takes one, two or three arguments", row.name));
        }
        let end = words.pop().unwrap_or_default();
        let last = end.strip_suffix(b">").ok_or_else(unclosed)?;
        match (words.as_slice(), last) {
            ([operator, version], b"") => self.compare(operator, version),
            ([operator], version) if !version.is_empty() => self.compare(operator, version),
            ([version], _) => self.compare(b"=", version),
            ([], version) => self.compare(b"=", version),
            _ => Err(unclosed()),
        }
    }

    fn compare(&self, operator: &[u8], version: &[u8]) -> Result<bool, String> {
        self.environment
            .version
            .satisfies(operator, version, self.environment.matches)
    }

    /// Reads to the end of a section that does not count.
    pub(crate) fn soak(&mut self, row: &Row, stream: &mut Stream, line: &Line) {
        self.soak_guarded(row, stream, line, None);
    }

    /// The same where `guard` is a module that Apache would have: rules about access in it must not
    /// be lost.
    fn soak_guarded(&mut self, row: &Row, stream: &mut Stream, line: &Line, guard: Option<&str>) {
        let mut open: Vec<Vec<u8>> =
            vec![row.name.as_bytes().get(1..).unwrap_or_default().to_vec()];
        while let Some(next) = self.next_line(stream) {
            let variables = &self.environment.variables;
            let text = variables
                .expand(&next.text, EXPANDED_BYTES_MAX)
                .map_or_else(|| next.text.clone(), |(text, _)| text);
            let (name, rest) = word(&text);
            match name.as_slice() {
                [b'<', b'/', inner @ ..] => self.soak_close(
                    &next,
                    inner
                        .split_last()
                        .map(|(_, inner)| inner)
                        .unwrap_or_default(),
                    &mut open,
                ),
                [b'<', inner @ ..] => {
                    let inner = inner
                        .strip_suffix(b">")
                        .filter(|_| rest.is_empty())
                        .unwrap_or(inner);
                    open.push(inner.to_vec());
                }
                name => self.refuse_lost(&next, name, guard),
            }
            if open.is_empty() {
                return;
            }
        }
        let innermost = open.last().map(|name| shown(name)).unwrap_or_default();
        self.error(
            line,
            format!("Expected </{innermost}> before end of configuration"),
        );
    }

    fn refuse_lost(&mut self, line: &Line, name: &[u8], guard: Option<&str>) {
        let is_of_access = OF_ACCESS
            .iter()
            .any(|known| known.as_bytes().eq_ignore_ascii_case(name));
        if let Some(module) = guard.filter(|_| is_of_access) {
            let message = format!(
                "{} is lost, because {module} is not part of Saker: what it closes would be open",
                shown(name)
            );
            let help = "write the rule for a module of Apache's own, outside of this <IfModule>";
            self.complain(line, Severity::Error, message, Some(help.to_owned()));
        }
    }

    fn soak_close(&mut self, line: &Line, name: &[u8], open: &mut Vec<Vec<u8>>) {
        let matches = |section: &Vec<u8>| section.eq_ignore_ascii_case(name);
        if !open.last().is_some_and(matches) {
            let wanted = open.last().map(|name| shown(name)).unwrap_or_default();
            self.error(
                line,
                format!("Expected </{wanted}> but saw </{}>", shown(name)),
            );
        }
        if let Some(at) = open.iter().rposition(matches) {
            open.truncate(at);
        }
    }

    pub(crate) fn load_module(&mut self, line: &Line, arguments: &[Vec<u8>]) {
        let identifier = arguments.first().map(Vec::as_slice).unwrap_or_default();
        let name = shown(identifier);
        if let (Some("php" | "php7" | "php5"), Some(file)) =
            (name.strip_suffix("_module"), arguments.get(1))
        {
            let origin = Origin {
                file: line.file.clone(),
                line: line.number,
                column: line.column,
            };
            self.environment.php_module = Some((OsStr::from_bytes(file).into(), origin));
        }
        let (message, help) = match self.environment.modules.load(identifier) {
            LoadOutcome::Loaded(Provision::Native | Provision::Later) => return,
            LoadOutcome::Loaded(Provision::Missing) => {
                (format!("{name} is not honored"), "its directives are listed where they stand".to_owned())
            }
            LoadOutcome::Loaded(Provision::Absent | Provision::Foreign) => (
                format!("{name} is not part of Saker and counts as not loaded"),
                "what stands in <IfModule> for it is skipped; its directives elsewhere are listed where they stand".to_owned(),
            ),
            LoadOutcome::Loaded(Provision::ForeignGuard) => (
                format!("{name} is not part of Saker"),
                "its directives are listed where they stand; what it would guard or answer is refused".to_owned(),
            ),
            LoadOutcome::Already if find_module(&name).is_some_and(|row| row.link == crate::modules::Link::Static) => return,
            LoadOutcome::Already => (format!("module {name} is already loaded, skipping"), "remove the second LoadModule".to_owned()),
            LoadOutcome::Unknown => {
                let file = arguments.get(1).map(Vec::as_slice).unwrap_or_default();
                self.environment.modules.note_unknown(identifier, file);
                let near = nearest(&name, modules().map(|row| row.identifier));
                let help = near.map_or("its directives are errors outside <IfModule>".to_owned(), |near| format!("did you mean `{near}`?"));
                (format!("module {name} is not known and counts as not loaded"), help)
            }
        };
        self.complain(line, Severity::Warning, message, Some(help));
    }
}
