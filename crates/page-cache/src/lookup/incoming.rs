//! State that an exchange brings to the look-up.
//!
//! Called by: `search`.
//! Caveat: one slot of the exchange holds any of four types; an internal redirect finds the state
//! of the request before it.
//! Out of scope: what the state means.

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

/// What a background fetch, a refresh or a fragment request brings along.
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
            // An internal redirect.
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
