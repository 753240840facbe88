//! What answers requests: files of the document root, directory listings, PHP files, redirects and
//! fixed answers; and the filter that compresses.
//!
//! Floor 5: knows the pipeline's contract (`Exchange` in, `Response` out), never a socket or a
//! protocol version. `server` puts [`StaticFiles`], [`PhpFiles`], [`CgiFiles`], [`FixedAnswers`],
//! [`FieldFilter`] and [`Compress`] into its registry.

mod cgi_files;
pub mod coding;
pub mod compress;
mod encoded_stream;
pub mod field_filter;
mod fixed;
mod listing;
mod listing_page;
mod location;
pub mod page_cache;
mod php_files;
pub mod redirect;
pub mod static_files;

#[cfg(test)]
mod tests;

pub use cgi_files::CgiFiles;
pub use compress::Compress;
pub use field_filter::FieldFilter;
pub use php_files::PhpFiles;
pub use redirect::FixedAnswers;
pub use static_files::StaticFiles;
