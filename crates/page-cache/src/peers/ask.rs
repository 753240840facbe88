//! Asks the server that makes a page for it.
//!
//! Called by: the look-up, for a page that is missing or stale here.
//! Caveat: of many requests for a page, one asks and the others wait, under a lock of their own:
//! the lock of a fetch is for the one that asks the origin, which may be another server's request.
//! Servers ask in one direction only, by rank, and what a server asks for another is made by that
//! one, so no two wait for each other.
//! Out of scope: what the page is worth here (`copy`).

use super::{
    PATH,
    copy::{self, Copy},
    wire::{self, ASK_BYTES_MAX, Ask, NoPage, PAGE_HEAD_BYTES_MAX, SharedPage},
};
use crate::{
    cache::PageCache,
    clock::{monotonic_ms, now_ms},
    page::Page,
    peer_access::PeerAccess,
    prepare,
    replay_request::vary_cookies,
    request::CacheRequest,
    stats::Stat,
};
use saker_cache_store::{FetchPermit, LockOutcome};
use saker_cluster::{Peer, RequiredPlace};
use saker_config::model::Address;
use saker_http::{HeadView, Method, Status};
use saker_pipeline::{Exchange, FetchRequest};
use saker_telemetry::{Metric, error_log, message};
use std::{rc::Rc, time::Duration};
use tokio::time::timeout;

/// Time for which a page that is not shared is not asked for again.
const NOT_SHARED_MS: u64 = 120_000;

/// The same, if no server could hand it out.
const NOT_NOW_MS: u64 = 1_000;

/// The longest time that a request waits for another one's question.
const WAIT_MAX: Duration = Duration::from_secs(25);

/// Fields that are not passed on: those about the connection, the client's credentials, and the
/// part of the page that this client wants. Cookies are passed on as far as they select a variant.
const NOT_TOLD: [&str; 21] = [
    "accept-encoding",
    "authorization",
    "available-dictionary",
    "connection",
    "content-length",
    "cookie",
    "dictionary-id",
    "early-data",
    "expect",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The result of asking.
pub enum PeerStep {
    /// The page may be here now: look again.
    Again,
    /// A page that is not kept here.
    Page(Rc<Page>),
    /// This server makes the page.
    Own,
}

/// Gets a page that is missing here.
pub async fn get(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    request: &mut CacheRequest,
) -> PeerStep {
    let Some((access, chosen)) = chosen(cache, exchange, request) else {
        return PeerStep::Own;
    };
    match lock(cache, exchange, request) {
        Some(LockOutcome::Leader(permit)) => {
            exchange.trace("cache", None, || {
                "another server of the cluster is asked for it".into()
            });
            let found = lead(cache, (access, &chosen), exchange, request, permit).await;
            // What it makes itself begins now.
            (request.purge_seq, request.number) = (cache.store.purge_seq(), 0);
            found
        }
        Some(LockOutcome::Follower(mut finished)) => {
            cache.count(Metric::PageCacheWaits);
            request.count(Stat::Waits);
            // The one that asks has a limit of its own.
            let _ = timeout(WAIT_MAX, finished.ended(monotonic_ms)).await;
            request.purge_seq = cache.store.purge_seq();
            PeerStep::Again
        }
        Some(LockOutcome::Bypass) | None => PeerStep::Own,
    }
}

/// Gets a newer page in the place of a stale one. `true`: it is in the cache.
pub async fn renew(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    request: &mut CacheRequest,
) -> bool {
    let Some((access, chosen)) = chosen(cache, exchange, request) else {
        return false;
    };
    let Some(LockOutcome::Leader(permit)) = lock(cache, exchange, request) else {
        return false;
    };
    let found = lead(cache, (access, &chosen), exchange, request, permit).await;
    (request.purge_seq, request.number) = (cache.store.purge_seq(), 0);
    matches!(found, PeerStep::Again)
}

/// The servers to ask, where the request is one that others may answer.
fn chosen<'c>(
    cache: &'c PageCache,
    exchange: &Exchange,
    request: &CacheRequest,
) -> Option<(&'c PeerAccess, Vec<Peer>)> {
    let access = cache.peers.as_ref()?;
    let view = exchange.head.view();
    let is_plain = view.method() == Method::Get
        && request.is_fetch(view)
        && view.target().first() == Some(&b'/')
        && !request.is_query
        && !request.is_authenticated
        && !request.settings.is_personal(view);
    let may_be_shared = request.settings.config.public
        && request.settings.config.stores
        && request.include.is_none()
        && exchange.log.stands_in_for.is_none();
    let varies_by_client = request.vary_record.as_ref().is_some_and(|vary_record| {
        let mut fields = vary_record.fields.iter();
        fields.any(|name| matches!(name.as_str(), "cookie" | "authorization"))
    });
    if !is_plain
        || !may_be_shared
        || varies_by_client
        || request.has_asked_peer
        || request.is_for_peer()
    {
        return None;
    }
    let chosen = access.pages.table.chosen(&request.url());
    (!chosen.is_empty()).then_some((access, chosen))
}

/// Takes the permit to ask.
fn lock(cache: &PageCache, exchange: &Exchange, request: &CacheRequest) -> Option<LockOutcome> {
    let view = exchange.head.view();
    let mut key = match &request.vary_record {
        Some(vary_record) => request.variant_key(vary_record, view)?,
        None => request.make_first_key(view)?,
    };
    // No key of a page ends so.
    key.extend_from_slice(b"\0\0peers");
    let hash = cache.store.hash(&key);
    Some(cache.store.cache_lock().acquire(hash, monotonic_ms()))
}

