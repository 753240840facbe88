//! The look-up: answers from the cache, or leaves the request for those who make the response, and
//! a visit for whoever keeps it.
//!
//! Of many that want the same page while it is not there, one goes on and the others wait for what
//! comes of it. A page past its time is served to everybody while one request of the cache's own
//! makes it anew (`refresh`).

use super::{
    Kept, PageCache, again,
    decide::Refusal,
    errand::{Errand, Outcome as Noted, Recipe},
    esi::{
        self,
        fragment::{Answered, Fragment},
    },
    key,
    page::{Manner, Outcome, Page, Told, wanted_range},
    parts,
    plan::Plan,
    prepare, purge,
    refresh::{self, Refresh},
    settings::Terms,
    tally::Count,
    visit::Visit,
};
use crate::coding::{self, Levels};
use saker_cache_rules::{
    lscache::{told, vary::VaryRules},
    names,
    rules::{Forward, Life, Use, judge_use, reuse, reuse::Why, validation},
};
use saker_cache_store::{Boarding, Standing, Ticket};
use saker_config::model::{Action, Address, CacheOffer};
use saker_http::{
    HeadView,
    KnownField::{
        self, AcceptEncoding, IfMatch, IfModifiedSince, IfNoneMatch, IfRange, IfUnmodifiedSince,
    },
    Method, Status,
    content_coding::Coding,
};
use saker_net::jobs::{self, JobKind};
use saker_pipeline::{Exchange, Handled, Response};
use saker_telemetry::Metric;
use std::{rc::Rc, time::Duration};

/// Codings are made one by one; each time the page is looked for again.
const ROUNDS_MAX: usize = 6;
/// Nobody waits longer for what another request makes.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// What could not be made anew is served as it is for so long before it is tried again.
const RETRY_MS: u64 = 2_000;

pub async fn look_up(cache: &Rc<PageCache>, exchange: &mut Exchange) -> Handled {
    if purge::is_purge(exchange.head.view().method_token()) {
        return Handled::Answered(purge::answer(cache, exchange));
    }
    if !is_made(exchange) {
        return Handled::Declined;
    }
    let terms = cache.terms.of(&exchange.settings.cache);
    let mut brought = Brought::of(exchange);
    let Some(mut visit) = Visit::of(exchange, terms, cache.store.moment()) else {
        let excluded = Refusal::new("excluded", "its address is excluded");
        cache
            .tallies
            .of(&key::scope(&exchange.site, exchange.site_index))
            .pass(excluded.word);
        brought
            .errand
            .iter()
            .for_each(|errand| errand.note(Noted::NotKept(excluded.clone())));
        return Handled::Declined;
    };
    visit.tally = Some(cache.tallies.of(&visit.place.scope));
    visit.errand = brought.errand.take();
    tell_application(exchange, &visit);
    if visit.said.off
        || exchange
            .call
            .as_ref()
            .and_then(|call| call.script.as_ref())
            .is_some_and(|script| script.is_included)
    {
        pass(
            &visit,
            Refusal::new("off", "rules switch the cache off for it"),
        );
        return Handled::Declined;
    }
    visit.inside = brought.inside;
    if let Some(refresh) = brought.refresh {
        (visit.ticket, visit.old, visit.is_refresh, visit.inside) = (
            Some(refresh.ticket),
            Some(refresh.old),
            true,
            refresh.inside,
        );
        go_on(cache, exchange, visit);
        return Handled::Declined;
    }
    match brought.answered.take() {
        // What a page says for this address.
        Some(Answered::With(response, began)) => {
            exchange.is_answered_by_program = true;
            (visit.moment, visit.number) = (began.moment, began.number);
            leave(cache, exchange, visit);
            return Handled::Answered(*response);
        }
        Some(Answered::FromCache) => {
            return Handled::Answered(from_cache(cache, exchange, visit).await);
        }
        Some(Answered::ByAnyone) | None => {}
    }
    let reads = matches!(exchange.head.view().method(), Method::Get | Method::Head);
    if !reads {
        leave(cache, exchange, visit);
        return Handled::Declined;
    }
    if !exchange.body.is_end() {
        // RFC 9110 section 9.3.1: content of a GET means nothing, but an application may look at
        // it, and no key does.
        exchange.trace("cache", None, || {
            "the request has content: passes by".into()
        });
        pass(&visit, Refusal::new("content", "the request has content"));
        return Handled::Declined;
    }
    search(cache, exchange, visit).await
}

