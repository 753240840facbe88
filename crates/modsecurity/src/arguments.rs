//! Counts of arguments (parts of queries, forms, and JSON), before the library reads them.
//!
//! Called by: `head` and `content`. The library goes through all arguments once for each rule, so
//! that its time goes by their number: a few thousand, in some kilobytes, take seconds.
//! Caveat: counts may be higher than the library's, never lower by much.
//! Out of scope: names and values.

use saker_config::modsecurity::Rules;

/// Requests with more arguments and cookies are inspected on another thread.
pub const AT_ONCE_MAX: usize = 100;

/// The reason for the log.
pub fn too_many(rules: &Rules) -> String {
    format!(
        "there are more than {} arguments (see SecArgumentsLimit)",
        rules.arguments_max()
    )
}

/// Arguments in the query of a target.
pub fn in_target(target: &[u8], separator: u8) -> usize {
    match target.iter().position(|byte| *byte == b'?') {
        Some(at) => in_list(target.get(at + 1..).unwrap_or_default(), separator),
        None => 0,
    }
}

/// The target with the first arguments of its query.
pub fn first_of_target(target: &[u8], separator: u8, count_max: u64) -> &[u8] {
    let Some(query) = target.iter().position(|byte| *byte == b'?') else {
        return target;
    };
    let count_max = usize::try_from(count_max).unwrap_or(usize::MAX);
    let end = target
        .iter()
        .enumerate()
        .filter(|(at, byte)| *at > query && **byte == separator)
        .map(|(at, _)| at)
        .nth(count_max.saturating_sub(1));
    end.and_then(|end| target.get(..end)).unwrap_or(target)
}

/// Elements of a list.
pub fn in_list(list: &[u8], separator: u8) -> usize {
    if list.is_empty() {
        return 0;
    }
    1 + list.iter().filter(|byte| **byte == separator).count()
}

/// Arguments in content, counted as it comes.
pub struct InContent {
    form: Form,
    count: usize,
}

enum Form {
    UrlEncoded(u8),
    /// Lines that begin with the boundary.
    Multipart {
        boundary: Vec<u8>,
        /// Its bytes that match so far. `None`: not until the next line.
        matched: Option<usize>,
    },
    Json {
        is_in_text: bool,
        is_escaped: bool,
    },
    /// The library does not take it apart.
    Other,
}

impl InContent {
    pub fn new(content_type: &[u8], rules: &Rules) -> InContent {
        InContent::of(content_type, rules.argument_separator(), rules.reads_json())
    }