async fn lead(
    cache: &Rc<PageCache>,
    (access, chosen): (&PeerAccess, &[Peer]),
    exchange: &mut Exchange,
    request: &mut CacheRequest,
    mut permit: FetchPermit,
) -> PeerStep {
    request.has_asked_peer = true;
    (request.purge_seq, request.number) = (cache.store.purge_seq(), cache.store.begin());
    let _under_way = cache.store.under_way(prepare::expected_probes(request));
    // After the number of purges was read: whatever that counts is required of the others.
    let question = access
        .pages
        .table
        .required()
        .and_then(|required| question(exchange, request, required));
    let Some(question) = question else {
        permit.bypass_until(monotonic_ms() + NOT_NOW_MS);
        return PeerStep::Own;
    };
    let asked_ms = now_ms();
    for peer in chosen {
        let shared = match ask(cache, access, exchange, *peer, &question).await {
            Reply::Page(shared) => shared,
            Reply::None(NoPage::Ever) => {
                cache.count(Metric::ClusterPagesDeclined);
                permit.bypass_until(monotonic_ms() + NOT_SHARED_MS);
                return PeerStep::Own;
            }
            Reply::None(NoPage::Now) => {
                cache.count(Metric::ClusterPagesDeclined);
                continue;
            }
            Reply::Unreachable => continue,
            Reply::Late => break,
        };
        cache.count(Metric::ClusterPagesReceived);
        let Some(copy) = Copy::of(cache, exchange, request, *shared, asked_ms) else {
            // Its variants are others than this server's.
            break;
        };
        // Warm-ups fill this server's cache.
        let is_kept = request.is_own()
            || permit.is_awaited()
            || access.pages.is_kept(cache.store.hash(copy.key()));
        if !is_kept {
            return PeerStep::Page(copy.into_page(cache));
        }
        if copy::keep(cache, exchange, request, copy) {
            return PeerStep::Again;
        }
        break;
    }
    permit.bypass_until(monotonic_ms() + NOT_NOW_MS);
    PeerStep::Own
}

enum Reply {
    Page(Box<SharedPage>),
    None(NoPage),
    Unreachable,
    /// There was time for nothing else.
    Late,
}

async fn ask(
    cache: &PageCache,
    access: &PeerAccess,
    exchange: &Exchange,
    peer: Peer,
    question: &[u8],
) -> Reply {
    let settings = &access.pages.settings;
    let request = FetchRequest {
        target: PATH.into(),
        content: Some(("application/octet-stream", question.to_vec())),
        bytes_max: settings.page_bytes_max as usize + PAGE_HEAD_BYTES_MAX,
        ..FetchRequest::default()
    };
    let upstream = access.pages.upstream(peer);
    let answer = access.fetcher.fetch(exchange, &upstream, request);
    let time = Duration::from_millis(settings.timeout_ms);
    let (why, is_late) = match timeout(time, answer).await {
        Ok(Ok(document)) if document.status == Status::OK.0 => {
            match wire::decode_answer(&document.content) {
                Some(Ok(page)) => return Reply::Page(Box::new(page)),
                Some(Err(why)) => return Reply::None(why),
                None => ("its answer is not understood".into(), false),
            }
        }
        Ok(Ok(document)) => (format!("it answers {}", document.status), false),
        Ok(Err(why)) => (why, false),
        Err(_) => (format!("no answer within {time:?}"), true),
    };
    cache.count(Metric::ClusterPeersFailed);
    error_log::log(
        &message::CLUSTER_PEER_FAILED,
        format_args!("{}: {why}", peer.address),
    );
    if is_late {
        return Reply::Late;
    }
    access.pages.table.pause(peer);
    Reply::Unreachable
}

/// The request as it came, without anything personal; `None`: it is too long to be asked.
fn question(
    exchange: &Exchange,
    request: &CacheRequest,
    required: RequiredPlace,
) -> Option<Vec<u8>> {
    let Address::Tcp(listener) = &*exchange.client.listener else {
        return None;
    };
    let view = exchange.head.view();
    let fields = view.fields().filter(|(name, _)| is_told(name));
    let mut fields: Vec<(Vec<u8>, Vec<u8>)> = fields
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    let cookies = selecting_cookies(view, request);
    if !cookies.is_empty() {
        fields.push((b"Cookie".to_vec(), cookies));
    }
    let ask = Ask {
        target: view.target().to_vec(),
        fields,
        ..Ask::of(&exchange.client, listener.port(), required)
    };
    let question = ask.encode();
    (question.len() <= ASK_BYTES_MAX).then_some(question)
}

fn is_told(name: &[u8]) -> bool {
    !NOT_TOLD
        .iter()
        .any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

/// The cookies by which pages vary.
fn selecting_cookies(view: HeadView<'_>, request: &CacheRequest) -> Vec<u8> {
    let known = request.vary_record.as_ref();
    let rules = known.and_then(|vary_record| vary_record.rules.as_ref());
    let own = request.rewrite_env.vary.cookies.iter();
    let names = own.chain(rules.into_iter().flat_map(|rules| &rules.cookies));
    let names: Vec<&[u8]> = names.map(Vec::as_slice).collect();
    vary_cookies(view, &names)
}
