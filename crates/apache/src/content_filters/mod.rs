//! Apache's filters by name: what changes content on its way, piece by piece. [`LIST`] is the one
//! list of them.
//!
//! Place in the walk: which of them a response goes through is asked twice, when the file is known
//! (`response::encoding`: files are encoded by their handler, which keeps what comes out) and when
//! the answer is there ([`ContentFilters`], before everything else on the way up). What a request's
//! body goes through is decided before its handler reads it ([`wrap_request_body`]). Difficulty:
//! Apache sorts filters by their kind first and by the order in which they were named second, so
//! that `SetOutputFilter DEFLATE;SUBSTITUTE` substitutes before it compresses ([`Stage`]).

mod buffer;
mod data;
mod inflate;
mod input;
mod inside;
mod on_the_way_up;
mod rate_limit;
mod sed;
mod stream;
mod substitute;

pub use input::wrap_request_body;
pub use inside::Inside;
pub use on_the_way_up::ContentFilters;
pub use sed::script::Script;
pub use stream::{Transform, TransformedBody, TransformedStream, as_stream};

use crate::{host::Host, includes, local::Local};
use saker_files::Watcher;
use saker_http::Status;
use saker_pipeline::{Exchange, LocalFuture, RequestBody, Response};
use std::sync::Arc;

/// Where a filter stands among others, from content to connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Before all others: undoes codings.
    Decode,
    /// Changes what is said (Apache's RESOURCE).
    Resource,
    /// Changes how it is written (CONTENT_SET).
    ContentSet,
    /// Framing, ranges.
    Protocol,
    /// The pace.
    Connection,
}

/// A response on its way up, and what is in force for it.
#[allow(dead_code, reason = "not every filter wants everything of it")]
pub struct Passage<'p> {
    pub exchange: &'p mut Exchange,
    pub response: &'p mut Response,
    pub host: &'p Arc<Host>,
    pub local: &'p Arc<Local>,
    pub watcher: &'p Watcher,
    /// For filters that make requests of their own.
    pub inside: &'p Inside,
}

impl Passage<'_> {
    /// Sends the body through a transformer, whatever kind of body it is; how long it becomes is
    /// not known.
    pub fn transform(&mut self, transform: impl Transform + 'static) {
        let source = as_stream(std::mem::take(&mut self.response.body));
        self.response.body = saker_pipeline::Body::Stream(Box::new(TransformedStream::new(
            source,
            Box::new(transform),
        )));
        self.response.fields_mut().remove("Content-Length");
    }
}

/// One filter. Whoever implements it puts it into [`LIST`], or, if its name comes from the
/// configuration, into [`find`].
pub trait ContentFilter {
    /// Compared without regard to case.
    fn name(&self) -> &str;

    fn stage(&self) -> Stage;

    /// Whether it makes other content of a file. What does is applied on the way up, and the
    /// outcome is not kept; what does not may leave files to their handler.
    fn changes_files(&self) -> bool {
        true
    }

    /// What it says about an answer that its handler is to send as it is; asked when the file is
    /// known.
    fn prepare(&self, _: &mut Exchange, _: &Host, _: &Local) {}

    /// What it does to a response: takes the body and leaves another (mostly a stream around it,
    /// see [`Passage::transform`]), and changes the fields that no longer hold. The error is
    /// answered in the response's place.
    fn output<'f>(&'f self, _: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What it does to the body of a request: another one around it.
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

    /// Whether what the client has of a file says anything of what becomes of it, so that its
    /// conditions count.
    fn keeps_validators(&self, _: &mut Exchange, _: &Watcher, _: &Local) -> bool {
        true
    }
}

/// Does nothing here: the pipeline's own filter, or the driver, sees to it.
struct Elsewhere(&'static str, Stage);

impl ContentFilter for Elsewhere {
    fn name(&self) -> &str {
        self.0
    }

    fn stage(&self) -> Stage {
        self.1
    }

    fn changes_files(&self) -> bool {
        false
    }
}

/// Filters with a name of their own.
const LIST: &[&dyn ContentFilter] = &[
    &inflate::Inflate,
    &includes::INCLUDES,
    &substitute::Substitute,
    &sed::Sed,
    &data::Data,
    &buffer::Buffer,
    &inflate::Deflate,
    &rate_limit::RateLimit,
    // Encoding is the handlers', as that of DEFLATE (`modules::filters` says which codings).
    &Elsewhere("BROTLI_COMPRESS", Stage::ContentSet),
];

/// The filter of a name.
pub fn find<'h>(host: &'h Host, name: &str) -> Option<&'h dyn ContentFilter> {
    let external = || {
        host.process
            .external_filters
            .iter()
            .find(|filter| filter.name.eq_ignore_ascii_case(name))
    };
    let own = LIST
        .iter()
        .copied()
        .find(|filter| filter.name().eq_ignore_ascii_case(name));
    own.or_else(|| external().map(|filter| filter as &dyn ContentFilter))
}

pub fn stage_of(host: &Host, name: &str) -> Option<Stage> {
    find(host, name).map(|filter| filter.stage())
}

/// Whether a name stands for a filter whatever the host.
pub fn is_known(name: &str) -> bool {
    LIST.iter()
        .any(|filter| filter.name().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_name_is_there_once() {
        let names: HashSet<String> = LIST
            .iter()
            .map(|filter| filter.name().to_ascii_lowercase())
            .collect();
        assert_eq!(names.len(), LIST.len());
    }

    #[test]
    fn stages_go_from_content_to_connection() {
        assert!(
            Stage::Decode < Stage::Resource
                && Stage::Resource < Stage::ContentSet
                && Stage::Protocol < Stage::Connection
        );
    }
}
