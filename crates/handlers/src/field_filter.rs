//! Applies the configured edits of response fields to built heads.
//!
//! Called by: the filter chain, first.
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
        let status = response.status;
        field_edits::apply(
            &exchange.routing.settings.fields,
            status,
            response.fields_mut(),
        );
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
