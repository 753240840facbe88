//! Arguments as values: flags, sizes, times, and patterns.
//!
//! Called by: setters.
//! Caveat: messages are nginx's.

use crate::variables::{Source, Variables};
use saker_ap_expr::{Pattern, PatternOptions, Subnet};
use saker_nginx_syntax::Directive;

/// A regular expression with the variables that its named groups set.
#[derive(Clone, Debug)]
pub struct Regex {
    pub pattern: Pattern,
    /// Groups and the numbers of their variables.
    pub names: Box<[(usize, usize)]>,
}

impl PartialEq for Regex {
    fn eq(&self, other: &Regex) -> bool {
        self.pattern.text() == other.pattern.text()
    }
}

impl Regex {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// PCRE2's message.
    pub fn compile(text: &str, caseless: bool, variables: &mut Variables) -> Result<Regex, String> {
        let options = PatternOptions {
            caseless,
            multiline: false,
            dotall: false,
            dollar_endonly: false,
            extended: false,
        };
        let pattern = Pattern::compile(text, options)
            .map_err(|error| format!("pcre2_compile() failed: {} in \"{text}\"", error.message))?;
        let names: Vec<(usize, usize)> = pattern
            .names()
            .map(|(group, name)| (group, variables.define(name, Source::Slot)))
            .collect();
        Ok(Regex {
            pattern,
            names: names.into(),
        })
    }
}

/// Parses `on` or `off`.
///
/// # Errors
/// nginx's message for other words.
pub fn flag(directive: &Directive) -> Result<bool, String> {
    match directive.argument(0).to_ascii_lowercase().as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!(
            "invalid value \"{other}\" in \"{}\" directive, it must be \"on\" or \"off\"",
            directive.name()
        )),
    }
}

/// Returns nginx's message for an argument that is not understood.
pub fn invalid(argument: &str) -> String {
    format!("invalid value \"{argument}\"")
}

/// Parses permissions: `user:rw`, `group:r`, `all:r`. The user may read and write.
///
/// # Errors
/// nginx's message.
pub fn access_mode(directive: &Directive) -> Result<u32, String> {
    let mut mode = 0o600;
    for word in directive.texts() {
        let invalid = || format!("invalid value \"{word}\"");
        let (who, may) = word.split_once(':').ok_or_else(invalid)?;
        let bits = match may {
            "rw" => 0o6,
            "r" => 0o4,
            _ => return Err(invalid()),
        };
        mode |= match who {
            "user" => bits << 6,
            "group" => bits << 3,
            "all" => bits << 3 | bits,
            _ => return Err(invalid()),
        };
    }
    Ok(mode)
}

/// Parses a size: bytes, or with `k`, `m`, `g`.
pub fn size(text: &str) -> Option<u64> {
    let unit = text.chars().last()?.to_ascii_lowercase();
    let factor: u64 = match unit {
        'k' => 1 << 10,
        'm' => 1 << 20,
        'g' => 1 << 30,
        _ => return text.parse().ok(),
    };
    let digits = text.get(..text.len() - 1)?;
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Parses a time in milliseconds: seconds, or numbers with units, largest first.
pub fn time_ms(text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let value: u64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let (factor, length) = match rest.as_bytes() {
            [b'm', b's', ..] => (1, 2),
            [b's', ..] => (1000, 1),
            [b'm', ..] => (60_000, 1),
            [b'h', ..] => (3_600_000, 1),
            [b'd', ..] => (86_400_000, 1),
            [b'w', ..] => (604_800_000, 1),
            [b'M', ..] => (2_592_000_000, 1),
            [b'y', ..] => (31_536_000_000, 1),
            [] | [b' ', ..] => (1000, 0),
            _ => return None,
        };
        rest = rest.get(length..)?.trim_start();
        total = total.checked_add(value.checked_mul(factor)?)?;
    }
    Some(total)
}

/// Parses an address or a network. Bits behind the prefix mean nothing.
pub fn network(text: &str) -> Option<Subnet> {
    Subnet::parse_block(text)
}

/// Parses the first argument as a time.
///
/// # Errors
/// nginx's message.
pub fn time_argument(directive: &Directive) -> Result<u64, String> {
    let text = directive.argument(0);
    time_ms(text).ok_or_else(|| format!("\"{}\" directive invalid value", directive.name()))
}

/// Parses the first argument as a size.
///
/// # Errors
/// nginx's message.
pub fn size_argument(directive: &Directive) -> Result<u64, String> {
    size(directive.argument(0))
        .ok_or_else(|| format!("\"{}\" directive invalid value", directive.name()))
}

/// Parses the first argument as a number.
///
/// # Errors
/// nginx's message.
pub fn number_argument(directive: &Directive) -> Result<u64, String> {
    let number = directive.argument(0).parse();
    number.map_err(|_| format!("\"{}\" directive invalid number", directive.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let all = network("0.0.0.0/0").unwrap();
        assert!(all.contains("203.0.113.9".parse().unwrap()));
        let ten = network("10.9.9.9/8").unwrap();
        assert!(ten.contains("10.1.1.1".parse().unwrap()));
        assert!(!ten.contains("11.1.1.1".parse().unwrap()));
        let mapped = network("::ffff:10.0.0.0/104").unwrap();
        assert!(mapped.contains("10.1.1.1".parse().unwrap()));
        assert!(!mapped.contains("11.1.1.1".parse().unwrap()));
        assert!(network("2001:db8::/32").is_some());
        for text in ["10.1", "10.0.0.0/33", "::/129", "x", "10.0.0.0/"] {
            assert_eq!(network(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("8k"), Some(8192));
        assert_eq!(size("2M"), Some(2 << 20));
        assert_eq!(size("17"), Some(17));
        assert_eq!((size("k"), size("1t"), size("")), (None, None, None));
        assert_eq!(time_ms("30"), Some(30_000));
        assert_eq!(time_ms("1h30m"), Some(5_400_000));
        assert_eq!(time_ms("1h 30m"), Some(5_400_000));
        assert_eq!(time_ms("500ms"), Some(500));
        assert_eq!(time_ms("1M"), Some(2_592_000_000));
        assert_eq!(
            (time_ms(""), time_ms("x"), time_ms("1x")),
            (None, None, None)
        );
    }
}
