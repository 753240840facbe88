//! The request as the upstream gets it: for the whole response, whatever the client asked for.
//!
//! Called by: `forwarder` and `update`.
//! Caveat: `Accept-Encoding` stays, so the response may be encoded; it is stored so, and varies by it
//! only if it says so.

use crate::page::Page;
use saker_cache_rules::keyed::Terms;
use saker_http::{KnownField, Method, RequestHead};

/// Returns the head for the upstream.
pub fn head(asked: &RequestHead, terms: &Terms, old: Option<&Page>) -> RequestHead {
    use KnownField::{IfMatch, IfModifiedSince, IfNoneMatch, IfRange, IfUnmodifiedSince, Range};
    let is_left = |name: &[u8]| {
        !matches!(
            KnownField::classify(name),
            Some(IfNoneMatch | IfModifiedSince | IfMatch | IfUnmodifiedSince | IfRange | Range)
        )
    };
    let mut conditions: Vec<(&[u8], &[u8])> = Vec::new();
    if let Some(old) = old.filter(|_| terms.revalidates) {
        let names = [
            ("Last-Modified", "If-Modified-Since"),
            ("ETag", "If-None-Match"),
        ];
        for (of_page, of_request) in names {
            if let Some(value) = old.fields.first(of_page) {
                conditions.push((of_request.as_bytes(), value));
            }
        }
    }
    let view = asked.view();
    if view.method() == Method::Head && terms.converts_head {
        let target = String::from_utf8_lossy(view.target()).into_owned();
        let bare = RequestHead::build("GET", &target, view.version(), &[]);
        let fields = view.fields().filter(|(name, _)| is_left(name));
        return bare.with_fields(fields.chain(conditions));
    }
    asked.edited(is_left, conditions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http::Version;

    #[test]
    fn the_whole_response_is_asked_for() {
        let fields = [
            ("Host", "a"),
            ("Range", "bytes=0-1"),
            ("If-None-Match", "\"x\""),
        ];
        let asked = RequestHead::build("HEAD", "/x?y", Version::Http11, &fields);
        let terms = Terms {
            converts_head: true,
            ..Terms::default()
        };
        let whole = head(&asked, &terms, None);
        let view = whole.view();
        assert_eq!((view.method(), view.target()), (Method::Get, &b"/x?y"[..]));
        let names: Vec<&[u8]> = view.fields().map(|(name, _)| name).collect();
        assert_eq!(names, [b"Host"]);
        let same = head(&asked, &Terms::default(), None);
        assert_eq!(same.view().method(), Method::Head);
    }
}
