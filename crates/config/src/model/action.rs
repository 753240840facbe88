//! What a route does with a request.

use super::Upstream;
use saker_http::Status;
use std::{fmt, sync::Arc};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Serve from the document root.
    Files,
    Redirect(Redirect),
    /// A fixed answer.
    Respond {
        status: Status,
        content_type: String,
        body: String,
    },
    /// Send to an upstream.
    Proxy(Proxy),
    /// 403.
    Deny,
}

/// Where a route sends requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Name or URL, as written.
    pub said: Box<str>,
    pub upstream: Arc<Upstream>,
    /// The client's Host goes along.
    pub preserves_host: bool,
    /// X-Forwarded-Proto is ours to say.
    pub tells_scheme: bool,
}

/// What it does, for people.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Files => f.write_str("files, with their own settings"),
            Action::Redirect(redirect) => write!(f, "redirect to {}", redirect.to),
            Action::Respond { status, .. } => write!(f, "a fixed response ({})", status.0),
            Action::Proxy(proxy) => write!(f, "proxy to {}", proxy.said),
            Action::Deny => f.write_str("deny"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    pub status: Status,
    /// A path or an absolute URI. `$1`… stand for what the stars matched, `$host`, `$path` (as
    /// sent), `$query` (with its question mark, or nothing) for parts of the request, `$$` for a
    /// dollar.
    pub to: String,
}

/// A part of [`Redirect::to`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectPiece<'t> {
    Text(&'t str),
    /// What the nth star (from 1 to 9) of the pattern stood for.
    Star(usize),
    Host,
    Path,
    Query,
}

impl Redirect {
    /// Takes a `to` apart. The error is the offset of a dollar that begins nothing known; a loaded
    /// configuration has none.
    pub fn pieces(to: &str) -> Result<Vec<RedirectPiece<'_>>, usize> {
        let mut pieces = Vec::new();
        let mut rest = to;
        while let Some((text, after)) = rest.split_once('$') {
            let offset = to.len() - after.len() - 1;
            if !text.is_empty() {
                pieces.push(RedirectPiece::Text(text));
            }
            let (piece, length) = reference(after).ok_or(offset)?;
            pieces.push(piece);
            rest = &after[length..];
        }
        if !rest.is_empty() {
            pieces.push(RedirectPiece::Text(rest));
        }
        Ok(pieces)
    }
}

/// What stands after a dollar, and its length (of ASCII, so that it never cuts a character).
fn reference(after: &str) -> Option<(RedirectPiece<'static>, usize)> {
    const NAMES: [(&str, RedirectPiece<'static>); 4] = [
        ("host", RedirectPiece::Host),
        ("path", RedirectPiece::Path),
        ("query", RedirectPiece::Query),
        ("$", RedirectPiece::Text("$")),
    ];
    if let Some(digit @ b'1'..=b'9') = after.bytes().next() {
        return Some((RedirectPiece::Star(usize::from(digit - b'0')), 1));
    }
    NAMES
        .into_iter()
        .find(|(name, _)| after.starts_with(name))
        .map(|(name, piece)| (piece, name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces() {
        use RedirectPiece::{Host, Path, Query, Star, Text};
        let all = vec![
            Text("https://"),
            Host,
            Path,
            Query,
            Text("/a"),
            Star(1),
            Text("0"),
            Text("$"),
            Text("z"),
        ];
        assert_eq!(
            Redirect::pieces("https://$host$path$query/a$10$$z"),
            Ok(all)
        );
        assert_eq!(Redirect::pieces(""), Ok(vec![]));
        assert_eq!(Redirect::pieces("/a$x"), Err(2));
        assert_eq!(Redirect::pieces("/a$"), Err(2));
        assert_eq!(Redirect::pieces("/$0"), Err(1));
        assert_eq!(Redirect::pieces("/$é"), Err(1));
    }
}
