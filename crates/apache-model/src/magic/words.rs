//! Types that mod_mime_magic recognizes without rules: by words of text formats, manual pages, tar
//! archives.
//!
//! Difficulty: none but keeping Apache's order and bounds; which words stand for what is
//! mod_mime_magic's own table.

/// Words are looked for in so many bytes.
const WORDS_IN_BYTES: usize = 1024;

const TAR_HEAD_BYTES: usize = 512;

/// Place of a tar head's checksum, in octal.
const TAR_SUM: std::ops::Range<usize> = 148..156;

const PAGE: &str = "text/html";

const TEXT: &str = "text/plain";

const MAIL: &str = "message/rfc822";

const NEWS: &str = "message/news";

const KINDS: &[(&str, &[&str])] = &[
    (
        PAGE,
        &[
            "<html>",
            "<HTML>",
            "<head>",
            "<HEAD>",
            "<title>",
            "<TITLE>",
            "<h1>",
            "<H1>",
            "<!--",
            "<!DOCTYPE HTML",
        ],
    ),
    (
        TEXT,
        &[
            "/*", "#include", "char", "The", "the", "double", "extern", "float", "real", "struct",
            "union",
        ],
    ),
    (TEXT, &["CFLAGS", "LDFLAGS", "all:", ".PRECIOUS"]),
    (
        TEXT,
        &[
            ".ascii", ".asciiz", ".byte", ".even", ".globl", "clr", "(input,", "dcl",
        ],
    ),
    (MAIL, &["Received:", ">From", "Return-Path:", "Cc:"]),
    (NEWS, &["Newsgroups:", "Path:", "Organization:"]),
];

pub fn describe(content: &[u8]) -> Option<&'static str> {
    if is_manual(content) {
        return Some("application/x-troff");
    }
    // A comment line of Fortran.
    if let [b'c' | b'C', next, ..] = content
        && is_space(*next)
    {
        return Some(TEXT);
    }
    by_words(content).or_else(|| is_tar(content).then_some("application/x-tar"))
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// A dot, then a request of troff's.
fn is_manual(content: &[u8]) -> bool {
    let Some(rest) = content.strip_prefix(b".") else {
        return false;
    };
    let mut rest = rest.iter().copied().skip_while(|byte| is_space(*byte));
    let (first, second) = (rest.next().unwrap_or(0), rest.next().unwrap_or(0));
    (first.is_ascii_alphanumeric() || first == b'\\')
        && (second.is_ascii_alphanumeric() || second == b'"')
}

fn by_words(content: &[u8]) -> Option<&'static str> {
    let start = content.get(..WORDS_IN_BYTES).unwrap_or(content);
    let text = start.split(|byte| *byte == 0).next().unwrap_or_default();
    let words = text
        .split(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c'))
        .filter(|word| !word.is_empty());
    let kind_of = |word: &[u8]| {
        KINDS
            .iter()
            .find(|(_, known)| known.iter().any(|known| known.as_bytes() == word))
            .map(|(kind, _)| *kind)
    };
    words.filter_map(kind_of).next()
}

/// The sum of a head's bytes, those of the sum itself taken for spaces, stands in the head.
fn is_tar(content: &[u8]) -> bool {
    let (Some(head), Some(written)) = (content.get(..TAR_HEAD_BYTES), content.get(TAR_SUM)) else {
        return false;
    };
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    octal(written) == Some(sum(head) - sum(written) + 8 * u32::from(b' '))
}

fn octal(field: &[u8]) -> Option<u32> {
    let start = field.iter().position(|byte| !is_space(*byte))?;
    let field = field.get(start..)?;
    let end = field
        .iter()
        .position(|byte| !matches!(byte, b'0'..=b'7'))
        .unwrap_or(field.len());
    let ends_well = field
        .get(end)
        .is_none_or(|byte| *byte == 0 || is_space(*byte));
    let digits = field
        .get(..end)?
        .iter()
        .fold(0, |value, digit| value << 3 | u32::from(digit - b'0'));
    ends_well.then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_kind() {
        for (content, expected) in [
            (&b".TH x 1\0"[..], Some("application/x-troff")),
            (b".\\\" remark\0", Some("application/x-troff")),
            (b"./file\0", None),
            (b"c a remark\0", Some(TEXT)),
            (b"now the end\0", Some(TEXT)),
            (b"other end\0", None),
            (b"x\0the", None),
            (b"Received: by\0", Some(MAIL)),
            (b"Path: a!b\0", Some(NEWS)),
            (b"", None),
        ] {
            assert_eq!(
                describe(content),
                expected,
                "{}",
                String::from_utf8_lossy(content)
            );
        }
        let late = [&[b'x'; WORDS_IN_BYTES][..], b" the"].concat();
        assert_eq!(describe(&late), None);
    }

    #[test]
    fn archives() {
        let mut head = vec![0; TAR_HEAD_BYTES];
        head.splice(0..4, *b"name");
        head.splice(TAR_SUM, *b"        ");
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        head.splice(TAR_SUM, format!("{sum:06o}\0 ").into_bytes());
        assert_eq!(describe(&head), Some("application/x-tar"));
        head[3] = b'f';
        assert_eq!(describe(&head), None);
        assert_eq!(
            (octal(b"  17 x  "), octal(b"        "), octal(b"17x     ")),
            (Some(15), None, None)
        );
    }
}
