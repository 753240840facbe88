//! Reads files and texts of rules in order (see the module above).
//!
//! Called by: `resolve/modsecurity` and the Apache front end.
//! Caveat: order matters, as later directives override earlier ones.

use super::{
    Place,
    logs::{self, AuditLog},
    wants::Wants,
    words::unquoted,
    words::{joined, words},
};
use crate::{include, origin::Origin};
use saker_net::{modsecurity::Part, privileged};
use std::{
    collections::BTreeMap,
    fs, mem,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

const FILE_BYTES_MAX: u64 = 64 << 20;
/// Maximum depth of includes.
const DEPTH_MAX: usize = 16;

/// Directives of the Apache module that the library does not know and that rules work without.
const WITHOUT_EFFECT: &[&str] = &[
    "seccachetransformations",
    "secchrootdir",
    "seccomponentsignature",
    "secconnengine",
    "secconnreadstatelimit",
    "secconnwritestatelimit",
    "seccontentinjection",
    "seccookiev0separator",
    "secdisablebackendcompression",
    "secgsblookupdb",
    "secguardianlog",
    "sechashengine",
    "sechashkey",
    "sechashmethodpm",
    "sechashmethodrx",
    "sechashparam",
    "secinterceptonerror",
    "secreadstatelimit",
    "secrequestbodyinmemorylimit",
    "secrequestencoding",
    "secruleinheritance",
    "secruleperftime",
    "secsensorid",
    "secserversignature",
    "secstreaminbodyinspection",
    "secstreamoutbodyinspection",
    "secunicodecodepage",
    "secwritestatelimit",
];
/// Those of them that block requests when enabled.
const REFUSES_IF_ON: [&str; 2] = ["sechashengine", "secinterceptonerror"];
/// Operators whose argument is a file name.
const FILE_OPERATORS: [&str; 7] = [
    "@pmfromfile",
    "@pmf",
    "@ipmatchfromfile",
    "@ipmatchf",
    "@inspectfile",
    "@validateschema",
    "@validatedtd",
];
/// All operators of libmodsecurity 3.0.
const OPERATORS: [&str; 39] = [
    "beginsWith",
    "contains",
    "containsWord",
    "detectSQLi",
    "detectXSS",
    "endsWith",
    "eq",
    "fuzzyHash",
    "ge",
    "geoLookup",
    "gsbLookup",
    "gt",
    "inspectFile",
    "ipMatch",
    "ipMatchF",
    "ipMatchFromFile",
    "le",
    "lt",
    "noMatch",
    "pm",
    "pmf",
    "pmFromFile",
    "rbl",
    "rsub",
    "rx",
    "rxGlobal",
    "streq",
    "strmatch",
    "unconditionalMatch",
    "validateByteRange",
    "validateDTD",
    "validateHash",
    "validateSchema",
    "validateUrlEncoding",
    "validateUtf8Encoding",
    "verifyCC",
    "verifyCPF",
    "verifySSN",
    "within",
];
const FILE_DIRECTIVES: [&str; 2] = ["secunicodemapfile", "secgeolookupdb"];

/// A message about the rules; an error if they can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    pub origin: Origin,
    pub is_error: bool,
    pub message: String,
}

/// Directives of which the last one counts. Of several parts, the library takes the first that has
/// a setting, so that the last ones go to the front.
const SETTINGS: &[&str] = &[
    "secruleengine",
    "secrequestbodyaccess",
    "secrequestbodylimit",
    "secrequestbodynofileslimit",
    "secrequestbodylimitaction",
    "secresponsebodyaccess",
    "secresponsebodylimit",
    "secresponsebodylimitaction",
    "secxmlexternalentity",
];

/// The rules read so far.
#[derive(Debug, Default)]
pub struct Reading {
    parts: Vec<Part>,
    /// Locations of the lines of all texts, in order.
    lines: Vec<Place>,
    /// The current text, and the number of lines before it.
    text: String,
    text_began: usize,
    wants: Wants,
    /// The last lines of [`SETTINGS`], by their names in lowercase, and their locations.
    settings: BTreeMap<String, (String, Place)>,
    audit_log: AuditLog,
    remarks: Vec<Remark>,
}

impl Reading {
    /// Reads the files of a pattern, which must match at least one.
    pub fn files(&mut self, pattern: &Path, origin: &Origin) {
        self.include(pattern, origin, false, 0);
    }

    /// Reads a text from line `line` of a file.
    pub fn text(&mut self, text: &str, file: &Arc<str>, line: u32, base: &Path) {
        self.lines_of(text, file, line, base, 0);
    }

    pub fn remark(&mut self, origin: Origin, is_error: bool, message: String) {
        self.remarks.push(Remark {
            origin,
            is_error,
            message,
        });
    }

