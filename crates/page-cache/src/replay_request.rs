//! A request by which a page can be fetched again, without anything personal.
//!
//! Called by: `request`, which builds it, and `page`, which keeps it.
//! Caveat: it has the fields and cookies that select the variant, and no others.
//! Out of scope: sending it (`background_fetch`).

use crate::{endpoint::ListenerEndpoint, override_fields::is_override};
use saker_cache_rules::lscache::vary::{VARY_COOKIE, VaryRules};
use saker_http::{HeadView, RequestHead};
use saker_pipeline::Exchange;
use std::sync::Arc;

/// A request like a client's, without anything personal.
#[derive(Clone, Debug)]
pub struct ReplayRequest {
    pub endpoint: ListenerEndpoint,
    pub head: RequestHead,
    /// Pages of its site that are refetched per purge.
    pub refetched_max: usize,
}

impl ReplayRequest {
    /// `None`: the page is personal, or its site does not refetch pages.
    pub fn new(
        exchange: &Exchange,
        refetched_max: usize,
        vary: &VaryRules,
        fields: &[String],
        rules: Option<&VaryRules>,
    ) -> Option<ReplayRequest> {
        if refetched_max == 0
            || fields
                .iter()
                .any(|name| matches!(name.as_str(), "cookie" | "authorization"))
        {
            return None;
        }
        let received = exchange.head.with_host_before_edits();
        let view = received.view();
        let is_kept = |name: &[u8]| {
            let is_named = fields
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
            let is_usual = ["Host", "User-Agent", "Accept"]
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
            is_named || is_usual || is_override(name)
        };
        let names = vary
            .cookies
            .iter()
            .chain(rules.into_iter().flat_map(|rules| &rules.cookies));
        let names: Vec<&[u8]> = names.map(Vec::as_slice).collect();
        let cookie = vary_cookies(view, &names);
        let cookie = (!cookie.is_empty()).then_some((&b"Cookie"[..], cookie.as_slice()));
        let target = String::from_utf8_lossy(view.target()).into_owned();
        let head = RequestHead::build("GET", &target, view.version(), &[]);
        let head = head.with_fields(
            view.fields()
                .filter(|(name, _)| is_kept(name))
                .chain(cookie),
        );
        let client = &exchange.client;
        let endpoint = ListenerEndpoint {
            listener: Arc::clone(&client.listener),
            local: client.local,
            tls: client.tls,
            secure: client.secure,
        };
        Some(ReplayRequest {
            endpoint,
            head,
            refetched_max,
        })
    }

    pub fn memory_bytes(&self) -> usize {
        size_of::<ReplayRequest>()
            + self.head.view().target().len()
            + self
                .head
                .view()
                .fields()
                .map(|(name, value)| name.len() + value.len() + 16)
                .sum::<usize>()
    }
}

/// The cookies that select a variant.
pub fn vary_cookies(view: HeadView<'_>, names: &[&[u8]]) -> Vec<u8> {
    let kept: Vec<&[u8]> = view
        .cookies()
        .filter(|cookie| cookie.name.starts_with(VARY_COOKIE) || names.contains(&cookie.name))
        .map(|cookie| cookie.text)
        .collect();
    kept.join(&b"; "[..])
}
