//! Requests that a page makes: for another page of the site, for a file beside it, for a program.
//!
//! Difficulty: what the client said of the page does not hold for its parts: a part is had by GET,
//! whole, and whatever the client has of it. Where the content of the page's request is kept
//! (KeptBodySize), its parts are asked by the page's method, with that content.

use crate::{
    includes::origin::Origin, kept_content::KeptContent, state::state, subrequest::subrequest,
};
use saker_http::{RequestHead, path::normalize_with};
use saker_pipeline::{Exchange, Inner, NoBody};
use saker_ssi::Target;
use std::{rc::Rc, sync::Arc};

/// Coding, conditions and parts, and what describes content of the client's.
const OF_PAGE: [&str; 13] = [
    "Accept-Encoding",
    "Range",
    "If-Range",
    "If-Match",
    "If-None-Match",
    "If-Modified-Since",
    "If-Unmodified-Since",
    "Content-Length",
    "Content-Type",
    "Content-Encoding",
    "Content-Range",
    "Transfer-Encoding",
    "Expect",
];

/// A copy without its body, for later; of the page that stands in for an answer, if one does.
pub fn copy(exchange: &Exchange) -> Exchange {
    let mut copy = Exchange::new(
        Rc::clone(&exchange.client),
        exchange.head.clone(),
        Box::new(NoBody),
        Arc::clone(&exchange.routing.site),
        exchange.now,
    );
    copy.host.clone_from(&exchange.host);
    copy.path.clone_from(&exchange.path);
    copy.query.clone_from(&exchange.query);
    copy.routing
        .path_info
        .clone_from(&exchange.routing.path_info);
    copy.routing.settings = Arc::clone(&exchange.routing.settings);
    copy.environment = exchange.environment.clone();
    copy.routing.handler.clone_from(&exchange.routing.handler);
    copy.access.user.clone_from(&exchange.access.user);
    copy.routing.site_index = exchange.routing.site_index;
    copy.log.id = Rc::clone(&exchange.log.id);
    copy.share_budget(exchange);
    if let Some(page) = exchange.log.error_document.as_deref() {
        copy.path = page.path.to_vec();
        copy.query = page.query.as_deref().map(<[u8]>::to_vec);
        copy.environment = page.environment.clone();
    }
    if let Some(own) = crate::state::peek(exchange) {
        *state(&mut copy) = own.clone();
    }
    copy
}

/// The request for a target; `None`: there is no such request, or there were too many.
pub fn request(origin: &Origin, target: &Target) -> Option<Box<Exchange>> {
    let mut inner = match target {
        Target::Virtual(text) => by_path(origin, text)?,
        Target::File(name) => by_file(origin, name)?,
    };
    let kept = origin.state.kept_content.clone();
    inner.head = match &kept {
        Some(content) => with_content(&origin.exchange.head, content),
        None => whole(&origin.exchange.head),
    };
    if let Some(content) = &kept {
        inner.body = Box::new(KeptContent::new(content));
    }
    let own = state(&mut inner);
    own.is_answered = true;
    own.page = Some(Rc::clone(&origin.shared));
    own.kept_content = kept;
    Some(inner)
}

/// The request's method and what it said of its content, which is kept (KeptBodySize).
fn with_content(head: &RequestHead, content: &[u8]) -> RequestHead {
    let view = head.view();
    let is_of_page = |name: &[u8]| {
        OF_PAGE
            .iter()
            .filter(|known| !known.eq_ignore_ascii_case("Content-Type"))
            .any(|known| known.as_bytes().eq_ignore_ascii_case(name))
    };
    let length = content.len().to_string().into_bytes();
    let fields = view.fields().filter(|(name, _)| !is_of_page(name));
    head.with_method_and_fields(
        view.method_token(),
        fields.chain([(&b"Content-Length"[..], length.as_slice())]),
    )
}

/// A GET with the same fields, but for those that are about the page.
fn whole(head: &RequestHead) -> RequestHead {
    let view = head.view();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let fields: Vec<(String, String)> = view
        .fields()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
        .filter(|(name, _)| !OF_PAGE.iter().any(|known| known.eq_ignore_ascii_case(name)))
        .collect();
    let fields: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let target = text(view.target()).unwrap_or_else(|| "/".into());
    RequestHead::build("GET", &target, view.version(), &fields)
}

/// As a client would write it, absolute or from the page's folder.
fn by_path(origin: &Origin, text: &[u8]) -> Option<Box<Exchange>> {
    let text = text.split(|byte| *byte == b'#').next().unwrap_or_default();
    let (path, query) = match text.iter().position(|byte| *byte == b'?') {
        Some(at) => (text.get(..at)?, text.get(at + 1..)),
        None => (text, None),
    };
    let whole = match path.first() {
        Some(b'/') => path.to_vec(),
        _ => [
            saker_ap_expr::escape_uri(folder(&origin.exchange.path)).as_slice(),
            path,
        ]
        .concat(),
    };
    let mut read = Vec::with_capacity(whole.len());
    normalize_with(&whole, origin.host.slashes, &mut read).ok()?;
    let mut inner = subrequest(&origin.exchange, read, Inner::Include)?;
    inner.query = query.map(<[u8]>::to_vec);
    Some(inner)
}

/// A name in the page's folder or below.
fn by_file(origin: &Origin, name: &[u8]) -> Option<Box<Exchange>> {
    let name = below(name)?;
    let mut inner = subrequest(
        &origin.exchange,
        [folder(&origin.exchange.path), &name].concat(),
        Inner::Include,
    )?;
    inner.query = None;
    state(&mut inner).looked_up_file = Some([folder(&origin.state.filename), &name].concat());
    Some(inner)
}

/// Up to its last slash.
pub fn folder(path: &[u8]) -> &[u8] {
    path.get(
        ..path
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |at| at + 1),
    )
    .unwrap_or_default()
}

/// The name without its detours, if it leads nowhere above.
fn below(name: &[u8]) -> Option<Vec<u8>> {
    if name.starts_with(b"/") || name.contains(&0) {
        return None;
    }
    let mut kept: Vec<&[u8]> = Vec::new();
    for component in name.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => drop(kept.pop()?),
            component => kept.push(component),
        }
    }
    let end: &[u8] = if name.ends_with(b"/") { b"/" } else { b"" };
    Some([kept.join(&b'/').as_slice(), end].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_below() {
        let cases: [(&[u8], Option<&[u8]>); 7] = [
            (b"a.html", Some(b"a.html")),
            (b"a/../b//./c", Some(b"b/c")),
            (b"a/", Some(b"a/")),
            (b"../a", None),
            (b"a/../../b", None),
            (b"/etc/passwd", None),
            (b"a\0", None),
        ];
        for (name, expected) in cases {
            assert_eq!(
                below(name).as_deref(),
                expected,
                "{}",
                String::from_utf8_lossy(name)
            );
        }
        assert_eq!(
            (folder(b"/a/b.html"), folder(b"b")),
            (b"/a/".as_slice(), b"".as_slice())
        );
    }
}
