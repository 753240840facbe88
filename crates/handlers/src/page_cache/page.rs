//! An entry as a worker has it at hand: its content, plain and in codings, and the heads that are
//! sent again and again.
//!
//! Place in the walk: found by key in the worker's tier, or read from the store; answers like a
//! static file does (`static_files::representation`), without waiting or allocating for the plain
//! 200 and the 304. Difficulty: whether it still holds. As long as the store's number is the one
//! that the page was last looked at under, one atomic load says so; otherwise its tags are looked
//! up once.

use super::{errand::Recipe, esi::Parsed, record::By, told};
use crate::static_files::{
    content::Content,
    multipart::{self, Boundaries},
};
use saker_cache_rules::{
    lscache::{
        control::Audience,
        visible::{self, Served},
    },
    rules::{Life, age_s, validation},
};
use saker_cache_store::{Ban, Standing, Store, TagMark};
use saker_config::model::Settings;
use saker_content_coding::{self as coding, describe, may_be_coded};
use saker_http::{
    Fields, HeadView, KnownField, Method, Status,
    conditional::{self, Precondition, Validators},
    content_coding::{AcceptedCodings, Coding},
    date::parse_date,
    entity_tag::EntityTag,
    fields::known_name,
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

/// Parts of one answer.
const RANGES_MAX: usize = 16;
const HEAD_OVERHEAD_BYTES: usize = 400;

pub struct Page {
    pub key: Box<[u8]>,
    pub id: u64,
    pub status: Status,
    /// As they are kept: without those of the connection, and without Date.
    pub fields: Fields,
    pub by: By,
    pub is_private: bool,
    /// Its content is put together for each visitor, from [`Page::parsed`].
    pub is_template: bool,
    parsed: OnceCell<Rc<Parsed>>,
    pub life: Life,
    pub marks: Box<[TagMark]>,
    /// As in the head of its entry, with the site that they are of.
    pub tags: Box<[Vec<u8>]>,
    pub site: Box<[u8]>,
    pub moment: u64,
    pub identity: Copy,
    /// In the order of [`slot`]; `None` in a slot: it makes the content no smaller.
    coded: [OnceCell<Option<Copy>>; 3],
    /// Held while a coding is made.
    pub making: tokio::sync::Mutex<()>,
    /// The store's number that it was last looked at under, and what came of it.
    looked_at: Cell<(u64, Standing)>,
    /// How often it was asked for here.
    pub hits: Cell<u32>,
    /// How to ask for it again, where somebody may want to.
    pub recipe: OnceCell<Rc<Recipe>>,
    /// Another one is being made, or was tried to be.
    pub is_renewed: Cell<bool>,
    pub boundaries: Rc<Boundaries>,
}

/// The content in one coding.
pub struct Copy {
    coding: Coding,
    pub content: Content,
    head: RefCell<Option<Kept>>,
    not_modified: RefCell<Option<Kept>>,
}

/// A head, and what it was made by.
struct Kept {
    head: Rc<ReadyHead>,
    settings: Arc<Settings>,
    edits: Option<Rc<dyn HeadEdits>>,
    made_s: i64,
    told: Told,
}

/// How answers are made of it here.
pub struct Manner {
    pub settings: Arc<Settings>,
    pub edits: Option<Rc<dyn HeadEdits>>,
    /// By which the site is known, where clients are told.
    pub server_name: Option<Rc<str>>,
}

impl Manner {
    pub fn of(exchange: &Exchange) -> Manner {
        Manner {
            settings: exchange.settings.clone(),
            edits: exchange.head_edits.clone(),
            server_name: told::server_name(exchange),
        }
    }
}

/// What is said of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Hit,
    Stale,
}

pub enum Outcome {
    Answer(Response),
    /// This coding is wanted and not there yet.
    Make(Coding),
}

/// What a page is made of.
pub struct Parts {
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
    pub moment: u64,
    pub content: Content,
    pub boundaries: Rc<Boundaries>,
}