    /// Called when everything has been read.
    pub fn take_remarks(&mut self) -> Vec<Remark> {
        self.audit_log
            .faults()
            .into_iter()
            .for_each(|(origin, message)| self.remark(origin, true, message));
        mem::take(&mut self.remarks)
    }

    /// Returns the last `SecRuleEngine`.
    pub fn engine(&self) -> Option<super::Engine> {
        self.wants.engine
    }

    /// Returns `SecRequestBodyAccess`, for a front end whose default differs from the library's.
    pub fn request_content(&self) -> Option<bool> {
        self.wants.request
    }

    /// Hides request bodies without telling the library.
    pub fn leave_out_request_content(&mut self) {
        self.wants.request = Some(false);
    }

    pub(super) fn into_parts(mut self) -> (Vec<Part>, Vec<Place>, Wants) {
        self.flush();
        let first_part = self.parts.len();
        let settings = mem::take(&mut self.settings).into_values();
        // The library itself takes the last one of a part.
        for (line, place) in settings.filter(|_| first_part > 1) {
            self.text.push_str(&line);
            self.text.push('\n');
            self.lines.push(place);
        }
        self.flush();
        // To the front.
        let added = self.parts.len() - first_part;
        self.parts.rotate_right(added);
        (self.parts, self.lines, self.wants)
    }

    fn include(&mut self, pattern: &Path, origin: &Origin, is_optional: bool, depth: usize) {
        if depth > DEPTH_MAX {
            return self.remark(
                origin.clone(),
                true,
                format!(
                    "{}: rule files include each other in a cycle",
                    pattern.display()
                ),
            );
        }
        let (folder, name) = (Path::new("/"), pattern.to_string_lossy());
        let found: Vec<PathBuf> = include::expand(folder, &name)
            .into_iter()
            .map(|file| folder.join(file))
            .collect();
        if found.is_empty() && !is_optional {
            return self.remark(origin.clone(), true, format!("no rule file at {name}"));
        }
        for file in found {
            match read(&file) {
                Ok(bytes) => self.file(&file, &bytes, depth),
                Err(_) if is_optional && !file.exists() => {}
                Err(reason) => self.remark(
                    origin.clone(),
                    true,
                    format!("cannot read {}: {reason}", file.display()),
                ),
            }
        }
    }

    fn file(&mut self, path: &Path, bytes: &[u8], depth: usize) {
        let text = String::from_utf8_lossy(bytes);
        let is_for_library = |line: Logical<'_>| {
            !is_include(&line.name)
                && !WITHOUT_EFFECT.contains(&&*line.name)
                && !logs::is_left_out(&line.name)
        };
        // The library can't read a file that the broker opened for us.
        if logical_lines(&text).all(is_for_library) && fs::File::open(path).is_ok() {
            let name: Arc<str> = path.display().to_string().into();
            for line in logical_lines(&text) {
                self.note(
                    &line,
                    &Origin {
                        file: Arc::clone(&name),
                        line: line.lines.start as u32 + 1,
                        column: 1,
                    },
                );
            }
            self.flush();
            return self.parts.push(Part::File(path.to_owned()));
        }
        let name: Arc<str> = path.display().to_string().into();
        self.lines_of(
            &text,
            &name,
            1,
            path.parent().unwrap_or(Path::new("/")),
            depth,
        );
    }

    fn lines_of(&mut self, text: &str, file: &Arc<str>, first: u32, base: &Path, depth: usize) {
        for line in logical_lines(text) {
            let at = first + line.lines.start as u32;
            let origin = || Origin {
                file: Arc::clone(file),
                line: at,
                column: 1,
            };
            if is_include(&line.name) {
                let pattern = base.join(unquoted(line.arguments()));
                self.include(
                    &pattern,
                    &origin(),
                    line.name == "includeoptional",
                    depth + 1,
                );
                continue;
            }
            if WITHOUT_EFFECT.contains(&&*line.name) {
                let is_on = unquoted(line.arguments()).eq_ignore_ascii_case("on");
                let is_error = is_on && REFUSES_IF_ON.contains(&&*line.name);
                let consequence = if is_error {
                    "and without it the rules would block less"
                } else {
                    "and it has no effect"
                };
                self.remark(
                    origin(),
                    is_error,
                    format!("unknown directive {}, {consequence}", line.word()),
                );
                continue;
            }
            self.note(&line, &origin());
            if logs::is_left_out(&line.name) {
                continue;
            }
            self.text.push_str(&joined(&with_paths(&line, base)));
            self.text.push('\n');
            if line.name == "secrule" && words(&joined(line.arguments())).len() < 3 {
                // The library reads actions up to an empty line, which it does not count.
                self.text.push('\n');
            }
            self.lines.push((Arc::clone(file), at));
        }
    }

    fn note(&mut self, line: &Logical<'_>, origin: &Origin) {
        self.wants.note(&line.name, line.arguments());
        if SETTINGS.contains(&&*line.name) {
            let place = (Arc::clone(&origin.file), origin.line);
            let text = joined(line.text);
            self.settings.insert(line.name.clone(), (text, place));
        }
        self.audit_log.note(&line.name, line.arguments(), origin);
        if line.name == "secrule"
            && let Some(unknown) = unknown_operator(line.arguments())
        {
            let message = format!(
                "unknown operator {unknown}, which libmodsecurity would take for a pattern"
            );
            self.remark(origin.clone(), true, message);
        }
    }

    /// Texts are preceded by the lines of earlier ones, so that a line number identifies the
    /// location.
    fn flush(&mut self) {
        let text = mem::take(&mut self.text);
        let began = mem::replace(&mut self.text_began, self.lines.len());
        if !text.is_empty() {
            let padded = "\n".repeat(began) + &text;
            self.parts.push(Part::Text(padded.into_bytes()));
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let metadata = privileged::metadata(path).map_err(|error| error.to_string())?;
    match metadata.is_file() && metadata.len() <= FILE_BYTES_MAX {
        true => privileged::read(path).map_err(|error| error.to_string()),
        false => Err("it is not a rule file".into()),
    }
}

fn is_include(name: &str) -> bool {
    matches!(name, "include" | "includeoptional")
}

/// A directive with its continuation lines, a comment, or an empty line.
struct Logical<'t> {
    /// As written.
    text: &'t str,
    /// In lowercase; empty if there is none.
    name: String,
    /// From 0.
    lines: Range<usize>,
}

