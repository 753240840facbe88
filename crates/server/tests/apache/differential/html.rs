//! HTML in one form: start tags with their attributes, comments, and text. apache2 parses pages and
//! writes them anew (mod_proxy_html), with other quotes, closed elements, and references resolved.
//!
//! Called by: `compare`, for requests with `@html`.
//! Caveat: end tags, document types, and elements that parsers add are left out.
//! Out of scope: whether a page is valid.

/// Elements that may be missing in what was written.
const IMPLIED: &[&str] = &["html", "head", "body", "tbody", "p"];

/// The page in its one form.
pub fn canonical(text: &str) -> String {
    let (mut out, mut words, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find('<') {
        words.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            let end = comment.find("-->").unwrap_or(comment.len());
            out.push(format!("comment {}", comment[..end].trim()));
            rest = comment.get(end + 3..).unwrap_or_default();
            continue;
        }
        let second = rest.chars().nth(1).unwrap_or(' ');
        if !second.is_ascii_alphabetic() && !"/!?".contains(second) {
            words.push('<');
            rest = &rest[1..];
            continue;
        }
        let (tag, behind) = split_tag(rest);
        rest = behind;
        if !second.is_ascii_alphabetic() {
            continue;
        }
        let (name, attributes) = parts(tag);
        if !IMPLIED.contains(&name.as_str()) || !attributes.is_empty() {
            out.push(format!("{name} {}", attributes.join(" ")));
        }
        if name == "script" || name == "style" {
            let end = rest
                .to_ascii_lowercase()
                .find(&format!("</{name}"))
                .unwrap_or(rest.len());
            out.push(format!("{name}: {}", rest[..end].trim()));
            rest = &rest[end..];
        }
    }
    words.push_str(rest);
    let words: Vec<&str> = words.split_whitespace().collect();
    out.push(decoded(&words.join(" ")));
    out.join("\n")
}

fn split_tag(text: &str) -> (&str, &str) {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') if text[..at].trim_end().ends_with('=') => quote = Some(letter),
            (None, '>') => return (&text[1..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text.get(1..).unwrap_or_default(), "")
}

/// The name in lower case, and the first attribute of each name.
fn parts(tag: &str) -> (String, Vec<String>) {
    let name_end = tag
        .find(|letter: char| letter.is_whitespace() || letter == '/')
        .unwrap_or(tag.len());
    let (name, mut rest) = tag.split_at(name_end);
    let (mut names, mut found) = (Vec::new(), Vec::new());
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '/');
        if rest.is_empty() {
            return (name.to_ascii_lowercase(), found);
        }
        let end = rest
            .find(|letter: char| letter.is_whitespace() || "=/".contains(letter))
            .unwrap_or(rest.len());
        let own = rest[..end].to_ascii_lowercase();
        let after = rest[end..].trim_start();
        let mut value = "";
        match after.strip_prefix('=').map(str::trim_start) {
            Some(quoted) if quoted.starts_with(['"', '\'']) => {
                let quote = &quoted[..1];
                let inner = &quoted[1..];
                let close = inner.find(quote).unwrap_or(inner.len());
                value = &inner[..close];
                rest = inner.get(close + 1..).unwrap_or_default();
            }
            Some(plain) => {
                let close = plain.find(char::is_whitespace).unwrap_or(plain.len());
                value = &plain[..close];
                rest = &plain[close..];
            }
            None => rest = &rest[end..],
        }
        if !names.contains(&own) {
            found.push(format!("{own}={:?}", decoded(value)));
            names.push(own);
        }
    }
}

fn decoded(text: &str) -> String {
    [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#47;", "/"),
        ("&#x26;", "&"),
        ("&nbsp;", "\u{a0}"),
        ("&amp;", "&"),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}
