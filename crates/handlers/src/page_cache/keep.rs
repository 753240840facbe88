//! Keeps responses: decides by their own words, purges what they purge, writes what may be kept, and cleans the head that goes out.
//!
//! Place in the walk: the filter behind those that change content, before compression. Difficulty: the order. What a response purges is purged before it
//! is itself kept, and what others purged while it was made counts against it; both are one step for the store.

use super::{
    Kept, PageCache, content_of,
    esi::{self, TakenIn, assembly},
    look_up::{later, make, monotonic_ms, now_ms, private_probe},
    page::{Manner, Outcome, Page, Parts, Told},
    purge,
    record::{By, Record, Sign},
    tee::Tee,
    visit::{PRIVATE, Visit, marks},
};
use crate::coding::Levels;
use saker_cache::{
    lscache::{
        self,
        control::{Audience, Control},
        vary::VaryRules,
        visible::{self, Served},
    },
    names,
    rules::{
        CacheStatus, Forward, Life, RuleSettings, Vary, fields as rule_fields, invalidation, judge_response, may_serve_after_error, reuse,
        tags as rule_tags, validation,
    },
};
use saker_http::{Fields, Method, Status};
use saker_pipeline::{Body, Exchange, FilePart, Response};
use saker_store::{EntryHead, Purge, Standing, Ticket};
use saker_telemetry::{Metric, error_log, message};
use std::{any::Any, os::unix::fs::FileExt, rc::Rc};

/// What can't be kept is not waited for, for so long (Varnish's default of hit-for-miss).
const PASS_MS: u64 = 120_000;
/// Of an entry whose life is prolonged; a larger one is made anew.
const READ_BYTES_MAX: usize = 8 << 20;
/// Codings of a page, and the page as it is.
const CODINGS_MAX: usize = 4;
/// A sign outlives what it leads to.
const SIGN_MS: i64 = 86_400_000;

/// A part of a page that can't be made anew is as good as it was for so long.
const LAST_GOOD_MS: i64 = 86_400_000;

/// What is to become of a response.
struct Decision {
    by: By,
    life: Life,
    is_private: bool,
    is_one: bool,
    is_template: bool,
}

pub async fn keep(cache: &Rc<PageCache>, exchange: &mut Exchange, response: &mut Response) {
    let Some(state) = exchange.page_cache.take() else { return };
    let mut visit = match state.downcast::<Visit>() {
        Ok(visit) => visit,
        Err(state) => return finish_hit(cache, exchange, response, state).await,
    };
    if let Some(asked) = visit.asked.take() {
        exchange.head = asked;
    }
    if let Some(status) = stand_in(cache, exchange, &mut visit, response).await {
        return exchange.trace("cache", None, || format!("the answer was {}, and what is kept is served in its place", status.0));
    }
    // A script's 304 is made by the gateway, of what the script said.
    let is_made =
        visit.validates && response.status == Status::NOT_MODIFIED && freshen(&visit, response) || exchange.is_answered_by_program;
    // A combined request is answered for other addresses only.
    let is_combined = visit.inside.is_some() && exchange.head.view().method() == Method::Post;
    let is_marked = !is_combined && is_made && esi::is_marked(&visit, response);
    let taken_in = match is_marked && exchange.head.view().method() != Method::Head {
        true => esi::take_in(exchange, response).await,
        false => None,
    };
    let is_template = taken_in.as_ref().is_some_and(|taken| taken.parsed.template.is_dynamic());
    let mut purges = purge::of_response(&visit, exchange, response);
    purges.extend(purge::of_request(cache, &visit, exchange, response));
    let decision = match is_made {
        true => decide(&visit, exchange, response),
        false => Err("no program or server answered".into()),
    };
    let outcome = match decision {
        Ok(decision) => store(cache, exchange, &mut visit, response, Decision { is_template, ..decision }, purges),
        Err(why) => {
            purge::carry_out(cache, purges);
            Err(why)
        }
    };
    if let Some(ticket) = &mut visit.ticket {
        // Whoever waits for it waits in vain.
        if outcome.is_err() {
            ticket.pass_until(monotonic_ms() + PASS_MS);
        }
    }
    if outcome.is_ok() {
        cache.count(Metric::PageCacheStores);
    }
    if !visit.is_refresh && exchange.head.view().method() == Method::Get {
        cache.count(if outcome.is_ok() { Metric::PageCacheMisses } else { Metric::PageCachePasses });
    }
    match &outcome {
        Ok(()) => exchange.trace("cache", None, || "kept".into()),
        Err(why) => exchange.trace("cache", None, || format!("not kept: {why}")),
    }
    show(&visit, response, outcome.is_ok());
    let (inside, is_refresh) = (visit.inside.clone().unwrap_or_default(), visit.is_refresh);
    // Whoever waits for the page need not wait for its parts.
    drop(visit);
    match taken_in {
        Some(TakenIn { parsed, inlines }) if is_template && !is_refresh => {
            esi::assemble(cache, exchange, response, assembly::Job { parsed, inside, inlines }).await;
        }
        Some(TakenIn { inlines, .. }) => assembly::prime_only(cache, exchange, &inlines).await,
        None if is_marked && exchange.head.view().method() == Method::Head => esi::without_content(response),
        None => {}
    }
}