/// It is answered by others, and nothing of it is kept.
fn pass(visit: &Visit, why: Refusal) {
    visit.tally.iter().for_each(|tally| tally.pass(why.word));
    visit.note(Noted::NotKept(why));
}

/// What a request of the cache's own, or of a page for its parts, has with it.
#[derive(Default)]
struct Brought {
    refresh: Option<Refresh>,
    inside: Option<esi::Inside>,
    answered: Option<Answered>,
    errand: Option<Errand>,
}

impl Brought {
    fn of(exchange: &mut Exchange) -> Brought {
        let extensions = &mut exchange.extensions;
        drop(extensions.remove::<esi::Waiting>());
        // It was led elsewhere.
        let before = extensions.remove::<Visit>();
        if let Some(refresh) = extensions.remove::<Refresh>() {
            return Brought {
                refresh: Some(refresh),
                ..Brought::default()
            };
        }
        if let Some(errand) = extensions.remove::<Errand>() {
            return Brought {
                errand: Some(errand),
                ..Brought::default()
            };
        }
        if let Some(Fragment { inside, answered }) = extensions.remove::<Fragment>() {
            return Brought {
                inside: Some(inside),
                answered: Some(answered),
                ..Brought::default()
            };
        }
        before.map_or_else(Brought::default, |visit| Brought {
            inside: visit.inside,
            errand: visit.errand,
            ..Brought::default()
        })
    }
}

/// What is there, or nothing.
async fn from_cache(cache: &Rc<PageCache>, exchange: &mut Exchange, mut visit: Visit) -> Response {
    if let Some(page) = find(cache, exchange, &mut visit).await
        && judge(cache, exchange.head.view(), &page, &visit, now_ms()) == Some(Use::Fresh)
        && let Some(response) = answer(cache, exchange, &visit, &page, Told::Hit).await
    {
        return response;
    }
    Response::new(Status::GATEWAY_TIMEOUT)
}

/// Whether somebody makes the response: a program or a server.
pub fn is_made(exchange: &Exchange) -> bool {
    exchange.call.is_some() || matches!(exchange.action(), Action::Proxy(_))
}

/// What the application is told of the cache, and what nobody else may tell it.
fn tell_application(exchange: &mut Exchange, visit: &Visit) {
    drop_reserved(exchange);
    if visit.place.by_device {
        tell_device(exchange);
    }
    tell(exchange);
    if let Some(value) = &visit.said.vary.value {
        exchange.environment.set(b"LSCACHE_VARY_VALUE", value);
        exchange
            .environment
            .set(b"HTTP_X_LSCACHE_VARY_VALUE", value);
    }
    if let Some(list) = visit.said.vary.cookie_list() {
        exchange.environment.set(b"LSCACHE_VARY_COOKIE", &list);
    }
}

/// What only a cache may say to applications.
fn drop_reserved(exchange: &mut Exchange) {
    let view = exchange.head.view();
    if view
        .fields()
        .any(|(name, _)| told::is_reserved_request_field(name))
    {
        exchange.head = exchange.head.with_fields(
            view.fields()
                .filter(|(name, _)| !told::is_reserved_request_field(name)),
        );
    }
}

/// For whom the page is, by the field that applications behind Varnish know; what clients say of
/// themselves there is not for them.
fn tell_device(exchange: &mut Exchange) {
    const DEVICE: &[u8] = b"X-UA-Device";
    let view = exchange.head.view();
    let device = key::device(view).name();
    let others = view
        .fields()
        .filter(|(name, _)| !name.eq_ignore_ascii_case(DEVICE));
    exchange.head = exchange
        .head
        .with_fields(others.chain([(DEVICE, device.as_bytes())]));
}

