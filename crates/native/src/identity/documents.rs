//! Documents of issuers and providers, fetched by a worker and kept: key sets and metadata.
//!
//! Called by: `bearer`, `flow`, `renewal`.
//! Caveat: one request fetches while others wait for it. What was fetched is kept when a later fetch
//! fails, and a failure is not repeated at once, so that a dead provider costs nothing.
//! Out of scope: what the documents mean (`saker_identity`).

use saker_config::{fetched_from, model::Upstream};
use saker_identity::{
    KeySet,
    provider::{Provider, discovery_url},
};
use saker_net::clock::monotonic_ms;
use saker_pipeline::{Exchange, FetchRequest, FetchedDocument, Fetcher};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    path::Path,
    rc::Rc,
    sync::Arc,
};
use tokio::sync::Mutex;

/// Longest document.
const DOCUMENT_BYTES_MAX: usize = 256 << 10;
/// Time until a failed fetch is repeated.
const RETRY_MS: u64 = 5_000;
/// Least time between fetches because of unknown keys.
const UNKNOWN_KEY_MS: u64 = 30_000;
/// Time that metadata of a provider is used.
const METADATA_MS: u64 = 3_600_000;

/// Documents that a worker has fetched, by URL.
pub struct Documents {
    fetcher: Option<Rc<dyn Fetcher>>,
    keys: RefCell<HashMap<String, Rc<Kept<KeySet>>>>,
    providers: RefCell<HashMap<String, Rc<Kept<Provider>>>>,
    upstreams: RefCell<HashMap<String, (Arc<Upstream>, String)>>,
}

/// Reads a document's bytes.
type Parse<T> = dyn Fn(&[u8]) -> Result<T, String>;

/// A document of one URL.
pub struct Kept<T> {
    fetcher: Rc<dyn Fetcher>,
    from: Arc<Upstream>,
    target: String,
    parse: Box<Parse<T>>,
    value: RefCell<Option<Rc<T>>>,
    fetched_ms: Cell<u64>,
    /// The last attempt; 0: none.
    tried_ms: Cell<u64>,
    fetching: Mutex<()>,
}

impl<T> Kept<T> {
    /// The document, fetched if it is older than `age_ms_max`. `None`: there is none.
    pub async fn current(
        &self,
        exchange: &Exchange,
        age_ms_max: u64,
        log: &dyn Fn(&str),
    ) -> Option<Rc<T>> {
        let is_due = || {
            let is_old = monotonic_ms().saturating_sub(self.fetched_ms.get()) >= age_ms_max;
            (self.value.borrow().is_none() || is_old) && self.may_try(RETRY_MS)
        };
        if is_due() {
            let fetching = self.fetch(exchange);
            let _turn = self.fetching.lock().await;
            if is_due() {
                self.take(fetching.await, log);
            }
        }
        self.value.borrow().clone()
    }

    /// The document, fetched again because `seen` lacks something. `None`: there is no other.
    pub async fn newer_than(
        &self,
        exchange: &Exchange,
        seen: &Rc<T>,
        log: &dyn Fn(&str),
    ) -> Option<Rc<T>> {
        let is_same = || {
            self.value
                .borrow()
                .as_ref()
                .is_some_and(|now| Rc::ptr_eq(now, seen))
        };
        if is_same() && self.may_try(UNKNOWN_KEY_MS) {
            let fetching = self.fetch(exchange);
            let _turn = self.fetching.lock().await;
            if is_same() && self.may_try(UNKNOWN_KEY_MS) {
                self.take(fetching.await, log);
            }
        }
        self.value
            .borrow()
            .clone()
            .filter(|now| !Rc::ptr_eq(now, seen))
    }

    fn may_try(&self, pause_ms: u64) -> bool {
        let tried_ms = self.tried_ms.get();
        tried_ms == 0 || monotonic_ms().saturating_sub(tried_ms) >= pause_ms
    }

    fn fetch(
        &self,
        exchange: &Exchange,
    ) -> impl Future<Output = Result<FetchedDocument, String>> + use<T> {
        let request = FetchRequest {
            target: self.target.clone(),
            bytes_max: DOCUMENT_BYTES_MAX,
            ..FetchRequest::default()
        };
        self.fetcher.fetch(exchange, &self.from, request)
    }

