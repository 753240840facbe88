//! The nesting of a request within a page: depth, remaining includes and memory, and the hints of
//! its include element.
//!
//! Called by: all of `esi`, and `request`.
//! Caveat: the counters are shared by all levels of one page.
//! Out of scope: limits on one fragment (`fragment`).

use crate::esi::memory_budget::MemoryBudget;
use saker_cache_rules::{lscache::control::CONTROL, rules::control::directives};
use saker_esi::Wanted;
use saker_http::Fields;
use std::{cell::Cell, rc::Rc};

/// Maximum nesting of pages.
pub const DEPTH_MAX: u8 = 5;

/// Includes of a page and of everything it includes.
const INCLUDES_MAX: usize = 256;

/// Memory held at a time by a page and everything it includes, in bytes.
const HELD_BYTES_MAX: usize = 32 << 20;

/// The nesting of a request, and what the page around it may still fetch.
#[derive(Clone)]
pub struct IncludeContext {
    pub depth: u8,
    pub left: Rc<Cell<usize>>,
    pub memory: MemoryBudget,
    pub hints: Rc<IncludeHints>,
}

/// Attributes of an include element that affect how its fragment is stored.
#[derive(Debug, Default)]
pub struct IncludeHints {
    /// Lifetime, in seconds, where the response has none.
    pub ttl_s: Option<u64>,
    /// Cache control where the response has no fields for caches.
    pub cache_control: Option<Vec<u8>>,
    /// Tags in addition to the response's own.
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

    /// The cache control that applies to a response, if any. A list without a lifetime is only a
    /// hint where to look (LSCache protocol 9.2), and any caching field of the response takes
    /// precedence.
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
            // First, because a lifetime in the list takes precedence.
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
