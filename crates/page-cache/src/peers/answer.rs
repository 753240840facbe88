//! Answers the other servers of a cluster that ask for pages.
//!
//! Called by: the pipeline, first of the handlers, for requests to the site that is for them alone.
//! A question runs as a request of the server's own, with the client that it names, through all
//! phases of the site that it is for; so its page is looked up or made, and stored, as for a client
//! here.
//! Caveat: only what is in the cache afterwards, and public, is handed out; never the response
//! itself. Such a request asks no other server.
//! Out of scope: TLS, which has demanded a certificate of the cluster's authorities.

use super::{
    PATH,
    wire::{self, ASK_BYTES_MAX, Ask, NoPage},
};
use crate::{
    background_fetch::{self, BackgroundFetch, FetchOutcome, FoundPage},
    cache::PageCache,
    clock::now_ms,
    peer_access::PeerAccess,
    refusal::{NO_ROOM, SUPERSEDED},
};
use saker_config::{
    Model,
    model::{Address, Listener},
};
use saker_content::Content;
use saker_http::{Method, RequestHead, Status, Version};
use saker_net::jobs::{self, JobKind};
use saker_pipeline::{
    Body, Chunk, Client, Exchange, Handled, Handler, LocalFuture, NoBody, Response,
};
use saker_telemetry::{Metric, error_log, message};
use std::{
    future::poll_fn,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

/// Time in which purges may arrive that the other server has already.
const BEHIND_MAX: Duration = Duration::from_millis(300);

/// Looks after a page was stored. It may be purged, or evicted, in between.
const LOOKS_MAX: usize = 2;

/// Tells whether a client has shown a certificate for a server of the cluster with that name.
pub type IsPeer = fn(&Client, &str) -> bool;

/// Hands out pages to the other servers of the cluster.
pub struct PeerHandler {
    cache: Rc<PageCache>,
    is_peer: IsPeer,
}

impl PeerHandler {
    /// `None`: pages are not shared.
    pub fn new(cache: &Rc<PageCache>, is_peer: IsPeer) -> Option<PeerHandler> {
        cache.peers.as_ref()?;
        Some(PeerHandler {
            cache: Rc::clone(cache),
            is_peer,
        })
    }
}

impl Handler for PeerHandler {
    fn name(&self) -> &'static str {
        "peers"
    }

    fn handle<'a>(&'a self, exchange: &'a mut Exchange) -> LocalFuture<'a, Handled> {
        match (&self.cache.peers, exchange.routing.site.is_for_peers) {
            (Some(access), true) => Box::pin(async move {
                let answer = answer(&self.cache, access, self.is_peer, exchange).await;
                Handled::Answered(answer.unwrap_or_else(Response::new))
            }),
            _ => Handled::Declined.ready(),
        }
    }
}

async fn answer(
    cache: &Rc<PageCache>,
    access: &PeerAccess,
    is_peer: IsPeer,
    exchange: &mut Exchange,
) -> Result<Response, Status> {
    let name = &access.pages.settings.name;
    if !is_peer(&exchange.client, name) {
        let address = exchange.client.address;
        error_log::log(
            &message::CLUSTER_PEER_REFUSED,
            format_args!("{address}: its certificate is not for {name}"),
        );
        return Err(Status::FORBIDDEN);
    }
    let view = exchange.head.view();
    if view.target() != PATH.as_bytes() {
        return Err(Status::NOT_FOUND);
    }
    if view.method() != Method::Post {
        return Err(Status::METHOD_NOT_ALLOWED);
    }
    let question = read(exchange).await.ok_or(Status::CONTENT_TOO_LARGE)?;
    let ask = Ask::decode(&question).ok_or(Status::BAD_REQUEST)?;
    let content = match page(cache, access, &ask).await {
        Ok(content) => {
            cache.count(Metric::ClusterPagesSent);
            content
        }
        Err(why) => wire::encode_none(why),
    };
    let mut response = Response::new(Status::OK);
    let fields = response.fields_mut();
    fields.set("Content-Type", b"application/octet-stream".to_vec());
    response.body = Body::Memory(Chunk::from(content));
    Ok(response)
}

