//! The state of one request in the page cache.
//!
//! Called by: the look-up, which creates it and leaves it in the exchange, and the store filter,
//! which takes it.
//! Caveat: the fetch permit in it blocks other requests for the page until it is dropped.
//! Out of scope: hits that are answered at once by `cached_route`.

use crate::{
    background_fetch::{BackgroundFetch, FetchOutcome},
    cache::PageCache,
    client_identity::{client_identity, is_authenticated},
    esi::context::IncludeContext,
    key::{self, KEY_BYTES_MAX, KeyBase, variant_key, vary_key},
    page::{Page, wanted_range},
    record::VaryRecord,
    replay_request::ReplayRequest,
    result_fields::HitStatus,
    search_variance::SearchRule,
    settings::CacheSettings,
    stats::{SiteStats, Stat},
};
use saker_cache_rules::{
    lscache::{rewrite_env::RewriteEnv, vary::VaryRules},
    names,
    rules::{Forward, Life},
};
use saker_cache_store::{FetchPermit, Store, UnderWay};
use saker_http::{HeadView, Method, RequestHead};
use saker_pipeline::{Body, Chunk, Exchange};
use std::{collections::VecDeque, rc::Rc, sync::Arc};

/// The moment at which generating a response began, in the store's numbers.
#[derive(Clone, Copy, Debug)]
pub struct FetchStart {
    /// The last purge at that time.
    pub purge_seq: u64,
    /// For two entries of a key, the one that began later wins.
    pub number: u64,
}

impl FetchStart {
    pub fn now(store: &Store) -> FetchStart {
        FetchStart {
            purge_seq: store.purge_seq(),
            number: store.begin(),
        }
    }
}

pub struct CacheRequest {
    pub settings: Rc<CacheSettings>,
    pub key_base: KeyBase,
    /// Part of the key: the query without ignored parameters, or the text that represents all
    /// equivalent ones.
    pub query: Option<Vec<u8>>,
    /// The query without ignored parameters.
    pub asked_query: Option<Vec<u8>>,
    /// The comparison of the path's queries, where its responses set one.
    pub search_rule: Option<Rc<SearchRule>>,
    /// Values set by rewrite rules.
    pub rewrite_env: RewriteEnv,
    /// The key that was looked up first, once it has been.
    pub first_key: Option<Vec<u8>>,
    /// The client's identity, if known.
    pub client_identity: Option<Vec<u8>>,
    /// See [`crate::client_identity::is_authenticated`].
    pub is_authenticated: bool,
    /// The known vary record of this URL.
    pub vary_record: Option<Rc<VaryRecord>>,
    /// The same of the client's private pages of this URL.
    pub private_vary: Option<Rc<VaryRecord>>,
    /// The last purge when it began.
    pub purge_seq: u64,
    /// Number of its generation's beginning; 0: not passed on yet.
    pub number: u64,
    /// Held until the response is stored or not.
    pub under_way: Option<UnderWay>,
    pub began_ms: i64,
    /// Other requests wait until this is dropped.
    pub permit: Option<FetchPermit>,
    /// The request as the client sent it, where it was passed on in another form.
    pub asked: Option<RequestHead>,
    /// A page that was found and can't be used as it is.
    pub old: Option<Rc<Page>>,
    /// Why it was not answered from the cache, for Cache-Status.
    pub forward: Forward,
    /// The origin was asked to validate `old`.
    pub validates: bool,
    /// The origin has confirmed `old`.
    pub is_revalidated: bool,
    /// A QUERY, whose content is part of the key.
    pub is_query: bool,
    /// The content of a QUERY.
    pub content: VecDeque<Chunk>,
    /// Rules have edited fields of the request.
    pub is_edited: bool,
    /// The bytes that were missing of the page have just been fetched.
    pub is_completed: bool,
    /// A refresh: no client sees the response.
    pub is_refresh: bool,
    /// Set if it fetches a fragment.
    pub include: Option<IncludeContext>,
    /// Another server of the cluster was asked for the page.
    pub has_asked_peer: bool,
    /// Receives the outcome of a background fetch.
    pub background_fetch: Option<BackgroundFetch>,
    /// Counters of its site; `None`: nothing is counted.
    pub stats: Option<Arc<SiteStats>>,
    /// The last stored version of a fragment, of any age.
    pub last_good: Option<Rc<Page>>,
}

