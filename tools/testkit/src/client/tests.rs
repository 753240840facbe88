//! The client against scripted answers.

use super::*;
use std::{net::TcpListener, thread};

/// A server that reads something, then sends `answer`, and closes, unless told to hold the
/// connection.
fn scripted(answer: &'static [u8], holds: bool) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("address");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accepted");
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        // In pieces, so that the client has to put them together.
        for piece in answer.chunks(7) {
            stream.write_all(piece).expect("written");
            stream.flush().expect("flushed");
        }
        if holds {
            let _ = stream.read(&mut request);
        }
    });
    Client::connect(address).expect("connected")
}

fn answer_to_get(answer: &'static [u8]) -> io::Result<Response> {
    scripted(answer, false).get("/")
}

#[test]
fn content_length_and_fields() {
    let response =
        answer_to_get(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nx-a:  2 \r\n\r\nhello")
            .expect("read");
    assert_eq!(
        (
            response.status,
            response.reason.as_str(),
            response.text().as_str()
        ),
        (200, "OK", "hello")
    );
    assert_eq!(response.field_values("X-a").collect::<Vec<_>>(), ["1", "2"]);
}

#[test]
fn chunked_with_extension_and_trailers() {
    let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n, world 12\r\n0\r\nDigest: q\r\n\r\n";
    let response = answer_to_get(answer).expect("read");
    assert_eq!(response.text(), "hello, world 12");
    assert_eq!(response.trailers, [("Digest".to_owned(), "q".to_owned())]);
}

#[test]
fn until_the_connection_ends() {
    assert_eq!(
        answer_to_get(b"HTTP/1.0 200 OK\r\n\r\nall of it")
            .expect("read")
            .text(),
        "all of it"
    );
}

#[test]
fn no_body_where_there_is_none() {
    assert!(
        answer_to_get(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n")
            .expect("read")
            .body
            .is_empty()
    );
    let mut client = scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", false);
    assert_eq!(
        client.head("/").expect("read").field("content-length"),
        Some("10")
    );
}

#[test]
fn interim_responses_are_passed_over() {
    let response = answer_to_get(
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    )
    .expect("read");
    assert_eq!((response.status, response.body.len()), (200, 2));
}

#[test]
fn pipelined_responses_are_told_apart() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nb";
    let mut client = scripted(answer, false);
    let responses = client
        .pipeline(&[
            "GET /a HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET /b HTTP/1.1\r\nHost: h\r\n\r\n",
        ])
        .expect("read");
    assert_eq!(
        responses
            .iter()
            .map(|response| (response.status, response.text()))
            .collect::<Vec<_>>(),
        [(200, "a".to_owned()), (404, "b".to_owned())]
    );
    assert!(client.closed_within(Duration::from_secs(5)));
}

#[test]
fn wrong_responses_are_errors() {
    let wrong: &[&'static [u8]] = &[
        b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloo\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n",
    ];
    for answer in wrong {
        let outcome = answer_to_get(answer);
        assert!(
            outcome.is_err(),
            "{:?} was read as {outcome:?}",
            String::from_utf8_lossy(answer)
        );
    }
}

#[test]
fn an_open_connection_is_not_closed() {
    let mut client = scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true);
    client.get("/").expect("read");
    assert!(
        client
            .silent_for(Duration::from_millis(50))
            .expect("waited")
    );
    assert!(!client.closed_within(Duration::from_millis(50)));
}
