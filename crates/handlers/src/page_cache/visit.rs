//! One request's dealings with the cache: what it asked for, and what is known of it when the
//! response has come.

use super::{
    PageCache,
    errand::{Errand, Outcome},
    esi::Inside,
    key::{self, KEY_BYTES_MAX, Place},
    page::{Page, Told},
    record::Sign,
    settings::Terms,
    tally::{Count, Tally},
};
use saker_cache_rules::{
    lscache::{rewrite_env::RewriteEnv, vary::VaryRules},
    names,
    rules::{Forward, Life},
};
use saker_cache_store::{EntryHead, Store, TagMark, Ticket, UnderWay};
use saker_http::{HeadView, RequestHead};
use saker_pipeline::{Body, Exchange};
use std::{rc::Rc, sync::Arc};

/// When the making of a response began, in numbers of the store's.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    /// What had been purged.
    pub moment: u64,
    /// Of two entries of a key, the one that began later stays.
    pub number: u64,
}

impl Began {
    pub fn now(store: &Store) -> Began {
        Began {
            moment: store.moment(),
            number: store.begin(),
        }
    }
}

pub struct Visit {
    pub terms: Rc<Terms>,
    pub place: Place,
    /// Of the key: without what makes no other page.
    pub query: Option<Vec<u8>>,
    /// What rules said to the cache.
    pub said: RewriteEnv,
    /// The client's identity, where something identifies it.
    pub visitor: Option<Vec<u8>>,
    /// See [`key::is_authenticated`].
    pub is_authenticated: bool,
    /// What responses of this address vary by, as far as that is known.
    pub sign: Option<Rc<Sign>>,
    /// What had been purged when it began.
    pub moment: u64,
    /// When others were asked to answer; 0: they have not been.
    pub number: u64,
    /// Until its response is kept or not.
    pub under_way: Option<UnderWay>,
    pub began_ms: i64,
    /// Others wait for what comes of this.
    pub ticket: Option<Ticket>,
    /// The request as the client sent it, where those who answer see another one.
    pub asked: Option<RequestHead>,
    /// What was found and could not be used as it is.
    pub old: Option<Rc<Page>>,
    /// Why it was not answered from the cache, as Cache-Status says it.
    pub forward: Forward,
    /// The origin was asked whether that still holds.
    pub validates: bool,
    /// It said that it does.
    pub is_revalidated: bool,
    /// Nobody sees the response: it is made to be kept.
    pub is_refresh: bool,
    /// It is a part of a page.
    pub inside: Option<Inside>,
    /// Somebody wants to know what becomes of the page.
    pub errand: Option<Errand>,
    /// What is counted, of its site; `None`: nothing is.
    pub tally: Option<Arc<Tally>>,
    /// What there was of a part, however old: better than none.
    pub last_good: Option<Rc<Page>>,
}

impl Visit {
    /// `None`: the cache has nothing to do with this request.
    pub fn of(exchange: &Exchange, terms: Rc<Terms>, moment: u64) -> Option<Visit> {
        let place = Place::of(exchange, &terms.edits)?;
        let view = exchange.head.view();
        let target = view.target();
        let given = &terms.given;
        if given
            .excluded_paths
            .iter()
            .any(|part| memchr::memmem::find(target, part.as_bytes()).is_some())
        {
            return None;
        }
        let mut said = RewriteEnv::new(terms.edits.clone());
        said.take_in(exchange.environment.iter());
        for name in &given.vary_cookies {
            said.vary.add_cookies(name.as_bytes());
        }
        let asked = target
            .iter()
            .position(|byte| *byte == b'?')
            .and_then(|at| target.get(at + 1..));
        let query = said.edits.edited(asked);
        let visitor = (given.private && given.obeys_lscache)
            .then(|| key::visitor(exchange, &terms.lscache))
            .flatten();
        Some(Visit {
            place,
            query,
            said,
            visitor,
            is_authenticated: key::is_authenticated(exchange),
            sign: None,
            moment,
            number: 0,
            under_way: None,
            began_ms: exchange.now.saturating_mul(1000),
            ticket: None,
            asked: None,
            old: None,
            forward: Forward::UriMiss,
            validates: false,
            is_revalidated: false,
            is_refresh: false,
            inside: None,
            errand: None,
            tally: None,
            last_good: None,
            terms,
        })
    }

