//! Server-side includes as mod_include has them, pure: bytes of a page go in, text and demands come
//! out.
//!
//! Floor 3. [`Scanner`] finds the elements (`<!--#name argument="value" -->`), [`Page`] executes
//! them: what it can't do itself (other pages, files, programs) it demands ([`Demand`]), and it
//! continues after the answer. Immediate queries (times, sizes, expressions, variables) go to a
//! [`World`]. Memory is bounded: text passes through, and elements and values have a maximum size.
//! Caveat: a page may be split anywhere on its way in; the result must not depend on the split.
//! Out of scope: files, subrequests, processes and clocks, which the code that drives the page
//! provides.

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
