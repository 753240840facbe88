//! x

use crate::esi::memory_budget::MemoryBudget;
use saker_cache_rules::{lscache::control::CONTROL, rules::control::directives};
use saker_esi::Wanted;
use saker_http::Fields;
use std::{cell::Cell, rc::Rc};

/// Pages inside one another.
pub const DEPTH_MAX: u8 = 5;

/// Includes of a page and of all that it includes.
const INCLUDES_MAX: usize = 256;

/// Held at a time of a page and of all that it includes.
const HELD_BYTES_MAX: usize = 32 << 20;

/// How far in a request is, and what the page around it may still ask for.
#[derive(Clone)]
pub struct IncludeContext {
    pub depth: u8,
    pub left: Rc<Cell<usize>>,
    pub memory: MemoryBudget,
    pub hints: Rc<IncludeHints>,
}

/// What the include says of its part.
#[derive(Debug, Default)]
pub struct IncludeHints {
    /// Where the response does not say how long it lives.
    pub ttl_s: Option<u64>,
    /// Where the response has nothing to say to caches.
    pub cache_control: Option<Vec<u8>>,
    /// Beside the response's own.
    pub cache_tag: Option<Vec<u8>>,
}

impl IncludeHints {
    pub fn of(wanted: &Wanted) -> Rc<IncludeHints> {
        let Wanted {
            ttl_s,
            cache_control,
            cache_tag,
            ..
        } = wanted;
        Rc::new(IncludeHints {
            ttl_s: *ttl_s,
            cache_control: cache_control.clone(),
            cache_tag: cache_tag.clone(),
        })
    }

    /// In force for a response: what has no lifetime in it is a hint where to look (LSCache
    /// protocol 9.2), and what the response itself says to any cache goes before.
    pub fn control_for(&self, fields: &Fields) -> Option<Vec<u8>> {
        const WORDS: [&str; 5] = [
            CONTROL,
            "Cache-Control",
            "CDN-Cache-Control",
            "Surrogate-Control",
            "Expires",
        ];
        let list = self.cache_control.as_deref()?;
        let list = match self.ttl_s {
            // The first: a lifetime in the list is the nearer word.
            Some(ttl_s) => [format!("max-age={ttl_s},").as_bytes(), list].concat(),
            None => list.to_vec(),
        };
        let decides = directives(&list).any(|directive| {
            ["max-age", "s-maxage", "no-cache", "no-store"]
                .iter()
                .any(|name| directive.name.eq_ignore_ascii_case(name.as_bytes()))
        });
        (decides && !WORDS.iter().any(|name| fields.has(name))).then_some(list)
    }
}

impl Default for IncludeContext {
    fn default() -> IncludeContext {
        IncludeContext {
            depth: 0,
            left: Rc::new(Cell::new(INCLUDES_MAX)),
            memory: MemoryBudget::new(HELD_BYTES_MAX),
            hints: Rc::default(),
        }
    }
}
