//! A page in a worker's memory: its content, plain and in codings, and the heads that are sent
//! again and again.
//!
//! Called by: the look-up, the cached route and the error fallback. Answers without waiting or
//! allocating for a plain 200 and a 304.
//! Caveat: whether the page is still valid. While the store's purge sequence number is unchanged,
//! one atomic load tells; otherwise its tags are checked once.
//! Out of scope: choosing the page for a request.

use crate::{
    conditions::{self, is_conditional},
    esi::template::ParsedTemplate,
    record::By,
    replay_request::ReplayRequest,
    result_fields::{self, CacheResult, HitStatus},
    tags::private_scope,
};
use saker_cache_rules::{
    lscache::{
        control::Audience,
        visible::{self, Served},
    },
    rules::{Life, age_s},
};
use saker_cache_store::{Ban, Store, TagMark, Validity};
use saker_config::model::Settings;
use saker_content::{
    Content,
    byteranges::{self, Boundaries},
    coded_fields::{describe, may_be_coded},
    coding,
};
use saker_http::{
    Fields, HeadView, KnownField, Method, Status,
    conditional::{self, Precondition, Validators},
    content_coding::{AcceptedCodings, Coding},
    date::parse_date,
    entity_tag::EntityTag,
    range::{self, RangeOutcome},
};
use saker_net::jobs::{self, JobKind};
use saker_pipeline::{
    Body, Chunk, Exchange, HeadEdits, HeadFacts, ReadyHead, Response, head_edits::are_same,
};
use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
};

/// Maximum ranges per response.
const RANGES_MAX: usize = 16;

const HEAD_OVERHEAD_BYTES: usize = 400;

/// Hits that a page needs to be refreshed ahead of time.
const HOT_HITS: u32 = 3;

pub struct Page {
    pub key: Box<[u8]>,
    pub id: u64,
    pub status: Status,
    /// As stored: without connection fields.
    pub fields: Fields,
    pub by: By,
    pub is_private: bool,
    /// The content is assembled for each client, from [`Page::parsed`].
    pub is_template: bool,
    parsed: OnceCell<Rc<ParsedTemplate>>,
    pub life: Life,
    pub marks: Box<[TagMark]>,
    /// As in the head of its entry, relative to the site.
    pub tags: Box<[Vec<u8>]>,
    pub site: Box<[u8]>,
    pub purge_seq: u64,
    pub identity: EncodedBody,
    /// In the order of [`Page::slot`]; `None` in a slot: the coding makes the content no smaller.
    coded: [OnceCell<Option<EncodedBody>>; 3],
    /// Held while a coding is made.
    pub making: tokio::sync::Mutex<()>,
    /// The purge sequence number at the last check, and its result.
    looked_at: Cell<(u64, Validity)>,
    /// Requests answered with it by this worker.
    pub hits: Cell<u32>,
    /// The request that fetches it again, if its site refetches pages.
    pub replay: OnceCell<Rc<ReplayRequest>>,
    /// A refresh was started or attempted.
    pub is_renewed: Cell<bool>,
    pub boundaries: Rc<Boundaries>,
}

/// The content in one coding.
pub struct EncodedBody {
    coding: Coding,
    pub content: Content,
    head: RefCell<Option<CachedHead>>,
    not_modified: RefCell<Option<CachedHead>>,
}

/// A head, and what it was made from.
struct CachedHead {
    head: Rc<ReadyHead>,
    settings: Arc<Settings>,
    edits: Option<Rc<dyn HeadEdits>>,
    made_s: i64,
    hit: HitStatus,
}

/// Options for making responses from a page.
pub struct ResponseOptions {
    pub settings: Arc<Settings>,
    pub edits: Option<Rc<dyn HeadEdits>>,
    /// The site's name, where fields for clients contain it.
    pub server_name: Option<Rc<str>>,
}

impl ResponseOptions {
    pub fn of(exchange: &Exchange) -> ResponseOptions {
        ResponseOptions {
            settings: exchange.routing.settings.clone(),
            edits: exchange.cache.head_edits.clone(),
            server_name: result_fields::server_name(exchange),
        }
    }
}

pub enum PageAnswer {
    Answer(Response),
    /// This coding is wanted and does not exist yet.
    Encode(Coding),
}

/// The parts of a page.
pub struct PageParts {
    pub key: Box<[u8]>,
    pub id: u64,
    pub status: Status,
    pub fields: Fields,
    pub by: By,
    pub is_private: bool,
    pub is_template: bool,
    pub life: Life,
    pub marks: Box<[TagMark]>,
    pub tags: Box<[Vec<u8>]>,
    pub site: Box<[u8]>,
    pub purge_seq: u64,
    pub content: Content,
    pub boundaries: Rc<Boundaries>,
}

