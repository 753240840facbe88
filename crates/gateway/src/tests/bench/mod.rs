//! A gateway on a runtime of its own, and backends that do what a test tells them to, each
//! connection in a thread.

use saker_config::model::{
    Address, Backend, BackendAddress, Member, Origin, Protocol, Site, Tuning, Upstream,
};
use saker_files::BufferFiles;
use saker_gateway::Gateway;
use saker_http::{RequestHead, Version};
use saker_net::{Deadlines, clock};
use saker_pipeline::{
    Body, BodyError, CallNames, Chunk, Client, Exchange, Forwarder, Handled, NoBody, ProxyOptions,
    RequestBody, Response, UpstreamRequest, UpstreamTarget,
};
use saker_testkit::{PATIENCE, TempDir};
use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    io::{Read, Write},
    net::SocketAddr,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

/// Runs a test's steps with a gateway whose time limits are looked at every few milliseconds.
pub fn with_gateway<F: Future<Output = ()>>(workers: usize, test: impl FnOnce(Rc<Gateway>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .unwrap();
    runtime.block_on(async {
        let deadlines = Rc::<Deadlines>::default();
        let gateway = Rc::new(Gateway::new(
            Rc::clone(&deadlines),
            workers,
            BufferFiles::new(std::env::temp_dir().into()),
            None,
        ));
        let ticker = tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(5)).await;
                deadlines.fire(clock::monotonic_ms());
            }
        });
        tokio::time::timeout(Duration::from_secs(60), test(gateway))
            .await
            .expect("the test hangs");
        ticker.abort();
    });
}

/// A listening socket served by a script, which is given each connection and its number.
pub struct Script {
    pub path: PathBuf,
    pub accepted: Arc<AtomicUsize>,
    _folder: TempDir,
}

pub fn script(run: impl Fn(UnixStream, usize) + Send + Sync + 'static) -> Script {
    let folder = TempDir::new("gateway").unwrap();
    let path = folder.join("backend.sock");
    let accepted = listen(&path, run);
    Script {
        path,
        accepted,
        _folder: folder,
    }
}

pub fn listen(
    path: &Path,
    run: impl Fn(UnixStream, usize) + Send + Sync + 'static,
) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(path).unwrap();
    let (accepted, run) = (Arc::new(AtomicUsize::new(0)), Arc::new(run));
    let counter = Arc::clone(&accepted);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (number, run) = (counter.fetch_add(1, Ordering::SeqCst), Arc::clone(&run));
            thread::spawn(move || run(stream, number));
        }
    });
    accepted
}

/// Reads a request's head and the content that it announces.
pub fn read_request(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..at]).to_ascii_lowercase();
            let length = head
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.split("\r\n").next()?.parse().ok())
                .unwrap_or(0);
            if bytes.len() >= at + 4 + length {
                return Some(bytes);
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

/// Says nothing more until the other side closes.
pub fn hold(stream: &mut UnixStream) {
    while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
}

/// Waits until a condition holds, and lets other tasks run meanwhile.
pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Answers each request with the same bytes, and keeps the connection.
pub fn always(response: &'static [u8]) -> impl Fn(UnixStream, usize) + Send + Sync + 'static {
    move |mut stream, _| {
        while read_request(&mut stream).is_some() {
            if stream.write_all(response).is_err() {
                return;
            }
        }
    }
}

/// Answers one request with those bytes and closes.
pub fn once(response: &'static [u8]) -> impl Fn(UnixStream, usize) + Send + Sync + 'static {
    move |mut stream, _| {
        if read_request(&mut stream).is_some() {
            let _ = stream.write_all(response);
        }
    }
}

/// For backends that answer, however busy the machine is.
pub fn tuning() -> Tuning {
    Tuning {
        connect_timeout_ms: 20_000,
        timeout_ms: 20_000,
        queue_timeout_ms: 20_000,
        retry_ms: 100,
        ..Tuning::default()
    }
}

/// For backends that don't.
pub fn impatient() -> Tuning {
    Tuning {
        timeout_ms: 1_000,
        ..tuning()
    }
}

pub fn member(path: &Path, tuning: Tuning) -> Member {
    Member::new(
        Backend::new(Protocol::Http1, BackendAddress::Unix(path.to_owned())),
        tuning,
    )
}

pub fn upstream(path: &Path) -> Arc<Upstream> {
    Arc::new(Upstream::new("test", vec![member(path, tuning())]))
}

pub fn call(upstream: &Arc<Upstream>) -> UpstreamRequest {
    UpstreamRequest {
        to: UpstreamTarget::Upstream(Arc::clone(upstream)),
        target: b"/".to_vec(),
        script: None,
        manner: Arc::new(ProxyOptions::default()),
        names: CallNames::default(),
    }
}

pub fn exchange(method: &str, upstream: &Arc<Upstream>) -> Exchange {
    let address = SocketAddr::from(([127, 0, 0, 1], 80));
    let client = Client::new(address, address, Arc::new(Address::Tcp(address)), false);
    let head = RequestHead::build(method, "/", Version::Http11, &[("Host", "test")]);
    let mut exchange = Exchange::new(
        Rc::new(client),
        head,
        Box::new(NoBody),
        Arc::new(Site::new(Origin::built_in())),
        0,
    );
    exchange.upstream.call = Some(Box::new(call(upstream)));
    exchange
}

/// Carries out the upstream request that the exchange has.
pub async fn forward(gateway: &Gateway, exchange: &mut Exchange) -> Handled {
    let request = exchange.upstream.call.take().expect("an upstream request");
    gateway.forward(exchange, request).await
}

pub async fn answer(gateway: &Gateway, exchange: &mut Exchange) -> Response {
    match forward(gateway, exchange).await {
        Handled::Answered(response) => response,
        Handled::Declined | Handled::Forward(_) => panic!("declined"),
        Handled::Restart => panic!("led on to {}", String::from_utf8_lossy(&exchange.path)),
    }
}

pub async fn get(gateway: &Gateway, upstream: &Arc<Upstream>) -> Response {
    answer(gateway, &mut exchange("GET", upstream)).await
}

/// Status and content; an error where the content breaks off.
pub async fn fetch(
    gateway: &Gateway,
    upstream: &Arc<Upstream>,
) -> (u16, Result<Vec<u8>, BodyError>) {
    let mut response = get(gateway, upstream).await;
    (response.status.0, content(&mut response).await)
}

pub async fn content(response: &mut Response) -> Result<Vec<u8>, BodyError> {
    match std::mem::take(&mut response.body) {
        Body::Empty => Ok(Vec::new()),
        Body::Memory(chunk) => Ok(chunk.bytes().to_vec()),
        Body::Stream(mut stream) => {
            let mut all = Vec::new();
            while let Some(chunk) = poll_fn(|cx| stream.poll_chunk(cx)).await {
                all.extend_from_slice(chunk?.bytes());
            }
            Ok(all)
        }
        _ => panic!("a body of another kind"),
    }
}

/// Content of a request in pieces; with an error at its end where `fails`.
pub struct Pieces {
    pub left: RefCell<Vec<Vec<u8>>>,
    pub length: Option<u64>,
    pub fails: bool,
}

impl RequestBody for Pieces {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(match self.left.borrow_mut().pop() {
            Some(piece) => Some(Ok(Chunk::from(piece))),
            None => self.fails.then_some(Err(BodyError::Gone)),
        })
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn is_end(&self) -> bool {
        self.left.borrow().is_empty()
    }
}

/// Open descriptors of this process that are sockets.
pub fn sockets() -> usize {
    let links = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links
        .filter(|link| link.to_string_lossy().starts_with("socket:"))
        .count()
}