/// A hit that is put together on its way out.
async fn finish_hit(cache: &Rc<PageCache>, exchange: &mut Exchange, response: &mut Response, state: Box<dyn Any>) {
    if let Ok(waiting) = state.downcast::<esi::Waiting>() {
        let esi::Waiting { parsed, inside } = *waiting;
        esi::assemble(cache, exchange, response, assembly::Job { parsed, inside, inlines: Vec::new() }).await;
    }
}

/// An answer that is none, while there is an older one that will do (RFC 5861 section 4). The status that it had.
async fn stand_in(cache: &Rc<PageCache>, exchange: &mut Exchange, visit: &mut Visit, response: &mut Response) -> Option<Status> {
    let old = visit.old.clone().or_else(|| visit.last_good.clone()).filter(|_| reuse::is_error(response.status))?;
    let is_kept = cache.standing(&old) != Standing::Gone;
    // A page with an old part is better than a page with a hole in it.
    let is_part = visit.inside.is_some();
    let may = is_kept && (is_part || may_serve_after_error(exchange.head.view(), &old.life, &visit.terms.http, now_ms()));
    if !may && !visit.is_refresh {
        return None;
    }
    // It is tried again, but not by everybody at once.
    visit.ticket.as_mut().map(later);
    if visit.is_refresh || !may {
        return Some(response.status);
    }
    let manner = Manner { settings: exchange.settings.clone(), edits: exchange.head_edits.clone() };
    let status = response.status;
    if old.is_template {
        let parsed = old.parsed().await?;
        let inside = visit.inside.clone().unwrap_or_default();
        *response = esi::hit(exchange, &old, Rc::clone(&parsed), inside.clone(), &manner.settings, Told::Stale);
        exchange.page_cache = None;
        esi::assemble(cache, exchange, response, assembly::Job { parsed, inside, inlines: Vec::new() }).await;
        return Some(status);
    }
    // Each coding is made once at most.
    for _ in 0..CODINGS_MAX {
        match old.respond(exchange.head.view(), &manner, Told::Stale, exchange.now) {
            Outcome::Answer(answer) => {
                *response = answer;
                return Some(status);
            }
            Outcome::Make(coding) => make(cache, &old, coding, Levels::from(&exchange.settings.compression)).await,
        }
    }
    None
}

/// The origin says that what is kept holds: that is the response, with the fields that the origin has sent along (RFC 9111 section 4.3.4). `false`:
/// it is not.
fn freshen(visit: &Visit, response: &mut Response) -> bool {
    let Some(old) = &visit.old else { return false };
    if validation::judge_answer(&old.fields, response.status, response.fields()) != validation::Answer::Freshens {
        // About something that nobody asked for.
        *response = Response::new(Status::BAD_GATEWAY);
        return false;
    }
    let fields = validation::freshened(&old.fields, response.fields());
    *response = Response::new(old.status);
    *response.fields_mut() = fields;
    response.body = old.identity.content.whole();
    true
}

