//! Requests made by the cache itself, to have pages before clients ask for them.
//!
//! Called by: warm-up, refetching, and `peers`, for other servers of a cluster. Such a request is an exchange like any other, through all
//! phases, and carries a [`BackgroundFetch`] in which the look-up and the store filter record the
//! outcome.
//! Caveat: the request has only those fields of a client's request that select another page, and
//! nothing personal, so that nothing personal can be stored for all.
//! Out of scope: which pages are fetched, and when (`warm`, `refetch`).

use crate::{
    esi::bodies, page::Page, record::VaryRecord, refusal::Refusal, replay_request::ReplayRequest,
    search_variance::SearchRule,
};
use saker_content::coding;
use saker_http::{RequestHead, Version};
use saker_pipeline::{
    Body, BodyError, BodyStream, Client, Exchange, NoBody, Response, Services, respond,
};
use saker_rate_limits::Admission;
use std::{cell::RefCell, future::poll_fn, rc::Rc, sync::Arc};

/// Identifies these requests to applications.
pub const USER_AGENT: &str = "Saker-cache/1.0";

/// The outcome of a background fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchOutcome {
    /// The page is now stored.
    Stored,
    /// The page was already in the cache.
    AlreadyCached,
    NotStored(Refusal),
    /// The request failed, with the reason.
    Failed(String),
}

/// A page that was found, and what led to it.
pub struct FoundPage {
    pub page: Rc<Page>,
    pub vary_record: Option<Rc<VaryRecord>>,
    pub search_rule: Option<Rc<SearchRule>>,
}

/// Carried by the exchange of such a request; receives the outcome.
#[derive(Clone, Default)]
pub struct BackgroundFetch {
    outcome: Rc<RefCell<Option<FetchOutcome>>>,
    /// Receives the page, for another server of the cluster.
    found: Option<Rc<RefCell<Option<FoundPage>>>>,
}

impl BackgroundFetch {
    /// For another server of the cluster, which gets the page itself.
    pub fn for_peer() -> BackgroundFetch {
        BackgroundFetch {
            found: Some(Rc::default()),
            ..BackgroundFetch::default()
        }
    }

    pub fn is_for_peer(&self) -> bool {
        self.found.is_some()
    }

    pub fn note(&self, outcome: FetchOutcome) {
        *self.outcome.borrow_mut() = Some(outcome);
    }

    /// Hands the page out, where it is wanted.
    pub fn note_page(&self, found: impl FnOnce() -> FoundPage) {
        if let Some(wanted) = &self.found {
            *wanted.borrow_mut() = Some(found());
        }
    }

    pub fn take_page(&self) -> Option<FoundPage> {
        self.found.as_ref()?.take()
    }
}

/// The head of a request for a page.
pub fn head(authority: &str, target: &str, more: &[(String, String)]) -> RequestHead {
    let has = |name: &str| {
        more.iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name))
    };
    let mut fields: Vec<(&str, &str)> = Vec::new();
    fields.extend((!has("Host")).then_some(("Host", authority)));
    fields.extend((!has("User-Agent")).then_some(("User-Agent", USER_AGENT)));
    fields.extend((!has("Accept")).then_some(("Accept", "*/*")));
    fields.extend(
        more.iter()
            .map(|(name, value)| (name.as_str(), value.as_str())),
    );
    RequestHead::build("GET", target, Version::Http11, &fields)
}

/// Sends the request, reads the response to its end, and returns the outcome.
pub async fn run(services: &Services, client: Rc<Client>, head: RequestHead) -> FetchOutcome {
    run_as(services, client, head, &BackgroundFetch::default()).await
}

/// The same, for this background fetch.
pub async fn run_as(
    services: &Services,
    client: Rc<Client>,
    head: RequestHead,
    background_fetch: &BackgroundFetch,
) -> FetchOutcome {
    let mut exchange = exchange(services, client, head);
    exchange.extensions.insert(background_fetch.clone());
    let response = respond::answer(&mut exchange, services).await;
    let (status, location) = (response.status, location(&response));
    if let Body::Stream(stream) = response.body
        && let Err(error) = drain(stream).await
    {
        return FetchOutcome::Failed(format!("the response was incomplete: {error:?}"));
    }
    let noted = background_fetch.outcome.borrow_mut().take();
    match noted {
        _ if status.is_error() => FetchOutcome::Failed(format!("{} {}", status.0, status.reason())),
        Some(FetchOutcome::NotStored(why)) => match location {
            Some(to) => FetchOutcome::NotStored(Refusal::new(
                "redirect",
                format!("{} redirects to {to}; {}", status.0, why.sentence),
            )),
            None => FetchOutcome::NotStored(why),
        },
        Some(outcome) => outcome,
        None => FetchOutcome::NotStored(Refusal::new(
            "not-cached",
            "not handled by the cache: a file, a fixed response, or the cache is off",
        )),
    }
}

/// Returns the whole content of the response.
/// # Errors
/// The status, or the reason why the content can't be read.
pub async fn fetch(
    services: &Services,
    client: Rc<Client>,
    head: RequestHead,
    bytes_max: usize,
) -> Result<Vec<u8>, String> {
    let mut exchange = exchange(services, client, head);
    exchange.extensions.insert(BackgroundFetch::default());
    let response = respond::answer(&mut exchange, services).await;
    if !response.status.is_success() {
        let led = location(&response)
            .map(|to| format!(", to {to}"))
            .unwrap_or_default();
        return Err(format!(
            "{} {}{led}",
            response.status.0,
            response.status.reason()
        ));
    }
    let coding = response
        .fields()
        .first("Content-Encoding")
        .map(<[u8]>::to_vec);
    let bytes = bodies::collect_all(response.body, bytes_max)
        .await
        .ok_or("the response is too large or incomplete")?;
    match coding {
        Some(coding) => coding::decode(&coding, &bytes)
            .ok_or_else(|| "its content coding can't be decoded".into()),
        None => Ok(bytes),
    }
}

fn exchange(services: &Services, client: Rc<Client>, head: RequestHead) -> Exchange {
    let now = saker_net::clock::realtime_s();
    let mut exchange = Exchange::new(
        client,
        head,
        Box::new(NoBody),
        Arc::clone(&services.generation.no_site),
        now,
    );
    exchange.limits.admission = Some(Admission::Pass);
    exchange
}

fn location(response: &Response) -> Option<String> {
    let to = response
        .fields()
        .first("Location")
        .filter(|_| matches!(response.status.0, 300..400))?;
    Some(String::from_utf8_lossy(to).into_owned())
}

async fn drain(mut stream: Box<dyn BodyStream>) -> Result<(), BodyError> {
    while let Some(chunk) = poll_fn(|cx| stream.poll_chunk(cx)).await {
        chunk?;
    }
    Ok(())
}

/// Fetches a page again.
pub async fn replay(services: &Services, replay: &ReplayRequest) -> FetchOutcome {
    run(
        services,
        Rc::new(replay.endpoint.client()),
        replay.head.clone(),
    )
    .await
}
