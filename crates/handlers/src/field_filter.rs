//! Applies the configured edits of response fields to built heads.
//!
//! Called by: the filter chain: first, and once more behind the page cache.
//! Caveat: ready heads had their edits applied when they were made.
//! Out of scope: Apache's Header directive.

use saker_pipeline::{Exchange, Filter, LocalFuture, Response, field_edits};

#[derive(Clone, Copy, Debug, Default)]
pub struct FieldFilter;

impl Filter for FieldFilter {
    fn name(&self) -> &'static str {
        "fields"
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        let (status, edits) = (response.status, &exchange.routing.settings.fields);
        match may_be_stored(exchange) {
            true => {
                let shared = edits.iter().filter(|edit| !edit.is_per_request);
                field_edits::apply(shared, status, response.fields_mut());
            }
            false => field_edits::apply(edits, status, response.fields_mut()),
        }
        saker_pipeline::done()
    }
}

/// Returns true if the response may become a page of the page cache, or is one.
fn may_be_stored(exchange: &Exchange) -> bool {
    exchange.upstream.is_answered_by_program && exchange.routing.settings.cache.is_on
}

/// Applies edits that depend on the request to responses that may be stored, and to stored ones: a
/// stored page must not have what was meant for one client.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestFieldFilter;

impl Filter for RequestFieldFilter {
    fn name(&self) -> &'static str {
        "request_fields"
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        may_be_stored(exchange)
            && (exchange.routing.settings.fields)
                .iter()
                .any(|edit| edit.is_per_request)
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        if self.takes_ready(exchange) {
            let own = exchange.routing.settings.fields.iter();
            let own = own.filter(|edit| edit.is_per_request);
            field_edits::apply(own, response.status, response.fields_mut());
            // A page that answers from the route cache passes no filter.
            exchange.cache.cached_route = None;
        }
        saker_pipeline::done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Folder, block_on, exchange};
    use saker_config::model::{FieldEdit, FieldEditAction, Origin, Settings};
    use saker_http::Status;

    #[test]
    fn edits_reach_built_heads() {
        let edit = FieldEdit {
            name: "X-A".into(),
            action: FieldEditAction::Set("1".into()),
            always: false,
            template: None,
            is_per_request: false,
            origin: Origin::built_in(),
        };
        let settings = Settings {
            fields: vec![edit],
            ..Settings::default()
        };
        let folder = Folder::new();
        for (status, expected) in [(Status::OK, Some(&b"1"[..])), (Status::NOT_FOUND, None)] {
            let mut exchange = exchange(&folder.site(settings.clone()), "GET", "/", &[]);
            let mut response = Response::new(status);
            block_on(FieldFilter.apply(&mut exchange, &mut response));
            assert_eq!(response.fields().first("X-A"), expected);
        }
    }
}
