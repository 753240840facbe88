//! Differences between two responses that a client would notice.
//!
//! Called by: `run`, for each request.
//! Caveat: left out for all applications: Date, Server, the form of entity tags, generated error
//! pages, and the defaults listed in `README.md`.
//! Out of scope: differences with a reason in the `requests` file, which `run` takes away.

use crate::requests::Script;
use saker_testkit::Response;
use std::net::SocketAddr;

const FIELDS: &[&str] = &[
    "location",
    "content-type",
    "content-encoding",
    "content-disposition",
    "content-range",
    "cache-control",
    "pragma",
    "www-authenticate",
    "last-modified",
    "dav",
    "x-powered-by",
    "x-frame-options",
    "x-content-type-options",
    "strict-transport-security",
];

/// Compared values of one response.
#[derive(Debug, PartialEq, Eq)]
pub struct Compared {
    pub values: Vec<(String, String)>,
}

/// Returns what of both responses is compared.
pub fn compared(
    script: &Script,
    reference: &Response,
    saker: &Response,
    addresses: (SocketAddr, SocketAddr),
) -> (Compared, Compared) {
    let (mut first, mut second) = (
        head(script, reference, addresses.0),
        head(script, saker, addresses.1),
    );
    let generated = is_generated(reference);
    if generated {
        for values in [&mut first, &mut second] {
            values.retain(|(name, _)| name != "content-type");
        }
    } else {
        first.push(("body".into(), body(script, reference, addresses.0)));
        second.push(("body".into(), body(script, saker, addresses.1)));
    }
    (Compared { values: first }, Compared { values: second })
}

fn head(script: &Script, response: &Response, address: SocketAddr) -> Vec<(String, String)> {
    let mut values = vec![("status".to_owned(), response.status.to_string())];
    let names = FIELDS
        .iter()
        .copied()
        .chain(script.fields.iter().map(String::as_str));
    for name in names {
        let all: Vec<&str> = response.field_values(name).collect();
        let value = match name {
            "location" => all
                .first()
                .map_or(String::new(), |value| location(value, address)),
            "content-type" => all.first().map_or(String::new(), |value| media_type(value)),
            "cache-control" => cache_control(&all),
            // RFC 9110 section 15.4.5: not needed beside an entity tag.
            "last-modified" if response.status == 304 => String::new(),
            "last-modified" => last_modified(&all, response.field("date").unwrap_or_default()),
            _ => all.join(", "),
        };
        values.push((name.to_owned(), without_tokens(&value)));
    }
    let mut cookies: Vec<&str> = response
        .field_values("set-cookie")
        .filter_map(|value| value.split('=').next())
        .collect();
    cookies.sort_unstable();
    values.push(("set-cookie".into(), cookies.join(" ")));
    // Error documents have one in nginx.
    let tagged = response.status < 400 && response.field("etag").is_some();
    values.push(("etag".into(), tagged.to_string()));
    values
}

/// Pages that programs make have the time at which they were asked; its form is the program's.
fn last_modified(values: &[&str], date: &str) -> String {
    let today: Vec<&str> = date
        .split([' ', ','])
        .filter(|word| !word.is_empty())
        .take(4)
        .collect();
    match values {
        [value] if !today.is_empty() && today.iter().all(|word| value.contains(word)) => {
            "today".to_owned()
        }
        values => values.join(", "),
    }
}

/// Absolute and relative forms of one URL are the same (RFC 9110 section 10.2.2).
fn location(value: &str, address: SocketAddr) -> String {
    let host = format!("http://app.test:{}", address.port());
    match value.strip_prefix(&host) {
        Some("") => "/".to_owned(),
        Some(path) => path.to_owned(),
        None => value.to_owned(),
    }
}

/// Saker names the charset of text files, and knows JavaScript by its registered name (RFC 9239).
fn media_type(value: &str) -> String {
    let folded = value.to_ascii_lowercase().replace("; ", ";");
    let bare = folded.split(';').next().unwrap_or_default();
    match bare {
        "application/javascript" | "application/x-javascript" | "text/javascript" => {
            "text/javascript".to_owned()
        }
        "image/x-icon" | "image/vnd.microsoft.icon" => "image/x-icon".to_owned(),
        "application/xml" | "text/xml" => "text/xml".to_owned(),
        "font/woff" | "application/font-woff" => "font/woff".to_owned(),
        "multipart/byteranges" => bare.to_owned(),
        _ => folded
            .strip_suffix(";charset=utf-8")
            .unwrap_or(&folded)
            .to_owned(),
    }
}