/// That there is a cache (LSCache protocol 2).
pub fn tell(exchange: &mut Exchange) {
    let CacheOffer {
        pages,
        crawler,
        esi,
        litemage,
    } = exchange.settings.cache.offer;
    if !pages || !is_made(exchange) {
        return;
    }
    drop_reserved(exchange);
    let abilities = told::Abilities {
        on: true,
        crawler,
        esi,
        combine: esi,
        litemage,
    };
    for (name, value) in told::variables(abilities, &VaryRules::default(), true) {
        exchange.environment.set(name.as_bytes(), &value);
    }
}

async fn search(cache: &Rc<PageCache>, exchange: &mut Exchange, mut visit: Visit) -> Handled {
    for _ in 0..ROUNDS_MAX {
        let now = now_ms();
        let used = match find(cache, exchange, &mut visit).await {
            Some(page) => {
                judge(cache, exchange.head.view(), &page, &visit, now).map(|used| (page, used))
            }
            None => None,
        };
        if visit.inside.is_some() {
            visit.last_good = used.as_ref().map(|(page, _)| Rc::clone(page));
        }
        visit.forward = forward(&visit, used.as_ref().map(|(_, used)| *used));
        let before = used.as_ref().map(|(page, _)| Rc::clone(page));
        match used {
            Some((page, Use::Fresh)) => {
                if again::is_due(&page, visit.terms.given.refresh_ahead_percent, now) {
                    page.is_renewed.set(true);
                    refresh::begin(cache, exchange, &page, visit.inside.clone());
                }
                match answer(cache, exchange, &visit, &page, Told::Hit).await {
                    Some(response) => return Handled::Answered(response),
                    None => continue,
                }
            }
            Some((page, Use::Stale)) => {
                refresh::begin(cache, exchange, &page, visit.inside.clone());
                match answer(cache, exchange, &visit, &page, Told::Stale).await {
                    Some(response) => return Handled::Answered(response),
                    None => continue,
                }
            }
            Some((page, Use::Validate(why))) => {
                exchange.trace("cache", None, || format!("found, but {}", why.sentence()));
                visit.old = Some(page);
            }
            Some((_, Use::NotUsable(why))) => {
                exchange.trace("cache", None, || format!("found, but {}", why.sentence()))
            }
            Some((_, Use::OnlyIfCached504)) => {
                return Handled::Answered(Response::new(Status::GATEWAY_TIMEOUT));
            }
            None if reuse::only_if_cached(exchange.head.view()) => {
                return Handled::Answered(Response::new(Status::GATEWAY_TIMEOUT));
            }
            None => exchange.trace("cache", None, || "not there".into()),
        }
        if let Some(response) = parts::answer(cache, exchange, &visit).await {
            exchange.trace("cache", None, || {
                "answered from the part that is there".into()
            });
            exchange.is_answered_by_program = true;
            visit.count(Count::Hits);
            cache.count(Metric::PageCacheHits);
            return Handled::Answered(response);
        }
        match board(cache, exchange, &visit) {
            // By another worker, in its own memory and on the disk.
            Some(Boarding::First(_)) if before.is_some_and(|before| cache.take_newer(&before)) => {
                visit.old = None
            }
            Some(Boarding::First(ticket)) => {
                visit.ticket = Some(ticket);
                break;
            }
            Some(Boarding::Wait(mut landing)) => {
                cache.count(Metric::PageCacheWaits);
                visit.count(Count::Waits);
                exchange.trace("cache", None, || {
                    "another request makes it: waits for that".into()
                });
                if tokio::time::timeout(WAIT_MAX, landing.changed())
                    .await
                    .is_err()
                {
                    break;
                }
                visit.moment = cache.store.moment();
            }
            Some(Boarding::Pass) | None => break,
        }
    }
    go_on(cache, exchange, visit);
    Handled::Declined
}