impl Page {
    pub fn new(parts: PageParts) -> Page {
        let PageParts {
            key,
            id,
            status,
            mut fields,
            by,
            is_private,
            is_template,
            life,
            marks,
            tags,
            site,
            purge_seq,
            content,
            boundaries,
        } = parts;
        fields.shrink();
        Page {
            key,
            id,
            status,
            fields,
            by,
            is_private,
            is_template,
            parsed: OnceCell::new(),
            life,
            marks,
            tags,
            site,
            purge_seq,
            identity: EncodedBody::new(Coding::Identity, content),
            coded: Default::default(),
            making: tokio::sync::Mutex::new(()),
            looked_at: Cell::new((u64::MAX, Validity::Gone)),
            hits: Cell::new(0),
            replay: OnceCell::new(),
            is_renewed: Cell::new(false),
            boundaries,
        }
    }

    /// State of the page with regard to purges.
    pub fn validity(&self, store: &Store, is_banned: impl FnMut(&Ban) -> bool) -> Validity {
        let number = store.purge_seq();
        let (looked_at, validity) = self.looked_at.get();
        if looked_at == number {
            return validity;
        }
        let validity = store.validity(self.purge_seq, self.marks.iter().copied(), is_banned);
        self.looked_at.set((number, validity));
        validity
    }

    /// Its parsed template.
    pub async fn parsed(&self) -> Option<Rc<ParsedTemplate>> {
        if self.parsed.get().is_none() {
            let bytes = match &self.identity.content {
                Content::Memory(chunk) => chunk.clone(),
                content => {
                    let read = content.reader()?;
                    Chunk::from(
                        jobs::run(JobKind::PageCache, None, move |_| read())
                            .await
                            .ok()
                            .flatten()?,
                    )
                }
            };
            // Another request may have parsed it meanwhile.
            let _ = self.parsed.set(Rc::new(ParsedTemplate::new(bytes)));
        }
        self.parsed.get().cloned()
    }

    /// The fields of a page assembled from this template.
    pub fn fields_of_template(
        &self,
        options: &ResponseOptions,
        hit: HitStatus,
        now: i64,
    ) -> Fields {
        let mut fields = self.fields.clone();
        // It is made now, of parts of several ages.
        fields.remove("Date");
        self.tell(&mut fields, options, hit, now);
        fields
    }

    /// Adds the fields that report a hit.
    fn tell(&self, fields: &mut Fields, options: &ResponseOptions, hit: HitStatus, now: i64) {
        let config = &options.settings.cache;
        if self.by == By::Http {
            // RFC 9111 section 5.1.
            fields.set(
                "Age",
                age_s(&self.life, now.saturating_mul(1000))
                    .to_string()
                    .into_bytes(),
            );
        }
        // Clients that see misses also see hits, whichever protocol stored the page.
        if self.by == By::Lscache || config.obeys_lscache {
            visible::finish(fields, Served::Hit(self.audience()), false, false);
        }
        visible::hide_ban_tags(fields);
        if config.tells_status {
            result_fields::status(self.life.fresh_until_ms, hit, now).append_to(fields, "Saker");
        }
        let result = match hit {
            HitStatus::Hit => CacheResult::Hit,
            HitStatus::Stale => CacheResult::Stale,
            HitStatus::Completed => CacheResult::Miss,
        };
        result_fields::tell(fields, config, result, options.server_name.as_deref(), None);
    }

