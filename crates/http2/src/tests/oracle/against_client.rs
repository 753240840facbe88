//! Our server, the `h2` crate's client.

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use http::{HeaderMap, Method, Request, Response};
use saker_http2::{ErrorCode, Limits};
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;

use super::our_server::{Served, Server};
use super::{bounded, pattern};

type Client = SendRequest<Bytes>;

/// Both ends, the connection being driven in the background. `pipe_bytes`: what the pipe holds.
async fn connect(
    server: Server,
    builder: &Builder,
    pipe_bytes: usize,
) -> (
    Client,
    JoinHandle<Served>,
    JoinHandle<Result<(), h2::Error>>,
) {
    let (ours, theirs) = tokio::io::duplex(pipe_bytes);
    let served = tokio::task::spawn_local(server.run(ours));
    let (client, connection): (Client, Connection<DuplexStream>) =
        builder.handshake(theirs).await.unwrap();
    (client, served, tokio::task::spawn_local(connection))
}

fn request(method: Method, path: &str) -> Request<()> {
    Request::builder()
        .method(method)
        .uri(format!("http://example.com{path}"))
        .header("x-test", "1")
        .body(())
        .unwrap()
}

/// Sends content and trailers as windows allow, then reads everything.
async fn exchange(
    client: Client,
    request: Request<()>,
    content: Vec<u8>,
    trailers: Option<HeaderMap>,
) -> Result<(Response<()>, Vec<u8>, Option<HeaderMap>), h2::Error> {
    let mut client = client.ready().await?;
    let bodiless = content.is_empty() && trailers.is_none();
    let (response, mut stream) = client.send_request(request, bodiless)?;
    drop(client);
    if !bodiless {
        stream.send_data(content.into(), trailers.is_none())?;
        if let Some(trailers) = trailers {
            stream.send_trailers(trailers)?;
        }
    }
    let (head, mut body) = response.await?.into_parts();
    let mut received = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        received.extend_from_slice(&piece);
    }
    let trailers = body.trailers().await?;
    Ok((Response::from_parts(head, ()), received, trailers))
}

#[test]
fn content_of_any_size_arrives_whole() {
    bounded(async {
        let (client, served, _connection) =
            connect(Server::new(Limits::default()), &Builder::new(), 3_000).await;
        for count in [
            0, 1, 100, 16_374, 16_375, 16_376, 16_384, 65_535, 65_536, 100_000, 1_000_000,
        ] {
            let got = exchange(
                client.clone(),
                request(Method::GET, &format!("/bytes/{count}")),
                vec![],
                None,
            )
            .await
            .unwrap();
            assert_eq!(got.0.status(), 200);
            assert_eq!(
                got.0.headers()["content-length"],
                count.to_string().as_str()
            );
            assert_eq!(got.0.headers()["server"], "ours");
            assert!(got.1 == pattern(count), "{count}");
        }
        drop(client);
        let served = served.await.unwrap();
        assert_eq!((served.requests, served.fault), (11, None));
    });
}

#[test]
fn head_has_no_content_and_unknown_paths_have_a_status() {
    bounded(async {
        let (client, _served, _connection) =
            connect(Server::new(Limits::default()), &Builder::new(), 64).await;
        let got = exchange(
            client.clone(),
            request(Method::HEAD, "/bytes/5"),
            vec![],
            None,
        )
        .await
        .unwrap();
        assert_eq!(
            (got.0.headers()["content-length"].as_bytes(), got.1.len()),
            (&b"5"[..], 0)
        );
        let got = exchange(client, request(Method::GET, "/none"), vec![], None)
            .await
            .unwrap();
        assert_eq!(got.0.status(), 404);
    });
}