/// Why the request goes on, if it does (RFC 9211 section 2.2).
fn forward(visit: &Visit, used: Option<Use>) -> Forward {
    match used {
        Some(Use::Validate(why) | Use::NotUsable(why)) => why.forward(),
        Some(Use::Stale) => Forward::Stale,
        // The address has variants, and this one is not there.
        None if visit.sign.is_some() => Forward::VaryMiss,
        Some(Use::Fresh | Use::OnlyIfCached504) | None => Forward::UriMiss,
    }
}

/// The entry for this request, whatever its age: the visitor's own, or that for all.
async fn find(cache: &Rc<PageCache>, exchange: &Exchange, visit: &mut Visit) -> Option<Rc<Page>> {
    let view = exchange.head.view();
    if let Some(key) = visit.private_key(view)
        && cache.has_private(&visit.place.scope)
        && let Some(Kept::Page(page)) = cache.find(&key).await
    {
        return Some(page);
    }
    if !visit.terms.given.public {
        return None;
    }
    if let Some(Kept::Page(page)) = cache.find(&visit.first_key(view)?).await {
        return Some(page);
    }
    let Kept::Sign(sign) = cache.find(&visit.sign_key()).await? else {
        return None;
    };
    let key = visit.key_by(&sign, view)?;
    visit.sign = Some(Rc::clone(&sign));
    match cache.find(&key).await? {
        Kept::Page(page) if sign.leads_to(page.id) => Some(page),
        Kept::Page(_) | Kept::Sign(_) => None,
    }
}

/// What the rules say, and what purges have left of it.
fn judge(
    cache: &PageCache,
    view: HeadView<'_>,
    page: &Page,
    visit: &Visit,
    now_ms: i64,
) -> Option<Use> {
    let terms = &visit.terms;
    if !visit.may_use(&page.life) {
        return Some(Use::NotUsable(Why::Authorization));
    }
    match cache.standing(page) {
        Standing::Gone => None,
        Standing::Valid => Some(judge_use(view, &page.life, &terms.http, now_ms)),
        // Made stale by somebody: as if its time had ended now.
        Standing::Stale => {
            let stale_until = now_ms.saturating_add(ms(terms.given.grace_s.max(1)));
            let life = Life {
                fresh_until_ms: page.life.fresh_until_ms.min(now_ms),
                stale_while_revalidate_until_ms: page
                    .life
                    .stale_while_revalidate_until_ms
                    .max(stale_until),
                ..page.life.clone()
            };
            Some(judge_use(view, &life, &terms.http, now_ms))
        }
    }
}

/// How to ask for it again, where its site wants that.
fn remember(cache: &PageCache, exchange: &Exchange, visit: &Visit, page: &Page) {
    if visit.terms.given.refetched_max == 0 || page.is_private || page.recipe.get().is_some() {
        return;
    }
    let (fields, rules) = visit.sign.as_ref().map_or((&[][..], None), |sign| {
        (&sign.fields[..], sign.rules.as_ref())
    });
    if let Some(recipe) = Recipe::of(visit, exchange, fields, rules) {
        let _ = page.recipe.set(Rc::new(recipe));
        cache.recount(page);
    }
}

