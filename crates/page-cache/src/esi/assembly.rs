//! The state of a page while it is assembled, and how it fetches its fragments.
//!
//! Called by: `assemble` and `combined`.
//! Caveat: each URL is fetched once per page where the include says so (`as-var`); fetches are
//! bounded in number, depth and memory.
//! Out of scope: the order of the output (`assemble`).

use crate::{
    esi::{
        context::{DEPTH_MAX, IncludeContext, IncludeHints},
        fragment::{self, FetchedFragment, FragmentAnswer, FragmentRequest},
        memory_budget::Reservation,
        source::IncludeSource,
        template::ParsedTemplate,
    },
    request::FetchStart,
};
use saker_cache_store::Store;
use saker_esi::{Inline, Wanted};
use saker_http::Status;
use saker_pipeline::{Chunk, Services};
use saker_telemetry::{error_log, message};
use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    rc::{Rc, Weak},
    sync::Arc,
};
use tokio::sync::{OnceCell, Semaphore};

/// Concurrent fetches of one page.
pub const SIDE_BY_SIDE_MAX: usize = 16;

/// A fetch shared by several includes.
type SharedFetch = Rc<OnceCell<Option<FetchedFragment>>>;

/// One page while it is assembled.
pub struct Assembly {
    pub services: Weak<Services>,
    pub store: Arc<Store>,
    pub source: IncludeSource,
    pub include: IncludeContext,
    pub parsed: Rc<ParsedTemplate>,
    /// By target: content that need not be fetched.
    pub primed: RefCell<HashMap<Vec<u8>, FetchedFragment>>,
    /// By target: fetches made once (`as-var`).
    pub once: RefCell<HashMap<Vec<u8>, SharedFetch>>,
    pub side_by_side: Semaphore,
    pub out: RefCell<Output>,
    /// Reservations of content that fragments are slices of.
    pub held: RefCell<Vec<Rc<Reservation>>>,
}

/// A piece of output with its memory reservation.
pub struct ReadyChunk {
    pub chunk: Chunk,
    pub _held: Option<Rc<Reservation>>,
}

/// Output that is ready to be sent.
#[derive(Default)]
pub struct Output {
    pub chunks: VecDeque<ReadyChunk>,
    pub cookies: Vec<Vec<u8>>,
    pub included_bytes: usize,
}

impl Assembly {
    /// Stores inline content and answers includes of the same URLs with it.
    pub async fn prime(&self, inlines: &[(Inline, Chunk)], began: FetchStart) {
        let Some(services) = self.services.upgrade() else {
            return;
        };
        for (inline, page) in inlines {
            let Some((target, content)) = meant(&self.source, inline, page) else {
                continue;
            };
            self.primed.borrow_mut().insert(
                target.clone(),
                FetchedFragment {
                    content: content.clone(),
                    cookies: Vec::new(),
                    held: None,
                },
            );
            if is_to_be_kept(inline) {
                let answered = fragment::inline_answer(inline, content, began);
                fragment::prime(
                    &services,
                    &self.source,
                    &target,
                    FragmentRequest {
                        include: self.include.clone(),
                        answered,
                    },
                )
                .await;
            }
        }
    }

    /// Keeps a reservation until the page has been sent.
    pub fn hold(&self, held: Option<Rc<Reservation>>) {
        self.held.borrow_mut().extend(held);
    }

    /// ESI 1.0 section 3.1: `src`, or `alt` if that fails.
    pub async fn include(&self, wanted: &Wanted) -> Option<FetchedFragment> {
        let first = self.one(&wanted.src, wanted).await;
        match (first, &wanted.alt) {
            (None, Some(alt)) => self.one(alt, wanted).await,
            (first, _) => first,
        }
    }

    pub async fn one(&self, address: &[u8], wanted: &Wanted) -> Option<FetchedFragment> {
        let Some(target) = self.source.target(address) else {
            return self.elsewhere(address, wanted).await;
        };
        if let Some(primed) = self.primed.borrow().get(&target) {
            return Some(primed.clone());
        }
        if !wanted.is_kept {
            return self.ask(&self.source, &target, wanted).await;
        }
        let cell = Rc::clone(self.once.borrow_mut().entry(target.clone()).or_default());
        cell.get_or_init(|| self.ask(&self.source, &target, wanted))
            .await
            .clone()
    }

    /// A URL of another host, answered by that host's site on this server, if any. Nothing goes
    /// over the network.
    pub async fn elsewhere(&self, address: &[u8], wanted: &Wanted) -> Option<FetchedFragment> {
        let services = self.services.upgrade()?;
        let Some((source, target)) = self.source.elsewhere(&services.generation, address) else {
            self.complain(address, "this server has no site for that host");
            return None;
        };
        let asked = async {
            let fetched = self.ask(&source, &target, wanted).await?;
            // They are not meant for this host.
            Some(FetchedFragment {
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

    pub async fn ask(
        &self,
        source: &IncludeSource,
        target: &[u8],
        wanted: &Wanted,
    ) -> Option<FetchedFragment> {
        let Some(include) = self.further_in() else {
            self.complain(target, "too many nested or included pages");
            return None;
        };
        if self.include.memory.left() == 0 {
            self.complain(
                target,
                "the memory limit for fragments of the page is reached",
            );
            return None;
        }
        let services = self.services.upgrade()?;
        let _turn = self.side_by_side.acquire().await.ok()?;
        let fragment = FragmentRequest {
            include: IncludeContext {
                hints: IncludeHints::of(wanted),
                ..include
            },
            answered: FragmentAnswer::ByAnyone,
        };
        match fragment::fetch(&services, source, target, fragment).await {
            Ok(fetched) => Some(fetched),
            Err(Status::CONTENT_TOO_LARGE) => {
                self.complain(
                    target,
                    "too large for one fragment, or for all fragments of the page together",
                );
                None
            }
            Err(Status(status)) => {
                self.complain(target, &format!("the response is {status}"));
                None
            }
        }
    }

    /// The context for one more fetch; `None` if the limit is reached.
    pub fn further_in(&self) -> Option<IncludeContext> {
        let left = self.include.left.get();
        if self.include.depth >= DEPTH_MAX || left == 0 {
            return None;
        }
        self.include.left.set(left - 1);
        Some(IncludeContext {
            depth: self.include.depth + 1,
            ..self.include.clone()
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
}

pub fn is_to_be_kept(inline: &Inline) -> bool {
    inline.cache_control.is_some() || inline.is_fetchable
}

pub fn meant(source: &IncludeSource, inline: &Inline, page: &Chunk) -> Option<(Vec<u8>, Chunk)> {
    Some((
        source.target(&inline.address)?,
        page.slice(inline.content.clone()),
    ))
}
