//! `<meta http-equiv=...>` as fields of the response (ProxyHTMLMeta).
//!
//! Called by: `proxy_html`, with the beginning of a page.
//! Caveat: a page must not decide how its response is framed or whose cookies it sets: fields of the
//! connection and of framing are left alone, and so are values with control characters and fields
//! that this server acts on. What a page says about caches can only restrict them: a page may have
//! come with elements that its author has not written. Elements about `Content-Type` are taken out,
//! because the charset that they name is no longer the page's.
//! Out of scope: elements behind the first [`LOOK_BYTES`] bytes.

use saker_http::{Fields, date::parse_date};
use saker_pipeline::Response;
use std::ops::Range;

/// Bytes of a page in which elements count.
pub const LOOK_BYTES: usize = 8 << 10;

/// Fields that no page sets.
const REFUSED: &[&[u8]] = &[
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"set-cookie",
    b"set-cookie2",
    b"date",
    // Stored pages: validators, age, and who else may get them.
    b"age",
    b"etag",
    b"last-modified",
    b"cache-groups",
    b"cache-group-invalidation",
    b"no-vary-search",
    b"use-as-dictionary",
    b"surrogate-key",
    b"cache-tag",
    b"xkey",
    // Becomes Set-Cookie.
    b"lsc-cookie",
    b"alt-svc",
];

/// Beginnings of names by which programs control a server.
const REFUSED_BEGINNINGS: [&[u8]; 7] = [
    b"x-litespeed-",
    b"x-lscache",
    b"x-litemage",
    b"x-magento-",
    b"x-accel-",
    b"x-sendfile",
    b"surrogate-",
];

/// Sets the fields. The place of the last element that tells the type of the content.
pub fn apply(response: &mut Response, page: &[u8]) -> Option<Range<usize>> {
    let mut skipped = None;
    let mut at = 0;
    while let Some(tag) = next_tag(page, at) {
        at = tag.end;
        let text = page.get(tag.clone()).unwrap_or_default();
        let Some(name) = value(text, b"http-equiv") else {
            continue;
        };
        let lower = name.to_ascii_lowercase();
        if lower.starts_with(b"content-") {
            if lower == b"content-type" {
                skipped = Some(tag);
            }
            continue;
        }
        let content = value(text, b"content");
        if let (Some(content), Ok(name)) = (content, std::str::from_utf8(name))
            && !is_refused(&lower)
            && is_name(name)
            && !content.iter().any(u8::is_ascii_control)
        {
            set(response.fields_mut(), name, content);
        }
    }
    skipped
}

/// True for fields that no page sets. Targeted fields (RFC 9213) have any name before the last words.
fn is_refused(lower: &[u8]) -> bool {
    REFUSED.contains(&lower)
        || lower.ends_with(b"-cache-control")
        || REFUSED_BEGINNINGS
            .iter()
            .any(|start| lower.starts_with(start))
}

/// Sets a field. Those for caches are added to the response's own, which stay in force, and only if
/// they restrict.
fn set(fields: &mut Fields, name: &str, content: &[u8]) {
    match name.to_ascii_lowercase().as_str() {
        "vary" => fields.append("Vary", content.to_vec()),
        "cache-control" if restricts(content) => fields.append("Cache-Control", content.to_vec()),
        // A date may be ahead; anything else means that the page has expired (RFC 9111 section 5.3).
        "expires" if parse_date(content, 0).is_none() => fields.set("Expires", content.to_vec()),
        "cache-control" | "expires" => {}
        _ => fields.set(name.to_owned(), content.to_vec()),
    }
}

/// True for a list of directives that forbid sharing or storing.
fn restricts(content: &[u8]) -> bool {
    const KNOWN: [&[u8]; 6] = [
        b"no-cache",
        b"no-store",
        b"private",
        b"must-revalidate",
        b"proxy-revalidate",
        b"max-age=0",
    ];
    content
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .all(|word| KNOWN.iter().any(|one| one.eq_ignore_ascii_case(word)))
}

/// The next `meta` element with an `http-equiv`, from `<` to `>`.
fn next_tag(page: &[u8], from: usize) -> Option<Range<usize>> {
    let mut at = from;
    loop {
        let start = at + find(page.get(at..)?, b"<meta")?;
        let end = start + page.get(start..)?.iter().position(|byte| *byte == b'>')? + 1;
        if find(page.get(start..end)?, b"http-equiv").is_some() {
            return Some(start..end);
        }
        at = end;
    }
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len())
        .position(|piece| piece.eq_ignore_ascii_case(word))
}

