//! mod_ext_filter: its directives. The filter is `saker_content_filters::ext_filter`.

use crate::{
    arguments::texts,
    reading::{Reading, Set},
};
use saker_apache_syntax::Node;
use saker_content_filters::ext_filter::{ExternalFilter, ExternalFilterOptions};

/// ExtFilterOptions; `None`: not set here.
#[derive(Clone, Debug, Default)]
pub struct ExtFilter {
    logs_stderr: Option<bool>,
    passes_on_failure: Option<bool>,
}

impl ExtFilter {
    pub const DIRECTIVES: &'static [(&'static str, Set<ExtFilter>)] =
        &[("ExtFilterOptions", set_options)];

    pub fn merge(&self, over: &ExtFilter) -> ExtFilter {
        ExtFilter {
            logs_stderr: over.logs_stderr.or(self.logs_stderr),
            passes_on_failure: over.passes_on_failure.or(self.passes_on_failure),
        }
    }

    /// The options in force.
    pub fn options(&self) -> ExternalFilterOptions {
        ExternalFilterOptions {
            logs_stderr: self.logs_stderr == Some(true),
            passes_on_failure: self.passes_on_failure == Some(true),
        }
    }
}

fn set_options(node: &Node, ext_filter: &mut ExtFilter, _: &mut Reading<'_>) -> Result<(), String> {
    for word in texts(node) {
        let settings = &mut *ext_filter;
        match word.to_ascii_lowercase().as_str() {
            "logstderr" => settings.logs_stderr = Some(true),
            "nologstderr" => settings.logs_stderr = Some(false),
            "onfail=remove" => settings.passes_on_failure = Some(true),
            "onfail=abort" => settings.passes_on_failure = Some(false),
            _ => return Err(format!("Invalid ExtFilterOptions option: {word}")),
        }
    }
    Ok(())
}

/// AP_FTYPE_RESOURCE
const RESOURCE: i32 = 10;

/// Parses the arguments of `ExtFilterDefine`.
pub fn parse_definition(text: &[u8]) -> Result<ExternalFilter, String> {
    let (name, mut rest) = word(text);
    if name.is_empty() {
        return Err("Filter name not found".into());
    }
    let mut definition = ExternalFilter {
        name: name.into(),
        is_input: false,
        command: Vec::new(),
        media_type: None,
        makes: None,
        keeps_length: false,
        enabled_by: None,
        disabled_by: None,
        kind: RESOURCE,
    };
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            break;
        }
        rest = parameter(&mut definition, rest)?;
    }
    // Apache notices when it is used, and then answers with an error.
    if definition.command.is_empty() {
        Err("Invalid cmd= parameter".into())
    } else {
        Ok(definition)
    }
}

/// Parses one parameter and returns the text after it.
fn parameter<'t>(definition: &mut ExternalFilter, text: &'t [u8]) -> Result<&'t [u8], String> {
    if text
        .get(..4)
        .is_some_and(|name| name.eq_ignore_ascii_case(b"cmd="))
    {
        let (command, rest) = command(text.get(4..).unwrap_or_default())?;
        definition.command = command;
        return Ok(rest);
    }
    let (parameter, rest) = word(text);
    let (name, value) = parameter
        .split_once('=')
        .map_or((parameter.as_str(), None), |(name, value)| {
            (name, Some(value))
        });
    let text = || value.map(Into::into);
    match (name.to_ascii_lowercase().as_str(), value) {
        ("preservescontentlength", None) => definition.keeps_length = true,
        ("mode", Some(mode)) => {
            definition.is_input = match mode.to_ascii_lowercase().as_str() {
                "output" => false,
                "input" => true,
                _ => return Err(format!("Invalid mode: `{mode}'")),
            }
        }
        ("ftype", Some(number)) => definition.kind = number.parse().unwrap_or(0),
        ("enableenv", Some(_)) => definition.enabled_by = text(),
        ("disableenv", Some(_)) => definition.disabled_by = text(),
        ("intype", Some(_)) => definition.media_type = text(),
        ("outtype", Some(_)) => definition.makes = text(),
        _ => return Err(format!("Unexpected parameter: `{parameter}'")),
    }
    Ok(rest)
}

/// Up to the next blank.
fn word(text: &[u8]) -> (String, &[u8]) {
    let text = text.trim_ascii_start();
    let (word, rest) = text.split_at(
        text.iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(text.len()),
    );
    (String::from_utf8_lossy(word).into_owned(), rest)
}

type Words = Vec<Box<[u8]>>;

/// A program without arguments, or all of it in quotes.
fn command(text: &[u8]) -> Result<(Words, &[u8]), String> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let (name, rest) = text.split_at(
            text.iter()
                .position(u8::is_ascii_whitespace)
                .unwrap_or(text.len()),
        );
        return Ok((vec![name.into()], rest)).and_then(|(words, rest)| {
            if name.is_empty() {
                Err("Invalid cmd= parameter".into())
            } else {
                Ok((words, rest))
            }
        });
    };
    let mut is_escaped = false;
    let end = quoted.iter().position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    let (inner, rest) = quoted.split_at(end.ok_or("Expected cmd= delimiter")?);
    let words = arguments(inner);
    if words.is_empty() {
        Err("Invalid cmd= parameter".into())
    } else {
        Ok((words, rest.get(1..).unwrap_or_default()))
    }
}

/// Between blanks; quotes hold together, a backslash takes the meaning from what follows it.
fn arguments(text: &[u8]) -> Words {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<Vec<u8>>, None);
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', _) => word.get_or_insert_default().extend(bytes.next()),
            (byte, Some(open)) if byte == open => quote = None,
            (b'"' | b'\'', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (byte, None) if byte.is_ascii_whitespace() => words.extend(word.take().map(Into::into)),
            (byte, _) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(Into::into));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match parse_definition(text.as_bytes()) {
            Ok(definition) => {
                let command: Vec<_> = definition
                    .command
                    .iter()
                    .map(|word| String::from_utf8_lossy(word))
                    .collect();
                format!(
                    "{} [{}] input {} kind {}",
                    definition.name,
                    command.join("|"),
                    definition.is_input,
                    definition.kind
                )
            }
            Err(fault) => fault,
        }
    }

    #[test]
    fn definitions() {
        let cases = [
            ("a cmd=/bin/cat", "a [/bin/cat] input false kind 10"),
            (
                "a mode=input ftype=30 cmd=\"/bin/sed -e \\\"s/a b/c/\\\" 'x y'\"",
                "a [/bin/sed|-e|\"s/a|b/c/\"|x y] input true kind 30",
            ),
            ("a cmd=\"/bin/sed", "Expected cmd= delimiter"),
            ("a cmd=\"\"", "Invalid cmd= parameter"),
            ("a cmd=", "Invalid cmd= parameter"),
            ("a", "Invalid cmd= parameter"),
            ("", "Filter name not found"),
            ("a mode=both cmd=x", "Invalid mode: `both'"),
            ("a nonsense cmd=x", "Unexpected parameter: `nonsense'"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), expected, "{text}");
        }
        let all = parse_definition(
            b"a PreservesContentLength intype=text/x outtype=text/y enableenv=E disableenv=D cmd=x",
        )
        .unwrap();
        assert!(
            all.keeps_length
                && all.media_type.as_deref() == Some("text/x")
                && all.makes.as_deref() == Some("text/y")
        );
        assert_eq!(
            (all.enabled_by.as_deref(), all.disabled_by.as_deref()),
            (Some("E"), Some("D"))
        );
    }
}
