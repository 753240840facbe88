//! Puts a page together: its parts are asked for side by side, and leave in order.
//!
//! Difficulty: when the head may go. Cookies that parts set belong in it, and with everything there
//! the length is known; but a slow part must not hold back what stands before it for ever. So all
//! of it is waited for, up to a time; then what is there leaves, and the rest as it comes. Who goes
//! away takes the requests for parts along.

use super::{
    DEPTH_MAX, Inside, PageCache, Parsed, Said,
    allowance::Held,
    combined,
    fragment::{self, Answered, Fetched, Fragment},
    source::Source,
};
use crate::page_cache::visit::Began;
use saker_cache_store::Store;
use saker_esi::{Inline, Step, Wanted};
use saker_http::Status;
use saker_pipeline::{Body, BodyError, BodyStream, Chunk, Exchange, LocalFuture, Services};
use saker_telemetry::{error_log, message};
use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    rc::{Rc, Weak},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    sync::{OnceCell, Semaphore},
    task::JoinHandle,
};

/// The head waits for parts no longer.
const HEAD_WAIT_MAX: Duration = Duration::from_millis(1000);
/// Requests of one page at a time.
const SIDE_BY_SIDE_MAX: usize = 16;
/// Of all that one page includes.
const INCLUDED_BYTES_MAX: usize = 32 << 20;
/// A page of no more bytes leaves in one piece; of a larger one no second copy is made.
const JOINED_BYTES_MAX: usize = 1 << 20;

/// What is to be put together.
pub struct Job {
    pub parsed: Rc<Parsed>,
    pub inside: Inside,
    /// What the page has said for addresses of its own.
    pub inlines: Vec<(Inline, Chunk)>,
    /// When the making of the page began that says so.
    pub began: Began,
}

impl Job {
    /// A page from the cache: what it had to say for other addresses is not in it any more.
    pub fn of_hit(cache: &PageCache, parsed: Rc<Parsed>, inside: Inside) -> Job {
        Job {
            parsed,
            inside,
            inlines: Vec::new(),
            began: Began::now(&cache.store),
        }
    }
}

/// What several includes wait for.
type Asked = Rc<OnceCell<Option<Fetched>>>;

/// One page while it is put together.
pub struct Work {
    pub services: Weak<Services>,
    pub store: Arc<Store>,
    pub source: Source,
    pub inside: Inside,
    parsed: Rc<Parsed>,
    /// By target: what need not be asked for.
    pub given: RefCell<HashMap<Vec<u8>, Fetched>>,
    /// By target: what is asked for once (`as-var`).
    once: RefCell<HashMap<Vec<u8>, Asked>>,
    side_by_side: Semaphore,
    out: RefCell<Out>,
    /// What parts are slices of.
    held: RefCell<Vec<Rc<Held>>>,
}

/// A part of what leaves, with what it holds.
struct Ready {
    chunk: Chunk,
    _held: Option<Rc<Held>>,
}

/// What is ready to leave.
#[derive(Default)]
struct Out {
    chunks: VecDeque<Ready>,
    cookies: Vec<Vec<u8>>,
    included_bytes: usize,
}

/// A step that has been begun.
enum Begun {
    Text(Chunk),
    Include {
        asking: Asking,
        is_optional: bool,
    },
    Try {
        attempt: Vec<Begun>,
        except: Vec<Step>,
    },
}