    /// Answers GET or HEAD from what exists so far.
    pub fn respond(
        &self,
        head: HeadView<'_>,
        options: &ResponseOptions,
        hit: HitStatus,
        now: i64,
    ) -> PageAnswer {
        let copy = match self.select(head, &options.settings) {
            Ok(copy) => copy,
            Err(coding) => return PageAnswer::Encode(coding),
        };
        let ready = copy.head(self, options, hit, now);
        if self.status != Status::OK {
            return PageAnswer::Answer(Response::ready(ready, copy.content.whole()));
        }
        let (is_conditional, wanted) = (is_conditional(head), wanted_range(head));
        if !is_conditional && wanted.is_none() {
            return PageAnswer::Answer(Response::ready(ready, copy.content.whole()));
        }
        let first = |name| ready.fields.first(name).filter(|_| is_conditional);
        let validators = Validators {
            entity_tag: first("ETag").and_then(EntityTag::parse),
            // RFC 9111 section 4.3.2: without Last-Modified, Date counts.
            last_modified: first("Last-Modified")
                .or_else(|| first("Date"))
                .and_then(|text| parse_date(text, now)),
            now,
        };
        if is_conditional {
            match conditional::evaluate(head, Some(&validators)) {
                Precondition::Proceed => {}
                Precondition::NotModified => {
                    return PageAnswer::Answer(Response::ready(
                        copy.not_modified(self, options, hit, now),
                        Body::Empty,
                    ));
                }
                Precondition::Failed => {
                    return PageAnswer::Answer(Response::new(Status::PRECONDITION_FAILED));
                }
            }
        }
        let range = wanted.filter(|_| conditional::range_applies(head, &validators));
        PageAnswer::Answer(match range {
            Some(range) => self.ranged(copy, &ready, range),
            None => Response::ready(ready, copy.content.whole()),
        })
    }

    fn ranged(&self, copy: &EncodedBody, ready: &Rc<ReadyHead>, value: &[u8]) -> Response {
        let length = copy.content.length();
        let mut fields = ready.fields.clone();
        fields.remove("Content-Length");
        match range::resolve(value, length, RANGES_MAX) {
            RangeOutcome::Whole => Response::ready(Rc::clone(ready), copy.content.whole()),
            RangeOutcome::One(part) => {
                fields.append("Content-Range", byteranges::content_range(part, length));
                fields.append("Content-Length", part.len().to_string().into_bytes());
                let head = Rc::new(ReadyHead::new(Status::PARTIAL_CONTENT, fields));
                Response::ready(head, copy.content.part(part.first..part.last + 1))
            }
            RangeOutcome::Many(parts) => {
                let kind = ready.fields.first("Content-Type").map(<[u8]>::to_vec);
                byteranges::response(
                    &self.boundaries,
                    kind.as_deref(),
                    fields,
                    &copy.content,
                    &parts,
                )
            }
            RangeOutcome::Unsatisfiable => {
                let mut response = Response::new(Status::RANGE_NOT_SATISFIABLE);
                response
                    .fields_mut()
                    .append("Content-Range", format!("bytes */{length}").into_bytes());
                response
            }
        }
    }

    /// The content to send (RFC 9110 section 12.5.3); `Err` if the best coding does not exist yet.
    fn select(&self, head: HeadView<'_>, settings: &Settings) -> Result<&EncodedBody, Coding> {
        if !head.has(KnownField::AcceptEncoding) || !self.may_be_coded(settings) {
            return Ok(&self.identity);
        }
        let accepted = AcceptedCodings::of(head);
        if accepted.identity > 0 && wanted_range(head).is_some() {
            return Ok(&self.identity);
        }
        let mut choices = [Coding::Identity; 4];
        let mut count = 0;
        for configured in settings.compression.codings.iter().take(3) {
            let coding = coding::from_config(*configured);
            if !matches!(self.slot(coding).get(), Some(None)) {
                choices[count] = coding;
                count += 1;
            }
        }
        match accepted.best(&choices[..=count]) {
            None | Some(Coding::Identity) => Ok(&self.identity),
            Some(coding) => self
                .slot(coding)
                .get()
                .and_then(Option::as_ref)
                .ok_or(coding),
        }
    }

    fn may_be_coded(&self, settings: &Settings) -> bool {
        let compression = &settings.compression;
        !compression.codings.is_empty()
            && may_be_coded(
                compression,
                self.status,
                &self.fields,
                Some(self.identity.content.length()),
            )
    }

    /// The scope of the client that owns it, if it is private.
    pub fn private_scope(&self) -> Option<Vec<u8>> {
        private_scope(&self.site, &self.key).filter(|_| self.is_private)
    }

    fn audience(&self) -> Audience {
        if self.is_private {
            Audience::Private { shared: false }
        } else {
            Audience::Public
        }
    }

    /// The slot of a coding other than identity.
    pub fn slot(&self, coding: Coding) -> &OnceCell<Option<EncodedBody>> {
        &self.coded[match coding {
            Coding::Identity | Coding::Gzip => 0,
            Coding::Brotli => 1,
            Coding::Zstd => 2,
        }]
    }