/// `None`: look again.
async fn answer(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    visit: &Visit,
    page: &Rc<Page>,
    told: Told,
) -> Option<Response> {
    remember(cache, exchange, visit, page);
    let manner = Manner::of(exchange);
    let now = exchange.now;
    if page.is_template {
        let parsed = page.parsed().await?;
        cache.recount(page);
        exchange.trace("cache", None, || {
            format!("put together from the cache ({told:?})")
        });
        visit.note(Noted::There);
        visit.count_answer(cache, page, told, None);
        exchange.is_answered_by_program = true;
        let inside = visit.inside.clone().unwrap_or_default();
        return Some(esi::hit(exchange, page, parsed, inside, &manner, told));
    }
    match page.respond(exchange.head.view(), &manner, told, now) {
        Outcome::Answer(response) => {
            exchange.trace("cache", None, || {
                format!("answered from the cache ({told:?})")
            });
            visit.note(Noted::There);
            let content = (exchange.head.view().method() != Method::Head).then_some(&response.body);
            visit.count_answer(cache, page, told, content);
            exchange.is_answered_by_program = true;
            exchange.show_whole(
                page.fields.first("Content-Type").unwrap_or_default(),
                || page.identity.content.whole(),
            );
            if told == Told::Hit
                && !page.is_private
                && !visit.is_authenticated
                && is_asked_as_it_is(exchange)
                && is_as_listener_says(exchange)
            {
                exchange.reusable = Some(Rc::new(Plan {
                    cache: Rc::clone(cache),
                    terms: Rc::clone(&visit.terms),
                    place: visit.place.clone(),
                    vary: visit.said.vary.clone(),
                    edits: visit.said.edits.clone(),
                    manner,
                    tally: visit.tally.clone(),
                }));
            }
            Some(response)
        }
        Outcome::Make(coding) => {
            make(
                cache,
                page,
                coding,
                Levels::from(&exchange.settings.compression),
            )
            .await;
            None
        }
    }
}

/// Rules have not made another query of the client's.
fn is_asked_as_it_is(exchange: &Exchange) -> bool {
    let target = exchange.head.view().target();
    let asked = target
        .iter()
        .position(|byte| *byte == b'?')
        .and_then(|at| target.get(at + 1..));
    asked == exchange.query.as_deref() && exchange.trace.is_none()
}

/// Outcomes are kept by listener: where a proxy before us says of each client over what it came,
/// and to which port, that is not enough.
fn is_as_listener_says(exchange: &Exchange) -> bool {
    let client = &exchange.client;
    let port = match &*client.listener {
        Address::Tcp(address) => address.port(),
        Address::Unix(_) => 0,
    };
    client.secure == client.tls && client.local.port() == port
}

/// Fills the slot of a coding: from the store, or made now and kept there.
pub async fn make(cache: &Rc<PageCache>, page: &Rc<Page>, coding: Coding, levels: Levels) {
    let _making = page.making.lock().await;
    if page.slot(coding).get().is_some() {
        return;
    }
    let stored = match coding {
        Coding::Identity | Coding::Gzip => saker_cache_store::Coding::Gzip,
        Coding::Brotli => saker_cache_store::Coding::Brotli,
        Coding::Zstd => saker_cache_store::Coding::Zstd,
    };
    let (store, key, id) = (cache.store.clone(), page.key.clone(), page.id);
    let plain = page.identity.content.reader();
    let making = jobs::run(JobKind::PageCache, None, move |cancel| {
        if let Some(content) = store.find_coding(&key, id, stored, u64::MAX) {
            return Some(content);
        }
        let encoded = coding::encode_as_job(cancel, coding, levels, &plain?()?, false)?;
        // What can't be kept is made anew another time.
        let kept = store.write_coding(&key, id, stored).and_then(|mut writer| {
            writer.write(&encoded)?;
            writer.finish()
        });
        drop(kept);
        Some(saker_cache_store::Content::Memory(encoded))
    });
    let made = making.await.ok().flatten();
    // Nobody else can have filled it: we hold the lock.
    let _ = page
        .slot(coding)
        .set(made.map(|content| super::page::Copy::new(coding, super::content_of(content))));
    cache.recount(page);
}

/// Whether this request may make what others wait for.
fn board(cache: &PageCache, exchange: &Exchange, visit: &Visit) -> Option<Boarding> {
    let view = exchange.head.view();
    let is_plain = view.method() == Method::Get
        && wanted_range(view).is_none()
        && !is_own(view, &visit.terms)
        && !visit.is_authenticated;
    let key = visit.first_key(view).filter(|_| is_plain)?;
    let key = match &visit.sign {
        Some(sign) => visit.key_by(sign, view)?,
        None => key,
    };
    Some(
        cache
            .store
            .flights()
            .board(cache.store.hash(&key), monotonic_ms()),
    )
}

