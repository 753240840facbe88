//! What is kept of a walk that led to the cache: from then on requests for that path are answered
//! from memory without another one.
//!
//! Left as the exchange's reusable, kept as long as everything the walk depended on holds.
//! Difficulty: it sees no more than the request's head. So whoever may have an entry of his own, or
//! is to be judged otherwise, walks; and so does everybody whose page is not in memory, is stale,
//! or was purged.

use super::{
    Kept, PageCache, again,
    key::{self, Place},
    page::{Manner, Outcome, Page, Told},
    settings::Terms,
    tally::Tally,
    visit::{sign_key, signed_key},
};
use saker_cache_rules::{
    lscache::{query::KeyEdits, vary::VaryRules},
    rules::{Use, judge_use},
};
use saker_cache_store::Standing;
use saker_http::{HeadView, KnownField, Method};
use saker_pipeline::{Response, Reusable};
use std::{rc::Rc, sync::Arc};

pub struct Plan {
    pub cache: Rc<PageCache>,
    pub terms: Rc<Terms>,
    pub place: Place,
    pub vary: VaryRules,
    pub edits: KeyEdits,
    pub manner: Manner,
    pub tally: Option<Arc<Tally>>,
}

impl Reusable for Plan {
    fn answer(&self, head: HeadView<'_>, now: i64) -> Option<Response> {
        if (head.has(KnownField::Cookie) || head.has(KnownField::Authorization))
            && self.may_have_own(head)
        {
            return None;
        }
        let page = self.page(head)?;
        if page.is_template
            || self.cache.standing(&page) != Standing::Valid
            || again::is_due(
                &page,
                self.terms.given.refresh_ahead_percent,
                now.saturating_mul(1000),
            )
            || judge_use(head, &page.life, &self.terms.http, now.saturating_mul(1000)) != Use::Fresh
        {
            return None;
        }
        match page.respond(head, &self.manner, Told::Hit, now) {
            Outcome::Answer(response)
                if !response.status.is_error() || response.status == page.status =>
            {
                let content = (head.method() != Method::Head).then_some(&response.body);
                self.cache
                    .count_answer(self.tally.as_deref(), &page, Told::Hit, content);
                Some(response)
            }
            _ => None,
        }
    }

    fn memory_bytes(&self) -> usize {
        // Pages are the tier's.
        size_of::<Plan>() + 256
    }
}

impl Plan {
    /// Whether this visitor may have private entries here.
    fn may_have_own(&self, head: HeadView<'_>) -> bool {
        let given = &self.terms.given;
        given.private && given.obeys_lscache && self.cache.has_private(&self.place.scope)
            || super::look_up::is_own(head, &self.terms)
    }

    fn page(&self, head: HeadView<'_>) -> Option<Rc<Page>> {
        let target = head.target();
        let asked = target
            .iter()
            .position(|byte| *byte == b'?')
            .and_then(|at| target.get(at + 1..));
        let edited = if self.edits.is_empty() {
            None
        } else {
            Some(self.edits.edited(asked))
        };
        let query = edited.as_ref().map_or(asked, |edited| edited.as_deref());
        let mut scratch = self.cache.scratch.borrow_mut();
        self.place.key_into(query, &mut scratch, |out| {
            key::variant_into(head, &self.vary, self.place.by_device, out)
        });
        if let Some(Kept::Page(page)) = self.cache.in_memory(&scratch) {
            return Some(page);
        }
        let Kept::Sign(sign) = self.cache.in_memory(&sign_key(&self.place, query))? else {
            return None;
        };
        let key = signed_key(
            &self.place,
            query,
            &self.vary,
            &self.terms.given.ignored_cookies,
            &sign,
            head,
        )?;
        match self.cache.in_memory(&key)? {
            Kept::Page(page) if sign.leads_to(page.id) => Some(page),
            Kept::Page(_) | Kept::Sign(_) => None,
        }
    }
}
