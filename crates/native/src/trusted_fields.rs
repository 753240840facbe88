//! Request fields that programs trust: the server's own replace those that the client sent.
//!
//! Called by: `forward_auth` (`authorize_fields`) and `identity` (`fields` of `[site.auth]`).
//! Caveat: names are compared as programs see them, so `Remote_User` goes with `Remote-User`; options
//! of `Connection` and trailers of these names go, too.
//! Out of scope: requests that are refused before the access phase; the gateway drops the fields
//! there.

use saker_config::model::Throttle;
use saker_http::{Fields, KnownField, field_name::is_alike};
use saker_pipeline::{BodyError, Chunk, Exchange, NoBody, RequestBody};
use std::{
    rc::Rc,
    task::{Context, Poll},
};

/// Replaces all request fields of these names by `own`.
pub fn replace_fields(exchange: &mut Exchange, names: &[Box<str>], own: &[(Box<str>, Vec<u8>)]) {
    if names.is_empty() {
        return;
    }
    // In every spelling that a program could confuse with it.
    let is_named = |name: &[u8]| names.iter().any(|field| is_alike(field.as_bytes(), name));
    let own = own
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_slice()));
    let view = exchange.head.view();
    let options: Vec<Vec<u8>> = view
        .lines(KnownField::Connection)
        .map(|line| without(line, is_named))
        .collect();
    let kept = view
        .fields()
        .filter(|(name, _)| !is_named(name) && !name.eq_ignore_ascii_case(b"connection"));
    let options = options
        .iter()
        .filter(|line| !line.is_empty())
        .map(|line| (&b"Connection"[..], line.as_slice()));
    exchange.head = exchange.head.with_fields(kept.chain(options).chain(own));
    names.iter().for_each(|name| exchange.notes_edit_of(name));
    if !exchange.body.is_end() {
        let inner = std::mem::replace(&mut exchange.body, Box::new(NoBody));
        exchange.body = Box::new(WithoutTrailers {
            inner,
            names: names.into(),
        });
    }
}

/// `Connection` without options that would have these fields taken for the client's own hop and
/// dropped before the program (RFC 9110 section 7.6.1).
fn without(options: &[u8], is_named: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    options
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|option| !is_named(option))
        .collect::<Vec<_>>()
        .join(&b", "[..])
}

/// Content without trailers of these names: some programs take trailers for fields of the head.
struct WithoutTrailers {
    inner: Box<dyn RequestBody>,
    names: Rc<[Box<str>]>,
}

impl RequestBody for WithoutTrailers {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.inner.poll_chunk(cx)
    }

    fn length(&self) -> Option<u64> {
        self.inner.length()
    }

    fn is_end(&self) -> bool {
        self.inner.is_end()
    }

    fn trailers(&mut self) -> Option<Fields> {
        let mut fields = self.inner.trailers()?;
        fields.retain(|name| {
            !self
                .names
                .iter()
                .any(|field| is_alike(field.as_bytes(), name.as_bytes()))
        });
        (!fields.is_empty()).then_some(fields)
    }

    fn take_time(&mut self) {
        self.inner.take_time();
    }

    fn throttle(&mut self, throttle: &Throttle, site: usize) {
        self.inner.throttle(throttle, site);
    }

    fn limit(&mut self, bytes_max: u64) {
        self.inner.limit(bytes_max);
    }
}