fn decide(visit: &Visit, exchange: &Exchange, response: &Response) -> Result<Decision, String> {
    let (given, fields) = (&visit.terms.given, response.fields());
    let length = response.body.length();
    if length.is_some_and(|length| length < given.entry_bytes_min || given.entry_bytes_max.is_some_and(|max| length > max)) {
        return Err("its content is smaller or larger than what is kept".into());
    }
    if given.obeys_lscache {
        let mut control = Control::from_settings(&visit.terms.lscache);
        let before = control.clone();
        visit.said.apply_to(&mut control);
        let is_said = control != before;
        let explicit = control.apply_response(fields, &visit.terms.lscache);
        if explicit || is_said {
            return by_lscache(visit, exchange, response, &control, explicit, length);
        }
    }
    if !given.obeys_http {
        return Err("X-LiteSpeed-Cache-Control does not ask for it".into());
    }
    let view = exchange.head.view();
    let with_ttl = visit.ttl_s.map(|ttl_s| RuleSettings {
        default_ttl_s: Some(ttl_s),
        default_ttl_needs_validator: false,
        ..visit.terms.http.clone()
    });
    let rules = with_ttl.as_ref().unwrap_or(&visit.terms.http);
    let life = judge_response(view, response.status, fields, rules, visit.began_ms, now_ms()).map_err(|pass| pass.to_string())?;
    Ok(Decision { by: By::Http, life, is_private: false, is_one: false, is_template: false })
}

fn by_lscache(
    visit: &Visit,
    exchange: &Exchange,
    response: &Response,
    control: &Control,
    explicit: bool,
    length: Option<u64>,
) -> Result<Decision, String> {
    let settings = &visit.terms.lscache;
    let target = exchange.head.view();
    lscache::control::judge_request(visit.query.is_some(), target.has(saker_http::KnownField::Cookie), settings)
        .map_err(|why| why.sentence().to_owned())?;
    let outcome = lscache::control::Outcome {
        method: target.method(),
        status: response.status,
        explicit,
        sets_cookie: response.fields().has("set-cookie"),
        content_bytes: length,
        failed: false,
        static_file: false,
    };
    let audience = control.judge(outcome, settings).map_err(|why| why.sentence().to_owned())?;
    let is_private = matches!(audience, Audience::Private { .. });
    if is_private && visit.visitor.is_none() {
        return Err("it is for one visitor, who has no cookie to know him by".into());
    }
    Ok(Decision { by: By::Lscache, life: control.life(settings, now_ms()), is_private, is_one: control.no_vary, is_template: false })
}

fn store(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    visit: &mut Visit,
    response: &mut Response,
    decision: Decision,
    purges: Vec<Purge>,
) -> Result<(), String> {
    let prepared = prepare(visit, exchange, response, &decision);
    let (mut head, signed) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => {
            purge::carry_out(cache, purges);
            return Err(why);
        }
    };
    head.moment = visit.moment;
    if !purges.is_empty() {
        let (standing, number) = cache.store.purge_along(purges, visit.moment, &marks(&head));
        if standing != Standing::Valid {
            return Err("it was purged while it was made".into());
        }
        head.moment = number;
    }
    if let Some(signed) = signed {
        put_sign(cache, &head, signed);
    }
    put(cache, visit.ticket.take(), response, head, &decision)
}

/// A sign that is to be put up, and what it stands in the place of.
struct Signed {
    first: Vec<u8>,
    key: Vec<u8>,
    sign: Sign,
}

/// The head of the entry, and the sign that leads to it where there has to be one.
fn prepare(visit: &Visit, exchange: &Exchange, response: &Response, decision: &Decision) -> Result<(EntryHead, Option<Signed>), String> {
    let (fields, view) = (response.fields(), exchange.head.view());
    let is_lscache = decision.by == By::Lscache;
    let first = visit.first_key(view).ok_or("its key is too long")?;
    let sign = sign(visit, fields, decision)?;
    let (key, signed) = match (decision.is_private, sign.is_needed()) {
        (true, _) => (visit.private_key(view).ok_or("its key is too long")?, None),
        (false, true) => {
            let key = visit.key_by(&sign, view).ok_or("its key is too long")?;
            let is_new = visit.sign.as_deref() != Some(&sign);
            (key, is_new.then_some(Signed { first, key: visit.sign_key(), sign }))
        }
        (false, false) => (first, None),
    };
    let tags = tags(visit, fields, decision)?;
    let mut kept = rule_fields::stored_fields(fields, &decision.life, &visit.terms.http);
    if is_lscache {
        visible::strip_for_store(&mut kept);
    }
    // Ours are added to each answer, and the content is coded here.
    for name in ["Date", "Server", "Content-Encoding", "Accept-Ranges"] {
        kept.remove(name);
    }
    let head = EntryHead {
        key,
        site: visit.place.scope.clone(),
        tags,
        keep_until_ms: u64::try_from(decision.life.keep_until_ms.saturating_add(if visit.inside.is_some() { LAST_GOOD_MS } else { 0 }))
            .unwrap_or(0),
        moment: 0,
        probes: probes(visit, decision),
        status: response.status.0,
        rules: Record::Page {
            by: decision.by,
            is_private: decision.is_private,
            is_template: decision.is_template,
            life: decision.life.clone(),
        }
        .encode(),
        fields: kept.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec())).collect(),
    };
    Ok((head, signed))
}

