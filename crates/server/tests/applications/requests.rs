//! The `requests` file of a subject: what both servers are asked, and where they may differ.
//!
//! Called by: `run`.
//! Caveat: a cookie jar per server is kept over the whole list, as a browser would.
//! Out of scope: comparing (`compare`).

use std::{fs, path::Path};

/// Requests in order, and what is left out of all comparisons.
#[derive(Debug, Default)]
pub struct Script {
    pub requests: Vec<Request>,
    /// Texts around tokens and dates in bodies.
    pub volatile: Vec<(String, String)>,
    /// Response fields compared beside the usual ones.
    pub fields: Vec<String>,
}

#[derive(Debug, Default)]
pub struct Request {
    pub line: usize,
    /// Status of the reference server.
    pub status: u16,
    pub method: String,
    pub target: String,
    pub fields: Vec<(String, String)>,
    pub body: Option<String>,
    /// Text sent in a WebSocket frame after 101.
    pub websocket: Option<String>,
    /// Name of a value of this response, and the texts around it, for `{name}` in later requests.
    pub keep: Option<(String, String, String)>,
    pub differences: Vec<Difference>,
    /// The client's cookies are dropped before.
    pub forget: bool,
    /// Text that both bodies contain.
    pub contains: Vec<String>,
}

/// A difference that the file gives a reason for. It has to exist.
#[derive(Debug)]
pub struct Difference {
    pub what: String,
    /// Saker's value.
    pub saker: String,
}

/// Reads the file.
///
/// # Panics
/// If a line can't be read.
pub fn read(path: &Path) -> Script {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(path, &text, 0)
}

/// Reads the part of a file behind its first lines.
///
/// # Panics
/// If a line can't be read.
pub fn parse(path: &Path, text: &str, lines_before: usize) -> Script {
    let mut script = Script::default();
    for (index, line) in text.lines().enumerate() {
        let told = if line.trim().is_empty() || line.starts_with('#') {
            Some(())
        } else if let Some(detail) = line.strip_prefix("    ") {
            script
                .requests
                .last_mut()
                .and_then(|request| read_detail(request, detail))
        } else {
            read_line(&mut script, line, lines_before + index + 1)
        };
        let number = lines_before + index + 1;
        assert!(told.is_some(), "{}:{number}: {line}", path.display());
    }
    script
}

/// Replaces the statuses by those of the reference server.
pub fn write_statuses(path: &Path, statuses: &[(usize, u16)]) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (number, status) in statuses {
        if let Some(line) = lines.get_mut(number - 1) {
            line.replace_range(..3, &status.to_string());
        }
    }
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

fn read_line(script: &mut Script, line: &str, number: usize) -> Option<()> {
    if let Some(rest) = line.strip_prefix("volatile ") {
        script.volatile.push(two_texts(rest)?);
        return Some(());
    }
    if let Some(names) = line.strip_prefix("fields ") {
        script.fields.extend(names.split(' ').map(str::to_owned));
        return Some(());
    }
    let mut words = line.split(' ');
    script.requests.push(Request {
        line: number,
        status: words.next()?.parse().ok()?,
        method: words.next()?.to_owned(),
        target: words.next()?.to_owned(),
        ..Request::default()
    });
    words.next().is_none().then_some(())
}

fn read_detail(request: &mut Request, detail: &str) -> Option<()> {
    if let Some(text) = detail.strip_prefix("> ") {
        let body = request.body.get_or_insert_default();
        if !body.is_empty() {
            body.push('\n');
        }
        body.push_str(text);
    } else if let Some(text) = detail.strip_prefix("ws ") {
        request.websocket = Some(text.to_owned());
    } else if let Some(text) = detail.strip_prefix("has ") {
        request.contains.push(text.to_owned());
    } else if let Some(rest) = detail.strip_prefix("keep ") {
        let (name, texts) = rest.split_once(' ')?;
        let (before, behind) = two_texts(texts)?;
        request.keep = Some((name.to_owned(), before, behind));
    } else if let Some(rest) = detail.strip_prefix("differs ") {
        // "status 501: reason"
        let (told, reason) = rest.split_once(": ")?;
        let (what, saker) = told.split_once(' ').unwrap_or((told, ""));
        assert!(!reason.is_empty(), "{rest}: needs a reason");
        request.differences.push(Difference {
            what: what.to_owned(),
            saker: saker.to_owned(),
        });
    } else if detail == "forget" {
        request.forget = true;
    } else {
        let (name, value) = detail.split_once(": ")?;
        request.fields.push((name.to_owned(), value.to_owned()));
    }
    Some(())
}

/// `"one" "two"`, without escapes; the quotes of the texts are `'` where they contain `"`.
fn two_texts(text: &str) -> Option<(String, String)> {
    let (first, rest) = one_text(text)?;
    let (second, _) = one_text(rest.trim_start())?;
    Some((first, second))
}

fn one_text(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (inner, rest) = text[1..].split_once(quote)?;
    Some((inner.to_owned(), rest))
}
