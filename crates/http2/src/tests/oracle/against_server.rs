//! Our client, the `h2` crate's server.

use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response};
use saker_http2::{ErrorCode, Limits, StreamId};
use tokio::io::DuplexStream;

use super::our_client::{self, Client, Outcome};
use super::{bounded, pattern};

/// Runs our client's requests against a server that answers by path as ours does.
async fn run(
    limits: Limits,
    builder: &Builder,
    pipe_bytes: usize,
    requests: Vec<our_client::Request>,
) -> Outcome {
    let (ours, theirs) = tokio::io::duplex(pipe_bytes);
    let builder = builder.clone();
    tokio::task::spawn_local(async move {
        let mut connection: Connection<DuplexStream, Bytes> =
            builder.handshake(theirs).await.unwrap();
        let mut count = 0;
        while let Some(Ok((request, respond))) = connection.accept().await {
            count += 1;
            if request.uri().path() == "/last" {
                connection.graceful_shutdown();
            }
            tokio::task::spawn_local(answer(request, respond));
        }
        count
    });
    Client::new(limits, requests).run(ours).await
}

async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let path = request.uri().path().to_owned();
    let method = request.method().clone();
    let response = |status: u16| {
        Response::builder()
            .status(status)
            .header("server", "theirs")
    };
    if let Some(count) = path.strip_prefix("/bytes/") {
        let content = pattern(count.parse().unwrap());
        let head = response(200)
            .header("content-length", content.len())
            .body(())
            .unwrap();
        let ends = content.is_empty() || method == http::Method::HEAD;
        let mut stream = respond.send_response(head, ends).unwrap();
        if !ends {
            // May fail because our client has cancelled.
            _ = stream.send_data(content.into(), true);
        }
        return;
    }
    match path.as_str() {
        "/hints" => {
            respond
                .send_informational(Response::builder().status(100).body(()).unwrap())
                .unwrap();
            respond
                .send_informational(Response::builder().status(103).body(()).unwrap())
                .unwrap();
            respond
                .send_response(response(204).body(()).unwrap(), true)
                .unwrap();
        }
        "/reset" => respond.send_reset(Reason::REFUSED_STREAM),
        "/last" => drop(
            respond
                .send_response(response(200).body(()).unwrap(), true)
                .unwrap(),
        ),
        _ => {
            echo(
                request.into_body(),
                respond,
                response(200).body(()).unwrap(),
            )
            .await
        }
    }
}

async fn echo(mut body: RecvStream, mut respond: SendResponse<Bytes>, head: Response<()>) {
    let mut stream = respond.send_response(head, false).unwrap();
    while let Some(Ok(piece)) = body.data().await {
        body.flow_control().release_capacity(piece.len()).unwrap();
        stream.send_data(piece, false).unwrap();
    }
    let trailers: HeaderMap = body.trailers().await.unwrap().unwrap_or_default();
    if trailers.is_empty() {
        stream.send_data(Bytes::new(), true).unwrap()
    } else {
        stream.send_trailers(trailers).unwrap()
    }
}

fn get(path: &str) -> our_client::Request {
    our_client::Request::get(path)
}

#[test]
fn content_of_any_size_arrives_whole() {
    bounded(async {
        let counts = [0, 1, 100, 16_384, 65_535, 65_536, 100_000, 1_000_000];
        let requests = counts
            .iter()
            .map(|count| get(&format!("/bytes/{count}")))
            .collect();
        let outcome = run(Limits::default(), &Builder::new(), 3_000, requests).await;
        assert_eq!(outcome.fault, None);
        for (count, response) in counts.into_iter().zip(outcome.responses) {
            assert_eq!((response.status, response.complete), (200, true), "{count}");
            assert!(response.content == pattern(count), "{count}");
            assert_eq!(response.fields[0], ("server".into(), "theirs".into()));
        }
    });
}