    /// Whether an entry with that life may answer this client, as far as the server itself knows
    /// it; what its request shows is for the rules.
    pub fn may_use(&self, life: &Life) -> bool {
        life.for_authorized || !self.is_authenticated
    }

    pub fn began(&self) -> Began {
        Began {
            moment: self.moment,
            number: self.number,
        }
    }

    pub fn count(&self, count: Count) {
        self.tally.iter().for_each(|tally| tally.add(count, 1));
    }

    /// An answer that was made of a page, where it is for a visitor.
    pub fn count_answer(&self, cache: &PageCache, page: &Page, told: Told, content: Option<&Body>) {
        if !self.is_own() {
            cache.count_answer(self.tally.as_deref(), page, told, content);
        }
    }

    pub fn note(&self, outcome: Outcome) {
        self.errand
            .iter()
            .for_each(|errand| errand.note(outcome.clone()));
    }

    /// Whether the response is made for nobody but the cache.
    pub fn is_own(&self) -> bool {
        self.is_refresh || self.errand.is_some()
    }

    /// The key that is looked for first.
    pub fn first_key(&self, view: HeadView<'_>) -> Option<Vec<u8>> {
        let key = self.place.key(
            self.query.as_deref(),
            &key::variant(view, &self.said.vary, self.place.by_device),
        );
        (key.len() <= KEY_BYTES_MAX).then_some(key)
    }

    /// Where it stands what responses of this address vary by.
    pub fn sign_key(&self) -> Vec<u8> {
        sign_key(&self.place, self.query.as_deref())
    }

    /// The key where a sign leads on to.
    pub fn key_by(&self, sign: &Sign, view: HeadView<'_>) -> Option<Vec<u8>> {
        signed_key(
            &self.place,
            self.query.as_deref(),
            &self.said.vary,
            &self.terms.given.ignored_cookies,
            sign,
            view,
        )
    }

    pub fn private_key(&self, view: HeadView<'_>) -> Option<Vec<u8>> {
        let key = key::with_visitor(&self.first_key(view)?, self.visitor.as_deref()?);
        (key.len() <= KEY_BYTES_MAX).then_some(key)
    }

    /// The URL as purges name it.
    pub fn url(&self) -> Vec<u8> {
        self.place.with_query(self.query.as_deref())
    }

    /// Whether a target's path is this one.
    pub fn is_at(&self, target: &[u8], path: Option<&str>) -> bool {
        path.is_some_and(|path| target.split(|byte| *byte == b'?').next() == Some(path.as_bytes()))
    }

    pub fn private_scope(&self) -> Option<Vec<u8>> {
        self.visitor
            .as_deref()
            .map(|visitor| names::private_scope(&self.place.scope, visitor))
    }
}

pub fn sign_key(place: &Place, query: Option<&[u8]>) -> Vec<u8> {
    place.key(query, b"sign")
}

pub fn signed_key(
    place: &Place,
    query: Option<&[u8]>,
    said: &VaryRules,
    ignored_cookies: &[String],
    sign: &Sign,
    view: HeadView<'_>,
) -> Option<Vec<u8>> {
    let variant = match (sign.is_one, &sign.rules) {
        (true, _) => key::one_variant(view, place.by_device),
        (false, Some(rules)) => key::variant(view, rules, place.by_device),
        (false, None) => key::variant(view, said, place.by_device),
    };
    let fields = sign.vary()?.secondary_key_without(view, ignored_cookies);
    let key = key::with_fields(place.key(query, &variant), &fields);
    (key.len() <= KEY_BYTES_MAX).then_some(key)
}

/// Tags of a visitor's own begin so in an entry's head.
pub const PRIVATE: u8 = b'P';

/// What purges go by, of an entry's head.
pub fn marks(head: &EntryHead) -> Box<[TagMark]> {
    let private = private_scope(&head.site, &head.key);
    let mark = |tag: &Vec<u8>| match (tag.split_first(), &private) {
        (Some((&PRIVATE, tag)), Some(scope)) => super::mark(scope, tag),
        _ => super::mark(&head.site, tag),
    };
    head.tags.iter().map(mark).collect()
}

/// Of the visitor whose alone an entry is, by its key.
pub fn private_scope(site: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    const VISITOR: &[u8] = b"\0visitor ";
    let at = memchr::memmem::rfind(key, VISITOR)?;
    Some(names::private_scope(site, &key[at + VISITOR.len()..]))
}