/// The content of the request; `None`: it is too long, or has not come.
async fn read(exchange: &mut Exchange) -> Option<Vec<u8>> {
    let mut body = std::mem::replace(&mut exchange.body, Box::new(NoBody));
    let mut content = Vec::new();
    while let Some(chunk) = poll_fn(|cx| body.poll_chunk(cx)).await {
        content.extend_from_slice(chunk.ok()?.bytes());
        if content.len() > ASK_BYTES_MAX {
            exchange.body = body;
            return None;
        }
    }
    Some(content)
}

/// The page, looked up or made.
async fn page(cache: &PageCache, access: &PeerAccess, ask: &Ask) -> Result<Vec<u8>, NoPage> {
    if !access.pages.table.wait_for(&ask.required, BEHIND_MAX).await {
        return Err(NoPage::Now);
    }
    let services = cache.services.upgrade().ok_or(NoPage::Now)?;
    let client = client(ask, &services.generation.model).ok_or(NoPage::Ever)?;
    let target = std::str::from_utf8(&ask.target).map_err(|_| NoPage::Ever)?;
    let head = RequestHead::build("GET", target, Version::Http11, &[]);
    let fields = ask.fields.iter();
    let head = head.with_fields(fields.map(|(name, value)| (&**name, &**value)));
    for _ in 0..LOOKS_MAX {
        let fetch = BackgroundFetch::for_peer();
        let client = Rc::new(client.clone());
        let ran = background_fetch::run_as(&services, client, head.clone(), &fetch);
        match Box::pin(ran).await {
            FetchOutcome::AlreadyCached => {
                let found = fetch.take_page().ok_or(NoPage::Now)?;
                return encode(&found, access.pages.settings.page_bytes_max).await;
            }
            // The next look finds it.
            FetchOutcome::Stored => {}
            FetchOutcome::NotStored(why) if why.word == NO_ROOM || why.word == SUPERSEDED => {}
            FetchOutcome::NotStored(_) => return Err(NoPage::Ever),
            FetchOutcome::Failed(_) => return Err(NoPage::Now),
        }
    }
    Err(NoPage::Now)
}

async fn encode(found: &FoundPage, bytes_max: u64) -> Result<Vec<u8>, NoPage> {
    let page = &found.page;
    let content = &page.identity.content;
    if page.is_private || content.length() > bytes_max {
        return Err(NoPage::Ever);
    }
    let parts = (found.vary_record.as_deref(), found.search_rule.as_deref());
    if let Content::Memory(chunk) = content {
        return Ok(wire::encode_page(page, parts, now_ms(), chunk.bytes()));
    }
    let reader = content.reader().ok_or(NoPage::Now)?;
    let read = jobs::run(JobKind::PageCache, None, move |_| reader()).await;
    let bytes = read.ok().flatten().ok_or(NoPage::Now)?;
    Ok(wire::encode_page(page, parts, now_ms(), &bytes))
}

/// The client of the other server, as if it had come to this one. `None`: no listener here has
/// that port.
fn client(ask: &Ask, model: &Model) -> Option<Client> {
    let [listener_port, local_port] = ask.ports;
    let own = model.cluster.peers.listen;
    let is_alike = |listener: &&Listener| match &listener.address {
        Address::Tcp(address) => {
            address.port() == listener_port
                && Some(*address) != own
                && listener.stream.is_none()
                && (listener.tls.is_some() || !ask.tls)
        }
        Address::Unix(_) => false,
    };
    let listener = model.listeners.iter().find(is_alike)?;
    let Address::Tcp(address) = &listener.address else {
        return None;
    };
    let ip = match address.ip() {
        ip if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        ip => ip,
    };
    let local = SocketAddr::new(ip, local_port);
    let listener = Arc::new(listener.address.clone());
    let mut client = Client::new(ask.address, local, listener, ask.secure);
    (client.tls, client.forwarding) = (ask.tls, ask.forwarding);
    Some(client)
}
