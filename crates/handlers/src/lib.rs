//! Handlers and filters of native sites: redirects, fixed answers, PHP and CGI programs, fields,
//! and the fields of login protection.
//!
//! Called by: the server's registry, which puts [`PhpFiles`], [`CgiFiles`], [`FixedAnswers`],
//! [`FieldFilter`] and [`GuardFields`] into its lists.
//! Caveat: the programs' own names are never served as files; they are run or refused.
//! Out of scope: static files (`saker_static_files`) and the page cache (`saker_page_cache`).

mod cgi_files;
pub mod field_filter;
pub mod guard_fields;
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
pub use field_filter::FieldFilter;
pub use guard_fields::{GuardFields, LoginAttempts};
pub use php_files::PhpFiles;
pub use redirect::FixedAnswers;
