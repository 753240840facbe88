//! Handlers and filters of native sites: redirects, fixed answers, PHP and CGI programs, and
//! fields.
//!
//! Called by: the server's registry, which puts [`PhpFiles`], [`CgiFiles`], [`FixedAnswers`]
//! and [`FieldFilter`] into its lists.
//! Caveat: the programs' own names are never served as files; they are run or refused.
//! Out of scope: static files (`saker_static_files`) and the page cache (`saker_page_cache`).

mod cgi_files;
pub mod field_filter;
mod php_files;
pub mod redirect;

#[cfg(test)]
#[path = "../../static-files/src/test_site.rs"]
#[allow(
    dead_code,
    reason = "shared with static-files, whose tests use more of it"
)]
mod tests;

pub use cgi_files::CgiFiles;
pub use field_filter::{FieldFilter, RequestFieldFilter};
pub use php_files::PhpFiles;
pub use redirect::FixedAnswers;