/// Who says who he is gets a page of his own, for all that can be known beforehand.
pub fn is_own(view: HeadView<'_>, terms: &Terms) -> bool {
    let is_session = |line: &[u8]| {
        line.split(|byte| *byte == b';').any(|pair| {
            let end = pair
                .iter()
                .position(|byte| *byte == b'=')
                .unwrap_or(pair.len());
            let name = pair[..end].trim_ascii();
            terms.http.is_session_cookie(name) && !terms.ignores_cookie(name)
        })
    };
    view.has(KnownField::Authorization) || view.lines(KnownField::Cookie).any(is_session)
}

/// The response is made now, and heard of when it comes. What is to be kept is asked for whole,
/// whatever this client has of it already, and without a coding, which is this server's business:
/// codings are made once, of what is kept.
fn go_on(cache: &PageCache, exchange: &mut Exchange, mut visit: Visit) {
    let view = exchange.head.view();
    if view.method() == Method::Get && wanted_range(view).is_none() {
        let is_left = |name: &[u8]| {
            let known = KnownField::classify(name);
            let is_condition = matches!(
                known,
                Some(IfNoneMatch | IfModifiedSince | IfMatch | IfUnmodifiedSince | IfRange)
            );
            known != Some(AcceptEncoding) && !(is_condition && visit.ticket.is_some())
        };
        let old = visit.old.as_ref().filter(|_| visit.ticket.is_some());
        let conditions = old
            .map(|old| validation::conditions(&old.fields))
            .unwrap_or_default();
        visit.validates = !conditions.is_empty();
        let more = conditions
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_slice()));
        let head = exchange
            .head
            .with_fields(view.fields().filter(|(name, _)| is_left(name)).chain(more));
        visit.asked = Some(std::mem::replace(&mut exchange.head, head));
    }
    visit.under_way = Some(cache.store.under_way(prepare::expected_probes(&visit)));
    leave(cache, exchange, visit);
}

fn leave(cache: &PageCache, exchange: &mut Exchange, mut visit: Visit) {
    if visit.number == 0 {
        visit.number = cache.store.begin();
    }
    let given = &visit.terms.given;
    if given.obeys_http && given.offer.esi {
        offer_esi(exchange);
    }
    exchange.extensions.insert(visit);
}

/// ESI 1.0 section 1.5 (the Edge Architecture's Surrogate-Capability): what clients say of
/// themselves there is not for the application.
fn offer_esi(exchange: &mut Exchange) {
    const CAPABILITY: &[u8] = b"Surrogate-Capability";
    let view = exchange.head.view();
    let others = view
        .fields()
        .filter(|(name, _)| !name.eq_ignore_ascii_case(CAPABILITY));
    exchange.head = exchange
        .head
        .with_fields(others.chain([(CAPABILITY, &b"saker=\"ESI/1.0\""[..])]));
}

impl PageCache {
    /// Whether some visitor of a site may have entries of his own.
    pub fn has_private(&self, scope: &[u8]) -> bool {
        self.store.may_have(private_probe(scope))
    }
}

/// Set by every private entry of a site.
pub fn private_probe(scope: &[u8]) -> saker_cache_store::TagMark {
    super::mark(&names::private_scope(scope, b""), names::ALL)
}

/// A ticket that could not be used: what is there is served as it is for a while.
pub fn later(ticket: &mut Ticket) {
    ticket.pass_until(monotonic_ms() + RETRY_MS);
}

pub fn ms(seconds: u64) -> i64 {
    i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX)
}

pub fn now_ms() -> i64 {
    saker_net::clock::realtime_s().saturating_mul(1000)
}

pub fn monotonic_ms() -> u64 {
    saker_net::clock::monotonic_ms()
}
