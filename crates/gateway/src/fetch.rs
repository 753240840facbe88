//! Fetches documents that rules need, over the connections of the gateway.
//!
//! Called by: rules, through [`Fetcher`]: keys of token issuers, answers of identity providers;
//! the page cache, for pages of other servers of a cluster.
//! Caveat: nothing of the client's request is passed on, and no settings of the site apply: the
//! server itself asks. Time and length are limited; what is longer is an error, never a part.
//! Out of scope: caching, redirects, and URLs (`saker_config::fetched_from`).

use crate::{exchange_context::UpstreamEvent, gateway::Gateway};
use saker_config::model::{Settings, Upstream};
use saker_http::{RequestHead, Version};
use saker_pipeline::{
    BodyError, CallNames, Chunk, Exchange, FetchRequest, FetchedDocument, Fetcher, LocalFuture,
    ProxyOptions, RequestBody, Upgrades, UpstreamRequest, UpstreamTarget,
};
use saker_rate_limits::Admission;
use std::{
    future::poll_fn,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// Time for one document, connecting included.
const FETCH_TIME_MAX: Duration = Duration::from_secs(10);

/// A worker's gateway as the fetcher of documents.
pub struct DocumentFetcher(pub Rc<Gateway>);

impl Fetcher for DocumentFetcher {
    fn fetch(
        &self,
        exchange: &Exchange,
        from: &Arc<Upstream>,
        request: FetchRequest,
    ) -> LocalFuture<'static, Result<FetchedDocument, String>> {
        let (gateway, from) = (Rc::clone(&self.0), Arc::clone(from));
        let inner = inner(exchange, &request);
        Box::pin(async move {
            let fetched = fetch(&gateway, inner, &from, request);
            match tokio::time::timeout(FETCH_TIME_MAX, fetched).await {
                Ok(fetched) => fetched,
                Err(_) => Err(format!(
                    "{}: no answer within {} s",
                    from.name,
                    FETCH_TIME_MAX.as_secs()
                )),
            }
        })
    }
}

/// The question, as a request of the server's own.
fn inner(exchange: &Exchange, request: &FetchRequest) -> Exchange {
    let mut fields: Vec<(&str, &str)> = vec![("Accept", "application/json")];
    let own = request.fields.iter();
    fields.extend(own.map(|(name, value)| (*name, value.as_str())));
    let described = request.content.as_ref();
    let described = described.map(|(kind, content)| (*kind, content.len().to_string()));
    let method = match &described {
        None => "GET",
        Some((kind, length)) => {
            fields.push(("Content-Type", kind));
            fields.push(("Content-Length", length));
            "POST"
        }
    };
    let head = RequestHead::build(method, &request.target, Version::Http11, &fields);
    let content = request.content.as_ref();
    let content = content.map(|(_, content)| Chunk::from(content.clone()));
    let mut inner = Exchange::new(
        Rc::clone(&exchange.client),
        head,
        Box::new(OwnContent(content)),
        Arc::clone(&exchange.routing.site),
        exchange.now,
    );
    inner.routing.site_index = exchange.routing.site_index;
    inner.routing.settings = Arc::new(Settings::default());
    inner.log.id = Rc::clone(&exchange.log.id);
    inner.limits.admission = Some(Admission::Pass);
    inner
}

async fn fetch(
    gateway: &Gateway,
    mut inner: Exchange,
    from: &Arc<Upstream>,
    request: FetchRequest,
) -> Result<FetchedDocument, String> {
    let manner = ProxyOptions {
        adds_forwarded: false,
        follows_locations: false,
        upgrades: Upgrades::None,
        ..ProxyOptions::default()
    };
    let call = UpstreamRequest {
        to: UpstreamTarget::Upstream(Arc::clone(from)),
        target: request.target.into_bytes(),
        script: None,
        manner: Arc::new(manner),
        names: CallNames::default(),
    };
    let group = gateway.group(from);
    let mut heard = gateway
        .ask(&mut inner, &call, &group)
        .await
        .map_err(|(failure, name)| format!("{name}: {failure}"))?;
    let (status, mut content) = (heard.head.status.0, Vec::new());
    loop {
        match poll_fn(|cx| heard.upstream.poll_event(cx)).await {
            Ok(UpstreamEvent::Content(chunk)) => {
                content.extend_from_slice(chunk.bytes());
                if content.len() > request.bytes_max {
                    return Err(format!(
                        "{}: the answer is longer than {} bytes",
                        from.name, request.bytes_max
                    ));
                }
            }
            Ok(UpstreamEvent::Trailers(_)) => {}
            Ok(UpstreamEvent::End) => return Ok(FetchedDocument { status, content }),
            Ok(UpstreamEvent::Head(_) | UpstreamEvent::Switched(_)) => {
                return Err(format!("{}: not an answer", from.name));
            }
            Err(failure) => return Err(format!("{}: {failure}", from.name)),
        }
    }
}

/// Content of a request of the server's own.
struct OwnContent(Option<Chunk>);

impl RequestBody for OwnContent {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(self.0.take().map(Ok))
    }

    fn length(&self) -> Option<u64> {
        Some(self.0.as_ref().map_or(0, |content| content.len() as u64))
    }

    fn is_end(&self) -> bool {
        self.0.is_none()
    }
}
