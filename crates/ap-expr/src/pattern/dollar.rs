//! `$` with httpd's meaning: the very end of the subject (PCRE2_DOLLAR_ENDONLY), written as `\z`,
//! because the binding has no such option.
//!
//! Caveat: a dollar is special only outside of classes, quotations, and comments.
//! Out of scope: patterns that enable multi-line matching inside (`(?m)`), for which the option has
//! no effect; they stay as they are.

use std::borrow::Cow;

/// `pattern` with every end-of-line assertion made absolute.
pub(super) fn absolute(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains('$') || multiline_inside(pattern) {
        return Cow::Borrowed(pattern);
    }
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    while let Some(at) = rest.find(['$', '\\', '[', '(']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match rest.as_bytes()[0] {
            b'$' => {
                out.push_str("\\z");
                rest = &rest[1..];
                continue;
            }
            b'\\' => escape_len(rest),
            b'[' => class_len(rest),
            _ if rest.starts_with("(?#") => rest.find(')').map_or(rest.len(), |end| end + 1),
            _ => 1,
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// `\` and a character, or a quotation up to its `\E`.
fn escape_len(text: &str) -> usize {
    if text.starts_with("\\Q") {
        return text.find("\\E").map_or(text.len(), |end| end + 2);
    }
    text.chars().take(2).map(char::len_utf8).sum()
}

/// A class with its brackets. A `]` right behind the opening is a member.
pub(super) fn class_len(text: &str) -> usize {
    let mut at = 1;
    at += usize::from(text[at..].starts_with('^'));
    at += usize::from(text[at..].starts_with(']'));
    while at < text.len() {
        let rest = &text[at..];
        match rest.as_bytes()[0] {
            b']' => return at + 1,
            b'\\' => at += escape_len(rest),
            b'[' if rest.starts_with("[:") => at += rest.find(":]").map_or(1, |end| end + 2),
            _ => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    text.len()
}

/// True if a group sets the option `m`.
fn multiline_inside(pattern: &str) -> bool {
    pattern.match_indices("(?").any(|(at, _)| {
        let options = pattern[at + 2..]
            .split(|c: char| !c.is_ascii_alphabetic() && c != '^')
            .next()
            .unwrap_or_default();
        options.contains('m') && !options.starts_with('P')
    })
}