/// What responses of this address vary by, with what was known before.
fn sign(visit: &Visit, fields: &Fields, decision: &Decision) -> Result<Sign, String> {
    let vary = Vary::of(fields).ok_or("Vary is `*`, or no list of field names")?;
    // LSCache protocol 4.3: cookies are named one by one, and the origin of a request makes no other page.
    let makes_another = |name: &str| decision.by == By::Http || !matches!(name, "cookie" | "origin");
    let own = Sign {
        fields: vary.iter().filter(|name| makes_another(name)).map(str::to_owned).collect(),
        rules: if decision.by == By::Lscache { VaryRules::of_response(fields) } else { None },
        is_one: decision.is_one,
    };
    let known = visit.sign.as_deref();
    Ok(known.map_or(own.clone(), |known| own.joined(known)))
}

/// With what is the same for every entry of the address: that it is one of the site, and the address.
fn tags(visit: &Visit, fields: &Fields, decision: &Decision) -> Result<Vec<Vec<u8>>, String> {
    let too_many = "it has more tags than can be kept";
    let of_all = rule_tags::tags(fields).map_err(|_| too_many)?;
    let own = match decision.by {
        By::Lscache => lscache::tags::tags(fields, decision.is_private).map_err(|_| too_many)?,
        By::Http => lscache::tags::Tags::default(),
    };
    let url = names::url_tag(&visit.url());
    let mut tags: Vec<Vec<u8>> = Vec::new();
    let private = |tag: &[u8]| [&[PRIVATE], tag].concat();
    match decision.is_private {
        true => tags.extend([private(names::ALL), private(&url)]),
        false => tags.extend([names::ALL.to_vec(), url]),
    }
    tags.extend(own.private.iter().map(|tag| private(&names::tag(tag))));
    tags.extend(own.public.iter().chain(&of_all).map(|tag| names::tag(tag)));
    Ok(tags)
}

fn probes(visit: &Visit, decision: &Decision) -> [u64; 2] {
    match visit.private_scope().filter(|_| decision.is_private) {
        Some(scope) => [super::mark(&scope, names::ALL).0, private_probe(&visit.place.scope).0],
        None => [super::mark(&visit.place.scope, &names::url_tag(&visit.url())).0, 0],
    }
}

fn put_sign(cache: &PageCache, page: &EntryHead, Signed { first, key, sign }: Signed) {
    // From before it was known that the address has variants.
    cache.store.remove(&first);
    cache.tier.borrow_mut().remove(&first);
    let record = Record::Sign(sign.clone());
    let head = EntryHead {
        key: key.clone(),
        site: page.site.clone(),
        keep_until_ms: page.keep_until_ms.saturating_add(SIGN_MS as u64),
        moment: page.moment,
        rules: record.encode(),
        ..EntryHead::default()
    };
    match cache.store.write(&head).and_then(|writer| writer.finish()) {
        Ok(_) => cache.hold(&key, &Kept::Sign(Rc::new(sign))),
        Err(error) => error_log::log(&message::CACHE_NOT_STORED, format_args!("{error}")),
    }
}

