//! A parsed template with its text.
//!
//! Called by: `page`, `detect` and `assemble`.
//! Caveat: a template in the memory cache is not counted against a page's budget; one that a single
//! request holds is.
//! Out of scope: the parser (`saker_esi`).

use crate::esi::memory_budget::Reservation;
use saker_esi::Template;
use saker_pipeline::Chunk;

/// A parsed template with its text.
pub struct ParsedTemplate {
    pub page: Chunk,
    pub template: Template,
    /// Reservation in the budget of one request, where it belongs to one.
    pub held: Option<Reservation>,
}

impl ParsedTemplate {
    pub fn new(page: Chunk) -> ParsedTemplate {
        let template = Template::parse(page.bytes());
        ParsedTemplate {
            page,
            template,
            held: None,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.page.len() + self.template.memory_bytes()
    }
}