#[test]
fn a_request_is_laid_out_as_promised() {
    bounded(async {
        let (client, _served, _connection) =
            connect(Server::new(Limits::default()), &Builder::new(), 64).await;
        let request = Request::builder()
            .uri("http://example.com:8080/head")
            .header("cookie", "a=1")
            .header("accept", "*/*");
        let request = request.header("cookie", "b=2").body(()).unwrap();
        let got = exchange(client, request, vec![], None).await.unwrap();
        let want = "GET /head HTTP/2.0\nhost: example.com:8080\naccept: */*\ncookie: a=1; b=2\n";
        assert_eq!(String::from_utf8_lossy(&got.1), want);
    });
}

#[test]
fn content_comes_back_through_small_windows() {
    bounded(async {
        let limits = Limits {
            stream_window_bytes: 1_000,
            connection_window_bytes: 65_535,
            ..Limits::default()
        };
        let mut builder = Builder::new();
        builder
            .initial_window_size(777)
            .initial_connection_window_size(70_000)
            .max_frame_size(16_384);
        let (client, served, _connection) = connect(Server::new(limits), &builder, 500).await;
        let content = pattern(300_000);
        let got = exchange(
            client.clone(),
            request(Method::POST, "/echo"),
            content.clone(),
            None,
        )
        .await
        .unwrap();
        assert!(got.1 == content);
        drop(client);
        assert_eq!(served.await.unwrap().fault, None);
    });
}

#[test]
fn trailers_come_back() {
    bounded(async {
        let (client, _served, _connection) =
            connect(Server::new(Limits::default()), &Builder::new(), 1_000).await;
        let trailers: HeaderMap = [("x-sum".parse().unwrap(), "42".parse().unwrap())]
            .into_iter()
            .collect();
        let got = exchange(
            client.clone(),
            request(Method::POST, "/echo"),
            pattern(20_000),
            Some(trailers.clone()),
        )
        .await
        .unwrap();
        assert!(got.1 == pattern(20_000));
        assert_eq!(got.2, Some(trailers.clone()));
        let got = exchange(
            client.clone(),
            request(Method::POST, "/echo"),
            vec![],
            Some(trailers.clone()),
        )
        .await
        .unwrap();
        assert_eq!((got.1.len(), got.2), (0, Some(trailers)));
        let got = exchange(client, request(Method::GET, "/trailers"), vec![], None)
            .await
            .unwrap();
        assert_eq!(got.2.unwrap()["x-end"], "yes");
    });
}

#[test]
fn informational_responses_come_first() {
    bounded(async {
        let (client, _served, _connection) =
            connect(Server::new(Limits::default()), &Builder::new(), 1_000).await;
        let mut client = client.ready().await.unwrap();
        let (mut response, _) = client
            .send_request(request(Method::GET, "/hints"), true)
            .unwrap();
        let hints = std::future::poll_fn(|context| response.poll_informational(context))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (hints.status().as_u16(), hints.headers()["link"].as_bytes()),
            (103, &b"</a.css>; rel=preload"[..])
        );
        assert_eq!(response.await.unwrap().status(), 200);
    });
}

