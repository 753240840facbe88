//! Requests of the cache's own account: for pages that somebody wants to be there before they are
//! asked for.
//!
//! KeyBase in the walk: an exchange like any other, through all phases, that brings an [`BackgroundFetch`]
//! along; look-up and keeping note in it what became of the page. Nobody sees the response.
//! Difficulty: what it may ask with. It has of a visitor's request what makes another page, and
//! nothing of the visitor, so that nothing that is his can be left to others.

use crate::{esi::bodies, refusal::Refusal, replay_request::ReplayRequest};
use saker_content::coding;
use saker_http::{RequestHead, Version};
use saker_pipeline::{
    Body, BodyError, BodyStream, Client, Exchange, NoBody, Response, Services, respond,
    throttle::Admission,
};
use std::{cell::RefCell, future::poll_fn, rc::Rc, sync::Arc};

/// Who asks, where applications want to know.
pub const USER_AGENT: &str = "Saker-cache/1.0";

/// What became of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchOutcome {
    /// It is there now.
    Stored,
    /// It was.
    AlreadyCached,
    NotStored(Refusal),
    /// Nobody answered as was hoped: why.
    Failed(String),
}

/// What the exchange of such a request brings along.
#[derive(Clone, Debug, Default)]
pub struct BackgroundFetch(Rc<RefCell<Option<FetchOutcome>>>);

impl BackgroundFetch {
    pub fn note(&self, outcome: FetchOutcome) {
        *self.0.borrow_mut() = Some(outcome);
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

/// Asks, hears the answer to its end, and says what became of the page.
pub async fn run(services: &Services, client: Rc<Client>, head: RequestHead) -> FetchOutcome {
    let background_fetch = BackgroundFetch::default();
    let mut exchange = exchange(services, client, head);
    exchange.page_cache = Some(Box::new(background_fetch.clone()));
    let response = respond::answer(&mut exchange, services).await;
    let (status, location) = (response.status, location(&response));
    if let Body::Stream(stream) = response.body
        && let Err(error) = drain(stream).await
    {
        return FetchOutcome::Failed(format!("the answer broke off: {error:?}"));
    }
    let noted = background_fetch.0.borrow_mut().take();
    match noted {
        _ if status.is_error() => FetchOutcome::Failed(format!("{} {}", status.0, status.reason())),
        Some(FetchOutcome::NotStored(why)) => match location {
            Some(to) => FetchOutcome::NotStored(Refusal::new(
                "redirect",
                format!("{} leads to {to}; {}", status.0, why.sentence),
            )),
            None => FetchOutcome::NotStored(why),
        },
        Some(outcome) => outcome,
        None => FetchOutcome::NotStored(Refusal::new(
            "not-cached",
            "it is no page of the cache: a file, a fixed answer, or the cache is off there",
        )),
    }
}

/// All of a response to such a request, for those who read it.
pub async fn fetch(
    services: &Services,
    client: Rc<Client>,
    head: RequestHead,
    bytes_max: usize,
) -> Result<Vec<u8>, String> {
    let mut exchange = exchange(services, client, head);
    exchange.page_cache = Some(Box::new(BackgroundFetch::default()));
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
        .ok_or("it is too large, or broke off")?;
    match coding {
        Some(coding) => {
            coding::decode(&coding, &bytes).ok_or_else(|| "its coding can't be read".into())
        }
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
    exchange.admission = Some(Admission::Pass);
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

/// x
pub async fn replay(services: &Services, replay: &ReplayRequest) -> FetchOutcome {
    run(
        services,
        Rc::new(replay.endpoint.client()),
        replay.head.clone(),
    )
    .await
}