impl CacheRequest {
    /// `None`: the cache does not handle this request.
    pub fn of(
        exchange: &Exchange,
        settings: Rc<CacheSettings>,
        purge_seq: u64,
    ) -> Option<CacheRequest> {
        let key_base = KeyBase::of(exchange, &settings.edits)?;
        let view = exchange.head.view();
        let target = view.target();
        let config = &settings.config;
        if config
            .excluded_paths
            .iter()
            .any(|part| memchr::memmem::find(target, part.as_bytes()).is_some())
        {
            return None;
        }
        let mut rewrite_env = RewriteEnv::new(settings.edits.clone());
        rewrite_env.take_in(exchange.environment.iter());
        for name in &config.vary_cookies {
            rewrite_env.vary.add_cookies(name.as_bytes());
        }
        let asked = target
            .iter()
            .position(|byte| *byte == b'?')
            .and_then(|at| target.get(at + 1..));
        let query = rewrite_env.edits.edited(asked);
        let client_identity = (config.private && config.obeys_lscache)
            .then(|| client_identity(exchange, &settings.lscache))
            .flatten();
        Some(CacheRequest {
            key_base,
            asked_query: query.clone(),
            query,
            search_rule: None,
            rewrite_env,
            first_key: None,
            client_identity,
            is_authenticated: is_authenticated(exchange),
            vary_record: None,
            private_vary: None,
            purge_seq,
            number: 0,
            under_way: None,
            began_ms: exchange.now.saturating_mul(1000),
            permit: None,
            asked: None,
            old: None,
            forward: Forward::UriMiss,
            validates: false,
            is_revalidated: false,
            is_query: false,
            content: VecDeque::new(),
            is_edited: exchange.head.is_edited(),
            is_completed: false,
            is_refresh: false,
            has_asked_peer: false,
            include: None,
            background_fetch: None,
            stats: None,
            last_good: None,
            settings,
        })
    }

    /// True if an entry with that lifetime may answer this client, as far as the server's own
    /// authentication is concerned; the rules judge the request's fields.
    pub fn may_use(&self, life: &Life) -> bool {
        life.for_authorized || !self.is_authenticated
    }

    pub fn began(&self) -> FetchStart {
        FetchStart {
            purge_seq: self.purge_seq,
            number: self.number,
        }
    }

    pub fn count(&self, count: Stat) {
        self.stats.iter().for_each(|stats| stats.add(count, 1));
    }

    /// Counts a response made from a page, if it is for a client.
    pub fn count_answer(
        &self,
        cache: &PageCache,
        page: &Page,
        hit: HitStatus,
        content: Option<&Body>,
    ) {
        if !self.is_own() {
            cache.count_answer(self.stats.as_deref(), page, hit, content);
        }
    }

    /// The request by which its page can be fetched again; `None`: the page is personal, or the
    /// site does not refetch.
    pub fn replay(
        &self,
        exchange: &Exchange,
        fields: &[String],
        rules: Option<&VaryRules>,
    ) -> Option<ReplayRequest> {
        // A replay is a GET.
        if self.include.is_some()
            || !matches!(exchange.head.view().method(), Method::Get | Method::Head)
        {
            return None;
        }
        let refetched_max = self.settings.config.refetched_max;
        ReplayRequest::new(
            exchange,
            refetched_max,
            &self.rewrite_env.vary,
            fields,
            rules,
        )
    }

    pub fn note(&self, outcome: FetchOutcome) {
        self.background_fetch
            .iter()
            .for_each(|background_fetch| background_fetch.note(outcome.clone()));
    }

