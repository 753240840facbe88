//! Assembles a page: its fragments are fetched concurrently and sent in order.
//!
//! Called by: `page_response` and `store_response`.
//! Caveat: Set-Cookie fields of fragments belong in the head, and with all fragments the length is
//! known, but a slow fragment must not hold back the page forever. So the head waits up to
//! [`HEAD_WAIT_MAX`]; then the body is streamed. If the client leaves, the fetches end.
//! Out of scope: a single fetch (`fragment`) and its rules (`assembly`).

use crate::{
    cache::PageCache,
    esi::{
        assembly::{Assembly, ReadyChunk, SIDE_BY_SIDE_MAX, is_to_be_kept, meant},
        combined,
        context::IncludeContext,
        fragment::{self, FetchedFragment, FragmentRequest},
        source::IncludeSource,
        template::ParsedTemplate,
    },
    request::FetchStart,
};
use saker_esi::{Inline, Step};
use saker_pipeline::{Body, BodyError, BodyStream, Chunk, Exchange, LocalFuture};
use std::{
    cell::RefCell,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{sync::Semaphore, task::JoinHandle};

/// The longest time that the head waits for fragments.
const HEAD_WAIT_MAX: Duration = Duration::from_millis(1000);

/// Limit for all content that one page includes.
const INCLUDED_BYTES_MAX: usize = 32 << 20;

/// Up to this size a page is sent in one piece; of a larger one no second copy is made.
const JOINED_BYTES_MAX: usize = 1 << 20;

/// A page to be assembled.
pub struct AssemblyJob {
    pub parsed: Rc<ParsedTemplate>,
    pub include: IncludeContext,
    /// Content that the page carries for other URLs.
    pub inlines: Vec<(Inline, Chunk)>,
    /// Beginning of the fetch of the page that carries them.
    pub began: FetchStart,
}

impl AssemblyJob {
    /// The job for a page from the cache, whose inline content has been removed.
    pub fn of_hit(
        cache: &PageCache,
        parsed: Rc<ParsedTemplate>,
        include: IncludeContext,
    ) -> AssemblyJob {
        AssemblyJob {
            parsed,
            include,
            inlines: Vec::new(),
            began: FetchStart::now(&cache.store),
        }
    }
}

/// A step that has been started.
enum StartedStep {
    Text(Chunk),
    Include {
        task: FetchTask,
        is_optional: bool,
    },
    Try {
        attempt: Vec<StartedStep>,
        except: Vec<Step>,
    },
}

/// A fetch that ends when it is dropped.
struct FetchTask(JoinHandle<Option<FetchedFragment>>);

impl Drop for FetchTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The content, and the cookies that arrived in time.
pub async fn run(
    cache: &Rc<PageCache>,
    exchange: &Exchange,
    job: AssemblyJob,
) -> (Body, Vec<Vec<u8>>) {
    let assembly = Rc::new(Assembly {
        services: cache.services.clone(),
        store: Arc::clone(&cache.store),
        source: IncludeSource::of(exchange),
        // Hints for this page don't apply to its fragments.
        include: IncludeContext {
            hints: Rc::default(),
            ..job.include
        },
        parsed: job.parsed,
        primed: RefCell::default(),
        once: RefCell::default(),
        side_by_side: Semaphore::new(SIDE_BY_SIDE_MAX),
        out: RefCell::default(),
        held: RefCell::default(),
    });
    let mut making: LocalFuture<'static, ()> =
        Box::pin(make(Rc::clone(&assembly), job.inlines, job.began));
    let is_whole = tokio::time::timeout(HEAD_WAIT_MAX, &mut making)
        .await
        .is_ok();
    let cookies = std::mem::take(&mut assembly.out.borrow_mut().cookies);
    let body = match is_whole {
        true if assembly.ready_bytes() <= JOINED_BYTES_MAX => {
            let chunks = std::mem::take(&mut assembly.out.borrow_mut().chunks);
            let bytes: Vec<&[u8]> = chunks.iter().map(|ready| ready.chunk.bytes()).collect();
            Body::Memory(bytes.concat().into())
        }
        true => Body::Stream(Box::new(AssembledBody {
            assembly,
            making: None,
        })),
        false => Body::Stream(Box::new(AssembledBody {
            assembly,
            making: Some(making),
        })),
    };
    (body, cookies)
}

async fn make(assembly: Rc<Assembly>, inlines: Vec<(Inline, Chunk)>, began: FetchStart) {
    // Before the includes of the same URLs (LSCache protocol 9.4).
    assembly.prime(&inlines, began).await;
    let steps = assembly.parsed.template.steps(&assembly.source.facts());
    combined::fetch(&assembly, &steps).await;
    for begun in assembly.begin(steps) {
        let chunks = finish(&assembly, begun).await.unwrap_or_default();
        assembly
            .out
            .borrow_mut()
            .chunks
            .extend(chunks.into_iter().filter(|ready| !ready.chunk.is_empty()));
    }
    // What is sent holds what it needs.
    assembly.primed.borrow_mut().clear();
    assembly.once.borrow_mut().clear();
}

/// Stores the inline content of a page that is not sent to a client.
pub async fn prime_only(
    cache: &Rc<PageCache>,
    exchange: &Exchange,
    inlines: &[(Inline, Chunk)],
    began: FetchStart,
) {
    let Some(services) = cache.services.upgrade() else {
        return;
    };
    let source = IncludeSource::of(exchange);
    for (inline, page) in inlines {
        if let Some((target, content)) = is_to_be_kept(inline)
            .then(|| meant(&source, inline, page))
            .flatten()
        {
            let answered = fragment::inline_answer(inline, content, began);
            fragment::prime(
                &services,
                &source,
                &target,
                FragmentRequest {
                    include: IncludeContext::default(),
                    answered,
                },
            )
            .await;
        }
    }
}

/// The content of a step. `None`: an include failed that is not optional.
fn finish(
    assembly: &Rc<Assembly>,
    begun: StartedStep,
) -> LocalFuture<'static, Option<Vec<ReadyChunk>>> {
    let assembly = Rc::clone(assembly);
    Box::pin(async move {
        match begun {
            StartedStep::Text(chunk) => Some(vec![ReadyChunk { chunk, _held: None }]),
            StartedStep::Include {
                mut task,
                is_optional,
            } => match (&mut task.0).await.ok().flatten() {
                Some(fetched) => assembly.taken(fetched).map(|ready| vec![ready]),
                None => is_optional.then(Vec::new),
            },
            StartedStep::Try { attempt, except } => match all(&assembly, attempt).await {
                Some(chunks) => Some(chunks),
                None => {
                    let begun = assembly.begin(except);
                    all(&assembly, begun).await
                }
            },
        }
    })
}