impl Page {
    pub fn new(parts: Parts) -> Page {
        let Parts {
            key,
            id,
            status,
            fields,
            by,
            is_private,
            is_template,
            life,
            marks,
            tags,
            site,
            moment,
            content,
            boundaries,
        } = parts;
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
            moment,
            identity: Copy::new(Coding::Identity, content),
            coded: Default::default(),
            making: tokio::sync::Mutex::new(()),
            looked_at: Cell::new((u64::MAX, Standing::Gone)),
            hits: Cell::new(0),
            recipe: OnceCell::new(),
            is_renewed: Cell::new(false),
            boundaries,
        }
    }

    /// What purges have left of it.
    pub fn standing(&self, store: &Store, is_banned: impl FnMut(&Ban) -> bool) -> Standing {
        let number = store.moment();
        let (looked_at, standing) = self.looked_at.get();
        if looked_at == number {
            return standing;
        }
        let standing = store.standing(self.moment, self.marks.iter().copied(), is_banned);
        self.looked_at.set((number, standing));
        standing
    }

    /// Its content, looked at once.
    pub async fn parsed(&self) -> Option<Rc<Parsed>> {
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
            // Somebody else may have been as fast.
            let _ = self.parsed.set(Rc::new(Parsed::new(bytes)));
        }
        self.parsed.get().cloned()
    }

    /// What is said of a page that is put together from it.
    pub fn fields_of_template(&self, manner: &Manner, told: Told, now: i64) -> Fields {
        let mut fields = self.fields.clone();
        self.tell(&mut fields, manner, told, now);
        fields
    }

    /// That it was in the cache.
    fn tell(&self, fields: &mut Fields, manner: &Manner, told: Told, now: i64) {
        let given = &manner.settings.cache;
        if self.by == By::Http {
            // RFC 9111 section 5.1.
            fields.set(
                "Age",
                age_s(&self.life, now.saturating_mul(1000))
                    .to_string()
                    .into_bytes(),
            );
        }
        // Whoever was told of a miss is told of hits, by whose word ever the page is kept.
        if self.by == By::Lscache || given.obeys_lscache {
            visible::finish(fields, Served::Hit(self.audience()), false, false);
        }
        visible::hide_ban_tags(fields);
        if given.tells_status {
            told::status(self, told, now).append_to(fields, "Saker");
        }
        let result = if told == Told::Hit {
            told::Result::Hit
        } else {
            told::Result::Stale
        };
        told::tell(fields, given, result, manner.server_name.as_deref(), None);
    }

    /// Answers a GET or HEAD from what has been made so far.
    pub fn respond(&self, head: HeadView<'_>, manner: &Manner, told: Told, now: i64) -> Outcome {
        let copy = match self.select(head, &manner.settings) {
            Ok(copy) => copy,
            Err(coding) => return Outcome::Make(coding),
        };
        let ready = copy.head(self, manner, told, now);
        if self.status != Status::OK {
            return Outcome::Answer(Response::ready(ready, copy.content.whole()));
        }
        let modified = ready
            .fields
            .first("Last-Modified")
            .filter(|_| is_conditional(head))
            .and_then(|text| parse_date(text, now));
        let entity_tag = ready
            .fields
            .first("ETag")
            .filter(|_| is_conditional(head))
            .and_then(EntityTag::parse);
        let validators = Validators {
            entity_tag,
            last_modified: modified,
            now,
        };
        if is_conditional(head) {
            match conditional::evaluate(head, Some(&validators)) {
                Precondition::Proceed => {}
                Precondition::NotModified => {
                    return Outcome::Answer(Response::ready(
                        copy.not_modified(self, manner, told, now),
                        Body::Empty,
                    ));
                }
                Precondition::Failed => {
                    return Outcome::Answer(Response::new(Status::PRECONDITION_FAILED));
                }
            }
        }
        let range = wanted_range(head).filter(|_| conditional::range_applies(head, &validators));
        Outcome::Answer(match range {
            Some(range) => self.ranged(copy, &ready, range),
            None => Response::ready(ready, copy.content.whole()),
        })
    }

    fn ranged(&self, copy: &Copy, ready: &Rc<ReadyHead>, value: &[u8]) -> Response {
        let length = copy.content.length();
        let mut fields = ready.fields.clone();
        fields.remove("Content-Length");
        match range::resolve(value, length, RANGES_MAX) {
            RangeOutcome::Whole => Response::ready(Rc::clone(ready), copy.content.whole()),
            RangeOutcome::One(part) => {
                fields.append("Content-Range", multipart::content_range(part, length));
                fields.append("Content-Length", part.len().to_string().into_bytes());
                let head = Rc::new(ReadyHead::new(Status::PARTIAL_CONTENT, fields));
                Response::ready(head, copy.content.part(part.first..part.last + 1))
            }
            RangeOutcome::Many(parts) => {
                let kind = ready.fields.first("Content-Type").map(<[u8]>::to_vec);
                multipart::several(
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

    /// The copy to send (RFC 9110 section 12.5.3); `Err` where the best one is yet to be made.
    fn select(&self, head: HeadView<'_>, settings: &Settings) -> Result<&Copy, Coding> {
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

    /// Of the visitor whose alone it is.
    pub fn private_scope(&self) -> Option<Vec<u8>> {
        super::visit::private_scope(&self.site, &self.key).filter(|_| self.is_private)
    }

    fn audience(&self) -> Audience {
        if self.is_private {
            Audience::Private { shared: false }
        } else {
            Audience::Public
        }
    }

    /// Where the copy of a coding other than identity is, or will be.
    pub fn slot(&self, coding: Coding) -> &OnceCell<Option<Copy>> {
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
        let recipe = self.recipe.get().map_or(0, |recipe| recipe.memory_bytes());
        size_of::<Page>()
            + recipe
            + parsed
            + copies
            + fields * 3
            + self.tags.iter().map(|tag| tag.len() + 32).sum::<usize>()
            + self.key.len()
    }
}

impl Copy {
    pub fn new(coding: Coding, content: Content) -> Copy {
        Copy {
            coding,
            content,
            head: RefCell::default(),
            not_modified: RefCell::default(),
        }
    }

    fn head(&self, page: &Page, manner: &Manner, told: Told, now: i64) -> Rc<ReadyHead> {
        let make = || {
            let mut fields = self.fields(page, manner, told, now);
            fields.append(
                "Content-Length",
                self.content.length().to_string().into_bytes(),
            );
            (page.status, fields)
        };
        kept(&self.head, page, manner, told, now, make)
    }

    /// RFC 9110 section 15.4.5.
    fn not_modified(&self, page: &Page, manner: &Manner, told: Told, now: i64) -> Rc<ReadyHead> {
        let make = || {
            let whole = self.fields(page, manner, told, now);
            let mut fields = validation::not_modified_fields(&whole);
            let own = manner.settings.cache.result_field.as_deref();
            // The site's own may be one of the others.
            for name in [
                "Age",
                "Cache-Status",
                "X-LiteSpeed-Cache",
                "X-Cache",
                "X-Cache-Detail",
            ]
            .into_iter()
            .chain(own)
            {
                whole
                    .first(name)
                    .map(<[u8]>::to_vec)
                    .into_iter()
                    .for_each(|value| fields.set(known_name(name), value));
            }
            (Status::NOT_MODIFIED, fields)
        };
        kept(&self.not_modified, page, manner, told, now, make)
    }

    fn fields(&self, page: &Page, manner: &Manner, told: Told, now: i64) -> Fields {
        let mut fields = page.fields.clone();
        let settings = &manner.settings;
        if page.may_be_coded(settings) {
            fields.add_token("Vary", "Accept-Encoding");
            if self.coding != Coding::Identity {
                describe(&mut fields, self.coding, settings.compression.tags);
            }
        }
        page.tell(&mut fields, manner, told, now);
        if let Some(edits) = &manner.edits {
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

/// A head that was made for the same, or a new one.
fn kept(
    slot: &RefCell<Option<Kept>>,
    page: &Page,
    manner: &Manner,
    told: Told,
    now: i64,
    make: impl FnOnce() -> (Status, Fields),
) -> Rc<ReadyHead> {
    let follows_clock = page.by == By::Http
        || manner.settings.cache.tells_status
        || manner
            .edits
            .as_ref()
            .is_some_and(|edits| edits.changes_with_time());
    let edits = manner.edits.as_deref();
    if let Some(kept) = &*slot.borrow()
        && Arc::ptr_eq(&kept.settings, &manner.settings)
        && kept.told == told
        && (kept.made_s == now || !follows_clock)
        && are_same(kept.edits.as_deref(), edits)
    {
        return Rc::clone(&kept.head);
    }
    let (status, fields) = make();
    let head = Rc::new(ReadyHead::new(status, fields));
    *slot.borrow_mut() = Some(Kept {
        head: Rc::clone(&head),
        settings: Arc::clone(&manner.settings),
        edits: manner.edits.clone(),
        made_s: now,
        told,
    });
    head
}

fn is_conditional(head: HeadView<'_>) -> bool {
    use KnownField::*;
    [
        IfNoneMatch,
        IfModifiedSince,
        IfMatch,
        IfUnmodifiedSince,
        IfRange,
    ]
    .iter()
    .any(|field| head.has(*field))
}

/// Range means something with GET only (RFC 9110 section 14.2), and two lines of it mean nothing.
pub fn wanted_range(head: HeadView<'_>) -> Option<&[u8]> {
    let value = head.known(KnownField::Range)?;
    (head.method() == Method::Get && head.known_count(KnownField::Range) == 1).then_some(value)
}
