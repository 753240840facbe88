//! The trait of Apache's content filters.
//!
//! Called by: `content_filters`, which has the list of them; the filters.

use crate::content_filters::inside::Inside;
use saker_apache_model::{dir_config::DirConfig, host::Host};
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
    pub local: &'p Arc<DirConfig>,
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
    fn prepare(&self, _: &mut Exchange, _: &Host, _: &DirConfig) {}

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
        _: &DirConfig,
        body: Box<dyn RequestBody>,
    ) -> Box<dyn RequestBody> {
        body
    }

    /// Returns whether the validators of the file still hold, so that the request's conditions
    /// count.
    fn keeps_validators(&self, _: &mut Exchange, _: &Watcher, _: &DirConfig) -> bool {
        true
    }
}