    /// True if the page is for another server of the cluster.
    pub fn is_for_peer(&self) -> bool {
        self.background_fetch
            .as_ref()
            .is_some_and(BackgroundFetch::is_for_peer)
    }

    /// True if pages may answer the request: GET, HEAD, and QUERY where it is cached.
    pub fn is_read(&self, view: HeadView<'_>) -> bool {
        matches!(view.method(), Method::Get | Method::Head) || self.is_query
    }

    /// True if the response may become a page: the request asks for a whole one.
    pub fn is_fetch(&self, view: HeadView<'_>) -> bool {
        view.method() == Method::Get && wanted_range(view).is_none() || self.is_query
    }

    /// True if the response is for the cache only.
    pub fn is_own(&self) -> bool {
        self.is_refresh || self.background_fetch.is_some()
    }

    /// Makes the key that is looked up first.
    pub fn make_first_key(&self, view: HeadView<'_>) -> Option<Vec<u8>> {
        let (query, by_device) = (self.query.as_deref(), self.key_base.by_device);
        let mut key = Vec::with_capacity(self.key_base.usual_bytes());
        self.key_base.key_into(query, &mut key, |out| {
            key::variant_into(view, &self.rewrite_env.vary, by_device, out);
        });
        (key.len() <= KEY_BYTES_MAX).then_some(key)
    }

    /// The key of the URL's vary record.
    pub fn vary_key(&self) -> Vec<u8> {
        vary_key(&self.key_base, self.query.as_deref())
    }

    /// The key that a vary record leads to.
    pub fn variant_key(&self, vary_record: &VaryRecord, view: HeadView<'_>) -> Option<Vec<u8>> {
        variant_key(
            &self.key_base,
            self.query.as_deref(),
            &self.rewrite_env.vary,
            &self.settings.config.ignored_cookies,
            vary_record,
            view,
        )
    }

    /// The key of the client's private page, or of the vary record of several.
    pub fn private_key(&self, view: HeadView<'_>) -> Option<Vec<u8>> {
        self.of_client(self.make_first_key(view)?)
    }

    /// The key that the vary record of private pages leads to.
    pub fn private_variant_key(
        &self,
        vary_record: &VaryRecord,
        view: HeadView<'_>,
    ) -> Option<Vec<u8>> {
        self.of_client(self.variant_key(vary_record, view)?)
    }

    fn of_client(&self, key: Vec<u8>) -> Option<Vec<u8>> {
        let key = key::with_identity(&key, self.client_identity.as_deref()?);
        (key.len() <= KEY_BYTES_MAX).then_some(key)
    }

    /// Compares queries by a rule of the path from now on; `None`: as they are.
    pub fn compare_by(&mut self, rule: Option<Rc<SearchRule>>) {
        if self.search_rule == rule {
            return;
        }
        let asked = self.asked_query.as_deref();
        self.query = match &rule {
            Some(rule) => Some(rule.query(asked)),
            None => self.asked_query.clone(),
        };
        self.search_rule = rule;
        // They were the other URL's.
        (self.vary_record, self.private_vary, self.first_key) = (None, None, None);
    }

    /// The URL as purges name it.
    pub fn url(&self) -> Vec<u8> {
        self.key_base.with_query(self.query.as_deref())
    }

    /// The tag of all variants of the URL.
    pub fn url_tag(&self) -> Vec<u8> {
        names::url_tag_of(&self.key_base.url, self.query.as_deref())
    }

    /// True if a target has this path.
    pub fn is_at(&self, target: &[u8], path: Option<&str>) -> bool {
        path.is_some_and(|path| target.split(|byte| *byte == b'?').next() == Some(path.as_bytes()))
    }

    pub fn private_scope(&self) -> Option<Vec<u8>> {
        self.client_identity
            .as_deref()
            .map(|client_identity| names::private_scope(&self.key_base.scope, client_identity))
    }
}
