//! Server-side includes as mod_include has them, pure: bytes of a page go in, text and demands come
//! out.
//!
//! Floor 3. [`Scanner`] finds the elements (`<!--#name argument="value" -->`), [`Page`] carries
//! them out: what it can't do itself (other pages, files, programs) it demands ([`Demand`]), and
//! goes on when it is answered. What it asks in passing (times, sizes, expressions, variables) it
//! asks a [`World`]. Memory is bounded: text passes through, an element and a value have a largest
//! size. Difficulty: a page may be cut anywhere on its way in, and means the same however it is
//! cut. Absent on purpose: files, sub-requests, processes and clocks, which belong to whoever
//! drives the page.

mod coding;
mod elements;
mod legacy;
mod page;
mod scanner;
mod substitution;
mod variables;
mod world;

pub use page::{Answer, Demand, Page, Settings, Step, Target};
pub use scanner::{Argument, ELEMENT_BYTES_MAX, Element, Found, Scanner};
pub use variables::{Lazy, VALUE_BYTES_MAX, VARIABLES_MAX, Value, Variables};
pub use world::{Matched, World};

#[cfg(test)]
mod tests;
