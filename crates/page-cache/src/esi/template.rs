//! Pages with ESI: their template is kept, and put together for each visitor on its way out.
//!
//! KeyBase in the walk: the filter that keeps calls [`take_in`] with the content of a response that
//! says it has ESI, and [`assemble`] with what is to go out; for a hit, the look-up leaves a
//! [`PendingAssembly`] behind a head that is ready, and the same filter goes on from there. Difficulty:
//! what a page says for other addresses (`inline`) may be for this visitor alone, so it is taken
//! out of what is kept for all. Absent on purpose: pages in pieces. A template is whole when it is
//! kept.

use crate::esi::memory_budget::Reservation;
use saker_esi::Template;
use saker_pipeline::Chunk;

/// A template with its text.
pub struct ParsedTemplate {
    pub page: Chunk,
    pub template: Template,
    /// Of what one request may hold, where it is one request's.
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
