//! Results of authentication, and quoting for challenges.
//!
//! Called by: `basic`, `digest` and `decide`.

use saker_http::Status;
use saker_net::blocking::Pause;

/// The result of authenticating a request.
pub enum Authenticated {
    Yes,
    /// The status, and for 401 the challenge.
    Refused(Status, Option<String>),
    /// No scheme or provider is in charge.
    Declined,
    Wait(Pause),
    /// The client is redirected to this location.
    Redirected(Vec<u8>),
}

/// Quotes `text` for a quoted string: quotes get a backslash unless they have one.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    let mut letters = text.chars().filter(|letter| !letter.is_control());
    while let Some(letter) = letters.next() {
        if letter == '"' {
            quoted.push('\\');
        }
        quoted.push(letter);
        if letter == '\\' {
            quoted.extend(letters.next());
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realms_are_quoted() {
        assert_eq!(quoted("a \"b\" \\\"c\n"), "a \\\"b\\\" \\\"c");
    }
}
