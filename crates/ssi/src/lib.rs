//! Server-side includes (mod_include), pure: bytes of a page go in, text and demands come out.
//!
//! Called by: the front ends' SSI filters. [`Scanner`] finds the elements (`<!--#name
//! argument="value" -->`), [`Page`] executes them: it demands everything outside of it (other
//! pages, files, programs; [`Demand`]) and continues after the answer. Immediate queries (times,
//! sizes, expressions, variables) go to a [`SsiContext`]. Memory is bounded: text passes through,
//! and elements and values have a maximum size.
//! Caveat: a page may be split anywhere on its way in; the result must not depend on the split.
//! Out of scope: files, subrequests, processes, and clocks, which the code that drives the page
//! provides.

mod coding;
mod context;
mod elements;
mod legacy;
mod page;
mod page_time;
mod scanner;
mod state;
mod substitution;
mod variables;

pub use context::{Matched, SsiContext};
pub use page::{Page, Step};
pub use page_time::formatted;
pub use scanner::{Argument, ELEMENT_BYTES_MAX, Element, Found, Scanner};
pub use state::{Answer, Demand, Settings, Target};
pub use variables::{Lazy, VALUE_BYTES_MAX, VARIABLES_MAX, Value, Variables};

#[cfg(test)]
mod tests;