/// A request that ends with whoever wants its answer.
struct Asking(JoinHandle<Option<Fetched>>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The content, and the cookies that came in time.
pub async fn run(cache: &Rc<PageCache>, exchange: &Exchange, job: Job) -> (Body, Vec<Vec<u8>>) {
    let work = Rc::new(Work {
        services: cache.services.clone(),
        store: Arc::clone(&cache.store),
        source: Source::of(exchange),
        // What was said of this page is not said of its parts.
        inside: Inside {
            said: Rc::default(),
            ..job.inside
        },
        parsed: job.parsed,
        given: RefCell::default(),
        once: RefCell::default(),
        side_by_side: Semaphore::new(SIDE_BY_SIDE_MAX),
        out: RefCell::default(),
        held: RefCell::default(),
    });
    let mut making: LocalFuture<'static, ()> =
        Box::pin(make(Rc::clone(&work), job.inlines, job.began));
    let is_whole = tokio::time::timeout(HEAD_WAIT_MAX, &mut making)
        .await
        .is_ok();
    let cookies = std::mem::take(&mut work.out.borrow_mut().cookies);
    let body = match is_whole {
        true if work.ready_bytes() <= JOINED_BYTES_MAX => {
            let chunks = std::mem::take(&mut work.out.borrow_mut().chunks);
            let bytes: Vec<&[u8]> = chunks.iter().map(|ready| ready.chunk.bytes()).collect();
            Body::Memory(bytes.concat().into())
        }
        true => Body::Stream(Box::new(Assembling { work, making: None })),
        false => Body::Stream(Box::new(Assembling {
            work,
            making: Some(making),
        })),
    };
    (body, cookies)
}

async fn make(work: Rc<Work>, inlines: Vec<(Inline, Chunk)>, began: Began) {
    // Before the includes of the same addresses (LSCache protocol 9.4).
    work.prime(&inlines, began).await;
    let steps = work.parsed.template.steps(&work.source.facts());
    combined::fetch(&work, &steps).await;
    for begun in work.begin(steps) {
        let chunks = finish(&work, begun).await.unwrap_or_default();
        work.out
            .borrow_mut()
            .chunks
            .extend(chunks.into_iter().filter(|ready| !ready.chunk.is_empty()));
    }
    // What leaves holds what it needs.
    work.given.borrow_mut().clear();
    work.once.borrow_mut().clear();
}

/// Keeps what a page that nobody sees has said for addresses.
pub async fn prime_only(
    cache: &Rc<PageCache>,
    exchange: &Exchange,
    inlines: &[(Inline, Chunk)],
    began: Began,
) {
    let Some(services) = cache.services.upgrade() else {
        return;
    };
    let source = Source::of(exchange);
    for (inline, page) in inlines {
        if let Some((target, content)) = is_to_be_kept(inline)
            .then(|| meant(&source, inline, page))
            .flatten()
        {
            let answered = fragment::said(inline, content, began);
            fragment::prime(
                &services,
                &source,
                &target,
                Fragment {
                    inside: Inside::default(),
                    answered,
                },
            )
            .await;
        }
    }
}

fn is_to_be_kept(inline: &Inline) -> bool {
    inline.cache_control.is_some() || inline.is_fetchable
}

fn meant(source: &Source, inline: &Inline, page: &Chunk) -> Option<(Vec<u8>, Chunk)> {
    Some((
        source.target(&inline.address)?,
        page.slice(inline.content.clone()),
    ))
}

impl Work {
    /// What is said for addresses is kept, and is what includes of them get.
    pub async fn prime(&self, inlines: &[(Inline, Chunk)], began: Began) {
        let Some(services) = self.services.upgrade() else {
            return;
        };
        for (inline, page) in inlines {
            let Some((target, content)) = meant(&self.source, inline, page) else {
                continue;
            };
            self.given.borrow_mut().insert(
                target.clone(),
                Fetched {
                    content: content.clone(),
                    cookies: Vec::new(),
                    held: None,
                },
            );
            if is_to_be_kept(inline) {
                let answered = fragment::said(inline, content, began);
                fragment::prime(
                    &services,
                    &self.source,
                    &target,
                    Fragment {
                        inside: self.inside.clone(),
                        answered,
                    },
                )
                .await;
            }
        }
    }

    /// Keeps what is held until the page has left.
    pub fn hold(&self, held: Option<Rc<Held>>) {
        self.held.borrow_mut().extend(held);
    }

    fn ready_bytes(&self) -> usize {
        self.out
            .borrow()
            .chunks
            .iter()
            .map(|ready| ready.chunk.len())
            .sum()
    }

    fn begin(self: &Rc<Self>, steps: Vec<Step>) -> Vec<Begun> {
        steps.into_iter().map(|step| self.begin_one(step)).collect()
    }

    fn begin_one(self: &Rc<Self>, step: Step) -> Begun {
        match step {
            Step::Text(range) => Begun::Text(self.parsed.page.slice(range)),
            Step::Made(text) => Begun::Text(text.into()),
            Step::Include(wanted) => {
                let (work, is_optional) = (Rc::clone(self), wanted.is_optional);
                let asking = Asking(tokio::task::spawn_local(async move {
                    work.include(&wanted).await
                }));
                Begun::Include {
                    asking,
                    is_optional,
                }
            }
            Step::Try { attempt, except } => Begun::Try {
                attempt: self.begin(attempt),
                except,
            },
        }
    }

    /// ESI 1.0 section 3.1: the address, or the other one.
    async fn include(&self, wanted: &Wanted) -> Option<Fetched> {
        let first = self.one(&wanted.src, wanted).await;
        match (first, &wanted.alt) {
            (None, Some(alt)) => self.one(alt, wanted).await,
            (first, _) => first,
        }
    }

    async fn one(&self, address: &[u8], wanted: &Wanted) -> Option<Fetched> {
        let Some(target) = self.source.target(address) else {
            return self.elsewhere(address, wanted).await;
        };
        if let Some(given) = self.given.borrow().get(&target) {
            return Some(given.clone());
        }
        if !wanted.is_kept {
            return self.ask(&self.source, &target, wanted).await;
        }
        let cell = Rc::clone(self.once.borrow_mut().entry(target.clone()).or_default());
        cell.get_or_init(|| self.ask(&self.source, &target, wanted))
            .await
            .clone()
    }

    /// Of another host: by its own site here, if there is one. Nothing goes over the network.
    async fn elsewhere(&self, address: &[u8], wanted: &Wanted) -> Option<Fetched> {
        let services = self.services.upgrade()?;
        let Some((source, target)) = self.source.elsewhere(&services.generation, address) else {
            self.complain(address, "this server has no site of that host there");
            return None;
        };
        let asked = async {
            let fetched = self.ask(&source, &target, wanted).await?;
            // They are not for this host.
            Some(Fetched {
                cookies: Vec::new(),
                ..fetched
            })
        };
        if !wanted.is_kept {
            return asked.await;
        }
        let cell = Rc::clone(
            self.once
                .borrow_mut()
                .entry([b"elsewhere ", address].concat())
                .or_default(),
        );
        cell.get_or_init(|| asked).await.clone()
    }

    async fn ask(&self, source: &Source, target: &[u8], wanted: &Wanted) -> Option<Fetched> {
        let Some(inside) = self.further_in() else {
            self.complain(
                target,
                "too many pages are inside of one another, or included in all",
            );
            return None;
        };
        if self.inside.memory.left() == 0 {
            self.complain(
                target,
                "the parts of the page are as large as they may be in all",
            );
            return None;
        }
        let services = self.services.upgrade()?;
        let _turn = self.side_by_side.acquire().await.ok()?;
        let fragment = Fragment {
            inside: Inside {
                said: Said::of(wanted),
                ..inside
            },
            answered: Answered::ByAnyone,
        };
        match fragment::fetch(&services, source, target, fragment).await {
            Ok(fetched) => Some(fetched),
            Err(Status::CONTENT_TOO_LARGE) => {
                self.complain(
                    target,
                    "it is too large, or the parts of the page are so in all",
                );
                None
            }
            Err(Status(status)) => {
                self.complain(target, &format!("the answer is {status}"));
                None
            }
        }
    }

    /// For one more request; `None`: that would be one too many.
    pub fn further_in(&self) -> Option<Inside> {
        let left = self.inside.left.get();
        if self.inside.depth >= DEPTH_MAX || left == 0 {
            return None;
        }
        self.inside.left.set(left - 1);
        Some(Inside {
            depth: self.inside.depth + 1,
            ..self.inside.clone()
        })
    }

    pub fn complain(&self, target: &[u8], why: &str) {
        let target = String::from_utf8_lossy(target);
        error_log::log_client(
            &message::ESI_INCLUDE_FAILED,
            self.source.client.address,
            format_args!("{target}: {why}"),
        );
    }

    /// Takes its cookies along. `None`: that is more than a page may hold.
    fn taken(&self, fetched: Fetched) -> Option<Ready> {
        let mut out = self.out.borrow_mut();
        out.included_bytes += fetched.content.len();
        if out.included_bytes > INCLUDED_BYTES_MAX {
            return None;
        }
        for cookie in fetched.cookies {
            if !out.cookies.contains(&cookie) {
                out.cookies.push(cookie);
            }
        }
        Some(Ready {
            chunk: fetched.content,
            _held: fetched.held,
        })
    }
}

/// What a step comes to. `None`: an include failed that is not optional.
fn finish(work: &Rc<Work>, begun: Begun) -> LocalFuture<'static, Option<Vec<Ready>>> {
    let work = Rc::clone(work);
    Box::pin(async move {
        match begun {
            Begun::Text(chunk) => Some(vec![Ready { chunk, _held: None }]),
            Begun::Include {
                mut asking,
                is_optional,
            } => match (&mut asking.0).await.ok().flatten() {
                Some(fetched) => work.taken(fetched).map(|ready| vec![ready]),
                None => is_optional.then(Vec::new),
            },
            Begun::Try { attempt, except } => match all(&work, attempt).await {
                Some(chunks) => Some(chunks),
                None => {
                    let begun = work.begin(except);
                    all(&work, begun).await
                }
            },
        }
    })
}

async fn all(work: &Rc<Work>, begun: Vec<Begun>) -> Option<Vec<Ready>> {
    let mut chunks = Vec::new();
    for begun in begun {
        chunks.extend(finish(work, begun).await?);
    }
    Some(chunks)
}

/// The rest of a page.
struct Assembling {
    work: Rc<Work>,
    making: Option<LocalFuture<'static, ()>>,
}

impl BodyStream for Assembling {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let is_made = match &mut self.making {
            Some(making) => making.as_mut().poll(cx).is_ready(),
            None => true,
        };
        if is_made {
            self.making = None;
        }
        let chunk = self.work.out.borrow_mut().chunks.pop_front();
        match chunk {
            Some(ready) => Poll::Ready(Some(Ok(ready.chunk))),
            None if is_made => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    fn length(&self) -> Option<u64> {
        self.making
            .is_none()
            .then(|| self.work.ready_bytes() as u64)
    }
}