fn cache_control(lines: &[&str]) -> String {
    let joined = lines.join(",");
    let mut directives: Vec<String> = joined
        .split(',')
        .map(|directive| directive.trim().to_ascii_lowercase())
        .filter(|directive| !directive.is_empty())
        .collect();
    directives.sort_unstable();
    directives.dedup();
    directives.join(", ")
}

/// A page that the server made, not the application.
fn is_generated(response: &Response) -> bool {
    if response.status < 300 {
        return false;
    }
    let text = response.text();
    response.body.is_empty()
        || text.contains("<center>nginx")
        || text.contains("<hr><center>")
        || text.contains("-//IETF//DTD HTML 2.0//EN")
        || text.contains("http://www.w3.org/TR/html4/strict.dtd\">\n<html><head>\n<title>")
        // php-fpm's own.
        || matches!(text.as_str(), "File not found.\n" | "Access denied.\n")
        || text.contains("Error 404 Not Found") && text.contains("Varnish")
        || text.contains("<h1>503 Service Unavailable</h1>")
        || text.contains("<h1>403 Forbidden</h1>\nRequest forbidden")
        || text.contains("<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>\n<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Transitional")
}

fn body(script: &Script, response: &Response, address: SocketAddr) -> String {
    if response.field("content-encoding").is_some() {
        return "encoded".to_owned();
    }
    let mut text = response
        .text()
        .replace("127.0.0.2", "127.0.0.1")
        .replace(&format!("app.test:{}", address.port()), "app.test");
    if let Some(boundary) = response
        .field("content-type")
        .and_then(|value| value.split_once("boundary="))
    {
        text = text.replace(boundary.1, "BOUNDARY");
    }
    for (before, behind) in &script.volatile {
        text = without(&text, before, behind);
    }
    without_tokens(&with_sorted_namespaces(&text))
}

/// Namespaces of an element in one order: mod_dav writes them in that of a hash table whose seed is
/// another in each process.
fn with_sorted_namespaces(text: &str) -> String {
    let mut result = String::new();
    for part in text.split_inclusive('>') {
        let Some((before, tag)) = part
            .rsplit_once('<')
            .filter(|(_, tag)| tag.contains(" xmlns:"))
        else {
            result.push_str(part);
            continue;
        };
        let mut words: Vec<&str> = tag.trim_end_matches('>').split(' ').collect();
        words[1..].sort_unstable();
        result.push_str(&format!("{before}<{}>", words.join(" ")));
    }
    result
}

/// Replaces what stands between two texts.
fn without(text: &str, before: &str, behind: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((first, more)) = rest.split_once(before) {
        let Some((_, last)) = more.split_once(behind) else {
            break;
        };
        result.push_str(first);
        result.push_str(before);
        result.push('#');
        result.push_str(behind);
        rest = last;
    }
    result + rest
}

/// Base64 of this length may have no digit.
const BASE64_MIN: usize = 40;

/// Replaces hexadecimal digits and Base64 that look like tokens.
fn without_tokens(text: &str) -> String {
    let mut result = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        let has = |class: fn(&u8) -> bool| word.as_bytes().iter().any(class);
        let is_base64 =
            word.len() >= BASE64_MIN && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
        let is_token = word.len() >= 20 && (has(u8::is_ascii_digit) || is_base64);
        result.push_str(if is_token { "#" } else { &word });
        word.clear();
        if c != '\0' {
            result.push(c);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_left_out() {
        assert_eq!(without_tokens("a 0123456789abcdef0123 b"), "a # b");
        assert_eq!(
            without_tokens("'nonce-MGExOWJmZmNlNTFlNTIxMTYxNGNhOWEwNzAxMmIwMjc='"),
            "'nonce-#='"
        );
        assert_eq!(
            without_tokens("abcdefghijklmnopqrstuvwxyz 123"),
            "abcdefghijklmnopqrstuvwxyz 123"
        );
        assert_eq!(
            without("x<t>1</t>y<t>2</t>", "<t>", "</t>"),
            "x<t>#</t>y<t>#</t>"
        );
    }

    #[test]
    fn namespaces_are_in_one_order() {
        assert_eq!(
            with_sorted_namespaces("<?x?>\n<D:a xmlns:n1=\"u\" xmlns:n0=\"v\">b c<d>"),
            "<?x?>\n<D:a xmlns:n0=\"v\" xmlns:n1=\"u\">b c<d>"
        );
    }

    #[test]
    fn locations_of_one_page_are_the_same() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        assert_eq!(location("http://app.test:80/a?b", address), "/a?b");
        assert_eq!(location("/a?b", address), "/a?b");
        assert_eq!(location("http://other/a", address), "http://other/a");
    }
}
