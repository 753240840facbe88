//! Requests of the cache's own account: for pages that somebody wants to be there before they are
//! asked for.
//!
//! Place in the walk: an exchange like any other, through all phases, that brings an [`Errand`]
//! along; look-up and keeping note in it what became of the page. Nobody sees the response.
//! Difficulty: what it may ask with. It has of a visitor's request what makes another page, and
//! nothing of the visitor, so that nothing that is his can be left to others.

use super::{decide::Refusal, key, visit::Visit};
use saker_cache_rules::lscache::vary::{VARY_COOKIE, VaryRules};
use saker_config::model::Address;
use saker_http::{HeadView, KnownField, RequestHead, Version};
use saker_pipeline::{
    Body, BodyError, BodyStream, Client, Exchange, NoBody, Response, Services, respond,
};
use saker_rate_limits::Admission;
use std::{cell::RefCell, future::poll_fn, net::SocketAddr, rc::Rc, sync::Arc};

/// Who asks, where applications want to know.
pub const USER_AGENT: &str = "Saker-cache/1.0";

/// What became of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is there now.
    Kept,
    /// It was.
    There,
    NotKept(Refusal),
    /// Nobody answered as was hoped: why.
    Failed(String),
}

/// What the exchange of such a request brings along.
#[derive(Clone, Debug, Default)]
pub struct Errand(Rc<RefCell<Option<Outcome>>>);

impl Errand {
    pub fn note(&self, outcome: Outcome) {
        *self.0.borrow_mut() = Some(outcome);
    }
}

/// As if a client had come that way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// As sites know the listener.
    pub listener: Arc<Address>,
    pub local: SocketAddr,
    pub tls: bool,
    /// Whether a proxy before us ends TLS.
    pub secure: bool,
}

impl Door {
    pub fn client(&self) -> Client {
        let ours = match self.local {
            SocketAddr::V4(_) => SocketAddr::from(([127, 0, 0, 1], 0)),
            SocketAddr::V6(_) => SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0)),
        };
        let mut client = Client::new(ours, self.local, Arc::clone(&self.listener), self.secure);
        client.tls = self.tls;
        client
    }
}

/// How to ask for a page again: as somebody did, without what is his.
#[derive(Clone, Debug)]
pub struct Recipe {
    door: Door,
    head: RequestHead,
    /// Of its site: so many are fetched again.
    pub refetched_max: usize,
}

impl Recipe {
    /// `None`: its page is nobody else's, or nobody wants to have it again.
    pub fn of(
        visit: &Visit,
        exchange: &Exchange,
        fields: &[String],
        rules: Option<&VaryRules>,
    ) -> Option<Recipe> {
        let refetched_max = visit.terms.given.refetched_max;
        if refetched_max == 0
            || visit.inside.is_some()
            || fields
                .iter()
                .any(|name| matches!(name.as_str(), "cookie" | "authorization"))
        {
            return None;
        }
        let view = exchange.head.view();
        let is_kept = |name: &[u8]| {
            let is_named = fields
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
            let is_usual = ["Host", "User-Agent", "Accept"]
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
            is_named || is_usual || key::is_override(name)
        };
        let names = visit
            .said
            .vary
            .cookies
            .iter()
            .chain(rules.into_iter().flat_map(|rules| &rules.cookies));
        let names: Vec<&[u8]> = names.map(Vec::as_slice).collect();
        let cookie = vary_cookies(view, &names);
        let cookie = (!cookie.is_empty()).then_some((&b"Cookie"[..], cookie.as_slice()));
        let target = String::from_utf8_lossy(view.target()).into_owned();
        let head = RequestHead::build("GET", &target, view.version(), &[]);
        let head = head.with_fields(
            view.fields()
                .filter(|(name, _)| is_kept(name))
                .chain(cookie),
        );
        let client = &exchange.client;
        let door = Door {
            listener: Arc::clone(&client.listener),
            local: client.local,
            tls: client.tls,
            secure: client.secure,
        };
        Some(Recipe {
            door,
            head,
            refetched_max,
        })
    }

    pub fn memory_bytes(&self) -> usize {
        size_of::<Recipe>()
            + self.head.view().target().len()
            + self
                .head
                .view()
                .fields()
                .map(|(name, value)| name.len() + value.len() + 16)
                .sum::<usize>()
    }

    pub async fn follow(&self, services: &Services) -> Outcome {
        run(services, Rc::new(self.door.client()), self.head.clone()).await
    }
}

/// Those that make another page.
fn vary_cookies(view: HeadView<'_>, names: &[&[u8]]) -> Vec<u8> {
    let pairs = view
        .lines(KnownField::Cookie)
        .flat_map(|line| line.split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii);
    let is_kept = |pair: &&[u8]| {
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
        name.starts_with(VARY_COOKIE) || names.contains(&name)
    };
    pairs.filter(is_kept).collect::<Vec<_>>().join(&b"; "[..])
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
pub async fn run(services: &Services, client: Rc<Client>, head: RequestHead) -> Outcome {
    let errand = Errand::default();
    let mut exchange = exchange(services, client, head);
    exchange.extensions.insert(errand.clone());
    let response = respond::answer(&mut exchange, services).await;
    let (status, location) = (response.status, location(&response));
    if let Body::Stream(stream) = response.body
        && let Err(error) = drain(stream).await
    {
        return Outcome::Failed(format!("the answer broke off: {error:?}"));
    }
    let noted = errand.0.borrow_mut().take();
    match noted {
        _ if status.is_error() => Outcome::Failed(format!("{} {}", status.0, status.reason())),
        Some(Outcome::NotKept(why)) => match location {
            Some(to) => Outcome::NotKept(Refusal::new(
                "redirect",
                format!("{} leads to {to}; {}", status.0, why.sentence),
            )),
            None => Outcome::NotKept(why),
        },
        Some(outcome) => outcome,
        None => Outcome::NotKept(Refusal::new(
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
    exchange.extensions.insert(Errand::default());
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
    let bytes = super::esi::collect(response.body, bytes_max)
        .await
        .ok_or("it is too large, or broke off")?;
    match coding {
        Some(coding) => {
            crate::coding::decode(&coding, &bytes).ok_or_else(|| "its coding can't be read".into())
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