#[test]
fn content_goes_both_ways_through_small_windows() {
    bounded(async {
        let limits = Limits {
            stream_window_bytes: 1_000,
            connection_window_bytes: 65_535,
            ..Limits::default()
        };
        let mut builder = Builder::new();
        builder
            .initial_window_size(777)
            .initial_connection_window_size(70_000);
        let mut with_trailers = our_client::Request::post("/echo", pattern(10_000));
        with_trailers.trailers = vec![("x-sum", "42")];
        let requests = vec![
            our_client::Request::post("/echo", pattern(300_000)),
            with_trailers,
        ];
        let outcome = run(limits, &builder, 500, requests).await;
        assert_eq!(outcome.fault, None);
        assert!(
            outcome.responses[0].content == pattern(300_000)
                && outcome.responses[1].content == pattern(10_000)
        );
        assert_eq!(
            outcome.responses[1].trailers,
            [("x-sum".into(), "42".into())]
        );
        assert!(outcome.responses.iter().all(|response| response.complete));
    });
}

#[test]
fn informational_responses_head_and_resets() {
    bounded(async {
        let head = our_client::Request {
            method: "HEAD",
            ..get("/bytes/77")
        };
        let requests = vec![get("/hints"), head, get("/reset"), get("/bytes/3")];
        let outcome = run(Limits::default(), &Builder::new(), 1_000, requests).await;
        assert_eq!(outcome.fault, None);
        let [hints, head, reset, bytes] = &outcome.responses[..] else {
            panic!("four responses")
        };
        assert_eq!(
            (hints.status, &hints.informational[..], hints.complete),
            (204, &[100, 103][..], true)
        );
        assert_eq!(
            (head.status, head.content.len(), head.complete),
            (200, 0, true)
        );
        assert!(
            head.fields
                .contains(&("content-length".into(), "77".into()))
        );
        assert_eq!(
            (reset.status, reset.reset),
            (0, Some(ErrorCode::RefusedStream))
        );
        assert_eq!(bytes.content, pattern(3));
    });
}

#[test]
fn many_streams_keep_to_the_limit_of_the_server() {
    bounded(async {
        let mut builder = Builder::new();
        builder.max_concurrent_streams(10);
        let requests = (0..300)
            .map(|at| our_client::Request::post("/echo", pattern(at * 31)))
            .collect();
        let outcome = run(Limits::default(), &builder, 10_000, requests).await;
        assert_eq!(outcome.fault, None);
        for (at, response) in outcome.responses.iter().enumerate() {
            // The first hundred may be opened before the limit is known; those over it are refused.
            let refused = response.reset == Some(ErrorCode::RefusedStream);
            assert!(
                refused && at < 100 || response.content == pattern(at * 31),
                "{at}: {:?}",
                response.reset
            );
        }
        assert!(
            outcome
                .responses
                .iter()
                .filter(|response| response.complete)
                .count()
                >= 210
        );
    });
}

#[test]
fn a_cancelled_download_leaves_the_connection_in_order() {
    bounded(async {
        let mut cancelled = get("/bytes/3000000");
        cancelled.cancel_after = Some(1);
        let requests = [vec![cancelled; 8], vec![get("/bytes/2500000")]].concat();
        let outcome = run(Limits::default(), &Builder::new(), 3_000, requests).await;
        assert_eq!(outcome.fault, None);
        assert!(
            outcome.responses[8].complete && outcome.responses[8].content == pattern(2_500_000)
        );
    });
}

#[test]
fn a_server_that_goes_away_is_heard() {
    bounded(async {
        let outcome = run(
            Limits::default(),
            &Builder::new(),
            1_000,
            vec![get("/bytes/9"), get("/last")],
        )
        .await;
        assert_eq!(outcome.fault, None);
        assert!(outcome.responses.iter().all(|response| response.complete));
        assert!(matches!(
            outcome.goaway,
            None | Some((StreamId(3..), ErrorCode::NoError))
        ));
    });
}
