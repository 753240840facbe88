//! Apache's content filters: chooses the filters of `saker_content_filters` for a request and
//! configures them. [`FILTERS`] is the one list of them.
//!
//! Called by: `response::encoding`, once the file is known (files are encoded by their handler,
//! which keeps the result); [`ContentFilters`], on the response; [`wrap_request_body`], before the
//! handler reads the request body.
//! Caveat: Apache sorts filters by their type first and by the order of their names second, so that
//! `SetOutputFilter DEFLATE;SUBSTITUTE` substitutes before it compresses ([`Stage`]).

pub mod built_in;
pub mod external;
pub mod filter;
pub mod input;
pub mod inside;
pub mod response_filter;

pub use inside::Inside;
pub use response_filter::ContentFilters;

use crate::{content_filters::filter::ContentFilter, includes};
use saker_apache_model::host::Host;
use saker_content_filters::Stage;

/// Built-in filters.
const FILTERS: &[&dyn ContentFilter] = &[
    &built_in::Inflate,
    &includes::INCLUDES,
    &built_in::Substitute,
    &built_in::Sed,
    &built_in::ProxyHtml,
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