    fn take(&self, fetched: Result<FetchedDocument, String>, log: &dyn Fn(&str)) {
        let now_ms = monotonic_ms().max(1);
        self.tried_ms.set(now_ms);
        let parsed = fetched.and_then(|document| match document.status {
            200 => (self.parse)(&document.content),
            status => Err(format!("it answers {status}")),
        });
        match parsed {
            Ok(value) => {
                self.fetched_ms.set(now_ms);
                *self.value.borrow_mut() = Some(Rc::new(value));
            }
            Err(why) => log(&why),
        }
    }
}

impl Documents {
    pub fn new(fetcher: Option<Rc<dyn Fetcher>>) -> Documents {
        Documents {
            fetcher,
            keys: RefCell::default(),
            providers: RefCell::default(),
            upstreams: RefCell::default(),
        }
    }

    /// The key set at a URL of the configuration or of a provider's metadata.
    pub fn keys(&self, url: &str, authority: Option<&Path>) -> Option<Rc<Kept<KeySet>>> {
        self.kept(&self.keys, url, authority, KeySet::public)
    }

    /// The metadata of a provider.
    pub fn provider(&self, issuer: &str, authority: Option<&Path>) -> Option<Rc<Kept<Provider>>> {
        let wanted = issuer.to_owned();
        self.kept(
            &self.providers,
            &discovery_url(issuer),
            authority,
            move |content| Provider::parse(content, &wanted),
        )
    }

    /// The metadata of a provider, if it is known or can be fetched now.
    pub async fn metadata(
        &self,
        exchange: &Exchange,
        issuer: &str,
        authority: Option<&Path>,
        log: &dyn Fn(&str),
    ) -> Option<Rc<Provider>> {
        let kept = self.provider(issuer, authority)?;
        kept.current(exchange, METADATA_MS, log).await
    }

    fn kept<T>(
        &self,
        all: &RefCell<HashMap<String, Rc<Kept<T>>>>,
        url: &str,
        authority: Option<&Path>,
        parse: impl Fn(&[u8]) -> Result<T, String> + 'static,
    ) -> Option<Rc<Kept<T>>> {
        let name = name(url, authority);
        if let Some(known) = all.borrow().get(&name) {
            return Some(Rc::clone(known));
        }
        let (from, target) = self.source(url, authority)?;
        let made = Rc::new(Kept {
            fetcher: Rc::clone(self.fetcher.as_ref()?),
            from,
            target,
            parse: Box::new(parse),
            value: RefCell::default(),
            fetched_ms: Cell::default(),
            tried_ms: Cell::default(),
            fetching: Mutex::default(),
        });
        all.borrow_mut().insert(name, Rc::clone(&made));
        Some(made)
    }

    fn source(&self, url: &str, authority: Option<&Path>) -> Option<(Arc<Upstream>, String)> {
        let mut all = self.upstreams.borrow_mut();
        let name = name(url, authority);
        if let Some(known) = all.get(&name) {
            return Some(known.clone());
        }
        let made = fetched_from(url, authority)?;
        all.insert(name, made.clone());
        Some(made)
    }

    /// Sends a request to a URL of a provider's metadata.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn send(
        &self,
        exchange: &Exchange,
        (url, authority): (&str, Option<&Path>),
        fields: Vec<(&'static str, String)>,
        form: Option<String>,
    ) -> Result<FetchedDocument, String> {
        let (from, target) = self.source(url, authority).ok_or("not a URL of a server")?;
        let fetcher = self.fetcher.as_ref().ok_or("nothing can be fetched here")?;
        let request = FetchRequest {
            target,
            fields,
            content: form.map(|form| ("application/x-www-form-urlencoded", form.into_bytes())),
            bytes_max: DOCUMENT_BYTES_MAX,
        };
        fetcher.fetch(exchange, &from, request).await
    }
}

fn name(url: &str, authority: Option<&Path>) -> String {
    format!("{url} {}", authority.unwrap_or(Path::new("")).display())
}