impl<'t> Logical<'t> {
    fn word(&self) -> &'t str {
        self.text
            .split_ascii_whitespace()
            .next()
            .unwrap_or_default()
    }

    fn arguments(&self) -> &'t str {
        let text = self.text.trim_start();
        text.get(self.word().len()..).unwrap_or_default()
    }
}

/// A backslash at the end of a line continues it.
fn logical_lines(text: &str) -> impl Iterator<Item = Logical<'_>> {
    let mut rest = text;
    let mut number = 0;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (begin, mut end, first) = (rest, 0, number);
        loop {
            let line = begin.get(end..).unwrap_or_default();
            let stop = line.find('\n');
            let length = stop.unwrap_or(line.len());
            number += 1;
            let goes_on = line
                .get(..length)
                .is_some_and(|line| line.trim_end_matches('\r').ends_with('\\'));
            let is_last = stop.is_none();
            end += length + usize::from(!is_last);
            if is_last || !goes_on || end >= begin.len() {
                break;
            }
        }
        let whole = begin.get(..end).unwrap_or_default();
        rest = begin.get(end..).unwrap_or_default();
        let text = whole.strip_suffix('\n').unwrap_or(whole);
        let word = text.split_ascii_whitespace().next().unwrap_or_default();
        let name = if word.starts_with('#') {
            String::new()
        } else {
            word.to_ascii_lowercase()
        };
        Some(Logical {
            text,
            name,
            lines: first..number,
        })
    })
}

fn unknown_operator(text: &str) -> Option<String> {
    let operator = words(&joined(text)).into_iter().nth(1)?;
    let name = operator
        .text
        .trim_start()
        .trim_start_matches('!')
        .trim_start()
        .strip_prefix('@')?;
    let name: String = name
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect();
    let is_known = OPERATORS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(&name));
    (!is_known).then(|| format!("@{name}"))
}

/// Returns the text of a directive with file names made relative to its own file.
fn with_paths(line: &Logical<'_>, base: &Path) -> String {
    let mut text = line.text.to_owned();
    let lower = text.to_ascii_lowercase();
    let found: Option<usize> = if FILE_DIRECTIVES.contains(&&*line.name) {
        lower.find(&*line.name).map(|at| at + line.name.len())
    } else if line.name == "secrule" {
        let operator = |operator: &&str| {
            Some(lower.find(*operator)? + operator.len())
                .filter(|at| lower[*at..].starts_with([' ', '\t']))
        };
        FILE_OPERATORS.iter().find_map(operator)
    } else {
        None
    };
    let Some(behind) = found else { return text };
    let rest = text.get(behind..).unwrap_or_default();
    let start = behind + (rest.len() - rest.trim_start_matches([' ', '\t', '"', '\'']).len());
    let name = text.get(start..).unwrap_or_default();
    if !name.starts_with('/') && !name.starts_with("http") && !name.is_empty() {
        text.insert_str(start, &format!("{}/", base.display()));
    }
    text
}
