//! Edge Side Includes (W3C note "ESI Language Specification 1.0", and LSCache's `esi:inline` and
//! attributes), pure.
//!
//! Floor 3. [`Template::parse`] makes parts of a page, once; [`Template::steps`] makes of them, for
//! one request, what is to be sent: text, and includes that somebody fetches. Difficulty: the page
//! is an application's, and broken ones are common: what is no ESI stays as it is, byte for byte;
//! what is begun and not ended is text with a fault that is told. What a request puts in never
//! becomes markup: values of variables are escaped in text and in addresses. Absent on purpose:
//! fetching, storing, and functions that later dialects have added.

mod expression;
mod facts;
mod parse;
mod steps;
mod tag;
mod tree;
mod value;

pub use facts::Facts;
pub use steps::{Role, Step, Wanted};
pub use tree::{Inline, Template};

#[cfg(test)]
mod tests;
