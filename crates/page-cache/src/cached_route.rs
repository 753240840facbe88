//! The route cache's entry for pages: further requests for the path are answered from memory
//! without a full dispatch.
//!
//! Called by: the pipeline's fast path, through [`CachedRoute`]; left in the exchange by `lookup`.
//! Caveat: it sees the request head only. It declines for clients that may have private entries,
//! for pages that are not in memory, stale or purged, and for requests that need another decision.
//! Out of scope: everything that waits.

use crate::{
    cache::{Cached, PageCache},
    key::{self, KeyBase, variant_key, vary_key},
    page::{Page, PageAnswer, ResponseOptions},
    result_fields::HitStatus,
    search_variance::rule_key,
    settings::CacheSettings,
    stats::SiteStats,
};
use saker_cache_rules::{
    lscache::{query::KeyEdits, told, vary::VaryRules},
    rules::{Use, judge_use},
};
use saker_cache_store::Validity;
use saker_config::model::Address;
use saker_http::{HeadView, KnownField, Method};
use saker_pipeline::{CachedRoute, Client, Received, Response, client_address};
use std::{rc::Rc, sync::Arc};

pub struct CachedPageRoute {
    pub cache: Rc<PageCache>,
    pub settings: Rc<CacheSettings>,
    pub key_base: KeyBase,
    pub vary: VaryRules,
    pub edits: KeyEdits,
    pub options: ResponseOptions,
    /// Rules edit fields of the requests.
    pub is_edited: bool,
    /// Fields by which proxies describe clients are taken from others.
    pub knows_proxies: bool,
    pub stats: Option<Arc<SiteStats>>,
}

impl CachedRoute for CachedPageRoute {
    fn is_repeatable(&self) -> bool {
        false
    }

    /// Keys have the listener's scheme and port, and no user but one that a field names.
    fn answer_to(&self, request: &Received<'_>, now: i64) -> Option<Response> {
        let client = request.client;
        let session = client.session.as_ref();
        if !is_as_listener_says(client)
            || session.is_some_and(|session| !session.client_certificates.is_empty())
        {
            return None;
        }
        self.answer(request.head, now)
    }

    fn answer(&self, head: HeadView<'_>, now: i64) -> Option<Response> {
        if (head.has(KnownField::Cookie) || head.has(KnownField::Authorization))
            && self.may_have_own(head)
        {
            return None;
        }
        if !self.settings.config.with_cookies && self.settings.has_cookie(head) {
            return None;
        }
        let page = self.page(head)?;
        if page.is_template
            || self.cache.validity(&page) != Validity::Valid
            || page.is_due_for_refresh(
                self.settings.config.refresh_ahead_percent,
                now.saturating_mul(1000),
            )
            || judge_use(
                head,
                &page.life,
                &self.settings.http,
                now.saturating_mul(1000),
            ) != Use::Fresh
        {
            return None;
        }
        match page.respond(head, &self.options, HitStatus::Hit, now) {
            PageAnswer::Answer(response)
                if !response.status.is_error() || response.status == page.status =>
            {
                let content = (head.method() != Method::Head).then_some(&response.body);
                self.cache
                    .count_answer(self.stats.as_deref(), &page, HitStatus::Hit, content);
                Some(response)
            }
            _ => None,
        }
    }

    fn memory_bytes(&self) -> usize {
        // Pages belong to the memory cache.
        size_of::<CachedPageRoute>() + 256
    }
}

impl CachedPageRoute {
    /// True if this client may have private entries here.
    fn may_have_own(&self, head: HeadView<'_>) -> bool {
        let config = &self.settings.config;
        config.private && config.obeys_lscache && self.cache.has_private(&self.key_base.scope)
            || self.settings.is_personal(head)
    }

    /// Returns true if full dispatch has the field as the client sent it. (For fields that choose pages in
    /// other ways, too, no route is left where rules edit them.)
    fn reads(&self, name: &str) -> bool {
        const CHOOSING: [&str; 4] = ["accept-encoding", "authorization", "cookie", "user-agent"];
        if self.is_edited {
            return CHOOSING.contains(&name);
        }
        !(told::is_reserved_request_field(name.as_bytes())
            || self.knows_proxies && client_address::is_of_proxies(name.as_bytes()))
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
        if let Some(page) = self.page_of(head, query) {
            return Some(page);
        }
        let rule = rule_key(&self.key_base.url);
        let Cached::Search(rule) = self.cache.in_memory(&rule)? else {
            return None;
        };
        self.page_of(head, Some(&rule.query(query)))
    }

    fn page_of(&self, head: HeadView<'_>, query: Option<&[u8]>) -> Option<Rc<Page>> {
        let mut scratch = self.cache.scratch.borrow_mut();
        self.key_base.key_into(query, &mut scratch, |out| {
            key::variant_into(head, &self.vary, self.key_base.by_device, out)
        });
        if let Some(Cached::Page(page)) = self.cache.in_memory(&scratch) {
            return Some(page);
        }
        let Cached::Vary(vary_record) = self.cache.in_memory(&vary_key(&self.key_base, query))?
        else {
            return None;
        };
        if !vary_record.fields.iter().all(|name| self.reads(name)) {
            return None;
        }
        let key = variant_key(
            &self.key_base,
            query,
            &self.vary,
            &self.settings.config.ignored_cookies,
            &vary_record,
            head,
        )?;
        match self.cache.in_memory(&key)? {
            Cached::Page(page) if vary_record.leads_to(page.id) => Some(page),
            Cached::Page(_) | Cached::Vary(_) | Cached::Search(_) => None,
        }
    }
}

/// Returns true if the connection is what its listener implies. The route cache is per listener, which is
/// not enough where a proxy in front names scheme and port for each client.
pub fn is_as_listener_says(client: &Client) -> bool {
    let port = match &*client.listener {
        Address::Tcp(address) => address.port(),
        Address::Unix(_) => 0,
    };
    client.secure == client.tls && client.local.port() == port
}
