//! State that an exchange brings to the look-up.
//!
//! Called by: `search`.
//! Caveat: an internal redirect finds the state of the request before it.
//! Out of scope: what the state means.

use crate::{
    background_fetch::BackgroundFetch,
    esi::{
        context::IncludeContext,
        fragment::{FragmentAnswer, FragmentRequest},
        page_response::PendingAssembly,
    },
    refresh::RefreshRequest,
    request::CacheRequest,
};
use saker_pipeline::Exchange;

/// State passed in by a background fetch, a refresh, or a fragment request.
#[derive(Default)]
pub struct IncomingState {
    pub refresh: Option<RefreshRequest>,
    pub include: Option<IncludeContext>,
    pub answered: Option<FragmentAnswer>,
    pub background_fetch: Option<BackgroundFetch>,
}

impl IncomingState {
    pub fn of(exchange: &mut Exchange) -> IncomingState {
        let extensions = &mut exchange.extensions;
        drop(extensions.remove::<PendingAssembly>());
        // The state of the request before an internal redirect.
        let before = extensions.remove::<CacheRequest>();
        if let Some(refresh) = extensions.remove::<RefreshRequest>() {
            return IncomingState {
                refresh: Some(refresh),
                ..IncomingState::default()
            };
        }
        if let Some(background_fetch) = extensions.remove::<BackgroundFetch>() {
            return IncomingState {
                background_fetch: Some(background_fetch),
                ..IncomingState::default()
            };
        }
        if let Some(FragmentRequest { include, answered }) = extensions.remove::<FragmentRequest>()
        {
            return IncomingState {
                include: Some(include),
                answered: Some(answered),
                ..IncomingState::default()
            };
        }
        before.map_or_else(IncomingState::default, |request| IncomingState {
            include: request.include,
            background_fetch: request.background_fetch,
            ..IncomingState::default()
        })
    }
}
