//! Edge Side Includes (W3C note "ESI Language Specification 1.0", and LSCache's `esi:inline` and
//! attributes), pure.
//!
//! Floor 3. [`Template::parse`] splits a page into parts, once; [`Template::steps`] turns them, for
//! one request, into what is to be sent: text, and includes that the caller fetches.
//! Caveat: pages come from applications, and broken ones are common: markup that isn't ESI stays as
//! it is, byte for byte; an element without an end becomes text, and a fault is reported. Request
//! data never becomes markup: values of variables are escaped in text and in addresses.
//! Out of scope: fetching, storing, and functions that later dialects have added.

mod expression;
mod facts;
mod parse;
mod steps;
mod tag;
mod tree;
mod value;

pub use facts::Facts;
pub use steps::{Step, Wanted};
pub use tree::{Inline, Role, Template};

#[cfg(test)]
mod tests;
