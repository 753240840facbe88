//! x

use crate::{
    background_fetch::BackgroundFetch,
    esi::{
        context::IncludeContext,
        fragment::{FragmentAnswer, FragmentRequest},
    },
    refresh::RefreshRequest,
    request::CacheRequest,
};
use saker_pipeline::Exchange;

/// What a request of the cache's own, or of a page for its parts, has with it.
#[derive(Default)]
pub struct IncomingState {
    pub refresh: Option<RefreshRequest>,
    pub include: Option<IncludeContext>,
    pub answered: Option<FragmentAnswer>,
    pub background_fetch: Option<BackgroundFetch>,
}

impl IncomingState {
    pub fn of(exchange: &mut Exchange) -> IncomingState {
        let Some(state) = exchange.page_cache.take() else {
            return IncomingState::default();
        };
        let state = match state.downcast::<RefreshRequest>() {
            Ok(refresh) => {
                return IncomingState {
                    refresh: Some(*refresh),
                    ..IncomingState::default()
                };
            }
            Err(state) => state,
        };
        let state = match state.downcast::<BackgroundFetch>() {
            Ok(background_fetch) => {
                return IncomingState {
                    background_fetch: Some(*background_fetch),
                    ..IncomingState::default()
                };
            }
            Err(state) => state,
        };
        match state.downcast::<FragmentRequest>() {
            Ok(fragment) => {
                let FragmentRequest { include, answered } = *fragment;
                IncomingState {
                    include: Some(include),
                    answered: Some(answered),
                    ..IncomingState::default()
                }
            }
            // It was led elsewhere.
            Err(state) => {
                let before = state.downcast::<CacheRequest>().ok();
                before.map_or_else(IncomingState::default, |request| {
                    let CacheRequest {
                        include,
                        background_fetch,
                        ..
                    } = *request;
                    IncomingState {
                        include,
                        background_fetch,
                        ..IncomingState::default()
                    }
                })
            }
        }
    }
}
