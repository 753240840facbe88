//! Apache's content filters: chooses the filters of `saker_content_filters` for a request and
//! configures them. [`FILTERS`] is the one list of them.
//!
//! Called by: `response::encoding`, once the file is known (files are encoded by their handler,
//! which keeps the result); [`ContentFilters`], on the response; [`wrap_request_body`], before the
//! handler reads the request body.
//! Caveat: Apache sorts filters by their type first and by the order of their names second, so that
//! `SetOutputFilter DEFLATE;SUBSTITUTE` substitutes before it compresses ([`Stage`]).

mod built_in;
mod external;
mod input;
mod inside;
mod response_filter;

pub use input::wrap_request_body;
pub use inside::Inside;
pub use response_filter::ContentFilters;

use crate::{host::Host, includes, local::Local};
use saker_content_filters::Stage;
use saker_files::Watcher;
use saker_http::Status;
use saker_pipeline::{Exchange, LocalFuture, RequestBody, Response};
use std::sync::Arc;

/// A response on its way to the client, with the settings in force for it.
#[allow(dead_code, reason = "not every filter wants everything of it")]
pub struct Passage<'p> {
    pub exchange: &'p mut Exchange,
    pub response: &'p mut Response,
    pub host: &'p Arc<Host>,
    pub local: &'p Arc<Local>,
    pub watcher: &'p Watcher,
    /// For filters that make subrequests.
    pub inside: &'p Inside,
}

/// One filter with the settings of this request. Implementations are listed in [`FILTERS`], or
/// found by [`find`] if the configuration names them.
pub trait ContentFilter {
    /// Compared without regard to case.
    fn name(&self) -> &str;

    fn stage(&self) -> Stage;

    /// Returns whether it makes other content of a file. Such filters are applied to the response,
    /// which is not cached; others may leave files to their handler.
    fn changes_files(&self) -> bool {
        true
    }

    /// Prepares a response that the handler sends as it is. Called when the file is known.
    fn prepare(&self, _: &mut Exchange, _: &Host, _: &Local) {}

    /// Filters the response: replaces its body, mostly by a stream around it, and the fields that
    /// no longer hold.
    ///
    /// # Errors
    /// The status of an error page that replaces the response.
    fn output<'f>(&'f self, _: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the request body behind the filter.
    fn input(
        &self,
        _: &mut Exchange,
        _: &Host,
        _: &Watcher,
        _: &Local,
        body: Box<dyn RequestBody>,
    ) -> Box<dyn RequestBody> {
        body
    }

    /// Returns whether the validators of the file still hold, so that the request's conditions
    /// count.
    fn keeps_validators(&self, _: &mut Exchange, _: &Watcher, _: &Local) -> bool {
        true
    }
}

/// Built-in filters.
const FILTERS: &[&dyn ContentFilter] = &[
    &built_in::Inflate,
    &includes::INCLUDES,
    &built_in::Substitute,
    &built_in::Sed,
    &built_in::Data,
    &built_in::Buffer,
    &built_in::Deflate,
    &built_in::RateLimit,
    &built_in::BrotliCompress,
];

/// Returns the filter called `name`.
pub fn find<'h>(host: &'h Host, name: &str) -> Option<&'h dyn ContentFilter> {
    let external = || {
        host.process
            .external_filters
            .iter()
            .find(|filter| filter.name.eq_ignore_ascii_case(name))
    };
    let own = FILTERS
        .iter()
        .copied()
        .find(|filter| filter.name().eq_ignore_ascii_case(name));
    own.or_else(|| external().map(|filter| filter as &dyn ContentFilter))
}

pub fn stage_of(host: &Host, name: &str) -> Option<Stage> {
    find(host, name).map(|filter| filter.stage())
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_content_filters::catalog::{CATALOG, find};

    #[test]
    fn the_catalog_and_the_list_agree() {
        assert_eq!(FILTERS.len(), CATALOG.len());
        for filter in FILTERS {
            let row = find(filter.name()).unwrap();
            assert_eq!(
                (filter.stage(), filter.changes_files()),
                (row.stage, row.changes_files),
                "{}",
                row.name
            );
        }
    }
}