    fn of(content_type: &[u8], separator: u8, reads_json: bool) -> InContent {
        let lower = content_type.to_ascii_lowercase();
        // The beginning decides, as in the library.
        let form = if lower.starts_with(b"application/x-www-form-urlencoded") {
            Form::UrlEncoded(separator)
        } else if lower.starts_with(b"multipart/form-data") {
            let boundary = boundary(content_type, &lower);
            Form::Multipart {
                boundary: [b"--", boundary].concat(),
                matched: Some(0),
            }
        } else if reads_json && lower.windows(4).any(|word| word == b"json") {
            Form::Json {
                is_in_text: false,
                is_escaped: false,
            }
        } else {
            Form::Other
        };
        InContent { form, count: 0 }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn add(&mut self, bytes: &[u8]) {
        if self.count == 0 && !bytes.is_empty() {
            self.count = 1;
        }
        match &mut self.form {
            Form::UrlEncoded(separator) => {
                self.count += bytes.iter().filter(|byte| *byte == separator).count();
            }
            Form::Multipart { boundary, matched } => {
                for byte in bytes {
                    *matched = match *matched {
                        _ if *byte == b'\n' => Some(0),
                        Some(at) if boundary.get(at) == Some(byte) => Some(at + 1),
                        _ => None,
                    };
                    if *matched == Some(boundary.len()) {
                        self.count += 1;
                        *matched = None;
                    }
                }
            }
            Form::Json {
                is_in_text,
                is_escaped,
            } => {
                for byte in bytes {
                    match (*is_in_text, byte) {
                        (true, _) if *is_escaped => *is_escaped = false,
                        (true, b'\\') => *is_escaped = true,
                        (_, b'"') => *is_in_text = !*is_in_text,
                        (false, b',') => self.count += 1,
                        _ => {}
                    }
                }
            }
            Form::Other => {}
        }
    }
}

/// The boundary of a multipart type; empty if it can't be told.
fn boundary<'a>(content_type: &'a [u8], lower: &[u8]) -> &'a [u8] {
    let name = b"boundary";
    let start = lower
        .windows(name.len())
        .position(|word| word == name)
        .map(|at| at + name.len());
    let value = start.and_then(|at| content_type.get(at..));
    let value = value.unwrap_or_default().trim_ascii_start();
    let value = value.strip_prefix(b"=").unwrap_or_default();
    let (value, is_end): (_, fn(&u8) -> bool) = match value.trim_ascii_start() {
        [b'"', quoted @ ..] => (quoted, |byte| *byte == b'"'),
        plain => (plain, |byte| matches!(byte, b';' | b',' | b' ' | b'\t')),
    };
    let end = value.iter().position(is_end).unwrap_or(value.len());
    value.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_targets() {
        let count = |target: &str| in_target(target.as_bytes(), b'&');
        assert_eq!(
            ["/", "/&&", "/?", "/?a", "/?a&b=c?&d"].map(count),
            [0, 0, 0, 1, 3]
        );
        let first = |target: &'static str, count| {
            std::str::from_utf8(first_of_target(target.as_bytes(), b'&', count)).unwrap()
        };
        assert_eq!(first("/&x?a&b&c", 2), "/&x?a&b");
        assert_eq!(first("/?a&b", 2), "/?a&b");
        assert_eq!(first("/a&b&c", 1), "/a&b&c");
        assert_eq!(in_list(b"a=1; b=2;c", b';'), 3);
    }

    /// However the content is cut into pieces.
    fn of_content(content_type: &str, content: &str) -> usize {
        let count = |size: usize| {
            let mut counted = InContent::of(content_type.as_bytes(), b'&', true);
            content
                .as_bytes()
                .chunks(size)
                .for_each(|piece| counted.add(piece));
            counted.count()
        };
        let all: Vec<usize> = (1..9).map(count).collect();
        assert!(all.iter().all(|one| *one == count(1 << 20)), "{all:?}");
        count(1 << 20)
    }

    #[test]
    fn arguments_of_forms() {
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        assert_eq!(of_content(form, ""), 0);
        assert_eq!(of_content(form, "a&b&c=d;e"), 3);
        assert_eq!(of_content("Application/X-WWW-Form-URLEncoded", "a&b"), 2);
        assert_eq!(of_content("text/html", "&nbsp;&nbsp;"), 1);
        for kind in [
            "multipart/form-data; boundary=x-y",
            "Multipart/Form-Data; BOUNDARY = \"x-y\"",
            "multipart/form-data; boundary=x-y; charset=utf-8",
        ] {
            let parts = "--x-y\r\nA: b\r\n\r\n1\r\n--x-y\n\n --x-y --\n--x\n--x-y--\r\n";
            assert_eq!(of_content(kind, parts), 4, "{kind}");
        }
        // One that can't be told counts for more.
        assert_eq!(of_content("multipart/form-data", "--a\n--b\n"), 3);
    }

    #[test]
    fn arguments_of_json() {
        let json = "application/vnd.api+json";
        assert_eq!(of_content(json, r#"{"a":[1,2,{"b":"x,\",y\\"}],"c":3}"#), 4);
        assert_eq!(
            InContent::of(json.as_bytes(), b'&', false).form_name(),
            "other"
        );
    }

    impl InContent {
        fn form_name(&self) -> &'static str {
            match self.form {
                Form::Other => "other",
                _ => "known",
            }
        }
    }
}