async fn all(assembly: &Rc<Assembly>, begun: Vec<StartedStep>) -> Option<Vec<ReadyChunk>> {
    let mut chunks = Vec::new();
    for begun in begun {
        chunks.extend(finish(assembly, begun).await?);
    }
    Some(chunks)
}

/// The rest of a page, as a body.
struct AssembledBody {
    assembly: Rc<Assembly>,
    making: Option<LocalFuture<'static, ()>>,
}

impl BodyStream for AssembledBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let is_made = match &mut self.making {
            Some(making) => making.as_mut().poll(cx).is_ready(),
            None => true,
        };
        if is_made {
            self.making = None;
        }
        let chunk = self.assembly.out.borrow_mut().chunks.pop_front();
        match chunk {
            Some(ready) => Poll::Ready(Some(Ok(ready.chunk))),
            None if is_made => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    fn length(&self) -> Option<u64> {
        self.making
            .is_none()
            .then(|| self.assembly.ready_bytes() as u64)
    }
}

impl Assembly {
    fn ready_bytes(&self) -> usize {
        self.out
            .borrow()
            .chunks
            .iter()
            .map(|ready| ready.chunk.len())
            .sum()
    }

    fn begin(self: &Rc<Self>, steps: Vec<Step>) -> Vec<StartedStep> {
        steps.into_iter().map(|step| self.begin_one(step)).collect()
    }

    fn begin_one(self: &Rc<Self>, step: Step) -> StartedStep {
        match step {
            Step::Text(range) => StartedStep::Text(self.parsed.page.slice(range)),
            Step::Made(text) => StartedStep::Text(text.into()),
            Step::Include(wanted) => {
                let (assembly, is_optional) = (Rc::clone(self), wanted.is_optional);
                let task = FetchTask(tokio::task::spawn_local(async move {
                    assembly.include(&wanted).await
                }));
                StartedStep::Include { task, is_optional }
            }
            Step::Try { attempt, except } => StartedStep::Try {
                attempt: self.begin(attempt),
                except,
            },
        }
    }

    /// Takes over content and cookies. `None`: the page would become too large.
    fn taken(&self, fetched: FetchedFragment) -> Option<ReadyChunk> {
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
        Some(ReadyChunk {
            chunk: fetched.content,
            _held: fetched.held,
        })
    }
}
