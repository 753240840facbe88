//! `<Macro>`, `Use` and `UndefMacro` while reading: taking a macro's lines from what is read, and
//! putting them back in.

use crate::{
    limits::{MACRO_BYTES_MAX, MACRO_NESTING_MAX},
    line::{Feed, Line, is_space},
    macros::{self, Macro, shown},
    read::{Reading, Stream},
    shape,
    word::{word, words},
};
use saker_config::Severity;
use std::sync::Arc;

const END: &[u8] = b"</Macro>";

impl Reading<'_> {
    pub(crate) fn define_macro(&mut self, stream: &mut Stream, line: &Line, rest: &[u8]) {
        self.environment.macros.any_defined = true;
        let location = format!("defined on line {} of \"{}\"", line.number, line.file);
        let head = shape::section_argument("<Macro>", rest)
            .and_then(|arguments| macros::head(arguments, location));
        match head {
            Ok((mut definition, odd)) => {
                odd.into_iter()
                    .for_each(|odd| self.complain(line, Severity::Warning, odd, None));
                self.warn_of_rest(line, rest, "non blank chars found after <Macro closing '>'");
                self.warn_of_redefinition(line, &definition);
                let closed = self.take_lines(stream, line, &mut definition);
                definition
                    .oddities()
                    .into_iter()
                    .filter(|_| closed)
                    .for_each(|odd| self.complain(line, Severity::Warning, odd, None));
                self.environment.macros.insert(definition);
            }
            Err(message) => {
                self.error(line, message);
                let location = String::new();
                let (name, parameters, lines) = (Arc::from(*b""), Vec::new(), Vec::new());
                let mut nameless = Macro {
                    name,
                    parameters,
                    lines,
                    location,
                    ignores_empty: true,
                    ignores_nesting: true,
                };
                self.take_lines(stream, line, &mut nameless);
            }
        }
    }

    /// The lines up to the end of the macro; whether there was one.
    fn take_lines(&mut self, stream: &mut Stream, line: &Line, definition: &mut Macro) -> bool {
        let place = format!(
            "macro '{}' ({})",
            shown(&definition.name),
            definition.location
        );
        let quiet = definition.ignores_nesting || self.environment.macros.ignore_nesting;
        let (mut macros_open, mut sections_open) = (1, 1);
        while let Some(next) = self.next_line(stream) {
            if next.text.first() == Some(&b'#') {
                continue;
            }
            let (first, _) = word(&next.text);
            sections_open += nesting_of(&first);
            if first.eq_ignore_ascii_case(END) {
                macros_open -= 1;
                self.warn_of_rest(
                    &next,
                    &next.text,
                    "non blank chars found after directive closing",
                );
                if macros_open == 0 {
                    if !quiet && sections_open != 0 {
                        self.complain(
                            line,
                            Severity::Warning,
                            format!("bad cumulated nesting ({sections_open:+}) in {place}"),
                            None,
                        );
                    }
                    return true;
                }
            } else if first.eq_ignore_ascii_case(b"<Macro") {
                macros_open += 1;
            }
            definition.lines.push(next.text);
        }
        self.error(
            line,
            format!("{place} contents error: expected token not found: </Macro>"),
        );
        false
    }

    fn warn_of_rest(&mut self, line: &Line, text: &[u8], message: &str) {
        let rest = text
            .iter()
            .rposition(|byte| *byte == b'>')
            .and_then(|end| text.get(end + 1..))
            .unwrap_or_default();
        if rest
            .iter()
            .find(|byte| !is_space(**byte))
            .is_some_and(|first| *first != b'#')
        {
            self.complain(line, Severity::Warning, message.to_owned(), None);
        }
    }

    fn warn_of_redefinition(&mut self, line: &Line, definition: &Macro) {
        if let Some(before) = self.environment.macros.find(&definition.name) {
            let (name, location) = (shown(&definition.name), &before.location);
            let message = format!(
                "macro '{name}' multiply defined: {location}, redefined on line {} of \"{}\"",
                line.number, line.file
            );
            self.complain(line, Severity::Warning, message, None);
        }
    }

    pub(crate) fn use_macro(&mut self, stream: &mut Stream, line: &Line, rest: &[u8]) {
        match self.expansion(stream, line, rest) {
            Ok(feed) => stream.feeds.push(feed),
            Err(message) => self.error(line, message),
        }
    }

    fn expansion(&mut self, stream: &Stream, line: &Line, rest: &[u8]) -> Result<Feed, String> {
        let (name, rest) = word(rest);
        let definition = self.macro_named(&name, "Use")?;
        let name = shown(&definition.name);
        if stream
            .feeds
            .iter()
            .any(|feed| feed.macro_name.as_ref() == Some(&definition.name))
        {
            return Err(format!("recursive use of macro '{name}' is invalid"));
        }
        if stream.feeds.len() > MACRO_NESTING_MAX {
            return Err(format!(
                "macros are used within each other deeper than {MACRO_NESTING_MAX}"
            ));
        }
        let arguments = words(rest);
        let (given, taken) = (arguments.len(), definition.parameters.len());
        if given != taken {
            return Err(format!(
                "macro '{name}' ({}) used with {given} arguments instead of {taken}",
                definition.location
            ));
        }
        let place = format!(
            "macro '{name}' ({}) used on line {} of \"{}\"",
            definition.location, line.number, line.file
        );
        if !definition.ignores_empty && !self.environment.macros.ignore_empty {
            for (index, _) in arguments
                .iter()
                .enumerate()
                .filter(|(_, argument)| argument.is_empty())
            {
                self.complain(
                    line,
                    Severity::Warning,
                    format!("{place}: empty argument #{}", index + 1),
                    None,
                );
            }
        }
        let text = definition
            .expand(&arguments, MACRO_BYTES_MAX)
            .ok_or(format!("{place} is longer than {MACRO_BYTES_MAX} bytes"))?;
        self.count_use(line, text.len());
        let mut feed = Feed::new(place.into(), text.into());
        feed.macro_name = Some(definition.name.clone());
        Ok(feed)
    }

    fn count_use(&mut self, line: &Line, bytes: usize) {
        self.macro_uses += 1;
        self.text_bytes += bytes;
        if self.macro_uses > self.limits.macro_uses_max {
            self.stop(
                Some(line),
                format!(
                    "macros are used more than {} times",
                    self.limits.macro_uses_max
                ),
            );
        }
    }

    fn macro_named(&self, name: &[u8], directive: &str) -> Result<Arc<Macro>, String> {
        if !self.environment.macros.any_defined {
            return Err(format!("no macro defined before {directive}"));
        }
        if name.is_empty() {
            return Err(format!("no macro name specified with {directive}"));
        }
        let lower = shown(&name.to_ascii_lowercase());
        self.environment
            .macros
            .find(name)
            .cloned()
            .ok_or_else(|| match directive {
                "Use" => format!("macro '{lower}' undefined"),
                _ => format!("cannot remove undefined macro '{lower}'"),
            })
    }

    pub(crate) fn undefine_macro(&mut self, line: &Line, rest: &[u8]) {
        let (name, _) = word(rest);
        match self.macro_named(&name, "UndefMacro") {
            Ok(_) => drop(self.environment.macros.remove(&name)),
            Err(message) => self.error(line, message),
        }
    }
}

fn nesting_of(first: &[u8]) -> i32 {
    match first {
        [b'<', b'/', ..] => -1,
        [b'<', ..] => 1,
        _ => 0,
    }
}