    pub fn memory_bytes(&self) -> usize {
        let coded = self.coded.iter().filter_map(|slot| slot.get()?.as_ref());
        let copies: usize = coded
            .chain([&self.identity])
            .map(|copy| copy.content.memory_bytes() + HEAD_OVERHEAD_BYTES)
            .sum();
        let fields: usize = self
            .fields
            .iter()
            .map(|(name, value)| name.len() + value.len() + 48)
            .sum();
        let parsed = self.parsed.get().map_or(0, |parsed| parsed.memory_bytes());
        let replay = self.replay.get().map_or(0, |replay| replay.memory_bytes());
        size_of::<Page>()
            + replay
            + parsed
            + copies
            + fields * 3
            + self.tags.iter().map(|tag| tag.len() + 32).sum::<usize>()
            + self.key.len()
    }

    /// True if a popular page is near the end of its lifetime.
    pub fn is_due_for_refresh(&self, percent: u64, now_ms: i64) -> bool {
        if percent == 0 || self.is_renewed.get() || self.hits.get() < HOT_HITS {
            return false;
        }
        let whole = self.life.fresh_until_ms.saturating_sub(self.life.stored_ms);
        let left = self.life.fresh_until_ms.saturating_sub(now_ms);
        left.saturating_mul(100) < whole.saturating_mul(i64::try_from(percent).unwrap_or(100))
    }
}

impl EncodedBody {
    pub fn new(coding: Coding, content: Content) -> EncodedBody {
        EncodedBody {
            coding,
            content,
            head: RefCell::default(),
            not_modified: RefCell::default(),
        }
    }

    fn head(
        &self,
        page: &Page,
        options: &ResponseOptions,
        hit: HitStatus,
        now: i64,
    ) -> Rc<ReadyHead> {
        let make = || {
            let mut fields = self.fields(page, options, hit, now);
            fields.append(
                "Content-Length",
                self.content.length().to_string().into_bytes(),
            );
            (page.status, fields)
        };
        cached_head(&self.head, page, options, hit, now, make)
    }

    /// RFC 9110 section 15.4.5.
    fn not_modified(
        &self,
        page: &Page,
        options: &ResponseOptions,
        hit: HitStatus,
        now: i64,
    ) -> Rc<ReadyHead> {
        let make = || {
            let whole = self.fields(page, options, hit, now);
            let own = options.settings.cache.result_field.as_deref();
            (Status::NOT_MODIFIED, conditions::not_modified(&whole, own))
        };
        cached_head(&self.not_modified, page, options, hit, now, make)
    }

    fn fields(&self, page: &Page, options: &ResponseOptions, hit: HitStatus, now: i64) -> Fields {
        let mut fields = page.fields.clone();
        let settings = &options.settings;
        if page.may_be_coded(settings) {
            if settings.compression.varies {
                fields.add_token("Vary", "Accept-Encoding");
            }
            if self.coding != Coding::Identity {
                describe(&mut fields, self.coding, settings.compression.tags);
            }
        }
        page.tell(&mut fields, options, hit, now);
        if let Some(edits) = &options.edits {
            edits.apply(
                &HeadFacts {
                    status: page.status,
                    now,
                    modified_s: None,
                },
                &mut fields,
            );
        }
        fields
    }
}

/// The existing head, if it was made for the same options; otherwise a new one.
fn cached_head(
    slot: &RefCell<Option<CachedHead>>,
    page: &Page,
    options: &ResponseOptions,
    hit: HitStatus,
    now: i64,
    make: impl FnOnce() -> (Status, Fields),
) -> Rc<ReadyHead> {
    let follows_clock = page.by == By::Http
        || options.settings.cache.tells_status
        || options
            .edits
            .as_ref()
            .is_some_and(|edits| edits.changes_with_time());
    let edits = options.edits.as_deref();
    if let Some(kept) = &*slot.borrow()
        && Arc::ptr_eq(&kept.settings, &options.settings)
        && kept.hit == hit
        && (kept.made_s == now || !follows_clock)
        && are_same(kept.edits.as_deref(), edits)
    {
        return Rc::clone(&kept.head);
    }
    let (status, fields) = make();
    let head = Rc::new(ReadyHead::new(status, fields));
    *slot.borrow_mut() = Some(CachedHead {
        head: Rc::clone(&head),
        settings: Arc::clone(&options.settings),
        edits: options.edits.clone(),
        made_s: now,
        hit,
    });
    head
}

/// The Range field, which applies to GET only (RFC 9110 section 14.2); repeated fields are ignored.
pub fn wanted_range(head: HeadView<'_>) -> Option<&[u8]> {
    let value = head.known(KnownField::Range)?;
    (head.method() == Method::Get && head.known_count(KnownField::Range) == 1).then_some(value)
}
