//! Servers that speak HTTP/2, played by the `h2` crate: shared connections, both directions at
//! once, trailers, limits, and how each end is taken.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

// Uses its part of it.

use super::bench;
use super::bench::{content, exchange, impatient, tuning, with_gateway};
use bytes::Bytes;
use h2::{Reason, RecvStream, server::SendResponse};
use http::{HeaderMap, Request, Response};
use saker_config::model::{Backend, BackendAddress, Member, Protocol, Tuning, Upstream};
use saker_gateway::Gateway;
use saker_http::{Fields, RequestHead, Version};
use saker_pipeline::{Body, BodyError, Chunk, Exchange, Forwarder, ProxyOptions, RequestBody};
use saker_testkit::TempDir;
use std::{
    cell::RefCell,
    future::{Future, pending, poll_fn},
    path::PathBuf,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};
use tokio::net::UnixListener;

type Asked = (Request<RecvStream>, SendResponse<Bytes>);

struct Server {
    path: PathBuf,
    accepted: Arc<AtomicUsize>,
    /// Connections that are over.
    closed: Arc<AtomicUsize>,
    _folder: TempDir,
}

/// Each request is given to `answer` with the number of its connection; `streams`: how many at once
/// on each.
fn server<F: Future<Output = ()> + Send + 'static>(
    streams: u32,
    answer: impl Fn(Asked, usize) -> F + Send + Sync + Clone + 'static,
) -> Server {
    let folder = TempDir::new("gateway-h2").unwrap();
    let path = folder.join("backend.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let closed = Arc::<AtomicUsize>::default();
    let (counter, over) = (Arc::clone(&accepted), Arc::clone(&closed));
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let listener = UnixListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let (number, answer, over) = (
                    counter.fetch_add(1, Ordering::SeqCst),
                    answer.clone(),
                    Arc::clone(&over),
                );
                tokio::spawn(async move {
                    let mut builder = h2::server::Builder::new();
                    builder.max_concurrent_streams(streams);
                    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else {
                        return;
                    };
                    while let Some(Ok(asked)) = connection.accept().await {
                        if asked.0.uri().path() == "/last" {
                            connection.graceful_shutdown();
                        }
                        tokio::spawn(answer(asked, number));
                    }
                    over.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
    });
    Server {
        path,
        accepted,
        closed,
        _folder: folder,
    }
}

fn upstream_with(paths: &[&PathBuf], tuning: Tuning) -> Arc<Upstream> {
    let member = |path: &&PathBuf| {
        Member::new(
            Backend::new(Protocol::Http2, BackendAddress::Unix((*path).clone())),
            tuning.clone(),
        )
    };
    Arc::new(Upstream::new("test", paths.iter().map(member).collect()))
}

fn upstream(server: &Server) -> Arc<Upstream> {
    upstream_with(&[&server.path], tuning())
}

/// As a client of HTTP/2 would ask.
fn asking(method: &str, target: &str, upstream: &Arc<Upstream>) -> Exchange {
    let mut exchange = exchange(method, upstream);
    let fields = [
        ("Host", "test"),
        ("TE", "trailers"),
        ("Cookie", "a=b"),
        ("Connection", "keep-alive"),
    ];
    exchange.head = RequestHead::build(method, target, Version::Http2, &fields);
    exchange.upstream.call.as_mut().unwrap().target = target.as_bytes().to_vec();
    exchange
}

async fn ask(
    gateway: &Gateway,
    target: &str,
    upstream: &Arc<Upstream>,
) -> (u16, Result<Vec<u8>, BodyError>) {
    let mut response = bench::answer(gateway, &mut asking("GET", target, upstream)).await;
    (response.status.0, content(&mut response).await)
}

/// Says what it was asked, with the number of the connection.
async fn mirror((request, mut respond): Asked, number: usize) {
    let (head, mut body) = request.into_parts();
    let mut content = Vec::new();
    while let Some(Ok(piece)) = body.data().await {
        let _ = body.flow_control().release_capacity(piece.len());
        content.extend_from_slice(&piece);
    }
    let trailers = body.trailers().await.unwrap_or_default();
    let names: Vec<String> = head
        .headers
        .iter()
        .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
        .collect();
    let text = format!(
        "{} {} {number} {} {trailers:?} {}",
        head.method,
        head.uri,
        names.join("|"),
        content.len()
    );
    // Who asked may have gone. (A panic here would write its backtrace for longer than the others'
    // time limit.)
    let Ok(mut send) = respond.send_response(Response::new(()), false) else {
        return;
    };
    if send.send_data(text.into(), false).is_err() {
        return;
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    trailers.insert("content-length", "7".parse().unwrap());
    let _ = send.send_trailers(trailers);
}

/// Content that comes piece by piece as the test says.
#[derive(Clone, Default)]
struct Typed(Rc<RefCell<Keyboard>>);

#[derive(Default)]
struct Keyboard {
    pieces: Vec<Vec<u8>>,
    is_over: bool,
    reader: Option<Waker>,
}

impl Typed {
    fn say(&self, piece: &[u8]) {
        let mut keyboard = self.0.borrow_mut();
        keyboard.pieces.push(piece.to_vec());
        keyboard.reader.take().into_iter().for_each(Waker::wake);
    }

    fn end(&self) {
        let mut keyboard = self.0.borrow_mut();
        keyboard.is_over = true;
        keyboard.reader.take().into_iter().for_each(Waker::wake);
    }
}

impl RequestBody for Typed {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let mut keyboard = self.0.borrow_mut();
        if !keyboard.pieces.is_empty() {
            return Poll::Ready(Some(Ok(Chunk::from(keyboard.pieces.remove(0)))));
        }
        if keyboard.is_over {
            return Poll::Ready(None);
        }
        keyboard.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn trailers(&mut self) -> Option<Fields> {
        let mut fields = Fields::new();
        fields.append("X-Checksum", &b"5"[..]);
        Some(fields)
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_end(&self) -> bool {
        self.0.borrow().is_over && self.0.borrow().pieces.is_empty()
    }
}

#[test]
fn requests_share_a_connection_and_say_what_may_pass() {
    let server = server(100, mirror);
    with_gateway(1, |gateway| async move {
        let upstream = upstream(&server);
        let all: Vec<_> = (0..20)
            .map(|at| {
                let (gateway, upstream) = (Rc::clone(&gateway), Arc::clone(&upstream));
                tokio::task::spawn_local(async move {
                    ask(&gateway, &format!("/a?{at}"), &upstream).await
                })
            })
            .collect();
        for (at, one) in all.into_iter().enumerate() {
            let (status, text) = one.await.unwrap();
            let text = String::from_utf8(text.unwrap()).unwrap();
            assert_eq!(status, 200);
            assert_eq!(
                text,
                format!(
                    "GET http://localhost/a?{at} 0 cookie=a=b|x-forwarded-for=127.0.0.1|x-forwarded-host=test|x-forwarded-server=|te=trailers None 0"
                )
            );
        }
        assert_eq!(server.accepted.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn trailers_go_both_ways() {
    let server = server(100, mirror);
    with_gateway(1, |gateway| async move {
        let mut exchange = asking("POST", "/", &upstream(&server));
        let typed = Typed::default();
        typed.say(b"hello");
        typed.end();
        exchange.body = Box::new(typed);
        // A native route.
        let call = exchange.upstream.call.as_mut().unwrap();
        call.manner = Arc::new(ProxyOptions {
            terms: Some(Arc::default()),
            ..ProxyOptions::default()
        });
        let mut response = bench::answer(&gateway, &mut exchange).await;
        let Body::Stream(mut stream) = std::mem::take(&mut response.body) else {
            panic!("no stream")
        };
        let mut text = Vec::new();
        while let Some(chunk) = poll_fn(|cx| stream.poll_chunk(cx)).await {
            text.extend_from_slice(chunk.unwrap().bytes());
        }
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("\"x-checksum\": \"5\"") && text.ends_with(" 5"),
            "{text}"
        );
        let trailers = stream.trailers().unwrap();
        assert_eq!(
            (
                trailers.first("grpc-status"),
                trailers.has("content-length")
            ),
            (Some(&b"0"[..]), false)
        );
    });
}

#[test]
fn both_directions_at_once() {
    let server = server(100, |(request, mut respond), _| async move {
        let mut body = request.into_body();
        let mut send = respond.send_response(Response::new(()), false).unwrap();
        while let Some(Ok(piece)) = body.data().await {
            let _ = body.flow_control().release_capacity(piece.len());
            send.send_data(piece, false).unwrap();
        }
        send.send_data(Bytes::new(), true).unwrap();
    });
    with_gateway(1, |gateway| async move {
        let mut exchange = asking("POST", "/", &upstream(&server));
        let typed = Typed::default();
        exchange.body = Box::new(typed.clone());
        // The head comes although nothing has been said yet, and each word is answered before the
        // next.
        let mut response = bench::answer(&gateway, &mut exchange).await;
        let Body::Stream(mut stream) = std::mem::take(&mut response.body) else {
            panic!("no stream")
        };
        for word in [&b"one"[..], b"two", b"three"] {
            typed.say(word);
            let chunk = poll_fn(|cx| stream.poll_chunk(cx)).await.unwrap().unwrap();
            assert_eq!(chunk.bytes(), word);
        }
        typed.end();
        assert!(poll_fn(|cx| stream.poll_chunk(cx)).await.is_none());
    });
}

#[test]
fn long_content_passes_the_windows_both_ways() {
    let server = server(100, |(request, mut respond), _| async move {
        let mut body = request.into_body();
        let mut received = 0;
        while let Some(Ok(piece)) = body.data().await {
            let _ = body.flow_control().release_capacity(piece.len());
            received += piece.len();
        }
        let mut send = respond
            .send_response(
                Response::builder()
                    .header("x-received", received)
                    .body(())
                    .unwrap(),
                false,
            )
            .unwrap();
        send.send_data(vec![b'x'; 5_000_000].into(), true).unwrap();
    });
    with_gateway(1, |gateway| async move {
        let mut exchange = asking("POST", "/", &upstream(&server));
        let typed = Typed::default();
        (0..300).for_each(|_| typed.say(&[b'y'; 10_000]));
        exchange.body = Box::new(typed.clone());
        let ender = tokio::task::spawn_local(async move { typed.end() });
        let mut response = bench::answer(&gateway, &mut exchange).await;
        ender.await.unwrap();
        assert_eq!(response.fields().first("x-received"), Some(&b"3000000"[..]));
        assert_eq!(content(&mut response).await.unwrap().len(), 5_000_000);
    });
}

#[test]
fn a_connection_that_ends_gracefully_is_followed_by_another() {
    let server = server(100, mirror);
    with_gateway(1, |gateway| async move {
        let upstream = upstream(&server);
        for (target, number) in [("/", "0"), ("/last", "0"), ("/", "1"), ("/", "1")] {
            let text =
                String::from_utf8(ask(&gateway, target, &upstream).await.1.unwrap()).unwrap();
            assert_eq!(text.split(' ').nth(2), Some(number), "{text}");
            if target == "/last" {
                let is_closed = || server.closed.load(Ordering::SeqCst) == 1;
                bench::until("the end of the connection", is_closed).await;
            }
        }
    });
}

#[test]
fn what_is_refused_is_told_again_whatever_it_is() {
    // The first connection takes none, the others all.
    let server = server(100, |(request, mut respond), number| async move {
        if number == 0 {
            return respond.send_reset(Reason::REFUSED_STREAM);
        }
        mirror((request, respond), number).await;
    });
    with_gateway(1, |gateway| async move {
        let mut response =
            bench::answer(&gateway, &mut asking("POST", "/", &upstream(&server))).await;
        assert_eq!(response.status.0, 200);
        assert!(
            content(&mut response)
                .await
                .unwrap()
                .starts_with(b"POST http://localhost/ 1 ")
        );
    });
}

#[test]
fn a_member_that_refuses_is_passed_over_and_other_resets_are_not() {
    let refusing = server(100, |(_, mut respond), _| async move {
        respond.send_reset(Reason::REFUSED_STREAM)
    });
    let broken = server(100, |(_, mut respond), _| async move {
        respond.send_reset(Reason::INTERNAL_ERROR)
    });
    let well = server(100, mirror);
    with_gateway(1, |gateway| async move {
        let both = upstream_with(&[&refusing.path, &well.path], tuning());
        assert_eq!(ask(&gateway, "/", &both).await.0, 200);
        assert_eq!(ask(&gateway, "/", &upstream(&refusing)).await.0, 503);
        assert_eq!(
            ask(
                &gateway,
                "/",
                &upstream_with(&[&broken.path, &well.path], tuning())
            )
            .await
            .0,
            502
        );
    });
}

#[test]
fn as_many_streams_as_the_server_allows_and_then_they_wait() {
    let most = Arc::new(Mutex::new((0, 0)));
    let seen = Arc::clone(&most);
    let server = server(2, move |(_, mut respond), _| {
        let seen = Arc::clone(&seen);
        async move {
            {
                let mut seen = seen.lock().unwrap();
                seen.0 += 1;
                seen.1 = seen.1.max(seen.0);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            seen.lock().unwrap().0 -= 1;
            let _ = respond.send_response(Response::new(()), true);
        }
    });
    with_gateway(1, |gateway| async move {
        let upstream = upstream_with(
            &[&server.path],
            Tuning {
                connections_max: 1,
                ..tuning()
            },
        );
        // Its settings are known then.
        assert_eq!(ask(&gateway, "/", &upstream).await.0, 200);
        let all: Vec<_> = (0..10)
            .map(|_| {
                let (gateway, upstream) = (Rc::clone(&gateway), Arc::clone(&upstream));
                tokio::task::spawn_local(async move { ask(&gateway, "/", &upstream).await.0 })
            })
            .collect();
        for one in all {
            assert_eq!(one.await.unwrap(), 200);
        }
        assert_eq!(
            (
                server.accepted.load(Ordering::SeqCst),
                most.lock().unwrap().1
            ),
            (1, 2)
        );
    });
}

#[test]
fn a_client_that_goes_resets_its_stream_only() {
    let (sender, seen) = std::sync::mpsc::channel();
    let server = server(100, move |(request, mut respond), number| {
        let sender = sender.clone();
        async move {
            if request.uri().path() == "/" {
                return mirror((request, respond), number).await;
            }
            let mut send = respond.send_response(Response::new(()), false).unwrap();
            let reason = poll_fn(|cx| send.poll_reset(cx)).await;
            sender.send(reason.ok()).unwrap();
        }
    });
    with_gateway(1, |gateway| async move {
        let upstream = upstream(&server);
        let response = bench::answer(&gateway, &mut asking("GET", "/endless", &upstream)).await;
        drop(response);
        let reason = tokio::task::spawn_blocking(move || {
            seen.recv_timeout(Duration::from_secs(30)).unwrap()
        })
        .await
        .unwrap();
        assert_eq!(reason, Some(Reason::CANCEL));
        assert!(
            ask(&gateway, "/", &upstream)
                .await
                .1
                .unwrap()
                .starts_with(b"GET http://localhost/ 0 ")
        );
    });
}

#[test]
fn a_silent_server_is_left_and_a_broken_response_is_seen_to_break() {
    let server = server(100, |(request, mut respond), _| async move {
        match request.uri().path() {
            "/silent" => pending().await,
            _ => {
                let mut send = respond.send_response(Response::new(()), false).unwrap();
                send.send_data("part".into(), false).unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
                send.send_reset(Reason::INTERNAL_ERROR);
            }
        }
    });
    with_gateway(1, |gateway| async move {
        let upstream = upstream_with(&[&server.path], impatient());
        assert_eq!(ask(&gateway, "/silent", &upstream).await.0, 504);
        assert_eq!(
            ask(&gateway, "/", &upstream).await,
            (200, Err(BodyError::Source))
        );
        // Nothing came at all for most of the time that a request waits: it is not asked on that
        // connection again.
        assert_eq!(server.accepted.load(Ordering::SeqCst), 2);
    });
}

/// Ten seconds of them, with a second to answer.
#[test]
fn endless_hints_are_no_progress() {
    let server = server(100, |(_request, mut respond): Asked, _| async move {
        for _ in 0..200 {
            let hint = Response::builder().status(103).body(()).unwrap();
            if respond.send_informational(hint).is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let _ = respond.send_response(Response::new(()), true);
    });
    with_gateway(1, |gateway| async move {
        let upstream = upstream_with(&[&server.path], impatient());
        assert_eq!(ask(&gateway, "/", &upstream).await.0, 504);
    });
}

#[test]
fn idle_connections_are_closed() {
    let server = server(100, mirror);
    with_gateway(1, |gateway| async move {
        let upstream = upstream_with(
            &[&server.path],
            Tuning {
                kept_ms: 20_000,
                ..tuning()
            },
        );
        for number in ["0", "0", "1"] {
            if number == "1" {
                gateway.tick(saker_net::clock::monotonic_ms() + 30_000);
                bench::until("the end of the idle connection", || {
                    server.closed.load(Ordering::SeqCst) == 1
                })
                .await;
            }
            let text = String::from_utf8(ask(&gateway, "/", &upstream).await.1.unwrap()).unwrap();
            assert_eq!(text.split(' ').nth(2), Some(number), "{text}");
        }
    });
}

#[test]
fn what_is_no_http2_is_no_answer() {
    let backend = bench::script(bench::once(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    with_gateway(1, |gateway| async move {
        assert_eq!(
            ask(&gateway, "/", &upstream_with(&[&backend.path], tuning()))
                .await
                .0,
            502
        );
    });
}

/// The request that had begun to connect goes; those that waited for its connection make their own,
/// and learn what is true.
#[test]
fn who_waits_for_a_connection_does_not_depend_on_who_makes_it() {
    let server = server(100, mirror);
    with_gateway(1, |gateway| async move {
        let upstream = upstream(&server);
        let begin = || {
            let (gateway, upstream) = (Rc::clone(&gateway), Arc::clone(&upstream));
            tokio::task::spawn_local(async move { ask(&gateway, "/", &upstream).await.0 })
        };
        let (first, others) = (begin(), [begin(), begin(), begin()]);
        tokio::task::yield_now().await;
        first.abort();
        for other in others {
            assert_eq!(other.await.unwrap(), 200);
        }
        // Where nothing can be made, all learn it.
        let nowhere = upstream_with(&[&PathBuf::from("/nowhere/backend.sock")], tuning());
        for _ in 0..2 {
            assert_eq!(ask(&gateway, "/", &nowhere).await.0, 503);
        }
    });
}