/// Writes the entry: at once where the content is there, else as it comes.
fn put(cache: &Rc<PageCache>, ticket: Option<Ticket>, response: &mut Response, head: EntryHead, decision: &Decision) -> Result<(), String> {
    let failed = |error: std::io::Error| {
        error_log::log(&message::CACHE_NOT_STORED, format_args!("{error}"));
        error.to_string()
    };
    let coding = response.fields().first("Content-Encoding").map(<[u8]>::to_vec);
    match std::mem::take(&mut response.body) {
        Body::Stream(stream) if coding.is_none() => {
            let writer = match cache.store.write(&head) {
                Ok(writer) => writer,
                Err(error) => {
                    response.body = Body::Stream(stream);
                    return Err(failed(error));
                }
            };
            let (forgetful, key) = (Rc::clone(cache), head.key.clone());
            // What is in memory under that key is older.
            let done = move || forgetful.tier.borrow_mut().remove(&key);
            response.body = Body::Stream(Box::new(Tee::new(stream, writer, ticket, Box::new(done))));
            Ok(())
        }
        Body::Stream(stream) => {
            response.body = Body::Stream(stream);
            Err("it comes coded, in pieces".into())
        }
        body => {
            let plain = plain(&body, coding.as_deref());
            response.body = body;
            let plain = plain?;
            let written = cache.store.write(&head).and_then(|mut writer| {
                writer.write(&plain)?;
                writer.finish()
            });
            let id = written.map_err(failed)?;
            hold(cache, head, id, plain, decision);
            drop(ticket);
            Ok(())
        }
    }
}

/// The content without its coding.
fn plain(body: &Body, coding: Option<&[u8]>) -> Result<Vec<u8>, String> {
    let bytes = match body {
        Body::Empty => &b""[..],
        Body::Memory(chunk) => chunk.bytes(),
        // An entry that holds a while longer.
        Body::File(part) => return read(part).map_err(|error| error.to_string()),
        Body::Parts(_) | Body::Stream(_) => return Err("its content is not made here".into()),
    };
    match coding {
        None => Ok(bytes.to_vec()),
        Some(coding) => crate::coding::decode(coding, bytes).ok_or_else(|| "it comes in a coding that is not known".into()),
    }
}

fn read(part: &FilePart) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(part.length).unwrap_or(usize::MAX).min(READ_BYTES_MAX)];
    if bytes.len() as u64 != part.length {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    part.file.read_exact_at(&mut bytes, part.offset)?;
    Ok(bytes)
}

/// Puts it into this worker's memory, too: it is asked for again soon, if at all.
fn hold(cache: &PageCache, head: EntryHead, id: u64, content: Vec<u8>, decision: &Decision) {
    let key = head.key.clone();
    let mut fields = Fields::new();
    for (name, value) in &head.fields {
        fields.append(saker_http::fields::known_name(&String::from_utf8_lossy(name)), value.clone());
    }
    if content.len() as u64 > super::MEMORY_BYTES_MAX {
        return cache.tier.borrow_mut().remove(&key);
    }
    let parts = Parts {
        tags: head.tags.clone().into(),
        site: head.site.clone().into(),
        key: key.as_slice().into(),
        id,
        status: Status(head.status),
        fields,
        by: decision.by,
        is_private: decision.is_private,
        is_template: decision.is_template,
        life: decision.life.clone(),
        marks: marks(&head),
        moment: head.moment,
        content: content_of(saker_store::Content::Memory(content)),
        boundaries: Rc::clone(&cache.boundaries),
    };
    cache.hold(&key, &Kept::Page(Rc::new(Page::new(parts))));
}

/// What the client sees of all this.
fn show(visit: &Visit, response: &mut Response, is_kept: bool) {
    let given = &visit.terms.given;
    let status = response.status;
    if given.obeys_lscache {
        let served = if is_kept { Served::Miss } else { Served::Uncached };
        visible::finish(response.fields_mut(), served, false, false);
    }
    if given.tells_status {
        let forward = if visit.old.is_some() { Forward::Stale } else { Forward::UriMiss };
        let told = CacheStatus { forward: Some(forward), forward_status: Some(status.0), stored: is_kept, ..CacheStatus::default() };
        told.append_to(response.fields_mut(), "Saker");
    }
}

/// Addresses that an answered unsafe request makes invalid (RFC 9111 section 4.4), as far as there may be entries of them.
pub fn invalidated(cache: &PageCache, visit: &Visit, exchange: &Exchange, response: &Response) -> Vec<Purge> {
    let view = exchange.head.view();
    let scheme = if exchange.client.secure { "https" } else { "http" };
    let authority = view.known(saker_http::KnownField::Host).unwrap_or(&exchange.host);
    let origin = invalidation::Origin { scheme, authority };
    let targets = invalidation::invalidated(view.method(), origin, view.target(), response.status, response.fields());
    let marks = targets.iter().map(|target| super::mark(&visit.place.scope, &names::url_tag(&visit.place.url_of(exchange, target))));
    marks.filter(|mark| cache.store.may_have(*mark)).map(|mark| Purge::Tag { mark, is_soft: false }).collect()
}