/// The value of an attribute.
fn value<'t>(tag: &'t [u8], name: &[u8]) -> Option<&'t [u8]> {
    let mut from = 5;
    loop {
        let at = from + find(tag.get(from..)?, name)?;
        from = at + name.len();
        let is_begun = tag
            .get(at - 1)
            .is_some_and(|byte| byte.is_ascii_whitespace() || b"\"'/".contains(byte));
        let rest = tag.get(from..)?.trim_ascii_start();
        let Some(rest) = rest.strip_prefix(b"=").filter(|_| is_begun) else {
            continue;
        };
        let rest = rest.trim_ascii_start();
        let (first, behind) = rest.split_first()?;
        let is_quoted = matches!(first, b'"' | b'\'');
        let (rest, is_end): (_, &dyn Fn(&u8) -> bool) = match is_quoted {
            true => (behind, &|byte| byte == first),
            false => (rest, &|byte| byte.is_ascii_whitespace() || *byte == b'>'),
        };
        let length = rest.iter().position(is_end)?;
        return rest.get(..length);
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http::Status;

    fn fields(page: &str) -> (Vec<(String, String)>, Option<Range<usize>>) {
        let mut response = Response::new(Status::OK);
        let skipped = apply(&mut response, page.as_bytes());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let all = response.fields().iter();
        let all = all.map(|(name, value)| (name.to_owned(), text(value)));
        (all.collect(), skipped)
    }

    #[test]
    fn elements_become_fields() {
        for (page, expected) in [
            (
                r#"<meta http-equiv="Refresh" content="5; url=/a">"#,
                Some(("Refresh", "5; url=/a")),
            ),
            (
                "<META content='x' HTTP-EQUIV=X-UA-Compatible>",
                Some(("X-UA-Compatible", "x")),
            ),
            (
                "<meta http-equiv=refresh content=5>",
                Some(("refresh", "5")),
            ),
            ("<meta name=http-equiv content=5>", None),
            ("<meta http-equiv=refresh>", None),
            ("<meta http-equiv=refresh content='5>", None),
            ("<meta http-equiv=Transfer-Encoding content=chunked>", None),
            ("<meta http-equiv=Connection content=close>", None),
            ("<meta http-equiv=Set-Cookie content=a=b>", None),
            ("<meta http-equiv=Content-Length content=5>", None),
            ("<meta http-equiv=a content='b\r\nc: d'>", None),
            ("<meta http-equiv='a b' content=c>", None),
            ("<meta http-equiv='' content=c>", None),
            ("<meta http-equiv", None),
            ("<meta content=a", None),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(name, value): (&str, &str)| (name.to_owned(), value.to_owned()))
                .collect();
            assert_eq!(fields(page), (expected, None), "{page}");
        }
    }

    #[test]
    fn pages_control_neither_the_server_nor_its_cache() {
        for name in [
            "X-LiteSpeed-Purge",
            "x-litespeed-cache-control",
            "LSC-Cookie",
            "X-Accel-Redirect",
            "X-Sendfile-Temporary",
            "X-Magento-Tags",
            "Surrogate-Control",
            "CDN-Cache-Control",
            "Any-Cache-Control",
            "Cache-Group-Invalidation",
            "ETag",
            "Alt-Svc",
        ] {
            let page = format!("<meta http-equiv={name} content=x>");
            assert_eq!(fields(&page), (Vec::new(), None), "{name}");
        }
        let page = |name: &str, value: &str| {
            let mut response = Response::new(Status::OK);
            for (name, value) in [("Cache-Control", "private"), ("Vary", "Cookie")] {
                response.fields_mut().append(name, value.as_bytes());
            }
            let page = format!("<meta http-equiv='{name}' content='{value}'>");
            apply(&mut response, page.as_bytes());
            let fields = response.fields();
            let lines = fields
                .iter()
                .filter(|line| line.0.eq_ignore_ascii_case(name));
            let lines = lines.map(|line| String::from_utf8_lossy(line.1).into_owned());
            lines.collect::<Vec<_>>()
        };
        assert_eq!(page("Cache-Control", "public, max-age=9"), ["private"]);
        assert_eq!(page("cache-control", "No-Store"), ["private", "No-Store"]);
        assert_eq!(page("cache-control", "no-cache, public"), ["private"]);
        assert_eq!(page("vary", "X"), ["Cookie", "X"]);
        assert_eq!(page("Expires", "0"), ["0"]);
        let none: [&str; 0] = [];
        assert_eq!(page("Expires", "Fri, 01 Jan 2100 00:00:00 GMT"), none);
    }

    #[test]
    fn types_are_taken_out() {
        let page =
            "<head><meta http-equiv=\"Content-Type\" content=\"text/html; charset=x\"></head>";
        assert_eq!(fields(page), (Vec::new(), Some(6..page.len() - 7)));
    }
}
