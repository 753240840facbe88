//! Character classes of RFC 9110 section 5.6.2 and RFC 3986 section 2.
//!
//! Asked for every byte of every request head, so each class is a bit in one table.

use crate::{field_name::plain_length, scan};

/// `tchar` of RFC 9110 section 5.6.2.
const TOKEN: u8 = 1;
/// `pchar` of RFC 3986 section 3.3 without the percent sign, and the slash: what stays as it is in
/// a written path.
const PATH: u8 = 2;
/// Characters we allow in a request-target, see [`is_target_char`].
const TARGET: u8 = 4;
/// `etagc` of RFC 9110 section 8.8.3.
const ENTITY_TAG: u8 = 8;
/// Characters we allow in a host name, see [`is_host_char`].
const HOST: u8 = 16;

static CLASSES: [u8; 256] = classes();

/// `tchar`: characters of methods and field names.
#[inline]
pub fn is_token_char(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & TOKEN != 0
}

/// A non-empty token. Almost all are plain, which is quickly seen.
#[inline]
pub fn is_token(bytes: &[u8]) -> bool {
    let rest = &bytes[plain_length(bytes)..];
    !bytes.is_empty() && rest.iter().all(|byte| is_token_char(*byte))
}

/// May stand unescaped in the path of a URI (RFC 3986 section 3.3).
#[inline]
pub fn is_path_char(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & PATH != 0
}

/// May stand in a request-target as we receive it: everything but controls, space, DEL and `#`.
/// That is more than RFC 3986 allows: browsers leave `|`, `^`, `{`, `}` and others unescaped in
/// queries, links in the wild rely on it, and Apache lets them pass.
#[inline]
pub fn is_target_char(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & TARGET != 0
}

/// `etagc`: what stands between the quotes of an entity tag (RFC 9110 section 8.8.3).
#[inline]
pub fn is_entity_tag_char(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & ENTITY_TAG != 0
}

/// Letters, digits, `-`, `.` and `_`. RFC 3986 allows a registered name more (`%`, `,`, `;`, …),
/// which no host in DNS has and which ends up in links and logs that we write.
#[inline]
pub fn is_host_char(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & HOST != 0
}

/// True if there is a control character other than those of obs-text: below space, or DEL.
#[inline]
pub fn has_control(text: &[u8]) -> bool {
    scan::run_length::<scan::From<b' '>>(text) != text.len()
}

/// Without optional white space around it (RFC 9110 section 5.6.3): space and tab, no more.
pub fn trim_ows(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = text
        .iter()
        .position(|byte| !blank(byte))
        .unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(|byte| !blank(byte))
        .map_or(start, |at| at + 1);
    &text[start..end]
}

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = classes_of(byte as u8);
        byte += 1;
    }
    mark(&mut table, b"!#$%&'*+-.^_`|~", TOKEN);
    mark(&mut table, b"-._~!$&'()*+,;=:@/", PATH);
    mark(&mut table, b"-._", HOST);
    table
}

const fn classes_of(byte: u8) -> u8 {
    let mut bits = 0;
    if byte.is_ascii_alphanumeric() {
        bits |= TOKEN | PATH | HOST;
    }
    if byte > b' ' && byte != 0x7f && byte != b'#' {
        bits |= TARGET;
    }
    if byte > b' ' && byte != 0x7f && byte != b'"' {
        bits |= ENTITY_TAG;
    }
    bits
}

const fn mark(table: &mut [u8; 256], bytes: &[u8], class: u8) {
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] |= class;
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a class, spelled out from the standard's grammar, against the table.
    fn class(of: impl Fn(u8) -> bool) -> Vec<u8> {
        (0..=255).filter(|byte| of(*byte)).collect()
    }

    #[test]
    fn token_characters_are_those_of_the_grammar() {
        let want = b"!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~";
        assert_eq!(class(is_token_char), want);
    }

    #[test]
    fn path_characters_are_those_of_the_grammar() {
        let want =
            b"!$&'()*+,-./0123456789:;=@ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";
        assert_eq!(class(is_path_char), want);
    }

    #[test]
    fn host_characters() {
        assert_eq!(
            class(is_host_char),
            b"-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
        );
    }

    #[test]
    fn what_targets_and_entity_tags_refuse() {
        let controls: Vec<u8> = (0..=0x20).collect();
        assert_eq!(
            class(|byte| !is_target_char(byte)),
            [&controls[..], b"#\x7f"].concat()
        );
        assert_eq!(
            class(|byte| !is_entity_tag_char(byte)),
            [&controls[..], b"\"\x7f"].concat()
        );
    }

    #[test]
    fn controls_are_found_at_each_place() {
        for byte in 0..=255u8 {
            let is_control = byte < b' ' || byte == 0x7f;
            for (length, at) in (0..20).flat_map(|length| (0..length).map(move |at| (length, at))) {
                for other in [b' ', b'~', 0x80, 0xff] {
                    let mut text = vec![other; length];
                    text[at] = byte;
                    assert_eq!(has_control(&text), is_control, "{byte:#x} at {at}: {other}");
                }
            }
        }
        assert!(!has_control(b""));
    }

    #[test]
    fn optional_white_space_is_trimmed_and_no_other() {
        let cases: [(&[u8], &[u8]); 5] = [
            (b"", b""),
            (b" \t ", b""),
            (b"\t a b ", b"a b"),
            (b"\na\r ", b"\na\r"),
            (b"a", b"a"),
        ];
        for (text, want) in cases {
            assert_eq!(trim_ows(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_token_is_not_empty() {
        let cases: [(&[u8], bool); 5] = [
            (b"", false),
            (b"GET", true),
            (b"a b", false),
            (b"a:", false),
            (b"x\x80", false),
        ];
        for (bytes, want) in cases {
            assert_eq!(is_token(bytes), want, "{bytes:?}");
        }
    }
}
