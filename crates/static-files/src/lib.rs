//! Static files: from a path below the document root to a response, directory listings included.
//!
//! Called by: the server's registry ([`StaticFiles`]) and the handlers for PHP and CGI programs,
//! which share the mapping from path to file.
//! Caveat: hidden names behave as if they did not exist, and only regular files are read.
//! Out of scope: write methods, and content negotiation by language or media type.

pub mod document_root;
pub mod file_errors;
pub mod fixed;
mod handler;
mod index;
mod listing;
mod live_representations;
pub mod locate;
mod located_file;
pub mod location;
mod make;
mod media;
pub mod names;
mod representation;
pub mod script;
mod variant;

#[cfg(test)]
mod test_site;
#[cfg(test)]
mod tests;

pub use document_root::link_policy;
pub use handler::StaticFiles;
pub use index::index_names;
pub use locate::Located;
pub use make::entity_tag;
