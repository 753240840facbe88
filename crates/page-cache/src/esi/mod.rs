//! Pages with Edge Side Includes: the template is stored, and each client gets a page assembled
//! from it.
//!
//! Called by: `store_response`, which passes the content of a response that announces ESI to
//! [`detect`] and what goes out to [`page_response`]; on a hit the look-up leaves a
//! `PendingAssembly` behind a ready head, and the same filter continues from there.
//! Caveat: `inline` content for other URLs may be personal, so it is removed from what is stored.
//! Out of scope: templates that arrive in pieces; a template is complete when it is stored.

pub mod assemble;
pub mod assembly;
pub mod bodies;
mod combined;
pub mod context;
pub mod detect;
pub mod fragment;
pub mod memory_budget;
pub mod page_response;
pub mod source;
pub mod template;
