//! What a route does with a request.
//!
//! Called by: route selection, `check` and `explain`.
//! Out of scope: the keys (`directives/route`).

use super::Proxy;
use saker_http::Status;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Serve from the document root.
    Files,
    Redirect(Redirect),
    /// A fixed response.
    Respond {
        status: Status,
        content_type: String,
        body: String,
    },
    /// Forwards to an upstream.
    Proxy(Proxy),
    /// Responds with 403.
    Deny,
}

/// Describes the action in `check` and `explain`.
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
    /// A path or an absolute URI. `$1`… are the captures of the stars, `$host`, `$path` (as sent),
    /// `$query` (with its question mark, or empty) are parts of the request, `$$` is a dollar sign.
    pub to: String,
}

/// A part of [`Redirect::to`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectPiece<'t> {
    Text(&'t str),
    /// The capture of the nth star (from 1 to 9) of the pattern.
    Star(usize),
    Host,
    Path,
    Query,
}

impl Redirect {
    /// Splits a target into pieces. The error is the offset of a dollar sign that starts no
    /// variable; a loaded configuration has none.
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

/// The variable after a dollar sign, and its length (in ASCII, so that it never splits a
/// character).
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