#[test]
fn many_streams_at_once_and_more_than_allowed() {
    bounded(async {
        let limits = Limits {
            concurrent_streams_max: 20,
            ..Limits::default()
        };
        let mut builder = Builder::new();
        builder.initial_max_send_streams(20);
        let (client, served, _connection) = connect(Server::new(limits), &builder, 10_000).await;
        let tasks: Vec<_> = (0..300)
            .map(|at| {
                let (client, count) = (client.clone(), at * 37);
                tokio::task::spawn_local(async move {
                    let (path, content) = if at % 2 == 0 {
                        (format!("/bytes/{count}"), vec![])
                    } else {
                        ("/echo".into(), pattern(count))
                    };
                    let got = exchange(client, request(Method::POST, &path), content, None)
                        .await
                        .unwrap();
                    assert!(got.1 == pattern(count), "{at}");
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        drop(client);
        let served = served.await.unwrap();
        assert_eq!(
            (served.requests, served.fault, served.resets.len()),
            (300, None, 0)
        );
    });
}

#[test]
fn resets_from_either_side_concern_one_stream() {
    bounded(async {
        let (client, served, _connection) =
            connect(Server::new(Limits::default()), &Builder::new(), 1_000).await;
        let error = exchange(client.clone(), request(Method::GET, "/reset"), vec![], None)
            .await
            .unwrap_err();
        assert_eq!(error.reason(), Some(h2::Reason::CANCEL));
        // The client loses interest in the middle of content.
        let mut ready = client.clone().ready().await.unwrap();
        let (response, mut stream) = ready
            .send_request(request(Method::GET, "/bytes/1000000"), true)
            .unwrap();
        let mut body = response.await.unwrap().into_body();
        assert!(body.data().await.unwrap().is_ok());
        stream.send_reset(h2::Reason::CANCEL);
        drop((body, stream));
        let got = exchange(
            client.clone(),
            request(Method::GET, "/bytes/100"),
            vec![],
            None,
        )
        .await
        .unwrap();
        assert!(got.1 == pattern(100));
        drop((client, ready));
        let served = served.await.unwrap();
        assert_eq!(
            (served.fault, served.resets),
            (None, vec![ErrorCode::Cancel])
        );
    });
}

#[test]
fn an_answer_may_come_before_the_content_has() {
    bounded(async {
        let (client, served, _connection) =
            connect(Server::new(Limits::default()), &Builder::new(), 1_000).await;
        for _ in 0..10 {
            let mut ready = client.clone().ready().await.unwrap();
            let (response, mut stream) = ready
                .send_request(request(Method::POST, "/early"), false)
                .unwrap();
            stream.send_data(pattern(100_000).into(), true).unwrap();
            let mut body = response.await.unwrap().into_body();
            assert_eq!(body.data().await.unwrap().unwrap(), &b"enough"[..]);
        }
        // Unread content must not have used up the connection's window: 10 times 100,000 bytes are
        // almost all of it.
        let got = exchange(
            client.clone(),
            request(Method::POST, "/echo"),
            pattern(2_000_000),
            None,
        )
        .await
        .unwrap();
        assert!(got.1 == pattern(2_000_000));
        drop(client);
        assert_eq!(served.await.unwrap().fault, None);
    });
}

#[test]
fn a_graceful_end_lets_everything_under_way_finish() {
    bounded(async {
        let mut server = Server::new(Limits::default());
        server.shut_down_after = Some(3);
        let (client, served, connection) = connect(server, &Builder::new(), 1_000).await;
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                tokio::task::spawn_local(exchange(
                    client.clone(),
                    request(Method::GET, "/bytes/50000"),
                    vec![],
                    None,
                ))
            })
            .collect();
        for task in tasks {
            assert!(task.await.unwrap().unwrap().1 == pattern(50_000));
        }
        let served = served.await.unwrap();
        assert_eq!((served.requests, served.fault), (3, None));
        connection.await.unwrap().unwrap();
        assert!(
            exchange(client, request(Method::GET, "/bytes/1"), vec![], None)
                .await
                .is_err()
        );
    });
}

#[test]
fn a_head_over_the_limit_is_431_and_the_connection_goes_on() {
    bounded(async {
        let limits = Limits {
            header_list_bytes_max: 2_000,
            ..Limits::default()
        };
        let (client, _served, _connection) =
            connect(Server::new(limits), &Builder::new(), 1_000).await;
        for (bytes, status) in [(1_000, 200), (2_000, 431), (40_000, 431), (1_000, 200)] {
            let mut request = request(Method::GET, "/bytes/3");
            request
                .headers_mut()
                .insert("x-large", "v".repeat(bytes).parse().unwrap());
            let got = exchange(client.clone(), request, vec![], None)
                .await
                .unwrap();
            assert_eq!(got.0.status(), status, "{bytes}");
        }
    });
}
